//! When to give a kernel to a matrix unit without search, and how the rest of it is walked then.
//!
//! On a CPU: a square of accumulators; B packed for a panel of columns that stays in the second cache while all rows pass
//! by; A read where it is if its rows lie there as the unit wants them, else packed for the rows at hand. Threads take
//! panels, or blocks of rows where there are few columns.
//!
//! ```text
//! for panels of n (threads) { pack B;  for blocks of m { pack A;  for blocks of n in the panel { for k { 2 x 2 } } } }
//! ```

use super::warps;
use super::ways::{Applied, Ways};
use crate::kernel::access::coefficient;
use crate::kernel::contraction::Product;
use crate::plan::axes::Chosen;
use crate::plan::opt::{Opt, Order};
use crate::plan::{Axis, Plan};
use frit_abi::matrix::{Dim, Home};
use frit_uop::{AxisKind, Op, Space};

/// Choose opts that use a matrix unit, apply them and say which; nothing where no unit is worth it.
pub fn choose(plan: &mut Plan) -> Option<Vec<Opt>> {
    let ways = ways(plan)?;
    let mut trial = plan.clone();
    let applied = ways.apply(&mut trial)?;
    *plan = trial;
    Some(applied)
}

/// The unit that does most in an operation, of those that the kernel may be given to.
pub fn ways(plan: &Plan) -> Option<Ways> {
    if plan.target.matrix.is_empty() {
        return None;
    }
    let product = Product::of(&plan.ast).ok()?;
    let all = plan.target.matrix.iter().filter_map(|unit| Ways::of(plan, &product, *unit));
    // the first of equals
    all.reduce(|best, other| if other.work() > best.work() { other } else { best })
}

/// Opts of a grid that look good besides the chosen ones, the best looking first.
pub fn alternatives(plan: &Plan, most: usize) -> Vec<Vec<Opt>> {
    let Some(ways) = ways(plan) else { return vec![] };
    warps::alternatives(&ways, plan, ways.batches(plan), most)
}

impl Ways {
    /// What an axis is rounded up to a multiple of.
    fn multiple(&self, d: usize) -> usize {
        self.unit.size[d] * self.kept.get(d).copied().unwrap_or(1)
    }

    fn apply(&self, plan: &mut Plan) -> Option<Vec<Opt>> {
        let mut done = Applied { plan, opts: vec![] };
        if done.plan.target.grid.is_some() {
            let batches = self.batches(done.plan);
            warps::apply(self, &mut done, batches)?;
            return Some(done.opts);
        }
        for (d, origin) in self.origins.iter().enumerate() {
            if !self.sizes[d].is_multiple_of(self.multiple(d)) {
                let axis = done.find(*origin, None)?;
                done.take(Opt::Pad { axis, n: self.multiple(d) })?;
            }
        }
        self.take_unit(&mut done)?;
        for d in 0..2 {
            if self.kept[d] > 1 {
                let axis = done.find(self.origins[d], Some(AxisKind::Global))?;
                let (n, kind) = (self.kept[d], AxisKind::Upcast);
                done.take(Opt::Split { axis, n, kind, inner: true })?;
            }
        }
        self.order(&mut done)?;
        Some(done.opts)
    }

