//! Copies of what a load reads, closer: which axes they run over, in which layout.
//!
//! Axes that read overlapping windows share a dimension, so that a copy holds every element once and what a gate left out
//! as zeros; a copy that lies across is filled in runs of memory.

use crate::access::{address, coefficient, slot, substitute_open};
use crate::opt::{Axis, Layout, Plan};
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// Vectors of a row that a fill copies at once, at most.
const AT_ONCE: i64 = 8;

#[derive(Clone)]
pub(crate) struct Tile {
    pub operand: usize,
    /// Outermost first.
    pub dims: Vec<Dim>,
    pub space: Space,
    layout: Layout,
}

/// A dimension of a tile: `sum of step * axis + offset`. Axes that read overlapping windows share one, so that a tile
/// holds every element once.
#[derive(Clone)]
pub(crate) struct Dim {
    /// Placeholder ids, each with its step; the first one's is 1 or -1.
    pub axes: SmallVec<[(u32, i64); 2]>,
    offset: i64,
    extent: i64,
    /// How far the load moves with a step of 1, if that is a constant.
    stride: Option<i64>,
}

impl Plan<'_> {
    pub(crate) fn stage(
        &mut self,
        operand: usize,
        at: usize,
        space: Space,
        layout: Layout,
    ) -> Result<(), String> {
        use AxisKind::*;
        if space != Space::Local {
            return Err("registers hold what is loaded already, global memory is where it comes from".into());
        }
        let load =
            self.operands.get(operand).ok_or_else(|| format!("there are {} loads", self.operands.len()))?;
        if matches!(load.arg, Arg::Site(_)) {
            return Err("a checked load stays where it is".into());
        }
        if self.tiles.iter().any(|t| t.operand == operand) {
            return Err("it is staged already".into());
        }
        if self.ast.any(|n| n.op == Op::Store && slot(n) == slot(load)) {
            return Err("the kernel writes to the buffer".into());
        }
        let grid = self.target.grid.is_some();
        let mut tile: Vec<&Axis> = vec![];
        for (i, a) in self.axes.iter().enumerate().filter(|(_, a)| load.ranges.contains(&a.origin)) {
            match a.kind {
                Upcast | Unroll | Local | GroupReduce | Warp | Matrix => tile.push(a),
                Ordered if i >= at => return Err("a scan's loop cannot be inside".into()),
                Global | Thread if grid => {}
                _ if i >= at => tile.push(a),
                _ => {}
            }
        }
        // copies and lanes last, and of them the one along which memory was contiguous: what is read together lies
        // together, and a vector stays one
        let idx = &load.src[0].src[1];
        let part = self.matrix.as_ref().and_then(|m| Some((m, m.operand(operand)?)));
        tile.sort_by_key(|a| {
            let side_by_side = matches!(a.kind, Upcast | Unroll | Local | GroupReduce | Warp);
            let contiguous = a.kind == Upcast && coefficient(idx, a.origin) == Some(1);
            let vector = a.kind == Upcast && a.size() == Some(self.target.lanes(load.dtype));
            // what a matrix unit takes at once lies together, as it wants it
            (part.map_or(0, |(m, o)| m.rank(o, a.id())), side_by_side, contiguous, vector)
        });
        if tile.is_empty() {
            return Err("it moves with no axis that is inside".into());
        }
        if load.src[0].src[1].any(|n| n.op == Op::Reduce) {
            return Err("its index comes from a reduce".into());
        }
        let dims = match layout {
            Layout::Walked => self.dims(load, &tile, part.is_none()).ok_or("its size is not known")?,
            _ if grid || part.is_some() => return Err("what takes it wants it in another layout".into()),
            Layout::Lines => self.lines(load, tile)?,
        };
        let bytes = dims.iter().map(|d| d.extent).product::<i64>() as usize * load.dtype.size();
        let limit = match &self.target.grid {
            Some(g) => g.local_bytes,
            None => self.target.caches[1].max(1 << 20),
        };
        if bytes > limit {
            return Err(format!("{bytes} bytes of local memory, {limit} allowed"));
        }
        self.tiles.push(Tile { operand, dims, space, layout });
        Ok(())
    }

    /// How large the copy of a load would be that is made at an axis.
    pub fn staged_bytes(&self, operand: usize, at: usize) -> Option<usize> {
        let mut staged = self.clone();
        staged.stage(operand, at, Space::Local, Layout::Walked).ok()?;
        let dims = &staged.tiles.last()?.dims;
        Some(dims.iter().map(|d| d.extent as usize).product::<usize>() * self.operands[operand].dtype.size())
    }

    /// Whether a gated load sees ranges only as sums that its gate sees too: a copy of what it reads has no gates.
    pub fn has_windows(&self, operand: usize) -> bool {
        let Some(idx) = self.operands.get(operand).map(|l| &l.src[0].src[1]) else { return false };
        let steps: SmallVec<[(u32, i64); 6]> =
            idx.ranges.iter().filter_map(|o| Some((*o, coefficient(idx, *o)?))).collect();
        steps.len() == idx.ranges.len()
            && steps.iter().all(|(o, k)| {
                let together = steps.iter().filter(|(_, j)| j.abs() == k.abs());
                is_window(idx, together.map(|(o, _)| *o)) && coefficient(idx, *o).is_some()
            })
    }

    /// How much an index grows with a step of an axis.
    fn stride(&self, idx: &UOp, a: &Axis) -> Option<i64> {
        coefficient(idx, a.origin)?.checked_mul(coefficient(&self.parts.get(&a.origin)?.value, a.id())?)
    }

    /// The dimensions of a tile of whole vectors, those that are walked as parts of one again one.
    fn lines(&self, load: &UOp, mut tile: Vec<&Axis>) -> Result<Vec<Dim>, String> {
        let line = self.line(load, &tile).ok_or("it is not read in vectors as they lie")?;
        tile.retain(|a| !line.axes[1..].iter().any(|p| p.0 == a.id()));
        let mut dims = self.dims(load, &tile, false).ok_or("its size is not known")?;
        let copies = dims.iter_mut().find(|d| d.axes[..] == line.axes[..1]);
        *copies.ok_or("its vectors are not there")? = line;
        let origin = |d: &Dim| self.axes.iter().find(|a| a.id() == d.axes[0].0).map(|a| a.origin);
        let mut at = 1;
        while let [outer, inner] = &dims[at - 1..=at.min(dims.len() - 1)] {
            let whole = inner.stride.and_then(|s| s.checked_mul(inner.extent));
            if origin(outer) == origin(inner) && whole.is_some() && outer.stride == whole {
                let mut axes = inner.axes.clone();
                axes.extend(outer.axes.iter().map(|(a, step)| (*a, step * inner.extent)));
                let extent = inner.extent * outer.extent;
                dims[at] = Dim { axes, offset: 0, extent, stride: inner.stride };
                dims.remove(at - 1);
            } else {
                at += 1;
            }
        }
        Ok(dims)
    }

    /// A vector of what a load reads: copies of which memory is contiguous, and where those are parts of it, loops whose
    /// steps are as long as what is there so far.
    fn line(&self, load: &UOp, tile: &[&Axis]) -> Option<Dim> {
        let (idx, lanes) = (&load.src[0].src[1], self.target.lanes(load.dtype) as i64);
        let next = |extent: i64, origin: Option<u32>| {
            let of_line = |a: &&&Axis| origin.is_none_or(|o| a.origin == o && a.kind != AxisKind::Upcast);
            let is_next = |a: &&&Axis| of_line(a) && self.stride(idx, a) == Some(extent);
            tile.iter().find(is_next).and_then(|a| Some((*a, i64::try_from(a.size()?).ok()?)))
        };
        let (copies, mut extent) = next(1, None).filter(|(a, _)| a.kind == AxisKind::Upcast)?;
        let mut axes: SmallVec<[(u32, i64); 2]> = smallvec![(copies.id(), 1)];
        while extent < lanes {
            let (part, n) = next(extent, Some(copies.origin))?;
            axes.push((part.id(), extent));
            extent *= n;
        }
        (extent == lanes).then_some(Dim { axes, offset: 0, extent, stride: Some(1) })
    }

    /// The dimensions of a tile over some axes. Those whose steps are shorter than what others walk read windows that
    /// overlap, and walk one dimension together if the load's gate sees nothing else of them (and windows are allowed).
    fn dims(&self, load: &UOp, tile: &[&Axis], windows: bool) -> Option<Vec<Dim>> {
        let idx = &load.src[0].src[1];
        let size = |a: &Axis| a.size().and_then(|n| i64::try_from(n).ok());
        let single = |a: &&Axis| -> Option<Dim> {
            let stride = self.stride(idx, a);
            Some(Dim { axes: smallvec![(a.id(), 1)], offset: 0, extent: size(a)?, stride })
        };
        let mut near: Vec<(i64, &Axis)> =
            tile.iter().filter_map(|a| Some((self.stride(idx, a).filter(|k| *k != 0)?, *a))).collect();
        near.sort_by_key(|(k, _)| k.unsigned_abs());
        // what a gate compares as one sum is one dimension
        let mut groups: Vec<Vec<(i64, &Axis)>> = vec![];
        for sum in compared(idx) {
            let of_sum = near.extract_if(.., |(_, a)| coefficient(sum, a.origin) != Some(0));
            groups.push(of_sum.collect());
        }
        let mut span = 0;
        for (k, a) in near {
            let reach = k.checked_abs()?.checked_mul(size(a)? - 1)?;
            match groups.last_mut() {
                Some(g) if k.abs() < span => {
                    g.push((k, a));
                    span += reach;
                }
                _ => {
                    groups.push(vec![(k, a)]);
                    span = reach + k.abs();
                }
            }
        }
        // a padded axis has a gate of its own
        let padded = |a: &Axis| self.parts.get(&a.origin).is_none_or(|p| p.gate.is_some());
        groups.retain(|g| {
            windows
                && g.len() > 1
                && g.iter().all(|(k, a)| k % g[0].0 == 0 && !padded(a))
                && is_window(idx, g.iter().map(|(_, a)| a.origin))
        });
        let shared = |a: &Axis| groups.iter().flatten().any(|(_, b)| b.id() == a.id());
        let mut shared_dims: Vec<Dim> = vec![];
        for g in &groups {
            let c = g[0].0.abs();
            let axes: SmallVec<[(u32, i64); 2]> = g.iter().map(|(k, a)| (a.id(), k / c)).collect();
            let (mut offset, mut extent) = (0, 1);
            for (k, a) in g {
                let reach = (k / c).abs() * (size(a)? - 1);
                extent += reach;
                offset += if *k < 0 { reach } else { 0 };
            }
            shared_dims.push(Dim { axes, offset, extent, stride: Some(c) });
        }
        let alone: Option<Vec<Dim>> = tile.iter().filter(|a| !shared(a)).map(single).collect();
        let mut dims = alone?;
        if !shared_dims.is_empty() {
            // loops and windows as they lie in memory, copies after them
            let copies: FxHashSet<u32> = tile
                .iter()
                .filter(|a| matches!(a.kind, AxisKind::Upcast | AxisKind::Local | AxisKind::Warp))
                .map(|a| a.id())
                .collect();
            shared_dims.extend(dims.extract_if(.., |d| !copies.contains(&d.axes[0].0)));
            shared_dims.sort_by_key(|d| std::cmp::Reverse(d.stride.map_or(i64::MAX, i64::abs)));
            dims.splice(0..0, shared_dims);
            // rows of whole vectors are filled in vectors
            let w = self.target.lanes(load.dtype) as i64;
            if let Some(last) = dims.last_mut().filter(|d| d.axes.len() > 1 && d.stride == Some(1) && w > 1) {
                last.extent = (last.extent + w - 1) / w * w;
            }
        }
        Some(dims)
    }

    /// What fills a tile (a load over ranges of its own, and these), and where in it the load's own element is.
    pub(crate) fn fill(
        &self,
        load: &UOp,
        t: &Tile,
        last: &FxHashMap<u32, UOp>,
        next: &mut u32,
    ) -> (SmallVec<[UOp; 4]>, UOp) {
        let mut fill: FxHashMap<u32, UOp> = FxHashMap::default();
        let (mut src, mut flat): (SmallVec<[UOp; 4]>, UOp) = (smallvec![], UOp::index(0));
        let mut range = |extent: i64, kind: AxisKind| {
            if extent == 1 {
                return UOp::index(0);
            }
            *next += 1;
            let r = UOp::range(&UOp::index(extent), *next - 1, kind);
            src.push(r.clone());
            r
        };
        let mut inside = None;
        let across = self.runs(load, &t.dims, last);
        for (at_dim, d) in t.dims.iter().enumerate() {
            let id = |axis: u32| last[&axis].range_arg().map_or(0, |a| a.id);
            let lanes = self.target.lanes(load.dtype) as i64;
            let at = d.axes.iter().fold(UOp::index(d.offset), |i, (axis, step)| {
                i.fold_add(&last[axis].fold_mul(&UOp::index(*step)))
            });
            flat = flat.fold_mul(&UOp::index(d.extent)).fold_add(&at);
            let [(axis, step), others @ ..] = &d.axes[..] else { continue };
            if let Some(run) = across.iter().find(|r| r.contains(&at_dim)) {
                // a run of memory is walked as one, in vectors that are turned round
                let whole: i64 = t.dims[run.clone()].iter().map(|d| d.extent).product();
                let is_last = at_dim + 1 == run.end;
                let value = if is_last {
                    let part = whole / lanes;
                    range(part, AxisKind::Loop)
                        .fold_mul(&UOp::index(lanes))
                        .fold_add(&range(lanes, AxisKind::Upcast))
                } else {
                    UOp::index(0)
                };
                fill.insert(id(*axis), value);
                continue;
            }
            if others.is_empty() {
                // filled in vectors where the load is contiguous along copies; the others are plain loops
                let main = &last[axis];
                let vector = main.range_arg().is_some_and(|a| a.kind == AxisKind::Upcast)
                    && self.target.vector_bytes > 0
                    && (coefficient(&load.src[0].src[1], id(*axis)) == Some(1)
                        || !across.is_empty() && at_dim + 1 == t.dims.len());
                let at_once = t.layout == Layout::Lines && d.stride == Some(lanes) && d.extent <= AT_ONCE;
                let kind = if vector || at_once { AxisKind::Upcast } else { AxisKind::Loop };
                fill.insert(id(*axis), range(d.extent, kind));
                continue;
            }
            let used: i64 =
                1 + d.axes.iter().map(|(a, s)| s.abs() * (last[a].src[0].bounds.1 as i64 - 1)).sum::<i64>();
            let u = if d.stride == Some(1) && lanes > 1 && d.extent % lanes == 0 {
                let row = range(d.extent / lanes, AxisKind::Loop);
                row.fold_mul(&UOp::index(lanes)).fold_add(&range(lanes, AxisKind::Upcast))
            } else {
                range(d.extent, AxisKind::Loop)
            };
            if used < d.extent {
                let gate = u.lt(&UOp::index(used));
                inside = Some(inside.map_or(gate.clone(), |i: UOp| i.and_(&gate)));
            }
            fill.extend(others.iter().map(|(a, _)| (id(*a), UOp::index(0))));
            fill.insert(id(*axis), u.fold_add(&UOp::index(-d.offset)).fold_mul(&UOp::index(*step)));
        }
        let mut value = substitute_open(load, &fill);
        if let Some(gate) = inside {
            let idx = gate.select(&value.src[0].src[1], &UOp::invalid());
            let address = value.src[0].with_src(smallvec![value.src[0].src[0].clone(), idx]);
            let mut with = value.src.clone();
            with[0] = address;
            value = value.with_src(with);
        }
        let packed = self.ast.any(|n| n.op == Op::Reduce) && t.layout == Layout::Walked;
        if !packed && self.target.grid.is_none() {
            value = in_order_of_memory(value, &mut src);
        }
        src.insert(0, value);
        (src, flat)
    }

    /// Where a tile has vectors last along which the load is not contiguous: the dimensions before them that are one run
    /// of memory, long enough for vectors.
    fn runs(&self, load: &UOp, dims: &[Dim], last: &FxHashMap<u32, UOp>) -> Vec<std::ops::Range<usize>> {
        let lanes = self.target.lanes(load.dtype) as i64;
        let idx = &load.src[0].src[1];
        let is_copy = |d: &Dim| last[&d.axes[0].0].range_arg().is_some_and(|a| a.kind == AxisKind::Upcast);
        let Some(vector) = dims.last().filter(|d| is_copy(d) && d.extent == lanes && lanes > 1) else {
            return vec![];
        };
        if vector.stride.is_none_or(|s| s.abs() <= 1) || self.target.grid.is_some() {
            return vec![];
        }
        let gated = |d: &Dim| {
            let id = last[&d.axes[0].0].range_arg().map_or(0, |a| a.id);
            idx.op == Op::Where && idx.src[0].ranges.contains(&id)
        };
        let plain = |d: &Dim| d.axes.len() == 1 && !is_copy(d) && !gated(d);
        let Some(end) = dims.iter().rposition(|d| plain(d) && d.stride == Some(1)).map(|i| i + 1) else {
            return vec![];
        };
        let (mut begin, mut whole) = (end - 1, dims[end - 1].extent);
        while begin > 0 && plain(&dims[begin - 1]) && dims[begin - 1].stride == Some(whole) {
            begin -= 1;
            whole *= dims[begin].extent;
        }
        (whole % lanes == 0).then_some(begin..end).into_iter().collect()
    }
}

