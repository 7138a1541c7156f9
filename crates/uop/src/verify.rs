//! Proof that a kernel stays inside its buffers.
//!
//! In: a kernel graph, from a scheduler that is to be checked or from a file that is not to be trusted. Out: nothing, or
//! the first access that cannot be shown to be inside. Every index must lie in its buffer
//! - by the bounds of its parts: ranges have extents, variables least and greatest values,
//! - or where the gate of the access holds: its conjuncts are facts about sums, which are then put in for those sums.
//!
//! ```text
//! p[i - 3]                  i in 0..8, p of 5, gate !(i < 3)      i - 3 is at least 0 by the gate, at most 4 by bounds
//! p[x*4 + j]                x from data, gate !(x < 0) & x < 9    data has any value; behind the gate it has these
//! ```
//!
//! All is done in true integers. An `Index` value must not overflow, since passes reorder its arithmetic: one that could,
//! even where the result is not used, proves nothing. What is not understood is unknown, and what is unknown is refused.

use crate::arg::{Arg, AxisKind};
use crate::node::UOp;
use crate::op::{Op, OpSet};
use crate::spec::{self, Spec};
use frit_abi::{DType, Scalar};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// An access, or another part of a kernel, that cannot be shown to be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unproven {
    /// Name of the kernel.
    pub kernel: Arc<str>,
    /// What it is and what is missing.
    pub message: String,
}

impl std::fmt::Display for Unproven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kernel {}: {}", self.kernel, self.message)
    }
}
impl std::error::Error for Unproven {}

/// Ops of kernels as they are scheduled, besides arithmetic.
const SCHEDULED: OpSet = OpSet::of(&[
    Op::Const,
    Op::Invalid,
    Op::Variable,
    Op::Param,
    Op::Range,
    Op::Index,
    Op::Load,
    Op::Store,
    Op::After,
    Op::End,
    Op::Sink,
    Op::Reduce,
    Op::Scan,
]);

/// Nodes from an index or gate down to its leaves: more is refused before anything walks it.
const DEEPEST: u32 = 400;

/// Check that a scheduled kernel is well-formed and that every access is inside its buffer.
pub fn verify(kernel: &UOp) -> Result<(), Unproven> {
    check(kernel, false).map_err(|message| unproven(kernel, message))
}

/// The same for a kernel of our own scheduler: what is not always found out need not be proven there. That is a place that
/// comes from data, which is checked when it runs, and one that depends on variables.
pub fn verify_scheduled(kernel: &UOp) -> Result<(), Unproven> {
    check(kernel, true).map_err(|message| unproven(kernel, message))
}

fn unproven(kernel: &UOp, message: String) -> Unproven {
    let kernel: Arc<str> = match &kernel.arg {
        Arg::Name(n) => n.clone(),
        _ => "?".into(),
    };
    Unproven { kernel, message }
}

fn check(kernel: &UOp, is_ours: bool) -> Result<(), String> {
    spec::check(kernel, Spec::Kernel).map_err(|e| e.to_string())?;
    if kernel.op != Op::Sink || !kernel.ranges.is_empty() {
        return Err(format!("{kernel:?} is not a kernel: a range of it is never closed"));
    }
    let order = kernel.toposort();
    let mut leaves = Leaves::default();
    let mut depth: FxHashMap<&UOp, u32> = FxHashMap::default();
    for n in &order {
        // the machine's own division has no answer for zero; codegen makes it, with what it needs around it
        if !SCHEDULED.has(n.op) && (!n.op.is_elementwise() || n.op == Op::Tdiv) {
            return Err(format!("{n:?} has no place in a scheduled kernel"));
        }
        leaves.note(n)?;
        combines(n)?;
        // what is behind a load is another access
        let below = n.src.iter().filter(|_| n.op.is_elementwise() || n.op == Op::Index);
        let d = below.filter_map(|s| depth.get(s)).max().map_or(0, |d| d + 1);
        depth.insert(n, d);
    }
    if (0..leaves.params.len() as u32).any(|slot| !leaves.params.contains_key(&slot)) {
        return Err("its parameters are not numbered one after the other".into());
    }
    for n in &order {
        for (i, s) in n.src.iter().enumerate() {
            let is_address = i == 0 && matches!(n.op, Op::Load | Op::Store);
            if is_address != (s.op == Op::Index) {
                return Err(format!("{n:?} takes {s:?}: an address is what a load or store has first"));
            }
        }
        if matches!(n.op, Op::Load | Op::Store) {
            let deepest =
                [Some(n.target()), n.gate()].into_iter().flatten().filter_map(|s| depth.get(s)).max();
            if deepest.is_some_and(|d| *d > DEEPEST) {
                return Err(format!("the index or gate of {n:?} is {deepest:?} operations deep"));
            }
            let proven = access(n);
            let is_hard = || matches!(n.arg, Arg::Site(_)) || n.any(|s| s.op == Op::Variable);
            if !(is_ours && is_hard()) {
                proven?;
            }
        }
    }
    Ok(())
}

