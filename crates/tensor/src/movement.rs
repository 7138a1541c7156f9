//! Moving elements without computing: the six movement ops and what is made of them.

use crate::composite;
use crate::error::{Error, Result, call, fail, site};
use crate::shape::{
    self, Axes, Dim, Dims, Shape, countable, dim_as, dim_sub, factors, holds, not_negative, product, same,
    show, show_all, size_of,
};
use crate::tensor::{Tensor, check_devices, expand_to, promoted};
use crate::trace::{Composite, noted};
use frit_uop::symbolic::size;
use frit_uop::{Alu, Arg, DType, Op, UOp};
use smallvec::SmallVec;

type Nodes = SmallVec<[UOp; 4]>;

/// The same elements in other dims, a single -1 among them worked out.
fn reshaped(x: &UOp, dims: &Dims) -> Result<UOp> {
    let mut out = dims.uops()?;
    let total = product(x.shape());
    let holes: Vec<usize> = (0..out.len()).filter(|&i| out[i].as_int() == Some(-1)).collect();
    if let Some(bad) = out.iter().find(|d| d.as_int().is_some_and(|v| v < -1)) {
        return fail!("reshape", "size {} in {} (only one -1 is special)", show(bad), show_all(&out));
    }
    match holes[..] {
        [] => {}
        [i] => {
            let others: Vec<UOp> =
                out.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| d.clone()).collect();
            match quotient(&total, &product(&others))? {
                Some(q) => out[i] = q,
                None => return no_fit(x, &out),
            }
        }
        _ => return fail!("reshape", "more than one -1 in {}", show_all(&out)),
    }
    let out = not_negative("reshape", &out)?;
    let wanted = product(&out);
    if !same("reshape", &total, &wanted)? {
        return no_fit(x, &out);
    }
    if size::equal(&total, &wanted) {
        return Ok(x.reshape(&out));
    }
    Ok(resized(&x.reshape(&[total]), 0, &wanted).reshape(&out))
}
/// `total` in `parts` equal parts, if it can be.
fn quotient(total: &UOp, parts: &UOp) -> Result<Option<UOp>> {
    let ((tc, mut tf), (oc, of)) = (factors(total), factors(parts));
    let mut whole = oc != 0 && tc % oc == 0;
    for f in &of {
        match tf.iter().position(|t| t == f) {
            Some(p) => drop(tf.remove(p)),
            None => whole = false,
        }
    }
    if whole {
        return Ok(Some(tf.into_iter().fold(UOp::index(tc / oc), |a, f| f.size_mul(&a))));
    }
    let zero = UOp::index(0);
    let constant = total.as_int().is_some() && parts.as_int().is_some();
    if constant || !holds("reshape", &zero.lt(parts))? {
        return Ok(None);
    }
    let parts = parts.size_max(&UOp::index(1));
    match holds("reshape", &total.size_mod(&parts).eq_(&zero))? {
        true => Ok(Some(total.size_div(&parts))),
        false => Ok(None),
    }
}
fn no_fit<T>(x: &UOp, to: &[UOp]) -> Result<T> {
    fail!(
        "reshape",
        "shape {} has {} elements and does not fit {}",
        show_all(x.shape()),
        show(&product(x.shape())),
        show_all(to)
    )
}

/// The most tensors that one call gives.
const MOST_PARTS: usize = 1 << 24;

/// So many parts, if a list of them can be.
fn few(op: &'static str, parts: usize) -> Result<usize> {
    match parts <= MOST_PARTS {
        true => Ok(parts),
        false => fail!(op, "into {parts} tensors, of at most {MOST_PARTS}"),
    }
}

/// A constant size, or an error that says which op needs one.
pub(crate) fn fixed(op: &'static str, d: &UOp) -> Result<i64> {
    match d.as_int() {
        Some(v) => Ok(v),
        None => fail!(op, "size {} must be a number here, not a variable", show(d)),
    }
}

/// A box cut out of one axis.
pub(crate) fn cut(x: &UOp, axis: usize, begin: &UOp, size: &UOp) -> UOp {
    let zero = UOp::index(0);
    let mut b: Nodes = SmallVec::from_elem(zero, x.shape().len());
    let mut s: Nodes = x.shape().iter().cloned().collect();
    (b[axis], s[axis]) = (begin.clone(), size.clone());
    x.shrink(&b, &s)
}

/// The same elements along an axis whose size is written another way. Where the two may differ for other values of
/// their variables, no element outside is read.
pub(crate) fn resized(x: &UOp, axis: usize, to: &UOp) -> UOp {
    let n = &x.shape()[axis];
    if n == to {
        return x.clone();
    }
    let zero = UOp::index(0);
    if size::equal(n, to) || n.size_sub(to).bounds.0 >= 0 {
        return cut(x, axis, &zero, to);
    }
    let common = n.size_min(to);
    pad_axis(&cut(x, axis, &zero, &common), axis, &zero, &to.size_sub(&common))
}

