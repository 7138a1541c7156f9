//! Opts on a grid: lanes along what accesses walk closest, be that an axis of the results or of a reduce.

use super::chooser::{Access, Chooser};
use crate::kernel::access::{coefficient, factor, substitute_open};
use crate::kernel::cost::{FEW_RESULTS, MOST_LANES, ROW_ELEMENTS};
use crate::plan::opt::Opt;
use frit_uop::symbolic::sum::gcd;
use frit_uop::{AxisKind, Op, UOp};
use std::cmp::Ordering;

/// Elements of a reduce from which the lanes of a block may share it.
const LONG_REDUCE: usize = 32;
/// Registers of a lane that a tile of results may take.
const TILE_REGISTERS: usize = 40;
/// Results that a lane has of a tile, at least.
const TILE_RESULTS: f64 = 8.0;
/// Lanes that share a reduce, at least.
const FEWEST_LANES: usize = 8;
/// Elements that a lane should have of a reduce before more lanes share it.
const ELEMENTS_A_LANE: usize = 4;
/// An axis so long that all lanes stay busy where each moves as much as one access can.
pub(super) const LONG_AXIS: usize = 256;
/// Rows that a lane does at once where it must look up each.
const ROWS: usize = 4;
/// Elements that a lane loads before it waits for one.
const AHEAD: usize = 8;
/// Rows and columns of what is transposed at once.
const SQUARE: usize = 32;

impl Chooser<'_, '_> {
    pub(super) fn grid(&mut self) {
        let outputs: f64 = self
            .origins(&[AxisKind::Global])
            .iter()
            .map(|(o, k)| self.find(*o, *k).map_or(1.0, |i| self.plan.axes[i].extent.bounds.1.max(1) as f64))
            .product();
        let reduces = self.origins(&[AxisKind::Reduce]);
        let longest = reduces.iter().filter_map(|(o, k)| self.length(*o, *k)).max().unwrap_or(1);
        let (along, reuse) = (self.walks_along_reduces(), self.has_reuse());
        let is_few = outputs <= FEW_RESULTS as f64;
        // results that tiles of lanes would leave most of the machine without
        let is_idle = outputs * TILE_RESULTS < self.busy();
        let all: usize = reduces.iter().map(|(o, k)| self.size(*o, *k).unwrap_or(1)).product();
        if longest < LONG_AXIS && along && !reuse && self.share_digits(&reduces, all, outputs) {
            return;
        }
        if longest >= LONG_REDUCE {
            if !along && (!reuse || is_few) && self.columns(&reduces, outputs) {
                return;
            }
            if (is_few || along && (!reuse || is_idle)) && self.group(&reduces, longest) {
                return;
            }
        }
        if self.reduces.is_empty() && (self.scan() || self.transpose()) {
            return;
        }
        if self.block() {
            return;
        }
        let nearest = self.origins(&[AxisKind::Global]).into_iter().map(|(o, _)| o);
        let nearest = nearest.max_by(|a, b| self.nearness(*a).total_cmp(&self.nearness(*b)));
        self.unroll_shared_work(nearest.as_slice());
        self.tile(self.plan.target.registers.min(TILE_REGISTERS), &[]);
        self.unroll();
        self.lanes();
    }

    /// Iterations of a loop at most, where it is known into how many lanes it can be cut.
    fn length(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        let extent = &self.plan.axes[self.find(origin, kind)?].extent;
        let is_cut = extent.as_int().is_some() || factor(extent) >= LONG_REDUCE as i64;
        is_cut.then(|| usize::try_from(extent.bounds.1).ok()).flatten()
    }
    /// The most lanes, a power of two, that a loop can be cut into without padding where only a variable knows how long it is.
    fn most_parts(&self, origin: u32, kind: AxisKind) -> usize {
        let Some(axis) = self.find(origin, kind) else { return 1 };
        let extent = &self.plan.axes[axis].extent;
        if extent.as_int().is_some() { usize::MAX } else { 1 << factor(extent).max(1).trailing_zeros() }
    }

    /// Lanes that the machine runs at once.
    pub(super) fn busy(&self) -> f64 {
        let grid = self.plan.target.grid.as_ref();
        grid.map_or(1.0, |g| g.processors.count as f64 * g.processors.lanes as f64)
    }

    /// Results that are walked closest but too few for all lanes of the machine: a warp along them, and several warps that
    /// share the reduce.
    fn columns(&mut self, reduces: &[(u32, AxisKind)], outputs: f64) -> bool {
        let Some(grid) = &self.plan.target.grid else { return false };
        let busy = self.busy();
        let (block, warp) = (grid.max_block as usize, grid.warp as usize);
        let ([(reduce, kind)], true) = (reduces, outputs * 2.0 < busy) else { return false };
        let Some(n) = self.length(*reduce, *kind) else { return false };
        let nearest = self
            .origins(&[AxisKind::Global])
            .into_iter()
            .max_by(|a, b| self.nearness(a.0).total_cmp(&self.nearness(b.0)));
        let Some((origin, _)) = nearest.filter(|(o, k)| self.size(*o, *k).is_some_and(|n| n >= warp)) else {
            return false;
        };
        let share = (busy / outputs) as usize;
        let most = (block / warp).min(share).min(n / ELEMENTS_A_LANE).max(1);
        let lanes = (1usize << most.ilog2()).min(self.most_parts(*reduce, *kind));
        if lanes < 2 {
            return false;
        }
        self.attempt(|c| {
            let done = c.find(*reduce, *kind).is_some_and(|axis| c.make_multiple(axis, lanes))
                && c.find(*reduce, *kind).is_some_and(|axis| c.split(axis, lanes, AxisKind::GroupReduce))
                && c.give_lanes(origin, warp) > 1
                && c.swap_lanes();
            c.unroll();
            done
        })
    }

