//! Stages become tiles in local memory with a loop that fills them.
//!
//! ```text
//! Load(Index(Stage(x[f], f), i))   ->   for f { tile[f] = x[f] };  Load(Index(tile, i))
//! ```
//! On a grid all lanes of a block share the filling, with barriers around it, and rows are as long as makes lanes meet in few
//! banks.

use super::banks::{self, Access};
use super::{barrier, lane_ids, linear_lane};
use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open, with_index};
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_abi::Target;
use frit_abi::layout::{Layout, Unit};
use frit_abi::target::Grid;
use frit_uop::rewrite::replaced;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, Op, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Elements that a lane copies at once, so that their loads are all on the way before one is waited for.
const AT_ONCE: i64 = 8;

/// Rows and columns of a value that a matrix unit makes.
fn matrix_of(value: &UOp, ctx: &Ctx) -> Result<Option<(u32, u32)>, Error> {
    let product = if value.op == Op::Reduce { &value.src[0] } else { value };
    let (Op::Matrix, Arg::Name(name)) = (product.op, &product.arg) else { return Ok(None) };
    let unit = ctx.target.unit(name).filter(|_| ctx.target.grid.is_none());
    let unit = unit.ok_or_else(|| Error::Kernel(format!("{product:?} is not staged in tiles here")))?;
    Ok(Some((unit.size[0] as u32, unit.size[1] as u32)))
}

/// The pass. Leaves no `Stage` behind.
pub fn bufferise(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    if !order.iter().any(|n| n.op == Op::Stage) {
        return Ok(sink.clone());
    }
    let ranges: FxHashMap<u32, UOp> =
        ranges::all(&order).into_iter().filter_map(|r| Some((r.range_arg()?.id, r))).collect();
    let mut next = ranges::next_id(&order);
    let (lane, lanes) = linear_lane(&order, |_| true);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    // by stage
    let mut copies: FxHashMap<&UOp, Copies> = FxHashMap::default();
    let mut layouts: FxHashMap<&UOp, Layout> = FxHashMap::default();
    for n in &order {
        let src: Vec<UOp> = n.src.iter().map(|s| done[s].clone()).collect();
        let new = match n.op {
            Op::Stage => {
                let tile = Tile::of(n, &src, &ranges, &order, ctx)?;
                copies.insert(n, tile.copies.clone());
                layouts.insert(n, tile.layout.clone());
                match ctx.target.grid {
                    None => tile.filled(),
                    Some(_) => tile.filled_by_lanes(&lane, lanes, &mut next),
                }
            }
            // one index a dimension of the stage, or one for all
            Op::Index if n.src[0].op == Op::Stage && n.src.len() > 2 => {
                src[0].at(&copies[&n.src[0]].place(place(&src[1..], &layouts[&n.src[0]])))
            }
            Op::Index if n.src[0].op == Op::Stage => {
                n.with_src(smallvec![src[0].clone(), copies[&n.src[0]].place(src[1].clone())])
            }
            _ => n.with_src(src.into_iter().collect()),
        };
        match n.op {
            Op::Stage => replaced("memory, and what fills it", n, &new),
            Op::Index if n.src[0].op == Op::Stage => replaced("where its element lies", n, &new),
            _ => {}
        }
        done.insert(n.clone(), new);
    }
    Ok(simplify(&done[sink]))
}

/// One number of several, the last one fastest: each with its extent.
fn flat<'n>(parts: impl Iterator<Item = (&'n UOp, UOp)>) -> UOp {
    parts.fold(UOp::index(0), |i, (x, extent)| i.fold_mul(&extent).fold_add(x))
}

/// Where the element at these indices of a tile lies.
fn place(indices: &[UOp], layout: &Layout) -> UOp {
    let mut at = UOp::index(0);
    for (of, index) in indices.iter().enumerate() {
        let mut digits = layout.of(of).peekable();
        while let Some((d, step)) = digits.next() {
            let higher = index.floordiv(&UOp::index(step));
            let digit = if digits.peek().is_some() { higher.modulo(&UOp::index(d.radix)) } else { higher };
            at = at.fold_add(&digit.fold_mul(&UOp::index(d.weight)));
        }
    }
    let Some(s) = layout.swizzle() else { return at };
    let piece = UOp::index(1 << s.to);
    let (pieces, within) = (simplify(&at.floordiv(&piece)), simplify(&at.modulo(&piece)));
    let by = pieces.floordiv(&UOp::index(1 << (s.from - s.to))).modulo(&UOp::index(1 << s.bits));
    pieces.bin(Alu::Xor, &by).fold_mul(&piece).fold_add(&within)
}

