//! Choose opts by looking at how a kernel's accesses move with its axes: who is contiguous, who is reused.
//!
//! On a CPU: vectors along the axis that makes accesses cheapest; a register tile that loads least for what it
//! computes; small reduce axes written out; the loop that re-reads least outside, and its operand copied close. On a
//! grid: lanes along what is contiguous, or across a reduce where there are few results.

use crate::access::{address, coefficient};
use crate::opt::{Layout, Opt, Plan};
use crate::ranges::closed;
use frit_uop::{AxisKind, DType, Op, Space, UOp};
use smallvec::{SmallVec, smallvec};

mod lines;

/// Choose opts, apply them, and say which.
pub fn choose(plan: &mut Plan) -> Vec<Opt> {
    if let Some(opts) = crate::matrix::choose::choose(plan) {
        return opts;
    }
    if plan.target.grid.is_none()
        && let Some(opts) = crate::contract::choose(plan)
    {
        return opts;
    }
    let mut c = Chooser::new(plan);
    if c.plan.target.grid.is_some() {
        c.grid()
    } else {
        c.cpu()
    }
    c.applied
}

/// A load or store: how it moves, and how often it happens.
struct Access {
    idx: UOp,
    node: UOp,
    /// The ranges of the loops it happens in, whether or not it moves with them.
    around: SmallVec<[u32; 6]>,
    times: f64,
}

impl Access {
    fn moves_with(&self, origin: u32) -> bool {
        self.idx.ranges.contains(&origin)
    }
}

struct Chooser<'p, 'a> {
    plan: &'p mut Plan<'a>,
    applied: Vec<Opt>,
    accesses: Vec<Access>,
    /// Arithmetic on data: the ranges it is in, how often it happens.
    work: Vec<(UOp, f64)>,
    reduces: Vec<UOp>,
}

/// A way to walk an axis in vectors: lanes, and whether its extent must be rounded up.
#[derive(Clone, Copy)]
struct Fit {
    lanes: usize,
    pad: bool,
    /// Vectors for the whole axis, a masked one counting a little more.
    vectors: f64,
}

/// A range with vectors along it.
type Lane = (u32, AxisKind, Fit);

impl<'p, 'a> Chooser<'p, 'a> {
    fn new(plan: &'p mut Plan<'a>) -> Self {
        let order = plan.ast.toposort();
        let extent = |id: &u32| {
            plan.axes.iter().find(|a| a.origin == *id).map_or(1.0, |a| a.extent.bounds.1.max(1) as f64)
        };
        let times = |ids: &[u32]| ids.iter().map(extent).product::<f64>();
        let reduces: Vec<UOp> = order.iter().filter(|n| n.op == Op::Reduce).cloned().collect();
        // what is in a reduce's loop happens as often as the loop goes round
        let around = |n: &UOp| {
            let mut ids = n.ranges.clone();
            for r in &reduces {
                if closed(r).iter().any(|id| n.ranges.contains(id)) {
                    ids.extend(r.src[0].ranges.iter().copied());
                }
            }
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let accesses = order
            .iter()
            .filter_map(|n| {
                let (idx, around) = (address(n)?.1.clone(), around(n));
                Some(Access { idx, node: n.clone(), times: times(&around), around })
            })
            .collect();
        let is_data = |n: &UOp| n.op.alu().is_some() && !matches!(n.dtype, DType::Index | DType::Bool);
        let mut work: Vec<(UOp, f64)> =
            order.iter().filter(|n| is_data(n)).map(|n| (n.clone(), times(&n.ranges))).collect();
        work.extend(reduces.iter().map(|r| (r.src[0].clone(), times(&r.src[0].ranges))));
        Chooser { plan, applied: vec![], accesses, work, reduces }
    }

    fn take(&mut self, opt: Opt) -> bool {
        let ok = self.plan.apply(&opt).is_ok();
        if ok {
            self.applied.push(opt);
        }
        ok
    }
    fn split(&mut self, axis: usize, n: usize, kind: AxisKind) -> bool {
        self.take(Opt::Split { axis, n, kind, inner: true })
    }
    /// Where the axis stands that is left of a range, walked as `kind`.
    fn find(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        self.plan.axes.iter().position(|a| a.origin == origin && a.kind == kind)
    }
    /// Ranges that are still walked as they came, with their kinds.
    fn origins(&self, kinds: &[AxisKind]) -> Vec<(u32, AxisKind)> {
        self.plan.axes.iter().filter(|a| kinds.contains(&a.kind)).map(|a| (a.origin, a.kind)).collect()
    }
    fn size(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        self.plan.axes[self.find(origin, kind)?].size()
    }

    // ---- CPU

    fn cpu(&mut self) {
        let mut lanes: Vec<u32> = vec![];
        while let Some((origin, kind, fit)) = self.best_lane(&lanes) {
            let Some(axis) = self.find(origin, kind) else { break };
            if fit.pad && !self.take(Opt::Pad { axis, n: fit.lanes }) {
                break;
            }
            if !self.split(axis, fit.lanes, AxisKind::Upcast) {
                break;
            }
            lanes.push(origin);
        }
        self.share(&lanes);
        let tiled = self.tile(self.plan.target.registers, &lanes);
        if !tiled {
            self.finish_lines(&lanes);
            self.more_in_flight(&lanes);
        }
        self.unroll();
        self.order_loops();
    }

    /// Write out a short loop around work that does not move with it, so that its iterations share that.
    fn share(&mut self, lanes: &[u32]) {
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
            if n <= 16
                && shared > 2
                && shared > own
                && !lanes.contains(&origin)
                && self.plan.copies(origin) <= 16
            {
                self.split(axis, n, AxisKind::Upcast);
            }
        }
    }

