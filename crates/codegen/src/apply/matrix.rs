//! A sum of products that a matrix unit was chosen for becomes its operations.
//!
//! An operand that the unit takes from lanes is a stack of what each lane holds. One that it takes from tiles is loaded
//! from the buffer where its rows lie there as the unit wants them, else from a stage in which they do: the one that an
//! opt asks for, or one that is filled right before the operation. The accumulators of tiles pass through local memory,
//! from where what follows the sum reads element by element.
//!
//! ```text
//! store(c[i, j], f(Reduce(a*b, k)))    ->    t = Stage(Reduce(Matrix(tile a, tile b, 0), k/32));
//!                                            store(c[i, j], f(t[i%16, j%16]))
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::fragment::Fragments;
use crate::kernel::ranges::{self, Replacement};
use crate::pass::Ctx;
use crate::plan::axes::{Chosen, Plan};
use frit_abi::matrix::{Dim, Home, Rows};
use frit_uop::{Alu, Arg, AxisKind, DType, Op, Scalar, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

type Map = FxHashMap<u32, UOp>;

/// The pass.
pub fn matrix(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let plan = &*ctx.plan()?;
    let Some(chosen) = &plan.matrix else { return Ok(sink.clone()) };
    let next = ranges::next_id(&sink.toposort()).max(plan.axes.len() as u32);
    let mut lowering = Lowering { plan, chosen, last: &plan.ranges(), next };
    Ok(lowering.lower(sink, &chosen.reduce, chosen.operands.map(|o| &plan.operands[o])))
}

/// What is needed to write the operations.
struct Lowering<'a> {
    /// The plan.
    plan: &'a Plan<'a>,
    /// The matrix opt.
    chosen: &'a Chosen,
    /// The range of each axis, by its placeholder's id.
    last: &'a Map,
    /// The first id that is free.
    next: u32,
}

fn id(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}
/// The ranges' values as one number, the last one fastest.
fn flat<'n>(ranges: impl IntoIterator<Item = &'n UOp>) -> UOp {
    ranges.into_iter().fold(UOp::index(0), |i, r| i.fold_mul(r.extent()).fold_add(r))
}

