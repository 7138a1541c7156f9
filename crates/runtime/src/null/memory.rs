//! Memory that is only counted.

use crate::Error;
use crate::memory::{Block, Memory, MemoryStats};
use crate::reuse::Reuse;
use frit_abi::record::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts what is asked for.
pub struct Allocator {
    counts: Arc<Reuse<()>>,
    next: AtomicU64,
}

impl Allocator {
    /// Nothing yet.
    pub fn new(device: &str) -> Allocator {
        Allocator { counts: Arc::new(Reuse::new(device, 0)), next: AtomicU64::new(1) }
    }
    /// A memory of `bytes` bytes that are not there.
    pub fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        self.counts.take(bytes, |_| Some(()))?;
        let block = Counted { bytes, number: self.next.fetch_add(1, Relaxed), counts: self.counts.clone() };
        self.counts.note(Kind::Alloc, block.number, bytes);
        Ok(Memory::new(Arc::new(block)))
    }
    /// What is in use.
    pub fn stats(&self) -> MemoryStats {
        self.counts.stats()
    }
}

struct Counted {
    bytes: usize,
    /// What a recording knows it by.
    number: u64,
    counts: Arc<Reuse<()>>,
}

// SAFETY: there is no address to follow, and `host_ptr` gives none.
unsafe impl Block for Counted {
    fn len(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> u64 {
        0
    }
    fn copy_in(&self, _offset: usize, _data: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    fn copy_out(&self, _offset: usize, data: &mut [u8]) -> Result<(), Error> {
        data.fill(0);
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.put(self.bytes, ());
        self.counts.note(Kind::Free, self.number, self.bytes);
    }
}
