//! Sorting and what is found by it: order, the greatest few, medians, quantiles, places in a sorted list.
//!
//! Places are int32. Equal elements keep their order, -0 is 0, and NaN is greater than everything, as torch has it. Of
//! equal elements the first are found, in `topk`, `kthvalue` and quantiles too: torch leaves open which, and finds
//! others from one version to the next.

use crate::error::{Error, Result, call, fail};
use crate::index::gather_along;
use crate::movement::fixed;
use crate::operand::Operand;
use crate::shape::{self, Axes, keepdim, show_all};
use crate::sort;
use crate::tensor::Tensor;
use crate::trace::{Composite, noted};
use frit_uop::{DType, UOp};

/// Both results, or both failed.
fn both(r: Result<(Tensor, Tensor)>) -> (Tensor, Tensor) {
    r.unwrap_or_else(|e| (Tensor::failed(e.clone()), Tensor::failed(e)))
}

/// `(values, places)` of the first `keep` along an axis in order, the axis where it was.
fn ranked(op: &'static str, x: &UOp, axis: usize, descending: bool, keep: &UOp) -> Result<(UOp, UOp)> {
    let rank = x.shape().len();
    let mut to_front: Vec<usize> = vec![axis];
    to_front.extend((0..rank).filter(|a| *a != axis));
    let mut back = vec![0; rank];
    for (i, &a) in to_front.iter().enumerate() {
        back[a] = i;
    }
    let places = sort::order(op, &x.permute(&to_front), descending, keep)?.permute(&back);
    Ok((gather_along(op, x, axis, &places)?, places))
}

/// What a choice along one axis works on: the tensor and its axis, all elements in one dim where all axes are meant.
struct Line {
    x: Tensor,
    dim: isize,
    n: i64,
    axes: Axes,
    rank: usize,
}

impl Line {
    fn of(op: &'static str, x: &Tensor, axes: Axes) -> Result<Line> {
        let u = x.uop()?;
        let rank = u.shape().len();
        let at = axes.resolve(op, rank)?;
        let (x, dim) = match at[..] {
            [a] => (x.clone(), a as isize),
            _ if at.len() == rank => (x.reshape([-1]), 0),
            _ => return fail!(op, "takes one axis or all of them, not {at:?}"),
        };
        let n = fixed(op, &x.uop()?.shape()[dim as usize])?;
        if n == 0 {
            return fail!(op, "there is no element along axes {at:?} of shape {}", show_all(u.shape()));
        }
        Ok(Line { x, dim, n, axes, rank })
    }
    /// A result with the axis at size 1, as it was asked for.
    fn finish(&self, t: Tensor) -> Tensor {
        match (self.axes.keep, self.rank == self.x.rank()) {
            (true, true) => t,
            (true, false) => t.reshape(vec![1usize; self.rank]),
            (false, _) => t.squeeze(self.dim),
        }
    }
    /// Values and places at `ranks` (int32, size 1 along the axis) of the sorted axis.
    fn at_rank(&self, ranks: &Tensor) -> (Tensor, Tensor) {
        let places = self.x.argsort(self.dim, false).gather(self.dim, ranks);
        (self.finish(self.x.gather(self.dim, &places)), self.finish(places))
    }
    /// How many NaN there are, the axis at size 1.
    fn nans(&self) -> Tensor {
        self.x.ne(&self.x).cast(DType::I32).sum(keepdim(self.dim))
    }
}

