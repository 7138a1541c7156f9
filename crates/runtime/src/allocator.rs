//! Host memory with reuse: freed blocks wait in lists by size class, since fresh pages cost more than most kernels.
//!
//! Every block is 64-byte aligned and initialised (zero when fresh, old bytes when reused). What waits is bounded: the
//! blocks that have waited longest go back to the system first.

use crate::Error;
use crate::env::{self, Guard};
use crate::memory::{Block, Memory, MemoryStats};
use crate::sys::{self, GuardedPages};
use frit_abi::sync::{Mutex, MutexGuard};
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

/// Alignment of every block: a cache line, and the widest vector.
pub const ALIGN: usize = 64;
/// Blocks from this size on are mapped on their own.
const MAPPED: usize = 1 << 20;
/// Blocks from this size on start at a large page and ask for more of them.
const LARGE: usize = 4 << 20;
const LARGE_PAGE: usize = 2 << 20;

/// An allocator; clones share it.
#[derive(Clone)]
pub struct Allocator {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<str>,
    free: Mutex<FreeLists>,
    cache_limit: usize,
    in_use: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicU64,
    reused: AtomicU64,
}

/// Free blocks by class, oldest first; `cached` is the sum of their classes.
#[derive(Default)]
struct FreeLists {
    classes: BTreeMap<usize, VecDeque<(u64, Region)>>,
    cached: usize,
    clock: u64,
}

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
        let shared = Shared {
            device: device.into(),
            free: Mutex::default(),
            cache_limit,
            in_use: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicU64::new(0),
            reused: AtomicU64::new(0),
        };
        Allocator { shared: Arc::new(shared) }
    }
    /// One that keeps at most a quarter of the machine's memory.
    pub fn for_machine(device: &str) -> Allocator {
        Allocator::new(device, sys::physical_memory().map_or(1 << 30, |m| (m / 4).max(256 << 20)))
    }
    /// `bytes` of memory, 64-byte aligned; arbitrary bytes.
    pub fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        let shared = &self.shared;
        let full = || Error::OutOfMemory {
            device: shared.device.to_string(),
            bytes,
            in_use: shared.in_use.load(Relaxed),
        };
        let class = size_class(bytes).ok_or_else(full)?;
        if let Some(side) = env::guard()? {
            let pages = GuardedPages::new(bytes).ok_or_else(full)?;
            return Ok(Memory::new(Arc::new(GuardedBlock { pages, bytes, side })));
        }
        let cached = shared.free().take(class);
        shared.allocations.fetch_add(1, Relaxed);
        let region = match cached {
            Some(region) => {
                shared.reused.fetch_add(1, Relaxed);
                region
            }
            None => Region::map(class)
                .or_else(|| {
                    self.trim();
                    Region::map(class)
                })
                .ok_or_else(full)?,
        };
        let in_use = shared.in_use.fetch_add(bytes, Relaxed) + bytes;
        shared.peak.fetch_max(in_use, Relaxed);
        Ok(Memory::new(Arc::new(HostBlock { region: Some(region), bytes, shared: shared.clone() })))
    }
    /// What it holds now.
    pub fn stats(&self) -> MemoryStats {
        let s = &self.shared;
        MemoryStats {
            in_use: s.in_use.load(Relaxed),
            peak: s.peak.load(Relaxed),
            cached: s.free().cached,
            allocations: s.allocations.load(Relaxed),
            reused: s.reused.load(Relaxed),
        }
    }
    /// Give all free blocks back to the system.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.shared.free());
        drop(idle);
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, FreeLists> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeLists {
    /// The block of this class that was freed last: the one most likely in the caches.
    fn take(&mut self, class: usize) -> Option<Region> {
        let (_, region) = self.classes.get_mut(&class)?.pop_back()?;
        self.cached -= class;
        Some(region)
    }
    fn put(&mut self, region: Region) {
        self.clock += 1;
        self.cached += region.class;
        self.classes.entry(region.class).or_default().push_back((self.clock, region));
    }
    /// The block that has waited longest, if more than `limit` bytes wait.
    fn over(&mut self, limit: usize) -> Option<Region> {
        if self.cached <= limit {
            return None;
        }
        let waited = |list: &VecDeque<(u64, Region)>| list.front().map_or(u64::MAX, |(t, _)| *t);
        let (_, list) = self.classes.iter_mut().min_by_key(|(_, list)| waited(list))?;
        let (_, region) = list.pop_front()?;
        self.cached -= region.class;
        Some(region)
    }
}

/// What `bytes` is rounded up to, so that nearly equal sizes reuse each other: eight steps in each doubling.
fn size_class(bytes: usize) -> Option<usize> {
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    let step = (bytes.max(1).next_power_of_two() / 16).max(ALIGN);
    Some(bytes.max(1).next_multiple_of(step))
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
    shared: Arc<Shared>,
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
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        // SAFETY: `Memory` checked that the range lies in the block; the block is initialised memory of its own, and
        // whoever copies orders accesses to the same bytes, as `Memory` asks.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr().add(offset), data.len()) };
        Ok(())
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr().add(offset), data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        self.shared.in_use.fetch_sub(self.bytes, Relaxed);
        let Some(region) = self.region.take() else { return };
        let limit = self.shared.cache_limit;
        let mut excess = {
            let mut free = self.shared.free();
            free.put(region);
            free.over(limit)
        };
        while excess.is_some() {
            // Unmapping is slow: it happens here, outside the lock.
            drop(excess.take());
            excess = self.shared.free().over(limit);
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
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        // SAFETY: as for `HostBlock`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr().add(offset), data.len()) };
        Ok(())
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        // SAFETY: as for `HostBlock`.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr().add(offset), data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_an_eighth_beyond_a_cache_line() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, 3 << 29, usize::MAX / 8]) {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes.max(1) && class.is_multiple_of(ALIGN));
            assert!(class <= bytes + (bytes / 8).max(ALIGN), "{bytes} -> {class}");
            assert_eq!(size_class(class), Some(class));
        }
        assert_eq!(size_class(usize::MAX), None);
    }

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
