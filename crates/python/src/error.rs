//! Failures as Python raises them, at the call that is wrong.

use frit::engine::fork;
use frit::{Error, Kind, Tensor};
use pyo3::exceptions::{PyIndexError, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::ThreadId;

thread_local! {
    /// What Python wants to be raised by work that it interrupted.
    static INTERRUPT: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// The thread that runs signal handlers, and in which process that was found out.
static MAIN: OnceLock<(ThreadId, u64)> = OnceLock::new();

/// Whether a signal handler of the program raised an exception, as Ctrl-C does: then long work ends.
fn is_interrupted() -> bool {
    // no other thread runs them, so none need wait for the interpreter's lock; in a child another one may be the main one
    let known = MAIN.get().filter(|(_, process)| *process == fork::generation());
    if known.is_some_and(|(main, _)| *main != std::thread::current().id()) {
        return false;
    }
    // what one asked and no one raised yet is still wanted
    let waiting = INTERRUPT.take();
    let is_waiting = waiting.is_some();
    INTERRUPT.set(waiting);
    is_waiting || Python::attach(|py| py.check_signals().map_err(|e| INTERRUPT.set(Some(e))).is_err())
}

/// The line of the Python program that is running: the nearest one outside this package.
fn line() -> Option<(String, u32)> {
    Python::try_attach(|py| {
        // nothing here runs Python code: a signal would be handled in it, and what its handler raises be lost
        let sys = py.import("sys").ok()?;
        let frit = sys.getattr("modules").and_then(|m| m.get_item("frit"));
        let package = frit.and_then(|m| m.getattr("__path__")?.get_item(0)?.extract::<String>());
        let mut frame = sys.call_method1("_getframe", (0,)).ok()?;
        loop {
            let file: String = frame.getattr("f_code").ok()?.getattr("co_filename").ok()?.extract().ok()?;
            let back = frame.getattr("f_back").ok()?;
            let inside = package.as_ref().is_ok_and(|p| file.starts_with(p.as_str()));
            if !inside || back.is_none() {
                return Some((file, frame.getattr("f_lineno").ok()?.extract().ok()?));
            }
            frame = back;
        }
    })
    .flatten()
}

/// The exception of a failure: its words, without the line of Rust they came from; Python has its own.
pub fn raised(e: Error) -> PyErr {
    let path = e.path().map_or(String::new(), |p| format!(" in {p}"));
    let text = match e.op() {
        // not calls of the Python program
        "lend" | "realize" => format!("{}{path}", e.message()),
        op => format!("{op}: {}{path}", e.message()),
    };
    match e.kind() {
        Kind::Interrupted => INTERRUPT.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        Kind::Index => PyIndexError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// The tensor, or the exception of a failed one.
pub fn checked(t: Tensor) -> PyResult<Tensor> {
    match t.check() {
        Ok(()) => Ok(t),
        Err(e) => Err(raised(e)),
    }
}

/// What computes, computed without the interpreter's lock.
pub fn compute<T: Send>(py: Python<'_>, f: impl FnOnce() -> frit::Result<T> + Send) -> PyResult<T> {
    py.detach(f).map_err(raised)
}

/// Let frit ask Python: where the program is, and whether long work should end.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let threading = m.py().import("threading")?;
    if threading.call_method0("current_thread")?.is(threading.call_method0("main_thread")?) {
        let _ = MAIN.set((std::thread::current().id(), fork::generation()));
    }
    frit::engine::interrupt::ask(is_interrupted);
    frit::set_caller_hook(line);
    Ok(())
}
