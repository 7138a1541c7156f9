//! Reductions and scans.
//!
//! Axes are one, several or `..`; `keepdim(axes)` keeps them as size 1. Sums and products of bools and small integers
//! are int32 (uint32 for unsigned), those of floats keep their type; float16, bfloat16 and fp8 accumulate in float32
//! and round once. Over no elements sum is 0, prod 1, `any` false, `all` true, and max and min are an error.

use crate::composite::{add, div, mul, sub};
use crate::elementwise::{to_float, truth};
use crate::error::{Result, call, fail};
use crate::shape::{self, Axes, show_all};
use crate::tensor::{Tensor, expand_to, filled, number};
use frit_uop::{Alu, Arg, DType, Op, UOp};
use smallvec::SmallVec;

/// The type a sum or product of `d` is computed and given in.
fn sum_dtypes(d: DType) -> (DType, DType) {
    use DType::*;
    match d {
        Bool | I8 | I16 => (I32, I32),
        U8 | U16 => (U32, U32),
        d if d.is_small_float() => (F32, d),
        d => (d, d),
    }
}

/// Combined over positions `axes`, in an accumulator wide enough, the axes kept as size 1.
pub(crate) fn reduce_node(x: &UOp, alu: Alu, axes: &[usize]) -> UOp {
    match alu {
        Alu::Add | Alu::Mul => {
            let (acc, out) = sum_dtypes(x.dtype);
            x.cast(acc).reduce_axes(alu, axes).cast(out)
        }
        _ => x.reduce_axes(alu, axes),
    }
}

/// Without the axes, or with them as size 1.
pub(crate) fn drop_axes(x: &UOp, axes: &[usize], keep: bool) -> UOp {
    if keep {
        return x.clone();
    }
    let dims: SmallVec<[UOp; 4]> =
        x.shape().iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d.clone()).collect();
    x.reshape(&dims)
}

