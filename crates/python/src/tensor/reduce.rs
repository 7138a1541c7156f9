//! Fewer elements: reductions, scans, ranking, counting.

use super::{PyTensor, out, pair, ranked};
use crate::convert::{Arg, Ints, TensorArg, axes, count, truth, type_name};
use crate::dtype::DTypeArg;
use crate::error::compute;
use frit::{Axes, Tensor};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Reductions over axes: name, the Rust method. `dim` is torch's word for `axis`.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, keepdim=false, *, dim=None))]
            fn $name(&self, axis: Option<Ints>, #[pyo3(from_py_with = truth)] keepdim: bool, dim: Option<Ints>) -> PyResult<PyTensor> {
                out(self.0.$method(axes(axis.or(dim), keepdim)))
            }
        )*}
    };
}
reductions! {
    /// Whether any element is true (not zero), over axes or all.
    any       any;
    /// Whether all elements are true (not zero), over axes or all.
    all       all;
    /// The mean over axes or all.
    mean      mean;
    /// log(sum(exp(x))) over axes or all, without overflow.
    logsumexp logsumexp;
    /// The greatest over axes or all.
    amax      max;
    /// The least over axes or all.
    amin      min;
}

/// An axis with its place in the words of both libraries.
fn one(axis: Option<isize>, dim: Option<isize>, default: isize) -> isize {
    axis.or(dim).unwrap_or(default)
}

impl PyTensor {
    /// torch's `max(dim)` gives values and places; tinygrad's `max(axis)` values.
    fn extreme<'py>(
        &self,
        py: Python<'py>,
        axis: Option<Bound<'py, PyAny>>,
        keepdim: bool,
        dim: Option<isize>,
        least: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let t = &self.0;
        if let Some(d) = dim {
            let one = axes(Some(Ints(vec![d as i64])), keepdim);
            let (values, places) = match least {
                true => (t.min(one.clone()), t.argmin_axes(one)),
                false => (t.max(one.clone()), t.argmax_axes(one)),
            };
            return ranked(py, (values, places));
        }
        // torch's `max(other)`
        if let Some(other) = &axis
            && other.is_instance_of::<PyTensor>()
        {
            let o = other.extract::<TensorArg>()?.0;
            let t = if least { t.minimum(&o) } else { t.maximum(&o) };
            return Ok(Bound::new(py, out(t)?)?.into_any());
        }
        let axis = axis.map(|a| a.extract::<Ints>()).transpose()?;
        let all = axes(axis, keepdim);
        Ok(Bound::new(py, out(if least { t.min(all) } else { t.max(all) })?)?.into_any())
    }
    fn in_type(&self, dtype: Option<DTypeArg>) -> Tensor {
        dtype.map_or_else(|| self.0.clone(), |d| self.0.cast(d.0))
    }
}

fn correction(correction: Option<i64>, unbiased: Option<bool>) -> i64 {
    correction.or(unbiased.map(i64::from)).unwrap_or(1)
}

