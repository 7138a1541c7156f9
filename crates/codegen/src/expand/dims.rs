//! Give axes to hardware: blocks and lanes on a grid, threads on a CPU.
//!
//! On a grid, global ranges become `gidx*` and local and group-reduce ranges `lidx*`. Lane ranges that are never open
//! together share an id, so the lanes that reduced a row also write it. A store that does not depend on some id is
//! predicated on its being 0. Blocks that no three dimensions hold as they are become one number cut in three, and where no
//! divisor is found the blocks beyond do nothing. On a CPU the outermost global range becomes the thread range, the others plain loops.
//!
//! ```text
//! Range{Global 0}, Range{Local 1}   ->   gidx0, lidx0            Range{Global 0}, Range{Global 1}   ->   Thread, Loop
//! ```

use crate::error::Error;
use crate::kernel::access::{slot, with_index};
use crate::kernel::ranges::{self, Replacement};
use crate::pass::Ctx;
use crate::plan::lanes::{check_warp, share_ids};
use frit_abi::target::Grid;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// Parts of the thread range for each thread, so that threads end together.
const SLICES: i64 = 8;

/// The pass.
pub fn dims(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    match &ctx.target.grid {
        Some(grid) => grid_dims(sink, grid),
        None => Ok(thread_dim(sink, ctx.target.threads)),
    }
    .map(|sink| simplify(&sink))
}

// ---- CPU-like machines

fn thread_dim(sink: &UOp, threads: usize) -> UOp {
    let order = sink.toposort();
    let ranges = ranges::all(&order);
    let kind = |r: &UOp| r.range_arg().map(|a| a.kind);
    let id = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    let stores: Vec<&UOp> = order.iter().filter(|n| n.op == Op::Store).collect();
    let everywhere = |r: &UOp| stores.iter().all(|s| s.ranges.contains(&id(r)));
    // what is filled once is filled by each part again: then as few parts as keep all threads busy
    let fills_first = order.iter().any(|n| n.op == Op::Stage && n.ranges.is_empty());
    let is_enough = |parts: i64| {
        let threads = threads as i64;
        let rounds = parts.saturating_add(threads - 1) / threads;
        let all = rounds.saturating_mul(threads);
        if fills_first { parts >= all - all / 10 } else { parts >= SLICES * threads }
    };
    // the outermost loops, as long as they are global and every store is inside
    let mut chosen: Vec<&UOp> = vec![];
    if !ranges.iter().any(|r| kind(r) == Some(AxisKind::Thread)) {
        let is_copy = |r: &&UOp| kind(r).is_some_and(AxisKind::is_in_registers);
        for r in ranges.iter().filter(|r| !is_copy(r)) {
            let enough: Option<i64> = chosen.iter().map(|r| r.extent().as_int()).product();
            let few = chosen.is_empty() || enough.is_some_and(|n| !is_enough(n));
            // what is done once for the loops so far must not be done again for each iteration of this one, as what a loop
            // inside it does is anyway
            let once = |n: &UOp| {
                matches!(n.op, Op::Stage | Op::Reduce)
                    && chosen.last().is_some_and(|c| n.ranges.contains(&id(c)))
                    && n.ranges.iter().all(|x| *x < id(r))
            };
            if kind(r) != Some(AxisKind::Global)
                || !everywhere(r)
                || !few
                || threads < 2
                || order.iter().any(once)
            {
                break;
            }
            chosen.push(r);
        }
    }
    let mut map: FxHashMap<u32, Replacement> = FxHashMap::default();
    for r in &ranges {
        if kind(r) == Some(AxisKind::Global) {
            let value = UOp::range(r.extent(), id(r), AxisKind::Loop);
            map.insert(id(r), Replacement { value: value.clone(), ranges: smallvec![value] });
        }
    }
    if let Some(first) = chosen.first() {
        let extent = chosen.iter().fold(UOp::index(1), |e, r| e.fold_mul(r.extent()));
        let thread = UOp::range(&extent, id(first), AxisKind::Thread);
        for (r, value) in chosen.iter().zip(unflatten(&thread, &chosen)) {
            let ranges = if r == first { smallvec![thread.clone()] } else { SmallVec::new() };
            map.insert(id(r), Replacement { value, ranges });
        }
    }
    if map.is_empty() {
        return sink.clone();
    }
    ranges::replace(sink, &map, |_, n| n)[sink].clone()
}

/// The values of ranges that are walked as one, the last one fastest.
fn unflatten(flat: &UOp, ranges: &[&UOp]) -> Vec<UOp> {
    let (mut rest, mut values) = (flat.clone(), vec![]);
    for (i, r) in ranges.iter().enumerate().rev() {
        if i == 0 {
            values.push(rest.clone());
        } else {
            values.push(rest.modulo(r.extent()));
            rest = rest.floordiv(r.extent());
        }
    }
    values.reverse();
    values
}

