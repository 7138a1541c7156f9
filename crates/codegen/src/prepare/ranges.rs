//! Make the ranges of a kernel simple: none of extent 1, one loop a level of reduction, neighbours merged.
//!
//! A kernel may use one range for two reduces of which one needs the other; those are two loops and get two ranges.
//! Reduces that do not need each other and run over equal extents in the same place share theirs, so sum and max of a
//! row are one loop with one load. Two global ranges that every index walks as one become one.
//!
//! ```text
//! Reduce(exp(x[r] - Reduce(x[r], r)), r)   ->   Reduce(exp(x[r2] - Reduce(x[r1], r1)), r2)
//! Store(p[i*64 + j], ..) over i, j         ->   Store(p[m], ..) over m
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, fold, substitute_open};
use crate::kernel::cost;
use crate::kernel::ranges::{Replacement, all, closed, replace};
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// The pass. A kernel without a name gets one that shows its ranges.
pub fn ranges(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let sink = keep_inside(&drop_units(sink));
    let sink = merge_neighbours(&share_loops(&sink));
    Ok(match sink.arg {
        Arg::Name(_) => sink,
        _ => UOp::new(sink.op, sink.dtype, sink.src.clone(), Arg::Name(cost::name(&sink))),
    })
}

/// A store stands in the loops it depends on. Where it does not depend on one of those it is to be done in, and that one
/// may have no step, it is made to: else it would be done once where there is none.
fn keep_inside(sink: &UOp) -> UOp {
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for end in sink.toposort().iter().filter(|n| n.op == Op::End && n.src[0].op == Op::Store) {
        let store = &end.src[0];
        let is_left = |r: &&UOp| {
            let may_be_empty = r.op == Op::Range && r.extent().bounds.0 <= 0;
            may_be_empty && r.range_arg().is_some_and(|a| !store.ranges.contains(&a.id))
        };
        let left: Vec<UOp> = end.src[1..].iter().filter(is_left).cloned().collect();
        let Some((buf, idx)) = store.buffer_and_index().filter(|_| !left.is_empty()) else { continue };
        let mut src = store.src.clone();
        src[0] = buf.after(left).at(idx);
        map.insert(store.clone(), store.with_src(src));
    }
    if map.is_empty() { sink.clone() } else { sink.substitute(&map) }
}

fn drop_units(sink: &UOp) -> UOp {
    let map: FxHashMap<u32, Replacement> = all(&sink.toposort())
        .iter()
        .filter(|r| r.extent().as_int() == Some(1))
        .filter_map(|r| {
            Some((r.range_arg()?.id, Replacement { value: UOp::index(0), ranges: SmallVec::new() }))
        })
        .collect();
    if map.is_empty() {
        return sink.clone();
    }
    replace(sink, &map, |_, n| fold(&n))[sink].clone()
}

