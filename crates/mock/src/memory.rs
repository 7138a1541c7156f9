//! Memory: allocations at addresses of their own, which know what was written and by whom.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// First address of device memory; no host pointer is there, so that one taken for the other faults.
const BASE: u64 = 0x4000_0000_0000_0000;
/// Allocations begin at a multiple of it.
const ALIGN: u64 = 512;
/// Between allocations there is nothing.
const GAP: u64 = 1 << 16;

/// An allocation.
pub struct Region {
    /// Its first address.
    pub base: u64,
    /// Its size.
    pub len: usize,
    /// Whose it is; pinned host memory is everyone's.
    pub device: Option<usize>,
    start: *mut u8,
    layout: Layout,
    /// Bytes that were written, a bit each.
    known: Box<[AtomicU64]>,
    touched: OnceLock<Touched>,
}

/// Who touched each piece last: the block, by numbers that grow with every launch, its barriers before that, and the lane.
pub struct Touched {
    /// To write it.
    pub writers: Box<[AtomicU64]>,
    /// To read it.
    pub readers: Box<[AtomicU64]>,
}

// SAFETY: the bytes are its own, and are only touched atomically or by copies that the host orders.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

fn zeros(n: usize) -> Box<[AtomicU64]> {
    // fresh zeros cost nothing until they are touched
    let zeros = Box::into_raw(vec![0u64; n].into_boxed_slice());
    // SAFETY: an atomic has the layout of its integer.
    unsafe { Box::from_raw(zeros as *mut [AtomicU64]) }
}
impl Region {
    fn new(len: usize, device: Option<usize>, base: Option<u64>) -> Option<Region> {
        let layout = Layout::from_size_align(len.max(1).next_multiple_of(16), ALIGN as usize).ok()?;
        // SAFETY: the layout has a size.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        let known = if device.is_some() { zeros(len.div_ceil(64)) } else { Box::new([]) };
        let base = base.unwrap_or(start as u64);
        Some(Region { base, len, device, start, layout, known, touched: OnceLock::new() })
    }
    /// Its last address and one.
    pub fn end(&self) -> u64 {
        self.base + self.len as u64
    }
    /// Where a number of bytes at an address lies in it, if it does.
    #[inline]
    pub fn offset(&self, address: u64, bytes: usize) -> Option<usize> {
        let at = address.wrapping_sub(self.base);
        (at <= self.len as u64 && bytes as u64 <= self.len as u64 - at).then_some(at as usize)
    }
    /// For copies.
    pub fn pointer(&self, at: usize) -> *mut u8 {
        self.start.wrapping_add(at)
    }
    /// An aligned piece of 1, 2, 4 or 8 bytes that lies in it.
    #[inline]
    pub fn get(&self, at: usize, bytes: usize) -> u64 {
        debug_assert!(at + bytes <= self.len);
        let p = self.start.wrapping_add(at);
        // SAFETY: callers have found the place with `offset` and checked its alignment; other lanes may touch it meanwhile.
        unsafe {
            match bytes {
                1 => (*p.cast::<AtomicU8>()).load(Relaxed).into(),
                2 => (*p.cast::<AtomicU16>()).load(Relaxed).into(),
                4 => (*p.cast::<AtomicU32>()).load(Relaxed).into(),
                _ => (*p.cast::<AtomicU64>()).load(Relaxed),
            }
        }
    }
    /// Write one.
    #[inline]
    pub fn set(&self, at: usize, bytes: usize, value: u64) {
        debug_assert!(at + bytes <= self.len);
        let p = self.start.wrapping_add(at);
        // SAFETY: as in `get`.
        unsafe {
            match bytes {
                1 => (*p.cast::<AtomicU8>()).store(value as u8, Relaxed),
                2 => (*p.cast::<AtomicU16>()).store(value as u16, Relaxed),
                4 => (*p.cast::<AtomicU32>()).store(value as u32, Relaxed),
                _ => (*p.cast::<AtomicU64>()).store(value, Relaxed),
            }
        }
    }
    /// Whether all of a piece within 64 aligned bytes was written.
    #[inline]
    pub fn is_known(&self, at: usize, bytes: usize) -> bool {
        let mask = (!0u64 >> (64 - bytes)) << (at % 64);
        self.known.get(at / 64).is_none_or(|w| w.load(Relaxed) & mask == mask)
    }
    /// A piece within 64 aligned bytes is written.
    #[inline]
    pub fn know(&self, at: usize, bytes: usize) {
        let mask = (!0u64 >> (64 - bytes)) << (at % 64);
        if let Some(w) = self.known.get(at / 64).filter(|w| w.load(Relaxed) & mask != mask) {
            w.fetch_or(mask, Relaxed);
        }
    }
    /// The pieces of any range within 64 aligned bytes each.
    fn pieces(at: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        let end = at + bytes;
        std::iter::successors(Some(at), |a| Some((a / 64 + 1) * 64))
            .take_while(move |a| *a < end)
            .map(move |a| (a, ((a / 64 + 1) * 64).min(end) - a))
    }
    /// All of a range is written, or as much as of another's, which was copied here.
    pub fn know_all(&self, at: usize, bytes: usize, from: Option<(&Region, usize)>) {
        let Some((from, start)) = from.filter(|(r, _)| !r.known.is_empty()) else {
            return Self::pieces(at, bytes).for_each(|(a, n)| self.know(a, n));
        };
        let all = Self::pieces(start, bytes).all(|(a, n)| from.is_known(a, n));
        for i in 0..bytes {
            if all || from.is_known(start + i, 1) {
                self.know(at + i, 1);
            } else if let Some(w) = self.known.get((at + i) / 64) {
                w.fetch_and(!(1 << ((at + i) % 64)), Relaxed);
            }
        }
    }
    /// Who touched it; made when first asked for.
    pub fn touched(&self) -> &Touched {
        self.touched.get_or_init(|| Touched { writers: zeros(self.len), readers: zeros(self.len) })
    }
    /// Forget who did.
    pub fn forget(&self) {
        if let Some(t) = self.touched.get() {
            t.writers.iter().chain(&t.readers).for_each(|c| c.store(0, Relaxed));
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

/// All allocations of the process.
#[derive(Default)]
pub struct Space {
    regions: RwLock<BTreeMap<u64, Arc<Region>>>,
    /// Ranges that are no more, for messages.
    freed: Mutex<Vec<(u64, usize)>>,
    /// Bytes that were given addresses.
    used: AtomicU64,
}

impl Space {
    /// An allocation of a device, or of pinned host memory.
    pub fn alloc(&self, len: usize, device: Option<usize>) -> Option<Arc<Region>> {
        // an address is never used again, so what was freed stays known as such
        let step = (len as u64).checked_add(GAP)?.next_multiple_of(ALIGN);
        let base = device.map(|_| BASE + self.used.fetch_add(step, Relaxed));
        let region = Arc::new(Region::new(len, device, base)?);
        self.regions.write().unwrap_or_else(PoisonError::into_inner).insert(region.base, region.clone());
        Some(region)
    }
    /// Take an allocation away by its first address.
    pub fn free(&self, base: u64, is_wanted: impl Fn(&Region) -> bool) -> Option<Arc<Region>> {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.get(&base).filter(|r| is_wanted(r))?;
        let region = regions.remove(&base)?;
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        if freed.len() >= 4096 {
            freed.drain(..2048);
        }
        freed.push((base, region.len));
        Some(region)
    }
    /// The allocation that begins at or before an address.
    pub fn before(&self, address: u64) -> Option<Arc<Region>> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        regions.range(..=address).next_back().map(|(_, r)| r.clone())
    }
    /// The allocation that holds so many bytes at an address.
    pub fn find(&self, address: u64, bytes: usize) -> Option<(Arc<Region>, usize)> {
        let region = self.before(address)?;
        let at = region.offset(address, bytes)?;
        Some((region, at))
    }
    /// What is at an address where nothing should be read or written.
    pub fn describe(&self, address: u64) -> String {
        let freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((base, len)) = freed.iter().find(|(b, n)| address >= *b && address < b + *n as u64) {
            return format!("{} bytes into {len} bytes that were freed", address - base);
        }
        match self.before(address).filter(|r| address < r.end() + GAP) {
            Some(r) if address >= r.end() => {
                format!("{} bytes after the end of {} bytes", address - r.end(), r.len)
            }
            Some(r) => format!("{} bytes into {} bytes", address - r.base, r.len),
            None => "where nothing is".into(),
        }
    }
    /// All of them.
    pub fn all(&self) -> Vec<Arc<Region>> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
