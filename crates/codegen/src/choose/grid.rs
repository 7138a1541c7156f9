//! Opts on a grid: lanes along what is contiguous, or across a reduce where there are few results.

use super::chooser::{Access, Chooser};
use crate::kernel::access::coefficient;
use frit_uop::AxisKind;

/// Results below which the lanes of a block share each reduce, if it is at least so long.
const FEW_RESULTS: f64 = 4096.0;
const LONG_REDUCE: usize = 32;
/// Registers of a lane that a tile of results may take.
const TILE_REGISTERS: usize = 40;
/// Lanes of a block, at most, and of those that share a reduce, at least.
const MOST_LANES: u32 = 128;
const FEWEST_LANES: usize = 8;
/// Elements that a lane moves at once, where an axis has so many.
const WIDE: usize = 4;
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
        if outputs <= FEW_RESULTS && longest >= LONG_REDUCE && self.group(&reduces) {
            return;
        }
        self.tile(self.plan.target.registers.min(TILE_REGISTERS), &[]);
        self.unroll();
        // lanes along the axes that accesses walk closest, the closest last
        let mut axes: Vec<(f64, u32)> = self
            .origins(&[AxisKind::Global])
            .iter()
            .map(|(o, _)| {
                let near = |a: &Access| match coefficient(&a.idx, *o) {
                    Some(1) => a.times,
                    Some(0) => 0.1 * a.times,
                    _ => 0.0,
                };
                (self.accesses.iter().map(near).sum::<f64>(), *o)
            })
            .collect();
        axes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut lanes, most) =
            (1, self.plan.target.grid.as_ref().map_or(1, |g| g.max_block.min(MOST_LANES) as usize));
        for (at, (_, origin)) in axes.iter().enumerate().take(3) {
            let Some(n) = self.size(*origin, AxisKind::Global) else { continue };
            // wide loads and stores where memory is contiguous and there is enough to do
            if at == 0
                && self.reduces.is_empty()
                && n >= LONG_AXIS
                && let Some(axis) = self.find(*origin, AxisKind::Global)
            {
                self.split(axis, WIDE, AxisKind::Upcast);
            }
            for f in (2..=most / lanes).rev() {
                let Some(axis) = self.find(*origin, AxisKind::Global) else { break };
                if self.size(*origin, AxisKind::Global).is_some_and(|n| n % f == 0)
                    && self.split(axis, f, AxisKind::Local)
                {
                    lanes *= f;
                    break;
                }
            }
            if lanes * 2 > most {
                break;
            }
        }
    }

    /// The lanes of a block share each reduce, and what is written after.
    fn group(&mut self, reduces: &[(u32, AxisKind)]) -> bool {
        let most = self.plan.target.grid.as_ref().map_or(1, |g| g.max_block.min(MOST_LANES) as usize);
        let mut n = most;
        let mut any = false;
        while n >= FEWEST_LANES {
            let fits = |c: &Self, o: u32, k: AxisKind| c.size(o, k).is_some_and(|s| s % n == 0);
            if reduces.iter().any(|(o, k)| fits(self, *o, *k)) {
                for (origin, kind) in reduces.iter().copied().chain(self.origins(&[AxisKind::Loop])) {
                    let to = if kind == AxisKind::Loop { AxisKind::Local } else { AxisKind::GroupReduce };
                    if fits(self, origin, kind)
                        && let Some(axis) = self.find(origin, kind)
                    {
                        any |= self.split(axis, n, to);
                    }
                }
                if any {
                    self.unroll();
                    return true;
                }
            }
            n /= 2;
        }
        any
    }
}
