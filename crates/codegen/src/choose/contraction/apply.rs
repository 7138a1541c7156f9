//! The opts of a choice: tiles, panels and their groups, what threads share, copies.

use super::{BETWEEN, Choice, Contraction, EQUAL, INSIDE, MOST_PARTS, OUTSIDE, Operand, SLICES, WORTH};
use crate::plan::opt::{Opt, Order};
use crate::plan::{Axis, Plan};
use frit_uop::{AxisKind, Space};

impl Contraction<'_, '_> {
    pub(super) fn take(&mut self, opt: Opt) -> Option<()> {
        self.plan.apply(&opt).ok()?;
        self.applied.push(opt);
        Some(())
    }
    fn split(&mut self, axis: usize, n: usize, kind: AxisKind) -> Option<()> {
        if n > 1 { self.take(Opt::Split { axis, n, kind, inner: true }) } else { Some(()) }
    }
    pub(super) fn find(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        self.plan.axes.iter().position(|a| a.origin == origin && a.kind == kind)
    }

    pub(super) fn apply(&mut self, c: &Choice) -> Option<()> {
        let axis = self.find(c.lane, AxisKind::Global)?;
        let width = self.lanes * c.vectors;
        if !self.is_multiple(c.lane, width) {
            self.take(Opt::Pad { axis, n: width })?;
        }
        self.split(axis, self.lanes, AxisKind::Vector)?;
        if self.find(c.lane, AxisKind::Global).is_some() {
            self.split(axis, c.vectors, AxisKind::Upcast)?;
        }
        for (origin, n) in &c.tile {
            let axis = self.find(*origin, AxisKind::Global)?;
            if !self.is_multiple(*origin, *n) {
                self.take(Opt::Pad { axis, n: *n })?;
            }
            self.split(axis, *n, AxisKind::Upcast)?;
        }
        self.unroll(c)?;
        let group = self.group(c)?;
        let spread = self.spread(c, group)?;
        self.order(c, group, spread)?;
        self.stage(c);
        Some(())
    }

    /// Operations of one step: an update of each result, and what makes the factors.
    fn updates(&self, c: &Choice) -> f64 {
        let made = self.made(&c.tile, |m| self.times(m, c));
        self.results(c) as f64 + made
    }

    /// Whether there are so few steps that all are unrolled.
    pub(super) fn is_unrolled(&self, c: &Choice) -> bool {
        self.depth() * self.updates(c) <= self.plan.target.costs.straight_updates as f64
            && self.reduced.iter().all(|r| self.is_fixed(r.0))
    }

    /// Unroll all steps of the reduce, or a few of its innermost axis.
    fn unroll(&mut self, c: &Choice) -> Option<()> {
        if self.is_unrolled(c) {
            for (origin, n) in self.reduced.clone() {
                let axis = self.find(origin, AxisKind::Reduce)?;
                self.split(axis, n, AxisKind::Unroll)?;
            }
            return Some(());
        }
        let &(origin, n) = self.reduced.last()?;
        // steps of a window read what its neighbours read: those values must be kept, or be operands in memory
        let step = |o: &Operand, axis: u32| o.steps.step(axis).map(i64::abs);
        let overlaps =
            |o: &Operand| c.tile.iter().any(|t| o.moves_with(t.0) && step(o, t.0) == step(o, origin));
        if !self.plan.target.costs.has_broadcast_operands && self.operands.iter().any(overlaps)
            || !self.is_fixed(origin)
        {
            return Some(());
        }
        let most = (self.plan.target.costs.body_updates / self.updates(c) as usize).clamp(1, 8);
        let factor = (1..=most.min(n)).rev().find(|f| n.is_multiple_of(*f)).unwrap_or(1);
        let axis = self.find(origin, AxisKind::Reduce)?;
        self.split(axis, factor, AxisKind::Unroll)
    }

    /// Whether so many equal pieces of work keep all threads busy.
    fn is_balanced(&self, pieces: usize) -> bool {
        let threads = self.plan.target.threads.max(1);
        pieces * 10 >= pieces.div_ceil(threads) * threads * 9
    }

