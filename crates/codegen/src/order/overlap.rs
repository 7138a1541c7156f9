//! Load the operands of the next products while these run.
//!
//! ```text
//! for k { wait; barrier; copy tile[k + 2]; a, b = tile[k]; c, d = tile[k]; s += a b; s += c d }
//!     ->
//! wait; barrier; a, b = tile[0]
//! for k { c, d = tile[k]; copy tile[k + 2]; s += a b; wait; barrier; a, b = tile[k + 1]; s += c d }
//! ```
//! A round of a pipelined loop multiplies in turns, one for each update of its accumulators. Operands of a turn are loaded a
//! turn ahead, those of the first turn in the round before, so that a matrix unit has work while lanes meet and while all of
//! them load at once. Copies are spread over the turns, for the same reason.

use super::{behind, is_step, opened, replaced};
use frit_abi::Target;
use frit_uop::graph::substitute_all;
use frit_uop::{Alu, Arg, DType, Linear, Op, Space, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The pass: every pipelined loop whose rounds multiply in turns loads a turn ahead.
pub fn overlap(mut linear: Linear, _: &Target) -> Linear {
    let mut at = 0;
    while at < linear.steps.len() {
        if let Some(found) = Loop::of(&linear.steps, at) {
            let id = |d: &UOp| if let Arg::Define { id, .. } = d.arg { id + 1 } else { 0 };
            let next = linear.defines.iter().map(id).max().unwrap_or(0);
            let (steps, registers) = found.a_turn_ahead(next);
            linear.steps = steps;
            linear.defines.extend(registers);
        }
        at += 1;
    }
    linear
}

/// A loop that waits for its tiles, meets, and multiplies in turns.
struct Loop<'a> {
    before: &'a [Step],
    range: &'a UOp,
    wait: &'a UOp,
    barrier: &'a UOp,
    /// What follows the barrier.
    body: Vec<&'a UOp>,
    after: &'a [Step],
    turns: usize,
    /// The turn of each product, and for what leads to operands the first one that needs it.
    turn: FxHashMap<&'a UOp, usize>,
    /// What is computed from operands that were loaded.
    computed: FxHashSet<&'a UOp>,
}

