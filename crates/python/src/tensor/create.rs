//! Making tensors: from data, and from sizes.

use super::{GradRequest, PyTensor, out};
use crate::convert::{Arg, DimArg, SizesArg, TensorArg, count, number, size_list, sizes, tensors, type_name};
use crate::device::within;
use crate::dtype::{DTypeArg, default_float, default_int};
use crate::error::{checked, raised};
use crate::memory;
use crate::symbolic::PyDim;
use frit::engine::disk::path_of;
use frit::{DType, Device, Dims, Operand, Scalar, Tensor};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};

/// What every function that makes a tensor accepts.
pub struct TensorOptions<'a> {
    pub dtype: Option<DTypeArg>,
    pub device: Option<&'a str>,
    pub requires_grad: Option<bool>,
}

impl TensorOptions<'_> {
    /// The type asked for, or this one.
    pub fn dtype_or(&self, d: DType) -> DType {
        self.dtype.as_ref().map_or(d, |d| d.0)
    }
    /// The float type asked for, or the default one.
    pub fn float(&self) -> DType {
        self.dtype_or(default_float())
    }
    /// The tensor that `f` makes, on the device asked for.
    pub fn build(self, f: impl FnOnce() -> Tensor) -> PyResult<PyTensor> {
        out(self.tensor(f)?).and_then(|t| t.wishing(self.requires_grad))
    }
    fn tensor(&self, f: impl FnOnce() -> Tensor) -> PyResult<Tensor> {
        let t = checked(within(self.device, f)?)?;
        // on the default device it is anyway; elsewhere a description has to be tied to it
        let here = Device::current().map_err(raised)?;
        match self.device {
            Some(d) if path_of(d).is_some() => checked(t.to(d)),
            Some(d) if within(Some(d), Device::current)?.map_err(raised)? != here => checked(t.to(d)),
            _ => Ok(t),
        }
    }
}

/// The numbers of nested lists, with the sizes of the lists.
#[derive(Default)]
struct Nested {
    values: Vec<Operand>,
    dims: Vec<usize>,
}

impl Nested {
    fn collect(&mut self, obj: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        if obj.is_instance_of::<PyList>()
            || obj.is_instance_of::<PyTuple>()
            || obj.is_instance_of::<PyBytes>()
        {
            return self.row(obj, obj.len()?, depth);
        }
        if let Some(v) = number(obj)? {
            return self.leaf(v, depth);
        }
        // arrays, tensors and numbers of other libraries inside lists
        if let Ok(inner) = obj.call_method0("tolist").or_else(|_| obj.call_method0("item")) {
            return self.collect(&inner, depth);
        }
        if obj.hasattr("__index__")? {
            return self.collect(&obj.call_method0("__index__")?, depth);
        }
        Err(PyTypeError::new_err(format!("a tensor holds numbers, not {}", type_name(obj))))
    }
    fn row(&mut self, obj: &Bound<'_, PyAny>, n: usize, depth: usize) -> PyResult<()> {
        // the first element of each row decides how deep and how long the others are
        if self.dims.len() == depth {
            if !self.values.is_empty() {
                return Err(ragged(format!("a list of {n} where others have a number, at dim {depth}")));
            }
            if depth > 64 {
                return Err(PyValueError::new_err("lists nested deeper than 64"));
            }
            self.dims.push(n);
        }
        if self.dims[depth] != n {
            return Err(ragged(format!("expected {} elements at dim {depth}, got {n}", self.dims[depth])));
        }
        obj.try_iter()?.try_for_each(|o| self.collect(&o?, depth + 1))
    }
    fn leaf(&mut self, v: Operand, depth: usize) -> PyResult<()> {
        if depth != self.dims.len() {
            return Err(ragged(format!(
                "a number where others have a list of {}, at dim {depth}",
                self.dims[depth]
            )));
        }
        self.values.push(v);
        Ok(())
    }
    fn dtype(&self) -> DType {
        let scalars = || self.values.iter().filter_map(scalar);
        if scalars().any(|v| matches!(v, Scalar::Float(_))) || self.values.is_empty() {
            default_float()
        } else if scalars().all(|v| matches!(v, Scalar::Bool(_))) {
            DType::Bool
        } else {
            let fits = |d: DType| {
                d.int_range().is_some_and(|(lo, hi)| scalars().all(|v| (lo..=hi).contains(&v.as_i128())))
            };
            if fits(default_int()) { default_int() } else { DType::I64 }
        }
    }
    fn tensor(self, dtype: Option<DType>) -> PyResult<Tensor> {
        let d = dtype.unwrap_or_else(|| self.dtype());
        if self.dims.is_empty() {
            let v = self.values.into_iter().next().unwrap_or(Operand::from(0));
            return checked(one(v, d));
        }
        let mut bytes = Vec::with_capacity(self.values.len() * d.size());
        for v in self.values.iter().filter_map(scalar) {
            let whole = !matches!(v, Scalar::Float(_)) && d.is_int();
            // of unsigned types also negative numbers, by their bits, as in torch
            let least = |(lo, hi): (i128, i128)| if d.is_unsigned() { -hi } else { lo };
            let fits = |r: (i128, i128)| (least(r)..=r.1).contains(&v.as_i128());
            if whole && !d.int_range().is_some_and(fits) {
                return Err(PyRuntimeError::new_err(format!("{} does not fit {d}", v.as_i128())));
            }
            bytes.extend_from_slice(&v.cast(d).to_bits(d).to_ne_bytes()[..d.size()]);
        }
        checked(Tensor::from_bytes(d, &bytes, self.dims))
    }
}