/// A reduction is over ranges, by an operation that has a value to begin with.
fn combines(n: &UOp) -> Result<(), String> {
    let Arg::Alu(op) = n.arg else { return Ok(()) };
    match Scalar::identity(op, n.dtype) {
        Some(_) if n.src[1..].iter().all(|r| r.op == Op::Range) => Ok(()),
        _ => Err(format!("{n:?} is no reduction")),
    }
}

/// What must be one thing in a kernel.
#[derive(Default)]
struct Leaves {
    params: FxHashMap<u32, UOp>,
    ranges: FxHashMap<u32, UOp>,
    vars: FxHashMap<Arc<str>, UOp>,
}

impl Leaves {
    fn note(&mut self, n: &UOp) -> Result<(), String> {
        let other = match &n.arg {
            Arg::Param { slot, len } => {
                if len.checked_mul(n.dtype.size()).is_none_or(|b| isize::try_from(b).is_err()) {
                    return Err(format!("{n:?} is larger than the address space"));
                }
                self.params.insert(*slot, n.clone())
            }
            Arg::Range(r) => {
                use AxisKind::*;
                if !matches!(r.kind, Global | Loop | Ordered | Reduce) {
                    return Err(format!("{n:?} is walked as no scheduled range is"));
                }
                extent(n.extent())?;
                self.ranges.insert(r.id, n.clone())
            }
            Arg::Var { name, min, max } => {
                if min > max {
                    return Err(format!("{n:?} has no value"));
                }
                self.vars.insert(name.clone(), n.clone())
            }
            _ => None,
        };
        match other.filter(|o| o != n) {
            Some(o) => Err(format!("{n:?} and {o:?} have one number and are two things")),
            None => Ok(()),
        }
    }
}

/// An extent is known at launch, and fits.
fn extent(e: &UOp) -> Result<(), String> {
    let known =
        e.toposort().iter().all(|n| matches!(n.op, Op::Const | Op::Variable) || n.op.is_elementwise());
    if !known || e.toposort().len() > DEEPEST as usize {
        return Err(format!("{e:?} is an extent that is not known at launch"));
    }
    let found = Prover::default().range(e);
    if found.dirty || found.lo < 0 || found.hi > i64::MAX as i128 {
        return Err(format!("{e:?} is an extent that may be negative or overflow"));
    }
    Ok(())
}

/// What an index and its gates are made of, as far as that is arithmetic.
fn arithmetic(parts: &[UOp]) -> Vec<UOp> {
    let (mut seen, mut found): (FxHashSet<UOp>, Vec<UOp>) = (FxHashSet::default(), vec![]);
    let mut todo: Vec<UOp> = parts.to_vec();
    while let Some(n) = todo.pop() {
        if !seen.insert(n.clone()) {
            continue;
        }
        if n.op.is_elementwise() || n.op == Op::Range {
            todo.extend(n.src.iter().cloned());
        }
        found.push(n);
    }
    found
}

/// The loops that an access (its index, then its gates) is inside once all is simplified. One that may have no step says
/// nothing of an access that depends on it no more: that happens before it.
fn kept_loops(parts: &[UOp]) -> Vec<u32> {
    let ranges = arithmetic(parts).into_iter().filter(|n| n.op == Op::Range);
    let (empty, sure): (Vec<UOp>, Vec<UOp>) =
        ranges.partition(|r| Prover::default().range(r.extent()).lo <= 0);
    let mut kept: Vec<u32> = sure.iter().filter_map(|r| Some(r.range_arg()?.id)).collect();
    if !empty.is_empty() {
        let gated = parts[1..].iter().fold(parts[0].clone(), |i, g| g.select(&i, &UOp::invalid()));
        kept.extend(crate::symbolic::simplify(&gated).ranges.iter().copied());
    }
    kept
}

