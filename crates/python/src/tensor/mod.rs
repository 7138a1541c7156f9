//! `Tensor`: the object, its attributes and operators. The methods are in files by subject, as in the Rust crate.

mod create;
mod data;
pub mod dlpack;
mod elementwise;
mod foreign;
mod grad;
mod index;
mod linalg;
mod movement;
mod neural;
mod operators;
mod random;
pub use random::is_training;
mod reduce;
mod spectral;
mod windows;

use crate::convert::TensorArg;
use crate::dtype::{self, PyDType};
use crate::error::{checked, compute, raised};
use crate::live;
use crate::symbolic::PyDim;
use frit::{Device, Dim, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::AtomicBool;

/// An array that is only a description until someone needs the numbers.
///
/// Tensor(data, device=None, dtype=None, requires_grad=None)
///
/// Data can be a number, nested lists or tuples, bytes, an array (numpy, torch, anything with a buffer or DLPack), a
/// path of a file, or None for no elements. Operations build a graph; ``realize``, ``numpy``, ``tolist``, ``item`` and
/// printing compute it.
///
/// >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
/// >>> (x * 2 + 1).sum(axis=1).tolist()
/// [8.0, 16.0]
#[pyclass(name = "Tensor", module = "frit", frozen, subclass, weakref)]
pub struct PyTensor(pub Tensor, GradRequest);

/// What the program said about gradients of a tensor, beyond what the tensor itself knows: that it wants none.
#[derive(Default)]
struct GradRequest {
    none: AtomicBool,
}

/// The result of an operation for Python, or its failure.
pub fn out(t: Tensor) -> PyResult<PyTensor> {
    let t = checked(t)?;
    live::remember(&t);
    Ok(PyTensor(t, GradRequest::default()))
}
/// Several results.
pub fn outs(ts: Vec<Tensor>) -> PyResult<Vec<PyTensor>> {
    ts.into_iter().map(out).collect()
}
/// A pair of results.
pub fn pair((a, b): (Tensor, Tensor)) -> PyResult<(PyTensor, PyTensor)> {
    Ok((out(a)?, out(b)?))
}

/// The class of pairs whose members are also called `values` and `indices`, as in torch.
static RANKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Values and the places they came from.
pub fn ranked(py: Python<'_>, both: (Tensor, Tensor)) -> PyResult<Bound<'_, PyAny>> {
    let (values, places) = pair(both)?;
    match RANKED.get(py) {
        Some(class) => class.bind(py).call1((values, places)),
        None => Ok((values, places).into_pyobject(py)?.into_any()),
    }
}

impl PyTensor {
    fn dims(&self) -> PyResult<Vec<usize>> {
        self.0.dims().map_err(raised)
    }
}

/// A size as Python sees it: a number, or a symbolic size.
fn size_object<'py>(py: Python<'py>, d: &Dim) -> PyResult<Bound<'py, PyAny>> {
    match d.as_int() {
        Some(v) => Ok(v.into_pyobject(py)?.into_any()),
        None => Ok(Bound::new(py, PyDim(d.clone()))?.into_any()),
    }
}

