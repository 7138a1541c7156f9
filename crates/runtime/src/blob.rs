//! Bytes that someone else owns, read where they are: a mapped file, or a value of the program.
//!
//! ```text
//! Blob::open(file)  ->  slice(a..b)  ->  memory(align)     one map, shared; nothing is read until a kernel or copy does
//! ```
//!
//! A slice that is not aligned for its elements is copied when a kernel first wants its address, and only that slice; its
//! pages of the file are given back.

use crate::Error;
use crate::memory::{Block, Memory};
use crate::sys::Mapped;
use frit_abi::sync::OnceLock;
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// Read-only bytes, shared: clones and slices keep the owner alive.
///
/// For a mapped file that means: the file may be deleted or replaced by another one while it is in use, its old content
/// stays. What is overwritten in place shows through. Where it is shortened, bytes that are gone read as zeros, and from
/// then on [`Blob::intact`], every copy and every kernel that uses it is an error.
#[derive(Clone)]
pub struct Blob {
    owner: Arc<Owner>,
    range: Range<usize>,
}

/// What keeps the bytes where they are.
struct Owner {
    ptr: NonNull<u8>,
    len: usize,
    volatile: bool,
    keep: Keep,
}

enum Keep {
    Value(#[allow(dead_code, reason = "only held")] Box<dyn Any + Send + Sync>),
    File(Mapped, PathBuf),
}

/// Files below this size are read: that takes no longer than mapping them, and nothing can happen to them afterwards.
const SMALL: u64 = 64 << 10;

// SAFETY: the owner may be sent to and shared by other threads, and the bytes are only ever read.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Blob {
    /// The bytes of `owner`, which is kept as long as anyone uses them.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Blob {
        Blob::of(owner, false)
    }
    /// The bytes of `owner`, which may change them at any time: what is computed from them is computed anew each time.
    pub fn volatile(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Blob {
        Blob::of(owner, true)
    }
    /// Whether its owner may change the bytes.
    pub fn is_volatile(&self) -> bool {
        self.owner.volatile
    }
    fn of(owner: impl AsRef<[u8]> + Send + Sync + 'static, volatile: bool) -> Blob {
        // asked once, after it has its final place: from here on it is only held, never moved or borrowed mutably,
        // so the slice it lends stays valid
        let keep = Box::new(owner);
        let bytes: &[u8] = (*keep).as_ref();
        let (ptr, len) = (NonNull::from(bytes).cast(), bytes.len());
        Blob { owner: Arc::new(Owner { ptr, len, volatile, keep: Keep::Value(keep) }), range: 0..len }
    }
    /// A file, mapped: this takes microseconds however large the file is. A small one is read.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Blob> {
        let path = path.as_ref();
        let file = File::open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        let read = || {
            let mut bytes = vec![];
            (&file).take(about.len()).read_to_end(&mut bytes)?;
            Ok(Blob::new(bytes))
        };
        if about.len() < SMALL {
            return read();
        }
        let Some(map) = Mapped::new(&file)? else { return read() };
        let (ptr, len) = (NonNull::from(map.as_ref()).cast(), map.as_ref().len());
        let keep = Keep::File(map, path.into());
        Ok(Blob { owner: Arc::new(Owner { ptr, len, volatile: false, keep }), range: 0..len })
    }
    /// An error that names the file, where someone read bytes of it that were no longer there.
    pub fn intact(&self) -> Result<(), Error> {
        match &self.owner.keep {
            Keep::File(map, path) if map.is_lost() => {
                let path = path.display();
                Err(Error::Device(format!("{path}: the file became shorter while it was in use")))
            }
            _ => Ok(()),
        }
    }
    /// A part of it; `None` where that is not inside.
    pub fn slice(&self, range: Range<usize>) -> Option<Blob> {
        let (start, end) =
            (self.range.start.checked_add(range.start)?, self.range.start.checked_add(range.end)?);
        let inside = start <= end && end <= self.range.end;
        inside.then(|| Blob { owner: self.owner.clone(), range: start..end })
    }
    /// As memory that kernels of this machine can read, starting at a multiple of `align` (a power of two, at most 8).
    pub fn memory(&self, align: usize) -> Memory {
        Memory::new(Arc::new(Borrowed { blob: self.clone(), align: align.max(1), copy: OnceLock::new() }))
    }
}

