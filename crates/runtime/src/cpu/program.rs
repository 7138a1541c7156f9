//! A kernel of the CPU: how it is called, and shared out between threads.

use super::image::LoadedImage;
use super::pool::Pool;
use super::rounding::in_default_mode;
use super::scratch;
use crate::{Bound, Error, Executable, Memory, interrupt};
use frit_abi::{Code, Kernel, LaunchDims, Param};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A launch with less work than this is not worth sharing out; and no slice of one should be smaller.
pub const INLINE_NANOS: u64 = 5_000;
/// Before a launch with more work than this it is asked whether to go on, whatever the clock costs.
const LONG_NANOS: u64 = 1_000_000;
/// How long to run without asking.
const SLICE_NANOS: u64 = 50_000_000;
/// The pace of a kernel that has not run yet.
const UNKNOWN: u64 = u64::MAX;

// Buffers are passed as their addresses.
const _: () = assert!(size_of::<*mut c_void>() == size_of::<u64>());

/// What the ABI says a kernel is.
type Entry = unsafe extern "C" fn(*const *mut c_void, *const i64, *mut c_void, *mut u32, i64, i64);

/// The same for machine code of ours.
#[cfg(target_arch = "x86_64")]
type NativeEntry = unsafe extern "sysv64" fn(*const *mut c_void, *const i64, *mut c_void, *mut u32, i64, i64);
/// No machine code is written for this machine.
#[cfg(not(target_arch = "x86_64"))]
type NativeEntry = Entry;

/// A kernel in executable memory.
pub struct CpuKernel {
    name: String,
    params: Vec<Param>,
    scratch: usize,
    image: LoadedImage,
    is_native: bool,
    pool: Arc<Pool>,
    /// Picoseconds that one index of the thread axis takes, averaged over the last launches.
    pace: AtomicU64,
}

impl Executable for CpuKernel {
    fn name(&self) -> &str {
        &self.name
    }
    fn params(&self) -> &[Param] {
        &self.params
    }
    fn launch(&self, bufs: &[&Memory], vars: &[i64], dims: LaunchDims) -> Result<(), Error> {
        crate::check_args(&self.name, &self.params, bufs, vars)?;
        self.check(bufs, dims)?;
        let addresses: Vec<u64> = bufs.iter().map(|b| b.address()).collect();
        // SAFETY: just checked, and borrowed until the kernel is done.
        let done = unsafe { self.call(&addresses, vars, dims) };
        crate::check_intact(bufs.iter().copied()).and(done)
    }
    fn launch_bound(&self, bound: &Bound) -> Result<(), Error> {
        if !std::ptr::addr_eq(Arc::as_ptr(bound.executable()), self) {
            return self.launch(&bound.buffers().iter().collect::<Vec<_>>(), bound.vars(), bound.dims());
        }
        // SAFETY: a `Bound` has checked its buffers against this kernel's parameters and by `check`, and holds them.
        let done = unsafe { self.call(bound.addresses(), bound.vars(), bound.dims()) };
        crate::check_intact(bound.buffers().iter()).and(done)
    }
    fn check(&self, bufs: &[&Memory], dims: LaunchDims) -> Result<(), Error> {
        let fail = |message: &str| Err(Error::Launch { kernel: self.name.clone(), message: message.into() });
        if bufs.iter().any(|b| b.host_ptr().is_none()) {
            return fail("a buffer is not in this machine's memory");
        }
        if dims.global != [1; 3] || dims.local != [1; 3] || dims.thread_extent < 0 {
            return fail("the CPU has no grid, and its thread axis cannot be negative");
        }
        Ok(())
    }
    fn disassembly(&self) -> Result<String, Error> {
        super::disassemble::disassemble(self.image.code())
    }
}

