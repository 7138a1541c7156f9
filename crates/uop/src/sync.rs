//! What the node store needs of the machine, in one place: a test puts a model of it here instead (`tests/store`), which
//! tries the orders in which threads can meet and checks that each access is ordered after those it must not race with.

pub(crate) use frit_abi::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// Memory for a value that may be there or not; who uses it knows which.
pub(crate) struct Cell<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: every access is through an unsafe method, whose caller promises that it races with none.
unsafe impl<T: Send + Sync> Sync for Cell<T> {}

impl<T> Cell<T> {
    /// No value.
    pub(crate) const fn empty() -> Cell<T> {
        Cell(UnsafeCell::new(MaybeUninit::uninit()))
    }
    /// Put a value there.
    ///
    /// # Safety
    /// There is none, and no other thread looks.
    pub(crate) unsafe fn write(&self, value: T) {
        // SAFETY: by the caller's word nobody else looks
        unsafe { (*self.0.get()).write(value) };
    }
    /// The value.
    ///
    /// # Safety
    /// There is one, and it stays as long as the reference is used.
    #[inline]
    pub(crate) unsafe fn read(&self) -> &T {
        // SAFETY: by the caller's word there is a value, and nobody writes
        unsafe { (*self.0.get()).assume_init_ref() }
    }
    /// Drop the value.
    ///
    /// # Safety
    /// There is one, and no other thread looks, now or until another is written.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: by the caller's word there is a value, and nobody else looks
        unsafe { (*self.0.get()).assume_init_drop() };
    }
}