/// Cases that one access is taken apart into, at most.
const MOST_CASES: u32 = 64;

/// Where an index (the first part) may lie that is not inside where its gates (the others) hold. What is not seen at once
/// is tried for each of the two that a maximum or minimum may be.
fn outside(parts: &[UOp], kept: &[u32], len: i128, cases: &mut u32) -> Option<Span> {
    let gates: Vec<&UOp> = parts[1..].iter().collect();
    let mut p = Prover { budget: 200, ..Prover::default() };
    let nodes = arithmetic(parts);
    p.extents(&nodes, kept);
    p.assume(&gates, true);
    let inside = |p: &Prover, s: Span| p.never || !s.dirty && s.lo >= 0 && s.hi < len;
    let mut found = p.range(&parts[0]);
    if !inside(&p, found) {
        // the more facts there are, the fewer are put in for each other: these only where they are wanted
        p.quotients(&nodes);
        found = p.range(&parts[0]);
    }
    if inside(&p, found) {
        return None;
    }
    let extremum = |n: &&UOp| matches!(n.op, Op::Max | Op::Min) && n.dtype == DType::Index;
    let (Some(n), Some(left)) = (nodes.iter().find(extremum), cases.checked_sub(1)) else {
        return Some(found);
    };
    *cases = left;
    let [x, y] = n.operands();
    let (less, more) = if n.op == Op::Max { (y, x) } else { (x, y) };
    for (value, gate) in [(less, x.lt(y)), (more, x.ge_int(y))] {
        let map = [(n.clone(), value.clone())].into_iter().collect();
        let mut case: Vec<UOp> = parts.iter().map(|p| p.substitute(&map)).collect();
        case.push(gate);
        if outside(&case, kept, len, cases).is_some() {
            return Some(found);
        }
    }
    None
}

/// Prove one load or store.
fn access(n: &UOp) -> Result<(), String> {
    let at = n.target();
    let buffer = at.buffer().behind_after();
    let (Arg::Param { len, .. }, [_, whole]) = (&buffer.arg, &at.src[..]) else {
        return Err(format!("{n:?} is no access of one element of a parameter"));
    };
    if at.arg != Arg::None || whole.dtype != DType::Index || whole.try_shape().is_none_or(|s| !s.is_empty()) {
        return Err(format!("{n:?} is no access of one element of a parameter"));
    }
    let mut gates: Vec<&UOp> = n.gate().into_iter().collect();
    let mut index = whole;
    while index.op == Op::Where && index.if_false().op == Op::Invalid {
        gates.push(index.condition());
        index = index.if_true();
    }
    // an access that never happens
    if index.op == Op::Invalid {
        return Ok(());
    }
    let parts: Vec<UOp> = [index].into_iter().chain(gates.iter().copied()).cloned().collect();
    let (kept, mut cases) = (kept_loops(&parts), MOST_CASES);
    let Some(found) = outside(&parts, &kept, *len as i128, &mut cases) else { return Ok(()) };
    let (lo, hi) = (found.lo, found.hi);
    let why = if found.dirty { "it may overflow".into() } else { format!("it lies in {lo}..={hi}") };
    let gate = gates.iter().map(|g| crate::text::print(g)).collect::<Vec<_>>().join("and\n");
    let index = crate::text::print(index);
    Err(format!(
        "{n:?} is not proven to be inside its {len} elements: {why}, where its index is\n{index}and its gate\n{gate}"
    ))
}

/// Least and greatest value, and whether an `Index` on the way to it might overflow.
#[derive(Clone, Copy, Debug)]
struct Span {
    lo: i128,
    hi: i128,
    dirty: bool,
}

/// `k1*t1 + k2*t2 + … + constant`.
#[derive(Clone, Debug, Default)]
struct Linear {
    terms: Vec<(UOp, i128)>,
    constant: i128,
}

