//! Nodes: immutable, hash-consed, freed when no one holds them.
//!
//! Two equal nodes are one node, so equality is a pointer compare: `table.rs` finds the one there is, `slot.rs` counts
//! its handles. A node's hash is structural (the same in every process), which also gives a deterministic order.

use crate::arg::Arg;
use crate::facts::Facts;
use crate::infer;
use crate::op::{Op, OpSet};
use crate::slot::Handle;
use crate::table;
use frit_abi::DType;
use frit_abi::sync::OnceLock;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The dims of a value: scalar `Index` nodes, constant or over bound variables.
pub type Shape = SmallVec<[UOp; 4]>;

/// What a [`UOp`] points at. In the order written: what a walk, a probe and a hash read lies together, next to the count of
/// handles.
#[repr(C)]
pub struct Node {
    hash: u64,
    /// What it does.
    pub op: Op,
    /// The type of its elements.
    pub dtype: DType,
    /// The device its memory is on, as [`infer::device_name`] knows it; 0 where it has none.
    pub device: u16,
    /// Whether memory is below that someone else may change at any time.
    pub volatile: bool,
    simple: AtomicBool,
    /// What it works on.
    pub src: SmallVec<[UOp; 4]>,
    /// What it carries besides.
    pub arg: Arg,
    facts: Arc<Facts>,
    realized: OnceLock<UOp>,
}

/// A handle to a node. Cloning counts a reference; equality is identity.
#[derive(Clone)]
#[repr(transparent)]
pub struct UOp(Handle);

#[inline]
fn hash_of(op: Op, dtype: DType, src: &[impl Borrow<UOp>], arg: &Arg) -> u64 {
    hash_over(op, dtype, src.iter().map(|s| s.borrow().0.hash), arg)
}

#[inline]
fn hash_over(op: Op, dtype: DType, src: impl Iterator<Item = u64>, arg: &Arg) -> u64 {
    let mut h = FxHasher::default();
    h.write_u64((op as u64) << 8 | dtype as u64);
    src.for_each(|s| h.write_u64(s));
    arg.hash(&mut h);
    h.finish()
}

/// Whether `n` is the node with these parts.
#[inline]
fn is_same(n: &Node, op: Op, dtype: DType, src: &[impl Borrow<UOp>], arg: &Arg) -> bool {
    n.op == op
        && n.dtype == dtype
        && n.src.len() == src.len()
        && n.src.iter().zip(src).all(|(a, b)| a == b.borrow())
        && n.arg == *arg
}

