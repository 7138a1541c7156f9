//! Opts on a grid: lanes along what accesses walk closest, be that an axis of the results or of a reduce.

use super::chooser::{Access, Chooser};
use crate::kernel::access::coefficient;
use crate::kernel::cost::{FEW_RESULTS, MOST_LANES};
use crate::plan::opt::Opt;
use frit_uop::{AxisKind, DType, Op};

/// Elements of a reduce from which the lanes of a block may share it.
const LONG_REDUCE: usize = 32;
/// Registers of a lane that a tile of results may take.
const TILE_REGISTERS: usize = 40;
/// Lanes that share a reduce, at least.
const FEWEST_LANES: usize = 8;
/// Lanes without which an axis is rounded up to have them.
const WARP: usize = 32;
/// Elements that a lane should have of a reduce before more lanes share it.
const ELEMENTS_A_LANE: usize = 4;
/// Bytes that a lane moves at once, where an axis is so long that all lanes stay busy.
const WIDE_BYTES: usize = 16;
const LONG_AXIS: usize = 256;

impl Chooser<'_, '_> {
    pub(super) fn grid(&mut self) {
        let outputs: f64 = self
            .origins(&[AxisKind::Global])
            .iter()
            .map(|(o, k)| self.find(*o, *k).map_or(1.0, |i| self.plan.axes[i].extent.bounds.1.max(1) as f64))
            .product();
        let reduces = self.origins(&[AxisKind::Reduce]);
        let longest = reduces.iter().filter_map(|(o, k)| self.size(*o, *k)).max().unwrap_or(1);
        let is_few = outputs <= FEW_RESULTS as f64 || self.walks_along_reduces() && !self.has_reuse();
        if is_few && longest >= LONG_REDUCE && self.group(&reduces, longest) {
            return;
        }
        self.tile(self.plan.target.registers.min(TILE_REGISTERS), &[]);
        self.unroll();
        self.lanes();
    }

    /// How many accesses walk an axis closest: by one element a step.
    fn nearness(&self, origin: u32) -> f64 {
        let near = |a: &Access| match coefficient(&a.idx, origin) {
            Some(1) => a.times,
            Some(0) => 0.1 * a.times,
            _ => 0.0,
        };
        self.accesses.iter().map(near).sum()
    }