impl Tensor {
    #[track_caller]
    fn reduce(&self, op: &'static str, axes: Axes, f: impl FnOnce(&UOp, &[usize]) -> Result<UOp>) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            let at = axes.resolve(op, x.shape().len())?;
            Ok(drop_axes(&f(x, &at)?, &at, axes.keep))
        })
    }
    /// The sum over axes.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1, 2], [3, 4]]);
    /// assert_eq!(x.sum(0).to_vec::<i32>()?, [4, 6]);
    /// assert_eq!(x.sum(keepdim(1)).shape(), [2, 1]);
    /// assert_eq!(x.sum(..).item::<i32>()?, 10);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("sum", axes.into(), |x, a| Ok(reduce_node(x, Alu::Add, a)))
    }
    /// The sum over axes, accumulated in a type of one's choice and given in it: float64 for more digits, the type itself
    /// to save the wider accumulator.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([200, 100]).cast(DType::U8);
    /// assert_eq!(x.sum(..).item::<u32>()?, 300);
    /// assert_eq!(x.sum_as(.., DType::U8).item::<u8>()?, 44); // wraps
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn sum_as(&self, axes: impl Into<Axes>, dtype: DType) -> Tensor {
        let _c = call("sum");
        self.cast(dtype).reduce("sum", axes.into(), |x, a| Ok(x.reduce_axes(Alu::Add, a)))
    }
    /// The product over axes.
    #[track_caller]
    pub fn prod(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("prod", axes.into(), |x, a| Ok(reduce_node(x, Alu::Mul, a)))
    }
    /// The greatest over axes; NaN if there is one. Equal greatest elements share the gradient equally.
    #[track_caller]
    pub fn max(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("max", axes.into(), |x, a| some("max", x, a).map(|_| x.reduce_axes(Alu::Max, a)))
    }
    /// [`Tensor::max`] along one axis, of which the first of equals has the gradient.
    #[track_caller]
    pub(crate) fn max_first(&self, axis: usize) -> Tensor {
        self.map(|x| Ok(first_wins(x))).max(axis)
    }
    /// The least over axes; NaN if there is one. Equal least elements share the gradient equally.
    #[track_caller]
    pub fn min(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("min", axes.into(), |x, a| some("min", x, a).map(|_| x.reduce_axes(Alu::Min, a)))
    }
    /// Whether any is true (not zero).
    #[track_caller]
    pub fn any(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("any", axes.into(), |x, a| Ok(truth(x).reduce_axes(Alu::Max, a)))
    }
    /// Whether all are true (not zero).
    #[track_caller]
    pub fn all(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("all", axes.into(), |x, a| Ok(truth(x).reduce_axes(Alu::Min, a)))
    }
    /// The mean over axes, in a float type.
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("mean", axes.into(), |x, a| Ok(mean_node(&wide(x), a).cast(to_float(x).dtype)))
    }
    /// The variance over axes, by `n - correction` (1 for a sample, 0 for a population).
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>, correction: i64) -> Tensor {
        self.reduce("var", axes.into(), |x, a| {
            Ok(var_node(&wide(x), a, correction).1.cast(to_float(x).dtype))
        })
    }
    /// The standard deviation over axes: the root of the variance, whose squares do not overflow where it does not.
    /// Where it is zero, so is its gradient.
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>, correction: i64) -> Tensor {
        self.reduce("std", axes.into(), |x, a| {
            let float = to_float(x).dtype;
            let squares = x.cast(squares_dtype(float));
            Ok(root(&var_node(&squares, a, correction).1).cast(float))
        })
    }
    /// Variance and mean over axes.
    #[track_caller]
    pub fn var_mean(&self, axes: impl Into<Axes>, correction: i64) -> (Tensor, Tensor) {
        let _c = call("var_mean");
        let axes = axes.into();
        (self.var(axes.clone(), correction), self.mean(axes))
    }
    /// Standard deviation and mean over axes.
    #[track_caller]
    pub fn std_mean(&self, axes: impl Into<Axes>, correction: i64) -> (Tensor, Tensor) {
        let _c = call("std_mean");
        let axes = axes.into();
        (self.std(axes.clone(), correction), self.mean(axes))
    }
    /// The p-norm over axes; `f64::INFINITY` gives the greatest magnitude. Where it is zero, so is its gradient.
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl Into<Axes>) -> Tensor {
        let _c = call("norm");
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        let (axes, x) = (axes.into(), crate::norm::wide(self));
        let norm = match p {
            2.0 => x.square().sum(axes).map(|s| Ok(root(s))),
            1.0 => x.abs().sum(axes),
            f64::INFINITY => x.abs().max(axes),
            f64::NEG_INFINITY => x.abs().min(axes),
            0.0 => x.ne(0).cast(x.dtype()).sum(axes),
            _ => {
                let sum = x.abs().pow(p).sum(axes);
                // beyond every slope of the root at zero
                let zero = sum.eq(0.0);
                zero.where_(0.0, zero.where_(1.0, &sum).pow(1.0 / p))
            }
        };
        norm.cast(to_float_dtype(self.dtype()))
    }
    /// log(sum(exp(x))) over axes, by the greatest element so that nothing overflows.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("logsumexp", axes.into(), |x, a| {
            let w = wide(x);
            if some("logsumexp", x, a).is_err() {
                // the logarithm of nothing
                return Ok(w.reduce_axes(Alu::Add, a).un(Alu::Log).cast(to_float(x).dtype));
            }
            let m = w.reduce_axes(Alu::Max, a).detach();
            // an infinite maximum is the answer, and subtracting it would make NaN
            let inf = number(f64::INFINITY, m.dtype);
            let m = m.eq_(&inf).or_(&m.eq_(&inf.un(Alu::Neg))).select(&m.const_like(0), &m);
            let e = sub(&w, &expand_to(&m, w.shape())).un(Alu::Exp);
            Ok(add(&e.reduce_axes(Alu::Add, a).un(Alu::Log), &m).cast(to_float(x).dtype))
        })
    }
    /// Where along the axis the greatest is: the first of equals, NaN counting as greatest; int32.
    #[track_caller]
    pub fn argmax(&self, dim: isize) -> Tensor {
        self.arg_reduce("argmax", Alu::Max, dim.into())
    }
    /// Where along the axis the least is: the first of equals, NaN counting as least; int32.
    #[track_caller]
    pub fn argmin(&self, dim: isize) -> Tensor {
        self.arg_reduce("argmin", Alu::Min, dim.into())
    }
    /// `argmax` with `keepdim`, or over all elements in row-major order with `..`.
    #[track_caller]
    pub fn argmax_axes(&self, axes: impl Into<Axes>) -> Tensor {
        self.arg_reduce("argmax", Alu::Max, axes.into())
    }
    /// `argmin` with `keepdim`, or over all elements in row-major order with `..`.
    #[track_caller]
    pub fn argmin_axes(&self, axes: impl Into<Axes>) -> Tensor {
        self.arg_reduce("argmin", Alu::Min, axes.into())
    }
    #[track_caller]
    fn arg_reduce(&self, op: &'static str, alu: Alu, axes: Axes) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            let rank = x.shape().len();
            let at = axes.resolve(op, rank)?;
            some(op, x, &at)?;
            let (flat, axis) = match at[..] {
                [a] => (x.clone(), a),
                _ if at.len() == rank => (x.reshape(&[shape::product(x.shape())]), 0),
                _ => return fail!(op, "takes one axis or all of them, not {at:?}"),
            };
            if flat.shape()[axis].bounds.1 > i32::MAX as i128 {
                return fail!(
                    op,
                    "{} elements along the axis do not fit int32",
                    shape::show(&flat.shape()[axis])
                );
            }
            let best = expand_to(&flat.reduce_axes(alu, &[axis]), flat.shape());
            // NaN is the maximum when there is one, and is not equal to itself
            let hit = flat.eq_(&best);
            let hit = if flat.dtype.is_float() { hit.or_(&flat.ne_(&flat)) } else { hit };
            let n = &flat.shape()[axis];
            let places = along_axis(&UOp::iota(n, DType::I32), flat.shape(), axis);
            let never = UOp::int(i32::MAX as i64, DType::I32);
            let first = hit.select(&places, &never).reduce_axes(Alu::Min, &[axis]);
            let out = drop_axes(&first, &[axis], axes.keep && at.len() == 1);
            Ok(match (axes.keep, at.len() == 1) {
                (true, false) => out.reshape(&SmallVec::<[UOp; 4]>::from_elem(UOp::index(1), rank)),
                _ => out,
            })
        })
    }
    /// Running sum along an axis.
    #[track_caller]
    pub fn cumsum(&self, dim: isize) -> Tensor {
        self.running("cumsum", Alu::Add, dim)
    }
    /// Running product along an axis.
    #[track_caller]
    pub fn cumprod(&self, dim: isize) -> Tensor {
        self.running("cumprod", Alu::Mul, dim)
    }
    /// Running maximum along an axis, and where it was found: the last of equals; int32.
    #[track_caller]
    pub fn cummax(&self, dim: isize) -> (Tensor, Tensor) {
        (self.running("cummax", Alu::Max, dim), self.scan_places("cummax", Alu::Max, dim))
    }
    /// Running minimum along an axis, and where it was found: the last of equals; int32.
    #[track_caller]
    pub fn cummin(&self, dim: isize) -> (Tensor, Tensor) {
        (self.running("cummin", Alu::Min, dim), self.scan_places("cummin", Alu::Min, dim))
    }
    /// Running log(sum(exp(x))) along an axis.
    #[track_caller]
    pub fn logcumsumexp(&self, dim: isize) -> Tensor {
        let _c = call("logcumsumexp");
        self.along(dim, "logcumsumexp", |x, dim| {
            crate::scan::prefix(std::slice::from_ref(x), dim, &|a, b| vec![a[0].logaddexp(&b[0])])[0].clone()
        })
    }
    #[track_caller]
    fn running(&self, op: &'static str, alu: Alu, dim: isize) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            if x.shape().is_empty() && matches!(dim, 0 | -1) {
                return Ok(x.cast(sum_dtypes(x.dtype).1));
            }
            let axis = shape::axis(op, dim, x.shape().len())?;
            if !matches!(alu, Alu::Add | Alu::Mul) {
                return Ok(x.scan_axis(alu, axis));
            }
            let (acc, out) = sum_dtypes(x.dtype);
            Ok(x.cast(acc).scan_axis(alu, axis).cast(out))
        })
    }
    #[track_caller]
    fn scan_places(&self, op: &'static str, alu: Alu, dim: isize) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            if x.shape().is_empty() {
                return Ok(UOp::int(0, DType::I32));
            }
            let axis = shape::axis(op, dim, x.shape().len())?;
            Ok(last_records(x, &x.scan_axis(alu, axis), axis))
        })
    }
}