impl Tensor {
    /// Sorted along an axis, and where each element was. Equal elements keep their order; NaN is greater than all
    /// others.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (values, places) = Tensor::new([3, 1, 2]).sort(0, false);
    /// assert_eq!(values.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(places.to_vec::<i32>()?, [1, 2, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: isize, descending: bool) -> (Tensor, Tensor) {
        let _c = call("sort");
        self.ranked("sort", dim, descending, None)
    }
    /// Where the elements of the sorted axis were.
    #[track_caller]
    pub fn argsort(&self, dim: isize, descending: bool) -> Tensor {
        let _c = call("argsort");
        self.ranked("argsort", dim, descending, None).1
    }
    /// Sorted along the first axis.
    #[track_caller]
    pub fn msort(&self) -> Tensor {
        let _c = call("msort");
        self.ranked("msort", 0, false, None).0
    }
    /// The `k` greatest along an axis (or the least), in order, and where they were.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (values, places) = Tensor::new([3.0, 9.0, 1.0, 7.0]).topk(2, 0, true);
    /// assert_eq!(values.to_vec::<f32>()?, [9.0, 7.0]);
    /// assert_eq!(places.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, dim: isize, largest: bool) -> (Tensor, Tensor) {
        let _c = call("topk");
        self.ranked("topk", dim, largest, Some(k as i64))
    }
    #[track_caller]
    fn ranked(&self, op: &'static str, dim: isize, descending: bool, keep: Option<i64>) -> (Tensor, Tensor) {
        let (values, places) = self.ranked_graph(op, dim, descending, keep);
        let what = |places| {
            let axis = dim.rem_euclid(self.rank().max(1) as isize) as usize;
            move || Composite::TopK { axis, count: keep, largest: descending, places }
        };
        (noted(what(false), &[Some(self)], values), noted(what(true), &[Some(self)], places))
    }
    #[track_caller]
    fn ranked_graph(
        &self,
        op: &'static str,
        dim: isize,
        descending: bool,
        keep: Option<i64>,
    ) -> (Tensor, Tensor) {
        both(self.uop().and_then(|x| {
            if x.shape().is_empty() && matches!(dim, 0 | -1) {
                if let Some(k @ 2..) = keep {
                    return fail!(op, "{k} of a scalar");
                }
                return Ok((Tensor::of(Ok(x)), Tensor::of(Ok(UOp::int(0, DType::I32)))));
            }
            let axis = shape::axis(op, dim, x.shape().len())?;
            let n = &x.shape()[axis];
            let keep = keep.map_or_else(|| n.clone(), UOp::index);
            if shape::holds(op, &n.lt(&keep))? {
                let (k, n) = (shape::show(&keep), shape::show(n));
                return fail!(op, "{k} of {n} elements along axis {axis} of shape {}", show_all(x.shape()));
            }
            let (values, places) = ranked(op, &x, axis, descending, &keep)?;
            Ok((Tensor::of(Ok(values)), Tensor::of(Ok(places))))
        }))
    }
    /// The `k`-th least along an axis (1 is the least), and where it is; over all elements with `..`.
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let _c = call("kthvalue");
        both(Line::of("kthvalue", self, axes.into()).and_then(|l| {
            if k == 0 || k as i64 > l.n {
                return fail!("kthvalue", "k = {k} is not in 1..={}", l.n);
            }
            let (values, places) = l.x.topk(k, l.dim, false);
            let last = |t: &Tensor| l.finish(t.narrow(l.dim, k - 1, 1));
            Ok((last(&values), last(&places)))
        }))
    }
    /// The median along an axis (of an even count the lower one), and where it is; NaN if there is one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (m, at) = Tensor::new([4.0, 1.0, 3.0, 2.0]).median(..);
    /// assert_eq!((m.item::<f32>()?, at.item::<i32>()?), (2.0, 3));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let _c = call("median");
        both(Line::of("median", self, axes.into()).map(|l| {
            let nans = l.nans();
            l.at_rank(&nans.gt(0).where_(nans.neg() + l.n, (l.n - 1) / 2))
        }))
    }
    /// The median along an axis of what is not NaN (of an even count the lower one), and where it is.
    #[track_caller]
    pub fn nanmedian(&self, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let _c = call("nanmedian");
        both(Line::of("nanmedian", self, axes.into()).map(|l| {
            let last = l.nans().neg() + (l.n - 1);
            l.at_rank(&last.clamp_min(0).floor_div(2))
        }))
    }
    /// The most frequent element along an axis (of several the least), and where it is last.
    #[track_caller]
    pub fn mode(&self, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let _c = call("mode");
        both(Line::of("mode", self, axes.into()).map(|l| {
            let (sorted, places) = l.x.sort(l.dim, false);
            let begins = sorted.begins_runs(l.dim);
            let count = Tensor::arange(l.n).standing(sorted.rank(), l.dim).expand_as(&begins);
            // how long the run is that ends here
            let since = begins.where_(&count, 0).cummax(l.dim).0;
            let best = (count - since).argmax_axes(keepdim(l.dim));
            let at = places.gather(l.dim, &best);
            (l.finish(l.x.gather(l.dim, &at)), l.finish(at))
        }))
    }
    /// A vector standing along one of `rank` axes.
    fn standing(&self, rank: usize, dim: isize) -> Tensor {
        let mut dims = vec![1isize; rank];
        if let Some(d) = dims.get_mut(dim as usize) {
            *d = -1;
        }
        self.reshape(dims)
    }
    /// Where an element differs from the one before it along an axis; true for the first.
    pub(crate) fn begins_runs(&self, dim: isize) -> Tensor {
        let first = Tensor::arange(self.shape()[dim].clone()).standing(self.rank(), dim).eq(0);
        first.logical_or(self.ne(self.roll(1, dim)))
    }
    /// The value below which a share `q` of the elements along an axis lies: between two elements by "linear" (the
    /// usual), "lower", "higher", "nearest" or "midpoint". `q` is a number, or a vector that becomes the first dim.
    /// NaN where there is one.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.quantile(0.25, .., "linear").item::<f32>()?, 1.75);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn quantile(&self, q: impl Into<Operand>, axes: impl Into<Axes>, between: &str) -> Tensor {
        let _c = call("quantile");
        let q = q.into();
        let found = Line::of("quantile", self, axes.into()).and_then(|l| {
            if !l.x.dtype().is_float() {
                return fail!("quantile", "of {}; cast to a float type", l.x.dtype());
            }
            if let Operand::Number(v, _) = &q
                && !(0.0..=1.0).contains(&v.as_f64())
            {
                return fail!("quantile", "{} is not in 0..=1", v.as_f64());
            }
            let wide = if l.x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            let q = q.tensor().cast(wide);
            if q.rank() > 1 {
                return fail!("quantile", "q of shape {}: a number or a vector", q.shape());
            }
            let at = &q * (l.n - 1) as f64;
            let (low, high) = (at.floor(), at.ceil());
            let (low, high) = match between {
                "linear" | "midpoint" => (low, high),
                "lower" => (low.clone(), low),
                "higher" => (high.clone(), high),
                "nearest" => (at.round(), at.round()),
                _ => {
                    return fail!(
                        "quantile",
                        "{between:?} is not linear, lower, higher, nearest or midpoint"
                    );
                }
            };
            let sorted = l.x.sort(l.dim, false).0.movedim(l.dim, 0);
            let row = |t: &Tensor| sorted.at(t.cast(DType::I32)).cast(wide); // (q…, rest…)
            let share = if between == "midpoint" { Tensor::full((), 0.5).cast(wide) } else { &at - &low };
            let share = (0..sorted.rank() - 1).fold(share, |s, _| s.unsqueeze(-1));
            let value = row(&low).lerp(&row(&high), &share);
            let lost = l.x.ne(&l.x).any(l.dim);
            let value = lost.where_(f64::NAN, value).cast(l.x.dtype());
            let lead = q.rank() as isize;
            Ok(match (l.axes.keep, l.rank == l.x.rank()) {
                (true, true) => value.unsqueeze(lead + l.dim),
                (true, false) => (0..l.rank).fold(value, |v, _| v.unsqueeze(-1)),
                (false, _) => value,
            })
        });
        found.unwrap_or_else(Tensor::failed)
    }
    /// Where values would go in a list that is sorted along its last axis: before equal elements, or behind them with
    /// `right`. The list is a vector, or has the leading dims of the values.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let list = Tensor::new([1, 3, 5]);
    /// assert_eq!(list.searchsorted(&Tensor::new([0, 3, 9]), false).to_vec::<i32>()?, [0, 1, 3]);
    /// assert_eq!(list.searchsorted(&Tensor::new([0, 3, 9]), true).to_vec::<i32>()?, [0, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        let _c = call("searchsorted");
        self.search(values, right).unwrap_or_else(Tensor::failed)
    }
    /// [`searchsorted`](Tensor::searchsorted) in a list that is not sorted itself, with the places that sort it.
    #[track_caller]
    pub fn searchsorted_by(&self, sorter: &Tensor, values: &Tensor, right: bool) -> Tensor {
        let _c = call("searchsorted");
        self.gather(-1, sorter).search(values, right).unwrap_or_else(Tensor::failed)
    }
    /// Which of the ranges between sorted boundaries each element is in; a boundary belongs to the range below it, or
    /// above it with `right`.
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Tensor {
        let _c = call("bucketize");
        if boundaries.rank() != 1 && boundaries.check().is_ok() {
            let m = format!("boundaries of shape {}, not a vector", boundaries.shape());
            return Tensor::failed(Error::new("bucketize", m));
        }
        boundaries.search(self, right).unwrap_or_else(Tensor::failed)
    }
    /// By halves: as many steps as the length has bits, all in one kernel.
    fn search(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        let (list, v) = (self.uop()?, values.uop()?);
        let (l, s) = (list.shape(), v.shape());
        let alone = l.len() == 1;
        if l.is_empty() || !(alone || l.len() == s.len() && l[..l.len() - 1] == s[..l.len() - 1]) {
            return fail!(
                "searchsorted",
                "values of shape {} in a list of shape {}",
                show_all(s),
                show_all(l)
            );
        }
        let n = &l[l.len() - 1];
        let mut at = Tensor::full_dtype(values.shape(), 0, DType::I32);
        let mut step = (n.bounds.1 as u64 + 1).next_power_of_two() as i64 / 2;
        let size = |d: &UOp| Tensor::of(Ok(shape::dim_as(d, DType::I32)));
        let (last, n) = (size(&n.size_sub(&UOp::index(1)).size_max(&UOp::index(0))), size(n));
        while step > 0 {
            let next = &at + step;
            let place = (&next - 1).clamp_max(&last);
            let met = if alone { self.take(&place) } else { self.gather(-1, &place) };
            // NaN is after everything: neither is true for it
            let stop = if right { met.gt(values) } else { met.ge(values) };
            at = next.gt(&n).logical_or(stop).where_(&at, &next);
            step /= 2;
        }
        at.check().map(|_| at)
    }
}
