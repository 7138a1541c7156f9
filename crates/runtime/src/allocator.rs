//! Host memory, with reuse. Every block is 64-byte aligned and initialised (zero when fresh, old bytes when reused).

use crate::Error;
use crate::env::{self, Guard};
use crate::memory::{Block, Memory, MemoryStats};
use crate::reuse::{ALIGN, Reuse, size_class};
use crate::sys::{self, GuardedPages};
use frit_abi::record::Kind;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

/// Blocks from this size on are mapped on their own.
const MAPPED: usize = 1 << 20;
/// Blocks from this size on start at a large page and ask for more of them.
const LARGE: usize = 4 << 20;
const LARGE_PAGE: usize = 2 << 20;

/// An allocator; clones share it.
#[derive(Clone)]
pub struct Allocator(Arc<Reuse<Region>>);

/// Memory from the system; dropping it gives it back.
struct Region {
    ptr: NonNull<u8>,
    class: usize,
    /// Kept so that the pages live; heap memory where there is none.
    map: Option<MmapMut>,
}

// SAFETY: a region owns its memory; nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region only hands out its address.
unsafe impl Sync for Region {}

impl Allocator {
    /// An allocator for `device` that keeps at most `cache_limit` free bytes.
    pub fn new(device: &str, cache_limit: usize) -> Allocator {
        Allocator(Arc::new(Reuse::new(device, cache_limit)))
    }
    /// One that keeps at most a quarter of the machine's memory.
    pub fn for_machine(device: &str) -> Allocator {
        Allocator::new(device, sys::physical_memory().map_or(1 << 30, |m| (m / 4).max(256 << 20)))
    }
    /// `bytes` of memory, 64-byte aligned; arbitrary bytes.
    pub fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        if let Some(side) = env::guard()? {
            let pages =
                size_class(bytes).and_then(|_| GuardedPages::new(bytes)).ok_or_else(|| self.0.full(bytes))?;
            return Ok(Memory::new(Arc::new(GuardedBlock { pages, bytes, side })));
        }
        let region = Some(self.0.take(bytes, Region::map)?);
        let block = HostBlock { region, bytes, regions: self.0.clone() };
        self.0.note(Kind::Alloc, block.address(), bytes);
        Ok(Memory::new(Arc::new(block)))
    }
    /// What it holds now.
    pub fn stats(&self) -> MemoryStats {
        self.0.stats()
    }
    /// Give all free blocks back to the system.
    pub fn trim(&self) {
        self.0.trim();
    }
}