/// The loops around a stage that are written out: each iteration has memory of its own, lanes of a vector side by side.
#[derive(Clone)]
struct Copies {
    lanes: Vec<UOp>,
    others: Vec<UOp>,
    /// Which of the buffers that take turns it is in a round of the loop around it, and how many there are.
    turn: Option<(UOp, i64)>,
    /// Elements of a stage.
    size: i64,
}

impl Copies {
    fn of(outer: &[UOp], turn: Option<(UOp, i64)>, size: i64) -> Copies {
        let kind = |r: &&UOp| r.range_arg().map(|a| a.kind);
        let registers = outer.iter().filter(|r| kind(r).is_some_and(AxisKind::is_in_registers)).cloned();
        let (lanes, others) = registers.partition(|r| kind(&r) == Some(AxisKind::Vector));
        Copies { lanes, others, turn, size }
    }
    fn count(ranges: &[UOp]) -> i64 {
        ranges.iter().map(|r| r.extent().as_int().unwrap_or(1)).product()
    }
    fn elements(&self) -> i64 {
        let turns = self.turn.as_ref().map_or(1, |(_, n)| *n);
        self.size * turns * Copies::count(&self.lanes) * Copies::count(&self.others)
    }
    /// Where an element of a stage is.
    fn place(&self, at: UOp) -> UOp {
        let number = |ranges: &[UOp]| flat(ranges.iter().map(|r| (r, r.extent().clone())));
        let others = match &self.turn {
            Some((turn, n)) => number(&self.others).fold_mul(&UOp::index(*n)).fold_add(turn),
            None => number(&self.others),
        };
        let at = others.fold_mul(&UOp::index(self.size)).fold_add(&at);
        at.fold_mul(&UOp::index(Copies::count(&self.lanes))).fold_add(&number(&self.lanes))
    }
}

/// The coordinates of a number in a space, the last one fastest.
fn coordinates(flat: &UOp, extents: &[i64]) -> Vec<UOp> {
    let (mut rest, mut at) = (flat.clone(), vec![]);
    for &e in extents.iter().rev() {
        at.push(rest.modulo(&UOp::index(e)));
        rest = rest.floordiv(&UOp::index(e));
    }
    at.reverse();
    at
}

/// Elements of memory that a tile takes, its last row as long as the others.
fn memory(layout: &Layout) -> i64 {
    layout.digits().iter().map(|d| d.weight * d.radix).max().unwrap_or(1).max(layout.size(Unit::Place))
}

/// How many elements of a stage an access of a lane moves.
fn access_elements(stage: &UOp, target: &Target) -> i64 {
    (target.vector_access_bytes as i64 / stage.dtype.size() as i64).max(1)
}

/// How lanes access a stage: in the order in which it is filled, and as it is read. None where an index does not say where
/// in each dimension it is.
fn accesses(stage: &UOp, extents: &[i64], order: &[UOp], target: &Target, grid: &Grid) -> Vec<Access> {
    let ids = lane_ids(order);
    let readers: Vec<&UOp> = order.iter().filter(|n| n.op == Op::Index && n.src[0] == *stage).collect();
    if readers.iter().any(|n| n.src.len() != extents.len() + 1) {
        return vec![];
    }
    let most = access_elements(stage, target);
    let (lane, lanes) = linear_lane(order, |_| true);
    let part = extents.last().map_or(1, |e| if e % most == 0 { most } else { 1 });
    let filled = Access {
        lanes: banks::lanes(&coordinates(&lane.fold_mul(&UOp::index(part)), extents), &ids, grid.warp),
        wide: (1..=extents.len()).map(|d| if d == extents.len() { part } else { 1 }).collect(),
        count: (extents.iter().product::<i64>() / lanes).max(1),
    };
    let read = readers.iter().map(|n| Access {
        lanes: banks::lanes(&n.src[1..], &ids, grid.warp),
        wide: match is_matrix(n, order) {
            // a row of a matrix lies along the last dimension
            true => (1..=extents.len()).map(|d| if d == extents.len() { most } else { 1 }).collect(),
            false => n.src[1..].iter().map(|i| neighbours(i, most)).collect(),
        },
        count: n.open_ranges().iter().filter_map(|r| r.extent().as_int()).product(),
    });
    std::iter::once(filled).chain(read).collect()
}

