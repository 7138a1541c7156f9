//! A lock that is held while others compute, and that a fork does not leave locked for ever.
//!
//! Whoever has it is known by the generation of the process: in a child the threads of its parent are gone, and what they
//! had is free.

use frit_abi::fork::{self, generation};
use std::ops::{Deref, DerefMut};
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long to wait at most between two looks at a lock that someone else has.
const PATIENCE: Duration = Duration::from_micros(200);

/// Free, or one more than the generation of who has it.
#[derive(Default)]
pub(crate) struct Turn(AtomicU64);

/// The turn, until it is dropped.
pub(crate) struct Taken<'a>(&'a AtomicU64);

impl Turn {
    pub(crate) fn take(&self) -> Taken<'_> {
        let (mine, mut wait) = (generation() + 1, Duration::from_micros(1));
        loop {
            let now = self.0.load(Ordering::Relaxed);
            let is_free = now != mine;
            if is_free && self.0.compare_exchange(now, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Taken(&self.0);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(PATIENCE);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A value that one thread at a time has while it computes. A fork waits until no one does; where someone still had it, the
/// child may have half a value, and so has none.
pub(crate) struct Exclusive<T> {
    value: std::sync::Mutex<T>,
    /// Free, or one more than the generation of who has it.
    holder: AtomicU64,
}

/// The value, until it is dropped.
pub(crate) struct Had<'a, T> {
    // in this order: no one holds what is free, and all of it is done inside the work
    _free: Taken<'a>,
    guard: std::sync::MutexGuard<'a, T>,
    _work: fork::Work,
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive { value: std::sync::Mutex::new(value), holder: AtomicU64::new(0) }
    }
    /// Wait for the value; `None` where a thread had it that is gone since this process was forked.
    pub(crate) fn take(&self) -> Option<Had<'_, T>> {
        let (mine, mut wait) = (generation() + 1, Duration::from_micros(1));
        loop {
            let work = fork::work();
            let section = fork::section();
            let guard = match self.value.try_lock() {
                Err(TryLockError::WouldBlock) => None,
                Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
                Ok(guard) => Some(guard),
            };
            if let Some(guard) = guard {
                self.holder.store(mine, Ordering::Relaxed);
                return Some(Had { _free: Taken(&self.holder), guard, _work: work });
            }
            let holder = self.holder.load(Ordering::Relaxed);
            if holder != 0 && holder != mine {
                return None;
            }
            drop((section, work));
            std::thread::sleep(wait);
            wait = (wait * 2).min(PATIENCE);
        }
    }
}

impl<T> Deref for Had<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Had<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