impl Linear {
    fn atom(n: &UOp) -> Linear {
        Linear { terms: vec![(n.clone(), 1)], constant: 0 }
    }
    fn add(mut self, o: &Linear, k: i128) -> Linear {
        self.constant = self.constant.saturating_add(o.constant.saturating_mul(k));
        for (t, c) in &o.terms {
            let c = c.saturating_mul(k);
            match self.terms.iter_mut().find(|e| e.0 == *t) {
                Some(e) => e.1 = e.1.saturating_add(c),
                None => self.terms.push((t.clone(), c)),
            }
        }
        self.terms.retain(|e| e.1 != 0);
        self
    }
    /// Every number small enough that nothing saturated on the way to it.
    fn is_exact(&self) -> bool {
        let small = |k: i128| k.unsigned_abs() < 1 << 100;
        small(self.constant) && self.terms.iter().all(|t| small(t.1))
    }
}

/// A sum without constant, and its bounds.
#[derive(Clone, Debug)]
struct Fact {
    of: Linear,
    lo: i128,
    hi: i128,
}

/// What is known at one access.
#[derive(Default)]
struct Prover {
    facts: Vec<Fact>,
    known: FxHashMap<UOp, Span>,
    /// The same by their sources alone.
    parts: FxHashMap<UOp, Span>,
    /// What is known without any fact: for values that facts lead to, which lead to no further ones.
    plain: Option<Box<Prover>>,
    /// The facts contradict each other: what they were taken from is never true.
    never: bool,
    /// How many branches may still be looked at with their condition.
    budget: u32,
}

/// Facts that are used at one access.
const MOST_FACTS: usize = 64;

/// Not bounded; far from overflowing when added to its like.
const FAR: i128 = 1 << 120;

impl Prover {
    /// What the loops that an access is inside say: their variables are below their extents.
    fn extents(&mut self, nodes: &[UOp], kept: &[u32]) {
        for n in nodes.iter().filter(|n| n.range_arg().is_some_and(|a| kept.contains(&a.id))) {
            let extent = self.range(n.extent());
            if !extent.dirty && (n.extent().op != Op::Const || extent.hi <= 0) {
                let below = Linear::atom(n).add(&self.linear(n.extent()), -1);
                self.learn(below, -FAR, -1);
            }
        }
    }

    /// What facts about dividends say of quotients: `x + 10*b <= 19` makes `x//10 + b <= 1`.
    /// And of remainders: they are no more than what is divided.
    fn quotients(&mut self, nodes: &[UOp]) {
        for n in nodes.iter().filter(|n| n.op == Op::Mod && n.dtype == DType::Index) {
            let x = self.range(n.lhs());
            if n.rhs().as_int().is_some_and(|k| k > 0) && !x.dirty && x.lo >= 0 {
                let above = self.linear(n.lhs()).add(&Linear::atom(n), -1);
                self.learn(above, 0, FAR);
            }
        }
        for n in nodes.iter().filter(|n| n.op == Op::Idiv && n.dtype == DType::Index) {
            let Some(k) = n.rhs().as_int().filter(|k| *k > 1).map(i128::from) else { continue };
            if self.range(n.lhs()).dirty {
                continue;
            }
            let x = self.linear(n.lhs());
            let turned = |f: &Fact| Fact { of: Linear::default().add(&f.of, -1), lo: -f.hi, hi: -f.lo };
            let facts: Vec<Fact> = self.facts.iter().flat_map(|f| [f.clone(), turned(f)]).collect();
            for f in facts {
                let mut rest = f.of.clone().add(&x, -1);
                let divides = rest.is_exact() && rest.terms.iter().all(|t| t.1 % k == 0);
                if !divides || rest.terms.len() >= f.of.terms.len() {
                    continue;
                }
                rest.terms.iter_mut().for_each(|t| t.1 /= k);
                rest.constant = 0;
                let floor = |v: i128| if v.abs() >= FAR { v } else { (v + x.constant).div_euclid(k) };
                self.learn(Linear::atom(n).add(&rest, 1), floor(f.lo), floor(f.hi));
            }
        }
    }

