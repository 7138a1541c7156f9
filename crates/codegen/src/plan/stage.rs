//! Copies of what a load reads, closer: which axes they run over, in which layout.
//!
//! Axes that read overlapping windows share a dimension, so that a copy holds every element once and what a gate left out
//! as zeros; a copy that lies across is filled in runs of memory.

use super::axes::{Axis, Dim, Plan, Tile};
use super::opt::Order;
use crate::kernel::access::{Walk, coefficient, slot, walk};
use frit_abi::matrix::Home;
use frit_uop::{Arg, AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

/// A tile may grow by one part in so many, so that lanes of a grid meet in fewer banks.
pub const MOST_ADDED: usize = 4;
/// Buffers that take turns, at most.
const MOST_BUFFERS: u8 = 8;
/// Operations that a tile's elements are made by while it is filled, at most.
const MOST_MADE: u32 = 8;

impl Plan<'_> {
    pub(super) fn stage(
        &mut self,
        operand: usize,
        at: usize,
        space: Space,
        order: Order,
        buffers: u8,
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
        let value = self.staged(load);
        if load.buffer().op == Op::Stage
            || self.tiles.iter().any(|t| t.operand == operand || t.value == value)
        {
            return Err("it is staged already".into());
        }
        let varies = |a: &&Axis| !a.extent.ranges.is_empty();
        if self
            .axes
            .iter()
            .filter(varies)
            .any(|a| load.ranges.contains(&a.origin) || a.extent.any(|n| n == load))
        {
            return Err("how far a loop around it goes is known inside others alone".into());
        }
        if self.ast.any(|n| n.op == Op::Store && slot(n) == slot(load)) {
            return Err("the kernel writes to the buffer".into());
        }
        let grid = self.target.grid.is_some();
        let mut tile: Vec<&Axis> = vec![];
        for (i, a) in self.axes.iter().enumerate().filter(|(_, a)| load.ranges.contains(&a.origin)) {
            match a.kind {
                Vector | Upcast | Unroll | Local | GroupReduce | Warp | Matrix => tile.push(a),
                Ordered if i >= at => return Err("a scan's loop cannot be inside".into()),
                Global | Thread if grid => {}
                _ if i >= at => tile.push(a),
                _ => {}
            }
        }
        // copies and lanes last, and of them the one along which memory was contiguous: what is read together lies
        // together, and a vector stays one
        let idx = load.index();
        let part = self.matrix.as_ref().and_then(|m| Some((m, m.operand(operand)?)));
        // lanes take theirs from anywhere, a tile register lies as it wants
        let part = part.filter(|(m, o)| !matches!(m.unit.homes[*o], Home::Lanes(_)));
        // lanes fill a tile in the order of memory, of equal steps along those that go on longest
        let step = |a: &Axis| match self.walk(idx, a) {
            Some(w) if grid && part.is_none() => (std::cmp::Reverse(w.step.abs()), w.run),
            None if grid && part.is_none() => (std::cmp::Reverse(i64::MAX), 0),
            _ => (std::cmp::Reverse(0), 0),
        };
        tile.sort_by_key(|a| {
            let side_by_side = a.kind.is_in_registers() || matches!(a.kind, Local | GroupReduce | Warp);
            let contiguous = a.kind.is_side_by_side() && coefficient(idx, a.origin) == Some(1);
            // what a matrix unit takes at once lies together, as it wants it
            (part.map_or(0, |(m, o)| m.rank(o, a.id())), step(a), side_by_side, contiguous, a.kind == Vector)
        });
        // a unit's part of one row is no loop
        if tile.iter().all(|a| a.size() == Some(1)) {
            return Err("it moves with no axis that is inside".into());
        }
        if load.index().any(|n| n.op == Op::Reduce) {
            return Err("its index comes from a reduce".into());
        }
        let mut dims = match order {
            Order::LoopOrder => {
                self.dims(&value, load, &tile, part.is_none()).ok_or("its size is not known")?
            }
            _ if grid || part.is_some() => return Err("what takes it wants it in another layout".into()),
            Order::RowMajor => self.lines(&value, load, tile)?,
        };
        let can_grow = order == Order::LoopOrder && part.is_none();
        let run = self.memory_run(&value, load, &mut dims, can_grow);
        let new = Tile { operand, value, dims, run, space, order, buffers };
        // a block has its tiles in one memory, a core in its cache one after the other
        let (others, limit) = match &self.target.grid {
            Some(g) => (&self.tiles[..], g.local_bytes - g.local_bytes / (MOST_ADDED + 1)),
            None => (&[][..], self.target.l2()),
        };
        let bytes = |t: &Tile| t.bytes() * t.buffers as usize;
        let bytes: usize = others.iter().chain([&new]).map(bytes).sum();
        if bytes > limit {
            return Err(format!("{bytes} bytes of local memory, {limit} allowed"));
        }
        if buffers > MOST_BUFFERS || buffers != 1 && !self.takes_turns(load, at, buffers) {
            return Err("only what a loop of known length fills on a grid has several buffers".into());
        }
        self.tiles.push(new);
        Ok(())
    }

    /// What a tile of a load holds: of floats in a sum on a CPU, what is made of them element by element before anything else is
    /// done with them, as wider ones, what a scale leaves of them, or sums with others. It is read more often than it is stored.
    pub(crate) fn staged(&self, load: &UOp) -> UOp {
        let is_taken =
            self.matrix.as_ref().is_some_and(|m| m.operands.iter().any(|o| self.operands[*o] == *load));
        let mut value = load.clone();
        if self.target.grid.is_some() || is_taken || !load.dtype.is_float() {
            return value;
        }
        let order = self.ast.toposort();
        if !order.iter().any(|n| n.op == Op::Reduce) {
            return value;
        }
        let beside = Beside { load, order: &order };
        let mut ops = 0;
        while let Some(user) = beside.only_user(&value).filter(|n| beside.is_made(n, &value)) {
            ops += user.op.weight();
            if ops > MOST_MADE {
                break;
            }
            value = user.clone();
        }
        value
    }

    /// Where a tile has vectors last along which the load is not contiguous: the dimensions before them that are one run
    /// of memory, which is filled in vectors, transposed. It is whole vectors long, or grows to be.
    fn memory_run(
        &self,
        value: &UOp,
        load: &UOp,
        dims: &mut [Dim],
        can_grow: bool,
    ) -> Option<std::ops::Range<usize>> {
        let (idx, lanes) = (load.index(), self.target.lanes(value.dtype) as i64);
        let axis = |d: &Dim| self.axes.iter().find(|a| a.id() == d.axes[0].0);
        let is_copy = |d: &Dim| axis(d).is_some_and(|a| a.kind.is_side_by_side());
        let vector = dims.last().filter(|d| is_copy(d) && d.extent == lanes && lanes > 1)?;
        if vector.stride.is_none_or(|s| s.abs() <= 1) || self.target.grid.is_some() {
            return None;
        }
        let is_gated = |a: &Axis| {
            let of_index = idx.op == Op::Where && idx.src[0].ranges.contains(&a.origin);
            of_index || self.parts.get(&a.origin).is_none_or(|p| p.padded.is_some())
        };
        let plain = |d: &Dim| d.axes.len() == 1 && !is_copy(d) && axis(d).is_some_and(|a| !is_gated(a));
        let end = 1 + dims.iter().rposition(|d| plain(d) && d.stride == Some(1))?;
        let (mut begin, mut inner, mut whole) = (end - 1, 1, dims[end - 1].extent);
        while begin > 0 && plain(&dims[begin - 1]) && dims[begin - 1].stride == Some(whole) {
            begin -= 1;
            (inner, whole) = (whole, whole * dims[begin].extent);
        }
        if can_grow && whole > lanes {
            while (dims[begin].extent * inner) % lanes != 0 {
                dims[begin].extent += 1;
            }
        }
        (dims[begin].extent * inner % lanes == 0).then_some(begin..end)
    }

    /// Whether what a load reads can be filled in turns: a loop moves it, the innermost one around where it is filled.
    fn takes_turns(&self, load: &UOp, at: usize, buffers: u8) -> bool {
        let around = self.axes[..at.min(self.axes.len())].iter();
        let moves = |a: &&Axis| load.ranges.contains(&a.origin) && a.kind == AxisKind::Reduce;
        let is_long = |a: &Axis| a.size().is_some_and(|n| n >= buffers as usize);
        self.target.grid.is_some() && around.rev().find(moves).is_some_and(is_long)
    }

    /// Elements of all copies that are made.
    pub fn staged_elements(&self) -> usize {
        self.tiles.iter().map(Tile::elements).sum()
    }

    /// How large the copy of a load would be that is made at an axis.
    pub fn staged_bytes(&self, operand: usize, at: usize) -> Option<usize> {
        let mut staged = self.clone();
        staged.stage(operand, at, Space::Local, Order::LoopOrder, 1).ok()?;
        Some(staged.tiles.last()?.bytes())
    }

    /// Whether a gated load sees ranges only as sums that its gate sees too: a copy of what it reads has no gates.
    pub fn has_windows(&self, operand: usize) -> bool {
        let Some(idx) = self.operands.get(operand).map(|l| l.index()) else { return false };
        let steps: SmallVec<[(u32, i64); 6]> =
            idx.ranges.iter().filter_map(|o| Some((*o, coefficient(idx, *o)?))).collect();
        steps.len() == idx.ranges.len()
            && steps.iter().all(|(o, k)| {
                let together = steps.iter().filter(|(_, j)| j.abs() == k.abs());
                is_window(idx, together.map(|(o, _)| *o)) && coefficient(idx, *o).is_some()
            })
    }

    /// How an index walks along an axis.
    fn walk(&self, idx: &UOp, a: &Axis) -> Option<Walk> {
        let (whole, part) = (walk(idx, a.origin)?, coefficient(&self.parts.get(&a.origin)?.value, a.id())?);
        let run = if whole.run == i64::MAX { whole.run } else { whole.run / part.abs().max(1) };
        Some(Walk { step: whole.step.checked_mul(part)?, run })
    }

    /// How much an index grows with a step of an axis.
    fn stride(&self, idx: &UOp, a: &Axis) -> Option<i64> {
        coefficient(idx, a.origin)?.checked_mul(coefficient(&self.parts.get(&a.origin)?.value, a.id())?)
    }

    /// The dimensions of a tile of whole vectors, those that are walked as parts of one again one.
    fn lines(&self, value: &UOp, load: &UOp, mut tile: Vec<&Axis>) -> Result<Vec<Dim>, String> {
        let line = self.line(value, load, &tile).ok_or("it is not read in vectors as they lie")?;
        tile.retain(|a| !line.axes[1..].iter().any(|p| p.0 == a.id()));
        let mut dims = self.dims(value, load, &tile, false).ok_or("its size is not known")?;
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
    fn line(&self, value: &UOp, load: &UOp, tile: &[&Axis]) -> Option<Dim> {
        let (idx, lanes) = (load.index(), self.target.lanes(value.dtype) as i64);
        let next = |extent: i64, origin: Option<u32>| {
            let of_line = |a: &&&Axis| origin.is_none_or(|o| a.origin == o && !a.kind.is_side_by_side());
            let is_next = |a: &&&Axis| of_line(a) && self.stride(idx, a) == Some(extent);
            tile.iter().find(is_next).and_then(|a| Some((*a, i64::try_from(a.size()?).ok()?)))
        };
        let (copies, mut extent) = next(1, None).filter(|(a, _)| a.kind.is_side_by_side())?;
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
    fn dims(&self, value: &UOp, load: &UOp, tile: &[&Axis], windows: bool) -> Option<Vec<Dim>> {
        let idx = load.index();
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
        let padded = |a: &Axis| self.parts.get(&a.origin).is_none_or(|p| p.padded.is_some());
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
                .filter(|a| a.kind.is_side_by_side() || matches!(a.kind, AxisKind::Local | AxisKind::Warp))
                .map(|a| a.id())
                .collect();
            shared_dims.extend(dims.extract_if(.., |d| !copies.contains(&d.axes[0].0)));
            shared_dims.sort_by_key(|d| std::cmp::Reverse(d.stride.map_or(i64::MAX, i64::abs)));
            dims.splice(0..0, shared_dims);
            let w = self.target.lanes(value.dtype) as i64;
            // but a window that vectors read along, which they must find in one piece; and on a CPU one that fills most of a
            // vector, where copies, as those of a batch, are read one by one: it is filled in vectors then
            let is_vector =
                |(id, _): &(u32, i64)| tile.iter().any(|a| a.id() == *id && a.kind == AxisKind::Vector);
            let has_vectors = dims.iter().any(|d| d.axes.iter().any(is_vector));
            let is_filled = |d: &Dim| self.target.grid.is_none() && !has_vectors && w > 1 && 2 * d.extent > w;
            let is_row = |d: &Dim| {
                let is_window = d.axes.len() > 1 && d.stride == Some(1);
                is_window && (d.axes.iter().any(is_vector) || is_filled(d))
            };
            if let Some(row) = dims.iter().position(is_row) {
                dims[row..].rotate_left(1);
            }
            // rows of whole vectors are filled in vectors
            if let Some(last) = dims.last_mut().filter(|d| d.axes.len() > 1 && d.stride == Some(1) && w > 1) {
                last.extent = (last.extent + w - 1) / w * w;
            }
        }
        Some(dims)
    }
}

/// A load and what a kernel makes of it.
struct Beside<'a> {
    load: &'a UOp,
    order: &'a [UOp],
}

