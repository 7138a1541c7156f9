//! Opts for a kernel that multiplies and sums what it loads again and again: matrix products and convolutions in any
//! layout, and their gradients.
//!
//! Vectors run along one axis of the result, the lane axis. A load that moves with it (a *wide* one) gives vectors, all
//! others give one value for all lanes. A tile of results stays in registers while the reduce runs:
//!
//! ```text
//! for groups of panels { pack the wide operand
//!   for the other results { copy the narrow operand, if it has gates
//!     for panels of the group { for the reduce { tile[position][vector] += narrow[position] * wide[vector] } } } }
//! ```
//! Which axis, which tile, which order: by an estimate in cycles from how loads move with axes, nothing else.

mod apply;

use super::chooser::STRIDED;
use crate::kernel::access::{coefficient, is_widened};
use crate::kernel::ranges::closed;
use crate::plan::opt::Opt;
use crate::plan::{Axis, Plan};
use frit_uop::{Arg, AxisKind, DType, Op, UOp};
use smallvec::SmallVec;

/// Results in one tile along one axis, at most.
const LONGEST: usize = 28;

/// How much of the time may be left where threads that were idle pack for themselves.
const WORTH: f64 = 0.9;
/// How much longer a way may take that cuts work into more parts, and the parts for each thread that are enough.
const EQUAL: f64 = 1.02;
const MOST_PARTS: usize = 8;
/// Slices of a shared range that one thread takes, at least.
const SLICES: f64 = 3.0;
/// What the estimate along a sum may be too low by: it knows of no masks, and of no vectors that lie across two lines.
const ROUGH: f64 = 2.0;

/// Lanes of a vector along a sum, at least.
const NARROWEST: usize = 4;

/// How far an index moves with each range it moves with, where that is a constant.
struct Steps(SmallVec<[(u32, Option<i64>); 6]>);

impl Steps {
    fn of(idx: &UOp) -> Steps {
        Steps(idx.ranges.iter().map(|r| (*r, coefficient(idx, *r))).collect())
    }
    fn moves_with(&self, origin: u32) -> bool {
        self.0.iter().any(|s| s.0 == origin)
    }
    fn step(&self, origin: u32) -> Option<i64> {
        self.0.iter().find(|s| s.0 == origin).map_or(Some(0), |s| s.1)
    }
}

struct Operand {
    /// Its place among the plan's loads.
    at: usize,
    steps: Steps,
    is_gated: bool,
    /// A copy of what it reads has no gates.
    has_windows: bool,
    /// Of an element in memory.
    bytes: usize,
    /// Those of what is multiplied: small floats become wider ones.
    held: usize,
    /// How many sums it is in.
    sums: usize,
    /// Operations that a copy of it is made by.
    made: f64,
}

impl Operand {
    fn moves_with(&self, origin: u32) -> bool {
        self.steps.moves_with(origin)
    }
    fn is_widened(&self) -> bool {
        self.held != self.bytes
    }
    /// Whether vectors along an axis are loaded, contiguous or deinterleaved.
    fn is_near(&self, lane: u32) -> bool {
        matches!(self.steps.step(lane), Some(1..=4))
    }
}

/// What factors are made of besides loads, as weights that are unpacked: the ranges it moves with, and its operations.
struct Making {
    ranges: SmallVec<[u32; 6]>,
    ops: f64,
    /// A sum of its own: those of a tile take turns, each in a register.
    is_sum: bool,
    /// The operand of which a copy holds it.
    owner: Option<usize>,
}

struct Contraction<'p, 'a> {
    plan: &'p mut Plan<'a>,
    applied: Vec<Opt>,
    /// Output and reduce axes, outermost first, with their sizes, or the most they can be.
    outputs: Vec<(u32, usize)>,
    reduced: Vec<(u32, usize)>,
    /// Sums in that loop: each has a tile of its own, and all are updated in one step.
    sums: usize,
    operands: Vec<Operand>,
    making: Vec<Making>,
    /// What is loaded and stored once a result.
    once: Vec<Steps>,
    lanes: usize,
    /// What each axis is for, once they are in order.
    ranks: Vec<u8>,
}

