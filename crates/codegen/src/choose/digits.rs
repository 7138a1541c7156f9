//! Opts for a sum over several short loops on a grid, as weights in blocks have: a warp has a row.
//!
//! ```text
//! row of blocks of 144 bytes: 16 of scales, 4 parts of 32 bytes, two fields a byte
//! lanes   16 blocks x 2 halves of a part, each lane 16 bytes a load; both fields of a byte come from one load
//! ```

use super::chooser::Chooser;
use crate::kernel::access::coefficient;
use crate::kernel::cost::MOST_LANES;
use crate::kernel::ranges::closed;
use frit_uop::AxisKind;

/// Loops of fields are written out up to this many iterations, since all of them read the same memory.
const MOST_FIELDS: usize = 8;
/// Rows that a lane does at once where others are enough to keep the machine busy: they share what is the same for all rows.
const ROWS: usize = 4;
/// Lanes are few where the machine would run so many times as many.
const IDLE: f64 = 8.0;

impl Chooser<'_, '_> {
    /// A warp shares each sum; its lanes load neighbouring memory, as much as one access can.
    pub(super) fn share_digits(&mut self, reduces: &[(u32, AxisKind)], outputs: f64) -> bool {
        let Some(warp) = self.plan.target.grid.as_ref().map(|g| g.warp as usize) else { return false };
        let is_one_sum = self.reduces.iter().all(|r| reduces.iter().all(|(o, _)| closed(r).contains(o)));
        let Some(heaviest) = self.heaviest().filter(|_| is_one_sum && reduces.len() > 1) else {
            return false;
        };
        let steps: Vec<(u32, Option<i64>)> =
            reduces.iter().map(|(o, _)| (*o, coefficient(&heaviest.idx, *o))).collect();
        let access = self.plan.target.vector_access_bytes / heaviest.size().max(1);
        let Some((near, _)) = steps.iter().find(|s| s.1 == Some(1)).copied() else { return false };
        let of_two = |n: usize, most: usize| (1 << n.trailing_zeros()).min(1 << most.max(1).ilog2());
        self.attempt(|c| {
            let split = |c: &mut Self, origin: u32, most: usize, kind: AxisKind| -> usize {
                let (Some(axis), Some(size)) =
                    (c.find(origin, AxisKind::Reduce), c.size(origin, AxisKind::Reduce))
                else {
                    return 1;
                };
                let n = of_two(size, most);
                if n > 1 && c.split(axis, n, kind) { n } else { 1 }
            };
            if split(c, near, access, AxisKind::Unroll) == 1 {
                return false;
            }
            for (field, _) in steps.iter().filter(|s| s.1 == Some(0)) {
                split(c, *field, MOST_FIELDS, AxisKind::Unroll);
            }
            // two loops, since a block of lanes has three dims and rows want one
            let mut walked: Vec<(usize, u32)> = steps
                .iter()
                .filter(|s| s.1 != Some(0))
                .filter_map(|s| Some((of_two(c.size(s.0, AxisKind::Reduce)?, warp), s.0)))
                .collect();
            walked.sort_by_key(|w| std::cmp::Reverse(w.0));
            let lanes = walked
                .iter()
                .take(2)
                .fold(1, |lanes, (_, o)| lanes * split(c, *o, warp / lanes, AxisKind::GroupReduce));
            if lanes * 4 < warp {
                return false;
            }
            let rows = c.origins(&[AxisKind::Global]);
            let Some((row, _)) =
                rows.into_iter().max_by_key(|(o, _)| c.size(*o, AxisKind::Global).unwrap_or(0))
            else {
                return false;
            };
            let is_busy = |n: usize| outputs / n as f64 * lanes as f64 * IDLE >= c.busy();
            let fits = |n: &usize| c.size(row, AxisKind::Global).is_some_and(|size| size % n == 0);
            let many = [ROWS, ROWS / 2].into_iter().filter(fits).find(|n| is_busy(*n));
            if let (Some(n), Some(axis)) = (many, c.find(row, AxisKind::Global)) {
                c.split(axis, n, AxisKind::Upcast);
            }
            c.give_lanes(row, MOST_LANES as usize / 2 / lanes);
            true
        })
    }
}
