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

mod prover;

use crate::arg::{Arg, AxisKind};
use crate::graph::substitute_all;
use crate::node::UOp;
use crate::op::{Op, OpSet};
use crate::spec::{self, Spec};
use frit_abi::{DType, Scalar};
use prover::{Prover, Span};
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
    check(kernel).map_err(|message| unproven(kernel, message))
}

fn unproven(kernel: &UOp, message: String) -> Unproven {
    let kernel: Arc<str> = match &kernel.arg {
        Arg::Name(n) => n.clone(),
        _ => "?".into(),
    };
    Unproven { kernel, message }
}

fn check(kernel: &UOp) -> Result<(), String> {
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
            access(n)?;
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
    let nodes = arithmetic(parts);
    let known = || {
        let mut p = Prover::with_budget(200);
        p.extents(&nodes, kept);
        p.assume(&gates, true);
        p
    };
    let mut p = known();
    let inside = |p: &Prover, s: Span| p.never || !s.dirty && s.lo >= 0 && s.hi < len;
    let mut found = p.range(&parts[0]);
    if !inside(&p, found) {
        // the more facts there are, the fewer are put in for each other: these only where they are wanted
        p.quotients(&nodes);
        found = p.range(&parts[0]);
    }
    if !inside(&p, found) {
        p = known();
        p.remainders(&nodes);
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
        let mut case: Vec<UOp> = substitute_all(parts, &map);
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
