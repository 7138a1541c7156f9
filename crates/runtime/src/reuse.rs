//! Freed regions of memory wait in lists by size class and are handed out again: on every device, memory from the system costs
//! more than most kernels.
//!
//! What waits is bounded: the regions that have waited longest go back to the system first.

use crate::Error;
use crate::memory::MemoryStats;
use frit_abi::record::{self, Kind};
use frit_abi::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

/// Sizes are rounded to multiples of this: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// What waits, and what is in use, of the regions of one device. Dropping an `R` gives it back to the system.
pub struct Reuse<R> {
    device: Arc<str>,
    free: Mutex<FreeLists<R>>,
    limit: usize,
    in_use: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicU64,
    reused: AtomicU64,
}

/// Free regions by class, oldest first; `cached` is the sum of their classes.
struct FreeLists<R> {
    classes: BTreeMap<usize, VecDeque<(u64, R)>>,
    cached: usize,
    clock: u64,
}

impl<R> Reuse<R> {
    /// Nothing yet; at most `limit` free bytes of `device` are kept.
    pub fn new(device: &str, limit: usize) -> Reuse<R> {
        Reuse {
            device: device.into(),
            free: Mutex::new(FreeLists { classes: BTreeMap::new(), cached: 0, clock: 0 }),
            limit,
            in_use: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicU64::new(0),
            reused: AtomicU64::new(0),
        }
    }
    /// A region of at least `bytes`: one that waits, or a new one of the size that `map` is told, after giving back all that
    /// waits where the system has no more.
    pub fn take(&self, bytes: usize, map: impl Fn(usize) -> Option<R>) -> Result<R, Error> {
        let class = size_class(bytes).ok_or_else(|| self.full(bytes))?;
        let cached = self.free().take(class);
        self.allocations.fetch_add(1, Relaxed);
        let region = match cached {
            Some(region) => {
                self.reused.fetch_add(1, Relaxed);
                region
            }
            None => map(class)
                .or_else(|| {
                    self.trim();
                    map(class)
                })
                .ok_or_else(|| self.full(bytes))?,
        };
        let in_use = self.in_use.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(in_use, Relaxed);
        Ok(region)
    }
    /// A region that was taken for so many bytes is free.
    pub fn put(&self, bytes: usize, region: R) {
        self.in_use.fetch_sub(bytes, Relaxed);
        let mut excess = size_class(bytes).and_then(|class| {
            let mut free = self.free();
            free.put(class, region);
            free.over(self.limit)
        });
        while excess.is_some() {
            // giving it back is slow: it happens here, outside the lock
            drop(excess.take());
            excess = self.free().over(self.limit);
        }
    }
    /// Write down that the region at an address is in use, or is no more, if what runs is recorded.
    pub fn note(&self, kind: Kind, address: u64, bytes: usize) {
        if record::runs() {
            use record::Field::{Int, Text};
            let in_use = self.in_use.load(Relaxed) as u64;
            let fields =
                [Int(record::now()), Text(&self.device), Int(address), Int(bytes as u64), Int(in_use)];
            record::write(kind, &fields);
        }
    }
    /// Why there are no `bytes`.
    pub fn full(&self, bytes: usize) -> Error {
        let in_use = self.in_use.load(Relaxed);
        Error::OutOfMemory { device: self.device.to_string(), bytes, in_use, free: None }
    }
    /// What it holds now.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            in_use: self.in_use.load(Relaxed),
            peak: self.peak.load(Relaxed),
            cached: self.free().cached,
            allocations: self.allocations.load(Relaxed),
            reused: self.reused.load(Relaxed),
        }
    }
    /// Give all free regions back to the system.
    pub fn trim(&self) {
        let idle = {
            let mut free = self.free();
            free.cached = 0;
            std::mem::take(&mut free.classes)
        };
        drop(idle);
    }

    fn free(&self) -> MutexGuard<'_, FreeLists<R>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> FreeLists<R> {
    /// The region of this class that was freed last: the one most likely in the caches.
    fn take(&mut self, class: usize) -> Option<R> {
        let (_, region) = self.classes.get_mut(&class)?.pop_back()?;
        self.cached -= class;
        Some(region)
    }
    fn put(&mut self, class: usize, region: R) {
        self.clock += 1;
        self.cached += class;
        self.classes.entry(class).or_default().push_back((self.clock, region));
    }
    /// The region that has waited longest, if more than `limit` bytes wait.
    fn over(&mut self, limit: usize) -> Option<R> {
        if self.cached <= limit {
            return None;
        }
        let waited = |list: &VecDeque<(u64, R)>| list.front().map_or(u64::MAX, |(t, _)| *t);
        let (class, list) = self.classes.iter_mut().min_by_key(|(_, list)| waited(list))?;
        let (_, region) = list.pop_front()?;
        self.cached -= class;
        Some(region)
    }
}

/// What `bytes` is rounded up to, so that nearly equal sizes reuse each other: eight steps in each doubling.
pub fn size_class(bytes: usize) -> Option<usize> {
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    let step = (bytes.max(1).next_power_of_two() / 16).max(ALIGN);
    Some(bytes.max(1).next_multiple_of(step))
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
}
