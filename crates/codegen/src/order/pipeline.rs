//! Fill tiles for later rounds of a loop while this round reads its own.
//!
//! ```text
//! for k { barrier; tile[k % 3] = x[k]; barrier; … tile[k % 3] … }
//!     ->
//! copy tile[0] = x[0]; commit; copy tile[1] = x[1]; commit
//! for k { wait for all but 1; barrier; copy tile[(k + 2) % 3] = x[k + 2]; commit; … tile[k % 3] … }
//! ```
//! What is copied arrives while rounds compute, and lanes meet once in each: then the tile of this round is there, and nobody
//! reads the one before it any more. Where a tile is not a copy of memory in whole accesses, or the machine has no copies in the
//! background, lanes load what is wanted before they compute, and store it after.
//!
//! ```text
//! barrier; tile[0] = x[0]
//! for k { barrier; v = x[min(k + 1, last)]; … tile[k % 2] …; tile[(k + 1) % 2] = v }
//! ```

use super::{behind, is_step, opened, replaced};
use frit_abi::Target;
use frit_uop::graph::substitute_all;
use frit_uop::symbolic::fold::evaluate;
use frit_uop::{Alu, Arg, DType, Op, Scalar, Space, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Rounds after which turns must have come back to the first.
const MOST_TURNS: i64 = 8;
/// Bytes of an access from which it is copied in the background: there are no narrower copies.
const LEAST_COPIED: usize = 4;

/// The pass: every loop that fills tiles in turns fills them ahead.
pub fn pipeline(mut steps: Vec<Step>, target: &Target) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        if let Some(found) = Loop::of(&steps, at, target) {
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
    /// How many tiles take turns.
    turns: i64,
    /// The stores to tiles and the barriers around them.
    fills: Vec<&'a UOp>,
    barriers: Vec<&'a UOp>,
    /// The steps of its body that lead to where and to what is stored, in order.
    places: Vec<&'a UOp>,
    values: Vec<&'a UOp>,
    /// Whether the machine copies in the background.
    has_copies: bool,
}

/// What fills tiles for a round: steps to the values and the places, copies, stores.
struct Fill {
    values: Vec<UOp>,
    places: Vec<UOp>,
    copies: Vec<UOp>,
    stores: Vec<UOp>,
}

impl Fill {
    /// All of it at once, with the group that the copies are.
    fn at_once(self) -> Vec<UOp> {
        let group = self.group();
        [self.values, self.places, self.copies, group, self.stores].into_iter().flatten().collect()
    }
    fn group(&self) -> Vec<UOp> {
        let group = UOp::new(Op::Commit, DType::Void, self.copies.clone(), Arg::None);
        if self.copies.is_empty() { vec![] } else { vec![group] }
    }
}

impl<'a> Loop<'a> {
    /// The loop that is opened there, if everything about its tiles is known: lanes fill them with what they load and
    /// compute in this round, they take turns, and each barrier in it is about them.
    fn of(steps: &'a [Step], open: usize, target: &Target) -> Option<Loop<'a>> {
        let Step::Open(range) = &steps[open] else { return None };
        let close = open + steps[open..].iter().position(|s| matches!(s, Step::Close(r) if r == range))?;
        let (body, after) = (&steps[open + 1..close], &steps[close + 1..]);
        let direct = directly(body);
        let of_op = |op: Op| direct.iter().copied().filter(move |n| n.op == op);
        let fills: Vec<&UOp> = of_op(Op::Store).filter(|n| is_local(n)).collect();
        let barriers: Vec<&UOp> = of_op(Op::Barrier).collect();
        let places = needed(fills.iter().flat_map(|f| place(f)), &direct);
        let values = needed(fills.iter().map(|f| f.value()), &direct);
        let turns = fills.iter().map(|f| turns(f, range)).reduce(|a, b| a.filter(|_| a == b))??;
        let before = &steps[..open];
        let has_copies = target.async_copies;
        let new = Loop { before, range, body, after, turns, fills, barriers, places, values, has_copies };
        new.is_known().then_some(new)
    }

    fn is_known(&self) -> bool {
        let is_own = |n: &UOp| match n.op {
            Op::Load => n.buffer_and_index().is_some_and(|(b, _)| b.op == Op::Param && !self.stores_to(b)),
            op => op.is_elementwise() || matches!(op, Op::Stack | Op::Lane),
        };
        self.places.iter().chain(&self.values).all(|n| is_own(n))
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

    /// What fills the tiles for a round after a barrier. A round beyond the last has a turn, but no values of its own; `is_one`
    /// says whether it is one.
    fn fill(&self, turn: &UOp, round: &UOp, is_one: Option<&UOp>, barrier: &UOp) -> Fill {
        let met = self.barriers.iter().map(|b| ((*b).clone(), barrier.clone()));
        let at: FxHashMap<UOp, UOp> = met.chain([(self.range.clone(), turn.clone())]).collect();
        let of = FxHashMap::from_iter([(self.range.clone(), round.clone())]);
        let owned = |nodes: &[&UOp]| nodes.iter().map(|n| (*n).clone()).collect::<Vec<UOp>>();
        let places = substitute_all(&owned(&self.places), &at);
        let (copied, stored): (Vec<&UOp>, Vec<&UOp>) =
            self.fills.iter().partition(|f| self.has_copies && is_copy(f));
        let mut values = substitute_all(&owned(&self.values), &of);
        let store = |f: &&UOp| {
            let parts = f.src.iter().enumerate();
            let parts = parts.map(|(i, s)| s.substitute(if i == 1 { &of } else { &at }));
            f.with_src(parts.collect::<SmallVec<[UOp; 4]>>())
        };
        let copy = |f: &&UOp| {
            let load = f.value();
            let gate = load.gate().map(|g| g.substitute(&of));
            let gate = match (gate, is_one) {
                (Some(g), Some(one)) => Some(g.and_(one)),
                (g, one) => g.or(one.cloned()),
            };
            let ends = [f.target().substitute(&at), load.src[0].substitute(&of)];
            let src: SmallVec<[UOp; 4]> = ends.into_iter().chain(gate).collect();
            UOp::new(Op::CopyAsync, DType::Void, src, Arg::None)
        };
        let (copies, stores): (Vec<UOp>, Vec<UOp>) =
            (copied.iter().map(copy).collect(), stored.iter().map(store).collect());
        // a gate is joined where it is used
        let gates = copies.iter().filter_map(|c| c.src.get(2)).filter(|g| g.op == Op::And).cloned();
        values.extend(gates);
        // what is copied is loaded by nobody
        let loads: FxHashSet<UOp> = copied.iter().map(|f| f.value().substitute(&of)).collect();
        let mut seen = FxHashSet::default();
        values.retain(|n| !loads.contains(n) && seen.insert(n.clone()));
        Fill { values, places, copies, stores }
    }

    /// All steps, and where among them its new body begins.
    fn filled_ahead(self) -> (Vec<Step>, usize) {
        let constant = |i: i64| UOp::int(i, self.range.dtype);
        let rounds = self.range.extent();
        let last = rounds.as_int().map_or_else(|| rounds.bin(Alu::Sub, &constant(1)), |n| constant(n - 1));
        let outside = opened(self.before);
        let first_barrier = UOp::new(Op::Barrier, DType::Void, outside.clone(), Arg::None);
        let mut steps: Vec<Step> = self.before.to_vec();
        steps.extend(is_step(last.op).then(|| Step::Do(last.clone())));
        steps.push(Step::Do(first_barrier.clone()));
        let (mut filled, mut groups) = (vec![], vec![]);
        for round in 0..self.turns - 1 {
            let fill = self.fill(&constant(round), &constant(round), None, &first_barrier);
            filled.extend(fill.stores.iter().cloned());
            groups.extend(fill.group());
            steps.extend(fill.at_once().into_iter().map(Step::Do));
        }
        let body = steps.len();
        steps.push(Step::Open(self.range.clone()));
        let next = self.range.bin(Alu::Add, &constant(self.turns - 1));
        let round = next.bin(Alu::Min, &last);
        let is_one = next.lt(rounds);
        let mut before = vec![self.range.clone(), UOp::sink(filled)];
        // all but those of the rounds after this one are there
        let has_copies = !groups.is_empty();
        let wait = |left: u32, after: Vec<UOp>| UOp::new(Op::Wait, DType::Void, after, Arg::Lanes(left));
        if has_copies {
            let after = [self.range.clone()].into_iter().chain(groups.iter().cloned()).collect();
            let there = wait(self.turns as u32 - 2, after);
            steps.push(Step::Do(there.clone()));
            before.push(there);
        }
        let barrier = UOp::new(Op::Barrier, DType::Void, before, Arg::None);
        // that round has the turn of the one before this, which is a round that there is
        let (first, last_turn) = (self.range.eq_(&constant(0)), constant(self.turns - 1));
        let before_this = self.range.bin(Alu::Sub, &constant(1));
        let turn = first.select(&last_turn, &before_this);
        let fill = self.fill(&turn, &round, Some(&is_one).filter(|_| has_copies), &barrier);
        let group = fill.group();
        let early = [barrier.clone(), next, round, first, before_this, turn].into_iter();
        let early = early.chain(has_copies.then(|| is_one.clone())).chain(fill.values);
        steps.extend(early.map(Step::Do));
        let (mut late, stores) = (fill.places, fill.stores);
        if has_copies {
            steps.extend(late.drain(..).chain(fill.copies).chain(group).map(Step::Do));
        }
        // what else the round does, and what comes after it, is after this barrier
        let rest = self.rest();
        let count = rest.len();
        let rest = rest.into_iter().chain(self.after.iter().cloned()).collect::<Vec<Step>>();
        let met = self.barriers.iter().map(|b| ((*b).clone(), barrier.clone())).collect();
        let mut rest = replaced(rest, &met).into_iter();
        steps.extend(rest.by_ref().take(count));
        steps.extend(late.into_iter().chain(stores).map(Step::Do));
        steps.push(Step::Close(self.range.clone()));
        // the zeros of rounds beyond the last must not arrive where others have something else by then
        steps.extend(has_copies.then(|| Step::Do(wait(0, [outside, groups].concat()))));
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

/// How many tiles take turns in the rounds of a loop, if places see the round only as whose turn it is.
fn turns(fill: &UOp, range: &UOp) -> Option<i64> {
    let (_, idx) = fill.buffer_and_index()?;
    let at = |round: i64| {
        let leaf = |n: &UOp| Ok::<_, ()>(Scalar::Int(if n == range { round } else { 0 }));
        evaluate(idx, leaf).ok()?.as_i64()
    };
    let (least, most) = range.extent().bounds;
    let rounds = most.min(2 * MOST_TURNS as i128) as i64;
    let places: Vec<i64> = (0..rounds).map(at).collect::<Option<_>>()?;
    let is_period = |n: &i64| places.iter().zip(&places[*n as usize..]).all(|(a, b)| a == b);
    // those that are filled before the loop must be rounds of it
    (2..=MOST_TURNS.min(rounds)).find(is_period).filter(|n| i128::from(n - 1) <= least).filter(|n| {
        let mut turns = places[..*n as usize].to_vec();
        turns.sort_unstable();
        turns.windows(2).all(|w| w[0] != w[1])
    })
}

/// Whether a store to a tile is a copy of memory that is made in whole accesses.
fn is_copy(fill: &UOp) -> bool {
    let (load, bytes) = (fill.value(), fill.target().lanes() * fill.target().dtype.size());
    let is_zero = |x: &UOp| x.as_scalar().is_some_and(|v| v.to_bits(x.dtype) == 0);
    let is_zero = |alt: &UOp| is_zero(alt) || alt.op == Op::Stack && alt.src.iter().all(is_zero);
    load.op == Op::Load
        && fill.gate().is_none()
        && load.buffer_and_index().is_some_and(|(b, _)| b.op == Op::Param)
        && load.arg == Arg::None
        && load.alt().is_none_or(is_zero)
        && bytes >= LEAST_COPIED
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

fn is_local(store: &UOp) -> bool {
    store
        .buffer_and_index()
        .is_some_and(|(b, _)| matches!(b.behind_after().arg, Arg::Define { space: Space::Local, .. }))
}

/// What a store's place is computed from: all but its value.
fn place(store: &UOp) -> impl Iterator<Item = &UOp> {
    store.src.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, s)| s)
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