#[pymethods]
impl PyTensor {
    /// The sizes of its dims.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let shape = self.0.shape();
        let dims: Vec<_> = shape.as_slice().iter().map(|d| size_object(py, d)).collect::<PyResult<_>>()?;
        PyTuple::new(py, dims)
    }
    /// The type of its elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype::object(py, self.0.dtype())
    }
    /// The device its values are on.
    #[getter]
    fn device(&self) -> PyResult<String> {
        self.0.device().map(|d| d.to_string()).map_err(raised)
    }
    /// How many dims.
    #[getter]
    fn ndim(&self) -> usize {
        self.0.rank()
    }
    /// How many dims.
    fn dim(&self) -> usize {
        self.0.rank()
    }
    /// How many elements.
    fn numel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size_object(py, &self.0.shape().numel())
    }
    /// The greatest sizes its dims can have.
    #[getter]
    fn max_shape(&self) -> PyResult<Vec<i64>> {
        self.0.shape().as_slice().iter().map(|d| d.max().map_err(raised)).collect()
    }
    /// The greatest number of elements it can have.
    fn max_numel(&self) -> PyResult<i64> {
        Ok(self.max_shape()?.iter().product())
    }
    /// Bytes of one element.
    fn element_size(&self) -> usize {
        self.0.dtype().size()
    }
    /// Bytes of all elements.
    fn nbytes(&self) -> PyResult<usize> {
        Ok(self.0.numel().map_err(raised)? * self.0.dtype().size())
    }
    /// Whether its elements are floats.
    fn is_floating_point(&self) -> bool {
        self.0.dtype().is_float()
    }
    /// The shape, or the size of one dim.
    #[pyo3(signature = (dim=None))]
    fn size<'py>(&self, py: Python<'py>, dim: Option<isize>) -> PyResult<Bound<'py, PyAny>> {
        let Some(d) = dim else { return Ok(self.shape(py)?.into_any()) };
        let n = self.0.rank() as isize;
        if d < -n || d >= n {
            let text = format!("size: dim {d} is out of range for {n} dims");
            return Err(pyo3::exceptions::PyIndexError::new_err(text));
        }
        size_object(py, &self.0.shape()[d])
    }
    /// On another device, the default one of None; this tensor where it is there already. To ``disk:/path`` it is written
    /// at once, as the first bytes of that file.
    #[pyo3(signature = (device=None, dtype=None))]
    fn to<'py>(
        slf: Bound<'py, Self>,
        device: Option<Bound<'py, PyAny>>,
        dtype: Option<dtype::DTypeArg>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut t = slf.get().0.clone();
        match &device {
            Some(d) if d.extract::<String>().is_ok_and(|d| dtype::of_name(&d).is_none()) => {
                let name = d.extract::<String>()?;
                if name.to_uppercase() != t.device().map_err(raised)?.to_uppercase() {
                    t = checked(t.to(&name))?;
                }
            }
            // torch's `x.to(dtype)`
            Some(d) if d.is_instance_of::<PyTuple>() => {
                return Err(PyRuntimeError::new_err("to: a tensor lives on one device"));
            }
            Some(d) => t = checked(t.cast(d.extract::<dtype::DTypeArg>()?.0))?,
            // as of a name: to the default device, unless only another type is asked for
            None if dtype.is_none() => {
                let name = Device::current().map_err(raised)?;
                if name != t.device().map_err(raised)? {
                    t = checked(t.to(&name))?;
                }
            }
            None => {}
        }
        if let Some(d) = dtype {
            t = checked(t.cast(d.0))?;
        }
        if t.is_same(&slf.get().0) { Ok(slf.into_any()) } else { Ok(Bound::new(py, out(t)?)?.into_any()) }
    }
    /// On the CPU.
    fn cpu(&self) -> PyResult<PyTensor> {
        out(self.0.to("CPU"))
    }
    /// Moves this tensor itself to a device.
    #[pyo3(signature = (device))]
    fn to_<'py>(slf: Bound<'py, Self>, device: Option<&str>) -> PyResult<Bound<'py, Self>> {
        if let Some(d) = device {
            let moved = checked(slf.get().0.to(d))?;
            slf.get().0.replace(&moved);
        }
        Ok(slf)
    }
    /// Computes the value, and those of the other tensors given, together; gives this tensor back.
    #[pyo3(signature = (*lst, do_update_stats=true))]
    fn realize<'py>(
        slf: Bound<'py, Self>,
        lst: &Bound<'py, PyTuple>,
        do_update_stats: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = do_update_stats;
        let mut all = vec![slf.get().0.clone()];
        for t in lst.iter() {
            all.push(t.extract::<TensorArg>()?.0);
        }
        compute(slf.py(), || Tensor::realize_all(&all.iter().collect::<Vec<_>>()))?;
        Ok(slf)
    }
    /// Lets this tensor mean the value of another from now on; what was made from it keeps the old one.
    fn replace<'py>(slf: Bound<'py, Self>, x: TensorArg) -> PyResult<Bound<'py, Self>> {
        let (mine, new) = (&slf.get().0, &x.0);
        if mine.shape() != new.shape() {
            return Err(PyRuntimeError::new_err(format!(
                "replace: shape {} by shape {}",
                mine.shape(),
                new.shape()
            )));
        }
        mine.replace(new);
        Ok(slf)
    }
    fn __len__(&self) -> PyResult<usize> {
        match self.dims()?.first() {
            Some(&n) => Ok(n),
            None => Err(PyTypeError::new_err("len() of a 0-d tensor")),
        }
    }
    fn __hash__(slf: Bound<'_, Self>) -> isize {
        // as objects without a hash of their own have it: by identity
        (slf.as_ptr() as usize >> 4) as isize
    }
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let n = self.0.numel().map_err(raised)?;
        if n != 1 {
            let text = format!(
                "the truth of a tensor of {n} elements (shape {}) is ambiguous: any() or all()?",
                self.0.shape()
            );
            return Err(PyRuntimeError::new_err(text));
        }
        compute(py, || self.0.ne(0).item::<bool>())
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        compute(py, || self.0.double().item::<f64>())
    }
    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let v = self.item(py)?;
        py.import("builtins")?.getattr("int")?.call1((v,))
    }
    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.0.dtype().is_float() {
            return Err(PyTypeError::new_err(format!("a {} tensor is no index", self.0.dtype())));
        }
        self.__int__(py)
    }
    fn __format__(slf: Bound<'_, Self>, spec: &str) -> PyResult<String> {
        let py = slf.py();
        if spec.is_empty() || slf.get().0.rank() > 0 {
            return Ok(slf.str()?.to_string());
        }
        slf.get().item(py)?.call_method1("__format__", (spec,))?.extract()
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        let t = &self.0;
        let device = self.device().unwrap_or_default();
        // while a Jit records nothing can be read: then it is only described
        match compute(py, || t.lend().map(|_| t.to_string())) {
            Ok(values) => {
                let values = values.replace('\n', "\n       ");
                let grad = if t.is_requires_grad() { ", requires_grad=True" } else { "" };
                format!("Tensor({values}, dtype=dtypes.{}, device={device:?}{grad})", name(t))
            }
            Err(_) => format!("<Tensor {} {} on {device}>", t.shape(), name(t)),
        }
    }
    // numpy lets this class have the first word in `array + tensor`
    #[classattr]
    fn __array_priority__() -> i64 {
        1000
    }
}

fn name(t: &Tensor) -> &'static str {
    t.dtype().name()
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTensor>()?;
    let options = PyDict::new(m.py());
    options.set_item("module", "frit._frit")?;
    let fields = ("ValuesIndices", ("values", "indices"));
    let class = m.py().import("collections")?.call_method("namedtuple", fields, Some(&options))?;
    class.setattr("__doc__", "Values and the places they came from, by name and as a pair.")?;
    m.add("ValuesIndices", &class)?;
    RANKED.get_or_init(m.py(), || class.unbind());
    create::register(m)?;
    m.add_function(wrap_pyfunction!(data::unpickle, m)?)?;
    m.add_function(wrap_pyfunction!(random::training, m)?)?;
    m.add_function(wrap_pyfunction!(random::set_factors, m)?)?;
    m.add_function(wrap_pyfunction!(random::manual_seed, m)?)
}
