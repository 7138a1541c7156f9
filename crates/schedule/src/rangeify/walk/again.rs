//! How often a value is computed where no one stores it, and whether that takes less than the launch of a kernel that does.

use super::super::request::Request;
use super::{MANY_OPS, Walk, asked_for};
use crate::index::{self, max_numel};
use frit_uop::{Op, UOp};

/// Operations of a grid's multiprocessor in the time of a launch, the lanes that keep one busy, and those that share a sum where
/// there are few.
const AS_A_LAUNCH: u64 = 1 << 18;
const LANES_OF_A_BLOCK: u64 = 128;
const LANES_OF_A_SUM: u64 = 8;

/// Elements that a lane of a grid reduces in less time than a launch takes.
const SHORT_SUM: u64 = 32;

/// Iterations of loops that are written out, so that they share what does not move with them.
const UNROLLED: u64 = 16;

impl Walk<'_> {
    /// Whether it is made of a reduction of a few elements, and its readers do that again in less time than a launch takes. In a
    /// reduction of theirs only where the elements are of memory: other sums would be stored in its place.
    pub(super) fn is_short_sum(&self, i: usize, n: &UOp) -> bool {
        let base = self.costs[i].base as usize;
        let of = &self.cut.list.nodes[base];
        let is_plain =
            n.op == Op::ReduceAxis || n.op.is_elementwise() && max_numel(of.shape()) == max_numel(n.shape());
        // what keeps any reduction out of a kernel keeps this one out, too
        let may_join = |r: &Request| {
            let d = &self.cut.drafts[r.kernel as usize];
            r.is_ungated() && d.ordered.is_none() && !d.is_checked && !d.is_chain
        };
        if of.op != Op::ReduceAxis || !is_plain || !self.cut.requests[i].iter().all(may_join) {
            return false;
        }
        let summed = self.costs[self.cut.list.src(base)[0] as usize];
        let elements = max_numel(of.input().shape()) / max_numel(of.shape()).max(1);
        let ops = elements.saturating_mul(1 + summed.ops as u64) + self.costs[i].ops as u64;
        let (evaluations, space) = self.evaluated(i);
        let stored = space / self.cut.requests[i].len().max(1) as u64;
        elements <= SHORT_SUM
            && !summed.is_product
            && !(summed.sums && self.cut.requests[i].iter().any(|r| r.in_reduce))
            && self.is_less_than_a_launch(evaluations.saturating_mul(ops), stored, false)
    }

    /// How often the kernels that ask for a node compute it, and how many elements all of them store.
    pub(super) fn evaluated(&self, i: usize) -> (u64, u64) {
        let (asked, dims) = (&self.cut.requests[i], self.cut.list.nodes[i].shape());
        let (mut evaluations, mut space) = (0u64, 0u64);
        for r in asked {
            let extents: Vec<UOp> =
                self.cut.drafts[r.kernel as usize].ranges.iter().map(|r| r.extent().clone()).collect();
            evaluations = evaluations.saturating_add(self.evaluations(i, r, &extents, asked_for(r, dims)));
            space = space.saturating_add(max_numel(&extents));
        }
        (evaluations, space)
    }

    /// Whether a grid does so many operations in less time than it takes to launch a kernel, in kernels that store so many
    /// elements each.
    pub(super) fn is_less_than_a_launch(&self, ops: u64, elements: u64, in_reduce: bool) -> bool {
        let Some(grid) = &self.target.grid else { return false };
        let lanes = if in_reduce { elements.saturating_mul(LANES_OF_A_SUM) } else { elements };
        let busy = (lanes / LANES_OF_A_BLOCK).clamp(1, grid.processors.count as u64);
        ops <= AS_A_LAUNCH * busy
    }

    /// For how many steps of the sums around it a request stays where it is, since its indices are quotients: a sum is walked
    /// digit by digit.
    fn held(&self, r: &Request) -> u64 {
        let ranges = &self.cut.drafts[r.kernel as usize].ranges;
        let is_outer = |id: &u32| ranges.iter().any(|x| x.range_arg().is_some_and(|a| a.id == *id));
        let steps = |id: u32| index::held(r.idx.iter(), id);
        let inner = r.ranges().iter().copied().filter(|id| !is_outer(id)).map(steps).collect::<Vec<u64>>();
        inner.into_iter().fold(1, u64::saturating_mul)
    }

    /// How often a request's kernel computes the node: once for each iteration of the loops around the innermost one
    /// its indices are made of, but for a few short ones it does not move with, which are written out side by side
    /// and share it. Inside a reduce loop, once for each use, but for those that share it likewise: the tile of results
    /// that is summed together. Not what is made of other sums, which would be stored in its place, nor what takes as many
    /// operations as random numbers do.
    fn evaluations(&self, i: usize, r: &Request, extents: &[UOp], elements: u64) -> u64 {
        let ranges = &self.cut.drafts[r.kernel as usize].ranges;
        let depth_of = |id: &u32| ranges.iter().position(|x| x.range_arg().is_some_and(|a| a.id == *id));
        let depths: Vec<Option<usize>> = r.ranges().iter().map(depth_of).collect();
        let is_outside = depths.iter().all(Option::is_some);
        let depth = match is_outside {
            true => depths.iter().flatten().max().map_or(0, |d| d + 1),
            false => extents.len(),
        };
        let mut side_by_side = 1;
        for (_, e) in extents[..depth].iter().enumerate().filter(|(d, _)| !depths.contains(&Some(*d))) {
            let n = e.as_int().map_or(u64::MAX, |n| n.max(1) as u64);
            if n.saturating_mul(side_by_side) <= UNROLLED {
                side_by_side *= n;
            }
        }
        let uses = r.repeat.saturating_mul(elements);
        if is_outside {
            return (max_numel(&extents[..depth]) / side_by_side).min(uses);
        }
        let is_shared = !self.costs[i].sums && self.costs[i].ops <= MANY_OPS;
        let shared = if is_shared { side_by_side } else { 1 };
        uses / self.held(r).saturating_mul(shared).clamp(1, r.repeat.max(1))
    }
}
