//! Walking graphs: order, substitution. All loops are iterative: a graph may be deeper than a stack.

use crate::arg::Arg;
use crate::node::UOp;
use crate::op::Op;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

impl UOp {
    /// Every node below and including this one, sources before users.
    pub fn toposort(&self) -> Vec<UOp> {
        toposort(std::slice::from_ref(self))
    }
    /// What must be known before this node can be: its sources, but for the body of a loop.
    pub fn inputs(&self) -> &[UOp] {
        match self.op {
            Op::Loop => self.src.split_last().map_or(&[], |(_, inputs)| inputs),
            _ => &self.src,
        }
    }
    /// The node rebuilt with other sources; itself if they are the same.
    pub fn with_src(&self, src: SmallVec<[UOp; 4]>) -> UOp {
        if self.src[..] == src[..] {
            self.clone()
        } else {
            UOp::with(self.op, self.dtype, src, self.arg.clone())
        }
    }
    /// Replace nodes by others everywhere below; replacements are not walked again.
    pub fn substitute(&self, map: &FxHashMap<UOp, UOp>) -> UOp {
        if map.is_empty() {
            return self.clone();
        }
        let mut done: FxHashMap<UOp, UOp> = map.clone();
        rebuild(self, &mut done, |n| n);
        done[self].clone()
    }
    /// Whether any node below (or this one) satisfies `f`.
    pub fn any(&self, mut f: impl FnMut(&UOp) -> bool) -> bool {
        let (mut stack, mut seen) = (vec![self], FxHashSet::default());
        while let Some(n) = stack.pop() {
            if !seen.insert(n) {
                continue;
            }
            if f(n) {
                return true;
            }
            stack.extend(n.src.iter());
        }
        false
    }
    /// The `Range` nodes that are open at this node, outermost first.
    pub fn open_ranges(&self) -> Vec<UOp> {
        let mut found: Vec<UOp> = vec![];
        let (mut stack, mut seen) = (vec![self], FxHashSet::default());
        while let Some(n) = stack.pop() {
            if n.ranges.is_empty() || !seen.insert(n) {
                continue;
            }
            if let Arg::Range(r) = n.arg
                && self.ranges.contains(&r.id)
            {
                found.push(n.clone());
            }
            stack.extend(n.src.iter());
        }
        found.sort_by_key(|r| r.range_arg().map(|a| a.id));
        found
    }
}

/// Nodes of a small graph: room that is made at once.
const FEW: usize = 128;

/// Every node below the roots, sources before users, in a deterministic order.
pub fn toposort(roots: &[UOp]) -> Vec<UOp> {
    sort_by(roots, |n| &n.src)
}

/// As [`toposort`], without the bodies of loops.
pub fn toposort_outside(roots: &[UOp]) -> Vec<UOp> {
    sort_by(roots, UOp::inputs)
}

fn sort_by(roots: &[UOp], below: impl Fn(&UOp) -> &[UOp]) -> Vec<UOp> {
    // by address: a table that grows need not look at its nodes again
    let mut seen: FxHashSet<usize> = FxHashSet::with_capacity_and_hasher(FEW, Default::default());
    let mut order = Vec::with_capacity(FEW);
    let mut stack: Vec<(&UOp, bool)> = roots.iter().rev().map(|r| (r, false)).collect();
    while let Some((n, expanded)) = stack.pop() {
        if expanded {
            order.push(n.clone());
        } else if seen.insert(n.address()) {
            stack.push((n, true));
            stack.extend(below(n).iter().rev().filter(|s| !seen.contains(&s.address())).map(|s| (s, false)));
        }
    }
    order
}

/// Rebuild everything below `root` bottom-up through `f`, remembering in `done` (which may come with answers).
pub fn rebuild(root: &UOp, done: &mut FxHashMap<UOp, UOp>, mut f: impl FnMut(UOp) -> UOp) {
    let mut stack = vec![(root, false)];
    while let Some((n, expanded)) = stack.pop() {
        if done.contains_key(n) {
            continue;
        }
        if expanded {
            let src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| done[s].clone()).collect();
            let new = f(n.with_src(src));
            done.insert(n.clone(), new);
        } else {
            stack.push((n, true));
            stack.extend(n.src.iter().rev().filter(|s| !done.contains_key(*s)).map(|s| (s, false)));
        }
    }
}

/// The stores, ends and sinks that have an effect, from a root: the sources of a `Sink`, or the node itself.
pub fn effects(root: &UOp) -> &[UOp] {
    if root.op == Op::Sink { &root.src } else { std::slice::from_ref(root) }
}