    /// Lanes along the axes of the results that accesses walk closest, the closest first.
    fn lanes(&mut self) {
        let mut axes: Vec<(f64, u32)> =
            self.origins(&[AxisKind::Global]).iter().map(|(o, _)| (self.nearness(*o), *o)).collect();
        axes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut lanes, most) = (1, self.most_lanes());
        for (at, (_, origin)) in axes.iter().enumerate().take(3) {
            let n = self.size(*origin, AxisKind::Global);
            // wide loads and stores where memory is contiguous and there is enough to do
            let wide = at == 0 && self.reduces.is_empty() && n.is_some_and(|n| n >= LONG_AXIS);
            if wide && let Some(axis) = self.find(*origin, AxisKind::Global) {
                self.split(axis, self.wide(), AxisKind::Upcast);
            }
            lanes *= self.give_lanes(*origin, most / lanes);
            if lanes * 2 > most {
                break;
            }
        }
    }

    /// Lanes for an axis of the results: its largest divisor, or, where it has none that fills a warp, more than it needs.
    fn give_lanes(&mut self, origin: u32, most: usize) -> usize {
        let size = self.size(origin, AxisKind::Global);
        let divisor = size.and_then(|n| (2..=most).rev().find(|f| n % f == 0)).unwrap_or(1);
        let n = match size {
            Some(n) if divisor >= WARP.min(n) => divisor,
            Some(n) => most.min(n.next_power_of_two()),
            None => most.min(WARP),
        };
        for n in [n, divisor] {
            let Some(axis) = self.find(origin, AxisKind::Global).filter(|_| n > 1) else { return 1 };
            if self.make_multiple(axis, n) && self.split(axis, n, AxisKind::Local) {
                return n;
            }
        }
        1
    }

    /// Whether an axis has a multiple of n iterations, or was padded to have one.
    fn make_multiple(&mut self, axis: usize, n: usize) -> bool {
        let is_multiple = self.plan.axes[axis].size().is_some_and(|size| size.is_multiple_of(n));
        is_multiple || self.take(Opt::Pad { axis, n })
    }

    /// Elements that make a wide access of the type that is moved most.
    fn wide(&self) -> usize {
        let size = |a: &Access| match &a.node {
            n if n.op == Op::Store => n.src.get(1).map_or(DType::F32, |v| v.dtype),
            n => n.dtype,
        };
        let widest = self.accesses.iter().map(|a| size(a).size()).max().unwrap_or(4);
        (WIDE_BYTES / widest.max(1)).max(1)
    }

    fn most_lanes(&self) -> usize {
        self.plan.target.grid.as_ref().map_or(1, |g| (g.max_block as usize).min(MOST_LANES as usize))
    }

    /// Whether memory is walked by one element along what is reduced rather than along the results.
    fn walks_along_reduces(&self) -> bool {
        let nearest = |kinds: &[AxisKind]| {
            self.origins(kinds).iter().map(|(o, _)| self.nearness(*o)).fold(0.0, f64::max)
        };
        nearest(&[AxisKind::Reduce]) > nearest(&[AxisKind::Global])
    }

    /// Whether what one result loads others load too, along different axes: then a tile of results is worth more than lanes
    /// that share a reduce.
    fn has_reuse(&self) -> bool {
        let axes: Vec<u32> = self
            .origins(&[AxisKind::Global])
            .iter()
            .filter(|(o, k)| self.size(*o, *k).is_none_or(|n| n > 1))
            .map(|(o, _)| *o)
            .collect();
        let still = |a: &Access| axes.iter().copied().filter(|o| !a.moves_with(*o)).collect::<Vec<u32>>();
        let reduced: Vec<Vec<u32>> =
            self.accesses.iter().filter(|a| self.is_reduced(&a.node)).map(still).collect();
        let moves_elsewhere =
            |a: &Vec<u32>| reduced.iter().any(|b| !b.is_empty() && a.iter().all(|o| !b.contains(o)));
        reduced.iter().any(|a| !a.is_empty() && moves_elsewhere(a))
    }

    /// The lanes of a block share each reduce, and what is written after; several results a block where one is short.
    fn group(&mut self, reduces: &[(u32, AxisKind)], longest: usize) -> bool {
        let wide = if longest >= LONG_AXIS { self.wide() } else { 1 };
        let share = (longest / (wide.max(ELEMENTS_A_LANE))).max(1);
        // a power of two that no reduce is much shorter than
        let n = (1 << share.ilog2()).clamp(FEWEST_LANES, self.most_lanes().max(FEWEST_LANES));
        let mut any = false;
        for (origin, kind) in reduces.iter().copied().chain(self.origins(&[AxisKind::Loop])) {
            let (lanes, copies) = match kind {
                AxisKind::Loop => (AxisKind::Local, AxisKind::Upcast),
                _ => (AxisKind::GroupReduce, AxisKind::Unroll),
            };
            let Some(axis) = self.find(origin, kind) else { continue };
            if self.size(origin, kind).is_some_and(|size| size < n) {
                continue;
            }
            if self.make_multiple(axis, n * wide) && wide > 1 {
                self.split(axis, wide, copies);
            }
            if let Some(axis) = self.find(origin, kind) {
                any |= self.split(axis, n, lanes);
            }
        }
        if any {
            let rows = self.most_lanes() / 2 / n;
            let outputs = self.origins(&[AxisKind::Global]);
            let largest = outputs.iter().max_by_key(|(o, k)| self.size(*o, *k).unwrap_or(0));
            if let Some((origin, _)) = largest.copied().filter(|_| rows > 1) {
                self.give_lanes(origin, rows);
            }
            self.unroll();
        }
        any
    }
}
