//! What an expression becomes where a condition holds.
//!
//! The conjuncts of the condition bound values: `x < c`, `!(x < c)`, `x == c`, the same for sums. Each bounded value is
//! replaced by a variable with the narrower bounds, the whole simplified, and the variable replaced back.
//!
//! ```text
//! (x + 3) % 8   given  x < 5                  ->  x + 3
//! (a + b) // 4  given  a + b < 4              ->  0
//! ```
//! Loads below are left as they are: they happen whether the condition holds or not, so their indices must stay right
//! where it does not.

use super::compare::{as_bound, conjuncts};
use super::sum::{Sum, split_term};
use crate::arg::Arg;
use crate::node::UOp;
use crate::op::{Op, OpSet};
use crate::rules;
use frit_abi::{DType, Scalar};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

rules! {
    /// A gate simplifies the index behind it, and its conjuncts each other.
    pub NARROW;
    And(_, _) as n if n.dtype == DType::Bool        => narrow_conjuncts(n);
    Where(g, x, Invalid() as i) if can_narrow(x)    => Some(simplify_given(x, g)).filter(|y| y != x).map(|y| g.select(&y, i));
}

/// A conjunct simplified where the others hold.
fn narrow_conjuncts(n: &UOp) -> Option<UOp> {
    let mut parts = conjuncts(n);
    // a plain bound is merged with its like elsewhere; only what is below a comparison can be decided here
    let below = |p: &UOp| if p.op == Op::Not { p.input().clone() } else { p.clone() };
    for i in 0..parts.len() {
        if !below(&parts[i]).src.iter().any(can_narrow) {
            continue;
        }
        let part = parts.remove(i);
        let others = parts.iter().cloned().reduce(|a, b| a.and_(&b))?;
        let y = simplify_given(&part, &others);
        if cost(&y) < cost(&part) {
            return Some(others.and_(&y));
        }
        parts.insert(i, part);
    }
    None
}

/// Ops that narrower bounds can remove.
const DECIDABLE: OpSet =
    OpSet::of(&[Op::Idiv, Op::Mod, Op::Tdiv, Op::Max, Op::Min, Op::Where, Op::Lt, Op::Eq, Op::Ne, Op::Cast]);

/// Whether there is anything in `x` that bounds could decide: a cheap no for linear indices.
fn can_narrow(x: &UOp) -> bool {
    let mut todo: SmallVec<[&UOp; 16]> = SmallVec::new();
    todo.push(x);
    let mut budget = 200; // shared nodes are counted again, so a large expression counts as narrowable
    while let Some(n) = todo.pop() {
        budget -= 1;
        if budget == 0 || DECIDABLE.has(n.op) {
            return true;
        }
        if n.op.is_elementwise() {
            todo.extend(n.src.iter());
        }
    }
    false
}

/// One thing known: a value (without constant) and its bounds.
#[derive(Clone)]
struct Fact {
    of: UOp,
    lo: i128,
    hi: i128,
}

/// `x` simplified where `gate` is true; `x` itself (simplified) where the gate says nothing of it.
pub fn simplify_given(x: &UOp, gate: &UOp) -> UOp {
    // what a load reads is its own affair, and a chain of loads must not be walked again at each of them
    let (hide, show) = loads_hidden(&[x, gate]);
    if hide.is_empty() {
        return arithmetic_given(x, gate);
    }
    let plain = replace(x, hide.clone());
    let y = arithmetic_given(&plain, &replace(gate, hide));
    // operands may stand in another order with others in their place: only what is simpler is taken
    if cost(&y) < cost(&plain) { replace(&y, show) } else { x.clone() }
}

/// Numbers of parameters that no kernel has.
const PLACEHOLDERS: u32 = 1 << 30;