// ---- grids

/// Ranges that share a hardware id.
struct Class {
    extent: UOp,
    ranges: Vec<UOp>,
}

fn grid_dims(sink: &UOp, grid: &Grid) -> Result<UOp, Error> {
    let order = sink.toposort();
    let ranges = ranges::all(&order);
    let of_kind = |kinds: &[AxisKind]| -> Vec<UOp> {
        ranges
            .iter()
            .rev()
            .filter(|r| r.range_arg().is_some_and(|a| kinds.contains(&a.kind)))
            .cloned()
            .collect()
    };
    let id = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    // innermost first: it gets the fastest id
    let blocks: Vec<Class> = of_kind(&[AxisKind::Global, AxisKind::Thread])
        .into_iter()
        .map(|r| Class { extent: r.extent().clone(), ranges: vec![r] })
        .collect();
    let found = of_kind(&[AxisKind::Local, AxisKind::GroupReduce, AxisKind::Warp]);
    let extents: Vec<UOp> = found.iter().map(|r| r.extent().clone()).collect();
    let together = |a: usize, b: usize| {
        order.iter().map(ranges::open_at).any(|o| o.contains(&id(&found[a])) && o.contains(&id(&found[b])))
    };
    let classes = share_ids(&extents, together, grid).map_err(Error::Target)?;
    check_warp(&classes, |i| found[i].range_arg().map_or(AxisKind::Local, |a| a.kind))
        .map_err(Error::Target)?;
    let lanes: Vec<Class> = classes
        .into_iter()
        .map(|c| Class {
            extent: extents[c[0]].clone(),
            ranges: c.iter().map(|&i| found[i].clone()).collect(),
        })
        .collect();
    let mut map: FxHashMap<u32, Replacement> = FxHashMap::default();
    let (mut values, inside) = assign("gidx", &blocks, &grid.max_global)?;
    let (ids, beyond) = assign("lidx", &lanes, &grid.max_local)?;
    if beyond.is_some() {
        return Err(Error::Target(format!("the lanes of a block do not fit {:?}", grid.max_local)));
    }
    values.extend(ids);
    for (class, value) in blocks.iter().chain(&lanes).zip(&values) {
        for r in &class.ranges {
            // a reduce across lanes closes the ids it combines over
            let closed = if r.range_arg().is_some_and(|a| a.kind == AxisKind::GroupReduce) {
                smallvec![value.clone()]
            } else {
                SmallVec::new()
            };
            map.insert(id(r), Replacement { value: value.clone(), ranges: closed });
        }
    }
    if map.is_empty() {
        return Ok(sink.clone());
    }
    let mut checked = false;
    let lane_ids: Vec<u32> = lanes.iter().flat_map(|c| &c.ranges).map(id).collect();
    let updated = updated_by_one(&order, &lane_ids);
    let new = ranges::replace(sink, &map, |old, new| {
        if old.op == Op::Scan {
            return scan_over_lanes(old, new, &map);
        }
        let is_updated = updated.contains(old);
        let is_read = old.op == Op::Load && inside.is_some() && slot(old).is_some();
        if old.op != Op::Store && !is_read && !is_updated {
            return new;
        }
        let idle = |c: &&(&Class, &UOp)| !c.0.ranges.iter().any(|r| old.ranges.contains(&id(r)));
        let zero = UOp::index(0);
        let gate = blocks.iter().chain(&lanes).zip(&values).collect::<Vec<_>>();
        let gate = gate.iter().filter(idle).filter(|_| !is_read || is_updated).map(|c| c.1.eq_(&zero));
        let gate = gate.chain(inside.clone()).reduce(|a, b| a.and_(&b));
        let Some(gate) = gate else { return new };
        checked |= matches!(new.arg, Arg::Site(_));
        with_index(&new, gate.select(new.index(), &UOp::invalid()))
    });
    if checked {
        return Err(Error::Target("a checked access must be done by all lanes and blocks".into()));
    }
    Ok(new[sink].clone())
}

/// Loads of memory that the kernel writes, whose values no lane needs but the one that writes: the others must not read what
/// it may have written already.
fn updated_by_one(order: &[UOp], lanes: &[u32]) -> FxHashSet<UOp> {
    let written: Vec<u32> = order.iter().filter(|n| n.op == Op::Store).filter_map(slot).collect();
    let is_own = |n: &&UOp| n.op == Op::Load && slot(n).is_some_and(|s| written.contains(&s));
    let is_one = |load: &&UOp| {
        let idle: Vec<u32> = lanes.iter().copied().filter(|r| !load.ranges.contains(r)).collect();
        if idle.is_empty() {
            return false;
        }
        let mut users: FxHashSet<&UOp> = [*load].into_iter().collect();
        for n in order.iter().filter(|n| n.op != Op::Sink) {
            if n.src.iter().any(|s| users.contains(s)) {
                users.insert(n);
            }
        }
        let needs = |n: &&UOp| ranges::open_at(n).iter().any(|r| idle.contains(r));
        !users.iter().any(needs)
    };
    order.iter().filter(is_own).filter(is_one).cloned().collect()
}

