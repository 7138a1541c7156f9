//! Index arithmetic, and the six movement ops as functions on indices.
//!
//! ```text
//! Permute  reorders        Expand  index 0 where it repeats      Shrink  i + begin      Flip  d-1 - i
//! Reshape  mixes by mul, div and mod within groups of dims       Pad     i - before, and a gate
//! ```
//! The constructors fold what reshapes produce all the time, so that two ways to the same element are one node.

use crate::error::Error;
use frit_abi::Alu;
use frit_uop::symbolic::compare;
use frit_uop::symbolic::size::factors;
use frit_uop::symbolic::sum::gcd;
use frit_uop::symbolic::sum::order;
use frit_uop::{Arg, AxisKind, Op, UOp};
use smallvec::{SmallVec, smallvec};

/// One index per dim.
pub type Idx = SmallVec<[UOp; 4]>;

fn is(n: &UOp, v: i64) -> bool {
    n.as_int() == Some(v)
}

/// Sum; constants end up rightmost.
pub fn add(a: &UOp, b: &UOp) -> UOp {
    let tail = |n: &UOp| (n.op == Op::Add).then(|| n.rhs().as_int()).flatten();
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) => UOp::index(x.wrapping_add(y)),
        (Some(0), _) => b.clone(),
        (_, Some(0)) => a.clone(),
        (Some(_), _) => add(b, a),
        (_, Some(y)) => match tail(a) {
            Some(x) => add(a.lhs(), &UOp::index(x.wrapping_add(y))),
            None => a + b,
        },
        _ => match (tail(a), tail(b)) {
            (_, Some(_)) => add(&add(a, b.lhs()), b.rhs()),
            (Some(_), _) => add(&add(a.lhs(), b), a.rhs()),
            _ if b.op == Op::Add => add(&add(a, b.lhs()), b.rhs()),
            _ => a + b,
        },
    }
}

/// Product; a constant factor is distributed over sums.
pub fn mul(a: &UOp, b: &UOp) -> UOp {
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) => UOp::index(x.wrapping_mul(y)),
        (Some(0), _) | (_, Some(1)) => a.clone(),
        (_, Some(0)) | (Some(1), _) => b.clone(),
        (Some(_), _) => mul(b, a),
        (_, Some(_)) if a.op == Op::Add => add(&mul(a.lhs(), b), &mul(a.rhs(), b)),
        (_, Some(y)) if a.op == Op::Mul => match a.rhs().as_int() {
            Some(x) => mul(a.lhs(), &UOp::index(x.wrapping_mul(y))),
            None => a * b,
        },
        _ => a * b,
    }
}