    /// Take the conjuncts of conditions that hold (or of whose negation holds) as facts. One whose arithmetic might
    /// overflow says nothing, unless the others keep it from that.
    fn assume(&mut self, conditions: &[&UOp], holds: bool) {
        let mut parts: Vec<(UOp, bool)> = vec![];
        let mut todo: Vec<(UOp, bool)> = conditions.iter().map(|c| ((*c).clone(), holds)).collect();
        while let Some((c, holds)) = todo.pop() {
            match (c.op, holds) {
                (Op::Not, _) => todo.push((c.input().clone(), !holds)),
                (Op::And, true) | (Op::Or, false) => todo.extend(c.src.iter().map(|s| (s.clone(), holds))),
                _ => parts.push((c, holds)),
            }
        }
        loop {
            let before = parts.len();
            parts.retain(|(c, holds)| !self.take(c, *holds));
            if parts.len() == before {
                return;
            }
        }
    }

    /// Whether a comparison is now among the facts.
    fn take(&mut self, c: &UOp, holds: bool) -> bool {
        let compares = matches!(c.op, Op::Lt | Op::Eq | Op::Ne) && c.lhs().dtype.int_range().is_some();
        if !compares || c.lhs().dtype == DType::Bool {
            return false;
        }
        let (a, b) = (self.range(c.lhs()), self.range(c.rhs()));
        if a.dirty || b.dirty {
            return false;
        }
        let (lo, hi) = match (c.op, holds) {
            (Op::Lt, true) => (-FAR, -1),
            (Op::Lt, false) => (0, FAR),
            (Op::Eq, true) | (Op::Ne, false) => (0, 0),
            _ => return true,
        };
        let (x, y) = (self.linear(c.lhs()), self.linear(c.rhs()));
        self.learn(x.clone().add(&y, -1), lo, hi);
        // a cast is what is cast only once facts say that it does not wrap: until then, and after, it is itself
        if c.lhs().op == Op::Cast && y.terms.is_empty() {
            self.learn(Linear::atom(c.lhs()).add(&y, -1), lo, hi);
        }
        true
    }

    fn learn(&mut self, mut of: Linear, lo: i128, hi: i128) {
        if !of.is_exact() {
            return;
        }
        let moved = |bound: i128| if bound.abs() >= FAR { bound } else { bound - of.constant };
        let (lo, hi) = (moved(lo), moved(hi));
        of.constant = 0;
        if of.terms.is_empty() {
            self.never |= lo > 0 || hi < 0;
            return;
        }
        // each fact is tried with each other: more than any kernel has would only take time
        if self.facts.len() >= MOST_FACTS {
            return;
        }
        self.facts.push(Fact { of, lo, hi });
        self.known.clear();
        self.parts.clear();
    }

    /// The bounds of a value.
    fn range(&mut self, n: &UOp) -> Span {
        if let Some(s) = self.known.get(n) {
            return *s;
        }
        let mut s = self.structural(n);
        if !s.dirty && n.dtype.int_range().is_some() && n.dtype != DType::Bool {
            let of = self.linear(n);
            let (mut lo, mut hi) = self.of_sum(&of);
            for f in self.facts.iter().filter(|f| n.op == Op::Cast && f.of.terms == [(n.clone(), 1)]) {
                (lo, hi) = (lo.max(f.lo), hi.min(f.hi));
            }
            (s.lo, s.hi) = (s.lo.max(lo), s.hi.min(hi));
        }
        if s.lo > s.hi {
            // no value is possible here, so this is never computed
            self.never = true;
            s.hi = s.lo;
        }
        self.known.insert(n.clone(), s);
        s
    }

    /// The bounds of a sum.
    fn of_sum(&mut self, of: &Linear) -> (i128, i128) {
        let own: Vec<(UOp, Span)> = of.terms.iter().map(|(t, _)| (t.clone(), self.structural(t))).collect();
        let most = if self.facts.len() <= 8 { 3 } else { 2 };
        self.with_facts(of, &own, most)
    }

    /// The same, with sums that are facts put in for what they share with it, at most so many. `own` are the bounds of the
    /// terms it began with.
    fn with_facts(&mut self, of: &Linear, own: &[(UOp, Span)], most: u32) -> (i128, i128) {
        let mut best = (of.constant, of.constant);
        for (t, k) in &of.terms {
            let s = match own.iter().find(|o| o.0 == *t) {
                Some((_, s)) => *s,
                None => self.plain.get_or_insert_default().range(t),
            };
            best = sum(best, product(*k, (s.lo, s.hi)));
        }
        if most == 0 {
            return best;
        }
        for i in 0..self.facts.len() {
            let f = self.facts[i].clone();
            let shared =
                |(t, k): &(UOp, i128)| of.terms.iter().find(|o| o.0 == *t && o.1 % k == 0).map(|o| o.1 / k);
            let Some(k) = f.of.terms.iter().find_map(shared) else { continue };
            let rest = of.clone().add(&f.of, -k);
            if rest.is_exact() {
                let found = sum(product(k, (f.lo, f.hi)), self.with_facts(&rest, own, most - 1));
                best = (best.0.max(found.0), best.1.min(found.1));
            }
        }
        best
    }

