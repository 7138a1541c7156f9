//! Passes as they run: each with its time, and what it left, where `FRIT_DEBUG` and `FRIT_PASS` ask for that.

use crate::{Error, config};
use std::time::{Duration, Instant};

/// What is to be seen of the passes over a graph or a kernel.
pub(crate) struct PassLog<'a> {
    over: &'a str,
    is_timed: bool,
    shown: &'static [String],
    rows: String,
    /// When the last pass ended.
    since: Instant,
}

impl<'a> PassLog<'a> {
    /// Of a kernel of this name; of a graph of many where that is empty.
    pub(crate) fn of(kernel: &'a str) -> Result<PassLog<'a>, Error> {
        let (is_timed, shown) = (config::debug()? >= 3, config::shown_passes(kernel)?);
        let over = if kernel.is_empty() { "the graph" } else { kernel };
        Ok(PassLog { over, is_timed, shown, rows: String::new(), since: Instant::now() })
    }
    /// A pass has run for so long.
    pub(crate) fn after(&mut self, pass: &str, left: impl FnOnce() -> String, time: Duration) {
        if self.is_timed {
            self.rows += &format!("{:>10.3} ms  {pass}\n", time.as_secs_f64() * 1e3);
        }
        if self.shown.iter().any(|p| p == pass) {
            eprintln!("{} after {pass}:\n{}", self.over, left());
        }
    }
    /// A pass begins that is not timed by who runs it.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }
    /// It has run since then, or since the one before it ended.
    pub(crate) fn end(&mut self, pass: &str, left: impl FnOnce() -> String) {
        self.after(pass, left, self.since.elapsed());
        self.begin();
    }
    /// Print the times.
    pub(crate) fn print(&self) {
        if self.is_timed {
            eprint!("passes over {}:\n{}", self.over, self.rows);
        }
    }
}
