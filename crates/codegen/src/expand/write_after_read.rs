//! A lane that overwrites memory which other lanes read waits for them.
//!
//! ```text
//! s[0 if lidx0 == 0] = s[0] + sum(x[lidx0] * s[0])   ->   barrier after the load of s[0];  s[0 if lidx0 == 0] = …
//! ```
//! A kernel that overwrites what it reads does so place by place, so an access of the same place in every lane needs nothing. Nor
//! do those that a barrier orders already; that lanes exchange values in a warp orders no memory.

use super::{barrier, linear_lane};
use crate::error::Error;
use crate::kernel::access::slot;
use crate::pass::Ctx;
use frit_uop::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The pass. Behind it, memory of the kernel's parameters is overwritten after all lanes have read it.
pub fn write_after_read(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    if linear_lane(&order, |_| true).1 == 1 {
        return Ok(sink.clone());
    }
    let of = |op: Op| order.iter().filter(move |n| n.op == op && slot(n).is_some());
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for store in of(Op::Store) {
        let is_elsewhere = |l: &&UOp| l.index() != store.index() || l.gate() != store.gate();
        let reads = of(Op::Load).filter(|l| slot(l) == slot(store)).filter(is_elsewhere);
        let read: FxHashSet<UOp> = reads.filter(|l| !has_barrier_between(l, store)).cloned().collect();
        let done = complete(&order, &read, store);
        if !done.is_empty() {
            map.insert(store.clone(), after(store, barrier(done)));
        }
    }
    Ok(if map.is_empty() { sink.clone() } else { sink.substitute(&map) })
}

fn has_barrier_between(load: &UOp, store: &UOp) -> bool {
    store.toposort().iter().any(|n| n.op == Op::Barrier && n.toposort().contains(load))
}

/// What has been computed once these loads are done in every loop that the store is not in: the nearest such users.
fn complete(order: &[UOp], loads: &FxHashSet<UOp>, store: &UOp) -> Vec<UOp> {
    let is_outside = |n: &UOp| n.ranges.iter().all(|r| store.ranges.contains(r));
    let (mut pending, mut done) = (FxHashSet::default(), vec![]);
    for n in order.iter().filter(|n| n.op != Op::Sink && *n != store) {
        if !loads.contains(n) && !n.src.iter().any(|s| pending.contains(s)) {
            continue;
        }
        if is_outside(n) && n.op != Op::Store {
            done.push(n.clone());
        } else {
            pending.insert(n);
        }
    }
    done
}

/// The store, which is done only after `first`.
fn after(store: &UOp, first: UOp) -> UOp {
    let Some((memory, index)) = store.buffer_and_index() else { return store.clone() };
    let place = memory.after([first]).at(index);
    store.with_src([place].into_iter().chain(store.src[1..].iter().cloned()).collect())
}