/// A scan that is rebuilt, with the ids of the lanes that share it.
fn scan_over_lanes(old: &UOp, new: UOp, map: &FxHashMap<u32, Replacement>) -> UOp {
    let ids = old.src[1..].iter().filter_map(|r| map.get(&r.range_arg()?.id)).map(|r| r.value.clone());
    let mut src: SmallVec<[UOp; 4]> = match new.op {
        Op::Scan => new.src.clone(),
        _ => smallvec![new.clone()],
    };
    src.extend(ids);
    if src.len() == 1 { new } else { UOp::new(Op::Scan, old.dtype, src, old.arg.clone()) }
}

/// An expression over at most three hardware ids for each class, fastest first; and where ids have more values than the
/// classes together, which of them count.
fn assign(name: &str, classes: &[Class], limits: &[u32; 3]) -> Result<(Vec<UOp>, Option<UOp>), Error> {
    let extent = |g: &[usize]| g.iter().fold(UOp::index(1), |e, &i| e.fold_mul(&classes[i].extent));
    let size = |g: &[usize]| extent(g).bounds.1.max(1);
    // neighbours are walked as one while there are more than three
    let mut groups: Vec<Vec<usize>> = (0..classes.len()).map(|i| vec![i]).collect();
    while groups.len() > 3 {
        let both = |at: usize| size(&groups[at]).saturating_mul(size(&groups[at + 1]));
        let at = (0..groups.len() - 1).min_by_key(|&at| both(at)).unwrap_or(0);
        let next = groups.remove(at + 1);
        groups[at].extend(next);
    }
    let fits = |groups: &[Vec<usize>]| groups.iter().zip(limits).all(|(g, &limit)| size(g) <= limit as i128);
    // the first dimension has the most room
    if !fits(&groups) {
        groups.sort_by_key(|g| std::cmp::Reverse(size(g)));
    }
    let special = |dim: usize, e: &UOp| UOp::special(&format!("{name}{dim}"), e);
    let mut inside = None;
    let ids: Vec<UOp> = match fits(&groups) {
        true => groups.iter().enumerate().map(|(dim, g)| special(dim, &extent(g))).collect(),
        false => {
            groups = vec![(0..classes.len()).collect()];
            let count = extent(&groups[0]);
            let sizes = cut(&count, limits).ok_or_else(|| {
                Error::Target(format!("{name} of extent {:?} exceeds {limits:?}", count.bounds.1))
            })?;
            let [x, y, z] = [0, 1, 2].map(|dim| special(dim, &sizes[dim]));
            let id = (z.fold_mul(&sizes[1]).fold_add(&y)).fold_mul(&sizes[0]).fold_add(&x);
            let all = sizes.iter().fold(UOp::index(1), |e, s| e.fold_mul(s));
            inside = (all != count).then(|| id.lt(&count));
            vec![id]
        }
    };
    let mut values: Vec<UOp> = vec![UOp::index(0); classes.len()];
    for (g, id) in groups.iter().zip(&ids) {
        let mut rest = id.clone();
        for (k, &i) in g.iter().enumerate() {
            let last = k + 1 == g.len();
            values[i] = if last { rest.clone() } else { rest.modulo(&classes[i].extent) };
            rest = rest.floordiv(&classes[i].extent);
        }
    }
    Ok((values, inside))
}

/// Sizes of three dimensions for so many blocks: exactly as many where a divisor is found, else a few more.
fn cut(count: &UOp, limits: &[u32; 3]) -> Option<[UOp; 3]> {
    let [x, y, z] = limits.map(|l| l as i128);
    let most = count.bounds.1.max(1);
    let exact = count.as_int().and_then(|n| (1..=y as i64).find(|d| n % d == 0 && (n / d) as i128 <= x));
    if let (Some(d), Some(n)) = (exact, count.as_int()) {
        return Some([n / d, d, 1].map(UOp::index));
    }
    let rows = (most + x - 1) / x;
    let planes = (rows + y - 1) / y;
    let rows = ((rows + planes - 1) / planes) as i64;
    let each =
        count.fold_add(&UOp::index(rows * planes as i64 - 1)).floordiv(&UOp::index(rows * planes as i64));
    (planes <= z).then(|| [simplify(&each), UOp::index(rows), UOp::index(planes as i64)])
}