    /// Lanes of results become neighbours, and those of a reduce stand around them.
    fn swap_lanes(&mut self) -> bool {
        let of = |kind: AxisKind| self.plan.axes.iter().position(|a| a.kind == kind);
        match (of(AxisKind::Local), of(AxisKind::GroupReduce)) {
            (Some(a), Some(b)) => self.take(Opt::Swap { a, b }),
            _ => false,
        }
    }

    /// The lanes of a block share a scan whose row lies in memory as it is walked, a few neighbours each; several rows a
    /// block where one is short.
    fn scan(&mut self) -> bool {
        let [(origin, kind)] = self.origins(&[AxisKind::Ordered])[..] else { return false };
        let rows = self.origins(&[AxisKind::Global]);
        let nearest = rows.iter().map(|(o, _)| self.nearness(*o)).fold(0.0, f64::max);
        let Some(n) = self.size(origin, kind).filter(|n| *n >= LONG_REDUCE) else { return false };
        let Some(axis) = self.find(origin, kind).filter(|_| self.nearness(origin) > nearest) else {
            return false;
        };
        // a whole sector of memory each
        let copies = if n >= LONG_AXIS { 2 * self.wide() } else { 1 };
        let lanes =
            (1 << (n / copies).max(1).ilog2()).clamp(FEWEST_LANES, self.most_lanes().max(FEWEST_LANES));
        let split = self.attempt(|c| {
            c.make_multiple(axis, lanes * copies)
                && (copies == 1 || c.split(axis, copies, AxisKind::Upcast))
                && c.find(origin, kind).is_some_and(|axis| c.split(axis, lanes, AxisKind::Local))
        });
        let largest = rows.iter().max_by_key(|(o, k)| self.size(*o, *k).unwrap_or(0)).copied();
        if let Some((origin, _)) = largest.filter(|_| split && self.most_lanes() / lanes > 1) {
            self.give_lanes(origin, self.most_lanes() / lanes);
        }
        split
    }

    /// Memory that is read along one axis and written along another goes through a square of local memory: its lanes read
    /// rows of the one and write rows of the other.
    fn transpose(&mut self) -> bool {
        let along = |a: &Access, o: u32| coefficient(&a.idx, o) == Some(1);
        let axes: Vec<u32> = self.origins(&[AxisKind::Global]).iter().map(|(o, _)| *o).collect();
        let is_long = |o: u32| self.size(o, AxisKind::Global).is_some_and(|n| n >= SQUARE);
        let stores = || self.accesses.iter().filter(|a| a.node.op == Op::Store);
        let Some(&written) = axes.iter().find(|o| is_long(**o) && stores().all(|a| along(a, **o))) else {
            return false;
        };
        let across = |a: &Access| {
            let is_far = coefficient(&a.idx, written).is_none_or(|c| c.abs() >= SQUARE as i64);
            axes.iter().copied().find(|o| a.node.op == Op::Load && is_far && is_long(*o) && along(a, *o))
        };
        let loads: Vec<(UOp, u32)> =
            self.accesses.iter().filter_map(|a| Some((a.node.clone(), across(a)?))).collect();
        let Some((_, read)) = loads.first().cloned() else { return false };
        let rows = (self.most_lanes() / SQUARE).clamp(1, SQUARE);
        self.attempt(|c| {
            for (origin, lanes) in [(read, rows), (written, SQUARE)] {
                let Some(axis) = c.find(origin, AxisKind::Global) else { continue };
                let copies = SQUARE / lanes;
                if !c.make_multiple(axis, SQUARE) || copies > 1 && !c.split(axis, copies, AxisKind::Upcast) {
                    continue;
                }
                if let Some(axis) = c.find(origin, AxisKind::Global) {
                    c.split(axis, lanes, AxisKind::Local);
                }
            }
            let at = c.plan.axes.len();
            let across = loads.iter().filter(|(_, o)| *o == read);
            across.fold(false, |any, (load, _)| c.stage(load, at, 1) || any)
        })
    }