/// Ranks of loops: what the packed operand moves with, other results, panels of one group.
const OUTSIDE: u8 = 0;
const BETWEEN: u8 = 1;
const INSIDE: u8 = 2;

/// A way to do it.
#[derive(Clone, Debug)]
struct Choice {
    lane: u32,
    /// Vectors side by side along the lane axis.
    vectors: usize,
    /// Copies along other axes.
    tile: Vec<(u32, usize)>,
}

impl Choice {
    /// Vectors of results of one sum.
    fn of_a_sum(&self) -> usize {
        self.vectors * self.tile.iter().map(|t| t.1).product::<usize>()
    }
}

/// Choose and apply opts if the kernel is of this kind and a tile of results pays; otherwise change nothing.
pub fn choose(plan: &mut Plan) -> Option<Vec<Opt>> {
    let before = plan.clone();
    let mut c = Contraction::new(plan)?;
    let choice = c.best()?;
    match c.apply(&choice) {
        Some(()) => Some(c.applied),
        None => {
            *plan = before;
            None
        }
    }
}

/// Other lists of opts for a kernel of this kind, those that should be fastest first: places for a search to start from.
pub fn alternatives(plan: &Plan, most: usize) -> Vec<Vec<Opt>> {
    let mut all: Vec<(f64, Choice)> = vec![];
    if let Some(c) = Contraction::new(&mut plan.clone()) {
        c.each(true, |cost, choice| all.push((cost, choice)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let list = |(_, choice): &(f64, Choice)| {
        let mut plan = plan.clone();
        let mut c = Contraction::new(&mut plan)?;
        c.apply(choice)?;
        Some(c.applied)
    };
    all.iter().filter_map(list).take(most).collect()
}

/// Into how many vectors of a power of two of elements so many fall.
fn pieces(n: usize, lanes: usize) -> f64 {
    (n / lanes + (n % lanes).count_ones() as usize) as f64
}

impl<'p, 'a> Contraction<'p, 'a> {
    fn new(plan: &'p mut Plan<'a>) -> Option<Self> {
        let order = plan.ast.toposort();
        let reduces: Vec<&UOp> = order.iter().filter(|n| n.op == Op::Reduce).collect();
        let reduce = *reduces.first()?;
        let is_beside = |r: &&UOp| closed(r) == closed(reduce) && r.ranges == reduce.ranges;
        if !reduces.iter().all(is_beside)
            || order.iter().any(|n| n.op == Op::Scan)
            || plan.target.vector_bytes == 0
        {
            return None;
        }
        let most = |a: &Axis| a.extent.bounds.1.clamp(1, 1 << 40) as usize;
        let sizes = |kind: AxisKind| -> Vec<(u32, usize)> {
            plan.axes.iter().filter(|a| a.kind == kind).map(|a| (a.origin, most(a))).collect()
        };
        let (outputs, reduced) = (sizes(AxisKind::Global), sizes(AxisKind::Reduce));
        if outputs.len() + reduced.len() != plan.axes.len() || closed(reduce).len() != reduced.len() {
            return None;
        }
        let is_reduced = |n: &UOp| reduced.iter().any(|(o, _)| n.ranges.contains(o));
        let (mut operands, mut values): (Vec<Operand>, Vec<UOp>) = (vec![], vec![]);
        for (at, load) in plan.operands.iter().enumerate().filter(|(_, l)| is_reduced(l)) {
            if matches!(load.arg, Arg::Site(_)) {
                return None;
            }
            let idx = load.index();
            let is_gated = idx.op == Op::Where;
            let has_windows = is_gated && plan.has_windows(at);
            let bytes = load.dtype.size();
            let held = order.iter().find(|n| is_widened(n, load)).map_or(bytes, |n| n.dtype.size());
            let sums = reduces.iter().filter(|r| r.any(|n| n == load)).count();
            let (steps, made) = (Steps::of(idx), 0.0);
            operands.push(Operand { at, steps, is_gated, has_windows, bytes, held, sums, made });
            values.push(plan.staged(load));
        }
        // the product itself is part of the sum
        let is_made = |n: &UOp| {
            let is_converted = n.op == Op::Cast && n.input().op != Op::Load;
            (n.op.weight() > 0 || is_converted) && !matches!(n.dtype, DType::Index | DType::Bool)
        };
        let making: Vec<Making> = order
            .iter()
            .filter(|n| is_reduced(n) && is_made(n) && !reduces.iter().any(|r| r.bodies().contains(n)))
            .map(|n| {
                let (ranges, is_sum) = (n.ranges.iter().copied().collect(), n.op == Op::Dot4);
                let is_one = is_sum && plan.target.has_dot4_instruction();
                let ops = if is_one { 1.0 } else { n.op.weight().max(1) as f64 };
                let owner = values.iter().position(|v| v.op != Op::Load && v.any(|m| m == n));
                Making { ranges, ops, is_sum, owner }
            })
            .collect();
        for m in &making {
            m.owner.into_iter().for_each(|o| operands[o].made += m.ops);
        }
        let once = order
            .iter()
            .filter(|n| !is_reduced(n))
            .filter_map(|n| Some(Steps::of(n.buffer_and_index()?.1)))
            .collect();
        let sizes = reduces.iter().map(|r| r.dtype.size());
        let widest = operands.iter().map(|o| o.bytes).chain(sizes).max()?.max(4);
        let lanes = plan.target.vector_bytes / widest;
        (operands.len() > 1 && lanes > 1).then_some(Contraction {
            plan,
            applied: vec![],
            outputs,
            reduced,
            sums: reduces.len(),
            operands,
            making,
            once,
            lanes,
            ranks: vec![],
        })
    }

    /// Whether the size of an axis is known.
    fn is_fixed(&self, origin: u32) -> bool {
        self.plan.axes.iter().any(|a| a.origin == origin && a.size().is_some())
    }
    /// Whether an axis is so many at a time, whatever its size is.
    fn is_multiple(&self, origin: u32, n: usize) -> bool {
        self.is_fixed(origin) && self.size(origin).is_multiple_of(n)
    }
    fn depth(&self) -> f64 {
        self.reduced.iter().map(|r| r.1 as f64).product()
    }
    fn size(&self, origin: u32) -> usize {
        self.outputs.iter().chain(&self.reduced).find(|(o, _)| *o == origin).map_or(1, |o| o.1)
    }

    fn best(&self) -> Option<Choice> {
        let mut best: Option<(f64, Choice)> = None;
        // tiles that do not divide have edges to take care of: only where the others leave registers unused
        for uneven in [false, true] {
            if uneven
                && best.as_ref().is_some_and(|b| self.results(&b.1) * 4 > self.plan.target.registers * 3)
            {
                break;
            }
            self.each(uneven, |cost, choice| {
                if best.as_ref().is_none_or(|b| cost < b.0 * 0.999) {
                    best = Some((cost, choice));
                }
            });
        }
        let (cost, choice) = best?;
        // that of packing bytes is as rough: they are moved one by one
        let rough = if self.operands.iter().any(|o| o.bytes == 1) { 1.0 } else { ROUGH };
        (self.results(&choice) >= 6 && cost <= rough * self.along_the_sum()).then_some(choice)
    }

    /// Every choice with its estimate; those too whose tiles do not divide, if asked for.
    fn each(&self, uneven: bool, mut told: impl FnMut(f64, Choice)) {
        for &(lane, n) in &self.outputs {
            let vectors = n.div_ceil(self.lanes);
            let (wide, narrow) = (|o: &&Operand| o.moves_with(lane), |o: &&Operand| !o.moves_with(lane));
            if n < self.lanes / 2
                || !self.operands.iter().any(|o| wide(&o))
                || !self.operands.iter().any(|o| narrow(&o))
            {
                continue;
            }
            let tiles = self.tiles(lane, uneven);
            for v in (1..=vectors.min(8)).filter(|v| vectors.div_ceil(*v) * v * 9 <= vectors * 10) {
                let fits = |t: &&Vec<(u32, usize)>| {
                    self.sums * v * t.iter().map(|t| t.1).product::<usize>() + 2 <= self.plan.target.registers
                };
                for tile in tiles.iter().filter(fits) {
                    let choice = Choice { lane, vectors: v, tile: tile.clone() };
                    if let Some(cost) = self.estimate(&choice) {
                        told(cost, choice);
                    }
                }
            }
        }
    }

    /// Copies along at most two axes other than the lane axis.
    fn tiles(&self, lane: u32, uneven: bool) -> Vec<Vec<(u32, usize)>> {
        // where hardly a size divides, or others are asked for too, some that do not: rows are read again
        let rows = |o: u32| {
            let mut moving = self.operands.iter().filter(|x| x.moves_with(o));
            moving.all(|x| !x.is_gated && x.steps.step(o).is_none_or(|s| s.abs() > 8))
        };
        // or the last tile begins earlier
        let overlaps = |o: u32| {
            let mut moving = self.operands.iter().filter(|x| x.moves_with(o));
            moving.all(|x| !x.is_gated) && self.plan.can_overlap(o, LONGEST)
        };
        let factors = |(o, n): (u32, usize)| -> Vec<usize> {
            if !self.is_fixed(o) {
                return if rows(o) { (4..=8.min(n)).collect() } else { vec![] };
            }
            let exact: Vec<usize> = (2..=n.min(LONGEST)).filter(|f| n.is_multiple_of(*f)).collect();
            let few = uneven || exact.last().is_none_or(|f| *f < 4);
            match few && n > LONGEST && (rows(o) || overlaps(o)) {
                true => exact.iter().copied().filter(|f| *f < 5).chain(5..=8).collect(),
                false => exact,
            }
        };
        let axes: Vec<_> = (self.outputs.iter()).filter(|(o, _)| *o != lane && self.is_shared(*o)).collect();
        let mut all = vec![];
        for (i, a) in axes.iter().enumerate() {
            for f in factors(**a) {
                all.push(vec![(a.0, f)]);
                for b in &axes[i + 1..] {
                    all.extend(factors(**b).into_iter().map(|g| vec![(a.0, f), (b.0, g)]));
                }
            }
        }
        all
    }

    /// Whether results along an axis share what some load gives.
    fn is_shared(&self, origin: u32) -> bool {
        self.operands.iter().any(|o| !o.moves_with(origin))
            && self.operands.iter().any(|o| o.moves_with(origin))
    }

    /// Vectors of results that are held at once.
    fn results(&self, c: &Choice) -> usize {
        self.sums * c.of_a_sum()
    }

    /// How many different values of a load one tile needs at a time.
    fn copies(&self, o: &Operand, c: &Choice) -> usize {
        let vectors = if o.moves_with(c.lane) { c.vectors } else { 1 };
        vectors * c.tile.iter().filter(|t| o.moves_with(t.0)).map(|t| t.1).product::<usize>()
    }

    /// How many of them no step before had: where all steps are unrolled, those of a window share most.
    fn fresh(&self, o: &Operand, c: &Choice) -> f64 {
        let copies = self.copies(o, c) as f64;
        if !self.is_unrolled(c) {
            return copies;
        }
        let step = |axis: u32| o.steps.step(axis).filter(|k| *k != 0);
        let again = |t: &(u32, usize)| {
            let with = self.reduced.iter().find(|r| step(t.0).is_some() && step(r.0) == step(t.0));
            with.map_or(1.0, |r| (t.1 + r.1 - 1) as f64 / (t.1 * r.1) as f64)
        };
        copies * c.tile.iter().map(again).product::<f64>()
    }

    /// Whether a wide load is read from a packed copy: where it is no vector, or it would be fetched from far, through gates
    /// or out of several vectors many times.
    fn is_packed(&self, o: &Operand, c: &Choice) -> bool {
        let again: f64 = self
            .outputs
            .iter()
            .filter(|(origin, _)| !o.moves_with(*origin))
            .map(|(origin, n)| *n as f64 / c.tile.iter().find(|t| t.0 == *origin).map_or(1, |t| t.1) as f64)
            .product();
        let strided = self.reduced.iter().any(|(r, _)| o.steps.step(*r).is_none_or(|k| k > STRIDED));
        let dear = o.is_gated || o.is_widened() || o.made > 0.0 || strided || o.steps.step(c.lane) != Some(1);
        !o.is_near(c.lane) || dear && again >= 4.0 && self.can_be_packed(o)
    }

    /// Cycles for an element that is packed: copied in vectors, transposed in registers, or moved by itself.
    fn packing(&self, o: &Operand, c: &Choice) -> f64 {
        let lane = c.lane;
        let costs = self.plan.target.costs;
        // axes of the sum that are one run of memory
        let mut run = 1;
        while let Some(r) = self.reduced.iter().find(|r| r.1 > 1 && o.steps.step(r.0) == Some(run as i64)) {
            run *= r.1;
        }
        // an end that is not whole vectors has a gate of its own: windows over it have no vectors in common
        let is_vector = !o.is_gated || self.is_multiple(lane, self.lanes * c.vectors);
        let moved = match o.steps.step(lane) {
            Some(1) if is_vector => costs.packed_vector.get() / self.lanes as f64,
            _ if !o.is_gated && run >= self.lanes => costs.transpose_lane.get(),
            _ => costs.gather_lane.get(),
        };
        moved + o.made / (costs.fma_ports.get() * self.lanes as f64)
    }

    /// How often a step makes a factor of what it loads: for each vector, unless a copy holds it.
    fn times(&self, m: &Making, c: &Choice) -> f64 {
        let is_copied = |o: &Operand| if o.moves_with(c.lane) { self.is_packed(o, c) } else { o.has_windows };
        match m.ranges.contains(&c.lane) {
            _ if m.owner.is_some_and(|o| is_copied(&self.operands[o])) => 0.0,
            true => c.vectors as f64,
            false => 1.0,
        }
    }

    /// How many vectors are loaded for one of a wide load that is not packed: of stride 2, say, every second lane of two.
    fn covering(&self, o: &Operand, c: &Choice) -> f64 {
        match o.steps.step(c.lane) {
            Some(step) if o.moves_with(c.lane) && !self.is_packed(o, c) => step as f64,
            _ => 1.0,
        }
    }

    /// Whether the size of a copy is known.
    fn can_be_packed(&self, o: &Operand) -> bool {
        self.reduced.iter().all(|(r, _)| !o.moves_with(*r) || self.is_fixed(*r))
    }

    /// Cycles of one thread, roughly; `None` where the tile does not fit in registers.
    fn estimate(&self, c: &Choice) -> Option<f64> {
        let (lanes, costs) = (self.lanes, self.plan.target.costs);
        let results = self.results(c);
        let (wide, narrow): (Vec<&Operand>, Vec<&Operand>) =
            self.operands.iter().partition(|o| o.moves_with(c.lane));
        let count = |of: &[&Operand]| of.iter().map(|o| self.copies(o, c)).sum::<usize>();
        let (vectors, values) = (count(&wide), count(&narrow));
        let loads: f64 = self.operands.iter().map(|o| self.fresh(o, c) * self.covering(o, c)).sum();
        let deinterleaved: f64 = wide.iter().map(|o| self.fresh(o, c) * (self.covering(o, c) - 1.0)).sum();
        // small floats are widened where they are packed, else in each step; one for all lanes is spread over them then
        let widened = |o: &Operand| match o.is_widened() && !(o.moves_with(c.lane) && self.is_packed(o, c)) {
            true => self.fresh(o, c) * if o.moves_with(c.lane) { 1.0 } else { 2.0 },
            false => 0.0,
        };
        let shuffles = deinterleaved + self.operands.iter().map(widened).sum::<f64>();
        // the fewer of the two kinds stay while the others come and go
        let lost = |o: &&&Operand| self.is_packed(o, c) && !self.can_be_packed(o);
        let has_sums = self.making.iter().any(|m| {
            m.is_sum && m.ranges.contains(&c.lane) && c.tile.iter().all(|t| m.ranges.contains(&t.0))
        });
        // the operands of one turn then, of which there are several
        let most = |of: &[&Operand]| of.iter().map(|o| self.copies(o, c)).max().unwrap_or(0);
        let held = match has_sums {
            true => 2 * results + most(&wide).min(most(&narrow)),
            false => results + vectors.min(values),
        };
        if held + 1 > self.plan.target.registers || wide.iter().any(|o| lost(&o)) {
            return None;
        }
        let depth = self.depth();
        let padded = self.size(c.lane).div_ceil(lanes * c.vectors) * lanes * c.vectors;
        let is_whole = self.is_multiple(c.lane, lanes * c.vectors);
        let all: f64 = self.outputs.iter().map(|o| o.1 as f64).product();
        let all = all / self.size(c.lane) as f64 * padded as f64;
        let more = |t: &(u32, usize)| match (self.size(t.0), self.is_fixed(t.0)) {
            (n, true) => (n.div_ceil(t.1) * t.1) as f64 / n as f64,
            // of any size up to this the last tile is half full
            (n, false) => 1.0 + (t.1 - 1) as f64 / (n + 1) as f64,
        };
        let all = all * c.tile.iter().map(more).product::<f64>();
        let rounds = all / (c.of_a_sum() * lanes) as f64;
        let panel = depth * (vectors * lanes * 4) as f64;
        let far =
            if panel > self.plan.target.caches[0] as f64 / 2.0 { (vectors * lanes * 4) as f64 } else { 0.0 };
        let is_bare =
            |o: &&&Operand| if o.moves_with(c.lane) { !self.is_packed(o, c) } else { !o.has_windows };
        let gated = wide.iter().chain(&narrow).filter(|o| o.is_gated).filter(is_bare);
        let gates: f64 = gated.map(|o| self.fresh(o, c) * self.covering(o, c)).sum();
        // each distinct cache line adds L1 and TLB pressure, more so where every step of the reduce has lines of its own
        // that fall into the same sets, or are more than fit
        let innermost = self.reduced.last().map_or(0, |r| r.0);
        let (mut lines, mut brought, mut fills) = (0.0, values as f64 * 4.0, 0.0);
        for o in &narrow {
            let apart = |t: &&(u32, usize)| o.steps.step(t.0).is_none_or(|k| k.abs() > 8);
            let mine = c.tile.iter().filter(|t| o.moves_with(t.0)).filter(apart);
            let mine = mine.map(|t| t.1).product::<usize>() as f64;
            let stride = o.steps.step(innermost).map_or(0, i64::unsigned_abs) as usize * o.bytes;
            let staged = o.has_windows;
            let is_far =
                stride >= costs.line && depth * costs.line as f64 > self.plan.target.caches[0] as f64;
            lines += mine
                * match (stride >= costs.set_conflict || is_far) && !staged {
                    true => costs.conflicting_line.get(),
                    false => costs.near_line.get(),
                };
            if stride >= costs.line && !staged {
                brought += mine * costs.line as f64;
                fills += mine + (self.copies(o, c) * o.bytes) as f64 / costs.line as f64;
            }
        }
        let made = self.made(&c.tile, |m| self.times(m, c));
        let step = [
            (results as f64 + shuffles + made) / costs.fma_ports.get(),
            // a line of a narrow operand that comes in takes the turn of a load
            (loads + fills) / costs.load_ports.get(),
            (results as f64 + shuffles + made + self.loaded(c)) / costs.issue_width.get(),
            (far + brought) / costs.l2_bytes_per_cycle.get(),
            costs.fma_latency.get(),
        ];
        let step = step.into_iter().fold(0.0, f64::max)
            + costs.masked_load.get() * gates
            + costs.loop_overhead.get()
            + lines;
        let ragged = if is_whole { 1.0 } else { costs.masked_loop.get() };
        let mut cost = rounds * depth * step * ragged * self.idle(c);
        for o in wide.iter().filter(|o| self.is_packed(o, c)) {
            let others =
                self.outputs.iter().chain(&self.reduced).filter(|(x, _)| *x != c.lane && o.moves_with(*x));
            let elements = padded as f64 * others.map(|x| x.1 as f64).product::<f64>();
            cost += elements * self.packing(o, c);
        }
        for steps in &self.once {
            let times: f64 = steps.0.iter().map(|(r, _)| self.size(*r) as f64).product();
            let beside = c.tile.iter().find(|t| steps.step(t.0) == Some(1));
            cost += times
                * match (steps.step(c.lane), beside) {
                    (Some(0), _) if !steps.moves_with(c.lane) => costs.result_scalar.get(),
                    (Some(1), _) => costs.result_vector.get() / lanes as f64,
                    (_, Some(t)) => {
                        let stored = costs.partial_store.get() * pieces(t.1, lanes) / t.1 as f64;
                        costs.transpose_lane.get() + stored
                    }
                    // lanes that are pages apart fall into the same sets, and each line takes one of them at a time
                    (apart, None) => {
                        let bytes = apart.unwrap_or(0).unsigned_abs() as usize
                            * self.plan.target.vector_bytes
                            / lanes;
                        let line =
                            if bytes >= costs.set_conflict { costs.conflicting_line.get() } else { 0.0 };
                        costs.gather_lane.get() + line
                    }
                };
        }
        Some(cost)
    }

    /// How much longer it takes because threads share pieces that are not equally many for each: groups of packed panels, cut
    /// along another axis where that divides ([`Self::spread`]).
    fn idle(&self, c: &Choice) -> f64 {
        let is_panel = |o: &Operand| o.moves_with(c.lane) && self.is_packed(o, c);
        if !self.operands.iter().any(is_panel) {
            return 1.0;
        }
        let threads = self.plan.target.threads.max(1);
        let tiles = |o: &(u32, usize)| o.1.div_ceil(c.tile.iter().find(|t| t.0 == o.0).map_or(1, |t| t.1));
        let beside = self.beside(c.lane);
        let panels = self.size(c.lane).div_ceil(self.lanes * c.vectors);
        let (outside, others): (Vec<_>, Vec<_>) =
            self.outputs.iter().filter(|o| o.0 != c.lane).partition(|o| beside.contains(&o.0));
        let pieces = panels * outside.iter().copied().map(&tiles).product::<usize>();
        let idle = |n: usize| (n.div_ceil(threads) * threads) as f64 / n as f64;
        let can_cut = |parts: &usize| others.iter().any(|o| tiles(o).is_multiple_of(*parts));
        let parts = (1..=threads).filter(|p| *p == 1 || !self.has_copies(c) && can_cut(p));
        parts.map(|p| idle(pieces * p)).fold(f64::INFINITY, f64::min)
    }

    /// Cycles with vectors along the sum instead, whose lanes are added up once a result: nothing is packed, so that is less
    /// where there are few results for what is read.
    fn along_the_sum(&self) -> f64 {
        // what stays where it is, as the scale of a block, is one value for all lanes
        let is_near = |o: &Operand, r: u32| !o.is_gated && (o.is_near(r) || !o.moves_with(r));
        let fits = |r: &&(u32, usize)| r.1 >= NARROWEST && self.operands.iter().all(|o| is_near(o, r.0));
        let along = self.reduced.iter().filter(fits).map(|(r, n)| self.along(*r, *n));
        along.fold(f64::INFINITY, f64::min)
    }
    /// The same along one axis of the sum.
    fn along(&self, axis: u32, n: usize) -> f64 {
        let (lanes, costs) = (self.lanes.min(1 << n.ilog2()), self.plan.target.costs);
        let masked = if n.is_multiple_of(lanes) { 1.0 } else { costs.masked_vector.get() };
        let steps = self.depth() / n as f64 * n.div_ceil(lanes) as f64 * masked;
        let all: f64 = self.outputs.iter().map(|o| o.1 as f64).product();
        let step = |tile: &Vec<(u32, usize)>| {
            let of_a_sum = tile.iter().map(|t| t.1).product::<usize>();
            let results = self.sums * of_a_sum;
            let copies =
                |o: &Operand| tile.iter().filter(|t| o.moves_with(t.0)).map(|t| t.1).product::<usize>();
            let kept = self.operands.iter().map(copies).min().unwrap_or(0);
            if results + kept + 1 > self.plan.target.registers {
                return f64::INFINITY;
            }
            // of a stride of two, say, every second lane of two vectors
            let covering = |o: &Operand| o.steps.step(axis).map_or(1, |k| k.max(1)) as usize;
            let loads = self.operands.iter().map(|o| copies(o) * covering(o)).sum::<usize>() as f64;
            let shuffled = |o: &Operand| copies(o) * (covering(o) - 1 + usize::from(o.is_widened()));
            let shuffles = self.operands.iter().map(shuffled).sum::<usize>() as f64;
            // what stays along the vectors is made once for all of them
            let vectors = n.div_ceil(lanes) as f64;
            let made = self.made(tile, |m| if m.ranges.contains(&axis) { 1.0 } else { n as f64 / vectors });
            let cycles = [
                (results as f64 + shuffles + made) / costs.fma_ports.get(),
                loads / costs.load_ports.get(),
                (results as f64 + shuffles + made + loads) / costs.issue_width.get(),
                costs.fma_latency.get(),
            ];
            let cycles = cycles.into_iter().fold(0.0, f64::max) + costs.loop_overhead.get();
            cycles / of_a_sum as f64
        };
        let least = self.tiles(u32::MAX, false).iter().map(step).fold(f64::INFINITY, f64::min);
        all * (steps * least + costs.gather_lane.get() * (self.sums * lanes) as f64)
    }

    /// Operations of one step that make factors for a tile, each as often as `times` says; what stays along an axis of the sum
    /// is made once for all of it.
    fn made(&self, tile: &[(u32, usize)], times: impl Fn(&Making) -> f64) -> f64 {
        let of = |m: &Making| {
            let moves = |origin: u32| m.ranges.contains(&origin);
            let copies = tile.iter().filter(|t| moves(t.0)).map(|t| t.1 as f64).product::<f64>();
            let stays = self.reduced.iter().filter(|r| !moves(r.0)).map(|r| r.1 as f64).product::<f64>();
            m.ops * copies * times(m) / stays
        };
        self.making.iter().map(of).sum()
    }

    /// Loads of one step that are instructions of their own: what one multiplication uses is its operand in memory.
    fn loaded(&self, c: &Choice) -> f64 {
        let has_broadcasts = self.plan.target.costs.has_broadcast_operands;
        let is_operand =
            |o: &&Operand| has_broadcasts && !o.is_widened() && self.copies(o, c) == c.of_a_sum() * o.sums;
        let loaded = self.operands.iter().filter(|o| !is_operand(o));
        loaded.map(|o| self.fresh(o, c) * self.covering(o, c)).sum()
    }
}