impl Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the owner lent this slice in `new` and lives as long as `self`.
        let all = unsafe { std::slice::from_raw_parts(self.owner.ptr.as_ptr(), self.owner.len) };
        all.get(self.range.clone()).unwrap_or_default()
    }
}
impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.len())
    }
}

/// A blob as a block of memory.
struct Borrowed {
    blob: Blob,
    align: usize,
    /// The bytes again, aligned, where theirs are not and someone asked for the address.
    copy: OnceLock<Box<[u64]>>,
}

impl Borrowed {
    fn ptr(&self) -> *const u8 {
        let direct = self.blob.as_ptr();
        if direct.addr().is_multiple_of(self.align) {
            return direct;
        }
        let copied = || {
            let word = |c: &[u8]| {
                let mut w = [0; 8];
                w[..c.len()].copy_from_slice(c);
                u64::from_ne_bytes(w)
            };
            let copy = self.blob.chunks(8).map(word).collect();
            if let Keep::File(map, _) = &self.blob.owner.keep {
                // nobody reads it there any more, mostly
                map.release(self.blob.range.clone());
            }
            copy
        };
        self.copy.get_or_init(copied).as_ptr().cast()
    }
}

// SAFETY: the pointer is to the blob's bytes or to a copy of them, both of which live as long as the block; it says that
// it is not writable.
unsafe impl Block for Borrowed {
    fn len(&self) -> usize {
        self.blob.len()
    }
    fn address(&self) -> u64 {
        self.ptr() as u64
    }
    fn host_ptr(&self) -> Option<*mut u8> {
        Some(self.ptr().cast_mut())
    }
    fn is_writable(&self) -> bool {
        false
    }
    fn intact(&self) -> Result<(), Error> {
        self.blob.intact()
    }
    fn copy_in(&self, _: usize, _: &[u8]) -> Result<(), Error> {
        Err(Error::Device("borrowed memory is read-only".into()))
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        let part = offset.checked_add(data.len()).and_then(|end| self.blob.get(offset..end));
        let part = part.ok_or(Error::Bounds { offset, bytes: data.len(), len: self.blob.len() })?;
        data.copy_from_slice(part);
        self.blob.intact()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_inside_and_keep_the_owner() {
        let b = Blob::new(vec![0u8, 1, 2, 3, 4, 5, 6, 7]);
        let s = b.slice(2..7).and_then(|s| s.slice(1..4)).unwrap();
        drop(b);
        assert_eq!(&*s, [3, 4, 5]);
        #[allow(clippy::reversed_empty_ranges)]
        let bad = [0..4, 3..2, 4..4, usize::MAX..0, 0..usize::MAX];
        for r in bad {
            assert!(s.slice(r).is_none());
        }
        assert_eq!(s.slice(3..3).unwrap().len(), 0);
    }

    #[test]
    fn memory_is_the_bytes_themselves_where_aligned_and_a_copy_where_not() {
        let b = Blob::new((0..64).collect::<Vec<u8>>());
        let first = (0..8).find(|i| (b.as_ptr().addr() + i).is_multiple_of(8)).unwrap();
        let aligned = b.slice(first..first + 16).unwrap();
        assert_eq!(aligned.memory(8).address(), aligned.as_ptr() as u64);
        let odd = b.slice(first + 1..first + 12).unwrap();
        let m = odd.memory(4);
        assert!(m.address().is_multiple_of(4) && m.address() != odd.as_ptr() as u64 && !m.is_writable());
        let mut out = [0; 11];
        m.copy_out(0, &mut out).unwrap();
        assert_eq!(out[..], odd[..]);
        // SAFETY: the memory lives and is 11 bytes long.
        assert_eq!(unsafe { std::slice::from_raw_parts(m.host_ptr().unwrap(), 11) }, &odd[..]);
        assert!(m.copy_in(0, &[1]).is_err() && m.copy_out(4, &mut [0; 8]).is_err());
    }

    #[test]
    fn files_are_mapped_and_what_is_no_file_is_an_error() {
        let path = std::env::temp_dir().join(format!("frit-blob-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(Blob::open(&path).unwrap().len(), 0);
        std::fs::write(&path, b"hello").unwrap();
        let b = Blob::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&*b, b"hello");
        assert!(Blob::open(&path).is_err() && Blob::open(std::env::temp_dir()).is_err());
    }
}
