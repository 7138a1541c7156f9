//! The axes of a kernel, outermost first, and what splits and orders them.
//!
//! Nothing is rewritten here: ranges are replaced once, when the list of opts is done.

use super::opt::Order;
use crate::error::Error;
use crate::kernel::access::{slot, substitute_open};
use crate::kernel::ranges::{self, closed};
use frit_abi::matrix::{Dim as Coordinate, Home};
use frit_abi::{MatrixUnit, Target};
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// An axis of a kernel that is being planned.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The placeholder range that stands for it in expressions.
    pub(crate) range: UOp,
    /// Iterations.
    pub extent: UOp,
    /// How it is walked.
    pub kind: AxisKind,
    /// The id of the range it is part of.
    pub origin: u32,
}

impl Axis {
    /// Iterations, where that is a constant.
    pub fn size(&self) -> Option<usize> {
        self.extent.as_int().and_then(|n| usize::try_from(n).ok())
    }
    pub(crate) fn id(&self) -> u32 {
        self.range.range_arg().map_or(0, |a| a.id)
    }
}

/// A range of the kernel, and the axes it has become.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) origin: UOp,
    /// Its value, over placeholders.
    pub(crate) value: UOp,
    /// Where its extent is rounded up.
    pub(crate) padded: Option<Padding>,
}

/// How the extent of a range is rounded up.
#[derive(Clone)]
pub(crate) struct Padding {
    /// The rounded one.
    pub extent: UOp,
    /// What it is a multiple of now.
    pub multiple: usize,
}

#[derive(Clone)]
pub(crate) struct Tile {
    pub operand: usize,
    /// What it holds: the operand, or what is made of it.
    pub value: UOp,
    /// Outermost first.
    pub dims: Vec<Dim>,
    /// Dimensions that are one run of memory, filled in vectors that are transposed.
    pub run: Option<std::ops::Range<usize>>,
    pub space: Space,
    pub order: Order,
    pub buffers: u8,
}

impl Tile {
    pub fn elements(&self) -> usize {
        self.dims.iter().map(|d| d.extent as usize).product()
    }
    pub fn bytes(&self) -> usize {
        self.elements() * self.value.dtype.size()
    }
}

/// A dimension of a tile: `sum of step * axis + offset`. Axes that read overlapping windows share one, so that a tile
/// holds every element once.
#[derive(Clone)]
pub(crate) struct Dim {
    /// Placeholder ids, each with its step; the first one's is 1 or -1.
    pub axes: SmallVec<[(u32, i64); 2]>,
    pub offset: i64,
    pub extent: i64,
    /// How far the load moves with a step of 1, if that is a constant.
    pub stride: Option<i64>,
}

/// A matrix opt that was applied.
#[derive(Clone)]
pub struct Chosen {
    /// The unit.
    pub unit: MatrixUnit,
    /// The sum it takes over.
    pub reduce: UOp,
    /// A and B, as numbers of [`Plan::operands`].
    pub operands: [usize; 2],
    /// Placeholder ids of the parts, by coordinate.
    pub parts: [u32; 3],
    /// The placeholder id of the lanes, where a warp runs it.
    pub warp: Option<u32>,
}

impl Chosen {
    /// Which operand of the product a load is.
    pub fn operand(&self, load: usize) -> Option<usize> {
        self.operands.iter().position(|o| *o == load)
    }
    /// The coordinates of operand 0 or 1 in the order of its layout in memory.
    pub fn layout(&self, operand: usize) -> [Coordinate; 2] {
        match self.unit.homes[operand] {
            Home::Tile(rows) | Home::Memory(rows) => [rows.row, rows.column],
            Home::Lanes(_) => MatrixUnit::coordinates(operand),
        }
    }
    /// Where an axis comes in that order; 0 for axes that are no part of it.
    pub fn rank(&self, operand: usize, axis: u32) -> usize {
        self.layout(operand).iter().position(|d| self.parts[*d as usize] == axis).map_or(0, |i| i + 1)
    }
}

