//! Reading by place.

use super::create::of_data;
use super::{PyTensor, out, outs};
use crate::convert::{Arg, DimArg, TensorArg, truth, type_name};
use crate::error::{compute, raised};
use frit::{Dim, Index, Indices, Operand};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

/// An end of a slice: huge ones are as good as the end.
fn end(obj: &Bound<'_, PyAny>) -> PyResult<Option<Dim>> {
    if obj.is_none() {
        return Ok(None);
    }
    if obj.is_instance_of::<PyInt>() && obj.extract::<i64>().is_err() {
        const FAR: i64 = 1 << 62;
        return Ok(Some(if obj.lt(0)? { -FAR } else { FAR }.into()));
    }
    let d = obj.extract::<DimArg>().map_err(|_| {
        PyTypeError::new_err(format!("slice indices must be integers or None, not {}", type_name(obj)))
    })?;
    Ok(Some(d.0))
}

fn index(obj: &Bound<'_, PyAny>) -> PyResult<Index> {
    if let Ok(s) = obj.cast::<PySlice>() {
        let part = |name| s.getattr(name);
        let step = part("step")?;
        let step = if step.is_none() { 1 } else { step.extract::<i64>()? };
        if step == 0 {
            return Err(PyValueError::new_err("slice step cannot be zero"));
        }
        return Ok(Index::Slice { start: end(&part("start")?)?, end: end(&part("stop")?)?, step });
    }
    if obj.is_none() {
        return Ok(Index::NewAxis);
    }
    if obj.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(Index::Flag(b.is_true()));
    }
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(Index::Tensor(t.get().0.clone()));
    }
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        let t = of_data(obj, None)?;
        // an empty list names no elements
        return Ok(Index::Tensor(if t.numel().map_err(raised)? == 0 { t.int() } else { t }));
    }
    if let Ok(d) = obj.extract::<DimArg>() {
        return Ok(Index::At(d.0));
    }
    if let Ok(t) = obj.extract::<TensorArg>() {
        return Ok(Index::Tensor(t.0));
    }
    let text = "tensors are indexed by integers, slices, ellipsis, None, bools, tensors and lists, not";
    Err(PyIndexError::new_err(format!("{text} {}", type_name(obj))))
}

/// What stands between the brackets.
pub fn indices(py: Python<'_>, obj: &Bound<'_, PyAny>) -> PyResult<Indices> {
    let _ = py;
    let all = |t: &Bound<'_, PyTuple>| t.iter().map(|o| index(&o)).collect::<PyResult<Vec<_>>>();
    let list = match (obj.cast::<PyTuple>(), obj.cast::<PyList>()) {
        (Ok(t), _) => all(t)?,
        // a list that holds slices is what a tuple of them is, as in torch
        (_, Ok(l)) if l.iter().any(|o| o.is_instance_of::<PySlice>()) => all(&l.to_tuple())?,
        _ => vec![index(obj)?],
    };
    Ok(Indices::from(list))
}

