//! Files of tensors: safetensors, GGUF, torch, and whatever else [`frit::nn::state`] reads.

use crate::convert::TensorArg;
use crate::device::within;
use crate::error::{compute, raised};
use crate::tensor::{PyTensor, out};
use frit::nn::state::{StateDict, gguf, safetensors, torch};
use frit::{Blob, Lent, Tensor};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The bytes of a tensor.
struct Bytes(Lent);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The content of a file: of a path mapped, of a tensor its bytes.
fn content(py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<Blob> {
    let Ok(path) = file.extract::<PathBuf>() else {
        let t = file.extract::<TensorArg>()?.0;
        return compute(py, || t.lend()).map(|lent| Blob::new(Bytes(lent)));
    };
    Blob::open(&path).map_err(|e| match e.raw_os_error() {
        // by its number Python finds the right class, FileNotFoundError and the like
        Some(code) => PyErr::new::<PyOSError, _>((code, e.to_string(), path.display().to_string())),
        None => PyOSError::new_err(format!("{}: {e}", path.display())),
    })
}

/// Read what `f` reads of a file, on the default device; an error names the file.
fn read<T: Send>(file: &Bound<'_, PyAny>, f: impl FnOnce(&Blob) -> frit::Result<T> + Send) -> PyResult<T> {
    let py = file.py();
    let blob = content(py, file)?;
    let named = |e: PyErr| match file.extract::<PathBuf>() {
        Ok(path) => PyRuntimeError::new_err(format!("{}: {}", path.display(), e.value(py))),
        Err(_) => e,
    };
    py.detach(|| within(None, || f(&blob)))?.map_err(raised).map_err(named)
}

fn dict<'py>(py: Python<'py>, state: StateDict) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, t) in state {
        all.set_item(name, Bound::new(py, out(t)?)?)?;
    }
    Ok(all)
}

/// The tensors of a safetensors file, and its free text.
#[pyfunction]
fn safe_load<'py>(
    py: Python<'py>,
    file: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, BTreeMap<String, String>)> {
    let (state, notes) = read(file, |blob| {
        let open = safetensors::SafeTensors::from_blob(blob)?;
        Ok((open.state()?, open.metadata().clone()))
    })?;
    Ok((dict(py, state)?, notes))
}

/// Write tensors, and free text, to a safetensors file.
#[pyfunction]
fn safe_save(
    py: Python<'_>,
    tensors: BTreeMap<String, TensorArg>,
    path: PathBuf,
    metadata: BTreeMap<String, String>,
) -> PyResult<()> {
    let state: StateDict = tensors.into_iter().map(|(name, t)| (name, t.0)).collect();
    compute(py, || safetensors::save_with(&path, &state, &metadata))
}

/// What is in a torch file, as Python values; nothing in it is executed.
#[pyfunction]
fn torch_load<'py>(py: Python<'py>, file: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    torch_value(py, read(file, torch::from_blob)?)
}

fn torch_value<'py>(py: Python<'py>, v: torch::Value) -> PyResult<Bound<'py, PyAny>> {
    use torch::Value;
    match v {
        Value::None => Ok(py.None().into_bound(py)),
        Value::Bool(v) => v.into_bound_py_any(py),
        Value::Int(v) => v.into_bound_py_any(py),
        Value::Float(v) => v.into_bound_py_any(py),
        Value::Str(v) => v.into_bound_py_any(py),
        Value::Bytes(v) => Ok(PyBytes::new(py, &v).into_any()),
        Value::List(all) => {
            let all = all.into_iter().map(|v| torch_value(py, v)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, all)?.into_any())
        }
        Value::Dict(all) => {
            let d = PyDict::new(py);
            for (k, v) in all {
                d.set_item(torch_value(py, k)?, torch_value(py, v)?)?;
            }
            Ok(d.into_any())
        }
        Value::Tensor(t) => Ok(Bound::new(py, out(t)?)?.into_any()),
    }
}

/// What a GGUF file says, and its tensors: quantised ones as expressions that make float32 of them. The path of the first of
/// several parts gives those of all.
#[pyfunction]
fn gguf_load<'py>(
    py: Python<'py>,
    file: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let both = |open: gguf::Gguf| Ok((open.metadata().clone(), open.state()?));
    let (about, state) = match file.extract::<PathBuf>() {
        Ok(path) => {
            content(py, file)?; // a file that is not there is Python's own error
            py.detach(|| within(None, || gguf::Gguf::open(path).and_then(both)))?.map_err(raised)?
        }
        Err(_) => read(file, |blob| gguf::Gguf::from_blob(blob).and_then(both))?,
    };
    let said = PyDict::new(py);
    for (key, value) in about {
        said.set_item(key, gguf_value(py, &value)?)?;
    }
    Ok((said, dict(py, state)?))
}

fn gguf_value<'py>(py: Python<'py>, v: &gguf::Value) -> PyResult<Bound<'py, PyAny>> {
    use gguf::Value;
    match v {
        Value::Bool(v) => v.into_bound_py_any(py),
        Value::String(v) => v.into_bound_py_any(py),
        Value::F32(v) => v.into_bound_py_any(py),
        Value::F64(v) => v.into_bound_py_any(py),
        Value::U64(v) => v.into_bound_py_any(py),
        Value::Array(a) => {
            let all = a.iter().map(|v| gguf_value(py, &v)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, all)?.into_any())
        }
        v => v.as_i64().into_bound_py_any(py),
    }
}

/// The tensors of a file of any known format, by name.
#[pyfunction]
fn load_state<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let state = py.detach(|| within(None, || frit::nn::load(&path)))?.map_err(raised)?;
    dict(py, state)
}

/// Where the shipped data set of a name is.
#[pyfunction]
fn find_data(name: &str) -> PyResult<PathBuf> {
    frit::nn::data::find(name).map_err(raised)
}

/// A file of the format of MNIST, gzipped or not.
#[pyfunction]
fn idx_load(py: Python<'_>, path: PathBuf) -> PyResult<PyTensor> {
    let idx = compute(py, || frit::nn::data::idx::read(&path))?;
    out(within(None, || Tensor::from_vec(idx.values, idx.dims))?)
}

/// Images and labels of a folder with CIFAR-10: those to train with, or those to test with.
#[pyfunction]
fn cifar_load(py: Python<'_>, folder: PathBuf, train: bool) -> PyResult<(PyTensor, PyTensor)> {
    use frit::nn::data::Cifar10;
    let all = compute(py, || if train { Cifar10::train(&folder) } else { Cifar10::test(&folder) })?;
    let n = all.labels.len();
    let pair =
        within(None, || (Tensor::from_vec(all.images, [n, 3, 32, 32]), Tensor::from_vec(all.labels, n)))?;
    Ok((out(pair.0)?, out(pair.1)?))
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(safe_load, m)?)?;
    m.add_function(wrap_pyfunction!(safe_save, m)?)?;
    m.add_function(wrap_pyfunction!(torch_load, m)?)?;
    m.add_function(wrap_pyfunction!(gguf_load, m)?)?;
    m.add_function(wrap_pyfunction!(load_state, m)?)?;
    m.add_function(wrap_pyfunction!(find_data, m)?)?;
    m.add_function(wrap_pyfunction!(idx_load, m)?)?;
    m.add_function(wrap_pyfunction!(cifar_load, m)?)
}