/// A kernel and the opts applied to it so far.
#[derive(Clone)]
pub struct Plan<'a> {
    /// The kernel.
    pub ast: UOp,
    /// The machine it is for.
    pub target: &'a Target,
    /// The axes, outermost first.
    pub axes: Vec<Axis>,
    /// The loads, in the order of a walk through the kernel.
    pub operands: Vec<UOp>,
    pub(crate) parts: FxHashMap<u32, Part>,
    /// Pairs of origins of which the first must be outside.
    outside: Vec<(u32, u32)>,
    /// Pairs of origins that are open together somewhere, the smaller first.
    together: FxHashSet<(u32, u32)>,
    /// Origins that a checked access moves with.
    pub(crate) checked: Vec<u32>,
    pub(crate) tiles: Vec<Tile>,
    /// The matrix unit it is given to.
    pub(crate) matrix: Option<Chosen>,
    next: u32,
}

/// The origin of the axis that lanes of a warp are walked along: no range of the kernel.
pub(crate) const WARP: u32 = u32::MAX;
/// Copies that upcasts and unrolls may make of one value, at most.
const MAX_COPIES: usize = 4096;
/// Placeholder ids start here; a kernel's own are far below.
const PLACEHOLDERS: u32 = 1 << 24;

impl<'a> Plan<'a> {
    /// A kernel as it comes, one axis a range, in an order that keeps every reduce inside what it depends on.
    pub fn new(ast: &UOp, target: &'a Target) -> Result<Self, Error> {
        let order = ast.toposort();
        let ranges = ranges::all(&order);
        let mut plan = Plan {
            ast: ast.clone(),
            target,
            axes: vec![],
            operands: order
                .iter()
                .filter(|n| n.op == Op::Load && n.buffer_and_index().is_some())
                .cloned()
                .collect(),
            parts: FxHashMap::default(),
            outside: vec![],
            together: FxHashSet::default(),
            checked: vec![],
            tiles: vec![],
            matrix: None,
            next: PLACEHOLDERS,
        };
        let is_lane = |k: AxisKind| matches!(k, AxisKind::Local | AxisKind::GroupReduce | AxisKind::Warp);
        let lanes = ranges.iter().filter_map(|r| r.range_arg()).filter(|a| is_lane(a.kind)).map(|a| a.id);
        let lanes: Vec<u32> = lanes.collect();
        for n in &order {
            let open = ranges::open_at(n);
            for (i, &a) in open.iter().enumerate() {
                plan.together.extend(open[i + 1..].iter().map(|&b| (a, b)));
            }
            match n.op {
                Op::Reduce | Op::End | Op::Stage => {
                    let inner = closed(n);
                    for &o in &n.ranges {
                        plan.outside.extend(inner.iter().map(|&i| (o, i)));
                    }
                }
                Op::Scan => {
                    let r =
                        n.src[1].range_arg().ok_or_else(|| Error::Kernel(format!("{n:?} over no range")))?;
                    plan.outside.extend(n.ranges.iter().filter(|&&o| o != r.id).map(|&o| (o, r.id)));
                }
                Op::Load | Op::Store if matches!(n.arg, Arg::Site(_)) => plan.checked.extend(&n.ranges),
                // a stage is filled before it is read, once for each time the loops around it go round; lanes are no loops
                Op::Index if n.src[0].op == Op::Stage => {
                    let outer = &n.src[0].ranges;
                    let inner = n.ranges.iter().filter(|i| !outer.contains(i) && !lanes.contains(i));
                    plan.outside.extend(inner.flat_map(|&i| outer.iter().map(move |&o| (o, i))));
                }
                // what a loop wrote before is written over by another, once for each time
                Op::Store if n.buffer_and_index().is_some_and(|(buf, _)| buf.op == Op::After) => {
                    let outer = &n.buffer().ranges;
                    let inner = n.ranges.iter().filter(|i| !outer.contains(i));
                    plan.outside.extend(inner.flat_map(|&i| outer.iter().map(move |&o| (o, i))));
                }
                _ => {}
            }
        }
        // a scan is carried by its own loop alone, also past loops that it does not look at
        for (id, others) in ranges::around_scans(&order) {
            plan.outside.extend(others.into_iter().map(|o| (o, id)));
        }
        // how far a loop goes is known where it begins
        for r in &ranges {
            let id = r.range_arg().map_or(WARP, |a| a.id);
            plan.outside.extend(r.extent().ranges.iter().map(|&o| (o, id)));
        }
        plan.outside.sort_unstable();
        plan.outside.dedup();
        // the first range, by kind and id, that no remaining one must be outside of
        let mut left: Vec<(AxisKind, u32, UOp)> =
            ranges.iter().filter_map(|r| r.range_arg().map(|a| (a.kind, a.id, r.clone()))).collect();
        left.sort_by_key(|(kind, id, _)| (*kind != AxisKind::Global, *id));
        while !left.is_empty() {
            let free = |id: u32| !plan.outside.iter().any(|&(o, i)| i == id && left.iter().any(|l| l.1 == o));
            let Some(at) = left.iter().position(|l| free(l.1)) else {
                return Err(Error::Kernel("its reduces and scans cannot be nested".into()));
            };
            let (kind, id, origin) = left.remove(at);
            let range = plan.placeholder(origin.extent());
            plan.axes.push(Axis { range: range.clone(), extent: origin.extent().clone(), kind, origin: id });
            plan.parts.insert(id, Part { origin, value: range, padded: None });
        }
        Ok(plan)
    }

