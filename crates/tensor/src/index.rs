//! Reading by place: slices, integers, index tensors, gather and scatter.
//!
//! A constant index out of range fails at the call. One that is data is checked when it runs: the next synchronising
//! call returns an error that names this op and the user's line. Negative indices count from the end, but not in a table
//! of embeddings.

use crate::error::{Error, Result, call, fail, fail_index, site};
use crate::movement::{clamped, cut, fixed, is_same_along, pad_axis};
use crate::reduce::along_axis;
use crate::shape::{self, Dim, dim_as, show, show_all};
use crate::tensor::{Tensor, check_devices, expand_to, filled};
use crate::windows::windows_dilated;
use frit_uop::{Alu, DType, Op, ScatterMode, UOp};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// What one place of an index can be.
#[derive(Clone, Debug)]
pub enum Index {
    /// One element; the dim goes away.
    At(Dim),
    /// Elements from `start` to before `end`, every `step`-th; out of range ends are cut off.
    Slice {
        /// First element; from the end if negative.
        start: Option<Dim>,
        /// Where to stop; from the end if negative.
        end: Option<Dim>,
        /// Negative walks backwards.
        step: i64,
    },
    /// As many full slices as are missing.
    Ellipsis,
    /// A new dim of size 1.
    NewAxis,
    /// The elements an integer tensor names; of a bool tensor, which stands for as many dims as it has, those where it
    /// is true.
    Tensor(Tensor),
    /// A new dim: of size 1 if true, else empty.
    Flag(bool),
}

/// As many full slices as are missing: `x.at((Ellipsis, 0))`.
pub struct Ellipsis;
/// A new dim of size 1: `x.at((NewAxis, ..))`.
pub struct NewAxis;

/// A slice with a step: `x.at(step(.., 2))`, `x.at(step(.., -1))`.
pub fn step(slice: impl Into<Index>, by: i64) -> Index {
    match slice.into() {
        Index::Slice { start, end, .. } => Index::Slice { start, end, step: by },
        other => other,
    }
}

