//! A fork of the process, as Python makes one.
//!
//! Before it, other threads come to an end of what must not be cut in two. They may need the interpreter's lock for that,
//! and they may hold it when they are kept from beginning more, so the thread that forks lets go of it now and then.

use frit::engine::fork;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Duration;

#[pyfunction]
fn before_fork(py: Python<'_>) {
    py.detach(fork::begin);
    while !fork::keep_out(Duration::from_millis(2)) {
        py.detach(|| std::thread::sleep(Duration::from_micros(200)));
    }
}

#[pyfunction]
fn after_fork() {
    fork::release();
}

/// Let Python call these.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let Some(hooks) = py.import("os")?.getattr_opt("register_at_fork")? else { return Ok(()) };
    let kwargs = PyDict::new(py);
    kwargs.set_item("before", wrap_pyfunction!(before_fork, m)?)?;
    kwargs.set_item("after_in_parent", wrap_pyfunction!(after_fork, m)?)?;
    kwargs.set_item("after_in_child", wrap_pyfunction!(after_fork, m)?)?;
    hooks.call((), Some(&kwargs))?;
    Ok(())
}
