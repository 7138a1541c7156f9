//! Assignment: in place when no one else holds the old version, else on a copy.
//!
//! A version is `After(x, Store(view of x, value))`. Before it runs, everything that still sees the version below it is
//! looked for: nodes with more holders than this graph accounts for. If there is one, or the memory is borrowed and so
//! read-only, the store goes to a copy:
//!
//! ```text
//! After(u(B), Store(v(B), x))  ->  After(u(C'), Store(v(C'), x))   with C' = After(C, Store(C, B)), C fresh memory
//! ```

use crate::Error;
use crate::memory::buffer::Buffer;
use crate::memory::view::{base_of, version_of};
use frit_uop::graph::toposort;
use frit_uop::{Op, Storage, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A root of the graphs to run, and how many holders outside the graphs it has by right.
pub type Root<'a> = (&'a UOp, usize);

/// The `graph` with every store in it made safe to do in place; a map from its nodes to the new ones.
///
/// `roots` are all nodes from which this run's graphs can be reached, before and after known values were put in:
/// what only they hold is let go when the run is over. `known` says what each node became when they were: who holds
/// the one sees what the other sees.
pub fn make_in_place(
    graph: &[UOp],
    roots: &[Root],
    known: &[(UOp, UOp)],
) -> Result<FxHashMap<UOp, UOp>, Error> {
    let mut held = held_outside(roots);
    let images: Vec<UOp> = known.iter().filter(|(n, _)| held.contains(n)).map(|(_, k)| k.clone()).collect();
    held.extend(images);
    let mut seen = seen_versions(&held);
    // a version that is asked for itself, while another one is made of it
    let asked: FxHashSet<&UOp> = graph.iter().map(version_of).collect();
    let order = toposort(graph);
    let below = order.iter().filter(|n| n.op == Op::After).map(|n| version_of(&n.src[0]));
    seen.extend(below.filter(|v| asked.contains(v)).cloned());
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    // of two that are made of one version, the first is made in its place
    let mut stored: FxHashSet<UOp> = FxHashSet::default();
    for n in order {
        let mut new = n.with_src(n.src.iter().map(|s| done[s].clone()).collect());
        let version = n.src.first().map(version_of);
        let is_copied = |v: &UOp| seen.contains(v) || Buffer::of(v).is_some_and(|b| !b.memory.is_writable());
        if n.op == Op::After && version.is_some_and(|v| is_copied(v) || !stored.insert(v.clone())) {
            new = on_a_copy(&n, &new)?;
        }
        done.insert(n, new);
    }
    Ok(done)
}

/// Nodes that something outside the graphs holds.
fn held_outside(roots: &[Root]) -> FxHashSet<UOp> {
    // counted by address so that counting adds no holders
    let mut inside: FxHashMap<usize, usize> = FxHashMap::default();
    let mut stack: Vec<&UOp> = vec![];
    for (root, by_right) in roots {
        *inside.entry(root.address()).or_default() += by_right;
        stack.push(root);
    }
    let (mut seen, mut nodes) = (FxHashSet::default(), vec![]);
    while let Some(n) = stack.pop() {
        if !seen.insert(n.address()) {
            continue;
        }
        nodes.push(n);
        // a dim also stands in the cached shapes of others, but a dim is never a version
        for s in n.src.iter().chain(n.realized()) {
            *inside.entry(s.address()).or_default() += 1;
            stack.push(s);
        }
    }
    nodes.into_iter().filter(|n| n.ref_count() > inside[&n.address()]).cloned().collect()
}

/// The versions that held nodes see: buffers, and `After`s that are not stored yet.
///
/// An `After` is not looked through for the version below itself: whoever holds it wants what its own store makes of
/// that. What else its value is made of counts, since it may be stored only later.
fn seen_versions(held: &FxHashSet<UOp>) -> FxHashSet<UOp> {
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    let mut pending = walk(held.iter(), &mut seen, true);
    let mut below: FxHashSet<UOp> = FxHashSet::default();
    while let Some(after) = pending.pop() {
        let mut found = FxHashSet::default();
        walk(after.src.iter(), &mut found, false);
        found.remove(version_of(&after.src[0]));
        below.extend(found);
    }
    seen.extend(below);
    seen
}

/// Collect the versions below `roots`; where `stop`, nothing below an `After` that is not stored yet. Gives those back.
fn walk<'a>(roots: impl Iterator<Item = &'a UOp>, found: &mut FxHashSet<UOp>, stop: bool) -> Vec<UOp> {
    let (mut stack, mut visited, mut afters) = (roots.collect::<Vec<_>>(), FxHashSet::default(), vec![]);
    while let Some(n) = stack.pop() {
        if !visited.insert(n) {
            continue;
        }
        if let Some(memory) = n.realized() {
            stack.push(memory);
            continue;
        }
        if matches!(n.op, Op::Buffer | Op::After) {
            found.insert(n.clone());
        }
        if n.op == Op::After && stop {
            afters.push(n.clone());
        } else {
            stack.extend(n.src.iter());
        }
    }
    afters
}

/// The version moved to fresh memory that starts as a copy of the old one.
fn on_a_copy(after: &UOp, new: &UOp) -> Result<UOp, Error> {
    let base = base_of(&after.src[0]);
    let old =
        Buffer::of(base).ok_or_else(|| Error::Graph("only realised memory can be assigned to".into()))?;
    let device = old.device().into();
    let fresh = Buffer::alloc(&device, base.dtype, old.len())?.into_uop(base.dtype);
    let whole = new.src[1..].iter().any(|s| whole_buffer(&s.src[0], &fresh));
    let start = if whole {
        fresh.clone()
    } else {
        // the old version seen flat: reshaping is free
        let version = version_of(&new.src[0]);
        fresh.after([fresh.store(&version.reshape(fresh.shape()))])
    };
    let version = version_of(&new.src[0]).clone();
    let start = start.reshape(version.shape());
    // the targets move; the values still read the old version
    let moved = FxHashMap::from_iter([(version, start)]);
    let stores = new.src[1..].iter().map(|s| s.src[0].substitute(&moved).store(&s.src[1]));
    Ok(new.src[0].substitute(&moved).after(stores.collect::<Vec<_>>()))
}

/// Whether the view covers its buffer completely, so that nothing of the old content remains.
fn whole_buffer(view: &UOp, buffer: &UOp) -> bool {
    let mut n = view;
    while n.op.is_movement() {
        if matches!(n.op, Op::Shrink | Op::Expand | Op::Pad) {
            return false;
        }
        n = &n.src[0];
    }
    n.shape() == buffer.shape() || n.op == Op::After
}
