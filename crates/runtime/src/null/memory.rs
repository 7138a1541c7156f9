//! Memory that is only counted.

use crate::Error;
use crate::memory::{Block, Memory, MemoryStats};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counts what is asked for; clones share the count.
#[derive(Clone, Default)]
pub struct Allocator {
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    in_use: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicU64,
}

impl Allocator {
    /// A memory of `bytes` bytes that are not there.
    pub fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        let counts = &self.counts;
        let before = counts.in_use.fetch_add(bytes, Relaxed);
        let block = Counted { bytes, counts: counts.clone() };
        match before.checked_add(bytes) {
            Some(in_use) => counts.peak.fetch_max(in_use, Relaxed),
            None => {
                return Err(Error::OutOfMemory { device: "NULL".into(), bytes, in_use: before, free: None });
            }
        };
        counts.allocations.fetch_add(1, Relaxed);
        Ok(Memory::new(Arc::new(block)))
    }
    /// What is in use.
    pub fn stats(&self) -> MemoryStats {
        let c = &self.counts;
        let (in_use, peak) = (c.in_use.load(Relaxed), c.peak.load(Relaxed));
        MemoryStats { in_use, peak, allocations: c.allocations.load(Relaxed), ..MemoryStats::default() }
    }
}

struct Counted {
    bytes: usize,
    counts: Arc<Counts>,
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
        self.counts.in_use.fetch_sub(self.bytes, Relaxed);
    }
}
