//! Slots: memory for nodes, reference-counted and recycled, never returned to the allocator.
//!
//! A handle is counted in its slot, and the last one to go retires the node and frees the slot for another. Since the
//! memory stays a slot for ever, a cache may keep a slot without counting a handle and ask it later ([`Slot::try_hold`]):
//! it gets the node that is there now, or none, and compares whether it is the one it wants.

use crate::node::Node;
use crate::sync::{AtomicU32, Cell, Mutex, MutexGuard, Ordering, fence};
use crate::table;
use std::cell::RefCell;

/// Memory for a node. On two cache lines of its own, which come together; the first has all that a probe compares.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Handles to the node; 0 where there is none.
    count: AtomicU32,
    /// How many slots were made before it: a list with a place for each slot needs no hashing.
    number: u32,
    // written by whoever took the slot from the free ones, before it counts a handle; dropped by whoever let go of the
    // last handle; in between there are only shared references to it
    node: Cell<Node>,
}

/// From one slot to the next.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

impl Slot {
    /// A handle to the node that is here, if one is.
    pub(crate) fn try_hold(&'static self) -> Option<Handle> {
        let mut n = self.count.load(Ordering::Relaxed);
        while n != 0 {
            check_room(n);
            // acquires what was written before the first handle was counted: all counts since then were read and written
            match self.count.compare_exchange_weak(n, n + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Handle(self)),
                Err(now) => n = now,
            }
        }
        None
    }
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
    /// The node that is here.
    ///
    /// # Safety
    /// One is, and stays: there is a handle to it, or it is in the table of nodes and the lock on that shard is held.
    #[inline]
    pub(crate) unsafe fn node(&self) -> &Node {
        // SAFETY: by the caller's word there is a node, and it is dropped only after its last handle is gone and it has
        // left the table
        unsafe { self.node.read() }
    }
}

/// A slot with a node in it that has no handle yet, so that nobody else can have the node: a search that comes upon the
/// slot, by the table or by a cache, finds it empty.
pub(crate) struct Unpublished(&'static Slot);

impl Unpublished {
    /// Put a node in a free slot.
    pub(crate) fn new(node: Node) -> Unpublished {
        let slot = allocate();
        // SAFETY: nobody else has a free slot, and nobody reads one that has no handles
        unsafe { slot.node.write(node) };
        Unpublished(slot)
    }
    #[inline]
    pub(crate) fn slot(&self) -> &'static Slot {
        self.0
    }
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: `new` wrote it, and only `publish` and `drop` end that
        unsafe { self.0.node() }
    }
    /// Count the first handle: from now on others may have the node too.
    pub(crate) fn publish(self) -> Handle {
        let slot = self.0;
        std::mem::forget(self);
        slot.count.store(1, Ordering::Release);
        Handle(slot)
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        // SAFETY: nobody else has the node, and this is the last that is seen of it
        unsafe { self.0.node.clear() };
        free(self.0);
    }
}

/// Most handles to a node. They would fill eight gigabytes, unless someone forgets them.
const MOST_HANDLES: u32 = 1 << 30;

/// A count that starts again at zero would free a node that has handles.
#[inline]
fn check_room(count: u32) {
    if count > MOST_HANDLES {
        std::process::abort();
    }
}

/// A counted handle to the node in a slot.
pub(crate) struct Handle(&'static Slot);

impl Handle {
    #[inline]
    pub(crate) fn slot(&self) -> &'static Slot {
        self.0
    }
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::Relaxed) as usize
    }
}

impl std::ops::Deref for Handle {
    type Target = Node;
    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: this is a handle
        unsafe { self.0.node() }
    }
}

impl Clone for Handle {
    #[inline]
    fn clone(&self) -> Handle {
        check_room(self.0.count.fetch_add(1, Ordering::Relaxed));
        Handle(self.0)
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last handle
            unsafe { retire(self.0) }
        }
    }
}

/// The slots that a thread has to itself.
#[derive(Default)]
struct ThreadSlab {
    free: Vec<&'static Slot>,
    /// Slots whose last handle is gone, and whose node is not.
    retired: Vec<&'static Slot>,
    is_retiring: bool,
}

impl Drop for ThreadSlab {
    fn drop(&mut self) {
        free_slots().give(std::mem::take(&mut self.free));
    }
}

thread_local! {
    static SLAB: RefCell<ThreadSlab> = RefCell::default();
}

/// Slots of a chunk: which of them are free is a word.
const CHUNK: usize = 64;
/// Chunks that are allocated at once.
const BATCH: usize = 16;
/// Free slots from which a thread shares the half of them that it freed first.
const MANY: usize = 4096;