impl Region {
    fn map(class: usize) -> Option<Region> {
        if class < MAPPED {
            let layout = Layout::from_size_align(class, ALIGN).ok()?;
            // SAFETY: the size is not zero.
            let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            return Some(Region { ptr, class, map: None });
        }
        let slack = if class >= LARGE { LARGE_PAGE } else { 0 };
        let mut map = MmapMut::map_anon(class + slack).ok()?;
        let start = map.as_mut_ptr();
        let ahead = if slack == 0 { 0 } else { start.align_offset(LARGE_PAGE) };
        if slack != 0 {
            sys::advise_huge(&map);
        }
        let ptr = NonNull::new(start.wrapping_add(ahead))?;
        Some(Region { ptr, class, map: Some(map) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.map.is_none() {
            // SAFETY: the block came from the heap with this layout, whose parts were checked then, and is ours.
            unsafe { dealloc(self.ptr.as_ptr(), Layout::from_size_align_unchecked(self.class, ALIGN)) };
        }
    }
}

/// A region in use.
struct HostBlock {
    /// Present until dropped.
    region: Option<Region>,
    bytes: usize,
    regions: Arc<Reuse<Region>>,
}

impl HostBlock {
    fn ptr(&self) -> *mut u8 {
        self.region.as_ref().map_or(std::ptr::null_mut(), |r| r.ptr.as_ptr())
    }
}

// SAFETY: the region is ours until the block is dropped, and its class is at least `bytes`.
unsafe impl Block for HostBlock {
    fn len(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> u64 {
        self.ptr() as u64
    }
    fn host_ptr(&self) -> Option<*mut u8> {
        Some(self.ptr())
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let address = self.address();
        if let Some(region) = self.region.take() {
            self.regions.put(self.bytes, region);
            self.regions.note(Kind::Free, address, self.bytes);
        }
    }
}

/// A block of its own with a page beside it that cannot be touched, so that an access outside it does not go unseen.
struct GuardedBlock {
    pages: GuardedPages,
    bytes: usize,
    side: Guard,
}

impl GuardedBlock {
    fn ptr(&self) -> *mut u8 {
        match self.side {
            Guard::Start => self.pages.start(),
            // aligned for the widest element and no more, so that few bytes are left over
            Guard::End => self.pages.end().wrapping_sub(self.bytes.next_multiple_of(8)),
        }
    }
}

// SAFETY: the pages are ours until the block is dropped, and there are at least `bytes` after `ptr`.
unsafe impl Block for GuardedBlock {
    fn len(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> u64 {
        self.ptr() as u64
    }
    fn host_ptr(&self) -> Option<*mut u8> {
        Some(self.ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_reused_and_accounted_for() {
        let a = Allocator::new("CPU", 64 << 20);
        let x = a.alloc(5_000_000).unwrap();
        let y = a.alloc(0).unwrap();
        let place = x.address();
        assert_eq!((a.stats().in_use, a.stats().peak, a.stats().cached), (5_000_000, 5_000_000, 0));
        assert!(
            place.is_multiple_of(LARGE_PAGE as u64)
                && y.address().is_multiple_of(ALIGN as u64)
                && y.len_bytes() == 0
        );
        drop(x);
        assert_eq!(a.stats().in_use, 0);
        assert_eq!(a.stats().cached, size_class(5_000_000).unwrap());
        let z = a.alloc(4_999_999).unwrap();
        assert_eq!((z.address(), a.stats().cached, a.stats().reused), (place, 0, 1));
        drop((y, z));
        a.trim();
        assert_eq!((a.stats().cached, a.stats().in_use, a.stats().peak), (0, 0, 5_000_000));
    }

    #[test]
    fn idle_memory_beyond_the_limit_goes_back_oldest_first() {
        let a = Allocator::new("CPU", 3000);
        let blocks: Vec<_> = (0..4).map(|_| a.alloc(1024).unwrap()).collect();
        let last = blocks[3].address();
        drop(blocks);
        assert_eq!(a.stats().cached, 2048);
        assert_eq!(a.alloc(1024).unwrap().address(), last);
        drop(a.alloc(1 << 22).unwrap());
        assert_eq!(a.stats().cached, 0, "a block over the limit pushes all others out and leaves itself");
    }

    #[test]
    fn views_share_the_allocation_and_stay_inside_it() {
        let a = Allocator::new("CPU", 1 << 20);
        let x = a.alloc(256).unwrap();
        x.copy_in(0, &[0; 256]).unwrap();
        let v = x.view(64, 64).unwrap().view(32, 32).unwrap();
        v.copy_in(0, &[7; 32]).unwrap();
        let mut out = [0; 34];
        x.copy_out(95, &mut out).unwrap();
        assert_eq!((out[0], out[1], out[32], out[33]), (0, 7, 7, 0));
        assert!(x.same_allocation(&v) && x.holders() == 2);
        for (offset, bytes) in [(33, 0), (0, 33), (32, 1), (usize::MAX, 2)] {
            assert!(matches!(v.view(offset, bytes), Err(Error::Bounds { .. })));
        }
        drop(x);
        assert_eq!(a.stats().in_use, 256);
        drop(v);
        assert_eq!(a.stats().in_use, 0);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let a = Allocator::new("CPU", 0);
        for bytes in [usize::MAX, usize::MAX / 2, usize::MAX / 4 - 1, 1 << 60] {
            assert!(matches!(a.alloc(bytes), Err(Error::OutOfMemory { .. })), "{bytes}");
        }
    }

    #[test]
    fn many_threads_allocate_at_once() {
        let a = Allocator::new("CPU", 1 << 20);
        std::thread::scope(|s| {
            for t in 0..4u8 {
                let a = a.clone();
                s.spawn(move || {
                    for i in 0..2000 {
                        let x = a.alloc(i % 4096).unwrap();
                        x.copy_in(0, &vec![t; i % 4096]).unwrap();
                        let mut back = vec![0; i % 4096];
                        x.copy_out(0, &mut back).unwrap();
                        assert!(back.iter().all(|b| *b == t));
                    }
                });
            }
        });
        assert_eq!((a.stats().in_use, a.stats().allocations), (0, 8000));
    }
}
