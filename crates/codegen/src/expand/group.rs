//! A reduce across the lanes of a block goes through local memory.
//!
//! ```text
//! Reduce(x, lidx0)   ->   tile[lidx0] = x;  barrier;  Reduce(tile[r], r)
//! ```
//! Where there are many lanes, each combines the parts of a few neighbours first, and then what those few came to. Every lane
//! ends up with the result. Reduces over the same lanes that do not need each other share the barriers.

use super::linear_lane;
use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashMap;

/// Parts that a lane combines at once.
const RADIX: i64 = 16;

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
    let mut next_id = 1 + all.iter().map(id_of).max().unwrap_or(0);
    let mut range = |n: i64| {
        next_id += 1;
        UOp::range(&UOp::index(n), next_id - 1, AxisKind::Reduce)
    };
    let barrier = |deps: Vec<UOp>| UOp::new(Op::Barrier, DType::Void, deps, Arg::None);
    let before = if outer.is_empty() { vec![] } else { vec![barrier(outer)] };
    let my_place = base.fold_add(&mine);
    // what each lane brings, in memory: the tiles once all lanes have
    let mut shared = |parts: Vec<UOp>, before: &[UOp]| {
        let tiles: Vec<UOp> = parts
            .iter()
            .map(|x| UOp::define(Space::Local, ctx.fresh(), (n * rows) as usize, x.dtype))
            .collect();
        let stores =
            tiles.iter().zip(&parts).map(|(t, x)| t.after(before.iter().cloned()).at(&my_place).store(x));
        let ready = barrier(stores.collect());
        tiles.into_iter().map(|t| t.after([ready.clone()])).collect::<Vec<UOp>>()
    };
    let combine = |tile: &UOp, x: &UOp, at: &UOp, r: &UOp| match x.arg {
        Arg::Alu(alu) => tile.at(at).load().reduce(alu, [r.clone()]),
        _ => x.clone(),
    };
    let mut tiles = shared(reduces.iter().map(|x| x.src[0].clone()).collect(), &before);
    let mut step = 1;
    if n > RADIX && n % RADIX == 0 {
        let r = range(RADIX);
        let neighbours = mine.bin(Alu::Idiv, &UOp::index(RADIX)).fold_mul(&UOp::index(RADIX));
        let at = base.fold_add(&neighbours).fold_add(&r);
        tiles = shared(tiles.iter().zip(reduces).map(|(t, x)| combine(t, x, &at, &r)).collect(), &[]);
        step = RADIX;
    }
    let r = range(n / step);
    let at = base.fold_add(&r.fold_mul(&UOp::index(step)));
    tiles.iter().zip(reduces).map(|(t, x)| ((*x).clone(), combine(t, x, &at, &r))).collect()
}