/// The part of an axis from `begin` to before `end`, both inside it: an error where they are not now.
fn part(op: &'static str, x: &UOp, axis: usize, begin: &UOp, end: &UOp) -> Result<UOp> {
    let (n, zero) = (&x.shape()[axis], UOp::index(0));
    let is_inside = holds(op, &begin.lt(&zero).un(Alu::Not))?
        && holds(op, &end.lt(begin).un(Alu::Not))?
        && (size::equal(end, n) || holds(op, &n.lt(end).un(Alu::Not))?);
    if !is_inside {
        return fail!(
            op,
            "{}..{} of size {} in shape {}",
            show(begin),
            show(end),
            show(n),
            show_all(x.shape())
        );
    }
    let (begin, size) = clamped(n, begin, end);
    Ok(cut(x, axis, &begin, &size))
}

/// Begin and size of the part of `n` elements from `begin` to before `end`, neither negative nor beyond the end for any
/// value of their variables: what Python's slices do.
pub(crate) fn clamped(n: &UOp, begin: &UOp, end: &UOp) -> (UOp, UOp) {
    let zero = UOp::index(0);
    let from = begin.size_max(&zero);
    let length = if size::equal(end, n) {
        n.size_sub(&from)
    } else {
        end.size_sub(&from).size_min(&n.size_sub(&from))
    };
    (if n.size_sub(&from).bounds.0 >= 0 { from.clone() } else { from.size_min(n) }, length.size_max(&zero))
}

/// Zeros before and after along one axis.
pub(crate) fn pad_axis(x: &UOp, axis: usize, before: &UOp, after: &UOp) -> UOp {
    let mut b: Nodes = SmallVec::from_elem(UOp::index(0), x.shape().len());
    let mut a = b.clone();
    (b[axis], a[axis]) = (before.clone(), after.clone());
    x.pad(&b, &a)
}

/// Whether a value was repeated along an axis.
pub(crate) fn is_same_along(x: &UOp, axis: usize) -> bool {
    let size = |x: &UOp, axis: usize| x.shape()[axis].as_int();
    match x.op {
        Op::Expand if size(x.input(), axis) == Some(1) => true,
        Op::Expand | Op::Flip | Op::Shrink => is_same_along(x.input(), axis),
        Op::Permute => match &x.arg {
            Arg::Axes(order) => is_same_along(x.input(), order[axis] as usize),
            _ => false,
        },
        // the axis of the same size with as much before it
        Op::Reshape => {
            let before = |x: &UOp, axis: usize| product(&x.shape()[..axis]);
            let from = x.input();
            (0..from.shape().len())
                .find(|&i| before(from, i) == before(x, axis) && from.shape()[i] == x.shape()[axis])
                .is_some_and(|i| is_same_along(from, i))
        }
        _ => false,
    }
}

/// Of so many places, true at the one given and at every `step`-th before and after it.
pub(crate) fn every(step: i64, place: i64, length: i64) -> UOp {
    let (skipped, i) = ((-place).rem_euclid(step), UOp::index);
    let rows = (skipped + length + step - 1) / step;
    let marks = pad_axis(&expand_to(&UOp::boolean(true), &[i(rows), i(1)]), 1, &i(0), &i(step - 1));
    cut(&marks.reshape(&[i(rows * step)]), 0, &i(skipped), &i(length))
}

/// By how much to rotate: one number, or one for each axis.
pub struct Shifts(SmallVec<[Dim; 4]>);
macro_rules! shifts_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Shifts { #[track_caller] fn from(v: $t) -> Shifts { Shifts(SmallVec::from_iter([v.into()])) } }
        impl<const N: usize> From<[$t; N]> for Shifts { #[track_caller] fn from(v: [$t; N]) -> Shifts { Shifts(v.iter().map(Dim::from).collect()) } }
        impl From<&[$t]> for Shifts { #[track_caller] fn from(v: &[$t]) -> Shifts { Shifts(v.iter().map(Dim::from).collect()) } }
    )*};
}
shifts_from!(i32, i64, isize, Dim);

