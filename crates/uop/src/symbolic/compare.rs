//! Comparisons of integers: decided by bounds, or brought to `sum < c`, `sum == c` with the least sum.
//!
//! ```text
//! x*4 + 3 < 12        -> x < 3
//! i*32 + j < 64       -> i < 2               j in 0..32
//! x//4 < 3            -> x < 12
//! 5 < x               -> !(x < 6)
//! ```

use super::sum::Sum;
use crate::node::UOp;
use crate::op::Op;
use frit_abi::{Alu, DType};

/// `x < y` for integers.
pub fn less(n: &UOp) -> Option<UOp> {
    let [x, y] = n.operands();
    if n.bounds.0 == n.bounds.1 {
        return Some(UOp::boolean(n.bounds.0 == 1));
    }
    match (x.as_int(), y.as_int()) {
        // constants to the right: c < y is not y < c + 1
        (Some(c), None) => Some(y.ge_int(&x.const_like(c.checked_add(1)?))),
        (None, Some(c)) => less_than_constant(x, c),
        _ => less_than_value(x, y),
    }
}

fn less_than_constant(x: &UOp, c: i64) -> Option<UOp> {
    // x//a < c  ->  x < c*a
    if x.op == Op::Idiv
        && let Some(a) = x.rhs().as_int().filter(|a| *a > 0)
    {
        let ca = c as i128 * a as i128;
        let (lo, hi) = x.dtype.int_range()?;
        return if ca > hi {
            Some(UOp::boolean(true))
        } else if ca < lo {
            Some(UOp::boolean(false))
        } else {
            Some(x.lhs().lt(&x.const_like(ca as i64)))
        };
    }
    if !matches!(x.op, Op::Add | Op::Mul | Op::Sub | Op::Neg) {
        return None;
    }
    let mut s = Sum::of(x);
    let (&(_, first), true) = (s.terms.first()?, s.exact) else { return None };
    let c = c.checked_sub(s.constant)?;
    s.constant = 0;
    // the first coefficient positive: s < c  ->  !(-s < 1 - c)
    if first < 0 && !x.dtype.is_unsigned() {
        if s.terms.iter().any(|t| t.1 == i64::MIN) {
            return None;
        }
        let s = s.map(|k| -k);
        let c = 1i64.checked_sub(c)?;
        return (s.fits() && in_type(c, x.dtype)).then(|| s.build().ge_int(&x.const_like(c)));
    }
    // g*y + z < c where z stays below g
    let mut candidates: smallvec::SmallVec<[i64; 8]> = s.terms.iter().map(|t| t.1.saturating_abs()).collect();
    candidates.push(s.gcd());
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    candidates.dedup();
    for g in candidates.into_iter().filter(|g| *g > 1) {
        let (high, low) = s.partition(|k| k % g == 0);
        let (lo, hi) = low.bounds();
        let (q, r) = (c.div_euclid(g), c.rem_euclid(g) as i128);
        if high.terms.is_empty() || lo < 0 || hi >= g as i128 {
            continue;
        }
        let bound = if r == 0 || lo >= r {
            q
        } else if hi < r {
            q + 1
        } else {
            continue;
        };
        let y = high.map(|k| k / g);
        return y.fits().then(|| y.build().lt(&x.const_like(bound)));
    }
    s.fits().then(|| s.build().lt(&x.const_like(c))).filter(|_| in_type(c, x.dtype))
}

fn less_than_value(x: &UOp, y: &UOp) -> Option<UOp> {
    if x.dtype != DType::Index {
        return None;
    }
    let s = Sum::difference(x, y);
    if !s.exact {
        return None;
    }
    if s.is_negative() {
        return Some(UOp::boolean(true));
    }
    if not_below(&s) {
        return Some(UOp::boolean(false));
    }
    // both sides less what they share
    let (a, b) = (Sum::of(x), Sum::of(y));
    let shared = a.terms.iter().any(|t| b.terms.iter().any(|u| t.0 == u.0)) || b.constant != 0;
    shared.then(|| balanced(&s, |l, r| l.lt(r)))
}

/// Whether a sum is at least 0 for certain, symbolic extents considered.
fn not_below(s: &Sum) -> bool {
    // s >= 0  <=>  -s - 1 < 0
    let mut m = s.clone().map(i64::wrapping_neg);
    m.constant = m.constant.wrapping_sub(1);
    m.is_negative()
}

/// `s ? 0` with terms on the side where their coefficient is positive, the constant to the right.
fn balanced(s: &Sum, f: impl Fn(&UOp, &UOp) -> UOp) -> UOp {
    let (mut left, mut right) = s.partition(|k| k > 0);
    right = right.map(i64::wrapping_neg);
    if left.terms.is_empty() {
        // nothing but negative terms: keep them on the left so that the constant is alone
        (left, right) = (s.clone(), Sum::constant(s.constant.wrapping_neg(), s.dtype));
        left.constant = 0;
    }
    f(&left.build(), &right.build())
}