    /// Loops around the operation, and where operands are packed.
    fn order(&self, done: &mut Applied) -> Option<()> {
        let [m, n, _] = self.origins;
        let (threads, cache) = (done.plan.target.threads, done.plan.target.l2());
        let count = |done: &Applied, o: u32| {
            done.find(o, Some(AxisKind::Global)).and_then(|a| done.plan.axes[a].size()).unwrap_or(1)
        };
        let bytes = self.sizes[2].next_multiple_of(self.unit.size[2])
            * self.multiple(1)
            * self.unit.operands[1].size();
        let (rows, columns) = (count(done, m), count(done, n));
        let fits = |q: usize, panels: usize| {
            columns.is_multiple_of(q) && columns / q >= panels && q * bytes <= cache / 2
        };
        let panel = |panels: usize| (1..=columns).rev().find(|q| fits(*q, panels));
        let batches = self.batches(done.plan);
        let chosen = done.plan.matrix.clone()?;
        // blocks of rows for threads; each packs all columns
        let chunk = (1..=rows).rev().find(|c| rows.is_multiple_of(*c) && rows / c >= (2 * threads).min(rows));
        let by_blocks = (chunk, panel(1).unwrap_or(1));
        let (outer, inner) = if batches >= 4 * threads {
            panel(1).map_or(by_blocks, |q| (None, q))
        } else if is_direct(done.plan, &chosen) {
            // as few panels as keep all threads busy to the end
            panel(4 * threads).or_else(|| panel(threads)).map_or(by_blocks, |q| (None, q))
        } else {
            // rows are packed anew for each panel, columns for each block of rows
            let depth = self.sizes[2].next_multiple_of(self.unit.size[2]);
            let costs = done.plan.target.costs;
            let packed = |d: usize| {
                let bytes = self.multiple(d) * depth * self.unit.operands[d].size();
                bytes.div_ceil(done.plan.target.vector_bytes) as f64 * costs.packed_vector.get()
            };
            let block = (self.multiple(0) * self.multiple(1) * depth) as f64 / self.unit.rate as f64;
            let turns = |pieces: usize| (batches * pieces).div_ceil(threads) as f64;
            let in_panels = |q: usize| {
                turns(columns / q) * (rows as f64 * (q as f64 * block + packed(0)) + q as f64 * packed(1))
            };
            let in_blocks = |c: usize| {
                turns(rows / c)
                    * (c as f64 * (columns as f64 * block + packed(0)) + columns as f64 * packed(1))
            };
            let panels = (1..=columns).filter(|q| fits(*q, 1)).map(|q| (in_panels(q), (None, q)));
            let blocks = chunk.filter(|_| fits(columns, 1)).map(|c| (in_blocks(c), (Some(c), columns)));
            let best = panels.chain(blocks).min_by(|a, b| a.0.total_cmp(&b.0));
            best.map_or(by_blocks, |b| b.1)
        };
        if inner < columns && inner > 1 {
            let axis = done.find(n, Some(AxisKind::Global))?;
            done.take(Opt::Split { axis, n: inner, kind: AxisKind::Loop, inner: true })?;
        }
        if let Some(chunk) = outer.filter(|c| *c > 1 && *c < rows) {
            let axis = done.find(m, Some(AxisKind::Global))?;
            done.take(Opt::Split { axis, n: chunk, kind: AxisKind::Loop, inner: true })?;
        }
        // batches, [blocks of rows], panels, rows, blocks of columns, what is summed over, the rest
        let by_rows = outer.is_some();
        let place = |a: &Axis| match (a.kind, a.origin) {
            (AxisKind::Global, o) if o == n && inner == columns && columns > 1 => 4,
            (AxisKind::Global, o) if o == n => 2,
            (AxisKind::Global, o) if o == m && by_rows => 1,
            (AxisKind::Global | AxisKind::Loop, o) if o == m => 3,
            (AxisKind::Loop, o) if o == n => 4,
            (AxisKind::Global, _) => 0,
            (AxisKind::Upcast, _) => 6,
            (AxisKind::Matrix, _) => 7,
            _ => 5,
        };
        let mut order: Vec<usize> = (0..done.plan.axes.len()).collect();
        order.sort_by_key(|i| place(&done.plan.axes[*i]));
        if !order.is_sorted() {
            done.take(Opt::Reorder { order })?;
        }
        let at = |done: &Applied, least: usize| {
            let inside = |a: &Axis| place(a) >= least;
            done.plan.axes.iter().position(inside).unwrap_or(done.plan.axes.len())
        };
        let packed = at(done, 3);
        // what is too much to pack beforehand the operation packs for itself
        _ = done.take(Opt::Stage {
            operand: chosen.operands[1],
            at: packed,
            space: Space::Local,
            order: Order::LoopOrder,
            buffers: 1,
        });
        if !is_direct(done.plan, &chosen) {
            let packed = at(done, 4);
            _ = done.take(Opt::Stage {
                operand: chosen.operands[0],
                at: packed,
                space: Space::Local,
                order: Order::LoopOrder,
                buffers: 1,
            });
        }
        Some(())
    }
}

/// Whether A is read where it is.
fn is_direct(plan: &Plan, chosen: &Chosen) -> bool {
    let idx = plan.operands[chosen.operands[0]].index();
    let [m, k] = [Dim::M, Dim::K]
        .map(|d| plan.axes.iter().find(|a| a.id() == chosen.parts[d as usize]).map_or(0, |a| a.origin));
    let is_padded = |o: &u32| plan.parts.get(o).is_some_and(|p| p.padded.is_some());
    let tiles = matches!(chosen.unit.homes[0], Home::Tile(rows) if rows.pack == 1);
    tiles
        && idx.op != Op::Where
        && coefficient(idx, k) == Some(1)
        && coefficient(idx, m).is_some()
        && !idx.ranges.iter().any(is_padded)
}