impl Lowering<'_> {
    /// The kernel with operations of the unit in place of the sum `reduce` of products of `loads`.
    fn lower(&mut self, sink: &UOp, reduce: &UOp, loads: [&UOp; 2]) -> UOp {
        match self.chosen.unit.homes[2] {
            Home::Lanes(_) => self.in_lanes(sink, reduce, loads),
            Home::Tile(rows) | Home::Memory(rows) => self.in_tiles(sink, reduce, loads, rows),
        }
    }

    fn range(&mut self, extent: i64, kind: AxisKind) -> UOp {
        self.next += 1;
        UOp::range(&UOp::index(extent), self.next - 1, kind)
    }
    /// The range of the unit's part of a coordinate.
    fn part(&self, d: Dim) -> &UOp {
        &self.last[&self.chosen.parts[d as usize]]
    }
    /// The operation, summed over what is left of the reduce's ranges.
    fn operation(&self, reduce: &UOp, a: &UOp, b: &UOp) -> UOp {
        let unit = &self.chosen.unit;
        let zero = UOp::constant(Scalar::int(0, reduce.dtype), reduce.dtype);
        let zeros = UOp::stack((0..unit.held(2)).map(|_| zero.clone()));
        let arg = Arg::Name(unit.name.into());
        let product = UOp::new(Op::Matrix, reduce.dtype, [a.clone(), b.clone(), zeros], arg);
        let loops = reduce.src[1..].iter().filter(|r| *r != self.part(Dim::K)).cloned();
        product.reduce(Alu::Add, loops)
    }

    // ---- lanes

    fn in_lanes(&mut self, sink: &UOp, reduce: &UOp, loads: [&UOp; 2]) -> UOp {
        let unit = self.chosen.unit;
        let lane = self.chosen.warp.map_or_else(|| UOp::index(0), |w| self.last[&w].clone());
        let parts = [Dim::M, Dim::N, Dim::K].map(|d| self.part(d).clone());
        let fragments = Fragments { unit, parts, lane: lane.clone() };
        let [a, b] = [0, 1].map(|o| fragments.operand(o, loads[o]));
        let sum = self.operation(reduce, &a, &b);
        // each lane goes on with the results it holds
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for end in sink.toposort().iter().filter(|n| n.op == Op::End && n.any(|m| m == reduce)) {
            let each = (0..unit.held(2)).map(|r| {
                let mine = [(reduce.clone(), sum.lane(r as u32))].into_iter().collect();
                substitute_open(&end.src[0].substitute(&mine), &fragments.places(2, r))
            });
            let gone = [self.part(Dim::M), self.part(Dim::N)];
            let ranges = end.src[1..].iter().filter(|r| !gone.contains(r)).cloned();
            map.insert(end.clone(), UOp::sink(each).end(ranges.chain([lane.clone()])));
        }
        sink.substitute(&map)
    }

    // ---- tiles

    fn in_tiles(&mut self, sink: &UOp, reduce: &UOp, loads: [&UOp; 2], rows: Rows) -> UOp {
        let unit = self.chosen.unit;
        let [a, b] = [0, 1].map(|o| self.tile_of(o, loads[o]));
        let sum = self.operation(reduce, &a, &b);
        // accumulators that are kept side by side go to tiles side by side
        let copies = |r: &&UOp| r.range_arg().is_some_and(|a| a.kind == AxisKind::Upcast);
        let mut kept: Vec<UOp> = self.last.values().filter(copies).cloned().collect();
        kept.retain(|r| reduce.ranges.contains(&id(r)));
        kept.sort_by_key(id);
        let mut src: SmallVec<[UOp; 4]> = smallvec![];
        let mut fill = Map::default();
        for r in &kept {
            let new = self.range(r.extent().as_int().unwrap_or(1), AxisKind::Upcast);
            fill.insert(id(r), new.clone());
            src.push(new);
        }
        src.insert(0, substitute_open(&sum, &fill));
        let stage = UOp::new(
            Op::Stage,
            reduce.dtype,
            src,
            Arg::Stage { space: Space::Local, id: self.next, buffers: 1 },
        );
        let element = flat([self.part(rows.row), self.part(rows.column)]);
        let place = flat(&kept).fold_mul(&UOp::index(unit.elements(2) as i64)).fold_add(&element);
        let read = [(reduce.clone(), stage.at(&place).load())].into_iter().collect();
        let sink = sink.substitute(&read);
        let walk = self.walk(&sink);
        ranges::replace(&sink, &walk, |_, n| n)[&sink].clone()
    }

    /// How what follows the sum walks a tile of results: in vectors along what is contiguous where they are stored.
    fn walk(&mut self, sink: &UOp) -> FxHashMap<u32, Replacement> {
        let [m, n] = [self.part(Dim::M).clone(), self.part(Dim::N).clone()];
        let order = sink.toposort();
        let along = |r: &UOp| {
            let stores = order.iter().filter(|s| s.op == Op::Store);
            stores
                .filter_map(|n| n.buffer_and_index())
                .filter(|(_, idx)| coefficient(idx, id(r)) == Some(1))
                .count()
        };
        let lanes = if along(&m) > along(&n) { &m } else { &n };
        let width = self.chosen.unit.accumulator.size();
        let mut map = FxHashMap::default();
        for r in [&m, &n] {
            let ranges = self.walked(r.extent().as_int().unwrap_or(1), if r == lanes { width } else { 0 });
            map.insert(id(r), Replacement { value: flat(&ranges), ranges: ranges.into() });
        }
        map
    }
    /// A loop of `n` rounds, in vectors of elements of so many bytes if that is not 0.
    fn walked(&mut self, n: i64, bytes: usize) -> Vec<UOp> {
        let most = self.plan.target.vector_bytes.checked_div(bytes).unwrap_or(0) as i64;
        let w = if n % most.max(1) == 0 && n > most { most } else { n.min(most) };
        if w < 2 || n % w != 0 {
            return vec![self.range(n, AxisKind::Loop)];
        }
        let outer = (n > w).then(|| self.range(n / w, AxisKind::Loop));
        outer.into_iter().chain([self.range(w, AxisKind::Vector)]).collect()
    }

    /// A tile of operand 0 or 1, loaded.
    fn tile_of(&mut self, operand: usize, load: &UOp) -> UOp {
        let rows = match self.chosen.unit.homes[operand] {
            Home::Tile(rows) | Home::Memory(rows) => rows,
            Home::Lanes(_) => return load.clone(),
        };
        let tile = self.plan.tiles.iter().find(|t| self.chosen.operand(t.operand) == Some(operand));
        match (tile, self.direct(load, rows)) {
            (Some(t), _) => {
                let axes: Vec<u32> = t.dims.iter().map(|d| d.axes[0].0).collect();
                self.staged(load, rows, &axes)
            }
            (None, Some(direct)) => direct,
            (None, None) => {
                let copies = |k: AxisKind| matches!(k, AxisKind::Upcast | AxisKind::Unroll);
                let axes = self.plan.axes.iter().filter(|a| copies(a.kind));
                let moves = axes.filter(|a| load.index().ranges.contains(&id(&self.last[&a.id()])));
                let mut axes: Vec<u32> = moves.map(|a| a.id()).collect();
                axes.extend(self.chosen.layout(operand).map(|d| self.chosen.parts[d as usize]));
                self.staged(load, rows, &axes)
            }
        }
    }
    /// The tile where the load reads it, if it lies there as the unit wants it.
    fn direct(&self, load: &UOp, rows: Rows) -> Option<UOp> {
        let (buf, idx) = load.buffer_and_index()?;
        let [row, column] = [self.part(rows.row), self.part(rows.column)];
        if rows.pack != 1 || idx.op == Op::Where || coefficient(idx, id(column))? != 1 {
            return None;
        }
        let stride = coefficient(idx, id(row))?;
        let origin = [row, column].map(|r| (id(r), UOp::index(0))).into_iter().collect();
        let (n, lanes) = (row.extent().as_int()? as u32, column.extent().as_int()? as u32);
        let at = substitute_open(idx, &origin);
        Some(if n == 1 { buf.at_lanes(&at, lanes) } else { buf.at_tile(&at, n, lanes, stride) }.load())
    }

    /// The tile in a stage over these axes, of which the unit's parts are the last two. Elements that share a column
    /// of a row are put together in one word.
    fn staged(&mut self, load: &UOp, rows: Rows, axes: &[u32]) -> UOp {
        let unit = self.chosen.unit;
        let outer: Vec<UOp> = axes[..axes.len() - 2].iter().map(|a| self.last[a].clone()).collect();
        let [row, column] = [self.part(rows.row).clone(), self.part(rows.column).clone()];
        let (lines, columns) = (unit.extent(rows.row) / rows.pack, unit.extent(rows.column));
        let size = rows.pack * load.dtype.size();
        let (mut fill, mut src): (Map, SmallVec<[UOp; 4]>) = (Map::default(), smallvec![]);
        for r in &outer {
            let new = self.range(r.extent().as_int().unwrap_or(1), AxisKind::Loop);
            fill.insert(id(r), new.clone());
            src.push(new);
        }
        let line = self.range(lines as i64, AxisKind::Loop);
        src.push(line.clone());
        let is_contiguous = coefficient(load.index(), id(&column)) == Some(1);
        let across = self.walked(columns as i64, if is_contiguous { size } else { 0 });
        fill.insert(id(&column), flat(&across));
        src.extend(across);
        let element = |p: usize| {
            let mut at = fill.clone();
            at.insert(id(&row), line.fold_mul(&UOp::index(rows.pack as i64)).fold_add(&UOp::index(p as i64)));
            substitute_open(load, &at)
        };
        let value = if rows.pack == 1 { element(0) } else { word((0..rows.pack).map(element)) };
        let (dtype, arg) = (value.dtype, Arg::Stage { space: Space::Local, id: self.next, buffers: 1 });
        src.insert(0, value);
        let stage = UOp::new(Op::Stage, dtype, src, arg);
        let place = flat(&outer).fold_mul(&UOp::index((lines * columns) as i64));
        let (lines, columns) = (lines as u32, columns as u32);
        let tile = match lines {
            1 => stage.at_lanes(&place, columns),
            _ => stage.at_tile(&place, lines, columns, columns as i64),
        };
        tile.load()
    }
}

/// Small elements side by side in a word of 32 bits, the first one lowest.
fn word(elements: impl Iterator<Item = UOp>) -> UOp {
    let bits = |(i, x): (usize, UOp)| {
        let (narrow, width) = if x.dtype.size() == 1 { (DType::U8, 8) } else { (DType::U16, 16) };
        let x = if x.dtype == narrow { x } else { UOp::new(Op::Bitcast, narrow, [x], Arg::None) };
        match i {
            0 => x.cast(DType::U32),
            i => x.cast(DType::U32).bin(Alu::Shl, &UOp::int(i as i64 * width, DType::U32)),
        }
    };
    let joined = elements.enumerate().map(bits).reduce(|a, b| a.bin(Alu::Or, &b));
    joined.unwrap_or_else(|| UOp::int(0, DType::U32))
}