    /// How many accesses walk an axis closest: by one element a step.
    pub(super) fn nearness(&self, origin: u32) -> f64 {
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
        self.rows_in_flight(axes.first().map(|a| a.1));
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

    /// Where to load from is loaded first: a lane does several rows, so that one is not waited for alone.
    fn rows_in_flight(&mut self, near: Option<u32>) {
        let from_load = |a: &Access| a.idx.any(|n| n.op == Op::Load);
        if !self.reduces.is_empty() || !self.accesses.iter().any(from_load) {
            return;
        }
        let rows = self.origins(&[AxisKind::Global]).into_iter().filter(|(o, _)| Some(*o) != near);
        let largest = rows.max_by_key(|(o, k)| self.size(*o, *k).unwrap_or(0));
        let is_many = |n: usize| n.is_multiple_of(ROWS) && n >= LONG_AXIS;
        if let Some((o, k)) = largest.filter(|(o, k)| self.size(*o, *k).is_some_and(is_many))
            && let Some(axis) = self.find(o, k)
        {
            self.split(axis, ROWS, AxisKind::Upcast);
        }
    }

    /// Lanes for an axis of the results: its largest divisor, or, where it has none that fills a warp, more than it needs.
    pub(super) fn give_lanes(&mut self, origin: u32, most: usize) -> usize {
        let size = self.size(origin, AxisKind::Global);
        let divisor = size.and_then(|n| (2..=most).rev().find(|f| n % f == 0)).unwrap_or(1);
        let warp = self.plan.target.grid.as_ref().map_or(1, |g| g.warp as usize);
        let n = match size {
            Some(n) if divisor >= warp.min(n) => divisor,
            Some(n) => most.min(n.next_power_of_two()),
            None => most.min(warp),
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
        let is_multiple = factor(&self.plan.axes[axis].extent) % n as i64 == 0;
        is_multiple || self.take(Opt::Pad { axis, n })
    }

    /// The access that moves most.
    pub(super) fn heaviest(&self) -> Option<&Access> {
        let key = |a: &&Access| (self.moved(a), a.size());
        self.accesses.iter().max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal))
    }
    /// Bytes that an access is to.
    pub(super) fn moved(&self, a: &Access) -> f64 {
        let extent = |id: &u32| {
            let axes = self.plan.axes.iter().filter(|a| a.origin == *id);
            axes.map(|a| a.extent.bounds.1.max(1) as f64).product::<f64>()
        };
        a.idx.ranges.iter().map(extent).product::<f64>() * a.size() as f64
    }
    /// Elements that make a wide access of the memory that most is moved of.
    fn wide(&self) -> usize {
        (self.plan.target.vector_access_bytes / self.heaviest().map_or(4, |a| a.size().max(1))).max(1)
    }

    /// Elements that make a wide access along these, as far as all that walk them by one start at a multiple of that.
    fn wide_along(&self, loops: &[(u32, AxisKind)]) -> usize {
        let starts = self.accesses.iter().flat_map(|a| {
            let near = |o: &&(u32, AxisKind)| coefficient(&a.idx, o.0) == Some(1);
            let start = |o: &(u32, AxisKind)| {
                factor(&substitute_open(&a.idx, &[(o.0, UOp::index(0))].into_iter().collect()))
            };
            loops.iter().filter(near).map(start)
        });
        starts.fold(self.wide() as i64, gcd) as usize
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

    /// The lanes of a block share each reduce, and what is written after; several results a block where one is short. Loops
    /// over one row are walked alike and written out where a lane can hold its part, so that it is loaded once.
    fn group(&mut self, reduces: &[(u32, AxisKind)], longest: usize) -> bool {
        let loops: Vec<(u32, AxisKind)> =
            reduces.iter().copied().chain(self.origins(&[AxisKind::Loop])).collect();
        let wide = if longest >= LONG_AXIS { self.wide_along(&loops) } else { 1 };
        let share = (longest / (wide.max(ELEMENTS_A_LANE))).max(1);
        // a power of two that no reduce is much shorter than
        let n = (1 << share.ilog2()).clamp(FEWEST_LANES, self.most_lanes().max(FEWEST_LANES));
        let n = loops.iter().fold(n, |n, (o, k)| n.min(self.most_parts(*o, *k)));
        let mut any = false;
        for (origin, kind) in loops.iter().copied() {
            let (lanes, copies) = match kind {
                AxisKind::Loop => (AxisKind::Local, AxisKind::Upcast),
                _ => (AxisKind::GroupReduce, AxisKind::Unroll),
            };
            let Some(axis) = self.find(origin, kind).filter(|_| n > 1) else { continue };
            if self.size(origin, kind).is_some_and(|size| size < n) {
                continue;
            }
            // several loads on the way where a loop is long
            let is_long = |size: usize| size > n * ROW_ELEMENTS;
            let steps = if self.size(origin, kind).is_some_and(is_long) { (AHEAD / wide).max(1) } else { 1 };
            if self.make_multiple(axis, n * wide * steps) && wide > 1 {
                self.split(axis, wide, copies);
            }
            if let Some(axis) = self.find(origin, kind) {
                any |= self.split(axis, n, lanes);
            }
            let rounds = self.size(origin, kind).filter(|r| *r > 1 && r * wide <= ROW_ELEMENTS);
            let rounds = rounds.filter(|_| loops.len() > 1).unwrap_or(steps);
            if let Some(axis) = self.find(origin, kind).filter(|_| rounds > 1) {
                self.split(axis, rounds, copies);
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