    /// Take as many panels together as leave room for other things in the second-level cache: what is read for one of
    /// them is read for all. Gives how many panels a group has.
    fn group(&mut self, c: &Choice) -> Option<usize> {
        let Some(axis) = self.find(c.lane, AxisKind::Global) else { return Some(1) };
        let Some(panels) = self.plan.axes[axis].size() else { return Some(1) };
        let (wide, narrow): (Vec<&Operand>, Vec<&Operand>) =
            self.operands.iter().partition(|o| o.moves_with(c.lane));
        let packed: Vec<&Operand> = wide.iter().copied().filter(|o| self.is_packed(o, c)).collect();
        let depth = |o: &Operand| {
            self.reduced.iter().filter(|r| o.moves_with(r.0)).map(|r| r.1 as f64).product::<f64>()
        };
        let bytes = |o: &Operand| depth(o) * (self.copies(o, c) * self.lanes * o.held) as f64;
        // what stays close anyway is not what panels should be few for
        let stays = |o: &&Operand| {
            let results = self.outputs.iter().filter(|x| o.moves_with(x.0)).map(|x| x.1 as f64);
            depth(o) * o.bytes as f64 * results.product::<f64>() <= self.plan.target.l2() as f64 / 4.0
        };
        let kept = if narrow.iter().all(stays) { &wide } else { &packed };
        let panel: f64 = kept.iter().map(|o| bytes(o)).sum();
        let outside: usize = self.beside(c.lane).iter().map(|o| self.left(*o)).product();
        if self.has_copies(c) {
            let room = self.plan.target.l2() as f64 / 2.0;
            let fits = |g: &usize| panels.is_multiple_of(*g) && (*g == 1 || *g as f64 * panel <= room);
            let time = |g: &usize| self.group_time(c, panels, *g, outside);
            let g = (1..=panels).filter(fits).min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(1);
            if g < panels {
                self.split(axis, g, AxisKind::Global)?;
            }
            return Some(g);
        }
        let room = self.plan.target.l2() as f64 / 4.0;
        let others = self.outputs.iter().filter(|o| packed.iter().all(|w| !w.moves_with(o.0)));
        let again: f64 = others.map(|o| o.1 as f64).product();
        let fits: Vec<usize> =
            (1..=panels).rev().filter(|g| panels.is_multiple_of(*g) && *g as f64 * panel <= room).collect();
        // one group is packed by every thread several times: worth it where that is little beside its use
        let all = packed.is_empty() || again > 16384.0;
        let good = |g: &&usize| match panels / **g {
            1 if outside == 1 => all,
            n => self.is_balanced(outside * n),
        };
        // where no number of groups does, as many as there are: each may be walked in parts
        let g = fits.iter().find(good).or(fits.last()).copied().unwrap_or(1);
        if g < panels {
            self.split(axis, g, AxisKind::Global)?;
        }
        Some(g)
    }

    /// Cycles until the last thread is done with groups of so many panels, where narrow operands are copied once for all panels
    /// of a group.
    fn group_time(&self, c: &Choice, panels: usize, group: usize, outside: usize) -> f64 {
        let (costs, threads) = (self.plan.target.costs, self.plan.target.threads.max(1));
        let beside = self.beside(c.lane);
        let others: Vec<(u32, usize)> =
            self.outputs.iter().filter(|o| o.0 != c.lane && !beside.contains(&o.0)).copied().collect();
        let tiles: usize = others.iter().map(|o| self.left(o.0)).product();
        let tile = self.depth() * self.results(c) as f64 / costs.fma_ports.get();
        // copied whole where that is little, else what a tile needs for each of them
        let (mut whole, mut each) = (0.0, 0.0);
        for o in self.operands.iter().filter(|o| !o.moves_with(c.lane) && o.has_windows) {
            let all = self.window(o, &others);
            match all * o.bytes as f64 <= self.plan.target.l2() as f64 / 4.0 {
                true => whole += all * self.copying(o, &others),
                false => each += self.window(o, &c.tile) * self.copying(o, &c.tile),
            }
        }
        let packed = self.operands.iter().filter(|o| o.moves_with(c.lane) && self.is_packed(o, c));
        let pack: f64 = packed
            .map(|o| {
                let steps = self.reduced.iter().filter(|r| o.moves_with(r.0));
                let vectors = steps.map(|r| r.1 as f64).product::<f64>() * self.copies(o, c) as f64;
                vectors * self.lanes as f64 * self.packing(o, c)
            })
            .sum();
        let (one, once) = (tile * group as f64 + each, whole + pack * group as f64);
        match outside * (panels / group) {
            // threads share tiles, and copy and pack for every slice of them that they take
            1 => tiles.div_ceil(threads) as f64 * one + SLICES * once,
            pieces => pieces.div_ceil(threads) as f64 * (tiles as f64 * one + once),
        }
    }

