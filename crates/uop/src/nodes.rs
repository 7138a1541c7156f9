//! A list of nodes that counts no handle but its roots': these hold all that is below them.
//!
//! Walks make many such lists. Counting each node in and out again would write to every one of them twice, which in a graph
//! larger than the caches is most of what a walk costs.

use crate::node::UOp;
use smallvec::SmallVec;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// Nodes that are roots, or below them.
pub struct Nodes {
    /// Handles that are not counted. They are given out by reference, for no longer than the roots are held.
    list: Vec<ManuallyDrop<UOp>>,
    _roots: SmallVec<[UOp; 1]>,
}

impl Nodes {
    /// None yet, with room for a few.
    pub(crate) fn below(roots: &[UOp], room: usize) -> Nodes {
        Nodes { list: Vec::with_capacity(room), _roots: roots.iter().cloned().collect() }
    }
    /// One more.
    ///
    /// # Safety
    /// It is one of the roots, or a source of a node in the list or of one that will be.
    #[inline]
    pub(crate) unsafe fn push(&mut self, n: &UOp) {
        // SAFETY: the copy is never dropped, so no handle is given back that was not counted; a node never changes its
        // sources, so what is below a root stays as long as that does
        self.list.push(ManuallyDrop::new(unsafe { std::ptr::read(n) }));
    }
}

impl Deref for Nodes {
    type Target = [UOp];
    #[inline]
    fn deref(&self) -> &[UOp] {
        // SAFETY: `ManuallyDrop` has the layout of what it wraps, and the roots live as long as the reference
        unsafe { &*(std::ptr::from_ref(&self.list[..]) as *const [UOp]) }
    }
}

impl<'a> IntoIterator for &'a Nodes {
    type Item = &'a UOp;
    type IntoIter = std::slice::Iter<'a, UOp>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Handles to the nodes, counted as they come.
pub struct IntoIter {
    nodes: Nodes,
    next: usize,
}

impl Iterator for IntoIter {
    type Item = UOp;
    fn next(&mut self) -> Option<UOp> {
        let n = self.nodes.get(self.next)?;
        self.next += 1;
        Some(n.clone())
    }
}

impl IntoIterator for Nodes {
    type Item = UOp;
    type IntoIter = IntoIter;
    fn into_iter(self) -> IntoIter {
        IntoIter { nodes: self, next: 0 }
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_roots_are_counted() {
        let x = UOp::variable("only_roots_are_counted", 0, 99);
        let (y, before) = (&x * 3 + 5, x.ref_count());
        let nodes = y.toposort();
        assert_eq!((x.ref_count(), y.ref_count()), (before, 2));
        assert_eq!(nodes.iter().filter(|n| **n == x).count(), 1);
        drop(nodes);
        assert_eq!((x.ref_count(), y.ref_count()), (before, 1));
    }
    #[test]
    fn a_list_outlives_the_handles_it_was_made_of() {
        let y = UOp::variable("a_list_outlives", 0, 99) * 7 + 11;
        let nodes = y.toposort();
        drop(y);
        let ops: Vec<&str> = nodes.iter().map(|n| n.op.name()).collect();
        assert_eq!(ops.last(), Some(&"Add"));
        let last: Vec<UOp> = nodes.into_iter().collect();
        assert_eq!(last.last().map(|n| n.bounds), Some((11, 11 + 7 * 99)));
    }
}