/// The quotient if the term is a multiple of `d`.
fn exact_quotient(t: &UOp, d: &UOp) -> Option<UOp> {
    if t == d {
        return Some(UOp::index(1));
    }
    match (t.as_int(), d.as_int()) {
        (Some(k), Some(c)) => (k % c == 0).then(|| UOp::index(k / c)),
        (None, Some(c)) if t.op == Op::Mul => {
            t.rhs().as_int().filter(|k| k % c == 0).map(|k| mul(t.lhs(), &UOp::index(k / c)))
        }
        (None, None) if t.op == Op::Mul => {
            if t.rhs() == d {
                Some(t.lhs().clone())
            } else if t.lhs() == d {
                Some(t.rhs().clone())
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Whether `0 <= x < d` is certain.
fn within(x: &UOp, d: &UOp) -> bool {
    let below = x.bounds.1 < d.bounds.0 || (x.op == Op::Range && x.extent() == d);
    x.bounds.0 >= 0 && below
}

/// `x` as `quotient * d + rest` with the terms that divide by `d` in the quotient.
fn divide_terms(x: &UOp, d: &UOp) -> (UOp, UOp) {
    let (mut q, mut r) = (UOp::index(0), UOp::index(0));
    for t in compare::flatten(x, Op::Add) {
        match exact_quotient(&t, d) {
            Some(k) => q = add(&q, &k),
            None => r = add(&r, &t),
        }
    }
    (q, r)
}

/// Floor division by a positive dim.
pub fn div(x: &UOp, d: &UOp) -> UOp {
    if is(d, 1) {
        return x.clone();
    }
    if within(x, d) {
        return UOp::index(0);
    }
    let (q, r) = divide_terms(x, d);
    if is(&r, 0) || within(&r, d) {
        return q;
    }
    match (r.op, d.as_int(), r.src.get(1).and_then(|k| k.as_int())) {
        (Op::Idiv, Some(c), Some(k)) if k > 0 => add(&q, &div(r.lhs(), &UOp::index(c * k))),
        _ => add(&q, &r.floordiv(d)),
    }
}

/// Steps between two that are used which a loop may have unrolled.
const UNROLLED: u64 = 16;

/// For how many steps of a range, about, indices stay as they are where it is walked digit by digit; as many as there are where
/// they do not move with it.
pub fn held<'i>(indices: impl Iterator<Item = &'i UOp>, id: u32) -> u64 {
    let mut used: Vec<(u64, u64)> = indices.flat_map(|i| digits(i, id)).collect();
    used.sort_unstable();
    let Some(&(below, _)) = used.first() else { return u64::MAX };
    let (mut between, mut end) = (1, below);
    for (from, to) in used {
        between *= (from / end).max(1);
        end = end.max(to);
    }
    if between <= UNROLLED { below.saturating_mul(between) } else { below }
}

/// The digits of a range that an index is made of: from how many steps on each moves, and after how many it is again as it was.
fn digits(idx: &UOp, id: u32) -> SmallVec<[(u64, u64); 4]> {
    let all = smallvec![(1, u64::MAX)];
    if !idx.ranges.contains(&id) {
        return smallvec![];
    }
    let cut = || Some(steps(&idx.src[0], id)?.saturating_mul(u64::try_from(idx.src[1].as_int()?).ok()?));
    let keep = |f: fn((u64, u64), u64) -> (u64, u64)| match cut() {
        Some(at) => digits(&idx.src[0], id).into_iter().map(|d| f(d, at)).filter(|d| d.0 < d.1).collect(),
        None => all.clone(),
    };
    match idx.op {
        Op::Add | Op::Sub => idx.src.iter().flat_map(|s| digits(s, id)).collect(),
        Op::Mul if !idx.src[1].ranges.contains(&id) => digits(&idx.src[0], id),
        Op::Idiv => keep(|(from, to), at| (from.max(at), to)),
        Op::Mod => keep(|(from, to), at| (from, to.min(at))),
        _ => all,
    }
}

/// Steps of a range for each step of an index that is a digit of it, or moves with it by a constant.
fn steps(idx: &UOp, id: u32) -> Option<u64> {
    let by = || u64::try_from(idx.src[1].as_int()?).ok().filter(|by| *by > 0);
    match idx.op {
        Op::Range => Some(1),
        Op::Add => match [0, 1].map(|i| idx.src[i].ranges.contains(&id)) {
            [true, false] => steps(&idx.src[0], id),
            [false, true] => steps(&idx.src[1], id),
            _ => None,
        },
        Op::Mul => {
            let (a, by) = (steps(&idx.src[0], id)?, by()?);
            a.is_multiple_of(by).then(|| a / by)
        }
        Op::Idiv => steps(&idx.src[0], id)?.checked_mul(by()?),
        Op::Mod => steps(&idx.src[0], id),
        _ => None,
    }
}

/// How many values an index takes, at most.
pub fn values(idx: &UOp) -> u64 {
    let between = idx.bounds.1.saturating_sub(idx.bounds.0).saturating_add(1).clamp(1, u64::MAX.into());
    let apart = (between as u64).div_ceil(stride(idx).unsigned_abs().max(1));
    match idx.op {
        Op::Add | Op::Sub | Op::Mul | Op::Idiv | Op::Mod => {
            idx.src.iter().map(values).fold(1, u64::saturating_mul).min(apart)
        }
        _ => apart,
    }
}
/// What the values of an index are apart by, at least, 0 if there is one.
fn stride(idx: &UOp) -> i64 {
    match idx.op {
        Op::Const => 0,
        Op::Add | Op::Sub => gcd(stride(idx.lhs()), stride(idx.rhs())),
        Op::Mul => idx.rhs().as_int().map_or(1, |c| stride(idx.lhs()).saturating_mul(c)),
        Op::Mod => idx.rhs().as_int().map_or(1, |c| gcd(stride(idx.lhs()), c)),
        _ => 1,
    }
}

/// Remainder by a positive dim.
pub fn modulo(x: &UOp, d: &UOp) -> UOp {
    if is(d, 1) {
        return UOp::index(0);
    }
    let (_, r) = divide_terms(x, d);
    if within(&r, d) { r } else { r.modulo(d) }
}

/// Product of dims.
pub fn numel(dims: &[UOp]) -> UOp {
    dims.iter().fold(UOp::index(1), |n, d| mul(&n, d))
}

/// The greatest number of elements, saturating.
pub fn max_numel(dims: &[UOp]) -> u64 {
    dims.iter().fold(1u64, |n, d| n.saturating_mul(d.bounds.1.clamp(0, u64::MAX as i128) as u64))
}

/// Row-major position of an element.
pub fn flatten(dims: &[UOp], idx: &[UOp]) -> UOp {
    let (mut flat, mut stride) = (UOp::index(0), UOp::index(1));
    let mut parts: Vec<UOp> = vec![];
    for (d, i) in dims.iter().zip(idx).rev() {
        parts.push(mul(i, &stride));
        stride = mul(&stride, d);
    }
    for p in parts.iter().rev() {
        flat = add(&flat, p);
    }
    flat
}

/// The indices of the element at a row-major position.
fn unflatten(dims: &[UOp], flat: &UOp) -> Idx {
    let mut rest = flat.clone();
    let mut idx: Idx = dims.iter().map(|_| UOp::index(0)).collect();
    let outermost = dims.iter().position(|d| !is(d, 1));
    for (k, d) in dims.iter().enumerate().rev() {
        if is(d, 1) {
            continue;
        }
        if Some(k) == outermost {
            idx[k] = rest;
            break;
        }
        idx[k] = modulo(&rest, d);
        rest = div(&rest, d);
    }
    idx
}

fn times(a: (i64, Vec<UOp>), b: (i64, Vec<UOp>)) -> (i64, Vec<UOp>) {
    let mut s = [a.1, b.1].concat();
    s.sort_by(order);
    (a.0.saturating_mul(b.0), s)
}

/// Whether two sizes are the same product.
pub fn same_size(a: &UOp, b: &UOp) -> bool {
    a == b || factors(a) == factors(b)
}

/// Split two lists of dims into aligned groups of equal size: (ends in a, ends in b).
fn groups(a: &[UOp], b: &[UOp]) -> Vec<(usize, usize)> {
    let (mut out, mut i, mut j) = (vec![], 0, 0);
    while i < a.len() && j < b.len() {
        let (mut x, mut y) = (factors(&a[i]), factors(&b[j]));
        (i, j) = (i + 1, j + 1);
        let size = |f: &(i64, Vec<UOp>)| f.1.iter().fold(f.0 as i128, |n, s| n.saturating_mul(s.bounds.1));
        while x != y {
            if size(&x) <= size(&y) && i < a.len() {
                x = times(x, factors(&a[i]));
                i += 1;
            } else if j < b.len() {
                y = times(y, factors(&b[j]));
                j += 1;
            } else {
                (i, j) = (a.len(), b.len());
                break;
            }
        }
        out.push((i, j));
    }
    match out.last_mut() {
        Some(last) => *last = (a.len(), b.len()),
        None => out.push((a.len(), b.len())),
    }
    out
}

/// Indices into `src` dims of the element that a reshape to `dims` has at `idx`.
pub fn reshape(dims: &[UOp], idx: &[UOp], src: &[UOp]) -> Idx {
    let (mut out, mut i, mut j) = (Idx::new(), 0, 0);
    for (ni, nj) in groups(dims, src) {
        out.extend(unflatten(&src[j..nj], &flatten(&dims[i..ni], &idx[i..ni])));
        (i, j) = (ni, nj);
    }
    out
}

/// The numbers of the ranges that some index of a [`reshape`] is not made of, though the position it is a part of is:
/// quotients and remainders that are 0 whatever the range is.
pub fn left_out(dims: &[UOp], idx: &[UOp], src: &[UOp], out: &[UOp]) -> Vec<u32> {
    let (mut found, mut i, mut j) = (vec![], 0, 0);
    for (ni, nj) in groups(dims, src) {
        for id in idx[i..ni].iter().flat_map(|x| x.ranges.iter().copied()) {
            let parts = src[j..nj].iter().zip(&out[j..nj]).filter(|(d, _)| !is(d, 1));
            if parts.into_iter().any(|(_, o)| !o.ranges.contains(&id)) {
                found.push(id);
            }
        }
        (i, j) = (ni, nj);
    }
    found
}

/// Ranges over dims; none for dims of size 1. Returns the ranges and one index per dim.
pub fn open_ranges(dims: &[UOp], mut id: impl FnMut() -> u32, kind: AxisKind) -> (Vec<UOp>, Idx) {
    let mut ranges = vec![];
    let idx = dims
        .iter()
        .map(|d| {
            if d.as_int() == Some(1) {
                return UOp::index(0);
            }
            ranges.push(UOp::range(d, id(), kind));
            ranges[ranges.len() - 1].clone()
        })
        .collect();
    (ranges, idx)
}

/// A constant with a shape.
pub fn broadcast(c: &UOp, dims: &[UOp]) -> UOp {
    let ones: Vec<UOp> = dims.iter().map(|_| UOp::index(1)).collect();
    c.reshape(&ones).expand(dims)
}

/// Conjunction of optional gates.
pub fn both(a: Option<UOp>, b: UOp) -> Option<UOp> {
    Some(match a {
        None => b,
        Some(a) if a == b => a,
        Some(a) => a.and_(&b),
    })
}

/// Where a movement op reads: the indices into its source for indices into its result; what `Pad` must hold is added
/// to the gate.
pub fn through(n: &UOp, idx: &[UOp], gate: &mut Option<UOp>) -> Result<Idx, Error> {
    let x = &n.src[0];
    let (from, to) = match (x.try_shape(), n.try_shape()) {
        (Some(f), Some(t)) if t.len() == idx.len() => (f, t),
        _ => return Err(Error::malformed(n, "no shape")),
    };
    Ok(match (n.op, &n.arg) {
        (Op::Reshape, _) => reshape(to, idx, from),
        (Op::Permute, Arg::Axes(axes)) => {
            let mut out: Idx = idx.iter().cloned().collect();
            for (i, &a) in axes.iter().enumerate() {
                out[a as usize] = idx[i].clone();
            }
            out
        }
        (Op::Expand, _) => idx
            .iter()
            .zip(from.iter().zip(to))
            .map(|(i, (f, t))| if f == t { i.clone() } else { UOp::index(0) })
            .collect(),
        (Op::Flip, Arg::Axes(axes)) => {
            let mut out: Idx = idx.iter().cloned().collect();
            for &a in axes {
                let last = add(&from[a as usize], &UOp::index(-1));
                out[a as usize] = add(&mul(&idx[a as usize], &UOp::index(-1)), &last);
            }
            out
        }
        (Op::Shrink, _) => idx.iter().zip(&n.src[1..]).map(|(i, begin)| add(i, begin)).collect(),
        (Op::Pad, _) => {
            let rank = from.len();
            let mut out = Idx::new();
            for (k, i) in idx.iter().enumerate() {
                let (before, after) = (&n.src[1 + k], &n.src[1 + rank + k]);
                let at = add(i, &mul(before, &UOp::index(-1)));
                if !is(before, 0) {
                    *gate = both(gate.take(), i.lt(before).un(Alu::Not));
                }
                if !is(after, 0) {
                    *gate = both(gate.take(), at.lt(&from[k]));
                }
                out.push(at);
            }
            out
        }
        _ => return Err(Error::malformed(n, "not a movement op")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_stays_for_the_digits_that_it_does_not_have() {
        let r = UOp::range(&UOp::index(576), 0, AxisKind::Reduce);
        let of = |indices: &[UOp]| held(indices.iter(), 0);
        let (block, low) = (r.floordiv(&UOp::index(32)), r.modulo(&UOp::index(16)));
        assert_eq!(of(&[UOp::index(3)]), u64::MAX);
        assert_eq!(of(&[&r * 4]), 1);
        assert_eq!(of(&[&block * 20 + 4]), 32);
        // bytes of two fields each
        assert_eq!(of(&[block.clone(), low.clone()]), 2);
        assert_eq!(of(&[&block * 20 + &low]), 2);
        // nothing says that what comes again is still there
        assert_eq!(of(&[low]), 1);
        assert_eq!(of(&[r.floordiv(&UOp::index(16)).modulo(&UOp::index(2))]), 16);
    }
}