    pub(super) fn placeholder(&mut self, extent: &UOp) -> UOp {
        self.next += 1;
        UOp::range(extent, self.next - 1, AxisKind::Loop)
    }

    /// Whether two of the kernel's ranges are open together somewhere.
    pub fn are_together(&self, a: u32, b: u32) -> bool {
        a == b || [a, b].contains(&WARP) || self.together.contains(&(a.min(b), a.max(b)))
    }

    /// The range that each axis becomes, by its placeholder's id.
    pub(crate) fn ranges(&self) -> FxHashMap<u32, UOp> {
        let range = |i: usize, a: &Axis, extent: &UOp| (a.id(), UOp::range(extent, i as u32, a.kind));
        let (fixed, others): (Vec<_>, Vec<_>) =
            self.axes.iter().enumerate().partition(|(_, a)| a.extent.ranges.is_empty());
        let mut all: FxHashMap<u32, UOp> = fixed.into_iter().map(|(i, a)| range(i, a, &a.extent)).collect();
        // how far one goes may depend on where another is
        let values: FxHashMap<u32, UOp> =
            self.parts.iter().map(|(o, p)| (*o, substitute_open(&p.value, &all))).collect();
        all.extend(others.into_iter().map(|(i, a)| range(i, a, &substitute_open(&a.extent, &values))));
        all
    }
    /// The same plan for the rewritten kernel: its loads and its sum are what they have become.
    pub(crate) fn follow(&mut self, new: impl Fn(&UOp) -> UOp) {
        self.operands.iter_mut().for_each(|o| *o = new(o));
        self.tiles.iter_mut().for_each(|t| t.value = new(&t.value));
        if let Some(chosen) = &mut self.matrix {
            chosen.reduce = new(&chosen.reduce);
        }
    }

