//! Walking graphs: order, substitution. All loops are iterative: a graph may be deeper than a stack.

use crate::arg::Arg;
use crate::node::UOp;
use crate::nodes::Nodes;
use crate::op::Op;
use crate::slot::SLOT_BYTES;
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::RefCell;

impl UOp {
    /// Every node below and including this one, sources before users.
    pub fn toposort(&self) -> Nodes {
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
    /// Whether any node below (or this one) satisfies `f`.
    pub fn any(&self, f: impl FnMut(&UOp) -> bool) -> bool {
        any(std::slice::from_ref(self), f)
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

/// Whether any node below the roots (or one of them) satisfies `f`: what they share is looked at once.
pub fn any(roots: &[UOp], mut f: impl FnMut(&UOp) -> bool) -> bool {
    let mut stack: Vec<&UOp> = roots.iter().rev().collect();
    with_marks(|seen| {
        while let Some(n) = stack.pop() {
            if n.ref_count() > 1 && seen.set(n, 0).is_some() {
                continue;
            }
            if f(n) {
                return true;
            }
            stack.extend(n.src.iter());
        }
        false
    })
}

/// [`UOp::substitute`] in several graphs: what they share is rebuilt once.
pub fn substitute_all(roots: &[UOp], map: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
    if map.is_empty() {
        return roots.to_vec();
    }
    let mut done: NodeMap<UOp> = map.iter().map(|(n, by)| (n.clone(), by.clone())).collect();
    roots.iter().for_each(|r| rebuild(r, &mut done, |n| n));
    roots.iter().map(|r| done[r].clone()).collect()
}

/// Nodes of a small graph, and how many of them wait for their sources at once: room that is made at once, and small enough
/// that allocators keep it at hand.
const FEW: usize = 128;
const FEW_WAIT: usize = 32;

/// A number for some nodes, one after another: a place for every slot there is, so a walk hashes nothing, and nodes that
/// were made together are found together. What is left of the walk before is told by its round.
#[derive(Default)]
struct Marks {
    round: u32,
    /// The round in which a slot got its number, and that.
    numbers: Vec<(u32, u32)>,
}

thread_local! {
    static MARKS: RefCell<Marks> = RefCell::default();
}

/// Does `f` with no node marked. Inside of itself it makes marks of its own.
fn with_marks<T>(f: impl FnOnce(&mut Marks) -> T) -> T {
    let mut marks = MARKS.try_with(|m| m.take()).unwrap_or_default();
    marks.round = marks.round.checked_add(1).unwrap_or_else(|| {
        marks.numbers.clear();
        1
    });
    let result = f(&mut marks);
    let _ = MARKS.try_with(|m| m.replace(marks));
    result
}

impl Marks {
    #[inline]
    fn get(&self, n: &UOp) -> Option<u32> {
        let (round, number) = *self.numbers.get(n.slot_number() as usize)?;
        (round == self.round).then_some(number)
    }
    /// The number it had, if it had one; now it is this.
    #[inline]
    fn set(&mut self, n: &UOp, number: u32) -> Option<u32> {
        let (slot, before) = (n.slot_number() as usize, self.get(n));
        if slot >= self.numbers.len() {
            self.numbers.resize((slot + 1).next_power_of_two(), (0, 0));
        }
        self.numbers[slot] = (self.round, number);
        before
    }
}

/// Every node below the roots, sources before users, in a deterministic order.
pub fn toposort(roots: &[UOp]) -> Nodes {
    Numbered::by::<false>(roots, |n| &n.src).nodes
}

/// As [`toposort`], without the bodies of loops.
pub fn toposort_outside(roots: &[UOp]) -> Nodes {
    Numbered::by::<false>(roots, UOp::inputs).nodes
}

/// As [`toposort`], with nodes that are `leaf` as leaves.
pub fn toposort_to(roots: &[UOp], leaf: impl Fn(&UOp) -> bool) -> Nodes {
    Numbered::by::<false>(roots, |n| if leaf(n) { &[] } else { &n.src }).nodes
}

/// A graph as a list, sources before users, where sources are known by number: what a pass finds out about nodes needs
/// no table but a list beside it.
pub struct Numbered {
    /// The nodes, as [`toposort`] has them.
    pub nodes: Nodes,
    /// Numbers of sources, those of one node after those of another; and where each node's end.
    src: Vec<u32>,
    ends: Vec<u32>,
    /// The numbers of the roots.
    pub roots: Vec<u32>,
}

impl Numbered {
    /// Everything below and including a node.
    pub fn of(root: &UOp) -> Numbered {
        Numbered::by::<true>(std::slice::from_ref(root), |n| &n.src)
    }
    /// Everything below and including several, with nodes that are `leaf` as leaves.
    pub fn down_to(roots: &[UOp], leaf: impl Fn(&UOp) -> bool) -> Numbered {
        Numbered::by::<true>(roots, |n| if leaf(n) { &[] } else { &n.src })
    }
    /// The numbers of a node's sources.
    #[inline]
    pub fn src(&self, number: usize) -> &[u32] {
        let from = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.src[from as usize..self.ends[number] as usize]
    }
    /// For each node what `f` makes of it and of what it made of the sources.
    pub fn map<E>(
        &self,
        mut f: impl FnMut(&UOp, SmallVec<[UOp; 4]>) -> Result<UOp, E>,
    ) -> Result<Vec<UOp>, E> {
        let mut done: Vec<UOp> = Vec::with_capacity(self.nodes.len());
        for (i, n) in self.nodes.iter().enumerate() {
            let src = self.src(i).iter().map(|&s| done[s as usize].clone()).collect();
            done.push(f(n, src)?);
        }
        Ok(done)
    }

    /// Sources are only numbered where that is asked for.
    fn by<const NUMBERED: bool>(roots: &[UOp], below: impl Fn(&UOp) -> &[UOp]) -> Numbered {
        with_marks(|numbers| Numbered::marking::<NUMBERED>(roots, below, numbers))
    }
    fn marking<const NUMBERED: bool>(
        roots: &[UOp],
        below: impl Fn(&UOp) -> &[UOp],
        numbers: &mut Marks,
    ) -> Numbered {
        let mut list = Numbered { nodes: Nodes::below(roots, FEW), src: vec![], ends: vec![], roots: vec![] };
        // nodes that wait for their sources, with how many of them are there; numbers of sources whose users wait
        let (mut stack, mut there): (Vec<(&UOp, usize)>, Vec<u32>) = (Vec::with_capacity(FEW_WAIT), vec![]);
        for root in roots {
            match numbers.get(root) {
                Some(number) => list.roots.push(number),
                None => stack.push((root, 0)),
            }
            let is_known = stack.is_empty();
            while let Some((n, met)) = stack.last_mut() {
                if let Some(s) = below(n).get(*met) {
                    *met += 1;
                    // what only one handle leads to is met once
                    let known = if s.ref_count() > 1 { numbers.get(s) } else { None };
                    match known {
                        Some(number) if NUMBERED => there.push(number),
                        Some(_) => {}
                        None => stack.push((s, 0)),
                    }
                    continue;
                }
                let (n, met) = (*n, *met);
                stack.pop();
                let number = list.nodes.len() as u32;
                if n.ref_count() > 1 {
                    numbers.set(n, number);
                }
                // SAFETY: it is a root, or was met as a source of a node that follows it
                unsafe { list.nodes.push(n) };
                if NUMBERED {
                    list.src.extend(there.drain(there.len() - met..));
                    list.ends.push(list.src.len() as u32);
                    there.push(number);
                }
            }
            if !is_known {
                list.roots.push(list.nodes.len() as u32 - 1);
            }
            there.clear();
        }
        list
    }
}

/// What is known of some nodes. They are found by their addresses: no node has to be fetched for its hash, and nodes that
/// were made together are found together. They are kept in the order in which they came, so that a walk of all of them, be it
/// to drop them, goes through memory as the walk that found them did.
pub struct NodeMap<V> {
    known: Vec<(UOp, V)>,
    /// Positions in the list.
    table: HashTable<u32>,
}

impl<V> Default for NodeMap<V> {
    fn default() -> Self {
        NodeMap { known: vec![], table: HashTable::new() }
    }
}

/// The hash of a slot.
#[inline]
fn slot_hash(n: &UOp) -> u64 {
    spread((n.address() / SLOT_BYTES) as u64)
}

/// The hash of a place in memory, in slots. The low bits, which are the position in a table, keep four neighbours together
/// and put each four anywhere: if all neighbours stayed together, slots of several stretches of memory would pile up at one
/// position. The high bits, which tell those of one position apart, are another mixture.
#[inline]
fn spread(place: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let four = (place / 4).wrapping_mul(GOLDEN) >> 32;
    (four * 4) | (place % 4) | (place.wrapping_mul(GOLDEN) >> 57 << 57)
}

impl<V> NodeMap<V> {
    /// What is known of a node.
    #[inline]
    pub fn get(&self, n: &UOp) -> Option<&V> {
        let at = self.table.find(slot_hash(n), |&i| self.known[i as usize].0 == *n);
        at.map(|&i| &self.known[i as usize].1)
    }
    /// Whether anything is.
    #[inline]
    pub fn contains(&self, n: &UOp) -> bool {
        self.get(n).is_some()
    }
    /// Where a node is in the list, or where it will be.
    #[inline]
    fn position(&mut self, n: &UOp) -> usize {
        let known = &self.known;
        let hash = |i: &u32| slot_hash(&known[*i as usize].0);
        let entry = self.table.entry(slot_hash(n), |&i| known[i as usize].0 == *n, hash);
        *entry.or_insert(known.len() as u32).get() as usize
    }
    /// From now on this; what it was before.
    pub fn insert(&mut self, n: UOp, v: V) -> Option<V> {
        let at = self.position(&n);
        match self.known.get_mut(at) {
            Some(known) => Some(std::mem::replace(&mut known.1, v)),
            None => {
                self.known.push((n, v));
                None
            }
        }
    }
    /// Nodes and what is known of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&UOp, &V)> {
        self.known.iter().map(|(n, v)| (n, v))
    }
    /// What is known of a node, or else this, to be changed.
    pub fn get_or_insert_with(&mut self, n: &UOp, make: impl FnOnce() -> V) -> &mut V {
        let at = self.position(n);
        if at == self.known.len() {
            self.known.push((n.clone(), make()));
        }
        &mut self.known[at].1
    }
}

impl<V> FromIterator<(UOp, V)> for NodeMap<V> {
    fn from_iter<I: IntoIterator<Item = (UOp, V)>>(all: I) -> Self {
        let mut map = NodeMap::default();
        all.into_iter().for_each(|(n, v)| _ = map.insert(n, v));
        map
    }
}

/// All that is known, in the order in which it came.
impl<V> IntoIterator for NodeMap<V> {
    type Item = (UOp, V);
    type IntoIter = std::vec::IntoIter<(UOp, V)>;
    fn into_iter(self) -> Self::IntoIter {
        self.known.into_iter()
    }
}

impl<V> std::ops::Index<&UOp> for NodeMap<V> {
    type Output = V;
    fn index(&self, n: &UOp) -> &V {
        self.get(n).expect("a node that is known")
    }
}

/// Rebuild everything below `root` bottom-up through `f`, remembering in `done` (which may come with answers).
pub fn rebuild(root: &UOp, done: &mut NodeMap<UOp>, mut f: impl FnMut(UOp) -> UOp) {
    let mut stack = vec![(root, false)];
    while let Some((n, expanded)) = stack.pop() {
        if done.contains(n) {
            continue;
        }
        if expanded {
            let src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| done[s].clone()).collect();
            let new = f(n.with_src(src));
            done.insert(n.clone(), new);
        } else {
            stack.push((n, true));
            stack.extend(n.src.iter().rev().filter(|s| !done.contains(s)).map(|s| (s, false)));
        }
    }
}

/// The stores, ends and sinks that have an effect, from a root: the sources of a `Sink`, or the node itself.
pub fn effects(root: &UOp) -> &[UOp] {
    if root.op == Op::Sink { &root.src } else { std::slice::from_ref(root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many positions a table of this size looks at for each of these places, one after the other, on the way to its own.
    fn looks(places: impl Iterator<Item = u64>, size: usize) -> f64 {
        let (mut taken, mut looks, mut all) = (vec![false; size], 0, 0);
        for place in places {
            let free = (0..).map(|i| (spread(place) as usize + i) % size).find(|p| !taken[*p]);
            let at = free.unwrap_or(0);
            taken[at] = true;
            looks += at.wrapping_sub(spread(place) as usize) % size + 1;
            all += 1;
        }
        looks as f64 / all as f64
    }

    #[test]
    fn slots_of_several_stretches_of_memory_do_not_pile_up() {
        let size = 1 << 16;
        let stretch = |first: u64| first..first + 10_000;
        // alone, next to each other, and where the low bits of their places are the same
        for others in [0, 10_000, 1 << 20, 1 << 24] {
            let stretches = (0..4u64).take(if others == 0 { 1 } else { 4 });
            let n = looks(stretches.flat_map(|i| stretch(0x7f12_3456 + i * others)), size);
            assert!(n < 4.0, "{n} looks for each of the slots, {others} apart");
        }
    }
}