/// Whether an address is that of a row of a matrix that a warp loads.
fn is_matrix(address: &UOp, order: &[UOp]) -> bool {
    order.iter().any(|n| n.op == Op::LoadMatrix && n.src[0] == *address)
}

/// Whether neighbours along a range lie side by side in memory.
fn is_contiguous(value: &UOp, along: Option<&UOp>) -> bool {
    let (Some(range), Some((_, idx))) = (along.and_then(UOp::range_arg), value.buffer_and_index()) else {
        return false;
    };
    coefficient(idx, range.id) == Some(1)
}

/// How many neighbours an index has as copies in a lane: of results, since those of a sum would have to wait in registers.
fn neighbours(index: &UOp, most: i64) -> i64 {
    let is_near = |r: &UOp| {
        r.range_arg().is_some_and(|a| a.kind == AxisKind::Upcast && coefficient(index, a.id) == Some(1))
    };
    let copies = index.open_ranges().into_iter().filter(is_near);
    let count = copies.filter_map(|r| r.extent().as_int()).max().unwrap_or(1);
    std::iter::successors(Some(most), |w| Some(w / 2)).find(|w| count % w == 0).unwrap_or(1)
}

/// Local memory for a stage.
struct Tile {
    memory: UOp,
    value: UOp,
    /// What it is filled over, with extents.
    fill: Vec<UOp>,
    extents: Vec<i64>,
    layout: Layout,
    /// Rows and columns of an element, where a matrix unit makes it.
    shape: Option<(u32, u32)>,
    /// The loops it is filled in, and those of them that are written out.
    outer: Vec<UOp>,
    copies: Copies,
    /// Elements that an access of a lane moves.
    at_once: i64,
}

impl Tile {
    fn of(
        n: &UOp,
        src: &[UOp],
        ranges: &FxHashMap<u32, UOp>,
        order: &[UOp],
        ctx: &mut Ctx,
    ) -> Result<Tile, Error> {
        let Arg::Stage { space: Space::Local, buffers, .. } = n.arg else {
            return Err(Error::Kernel(format!("{n:?} outside local memory")));
        };
        let (value, fill) = (src[0].clone(), src[1..].to_vec());
        let extents: Option<Vec<i64>> = fill.iter().map(|r| r.extent().as_int()).collect();
        let extents = extents.ok_or_else(|| Error::Kernel(format!("{n:?} of unknown size")))?;
        let shape = matrix_of(&value, ctx)?;
        let layout = match &ctx.target.grid {
            Some(grid) => {
                let accesses = accesses(n, &extents, order, ctx.target, grid);
                let is_row = |i: &UOp| i.op == Op::Index && i.src[0] == *n && is_matrix(i, order);
                // what a unit multiplies is copied in the background; plain lanes load it in vectors of their own
                let most = access_elements(n, ctx.target);
                let is_copied = buffers > 1
                    && is_contiguous(&value, fill.last())
                    && extents.last().is_some_and(|e| e % most == 0);
                let is_multiplied = || order.iter().any(|n| n.op == Op::Matrix);
                let is_whole = is_copied && is_multiplied() || order.iter().any(is_row);
                let whole = if is_whole { most } else { 1 };
                banks::layout(&extents, n.dtype.size() as i64, &accesses, whole, banks::of(grid))
            }
            None => Layout::dense(&extents),
        };
        let elements = memory(&layout) * shape.map_or(1, |(r, c)| (r * c) as i64);
        let outer: Vec<UOp> = n.ranges.iter().filter_map(|r| ranges.get(r).cloned()).collect();
        // matrix units and blocks have their copies in the tile
        let written_out = if shape.is_none() && ctx.target.grid.is_none() { &outer[..] } else { &[] };
        // the loop around it whose rounds take turns is the innermost one
        let turn = outer
            .last()
            .filter(|_| buffers > 1)
            .map(|r| (r.modulo(&UOp::index(buffers.into())), buffers.into()));
        // every buffer begins where a vector does
        let whole = ctx.target.vector_access_bytes.max(1) as i64;
        let size = if turn.is_some() { (elements + whole - 1) / whole * whole } else { elements };
        let copies = Copies::of(written_out, turn, size);
        let memory = UOp::define(Space::Local, ctx.fresh(), copies.elements() as usize, n.dtype);
        let at_once = access_elements(n, ctx.target);
        Ok(Tile { memory, value, fill, extents, layout, shape, outer, copies, at_once })
    }