impl Tensor {
    /// Same elements in other dims; one may be -1 and is worked out. A view where that can be: of `x.t()`, say, the rows
    /// joined are no steps through x's memory, and so a value.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::arange(6).reshape([2, -1]).shape(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn reshape(&self, dims: impl Into<Dims>) -> Tensor {
        let _c = call("reshape");
        let dims = dims.into();
        self.reshaped(|x| reshaped(x, &dims))
    }
    /// A view in other dims; a value where the elements do not lie so that steps through memory could find them.
    fn reshaped(&self, f: impl FnOnce(&UOp) -> Result<UOp>) -> Tensor {
        let t = self.seen(f);
        match t.as_view() {
            Some(view) if !view.is_strided() => Tensor::computed(view.node()),
            _ => t,
        }
    }
    /// The same as [`Tensor::reshape`].
    #[track_caller]
    pub fn view(&self, dims: impl Into<Dims>) -> Tensor {
        self.reshape(dims)
    }
    /// Dims of size 1 repeated, new ones added in front; -1 keeps a size. A view that cannot be written to.
    #[track_caller]
    pub fn expand(&self, dims: impl Into<Dims>) -> Tensor {
        let _c = call("expand");
        let dims = dims.into();
        self.seen(|x| {
            let mut to = dims.uops()?;
            let (n, s) = (to.len(), x.shape());
            if n < s.len() {
                return fail!("expand", "shape {} has more dims than {}", show_all(s), show_all(&to));
            }
            for i in 0..s.len() {
                let (d, from) = (n - s.len() + i, &s[i]);
                if to[d].as_int() == Some(-1) {
                    to[d] = from.clone();
                } else if from.as_int() != Some(1) && !same("expand", from, &to[d])? {
                    return fail!("expand", "shape {} does not expand to {}", show_all(s), show_all(&to));
                }
            }
            let to = not_negative("expand", &to)?;
            countable("expand", &to)?;
            Ok(expand_to(x, &to))
        })
    }
    /// The same as [`Tensor::expand`].
    #[track_caller]
    pub fn broadcast_to(&self, dims: impl Into<Dims>) -> Tensor {
        self.expand(dims)
    }
    /// All elements in one dim.
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.flatten(0, -1)
    }
    /// Expanded to the shape of another tensor.
    #[track_caller]
    pub fn expand_as(&self, o: &Tensor) -> Tensor {
        let _c = call("expand_as");
        self.expand(o.shape())
    }
    /// Dims reordered: dim i of the result is dim `axes[i]` of this.
    #[track_caller]
    pub fn permute(&self, axes: impl Into<Axes>) -> Tensor {
        let _c = call("permute");
        let axes = axes.into();
        self.seen(|x| {
            let rank = x.shape().len();
            let a = axes.in_order("permute", rank)?;
            if a.len() != rank {
                return fail!("permute", "{} axes for shape {}", a.len(), show_all(x.shape()));
            }
            Ok(x.permute(&a))
        })
    }
    /// Two dims exchanged.
    #[track_caller]
    pub fn transpose(&self, a: isize, b: isize) -> Tensor {
        let _c = call("transpose");
        self.seen(|x| {
            let rank = x.shape().len();
            // a scalar counts as one row of one
            let (a, b) =
                (shape::axis("transpose", a, rank.max(1))?, shape::axis("transpose", b, rank.max(1))?);
            let mut axes: Vec<usize> = (0..rank.max(1)).collect();
            axes.swap(a, b);
            Ok(x.permute(&axes[..rank]))
        })
    }
    /// The same as [`Tensor::transpose`].
    #[track_caller]
    pub fn swapaxes(&self, a: isize, b: isize) -> Tensor {
        self.transpose(a, b)
    }
    /// The last two dims exchanged; of one dim or none, itself.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        let _c = call("t");
        if self.rank() < 2 { self.clone() } else { self.transpose(-2, -1) }
    }
    /// Dims moved to other places, the rest staying in order.
    #[track_caller]
    pub fn movedim(&self, from: impl Into<Axes>, to: impl Into<Axes>) -> Tensor {
        let _c = call("movedim");
        let (from, to) = (from.into(), to.into());
        self.seen(|x| {
            let rank = x.shape().len();
            let (f, t) = (from.in_order("movedim", rank)?, to.in_order("movedim", rank)?);
            if f.len() != t.len() {
                return fail!("movedim", "{} dims to {} places", f.len(), t.len());
            }
            let mut rest = (0..rank).filter(|a| !f.contains(a));
            let source = |i: usize| match t.iter().position(|p| *p == i) {
                Some(p) => f[p],
                None => rest.next().unwrap_or(i),
            };
            Ok(x.permute(&(0..rank).map(source).collect::<Vec<_>>()))
        })
    }
    /// Turned a quarter, `times` over, from the first of two dims towards the second.
    #[track_caller]
    pub fn rot90(&self, times: isize, dim1: isize, dim2: isize) -> Tensor {
        let _c = call("rot90");
        match times.rem_euclid(4) {
            0 => self.flip([dim1, dim2]).flip([dim1, dim2]),
            1 => self.flip(dim2).transpose(dim1, dim2),
            2 => self.flip([dim1, dim2]),
            _ => self.transpose(dim1, dim2).flip(dim2),
        }
    }
    /// Reversed along axes.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let _c = call("flip");
        let axes = axes.into();
        self.map(|x| Ok(x.flip(&axes.resolve("flip", x.shape().len())?)))
    }
    /// A box cut out, by `(begin, end)` for each dim.
    #[track_caller]
    pub fn shrink<D: Clone + Into<Dim>>(&self, bounds: &[(D, D)]) -> Tensor {
        let _c = call("shrink");
        let bounds: Vec<(Dim, Dim)> =
            bounds.iter().map(|(b, e)| (b.clone().into(), e.clone().into())).collect();
        self.seen(|x| {
            let s = x.shape();
            if bounds.len() != s.len() {
                return fail!("shrink", "{} pairs for shape {}", bounds.len(), show_all(s));
            }
            bounds.iter().enumerate().try_fold(x.clone(), |x, (axis, (b, e))| {
                part("shrink", &x, axis, &b.0.clone()?, &e.0.clone()?)
            })
        })
    }
    /// `len` elements along an axis from `begin`.
    #[track_caller]
    pub fn narrow(&self, dim: isize, begin: impl Into<Dim>, len: impl Into<Dim>) -> Tensor {
        let _c = call("narrow");
        let (begin, len) = (begin.into(), len.into());
        self.seen(|x| {
            let a = shape::axis("narrow", dim, x.shape().len())?;
            let (begin, len) = (begin.0?, len.0?);
            part("narrow", x, a, &begin, &begin.size_add(&len))
        })
    }
    /// Without dims of size 1: all of them with `..`, or those named that have size 1.
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Tensor {
        let _c = call("squeeze");
        let axes = axes.into();
        self.seen(|x| {
            let a = axes.resolve("squeeze", x.shape().len())?;
            let keep = |i: usize, d: &UOp| !a.contains(&i) || d.as_int() != Some(1);
            let dims: Nodes =
                x.shape().iter().enumerate().filter(|(i, d)| keep(*i, d)).map(|(_, d)| d.clone()).collect();
            Ok(x.reshape(&dims))
        })
    }
    /// A dim of size 1 added at a place.
    #[track_caller]
    pub fn unsqueeze(&self, dim: isize) -> Tensor {
        let _c = call("unsqueeze");
        self.seen(|x| {
            let at = shape::axis("unsqueeze", dim, x.shape().len() + 1)?;
            let mut dims: Nodes = x.shape().iter().cloned().collect();
            dims.insert(at, UOp::index(1));
            Ok(x.reshape(&dims))
        })
    }
    /// Dims from `start` to `end`, both included, made one.
    #[track_caller]
    pub fn flatten(&self, start: isize, end: isize) -> Tensor {
        let _c = call("flatten");
        self.reshaped(|x| {
            let s = x.shape();
            if s.is_empty() {
                return Ok(x.reshape(&[UOp::index(1)]));
            }
            let (a, b) = (shape::axis("flatten", start, s.len())?, shape::axis("flatten", end, s.len())?);
            if a > b {
                return fail!("flatten", "from dim {start} to dim {end} of shape {}", show_all(s));
            }
            let mut dims: Nodes = s[..a].iter().cloned().collect();
            dims.push(product(&s[a..=b]));
            dims.extend(s[b + 1..].iter().cloned());
            Ok(x.reshape(&dims))
        })
    }
    /// One dim made several; one of them may be -1.
    #[track_caller]
    pub fn unflatten(&self, dim: isize, sizes: impl Into<Dims>) -> Tensor {
        let _c = call("unflatten");
        let sizes = sizes.into();
        self.reshaped(|x| {
            let s = x.shape();
            let a = shape::axis("unflatten", dim, s.len())?;
            let mut dims: SmallVec<[shape::Dim; 4]> =
                s[..a].iter().map(|d| shape::Dim(Ok(d.clone()))).collect();
            dims.extend(sizes.0.iter().cloned());
            dims.extend(s[a + 1..].iter().map(|d| shape::Dim(Ok(d.clone()))));
            reshaped(x, &Dims(dims))
        })
    }
    /// Pieces of `size` along an axis, the last one what is left; as everywhere, at most 2^24 of them.
    #[track_caller]
    pub fn split(&self, size: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("split");
        let n = match self.along_size("split", dim) {
            Ok(n) => n,
            Err(e) => return vec![Tensor::failed(e)],
        };
        if size == 0 {
            return vec![Tensor::failed(Error::new("split", "pieces of size 0"))];
        }
        if let Err(e) = few("split", n.div_ceil(size)) {
            return vec![Tensor::failed(e)];
        }
        self.split_sizes(
            &(0..n.div_ceil(size).max(1)).map(|i| size.min(n - i * size)).collect::<Vec<_>>(),
            dim,
        )
    }
    /// Pieces of the given sizes along an axis.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], dim: isize) -> Vec<Tensor> {
        let _c = call("split");
        let n = match self.along_size("split", dim) {
            Ok(n) => n,
            Err(e) => return sizes.iter().map(|_| Tensor::failed(e.clone())).collect(),
        };
        if sizes.iter().try_fold(0usize, |sum, s| sum.checked_add(*s)) != Some(n) {
            let e = Error::new("split", format!("sizes {sizes:?} do not add up to {n}"));
            return sizes.iter().map(|_| Tensor::failed(e.clone())).collect();
        }
        let mut at = 0;
        let mut piece = |s: usize| {
            at += s;
            self.narrow(dim, at - s, s)
        };
        sizes.iter().map(|&s| piece(s)).collect()
    }
    /// About `n` pieces of equal size along an axis.
    #[track_caller]
    pub fn chunk(&self, n: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("chunk");
        match self.along_size("chunk", dim) {
            Err(e) => vec![Tensor::failed(e); n.clamp(1, MOST_PARTS)],
            Ok(_) if n == 0 => vec![Tensor::failed(Error::new("chunk", "into 0 pieces"))],
            Ok(len) => self.split(len.div_ceil(n).max(1), dim),
        }
    }
    /// Pieces that end before each of the places along an axis, and one of what is left; places beyond the end count
    /// as the end.
    #[track_caller]
    pub fn tensor_split(&self, places: &[usize], dim: isize) -> Vec<Tensor> {
        let _c = call("tensor_split");
        self.pieces(dim, places.len(), |_| places.iter().map(|p| size_of(*p)).collect())
    }
    /// Pieces between places along an axis, of which there are `count`, and what is before and after.
    fn pieces(&self, dim: isize, count: usize, places: impl FnOnce(&UOp) -> Vec<UOp>) -> Vec<Tensor> {
        let found = self.form().and_then(|x| {
            let a = shape::axis("tensor_split", dim, x.shape().len())?;
            Ok((a, x.shape()[a].clone()))
        });
        let (a, n) = match found {
            Ok(found) => found,
            Err(e) => return vec![Tensor::failed(e); count + 1],
        };
        let places = places(&n);
        let begins = std::iter::once(UOp::index(0)).chain(places.iter().cloned());
        let ends = places.iter().cloned().chain([n.clone()]);
        let piece = |(begin, end): (UOp, UOp)| {
            let (begin, size) = clamped(&n, &begin, &end);
            self.seen(|x| Ok(cut(x, a, &begin, &size)))
        };
        begins.zip(ends).map(piece).collect()
    }
    /// `n` pieces along an axis; where it does not divide, the first ones are one longer.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let sizes = |n| Tensor::arange(5).tensor_split_into(n, 0).iter().map(|t| t.shape()[0].get()).collect::<Vec<_>>();
    /// assert_eq!((sizes(2), sizes(3)), (vec![3, 2], vec![2, 2, 1]));
    /// ```
    #[track_caller]
    pub fn tensor_split_into(&self, n: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("tensor_split");
        if n == 0 {
            return vec![Tensor::failed(Error::new("tensor_split", "into 0 pieces"))];
        }
        if let Err(e) = few("tensor_split", n) {
            return vec![Tensor::failed(e)];
        }
        self.pieces(dim, n - 1, |len| {
            let (each, rest) = (len.size_div(&size_of(n)), len.size_mod(&size_of(n)));
            let place = |i| size_of(i).size_mul(&each).size_add(&size_of(i).size_min(&rest));
            (1..n).map(place).collect()
        })
    }
    /// One tensor for each place along an axis, the axis gone.
    #[track_caller]
    pub fn unbind(&self, dim: isize) -> Vec<Tensor> {
        let _c = call("unbind");
        match self.along_size("unbind", dim).and_then(|n| few("unbind", n)) {
            Ok(n) => (0..n).map(|i| self.narrow(dim, i, 1).squeeze(dim)).collect(),
            Err(e) => vec![Tensor::failed(e)],
        }
    }
    pub(crate) fn along_size(&self, op: &'static str, dim: isize) -> Result<usize> {
        let x = self.uop()?;
        let a = shape::axis(op, dim, x.shape().len())?;
        Ok(fixed(op, &x.shape()[a])? as usize)
    }
    /// Tensors joined along an axis; other dims must agree.
    #[track_caller]
    pub fn cat(tensors: &[Tensor], dim: isize) -> Tensor {
        let _c = call("cat");
        let joined = Tensor::of((|| {
            let xs: Vec<UOp> = tensors.iter().map(|t| t.uop()).collect::<Result<_>>()?;
            let Some(first) = xs.first() else { return fail!("cat", "of no tensors") };
            let a = shape::axis("cat", dim, first.shape().len())?;
            let dtype = xs.iter().try_fold(first.dtype, |d, x| promoted("cat", d, x.dtype))?;
            check_devices("cat", &xs)?;
            for x in &xs {
                let (p, q) = (first.shape(), x.shape());
                let mut fits = p.len() == q.len();
                for i in (0..p.len()).filter(|i| fits && *i != a).collect::<Vec<_>>() {
                    fits &= same("cat", &p[i], &q[i])?;
                }
                if !fits {
                    return fail!(
                        "cat",
                        "shapes {} and {} differ outside axis {a}",
                        show_all(p),
                        show_all(q)
                    );
                }
            }
            let alike = |x: &UOp| {
                (0..x.shape().len())
                    .filter(|i| *i != a)
                    .fold(x.cast(dtype), |x, i| resized(&x, i, &first.shape()[i]))
            };
            let out = join(&xs.iter().map(alike).collect::<Vec<_>>(), a);
            // empty ones leave no element behind, but the result is made of them too
            let empty = |x: &&UOp| x.shape()[a].as_int() == Some(0) && x.shape()[a] != out.shape()[a];
            Ok(xs.iter().filter(empty).fold(out.clone(), |out, x| {
                let all: Vec<usize> = (0..x.shape().len()).collect();
                composite::joined(&out, &x.reduce_axes(Alu::Add, &all).reshape(&[]))
            }))
        })());
        if !crate::trace::is_open() {
            return joined;
        }
        noted(|| Composite::Concat(dim), &tensors.iter().map(Some).collect::<Vec<_>>(), joined)
    }
    /// Tensors of one shape along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[Tensor], dim: isize) -> Tensor {
        let _c = call("stack");
        let alike = |a: &Shape, b: &Shape| {
            let pairs = || a.as_slice().iter().zip(b.as_slice());
            a.rank() == b.rank() && pairs().all(|(x, y)| x.is_equal(y).unwrap_or(false))
        };
        if let Some(t) =
            tensors.iter().find(|t| !alike(&t.shape(), &tensors[0].shape()) || t.check().is_err())
        {
            if let Some(e) = tensors.iter().find_map(|t| t.check().err()) {
                return Tensor::failed(e);
            }
            let m = format!("shapes {} and {} differ", tensors[0].shape(), t.shape());
            return Tensor::failed(Error::new("stack", m));
        }
        Tensor::cat(&tensors.iter().map(|t| t.unsqueeze(dim)).collect::<Vec<_>>(), dim)
    }
    /// Rotated along axes, a shift for each: elements that leave at the end come in at the beginning. With `..` the
    /// elements are rotated in row-major order.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1, 2], [3, 4]]);
    /// assert_eq!(x.roll(1, 0).to_vec::<i32>()?, [3, 4, 1, 2]);
    /// assert_eq!(x.roll([1, 1], [0, 1]).to_vec::<i32>()?, [4, 3, 2, 1]);
    /// assert_eq!(x.roll(1, ..).to_vec::<i32>()?, [4, 1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Shifts>, axes: impl Into<Axes>) -> Tensor {
        let _c = call("roll");
        let (shifts, axes) = (shifts.into().0, axes.into());
        self.map(|x| {
            if axes.is_all() {
                let [shift] = &shifts[..] else {
                    return fail!("roll", "{} shifts for all elements", shifts.len());
                };
                let flat = x.reshape(&[product(x.shape())]);
                return Ok(rolled(&flat, shift, 0)?.reshape(x.shape()));
            }
            let at = axes.in_order("roll", x.shape().len())?;
            if at.len() != shifts.len() {
                return fail!("roll", "{} shifts for {} axes", shifts.len(), at.len());
            }
            at.iter().zip(&shifts).try_fold(x.clone(), |x, (&a, k)| rolled(&x, k, a))
        })
    }
    /// The whole repeated along each dim; more counts than dims add dims in front.
    #[track_caller]
    pub fn repeat<D: Clone + Into<Dim>>(&self, counts: &[D]) -> Tensor {
        let _c = call("repeat");
        let counts = Dims(counts.iter().map(|c| c.clone().into()).collect());
        self.map(|x| {
            let counts = not_negative("repeat", &counts.uops()?)?;
            let s = x.shape();
            if counts.len() < s.len() {
                return fail!("repeat", "{} counts for shape {}", counts.len(), show_all(s));
            }
            let one = UOp::index(1);
            let lead = counts.len() - s.len();
            let (mut from, mut to, mut out) = (Nodes::new(), Nodes::new(), Nodes::new());
            for (i, c) in counts.iter().enumerate() {
                let d = if i < lead { one.clone() } else { s[i - lead].clone() };
                from.extend([one.clone(), d.clone()]);
                to.extend([c.clone(), d.clone()]);
                out.push(d.size_mul(c));
            }
            Ok(x.reshape(&from).expand(&to).reshape(&out))
        })
    }
    /// The same as [`Tensor::repeat`], counts missing in front being 1.
    #[track_caller]
    pub fn tile<D: Clone + Into<Dim>>(&self, counts: &[D]) -> Tensor {
        let _c = call("tile");
        let mut all = vec![Dim::from(1); self.rank().saturating_sub(counts.len())];
        all.extend(counts.iter().map(|c| c.clone().into()));
        self.repeat(&all)
    }
    /// Each element repeated `n` times along an axis.
    #[track_caller]
    pub fn repeat_interleave(&self, n: impl Into<Dim>, dim: isize) -> Tensor {
        let (_c, n) = (call("repeat_interleave"), n.into());
        self.map(|x| {
            let n = not_negative("repeat_interleave", &[n.0?])?.remove(0);
            let a = shape::axis("repeat_interleave", dim, x.shape().len())?;
            let mut out: Nodes = x.shape().iter().cloned().collect();
            let (mut from, mut to) = (out.clone(), out.clone());
            from.insert(a + 1, UOp::index(1));
            to.insert(a + 1, n.clone());
            out[a] = out[a].size_mul(&n);
            Ok(x.reshape(&from).expand(&to).reshape(&out))
        })
    }
    /// Each element repeated along an axis as often as `counts` (a vector, one for each) says. Computes the counts.
    #[track_caller]
    pub fn repeat_interleave_by(&self, counts: &Tensor, dim: isize) -> Result<Tensor> {
        let _c = call("repeat_interleave");
        let n = self.along_size("repeat_interleave", dim)?;
        let shape = counts.dims()?;
        if shape != [n] || !counts.dtype().is_int() {
            return fail!("repeat_interleave", "counts of {} {shape:?} for {n} elements", counts.dtype());
        }
        let counts = counts.cast(DType::I64).to_vec::<i64>()?;
        if let Some(bad) = counts.iter().find(|c| **c < 0) {
            return fail!("repeat_interleave", "a count of {bad}");
        }
        let places: Vec<i64> =
            counts.iter().enumerate().flat_map(|(i, &c)| std::iter::repeat_n(i as i64, c as usize)).collect();
        let places = Tensor::from_slice(&places).to(&self.device()?);
        let out = self.index_select(dim, &places);
        out.check().map(|_| out)
    }
    /// Elements by strides over the row-major order: element `(i, j, …)` is number
    /// `offset + i*strides[0] + j*strides[1] + …` of this. Places outside are an error.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::arange(6).as_strided(&[2, 3], &[1, 2], 0);
    /// assert_eq!(x.to_vec::<i32>()?, [0, 2, 4, 1, 3, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn as_strided(&self, dims: &[usize], strides: &[isize], offset: usize) -> Tensor {
        let _c = call("as_strided");
        self.map(|x| {
            if dims.len() != strides.len() {
                return fail!("as_strided", "{} strides for {} dims", strides.len(), dims.len());
            }
            let n = fixed("as_strided", &product(x.shape()))? as i128;
            let reach = |d: usize, s: isize| (d as i128 - 1).max(0) * s as i128;
            let reaches = || dims.iter().zip(strides).map(|(&d, &s)| reach(d, s));
            let (low, high) = reaches().fold((offset as i128, offset as i128), |(l, h), r| (l + r.min(0), h + r.max(0)));
            if !dims.contains(&0) && (low < 0 || high >= n) {
                return fail!(
                    "as_strided",
                    "dims {dims:?} with strides {strides:?} from {offset} reach {low}..={high} of {n} elements"
                );
            }
            let dtype = if high > i32::MAX as i128 { DType::I64 } else { DType::I32 };
            let to: Nodes = dims.iter().map(|&d| size_of(d)).collect();
            let mut at = crate::tensor::filled(&to, UOp::int(offset as i64, dtype));
            for (axis, &stride) in strides.iter().enumerate() {
                let step = UOp::iota(&to[axis], dtype).bin(Alu::Mul, &UOp::int(stride as i64, dtype));
                at = at.bin(Alu::Add, &crate::reduce::along_axis(&step, &to, axis));
            }
            Ok(x.reshape(&[product(x.shape())]).gather(&at, site("as_strided")))
        })
    }
    /// Windows of `size` along an axis, `step` apart, as a new last dim; a view, nothing is copied.
    #[track_caller]
    pub fn unfold(&self, dim: isize, size: usize, step: usize) -> Tensor {
        let _c = call("unfold");
        if self.rank() == 0 && self.check().is_ok() {
            return self.reshape([1]).unfold(dim, size, step).squeeze(0);
        }
        self.map(|x| {
            let a = shape::axis("unfold", dim, x.shape().len())?;
            if size == 0 && step > 0 {
                // a place for every step, and nothing in it
                let places = fixed("unfold", &x.shape()[a])? as usize / step + 1;
                let mut dims: Nodes = x.shape().iter().cloned().collect();
                dims[a] = size_of(places);
                dims.push(UOp::index(0));
                return Ok(crate::tensor::filled(&dims, x.const_like(0)));
            }
            let w = windows(x, a, size, step, 1)?; // (.., size, places, ..)
            let mut axes: Vec<usize> = (0..w.shape().len()).filter(|i| *i != a).collect();
            axes.push(a);
            Ok(w.permute(&axes))
        })
    }
}

