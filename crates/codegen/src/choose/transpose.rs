//! Memory that is read along one axis and written along another.
//!
//! A square of both axes is walked at once, so that each line of memory is used up while it is near and vectors can be
//! transposed in registers. Where the memory is large, what is read across is first copied row by row to a block that
//! stays near: rows are then read as long runs, and lines of many pages are never wanted at once. From there a few rows
//! of the result are written interleaved, each as a long run.

use super::chooser::{Access, Chooser, STRIDED};
use crate::kernel::access::coefficient;
use crate::plan::opt::{Opt, Order};
use crate::plan::{Axis, Plan};
use frit_uop::{Arg, AxisKind, Space, UOp};

/// The part of the second cache that a block takes: the rest is for what comes next and what is written.
const PART: usize = 8;
/// Blocks for each thread, and rows of a block that are left then, at least.
const BLOCKS: usize = 2;
const LEAST_ROWS: usize = 128;

/// A range along which some access is contiguous, how it is walked, and the bytes of an element.
type Line = (u32, AxisKind, usize);

impl Chooser<'_, '_> {
    /// Whether an access is contiguous along another axis than this, with which it moves, or one of several loads of neighbours:
    /// a square of both can be turned round in registers.
    pub(super) fn can_transpose_in_registers(&self, a: &Access, along: u32, w: f64) -> bool {
        let (node, idx) = (&a.node, &a.idx);
        let other = |x: &Axis| {
            matches!(x.kind, AxisKind::Global | AxisKind::Loop)
                && x.origin != along
                && coefficient(idx, x.origin) == Some(1)
                && x.extent.bounds.1 as f64 >= w
        };
        !matches!(node.arg, Arg::Site(_))
            && coefficient(idx, along).is_some_and(|c| c != 0)
            && (self.plan.axes.iter().any(other) || a.neighbours as f64 >= w)
    }

    /// Where some accesses are contiguous along one axis and some along another, a square of both is walked at once. One
    /// that moves with a single axis uses its lines up anyway.
    pub(super) fn block_transposes(&mut self, lanes: &[u32]) {
        let far = |a: &Access, o: u32| lanes.iter().any(|l| *l != o && a.moves_with(*l));
        let along = |c: &Self, o: u32| {
            let line = |a: &&Access| {
                coefficient(&a.idx, o) == Some(1) && (lanes.contains(&o) || lanes.is_empty() || far(a, o))
            };
            c.accesses.iter().filter(line).map(|a| a.node.src[0].dtype.size()).max()
        };
        let axes = self.origins(&[AxisKind::Global, AxisKind::Loop]);
        let axes: Vec<Line> = axes.into_iter().filter_map(|(o, k)| Some((o, k, along(self, o)?))).collect();
        // an axis that is lanes as a whole is walked at once already
        let whole = lanes.iter().filter(|l| !axes.iter().any(|a| a.0 == **l) && along(self, **l).is_some());
        if axes.len() + whole.count() < 2 {
            return;
        }
        let axes: Vec<Line> = axes.into_iter().filter(|(o, ..)| !lanes.contains(o)).collect();
        if let [lane] = lanes
            && let Some((load, along)) = self.strided_far_load(*lane)
        {
            let before = (self.plan.clone(), self.applied.clone());
            self.side_by_side(&axes, true, Some(along));
            if self.stage_block(*lane, &load, along) {
                return;
            }
            (*self.plan, self.applied) = before;
        }
        self.side_by_side(&axes, !lanes.is_empty(), None);
    }

    /// Walk vectors of axes at once; fewer of one from which blocks are staged.
    fn side_by_side(&mut self, axes: &[Line], vectors: bool, near: Option<u32>) {
        for &(origin, kind, bytes) in axes {
            let w = self.plan.target.vector_bytes / bytes.max(4);
            let w = if near == Some(origin) { w.min(self.plan.target.costs.interleaved_rows) } else { w };
            let Some(axis) = self.find(origin, kind) else { continue };
            let whole = w > 1 && vectors && self.plan.axes[axis].extent.bounds.1 >= w as i128;
            if whole && (self.split(axis, w, AxisKind::Upcast) || self.round_up(axis, w)) {
                continue;
            }
            _ = [8, 4, 2].into_iter().find(|n| self.split(axis, *n, AxisKind::Upcast));
        }
    }
    fn round_up(&mut self, axis: usize, n: usize) -> bool {
        self.take(Opt::Pad { axis, n }) && self.split(axis, n, AxisKind::Upcast)
    }