/// `x == y` for integers.
pub fn equal(n: &UOp) -> Option<UOp> {
    let [x, y] = n.operands();
    if n.bounds.0 == n.bounds.1 {
        return Some(UOp::boolean(n.bounds.0 == 1));
    }
    let alu = n.op.alu()?;
    let never = UOp::boolean(n.op == Op::Ne);
    if let Some(c) = y.as_int() {
        if !matches!(x.op, Op::Add | Op::Mul | Op::Sub | Op::Neg) {
            return None;
        }
        let mut s = Sum::of(x);
        if s.terms.is_empty() {
            return None;
        }
        // adding a constant is a bijection even where it wraps
        let mut right = Sum::constant(c.wrapping_sub(s.constant), x.dtype);
        right.normalise();
        s.constant = 0;
        if s.exact && s.fits() {
            let g = s.gcd();
            let true_right = c.checked_sub(Sum::of(x).constant)?;
            if g > 1 {
                if true_right % g != 0 {
                    return Some(never);
                }
                return Some(s.map(|k| k / g).build().bin(alu, &x.const_like(true_right / g)));
            }
            let (lo, hi) = s.bounds();
            if (true_right as i128) < lo || true_right as i128 > hi {
                return Some(never);
            }
            if s.terms[0].1 < 0 && s.terms.iter().all(|t| t.1 != i64::MIN) && !x.dtype.is_unsigned() {
                let m = s.clone().map(|k| -k);
                return (m.fits() && true_right != i64::MIN)
                    .then(|| m.build().bin(alu, &x.const_like(-true_right)));
            }
        }
        return Some(s.build().bin(alu, &right.build()));
    }
    if x.dtype != DType::Index {
        return None;
    }
    let s = Sum::difference(x, y);
    if !s.exact {
        return None;
    }
    let (lo, hi) = s.bounds();
    if lo > 0 || hi < 0 || s.is_negative() {
        return Some(never);
    }
    if s.terms.is_empty() {
        return Some(UOp::boolean((s.constant == 0) == (n.op == Op::Eq)));
    }
    let (a, b) = (Sum::of(x), Sum::of(y));
    let shared = a.terms.iter().any(|t| b.terms.iter().any(|u| t.0 == u.0)) || b.constant != 0;
    shared.then(|| balanced(&s, |l, r| l.bin(alu, r)))
}

fn in_type(c: i64, d: DType) -> bool {
    d.int_range().is_some_and(|(lo, hi)| lo <= c as i128 && c as i128 <= hi)
}

/// The conjuncts of a gate, left to right.
pub fn conjuncts(gate: &UOp) -> Vec<UOp> {
    flatten(gate, Op::And)
}

/// The operands of a chain of one associative op, left to right.
pub fn flatten(n: &UOp, op: Op) -> Vec<UOp> {
    let (mut out, mut todo) = (vec![], vec![n]);
    while let Some(x) = todo.pop() {
        if x.op == op && x.src.len() == 2 {
            todo.push(&x.src[1]);
            todo.push(&x.src[0]);
        } else {
            out.push(x.clone());
        }
    }
    out
}

/// `sum < c` as (sum, c, true), `!(sum < c)` as (sum, c, false).
pub fn as_bound(x: &UOp) -> Option<(&UOp, i64, bool)> {
    let (x, positive) = if x.op == Op::Not { (x.input(), false) } else { (x, true) };
    if x.op != Op::Lt || !x.lhs().dtype.is_int() {
        return None;
    }
    Some((x.lhs(), x.rhs().as_int()?, positive))
}

/// The canonical form of a bool `And` or `Or` whose sources are canonical: operands in order, each once, bounds on one
/// value merged.
pub fn chain(n: &UOp) -> Option<UOp> {
    let (op, is_and) = (n.op, n.op == Op::And);
    let mut parts = flatten(n, op);
    parts.sort_by(super::sum::order);
    parts.dedup();
    let mut i = 0;
    while i < parts.len() {
        let mut j = i + 1;
        while j < parts.len() {
            match merge(&parts[i], &parts[j], is_and) {
                Merged::Apart => j += 1,
                Merged::Keep(first) => {
                    let gone = parts.remove(if first { j } else { i });
                    drop(gone);
                    j = i + 1;
                }
                Merged::Decided => return Some(UOp::boolean(!is_and)),
            }
        }
        i += 1;
    }
    let alu = if is_and { Alu::And } else { Alu::Or };
    parts.into_iter().reduce(|a, b| a.bin(alu, &b))
}

enum Merged {
    Apart,
    /// One implies the other: the first (or else the second) says it all.
    Keep(bool),
    /// False for a conjunction, true for a disjunction.
    Decided,
}

fn merge(a: &UOp, b: &UOp, is_and: bool) -> Merged {
    if (a.op == Op::Not && a.input() == b) || (b.op == Op::Not && b.input() == a) {
        return Merged::Decided;
    }
    // x & (x | y) -> x, x | (x & y) -> x
    let inner = if is_and { Op::Or } else { Op::And };
    if b.op == inner && b.src.contains(a) {
        return Merged::Keep(true);
    }
    if a.op == inner && a.src.contains(b) {
        return Merged::Keep(false);
    }
    let (Some((x, c, up)), Some((y, d, vp))) = (as_bound(a), as_bound(b)) else { return Merged::Apart };
    if x != y {
        return Merged::Apart;
    }
    match (up, vp) {
        // x < c, x < d: the lesser in a conjunction, the greater in a disjunction
        (true, true) => Merged::Keep((c <= d) == is_and),
        (false, false) => Merged::Keep((c >= d) == is_and),
        // x < c, !(x < d)
        (true, false) if is_and && c <= d => Merged::Decided,
        (true, false) if !is_and && d <= c => Merged::Decided,
        (false, true) if is_and && d <= c => Merged::Decided,
        (false, true) if !is_and && c <= d => Merged::Decided,
        _ => Merged::Apart,
    }
}
