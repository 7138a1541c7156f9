//! Failures as Python raises them, at the call that is wrong.

use frit::{Error, Kind, Tensor};
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;

/// The exception of a failure: its words, without the line of Rust they came from; Python has its own.
pub fn raised(e: Error) -> PyErr {
    let text = format!("{}: {}", e.op(), e.message());
    match e.kind() {
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
