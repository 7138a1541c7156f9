//! Scratch memory private to a thread, kept from launch to launch.

use crate::reuse::ALIGN;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// Scratch larger than this is freed after the launch.
const KEEP: usize = 16 << 20;

thread_local! {
    static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// An aligned block of heap memory.
struct Scratch {
    ptr: NonNull<u8>,
    layout: Layout,
}

impl Scratch {
    fn new(bytes: usize) -> Option<Scratch> {
        let layout = Layout::from_size_align(bytes.max(1).checked_next_power_of_two()?, ALIGN).ok()?;
        // SAFETY: the size is not zero.
        Some(Scratch { ptr: NonNull::new(unsafe { alloc_zeroed(layout) })?, layout })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by `new`.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) };
    }
}

/// Call `f` with `bytes` of this thread's scratch (null for none); `None`, without a call, if there is no memory.
pub fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> Option<R> {
    if bytes == 0 {
        return Some(f(null_mut()));
    }
    // Taken out while in use, so that a nested call gets memory of its own.
    let kept = SCRATCH.take().filter(|s| s.layout.size() >= bytes);
    let scratch = match kept {
        Some(s) => s,
        None => Scratch::new(bytes)?,
    };
    let result = f(scratch.ptr.as_ptr());
    if scratch.layout.size() <= KEEP {
        SCRATCH.set(Some(scratch));
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_aligned_kept_and_never_shared() {
        let first = with_scratch(100, |p| p as usize).unwrap();
        assert_eq!(first % ALIGN, 0);
        assert_eq!(with_scratch(90, |p| p as usize), Some(first));
        with_scratch(64, |outer| with_scratch(64, |inner| assert_ne!(outer, inner)));
        assert_eq!(with_scratch(0, |p| p.is_null()), Some(true));
        assert_eq!(with_scratch(usize::MAX, |_| ()), None);
    }
}
