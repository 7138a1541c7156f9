//! Loads that opts stage become loads of a `Stage`: a copy of what they read, filled over ranges of its own.
//!
//! ```text
//! Load(p[f(i)])   ->   Load(Stage(Load(p[f(u)]), u)[i])
//! ```
//! What is made of them element by element is made while the copy is filled.

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open, with_index};
use crate::pass::Ctx;
use crate::plan::Plan;
use crate::plan::axes::{Dim, Tile};
use crate::plan::opt::Order;
use frit_abi::matrix::Home;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Vectors of a row that a fill copies at once, at most.
const AT_ONCE: i64 = 8;

/// The pass. Operands that a matrix unit takes from tiles are staged with its operation.
pub fn stage(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let plan = ctx.plan()?;
    let (last, mut next) = (plan.ranges(), plan.axes.len() as u32);
    let (mut staged, mut loads): (FxHashMap<UOp, UOp>, FxHashMap<UOp, UOp>) = Default::default();
    for (id, t) in plan.tiles.iter().enumerate().filter(|(_, t)| !is_tile_operand(plan, t.operand)) {
        let load = &plan.operands[t.operand];
        let (value, dtype) = (t.value.clone(), t.value.dtype);
        let fill = Fill::new(plan, load, t, &last, &mut next);
        let (src, place) = fill.finish();
        let arg = Arg::Stage { space: t.space, id: id as u32, buffers: t.buffers };
        let stage = UOp::new(Op::Stage, dtype, src, arg);
        let at = std::iter::once(stage).chain(place).collect::<SmallVec<[UOp; 4]>>();
        let copy = UOp::new(Op::Index, dtype, at, Arg::None).load();
        loads.insert(load.clone(), copy.clone());
        staged.insert(value, copy);
    }
    if staged.is_empty() {
        return Ok(sink.clone());
    }
    plan.follow(|n| loads.get(n).or(staged.get(n)).cloned().unwrap_or_else(|| n.substitute(&staged)));
    Ok(sink.substitute(&staged))
}

/// Whether a load is an operand of the matrix unit that has it in tiles.
fn is_tile_operand(plan: &Plan, load: usize) -> bool {
    let home = plan.matrix.as_ref().and_then(|m| Some(m.unit.homes[m.operand(load)?]));
    matches!(home, Some(Home::Tile(_) | Home::Memory(_)))
}

fn id(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}

/// How a tile is filled.
struct Fill<'a> {
    plan: &'a Plan<'a>,
    load: &'a UOp,
    tile: &'a Tile,
    /// The range of each axis, by its placeholder's id.
    last: &'a FxHashMap<u32, UOp>,
    /// The first range id that is free.
    next: &'a mut u32,
    /// The ranges it is filled over, and what they are of the load's own.
    ranges: SmallVec<[UOp; 4]>,
    values: FxHashMap<u32, UOp>,
    /// Where there is something to copy.
    inside: Option<UOp>,
}

impl<'a> Fill<'a> {
    fn new(
        plan: &'a Plan<'a>,
        load: &'a UOp,
        tile: &'a Tile,
        last: &'a FxHashMap<u32, UOp>,
        next: &'a mut u32,
    ) -> Self {
        let (ranges, values, inside) = (smallvec![], FxHashMap::default(), None);
        Fill { plan, load, tile, last, next, ranges, values, inside }
    }

    fn range(&mut self, extent: i64, kind: AxisKind) -> UOp {
        if extent == 1 {
            return UOp::index(0);
        }
        *self.next += 1;
        let r = UOp::range(&UOp::index(extent), *self.next - 1, kind);
        self.ranges.push(r.clone());
        r
    }
    fn lanes(&self) -> i64 {
        self.plan.target.lanes(self.tile.value.dtype) as i64
    }
    /// Whether it is filled in vectors already.
    fn has_vector(&self) -> bool {
        self.ranges.iter().any(|r| r.range_arg().is_some_and(|a| a.kind == AxisKind::Vector))
    }
    /// A row of `n` elements, in vectors.
    fn vectors(&mut self, n: i64) -> UOp {
        let lanes = self.lanes();
        let row = self.range(n / lanes, AxisKind::Loop);
        row.fold_mul(&UOp::index(lanes)).fold_add(&self.range(lanes, AxisKind::Vector))
    }

    /// The value and the ranges of the stage, and where in it the load's own element is: in each dimension on a grid, whose
    /// lanes decide how long a row is, else as one number.
    fn finish(mut self) -> (SmallVec<[UOp; 4]>, SmallVec<[UOp; 4]>) {
        let (dims, run) = (&self.tile.dims, self.tile.run.clone());
        let (mut place, mut places) = (UOp::index(0), SmallVec::new());
        for (at, d) in dims.iter().enumerate() {
            let mine = d.axes.iter().fold(UOp::index(d.offset), |i, (axis, step)| {
                i.fold_add(&self.last[axis].fold_mul(&UOp::index(*step)))
            });
            place = place.fold_mul(&UOp::index(d.extent)).fold_add(&mine);
            places.extend((d.extent > 1).then_some(mine));
            match &d.axes[..] {
                [(axis, _), ..] if run.as_ref().is_some_and(|r| r.contains(&at)) => {
                    self.run(*axis, run.clone().filter(|r| r.end == at + 1))
                }
                [(axis, _)] => self.single(*axis, d, run.is_some() && at + 1 == dims.len()),
                _ => self.window(d),
            }
        }
        let mut value = substitute_open(&self.tile.value, &self.values);
        let mut load = substitute_open(self.load, &self.values);
        if let Some(gate) = &self.inside {
            let loads = value.toposort().into_iter().filter(|n| n.op == Op::Load && !n.ranges.is_empty());
            let gated = loads.filter_map(|l| {
                let (_, idx) = l.buffer_and_index()?;
                Some((l.clone(), with_index(&l, gate.select(idx, &UOp::invalid()))))
            });
            let gated: FxHashMap<UOp, UOp> = gated.collect();
            (value, load) = (value.substitute(&gated), load.substitute(&gated));
        }
        let packed = self.plan.ast.any(|n| n.op == Op::Reduce) && self.tile.order == Order::LoopOrder;
        if !packed && self.plan.target.grid.is_none() {
            value = in_order_of_memory(value, &load, &mut self.ranges);
        }
        let is_apart =
            self.plan.target.grid.is_some() && places.len() == self.ranges.len() && places.len() > 1;
        self.ranges.insert(0, value);
        (self.ranges, if is_apart { places } else { smallvec![place] })
    }