    /// Filled by one thread.
    fn filled(self) -> UOp {
        let at = flat(self.fill.iter().zip(self.extents.iter().map(|e| UOp::index(*e))));
        let memory = self.memory.after(self.outer);
        let place = match self.shape {
            None => memory.at(&self.copies.place(at)),
            Some((rows, columns)) => {
                let at = at.fold_mul(&UOp::index((rows * columns) as i64));
                memory.at_tile(&at, rows, columns, columns as i64)
            }
        };
        self.memory.after([place.store(&self.value).end(self.fill)])
    }

    /// Neighbours that a lane copies at once: as many as an access moves, or a part of that, so that rows of memory have whole
    /// ones and all lanes are busy.
    fn wide(&self, lanes: i64) -> i64 {
        let fits = |w: &i64| self.extents.last().is_some_and(|n| n % w == 0);
        let is_busy = |w: &i64| self.extents.iter().product::<i64>() % (lanes * w) == 0;
        let parts = std::iter::successors(Some(self.at_once), |w| (*w > 1).then_some(w / 2));
        let is_contiguous = is_contiguous(&self.value, self.fill.last());
        parts.into_iter().find(|w| is_contiguous && fits(w) && is_busy(w)).unwrap_or(1)
    }

    /// Filled by all lanes of a block: the neighbours `(step * lanes + lane) * wide + part`, as long as there are any.
    fn filled_by_lanes(self, lane: &UOp, lanes: i64, next: &mut u32) -> UOp {
        let (len, wide) = (self.extents.iter().product::<i64>(), self.wide(lanes));
        let rounds = (len + lanes * wide - 1) / (lanes * wide);
        let mut steps: SmallVec<[UOp; 2]> = smallvec![];
        let mut range = |n: i64, kind: AxisKind| {
            if n == 1 {
                return UOp::index(0);
            }
            *next += 1;
            steps.push(UOp::range(&UOp::index(n), *next - 1, kind));
            steps[steps.len() - 1].clone()
        };
        let step = range(rounds, if rounds <= AT_ONCE { AxisKind::Upcast } else { AxisKind::Loop });
        let part = range(wide, AxisKind::Upcast);
        let flat = step.fold_mul(&UOp::index(lanes)).fold_add(lane);
        let flat = flat.fold_mul(&UOp::index(wide)).fold_add(&part);
        let at = coordinates(&flat, &self.extents);
        let ids = self.fill.iter().map(|r| r.range_arg().map_or(0, |a| a.id));
        let mut value = substitute_open(&self.value, &ids.zip(at.iter().cloned()).collect());
        let mut place = self.copies.place(place(&at, &self.layout));
        if len % lanes != 0 {
            let inside = flat.lt(&UOp::index(len));
            place = inside.select(&place, &UOp::invalid());
            if let Some((_, idx)) = value.buffer_and_index() {
                value = with_index(&value, inside.select(idx, &UOp::invalid()));
            }
        }
        // what was read in the last round must be done with before it is overwritten
        let before = (!self.outer.is_empty()).then(|| barrier(self.outer));
        let store = self.memory.after(before).at(&place).store(&value);
        self.memory.after([barrier(vec![store.end(steps)])])
    }
}
