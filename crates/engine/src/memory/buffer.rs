//! The memory behind a `Buffer` node: which bytes, and which version of them.
//!
//! Memory is stored to in place, nodes are immutable: so a node names one version. A store makes the next one, under
//! another number; a node of an earlier version is stale, and asking for its value is an error, never another value.

use crate::Error;
use frit_abi::DType;
use frit_runtime::Memory;
use frit_uop::{Arg, Storage, UOp};
use std::any::Any;
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
    /// An error where the memory holds no version.
    pub(crate) fn whole(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |e| Err(e.clone()))
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
    pub(crate) fn new(device: &Arc<str>, len: usize, memory: Memory, volatile: bool) -> Buffer {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let latest = AtomicU64::new(id);
        let versions = Arc::new(Versions { first: id, latest, volatile, lost: OnceLock::new() });
        Buffer { id, version: id, len, device: device.clone(), memory, versions }
    }
    /// The version that the memory holds now.
    pub(crate) fn newest(&self) -> Buffer {
        let version = self.versions.latest();
        let id = if self.id == self.version { version } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let (device, memory, versions) = (self.device.clone(), self.memory.clone(), self.versions.clone());
        Buffer { id, version, len: self.len, device, memory, versions }
    }
    /// A version that the memory held until another was stored in its place.
    pub(crate) fn overwritten(&self) -> Buffer {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (device, memory, versions) = (self.device.clone(), self.memory.clone(), self.versions.clone());
        Buffer { id, version: id, len: self.len, device, memory, versions }
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
    /// Whether the memory holds this version.
    pub(crate) fn is_newest(&self) -> bool {
        self.version == self.versions.latest()
    }
    /// An error where the memory holds another version by now, or none.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.versions.whole()?;
        if self.is_newest() {
            return Ok(());
        }
        Err(Error::Graph(
            "needs a value that an assignment has overwritten since: compute it before, or keep a clone"
                .into(),
        ))
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