fn rolled(x: &UOp, shift: &Dim, axis: usize) -> Result<UOp> {
    let (n, shift) = (&x.shape()[axis], shift.0.clone()?);
    if n.bounds.1 == 0 {
        return Ok(x.clone());
    }
    // of no elements whatever is rotated is none
    let k = shift.size_mod(&n.size_max(&UOp::index(1)));
    let k = if k.size_sub(n).bounds.1 <= 0 { k } else { k.size_min(n) };
    let rest = n.size_sub(&k);
    Ok(join(&[cut(x, axis, &rest, &k), cut(x, axis, &UOp::index(0), &rest)], axis))
}

/// So many nodes are joined in one kernel, which looks at all of them for each element.
const JOINED: usize = 32;

/// Nodes of one type joined along an axis. Many are joined to runs in memory first, and these to longer ones, so that the
/// work grows with their number and not with its square.
pub(crate) fn join(xs: &[UOp], axis: usize) -> UOp {
    if xs.len() <= JOINED {
        return join_few(xs, axis);
    }
    let runs = |run: &[UOp]| if run.len() > 1 { join_few(run, axis).contiguous() } else { run[0].clone() };
    join(&xs.chunks(JOINED).map(runs).collect::<Vec<_>>(), axis)
}

/// Each padded to the whole, then chosen by place.
fn join_few(xs: &[UOp], axis: usize) -> UOp {
    let zero = UOp::index(0);
    let total = xs.iter().fold(zero.clone(), |t, x| t.size_add(&x.shape()[axis]));
    let parts: Vec<&UOp> = xs.iter().filter(|x| x.shape()[axis].as_int() != Some(0)).collect();
    let (mut at, mut out): (UOp, Option<UOp>) = (zero, None);
    for x in parts {
        let end = at.size_add(&x.shape()[axis]);
        let piece = pad_axis(x, axis, &at, &dim_sub(&total, &end));
        out = Some(match out {
            None => piece,
            Some(rest) => {
                let place = crate::reduce::along_axis(&UOp::iota(&total, DType::I32), piece.shape(), axis);
                place.lt(&dim_as(&at, DType::I32)).select(&rest, &piece)
            }
        });
        at = end;
    }
    out.unwrap_or_else(|| xs[0].clone())
}