impl Node {
    /// The structural hash.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl UOp {
    /// The node with these parts; an existing one if there is one.
    pub fn new(op: Op, dtype: DType, src: impl IntoIterator<Item = UOp>, arg: Arg) -> UOp {
        UOp::with(op, dtype, src.into_iter().collect(), arg)
    }
    /// As [`UOp::new`], for sources in a list of their own, which becomes the node's where it does not exist yet.
    pub fn with(op: Op, dtype: DType, src: SmallVec<[UOp; 4]>, arg: Arg) -> UOp {
        let hash = hash_of(op, dtype, &src, &arg);
        UOp::find(op, dtype, &src, &arg, hash).unwrap_or_else(|| UOp::insert(op, dtype, src, arg, hash))
    }
    /// As [`UOp::new`], for sources that are held elsewhere: where the node exists, no reference is counted but its own.
    pub fn of(op: Op, dtype: DType, src: &[impl Borrow<UOp>], arg: Arg) -> UOp {
        let hash = hash_of(op, dtype, src, &arg);
        UOp::find(op, dtype, src, &arg, hash).unwrap_or_else(|| {
            UOp::insert(op, dtype, src.iter().map(|s| s.borrow().clone()).collect(), arg, hash)
        })
    }
    /// The node with these parts, if it exists.
    #[inline]
    fn find(op: Op, dtype: DType, src: &[impl Borrow<UOp>], arg: &Arg, hash: u64) -> Option<UOp> {
        table::find(hash, |n| is_same(n, op, dtype, src, arg)).map(UOp)
    }
    /// A node that was not there a moment ago.
    #[inline(never)]
    fn insert(op: Op, dtype: DType, src: SmallVec<[UOp; 4]>, arg: Arg, hash: u64) -> UOp {
        // outside the lock: inference reads sources, and another thread may insert the same node meanwhile
        let facts = Facts::of(op, dtype, &src, &arg);
        let device = infer::device(&src, &arg);
        let volatile = src.iter().any(|s| s.volatile) || matches!(&arg, Arg::Buffer(b) if b.is_volatile());
        let node = Node {
            hash,
            op,
            dtype,
            device,
            volatile,
            simple: AtomicBool::new(false),
            src,
            arg,
            facts,
            realized: OnceLock::new(),
        };
        UOp(table::insert(node, |n, new| is_same(n, new.op, new.dtype, &new.src, &new.arg)))
    }
    /// A hash of the structure, the same in every process (buffers count by identity).
    #[inline]
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }
    /// The hash that this node would have with a first source of that hash.
    pub fn hash_over(&self, first: u64) -> u64 {
        let rest = self.src.iter().skip(1).map(UOp::structural_hash);
        hash_over(self.op, self.dtype, std::iter::once(first).chain(rest), &self.arg)
    }
    /// What follows from its structure.
    #[inline]
    pub(crate) fn facts(&self) -> &Arc<Facts> {
        &self.0.facts
    }
    /// The ops of the sources.
    #[inline]
    pub fn src_ops(&self) -> OpSet {
        OpSet(self.src.iter().fold(0, |m, s| m | 1 << s.op as u32))
    }
    /// The dims of the value, or `None` for effects and malformed nodes.
    #[inline]
    pub fn try_shape(&self) -> Option<&Shape> {
        self.0.facts.shape.as_ref()
    }
    /// The dims of the value; empty for effects and malformed nodes, which a spec check reports.
    #[inline]
    pub fn shape(&self) -> &[UOp] {
        self.0.facts.shape.as_deref().unwrap_or(&[])
    }
    /// The memory that holds this node's value, once someone has computed it: a view of a `Buffer`, never a node that
    /// leads back here. Whoever still holds the node finds the value instead of computing (or storing) it again.
    pub fn realized(&self) -> Option<&UOp> {
        self.0.realized.get()
    }
    /// Remember where the value is; the first one to say so wins.
    pub fn set_realized(&self, buffer: UOp) {
        let _ = self.0.realized.set(buffer);
    }
    /// Whether the node was found to be in its simplest form: asked for in every pass, found out once.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.0.simple.load(Relaxed)
    }
    pub(crate) fn set_simple(&self) {
        self.0.simple.store(true, Relaxed);
    }
    /// How many handles there are.
    #[inline]
    pub fn ref_count(&self) -> usize {
        self.0.count()
    }
    /// A number that identifies the node while it lives.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self.0.slot()) as usize
    }
    /// A small one that does.
    #[inline]
    pub(crate) fn slot_number(&self) -> u32 {
        self.0.slot().number()
    }
}

/// How many nodes are alive: for leak tests and reports.
pub fn live_nodes() -> usize {
    table::len()
}

