//! Tiles of results in registers, unrolled loops, and their order on a CPU.

use super::chooser::{Access, Chooser, STRIDED};
use crate::kernel::access::coefficient;
use crate::kernel::ranges::closed;
use crate::plan::Axis;
use crate::plan::opt::{Opt, Order};
use frit_uop::{AxisKind, DType, Op, Space, UOp};

/// Iterations of a loop that is unrolled for what they share, at most.
const MOST_SHARED: usize = 16;
/// Iterations from which a loop is worth unrolling for instruction-level parallelism.
const SHORTEST: usize = 8;
/// Vectors of copies of one value, at most.
const MOST_COPIES: usize = 64;
/// Iterations of a reduce that is unrolled whole: the window of a small convolution.
const WINDOW: usize = 9;
/// Operations of a loop's body that was unrolled whole, at most: more than a core keeps decoded are slower than the loop is.
const MOST_WRITTEN: usize = 1024;
/// Elements of a buffer from which packing a part of it pays.
const PACKED_LEAST: i64 = 1 << 14;

impl Chooser<'_, '_> {
    /// Unroll a short loop around work that does not move with it, so that its iterations share that.
    pub(super) fn unroll_shared_work(&mut self, lanes: &[u32]) {
        for (origin, kind) in self.origins(&[AxisKind::Global, AxisKind::Loop]) {
            let (Some(axis), Some(n)) = (self.find(origin, kind), self.size(origin, kind)) else { continue };
            let inside = |n: &UOp| {
                self.plan.axes[axis + 1..].iter().any(|a| {
                    matches!(a.kind, AxisKind::Global | AxisKind::Loop) && n.ranges.contains(&a.origin)
                })
            };
            let (mut shared, mut own) = (0, 0);
            for (w, _) in &self.work {
                match (w.ranges.contains(&origin), inside(w)) {
                    (true, _) => own += 1,
                    (false, true) => shared += 1,
                    _ => {}
                }
            }
            // what chooses by the number of an iteration goes where each is written out
            let is_choice = |w: &UOp| w.op == Op::Where && w.condition().ranges[..] == [origin];
            let choices = self.work.iter().filter(|(w, _)| is_choice(w)).count();
            if n <= MOST_SHARED
                && (shared > 2 && shared > own || choices >= 2 && choices + 1 >= n)
                && !lanes.contains(&origin)
                && self.plan.copies(origin) <= MOST_SHARED
            {
                self.split(axis, n, AxisKind::Upcast);
            }
        }
    }

    /// Without vectors, walk a few rows side by side whose elements are picked by one table: what it says is loaded and checked
    /// once for all of them.
    pub(super) fn share_tables(&mut self) {
        let axes = self.origins(&[AxisKind::Global, AxisKind::Loop]);
        let is_row = |o: u32| {
            let by_table = |a: &Access| {
                a.idx.ranges.contains(&o) && a.idx.any(|n| n.op == Op::Load && !n.ranges.contains(&o))
            };
            self.accesses.iter().any(by_table)
                && self.accesses.iter().all(|a| a.node.op == Op::Load || a.moves_with(o))
        };
        let rows: Vec<(u32, AxisKind)> = axes.into_iter().rev().filter(|(o, _)| is_row(*o)).collect();
        for (n, (origin, kind)) in [8, 4, 2].into_iter().flat_map(|n| rows.iter().map(move |r| (n, *r))) {
            if let Some(axis) = self.find(origin, kind)
                && self.split(axis, n, AxisKind::Upcast)
            {
                break;
            }
        }
    }