#[pymethods]
impl PyTensor {
    /// The sum over axes or all; small integers add up in int32, or in the type given.
    #[pyo3(signature = (axis=None, keepdim=false, dtype=None, *, dim=None))]
    fn sum(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dtype: Option<DTypeArg>,
        dim: Option<Ints>,
    ) -> PyResult<PyTensor> {
        let all = axes(axis.or(dim), keepdim);
        out(match dtype {
            Some(d) => self.0.sum_as(all, d.0),
            None => self.0.sum(all),
        })
    }
    /// The product over axes or all.
    #[pyo3(signature = (axis=None, keepdim=false, dtype=None, *, dim=None))]
    fn prod(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dtype: Option<DTypeArg>,
        dim: Option<Ints>,
    ) -> PyResult<PyTensor> {
        out(self.in_type(dtype).prod(axes(axis.or(dim), keepdim)))
    }
    /// The greatest over axes or all; ``max(dim=d)`` gives values and places, as torch's.
    #[pyo3(signature = (axis=None, keepdim=false, *, dim=None))]
    fn max<'py>(
        &self,
        py: Python<'py>,
        axis: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dim: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.extreme(py, axis, keepdim, dim, false)
    }
    /// The least over axes or all; ``min(dim=d)`` gives values and places, as torch's.
    #[pyo3(signature = (axis=None, keepdim=false, *, dim=None))]
    fn min<'py>(
        &self,
        py: Python<'py>,
        axis: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dim: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.extreme(py, axis, keepdim, dim, true)
    }
    /// The variance over axes or all.
    #[pyo3(signature = (axis=None, keepdim=false, correction=None, *, dim=None, unbiased=None), text_signature = "($self, axis=None, keepdim=False, correction=1, *, dim=None, unbiased=None)")]
    fn var(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        correction: Option<i64>,
        dim: Option<Ints>,
        unbiased: Option<bool>,
    ) -> PyResult<PyTensor> {
        out(self.0.var(axes(axis.or(dim), keepdim), self::correction(correction, unbiased)))
    }
    /// The standard deviation over axes or all.
    #[pyo3(signature = (axis=None, keepdim=false, correction=None, *, dim=None, unbiased=None), text_signature = "($self, axis=None, keepdim=False, correction=1, *, dim=None, unbiased=None)")]
    fn std(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        correction: Option<i64>,
        dim: Option<Ints>,
        unbiased: Option<bool>,
    ) -> PyResult<PyTensor> {
        out(self.0.std(axes(axis.or(dim), keepdim), self::correction(correction, unbiased)))
    }
    /// Variance and mean over axes or all.
    #[pyo3(signature = (axis=None, keepdim=false, correction=1))]
    fn var_mean(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        correction: i64,
    ) -> PyResult<(PyTensor, PyTensor)> {
        pair(self.0.var_mean(axes(axis, keepdim), correction))
    }
    /// Standard deviation and mean over axes or all.
    #[pyo3(signature = (axis=None, keepdim=false, correction=1))]
    fn std_mean(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        correction: i64,
    ) -> PyResult<(PyTensor, PyTensor)> {
        pair(self.0.std_mean(axes(axis, keepdim), correction))
    }
    /// The p-norm over axes or all.
    #[pyo3(signature = (p=2.0, axis=None, keepdim=false, *, dim=None))]
    fn norm(
        &self,
        p: f64,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dim: Option<Ints>,
    ) -> PyResult<PyTensor> {
        out(self.0.norm(p, axes(axis.or(dim), keepdim)))
    }
    /// The place of the greatest along an axis, or in the flattened tensor; the first where there are several.
    #[pyo3(signature = (axis=None, keepdim=false, *, dim=None))]
    fn argmax(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dim: Option<Ints>,
    ) -> PyResult<PyTensor> {
        out(self.0.argmax_axes(axes(axis.or(dim), keepdim)))
    }
    /// The place of the least along an axis, or in the flattened tensor; the first where there are several.
    #[pyo3(signature = (axis=None, keepdim=false, *, dim=None))]
    fn argmin(
        &self,
        axis: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        dim: Option<Ints>,
    ) -> PyResult<PyTensor> {
        out(self.0.argmin_axes(axes(axis.or(dim), keepdim)))
    }
    /// Running sums along an axis.
    #[pyo3(signature = (axis=None, *, dim=None), text_signature = "($self, axis=0, *, dim=None)")]
    fn cumsum(&self, axis: Option<isize>, dim: Option<isize>) -> PyResult<PyTensor> {
        out(self.0.cumsum(one(axis, dim, 0)))
    }
    /// Running products along an axis.
    #[pyo3(signature = (axis=None, *, dim=None), text_signature = "($self, axis=0, *, dim=None)")]
    fn cumprod(&self, axis: Option<isize>, dim: Option<isize>) -> PyResult<PyTensor> {
        out(self.0.cumprod(one(axis, dim, 0)))
    }
    /// Running greatest along an axis, and their places.
    #[pyo3(signature = (axis=None, *, dim=None), text_signature = "($self, axis=0, *, dim=None)")]
    fn cummax<'py>(
        &self,
        py: Python<'py>,
        axis: Option<isize>,
        dim: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        ranked(py, self.0.cummax(one(axis, dim, 0)))
    }
    /// Running least along an axis, and their places.
    #[pyo3(signature = (axis=None, *, dim=None), text_signature = "($self, axis=0, *, dim=None)")]
    fn cummin<'py>(
        &self,
        py: Python<'py>,
        axis: Option<isize>,
        dim: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        ranked(py, self.0.cummin(one(axis, dim, 0)))
    }
    /// Running log(sum(exp(x))) along an axis.
    #[pyo3(signature = (axis=None, *, dim=None), text_signature = "($self, axis=0, *, dim=None)")]
    fn logcumsumexp(&self, axis: Option<isize>, dim: Option<isize>) -> PyResult<PyTensor> {
        out(self.0.logcumsumexp(one(axis, dim, 0)))
    }
    /// exp(x) as fractions of its sum along an axis.
    #[pyo3(signature = (axis=None, dtype=None, *, dim=None), text_signature = "($self, axis=-1, dtype=None, *, dim=None)")]
    fn softmax(
        &self,
        axis: Option<isize>,
        dtype: Option<DTypeArg>,
        dim: Option<isize>,
    ) -> PyResult<PyTensor> {
        out(self.in_type(dtype).softmax(one(axis, dim, -1)))
    }
    /// log(softmax(x)) along an axis, without overflow.
    #[pyo3(signature = (axis=None, dtype=None, *, dim=None), text_signature = "($self, axis=-1, dtype=None, *, dim=None)")]
    fn log_softmax(
        &self,
        axis: Option<isize>,
        dtype: Option<DTypeArg>,
        dim: Option<isize>,
    ) -> PyResult<PyTensor> {
        out(self.in_type(dtype).log_softmax(one(axis, dim, -1)))
    }
    /// softmax(-x) along an axis.
    #[pyo3(signature = (axis=None, dtype=None, *, dim=None), text_signature = "($self, axis=-1, dtype=None, *, dim=None)")]
    fn softmin(
        &self,
        axis: Option<isize>,
        dtype: Option<DTypeArg>,
        dim: Option<isize>,
    ) -> PyResult<PyTensor> {
        out(self.in_type(dtype).softmin(one(axis, dim, -1)))
    }
    /// Sorted along dim, and the places the elements came from.
    #[pyo3(signature = (dim=-1, descending=false, stable=true), text_signature = "($self, dim=-1, descending=False, stable=True)")]
    fn sort<'py>(
        &self,
        py: Python<'py>,
        dim: isize,
        #[pyo3(from_py_with = truth)] descending: bool,
        #[pyo3(from_py_with = truth)] stable: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stable; // always
        ranked(py, self.0.sort(dim, descending))
    }
    /// The places that sort it along dim.
    #[pyo3(signature = (dim=-1, descending=false, stable=true), text_signature = "($self, dim=-1, descending=False, stable=True)")]
    fn argsort(
        &self,
        dim: isize,
        #[pyo3(from_py_with = truth)] descending: bool,
        #[pyo3(from_py_with = truth)] stable: bool,
    ) -> PyResult<PyTensor> {
        let _ = stable; // always
        out(self.0.argsort(dim, descending))
    }
    /// Sorted along the first dim.
    fn msort(&self) -> PyResult<PyTensor> {
        out(self.0.msort())
    }
    /// The k greatest (or least) along dim, in order, and their places.
    #[pyo3(signature = (k, dim=-1, largest=true, sorted_=true, *, sorted=true), text_signature = "($self, k, dim=-1, largest=True, sorted_=True, *, sorted=True)")]
    fn topk<'py>(
        &self,
        py: Python<'py>,
        k: i64,
        dim: isize,
        #[pyo3(from_py_with = truth)] largest: bool,
        #[pyo3(from_py_with = truth)] sorted_: bool,
        #[pyo3(from_py_with = truth)] sorted: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let k = count(k, "k")?;
        let _ = (sorted_, sorted); // always
        ranked(py, self.0.topk(k, dim, largest))
    }
    /// The k-th least along dim, from 1, and its place.
    #[pyo3(signature = (k, dim=-1, keepdim=false), text_signature = "($self, k, dim=-1, keepdim=False)")]
    fn kthvalue<'py>(
        &self,
        py: Python<'py>,
        k: i64,
        dim: isize,
        #[pyo3(from_py_with = truth)] keepdim: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let k = count(k, "k")?;
        ranked(py, self.0.kthvalue(k, along(dim, keepdim)))
    }
    /// The lower median of all elements; along dim, it and its place.
    #[pyo3(signature = (dim=None, keepdim=false))]
    fn median<'py>(
        &self,
        py: Python<'py>,
        dim: Option<isize>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        value_or_pair(py, dim, |d| self.0.median(d), keepdim)
    }
    /// The median of the elements that are not NaN.
    #[pyo3(signature = (dim=None, keepdim=false))]
    fn nanmedian<'py>(
        &self,
        py: Python<'py>,
        dim: Option<isize>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        value_or_pair(py, dim, |d| self.0.nanmedian(d), keepdim)
    }
    /// The most frequent value along dim, and a place where it is.
    #[pyo3(signature = (dim=-1, keepdim=false), text_signature = "($self, dim=-1, keepdim=False)")]
    fn mode<'py>(
        &self,
        py: Python<'py>,
        dim: isize,
        #[pyo3(from_py_with = truth)] keepdim: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        ranked(py, self.0.mode(along(dim, keepdim)))
    }
    /// The value below which a fraction q of the elements lie.
    #[pyo3(signature = (q, dim=None, keepdim=false, *, interpolation="linear"))]
    fn quantile(
        &self,
        q: Arg,
        dim: Option<Ints>,
        #[pyo3(from_py_with = truth)] keepdim: bool,
        interpolation: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.quantile(q.0, axes(dim, keepdim), interpolation))
    }
    /// The distinct values, sorted; with the flags, also where each element went and how often each value was there.
    /// Along a dim, the distinct slices.
    #[pyo3(signature = (sorted=true, return_inverse=false, return_counts=false, dim=None))]
    fn unique<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = truth)] sorted: bool,
        #[pyo3(from_py_with = truth)] return_inverse: bool,
        #[pyo3(from_py_with = truth)] return_counts: bool,
        dim: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = sorted; // always
        let u = compute(py, || match dim {
            Some(d) => self.0.unique_along(d),
            None => self.0.unique_all(),
        })?;
        parts(py, u, return_inverse, return_counts)
    }
    /// The values without repetitions of the one before.
    #[pyo3(signature = (return_inverse=false, return_counts=false))]
    fn unique_consecutive<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = truth)] return_inverse: bool,
        #[pyo3(from_py_with = truth)] return_counts: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let u = compute(py, || self.0.unique_consecutive())?;
        parts(py, u, return_inverse, return_counts)
    }
    /// How often each of 0, 1, 2, ... occurs, or the sum of their weights.
    #[pyo3(signature = (weights=None, minlength=0))]
    fn bincount(&self, py: Python<'_>, weights: Option<TensorArg>, minlength: i64) -> PyResult<PyTensor> {
        let minlength = count(minlength, "minlength")?;
        out(compute(py, || self.0.bincount(weights.as_ref().map(|w| &w.0), minlength))?)
    }
    /// How many elements lie in each of so many equal intervals.
    #[pyo3(signature = (bins=100, min=0.0, max=0.0))]
    fn histc(&self, bins: i64, min: f64, max: f64) -> PyResult<PyTensor> {
        let bins = count(bins, "bins")?;
        out(self.0.histc(bins, min, max))
    }
    /// How many elements are not zero, over axes or all.
    #[pyo3(signature = (axis=None, *, dim=None))]
    fn count_nonzero(&self, axis: Option<Ints>, dim: Option<Ints>) -> PyResult<PyTensor> {
        out(self.0.ne(0).sum(axes(axis.or(dim), false)))
    }
    /// A reduction in einops notation: ``x.einops_reduce("b c h w -> b c", "mean")``.
    #[pyo3(signature = (formula, reduction, **sizes))]
    fn einops_reduce(
        &self,
        formula: &str,
        reduction: &str,
        sizes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        let sizes = named_sizes(sizes)?;
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        out(self.0.einops_reduce(formula, reduction, &sizes))
    }
}