    /// A value as a sum of others, where no operation on the way wraps.
    fn linear(&mut self, n: &UOp) -> Linear {
        if let Some(c) = n.as_scalar().filter(|_| n.dtype.is_int()) {
            return Linear { terms: vec![], constant: c.as_i128() };
        }
        let kept = !self.wraps(n);
        let sum = match n.op {
            Op::Add if kept => {
                let b = self.linear(n.rhs());
                self.linear(n.lhs()).add(&b, 1)
            }
            Op::Sub if kept => {
                let b = self.linear(n.rhs());
                self.linear(n.lhs()).add(&b, -1)
            }
            Op::Neg if kept => Linear::default().add(&self.linear(n.input()), -1),
            Op::Mul if kept => match (n.lhs().as_int(), n.rhs().as_int()) {
                (_, Some(k)) => Linear::default().add(&self.linear(n.lhs()), k as i128),
                (Some(k), _) => Linear::default().add(&self.linear(n.rhs()), k as i128),
                _ => Linear::atom(n),
            },
            Op::Cast if kept => self.linear(n.input()),
            // within one period
            Op::Mod if self.is_below(n.lhs(), n.rhs()) => self.linear(n.lhs()),
            _ => Linear::atom(n),
        };
        if sum.is_exact() { sum } else { Linear::atom(n) }
    }

    fn is_below(&mut self, x: &UOp, y: &UOp) -> bool {
        let (a, b) = (self.range(x), self.range(y));
        a.lo >= 0 && a.hi < b.lo
    }

    /// Whether the value of a sum, product or cast may not be what true integers give.
    fn wraps(&mut self, n: &UOp) -> bool {
        let Some((lo, hi)) = n.dtype.int_range() else { return true };
        if n.src.iter().any(|s| s.dtype.int_range().is_none() || s.dtype == DType::Bool)
            || n.dtype == DType::Bool
        {
            return true;
        }
        let Some(x) = n.src.first().map(|s| self.range(s)) else { return true };
        let y = n.src.get(1).map_or(x, |s| self.range(s));
        let (a, b) = match n.op {
            Op::Add => (x.lo + y.lo, x.hi + y.hi),
            Op::Sub => (x.lo - y.hi, x.hi - y.lo),
            Op::Neg => (-x.hi, -x.lo),
            Op::Mul => corners(x, y, i128::saturating_mul),
            Op::Cast => (x.lo, x.hi),
            Op::Shl if y.lo >= 0 && y.hi < n.dtype.bits() as i128 => {
                corners(x, y, |a, b| a.saturating_mul(1 << b))
            }
            _ => return true,
        };
        a < lo || b > hi
    }

    /// The bounds of a value by those of its sources.
    fn structural(&mut self, n: &UOp) -> Span {
        if let Some(s) = self.parts.get(n) {
            return *s;
        }
        let s = self.by_sources(n);
        self.parts.insert(n.clone(), s);
        s
    }

