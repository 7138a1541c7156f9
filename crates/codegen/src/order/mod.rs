//! Rows from a program graph to a list of steps, and over that list.

pub mod skip;
pub mod linearise;
pub mod pipeline;
pub mod interleave;
pub mod prefetch;
pub mod join;

use frit_uop::Op;

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
