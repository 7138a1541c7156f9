//! Every reader over broken files: the corpus of the fuzz targets, truncated, with bytes changed, moved and repeated, in
//! a fixed random order. Whatever the bytes, a reader returns.

#[path = "../../../../fuzz/readers.rs"]
mod readers;

use readers::READERS;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The system's allocator, which remembers for each thread the most it asked for at once.
struct Watched;
thread_local! {
    static MOST: Cell<usize> = const { Cell::new(0) };
}
fn note(bytes: usize) {
    // a thread that ends may still free and allocate
    let _ = MOST.try_with(|m| m.set(m.get().max(bytes)));
}
// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promises are those the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
#[global_allocator]
static ALLOCATOR: Watched = Watched;
/// What one allocation may take while files of at most 64 KiB are read: decompressed they are larger.
const MOST_BYTES: usize = 80 << 20;

/// A small random number generator (xorshift).
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// One change to some bytes; `other` is another file.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], r: &mut Random) {
    let n = bytes.len();
    let at = r.below(n);
    match r.below(9) {
        0 => bytes.truncate(at),
        1 if n > 0 => bytes[at] ^= 1 << r.below(8),
        2 if n > 0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][r.below(5)],
        3 => {
            // a number that is too large, negative, or just over
            let width = [2, 4, 8][r.below(3)];
            let value = [u64::MAX, i64::MAX as u64, 1 << 63, 1 << 32, n as u64, n as u64 + 1][r.below(6)];
            let end = (at + width).min(n);
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        4 => {
            let len = r.below(16.min(n - at + 1));
            bytes.drain(at..at + len);
        }
        5 => {
            let part = bytes[at..(at + r.below(64)).min(n)].to_vec();
            let to = r.below(n + 1);
            bytes.splice(to..to, part);
        }
        6 => {
            // deep nesting of whatever opens here
            let byte = *bytes.get(at).unwrap_or(&b'[');
            let times = 1 << r.below(14);
            bytes.splice(at..at, std::iter::repeat_n(byte, times));
        }
        7 if !other.is_empty() => {
            let from = r.below(other.len());
            let end = (from + r.below(128)).min(other.len());
            bytes.splice(at..at, other[from..end].iter().copied());
        }
        _ => bytes.extend((0..r.below(32)).map(|i| (i * 37) as u8)),
    }
    bytes.truncate(1 << 16);
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.iter().map(|f| std::fs::read(f).unwrap()).collect()
}

#[test]
fn no_reader_fails_on_any_bytes() {
    let long = std::env::var_os("FRIT_LONG").is_some();
    let limit = Duration::from_millis(if long { 60_000 } else { 1_000 });
    frit_tensor::Device::scope("INTERP", || {
        for (target, read) in READERS {
            let files = corpus(target);
            assert!(!files.is_empty(), "no corpus for {target}");
            files.iter().for_each(|f| read(f));
            let (mut r, begun, mut runs) = (Random(0x9e3779b97f4a7c15), Instant::now(), 0);
            // a fixed number, unless the machine is slow
            while runs < if long { 2_000_000 } else { 20_000 } && begun.elapsed() < limit {
                let mut bytes = files[r.below(files.len())].clone();
                let other = &files[r.below(files.len())];
                for _ in 0..1 + r.below(4) {
                    mutate(&mut bytes, other, &mut r);
                }
                if std::panic::catch_unwind(|| read(&bytes)).is_err() {
                    let path = std::env::temp_dir().join(format!("frit-crash-{target}"));
                    std::fs::write(&path, &bytes).unwrap();
                    panic!("{target} failed on input {runs}, which is in {}", path.display());
                }
                runs += 1;
            }
            println!("{target}: {runs} inputs");
            assert!(MOST.get() < MOST_BYTES, "{target} allocated {} bytes at once", MOST.get());
        }
    })
    .unwrap();
}

#[test]
fn every_truncation_of_every_file_is_read() {
    frit_tensor::Device::scope("INTERP", || {
        for (target, read) in READERS {
            for file in corpus(target).iter().filter(|f| f.len() < 4000) {
                (0..file.len()).for_each(|n| read(&file[..n]));
            }
        }
    })
    .unwrap();
}
