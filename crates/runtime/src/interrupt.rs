//! Long work asks now and then whether it should end: a person at the keyboard may have had enough.

use crate::Error;
use frit_abi::sync::OnceLock;
use std::cell::Cell;
use std::time::{Duration, Instant};

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// How long to work between two questions.
const PATIENCE: Duration = Duration::from_millis(50);
/// Short launches between two looks at the clock.
const FEW: u32 = 16;

thread_local! {
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
    static LAUNCHES: Cell<u32> = const { Cell::new(0) };
}

/// Let long work on every thread ask this whether to end. The first one stays.
pub fn ask(whether: fn() -> bool) {
    let _ = ASK.set(whether);
}

/// An error where the work should end.
pub fn check() -> Result<(), Error> {
    if can_end() && should_end(Instant::now()) { Err(Error::Interrupted) } else { Ok(()) }
}

/// [`check`] for work that is so short that looking at the clock takes part of it.
#[inline]
pub(crate) fn check_rarely() -> Result<(), Error> {
    let n = LAUNCHES.get().wrapping_add(1);
    LAUNCHES.set(n);
    if n.is_multiple_of(FEW) { check() } else { Ok(()) }
}

/// Whether there is anyone to ask.
#[inline]
pub(crate) fn can_end() -> bool {
    ASK.get().is_some()
}

/// Whether work should end, as far as is known on this thread: asked now and then.
pub(crate) fn should_end(now: Instant) -> bool {
    let Some(whether) = ASK.get() else { return false };
    if ASKED.get().is_some_and(|t| now.duration_since(t) < PATIENCE) {
        return false;
    }
    ASKED.set(Some(now));
    whether()
}

/// A number that is this thread's alone.
pub(crate) fn thread_mark() -> usize {
    LAUNCHES.with(|c| std::ptr::from_ref(c) as usize)
}
