//! Gradients and assignment.

use super::create::of_value;
use super::{PyTensor, out, outs};
use crate::convert::{Arg, TensorArg, tensors};
use crate::error::{checked, compute, raised};
use crate::live;
use frit::{DType, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CString;
use std::sync::atomic::Ordering;

/// A new version of a tensor, made of the one it has; it keeps its old one where that fails. As torch has it, an in-place
/// operator never turns floats into integers, or numbers into bools.
pub fn update(place: &Tensor, f: impl FnOnce(Tensor) -> Tensor) -> PyResult<()> {
    let kind = |d: DType| (d != DType::Bool) as u8 + d.is_float() as u8;
    let to = place.dtype();
    let fitting = |made: Tensor| match made.dtype() {
        d if made.check().is_err() || kind(d) <= kind(to) => made,
        d => Tensor::failed(frit::Error::new(
            "update",
            format!("{d} values do not go into an {to} tensor; cast them"),
        )),
    };
    place.try_update(|x| fitting(f(x))).map_err(raised)
}

impl PyTensor {
    /// Mark it as something `backward` computes gradients for, or not.
    pub fn mark(&self, on: bool) -> PyResult<()> {
        if on && !self.0.dtype().is_float() {
            let text = format!("only float tensors have gradients, and this is {}", self.0.dtype());
            return Err(PyRuntimeError::new_err(text));
        }
        // a constant gets memory of its own, which computes
        let marked = Python::attach(|py| py.detach(|| self.0.requires_grad(on)));
        checked(marked).map(|_| ())
    }
    /// The tensors that get a gradient from this one: those marked, if it depends on any; else all floats that Python
    /// holds and did not exclude.
    fn targets(&self) -> PyResult<Vec<Tensor>> {
        let mut found: Vec<Tensor> = vec![];
        let live = live::all();
        let marked: Vec<Tensor> = live.iter().filter(|t| t.is_requires_grad()).cloned().collect();
        self.0.check_lineage(&marked).map_err(raised)?;
        for t in self.0.made_of(&live).map_err(raised)? {
            if t.dtype().is_float() && !found.iter().any(|f| f.is_same(t)) {
                found.push(t.clone());
            }
        }
        if found.iter().any(Tensor::is_requires_grad) {
            found.retain(Tensor::is_requires_grad);
        } else if found.iter().all(|t| t.is_same(&self.0)) && live.iter().any(Tensor::is_requires_grad) {
            let text = "backward: depends on no tensor with requires_grad=True; realising a tensor before its gradient is \
                        built cuts off what it was made of";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(found)
    }
    /// Say so where a marked tensor gets no gradient because something on the way was realised.
    fn warn_of_cuts(&self, py: Python, targets: &[Tensor]) -> PyResult<()> {
        let is_target = |t: &Tensor| targets.iter().any(|o| o.is_same(t));
        for t in live::all().iter().filter(|t| t.is_requires_grad() && !is_target(t)) {
            if self.0.is_cut_off_from(t).map_err(raised)? {
                let shape = t.shape();
                let text = format!(
                    "backward: the tensor of shape {shape} with requires_grad=True gets no gradient: what was made of it was \
                     realised, which cuts off its history (detach() it where that is meant)"
                );
                PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &CString::new(text)?, 1)?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl PyTensor {
    /// Computes the gradient of this scalar (or of anything, given its own gradient) and adds it to ``grad`` of the
    /// tensors it depends on: of those marked with ``requires_grad=True``, if there are any, else of all.
    #[pyo3(signature = (gradient=None))]
    fn backward<'py>(slf: Bound<'py, Self>, gradient: Option<TensorArg>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        let targets = this.targets()?;
        if targets.is_empty() && !this.0.dtype().is_float() {
            let text = format!("backward: only floats have gradients, and this is {}", this.0.dtype());
            return Err(PyRuntimeError::new_err(text));
        }
        this.warn_of_cuts(slf.py(), &targets)?;
        let list: Vec<&Tensor> = targets.iter().collect();
        let grads = compute(slf.py(), || match &gradient {
            Some(g) => this.0.gradient_with_or_zeros(&g.0, &list),
            None => this.0.gradient_or_zeros(&list),
        })?;
        for (t, g) in targets.iter().zip(grads) {
            let sum = match t.grad() {
                Some(old) => checked(old.add(&g))?,
                None => g,
            };
            t.set_grad(Some(sum));
        }
        Ok(slf)
    }
    /// The gradients of this with respect to tensors, as a list; zeros for one that it does not depend on, with or
    /// without ``materialize_grads``.
    #[pyo3(signature = (*targets, gradient=None, materialize_grads=false))]
    fn gradient(
        &self,
        py: Python<'_>,
        targets: &Bound<'_, PyTuple>,
        gradient: Option<TensorArg>,
        materialize_grads: bool,
    ) -> PyResult<Vec<PyTensor>> {
        let targets = tensors(targets)?;
        let list: Vec<&Tensor> = targets.iter().collect();
        let _ = materialize_grads;
        outs(compute(py, || match &gradient {
            Some(g) => self.0.gradient_with_or_zeros(&g.0, &list),
            None => self.0.gradient_or_zeros(&list),
        })?)
    }
    /// The gradient that backward calls have added up, or None.
    #[getter]
    fn grad(&self) -> PyResult<Option<PyTensor>> {
        self.0.grad().map(out).transpose()
    }
    #[setter]
    fn set_grad(&self, g: Option<TensorArg>) -> PyResult<()> {
        if let Some(g) = &g
            && g.0.shape() != self.0.shape()
        {
            let text = format!("a gradient of shape {} for shape {}", g.0.shape(), self.0.shape());
            return Err(PyRuntimeError::new_err(text));
        }
        self.0.set_grad(g.map(|g| g.0));
        Ok(())
    }
    /// Whether backward computes its gradient: True, False, or None where the program did not say.
    #[getter]
    pub fn requires_grad(&self) -> Option<bool> {
        match self.0.is_requires_grad() {
            true => Some(true),
            false => self.1.none.load(Ordering::Relaxed).then_some(false),
        }
    }
    #[setter]
    fn set_requires_grad(&self, on: Option<bool>) -> PyResult<()> {
        self.mark(on == Some(true))?;
        self.1.none.store(on == Some(false), Ordering::Relaxed);
        match on {
            Some(false) => live::exclude(&self.0),
            _ => live::remember(&self.0),
        }
        Ok(())
    }
    /// Marks it (or not) as something backward computes gradients for; gives it back.
    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_(slf: Bound<'_, Self>, requires_grad: bool) -> PyResult<Bound<'_, Self>> {
        slf.get().set_requires_grad(Some(requires_grad))?;
        Ok(slf)
    }
    /// Whether backward may compute its gradient.
    #[getter]
    fn is_param(&self) -> bool {
        self.requires_grad() != Some(false)
    }
    /// Says whether backward may compute its gradient; gives it back.
    #[pyo3(signature = (is_param=true))]
    fn is_param_(slf: Bound<'_, Self>, is_param: bool) -> PyResult<Bound<'_, Self>> {
        slf.get().set_requires_grad(Some(is_param))?;
        Ok(slf)
    }
    /// Forgets the gradient.
    fn zero_grad(&self) {
        self.0.set_grad(None);
    }
    /// Gives this tensor a new value, lazily; what was made from it before keeps the old one. Gives it back.
    fn assign<'py>(slf: Bound<'py, Self>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().0.try_assign(of_value(x)?).map_err(raised)?;
        Ok(slf)
    }
    /// Gives this tensor the values of another, as torch has it: of another type they are converted.
    fn copy_<'py>(slf: Bound<'py, Self>, src: TensorArg) -> PyResult<Bound<'py, Self>> {
        slf.get().0.try_assign(src.0).map_err(raised)?;
        Ok(slf)
    }
    /// Gives every element of this tensor one value.
    fn fill_<'py>(slf: Bound<'py, Self>, value: Arg) -> PyResult<Bound<'py, Self>> {
        slf.get().0.try_assign(value.0).map_err(raised)?;
        Ok(slf)
    }
    /// Gives every element of this tensor the value 0.
    fn zero_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().0.try_assign(0).map_err(raised)?;
        Ok(slf)
    }
    /// The same value, opaque to gradients.
    fn detach(&self) -> PyResult<PyTensor> {
        out(self.0.detach())
    }
    /// The same value, in memory of its own in row-major order where it is computed.
    #[pyo3(signature = (**kwargs))]
    fn contiguous(&self, kwargs: Option<&Bound<'_, pyo3::types::PyDict>>) -> PyResult<PyTensor> {
        let _ = kwargs;
        out(self.0.contiguous())
    }
    /// The same value; its gradient is materialised on the way back.
    fn contiguous_backward(&self) -> PyResult<PyTensor> {
        out(self.0.cast(self.0.dtype()))
    }
    fn __setitem__(&self, py: Python<'_>, idx: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let indices = super::index::indices(py, idx)?;
        let value = of_value(value)?;
        compute(py, || self.0.try_set(indices, value))
    }
    fn __delitem__(&self, idx: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = idx;
        Err(PyTypeError::new_err("elements of a tensor cannot be deleted"))
    }
}
