//! Opts for a sum over several short loops on a grid, as weights in blocks have: a warp has a row.
//!
//! ```text
//! row of blocks of 144 bytes: 16 of scales, 4 parts of 32 bytes, two fields a byte
//! lanes   4 parts x 8 blocks, each 16 bytes a load; both fields of a byte come from one load
//! ```

use super::chooser::Chooser;
use super::grid::LONG_AXIS;
use crate::kernel::access::{coefficient, without_constant};
use crate::kernel::cost::MOST_LANES;
use crate::kernel::ranges::closed;
use frit_uop::{AxisKind, Op, UOp};
use rustc_hash::FxHashMap;

/// Loops of fields are written out up to this many iterations, since all of them read the same memory.
const MOST_FIELDS: usize = 8;
/// Rows that a lane does at once where others are enough to keep the machine busy: they share what is the same for all rows.
const ROWS: usize = 4;
/// Lanes are few where the machine would run so many times as many.
const IDLE: f64 = 8.0;

impl Chooser<'_, '_> {
    /// A warp shares each sum; its lanes load neighbouring memory, as much as one access can.
    pub(super) fn share_digits(&mut self, reduces: &[(u32, AxisKind)], all: usize, outputs: f64) -> bool {
        let Some(warp) = self.plan.target.grid.as_ref().map(|g| g.warp as usize) else { return false };
        let is_one_sum = self.reduces.iter().all(|r| reduces.iter().all(|(o, _)| closed(r).contains(o)));
        if !is_one_sum || reduces.len() < 2 {
            return false;
        }
        let runs = self.runs();
        let weight = |r: &Run| self.moved(&self.accesses[r.access]) * r.len as f64;
        let Some(run) = runs.iter().max_by(|a, b| weight(a).total_cmp(&weight(b))) else { return false };
        if all * run.len < LONG_AXIS {
            return false;
        }
        let heaviest = &self.accesses[run.access];
        let steps: Vec<(u32, Option<i64>)> =
            reduces.iter().map(|(o, _)| (*o, coefficient(&heaviest.idx, *o))).collect();
        let access = self.plan.target.vector_access_bytes / (heaviest.size() * run.len).max(1);
        let Some((near, _)) = steps.iter().find(|s| s.1 == Some(run.len as i64)).copied() else {
            return false;
        };
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
            if access > 1 && split(c, near, access, AxisKind::Unroll) == 1 {
                return false;
            }
            for (field, _) in steps.iter().filter(|s| s.1 == Some(0)) {
                split(c, *field, MOST_FIELDS, AxisKind::Unroll);
            }
            // the two longest loops, since a block of lanes has three dims and rows want one, the nearer one first
            let mut walked: Vec<(usize, u32, i64)> = steps
                .iter()
                .filter(|s| s.1 != Some(0))
                .filter_map(|s| {
                    let n = of_two(c.size(s.0, AxisKind::Reduce)?, warp);
                    Some((n, s.0, s.1.unwrap_or(i64::MAX)))
                })
                .collect();
            walked.sort_by_key(|w| std::cmp::Reverse(w.0));
            walked.truncate(2);
            walked.sort_by_key(|w| w.2);
            let lanes = walked
                .iter()
                .fold(1, |lanes, (_, o, _)| lanes * split(c, *o, warp / lanes, AxisKind::GroupReduce));
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
    /// The accesses, those together that are to neighbouring places in the same iteration, as to the bytes of a word.
    fn runs(&self) -> Vec<Run> {
        let mut groups: FxHashMap<(Op, UOp, UOp), Vec<(i64, usize)>> = FxHashMap::default();
        for (i, a) in self.accesses.iter().enumerate() {
            let Some((buf, idx)) = a.node.buffer_and_index() else { continue };
            let (rest, at) = without_constant(idx);
            groups.entry((a.node.op, buf.clone(), rest)).or_default().push((at, i));
        }
        let mut runs = vec![];
        for mut group in groups.into_values() {
            group.sort_unstable();
            group.dedup_by_key(|a| a.0);
            let each = group.chunk_by(|a, b| a.0 + 1 == b.0);
            runs.extend(each.map(|run| Run { access: run[0].1, len: run.len() }));
        }
        runs.sort_by_key(|r| r.access);
        runs
    }
}

/// Accesses to neighbouring places.
struct Run {
    /// The first of them.
    access: usize,
    len: usize,
}