    /// Keep a tile of results in registers where loads in a reduce are used by several of them: the tile that loads
    /// least for what it computes.
    pub(super) fn tile(&mut self, registers: usize, lanes: &[u32]) -> bool {
        let loads: Vec<&Access> =
            self.accesses.iter().filter(|a| a.node.op == Op::Load && self.is_reduced(&a.node)).collect();
        if loads.len() < 2 {
            return false;
        }
        let outputs = self.origins(&[AxisKind::Global]);
        let reused = |o: u32| loads.iter().any(|l| !l.moves_with(o)) && loads.iter().any(|l| l.moves_with(o));
        let mut axes: Vec<(u32, usize)> = outputs
            .iter()
            .filter(|(o, _)| reused(*o) && self.reduces.iter().all(|r| r.ranges.contains(o)))
            .filter_map(|(o, k)| Some((*o, self.size(*o, *k)?)))
            .collect();
        // of tiles that are as good, the one that is closest in memory
        axes.sort_by_key(|(o, _)| (!lanes.contains(o), std::cmp::Reverse(self.find(*o, AxisKind::Global))));
        // what is side by side already is part of every tile
        let beside = self.beside();
        // and short loops inside the outermost will be
        let short = self.origins(&[AxisKind::Reduce]).into_iter().skip(1);
        let short = short.filter_map(|(o, k)| Some((o, self.size(o, k).filter(|n| *n <= WINDOW)?)));
        let short: Vec<(u32, usize)> = short.chain(beside.iter().copied()).collect();
        let (results, in_flight) = (self.reduces.len(), self.plan.target.costs.results_in_flight);
        let fits = |n: usize| -> Vec<usize> { (1..=8).filter(|f| n.is_multiple_of(*f)).collect() };
        let mut best: (f64, Vec<(u32, usize)>) = (0.0, vec![]);
        let mut consider = |tile: &[(u32, usize)]| {
            let all = || tile.iter().chain(&beside);
            let count: usize = all().map(|t| t.1).product::<usize>() * results;
            let copies = |l: &Access| all().filter(|t| l.moves_with(t.0)).map(|t| t.1).product::<usize>();
            // what a factor is made of stays until it is made: of loads that move alike, all are held or none
            let alike = |l: &&Access, o: &Access| all().all(|t| l.moves_with(t.0) == o.moves_with(t.0));
            let held = |l: &&Access| copies(l) * loads.iter().filter(|o| alike(o, l)).count();
            let held = loads.iter().map(held).min().unwrap_or(1);
            let is_long = tile.iter().any(|t| t.1 > 1)
                && self.written(&tile.iter().chain(&short).copied().collect::<Vec<_>>()) > MOST_WRITTEN;
            if count + held + 1 > registers || is_long {
                return;
            }
            let loaded: usize = loads.iter().map(|l| copies(l)).sum();
            // enough in flight to hide latency, then little loaded for what is computed
            let score = count as f64 / loaded as f64 * (count.min(in_flight) as f64 / in_flight as f64);
            if score > best.0 * 1.001 {
                best = (score, tile.to_vec());
            }
        };
        for (i, a) in axes.iter().enumerate() {
            for f in fits(a.1) {
                consider(&[(a.0, f)]);
                for b in &axes[i + 1..] {
                    for g in fits(b.1) {
                        consider(&[(a.0, f), (b.0, g)]);
                    }
                }
            }
        }
        let tile = best.1;
        for (origin, n) in &tile {
            if *n > 1
                && let Some(axis) = self.find(*origin, AxisKind::Global)
            {
                self.split(axis, *n, AxisKind::Upcast);
            }
        }
        tile.iter().any(|t| t.1 > 1)
    }

    /// Without a tile there is one chain of operations: walk a few vectors side by side.
    pub(super) fn unroll_for_ilp(&mut self, lanes: &[u32]) {
        for origin in lanes {
            for kind in [AxisKind::Reduce, AxisKind::Global, AxisKind::Loop] {
                let Some(axis) = self.find(*origin, kind) else { continue };
                if self.plan.axes[axis].size().is_none_or(|n| n < SHORTEST)
                    || self.plan.copies(*origin) > MOST_COPIES
                {
                    continue;
                }
                let few = [4, 5, 3, 2];
                let many = self.most_side_by_side(*origin).unwrap_or(0);
                for n in (few[0] + 1..=many).rev().chain(few) {
                    if self.split(axis, n, AxisKind::Upcast) {
                        break;
                    }
                }
            }
        }
        if lanes.is_empty() {
            for (origin, kind) in self.origins(&[AxisKind::Reduce]) {
                if let Some(axis) = self.find(origin, kind)
                    && self.size(origin, kind).is_some_and(|n| n >= 2 * SHORTEST)
                {
                    self.split(axis, 4, AxisKind::Upcast);
                }
            }
        }
    }

    /// How many vectors along an axis a reduce takes together whose every step is on another page of memory: with few, memory
    /// opens a page for little.
    fn most_side_by_side(&self, origin: u32) -> Option<usize> {
        let costs = self.plan.target.costs;
        let is_far = |a: &Access, r: u32| {
            let step = coefficient(a.node.index(), r).map_or(0, i64::unsigned_abs) as usize;
            step * a.node.dtype.size() >= costs.page && coefficient(a.node.index(), origin) == Some(1)
        };
        let loads = || self.accesses.iter().filter(|a| a.node.op == Op::Load && self.is_reduced(&a.node));
        let innermost = |r: &UOp| closed(r).last().copied();
        let is_paged =
            |r: &UOp| innermost(r).is_some_and(|r| loads().next().is_some() && loads().all(|a| is_far(a, r)));
        let count = self.reduces.len();
        (count > 0 && self.reduces.iter().all(is_paged)).then(|| self.plan.target.registers / (2 * count))
    }

    /// Unroll short reduce axes, and a few steps of a long one.
    pub(super) fn unroll(&mut self) {
        let lanes = self.plan.target.lanes(DType::F32).max(1);
        let limit = MOST_COPIES * lanes;
        for (origin, kind) in self.origins(&[AxisKind::Reduce]).into_iter().rev() {
            let (Some(axis), Some(n)) = (self.find(origin, kind), self.size(origin, kind)) else { continue };
            let is_short = n <= WINDOW && n * self.plan.copies(origin) <= limit;
            if is_short && self.written(&[self.beside(), vec![(origin, n)]].concat()) <= MOST_WRITTEN {
                self.split(axis, n, AxisKind::Unroll);
            }
        }
        let left = self.origins(&[AxisKind::Reduce]);
        if let [(origin, kind)] = left[..]
            && let Some(axis) = self.find(origin, kind)
            && let Some(n) = self.size(origin, kind)
        {
            for f in [4, 2] {
                let is_short = n >= 4 * f && f * self.plan.copies(origin) <= limit;
                if is_short
                    && self.written(&[self.beside(), vec![(origin, f)]].concat()) <= MOST_WRITTEN
                    && self.split(axis, f, AxisKind::Unroll)
                {
                    break;
                }
            }
        }
    }

