//! Remove loops that only look for an index or count: arange, one-hot and selection cost no loop.
//!
//! ```text
//! Reduce[Add](Where(r == y, v(r), 0), r)   ->  Where(0 <= y < n, v(y), 0)
//! Reduce[Add](Where(r < y, c, 0), r)       ->  c * clamp(y, 0, n)              integers
//! Reduce[Add](c, r)                        ->  c * n                           integers
//! Reduce[Max](c, r)                        ->  c
//! ```
//! Masks are `Where`, never a multiplication: only that form folds for floats.

use crate::error::Error;
use crate::index::{self, both};
use crate::kernels;
use crate::plan::Plan;
use frit_abi::sync::LazyLock;
use frit_abi::{Alu, DType, Scalar};
use frit_uop::rewrite::rewrite;
use frit_uop::rules::Matcher;
use frit_uop::symbolic::compare::conjuncts;
use frit_uop::{Arg, Op, UOp, rules};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

rules! { FOLD;
    // the same in every iteration
    Reduce(x, ..) as n                                                              => repeated(n, x);
    // zero but where a mask holds
    Reduce(Where(g, v, z), ..) as n                if sums(n) && is_zero(z)         => masked(n, conjuncts(g), v);
    Reduce(Where(Not(g), z, v), ..) as n           if sums(n) && is_zero(z)         => masked(n, vec![g.clone()], v);
    Reduce(Where(Ne(x, y), z, v), ..) as n         if sums(n) && is_zero(z)         => masked(n, vec![x.eq_(y)], v);
    Reduce(Where(Lt(x, _) as g, z, v), ..) as n    if sums(n) && is_zero(z) && x.dtype.is_int()
                                                                                    => masked(n, vec![g.un(Alu::Not)], v);
}

/// Folds loops over aranges and simplifies what is left.
pub fn fold_loops(plan: &mut Plan) -> Result<(), Error> {
    static RULES: LazyLock<Matcher<()>> = LazyLock::new(|| Matcher::new(&[&FOLD], &[]));
    let folds = |n: &UOp| n.op == Op::Reduce && RULES.apply(n, &mut ()).is_some();
    if plan.list().nodes.iter().any(folds) {
        plan.set_sink(rewrite(plan.sink(), &RULES, &mut ()));
    }
    plan.set_sink(frit_uop::symbolic::simplify(plan.sink()));
    Ok(())
}

fn sums(n: &UOp) -> bool {
    n.arg == Arg::Alu(Alu::Add)
}
fn depends(x: &UOp, r: &UOp) -> bool {
    r.range_arg().is_some_and(|a| x.ranges.contains(&a.id))
}
fn is_zero(x: &UOp) -> bool {
    x.as_scalar() == Some(Scalar::zero(x.dtype))
}

/// A reduce with one range less, over which its body is already combined.
fn without(n: &UOp, r: &UOp, body: UOp) -> Option<UOp> {
    let Arg::Alu(op) = n.arg else { return None };
    Some(body.reduce(op, n.closed_ranges().iter().filter(|x| *x != r).cloned()))
}

/// A value that is the same in every iteration of a range.
fn repeated(n: &UOp, body: &UOp) -> Option<UOp> {
    let Arg::Alu(op) = n.arg else { return None };
    n.closed_ranges().iter().filter(|r| !depends(body, r)).find_map(|r| match op {
        Alu::Max | Alu::Min | Alu::And | Alu::Or if r.extent().bounds.0 >= 1 => without(n, r, body.clone()),
        Alu::Add if body.dtype.is_int() => without(n, r, body * &r.extent().cast(body.dtype)),
        _ => None,
    })
}

/// The sum of a value that is zero but where all conditions hold.
fn masked(n: &UOp, mut gate: Vec<UOp>, v: &UOp) -> Option<UOp> {
    // Where(a, Where(b, v, 0), 0) is one mask
    let mut v = v;
    while v.op == Op::Where && is_zero(v.if_false()) {
        gate.extend(conjuncts(v.condition()));
        v = v.if_true();
    }
    let mut ranges = n.closed_ranges().iter().filter(|r| depends(n.body(), r));
    ranges.find_map(|r| without(n, r, selected(&gate, v, r).or_else(|| counted(&gate, v, r))?))
}