    /// Cycles for an element of a window that is copied: in vectors where a row of what the results need fills most of one, as a
    /// tile is then laid out.
    fn copying(&self, o: &Operand, results: &[(u32, usize)]) -> f64 {
        let costs = self.plan.target.costs;
        let of_row = |x: &&(u32, usize)| o.steps.step(x.0).is_some_and(|s| s.abs() == 1);
        let taps = self.reduced.iter().find(of_row).map_or(1, |r| r.1);
        let row = |t: &(u32, usize)| match o.steps.step(t.0) {
            Some(s) if s > 0 && s <= taps as i64 => Some((t.1 - 1) * s as usize + taps),
            _ => None,
        };
        match results.iter().filter_map(row).max() {
            Some(row) if taps > 1 && 2 * row > self.lanes => {
                costs.packed_vector.get() * row.div_ceil(self.lanes) as f64 / row as f64
            }
            _ => costs.gather_lane.get(),
        }
    }

    /// Elements of an operand that so many results along some axes need over all steps: along an axis that windows slide on, as
    /// many as they cover.
    fn window(&self, o: &Operand, results: &[(u32, usize)]) -> f64 {
        let step = |axis: u32| o.steps.step(axis).map(i64::abs);
        let mut tile: Vec<&(u32, usize)> = results.iter().filter(|t| o.moves_with(t.0)).collect();
        let mut all = 1.0;
        for &(r, n) in self.reduced.iter().filter(|r| o.moves_with(r.0)) {
            let near = step(r).filter(|s| *s > 0);
            let slides = |t: &&(u32, usize)| {
                near.zip(step(t.0)).is_some_and(|(r, t)| t > 0 && t % r == 0 && t / r <= n as i64)
            };
            all *= match (tile.iter().position(slides), near) {
                (Some(at), Some(near)) => {
                    let (origin, m) = *tile.remove(at);
                    let apart = step(origin).unwrap_or(near) / near;
                    ((m - 1) * apart as usize + n) as f64
                }
                _ => n as f64,
            };
        }
        all * tile.iter().map(|t| t.1 as f64).product::<f64>()
    }

    /// Whether a narrow operand is copied, too: that copy is for all panels, so threads cannot share them.
    pub(super) fn has_copies(&self, c: &Choice) -> bool {
        self.operands.iter().any(|o| !o.moves_with(c.lane) && o.has_windows)
    }

    /// Where groups of panels leave threads idle, walk an axis that shares them, or a part of it, outside: each piece then packs
    /// for itself. Gives that axis.
    fn spread(&mut self, c: &Choice, group: usize) -> Option<Option<u32>> {
        let (costs, threads) = (self.plan.target.costs, self.plan.target.threads.max(1));
        let packed = self.operands.iter().find(|o| o.moves_with(c.lane) && self.is_packed(o, c));
        let Some(packed) = packed else { return Some(None) };
        let beside = self.beside(c.lane);
        let mut groups: Vec<usize> = self
            .plan
            .axes
            .iter()
            .filter(|a| a.origin == c.lane && a.kind == AxisKind::Global)
            .filter_map(Axis::size)
            .collect();
        // the panels of one group are inside
        groups.truncate(groups.len() - (group > 1) as usize);
        let pieces =
            groups.iter().product::<usize>() * beside.iter().map(|o| self.left(*o)).product::<usize>();
        // what is copied for all panels of a group is copied for each group again
        if self.has_copies(c) && pieces > 1 {
            return Some(None);
        }
        let others: Vec<u32> =
            self.outputs.iter().map(|o| o.0).filter(|o| *o != c.lane && !beside.contains(o)).collect();
        // cycles for each element that is packed: to pack it, and for all tiles that use it
        let pack = self.packing(packed, c);
        let positions = c.tile.iter().map(|t| t.1).product::<usize>() as f64;
        let tiles: usize = others.iter().map(|o| self.left(*o)).product();
        let used = (tiles * packed.sums) as f64 * positions / (costs.fma_ports.get() * self.lanes as f64);
        let time = |parts: usize| (pieces * parts).div_ceil(threads) as f64 * (pack + used / parts as f64);
        let mut ways = vec![];
        for origin in others {
            let n = self.left(origin);
            let parts = (2..=n).filter(|parts| n.is_multiple_of(*parts));
            ways.extend(parts.map(|parts| (time(parts), origin, n, parts)));
        }
        let least = ways.iter().map(|w| w.0).fold(f64::INFINITY, f64::min);
        if least >= time(1) * WORTH {
            return Some(None);
        }
        // of those that take about as long the one with most parts: threads that are held up leave theirs to others
        let good = ways.into_iter().filter(|w| w.0 <= least * EQUAL);
        let Some((_, origin, n, parts)) = good.max_by_key(|w| (w.3 <= MOST_PARTS * threads, w.3)) else {
            return Some(None);
        };
        let axis = self.find(origin, AxisKind::Global)?;
        if parts < n {
            self.split(axis, n / parts, AxisKind::Global)?;
        }
        Some(Some(origin))
    }