impl<'a> Beside<'a> {
    fn only_user(&self, value: &UOp) -> Option<&'a UOp> {
        let mut users = self.order.iter().filter(|n| n.src.contains(value));
        users.next().filter(|_| users.next().is_none())
    }

    /// Whether a node is arithmetic on a value, on nothing that moves with more, and no summand.
    fn is_made(&self, n: &UOp, value: &UOp) -> bool {
        let is_summand = || self.order.iter().any(|r| r.op == Op::Reduce && r.bodies().contains(n));
        n.op.is_elementwise()
            && n.ranges == value.ranges
            && n.dtype.is_float()
            && n.dtype.size() <= value.dtype.size().max(DType::F32.size())
            && !is_summand()
            && n.src.iter().all(|s| s == value || self.is_at_hand(s))
    }

    /// Whether a tile may be filled with what is made of a value, too: of constants, or of memory that is walked as the load is.
    fn is_at_hand(&self, x: &UOp) -> bool {
        let idx = self.load.index();
        x.toposort().iter().all(|n| match n.op {
            Op::Load => {
                let is_near =
                    |(buf, at): (&UOp, &UOp)| buf.op == Op::Param && (at == idx || at.ranges.is_empty());
                let is_stored = || self.order.iter().any(|s| s.op == Op::Store && slot(s) == slot(n));
                n.buffer_and_index().is_some_and(is_near) && n.arg == Arg::None && !is_stored()
            }
            _ if n.dtype == DType::Index => true,
            Op::Const | Op::Param | Op::Index => true,
            // windows share elements, and their places are those in memory alone
            _ => {
                n.op.is_elementwise() && n.src.iter().all(|s| s.dtype != DType::Index || s.ranges.is_empty())
            }
        })
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