fn along(dim: isize, keepdim: bool) -> Axes {
    axes(Some(Ints(vec![dim as i64])), keepdim)
}

/// Over all elements a value; along a dim a pair.
fn value_or_pair<'py>(
    py: Python<'py>,
    dim: Option<isize>,
    f: impl FnOnce(Axes) -> (Tensor, Tensor),
    keepdim: bool,
) -> PyResult<Bound<'py, PyAny>> {
    match dim {
        Some(d) => ranked(py, f(along(d, keepdim))),
        None => Ok(Bound::new(py, out(f(axes(None, keepdim)).0)?)?.into_any()),
    }
}

fn parts(py: Python<'_>, u: frit::Unique, inverse: bool, counts: bool) -> PyResult<Bound<'_, PyAny>> {
    let mut all = vec![out(u.values)?];
    if inverse {
        all.push(out(u.inverse)?);
    }
    if counts {
        all.push(out(u.counts)?);
    }
    match all.len() {
        1 => Ok(Bound::new(py, all.remove(0))?.into_any()),
        _ => Ok(PyTuple::new(py, all)?.into_any()),
    }
}

/// Sizes by name, from keyword arguments.
pub fn named_sizes(sizes: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, usize)>> {
    let Some(d) = sizes else { return Ok(vec![]) };
    let size = |v: Bound<'_, PyAny>| {
        v.extract::<usize>()
            .map_err(|_| PyTypeError::new_err(format!("expected a size, not {}", type_name(&v))))
    };
    d.iter().map(|(k, v)| Ok((k.extract::<String>()?, size(v)?))).collect()
}