    /// The axes that are side by side, and how many iterations of each.
    fn beside(&self) -> Vec<(u32, usize)> {
        let is_beside = |a: &&Axis| matches!(a.kind, AxisKind::Upcast | AxisKind::Unroll);
        self.plan.axes.iter().filter(is_beside).filter_map(|a| Some((a.origin, a.size()?))).collect()
    }
    /// Operations inside reduces, each as often as it moves with what is side by side.
    fn written(&self, beside: &[(u32, usize)]) -> usize {
        let copies =
            |w: &UOp| beside.iter().filter(|b| w.ranges.contains(&b.0)).map(|b| b.1).product::<usize>();
        let is_written = |w: &UOp| self.is_reduced(w) && !self.loaded.contains(w);
        self.work.iter().filter(|(w, _)| is_written(w)).map(|(w, _)| copies(w)).sum()
    }

    /// Bytes that a load of the reduce walks while the outer loops stand still.
    fn footprint(&self, load: &UOp) -> f64 {
        let idx = load.index();
        let inner = |k: AxisKind| k == AxisKind::Reduce || k.is_in_registers();
        let axes = self.plan.axes.iter().filter(|a| inner(a.kind) && idx.ranges.contains(&a.origin));
        axes.map(|a| a.extent.bounds.1.max(1) as f64).product::<f64>() * load.dtype.size() as f64
    }

    /// Of the outer loops around a reduce, the one that reads least new in each round goes inside. What stays while it
    /// runs is copied close first if its walk is strided.
    pub(super) fn order_loops(&mut self) {
        let outer: Vec<usize> =
            (0..self.plan.axes.len()).filter(|&i| self.plan.axes[i].kind == AxisKind::Global).collect();
        if outer.len() < 2 || self.reduces.len() != 1 {
            return;
        }
        let loads: Vec<UOp> = self.plan.operands.iter().filter(|l| self.is_reduced(l)).cloned().collect();
        let fresh = |axis: usize| {
            let origin = self.plan.axes[axis].origin;
            let moving = loads.iter().filter(|l| l.index().ranges.contains(&origin));
            moving.map(|l| self.footprint(l)).sum::<f64>()
        };
        let long = |i: &usize| self.plan.axes[*i].size().is_some_and(|n| n >= 4);
        let last = outer[outer.len() - 1];
        let best = outer.iter().copied().filter(long).min_by(|a, b| fresh(*a).total_cmp(&fresh(*b)));
        let mut inside = self.plan.axes[last].origin;
        if let Some(best) = best.filter(|b| *b != last && 2.0 * fresh(*b) < fresh(last)) {
            let origin = self.plan.axes[best].origin;
            let mut order: Vec<usize> = (0..self.plan.axes.len()).filter(|i| *i != best).collect();
            order.insert(order.iter().position(|i| *i == last).map_or(0, |p| p + 1), best);
            if self.take(Opt::Reorder { order }) {
                inside = origin;
            }
        }
        self.pack(inside);
    }

    /// Copy the operand that stays while the loop `inside` runs, if its walk is strided and it is read often enough.
    fn pack(&mut self, inside: u32) {
        let Some(at) = self.find(inside, AxisKind::Global) else { return };
        let stays = |op: &UOp| !op.index().ranges.contains(&inside) && self.is_reduced(op);
        let Some(operand) = self.plan.operands.iter().position(stays) else { return };
        let load = &self.plan.operands[operand];
        let idx = load.index();
        let vectors =
            self.plan.axes.iter().filter(|a| a.kind.is_side_by_side() && idx.ranges.contains(&a.origin));
        let scattered = vectors.into_iter().any(|a| coefficient(idx, a.origin) != Some(1));
        let strided =
            closed(&self.reduces[0]).iter().any(|r| coefficient(idx, *r).is_none_or(|c| c > STRIDED));
        // windows overlap: a copy of all of them is larger than what it is a copy of
        let mut steps: Vec<Option<i64>> = idx.ranges.iter().map(|r| coefficient(idx, *r)).collect();
        steps.sort_unstable();
        if steps.windows(2).any(|w| w[0] == w[1]) {
            return;
        }
        let large = load.buffer().shape()[0].as_int().is_some_and(|n| n > PACKED_LEAST);
        if (strided || scattered) && large && self.plan.axes[at].size().is_some_and(|n| n >= 8) {
            self.take(Opt::Stage { operand, at, space: Space::Local, order: Order::LoopOrder, buffers: 1 });
        }
    }
}