    /// Output axes that every wide load moves with, besides the lane axis.
    pub(super) fn beside(&self, lane: u32) -> Vec<u32> {
        let wide = |x: u32| self.operands.iter().filter(|o| o.moves_with(lane)).all(|o| o.moves_with(x));
        self.outputs.iter().map(|o| o.0).filter(|o| *o != lane && wide(*o)).collect()
    }
    /// What is left of an output axis as a loop.
    fn left(&self, origin: u32) -> usize {
        self.find(origin, AxisKind::Global).and_then(|i| self.plan.axes[i].size()).unwrap_or(1)
    }

    /// Outside what the wide operand moves with, then the other results, panels of a group, the reduce, and the tile.
    fn order(&mut self, c: &Choice, group: usize, spread: Option<u32>) -> Option<()> {
        let beside = self.beside(c.lane);
        let parts = spread.and_then(|origin| self.find(origin, AxisKind::Global));
        let is_panel =
            |i: &usize| self.plan.axes[*i].origin == c.lane && self.plan.axes[*i].kind == AxisKind::Global;
        let panels: Vec<usize> = (0..self.plan.axes.len()).filter(is_panel).collect();
        let rank = |i: &usize| {
            let a: &Axis = &self.plan.axes[*i];
            match a.kind {
                AxisKind::Global if panels.last() == Some(i) && group > 1 => INSIDE,
                AxisKind::Global if a.origin == c.lane || beside.contains(&a.origin) => OUTSIDE,
                AxisKind::Global if parts == Some(*i) => OUTSIDE,
                AxisKind::Global => BETWEEN,
                AxisKind::Reduce => 3,
                AxisKind::Unroll => 4,
                _ if a.origin != c.lane => 5,
                _ => 6,
            }
        };
        let mut order: Vec<usize> = (0..self.plan.axes.len()).collect();
        // what packs for itself is outside of what is packed, so that threads share all of these loops
        order.sort_by_key(|i| (rank(i), parts != Some(*i)));
        self.ranks = order.iter().map(rank).collect();
        if !order.is_sorted() { self.take(Opt::Reorder { order }) } else { Some(()) }
    }

    /// Copy operands close: the wide one as vectors in the order they are used, a narrow one without its gates.
    fn stage(&mut self, c: &Choice) -> Option<()> {
        let first = |rank: u8, ranks: &[u8]| ranks.iter().position(|r| *r >= rank).unwrap_or(ranks.len());
        let wide: Vec<usize> = (self.operands.iter())
            .filter(|o| o.moves_with(c.lane) && self.is_packed(o, c))
            .map(|o| o.at)
            .collect();
        let narrow: Vec<usize> =
            (self.operands.iter()).filter(|o| !o.moves_with(c.lane) && o.has_windows).map(|o| o.at).collect();
        let between = first(BETWEEN, &self.ranks);
        let mut tiles: Vec<(usize, usize)> = wide.iter().map(|operand| (*operand, between)).collect();
        for operand in narrow {
            let inside = first(INSIDE, &self.ranks);
            tiles.extend(self.fit(operand, between, inside).map(|at| (operand, at)));
        }
        for (operand, at) in tiles {
            _ = self.take(Opt::Stage {
                operand,
                at,
                space: Space::Local,
                order: Order::LoopOrder,
                buffers: 1,
            });
        }
        Some(())
    }

    /// Where between two places a copy of an operand is made: as far outside as it is small enough, with a block of a
    /// loop inside where not all of it is.
    fn fit(&mut self, operand: usize, from: usize, to: usize) -> Option<usize> {
        let room = self.plan.target.l2() / 4;
        let fits = |plan: &Plan, at: usize| plan.staged_bytes(operand, at).is_some_and(|b| b <= room);
        let at = (from..=to).find(|at| fits(self.plan, *at))?;
        if at == from {
            return Some(at);
        }
        let n = self.plan.axes[at - 1].size()?;
        for block in (2..n).rev().filter(|b| n.is_multiple_of(*b)) {
            let mut smaller = self.plan.clone();
            let opt = Opt::Split { axis: at - 1, n: block, kind: AxisKind::Global, inner: true };
            if smaller.apply(&opt).is_ok() && fits(&smaller, at) {
                self.take(opt)?;
                self.ranks.insert(at, BETWEEN);
                break;
            }
        }
        Some(at)
    }
}
