//! A line that says what is going on, while it does; nothing where no one looks at a terminal.

use frit::engine::progress;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is going on, until it is dropped.
pub struct Progress {
    line: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows `what` with its time and how many kernels were launched since.
    pub fn show(what: &str) -> Progress {
        if !progress::is_wanted() {
            return Progress { line: None };
        }
        let (end, ended) = channel();
        let (what, begin) = (what.to_string(), Instant::now());
        let launches = || frit::engine::stats::totals().0;
        let before = launches();
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                let (seconds, n) = (begin.elapsed().as_secs_f64(), launches() - before);
                progress::draw(&format!("{what} {seconds:.1} s, {n} launches"));
            }
            progress::clear();
        });
        Progress { line: Some((end, thread)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.line.take() {
            drop(end);
            thread.join().ok();
        }
    }
}