impl From<Ellipsis> for Index {
    fn from(_: Ellipsis) -> Index {
        Index::Ellipsis
    }
}
impl From<NewAxis> for Index {
    fn from(_: NewAxis) -> Index {
        Index::NewAxis
    }
}
impl From<&Tensor> for Index {
    fn from(t: &Tensor) -> Index {
        Index::Tensor(t.clone())
    }
}
impl From<Tensor> for Index {
    fn from(t: Tensor) -> Index {
        Index::Tensor(t)
    }
}
impl From<bool> for Index {
    fn from(v: bool) -> Index {
        Index::Flag(v)
    }
}
impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::Slice { start: None, end: None, step: 1 }
    }
}
macro_rules! index_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Index { #[track_caller] fn from(v: $t) -> Index { Index::At(v.into()) } }
        impl From<Range<$t>> for Index { #[track_caller] fn from(r: Range<$t>) -> Index { Index::Slice { start: Some(r.start.into()), end: Some(r.end.into()), step: 1 } } }
        impl From<RangeFrom<$t>> for Index { #[track_caller] fn from(r: RangeFrom<$t>) -> Index { Index::Slice { start: Some(r.start.into()), end: None, step: 1 } } }
        impl From<RangeTo<$t>> for Index { #[track_caller] fn from(r: RangeTo<$t>) -> Index { Index::Slice { start: None, end: Some(r.end.into()), step: 1 } } }
        impl From<RangeInclusive<$t>> for Index { #[track_caller] fn from(r: RangeInclusive<$t>) -> Index { let (a, b) = r.into_inner(); Index::Slice { start: Some(a.into()), end: past(b.into()), step: 1 } } }
        impl From<RangeToInclusive<$t>> for Index { #[track_caller] fn from(r: RangeToInclusive<$t>) -> Index { Index::Slice { start: None, end: past(r.end.into()), step: 1 } } }
    )*};
}
index_from!(i32, i64, isize, usize, Dim);
/// A list is what a vector of it is: `x.at([2, 0, 2])`, `x.at([true, false])`.
macro_rules! index_from_list {
    ($($t:ty as $e:ty),*) => {$(
        impl<const N: usize> From<[$t; N]> for Index { #[track_caller] fn from(v: [$t; N]) -> Index { Index::from(&v[..]) } }
        impl From<&[$t]> for Index { #[track_caller] fn from(v: &[$t]) -> Index { Index::Tensor(Tensor::from_slice(&v.iter().map(|&v| v as $e).collect::<Vec<_>>())) } }
        impl From<Vec<$t>> for Index { #[track_caller] fn from(v: Vec<$t>) -> Index { Index::from(&v[..]) } }
    )*};
}
index_from_list!(i32 as i32, i64 as i64, isize as i64, usize as i64, bool as bool);
/// One past an included end; past -1 there is no end.
fn past(end: Dim) -> Option<Dim> {
    if end == -1 { None } else { Some(end + 1) }
}

/// An index for one or several dims.
#[derive(Clone, Debug)]
pub struct Indices(pub(crate) SmallVec<[Index; 4]>);
impl<T: Into<Index>> From<T> for Indices {
    fn from(i: T) -> Indices {
        Indices(SmallVec::from_iter([i.into()]))
    }
}
impl From<Vec<Index>> for Indices {
    fn from(v: Vec<Index>) -> Indices {
        Indices(v.into())
    }
}
macro_rules! indices_from_tuple {
    ($($T:ident $i:tt),*) => {
        impl<$($T: Into<Index>),*> From<($($T,)*)> for Indices { fn from(t: ($($T,)*)) -> Indices { Indices(SmallVec::from_iter([$(t.$i.into()),*])) } }
    };
}
indices_from_tuple!(A 0);
indices_from_tuple!(A 0, B 1);
indices_from_tuple!(A 0, B 1, C 2);
indices_from_tuple!(A 0, B 1, C 2, D 3);
indices_from_tuple!(A 0, B 1, C 2, D 3, E 4);
indices_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
indices_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
indices_from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
impl Indices {
    /// Whether elements are named by tensors, so that the result is no view.
    pub(crate) fn is_advanced(&self) -> bool {
        self.0.iter().any(|i| matches!(i, Index::Tensor(_) | Index::Flag(_)))
    }
}

/// The result of the basic part of an index: a view, and which of its dims index tensors replace.
pub(crate) struct Basic {
    pub node: UOp,
    pub tensors: Vec<(usize, UOp)>,
}

/// Apply ints, slices, ellipsis and new axes; leave index tensors to be applied.
pub(crate) fn basic(op: &'static str, x: &UOp, idx: &Indices) -> Result<Basic> {
    let rank = x.shape().len();
    let used =
        idx.0.iter().filter(|i| !matches!(i, Index::Ellipsis | Index::NewAxis | Index::Flag(_))).count();
    if used > rank {
        return fail_index!(op, "{used} indices for shape {}", show_all(x.shape()));
    }
    if idx.0.iter().filter(|i| matches!(i, Index::Ellipsis)).count() > 1 {
        return fail_index!(op, "more than one ellipsis");
    }
    // dims still to come, as (size, kept); the view keeps every dim until the final reshape
    let (mut node, mut at) = (x.clone(), 0);
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::new();
    let mut tensors = vec![];
    for i in &idx.0 {
        match i {
            Index::Ellipsis => {
                for _ in 0..rank - used {
                    dims.push(node.shape()[at].clone());
                    at += 1;
                }
            }
            Index::NewAxis => dims.push(UOp::index(1)),
            Index::At(d) => {
                let (n, v) = (node.shape()[at].clone(), d.0.clone()?);
                node = cut(&node, at, &place(op, &v, &n, x)?, &UOp::index(1));
                at += 1;
            }
            Index::Slice { start, end, step } => {
                node = slice(op, &node, at, start, end, *step)?;
                dims.push(node.shape()[at].clone());
                at += 1;
            }
            Index::Flag(v) => {
                tensors.push((dims.len(), filled(&[UOp::index(*v as i64)], UOp::int(0, DType::I32))));
                dims.push(UOp::index(1));
            }
            Index::Tensor(t) => {
                let t = t.uop()?;
                if !t.dtype.is_int() {
                    return fail_index!(op, "an index tensor must be of integers or bools, not {}", t.dtype);
                }
                tensors.push((dims.len(), t));
                dims.push(node.shape()[at].clone());
                at += 1;
            }
        }
    }
    dims.extend(node.shape()[at..].iter().cloned());
    Ok(Basic { node: node.reshape(&dims), tensors })
}

/// A place or an end counted from the end where it is negative.
fn from_end(op: &'static str, v: &UOp, n: &UOp) -> Result<UOp> {
    Ok(if shape::holds(op, &v.lt(&UOp::index(0)))? { n.size_add(v) } else { v.clone() })
}

/// A constant or symbolic place inside `0..n`.
fn place(op: &'static str, v: &UOp, n: &UOp, x: &UOp) -> Result<UOp> {
    let (at, zero) = (from_end(op, v, n)?, UOp::index(0));
    let last = n.size_sub(&UOp::index(1));
    // a place that has no value yet, as in a loop, must be inside for every value
    let is = |outside: &UOp| shape::holds(op, outside).unwrap_or(true);
    if is(&at.lt(&zero)) || is(&zero.lt(&at.size_sub(&last))) {
        return fail_index!(
            op,
            "index {} is out of range for size {} of shape {}",
            show(v),
            show(n),
            show_all(x.shape())
        );
    }
    // inside for other values too, so that no kernel reads beyond its memory
    let at = if last.size_sub(&at).bounds.0 >= 0 { at } else { at.size_min(&last) };
    Ok(at.size_max(&zero))
}

fn slice(
    op: &'static str,
    x: &UOp,
    axis: usize,
    start: &Option<Dim>,
    end: &Option<Dim>,
    step: i64,
) -> Result<UOp> {
    let n = &x.shape()[axis];
    if step == 0 {
        return fail!(op, "a slice with step 0");
    }
    let given = |d: &Option<Dim>| d.as_ref().map(|d| d.0.clone()).transpose();
    let (start, end) = (given(start)?, given(end)?);
    let symbolic =
        [Some(n), start.as_ref(), end.as_ref()].into_iter().flatten().any(|d| d.as_int().is_none());
    if step == 1 || symbolic {
        let (zero, one) = (UOp::index(0), UOp::index(1));
        let at = |d: Option<UOp>| d.map(|d| from_end(op, &d, n)).transpose();
        let (begin, end) = match step > 0 {
            true => (at(start)?, at(end)?),
            // backwards from `start` to one after `end`
            false => (at(end)?.map(|e| e.size_add(&one)), at(start)?.map(|s| s.size_add(&one))),
        };
        let (begin, length) = clamped(n, &begin.unwrap_or(zero), &end.unwrap_or_else(|| n.clone()));
        let part = cut(x, axis, &begin, &length);
        let part = if step < 0 { part.flip(&[axis]) } else { part };
        return Ok(every(&part, axis, step.unsigned_abs() as i64));
    }
    let n = fixed(op, n)?;
    let int = |d: Option<UOp>| d.map(|d| fixed(op, &d)).transpose();
    let (s, e) = (int(start)?, int(end)?);
    // a longer step picks no more
    let step = step.clamp(-n.max(1), n.max(1));
    let wrap = |v: i64, lo: i64, hi: i64| if v < 0 { v + n } else { v }.clamp(lo, hi);
    let (first, count) = if step > 0 {
        let (s, e) = (s.map_or(0, |v| wrap(v, 0, n)), e.map_or(n, |v| wrap(v, 0, n)));
        (s, (e - s + step - 1).div_euclid(step).max(0))
    } else {
        let (s, e) = (s.map_or(n - 1, |v| wrap(v, -1, n - 1)), e.map_or(-1, |v| wrap(v, -1, n - 1)));
        let count = (s - e - step - 1).div_euclid(-step).max(0);
        (s + step * (count - 1).max(0), count)
    };
    let stride = step.abs();
    if count == 0 {
        return Ok(cut(x, axis, &UOp::index(0), &UOp::index(0)));
    }
    // whole blocks if the tensor has them, so that nothing is padded
    let span = (count * stride).min(n - first);
    let part = cut(x, axis, &UOp::index(first), &UOp::index(span));
    let picked = windows_dilated(&part, axis, 1, stride, 1); // (.., 1, count, ..)
    let mut dims: SmallVec<[UOp; 4]> = picked.shape().iter().cloned().collect();
    dims.remove(axis);
    let picked = picked.reshape(&dims);
    Ok(if step < 0 { picked.flip(&[axis]) } else { picked })
}

/// The first of every `step` elements along an axis.
fn every(x: &UOp, axis: usize, step: i64) -> UOp {
    if step == 1 {
        return x.clone();
    }
    let (n, zero, one, step) = (&x.shape()[axis], UOp::index(0), UOp::index(1), UOp::index(step));
    let count = n.size_add(&step).size_sub(&one).size_div(&step);
    let whole = pad_axis(x, axis, &zero, &count.size_mul(&step).size_sub(n));
    let mut dims: SmallVec<[UOp; 4]> = x.shape().iter().cloned().collect();
    dims[axis] = count;
    let result = dims.clone();
    dims.insert(axis + 1, step);
    cut(&whole.reshape(&dims), axis + 1, &zero, &one).reshape(&result)
}

/// The integer type that holds places in `n` elements.
pub(crate) fn place_dtype(n: &UOp) -> DType {
    if n.bounds.1 > i32::MAX as i128 { DType::I64 } else { DType::I32 }
}

/// No index names a place where there are none; known before any data is looked at.
fn check_not_empty(op: &'static str, idx: &UOp, n: &UOp) -> Result<()> {
    if n.as_int() == Some(0) && idx.shape().iter().all(|d| d.bounds.0 > 0) {
        return fail_index!(op, "an index of shape {} into an axis of size 0", show_all(idx.shape()));
    }
    Ok(())
}

/// Negative indices counted from the end; places outside become -1, which no access accepts.
pub(crate) fn checked(idx: &UOp, n: &UOp, dtype: DType) -> UOp {
    inside(idx, n, dtype, true)
}

/// [`checked`], or with negative indices outside too.
fn inside(idx: &UOp, n: &UOp, dtype: DType, from_end: bool) -> UOp {
    let wide = if idx.dtype.size() == 8 { DType::I64 } else { dtype };
    let n = dim_as(n, wide);
    let i = idx.cast(wide);
    let zero = i.const_like(0);
    let from_end = from_end && !idx.dtype.is_unsigned();
    let i = if from_end { i.lt(&zero).select(&i.bin(Alu::Add, &n), &i) } else { i };
    let inside = i.lt(&zero).un(Alu::Not).and_(&i.lt(&n));
    inside.select(&i, &i.const_like(-1)).cast(dtype)
}

/// Row-major place of a list of coordinates; -1 if one of them is.
fn linear(coords: &[(UOp, UOp)], dtype: DType) -> UOp {
    let mut out: Option<(UOp, UOp)> = None;
    for (c, n) in coords {
        let bad = c.lt(&c.const_like(0));
        out = Some(match out {
            None => (c.clone(), bad),
            Some((l, b)) => (l.bin(Alu::Mul, &dim_as(n, dtype)).bin(Alu::Add, c), b.or_(&bad)),
        });
    }
    match out {
        Some((l, b)) if coords.len() > 1 => b.select(&l.const_like(-1), &l),
        Some((l, _)) => l,
        None => UOp::int(0, dtype),
    }
}

/// Elements named by index tensors, numpy's way: the tensors broadcast together; their dims stand where the first one
/// was if they are side by side, else in front.
fn advanced(op: &'static str, b: &Basic) -> Result<UOp> {
    let x = &b.node;
    let (idx, moved, places) = advanced_places(op, b)?;
    check_devices(op, &[x.clone(), idx.clone()])?;
    let rest = moved.shape()[b.tensors.len()..].to_vec();
    let mut flat: SmallVec<[UOp; 4]> =
        SmallVec::from_iter([shape::product(&moved.shape()[..b.tensors.len()])]);
    flat.extend(rest.iter().cloned());
    let got = in_memory(&moved.reshape(&flat)).gather(&idx, site(op)); // (m…, rest…)
    let m = idx.shape().len();
    let mut axes: Vec<usize> = (m..m + places).collect();
    axes.extend(0..m);
    axes.extend(m + places..got.shape().len());
    Ok(got.permute(&axes))
}

/// The linear index of all index tensors, the node with their dims in front, and how many dims stand before them.
fn advanced_places(op: &'static str, b: &Basic) -> Result<(UOp, UOp, usize)> {
    let x = &b.node;
    let axes: Vec<usize> = b.tensors.iter().map(|t| t.0).collect();
    let together = axes.windows(2).all(|w| w[1] == w[0] + 1);
    let before = if together { axes[0] } else { 0 };
    let mut order = axes.clone();
    order.extend((0..x.shape().len()).filter(|a| !axes.contains(a)));
    let sizes: Vec<UOp> = axes.iter().map(|&a| x.shape()[a].clone()).collect();
    let dtype = place_dtype(&shape::product(&sizes));
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::new();
    for ((_, t), n) in b.tensors.iter().zip(&sizes) {
        dims = shape::broadcast(op, &dims, t.shape())?;
        check_not_empty(op, t, n)?;
    }
    let coords: Vec<(UOp, UOp)> = b
        .tensors
        .iter()
        .zip(&sizes)
        .map(|((_, t), n)| (expand_to(&checked(t, n, dtype), &dims), n.clone()))
        .collect();
    Ok((linear(&coords, dtype), x.permute(&order), before))
}

/// `x[idx]` rows, checked, negatives counted from the end or refused.
fn rows(op: &'static str, x: &UOp, idx: &UOp, from_end: bool) -> Result<UOp> {
    check_devices(op, &[x.clone(), idx.clone()])?;
    match x.shape().first() {
        Some(n) => {
            check_not_empty(op, idx, n)?;
            Ok(in_memory(x).gather(&inside(idx, n, place_dtype(n), from_end), site(op)))
        }
        None => fail!(op, "of a scalar"),
    }
}

/// A table that indices are checked against. The check is part of the load, so a table that is computed from nothing
/// is put in memory first.
fn in_memory(x: &UOp) -> UOp {
    let (mut todo, mut seen) = (vec![x], FxHashSet::default());
    while let Some(n) = todo.pop() {
        match n.op {
            // combined over nothing, a value is not loaded
            Op::ReduceAxis | Op::ScanAxis if n.input().shape().iter().any(|d| d.bounds.0 == 0) => {}
            Op::Const | Op::Variable | Op::Bind | Op::Iota => {}
            o if o.is_movement() => todo.push(n.input()),
            _ if n.src.is_empty() || matches!(n.op, Op::Contiguous | Op::After) => return x.clone(),
            _ => todo.extend(n.src.iter().filter(|s| s.dtype != DType::Index && seen.insert(*s))),
        }
    }
    x.contiguous()
}

/// Row-major places in `x` of what `idx` names along `axis`, other coordinates being idx's own.
fn along(op: &'static str, x: &UOp, axis: usize, idx: &UOp) -> Result<UOp> {
    let (s, t) = (x.shape(), idx.shape());
    let fits = s.len() == t.len()
        && (0..s.len()).all(|i| i == axis || s[i] == t[i] || t[i].bounds.1 <= s[i].bounds.0);
    if !fits {
        return fail!(op, "index of shape {} for shape {} along axis {axis}", show_all(t), show_all(s));
    }
    if !idx.dtype.is_int() {
        return fail!(op, "the index must be of integers, not {}", idx.dtype);
    }
    check_not_empty(op, idx, &s[axis])?;
    let dtype = place_dtype(&shape::product(s));
    let coord = |i: usize| match i == axis {
        true => checked(idx, &s[i], dtype),
        false => along_axis(&UOp::iota(&t[i], dtype), t, i),
    };
    Ok(linear(&(0..s.len()).map(|i| (coord(i), s[i].clone())).collect::<Vec<_>>(), dtype))
}

/// All elements in one dim.
fn flat(x: &UOp) -> UOp {
    x.reshape(&[shape::product(x.shape())])
}

/// Elements along an axis by places that `idx` names, which has the shape of the result.
pub(crate) fn gather_along(op: &'static str, x: &UOp, axis: usize, idx: &UOp) -> Result<UOp> {
    check_devices(op, &[x.clone(), idx.clone()])?;
    Ok(in_memory(&flat(x)).gather(&along(op, x, axis, idx)?, site(op)))
}

/// Where an index names whole slices along an axis, being the same in all of each: their places.
fn places_of_slices(base: &UOp, axis: usize, idx: &UOp) -> Option<UOp> {
    let (s, t) = (base.shape(), idx.shape());
    let mut others = (0..t.len()).filter(|i| *i != axis);
    if t.len() < 2 || !others.all(|i| s[i] == t[i] && t[i].bounds.0 > 0 && is_same_along(idx, i)) {
        return None;
    }
    let one = |i: usize| if i == axis { t[i].clone() } else { UOp::index(1) };
    let first = idx.shrink(&vec![UOp::index(0); t.len()], &(0..t.len()).map(one).collect::<Vec<_>>());
    let at = first.reshape(std::slice::from_ref(&t[axis]));
    Some(checked(&at, &s[axis], place_dtype(&s[axis])))
}

/// Values put along an axis of `base` at the places `idx` names.
pub(crate) fn scatter_along(
    op: &'static str,
    base: &UOp,
    axis: usize,
    idx: &UOp,
    val: &UOp,
    mode: ScatterMode,
) -> Result<UOp> {
    let at = along(op, base, axis, idx)?;
    let val = expand_to(val, idx.shape());
    if let Some(at) = places_of_slices(base, axis, idx) {
        // whole slices: moved first, they are rows
        let mut order: Vec<usize> = (0..idx.shape().len()).collect();
        order[..=axis].rotate_right(1);
        let rows = base.permute(&order).scatter(&at, &val.permute(&order), mode, site(op));
        let mut back: Vec<usize> = (0..order.len()).collect();
        back[..=axis].rotate_left(1);
        return Ok(rows.permute(&back));
    }
    Ok(flat(base).scatter(&flat(&at), &flat(&val), mode, site(op)).reshape(base.shape()))
}

impl Tensor {
    /// Elements by place, as numpy and torch do: integers, slices, `step(slice, n)`, [`Ellipsis`], [`NewAxis`],
    /// integer tensors or lists, bool tensors, and mixtures. Index tensors broadcast together; their dims stand where
    /// the first one was if they are side by side, else in front. With integers and slices alone it is a view.
    ///
    /// A bool tensor stands for as many dims as it has. How many elements it picks depends on data, so it is computed
    /// at the call.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::arange(12).reshape([3, 4]);
    /// assert_eq!(x.at((1, 2)).item::<i32>()?, 6);
    /// assert_eq!(x.at((.., -1)).to_vec::<i32>()?, [3, 7, 11]);
    /// assert_eq!(x.at((0, step(.., -2))).to_vec::<i32>()?, [3, 1]);
    /// assert_eq!(x.at([2, 0]).shape(), [2, 4]);
    /// assert_eq!(x.at((.., [0, 2], NewAxis)).shape(), [3, 2, 1]);
    /// assert_eq!(x.at(x.gt(8)).to_vec::<i32>()?, [9, 10, 11]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn at(&self, idx: impl Into<Indices>) -> Tensor {
        let _c = call("index");
        let idx = idx.into();
        if !idx.is_advanced() {
            return self.seen(|x| Ok(basic("index", x, &idx)?.node));
        }
        self.map(|x| advanced("index", &basic("index", x, &crate::mask::without_masks("index", x, &idx)?)?))
    }
    /// One slice along an axis, which goes away: `x.select(1, -1)` is `x.at((.., -1))`. A view.
    #[track_caller]
    pub fn select(&self, dim: isize, place: impl Into<Dim>) -> Tensor {
        let (_c, place) = (call("select"), place.into());
        self.seen(|x| {
            let axis = shape::axis("select", dim, x.shape().len())?;
            let mut idx: SmallVec<[Index; 4]> = SmallVec::from_elem(Index::from(..), axis);
            idx.push(Index::At(place));
            Ok(basic("select", x, &Indices(idx))?.node)
        })
    }
    /// Rows named by an integer tensor of any shape: of `(n, rest…)` and `(m…)` makes `(m…, rest…)`. The tensor is
    /// the table, as in `weight.embedding(&tokens)`; a negative number is no row of it.
    #[track_caller]
    pub fn embedding(&self, idx: &Tensor) -> Tensor {
        let _c = call("embedding");
        self.picked("embedding", idx, false)
    }
    #[track_caller]
    fn picked(&self, op: &'static str, idx: &Tensor, from_end: bool) -> Tensor {
        self.map(|x| {
            let i = idx.uop()?;
            if !i.dtype.is_int() {
                return fail!(op, "the index must be of integers, not {}", i.dtype);
            }
            rows(op, x, &i, from_end)
        })
    }
    /// Slices along an axis named by a vector of integers.
    #[track_caller]
    pub fn index_select(&self, dim: isize, idx: &Tensor) -> Tensor {
        let _c = call("index_select");
        if idx.rank() != 1 && idx.check().is_ok() {
            let m = format!("index of shape {}, not a vector", idx.shape());
            return Tensor::failed(Error::new("index_select", m));
        }
        if self.rank() == 0 && self.check().is_ok() {
            return self.reshape([1]).index_select(dim, idx).reshape(());
        }
        self.movedim(dim, 0).picked("index_select", idx, true).movedim(0, dim)
    }
    /// `out[i][j] = x[index[i][j]][j]` for dim 0, and so on: along an axis, the index having the shape of the result.
    #[track_caller]
    pub fn gather(&self, dim: isize, idx: &Tensor) -> Tensor {
        let _c = call("gather");
        if self.rank() == 0 && idx.rank() <= 1 && self.check().is_ok() && idx.check().is_ok() {
            let found = self.reshape([1]).gather(dim, &idx.reshape([-1]));
            return found.reshape(idx.shape());
        }
        self.map(|x| gather_along("gather", x, shape::axis("gather", dim, x.shape().len())?, &idx.uop()?))
    }
    /// Elements by their row-major place.
    #[track_caller]
    pub fn take(&self, idx: &Tensor) -> Tensor {
        let _c = call("take");
        self.flatten(0, -1).picked("take", idx, true)
    }
    /// Elements along an axis by places, the other dims of both broadcast: `x.take_along_dim(&x.argsort(1, false), 1)`
    /// is sorted.
    #[track_caller]
    pub fn take_along_dim(&self, idx: &Tensor, dim: isize) -> Tensor {
        let _c = call("take_along_dim");
        self.map(|x| {
            let (op, i) = ("take_along_dim", idx.uop()?);
            let rank = x.shape().len();
            let axis = shape::axis(op, dim, rank)?;
            if i.shape().len() != rank {
                return fail!(op, "index of shape {} for shape {}", show_all(i.shape()), show_all(x.shape()));
            }
            let spread = |t: &UOp| -> Result<UOp> {
                let (mut a, mut b): (Vec<UOp>, Vec<UOp>) = (x.shape().to_vec(), i.shape().to_vec());
                (a[axis], b[axis]) = (UOp::index(1), UOp::index(1));
                let mut dims = shape::broadcast(op, &a, &b)?;
                dims[axis] = t.shape()[axis].clone();
                Ok(expand_to(t, &dims))
            };
            gather_along(op, &spread(x)?, axis, &spread(&i)?)
        })
    }
}

/// The places of an index that has index tensors, for writing: base with their dims in front, and the linear index.
pub(crate) fn writable_places(op: &'static str, b: &Basic) -> Result<(UOp, UOp, usize)> {
    advanced_places(op, b)
}
