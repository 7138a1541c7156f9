//! Sums of products on a grid: a block computes a rectangle of results from tiles in local memory, a lane a few rows and
//! columns of it.

use super::chooser::Chooser;
use crate::kernel::access::coefficient;
use crate::kernel::contraction::Product;
use crate::plan::opt::Opt;
use frit_uop::{AxisKind, UOp};

/// Lanes along each side of the rectangle, at most, the side that results are written along last. Where one side is short,
/// its lanes go to the other.
const LANES: [[usize; 2]; 5] = [[16, 16], [8, 32], [32, 8], [4, 64], [64, 4]];
/// Rows and columns of a lane, the most first.
const COPIES: [[usize; 2]; 4] = [[8, 8], [8, 4], [4, 8], [4, 4]];
/// Results of a lane, and loads of a kernel from which it has half of them.
const MOST_RESULTS: usize = 64;
const MANY_LOADS: usize = 4;
/// Results of a lane, their factors, and what it loads for the next round, at most.
const MOST_HELD: usize = 96;
/// Neighbouring rows that are loaded at once.
const WIDE: usize = 4;
/// Products that tiles hold of each result: parts of a loop, or whole short ones.
const DEPTH: usize = 16;
const MOST_DEPTH: usize = 32;
/// Products that are written out, and those where a factor is loaded several at once.
const UNROLLED: usize = 2;
const UNROLLED_WIDE: usize = 5;
/// Lanes of a block and results of a lane below which tiles are not worth their barriers.
const FEWEST_LANES: usize = 64;
const FEWEST_RESULTS: usize = 16;
/// Lanes of a block below which each has half of the results.
const MANY_LANES: usize = 128;
/// Blocks for each multiprocessor, so that one computes while another waits; at least so many of them have one.
const BLOCKS: f64 = 2.0;
const BUSY: f64 = 0.9;

/// A block: lanes along each side, and the rows and columns of one, at most.
struct Shape {
    lanes: [usize; 2],
    copies: [usize; 2],
}

impl Chooser<'_, '_> {
    /// Both factors in tiles, if each is used along axes that the other does not move with.
    pub(super) fn block(&mut self) -> bool {
        let Ok(product) = Product::of(&self.plan.ast) else { return false };
        let sides = [0, 1].map(|side| self.only_with(&product.loads, side));
        if sides.iter().any(Vec::is_empty) {
            return false;
        }
        // what is done with results needs registers as well
        let most = if self.plan.operands.len() > MANY_LOADS { MOST_RESULTS / 2 } else { MOST_RESULTS };
        let copies = || COPIES.into_iter().filter(|[x, y]| x * y <= most);
        let shapes = LANES.into_iter().flat_map(|lanes| copies().map(move |copies| Shape { lanes, copies }));
        let mut best: Option<((bool, f64), Shape)> = None;
        for shape in shapes {
            let mut uses = None;
            self.attempt(|c| {
                uses = c.tiled(&product, &sides, &shape);
                false
            });
            if let Some(uses) = uses.filter(|u| best.as_ref().is_none_or(|(most, _)| u > most)) {
                best = Some((uses, shape));
            }
        }
        best.is_some_and(|(_, shape)| self.tiled(&product, &sides, &shape).is_some())
    }

    /// The axes of the results that one factor moves with and the other does not, those that it walks closest first.
    fn only_with(&self, loads: &[UOp; 2], side: usize) -> Vec<u32> {
        let moves = |load: &UOp, o: u32| load.index().ranges.contains(&o);
        let mut axes: Vec<u32> = self
            .origins(&[AxisKind::Global])
            .iter()
            .map(|(o, _)| *o)
            .filter(|o| moves(&loads[side], *o) && !moves(&loads[1 - side], *o))
            .collect();
        axes.sort_by(|a, b| self.nearness(*b).total_cmp(&self.nearness(*a)));
        axes
    }

