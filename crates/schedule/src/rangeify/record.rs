//! What the cut looks like to a recording: which kernel computes which node.

use super::request::{Cut, Placement};
pub use crate::record::{is_on, name};
use frit_abi::record::{self, Field, Kind};
use frit_uop::UOp;
use frit_uop::record::number;

/// Remember where a draft stores, if anyone wants to know.
pub fn place(places: &mut [String], draft: u32, memory: &UOp) {
    if let Some(place) = places.get_mut(draft as usize) {
        *place = name(memory);
    }
}

/// Write down for every node the places of the kernels that compute it.
pub fn placements(cut: &Cut, places: &[String]) {
    if places.is_empty() {
        return;
    }
    let write = |node: &UOp, draft: u32, how: &'static str| {
        let place = &places[draft as usize];
        record::write(Kind::Placed, &[Field::Int(number(node)), Field::Text(place), Field::Name(how)]);
    };
    for (i, node) in cut.list.nodes.iter().enumerate() {
        match &cut.placements[i] {
            Placement::Unused => {}
            Placement::Inline(_) => {
                let mut kernels: Vec<u32> = cut.requests[i].iter().map(|r| r.kernel).collect();
                kernels.sort_unstable();
                kernels.dedup();
                kernels.into_iter().for_each(|k| write(node, k, "inlined"));
            }
            Placement::Staged { draft, .. } => write(node, *draft, "stored"),
            Placement::Scattered { draft, rows } | Placement::ScatteredInPlace { draft, rows } => {
                write(node, *draft, "stored");
                rows.iter().for_each(|r| write(node, r.draft, "stored"));
            }
        }
    }
    for (node, draft) in &cut.stores {
        write(&cut.list.nodes[*node as usize], *draft, "stored");
    }
}
