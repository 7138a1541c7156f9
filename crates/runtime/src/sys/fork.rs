//! A mutex that a fork cannot leave locked for ever.

use super::fork_generation;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// A spinning mutex for short sections. If another thread held it when the process forked, the child, where that
/// thread does not exist, starts over with a default value instead of waiting.
#[derive(Default)]
pub struct ForkMutex<T> {
    /// 0 when free, otherwise 1 + the fork generation of its holder.
    owner: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: `lock` hands out one guard at a time, so a shared mutex moves access to T between threads.
unsafe impl<T: Send> Sync for ForkMutex<T> {}

impl<T> ForkMutex<T> {
    /// One that holds `value`.
    pub const fn new(value: T) -> ForkMutex<T> {
        ForkMutex { owner: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }
}

impl<T: Default> ForkMutex<T> {
    /// Wait for the value.
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let me = fork_generation() + 1;
        let mut spins = 0u32;
        loop {
            match self.owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return ForkGuard { mutex: self },
                Err(0) => continue,
                Err(owner) if owner != me => {
                    if self.owner.compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                        // SAFETY: we own the lock; its former holder is a thread of the parent process. What it left
                        // may be half written, so it is overwritten without being dropped.
                        unsafe { self.value.get().write(T::default()) };
                        return ForkGuard { mutex: self };
                    }
                }
                Err(_) => {
                    spins += 1;
                    if spins.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
            }
        }
    }
}

/// Access to the value of a [`ForkMutex`].
pub struct ForkGuard<'a, T> {
    mutex: &'a ForkMutex<T>,
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.owner.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_held_at_a_fork_starts_over_in_the_child() {
        let mutex = ForkMutex::<Vec<i32>>::default();
        mutex.lock().push(1);
        assert_eq!(*mutex.lock(), [1]);
        // As a child finds it whose parent's other thread was inside.
        mutex.owner.store(fork_generation() + 77, Ordering::SeqCst);
        assert_eq!(*mutex.lock(), []);
        mutex.lock().push(2);
        assert_eq!(*mutex.lock(), [2]);
    }
}
