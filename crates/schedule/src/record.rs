//! What this room writes to a recording: why values are stored, and which kernel stores what (decision 022).

use frit_abi::record::{self, Field, Kind};
use frit_uop::record::number;
use frit_uop::{Arg, UOp};

/// Whether anyone wants to know.
#[inline]
pub fn is_on() -> bool {
    record::compiles()
}

/// What was decided about a node, and why.
#[inline]
pub fn reason(node: &UOp, what: &'static str, why: &'static str) {
    if is_on() {
        record::write(Kind::Reason, &[Field::Int(number(node)), Field::Name(what), Field::Name(why)]);
    }
}

/// The name of a place that kernels store to: `p3` a parameter of the graph, `t5` memory between kernels.
pub fn name(memory: &UOp) -> String {
    match memory.behind_after().arg {
        Arg::Param { slot, .. } => format!("p{slot}"),
        Arg::Define { id, .. } => format!("t{id}"),
        _ => "?".into(),
    }
}
