//! Which kernels of a schedule compute a node, and which line of the user's program it belongs to.

use crate::lines::LineOf;
use crate::model::{Model, NodeId, Schedule, Text};
use rustc_hash::{FxHashMap, FxHashSet};

/// Ops that compute nothing: memory and numbers, and what only says where elements are.
const FREE: [&str; 11] =
    ["Reshape", "Permute", "Expand", "Pad", "Shrink", "Flip", "Const", "Param", "Cast", "Detach", "After"];

/// Where the nodes of a schedule are computed.
pub struct Placed {
    /// The line of each node: of the call that made it, or that it is a part of.
    pub lines: LineOf,
    calls: FxHashMap<Text, Vec<usize>>,
    unstored: FxHashSet<Text>,
}

impl Placed {
    /// Of a schedule that was run for these lines.
    pub fn of(m: &Model, s: &Schedule, own: &LineOf) -> Placed {
        Placed { lines: lines(m, s, own), calls: calls(m, s), unstored: s.unstored.iter().copied().collect() }
    }
    /// The kernels that compute what is for this place, by number.
    pub fn calls_of(&self, place: Text) -> &[usize] {
        self.calls.get(&place).map_or(&[], |c| c)
    }
    /// Whether memory holds what is for this place.
    pub fn is_stored(&self, place: Text) -> bool {
        !self.unstored.contains(&place)
    }
}

/// Whether computing a node costs nothing.
pub fn is_free(m: &Model, n: NodeId) -> bool {
    FREE.contains(&m.text(m.node(n).op))
}

/// Kernels by place. One that is not stored is computed where those are that its kernel was joined with.
fn calls(m: &Model, s: &Schedule) -> FxHashMap<Text, Vec<usize>> {
    let named: FxHashMap<&str, Text> = s.placed.iter().map(|p| (m.text(p.1), p.1)).collect();
    let mut calls: FxHashMap<Text, Vec<usize>> = FxHashMap::default();
    for (i, c) in s.calls.iter().enumerate() {
        for place in m.text(c.places).split(' ').filter_map(|p| named.get(p)) {
            calls.entry(*place).or_default().push(i);
        }
    }
    // groups of places, by one of each
    let mut group: FxHashMap<Text, Text> = FxHashMap::default();
    let root = |group: &FxHashMap<Text, Text>, mut p: Text| {
        while let Some(q) = group.get(&p).filter(|q| **q != p) {
            p = *q;
        }
        p
    };
    for (place, with, _) in &s.joined {
        let (a, b) = (root(&group, *place), root(&group, *with));
        group.insert(a, b);
    }
    let mut of_group: FxHashMap<Text, Vec<usize>> = FxHashMap::default();
    for (place, own) in &calls {
        of_group.entry(root(&group, *place)).or_default().extend(own);
    }
    for place in &s.unstored {
        if let (false, Some(all)) = (calls.contains_key(place), of_group.get(&root(&group, *place))) {
            calls.insert(*place, all.clone());
        }
    }
    calls.values_mut().for_each(|c| {
        c.sort_unstable();
        c.dedup();
    });
    calls
}

/// Lines of nodes. What a call makes on the way to its result has no line of its own, so it has that of who reads it.
pub fn lines(m: &Model, s: &Schedule, own: &LineOf) -> LineOf {
    let roots: Vec<NodeId> = s.placed.iter().map(|p| p.0).chain([s.graph]).collect();
    let mut lines = LineOf::default();
    for n in m.below(&roots).into_iter().rev() {
        if let Some(own) = own.get(&n) {
            lines.insert(n, *own);
        }
        let Some(line) = lines.get(&n).copied() else { continue };
        for source in m.src(n) {
            let is_memory = ["Param", "Const", "Buffer"].contains(&m.text(m.node(*source).op));
            if !is_memory && !own.contains_key(source) {
                lines.entry(*source).or_insert(line);
            }
        }
    }
    // a broadcast for a call is no part of it that anyone would look for
    lines.retain(|n, _| own.contains_key(n) || !is_free(m, *n));
    lines
}
