//! The ranges of a graph: which there are, which a node closes, and other ones in their place.

use super::access::coefficient;
use frit_uop::rewrite::{is_recorded, replaced};
use frit_uop::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// What takes the place of a range: an expression where its value is used, ranges where it is closed.
#[derive(Clone)]
pub struct Replacement {
    /// Its value.
    pub value: UOp,
    /// What is closed instead.
    pub ranges: SmallVec<[UOp; 4]>,
}

impl Replacement {
    /// The ranges, the one with which the value grows most first: as a stage over the range lies.
    fn in_order_of_value(&self) -> SmallVec<[UOp; 4]> {
        let step = |r: &UOp| r.range_arg().and_then(|a| coefficient(&self.value, a.id)).unwrap_or(0);
        let mut ranges = self.ranges.clone();
        ranges.sort_by_key(|r| std::cmp::Reverse(step(r)));
        ranges
    }
}

/// Replace ranges (by id) everywhere, effects included. `edit` sees each rebuilt node with the one it was. Gives the
/// new node for each old one.
#[track_caller]
pub fn replace(
    root: &UOp,
    map: &FxHashMap<u32, Replacement>,
    mut edit: impl FnMut(&UOp, UOp) -> UOp,
) -> FxHashMap<UOp, UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let of = |n: &UOp| n.range_arg().and_then(|a| map.get(&a.id));
    for n in root.toposort() {
        let new = if let Some(r) = of(&n) {
            replaced("what a range has become", &n, &r.value);
            r.value.clone()
        } else if matches!(n.op, Op::Reduce | Op::Scan | Op::End | Op::Stage | Op::After) {
            let mut src: SmallVec<[UOp; 4]> = smallvec![done[&n.src[0]].clone()];
            for s in &n.src[1..] {
                match of(s) {
                    Some(r) if n.op == Op::Stage => src.extend(r.in_order_of_value()),
                    Some(r) => src.extend(r.ranges.iter().cloned()),
                    None => src.push(done[s].clone()),
                }
            }
            let closes_others = src.len() != n.src.len();
            let new = if src.len() == 1 && n.op != Op::Stage { src.remove(0) } else { n.with_src(src) };
            if closes_others {
                replaced("other ranges are closed", &n, &new);
            }
            new
        } else {
            n.with_src(n.src.iter().map(|s| done[s].clone()).collect())
        };
        let before = is_recorded().then(|| new.clone());
        let new = edit(&n, new);
        if before.is_some_and(|before| before != new) {
            replaced("simpler with its new ranges, or kept inside them", &n, &new);
        }
        done.insert(n, new);
    }
    done
}

/// Every `Range` node of a graph, by id.
pub fn all(order: &[UOp]) -> Vec<UOp> {
    let mut found: Vec<UOp> = order.iter().filter(|n| n.op == Op::Range).cloned().collect();
    found.sort_by_key(|r| r.range_arg().map(|a| a.id));
    found
}

/// The first id above those of all ranges.
pub fn next_id(order: &[UOp]) -> u32 {
    order.iter().filter_map(|n| Some(n.range_arg()?.id + 1)).max().unwrap_or(0)
}

/// The ids of the ranges a node is in or closes, ascending: those it has to tell apart.
pub fn open_at(n: &UOp) -> SmallVec<[u32; 6]> {
    let mut ids: SmallVec<[u32; 6]> = n.ranges.iter().copied().chain(closed(n)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// For each range that a scan walks, the other ranges of the stores it is in.
pub fn around_scans(order: &[UOp]) -> Vec<(u32, SmallVec<[u32; 6]>)> {
    let scans = order.iter().filter(|n| n.op == Op::Scan);
    let mut scanned: Vec<u32> = scans.filter_map(|n| Some(n.src[1].range_arg()?.id)).collect();
    scanned.sort_unstable();
    scanned.dedup();
    let others = |id: u32| {
        let ends = order.iter().filter(|n| n.op == Op::End).map(closed).filter(|c| c.contains(&id));
        (id, ends.flatten().filter(|&o| o != id).collect())
    };
    scanned.into_iter().map(others).collect()
}

/// The ids of the ranges a node closes.
pub fn closed(n: &UOp) -> SmallVec<[u32; 6]> {
    match n.op {
        Op::Reduce | Op::End | Op::Stage => {
            n.src[1..].iter().filter_map(|s| Some(s.range_arg()?.id)).collect()
        }
        _ => SmallVec::new(),
    }
}
