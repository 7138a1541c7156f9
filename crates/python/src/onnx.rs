//! ONNX models: `frit.onnx`, whose Python part makes numpy arrays of what is here.
//!
//! A value of a model is a tensor with the name of its element type, texts with their shape, a list, or an optional:
//! `("tensor", Tensor, "float")` (`""` for the tensor's own), `("strings", shape, texts)`, `("sequence", values)`, `("optional", value or None)`,
//! `("map", values by key)`.

use crate::convert::TensorArg;
use crate::device::within;
use crate::error::{compute, raised};
use crate::function::with_body;
use crate::tensor::{PyTensor, out};
use frit::onnx::export::{Options, export};
use frit::onnx::{Element, Image, Key, Port, Session, Size, Strings, Value};
use frit::{Blob, Tensor};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A loaded model.
#[pyclass(frozen, module = "frit", name = "OnnxSession")]
pub struct PySession(Session);

fn to_python<'py>(py: Python<'py>, v: &Value) -> PyResult<Bound<'py, PyAny>> {
    match v {
        Value::Tensor(t, e) => ("tensor", Bound::new(py, out(t.clone())?)?, e.name()).into_bound_py_any(py),
        Value::Strings(s) => ("strings", s.dims.clone(), s.texts.to_vec()).into_bound_py_any(py),
        Value::Sequence(all) => {
            let all = all.iter().map(|v| to_python(py, v)).collect::<PyResult<Vec<_>>>()?;
            ("sequence", PyList::new(py, all)?).into_bound_py_any(py)
        }
        Value::Optional(v) => {
            let inner = v.as_ref().map(|v| to_python(py, v)).transpose()?;
            ("optional", inner).into_bound_py_any(py)
        }
        Value::Map(all) => {
            let entries = PyDict::new(py);
            for (key, v) in all {
                let key = match key {
                    Key::Int(i) => i.into_bound_py_any(py)?,
                    Key::Text(t) => t.into_bound_py_any(py)?,
                };
                entries.set_item(key, to_python(py, v)?)?;
            }
            ("map", entries).into_bound_py_any(py)
        }
    }
}

fn element(name: &str) -> PyResult<Element> {
    let found = (1..).map_while(|n| Element::from_number(n).ok()).find(|e| e.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("no element type {name:?}")))
}

fn from_python(v: &Bound<'_, PyAny>) -> PyResult<Value> {
    let v = v.cast::<PyTuple>()?;
    let kind: String = v.get_item(0)?.extract()?;
    match kind.as_str() {
        "tensor" => {
            let (t, name) = (v.get_item(1)?.extract::<TensorArg>()?.0, v.get_item(2)?.extract::<String>()?);
            if name.is_empty() {
                return Ok(Value::from(t));
            }
            let e = element(&name)?;
            Ok(Value::Tensor(t.cast(e.dtype()), e))
        }
        "strings" => Ok(Value::Strings(Strings::new(v.get_item(1)?.extract()?, v.get_item(2)?.extract()?))),
        "sequence" => {
            let all = v.get_item(1)?.try_iter()?.map(|v| from_python(&v?)).collect::<PyResult<_>>()?;
            Ok(Value::Sequence(all))
        }
        "optional" => {
            let inner = v.get_item(1)?;
            let inner = if inner.is_none() { None } else { Some(Box::new(from_python(&inner)?)) };
            Ok(Value::Optional(inner))
        }
        "map" => {
            let entry = |(key, v): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                let key = match key.extract::<i64>() {
                    Ok(i) => Key::Int(i),
                    Err(_) => Key::Text(key.extract()?),
                };
                Ok((key, from_python(&v)?))
            };
            let all = v.get_item(1)?.cast_into::<PyDict>()?.iter().map(entry);
            Ok(Value::Map(all.collect::<PyResult<_>>()?))
        }
        other => Err(PyTypeError::new_err(format!("no value of a model is a {other:?}"))),
    }
}

/// Name, element type, dims (a number, a name or None each), and whether the model has a value for it.
fn port<'py>(py: Python<'py>, p: &Port) -> PyResult<Bound<'py, PyAny>> {
    let dim = |d: &Size| match d {
        Size::Number(n) => n.into_bound_py_any(py),
        Size::Name(n) => n.into_bound_py_any(py),
        Size::Any => py.None().into_bound_py_any(py),
    };
    let dims = p.dims.as_ref().map(|d| d.iter().map(dim).collect::<PyResult<Vec<_>>>()).transpose()?;
    (&p.name, p.element.map(Element::name), dims, p.has_default).into_bound_py_any(py)
}

/// The picture that a Python function makes of the bytes of a file.
fn decoded(decode: &Py<PyAny>, bytes: &[u8]) -> frit::Result<Image> {
    let picture = Python::attach(|py| decode.call1(py, (PyBytes::new(py, bytes),))?.extract(py));
    let (height, width, rgb) = picture.map_err(|e: PyErr| frit::Error::elsewhere("onnx", e.to_string()))?;
    Ok(Image { height, width, rgb })
}

#[pymethods]
impl PySession {
    /// A model in a file, or in bytes, with numbers for some of the sizes that have names, and a function that gives height,
    /// width and bytes of a picture.
    #[new]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        sizes: BTreeMap<String, usize>,
        images: Option<Py<PyAny>>,
    ) -> PyResult<PySession> {
        let bytes = model.extract::<Vec<u8>>();
        let path: PathBuf = if bytes.is_ok() { PathBuf::new() } else { model.extract()? };
        let read = || {
            let model = match bytes {
                Ok(bytes) => Session::from_blob(&Blob::new(bytes)),
                Err(_) => Session::load(&path),
            };
            let model = model?.with_sizes(sizes)?;
            Ok(match images {
                Some(decode) => model.with_images(move |bytes| decoded(&decode, bytes)),
                None => model,
            })
        };
        py.detach(|| within(None, read))?.map(PySession).map_err(raised)
    }
    /// The inputs in order: name, element type, dims.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.inputs().iter().map(|p| port(py, p)).collect()
    }
    /// The outputs in order.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.outputs().iter().map(|p| port(py, p)).collect()
    }
    /// What was strange in runs so far.
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }
    /// All outputs for values by name.
    fn run<'py>(&self, py: Python<'py>, feeds: &Bound<'py, PyDict>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let feeds = feeds.iter().map(|(name, v)| Ok((name.extract::<String>()?, from_python(&v)?)));
        let feeds = feeds.collect::<PyResult<Vec<_>>>()?;
        let outs = compute(py, || self.0.run(feeds))?;
        outs.iter().map(|v| to_python(py, v)).collect()
    }
}

/// The bytes of a model of what `body` makes of tensors like these.
#[pyfunction]
fn export_onnx(
    body: &Bound<'_, PyAny>,
    arguments: Vec<PyRef<'_, PyTensor>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    opset: i64,
) -> PyResult<Vec<u8>> {
    let arguments: Vec<&Tensor> = arguments.iter().map(|t| &t.0).collect();
    with_body(body, |f| export(&arguments, &Options { opset, inputs, outputs }, f))?.map_err(raised)
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PySession>()?;
    m.add_function(wrap_pyfunction!(export_onnx, m)?)
}