    pub(super) fn axis(&self, axis: usize) -> Result<&Axis, String> {
        self.axes.get(axis).ok_or_else(|| format!("there are {} axes", self.axes.len()))
    }
    /// How many copies there are of a value that moves with a range and as much as is open together with it.
    pub fn copies(&self, origin: u32) -> usize {
        let near = |a: &&Axis| a.kind.is_in_registers() && self.are_together(a.origin, origin);
        self.most_together(&self.axes.iter().filter(near).collect::<Vec<_>>())
    }
    /// The most values that axes make together, of which not all need be open at once.
    fn most_together(&self, axes: &[&Axis]) -> usize {
        let [a, others @ ..] = axes else { return 1 };
        let (near, far): (Vec<&Axis>, Vec<&Axis>) =
            others.iter().partition(|b| self.are_together(a.origin, b.origin));
        let with = a.size().unwrap_or(1) * self.most_together(&near);
        if far.is_empty() { with } else { with.max(self.most_together(others)) }
    }
    pub(super) fn unstaged(&self) -> Result<(), String> {
        if self.tiles.is_empty() { Ok(()) } else { Err("stages come last".into()) }
    }

    pub(super) fn split(&mut self, axis: usize, n: usize, kind: AxisKind, inner: bool) -> Result<(), String> {
        use AxisKind::*;
        self.unstaged()?;
        let a = self.axis(axis)?.clone();
        let rest = divide(&a.extent, n).ok_or_else(|| format!("{n} does not divide its extent"))?;
        let whole = rest.as_int() == Some(1);
        if n < 2 {
            return Err("a part has at least two iterations".into());
        }
        let grid = self.target.grid.as_ref();
        match (a.kind, kind) {
            (Global, Global | Loop | Upcast) | (Loop, Loop | Upcast) | (Reduce, Reduce | Unroll | Upcast) => {
            }
            (Global | Loop | Reduce, Vector) if self.target.vector_bytes > 0 && grid.is_none() => {
                self.check_vector(&a, n)?;
            }
            (Global, Thread) if grid.is_none() => {
                if self.axes.iter().any(|x| x.kind == Thread) {
                    return Err("there is a thread axis already".into());
                }
            }
            (Global | Loop, Local) | (Reduce, GroupReduce) if grid.is_some() => {
                if kind == GroupReduce && self.has_checked_store() {
                    return Err("a checked store must not be left to one lane".into());
                }
            }
            // copies of a lane inside, lanes around them: so they are in the order of the scan
            (Ordered, Local | Upcast) if grid.is_some() && inner && self.is_scanned(a.origin) => {
                let mine = |x: &Axis| x.origin == a.origin && x.kind != Ordered;
                if self.axes.iter().any(|x| mine(x) && (kind == Upcast || x.kind == Local)) {
                    return Err("the lanes and copies of a scan are split off once, copies first".into());
                }
                if whole && kind == Upcast {
                    return Err("a scan in one lane is a loop".into());
                }
            }
            (from, to) => return Err(format!("{from:?} cannot become {to:?} on {}", self.target.name)),
        }
        if whole && a.kind == kind {
            return Err("it would change nothing".into());
        }
        if kind.is_in_registers() && n * self.copies(a.origin) > MAX_COPIES {
            return Err(format!("more than {MAX_COPIES} copies"));
        }
        if kind.is_in_registers() && self.axes.iter().any(|x| x.extent.ranges.contains(&a.origin)) {
            return Err("each copy would need another end of a loop".into());
        }
        let part_extent = UOp::index(n as i64);
        let part = self.placeholder(&part_extent);
        let new = Axis { range: part.clone(), extent: part_extent, kind, origin: a.origin };
        if whole {
            self.axes[axis] = new;
            self.replace_value(&a, &part);
        } else {
            let remainder = self.placeholder(&rest);
            let value = if inner {
                remainder.fold_mul(&UOp::index(n as i64)) + &part
            } else {
                part.fold_mul(&rest) + &remainder
            };
            self.replace_value(&a, &value);
            self.axes[axis] = Axis { range: remainder, extent: rest, ..a };
            self.axes.insert(axis + inner as usize, new);
        }
        Ok(())
    }