impl std::ops::Deref for Node {
    type Target = Facts;
    #[inline]
    fn deref(&self) -> &Facts {
        &self.facts
    }
}
impl std::ops::Deref for UOp {
    type Target = Node;
    #[inline]
    fn deref(&self) -> &Node {
        &self.0
    }
}
impl PartialEq for UOp {
    #[inline]
    fn eq(&self, o: &UOp) -> bool {
        std::ptr::eq(self.0.slot(), o.0.slot())
    }
}
impl Eq for UOp {}
impl Hash for UOp {
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash)
    }
}
impl std::fmt::Debug for UOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.op.name(), self.dtype)?;
        if self.arg != Arg::None {
            write!(f, "<{:?}>", self.arg)?;
        }
        if !self.src.is_empty() {
            // one level: whole graphs print through the text form
            write!(f, "({})", self.src.iter().map(|s| s.op.name()).collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Unpublished;
    use std::sync::Mutex;

    #[test]
    fn equal_nodes_are_one_node_and_disappear() {
        let x = UOp::index(123_456_789);
        assert_eq!(&x + 987_654, &x + 987_654);
        let n = x.ref_count();
        drop(&x + 42_424_242);
        assert_eq!(x.ref_count(), n);
    }
    #[test]
    fn a_node_is_two_cache_lines() {
        assert_eq!(crate::slot::SLOT_BYTES, 128);
    }
    #[test]
    fn nodes_that_agree_in_their_facts_share_them() {
        let dims = [UOp::index(7), UOp::index(5)];
        let param = |slot| UOp::param(slot, 35, DType::F32).reshape(&dims);
        let (x, y) = (param(900_001), param(900_002));
        let sum = &x + &y;
        assert!(Arc::ptr_eq(x.facts(), y.facts()) && Arc::ptr_eq(x.facts(), sum.facts()));
        assert!(Arc::ptr_eq(sum.facts(), (&sum * UOp::float(2.0, DType::F32)).facts()));
        assert!(!Arc::ptr_eq(sum.facts(), sum.permute(&[1, 0]).facts()));
        assert_eq!((sum.shape(), sum.permute(&[1, 0]).shape()[0].as_int()), (&dims[..], Some(5)));
    }
    #[test]
    fn slots_are_used_in_order_however_they_became_free() {
        let make = || -> Vec<UOp> { (0..40_000).map(|i| UOp::index(55_000_000 + i)).collect() };
        let mut nodes: Vec<Option<UOp>> = make().into_iter().map(Some).collect();
        (0..nodes.len()).for_each(|i| nodes[i * 7919 % 40_000] = None);
        let again = make();
        let is_next = |w: &&[UOp]| (1..8).contains(&(w[1].slot_number() as i64 - w[0].slot_number() as i64));
        let in_order = again.windows(2).filter(is_next).count();
        // but for those that this thread freed last
        assert!(in_order > 32_000, "{in_order} of 40000 lie behind the one before");
    }
    #[test]
    fn dropping_a_deep_graph_does_not_recurse() {
        let mut x = UOp::variable("deep", 0, 10);
        for i in 0..1_000_000 {
            x = &x + (i % 7 + 1);
        }
        drop(x);
    }
    #[test]
    fn nodes_that_die_and_come_back_stay_one() {
        let shared: Vec<Mutex<Option<UOp>>> = (0..16).map(|_| Mutex::new(None)).collect();
        std::thread::scope(|s| {
            for t in 0..4 {
                let shared = &shared;
                s.spawn(move || {
                    for i in 0..20_000usize {
                        let k = (i * 7 + t) % 16;
                        let n = UOp::index(77_000 + k as i64) * 3 + 5;
                        let mut slot = shared[k].lock().unwrap();
                        assert!(slot.as_ref().is_none_or(|m| *m == n));
                        *slot = if i % 3 == 0 { None } else { Some(n) };
                    }
                });
            }
        });
    }
    #[test]
    fn a_node_is_not_found_before_it_is_in_the_table() {
        let made = || UOp::index(424_242) * 17 + 99_991;
        // met again, so this thread remembers its slot, which is the first to be used again
        let n = made();
        let (hash, slot) = (made().structural_hash(), n.address());
        let (op, dtype, src, arg) = (n.op, n.dtype, n.src.clone(), n.arg.clone());
        drop(n);
        let unpublished = Unpublished::new(Node {
            hash,
            op,
            dtype,
            device: 0,
            volatile: false,
            simple: AtomicBool::new(false),
            src: src.clone(),
            arg: arg.clone(),
            facts: src[0].facts().clone(),
            realized: OnceLock::new(),
        });
        assert_eq!(std::ptr::from_ref(unpublished.slot()) as usize, slot, "a slot is used again");
        assert!(table::find_recent(hash, |n| is_same(n, op, dtype, &src, &arg)).is_none());
        let twin = made();
        drop(unpublished);
        assert_eq!(made(), twin);
    }
    #[test]
    fn equal_nodes_that_threads_make_and_drop_at_once_are_one() {
        // all threads make the same few nodes, hold them for a moment, and remember slots that others use again
        const THREADS: usize = 4;
        let turn = std::sync::Barrier::new(THREADS);
        let held: Vec<Mutex<Option<UOp>>> = (0..THREADS).map(|_| Mutex::new(None)).collect();
        std::thread::scope(|s| {
            for t in 0..THREADS {
                let (turn, held) = (&turn, &held);
                s.spawn(move || {
                    for i in 0..4000i64 {
                        let x = UOp::index(88_000 + i % 3);
                        let (mut n, mut again) = (&x * 7 + 11, &x * 7 + 11);
                        for _ in 0..8 {
                            assert_eq!(n, again);
                            drop(std::mem::replace(&mut n, &x * 7 + 13));
                            again = &x * 7 + 13;
                        }
                        *held[t].lock().unwrap() = Some(n);
                        turn.wait();
                        let mine = held[t].lock().unwrap().clone();
                        assert_eq!(mine, *held[(t + 1) % THREADS].lock().unwrap());
                        drop((mine, again));
                        turn.wait();
                        *held[t].lock().unwrap() = None;
                    }
                });
            }
        });
    }
    #[test]
    fn threads_agree_on_nodes() {
        let all: Vec<Vec<UOp>> = std::thread::scope(|s| {
            let hs: Vec<_> = (0..8)
                .map(|_| s.spawn(|| (0..2000).map(|i| UOp::index(i) * 3 + 1_000_003).collect()))
                .collect();
            hs.into_iter().map(|h| h.join().unwrap()).collect()
        });
        assert!(all.iter().all(|v| *v == all[0]));
    }
}
