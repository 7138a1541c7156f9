//! Arguments as Python code writes them: numbers or tensors, sizes one by one or in a tuple, axes or None.

use crate::memory;
use crate::symbolic::PyDim;
use crate::tensor::PyTensor;
use frit::{Axes, Dim, Dims, Operand, Tensor, keepdim};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple};

/// A tensor or a number; also whatever holds numbers in memory (numpy, torch).
pub struct Arg(pub Operand);

impl<'py> FromPyObject<'_, 'py> for Arg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Arg> {
        if let Ok(t) = obj.cast::<PyTensor>() {
            return Ok(Arg((&t.get().0).into()));
        }
        if let Some(n) = number(&obj)? {
            return Ok(Arg(n));
        }
        if let Ok(d) = obj.cast::<PyDim>() {
            return Ok(Arg(d.get().0.tensor().into()));
        }
        if let Some(n) = scalar_of_array(&obj)? {
            return Ok(Arg(n));
        }
        match memory::tensor_of(&obj)? {
            Some(t) => Ok(Arg(t.into())),
            None => {
                Err(PyTypeError::new_err(format!("expected a Tensor or a number, not {}", type_name(&obj))))
            }
        }
    }
}

/// A Python number, which takes the type of what it meets.
pub fn number(obj: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    if let Ok(f) = obj.cast::<PyFloat>() {
        return Ok(Some(f.value().into()));
    }
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(Some(b.is_true().into()));
    }
    if obj.cast::<PyInt>().is_ok() {
        let v = obj.extract::<i64>().map(Operand::from).or_else(|_| obj.extract::<u64>().map(Operand::from));
        return v.map(Some).map_err(|_| PyRuntimeError::new_err(format!("{obj} does not fit 64 bits")));
    }
    Ok(None)
}

/// The number in one of numpy's scalars.
fn scalar_of_array(obj: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    let py = obj.py();
    let from_numpy =
        obj.get_type().module().is_ok_and(|m| m.to_cow().is_ok_and(|m| m == "numpy" || m == "ml_dtypes"));
    if !from_numpy || obj.hasattr(pyo3::intern!(py, "__len__"))? || !obj.hasattr(pyo3::intern!(py, "item"))? {
        return Ok(None);
    }
    number(&obj.call_method0(pyo3::intern!(py, "item"))?)
}

/// What an object is, for messages.
pub fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "an object".into(), |n| n.to_string())
}

/// A tensor, or whatever holds numbers in memory.
pub struct TensorArg(pub Tensor);

impl<'py> FromPyObject<'_, 'py> for TensorArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<TensorArg> {
        if let Ok(t) = obj.cast::<PyTensor>() {
            return Ok(TensorArg(t.get().0.clone()));
        }
        match memory::tensor_of(&obj)? {
            Some(t) => Ok(TensorArg(t)),
            None => Err(PyTypeError::new_err(format!("expected a Tensor, not {}", type_name(&obj)))),
        }
    }
}

/// Tensors one by one, or in one list.
pub fn tensors(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Tensor>> {
    let one = (args.len() == 1).then(|| args.get_item(0)).transpose()?;
    let items: Vec<Bound<'_, PyAny>> = match one {
        Some(o) if o.is_instance_of::<PyList>() || o.is_instance_of::<PyTuple>() => {
            o.try_iter()?.collect::<PyResult<_>>()?
        }
        _ => args.iter().collect(),
    };
    items.iter().map(|o| o.extract::<TensorArg>().map(|t| t.0)).collect()
}

/// One size: a number, or made of variables.
pub struct DimArg(pub Dim);

impl From<i64> for DimArg {
    fn from(v: i64) -> DimArg {
        DimArg(v.into())
    }
}

impl<'py> FromPyObject<'_, 'py> for DimArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<DimArg> {
        if let Ok(d) = obj.cast::<PyDim>() {
            return Ok(DimArg(d.get().0.clone()));
        }
        // whatever has __index__: ints, numpy's ints
        match obj.extract::<i64>() {
            Ok(v) => Ok(DimArg(v.into())),
            Err(_) if obj.is_instance_of::<PyInt>() => {
                Err(PyRuntimeError::new_err(format!("size {} does not fit 64 bits", &*obj)))
            }
            Err(_) => Err(PyTypeError::new_err(format!("expected an integer, not {}", type_name(&obj)))),
        }
    }
}

fn is_sequence(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyTuple>() || obj.is_instance_of::<PyList>()
}

/// A list of `T`, from one or several.
fn each<T>(obj: &Bound<'_, PyAny>, one: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    match is_sequence(obj) {
        true => obj.try_iter()?.map(|o| one(&o?)).collect(),
        false => Ok(vec![one(obj)?]),
    }
}

fn dim(obj: &Bound<'_, PyAny>) -> PyResult<Dim> {
    obj.extract::<DimArg>().map(|d| d.0)
}

/// Sizes one by one, or in one tuple: `f(2, 3)`, `f((2, 3))`.
pub fn sizes(args: &Bound<'_, PyTuple>) -> PyResult<Dims> {
    Ok(size_list(args)?.into())
}

/// Sizes one by one, or in one tuple, as a list.
pub fn size_list(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Dim>> {
    match args.len() {
        1 => each(&args.get_item(0)?, dim),
        _ => args.iter().map(|o| dim(&o)).collect(),
    }
}

/// What is given one by one, or by the name it has in signatures.
pub fn given<'py>(
    args: &Bound<'py, PyTuple>,
    named: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    match named {
        None => Ok(args.clone()),
        Some(v) if args.is_empty() => PyTuple::new(args.py(), [v]),
        Some(_) => Err(PyTypeError::new_err("given both by place and by name")),
    }
}

/// A flag as Python code writes it: `True`, `1`, whatever is true.
pub fn truth(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    obj.is_truthy()
}

/// Integers one by one, or in one tuple.
pub fn int_list(args: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    size_list(args)?.iter().map(|d| d.value().map_err(crate::error::raised)).collect()
}

/// Sizes in a tuple, or one size.
pub struct SizesArg(pub Vec<Dim>);

impl<'py> FromPyObject<'_, 'py> for SizesArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<SizesArg> {
        each(&obj, dim).map(SizesArg)
    }
}

/// One integer or several.
pub struct Ints(pub Vec<i64>);

impl<'py> FromPyObject<'_, 'py> for Ints {
    type Error = PyErr;
    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Ints> {
        let int = |o: &Bound<'_, PyAny>| dim(o)?.value().map_err(crate::error::raised);
        each(&obj, int).map(Ints)
    }
}

impl Ints {
    /// As sizes: none is negative.
    pub fn counts(&self, what: &str) -> PyResult<Vec<usize>> {
        self.0.iter().map(|&v| count(v, what)).collect()
    }
}

/// A size that is not negative.
pub fn count(v: i64, what: &str) -> PyResult<usize> {
    usize::try_from(v)
        .map_err(|_| PyRuntimeError::new_err(format!("{what} must not be negative, and is {v}")))
}

/// The axes of a reduction: of `None`, all.
pub fn axes(axis: Option<Ints>, keep: bool) -> Axes {
    let axes = axis.map_or_else(Axes::default, |a| a.0.into());
    if keep { keepdim(axes) } else { axes }
}
