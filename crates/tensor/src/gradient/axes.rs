//! Reductions and scans.

use crate::composite::{div, mul, one};
use crate::error::{Result, fail};
use crate::index::scatter_along;
use crate::movement::{cut, pad_axis};
use crate::reduce::{is_first_wins, last_records, reduce_node, zeros_like};
use crate::shape::{dim_sub, product};
use crate::tensor::expand_to;
use frit_uop::{Alu, Arg, DType, Op, ScatterMode, UOp};
use smallvec::SmallVec;

/// A reduction: to all elements of a sum, to the winners of a maximum or minimum, times the others of a product.
pub(super) fn reduce(n: &UOp, g: &UOp) -> Result<UOp> {
    let x = n.input();
    let Arg::ReduceAxes(alu, axes) = &n.arg else { return fail!("gradient", "a reduction without axes") };
    let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
    let back = |v: &UOp| expand_to(v, x.shape());
    match alu {
        Alu::Add => Ok(back(&as_factor(g, x))),
        Alu::Max | Alu::Min => {
            // NaN wins, and is not equal to itself
            let hit = x.eq_(&back(n)).or_(&x.ne_(x));
            if is_first_wins(x) {
                let dims = x.shape().iter().enumerate();
                let along: SmallVec<[UOp; 4]> =
                    dims.map(|(i, d)| if axes.contains(&i) { d.clone() } else { UOp::index(1) }).collect();
                let places = UOp::iota(&product(&along), DType::I32).reshape(&along).expand(x.shape());
                let first = hit.select(&places, &UOp::int(i32::MAX as i64, DType::I32));
                let hit = places.eq_(&back(&first.reduce_axes(Alu::Min, &axes)));
                return Ok(hit.select(&back(g), &g.const_like(0)));
            }
            let count = reduce_node(&hit.cast(g.dtype), Alu::Add, &axes);
            Ok(hit.select(&back(&div(g, &count)), &g.const_like(0)))
        }
        Alu::Mul => {
            // the product of all others: of those before times those after, right with zeros too
            let rank = x.shape().len();
            let mut order: Vec<usize> = (0..rank).filter(|a| !axes.contains(a)).collect();
            let kept: Vec<UOp> = order.iter().map(|&a| x.shape()[a].clone()).collect();
            order.extend(&axes);
            let moved = x.permute(&order);
            let mut flat: SmallVec<[UOp; 4]> = kept.iter().cloned().collect();
            flat.push(product(&axes.iter().map(|&a| x.shape()[a].clone()).collect::<Vec<_>>()));
            let (v, last) = (moved.reshape(&flat), flat.len() - 1);
            let before = exclusive(&v, last);
            let after = exclusive(&v.flip(&[last]), last).flip(&[last]);
            let others = mul(&before, &after).reshape(moved.shape());
            let mut inverse = vec![0; rank];
            for (i, &o) in order.iter().enumerate() {
                inverse[o] = i;
            }
            Ok(mul(&back(g), &others.permute(&inverse)))
        }
        a => fail!("gradient", "there is no gradient through a reduction by {a:?}"),
    }
}

/// The gradient of a sum of products `x`, rounded to the type of its factors where it has no more digits than they: it is a factor
/// next.
fn as_factor(g: &UOp, x: &UOp) -> UOp {
    let widened = |x: &UOp| {
        let x = unmoved(x);
        (x.op == Op::Cast).then(|| x.input().dtype).filter(|d| d.is_small_float())
    };
    match (x.op, few_digits(g)) {
        _ if widened(g).is_some() => g.clone(),
        (Op::Mul, Some(d)) if x.src.iter().all(|f| widened(f) == Some(d)) => g.cast(d).cast(g.dtype),
        _ => g.clone(),
    }
}

fn unmoved(mut x: &UOp) -> &UOp {
    while x.op.is_movement() {
        x = x.input();
    }
    x
}

/// The small float that all values are of, but for a constant factor.
fn few_digits(g: &UOp) -> Option<DType> {
    let g = unmoved(g);
    match g.op {
        Op::Cast => Some(g.input().dtype).filter(|d| d.is_small_float()),
        Op::Neg => few_digits(g.input()),
        Op::Where => few_digits(g.if_true()).filter(|_| g.if_false().as_scalar().is_some()),
        Op::Mul => {
            let (a, b) = (&g.src[0], &g.src[1]);
            if unmoved(b).as_scalar().is_some() { few_digits(a) } else { None }
        }
        _ => None,
    }
}

/// Running product of the elements before each, 1 for the first.
fn exclusive(v: &UOp, axis: usize) -> UOp {
    let (n, unit, zero) = (&v.shape()[axis], UOp::index(1), UOp::index(0));
    if n.as_int() == Some(0) {
        return v.clone();
    }
    let shifted = pad_axis(&cut(v, axis, &zero, &dim_sub(n, &unit)), axis, &unit, &zero);
    let place = crate::reduce::along_axis(&UOp::iota(n, DType::I32), v.shape(), axis);
    place.eq_(&UOp::int(0, DType::I32)).select(&one(v), &shifted).scan_axis(Alu::Mul, axis)
}

/// A scan: what it is of, from the end.
pub(super) fn scan(n: &UOp, g: &UOp) -> Result<UOp> {
    let x = n.input();
    let Arg::ReduceAxes(alu, axes) = &n.arg else { return fail!("gradient", "a scan without an axis") };
    let axis = axes.first().copied().unwrap_or(0) as usize;
    let from_end = |v: &UOp| v.flip(&[axis]).scan_axis(Alu::Add, axis).flip(&[axis]);
    match alu {
        Alu::Add => Ok(from_end(g)),
        Alu::Max | Alu::Min => {
            let at = last_records(x, n, axis);
            scatter_along("gradient", &zeros_like(x), axis, &at, g, ScatterMode::Combine(Alu::Add))
        }
        Alu::Mul => {
            // to the left of the first zero divide; at it, the product with a one in its place; to the right nothing
            let zero = x.const_like(0);
            let is_zero = x.eq_(&zero);
            let seen = is_zero.cast(DType::I32).scan_axis(Alu::Add, axis);
            let first = is_zero.and_(&seen.eq_(&seen.const_like(1)));
            let without = first.select(&one(x), x).scan_axis(Alu::Mul, axis);
            let at_first = from_end(&mul(g, &without));
            let left = div(&from_end(&mul(g, n)), &is_zero.select(&one(x), x));
            let left = seen.eq_(&seen.const_like(0)).select(&left, &zero);
            Ok(first.select(&at_first, &left))
        }
        a => fail!("gradient", "there is no gradient through a scan by {a:?}"),
    }
}
