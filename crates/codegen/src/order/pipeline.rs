//! Fill a tile for the next round of a loop while this round reads its own.
//!
//! ```text
//! for k { barrier; tile[k % 2] = x[k]; barrier; … tile[k % 2] … }
//!     ->
//! barrier; tile[0] = x[0]
//! for k { barrier; v = x[min(k + 1, last)]; … tile[k % 2] …; tile[(k + 1) % 2] = v }
//! ```
//! What is loaded arrives while the round computes, and lanes meet once in it: then the tile of this round is there, and
//! nobody reads the other one any more.

use super::is_step;
use frit_abi::Target;
use frit_uop::graph::substitute_all;
use frit_uop::{Alu, Arg, DType, Op, Space, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The pass: every loop that fills tiles in turns fills them a round ahead.
pub fn pipeline(mut steps: Vec<Step>, _: &Target) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        if let Some(found) = Loop::of(&steps, at) {
            let (ahead, body) = found.filled_ahead();
            (steps, at) = (ahead, body);
        }
        at += 1;
    }
    steps
}

/// A loop that fills tiles in turns.
struct Loop<'a> {
    before: &'a [Step],
    range: &'a UOp,
    body: &'a [Step],
    after: &'a [Step],
    /// The stores to tiles and the barriers around them.
    fills: Vec<&'a UOp>,
    barriers: Vec<&'a UOp>,
    /// The steps of its body that lead to where and to what is stored, in order.
    places: Vec<&'a UOp>,
    values: Vec<&'a UOp>,
}

impl<'a> Loop<'a> {
    /// The loop that is opened there, if everything about its tiles is known: lanes fill them with what they load and
    /// compute in this round, they take turns, and each barrier in it is about them.
    fn of(steps: &'a [Step], open: usize) -> Option<Loop<'a>> {
        let Step::Open(range) = &steps[open] else { return None };
        let close = open + steps[open..].iter().position(|s| matches!(s, Step::Close(r) if r == range))?;
        let (body, after) = (&steps[open + 1..close], &steps[close + 1..]);
        let direct = directly(body);
        let of_op = |op: Op| direct.iter().copied().filter(move |n| n.op == op);
        let fills: Vec<&UOp> = of_op(Op::Store).filter(|n| is_local(n)).collect();
        let barriers: Vec<&UOp> = of_op(Op::Barrier).collect();
        let places = needed(fills.iter().flat_map(|f| place(f)), &direct);
        let values = needed(fills.iter().map(|f| &f.src[1]), &direct);
        let new = Loop { before: &steps[..open], range, body, after, fills, barriers, places, values };
        new.is_in_turns().then_some(new)
    }

    fn is_in_turns(&self) -> bool {
        // a place sees the round only as odd or even
        let is_turn = |n: &UOp| n.op == Op::And && n.src[0] == *self.range && n.src[1].as_int() == Some(1);
        let is_own = |n: &UOp| match n.op {
            Op::Load => n.buffer_and_index().is_some_and(|(b, _)| b.op == Op::Param && !self.stores_to(b)),
            op => op.is_elementwise() || matches!(op, Op::Stack | Op::Lane),
        };
        self.range.extent().as_int().is_some_and(|n| n > 1)
            && self.places.iter().any(|n| is_turn(n))
            && self.places.iter().all(|n| is_turn(n) || !n.src.contains(self.range))
            && self.places.iter().chain(&self.values).all(|n| is_own(n))
            && self.barriers.iter().all(|b| self.is_about_fills(b))
    }

    fn is_about_fills(&self, barrier: &UOp) -> bool {
        let mut stack: Vec<&UOp> = barrier.src.iter().collect();
        while let Some(n) = stack.pop() {
            match n.op {
                Op::Range => {}
                Op::Sink | Op::End => stack.extend(n.src.iter()),
                _ if self.fills.contains(&n) => {}
                _ => return false,
            }
        }
        true
    }

    fn stores_to(&self, param: &UOp) -> bool {
        let all = self.before.iter().chain(self.body).chain(self.after);
        let into = |n: &UOp| n.buffer_and_index().is_some_and(|(b, _)| b.behind_after() == param);
        all.into_iter().any(|s| matches!(s, Step::Do(n) if n.op == Op::Store && into(n)))
    }

    /// The steps that fill the tiles for a round after a barrier: those of the values, those of the places, the stores. A
    /// round beyond the last has a turn, but no values of its own.
    fn fill(&self, turn: &UOp, round: &UOp, barrier: &UOp) -> [Vec<UOp>; 3] {
        let met = self.barriers.iter().map(|b| ((*b).clone(), barrier.clone()));
        let at: FxHashMap<UOp, UOp> = met.chain([(self.range.clone(), turn.clone())]).collect();
        let of = FxHashMap::from_iter([(self.range.clone(), round.clone())]);
        let owned = |nodes: &[&UOp]| nodes.iter().map(|n| (*n).clone()).collect::<Vec<UOp>>();
        let values = substitute_all(&owned(&self.values), &of);
        let places = substitute_all(&owned(&self.places), &at);
        let store = |f: &&UOp| {
            let parts = f.src.iter().enumerate();
            let parts = parts.map(|(i, s)| s.substitute(if i == 1 { &of } else { &at }));
            f.with_src(parts.collect::<SmallVec<[UOp; 4]>>())
        };
        [values, places, self.fills.iter().map(store).collect()]
    }

    /// All steps, and where among them its new body begins.
    fn filled_ahead(self) -> (Vec<Step>, usize) {
        let constant = |i: i64| UOp::int(i, self.range.dtype);
        let last = self.range.extent().as_int().unwrap_or(1) - 1;
        let outside = opened(self.before);
        let first_barrier = UOp::new(Op::Barrier, DType::Void, outside, Arg::None);
        let [values, places, stores] = self.fill(&constant(0), &constant(0), &first_barrier);
        let filled = UOp::sink(stores.clone());
        let barrier = UOp::new(Op::Barrier, DType::Void, [self.range.clone(), filled], Arg::None);
        let next = self.range.bin(Alu::Add, &constant(1));
        let round = next.bin(Alu::Min, &constant(last));
        let all = |parts: [Vec<UOp>; 3]| parts.into_iter().flatten().map(Step::Do);
        let first = [Step::Do(first_barrier)].into_iter().chain(all([values, places, stores]));
        let mut steps: Vec<Step> = self.before.iter().cloned().chain(first).collect();
        let body = steps.len();
        steps.push(Step::Open(self.range.clone()));
        let [values, places, stores] = self.fill(&next, &round, &barrier);
        steps.extend([barrier.clone(), next, round].into_iter().chain(values).map(Step::Do));
        // what else the round does, and what comes after it, is after this barrier
        let rest = self.rest();
        let count = rest.len();
        let rest = rest.into_iter().chain(self.after.iter().cloned()).collect::<Vec<Step>>();
        let met = self.barriers.iter().map(|b| ((*b).clone(), barrier.clone())).collect();
        let mut rest = replaced(rest, &met).into_iter();
        steps.extend(rest.by_ref().take(count));
        steps.extend(places.into_iter().chain(stores).map(Step::Do));
        steps.push(Step::Close(self.range.clone()));
        steps.extend(rest);
        (steps, body)
    }

    /// The steps of its body that are not only there to fill tiles.
    fn rest(&self) -> Vec<Step> {
        let of_fills: FxHashSet<&UOp> = self.places.iter().chain(&self.values).copied().collect();
        let mut used: FxHashSet<&UOp> = FxHashSet::default();
        let mut rest = vec![];
        for step in self.body.iter().rev() {
            let is_kept = match step {
                Step::Do(n) if self.fills.contains(&n) || self.barriers.contains(&n) => false,
                Step::Do(n) => !of_fills.contains(n) || used.contains(n),
                _ => true,
            };
            if is_kept {
                step.node().src.iter().for_each(|s| behind(s, &mut |n| _ = used.insert(n)));
                rest.push(step.clone());
            }
        }
        rest.reverse();
        rest
    }
}

/// The steps of a body that are in no loop inside it.
fn directly(body: &[Step]) -> Vec<&UOp> {
    let mut depth = 0;
    let mut direct = vec![];
    for step in body {
        match step {
            Step::Open(_) => depth += 1,
            Step::Close(_) => depth -= 1,
            Step::Do(n) if depth == 0 => direct.push(n),
            _ => {}
        }
    }
    direct
}

/// The loops that are open after some steps.
fn opened(steps: &[Step]) -> Vec<UOp> {
    let mut open: Vec<UOp> = vec![];
    for step in steps {
        match step {
            Step::Open(r) => open.push(r.clone()),
            Step::Close(_) => _ = open.pop(),
            _ => {}
        }
    }
    open
}

fn is_local(store: &UOp) -> bool {
    store
        .buffer_and_index()
        .is_some_and(|(b, _)| matches!(b.behind_after().arg, Arg::Define { space: Space::Local, .. }))
}

/// What a store's place is computed from: all but its value.
fn place(store: &UOp) -> impl Iterator<Item = &UOp> {
    store.src.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, s)| s)
}

