//! Flags of the environment that can change while a program runs, and counters of what ran.

use frit::engine::{config, stats};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The value of a flag now.
#[pyfunction]
fn get_flag(name: &str) -> PyResult<u8> {
    config::get(name).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Sets a flag for the whole process.
#[pyfunction]
fn set_flag(name: &str, value: i64) -> PyResult<()> {
    config::set(name, value).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Kernels launched by the process so far, the bytes they had to move at least, and the operations they did.
#[pyfunction]
fn totals() -> (u64, u64, u64) {
    stats::totals()
}

/// Kernels that were compiled for this thread so far.
#[pyfunction]
fn compiled() -> u64 {
    stats::stats().compiles
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(get_flag, m)?)?;
    m.add_function(wrap_pyfunction!(set_flag, m)?)?;
    m.add_function(wrap_pyfunction!(compiled, m)?)?;
    m.add_function(wrap_pyfunction!(totals, m)?)
}
