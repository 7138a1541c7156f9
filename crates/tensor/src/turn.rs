//! A lock that is held while others compute, and that a fork does not leave locked for ever.
//!
//! Whoever has it is known by the generation of the process: in a child the threads of its parent are gone, and what they
//! had is free.

use frit_abi::fork::generation;
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