/// Give each level of reduction its own ranges, the same ones to reduces that can share a loop.
fn share_loops(sink: &UOp) -> UOp {
    let order = sink.toposort();
    if order.iter().filter(|n| n.op == Op::Reduce).count() < 2 {
        return sink.clone();
    }
    let first = 1 + all(&order).iter().filter_map(|r| Some(r.range_arg()?.id)).max().unwrap_or(0);
    let mut next = first;
    // what makes two reduces one loop: how many reduces are below, where it stands, how far it runs
    type Key = (usize, SmallVec<[u32; 6]>, SmallVec<[UOp; 4]>);
    let mut loops: FxHashMap<Key, SmallVec<[UOp; 4]>> = FxHashMap::default();
    let mut sink = sink.clone();
    loop {
        // outermost first: renaming a range in a body copies the reduces in it that stand inside that range
        let order = sink.toposort();
        let mut level: FxHashMap<&UOp, usize> = FxHashMap::default();
        let mut below_pending: FxHashMap<&UOp, bool> = FxHashMap::default();
        let pending = |n: &UOp| n.op == Op::Reduce && closed(n).iter().any(|&id| id < first);
        for n in &order {
            let l = n.src.iter().map(|s| level[s]).max().unwrap_or(0) + (n.op == Op::Reduce) as usize;
            level.insert(n, l);
        }
        for n in order.iter().rev() {
            let below = below_pending.get(n).copied().unwrap_or(false) || pending(n);
            for s in &n.src {
                *below_pending.entry(s).or_default() |= below;
            }
        }
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for n in &order {
            if !pending(n) || below_pending.get(n).copied().unwrap_or(false) {
                continue;
            }
            let closes = n.closed_ranges();
            let extents: SmallVec<[UOp; 4]> = closes.iter().map(|r| r.extent().clone()).collect();
            let new = loops.entry((level[n], n.ranges.clone(), extents)).or_insert_with(|| {
                closes
                    .iter()
                    .map(|r| {
                        next += 1;
                        let kind = r.range_arg().map_or(AxisKind::Reduce, |a| a.kind);
                        UOp::range(r.extent(), next - 1, kind)
                    })
                    .collect()
            });
            let names: FxHashMap<u32, UOp> = closed(n).into_iter().zip(new.iter().cloned()).collect();
            let values = n.bodies().iter().map(|x| substitute_open(x, &names));
            let mut src: SmallVec<[UOp; 4]> = values.collect();
            src.extend(new.iter().cloned());
            map.insert(n.clone(), n.with_src(src));
        }
        if map.is_empty() {
            return sink;
        }
        sink = sink.substitute(&map);
    }
}

/// Merge two ranges `a`, `b` of one kind that are closed together where every index has `a * extent(b) + b`.
fn merge_neighbours(sink: &UOp) -> UOp {
    let mut sink = sink.clone();
    'again: loop {
        let order = sink.toposort();
        let ranges = all(&order);
        for pair in ranges.windows(2) {
            if let Some(map) = merge_pair(&pair[0], &pair[1], &order) {
                sink = replace(&sink, &map, |_, n| fold(&n))[&sink].clone();
                continue 'again;
            }
        }
        return sink;
    }
}

fn merge_pair(a: &UOp, b: &UOp, order: &[UOp]) -> Option<FxHashMap<u32, Replacement>> {
    let (ra, rb) = (a.range_arg()?, b.range_arg()?);
    let (na, nb) = (a.src[0].as_int()?, b.src[0].as_int()?);
    if ra.kind != rb.kind || ra.kind == AxisKind::Ordered {
        return None;
    }
    for n in order {
        let here = (n.ranges.contains(&ra.id), n.ranges.contains(&rb.id));
        match n.op {
            // both are closed by the same nodes
            Op::Reduce | Op::End => {
                let c = closed(n);
                if c.contains(&ra.id) != c.contains(&rb.id) {
                    return None;
                }
            }
            Op::Scan | Op::After | Op::Stage if here.0 || here.1 => return None,
            Op::Index => {
                let idx = &n.src[1];
                if !idx.ranges.contains(&ra.id) && !idx.ranges.contains(&rb.id) {
                    continue;
                }
                if coefficient(idx, ra.id)? != coefficient(idx, rb.id)?.checked_mul(nb)?
                    || idx.op == Op::Where
                {
                    return None;
                }
            }
            // a range is used as a value, or steers one: only sums and products lead on to an index
            _ if n.dtype != frit_uop::DType::Index && n.src.iter().any(|s| is_index_of(s, ra.id, rb.id)) => {
                return None;
            }
            _ => {}
        }
    }
    let m = UOp::range(&UOp::index(na.checked_mul(nb)?), ra.id, ra.kind);
    // the value of `b` is the whole and that of `a` nothing: coefficients make every index come out right
    let whole = Replacement { value: m.clone(), ranges: smallvec![m] };
    let nothing = Replacement { value: UOp::index(0), ranges: SmallVec::new() };
    Some([(rb.id, whole), (ra.id, nothing)].into_iter().collect())
}

fn is_index_of(n: &UOp, a: u32, b: u32) -> bool {
    n.dtype == frit_uop::DType::Index
        && (n.ranges.contains(&a) || n.ranges.contains(&b))
        && !matches!(n.arg, Arg::Range(_))
        || matches!(n.arg, Arg::Range(r) if r.id == a || r.id == b)
}