/// Whether an index and its gate see some ranges only as one sum, so that they walk a window over one dimension.
fn is_window(idx: &UOp, origins: impl Iterator<Item = u32> + Clone) -> bool {
    if idx.op != Op::Where {
        return true;
    }
    let steps =
        |e: &UOp| -> Option<SmallVec<[i64; 4]>> { origins.clone().map(|o| coefficient(e, o)).collect() };
    let Some(of_index) = steps(idx) else { return false };
    let as_one = |e: &UOp| {
        steps(e).is_some_and(|s| {
            s.iter()
                .zip(&of_index)
                .all(|(a, b)| i128::from(*a) * i128::from(of_index[0]) == i128::from(*b) * i128::from(s[0]))
        })
    };
    compared(idx).iter().all(|e| as_one(e))
}

/// What the gate of an index compares.
fn compared(idx: &UOp) -> Vec<&UOp> {
    let (mut gates, mut sums) = (vec![], vec![]);
    gates.extend((idx.op == Op::Where).then(|| &idx.src[0]));
    while let Some(g) = gates.pop() {
        match g.op {
            Op::And | Op::Or | Op::Xor | Op::Not if g.dtype == frit_uop::DType::Bool => gates.extend(&g.src),
            Op::Lt | Op::Eq | Op::Ne => sums.extend(&g.src),
            // not known to be a comparison: as if it compared everything
            _ => sums.push(g),
        }
    }
    sums
}

/// Number the ranges over which a tile is filled so that the one with the widest step is outside: long runs of memory
/// are read one after the other. (What a reduce reads is packed in the order in which it will be wanted.)
fn in_order_of_memory(value: UOp, fill: &mut [UOp]) -> UOp {
    let Some((_, idx)) = address(&value) else { return value };
    let id = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    let mut ids: Vec<u32> = fill.iter().map(id).collect();
    ids.sort_unstable();
    let step = |r: &UOp| coefficient(idx, id(r)).map_or(u64::MAX, i64::unsigned_abs);
    let mut nest: Vec<usize> = (0..fill.len()).collect();
    nest.sort_by_key(|&i| std::cmp::Reverse(step(&fill[i])));
    let mut names: FxHashMap<u32, UOp> = FxHashMap::default();
    for (&i, &new) in nest.iter().zip(&ids) {
        let kind = fill[i].range_arg().map_or(AxisKind::Loop, |a| a.kind);
        let r = UOp::range(&fill[i].src[0], new, kind);
        names.insert(id(&fill[i]), r.clone());
        fill[i] = r;
    }
    substitute_open(&value, &names)
}