    fn by_sources(&mut self, n: &UOp) -> Span {
        let whole = n.dtype.int_range().unwrap_or((0, 0));
        let unknown = Span { lo: whole.0, hi: whole.1, dirty: false };
        let exactly = |lo: i128, hi: i128| Span { lo, hi, dirty: false };
        match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) if n.dtype.int_range().is_some() => {
                return exactly(s.as_i128(), s.as_i128());
            }
            (Op::Variable, Arg::Var { min, max, .. }) => return exactly(*min as i128, *max as i128),
            (Op::Range, _) => {
                let e = self.range(n.extent());
                return Span { lo: 0, hi: (e.hi - 1).max(0), dirty: e.dirty };
            }
            // one byte of memory that need not be 0 or 1
            (Op::Cast, _) if n.input().dtype == DType::Bool => {
                return if is_truth(n.input()) { exactly(0, 1) } else { exactly(0, 255) };
            }
            (Op::Where, _) => return self.branches(n),
            _ => {}
        }
        let ints = n.src.iter().all(|s| s.dtype.int_range().is_some() && s.dtype != DType::Bool);
        if !n.op.is_elementwise()
            || !ints
            || n.src.is_empty()
            || n.dtype == DType::Bool
            || n.op == Op::Bitcast
        {
            return unknown;
        }
        let x = self.range(&n.src[0]);
        let y = n.src.get(1).map_or(x, |s| self.range(s));
        let dirty = x.dirty || y.dirty;
        let some = |(lo, hi): (i128, i128)| Span { lo, hi, dirty };
        let found = match n.op {
            Op::Add | Op::Sub | Op::Neg | Op::Mul | Op::Cast | Op::Shl => {
                if self.wraps(n) {
                    // an index that overflows has no value that passes agree on
                    return Span { dirty: dirty || n.dtype == DType::Index, ..unknown };
                }
                match n.op {
                    Op::Add => some((x.lo + y.lo, x.hi + y.hi)),
                    Op::Sub => some((x.lo - y.hi, x.hi - y.lo)),
                    Op::Neg => some((-x.hi, -x.lo)),
                    Op::Mul => some(corners(x, y, i128::saturating_mul)),
                    Op::Shl => some(corners(x, y, |a, b| a.saturating_mul(1 << b))),
                    _ => some((x.lo, x.hi)),
                }
            }
            Op::Max => some((x.lo.max(y.lo), x.hi.max(y.hi))),
            Op::Min => some((x.lo.min(y.lo), x.hi.min(y.hi))),
            Op::Idiv if y.lo > 0 => some(corners(x, y, i128::div_euclid)),
            Op::Tdiv if y.lo > 0 => some(corners(x, y, |a, b| a / b)),
            Op::Mod if y.lo > 0 && x.lo >= 0 && x.hi < y.lo => some((x.lo, x.hi)),
            Op::Mod if y.lo > 0 && y.lo == y.hi && x.lo.div_euclid(y.lo) == x.hi.div_euclid(y.lo) => {
                some((x.lo.rem_euclid(y.lo), x.hi.rem_euclid(y.lo)))
            }
            Op::Mod if y.lo > 0 => some((0, if x.lo >= 0 { x.hi.min(y.hi - 1) } else { y.hi - 1 })),
            Op::And if x.lo >= 0 && y.lo >= 0 => some((0, x.hi.min(y.hi))),
            Op::And if y.lo >= 0 => some((0, y.hi)),
            Op::And if x.lo >= 0 => some((0, x.hi)),
            Op::Or | Op::Xor if x.lo >= 0 && y.lo >= 0 => {
                some((0, (1i128 << (128 - x.hi.max(y.hi).leading_zeros())) - 1))
            }
            Op::Shr if x.lo >= 0 && y.lo >= 0 => some((0, if y.lo < 64 { x.hi >> y.lo } else { 0 })),
            _ => Span { dirty, ..unknown },
        };
        Span { lo: found.lo.max(whole.0), hi: found.hi.min(whole.1), dirty: found.dirty }
    }

    /// One value or the other, each where it is taken.
    fn branches(&mut self, n: &UOp) -> Span {
        let (c, spans) = (n.condition(), [(n.if_true(), true), (n.if_false(), false)]);
        let mut all: Option<Span> = None;
        for (value, holds) in spans {
            if value.op == Op::Invalid {
                continue;
            }
            let found = if self.budget > 0 && n.dtype.int_range().is_some() {
                self.budget -= 1;
                let mut inner =
                    Prover { facts: self.facts.clone(), budget: self.budget, ..Prover::default() };
                inner.assume(&[c], holds);
                let found = inner.range(value);
                self.budget = inner.budget;
                if inner.never {
                    continue;
                }
                found
            } else {
                self.range(value)
            };
            all = Some(match all {
                Some(a) => {
                    Span { lo: a.lo.min(found.lo), hi: a.hi.max(found.hi), dirty: a.dirty || found.dirty }
                }
                None => found,
            });
        }
        all.unwrap_or_else(|| {
            let (lo, hi) = n.dtype.int_range().unwrap_or((0, 0));
            Span { lo, hi, dirty: false }
        })
    }
}