impl<'a> Loop<'a> {
    fn of(steps: &'a [Step], open: usize) -> Option<Loop<'a>> {
        let Step::Open(range) = &steps[open] else { return None };
        let close = open + steps[open..].iter().position(|s| matches!(s, Step::Close(r) if r == range))?;
        let done = |s: &'a Step| if let Step::Do(n) = s { Some(n) } else { None };
        let all: Vec<&UOp> = steps[open + 1..close].iter().map(done).collect::<Option<_>>()?;
        let [wait, barrier, body @ ..] = &all[..] else { return None };
        if wait.op != Op::Wait || barrier.op != Op::Barrier {
            return None;
        }
        let turn = turns(body)?;
        let turns = 1 + body.iter().filter(|n| n.op == Op::Matrix).map(|n| turn[n]).max()?;
        let mut computed = FxHashSet::default();
        for n in body.iter().filter(|n| n.op != Op::Matrix && turn.contains_key(*n)) {
            let mut is_computed = false;
            n.src.iter().for_each(|s| behind(s, &mut |x| is_computed |= is_load(x) || computed.contains(x)));
            is_computed.then(|| computed.insert(*n));
        }
        let (before, after, body) = (&steps[..open], &steps[close + 1..], body.to_vec());
        let new = Loop { before, range, wait, barrier, body, after, turns, turn, computed };
        (turns > 1 && new.is_known()).then_some(new)
    }

    /// Whether nothing else is done in a round: only products come from products, and accumulators keep those.
    fn is_known(&self) -> bool {
        let is_register = |n: &UOp| n.src[0].behind_after().op == Op::Define && n.src[0].op != Op::Index;
        let is_known = |n: &UOp| match n.op {
            Op::Matrix | Op::CopyAsync | Op::Commit => true,
            Op::Store => is_register(n),
            Op::Barrier | Op::Wait => false,
            Op::Load if !self.turn.contains_key(n) => is_register(n),
            _ => {
                let mut is_product = false;
                n.src.iter().for_each(|s| behind(s, &mut |x| is_product |= x.op == Op::Matrix));
                !is_product
            }
        };
        self.body.iter().all(|n| is_known(n))
    }

    /// The loads of operands of a turn and what their places are computed from.
    fn loads(&self, turn: usize) -> Vec<UOp> {
        let is_early = |n: &&&UOp| {
            n.op != Op::Matrix && self.turn.get(**n) == Some(&turn) && !self.computed.contains(**n)
        };
        self.body.iter().filter(is_early).map(|n| (*n).clone()).collect()
    }
    /// What else is done in a turn.
    fn products(&self, turn: usize) -> impl Iterator<Item = UOp> {
        let is_late = move |n: &&&UOp| {
            self.turn.get(**n) == Some(&turn) && (n.op == Op::Matrix || self.computed.contains(**n))
        };
        self.body.iter().filter(is_late).map(|n| (*n).clone())
    }

    /// All steps, and the registers for operands that are loaded a round before they are used, from this number on.
    fn a_turn_ahead(&self, number: u32) -> (Vec<Step>, Vec<UOp>) {
        let (range, outside) = (self.range, opened(self.before));
        let constant = |i: i64| UOp::int(i, range.dtype);
        // before the loop as in it
        let alone = |n: &UOp, by: &[(UOp, UOp)]| {
            let kept = n.src.iter().filter(|s| *s != range);
            let kept = kept.map(|s| by.iter().find(|(old, _)| old == s).map_or(s, |(_, new)| new));
            n.with_src(outside.iter().chain(kept).cloned().collect::<SmallVec<[UOp; 4]>>())
        };
        let wait = alone(self.wait, &[]);
        let barrier = alone(self.barrier, &[(self.wait.clone(), wait.clone())]);
        let first =
            FxHashMap::from_iter([(range.clone(), constant(0)), (self.barrier.clone(), barrier.clone())]);
        // the last round loads its own once more
        let (rounds, after_this) = (range.extent(), range.bin(Alu::Add, &constant(1)));
        let last = rounds.as_int().map_or_else(|| rounds.bin(Alu::Sub, &constant(1)), |n| constant(n - 1));
        let next = after_this.bin(Alu::Min, &last);
        let following = FxHashMap::from_iter([
            (range.clone(), next.clone()),
            (self.barrier.clone(), self.barrier.clone()),
        ]);
        let loads = self.loads(0);
        let (at_first, at_next) = (substitute_all(&loads, &first), substitute_all(&loads, &following));
        let (mut registers, mut starts, mut ends) = (vec![], vec![], vec![]);
        let mut met = FxHashMap::from_iter([(self.barrier.clone(), barrier.clone())]);
        for (n, (start, end)) in loads.iter().zip(at_first.iter().zip(&at_next)).filter(|(n, _)| is_load(n)) {
            let register = UOp::define(Space::Reg, number + registers.len() as u32, n.lanes(), n.dtype);
            let start = register.after(outside.iter().cloned()).store(start);
            let inside = register.after([start.clone(), range.clone()]);
            met.insert(n.clone(), UOp::new(Op::Load, n.dtype, [inside.clone()], Arg::None));
            ends.push(inside.store(end));
            starts.push(start);
            registers.push(register);
        }

        let (kept, moved): (Vec<&UOp>, Vec<&UOp>) = (self.body.iter())
            .filter(|n| !self.turn.contains_key(**n))
            .partition(|n| !matches!(n.op, Op::CopyAsync | Op::Commit | Op::Store));
        let of = |op: Op| moved.iter().filter(move |n| n.op == op).map(|n| (*n).clone());
        let copies: Vec<UOp> = of(Op::CopyAsync).collect();
        let mut chunks = copies.chunks(copies.len().div_ceil(self.turns - 1).max(1));
        let mut body: Vec<UOp> = kept.into_iter().cloned().chain(loads).collect();
        for turn in 0..self.turns - 1 {
            body.extend(self.loads(turn + 1));
            body.extend(chunks.next().into_iter().flatten().cloned());
            body.extend(self.products(turn));
        }
        body.extend(of(Op::Commit));
        // the last turn comes after the meeting
        let early = body.len();
        body.extend(self.products(self.turns - 1).chain(of(Op::Store)));
        let count = body.len();
        let all = body.into_iter().map(Step::Do).chain(self.after.iter().cloned()).collect();
        let mut all = replaced(all, &met).into_iter();
        let mut body: Vec<Step> = all.by_ref().take(early).collect();
        let meeting = [after_this, next, self.wait.clone(), self.barrier.clone()].into_iter();
        body.extend(meeting.filter(|n| is_step(n.op)).chain(at_next).chain(ends).map(Step::Do));
        body.extend(all.by_ref().take(count - early));

        let mut steps = self.before.to_vec();
        steps.extend([wait, barrier].into_iter().chain(at_first).chain(starts).map(Step::Do));
        steps.push(Step::Open(range.clone()));
        steps.extend(needed(body));
        steps.push(Step::Close(range.clone()));
        steps.extend(all);
        (steps, registers)
    }
}

fn is_load(n: &UOp) -> bool {
    matches!(n.op, Op::Load | Op::LoadMatrix)
}

/// The turns of products, which accumulators begin, and for what leads to their operands the first turn that needs it.
fn turns<'a>(body: &[&'a UOp]) -> Option<FxHashMap<&'a UOp, usize>> {
    let mut turn: FxHashMap<&UOp, usize> = FxHashMap::default();
    for n in body.iter().filter(|n| n.op == Op::Matrix) {
        let accumulator = &n.src[2];
        let before = match accumulator.op {
            Op::Load => 0,
            _ => turn.get(accumulator)? + 1,
        };
        turn.insert(n, before);
    }
    for n in body.iter().rev() {
        let Some(&of) = turn.get(n) else { continue };
        let operands = if n.op == Op::Matrix { &n.src[..2] } else { &n.src[..] };
        let mut is_product = false;
        operands.iter().for_each(|s| {
            behind(s, &mut |x| {
                is_product |= x.op == Op::Matrix;
                turn.entry(x).and_modify(|t| *t = of.min(*t)).or_insert(of);
            })
        });
        if is_product {
            return None;
        }
    }
    Some(turn)
}

/// Steps without those that nothing uses any more.
fn needed(steps: Vec<Step>) -> Vec<Step> {
    let mut used: FxHashSet<UOp> = FxHashSet::default();
    let mut kept = vec![];
    let mut seen = FxHashSet::default();
    for step in steps.into_iter().rev() {
        let n = step.node();
        if n.dtype == DType::Void || used.contains(n) {
            n.src.iter().for_each(|s| behind(s, &mut |x| _ = used.insert(x.clone())));
            kept.push(step);
        }
    }
    kept.reverse();
    kept.retain(|s| seen.insert(s.node().clone()));
    kept
}