    /// Whether there are enough blocks and how often a lane uses what it loads, on average, if blocks can have this shape.
    fn tiled(&mut self, product: &Product, sides: &[Vec<u32>; 2], shape: &Shape) -> Option<(bool, f64)> {
        let all = |c: &Self| -> f64 {
            let left = c.origins(&[AxisKind::Global]);
            left.iter().map(|(o, k)| c.size(*o, *k).unwrap_or(1) as f64).product()
        };
        // the side that results are written along has the neighbouring lanes
        let mut order = [0, 1];
        let near = |side: usize| sides[side].iter().map(|o| self.nearness(*o)).fold(0.0, f64::max);
        order.sort_by(|a, b| near(*a).total_cmp(&near(*b)));
        let (mut lanes, mut rows) = (1, [1, 1]);
        for (i, side) in order.into_iter().enumerate() {
            let (l, r) = self.side(&product.loads[side], &sides[side], shape.lanes[i], shape.copies[i]);
            (lanes, rows[side]) = (lanes * l, r);
        }
        let (results, blocks) = (rows[0] * rows[1], all(self));
        let count = self.plan.target.grid.as_ref().map_or(1, |g| g.processors.count);
        // few lanes have much to load each, which needs registers as well
        let most = if lanes < MANY_LANES { MOST_RESULTS / 2 } else { MOST_RESULTS };
        if lanes < FEWEST_LANES || results > most || results < FEWEST_RESULTS || blocks < BUSY * count as f64
        {
            return None;
        }
        let at = self.depth(product)?;
        // a round is loaded while the one before it is computed, where there are rounds and registers for what is on its way
        let stage = |c: &mut Self, buffers: u8| product.loads.iter().all(|load| c.stage(load, at, buffers));
        let held = results + rows[0] + rows[1];
        let fits = |c: &Self| held + c.plan.staged_elements().div_ceil(lanes) <= MOST_HELD;
        let staged = self.attempt(|c| stage(c, 2) && fits(c)) || stage(self, 1);
        staged.then(|| (blocks >= BLOCKS * count as f64, results as f64 / (rows[0] + rows[1]) as f64))
    }

    /// Lanes along a side and the rows of each, how many of both: some rows next to each other where they are in memory, so
    /// that they are loaded at once, then lanes, then other rows.
    fn side(&mut self, load: &UOp, axes: &[u32], most_lanes: usize, copies: usize) -> (usize, usize) {
        let (mut lanes, mut rows) = (1, 1);
        for &origin in axes {
            let wide = if coefficient(load.index(), origin) == Some(1) { WIDE } else { 1 };
            let parts = [(AxisKind::Upcast, wide), (AxisKind::Local, most_lanes), (AxisKind::Upcast, copies)];
            for (kind, most) in parts {
                let taken = if kind == AxisKind::Local { &mut lanes } else { &mut rows };
                let (Some(n), Some(axis)) =
                    (self.size(origin, AxisKind::Global), self.find(origin, AxisKind::Global))
                else {
                    break;
                };
                let part = (2..=most / *taken).rev().find(|f| n.is_multiple_of(*f));
                if let Some(f) = part.filter(|f| self.split(axis, *f, kind)) {
                    *taken *= f;
                }
            }
        }
        (lanes, rows)
    }

    /// The innermost loops that make the depth of a tile, and some of their products written out; where they begin.
    fn depth(&mut self, product: &Product) -> Option<usize> {
        let (mut depth, mut first) = (1, None);
        for (origin, kind) in self.origins(&[AxisKind::Reduce]).into_iter().rev() {
            let n = self.size(origin, kind)?;
            let part = match depth * n <= MOST_DEPTH {
                true => n,
                false => (1..=(DEPTH / depth).max(1)).rev().find(|f| n.is_multiple_of(*f))?,
            };
            if part > 1 && part < n {
                let axis = self.find(origin, kind)?;
                self.take(Opt::Split { axis, n: part, kind: AxisKind::Reduce, inner: true });
            }
            if part > 1 {
                depth *= part;
                first = Some(origin);
            }
            if part < n {
                break;
            }
        }
        // the inner of two parts stands right after the outer one
        let mine = |a: &crate::plan::Axis| Some(a.origin) == first && a.kind == AxisKind::Reduce;
        let at = self.plan.axes.iter().rposition(mine)?;
        let inner = self.plan.axes.iter().rposition(|a| a.kind == AxisKind::Reduce)?;
        let (n, origin) = (self.plan.axes[inner].size()?, self.plan.axes[inner].origin);
        let is_wide =
            product.loads.iter().any(|l| coefficient(l.index(), origin).is_some_and(|c| c.abs() == 1));
        let most = if is_wide { UNROLLED_WIDE } else { UNROLLED };
        if let Some(f) = (2..=most.min(n)).rev().find(|f| n.is_multiple_of(*f)) {
            self.split(inner, f, AxisKind::Unroll);
        }
        Some(at)
    }
}