fn ragged(text: String) -> PyErr {
    PyValueError::new_err(format!("lists of unequal lengths: {text}"))
}
fn scalar(v: &Operand) -> Option<Scalar> {
    match v {
        Operand::Number(s, _) => Some(*s),
        Operand::Tensor(_) => None,
    }
}
/// A tensor of one number; of a float where an integer is asked for, its whole part.
fn one(v: Operand, d: DType) -> Tensor {
    match (scalar(&v), d.is_float()) {
        (Some(Scalar::Float(_)), false) => v.tensor().cast(d),
        _ => Tensor::full_dtype((), v, d),
    }
}

/// The tensor of whatever a program hands in as data.
pub fn of_data(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let cast = |t: Tensor| match dtype {
        Some(d) if d != t.dtype() => checked(t.cast(d)),
        _ => Ok(t),
    };
    if data.is_none() {
        return checked(Tensor::full_dtype([0], 0, dtype.unwrap_or_else(default_float)));
    }
    if let Ok(t) = data.cast::<PyTensor>() {
        return cast(t.get().0.clone());
    }
    if let Ok(b) = data.cast::<PyBytes>() {
        let t = memory::of_bytes(b)?;
        // bytes of some type, as tinygrad has it
        return match dtype {
            Some(d) => checked(t.bitcast(d)),
            None => Ok(t),
        };
    }
    if data.is_instance_of::<PyByteArray>() {
        return cast(memory::of_array(data, false)?.ok_or_else(|| PyTypeError::new_err("no bytes"))?);
    }
    if let Ok(path) = data.getattr("__fspath__") {
        let path: String = path.call0()?.extract()?;
        std::fs::metadata(&path)
            .map_err(|e| PyOSError::new_err((e.raw_os_error(), e.to_string(), path.clone())))?;
        return cast(checked(Tensor::from_file(&path))?);
    }
    if let Ok(d) = data.extract::<DimArg>()
        && d.0.as_int().is_none()
    {
        return cast(checked(d.0.tensor())?);
    }
    if !data.is_instance_of::<PyList>()
        && !data.is_instance_of::<PyTuple>()
        && number(data)?.is_none()
        && let Some(t) = memory::tensor_of(data)?
    {
        return cast(t);
    }
    if data.is_instance_of::<pyo3::types::PyString>() {
        return Err(PyTypeError::new_err("a tensor holds numbers, not str"));
    }
    let mut nested = Nested::default();
    nested.collect(data, 0)?;
    nested.tensor(dtype)
}

/// A tensor of plain numbers, with the default types; anything else as it is.
pub fn of_value(v: &Bound<'_, PyAny>) -> PyResult<Operand> {
    match v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>() {
        true => of_data(v, None).map(Operand::from),
        false => v.extract::<Arg>().map(|a| a.0),
    }
}