/// `x` as `sign * r + offset`, seen through casts that lose nothing: (sign is negative, offset).
fn linear(x: &UOp, r: &UOp) -> Option<(bool, UOp)> {
    let mut x = x;
    while x.op == Op::Cast {
        let inner = x.input();
        let exact = match x.dtype {
            DType::F64 => 1i128 << 53,
            DType::F32 => 1 << 24,
            DType::F16 => 1 << 11,
            DType::BF16 => 1 << 8,
            d => {
                let (lo, hi) = d.int_range()?;
                if inner.bounds.0 < lo || inner.bounds.1 > hi {
                    return None;
                }
                i128::MAX
            }
        };
        if !inner.dtype.is_int() || inner.bounds.0 < -exact || inner.bounds.1 > exact {
            return None;
        }
        x = inner;
    }
    if !x.dtype.is_int() {
        return None;
    }
    let (mut sign, mut offset, mut stack) = (None, UOp::index(0), vec![(x.clone(), false)]);
    while let Some((t, neg)) = stack.pop() {
        if t == *r {
            if sign.replace(neg).is_some() {
                return None;
            }
        } else if !depends(&t, r) {
            let t = if t.dtype == DType::Index { t } else { t.cast(DType::Index) };
            let t = if neg { index::mul(&t, &UOp::index(-1)) } else { t };
            offset = index::add(&offset, &t);
        } else {
            match t.op {
                // arithmetic of other types may wrap where that of indices does not
                _ if t.dtype != DType::Index => match t.op {
                    Op::Add if fits(&t) => stack.extend(t.src.iter().map(|s| (s.clone(), neg))),
                    Op::Sub if fits(&t) => stack.extend([(t.lhs().clone(), neg), (t.rhs().clone(), !neg)]),
                    Op::Cast if fits_cast(&t) => stack.push((t.input().clone(), neg)),
                    _ => return None,
                },
                Op::Add => stack.extend(t.src.iter().map(|s| (s.clone(), neg))),
                Op::Sub => stack.extend([(t.lhs().clone(), neg), (t.rhs().clone(), !neg)]),
                Op::Mul if t.rhs().as_int() == Some(-1) => stack.push((t.lhs().clone(), !neg)),
                Op::Neg => stack.push((t.input().clone(), !neg)),
                _ => return None,
            }
        }
    }
    sign.map(|s| (s, offset))
}
/// Whether the bounds say that the operation did not wrap.
fn fits(t: &UOp) -> bool {
    let (a, b) = (t.lhs().bounds, t.rhs().bounds);
    let Some((lo, hi)) = t.dtype.int_range() else { return false };
    let (l, h) = if t.op == Op::Add { (a.0 + b.0, a.1 + b.1) } else { (a.0 - b.1, a.1 - b.0) };
    l >= lo && h <= hi
}
fn fits_cast(t: &UOp) -> bool {
    t.input().dtype.is_int()
        && t.dtype.int_range().is_some_and(|(lo, hi)| t.input().bounds.0 >= lo && t.input().bounds.1 <= hi)
}

/// The one iteration that a mask `r == y` lets through.
fn selected(gate: &[UOp], v: &UOp, r: &UOp) -> Option<UOp> {
    for (k, c) in gate.iter().enumerate().filter(|(_, c)| c.op == Op::Eq) {
        for (a, y) in [(c.lhs(), c.rhs()), (c.rhs(), c.lhs())] {
            if depends(y, r) || !depends(a, r) {
                continue;
            }
            let Some((negative, offset)) = linear(a, r) else { continue };
            // sign * r + offset = y
            let whole = y.cast(DType::Index);
            let minus = |x: &UOp| index::mul(x, &UOp::index(-1));
            let at = if negative {
                index::add(&offset, &minus(&whole))
            } else {
                index::add(&whole, &minus(&offset))
            };
            let inside = at.lt(&UOp::index(0)).un(Alu::Not).and_(&at.lt(r.extent()));
            let mut put = Put { r, at: &at, gate: &inside, done: FxHashMap::default() };
            let mut all = Some(inside.clone());
            if y.dtype.is_float() {
                all = both(all, put.put(c)?); // y may lie between two integers
            }
            for (j, other) in gate.iter().enumerate() {
                if j != k {
                    all = both(all, put.put(other)?);
                }
            }
            let v = put.put(v)?;
            let zero = UOp::constant(Scalar::zero(v.dtype), v.dtype);
            return Some(all?.select(&v, &zero));
        }
    }
    None
}

