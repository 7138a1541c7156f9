//! History: what realising cuts off, and what assignments overwrite.

use crate::error::here;
use crate::realize::{Versions, refreshed, versions};
use frit_abi::sync::Mutex;
use frit_uop::{Arg, Op, Storage, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::Location;
use std::sync::{Arc, Weak};

/// Where a buffer's value was realised, and a summary of the nodes it was computed from.
struct Cut {
    buffer: Weak<dyn Storage>,
    at: &'static Location<'static>,
    from: Arc<Bloom>,
}
/// A set of nodes in 4096 bits: never wrong about what is in it.
struct Bloom([u64; 64]);

impl Bloom {
    fn bits(n: &UOp) -> [usize; 2] {
        let h = n.structural_hash().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [(h >> 52) as usize, (h >> 40) as usize & 4095]
    }
    fn of(roots: &[UOp]) -> Bloom {
        let mut b = Bloom([0; 64]);
        for n in frit_uop::graph::toposort(roots) {
            for n in n.realized().into_iter().chain([&n]) {
                Bloom::bits(n).into_iter().for_each(|i| b.0[i / 64] |= 1 << (i % 64));
            }
        }
        b
    }
    fn may_hold(&self, n: &UOp) -> bool {
        Bloom::bits(n).into_iter().all(|i| self.0[i / 64] >> (i % 64) & 1 == 1)
    }
}

static CUTS: Mutex<Option<FxHashMap<u64, Cut>>> = Mutex::new(None);

/// Remember that these tensors' history ends here. The table holds no memory and forgets what is gone.
pub(crate) fn remember(before: &[UOp], after: &[UOp]) {
    let fresh: Vec<(&UOp, Arc<dyn Storage>)> = before
        .iter()
        .zip(after)
        .filter(|(b, a)| b != a)
        .filter_map(|(b, a)| Some((b, storage(a)?)))
        .collect();
    if fresh.is_empty() {
        return;
    }
    let from = Arc::new(Bloom::of(before));
    let at = here();
    let mut cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.get_or_insert_default();
    // forget what is gone before these make the table grow, and not again until as many have come as there are
    if cuts.len() + fresh.len() > cuts.capacity() {
        cuts.retain(|_, c| c.buffer.strong_count() > 0);
        cuts.reserve(cuts.len() + fresh.len());
    }
    for (_, s) in fresh {
        cuts.insert(s.id(), Cut { buffer: Arc::downgrade(&s), at, from: from.clone() });
    }
}

fn storage(n: &UOp) -> Option<Arc<dyn Storage>> {
    let mut n = n;
    while n.op.is_movement() || n.op == Op::After {
        n = n.input();
    }
    match &n.arg {
        Arg::Buffer(b) => Some(b.clone()),
        _ => None,
    }
}

/// Memory that a value was made of and that has been stored to since: found once, asked for each target.
pub(crate) struct Overwritten(FxHashSet<*const Versions>);

impl Overwritten {
    /// Of what has this lineage.
    pub(crate) fn of(lineage: &[UOp]) -> Overwritten {
        let stale = lineage.iter().filter(|n| n.op == Op::Buffer && refreshed(n).is_some());
        Overwritten(stale.filter_map(versions).map(Arc::as_ptr).collect())
    }
    pub(crate) fn holds(&self, target: &UOp) -> bool {
        versions(target).is_some_and(|v| self.0.contains(&Arc::as_ptr(v)))
    }
}

/// Where something on the way from what has this lineage to `target` was realised, if that is why there is no way.
pub(crate) fn cut_history(lineage: &[UOp], target: &UOp) -> Option<&'static Location<'static>> {
    let cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.as_ref()?;
    lineage.iter().filter(|n| n.op == Op::Buffer && *n != target).find_map(|n| {
        let cut = cuts.get(&storage(n)?.id())?;
        cut.from.may_hold(target).then_some(cut.at)
    })
}
