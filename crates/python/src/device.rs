//! Devices: which there are, and which one new tensors are made on.

use crate::error::raised;
use frit::Device;
use frit::engine::{devices, disk};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Run `f` with `device` as the default, or as it is: also for a file, which nothing is computed on.
pub fn within<T>(device: Option<&str>, f: impl FnOnce() -> T) -> PyResult<T> {
    match device.filter(|d| disk::path_of(d).is_none()) {
        Some(d) => Device::scope(d, f).map_err(raised),
        None => Ok(f()),
    }
}

/// The proper name of a device; the default one's of None.
#[pyfunction]
#[pyo3(signature = (name=None))]
fn canonical_device(name: Option<&str>) -> PyResult<String> {
    if let Some(path) = name.and_then(disk::path_of) {
        return Ok(format!("{}:{}", disk::NAME, path.display()));
    }
    within(name, || Device::current().map(|d| d.to_string()))?.map_err(raised)
}

/// Make a device the default one, or the environment's again.
#[pyfunction]
#[pyo3(signature = (name))]
fn set_default_device(name: Option<&str>) -> PyResult<()> {
    devices::choose(name).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Wait for all that was launched on a device.
#[pyfunction]
fn synchronize(py: Python<'_>, name: &str) -> PyResult<()> {
    py.detach(|| Device::synchronize(name)).map_err(raised)
}

/// Every device: name, what it is, and a description or the reason why it cannot be used.
#[pyfunction]
fn list_devices() -> Vec<(String, String, Option<String>, Option<String>)> {
    let row = |(name, about, found): (String, String, Result<String, frit::engine::Error>)| match found {
        Ok(d) => (name, about, Some(d), None),
        Err(e) => (name, about, None, Some(e.to_string())),
    };
    devices::list().into_iter().map(row).collect()
}

/// What the allocator of a device holds: bytes in use, the most that ever were, bytes kept for reuse.
#[pyfunction]
fn device_memory(name: &str) -> PyResult<(usize, usize, usize)> {
    let s = devices::memory_stats(name).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    Ok((s.in_use, s.peak, s.cached))
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(canonical_device, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(list_devices, m)?)?;
    m.add_function(wrap_pyfunction!(device_memory, m)?)
}
