//! Places from data and memory that is written: gather, scatter, assignment.

use super::carry::movement;
use super::rules::Grads;
use crate::composite::{div, mul, one};
use crate::error::{Result, fail};
use crate::shape::product;
use crate::tensor::filled;
use frit_uop::{Alu, Arg, DType, Op, ScatterMode, UOp};
use smallvec::{SmallVec, smallvec};

/// Rows picked: their gradients are added up where they came from.
pub(super) fn gather(n: &UOp, g: &UOp) -> UOp {
    let (x, idx) = (n.input(), n.rows());
    let site = match n.arg {
        Arg::Site(s) => s,
        _ => 0,
    };
    let m = product(idx.shape());
    let mut dims: SmallVec<[UOp; 4]> = smallvec![m.clone()];
    dims.extend(x.shape()[1..].iter().cloned());
    let add_up = ScatterMode::Combine(Alu::Add);
    let acc = if x.dtype.is_small_float() { DType::F32 } else { x.dtype };
    filled(x.shape(), UOp::int(0, acc))
        .scatter(&idx.reshape(&[m]), &g.cast(acc).reshape(&dims), add_up, site)
        .cast(x.dtype)
}

/// What is computed stays in memory before elements of it are picked: at a place from data nothing of it is shared, and
/// a long way behind it would be computed for each of its branches again.
fn computed_once(x: &UOp) -> UOp {
    let mut at = x;
    while at.op.is_movement() {
        at = at.input();
    }
    let stands = matches!(at.op, Op::Const | Op::Buffer | Op::Param | Op::Iota | Op::After | Op::Contiguous);
    if stands { x.clone() } else { x.contiguous() }
}

/// Rows written: a value gets the gradient of the row it went to, the base that of the others.
pub(super) fn scatter(n: &UOp, g: &UOp) -> Result<Grads> {
    let Arg::Scatter(mode, site) = n.arg else { return fail!("gradient", "a scatter without a mode") };
    let (base, idx, val) = (n.input(), n.rows(), n.updates());
    let picked = |x: &UOp| computed_once(x).gather(idx, site);
    let zero = g.const_like(0);
    Ok(match mode {
        ScatterMode::Combine(Alu::Add) => smallvec![Some(g.clone()), Some(picked(g))],
        ScatterMode::Set => {
            // only the last value that went to a place has a gradient
            let m = &idx.shape()[0];
            let mine = UOp::iota(m, DType::I32);
            let rows = &base.shape()[..1];
            let winner = filled(rows, UOp::int(-1, DType::I32)).scatter(idx, &mine, ScatterMode::Set, site);
            let won = picked(&winner).eq_(&mine);
            let written = winner.lt(&UOp::int(0, DType::I32)).un(Alu::Not);
            let over_rows = |v: &UOp, dims: &[UOp]| {
                let mut d: SmallVec<[UOp; 4]> = SmallVec::from_elem(UOp::index(1), dims.len());
                d[0] = dims[0].clone();
                v.reshape(&d).expand(dims)
            };
            smallvec![
                Some(over_rows(&written, base.shape()).select(&zero, g)),
                Some(over_rows(&won, val.shape()).select(&picked(g), &zero))
            ]
        }
        ScatterMode::Combine(Alu::Max | Alu::Min) => {
            let (from_base, from_val) = (base.eq_(n), val.eq_(&picked(n)));
            let count = from_base.cast(g.dtype).scatter(
                idx,
                &from_val.cast(g.dtype),
                ScatterMode::Combine(Alu::Add),
                site,
            );
            let share = div(g, &count);
            smallvec![Some(from_base.select(&share, &zero)), Some(from_val.select(&picked(&share), &zero))]
        }
        ScatterMode::Combine(Alu::Mul) => {
            // the product of all others: nothing if another is zero, else that of all that are not zero, without itself
            let is_zero = |x: &UOp| x.eq_(&x.const_like(0));
            let safe = |x: &UOp| is_zero(x).select(&one(x), x);
            let product = safe(base).scatter(idx, &safe(val), mode, site);
            let count = |x: &UOp| is_zero(x).cast(DType::I32);
            let zeros = count(base).scatter(idx, &count(val), ScatterMode::Combine(Alu::Add), site);
            let others = |x: &UOp, product: &UOp, zeros: &UOp| {
                let alone = zeros.eq_(&count(x));
                alone.select(&div(product, &safe(x)), &product.const_like(0))
            };
            smallvec![
                Some(mul(g, &others(base, &product, &zeros))),
                Some(mul(&picked(g), &others(val, &picked(&product), &picked(&zeros))))
            ]
        }
        ScatterMode::Combine(a) => {
            return fail!("gradient", "there is no gradient through a scatter by {a:?}");
        }
    })
}

/// An assignment: the stored value gets the gradient of its places, the old version that of the others.
pub(super) fn assigned(n: &UOp, g: &UOp) -> Result<Grads> {
    let base = n.input();
    let mut left = g.clone();
    let mut values: Grads = smallvec![];
    for store in n.deps().iter().rev().filter(|s| s.op == Op::Store) {
        let (target, value) = (store.target(), store.value());
        let mut chain = vec![];
        let mut at = target;
        while at != base && at.op.is_movement() {
            chain.push(at);
            at = at.input();
        }
        if at != base {
            return fail!("gradient", "there is no gradient through a store to another tensor's memory");
        }
        let mut seen = left.clone();
        for op in chain.iter().rev() {
            let mut src = op.src.clone();
            src[0] = seen;
            seen = UOp::new(op.op, left.dtype, src, op.arg.clone());
        }
        let hit =
            chain.iter().fold(filled(target.shape(), UOp::int(1, DType::I32)), |m, op| movement(op, &m));
        let hit = hit.ne_(&UOp::int(0, DType::I32));
        left = hit.select(&left.const_like(0), &left);
        if value.dtype.is_float() {
            values.push(Some(seen));
        }
    }
    let mut all: Grads = smallvec![Some(left)];
    all.extend(values.into_iter().rev());
    Ok(all)
}
