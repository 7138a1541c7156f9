//! The table of live nodes, which makes equal nodes one node.
//!
//! It is split in shards, each behind a lock held for one probe; it holds slots that are not counted, so it keeps nothing
//! alive. Before it, each thread has a small cache of the nodes it found last.

use crate::node::Node;
use crate::slot::{Handle, Slot, Unpublished};
use crate::sync::{Mutex, MutexGuard};
use hashbrown::HashTable;
use std::cell::RefCell;

const SHARDS: usize = 64;
type Table = HashTable<(u64, &'static Slot)>;

/// A part of the table, on cache lines of its own: two threads that use two shards do not disturb each other.
#[repr(align(128))]
struct Shard(Mutex<Table>);

static TABLE: [Shard; SHARDS] = [const { Shard(Mutex::new(HashTable::new())) }; SHARDS];

fn lock(shard: &'static Shard) -> MutexGuard<'static, Table> {
    // a panic while the lock is held cannot leave the table half-changed: probes and inserts are single steps
    shard.0.lock().unwrap_or_else(|e| e.into_inner())
}

#[inline]
fn shard(hash: u64) -> MutexGuard<'static, Table> {
    // bits that the table itself uses neither for the position nor for the tag: within a shard those must still vary
    lock(&TABLE[(hash >> 40) as usize % SHARDS])
}

/// The live node of this hash that is the `same`.
fn probe(table: &Table, hash: u64, same: impl Fn(&Node) -> bool) -> Option<Handle> {
    let mut found = None;
    table.find(hash, |e| {
        // SAFETY: the slot is in the table, and whoever has it has the lock
        if e.0 == hash && same(unsafe { e.1.node() }) {
            // none where the last handle is gone and the node is about to be
            found = e.1.try_hold();
        }
        found.is_some()
    });
    found
}

/// Sets of two nodes each in a thread's cache.
const RECENT_SETS: usize = 4096;
type Recent = Vec<[(u64, Option<&'static Slot>); 2]>;

thread_local! {
    /// The nodes this thread found last. A hit here takes no lock and writes nothing that other threads read, so threads
    /// that work on graphs of their own do not slow each other. Slots are not counted, so it keeps no node alive.
    static RECENT: RefCell<Recent> = const { RefCell::new(Vec::new()) };
}

/// The node that is the `same`, if this thread found it lately.
#[inline]
pub(crate) fn find_recent(hash: u64, same: impl Fn(&Node) -> bool) -> Option<Handle> {
    let found = RECENT.try_with(|r| {
        let r = r.borrow();
        let set = r.get(hash as usize % RECENT_SETS)?;
        set.iter().find(|e| e.0 == hash)?.1?.try_hold()
    });
    found.ok().flatten().filter(|n| same(n))
}

fn remember(hash: u64, n: &Handle) {
    let _ = RECENT.try_with(|r| {
        let mut r = r.borrow_mut();
        if r.is_empty() {
            r.resize_with(RECENT_SETS, || [(0, None); 2]);
        }
        let set = &mut r[hash as usize % RECENT_SETS];
        set.swap(0, 1);
        set[0] = (hash, Some(n.slot()));
    });
}

/// The live node of this hash that is the `same`.
#[inline]
pub(crate) fn find(hash: u64, same: impl Fn(&Node) -> bool) -> Option<Handle> {
    if let Some(n) = find_recent(hash, &same) {
        return Some(n);
    }
    let found = probe(&shard(hash), hash, same);
    found.inspect(|n| remember(hash, n))
}

/// Insert a node that was not there a moment ago; the one there is if another thread was faster.
pub(crate) fn insert(node: Node, same: impl Fn(&Node, &Node) -> bool) -> Handle {
    let hash = node.hash();
    let new = Unpublished::new(node);
    let mut table = shard(hash);
    if let Some(n) = probe(&table, hash, |n| same(n, new.node())) {
        drop(table); // before `new`, whose sources may leave the table with it
        return n;
    }
    table.insert_unique(hash, (hash, new.slot()), |e| e.0);
    // Counted in the table only, and under its lock: a thread that remembers the slot from an equal node of former times
    // could otherwise have this one while another puts its twin in the table, and two equal nodes would live
    let handle = new.publish();
    drop(table);
    // not remembered: most nodes are never asked for again, and would displace those that are
    handle
}

/// A node that no one holds leaves the table.
pub(crate) fn remove(n: &Node, slot: &'static Slot) {
    if let Ok(e) = shard(n.hash()).find_entry(n.hash(), |e| std::ptr::eq(e.1, slot)) {
        e.remove();
    }
}

/// How many nodes there are.
pub(crate) fn len() -> usize {
    TABLE.iter().map(|s| lock(s).len()).sum()
}
