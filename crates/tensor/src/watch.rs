//! What happens on a thread while a function runs: what a Jit must know besides launches.

use crate::realize::Versions;
use crate::tensor::{Tensor, next_born};
use frit_uop::UOp;
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread::LocalKey;

/// A list, while someone watches.
pub(crate) type Watched<T> = RefCell<Option<Vec<T>>>;

/// Run `f` with an empty list in `place`, and give what it holds afterwards. Whoever watches around this sees it, too;
/// also where `f` panics, the list is theirs again.
pub(crate) fn run<T: Clone + 'static, R>(
    place: &'static LocalKey<Watched<T>>,
    f: impl FnOnce() -> R,
) -> (R, Vec<T>) {
    struct Restore<T: Clone + 'static>(&'static LocalKey<Watched<T>>, Option<Vec<T>>);
    impl<T: Clone> Drop for Restore<T> {
        fn drop(&mut self) {
            let inner = self.0.take().unwrap_or_default();
            let outer = self.1.take().map(|mut list| {
                list.extend(inner);
                list
            });
            self.0.set(outer);
        }
    }
    let restore = Restore(place, place.replace(Some(vec![])));
    let result = f();
    let list = place.with_borrow(|l| l.clone().unwrap_or_default());
    drop(restore);
    (result, list)
}

/// A tensor that was there before a function ran and that the function looked at.
pub(crate) struct Outside {
    pub(crate) tensor: Tensor,
    /// Where its value was then.
    pub(crate) before: Before,
    changes: u64,
}

impl Outside {
    /// Its node, where it is something to compute.
    pub(crate) fn computed(&self) -> Option<UOp> {
        if matches!(self.before, Before::Memory(..)) { None } else { self.tensor.peek().ok() }
    }
    /// Whether it was something to compute, and is another value by now.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(self.before, Before::Other) && self.tensor.changes() != self.changes
    }
}

/// What a tensor was.
pub(crate) enum Before {
    /// Memory, seen like this: no node is held, so that the function may store to it in place.
    Memory(Arc<Versions>, UOp),
    /// Something to compute, or failed.
    Other,
}

impl Before {
    pub(crate) fn of(t: &Tensor) -> Before {
        t.settle();
        let found = t.peek().ok().and_then(|n| crate::realize::memory_view(&n));
        found.map_or(Before::Other, |(versions, view)| Before::Memory(versions, view))
    }
}

/// Tensors that are looked at: those older than `start`, once each.
#[derive(Default)]
struct Look {
    start: u64,
    known: FxHashSet<u64>,
    list: Vec<Outside>,
}

impl Look {
    fn note(&mut self, t: &Tensor) {
        if t.born() < self.start && self.known.insert(t.born()) {
            let before = Before::of(t);
            self.list.push(Outside { tensor: t.clone(), before, changes: t.changes() });
        }
    }
}

thread_local! {
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    /// Whoever watches, the innermost last.
    static LOOKS: RefCell<Vec<Look>> = const { RefCell::new(vec![]) };
}

/// Run `f` and list the tensors from before that it looks at on this thread.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> (R, Vec<Outside>) {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            let inner = LOOKS.with_borrow_mut(Vec::pop);
            WATCHING.set(LOOKS.with_borrow(|l| !l.is_empty()));
            drop(inner);
        }
    }
    LOOKS.with_borrow_mut(|l| l.push(Look { start: next_born(), ..Look::default() }));
    WATCHING.set(true);
    let stop = Stop;
    let result = f();
    let list = LOOKS.with_borrow_mut(|l| l.last_mut().map(|l| std::mem::take(&mut l.list)));
    drop(stop);
    (result, list.unwrap_or_default())
}

/// Someone looks at a tensor that has a value of its own.
#[inline]
pub(crate) fn read(t: &Tensor) {
    if WATCHING.get() {
        note(t);
    }
}

#[cold]
fn note(t: &Tensor) {
    LOOKS.with_borrow_mut(|all| all.iter_mut().for_each(|look| look.note(t)));
}

/// The tensors from before that are not what they were, so far.
pub(crate) fn replaced() -> Vec<Tensor> {
    let other = |o: &&Outside| o.tensor.changes() != o.changes;
    let of_last = |l: &Look| l.list.iter().filter(other).map(|o| o.tensor.clone()).collect();
    LOOKS.with_borrow(|all| all.last().map(of_last).unwrap_or_default())
}