/// Windows along an axis by movement only: `(.., n, ..)` becomes `(.., size, places, ..)` with
/// `out[k, o] = x[o * step + k * dilation]`.
///
/// The axis is repeated, flattened and cut so that each row starts `dilation` later than the one before; the index
/// arithmetic folds back to `o * step + k * dilation`.
pub(crate) fn windows_dilated(x: &UOp, axis: usize, size: i64, step: i64, dilation: i64) -> UOp {
    let dims = x.shape();
    let (n, k, s, d) = (dims[axis].as_int().unwrap_or(0), size, step, dilation);
    let o = (n - d * (k - 1) - 1) / s + 1;
    let at = |mid: &[i64]| {
        let mut v: Nodes = dims[..axis].iter().cloned().collect();
        v.extend(mid.iter().map(|&m| UOp::index(m)));
        v.extend(dims[axis + 1..].iter().cloned());
        v
    };
    let zero = UOp::index(0);
    if k == 1 && s == 1 {
        return x.reshape(&at(&[1, n]));
    }
    if k <= s && d == 1 {
        // windows do not overlap: cut or pad to o blocks of s
        let whole = if o * s <= n {
            cut(x, axis, &zero, &UOp::index(o * s))
        } else {
            pad_axis(x, axis, &zero, &UOp::index(o * s - n))
        };
        let blocks = cut(&whole.reshape(&at(&[o, s])), axis + 1, &zero, &UOp::index(k));
        let mut axes: Vec<usize> = (0..blocks.shape().len()).collect();
        axes.swap(axis, axis + 1);
        return blocks.permute(&axes);
    }
    // rows of a multiple of n and d more, long enough for o steps of s
    let row = n * ((o * s - d + n - 1) / n).max(1) + d;
    let copies = (k * row + n - 1) / n;
    let flat = x.reshape(&at(&[1, n])).expand(&at(&[copies, n])).reshape(&at(&[copies * n]));
    let rows = cut(&flat, axis, &zero, &UOp::index(k * row)).reshape(&at(&[k, row]));
    let reach = cut(&rows, axis + 1, &zero, &UOp::index(o * s));
    if s == 1 {
        return reach;
    }
    let mut steps = at(&[k, o, s]);
    let picked = cut(&reach.reshape(&steps), axis + 2, &zero, &UOp::index(1));
    steps.remove(axis + 2);
    picked.reshape(&steps)
}