/// Free slots of no thread. They are given out in the order in which they lie in memory, so that nodes which are made one after
/// the other lie one after the other, however their slots became free.
struct FreeSlots {
    /// All slots there are.
    chunks: Vec<&'static [Slot]>,
    /// Those of each chunk that are free, as bits.
    free: Vec<u64>,
    /// No chunk before this one has a free slot.
    first: usize,
}

static FREE_SLOTS: Mutex<FreeSlots> =
    Mutex::new(FreeSlots { chunks: Vec::new(), free: Vec::new(), first: 0 });

fn free_slots() -> MutexGuard<'static, FreeSlots> {
    FREE_SLOTS.lock().unwrap_or_else(|e| e.into_inner())
}

impl FreeSlots {
    /// All free slots of a chunk, the first in memory last.
    fn take(&mut self) -> impl Iterator<Item = &'static Slot> + use<> {
        while self.free.get(self.first) == Some(&0) {
            self.first += 1;
        }
        if self.first == self.free.len() {
            self.make();
        }
        let (chunk, free) = (self.chunks[self.first], std::mem::take(&mut self.free[self.first]));
        chunk.iter().enumerate().rev().filter(move |(i, _)| free >> i & 1 == 1).map(|(_, slot)| slot)
    }
    fn make(&mut self) {
        let made = self.chunks.len() * CHUNK;
        let empty = |i| Slot { count: AtomicU32::new(0), number: (made + i) as u32, node: Cell::empty() };
        let slots: &'static [Slot] = Vec::leak((0..BATCH * CHUNK).map(empty).collect());
        self.chunks.extend(slots.chunks(CHUNK));
        self.free.resize(self.chunks.len(), u64::MAX);
    }
    fn give(&mut self, slots: impl IntoIterator<Item = &'static Slot>) {
        for slot in slots {
            let (chunk, bit) = (slot.number as usize / CHUNK, slot.number as usize % CHUNK);
            self.free[chunk] |= 1 << bit;
            self.first = self.first.min(chunk);
        }
    }
}

/// A free slot.
fn allocate() -> &'static Slot {
    let own = |s: &RefCell<ThreadSlab>| s.borrow_mut().free.pop();
    if let Ok(Some(slot)) = SLAB.try_with(own) {
        return slot;
    }
    let mut more: Vec<&'static Slot> = free_slots().take().collect();
    // there is one, or the chunk would not have been taken
    let slot = more.pop().unwrap_or_else(|| unreachable!("a chunk with no free slot"));
    // at thread exit there may be no slab any more
    if SLAB.try_with(|s| s.borrow_mut().free.append(&mut more)).is_err() {
        free_slots().give(more);
    }
    slot
}

/// Drop the node in a slot, and free the slot.
///
/// # Safety
/// The last handle to the node is gone.
unsafe fn retire(slot: &'static Slot) {
    // nodes that go with this one are put on a list that the outermost call empties, so a deep graph does not recurse
    let first = SLAB.try_with(|s| {
        let mut s = s.borrow_mut();
        s.retired.push(slot);
        !std::mem::replace(&mut s.is_retiring, true)
    });
    match first {
        Ok(false) => {}
        Ok(true) => {
            while let Ok(Some(slot)) = SLAB.try_with(next_retired) {
                // SAFETY: every slot on the list has lost its last handle
                unsafe { empty(slot) };
                free(slot);
            }
        }
        // at thread exit there may be no slab any more
        Err(_) => {
            // SAFETY: by the caller's word
            unsafe { empty(slot) };
            free(slot);
        }
    }
}

fn next_retired(s: &RefCell<ThreadSlab>) -> Option<&'static Slot> {
    let mut s = s.borrow_mut();
    let next = s.retired.pop();
    s.is_retiring = next.is_some();
    next
}

/// Keep a slot for another node.
fn free(slot: &'static Slot) {
    let kept = SLAB.try_with(|s| {
        let free = &mut s.borrow_mut().free;
        free.push(slot);
        if free.len() > MANY {
            free_slots().give(free.drain(..MANY / 2));
        }
    });
    // at thread exit there may be no slab any more
    if kept.is_err() {
        free_slots().give([slot]);
    }
}

/// # Safety
/// The last handle to the node is gone.
unsafe fn empty(slot: &'static Slot) {
    // SAFETY: until it leaves the table others may look at the node, if only to find that it has no handles; afterwards
    // nobody can reach it
    unsafe {
        table::remove(slot.node(), slot);
        slot.node.clear();
    }
}
