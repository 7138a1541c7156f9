//! What the cut looks like to people: which kernel computes which node, and the names of what a kernel computes.

use super::request::{Cut, Placement};
pub use crate::record::{Origins, is_on, name};
use frit_abi::record::{self, Field, Kind};
use frit_uop::record::number;
use frit_uop::{Op, UOp, origin};
use std::sync::Arc;

/// Remember where a draft stores, if anyone wants to know.
pub fn place(places: &mut [String], draft: u32, memory: &UOp) {
    if let Some(place) = places.get_mut(draft as usize) {
        *place = name(memory);
    }
}

/// The drafts that compute a node.
fn drafts_of(cut: &Cut, node: usize) -> (Vec<u32>, &'static str) {
    match &cut.placements[node] {
        Placement::Unused => (vec![], ""),
        Placement::Inline { recipes } => {
            let mut kernels: Vec<u32> = recipes.iter().map(|r| r.kernel).collect();
            kernels.sort_unstable();
            kernels.dedup();
            (kernels, "inlined")
        }
        Placement::Staged { draft, .. } => (vec![*draft], "stored"),
        Placement::Scattered { draft, rows } | Placement::ScatteredInPlace { draft, rows } => {
            (std::iter::once(*draft).chain(rows.iter().map(|r| r.draft)).collect(), "stored")
        }
    }
}

/// Write down for every node the places of the kernels that compute it.
pub fn placements(cut: &Cut, places: &[String]) {
    if !is_on() {
        return;
    }
    let write = |node: &UOp, draft: u32, how: &'static str| {
        let place = &places[draft as usize];
        record::write(Kind::Placed, &[Field::Int(number(node)), Field::Text(place), Field::Name(how)]);
    };
    for (i, node) in cut.list.nodes.iter().enumerate() {
        let (drafts, how) = drafts_of(cut, i);
        drafts.into_iter().for_each(|d| write(node, d, how));
    }
    for (node, draft) in &cut.stores {
        write(&cut.list.nodes[*node as usize], *draft, "stored");
    }
}

/// The names of what is computed for each place. A node without one belongs to what its first user does.
pub fn origins(cut: &Cut, places: &[String]) -> Origins {
    let mut origins = Origins::default();
    if places.is_empty() {
        return origins;
    }
    let mut names: Vec<Option<Arc<str>>> = cut.list.nodes.iter().map(origin::of).collect();
    for i in (0..names.len()).rev() {
        for &s in cut.list.src(i) {
            if names[s as usize].is_none() {
                names[s as usize] = names[i].clone();
            }
        }
    }
    // a kernel's reductions are what it is about; what only moves elements is told where there is nothing else
    let rank = |n: &UOp| match n.op {
        Op::ReduceAxis | Op::ScanAxis => 0,
        op if op.is_movement() => 2,
        _ => 1,
    };
    for wanted in 0..3 {
        for (i, node) in cut.list.nodes.iter().enumerate() {
            let Some(name) = names[i].as_ref().filter(|_| rank(node) == wanted && node.op != Op::Const)
            else {
                continue;
            };
            let stores = cut.stores.iter().filter(|(n, _)| *n as usize == i).map(|s| s.1);
            for draft in drafts_of(cut, i).0.into_iter().chain(stores) {
                let known = origins.entry(places[draft as usize].clone()).or_default();
                if !known.contains(name) && (wanted < 2 || known.is_empty()) {
                    known.push(name.clone());
                }
            }
        }
    }
    origins
}