    /// The cost of what moves with a range, in scalar operations: in vectors of so many elements along others, of which no
    /// two are open together, or without.
    fn cost(&self, of: Option<u32>, along: &[(u32, f64)]) -> f64 {
        let counts = |ids: &[u32]| of.is_none_or(|id| ids.contains(&id));
        let lane = |ids: &[u32]| along.iter().find(|(id, _)| ids.contains(id)).copied();
        let accesses = self.accesses.iter().filter(|a| counts(&a.around)).map(|a| {
            let along = lane(&a.around);
            let share = match along {
                Some((id, w)) => match (coefficient(&a.idx, id), a.node.op) {
                    (Some(0), _) if !a.moves_with(id) => 1.0 / w,
                    (Some(1), _) => 1.0 / w,
                    _ if self.can_be_staged(a, id) => 1.2 / w,
                    // loaded whole, and shuffled
                    (Some(step @ 2..=4), Op::Load) if !lines::is_gated_by(&a.idx, id) => {
                        2.0 * step as f64 / w
                    }
                    // of two ways, the one that writes straight on
                    (_, op) if self.can_be_turned(&a.node, &a.idx, id, w) => {
                        if op == Op::Load {
                            5.0 / w
                        } else {
                            5.5 / w
                        }
                    }
                    // lane by lane: moved, and put in its place
                    (_, Op::Load) => 1.8,
                    _ => 2.5,
                },
                _ => 1.0,
            };
            // a tile of results will use what it loads several times
            a.times * share / self.reuse(a, along).min(6.0)
        });
        let work = self.work.iter().filter(|(n, _)| counts(&n.ranges)).map(|(n, times)| {
            let (_, w) = lane(&n.ranges).unwrap_or((0, 1.0));
            0.5 * times / w
        });
        accesses.sum::<f64>() + work.sum::<f64>()
    }

