//! Moving elements without computing: the movement ops as methods.

use crate::error::{Result, call, fail};
use crate::shape::{
    self, Axes, Dim, Dims, countable, factors, holds, not_negative, product, same, show, show_all,
};
use crate::tensor::{Tensor, expand_to};
use frit_uop::symbolic::size;
use frit_uop::{Alu, Arg, Op, UOp};
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
}
