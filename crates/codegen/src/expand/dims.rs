//! Give axes to hardware: blocks and lanes on a grid, threads on a CPU.
//!
//! On a grid, global ranges become `gidx*` and local and group-reduce ranges `lidx*`. Lane ranges that are never open
//! together share an id, so the lanes that reduced a row also write it. A store that does not depend on some id is
//! predicated on its being 0. On a CPU the outermost global range becomes the thread range, the others plain loops.
//!
//! ```text
//! Range{Global 0}, Range{Local 1}   ->   gidx0, lidx0            Range{Global 0}, Range{Global 1}   ->   Thread, Loop
//! ```

use crate::error::Error;
use crate::kernel::access::with_index;
use crate::kernel::ranges::{self, Replacement};
use crate::pass::Ctx;
use crate::plan::lanes::{check_warp, share_ids};
use frit_abi::target::Grid;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
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
    // the outermost loops, as long as they are global and every store is inside
    let mut chosen: Vec<&UOp> = vec![];
    if !ranges.iter().any(|r| kind(r) == Some(AxisKind::Thread)) {
        let is_copy = |r: &&UOp| kind(r).is_some_and(AxisKind::is_in_registers);
        for r in ranges.iter().filter(|r| !is_copy(r)) {
            let enough: Option<i64> = chosen.iter().map(|r| r.extent().as_int()).product();
            let few = chosen.is_empty() || enough.is_some_and(|n| n < SLICES * threads as i64);
            // what is done once for the loops so far must not be done again for each iteration of this one
            let once = |n: &UOp| {
                matches!(n.op, Op::Stage | Op::Reduce)
                    && chosen.last().is_some_and(|c| n.ranges.contains(&id(c)))
                    && !n.ranges.contains(&id(r))
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
    let mut values = assign("gidx", &blocks, &grid.max_global)?;
    values.extend(assign("lidx", &lanes, &grid.max_local)?);
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
    let new = ranges::replace(sink, &map, |old, new| {
        if old.op != Op::Store {
            return new;
        }
        let idle = |c: &&(&Class, &UOp)| !c.0.ranges.iter().any(|r| old.ranges.contains(&id(r)));
        let zero = UOp::index(0);
        let gate = blocks.iter().chain(&lanes).zip(&values).collect::<Vec<_>>();
        let gate = gate.iter().filter(idle).map(|c| c.1.eq_(&zero)).reduce(|a, b| a.and_(&b));
        let Some(gate) = gate else { return new };
        checked |= matches!(new.arg, Arg::Site(_));
        with_index(&new, gate.select(new.index(), &UOp::invalid()))
    });
    if checked {
        return Err(Error::Target("a checked store must not be left to one lane".into()));
    }
    Ok(new[sink].clone())
}

/// An expression over at most three hardware ids for each class, fastest first.
fn assign(name: &str, classes: &[Class], limits: &[u32; 3]) -> Result<Vec<UOp>, Error> {
    let fits = |e: &UOp, dim: usize| e.bounds.1 <= limits[dim] as i128;
    // neighbours are walked as one while there are more than three
    let mut groups: Vec<Vec<usize>> = (0..classes.len()).map(|i| vec![i]).collect();
    let extent = |g: &[usize]| g.iter().fold(UOp::index(1), |e, &i| e.fold_mul(&classes[i].extent));
    while groups.len() > 3 {
        let size = |at: usize| {
            extent(&groups[at]).bounds.1.max(1).saturating_mul(extent(&groups[at + 1]).bounds.1.max(1))
        };
        let at = (0..groups.len() - 1).min_by_key(|&at| size(at)).unwrap_or(0);
        let next = groups.remove(at + 1);
        groups[at].extend(next);
    }
    // what is too large for its dimension is cut in two, if a dimension is free
    let mut ids: Vec<UOp> = vec![];
    let mut dim = 0;
    for (at, g) in groups.iter().enumerate() {
        let e = extent(g);
        let special = |dim: usize, e: &UOp| UOp::special(&format!("{name}{dim}"), e);
        let too_large = || Error::Target(format!("{name} of extent {:?} exceeds {limits:?}", e.bounds.1));
        if fits(&e, dim) {
            ids.push(special(dim, &e));
            dim += 1;
            continue;
        }
        let (n, free) = (e.as_int().ok_or_else(too_large)?, 3 - dim > groups.len() - at);
        let low =
            (1..=limits[dim] as i64).rev().find(|d| n % d == 0 && n / d <= limits[(dim + 1).min(2)] as i64);
        let (Some(low), true) = (low, free) else { return Err(too_large()) };
        let (fast, slow) = (special(dim, &UOp::index(low)), special(dim + 1, &UOp::index(n / low)));
        ids.push(slow * low + fast);
        dim += 2;
    }
    let mut values: Vec<UOp> = vec![UOp::index(0); classes.len()];
    for (g, id) in groups.iter().zip(&ids) {
        let mut rest = id.clone();
        for (k, &i) in g.iter().enumerate() {
            let last = k + 1 == g.len();
            values[i] = if last { rest.clone() } else { rest.modulo(&classes[i].extent) };
            rest = rest.floordiv(&classes[i].extent);
        }
    }
    Ok(values)
}