/// [`windows_dilated`], checked. Where the size has variables: over the longest there can be, and of its windows those that
/// are there.
pub(crate) fn windows(x: &UOp, axis: usize, size: usize, step: usize, dilation: usize) -> Result<UOp> {
    let n = &x.shape()[axis];
    if size == 0 || step == 0 || dilation == 0 {
        return fail!("unfold", "window {size}, step {step} and dilation {dilation} must be at least 1");
    }
    let span = UOp::index(i64::try_from(dilation as i128 * (size as i128 - 1) + 1).unwrap_or(i64::MAX));
    if holds("unfold", &n.lt(&span))? {
        return fail!("unfold", "a window of {} does not fit size {}", show(&span), show(n));
    }
    if n.as_int().is_some() {
        return windows_fitted(x, axis, size, step, dilation);
    }
    let most = UOp::index(i64::try_from(n.bounds.1).unwrap_or(i64::MAX));
    let whole = pad_axis(x, axis, &UOp::index(0), &most.size_sub(n));
    let all = windows_fitted(&whole, axis, size, step, dilation)?;
    let places = n.size_sub(&span).size_div(&size_of(step)).size_add(&UOp::index(1));
    Ok(cut(&all, axis + 1, &UOp::index(0), &places.size_max(&UOp::index(0))))
}

fn windows_fitted(x: &UOp, axis: usize, size: usize, step: usize, dilation: usize) -> Result<UOp> {
    let n = fixed("unfold", &x.shape()[axis])?;
    // a step beyond the end makes one window, however long it is
    let (k, s, d) =
        (size as i64, (step as i128).min(n as i128) as i64, (dilation as i128).min(n as i128) as i64);
    // the repeated axis that windows are cut from
    if (k as i128 + 1) * (3 * n as i128 + d as i128) > i64::MAX as i128 {
        return fail!("unfold", "windows of {k} over size {n} have more elements than can be counted");
    }
    Ok(windows_dilated(x, axis, k, s, d))
}
