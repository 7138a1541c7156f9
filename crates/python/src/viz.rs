//! Recordings and spans; `python/frit/viz.py` has them as context managers.

use frit::Recording;
use frit::engine::record::UserSpan;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static OPEN: Mutex<Option<Recording>> = Mutex::new(None);

/// Begin to record to a file; whether that was begun. Where a recording is under way it goes on, and has this in it.
#[pyfunction]
fn begin_recording(py: Python, path: PathBuf) -> PyResult<bool> {
    // what the environment asks for comes first
    frit::engine::record::ask();
    if Recording::is_under_way() {
        let text = format!(
            "a recording is under way, which this becomes part of: {} is not written",
            path.display()
        );
        let text = CString::new(text.replace('\0', ""))?;
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 3)?;
        return Ok(false);
    }
    let begun = Recording::begin(&path).map_err(PyRuntimeError::new_err)?;
    *OPEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    Ok(true)
}

/// End what was begun; nothing where nothing was.
#[pyfunction]
fn end_recording() -> PyResult<()> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    open.map_or(Ok(()), |r| r.end().map_err(PyRuntimeError::new_err))
}

thread_local! {
    static SPANS: RefCell<Vec<UserSpan>> = const { RefCell::new(vec![]) };
}

/// What this thread does from here on has a name, and so have kernels of what it describes.
#[pyfunction]
fn open_span(name: &str) {
    let span = frit::span(name);
    SPANS.with_borrow_mut(|spans| spans.push(span));
}

/// Until the last name is taken off again.
#[pyfunction]
fn close_span() {
    drop(SPANS.with_borrow_mut(Vec::pop));
}

/// Work of so many steps, as a line on the terminal while someone looks at one.
#[pyclass(frozen, name = "ProgressLine")]
struct ProgressLine(Mutex<Option<frit::Progress>>);

impl ProgressLine {
    fn with(&self, f: impl FnOnce(&frit::Progress)) {
        if let Some(progress) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            f(progress);
        }
    }
}

#[pymethods]
impl ProgressLine {
    #[new]
    fn new(what: &str, total: usize) -> ProgressLine {
        ProgressLine(Mutex::new(Some(frit::Progress::new(what, total))))
    }
    /// One more step is done.
    fn step(&self) {
        self.with(frit::Progress::step);
    }
    /// The last value of something that is watched.
    fn value(&self, name: &str, value: f64) {
        self.with(|p| p.value(name, value));
    }
    /// Take the line away until the next step.
    fn hide(&self) {
        self.with(frit::Progress::hide);
    }
    /// Take it away.
    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ProgressLine>()?;
    m.add_function(wrap_pyfunction!(begin_recording, m)?)?;
    m.add_function(wrap_pyfunction!(end_recording, m)?)?;
    m.add_function(wrap_pyfunction!(open_span, m)?)?;
    m.add_function(wrap_pyfunction!(close_span, m)?)
}
