//! How the warps of a block share a product that a matrix unit computes: what each has of the results, and what they copy to
//! local memory for each other, ahead of the rounds that use it.
//!
//! ```text
//! for blocks of m, n { for rounds of k { copy A, B of a later round;  warps of 64 x 64 { for 16 of k { 4 x 8 operations } } } }
//! ```
//! Which shape: the least of an estimate in cycles over all of them.

use super::ways::{Applied, Ways};
use crate::plan::Plan;
use crate::plan::opt::{Layout, Opt};
use crate::plan::stage::MOST_ADDED;
use frit_abi::MatrixUnit;
use frit_abi::target::Grid;
use frit_uop::{AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashSet;

/// Operations of a warp along m and n.
const OPERATIONS: [[usize; 2]; 8] = [[4, 8], [4, 4], [2, 8], [2, 4], [1, 8], [1, 4], [2, 2], [1, 1]];
/// Warps of a block along m and n.
const WARPS: [[usize; 2]; 10] =
    [[2, 4], [4, 2], [2, 2], [1, 4], [4, 1], [1, 8], [8, 1], [1, 2], [2, 1], [1, 1]];
/// Bytes of a row of what a round copies along k, at most, and buffers for rounds, at most.
const DEPTHS: [usize; 3] = [128, 64, 32];
const BUFFERS: [u8; 4] = [4, 3, 2, 1];
/// Cycles of a round that lanes wait for each other, and of a block before its first round.
const MEETING: f64 = 60.0;
const BEGIN: f64 = 2000.0;
/// Of the cycles of a round's copies, how many show beside what is computed.
const CONTENTION: f64 = 0.25;
/// Warps of a scheduler that hide the latency of plain code.
const HIDING: f64 = 4.0;
/// Instructions of a function that the machine has none for.
const FUNCTION: usize = 64;
/// Times that a round waits so where copies have less than a whole round to arrive.
const EXPOSED: f64 = 8.0;

/// Shapes that are tried until one is legal.
const TRIED: usize = 4;

/// A shape of blocks.
#[derive(Clone, Copy)]
struct Shape {
    /// Operations of a warp, and warps of a block, along m and n.
    operations: [usize; 2],
    warps: [usize; 2],
    /// Operations along k in a round.
    depth: usize,
    buffers: u8,
}

impl Shape {
    /// All there are for a unit, of blocks that fit.
    fn all(ways: &Ways, grid: &Grid) -> Vec<Shape> {
        let (unit, mut shapes) = (&ways.unit, vec![]);
        let held = unit.registers / unit.held(2);
        for operations in OPERATIONS.into_iter().filter(|[m, n]| m * n <= held) {
            for warps in WARPS {
                for bytes in DEPTHS {
                    let depth = bytes / (unit.size[2] * unit.operands[0].size());
                    for buffers in BUFFERS {
                        let shape = Shape { operations, warps, depth, buffers };
                        // rows may become longer, so that lanes meet in few banks
                        let bytes = shape.bytes(ways) * buffers as usize;
                        let bytes = bytes + bytes / MOST_ADDED;
                        let lanes = warps[0] * warps[1] * grid.warp as usize;
                        if depth > 0 && bytes <= grid.local_bytes && lanes <= grid.max_block as usize {
                            shapes.push(shape);
                        }
                    }
                }
            }
        }
        shapes
    }
    /// Rows, columns and depth of a block.
    fn size(&self, ways: &Ways) -> [usize; 3] {
        let [m, n, k] = ways.unit.size;
        let [a, b] = [0, 1].map(|d| self.operations[d] * self.warps[d]);
        [m * a, n * b, k * self.depth]
    }
    /// Bytes of the factors that a round copies.
    fn bytes(&self, ways: &Ways) -> usize {
        let [m, n, k] = self.size(ways);
        k * (m * ways.unit.operands[0].size() + n * ways.unit.operands[1].size())
    }
    /// An estimate of the cycles that all blocks take.
    fn cycles(&self, ways: &Ways, grid: &Grid, batches: usize, after: &After) -> f64 {
        let ([m, n, k], p) = (self.size(ways), &grid.processors);
        let count = |d: usize, part: usize| ways.sizes[d].div_ceil(part) as f64;
        let blocks = count(0, m) * count(1, n) * batches as f64;
        let warps = (self.warps[0] * self.warps[1]) as f64;
        let [a, b] = [0, 1].map(|d| (self.operations[d] * ways.unit.size[d]) as f64);
        let read = (a * ways.unit.operands[0].size() as f64 + b * ways.unit.operands[1].size() as f64)
            * k as f64
            / p.local_bandwidth as f64;
        let computed = a * b * k as f64 / ways.unit.rate as f64;
        let copied = self.bytes(ways) as f64 / p.far_bandwidth as f64;
        // what one block waits for another computes
        let lanes = warps as usize * grid.warp as usize;
        let held = self.bytes(ways) * self.buffers as usize;
        let registers = (self.operations[0] * self.operations[1] * ways.unit.held(2) + 64) * lanes;
        let resident = (p.local_bytes / held.max(1))
            .min(p.registers as usize / registers)
            .min(p.lanes as usize / lanes)
            .max(1) as f64;
        let waits = if self.buffers > 2 { MEETING } else { MEETING * EXPOSED } / resident;
        let round = (warps * read.max(computed)).max(copied) + CONTENTION * copied + waits;
        let waves = (blocks / p.count as f64).ceil();
        // few warps leave units idle
        let busy = (warps * resident.min(waves) / p.schedulers as f64).min(1.0);
        // plain code waits for itself where few warps take turns
        let hidden = (warps * resident / (HIDING * p.schedulers as f64)).min(1.0);
        let results = (m * n) as f64 * after.cycles(grid) / hidden;
        waves * (count(2, k) * round / busy + (BEGIN + results) / resident)
    }
}

/// What happens to an element of the result after the sum.
struct After {
    instructions: usize,
    /// That are loaded and stored.
    bytes: usize,
}

impl After {
    fn of(plan: &Plan, ways: &Ways) -> After {
        let mut after = After { instructions: 0, bytes: 0 };
        // what is made of the sum
        let mut results: FxHashSet<UOp> = FxHashSet::default();
        for n in plan.ast.toposort() {
            let is_result = n.src.iter().any(|s| s.op == Op::Reduce || results.contains(s));
            if is_result {
                results.insert(n.clone());
            }
            match (n.op, n.op.alu()) {
                (_, Some(alu)) if is_result && n.dtype != DType::Bool => {
                    let is_there = plan.target.supports(alu, n.dtype);
                    after.instructions += if is_there { 1 } else { FUNCTION };
                }
                (Op::Store, _) => after.bytes += n.src[1].dtype.size(),
                (Op::Load, _) if ways.origins[..2].iter().all(|o| n.index().ranges.contains(o)) => {
                    after.bytes += n.dtype.size();
                }
                _ => {}
            }
        }
        after
    }
    fn cycles(&self, grid: &Grid) -> f64 {
        let p = &grid.processors;
        self.instructions as f64 / (p.schedulers * grid.warp) as f64
            + self.bytes as f64 / p.far_bandwidth as f64
    }
}

/// An estimate of the cycles that products take whose results are stored in so many bytes, in blocks of the best shape.
pub fn cycles(unit: MatrixUnit, sizes: [usize; 3], batches: usize, bytes: usize, grid: &Grid) -> f64 {
    let (ways, after) =
        (Ways { unit, origins: [0; 3], sizes, kept: [1; 2] }, After { instructions: 0, bytes });
    let all = Shape::all(&ways, grid);
    all.iter().map(|s| s.cycles(&ways, grid, batches, &after)).fold(f64::INFINITY, f64::min)
}

/// All shapes, the one with the least estimate first.
fn ranked(ways: &Ways, plan: &Plan, batches: usize) -> Vec<Shape> {
    let Some(grid) = plan.target.grid.as_ref() else { return vec![] };
    let (mut shapes, after) = (Shape::all(ways, grid), After::of(plan, ways));
    let cycles = |s: &Shape| s.cycles(ways, grid, batches, &after);
    shapes.sort_by(|a, b| cycles(a).total_cmp(&cycles(b)));
    shapes
}

/// Opts for a block of warps, applied; nothing where none are legal.
pub fn apply(ways: &Ways, done: &mut Applied, batches: usize) -> Option<()> {
    let before = (done.plan.clone(), done.opts.clone());
    for shape in ranked(ways, done.plan, batches).iter().take(TRIED) {
        if applied(ways, done, shape).is_some() {
            return Some(());
        }
        (*done.plan, done.opts) = before.clone();
    }
    None
}

/// Opts for the best shapes after the first.
pub fn alternatives(ways: &Ways, plan: &Plan, batches: usize, most: usize) -> Vec<Vec<Opt>> {
    let opts = |shape: &Shape| {
        let mut trial = plan.clone();
        let mut done = Applied { plan: &mut trial, opts: vec![] };
        applied(ways, &mut done, shape).map(|()| done.opts)
    };
    ranked(ways, plan, batches).iter().skip(1).filter_map(opts).take(most).collect()
}

fn applied(ways: &Ways, done: &mut Applied, shape: &Shape) -> Option<()> {
    for (d, n) in shape.size(ways).into_iter().enumerate() {
        if !ways.sizes[d].is_multiple_of(n) {
            let axis = done.find(ways.origins[d], None)?;
            done.take(Opt::Pad { axis, n })?;
        }
    }
    ways.take_unit(done)?;
    for d in 0..2 {
        for (n, kind) in [(shape.operations[d], AxisKind::Upcast), (shape.warps[d], AxisKind::Local)] {
            if n > 1 {
                let axis = done.find(ways.origins[d], Some(AxisKind::Global))?;
                done.take(Opt::Split { axis, n, kind, inner: true })?;
            }
        }
    }
    let axis = done.find(ways.origins[2], Some(AxisKind::Reduce))?;
    let rounds = done.plan.axes[axis].size()? / shape.depth;
    if shape.depth > 1 && rounds > 1 {
        done.take(Opt::Split { axis, n: shape.depth, kind: AxisKind::Reduce, inner: true })?;
    }
    let at = axis + usize::from(rounds > 1);
    if shape.depth > 1 {
        done.take(Opt::Split { axis: at, n: shape.depth, kind: AxisKind::Unroll, inner: true })?;
    }
    for operand in done.plan.matrix.as_ref()?.operands {
        let stage =
            |buffers| Opt::Stage { operand, at, space: Space::Local, layout: Layout::LoopOrder, buffers };
        done.take(stage(shape.buffers)).or_else(|| done.take(stage(1)))?;
    }
    Some(())
}