fn filled(shape: Vec<frit::Dim>, v: impl Into<Operand>, options: TensorOptions) -> PyResult<PyTensor> {
    let d = options.float();
    let v = v.into();
    options.build(|| Tensor::full_dtype(Dims::from(shape), v, d))
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (data=None, device=None, dtype=None, requires_grad=None))]
    fn new(
        data: Option<Bound<'_, PyAny>>,
        device: Option<&str>,
        dtype: Option<DTypeArg>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype.as_ref().map(|d| d.0);
        let make = || match &data {
            Some(x) => of_data(x, d),
            None => checked(Tensor::full_dtype([0], 0, d.unwrap_or_else(default_float))),
        };
        // moving gives back the same handle where nothing moves: this object has its own
        let t = within(device, make)??;
        let t = t.cast(t.dtype());
        options.build(|| t)
    }
    /// Zeros of a shape: ``Tensor.zeros(2, 3)`` or ``Tensor.zeros((2, 3))``.
    #[staticmethod]
    #[pyo3(signature = (*shape, dtype=None, device=None, requires_grad=None, buffer=None))]
    fn zeros(
        shape: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        buffer: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _ = buffer;
        filled(size_list(shape)?, 0, TensorOptions { dtype, device, requires_grad })
    }
    /// Ones of a shape.
    #[staticmethod]
    #[pyo3(signature = (*shape, dtype=None, device=None, requires_grad=None, buffer=None))]
    fn ones(
        shape: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        buffer: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _ = buffer;
        filled(size_list(shape)?, 1, TensorOptions { dtype, device, requires_grad })
    }
    /// Memory of a shape with no particular content. On ``disk:/path``: the first bytes of that file, as they are.
    #[staticmethod]
    #[pyo3(signature = (*shape, dtype=None, device=None, requires_grad=None))]
    fn empty(
        shape: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let (dims, d) = (sizes(shape)?, options.float());
        if let Some(path) = device.and_then(path_of) {
            return out(Tensor::on_disk(path, d, dims)).and_then(|t| t.wishing(requires_grad));
        }
        options.build(|| Tensor::full_dtype(dims, 0, d).contiguous())
    }
    /// One number in a shape; its type is the number's unless given.
    #[staticmethod]
    #[pyo3(signature = (shape, fill_value, dtype=None, device=None, requires_grad=None, buffer=None))]
    fn full(
        shape: SizesArg,
        fill_value: Arg,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        buffer: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _ = buffer;
        let options = TensorOptions { dtype, device, requires_grad };
        let own = checked(fill_value.0.tensor())?.dtype();
        let own = match (&fill_value.0, own) {
            (Operand::Number(..), DType::F32) => default_float(),
            (Operand::Number(..), DType::I32) => default_int(),
            (_, d) => d,
        };
        let d = options.dtype_or(own);
        options.build(|| match fill_value.0 {
            v @ Operand::Number(Scalar::Float(_), _) if !d.is_float() => Tensor::full(shape.0, v).cast(d),
            v => Tensor::full_dtype(shape.0, v, d),
        })
    }
    /// Numbers from start by step, stopping before stop; ``arange(n)`` counts from 0.
    #[staticmethod]
    #[pyo3(signature = (start, stop=None, step=None, dtype=None, device=None, requires_grad=None))]
    fn arange(
        start: &Bound<'_, PyAny>,
        stop: Option<&Bound<'_, PyAny>>,
        step: Option<&Bound<'_, PyAny>>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let is_symbolic = |o: &&Bound<'_, PyAny>| o.is_instance_of::<PyDim>();
        if [Some(start), stop].into_iter().flatten().any(|o| is_symbolic(&o)) {
            let size = |o: &Bound<'_, PyAny>| o.extract::<DimArg>().map(|d| d.0);
            let (start, stop) = match stop {
                Some(stop) => (size(start)?, size(stop)?),
                None => (0.into(), size(start)?),
            };
            let step = step.map_or(Ok(1), |s| s.extract::<i64>())?;
            let d = options.dtype_or(default_int());
            return options.build(|| Tensor::arange_between(start, stop, step).cast(d));
        }
        let number = |o: &Bound<'_, PyAny>| o.extract::<Arg>().map(|v| v.0);
        let step = step.map_or(Ok(Operand::from(1)), number)?;
        let (start, stop) = match stop {
            Some(stop) => (number(start)?, number(stop)?),
            None => (Operand::from(0), number(start)?),
        };
        let wide = [&start, &stop, &step].iter().any(|v| matches!(v, Operand::Number(Scalar::Float(_), _)));
        let d = options.dtype.as_ref().map(|d| d.0);
        options.build(|| {
            let t = Tensor::arange_step(start, stop, step);
            match d {
                Some(d) => t.cast(d),
                None if wide => t.cast(default_float()),
                None if t.dtype() == DType::I32 => t.cast(default_int()),
                None => t,
            }
        })
    }
    /// Numbers from start to stop, both included.
    #[staticmethod]
    #[pyo3(signature = (start, stop, steps, dtype=None, device=None, requires_grad=None))]
    fn linspace(
        start: f64,
        stop: f64,
        steps: i64,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let n = usize::try_from(steps)
            .map_err(|_| PyValueError::new_err("number of steps must be non-negative"))?;
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.float();
        if d == DType::Bool {
            return Err(PyRuntimeError::new_err("linspace: not of bools"));
        }
        options.build(|| Tensor::linspace(start, stop, n).cast(d))
    }
    /// Powers of a base from base**start to base**stop, evenly spaced in the exponent.
    #[staticmethod]
    #[pyo3(signature = (start, stop, steps, base=10.0, dtype=None, device=None, requires_grad=None))]
    fn logspace(
        start: f64,
        stop: f64,
        steps: i64,
        base: f64,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let steps = count(steps, "steps")?;
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.float();
        options.build(|| Tensor::logspace(start, stop, steps, base).cast(d))
    }
    /// The identity matrix of n rows and m (or n) columns.
    #[staticmethod]
    #[pyo3(signature = (n, m=None, dtype=None, device=None, requires_grad=None))]
    fn eye(
        n: DimArg,
        m: Option<DimArg>,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let n = n.0;
        let m = m.map_or(n.clone(), |m| m.0);
        if [&n, &m].iter().any(|d| d.as_int().is_some_and(|v| v < 0)) {
            return Err(PyValueError::new_err(format!("eye: {n} rows and {m} columns")));
        }
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.float();
        options.build(|| Tensor::eye([n, m]).cast(d))
    }
    /// Ones on and below diagonal k, zeros above.
    #[staticmethod]
    #[pyo3(
        signature = (r, c, diagonal=DimArg::from(0), dtype=None, device=None, requires_grad=None),
        text_signature = "(r, c, diagonal=0, dtype=None, device=None, requires_grad=None)"
    )]
    fn tri(
        r: DimArg,
        c: DimArg,
        diagonal: DimArg,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.float();
        options.build(|| Tensor::tri(r.0, c.0, diagonal.0).cast(d))
    }
    /// Zeros in this tensor's shape and type.
    #[pyo3(signature = (dtype=None, device=None, requires_grad=None))]
    fn zeros_like(
        &self,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        self.like(0.into(), TensorOptions { dtype, device, requires_grad })
    }
    /// Ones in this tensor's shape and type.
    #[pyo3(signature = (dtype=None, device=None, requires_grad=None))]
    fn ones_like(
        &self,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        self.like(1.into(), TensorOptions { dtype, device, requires_grad })
    }
    /// One number in this tensor's shape and type.
    #[pyo3(signature = (fill_value, dtype=None, device=None, requires_grad=None, buffer=None))]
    fn full_like(
        &self,
        fill_value: Arg,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
        buffer: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _ = buffer;
        self.like(fill_value.0, TensorOptions { dtype, device, requires_grad })
    }
    /// Memory of this tensor's shape and type with no particular content.
    #[pyo3(signature = (dtype=None, device=None, requires_grad=None))]
    fn empty_like(
        &self,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.dtype_or(self.0.dtype());
        options.build(|| self.0.zeros_like().cast(d).contiguous())
    }
    /// A number of this tensor's type, in its shape.
    #[pyo3(signature = (b, dtype=None))]
    fn const_like(&self, b: Arg, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
        self.like(b.0, TensorOptions { dtype, device: None, requires_grad: None })
    }
    /// Copies of this vector and others, each along a dim of its own.
    #[pyo3(signature = (*args, indexing="ij"))]
    fn meshgrid(slf: Bound<'_, Self>, args: &Bound<'_, PyTuple>, indexing: &str) -> PyResult<Vec<PyTensor>> {
        let mut all = vec![slf.get().0.clone()];
        all.extend(tensors(args)?);
        super::outs(match indexing {
            "ij" => Tensor::meshgrid(&all),
            "xy" => Tensor::meshgrid_xy(&all),
            other => {
                return Err(PyValueError::new_err(format!("indexing must be 'ij' or 'xy', not {other:?}")));
            }
        })
    }
    /// A vector of ``num_classes`` zeros with a one where this says, for each element.
    #[pyo3(signature = (num_classes=DimArg::from(-1)), text_signature = "($self, num_classes=-1)")]
    fn one_hot(&self, py: Python<'_>, num_classes: DimArg) -> PyResult<PyTensor> {
        let n = match num_classes.0.as_int() {
            Some(-1) => (crate::error::compute(py, || self.0.max(..).long().item::<i64>())? + 1).into(),
            Some(n) if n < 0 => return Err(PyValueError::new_err(format!("one_hot: {n} classes"))),
            _ => num_classes.0,
        };
        out(self.0.one_hot(n))
    }
    /// A number as a tensor.
    #[staticmethod]
    #[pyo3(name = "const", signature = (b, dtype=None))]
    fn constant(b: Arg, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
        out(match dtype {
            Some(d) => one(b.0, d.0),
            None => b.0.tensor(),
        })
    }
    /// The elements at memory someone else owns: an address and a shape. It must stay there as long as the tensor.
    #[staticmethod]
    #[pyo3(signature = (ptr, shape, dtype=None, device=None, requires_grad=None))]
    fn from_blob(
        ptr: usize,
        shape: SizesArg,
        dtype: Option<DTypeArg>,
        device: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<PyTensor> {
        let options = TensorOptions { dtype, device, requires_grad };
        let d = options.float();
        let count = shape.0.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(d.as_int()?).ok()?));
        let bytes = count.and_then(|n| n.checked_mul(d.size()));
        let Some(len) = bytes.filter(|&len| ptr != 0 || len == 0) else {
            return Err(PyValueError::new_err(format!(
                "from_blob: address {ptr:#x} with shape {:?}",
                shape.0
            )));
        };
        options.build(|| Tensor::from_blob(d, &frit::Blob::volatile(Address(ptr, len)), shape.0))
    }
    /// The array itself, shared without a copy: what others write to it later shows through.
    #[staticmethod]
    fn from_numpy(array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        match memory::of_array(array, true)? {
            Some(t) => out(t),
            None => Err(PyTypeError::new_err(format!("expected an array, not {}", type_name(array)))),
        }
    }
    /// A copy of this tensor's values, with memory of its own.
    #[pyo3(signature = (device=None))]
    fn clone(&self, device: Option<&str>) -> PyResult<PyTensor> {
        let t = self.0.contiguous();
        out(match device {
            Some(d) => t.to(d),
            None => t,
        })
    }
}

