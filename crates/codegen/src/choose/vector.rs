//! Which axes are vectors on a CPU: those along which accesses are cheapest.

use super::chooser::{Access, Chooser};
use crate::kernel::access::coefficient;
use crate::kernel::ranges::closed;
use crate::plan::axes::divide;
use crate::plan::opt::Opt;
use crate::plan::{Axis, Plan};
use frit_uop::{AxisKind, Op};
use smallvec::{SmallVec, smallvec};

/// What vectors must save of what moves with their axis.
const LEAST_SAVED: f64 = 0.25;
/// Results that a tile lets share a load, at most.
const MOST_REUSE: f64 = 6.0;

/// A way to walk an axis in vectors: lanes, and whether its extent must be rounded up.
#[derive(Clone, Copy)]
struct Fit {
    lanes: usize,
    pad: bool,
    /// Vectors for the whole axis, a masked one counting a little more.
    vectors: f64,
}

/// A range with vectors along it.
type VectorAxis = (u32, AxisKind, Fit);

impl<'a> Chooser<'_, 'a> {
    /// Splits vectors off the axes where they pay, and says which ranges those are parts of.
    pub(super) fn vectorise(&mut self) -> Vec<u32> {
        let mut taken: Vec<u32> = vec![];
        while let Some((origin, kind, fit)) = self.best_axis(&taken) {
            let Some(axis) = self.find(origin, kind) else { break };
            if fit.pad && !self.take(Opt::Pad { axis, n: fit.lanes }) {
                break;
            }
            if !self.split(axis, fit.lanes, AxisKind::Vector) {
                break;
            }
            taken.push(origin);
        }
        taken
    }

    /// Where no vector pays by itself, copies that are kept side by side anyway become one if that saves anything.
    pub(super) fn vectorise_copies(&mut self) {
        let mut best = (self.cost(None, &[]), None);
        let mut seen: Vec<u32> = vec![];
        let Ok(mut plan) = Plan::new(&self.plan.ast, self.plan.target) else { return };
        for (i, opt) in self.applied.iter().enumerate() {
            // only the first part that is split off is contiguous where its range is
            if let Opt::Split { axis, n, kind, inner: true } = opt
                && let origin = plan.axes[*axis].origin
                && !seen.contains(&origin)
            {
                seen.push(origin);
                let cost = self.cost(None, &[(origin, *n as f64)]);
                if *kind == AxisKind::Upcast
                    && cost < best.0
                    && let Some(vectorised) = self.with_kind(i, AxisKind::Vector)
                {
                    best = (cost, Some(vectorised));
                }
            }
            if plan.apply(opt).is_err() {
                return;
            }
        }
        if let Some((plan, applied)) = best.1 {
            (*self.plan, self.applied) = (plan, applied);
        }
    }

    /// What was applied so far, with another kind in one of the splits.
    fn with_kind(&self, at: usize, to: AxisKind) -> Option<(Plan<'a>, Vec<Opt>)> {
        let (mut plan, mut applied) =
            (Plan::new(&self.plan.ast, self.plan.target).ok()?, self.applied.clone());
        if let Opt::Split { kind, .. } = &mut applied[at] {
            *kind = to;
        }
        applied.iter().try_for_each(|o| plan.apply(o)).ok()?;
        Some((plan, applied))
    }

    /// The cost of what moves with a range, in scalar operations: in vectors of so many elements along others, of which no
    /// two are open together, or without.
    fn cost(&self, of: Option<u32>, along: &[(u32, f64)]) -> f64 {
        let costs = self.plan.target.costs;
        let counts = |ids: &[u32]| of.is_none_or(|id| ids.contains(&id));
        let lane = |ids: &[u32]| along.iter().find(|(id, _)| ids.contains(id)).copied();
        let accesses = self.accesses.iter().filter(|a| counts(&a.around)).map(|a| {
            let along = lane(&a.around);
            let share = match along {
                Some((id, w)) => match (coefficient(&a.idx, id), a.node.op) {
                    (Some(0), _) if !a.moves_with(id) => 1.0 / w,
                    (Some(1), _) => 1.0 / w,
                    _ if self.can_be_staged(a, id) => costs.staged_load.get() / w,
                    (Some(-1), Op::Load) => costs.deinterleaved_load.get() / w,
                    (Some(step @ 2..=4), Op::Load) => costs.deinterleaved_load.get() * step as f64 / w,
                    (_, op) if self.can_transpose_in_registers(a, id, w) => match op {
                        Op::Load => costs.transposed_load.get() / w,
                        _ => costs.transposed_store.get() / w,
                    },
                    (_, Op::Load) => costs.load_lane.get(),
                    _ => costs.store_lane.get(),
                },
                _ => 1.0,
            };
            // a tile of results will use what it loads several times
            a.times * share / self.reuse(a, along).min(MOST_REUSE)
        });
        let work = self.work.iter().filter(|(n, _)| counts(&n.ranges)).map(|(n, times)| {
            let (_, w) = lane(&n.ranges).unwrap_or((0, 1.0));
            costs.arithmetic.get() * times / w
        });
        accesses.sum::<f64>() + work.sum::<f64>()
    }

    /// How many results can share what a load in a reduce gives.
    fn reuse(&self, a: &Access, along: Option<(u32, f64)>) -> f64 {
        if a.node.op != Op::Load || !self.is_reduced(&a.node) {
            return 1.0;
        }
        let others = self.plan.axes.iter().filter(|x| x.kind == AxisKind::Global && !a.moves_with(x.origin));
        let vectors = |x: &Axis| match along {
            Some((id, w)) if id == x.origin => x.extent.bounds.1.max(1) as f64 / w,
            _ => x.extent.bounds.1.max(1) as f64,
        };
        others.map(vectors).product::<f64>().max(1.0)
    }

    /// Whether a load could be read from a packed copy in which it is contiguous along a range: it is read again often
    /// enough, and the copy is small.
    fn can_be_staged(&self, a: &Access, along: u32) -> bool {
        let inner: usize = self
            .plan
            .axes
            .iter()
            .filter(|x| x.kind == AxisKind::Reduce && a.moves_with(x.origin))
            .map(|x| x.size().unwrap_or(1 << 20))
            .product();
        let outer = self.plan.axes.iter().filter(|x| x.kind == AxisKind::Global);
        let outer: Vec<_> = outer.filter(|x| x.origin != along).collect();
        let bytes = inner * 4 * self.plan.target.vector_bytes;
        a.node.op == Op::Load
            && a.node.src.len() == 1
            && a.idx.op != Op::Where
            && coefficient(&a.idx, along).is_some()
            && self.reduces.len() == 1
            && outer.len() == 1
            && outer.iter().all(|x| !a.moves_with(x.origin) && x.size().is_some_and(|n| n >= 64))
            && inner >= 16
            && bytes <= self.plan.target.l2() / 2
    }

    /// The cost with vectors along some ranges.
    fn vector_cost(&self, lanes: &[VectorAxis]) -> f64 {
        let extent =
            |o, k| self.find(o, k).map_or(1.0, |at| self.plan.axes[at].extent.bounds.1.max(1) as f64);
        let along: SmallVec<[(u32, f64); 4]> =
            lanes.iter().map(|(o, k, fit)| (*o, extent(*o, *k) / fit.vectors)).collect();
        let mut cost = self.cost(None, &along);
        for (origin, _, fit) in lanes.iter().filter(|l| l.1 == AxisKind::Reduce) {
            // lanes are combined once a result
            let results: f64 = self.reduces.iter().filter(|r| closed(r).contains(origin)).count() as f64;
            let outer: f64 = self
                .origins(&[AxisKind::Global, AxisKind::Loop])
                .iter()
                .filter(|(o, _)| self.plan.are_together(*o, *origin))
                .filter_map(|(o, k)| self.size(*o, *k))
                .map(|n| n as f64)
                .product();
            cost += results * outer * fit.lanes as f64;
        }
        cost
    }

    /// The range along which vectors pay most, of those never open together with the ones that have them already. Others
    /// that are not open together with it can have them too, and count.
    fn best_axis(&self, taken: &[u32]) -> Option<VectorAxis> {
        let kinds = [AxisKind::Global, AxisKind::Loop, AxisKind::Reduce];
        let is_free = |o: u32| !taken.iter().any(|t| *t == o || self.plan.are_together(*t, o));
        let fits = |(o, k): (u32, AxisKind)| Some((o, k, self.fit(o, k)?));
        let all: Vec<VectorAxis> =
            self.origins(&kinds).into_iter().filter(|l| is_free(l.0)).filter_map(fits).collect();
        let mut best: Option<(f64, VectorAxis)> = None;
        for lane in &all {
            let mut lanes: SmallVec<[VectorAxis; 4]> = smallvec![*lane];
            let mut cost = self.vector_cost(&lanes);
            for other in &all {
                if lanes.iter().any(|l| self.plan.are_together(l.0, other.0)) {
                    continue;
                }
                lanes.push(*other);
                let with = self.vector_cost(&lanes);
                if with < cost {
                    cost = with;
                } else {
                    lanes.pop();
                }
            }
            if best.as_ref().is_none_or(|b| cost < b.0 * 0.999) {
                best = Some((cost, *lane));
            }
        }
        let (_, choice) = best?;
        // what moves with it must become much cheaper, whatever the rest of the kernel costs
        let before = self.cost(Some(choice.0), &[]);
        let saved = self.cost(None, &[]) - self.vector_cost(&[choice]);
        (saved > LEAST_SAVED * before).then_some(choice)
    }

    /// How vectors fit an axis best.
    fn fit(&self, origin: u32, kind: AxisKind) -> Option<Fit> {
        let axis = self.find(origin, kind)?;
        let moving = |a: &&Access| a.node.ranges.contains(&origin);
        let widest = self.accesses.iter().filter(moving).map(|a| a.node.src[0].dtype.size()).max()?;
        let most = self.plan.target.vector_bytes / widest.max(4);
        let extent = self.plan.axes[axis].extent.bounds.1.max(1) as usize;
        let mut best: Option<Fit> = None;
        let mut lanes = most;
        while lanes >= 2 {
            // a multiple of the lanes whatever its size is
            let whole = divide(&self.plan.axes[axis].extent, lanes).is_some();
            let pad = !whole;
            let is_masked = pad && !self.plan.can_overlap(origin, lanes);
            let vectors = extent.div_ceil(lanes) as f64
                * if is_masked { self.plan.target.costs.masked_vector.get() } else { 1.0 };
            let opt = if pad {
                Opt::Pad { axis, n: lanes }
            } else {
                Opt::Split { axis, n: lanes, kind: AxisKind::Vector, inner: true }
            };
            // of as few vectors, the narrower
            if best.is_none_or(|b| vectors <= b.vectors)
                && vectors < extent as f64
                && self.plan.clone().apply(&opt).is_ok()
            {
                best = Some(Fit { lanes, pad, vectors });
            }
            lanes /= 2;
        }
        best
    }
}