fn reduction(reduce: &str) -> &str {
    // tinygrad's and older torch's words
    match reduce {
        "multiply" => "prod",
        "add" => "sum",
        r => r,
    }
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, idx: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let indices = indices(py, idx)?;
        // a mask has to be read
        out(compute(py, || Ok(self.0.at(indices)))?)
    }
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.0.rank() == 0 {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
        }
        PyList::new(py, outs(self.0.unbind(0))?)?.into_any().call_method0("__iter__")
    }
    /// For each place of index, the element at that place along dim.
    fn gather(&self, dim: isize, index: TensorArg) -> PyResult<PyTensor> {
        out(self.0.gather(dim, &index.0))
    }
    /// The parts along dim that index names.
    fn index_select(&self, dim: isize, index: TensorArg) -> PyResult<PyTensor> {
        out(self.0.index_select(dim, &index.0))
    }
    /// The part along dim at one place; the dim goes away.
    fn select(&self, dim: isize, index: DimArg) -> PyResult<PyTensor> {
        out(self.0.select(dim, index.0))
    }
    /// The elements of the flattened tensor that index names.
    fn take(&self, index: TensorArg) -> PyResult<PyTensor> {
        out(self.0.take(&index.0))
    }
    /// Like gather, with index broadcast against this tensor.
    #[pyo3(signature = (indices, dim=None))]
    fn take_along_dim(&self, indices: TensorArg, dim: Option<isize>) -> PyResult<PyTensor> {
        out(match dim {
            Some(d) => self.0.take_along_dim(&indices.0, d),
            None => self.0.ravel().take_along_dim(&indices.0.ravel(), 0),
        })
    }
    /// The rows that idx names: this tensor is the table.
    #[pyo3(signature = (idx, padding_idx=None))]
    fn embedding(&self, idx: TensorArg, padding_idx: Option<isize>) -> PyResult<PyTensor> {
        out(match padding_idx {
            Some(p) => self.0.embedding_padded(&idx.0, p),
            None => self.0.embedding(&idx.0),
        })
    }
    /// Writes src at the places index names along dim; with reduce, "add"s or "multiply"s it there.
    #[pyo3(signature = (dim, index, src, reduce=None))]
    fn scatter(&self, dim: isize, index: TensorArg, src: Arg, reduce: Option<&str>) -> PyResult<PyTensor> {
        out(match reduce {
            None => self.0.scatter(dim, &index.0, src.0),
            Some("add" | "multiply") => {
                let how = reduction(reduce.unwrap_or_default());
                self.0.scatter_reduce(dim, &index.0, src.0, how, true)
            }
            Some(r) => {
                return Err(PyRuntimeError::new_err(format!(
                    "scatter: reduce must be 'add', 'multiply' or None, not {r:?}"
                )));
            }
        })
    }
    /// Adds src at the places index names along dim.
    fn scatter_add(&self, dim: isize, index: TensorArg, src: Arg) -> PyResult<PyTensor> {
        out(self.0.scatter_add(dim, &index.0, src.0))
    }
    /// Combines src at the places index names along dim: "sum", "prod", "mean", "amax" or "amin".
    #[pyo3(signature = (dim, index, src, reduce, include_self=true))]
    fn scatter_reduce(
        &self,
        dim: isize,
        index: TensorArg,
        src: Arg,
        reduce: &str,
        #[pyo3(from_py_with = truth)] include_self: bool,
    ) -> PyResult<PyTensor> {
        out(self.0.scatter_reduce(dim, &index.0, src.0, reduction(reduce), include_self))
    }
    /// Adds parts of source at the places index names along dim.
    #[pyo3(signature = (dim, index, source, alpha=None))]
    fn index_add(
        &self,
        dim: isize,
        index: TensorArg,
        source: TensorArg,
        alpha: Option<Arg>,
    ) -> PyResult<PyTensor> {
        let source = alpha.map_or(source.0.clone(), |a| source.0.mul(a.0));
        out(self.0.index_add(dim, &index.0, &source))
    }
    /// Copies parts of source to the places index names along dim.
    fn index_copy(&self, dim: isize, index: TensorArg, source: TensorArg) -> PyResult<PyTensor> {
        out(self.0.index_copy(dim, &index.0, &source.0))
    }
    /// A number at the places index names along dim.
    fn index_fill(&self, dim: isize, index: TensorArg, value: Arg) -> PyResult<PyTensor> {
        out(self.0.index_fill(dim, &index.0, value.0))
    }
    /// Writes values at the places a tuple of index tensors names; adds them with accumulate.
    #[pyo3(signature = (indices, values, accumulate=false))]
    fn index_put(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        values: Arg,
        #[pyo3(from_py_with = truth)] accumulate: bool,
    ) -> PyResult<PyTensor> {
        let places = self::indices(py, indices)?;
        out(compute(py, || Ok(self.0.index_put(places, values.0, accumulate)))?)
    }
    /// The value where the mask is true, this elsewhere.
    fn masked_fill(&self, mask: TensorArg, value: Arg) -> PyResult<PyTensor> {
        out(self.0.masked_fill(&mask.0, value.0))
    }
    /// The elements where the mask is true, as a vector; with size, as many, filled up with fill_value.
    #[pyo3(signature = (mask, size=None, fill_value=None))]
    fn masked_select(
        &self,
        py: Python<'_>,
        mask: TensorArg,
        size: Option<DimArg>,
        fill_value: Option<Arg>,
    ) -> PyResult<PyTensor> {
        out(match size {
            Some(n) => self.0.masked_select_sized(&mask.0, n.0, fill(fill_value)),
            None => compute(py, || self.0.masked_select(&mask.0))?,
        })
    }
    /// Elements of source, in order, where the mask is true.
    fn masked_scatter(&self, mask: TensorArg, source: TensorArg) -> PyResult<PyTensor> {
        out(self.0.masked_scatter(&mask.0, &source.0))
    }
    /// The places of the elements that are not zero: a row each; with as_tuple, a vector for each dim.
    #[pyo3(signature = (size=None, fill_value=None, as_tuple=false))]
    fn nonzero<'py>(
        &self,
        py: Python<'py>,
        size: Option<DimArg>,
        fill_value: Option<Arg>,
        #[pyo3(from_py_with = truth)] as_tuple: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = match size {
            Some(n) => self.0.nonzero_sized(n.0, fill(fill_value)),
            None if as_tuple => {
                return Ok(PyTuple::new(py, outs(compute(py, || self.0.nonzero_tuple())?)?)?.into_any());
            }
            None => compute(py, || self.0.nonzero())?,
        };
        if as_tuple {
            return Ok(PyTuple::new(py, outs(found.unbind(1))?)?.into_any());
        }
        Ok(Bound::new(py, out(found)?)?.into_any())
    }
    /// x where this is true, else y.
    fn r#where(&self, x: Arg, y: Arg) -> PyResult<PyTensor> {
        out(self.0.where_(x.0, y.0))
    }
    /// The place of each value among this tensor's sorted elements.
    #[pyo3(signature = (values, right=false, sorter=None))]
    fn searchsorted(
        &self,
        values: TensorArg,
        #[pyo3(from_py_with = truth)] right: bool,
        sorter: Option<TensorArg>,
    ) -> PyResult<PyTensor> {
        out(match sorter {
            Some(s) => self.0.searchsorted_by(&s.0, &values.0, right),
            None => self.0.searchsorted(&values.0, right),
        })
    }
    /// The bucket of each element, between sorted boundaries.
    #[pyo3(signature = (boundaries, right=false))]
    fn bucketize(
        &self,
        boundaries: TensorArg,
        #[pyo3(from_py_with = truth)] right: bool,
    ) -> PyResult<PyTensor> {
        out(self.0.bucketize(&boundaries.0, right))
    }
    /// A part of length elements along dim, from start.
    fn narrow(&self, dim: isize, start: DimArg, length: DimArg) -> PyResult<PyTensor> {
        let from_end = start.0.is_less(0).map_err(raised)?;
        let start = if from_end { start.0 + &self.0.shape()[dim] } else { start.0 };
        out(self.0.narrow(dim, start, length.0))
    }
}

/// What rows that are not there are made of.
fn fill(value: Option<Arg>) -> Operand {
    value.map_or(Operand::from(0), |v| v.0)
}