/// Plain loads that stand for those in the arithmetic of expressions, and the way back.
fn loads_hidden(of: &[&UOp]) -> (FxHashMap<UOp, UOp>, FxHashMap<UOp, UOp>) {
    let (mut hide, mut show) = (FxHashMap::default(), FxHashMap::default());
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    let mut todo: Vec<UOp> = of.iter().map(|x| (*x).clone()).collect();
    while let Some(n) = todo.pop() {
        if !seen.insert(n.clone()) {
            continue;
        }
        let plain = |n: &UOp| n.target().src.get(1).is_none_or(|at| at.op == Op::Const);
        if n.op == Op::Load && n.shape().is_empty() && !plain(&n) {
            let placeholder =
                UOp::param(PLACEHOLDERS + hide.len() as u32, 1, n.dtype).at(&UOp::index(0)).load();
            show.insert(placeholder.clone(), n.clone());
            hide.insert(n, placeholder);
        } else if n.op.is_elementwise() {
            todo.extend(n.src.iter().cloned());
        }
    }
    (hide, show)
}

fn arithmetic_given(x: &UOp, gate: &UOp) -> UOp {
    let mut known: Vec<(UOp, UOp)> = vec![]; // nodes whose value is known
    let mut facts: Vec<Fact> = vec![];
    for c in conjuncts(gate) {
        match c.op {
            Op::Not => known.push((c.input().clone(), UOp::boolean(false))),
            Op::Const => continue,
            _ => known.push((c.clone(), UOp::boolean(true))),
        }
        add_fact(&c, &mut facts);
    }
    for f in facts.clone() {
        propagate(&f, &mut facts);
    }
    if facts.iter().any(|f| f.lo > f.hi) {
        return x.clone(); // the gate is never true
    }
    // narrower bounds leave a linear index as it is; only what is known to be one value takes something from it
    if facts.iter().all(|f| f.lo < f.hi) && !can_narrow(x) {
        return super::simplify(x);
    }
    let start = super::simplify(&replace(x, known.into_iter().collect()));
    // values that are no sums, all at once
    let single: Vec<&Fact> = facts.iter().filter(|f| !matches!(f.of.op, Op::Add | Op::Mul)).collect();
    let mut y = narrow_all(&start, &single);
    for f in facts.iter().filter(|f| f.of.op == Op::Add) {
        y = narrow_sum(&y, f);
    }
    y
}

fn add_fact(c: &UOp, facts: &mut Vec<Fact>) {
    let (of, lo, hi) = if let Some((s, c, below)) = as_bound(c) {
        if below { (s, i128::MIN, c as i128 - 1) } else { (s, c as i128, i128::MAX) }
    } else if c.op == Op::Eq
        && c.lhs().dtype.is_int()
        && let Some(v) = c.rhs().as_int()
    {
        (c.lhs(), v as i128, v as i128)
    } else {
        return;
    };
    // facts are about exact sums without constant
    let mut s = Sum::of(of);
    if !s.exact || s.terms.is_empty() {
        return;
    }
    let k = s.constant as i128;
    s.constant = 0;
    if s.fits() {
        meet(facts, s.build(), lo.saturating_sub(k), hi.saturating_sub(k));
    }
}

/// Add what is known of a value to what was known of it.
fn meet(facts: &mut Vec<Fact>, of: UOp, lo: i128, hi: i128) {
    match facts.iter_mut().find(|f| f.of == of) {
        Some(f) => (f.lo, f.hi) = (f.lo.max(lo), f.hi.min(hi)),
        None => {
            let (a, b) = of.bounds;
            facts.push(Fact { of, lo: lo.max(a), hi: hi.min(b) });
        }
    }
}

/// What a bounded sum says of each of its terms, the others at their extremes.
fn propagate(f: &Fact, facts: &mut Vec<Fact>) {
    let s = Sum::of(&f.of);
    if s.terms.len() < 2 && split_term(&f.of).1 == 1 {
        return;
    }
    let (lo, hi) = s.bounds();
    for (t, k) in &s.terms {
        let k = *k as i128;
        let (a, b) = (t.bounds.0.saturating_mul(k), t.bounds.1.saturating_mul(k));
        let (others_lo, others_hi) = (lo.saturating_sub(a.min(b)), hi.saturating_sub(a.max(b)));
        // f.lo <= k*t + others <= f.hi
        let (min, max) = (f.lo.saturating_sub(others_hi), f.hi.saturating_sub(others_lo));
        let (ceil, floor) =
            (min.saturating_neg().div_euclid(k.abs()).saturating_neg(), max.div_euclid(k.abs()));
        let (min, max) = if k > 0 { (ceil, floor) } else { (floor.saturating_neg(), ceil.saturating_neg()) };
        if min > t.bounds.0 || max < t.bounds.1 {
            meet(facts, t.clone(), min, max);
        }
    }
}

