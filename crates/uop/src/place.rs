//! Where nodes live: places that are counted, used again, and never anything but places.
//!
//! A handle counts itself in its place, and the last one to go frees the place for another node. The memory is not given
//! back, so whoever remembers a place may ask it for its node at any time, uncounted: he gets the node that is there now,
//! or none, and looks whether it is the one he meant.

use crate::node::{self, Node};
use frit_abi::sync::{Mutex, MutexGuard};
use std::cell::{RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Room for a node. On cache lines of its own, the first of which has all that a search compares.
#[repr(C, align(64))]
pub(crate) struct Place {
    /// Handles to the node; 0 where there is none.
    count: AtomicUsize,
    node: UnsafeCell<MaybeUninit<Node>>,
}

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Node>();

// SAFETY: the node is written by whoever took the place from the free ones, before it counts a handle, and dropped by
// whoever let go of the last handle; in between there are only shared references to it, and it is `Send` and `Sync`.
unsafe impl Sync for Place {}

impl Place {
    /// A handle to the node that is here, if one is.
    pub(crate) fn held(&'static self) -> Option<Held> {
        let mut n = self.count.load(Ordering::Relaxed);
        while n != 0 {
            // acquires what was written before the first handle was counted: all counts since then were read and written
            match self.count.compare_exchange_weak(n, n + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Held(self)),
                Err(now) => n = now,
            }
        }
        None
    }
    /// The node that is here.
    ///
    /// # Safety
    /// One is, and stays: there is a handle to it, or it is in the table of nodes and the lock on that part is held.
    pub(crate) unsafe fn node(&self) -> &Node {
        // SAFETY: by the caller's word there is a node, and it is dropped only after its last handle is gone and it has
        // left the table
        unsafe { (*self.node.get()).assume_init_ref() }
    }
}

/// A place with a node in it that has no handle yet, so that nobody else can have the node: a search that comes upon the
/// place, by the table or by memory, finds it empty.
pub(crate) struct Unheld(&'static Place);

impl Unheld {
    /// Put a node in a free place.
    pub(crate) fn put(node: Node) -> Unheld {
        let place = take();
        // SAFETY: nobody else has a free place, and nobody reads one that has no handles
        unsafe { (*place.node.get()).write(node) };
        Unheld(place)
    }
    #[inline]
    pub(crate) fn place(&self) -> &'static Place {
        self.0
    }
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: `put` wrote it, and only `hold` and `drop` end that
        unsafe { self.0.node() }
    }
    /// Count the first handle: from now on others may have the node too.
    pub(crate) fn hold(self) -> Held {
        let place = self.0;
        std::mem::forget(self);
        place.count.store(1, Ordering::Release);
        Held(place)
    }
}

impl Drop for Unheld {
    fn drop(&mut self) {
        // SAFETY: nobody else has the node, and this is the last that is seen of it
        unsafe { (*self.0.node.get()).assume_init_drop() };
        free(self.0);
    }
}

/// A counted handle to the node in a place.
pub(crate) struct Held(&'static Place);

impl Held {
    #[inline]
    pub(crate) fn place(&self) -> &'static Place {
        self.0
    }
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for Held {
    type Target = Node;
    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: this is a handle
        unsafe { self.0.node() }
    }
}

impl Clone for Held {
    #[inline]
    fn clone(&self) -> Held {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Held(self.0)
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last handle
            unsafe { bury(self.0) }
        }
    }
}

/// What a thread keeps of places.
#[derive(Default)]
struct Mine {
    free: Vec<&'static Place>,
    /// Places whose last handle is gone, and whose node is not.
    dead: Vec<&'static Place>,
    burying: bool,
}

impl Drop for Mine {
    fn drop(&mut self) {
        spare().push(std::mem::take(&mut self.free));
    }
}

thread_local! {
    static MINE: RefCell<Mine> = RefCell::default();
}

/// Places that are made at once.
const BATCH: usize = 64;
/// Free places from which a thread shares them with others.
const MANY: usize = 8192;

/// Free places of no thread.
static SPARE: Mutex<Vec<Vec<&'static Place>>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<Vec<&'static Place>>> {
    SPARE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A free place.
fn take() -> &'static Place {
    let mine = |m: &RefCell<Mine>| m.borrow_mut().free.pop();
    if let Ok(Some(place)) = MINE.try_with(mine) {
        return place;
    }
    let mut more = spare().pop().filter(|v| !v.is_empty()).unwrap_or_else(|| {
        let empty = || Place { count: AtomicUsize::new(0), node: UnsafeCell::new(MaybeUninit::uninit()) };
        let places: &'static [Place] = Vec::leak((0..BATCH).map(|_| empty()).collect());
        places.iter().collect()
    });
    let place = more.swap_remove(0);
    // at thread exit there may be no list any more
    if MINE.try_with(|m| m.borrow_mut().free.append(&mut more)).is_err() {
        spare().push(more);
    }
    place
}

/// Take the node out of a place, and free it.
///
/// # Safety
/// The last handle to the node is gone.
unsafe fn bury(place: &'static Place) {
    // nodes that go with this one are put on a list that the outermost call empties, so a deep graph does not recurse
    let first = MINE.try_with(|m| {
        let mut m = m.borrow_mut();
        m.dead.push(place);
        !std::mem::replace(&mut m.burying, true)
    });
    match first {
        Ok(false) => {}
        Ok(true) => {
            while let Ok(Some(place)) = MINE.try_with(next_dead) {
                // SAFETY: every place on the list has lost its last handle
                unsafe { empty(place) };
                free(place);
            }
        }
        // at thread exit there may be no list any more
        Err(_) => {
            // SAFETY: by the caller's word
            unsafe { empty(place) };
            free(place);
        }
    }
}

fn next_dead(m: &RefCell<Mine>) -> Option<&'static Place> {
    let mut m = m.borrow_mut();
    let next = m.dead.pop();
    m.burying = next.is_some();
    next
}

/// Keep a place for another node.
fn free(place: &'static Place) {
    let kept = MINE.try_with(|m| {
        let free = &mut m.borrow_mut().free;
        free.push(place);
        if free.len() > MANY {
            spare().push(free.split_off(MANY / 2));
        }
    });
    // at thread exit there may be no list any more
    if kept.is_err() {
        spare().push(vec![place]);
    }
}

/// # Safety
/// The last handle to the node is gone.
unsafe fn empty(place: &'static Place) {
    // SAFETY: until it leaves the table others may look at the node, if only to find that it has no handles; afterwards
    // nobody can reach it
    unsafe {
        node::leave_table(place.node(), place);
        (*place.node.get()).assume_init_drop();
    }
}
