//! Rows from a program graph to a list of steps, and over that list.

pub mod skip;
pub mod linearise;
pub mod unroll;
pub mod pipeline;
pub mod overlap;
pub mod interleave;
pub mod prefetch;
pub mod join;

use frit_uop::graph::substitute_all;
use frit_uop::{Op, Step, UOp};
use rustc_hash::FxHashMap;

/// Whether something is done for such a node; what others are is written where they are used.
fn is_step(op: Op) -> bool {
    use Op::*;
    op.is_elementwise()
        || matches!(
            op,
            Load | LoadMatrix | Store | Stack | Lane | Shuffle | LaneShuffle | Matrix | Words | Barrier
        )
        || matches!(op, CopyAsync | Commit | Wait)
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

/// The steps that a source is made of, as values: not what only comes before it.
fn behind<'n>(source: &'n UOp, found: &mut dyn FnMut(&'n UOp)) {
    match source.op {
        op if is_step(op) => found(source),
        Op::After => behind(source.input(), found),
        Op::Range => {}
        _ => source.src.iter().for_each(|s| behind(s, found)),
    }
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