/// For each place along the axis, where the running extremum `best` of `x` was last met.
pub(crate) fn last_records(x: &UOp, best: &UOp, axis: usize) -> UOp {
    let places = along_axis(&UOp::iota(&x.shape()[axis], DType::I32), x.shape(), axis);
    let hit = x.eq_(best);
    let hit = if x.dtype.is_float() { hit.or_(&x.ne_(x)) } else { hit };
    hit.select(&places, &UOp::int(0, DType::I32)).scan_axis(Alu::Max, axis)
}

fn to_float_dtype(d: DType) -> DType {
    frit_uop::promote::to_float(d)
}

/// A type that holds the sum of the squares of anything `d` holds, where there is one.
fn squares_dtype(d: DType) -> DType {
    if d.is_small_float() && d != DType::BF16 { DType::F32 } else { DType::F64 }
}

/// As a float of at least 32 bits.
pub(crate) fn wide(x: &UOp) -> UOp {
    let x = to_float(x);
    if x.dtype.is_small_float() { x.cast(DType::F32) } else { x }
}

/// The square root, with the slope 0 at 0 in place of an infinite one.
fn root(x: &UOp) -> UOp {
    let zero = x.eq_(&x.const_like(0));
    zero.select(&x.const_like(0), &zero.select(&x.const_like(1), x).un(Alu::Sqrt))
}