fn placeholder(f: &Fact, number: usize) -> Option<UOp> {
    let (min, max) = (i64::try_from(f.lo).ok()?, i64::try_from(f.hi).ok()?);
    if min == max {
        return Some(UOp::constant(Scalar::int(f.lo, f.of.dtype), f.of.dtype));
    }
    let name = format!("given{number}").as_str().into();
    Some(UOp::new(Op::Variable, f.of.dtype, [], Arg::Var { name, min, max }))
}

fn narrow_all(x: &UOp, facts: &[&Fact]) -> UOp {
    let (mut there, mut back) = (FxHashMap::default(), FxHashMap::default());
    for (i, f) in facts.iter().enumerate() {
        if (f.lo, f.hi) == f.of.bounds {
            continue;
        }
        if let Some(v) = placeholder(f, i) {
            if v.op == Op::Variable {
                back.insert(v.clone(), f.of.clone());
            }
            there.insert(f.of.clone(), v);
        }
    }
    if there.is_empty() {
        return x.clone();
    }
    round_trip(x, there, back)
}

/// A bounded sum `t + rest`: put `v - rest` for `t`, so that the sum itself becomes the variable `v`.
fn narrow_sum(x: &UOp, f: &Fact) -> UOp {
    let s = Sum::of(&f.of);
    let Some(v) = placeholder(f, 0) else { return x.clone() };
    let Some((t, k)) = s.terms.iter().find(|(t, k)| k.abs() == 1 && x.any(|n| n == t)) else {
        return x.clone();
    };
    let mut rest = s.clone();
    rest.terms.retain(|e| e.0 != *t);
    // k*t + rest = v
    let mut value = Sum::of(&v);
    value.add(&rest, -1);
    let value = if *k == 1 { value } else { value.map(i64::wrapping_neg) };
    if !value.exact {
        return x.clone();
    }
    let there = [(t.clone(), value.build())].into_iter().collect();
    let back =
        if v.op == Op::Variable { [(v, f.of.clone())].into_iter().collect() } else { FxHashMap::default() };
    let y = round_trip(x, there, back);
    if cost(&y) < cost(x) { y } else { x.clone() }
}

fn round_trip(x: &UOp, there: FxHashMap<UOp, UOp>, back: FxHashMap<UOp, UOp>) -> UOp {
    let narrowed = replace(x, there);
    if narrowed == *x {
        return narrowed;
    }
    super::simplify(&replace(&super::simplify(&narrowed), back))
}

/// Work of an expression: nodes that are not constants, divisions and choices counting more.
fn cost(x: &UOp) -> usize {
    x.toposort()
        .iter()
        .map(|n| match n.op {
            Op::Const => 0,
            Op::Idiv | Op::Mod | Op::Tdiv => 4,
            Op::Where | Op::Max | Op::Min => 2,
            _ => 1,
        })
        .sum()
}

/// Replace nodes everywhere in the arithmetic of `x`; what is behind a load stays.
fn replace(x: &UOp, mut done: FxHashMap<UOp, UOp>) -> UOp {
    if done.is_empty() {
        return x.clone();
    }
    let mut stack = vec![(x, false)];
    while let Some((n, expanded)) = stack.pop() {
        if done.contains_key(n) {
            continue;
        }
        if !n.op.is_elementwise() {
            done.insert(n.clone(), n.clone());
        } else if expanded {
            let src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| done[s].clone()).collect();
            let new = n.with_src(src);
            done.insert(n.clone(), new);
        } else {
            stack.push((n, true));
            stack.extend(n.src.iter().filter(|s| !done.contains_key(*s)).map(|s| (s, false)));
        }
    }
    done.get(x).cloned().unwrap_or_else(|| x.clone())
}