    /// Whether `n` iterations of an axis can be a vector: a machine has it for the narrowest element, and no value is in
    /// another vector already.
    fn check_vector(&self, a: &Axis, n: usize) -> Result<(), String> {
        let order = self.ast.toposort();
        let sizes = order.iter().filter(|n| n.buffer_and_index().is_some()).map(|n| n.src[0].dtype.size());
        let most = self.target.vector_bytes / sizes.min().unwrap_or(4).max(1);
        if !n.is_power_of_two() || n > most {
            return Err(format!("a vector has a power of two of lanes, {most} at most"));
        }
        let is_with = |b: &Axis| b.kind == AxisKind::Vector && self.are_together(a.origin, b.origin);
        match self.axes.iter().any(is_with) {
            true => Err("what is in it is in another vector".into()),
            false => Ok(()),
        }
    }

    /// Whether the loop over a range is ordered for the sake of scans alone, which may be combined in other ways: nothing
    /// reads what it stores.
    pub(super) fn is_scanned(&self, origin: u32) -> bool {
        let order = self.ast.toposort();
        let is_stored = |load: &UOp| order.iter().any(|n| n.op == Op::Store && slot(n) == slot(load));
        let reads = |n: &UOp| n.op == Op::Load && (n.buffer().op == Op::After || is_stored(n));
        let scans = |n: &UOp| n.op == Op::Scan && n.src[1].range_arg().is_some_and(|a| a.id == origin);
        order.iter().any(scans) && !order.iter().any(reads) && !self.checked.contains(&origin)
    }

    fn has_checked_store(&self) -> bool {
        self.ast.any(|n| n.op == Op::Store && matches!(n.arg, Arg::Site(_)))
    }

    pub(super) fn replace_value(&mut self, a: &Axis, value: &UOp) {
        let map: FxHashMap<u32, UOp> = [(a.id(), value.clone())].into_iter().collect();
        if let Some(p) = self.parts.get_mut(&a.origin) {
            p.value = substitute_open(&p.value, &map);
        }
    }

    pub(super) fn reorder(&mut self, order: &[usize]) -> Result<(), String> {
        self.unstaged()?;
        let mut seen: Vec<usize> = order.to_vec();
        seen.sort_unstable();
        if seen != (0..self.axes.len()).collect::<Vec<_>>() {
            return Err(format!("not a permutation of {} axes", self.axes.len()));
        }
        let old = std::mem::take(&mut self.axes);
        self.axes = order.iter().map(|&i| old[i].clone()).collect();
        Ok(())
    }

    pub(super) fn swap(&mut self, a: usize, b: usize) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        if a >= order.len() || b >= order.len() || a == b {
            return Err(format!("there are {} axes", order.len()));
        }
        order.swap(a, b);
        self.reorder(&order)
    }

    /// Whether the axis becomes a loop (not lanes, blocks or copies).
    fn is_loop(&self, kind: AxisKind) -> bool {
        use AxisKind::*;
        matches!(kind, Loop | Ordered | Reduce | Thread) || kind == Global && self.target.grid.is_none()
    }

    pub(super) fn check_order(&self) -> Result<(), String> {
        for (at, a) in self.axes.iter().enumerate() {
            for b in &self.axes[at + 1..] {
                if !self.is_loop(a.kind) || !self.is_loop(b.kind) {
                    continue;
                }
                if self.outside.binary_search(&(b.origin, a.origin)).is_ok() {
                    return Err("a loop would be outside one that it depends on".into());
                }
                if b.kind == AxisKind::Thread {
                    return Err("the thread axis must be the outermost loop".into());
                }
            }
        }
        Ok(())
    }
}

/// The extent divided by `n`, if that is exact for every value.
pub fn divide(extent: &UOp, n: usize) -> Option<UOp> {
    let n = i64::try_from(n).ok().filter(|n| *n > 0)?;
    match (extent.as_int(), extent.op) {
        (Some(e), _) => (e > 0 && e % n == 0).then(|| UOp::index(e / n)),
        (None, Op::Mul) => {
            let c = extent.src[1].as_int().filter(|c| c % n == 0)?;
            Some(extent.src[0].fold_mul(&UOp::index(c / n)))
        }
        _ => None,
    }
}