/// The steps that a source is made of, as values: not what only comes before it.
fn behind<'n>(source: &'n UOp, found: &mut dyn FnMut(&'n UOp)) {
    match source.op {
        op if is_step(op) => found(source),
        Op::After => behind(source.input(), found),
        Op::Range => {}
        _ => source.src.iter().for_each(|s| behind(s, found)),
    }
}

/// Those of some steps that lead to sources, in their order.
fn needed<'a>(sources: impl Iterator<Item = &'a UOp>, steps: &[&'a UOp]) -> Vec<&'a UOp> {
    let mut used: FxHashSet<&UOp> = FxHashSet::default();
    sources.for_each(|s| behind(s, &mut |n| _ = used.insert(n)));
    let mut kept: Vec<&UOp> = vec![];
    for &n in steps.iter().rev().filter(|n| !matches!(n.op, Op::Store | Op::Barrier)) {
        if used.contains(n) {
            n.src.iter().for_each(|s| behind(s, &mut |n| _ = used.insert(n)));
            kept.push(n);
        }
    }
    kept.reverse();
    kept
}

/// Steps with some nodes replaced in all they are made of.
fn replaced(steps: Vec<Step>, by: &FxHashMap<UOp, UOp>) -> Vec<Step> {
    let new = substitute_all(&steps.iter().map(|s| s.node().clone()).collect::<Vec<_>>(), by);
    let again = |(step, n): (Step, UOp)| match step {
        Step::Do(_) => Step::Do(n),
        Step::Open(_) => Step::Open(n),
        Step::Close(_) => Step::Close(n),
        Step::Prefetch(_, bytes) => Step::Prefetch(n, bytes),
    };
    steps.into_iter().zip(new).map(again).collect()
}
