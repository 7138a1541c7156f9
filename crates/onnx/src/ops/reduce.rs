//! Along axes: sums and their like, places of extremes, running sums.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{Axes, DType, Operand, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("ArgMax", 1, |c| arg(c, |x, a| x.argmax_axes(a))),
    op("ArgMin", 1, |c| arg(c, |x, a| x.argmin_axes(a))),
    op("CumProd", 26, |c| running(c, Tensor::cumprod, 1)),
    op("CumSum", 11, |c| running(c, Tensor::cumsum, 0)),
    op("ReduceL1", 1, |c| reduce(c, 18, |x, a| x.abs().sum(a))),
    op("ReduceL2", 1, |c| reduce(c, 18, |x, a| wide(x).square().sum(a).sqrt())),
    op("ReduceLogSum", 1, |c| reduce(c, 18, |x, a| x.sum(a).log())),
    op("ReduceLogSumExp", 1, |c| reduce(c, 18, |x, a| x.logsumexp(a))),
    op("ReduceMax", 1, |c| reduce(c, 18, max)),
    op("ReduceMean", 1, |c| reduce(c, 18, |x, a| x.mean(a))),
    op("ReduceMin", 1, |c| reduce(c, 18, min)),
    op("ReduceProd", 1, |c| reduce(c, 18, |x, a| x.prod(a))),
    op("ReduceSum", 1, |c| reduce(c, 13, |x, a| x.sum(a))),
    op("ReduceSumSquare", 1, |c| reduce(c, 18, |x, a| wide(x).square().sum(a))),
];

fn wide(x: &Tensor) -> Tensor {
    if x.dtype().is_small_float() { x.float() } else { x.clone() }
}

/// Axes are an attribute until a version, then an input; none of them means all, or none where that is asked for.
fn reduce(c: &Call, since: i64, f: fn(&Tensor, Axes) -> Tensor) -> Result<Outs> {
    let keep = c.int_or("keepdims", 1)? != 0;
    let nothing = c.flag("noop_with_empty_axes")?;
    let axes = if c.version() >= since { c.optional_ints(1)? } else { c.list("axes")? };
    let axes = axes.filter(|a| !a.is_empty());
    let x = c.tensor(0)?;
    let axes: Vec<isize> = match axes {
        Some(a) => a.iter().map(|a| *a as isize).collect(),
        None if nothing => vec![],
        None => (0..x.rank() as isize).collect(),
    };
    let axes = Axes::from(&axes[..]);
    give(f(&x, if keep { keepdim(axes) } else { axes }).cast(x.dtype()))
}

/// Of nothing: the least there is.
fn max(x: &Tensor, axes: Axes) -> Tensor {
    match x.dtype() {
        DType::Bool => x.any(axes),
        d if x.numel().is_ok_and(|n| n == 0) => x.sum(axes).full_like(ends(d).0),
        _ => x.max(axes),
    }
}
fn min(x: &Tensor, axes: Axes) -> Tensor {
    match x.dtype() {
        DType::Bool => x.all(axes),
        d if x.numel().is_ok_and(|n| n == 0) => x.sum(axes).full_like(ends(d).1),
        _ => x.min(axes),
    }
}
/// The least and the greatest value of a type.
fn ends(d: DType) -> (Operand, Operand) {
    match d.int_range() {
        Some((lo, hi)) => ((lo as i64).into(), (hi.min(i64::MAX as i128) as i64).into()),
        None => (f64::NEG_INFINITY.into(), f64::INFINITY.into()),
    }
}

fn arg(c: &Call, f: fn(&Tensor, Axes) -> Tensor) -> Result<Outs> {
    let (axis, keep) = (c.axis("axis", 0)?, c.int_or("keepdims", 1)? != 0);
    let last = c.flag("select_last_index")?;
    let x = c.tensor(0)?;
    let axes = if keep { keepdim(axis) } else { Axes::from(axis) };
    if !last {
        return give(f(&x, axes).long());
    }
    let n = x.shape()[axis].clone();
    give(((n.tensor() - 1) - f(&x.flip(axis), axes)).long())
}

fn running(c: &Call, f: fn(&Tensor, isize) -> Tensor, first: i64) -> Result<Outs> {
    let (exclusive, reverse) = (c.flag("exclusive")?, c.flag("reverse")?);
    let axis = c.int_input(1)?;
    let x = c.tensor(0)?;
    let at = super::shape::axis_of(axis, x.rank())?;
    let turned = if reverse { x.flip(axis as isize) } else { x.clone() };
    let n = super::shape::size_at(&x, at)? as i64;
    let shifted = if exclusive && n > 0 {
        let mut amounts = vec![(0, 0); x.rank()];
        amounts[at] = (1, 0);
        turned.narrow(axis as isize, 0, n - 1).pad(&amounts, first)
    } else {
        turned
    };
    let done = f(&shifted, axis as isize).cast(x.dtype());
    match x.dtype() {
        DType::Bool => fail("of truth values"),
        _ => give(if reverse { done.flip(axis as isize) } else { done }),
    }
}