/// What is reduced by a maximum or minimum of which the first of equals has the gradient, as that of a pool: an
/// identity reshape, which is made nowhere else, says so to the gradient and to no one besides.
pub(crate) fn first_wins(x: &UOp) -> UOp {
    let mut src: SmallVec<[UOp; 4]> = SmallVec::from_iter([x.clone()]);
    src.extend(x.shape().iter().cloned());
    UOp::new(Op::Reshape, x.dtype, src, Arg::None)
}

/// Whether [`first_wins`] made it.
pub(crate) fn is_first_wins(x: &UOp) -> bool {
    x.op == Op::Reshape && x.shape() == x.input().shape()
}

/// A vector repeated so that it runs along one axis of `dims`.
pub(crate) fn along_axis(v: &UOp, dims: &[UOp], axis: usize) -> UOp {
    let shape: SmallVec<[UOp; 4]> =
        dims.iter().enumerate().map(|(i, d)| if i == axis { d.clone() } else { UOp::index(1) }).collect();
    v.reshape(&shape).expand(dims)
}

/// How many elements are combined, as a number of type `dtype`.
pub(crate) fn count(x: &UOp, axes: &[usize], dtype: DType) -> UOp {
    let n = shape::product(&axes.iter().map(|&a| x.shape()[a].clone()).collect::<Vec<_>>());
    shape::dim_as(&n, dtype)
}

pub(crate) fn mean_node(x: &UOp, axes: &[usize]) -> UOp {
    let n = count(x, axes, x.dtype);
    let s = x.reduce_axes(Alu::Add, axes);
    match n.as_scalar() {
        Some(v) if v.as_f64() != 0.0 => mul(&s, &number(1.0 / v.as_f64(), x.dtype)),
        _ => div(&s, &n),
    }
}

/// Mean and variance, the axes kept: two passes over x, no cancellation.
pub(crate) fn var_node(x: &UOp, axes: &[usize], correction: i64) -> (UOp, UOp) {
    let mean = mean_node(x, axes);
    let d = sub(x, &expand_to(&mean, x.shape()));
    let n = count(x, axes, x.dtype);
    let s = mul(&d, &d).reduce_axes(Alu::Add, axes);
    let n = sub(&n, &number(correction as f64, x.dtype));
    let n = match count(x, axes, DType::I64).as_int() {
        Some(c) => number((c - correction).max(0) as f64, x.dtype),
        None => n,
    };
    (mean, div(&s, &n))
}

fn some(op: &'static str, x: &UOp, axes: &[usize]) -> Result<()> {
    if axes.iter().any(|&a| x.shape()[a].bounds.1 == 0) {
        return fail!(op, "there is no element along axes {axes:?} of shape {}", show_all(x.shape()));
    }
    Ok(())
}

/// Zeros of the node's shape and type.
pub(crate) fn zeros_like(x: &UOp) -> UOp {
    filled(x.shape(), x.const_like(0))
}