/// How many iterations a mask `r < y` lets through, times an integer that is the same in all.
fn counted(gate: &[UOp], v: &UOp, r: &UOp) -> Option<UOp> {
    let [c] = gate else { return None };
    if !v.dtype.is_int() || depends(v, r) {
        return None;
    }
    let (c, inverted) = if c.op == Op::Not { (c.input(), true) } else { (c, false) };
    if c.op != Op::Lt || !c.lhs().dtype.is_int() {
        return None;
    }
    let n = r.extent();
    let (a, b) = (c.lhs(), c.rhs());
    let minus = |x: &UOp| index::mul(x, &UOp::index(-1));
    let clamped = |x: UOp| x.bin(Alu::Max, &UOp::index(0)).bin(Alu::Min, n);
    // below counts the iterations with sign*r + offset < y; above those with y < sign*r + offset
    let below = |off: &UOp, y: &UOp, neg: bool| {
        if neg {
            // offset - r < y  <=>  r > offset - y: all but the first offset-y+1
            let skipped = clamped(index::add(&index::add(off, &minus(y)), &UOp::index(1)));
            index::add(n, &minus(&skipped))
        } else {
            clamped(index::add(y, &minus(off)))
        }
    };
    let exact = |y: &UOp| y.dtype.is_int() && y.dtype != DType::U64;
    let count = if depends(a, r) && !depends(b, r) && exact(b) {
        let (neg, off) = linear(a, r)?;
        below(&off, &b.cast(DType::Index), neg)
    } else if depends(b, r) && !depends(a, r) && exact(a) {
        // y < x  <=>  not (x < y + 1)
        let (neg, off) = linear(b, r)?;
        let le = below(&off, &index::add(&a.cast(DType::Index), &UOp::index(1)), neg);
        index::add(n, &minus(&le))
    } else {
        return None;
    };
    let count = if inverted { index::add(n, &minus(&count)) } else { count };
    Some(v * &count.cast(v.dtype))
}

/// Puts an index in for a range, and a gate on every load that it reaches.
struct Put<'a> {
    r: &'a UOp,
    at: &'a UOp,
    gate: &'a UOp,
    done: FxHashMap<UOp, UOp>,
}

impl Put<'_> {
    /// `None` if a checked load would see the index: a miss there has its own meaning.
    fn put(&mut self, x: &UOp) -> Option<UOp> {
        if !depends(x, self.r) {
            return Some(x.clone());
        }
        let old = kernels::body(std::slice::from_ref(x));
        if old.iter().any(|n| n.op == Op::Load && n.arg != Arg::None && depends(n, self.r)) {
            return None;
        }
        self.done.insert(self.r.clone(), self.at.clone());
        for n in old {
            if self.done.contains_key(&n) {
                continue;
            }
            if kernels::is_memory(&n) {
                self.done.insert(n.clone(), n);
                continue;
            }
            let src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| self.done[s].clone()).collect();
            let mut new = n.with_src(src);
            if n.op == Op::Index && depends(&n, self.r) {
                let at = new.index();
                let gated = if at.op == Op::Where && at.if_false().op == Op::Invalid {
                    self.gate.and_(at.condition()).select(at.if_true(), at.if_false())
                } else {
                    self.gate.select(at, &UOp::invalid())
                };
                new = new.buffer().at(&gated);
            }
            self.done.insert(n, new);
        }
        self.done.get(x).cloned()
    }
}

#[cfg(test)]
mod tests;
