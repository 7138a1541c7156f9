//! Recordings and spans; `python/frit/viz.py` has them as context managers.

use frit::Recording;
use frit::engine::record;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static OPEN: Mutex<Option<Recording>> = Mutex::new(None);

/// Begin to record to a file.
#[pyfunction]
fn begin_recording(path: PathBuf) -> PyResult<()> {
    let begun = Recording::begin(&path).map_err(PyRuntimeError::new_err)?;
    *OPEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    Ok(())
}

/// End what was begun; nothing where nothing was.
#[pyfunction]
fn end_recording() -> PyResult<()> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    open.map_or(Ok(()), |r| r.end().map_err(PyRuntimeError::new_err))
}

/// The time of recordings, if what runs is recorded.
#[pyfunction]
fn recording_clock() -> Option<u64> {
    record::clock()
}

/// Say what happened since a time of that clock.
#[pyfunction]
fn record_span(name: &str, since: u64) {
    record::span_since(name, since);
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(begin_recording, m)?)?;
    m.add_function(wrap_pyfunction!(end_recording, m)?)?;
    m.add_function(wrap_pyfunction!(recording_clock, m)?)?;
    m.add_function(wrap_pyfunction!(record_span, m)?)
}