    /// How many results can share what a load in a reduce gives.
    fn reuse(&self, a: &Access, along: Option<(u32, f64)>) -> f64 {
        if a.node.op != Op::Load || !self.is_reduced(&a.node) {
            return 1.0;
        }
        let others = self.plan.axes.iter().filter(|x| x.kind == AxisKind::Global && !a.moves_with(x.origin));
        let vectors = |x: &crate::opt::Axis| match along {
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
            && bytes <= self.plan.target.caches[1].max(1 << 20) / 2
    }

    /// The cost with vectors along some ranges.
    fn lane_cost(&self, lanes: &[Lane]) -> f64 {
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
    fn best_lane(&self, taken: &[u32]) -> Option<Lane> {
        let kinds = [AxisKind::Global, AxisKind::Loop, AxisKind::Reduce];
        let is_free = |o: u32| !taken.iter().any(|t| *t == o || self.plan.are_together(*t, o));
        let fits = |(o, k): (u32, AxisKind)| Some((o, k, self.fit(o, k)?));
        let all: Vec<Lane> =
            self.origins(&kinds).into_iter().filter(|l| is_free(l.0)).filter_map(fits).collect();
        let mut best: Option<(f64, Lane)> = None;
        for lane in &all {
            let mut lanes: SmallVec<[Lane; 4]> = smallvec![*lane];
            let mut cost = self.lane_cost(&lanes);
            for other in &all {
                if lanes.iter().any(|l| self.plan.are_together(l.0, other.0)) {
                    continue;
                }
                lanes.push(*other);
                let with = self.lane_cost(&lanes);
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
        let saved = self.cost(None, &[]) - self.lane_cost(&[choice]);
        (saved > 0.25 * before).then_some(choice)
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
            let whole = self.plan.axes[axis].size().is_some_and(|n| n % lanes == 0);
            let pad = !whole;
            let vectors = extent.div_ceil(lanes) as f64 * if pad { 1.15 } else { 1.0 };
            let opt = if pad {
                Opt::Pad { axis, n: lanes }
            } else {
                Opt::Split { axis, n: lanes, kind: AxisKind::Upcast, inner: true }
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

    /// Keep a tile of results in registers where loads in a reduce are used by several of them: the tile that loads
    /// least for what it computes.
    fn tile(&mut self, registers: usize, lanes: &[u32]) -> bool {
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
        let results = self.reduces.len();
        let fits = |n: usize| -> Vec<usize> { (1..=8).filter(|f| n.is_multiple_of(*f)).collect() };
        let mut best: (f64, Vec<(u32, usize)>) = (0.0, vec![]);
        let mut consider = |tile: &[(u32, usize)]| {
            let count: usize = tile.iter().map(|t| t.1).product::<usize>() * results;
            let copies =
                |l: &Access| tile.iter().filter(|t| l.moves_with(t.0)).map(|t| t.1).product::<usize>();
            let held = loads.iter().map(|l| copies(l)).min().unwrap_or(1);
            if count + held + 1 > registers {
                return;
            }
            let loaded: usize = loads.iter().map(|l| copies(l)).sum();
            // enough in flight to hide latency, then little loaded for what is computed
            let score = count as f64 / loaded as f64 * (count.min(8) as f64 / 8.0);
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

    fn is_reduced(&self, n: &UOp) -> bool {
        self.reduces.iter().any(|r| closed(r).iter().any(|id| n.ranges.contains(id)))
    }

    /// Without a tile there is one chain of operations: walk a few vectors side by side.
    fn more_in_flight(&mut self, lanes: &[u32]) {
        for origin in lanes {
            for kind in [AxisKind::Reduce, AxisKind::Global, AxisKind::Loop] {
                let Some(axis) = self.find(*origin, kind) else { continue };
                if self.plan.axes[axis].size().is_none_or(|n| n < 8) || self.plan.copies(*origin) > 64 {
                    continue;
                }
                for n in [4, 5, 3, 2] {
                    if self.split(axis, n, AxisKind::Upcast) {
                        break;
                    }
                }
            }
        }
        if lanes.is_empty() {
            for (origin, kind) in self.origins(&[AxisKind::Reduce]) {
                if let Some(axis) = self.find(origin, kind)
                    && self.size(origin, kind).is_some_and(|n| n >= 16)
                {
                    self.split(axis, 4, AxisKind::Upcast);
                }
            }
        }
    }

    /// Write out short reduce axes, and a few steps of a long one.
    fn unroll(&mut self) {
        let lanes = self.plan.target.lanes(DType::F32).max(1);
        let limit = 64 * lanes;
        for (origin, kind) in self.origins(&[AxisKind::Reduce]).into_iter().rev() {
            let (Some(axis), Some(n)) = (self.find(origin, kind), self.size(origin, kind)) else { continue };
            if n <= 9 && n * self.plan.copies(origin) <= limit {
                self.split(axis, n, AxisKind::Unroll);
            }
        }
        let left = self.origins(&[AxisKind::Reduce]);
        if let [(origin, kind)] = left[..]
            && let Some(axis) = self.find(origin, kind)
            && let Some(n) = self.size(origin, kind)
        {
            for f in [4, 2] {
                if n >= 4 * f
                    && f * self.plan.copies(origin) <= limit
                    && self.split(axis, f, AxisKind::Unroll)
                {
                    break;
                }
            }
        }
    }

    /// Bytes that a load of the reduce walks while the outer loops stand still.
    fn footprint(&self, load: &UOp) -> f64 {
        let idx = &load.src[0].src[1];
        let inner = |k: AxisKind| matches!(k, AxisKind::Reduce | AxisKind::Upcast | AxisKind::Unroll);
        let axes = self.plan.axes.iter().filter(|a| inner(a.kind) && idx.ranges.contains(&a.origin));
        axes.map(|a| a.extent.bounds.1.max(1) as f64).product::<f64>() * load.dtype.size() as f64
    }

    /// Of the outer loops around a reduce, the one that reads least new in each round goes inside. What stays while it
    /// runs is copied close first if its walk is strided.
    fn order_loops(&mut self) {
        let outer: Vec<usize> =
            (0..self.plan.axes.len()).filter(|&i| self.plan.axes[i].kind == AxisKind::Global).collect();
        if outer.len() < 2 || self.reduces.len() != 1 {
            return;
        }
        let loads: Vec<UOp> = self.plan.operands.iter().filter(|l| self.is_reduced(l)).cloned().collect();
        let fresh = |axis: usize| {
            let origin = self.plan.axes[axis].origin;
            let moving = loads.iter().filter(|l| l.src[0].src[1].ranges.contains(&origin));
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
        let stays = |op: &UOp| !op.src[0].src[1].ranges.contains(&inside) && self.is_reduced(op);
        let Some(operand) = self.plan.operands.iter().position(stays) else { return };
        let load = &self.plan.operands[operand];
        let idx = &load.src[0].src[1];
        let vectors =
            self.plan.axes.iter().filter(|a| a.kind == AxisKind::Upcast && idx.ranges.contains(&a.origin));
        let scattered = vectors.into_iter().any(|a| coefficient(idx, a.origin) != Some(1));
        let strided = closed(&self.reduces[0]).iter().any(|r| coefficient(idx, *r).is_none_or(|c| c > 64));
        // windows overlap: a copy of all of them is larger than what it is a copy of
        let mut steps: Vec<Option<i64>> = idx.ranges.iter().map(|r| coefficient(idx, *r)).collect();
        steps.sort_unstable();
        if steps.windows(2).any(|w| w[0] == w[1]) {
            return;
        }
        let large = load.src[0].src[0].shape()[0].as_int().is_some_and(|n| n > 1 << 14);
        if (strided || scattered) && large && self.plan.axes[at].size().is_some_and(|n| n >= 8) {
            self.take(Opt::Stage { operand, at, space: Space::Local, layout: Layout::Walked });
        }
    }

    // ---- grids

    fn grid(&mut self) {
        let outputs: f64 = self
            .origins(&[AxisKind::Global])
            .iter()
            .map(|(o, k)| self.find(*o, *k).map_or(1.0, |i| self.plan.axes[i].extent.bounds.1.max(1) as f64))
            .product();
        let reduces = self.origins(&[AxisKind::Reduce]);
        let longest = reduces.iter().filter_map(|(o, k)| self.size(*o, *k)).max().unwrap_or(1);
        if outputs <= 4096.0 && longest >= 32 && self.group(&reduces) {
            return;
        }
        self.tile(self.plan.target.registers.min(40), &[]);
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
            (1, self.plan.target.grid.as_ref().map_or(1, |g| g.max_block.min(128) as usize));
        for (at, (_, origin)) in axes.iter().enumerate().take(3) {
            let Some(n) = self.size(*origin, AxisKind::Global) else { continue };
            // wide loads and stores where memory is contiguous and there is enough to do
            if at == 0
                && self.reduces.is_empty()
                && n >= 256
                && let Some(axis) = self.find(*origin, AxisKind::Global)
            {
                self.split(axis, 4, AxisKind::Upcast);
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
        let most = self.plan.target.grid.as_ref().map_or(1, |g| g.max_block.min(128) as usize);
        let mut n = most.min(1 << 7);
        let mut any = false;
        while n >= 8 {
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
