//! Long work asks now and then whether it should end: a person at the keyboard may have had enough.

use crate::Error;
use frit_abi::sync::OnceLock;
use std::cell::Cell;
use std::time::{Duration, Instant};

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// How long to work between two questions.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Let long work on every thread ask this whether to end. The first one stays.
pub fn ask(whether: fn() -> bool) {
    let _ = ASK.set(whether);
}

/// An error where the work should end.
pub fn check() -> Result<(), Error> {
    let Some(whether) = ASK.get() else { return Ok(()) };
    let now = Instant::now();
    if ASKED.get().is_some_and(|t| now.duration_since(t) < PATIENCE) {
        return Ok(());
    }
    ASKED.set(Some(now));
    if whether() { Err(Error::Interrupted) } else { Ok(()) }
}
