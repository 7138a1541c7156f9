//! What this room writes to a recording: why values are stored, and which kernel stores what (decision 022).

use frit_abi::record::{self, Field, Kind};
use frit_uop::record::number;
use frit_uop::{Arg, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

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

/// The kernel that stores `place` became part of the one that stores `with`.
pub fn joined(place: &UOp, with: &UOp, why: &'static str) {
    if is_on() {
        let [place, with] = [place, with].map(name);
        record::write(Kind::Joined, &[Field::Text(&place), Field::Text(&with), Field::Name(why)]);
    }
}

/// Nobody outside its kernel reads this place.
pub fn unstored(place: &UOp) {
    if is_on() {
        record::write(Kind::Unstored, &[Field::Text(&name(place))]);
    }
}

/// Parts of the program by the name of the place that their kernel stores, those that reduce first.
pub type Origins = FxHashMap<String, Vec<Arc<str>>>;

/// Names told of a kernel; others are counted.
const TOLD: usize = 3;

/// What is said of a kernel that stores these places.
pub fn origin<'a>(origins: &Origins, places: impl Iterator<Item = &'a UOp>) -> Arc<str> {
    if origins.is_empty() {
        return "".into();
    }
    let mut names: Vec<&Arc<str>> = vec![];
    for name in places.filter_map(|p| origins.get(&name(p))).flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let told: Vec<&str> = names.iter().take(TOLD).map(|n| &***n).collect();
    match names.len() - told.len() {
        0 => told.join(" + ").into(),
        more => format!("{} + {more} more", told.join(" + ")).into(),
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
