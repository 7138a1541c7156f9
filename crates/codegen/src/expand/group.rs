//! A reduce across the lanes of a block goes through local memory.
//!
//! ```text
//! Reduce(x, lidx0)   ->   tile[lidx0] = x;  barrier;  Reduce(tile[r], r)
//! ```
//! Every lane ends up with the result. Reduces over the same lanes that do not need each other share the barriers.

use super::linear_lane;
use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashMap;

/// The pass. Leaves no reduce over hardware ids behind.
pub fn group(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let is_group = |n: &&UOp| n.op == Op::Reduce && n.src[1..].iter().any(|r| r.op == Op::Special);
    let mut sink = sink.clone();
    loop {
        let order = sink.toposort();
        // those with no other below them; they all stand before the same barrier if their lanes and loops agree
        let mut above: FxHashMap<&UOp, bool> = FxHashMap::default();
        for n in &order {
            let below = n.src.iter().any(|s| above[s] || is_group(&s));
            above.insert(n, below);
        }
        let Some(first) = order.iter().find(|n| is_group(n) && !above[n]) else { return Ok(sink) };
        let same =
            |n: &&UOp| is_group(n) && !above[n] && n.src[1..] == first.src[1..] && n.ranges == first.ranges;
        let together: Vec<&UOp> = order.iter().filter(same).collect();
        let map = through_local_memory(&together, &order, ctx);
        sink = sink.substitute(&map);
    }
}

fn through_local_memory(reduces: &[&UOp], order: &[UOp], ctx: &mut Ctx) -> FxHashMap<UOp, UOp> {
    let ids = &reduces[0].src[1..];
    let all = ranges::all(order);
    let id_of = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    let outer: Vec<UOp> = all.iter().filter(|r| reduces[0].ranges.contains(&id_of(r))).cloned().collect();
    // each lane that is not combined over has a row of its own
    let (mine, n) = linear_lane(order, |s| ids.contains(s));
    let (row, rows) = linear_lane(order, |s| !ids.contains(s));
    let base = row.fold_mul(&UOp::index(n));
    let r = UOp::range(&UOp::index(n), 1 + all.iter().map(id_of).max().unwrap_or(0), AxisKind::Reduce);
    let barrier = |deps: Vec<UOp>| UOp::new(Op::Barrier, DType::Void, deps, Arg::None);
    let before = if outer.is_empty() { vec![] } else { vec![barrier(outer)] };
    let tiles: Vec<UOp> = reduces
        .iter()
        .map(|x| UOp::define(Space::Local, ctx.fresh(), (n * rows) as usize, x.dtype))
        .collect();
    let stores = tiles
        .iter()
        .zip(reduces)
        .map(|(t, x)| t.after(before.iter().cloned()).at(&base.fold_add(&mine)).store(&x.src[0]));
    let ready = barrier(stores.collect());
    let mut map = FxHashMap::default();
    for (t, x) in tiles.iter().zip(reduces) {
        let part = t.after([ready.clone()]).at(&base.fold_add(&r)).load();
        if let Arg::Alu(alu) = x.arg {
            map.insert((*x).clone(), part.reduce(alu, [r.clone()]));
        }
    }
    map
}