/// Whether a bool was computed, and so is 0 or 1.
fn is_truth(n: &UOp) -> bool {
    let mut todo = vec![n];
    while let Some(n) = todo.pop() {
        match n.op {
            Op::Const | Op::Lt | Op::Eq | Op::Ne => {}
            Op::And | Op::Or | Op::Xor | Op::Not => todo.extend(n.src.iter()),
            _ => return false,
        }
    }
    true
}

/// Intervals added. One that is not bounded on a side stays so, whatever is added.
fn sum(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    let lo = if a.0.min(b.0) <= -FAR { -FAR } else { (a.0 + b.0).min(FAR) };
    let hi = if a.1.max(b.1) >= FAR { FAR } else { (a.1 + b.1).max(-FAR) };
    (lo, hi)
}
/// An interval times a number.
fn product(k: i128, (lo, hi): (i128, i128)) -> (i128, i128) {
    let (x, y) = (k.saturating_mul(lo), k.saturating_mul(hi));
    (x.min(y).clamp(-FAR, FAR), x.max(y).clamp(-FAR, FAR))
}

fn corners(x: Span, y: Span, f: impl Fn(i128, i128) -> i128) -> (i128, i128) {
    let c = [f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)];
    (c.into_iter().fold(c[0], i128::min), c.into_iter().fold(c[0], i128::max))
}

/// Most elements a view may have, so that counting their bytes cannot overflow.
const MOST_ELEMENTS: i128 = 1 << 58;

/// Check that a chain of movement ops on a parameter names only elements of it; gives the parameter.
pub fn view(value: &UOp) -> Result<UOp, String> {
    let mut n = value.clone();
    for _ in 0..DEEPEST {
        spec::check_node(&n, Spec::Tensor).map_err(|e| e.to_string())?;
        if n.op == Op::Param {
            return Leaves::default().note(&n).map(|_| n);
        }
        movement(&n)?;
        n = n.input().clone();
    }
    Err("a view of more steps than any has".into())
}

fn movement(n: &UOp) -> Result<(), String> {
    let wrong = || format!("{n:?} does not name elements of what it is a view of");
    let Some((old, new)) = n.src.first().and_then(|s| s.try_shape()).zip(n.try_shape()) else {
        return Err(wrong());
    };
    n.src.iter().skip(1).try_for_each(extent)?;
    let most = |dims: &[UOp]| {
        let greatest = |d: &UOp| Prover::default().range(d).hi.max(1);
        dims.iter().try_fold(1i128, |m, d| m.checked_mul(greatest(d)).filter(|m| *m <= MOST_ELEMENTS))
    };
    if most(old).is_none() || most(new).is_none() {
        return Err(format!("{n:?} has more elements than there can be"));
    }
    let rank = old.len();
    let apart = |axes: &[u8]| {
        let seen: FxHashSet<&u8> = axes.iter().collect();
        seen.len() == axes.len() && axes.iter().all(|a| (*a as usize) < rank)
    };
    let count =
        |dims: &[UOp]| crate::symbolic::simplify(&dims.iter().fold(UOp::index(1), |m, d| m.fold_mul(d)));
    let ok = match (n.op, &n.arg) {
        (Op::Reshape, _) => count(old) == count(new),
        (Op::Expand, _) => {
            new.len() == rank && old.iter().zip(new).all(|(o, n)| o == n || o.as_int() == Some(1))
        }
        (Op::Permute, Arg::Axes(axes)) => axes.len() == rank && apart(axes),
        (Op::Flip, Arg::Axes(axes)) => apart(axes),
        (Op::Pad, _) => n.src.len() == 1 + 2 * rank,
        (Op::Shrink, _) => {
            n.src.len() == 1 + 2 * rank && (0..rank).all(|i| is_part(&old[i], &n.cut().0[i], &new[i]))
        }
        _ => false,
    };
    if ok { Ok(()) } else { Err(wrong()) }
}

/// Whether `begin + size` is at most `dim`, whatever the variables are.
fn is_part(dim: &UOp, begin: &UOp, size: &UOp) -> bool {
    let mut p = Prover::default();
    let rest = p.linear(dim).add(&p.linear(begin), -1);
    let rest = rest.add(&p.linear(size), -1);
    p.of_sum(&rest).0 >= 0
}

#[cfg(test)]
mod tests;
