//! The memory behind a `Buffer` node: which bytes, and which version of them.
//!
//! Memory is stored to in place, nodes are immutable: so a node names one version. A store makes the next one, under
//! another number; a node of an earlier version is stale, and asking for its value is an error, never another value.

use crate::normalise::{Bindings, eval_index};
use crate::{Error, disk};
use frit_abi::DType;
use frit_runtime::{Blob, Memory};
use frit_uop::{Arg, Op, Storage, UOp};
use rustc_hash::FxHashMap;
use std::alloc::Layout;
use std::any::Any;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One version of a piece of device memory.
pub struct Buffer {
    /// Names the bytes of a version: all of them, or those of a [`Buffer::window`].
    id: u64,
    version: u64,
    len: usize,
    device: Arc<str>,
    /// Where it is.
    pub memory: Memory,
    versions: Arc<Versions>,
}

/// What all versions of one piece of memory share.
pub struct Versions {
    /// The number of the first one.
    first: u64,
    /// The number of the one that the memory holds.
    latest: AtomicU64,
    /// Whether someone else may write to the memory at any time.
    volatile: bool,
    /// Why the memory holds no version at all: a run that stored to it failed midway.
    lost: OnceLock<Error>,
}

impl Versions {
    /// The number of the version that the memory holds.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }
    /// The memory was stored to: every node that names it so far is stale.
    pub(crate) fn bump(&self) -> u64 {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.latest.store(id, Ordering::Release);
        id
    }
    /// The memory was stored to in part.
    pub(crate) fn lose(&self, why: &Error) {
        self.bump();
        let _ = self.lost.set(why.clone());
    }
    pub(crate) fn is_volatile(&self) -> bool {
        self.volatile
    }
    /// Whether the memory is older than a number of [`next_id`].
    pub(crate) fn is_older(&self, than: u64) -> bool {
        self.first < than
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// No buffer has this number or a larger one yet.
pub(crate) fn next_id() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

impl Buffer {
    fn new(device: &Arc<str>, len: usize, memory: Memory, volatile: bool) -> Buffer {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let latest = AtomicU64::new(id);
        let versions = Arc::new(Versions { first: id, latest, volatile, lost: OnceLock::new() });
        Buffer { id, version: id, len, device: device.clone(), memory, versions }
    }
    /// The version that the memory holds now.
    fn newest(&self) -> Buffer {
        let version = self.versions.latest();
        let id = if self.id == self.version { version } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let (device, memory, versions) = (self.device.clone(), self.memory.clone(), self.versions.clone());
        Buffer { id, version, len: self.len, device, memory, versions }
    }
    /// Memory that someone else may change at any time.
    pub(crate) fn volatile(device: &Arc<str>, len: usize, memory: Memory) -> Buffer {
        Buffer::new(device, len, memory, true)
    }
    /// A part of the memory as `len` elements, in the same version.
    pub(crate) fn window(&self, memory: Memory, len: usize) -> Buffer {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (version, device, versions) = (self.version, self.device.clone(), self.versions.clone());
        Buffer { id, version, len, device, memory, versions }
    }
    /// What it shares with the other versions of its memory.
    pub fn versions(&self) -> &Arc<Versions> {
        &self.versions
    }
    /// An error where the memory holds another version by now, or none.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.versions.lost.get() {
            Some(e) => Err(e.clone()),
            None if self.version == self.versions.latest() => Ok(()),
            None => Err(Error::Graph(
                "needs a value that an assignment has overwritten since: compute it before, or keep a clone"
                    .into(),
            )),
        }
    }
    /// Memory for `len` elements.
    pub fn alloc(device: &Arc<str>, dtype: DType, len: usize) -> Result<Buffer, Error> {
        let bytes = len.checked_mul(dtype.size()).ok_or_else(|| {
            Error::Graph(format!("a buffer of {len} {dtype} elements is larger than the address space"))
        })?;
        Ok(Buffer::new(device, len, frit_runtime::device(device)?.alloc(bytes)?, false))
    }
    /// The buffer a `Buffer` node names.
    pub fn of(node: &UOp) -> Option<&Buffer> {
        match &node.arg {
            Arg::Buffer(b) => (&**b as &dyn Any).downcast_ref(),
            _ => None,
        }
    }
    /// A node that names this memory.
    pub(crate) fn of_memory(device: &Arc<str>, dtype: DType, memory: Memory) -> UOp {
        Buffer::new(device, memory.len_bytes() / dtype.size().max(1), memory, false).into_uop(dtype)
    }
    /// A node that names this buffer.
    pub fn into_uop(self, dtype: DType) -> UOp {
        UOp::buffer(Arc::new(self), dtype)
    }
}

