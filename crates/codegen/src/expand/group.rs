//! A reduce across the lanes of a block goes through local memory.
//!
//! ```text
//! Reduce(x, lidx0)   ->   tile[lidx0] = x;  barrier;  Reduce(tile[r], r)
//! ```
//! Neighbours in a warp exchange their values first, in a butterfly: only one of each 32 then brings a part.
//!
//! ```text
//! Reduce(x, lidx0)   ->   y = x (+) LaneShuffle(x, 16);  z = y (+) LaneShuffle(y, 8);  …
//! ```
//! Where there are many lanes, each combines the parts of a few neighbours first, and then what those few came to. Every lane
//! ends up with the result. Reduces over the same lanes that do not need each other share the barriers.

use super::{barrier, carried, linear_lane, merged, place_of};
use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashMap;

/// Parts that a lane combines at once.
const RADIX: i64 = 16;

/// The pass. Leaves no reduce over hardware ids behind.
pub fn group(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let is_group = |n: &&UOp| n.op == Op::Reduce && n.closed_ranges().iter().any(|r| r.op == Op::Special);
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
        let same = |n: &&UOp| {
            let is_free = is_group(n) && !above[n];
            is_free && n.closed_ranges() == first.closed_ranges() && n.ranges == first.ranges
        };
        let together: Vec<&UOp> = order.iter().filter(same).collect();
        let map = through_local_memory(&together, &order, ctx)?;
        sink = sink.substitute(&map);
    }
}

fn through_local_memory(
    reduces: &[&UOp],
    order: &[UOp],
    ctx: &mut Ctx,
) -> Result<FxHashMap<UOp, UOp>, Error> {
    let ids = reduces[0].closed_ranges();
    let all = ranges::all(order);
    let id_of = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    let outer: Vec<UOp> = all.iter().filter(|r| reduces[0].ranges.contains(&id_of(r))).cloned().collect();
    // each lane that is not combined over has a row of its own
    let (mine, n) = linear_lane(order, |s| ids.contains(s));
    let (row, rows) = linear_lane(order, |s| !ids.contains(s));
    let mut next_id = 1 + all.iter().map(id_of).max().unwrap_or(0);
    let mut range = |n: i64| {
        next_id += 1;
        UOp::range(&UOp::index(n), next_id - 1, AxisKind::Reduce)
    };
    // one of the nodes that carry the same values stands for all
    let mut kinds: Vec<&UOp> = vec![];
    let is_of = |a: &UOp, b: &UOp| match (&a.arg, &b.arg) {
        (Arg::Fold(f), Arg::Fold(g)) => f.merge == g.merge && a.src == b.src,
        _ => a == b,
    };
    for n in reduces {
        if !kinds.iter().any(|k| is_of(k, n)) {
            kinds.push(n);
        }
    }
    let results = |all: Vec<Vec<UOp>>| -> FxHashMap<UOp, UOp> {
        let of =
            |n: &UOp| kinds.iter().zip(&all).find(|(k, _)| is_of(k, n)).map(|(_, v)| v[place_of(n)].clone());
        reduces.iter().filter_map(|n| Some(((*n).clone(), of(n)?))).collect()
    };
    let warp = neighbours(reduces, ids, n, rows, ctx);
    let parts: Vec<Vec<UOp>> = kinds.iter().map(|x| exchanged(x, warp)).collect::<Result<_, _>>()?;
    if warp == n {
        return Ok(results(parts));
    }
    // one lane of those that have exchanged theirs brings a part
    let (width, part) = (UOp::index(warp), n / warp);
    let base = row.fold_mul(&UOp::index(part));
    let my_place = base.fold_add(&mine.floordiv(&width));
    let speaks = (warp > 1).then(|| mine.modulo(&width).eq_(&UOp::index(0)));
    let before = if outer.is_empty() { vec![] } else { vec![barrier(outer)] };
    // what each lane brings, in memory: the tiles once all lanes have
    let mut shared = |parts: Vec<Vec<UOp>>, before: &[UOp]| {
        let mut tile = |x: &UOp| UOp::define(Space::Local, ctx.fresh(), (part * rows) as usize, x.dtype);
        let tiles: Vec<Vec<UOp>> = parts.iter().map(|p| p.iter().map(&mut tile).collect()).collect();
        let stores = tiles.iter().flatten().zip(parts.iter().flatten()).map(|(t, x)| {
            let place = t.after(before.iter().cloned()).at(&my_place);
            let src = [place, x.clone()].into_iter().chain(speaks.clone());
            UOp::new(Op::Store, DType::Void, src.collect::<Vec<_>>(), Arg::None)
        });
        let ready = barrier(stores.collect());
        let after = |p: &Vec<UOp>| p.iter().map(|t| t.after([ready.clone()])).collect();
        tiles.iter().map(after).collect::<Vec<Vec<UOp>>>()
    };
    let combine = |tiles: Vec<Vec<UOp>>, at: &UOp, r: &UOp| -> Vec<Vec<UOp>> {
        let loads = tiles.iter().map(|t| t.iter().map(|t| t.at(at).load()).collect());
        loads.zip(&kinds).map(|(v, n)| carried(n, v, std::slice::from_ref(r))).collect()
    };
    let mut tiles = shared(parts, &before);
    let mut step = 1;
    if warp == 1 && n > RADIX && n % RADIX == 0 {
        let r = range(RADIX);
        let neighbours = mine.bin(Alu::Idiv, &UOp::index(RADIX)).fold_mul(&UOp::index(RADIX));
        let at = base.fold_add(&neighbours).fold_add(&r);
        tiles = shared(combine(tiles, &at, &r), &[]);
        step = RADIX;
    }
    let r = range(part / step);
    let at = base.fold_add(&r.fold_mul(&UOp::index(step)));
    Ok(results(combine(tiles, &at, &r)))
}

/// How many lanes of these reduces exchange their values: neighbours in a warp, all of them there; 1 where none do.
fn neighbours(reduces: &[&UOp], ids: &[UOp], n: i64, rows: i64, ctx: &Ctx) -> i64 {
    let warp = ctx.target.grid.as_ref().map_or(1, |g| g.warp as i64);
    let is = |id: &UOp, name: &str| matches!(&id.arg, Arg::Name(s) if **s == *name);
    let is_fastest =
        ["lidx0", "lidx1", "lidx2"][..ids.len().min(3)].iter().all(|n| ids.iter().any(|id| is(id, n)));
    let whole = n.count_ones() == 1 && (n * rows) % warp == 0;
    let words = reduces.iter().flat_map(|x| x.bodies()).all(|x| x.dtype.size() == 4);
    match is_fastest && whole && words && warp == 32 {
        true => n.min(warp),
        false => 1,
    }
}

/// What so many neighbours come to, in each of them.
fn exchanged(reduce: &UOp, lanes: i64) -> Result<Vec<UOp>, Error> {
    let (mut values, mut distance) = (reduce.bodies().to_vec(), lanes / 2);
    while distance > 0 {
        let shuffle = |x: &UOp| UOp::new(Op::LaneShuffle, x.dtype, [x.clone()], Arg::Lanes(distance as u32));
        let others = values.iter().map(shuffle).collect();
        (values, distance) = (merged(reduce, vec![values, others])?, distance / 2);
    }
    Ok(values)
}