impl CpuKernel {
    /// A kernel whose code is in executable memory, for these threads.
    pub fn new(kernel: &Kernel, image: LoadedImage, pool: Arc<Pool>) -> CpuKernel {
        let Kernel { name, params, scratch, code } = kernel.clone();
        let (pace, is_native) = (AtomicU64::new(UNKNOWN), matches!(code, Code::Native(_)));
        CpuKernel { name, params, scratch, image, is_native, pool, pace }
    }
    /// Run it.
    ///
    /// # Safety
    /// Buffers and variables are as many as the kernel has, each buffer as large as stated, writable where stated, and
    /// alive until this returns.
    unsafe fn call(&self, addresses: &[u64], vars: &[i64], dims: LaunchDims) -> Result<(), Error> {
        let (status, no_scratch) = (AtomicU32::new(0), AtomicBool::new(false));
        // SAFETY: `Image::load` checked that the entry lies in executable memory; the compiler put a function there that
        // follows the kernel ABI.
        let entry: Entry = unsafe { std::mem::transmute(self.image.entry()) };
        // SAFETY: as above; which of the two conventions it follows is known from what it was made of.
        let native: NativeEntry = unsafe { std::mem::transmute(self.image.entry()) };
        let run = |begin: i64, end: i64| {
            let call = |scratch: *mut u8| {
                let (bufs, vars, scratch, status) =
                    (addresses.as_ptr().cast(), vars.as_ptr(), scratch.cast(), status.as_ptr());
                // SAFETY: the kernel gets what its ABI asks for: as many buffers and variables as it has parameters,
                // each buffer at least as large as stated and reachable from here, scratch of this thread, a status
                // word. Everything outlives the call. Kernels are made by our own compiler to stay inside.
                in_default_mode(|| unsafe {
                    match self.is_native {
                        true => native(bufs, vars, scratch, status, begin, end),
                        false => entry(bufs, vars, scratch, status, begin, end),
                    }
                })
            };
            if scratch::with_scratch(self.scratch, call).is_none() {
                no_scratch.store(true, Relaxed);
            }
        };
        self.run_slices(dims.thread_extent, &run)?;
        if no_scratch.into_inner() {
            let message = format!("there is no memory for {} bytes of scratch", self.scratch);
            return Err(Error::Launch { kernel: self.name.clone(), message });
        }
        match status.into_inner() {
            0 => Ok(()),
            code => Err(Error::Index { kernel: self.name.clone(), site: code - 1 }),
        }
    }
    /// Run `0..extent`, on several threads if the launches before had enough work in them to be worth it. Long work is cut
    /// in slices between which it may be asked to end.
    fn run_slices(&self, extent: i64, run: &(dyn Fn(i64, i64) + Sync)) -> Result<(), Error> {
        if extent <= 0 {
            return Ok(());
        }
        let before = self.pace.load(Relaxed);
        match before.saturating_mul(extent as u64) < LONG_NANOS * 1000 {
            true => interrupt::check_rarely()?,
            false => interrupt::check()?,
        }
        if extent == 1 && before != UNKNOWN {
            // No choice to make, so nothing to measure again.
            run(0, 1);
            return Ok(());
        }
        let (nanos, is_cut) = (AtomicU64::new(0), AtomicBool::new(false));
        let (most, caller) = (longest_slice(before, extent), interrupt::thread_mark());
        let timed = |begin: i64, end: i64| {
            let start = Instant::now();
            let (mut at, mut now) = (begin, start);
            while at < end && !is_cut.load(Relaxed) {
                let until = at.saturating_add(most).min(end);
                run(at, until);
                (at, now) = (until, Instant::now());
                // The thread that launched it is the one that is told.
                if interrupt::thread_mark() == caller && interrupt::should_end(now) {
                    is_cut.store(true, Relaxed);
                }
            }
            nanos.fetch_add(now.duration_since(start).as_nanos() as u64, Relaxed);
        };
        self.pool.parallel_for(extent, grain(before), &timed);
        if is_cut.into_inner() {
            return Err(Error::Interrupted);
        }
        let now = nanos.into_inner().saturating_mul(1000) / extent as u64;
        self.pace.store(if before == UNKNOWN { now } else { before - before / 4 + now / 4 }, Relaxed);
        Ok(())
    }
}

/// Least indices in a slice, when each is that many picoseconds of work.
fn grain(pace: u64) -> i64 {
    if pace == UNKNOWN { 1 } else { (INLINE_NANOS * 1000).div_ceil(pace.max(1)) as i64 }
}

/// Most indices that are run without asking whether to go on.
fn longest_slice(pace: u64, extent: i64) -> i64 {
    match (interrupt::can_end(), pace) {
        (false, _) => i64::MAX,
        (true, UNKNOWN) => (extent / 128).max(1),
        (true, pace) => (SLICE_NANOS * 1000 / pace.max(1)).max(1) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_launches_run_inline_and_large_ones_are_shared_out() {
        assert_eq!((grain(UNKNOWN), grain(0), grain(1_000), grain(1_000_000_000)), (1, 5_000_000, 5_000, 1));
    }
}
