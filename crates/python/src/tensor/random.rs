//! Random numbers, whether the program trains, and in which type it multiplies.

use super::create::TensorOptions;
use super::{PyTensor, out};
use crate::convert::{Arg, SizesArg, count, size_list, sizes, truth};
use crate::dtype::{DTypeArg, PyDType, object};
use crate::error::compute;
use frit::{DType, Dim, Dims, Operand, Scalar, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::{AtomicBool, Ordering};

static TRAINING: AtomicBool = AtomicBool::new(false);

/// Whether the program trains: `Tensor.training`, or the flag that contexts set.
pub fn is_training(py: Python<'_>) -> PyResult<bool> {
    if TRAINING.load(Ordering::Relaxed) {
        return Ok(true);
    }
    py.get_type::<PyTensor>().getattr(pyo3::intern!(py, "training"))?.is_truthy()
}

/// Whether the program trains; given a bool, that from now on.
#[pyfunction]
#[pyo3(signature = (on=None))]
pub fn training(py: Python<'_>, on: Option<bool>) -> PyResult<bool> {
    if let Some(on) = on {
        TRAINING.store(on, Ordering::Relaxed);
        return Ok(on);
    }
    is_training(py)
}

/// The type in which float32 is multiplied from now on, `None` for its own; what it was before.
#[pyfunction]
#[pyo3(signature = (dtype))]
pub fn set_factors(py: Python<'_>, dtype: Option<DTypeArg>) -> PyResult<Option<Py<PyDType>>> {
    frit::set_factors(dtype.map(|d| d.0)).map(|d| object(py, d)).transpose()
}

/// Starts the stream of random numbers again with this seed.
#[pyfunction]
pub fn manual_seed(seed: &Bound<'_, PyAny>) -> PyResult<()> {
    // negative and long seeds count by their low bits
    let bits = seed
        .call_method1("__and__", (u64::MAX,))
        .map_err(|_| PyTypeError::new_err("a seed is an integer"))?;
    frit::manual_seed(bits.extract()?);
    Ok(())
}

/// Keyword arguments that initialisers share.
const OPTIONS: [&str; 4] = ["dtype", "device", "requires_grad", "contiguous"];

/// What every maker accepts, from keyword arguments.
fn options(
    op: &str,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Option<DTypeArg>, Option<String>, Option<bool>)> {
    let Some(d) = kwargs else { return Ok((None, None, None)) };
    for k in d.keys() {
        let k: String = k.extract()?;
        if !OPTIONS.contains(&k.as_str()) {
            return Err(PyTypeError::new_err(format!("{op}() got an unexpected keyword argument {k:?}")));
        }
    }
    let get = |k: &str| d.get_item(k).map(|v| v.filter(|v| !v.is_none()));
    let dtype = get("dtype")?.map(|v| v.extract::<DTypeArg>()).transpose()?;
    let device = get("device")?.map(|v| v.extract::<String>()).transpose()?;
    let grad = get("requires_grad")?.map(|v| v.extract::<bool>()).transpose()?;
    Ok((dtype, device, grad))
}

/// Random floats of a shape: made as float32 (float64 where asked for), then of the type asked for.
fn drawn(
    op: &str,
    shape: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    f: impl FnOnce(Dims) -> Tensor,
) -> PyResult<PyTensor> {
    let (dtype, device, requires_grad) = options(op, kwargs)?;
    let options = TensorOptions { dtype, device: device.as_deref(), requires_grad };
    let (d, dims) = (options.float(), sizes(shape)?);
    options.build(|| f(dims).cast(d))
}

fn number(v: &Operand) -> PyResult<i64> {
    match v {
        Operand::Number(Scalar::Int(v), _) => Ok(*v),
        Operand::Number(Scalar::Bool(v), _) => Ok(*v as i64),
        _ => Err(PyTypeError::new_err("randint: the bounds are integers")),
    }
}

#[pymethods]
impl PyTensor {
    /// Starts the stream of random numbers again with this seed.
    #[staticmethod]
    #[pyo3(name = "manual_seed", signature = (seed=None))]
    fn seed(py: Python<'_>, seed: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        manual_seed(&seed.unwrap_or(0u8.into_pyobject(py)?.into_any()))
    }
    /// Evenly distributed between 0 and 1.
    #[staticmethod]
    #[pyo3(signature = (*shape, device=None, dtype=None, contiguous=true, requires_grad=None))]
    fn rand(
        shape: &Bound<'_, PyTuple>,
        device: Option<&str>,
        dtype: Option<DTypeArg>,
        #[pyo3(from_py_with = truth)] contiguous: bool,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _ = contiguous;
        let options = TensorOptions { dtype, device, requires_grad };
        let (d, dims) = (options.float(), sizes(shape)?);
        if !d.is_float() {
            return Err(PyValueError::new_err(format!("rand: {d} is not a float type")));
        }
        options.build(|| Tensor::rand_dtype(dims, d))
    }
    /// Normally distributed, mean 0 and variance 1.
    #[staticmethod]
    #[pyo3(signature = (*shape, dtype=None, device=None, requires_grad=None, contiguous=true))]
    fn randn(
        shape: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        #[pyo3(from_py_with = truth)] contiguous: bool,
    ) -> PyResult<PyTensor> {
        let _ = contiguous;
        let options = TensorOptions { dtype, device, requires_grad };
        let (d, dims) = (options.float(), sizes(shape)?);
        options.build(|| Tensor::randn_dtype(dims, d))
    }
    /// Integers from low to before high; torch's ``randint(low, high, (sizes))`` is understood too.
    #[staticmethod]
    #[pyo3(signature = (*shape, low=None, high=None, dtype=None, device=None, requires_grad=None))]
    fn randint(
        shape: &Bound<'_, PyTuple>,
        low: Option<Arg>,
        high: Option<Arg>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype_or(DType::I32);
        if !d.is_int() {
            return Err(PyTypeError::new_err(format!("randint: {d} is not an integer type")));
        }
        let last = shape.len().checked_sub(1).map(|i| shape.get_item(i)).transpose()?;
        let torch = last.filter(|o| shape.len() > 1 && o.is_instance_of::<PyTuple>());
        let (lo, hi, dims): (i64, i64, Vec<Dim>) = match torch {
            Some(o) => {
                let bounds: Vec<i64> =
                    shape.iter().take(shape.len() - 1).map(|b| b.extract()).collect::<PyResult<_>>()?;
                let lo = if bounds.len() == 2 { bounds[0] } else { 0 };
                (lo, bounds[bounds.len() - 1], o.extract::<SizesArg>()?.0)
            }
            None => {
                let bound = |v: &Option<Arg>, or: i64| v.as_ref().map_or(Ok(or), |v| number(&v.0));
                (bound(&low, 0)?, bound(&high, 10)?, size_list(shape)?)
            }
        };
        options.build(|| Tensor::randint(lo, hi, dims).cast(d))
    }
    /// Normally distributed.
    #[staticmethod]
    #[pyo3(signature = (*shape, mean=0.0, std=1.0, **kwargs))]
    fn normal(
        shape: &Bound<'_, PyTuple>,
        mean: f64,
        std: f64,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        drawn("normal", shape, kwargs, |dims| Tensor::normal(mean, std, dims))
    }
    /// Evenly distributed between low and high; of an integer type, integers.
    #[staticmethod]
    #[pyo3(signature = (*shape, low=0.0, high=1.0, **kwargs))]
    fn uniform(
        shape: &Bound<'_, PyTuple>,
        low: f64,
        high: f64,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        drawn("uniform", shape, kwargs, |dims| Tensor::uniform(low, high, dims))
    }
    /// Evenly distributed between -1 and 1, divided by the root of the number of elements.
    #[staticmethod]
    #[pyo3(signature = (*shape, **kwargs))]
    fn scaled_uniform(shape: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<PyTensor> {
        drawn("scaled_uniform", shape, kwargs, |dims| Tensor::scaled_uniform(dims))
    }
    /// Glorot's (Xavier's) uniform initialisation.
    #[staticmethod]
    #[pyo3(signature = (*shape, **kwargs))]
    fn glorot_uniform(shape: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<PyTensor> {
        drawn("glorot_uniform", shape, kwargs, |dims| Tensor::glorot_uniform(dims))
    }
    /// Kaiming's (He's) uniform initialisation; a is the negative slope of the rectifier.
    #[staticmethod]
    #[pyo3(signature = (*shape, a=0.01, **kwargs))]
    fn kaiming_uniform(
        shape: &Bound<'_, PyTuple>,
        a: f64,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        drawn("kaiming_uniform", shape, kwargs, |dims| Tensor::kaiming_uniform(dims, a))
    }
    /// Kaiming's (He's) normal initialisation; a is the negative slope of the rectifier.
    #[staticmethod]
    #[pyo3(signature = (*shape, a=0.01, **kwargs))]
    fn kaiming_normal(
        shape: &Bound<'_, PyTuple>,
        a: f64,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        drawn("kaiming_normal", shape, kwargs, |dims| Tensor::kaiming_normal(dims, a))
    }
    /// The numbers from 0 to before n in random order.
    #[staticmethod]
    #[pyo3(signature = (n, device=None, dtype=None, requires_grad=None))]
    fn randperm(
        n: i64,
        device: Option<&str>,
        dtype: Option<DTypeArg>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let n = count(n, "randperm: n")?;
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype_or(DType::I32);
        options.build(|| Tensor::randperm(n).cast(d))
    }
    /// Evenly distributed between 0 and 1, in this tensor's shape and type.
    #[pyo3(signature = (dtype=None, device=None, requires_grad=None, contiguous=true))]
    fn rand_like(
        &self,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        #[pyo3(from_py_with = truth)] contiguous: bool,
    ) -> PyResult<PyTensor> {
        let _ = contiguous;
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype_or(self.0.dtype());
        options.build(|| Tensor::rand_dtype(self.0.shape(), d))
    }
    /// Normally distributed, in this tensor's shape and type.
    #[pyo3(signature = (dtype=None, device=None, requires_grad=None, contiguous=true))]
    fn randn_like(
        &self,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        #[pyo3(from_py_with = truth)] contiguous: bool,
    ) -> PyResult<PyTensor> {
        let _ = contiguous;
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype_or(self.0.dtype());
        options.build(|| Tensor::randn_dtype(self.0.shape(), d))
    }
    /// Integers from low to before high, in this tensor's shape.
    #[pyo3(signature = (low, high=None, dtype=None))]
    fn randint_like(&self, low: i64, high: Option<i64>, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
        let (lo, hi) = high.map_or((0, low), |h| (low, h));
        let d = dtype.map_or(self.0.dtype(), |d| d.0);
        out(Tensor::randint(lo, hi, self.0.shape()).cast(d))
    }
    /// 1 with the probability each element says, else 0.
    fn bernoulli(&self) -> PyResult<PyTensor> {
        out(self.0.bernoulli())
    }
    /// Places drawn by weights: this is a vector or a matrix of them.
    #[pyo3(signature = (num_samples=1, replacement=false))]
    fn multinomial(
        &self,
        py: Python<'_>,
        num_samples: i64,
        #[pyo3(from_py_with = truth)] replacement: bool,
    ) -> PyResult<PyTensor> {
        let num_samples = count(num_samples, "num_samples")?;
        out(compute(py, || Ok(self.0.multinomial(num_samples, replacement)))?)
    }
    /// Elements set to 0 with probability p, the others divided by 1 - p; itself where the program does not train.
    #[pyo3(signature = (p=0.5))]
    fn dropout(slf: Bound<'_, Self>, p: f64) -> PyResult<Bound<'_, Self>> {
        if !(0.0..=1.0).contains(&p) {
            return Err(PyValueError::new_err(format!("dropout: {p} is not a probability")));
        }
        if p == 0.0 || !is_training(slf.py())? {
            return Ok(slf);
        }
        Bound::new(slf.py(), out(slf.get().0.dropout(p))?)
    }
    /// Whether the program trains: set it, or use ``with Tensor.train():``.
    #[classattr]
    fn training() -> bool {
        false
    }
}
