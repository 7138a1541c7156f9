//! Shapes of the blocks in which a grid's matrix unit computes products, and an estimate of the cycles they take.

use super::stage::MOST_ADDED;
use frit_abi::MatrixUnit;
use frit_abi::target::Grid;

/// Operations of a warp along m and n.
const OPERATIONS: [[usize; 2]; 8] = [[4, 8], [4, 4], [2, 8], [2, 4], [1, 8], [1, 4], [2, 2], [1, 1]];
/// Warps of a block along m and n.
const WARPS: [[usize; 2]; 10] =
    [[2, 4], [4, 2], [2, 2], [1, 4], [4, 1], [1, 8], [8, 1], [1, 2], [2, 1], [1, 1]];
/// Bytes of a row of what a round copies along k, at most, and buffers for rounds, at most.
const DEPTHS: [usize; 3] = [128, 64, 32];
const BUFFERS: [u8; 6] = [8, 6, 4, 3, 2, 1];
/// Cycles of a round that lanes wait for each other, and of a block before its first round.
const MEETING: f64 = 60.0;
const BEGIN: f64 = 2000.0;
/// Cycles from when a round's copies begin until the first of them arrives: all rounds that are copied ahead share them.
const LATENCY: f64 = 1000.0;
/// Of the cycles of a round's copies, how many show beside what is computed.
const CONTENTION: f64 = 0.25;
/// Warps of a scheduler that hide the latency of plain code, which has many elements of a lane to go on with.
const HIDING: f64 = 2.0;
/// Bytes that a lane reads of a row at once.
const READ: usize = 16;
/// Registers of a lane besides its sums and factors.
const OTHERS: usize = 32;
/// Times that a round waits so where copies have less than a whole round to arrive.
const EXPOSED: f64 = 8.0;

/// Products that a unit computes.
pub struct Products {
    pub unit: MatrixUnit,
    /// Rows, columns and depth of one.
    pub sizes: [usize; 3],
    pub batches: usize,
    pub after: After,
}

impl Products {
    /// All shapes of blocks with their cycles, the least first.
    pub fn ranked(&self, grid: &Grid) -> Vec<(Shape, f64)> {
        let shapes = Shape::all(&self.unit, grid).into_iter();
        let mut all: Vec<(Shape, f64)> = shapes.map(|s| (s, s.cycles(self, grid))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all
    }
}

/// A shape of blocks.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Operations of a warp, and warps of a block, along m and n.
    pub operations: [usize; 2],
    pub warps: [usize; 2],
    /// Operations along k in a round.
    pub depth: usize,
    pub buffers: u8,
}

impl Shape {
    /// All there are for a unit, of blocks that fit.
    fn all(unit: &MatrixUnit, grid: &Grid) -> Vec<Shape> {
        let mut shapes = vec![];
        let held = unit.registers / unit.held(2);
        for operations in OPERATIONS.into_iter().filter(|[m, n]| m * n <= held) {
            for warps in WARPS {
                for bytes in DEPTHS {
                    let depth = bytes / (unit.size[2] * unit.operands[0].size());
                    for buffers in BUFFERS {
                        let shape = Shape { operations, warps, depth, buffers };
                        // rows may become longer, so that lanes meet in few banks
                        let bytes = shape.bytes(unit) * buffers as usize;
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
    pub fn size(&self, unit: &MatrixUnit) -> [usize; 3] {
        let [m, n, k] = unit.size;
        let [a, b] = [0, 1].map(|d| self.operations[d] * self.warps[d]);
        [m * a, n * b, k * self.depth]
    }
    /// Bytes of the factors that a round copies.
    fn bytes(&self, unit: &MatrixUnit) -> usize {
        let [m, n, k] = self.size(unit);
        k * (m * unit.operands[0].size() + n * unit.operands[1].size())
    }
    /// Registers that a lane needs: its sums, and the factors of two turns, of which one is loaded while the other is used.
    fn registers(&self, unit: &MatrixUnit) -> usize {
        let [m, n] = self.operations;
        let words = |o: usize| (unit.held(o) * unit.operands[o].size()).div_ceil(4);
        m * n * unit.held(2) + 2 * (m * words(0) + n * words(1)) + OTHERS
    }
    /// An estimate of the cycles that all blocks take.
    fn cycles(&self, products: &Products, grid: &Grid) -> f64 {
        let unit = &products.unit;
        let ([m, n, k], p) = (self.size(unit), &grid.processors);
        let count = |d: usize, part: usize| products.sizes[d].div_ceil(part) as f64;
        let blocks = count(0, m) * count(1, n) * products.batches as f64;
        let warps = (self.warps[0] * self.warps[1]) as f64;
        let [a, b] = [0, 1].map(|d| (self.operations[d] * unit.size[d]) as f64);
        let read = (a * unit.operands[0].size() as f64 + b * unit.operands[1].size() as f64) * k as f64
            / p.local_bandwidth as f64;
        let computed = a * b * k as f64 / unit.rate as f64;
        let copied = self.bytes(unit) as f64 / p.far_bandwidth as f64;
        // what one block waits for another computes
        let lanes = warps as usize * grid.warp as usize;
        // rows are longer by what one lane reads of them, so that lanes meet in few banks
        let row = k * unit.operands[0].size();
        let held = self.bytes(unit) * self.buffers as usize * (row + READ) / row;
        let registers = self.registers(unit) * lanes;
        let resident = (p.local_bytes / held.max(1))
            .min(p.registers as usize / registers)
            .min(p.lanes as usize / lanes)
            .max(1) as f64;
        // a round of one turn loads its operands once it has met
        let is_ahead = self.buffers > 2 && self.depth > 1;
        let waits = if is_ahead { MEETING } else { MEETING * EXPOSED } / resident;
        let waves = (blocks / p.count as f64).ceil();
        let ahead = (self.buffers.max(2) - 1) as f64 * resident.min(waves);
        let (arrived, computed) = (copied + LATENCY / ahead, warps * read.max(computed));
        let both = if self.buffers > 1 { computed.max(arrived) } else { computed + arrived };
        let round = both + CONTENTION * copied + waits;
        // few warps leave units idle
        let busy = (warps * resident.min(waves) / p.schedulers as f64).min(1.0);
        // plain code waits for itself where few warps take turns
        let hidden = (warps * resident / (HIDING * p.schedulers as f64)).min(1.0);
        let results = (m * n) as f64 * products.after.cycles(grid) / hidden;
        waves * (count(2, k) * round / busy + (BEGIN + results) / resident)
    }
}

/// What happens to an element of the result after the sum.
pub struct After {
    pub instructions: usize,
    /// That are loaded and stored.
    pub bytes: usize,
}

impl After {
    fn cycles(&self, grid: &Grid) -> f64 {
        let p = &grid.processors;
        self.instructions as f64 / (p.schedulers * grid.warp) as f64
            + self.bytes as f64 / p.far_bandwidth as f64
    }
}
