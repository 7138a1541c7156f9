//! Unroll loops whose rounds look whether there is anything to do.
//!
//! ```text
//! for m { i = index[m]; if i is mine { … } }
//!     ->
//! for m in steps of 8 { i0, … i7 = index[m], … index[m + 7]; if i0 is mine { … } … if i7 is mine { … } }
//! ```
//! A round waits for what it loads before it branches, and an assembler moves no load over a branch: so rounds load side by
//! side. What they do stays in order.

use frit_abi::Target;
use frit_uop::graph::substitute_all;
use frit_uop::{Alu, Arg, Op, RangeArg, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rounds that become one, the first of these that divides them.
const ROUNDS: [i64; 3] = [8, 4, 2];

/// The pass: every such loop.
pub fn unroll(mut steps: Vec<Step>, _: &Target) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        if let Some(unrolled) = Loop::of(&steps, at).map(|found| found.unrolled()) {
            steps = unrolled;
        }
        at += 1;
    }
    steps
}

/// A loop of rounds that load, and then do something or nothing: the last thing that is done.
struct Loop<'a> {
    before: &'a [Step],
    range: &'a UOp,
    body: &'a [Step],
    after: &'a [Step],
    /// Rounds that become one, and what the loop counts up to then.
    rounds: i64,
    count: i64,
}

impl<'a> Loop<'a> {
    fn of(steps: &'a [Step], open: usize) -> Option<Loop<'a>> {
        let Step::Open(range) = &steps[open] else { return None };
        let close = open + steps[open..].iter().position(|s| matches!(s, Step::Close(r) if r == range))?;
        let (before, body, after) = (&steps[..open], &steps[open + 1..close], &steps[close + 1..]);
        let all = range.extent().as_int()?;
        let rounds = ROUNDS.into_iter().find(|n| all % n == 0 && all / n > 1)?;
        let new = Loop { before, range, body, after, rounds, count: all / rounds };
        (after.iter().all(|s| matches!(s, Step::Close(_))) && new.only_looks()).then_some(new)
    }

    /// Whether a round loads what nobody writes, and everything else it does is behind a branch.
    fn only_looks(&self) -> bool {
        let buffer = |n: &UOp| n.buffer_and_index().map(|(b, _)| b.behind_after().clone());
        let written: FxHashSet<UOp> = (self.before.iter().chain(self.body).chain(self.after))
            .filter(|s| s.node().op == Op::Store)
            .filter_map(|s| buffer(s.node()))
            .collect();
        let (mut depth, mut loads, mut branches) = (0, 0, 0);
        for step in self.body {
            match step {
                Step::Open(r) if depth == 0 && r.extent().bounds.1 > 1 => return false,
                Step::Open(_) => (depth, branches) = (depth + 1, branches + 1),
                Step::Close(_) => depth -= 1,
                Step::Do(n) if depth == 0 => match n.op {
                    Op::Load if buffer(n).is_some_and(|b| b.op == Op::Param && !written.contains(&b)) => {
                        loads += 1
                    }
                    op if op.is_elementwise() => {}
                    _ => return false,
                },
                _ => {}
            }
        }
        loads > 0 && branches > 0
    }

    fn unrolled(&self) -> Vec<Step> {
        let id = |s: &Step| s.node().range_arg().map_or(0, |a| a.id + 1);
        let mut next = self.before.iter().chain(self.body).map(id).max().unwrap_or(0);
        let int = |i: i64| UOp::int(i, self.range.dtype);
        let range = self.range.with_src([int(self.count)].into_iter().collect());
        let first = range.bin(Alu::Mul, &int(self.rounds));
        let mut steps = self.before.to_vec();
        steps.extend([Step::Open(range.clone()), Step::Do(first.clone())]);
        let (mut looks, mut branches) = (vec![], vec![]);
        for round in 0..self.rounds {
            let at = if round == 0 { first.clone() } else { first.bin(Alu::Add, &int(round)) };
            looks.extend((round > 0).then(|| Step::Do(at.clone())));
            let mut by = FxHashMap::from_iter([(self.range.clone(), at)]);
            // a branch is a loop of its own in each round
            for branch in self.body.iter().filter(|s| matches!(s, Step::Open(_))).map(Step::node) {
                let Some(a) = branch.range_arg() else { continue };
                let arg = Arg::Range(RangeArg { id: if round == 0 { a.id } else { next }, ..a });
                next += u32::from(round > 0);
                by.insert(
                    branch.clone(),
                    UOp::new(Op::Range, branch.dtype, [branch.extent().substitute(&by)], arg),
                );
            }
            let nodes: Vec<UOp> = self.body.iter().map(|s| s.node().clone()).collect();
            let mut depth = 0;
            for (step, n) in self.body.iter().zip(substitute_all(&nodes, &by)) {
                let is_look = depth == 0 && matches!(step, Step::Do(_));
                let new = match step {
                    Step::Open(_) => Step::Open(n),
                    Step::Close(_) => Step::Close(n),
                    Step::Do(_) => Step::Do(n),
                    Step::Prefetch(_, bytes) => Step::Prefetch(n, *bytes),
                };
                depth += i32::from(matches!(new, Step::Open(_))) - i32::from(matches!(new, Step::Close(_)));
                if is_look { looks.push(new) } else { branches.push(new) }
            }
        }
        steps.extend(looks.into_iter().chain(branches));
        steps.push(Step::Close(range));
        steps.extend_from_slice(self.after);
        steps
    }
}