impl Storage for Buffer {
    fn id(&self) -> u64 {
        self.id
    }
    fn len(&self) -> usize {
        self.len
    }
    fn device(&self) -> &str {
        &self.device
    }
    fn is_volatile(&self) -> bool {
        self.versions.volatile
    }
}

/// The versions of the memory that a view looks at.
pub fn versions(view: &UOp) -> Option<&Arc<Versions>> {
    Buffer::of(crate::assign::base_of(view)).map(Buffer::versions)
}

/// A view of memory that has been stored to since, at the version there is now; `None` where it is that already.
pub fn refreshed(view: &UOp) -> Option<UOp> {
    let version = crate::assign::version_of(view);
    let memory = version.realized().unwrap_or(version);
    let base = crate::assign::version_of(memory);
    let buffer = Buffer::of(base)?;
    if buffer.version == buffer.versions.latest() {
        return None;
    }
    let newest = FxHashMap::from_iter([(base.clone(), buffer.newest().into_uop(base.dtype))]);
    let map = FxHashMap::from_iter([(version.clone(), memory.substitute(&newest))]);
    Some(view.substitute(&map))
}

/// A view of a version whose stores are done, as a view of its memory; `None` where it is something else.
pub fn settled(view: &UOp) -> Option<UOp> {
    let version = crate::assign::version_of(view);
    let memory = version.realized().filter(|_| version.op == Op::After)?;
    Some(view.substitute(&FxHashMap::from_iter([(version.clone(), memory.clone())])))
}

/// A one-dimensional buffer of `len` elements with these bytes.
pub fn from_bytes(device: &str, dtype: DType, len: usize, bytes: &[u8]) -> Result<UOp, Error> {
    if bytes.len() != len.saturating_mul(dtype.size()) {
        return Err(Error::Graph(format!("{} bytes are not {len} elements of {dtype}", bytes.len())));
    }
    let buffer = Buffer::alloc(&crate::devices::canonical(device)?, dtype, len)?;
    buffer.memory.copy_in(0, bytes)?;
    Ok(buffer.into_uop(dtype))
}

/// Bytes that someone else owns as a one-dimensional value on a device: the memory itself, read-only, where the device
/// can reach it, else a copy that is made when it is used.
pub fn from_blob(device: &str, dtype: DType, blob: &Blob) -> Result<UOp, Error> {
    let size = dtype.size().max(1);
    if !blob.len().is_multiple_of(size) {
        return Err(Error::Graph(format!("{} bytes are not whole elements of {dtype}", blob.len())));
    }
    let device = crate::devices::canonical(device)?;
    let borrowed = |device: &Arc<str>, memory| {
        Buffer::new(device, blob.len() / size, memory, blob.is_volatile()).into_uop(dtype)
    };
    match frit_runtime::device(&device)?.borrow(blob, size) {
        Some(memory) => Ok(borrowed(&device, memory)),
        None => Ok(borrowed(&crate::devices::canonical("CPU")?, blob.memory(size)).copy_to(&device)),
    }
}

/// The `Buffer` node whose first elements, in order, are the value: through reshapes and cuts at the front.
pub fn contiguous_base(value: &UOp) -> Option<&UOp> {
    let mut n = value;
    loop {
        match n.op {
            Op::Buffer => return Some(n),
            Op::Reshape => n = &n.src[0],
            Op::Shrink if n.shape().len() == 1 && n.src[1].as_int() == Some(0) => n = &n.src[0],
            _ => return None,
        }
    }
}

/// How many elements a value has, with bound variables at their values.
pub fn element_count(value: &UOp) -> Result<usize, Error> {
    let bindings = Bindings::default();
    let sizes: Vec<i64> = value.shape().iter().map(|d| eval_index(d, &bindings)).collect::<Result<_, _>>()?;
    // where one is zero, the others are no matter
    if sizes.iter().any(|d| *d <= 0) {
        return Ok(0);
    }
    let count = sizes.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
    count.ok_or_else(|| Error::Graph(format!("a tensor of shape {sizes:?} does not fit in memory")))
}

/// How many bytes a value has.
fn byte_count(value: &UOp) -> Result<usize, Error> {
    let (count, size) = (element_count(value)?, value.dtype.size());
    let bytes = count.checked_mul(size);
    bytes.ok_or_else(|| Error::Graph(format!("{count} {} elements do not fit in memory", value.dtype)))
}

/// Zeros to be overwritten; an error where there is no memory for them.
fn zeros(len: usize) -> Result<Vec<u8>, Error> {
    let short = || Error::Graph(format!("there is no memory for {len} bytes"));
    let layout = Layout::array::<u8>(len).map_err(|_| short())?;
    if len == 0 {
        return Ok(vec![]);
    }
    // SAFETY: the layout is not of size zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(short());
    }
    // SAFETY: just allocated by the allocator that vectors use, for as many bytes, all of them initialised.
    Ok(unsafe { Vec::from_raw_parts(start, len, len) })
}