    /// What was applied so far, with some ranges rounded up to multiples of more.
    fn pad_first(&mut self, mut pads: Vec<(u32, usize)>) -> bool {
        let Ok(mut plan) = Plan::new(&self.plan.ast, self.plan.target) else { return false };
        let mut applied = vec![];
        for opt in &self.applied {
            let mut now = vec![opt.clone()];
            if let Opt::Pad { axis, .. } | Opt::Split { axis, .. } = opt
                && let Some(at) = pads.iter().position(|p| p.0 == plan.axes[*axis].origin)
            {
                // the first opt of a range, which may be to round it up by less
                let pad = Opt::Pad { axis: *axis, n: pads.swap_remove(at).1 };
                now.retain(|o| !matches!(o, Opt::Pad { .. }));
                now.insert(0, pad);
            }
            if now.iter().any(|o| plan.apply(o).is_err()) {
                return false;
            }
            applied.extend(now);
        }
        *self.plan = plan;
        self.applied = applied;
        true
    }

    /// What is read across, if there is more of it than near memory holds, and the range along which it is contiguous.
    fn strided_far_load(&self, lane: u32) -> Option<(UOp, u32)> {
        let across = |l: &&UOp| {
            let idx = l.index();
            l.src.len() == 1
                && l.arg == Arg::None
                && idx.ranges.contains(&lane)
                && coefficient(idx, lane).is_some_and(|c| c.unsigned_abs() > STRIDED as u64)
        };
        let mut loads = self.plan.operands.iter().filter(across);
        let (Some(load), None) = (loads.next().cloned(), loads.next()) else { return None };
        let (idx, bytes) = (load.index(), load.dtype.size());
        let row = |x: &Axis| {
            matches!(x.kind, AxisKind::Global | AxisKind::Loop) && coefficient(idx, x.origin) == Some(1)
        };
        let large = load.buffer().shape()[0].as_int().unwrap_or(i64::MAX) as usize * bytes;
        let along = self.plan.axes.iter().find(|x| row(x)).map(|x| x.origin)?;
        let is_far = along != lane && large > self.plan.target.caches[1] / 2 && self.reduces.is_empty();
        is_far.then_some((load, along))
    }

    /// Copy blocks of what is read across to near memory.
    fn stage_block(&mut self, lane: u32, load: &UOp, along: u32) -> bool {
        // what is walked at once already
        let taken = |c: &Self, o: u32| -> usize {
            let copies = |x: &&Axis| x.origin == o && x.kind.is_side_by_side();
            c.plan.axes.iter().filter(copies).filter_map(|x| x.size()).product()
        };
        // blocks of about the same size, rounded up where there is an edge
        let (mut parts, mut pads) = (vec![], vec![]);
        let row = self.plan.target.costs.block_row;
        let rows = self.plan.target.l2() / PART / row;
        // fewer where threads would have none
        let length = |o: u32| self.size(o, AxisKind::Global).unwrap_or(1) * taken(self, o).max(1);
        let beside = length(along).div_ceil(row / load.dtype.size());
        let blocks = (BLOCKS * self.plan.target.threads).div_ceil(beside).max(1);
        let rows = rows.min(length(lane).div_ceil(blocks).max(LEAST_ROWS));
        // a vector of a row is copied whole, though it is taken in parts
        let whole = (self.plan.target.lanes(load.dtype) / taken(self, along).max(1)).max(1);
        for (origin, most, whole) in [(along, row / load.dtype.size(), whole), (lane, rows, 1)] {
            let Some(n) = self.size(origin, AxisKind::Global) else { return false };
            let copies = taken(self, origin).max(1);
            let part = n.div_ceil(n.div_ceil((most / copies).max(1))).next_multiple_of(whole);
            if part < 2 || part >= n {
                return false;
            }
            parts.push((origin, part));
            if !n.is_multiple_of(part) {
                pads.push((origin, part * copies));
            }
        }
        if !pads.is_empty() && !self.pad_first(pads) {
            return false;
        }
        for (origin, part) in parts {
            let Some(axis) = self.find(origin, AxisKind::Global) else { return false };
            if !self.split(axis, part, AxisKind::Loop)
                || origin == along
                    && (2..part).contains(&whole)
                    && !self.split(axis + 1, whole, AxisKind::Loop)
            {
                return false;
            }
        }
        // blocks outside, what is in a block inside, copies last
        let place = |x: &Axis| match x.kind {
            AxisKind::Global => 0,
            AxisKind::Loop if x.origin == along => 1,
            AxisKind::Loop => 2,
            _ => 3,
        };
        let mut order: Vec<usize> = (0..self.plan.axes.len()).collect();
        order.sort_by_key(|i| place(&self.plan.axes[*i]));
        if order.iter().enumerate().any(|(i, o)| i != *o) && !self.take(Opt::Reorder { order }) {
            return false;
        }
        let at = self.plan.axes.iter().position(|x| place(x) == 1);
        let operand = self.plan.operands.iter().position(|l| l == load);
        let (Some(at), Some(operand)) = (at, operand) else { return false };
        self.take(Opt::Stage { operand, at, space: Space::Local, order: Order::RowMajor, buffers: 1 })
    }
}