/// Memory a program gave the address of.
struct Address(usize, usize);

impl AsRef<[u8]> for Address {
    fn as_ref(&self) -> &[u8] {
        match self.1 {
            0 => &[],
            // SAFETY: the program that gave the address promised that it stays valid, as `from_blob` says.
            n => unsafe { std::slice::from_raw_parts(self.0 as *const u8, n) },
        }
    }
}

impl PyTensor {
    fn like(&self, v: Operand, options: TensorOptions) -> PyResult<PyTensor> {
        let d = options.dtype_or(self.0.dtype());
        options.build(|| Tensor::full_dtype(self.0.shape(), v, d))
    }
    /// The same object, with what the program says about its gradient.
    pub fn wishing(self, requires_grad: Option<bool>) -> PyResult<PyTensor> {
        let PyTensor(t, wish) = self;
        let wish = requires_grad.map_or(wish, |on| GradRequest { none: (!on).into() });
        let options = PyTensor(t, wish);
        match requires_grad {
            Some(true) => options.mark(true)?,
            Some(false) => crate::live::exclude(&options.0),
            None => {}
        }
        Ok(options)
    }
}

/// The tensor of data, for functions written in Python.
#[pyfunction]
#[pyo3(signature = (data, dtype=None))]
fn as_tensor(data: &Bound<'_, PyAny>, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
    match data.extract::<TensorArg>() {
        Ok(t) if dtype.is_none() => out(t.0),
        _ => out(of_data(data, dtype.map(|d| d.0))?),
    }
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(as_tensor, m)?)
}