    /// A run of memory is walked as one, in vectors that are transposed; with the last of its dimensions.
    fn run(&mut self, axis: u32, run: Option<std::ops::Range<usize>>) {
        let value = match run {
            Some(run) => {
                let dims = &self.tile.dims[run];
                let used = dims.iter().map(|d| self.last[&d.axes[0].0].src[0].bounds.1 as i64).product();
                let extent = dims.iter().map(|d| d.extent).product();
                let u = self.vectors(extent);
                self.end_at(&u, used, extent);
                u
            }
            None => UOp::index(0),
        };
        self.values.insert(id(&self.last[&axis]), value);
    }
    /// Of so many places of a row, only the first are copied.
    fn end_at(&mut self, place: &UOp, used: i64, extent: i64) {
        if used < extent {
            let gate = place.lt(&UOp::index(used));
            self.inside = Some(self.inside.take().map_or(gate.clone(), |i| i.and_(&gate)));
        }
    }

    /// One axis: in vectors where the load is contiguous along copies, else as a plain loop.
    fn single(&mut self, axis: u32, d: &Dim, across: bool) {
        let main = &self.last[&axis];
        // digits of an axis whose last tile begins earlier are its parts
        let contiguous = self
            .load
            .buffer_and_index()
            .is_some_and(|(_, idx)| coefficient(&simplify(idx), id(main)) == Some(1));
        let copies = main.range_arg().is_some_and(|a| a.kind.is_side_by_side())
            && self.plan.target.vector_bytes > 0
            && (contiguous || across);
        let at_once =
            self.tile.order == Order::RowMajor && d.stride == Some(self.lanes()) && d.extent <= AT_ONCE;
        let lanes = self.plan.target.vector_bytes / self.tile.value.dtype.size().max(1);
        let fits = (d.extent as u64).is_power_of_two() && d.extent <= lanes as i64;
        let kind = match copies {
            true if fits && !across && !self.has_vector() => AxisKind::Vector,
            true => AxisKind::Upcast,
            false if at_once => AxisKind::Upcast,
            false => AxisKind::Loop,
        };
        let range = self.range(d.extent, kind);
        self.values.insert(id(&self.last[&axis]), range);
    }

    /// Axes that read overlapping windows: every element once, in whole vectors where they are contiguous.
    fn window(&mut self, d: &Dim) {
        let [(axis, step), others @ ..] = &d.axes[..] else { return };
        let reach = |(a, s): &(u32, i64)| s.abs() * (self.last[a].src[0].bounds.1 as i64 - 1);
        let used: i64 = 1 + d.axes.iter().map(reach).sum::<i64>();
        let lanes = self.lanes();
        let u = match d.stride == Some(1) && lanes > 1 && d.extent % lanes == 0 {
            true => self.vectors(d.extent),
            false => self.range(d.extent, AxisKind::Loop),
        };
        self.end_at(&u, used, d.extent);
        self.values.extend(others.iter().map(|(a, _)| (id(&self.last[a]), UOp::index(0))));
        let value = u.fold_add(&UOp::index(-d.offset)).fold_mul(&UOp::index(*step));
        self.values.insert(id(&self.last[axis]), value);
    }
}

/// Number the ranges over which a tile is filled so that the one with the widest step is outside: long runs of memory
/// are read one after the other. (What a reduce reads is packed in the order in which it will be wanted.)
fn in_order_of_memory(value: UOp, load: &UOp, fill: &mut [UOp]) -> UOp {
    let Some((_, idx)) = load.buffer_and_index() else { return value };
    let mut ids: Vec<u32> = fill.iter().map(id).collect();
    ids.sort_unstable();
    let step = |r: &UOp| coefficient(idx, id(r)).map_or(u64::MAX, i64::unsigned_abs);
    let mut nest: Vec<usize> = (0..fill.len()).collect();
    nest.sort_by_key(|&i| std::cmp::Reverse(step(&fill[i])));
    let mut names: FxHashMap<u32, UOp> = FxHashMap::default();
    for (&i, &new) in nest.iter().zip(&ids) {
        let kind = fill[i].range_arg().map_or(AxisKind::Loop, |a| a.kind);
        let r = UOp::range(&fill[i].src[0], new, kind);
        names.insert(id(&fill[i]), r.clone());
        fill[i] = r;
    }
    substitute_open(&value, &names)
}