/// The bytes of a value, in row-major order; computes it if no one has.
pub fn read(value: &UOp) -> Result<Vec<u8>, Error> {
    let realised = in_memory(value)?;
    let mut bytes = zeros(byte_count(value)?)?;
    memory_of(&realised)?.copy_out(0, &mut bytes)?;
    Ok(bytes)
}

/// The bytes of a value where they lie. It holds the value's version: a store that follows goes to other memory.
pub struct Lent {
    bytes: Bytes,
    _version: UOp,
}
enum Bytes {
    /// Memory this process can read, and how much of it the value takes.
    There(Memory, usize),
    Copied(Vec<u8>),
}

impl std::ops::Deref for Lent {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(v) => v,
            Bytes::There(_, 0) => &[],
            Bytes::There(m, len) => m.host_ptr().map_or(&[], |p| {
                // SAFETY: the memory is held here, as long as it says, and no kernel writes to it while the version is.
                unsafe { std::slice::from_raw_parts(p, *len) }
            }),
        }
    }
}

/// The bytes of a value, in row-major order; computes it if no one has, copies where the device's memory is elsewhere.
pub fn lend(value: &UOp) -> Result<Lent, Error> {
    let realised = in_memory(value)?;
    let memory = memory_of(&realised)?;
    let len = byte_count(value)?;
    let bytes = if memory.host_ptr().is_some() && len <= memory.len_bytes() {
        Bytes::There(memory.clone(), len)
    } else {
        let mut bytes = zeros(len)?;
        memory.copy_out(0, &mut bytes)?;
        Bytes::Copied(bytes)
    };
    Ok(Lent { bytes, _version: realised })
}

/// Writes the bytes of a value, in row-major order and in small pieces. What no one has computed is computed and
/// forgotten again.
pub fn write(value: &UOp, out: &mut dyn Write) -> Result<io::Result<()>, Error> {
    const PIECE: usize = 1 << 20;
    let has_memory = contiguous_base(value).is_some() || value.realized().is_some();
    let realised = in_memory(&if has_memory { value.clone() } else { value.contiguous() })?;
    let memory = memory_of(&realised)?;
    let bytes = byte_count(value)?;
    let mut piece = vec![0; bytes.min(PIECE)];
    for at in (0..bytes).step_by(PIECE) {
        let n = PIECE.min(bytes - at);
        memory.copy_out(at, &mut piece[..n])?;
        if let Err(e) = out.write_all(&piece[..n]) {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

/// The value in memory, for someone who wants to see it.
fn in_memory(value: &UOp) -> Result<UOp, Error> {
    if crate::capture::is_recording() {
        let why =
            "data is read while a Jit records: what it is now would be frozen; return the tensor instead";
        return Err(Error::Graph(why.into()));
    }
    let moved =
        disk::needs_moving(value).then(|| crate::devices::canonical("CPU").map(|d| value.copy_to(&d)));
    let value = &moved.transpose()?.unwrap_or_else(|| value.clone());
    let realised = crate::realize(std::slice::from_ref(value))?.into_iter().next();
    realised.ok_or_else(|| Error::Graph("a value was not realised".into()))
}

/// The memory of a realised value, when all that was launched is done.
fn memory_of(realised: &UOp) -> Result<&Memory, Error> {
    let base = contiguous_base(realised);
    let buffer =
        base.and_then(Buffer::of).ok_or_else(|| Error::Graph("a realised value has no memory".into()))?;
    buffer.check()?;
    frit_runtime::device(&buffer.device)?.synchronize()?;
    buffer.memory.intact()?;
    Ok(&buffer.memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_memory_are_errors_of_whoever_asks_for_the_bytes() {
        let huge = |n: usize| {
            let dims: Vec<UOp> = (0..n).map(|_| UOp::index(1 << 31)).collect();
            let ones: Vec<UOp> = dims.iter().map(|_| UOp::index(1)).collect();
            UOp::float(1.0, DType::F64).reshape(&ones).expand(&dims)
        };
        assert_eq!(element_count(&huge(2)).unwrap(), 1 << 62);
        assert!(byte_count(&huge(2)).is_err() && element_count(&huge(3)).is_err());
        assert!(read(&huge(2)).is_err() && lend(&huge(3)).is_err());
        assert_eq!(zeros(3).unwrap(), [0; 3]);
        assert!(zeros(0).unwrap().is_empty() && zeros(usize::MAX / 4).is_err() && zeros(usize::MAX).is_err());
    }
}
