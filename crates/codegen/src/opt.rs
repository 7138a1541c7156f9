//! Opts: the ways a kernel may be walked, as data; and applying a list of them.
//!
//! A kernel's axes are an ordered list, outermost first. An opt names axes by their place in the list as it stands when
//! the opt is applied. Nothing is rewritten until the list is done: then every range is replaced once, with ids that
//! say how the loops nest.
//!
//! ```text
//! Split { axis: 0, n: 4, kind: Upcast, inner: true }     i -> i0 * 4 + i1, i1 kept side by side in registers
//! ```

use crate::access::{address, coefficient, slot, substitute_open};
use crate::matrix::lower::Lowering;
use crate::ranges::{self, Replacement, closed};
use crate::{Ctx, Error, Opts};
use frit_abi::Target;
use frit_abi::matrix::Home;
use frit_uop::{Alu, Arg, AxisKind, Op, Scalar, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// One decision about how a kernel is walked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Opt {
    /// Take a part of `n` iterations out of an axis and walk it as `kind`. The `inner` part is the fast one
    /// (`axis * n + part`) and comes right after the axis; the outer one (`part * rest + axis`) right before. A part as
    /// large as the axis takes its place.
    Split {
        /// Which axis.
        axis: usize,
        /// Iterations of the part.
        n: usize,
        /// How the part is walked.
        kind: AxisKind,
        /// Whether the part is the fast one.
        inner: bool,
    },
    /// Put the axes in another order: the new i-th axis is the old `order[i]`-th.
    Reorder {
        /// A permutation of all axes.
        order: Vec<usize>,
    },
    /// Copy what a load reads to nearer memory first: a tile over the axes from `at` on that the load moves with (on a
    /// grid also over all lanes), filled where the axes before `at` stand. After all splits and reorders.
    Stage {
        /// Which load, in the order of [`Plan::operands`].
        operand: usize,
        /// The first axis that is inside.
        at: usize,
        /// Where the tile lives.
        space: Space,
    },
    /// Round the extent of an axis that is not split yet up to a multiple of `n`; what is beyond neither loads, nor
    /// stores, nor counts in a reduce.
    Pad {
        /// Which axis.
        axis: usize,
        /// The multiple.
        n: usize,
    },
    /// Give a sum of products to a matrix unit: parts of its extents of three axes become one operation of it.
    Matrix {
        /// The unit's name.
        unit: String,
        /// The axes that its m, n and k are parts of.
        axes: [usize; 3],
    },
    /// Exchange two axes.
    Swap {
        /// One axis.
        a: usize,
        /// The other.
        b: usize,
    },
}

impl std::fmt::Display for Opt {
    /// One line that parses back: `split 0 4 Upcast inner`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opt::Split { axis, n, kind, inner } => {
                write!(f, "split {axis} {n} {kind:?} {}", if *inner { "inner" } else { "outer" })
            }
            Opt::Reorder { order } => {
                f.write_str("reorder")?;
                order.iter().try_for_each(|a| write!(f, " {a}"))
            }
            Opt::Stage { operand, at, space } => write!(f, "stage {operand} {at} {space:?}"),
            Opt::Pad { axis, n } => write!(f, "pad {axis} {n}"),
            Opt::Swap { a, b } => write!(f, "swap {a} {b}"),
            Opt::Matrix { unit, axes: [m, n, k] } => write!(f, "matrix {unit} {m} {n} {k}"),
        }
    }
}

impl std::str::FromStr for Opt {
    type Err = String;
    fn from_str(line: &str) -> Result<Opt, String> {
        let wrong = || format!("{line:?} is not an opt");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse().ok()).ok_or_else(wrong);
        let word = |i: usize| words.get(i).copied().unwrap_or_default();
        Ok(match word(0) {
            "split" => {
                let kind = AxisKind::ALL.into_iter().find(|k| format!("{k:?}") == word(3));
                let inner = match word(4) {
                    "inner" => true,
                    "outer" => false,
                    _ => return Err(wrong()),
                };
                Opt::Split { axis: number(1)?, n: number(2)?, kind: kind.ok_or_else(wrong)?, inner }
            }
            "reorder" => Opt::Reorder { order: (1..words.len()).map(number).collect::<Result<_, _>>()? },
            "stage" => {
                let spaces = [Space::Global, Space::Local, Space::Reg];
                let space = spaces.into_iter().find(|s| format!("{s:?}") == word(3));
                Opt::Stage { operand: number(1)?, at: number(2)?, space: space.ok_or_else(wrong)? }
            }
            "pad" => Opt::Pad { axis: number(1)?, n: number(2)? },
            "swap" => Opt::Swap { a: number(1)?, b: number(2)? },
            "matrix" => Opt::Matrix { unit: word(1).into(), axes: [number(2)?, number(3)?, number(4)?] },
            _ => return Err(wrong()),
        })
    }
}

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

#[derive(Clone)]
pub(crate) struct Part {
    origin: UOp,
    value: UOp,
    pub(crate) gate: Option<UOp>,
}

#[derive(Clone)]
pub(crate) struct Tile {
    pub operand: usize,
    /// Outermost first.
    pub dims: Vec<Dim>,
    pub space: Space,
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
    checked: Vec<u32>,
    pub(crate) tiles: Vec<Tile>,
    /// The matrix unit it is given to.
    pub(crate) matrix: Option<crate::matrix::Chosen>,
    next: u32,
}

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
            operands: order.iter().filter(|n| n.op == Op::Load && address(n).is_some()).cloned().collect(),
            parts: FxHashMap::default(),
            outside: vec![],
            together: FxHashSet::default(),
            checked: vec![],
            tiles: vec![],
            matrix: None,
            next: PLACEHOLDERS,
        };
        for n in &order {
            let open = ranges::open_at(n);
            for (i, &a) in open.iter().enumerate() {
                plan.together.extend(open[i + 1..].iter().map(|&b| (a, b)));
            }
            match n.op {
                Op::Reduce => {
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
                _ => {}
            }
        }
        // a scan is carried by its own loop alone, also past loops that it does not look at
        for (id, others) in crate::ranges::around_scans(&order) {
            plan.outside.extend(others.into_iter().map(|o| (o, id)));
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
            let range = plan.placeholder(&origin.src[0]);
            plan.axes.push(Axis { range: range.clone(), extent: origin.src[0].clone(), kind, origin: id });
            plan.parts.insert(id, Part { origin, value: range, gate: None });
        }
        Ok(plan)
    }

    pub(crate) fn placeholder(&mut self, extent: &UOp) -> UOp {
        self.next += 1;
        UOp::range(extent, self.next - 1, AxisKind::Loop)
    }

    /// Whether two of the kernel's ranges are open together somewhere.
    pub fn are_together(&self, a: u32, b: u32) -> bool {
        a == b || [a, b].contains(&crate::matrix::WARP) || self.together.contains(&(a.min(b), a.max(b)))
    }

    /// Apply one opt; an illegal one changes nothing.
    pub fn apply(&mut self, opt: &Opt) -> Result<(), Error> {
        let result = match opt {
            Opt::Split { axis, n, kind, inner } => self.split(*axis, *n, *kind, *inner),
            Opt::Reorder { order } => self.reorder(order),
            Opt::Swap { a, b } => {
                let mut order: Vec<usize> = (0..self.axes.len()).collect();
                match *a < order.len() && *b < order.len() && a != b {
                    true => {
                        order.swap(*a, *b);
                        self.reorder(&order)
                    }
                    false => Err(format!("there are {} axes", order.len())),
                }
            }
            Opt::Pad { axis, n } => self.pad(*axis, *n),
            Opt::Stage { operand, at, space } => self.stage(*operand, *at, *space),
            Opt::Matrix { unit, axes } => self.apply_matrix(unit, *axes),
        };
        result.map_err(|why| Error::Opt { opt: format!("{opt:?}"), why })
    }

    pub(crate) fn axis(&self, axis: usize) -> Result<&Axis, String> {
        self.axes.get(axis).ok_or_else(|| format!("there are {} axes", self.axes.len()))
    }
    /// How many copies there are of a value that moves with a range and everything that is open together with it.
    pub fn copies(&self, origin: u32) -> usize {
        let is_copy = |a: &&Axis| matches!(a.kind, AxisKind::Upcast | AxisKind::Unroll);
        let near = |a: &&Axis| self.are_together(a.origin, origin);
        self.axes.iter().filter(is_copy).filter(near).map(|a| a.size().unwrap_or(1)).product()
    }
    pub(crate) fn unstaged(&self) -> Result<(), String> {
        if self.tiles.is_empty() { Ok(()) } else { Err("stages come last".into()) }
    }

    fn split(&mut self, axis: usize, n: usize, kind: AxisKind, inner: bool) -> Result<(), String> {
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
            (from, to) => return Err(format!("{from:?} cannot become {to:?} on {}", self.target.name)),
        }
        if whole && a.kind == kind {
            return Err("it would change nothing".into());
        }
        if matches!(kind, Upcast | Unroll) && n * self.copies(a.origin) > MAX_COPIES {
            return Err(format!("more than {MAX_COPIES} copies"));
        }
        let before = self.clone();
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
        let checked = self.check_order().and_then(|()| self.check_lanes()).and_then(|()| self.check_matrix());
        checked.inspect_err(|_| *self = before)
    }

    pub(crate) fn check_lanes(&self) -> Result<(), String> {
        use AxisKind::*;
        let Some(grid) = &self.target.grid else { return Ok(()) };
        let lanes: Vec<&Axis> =
            self.axes.iter().rev().filter(|a| matches!(a.kind, Local | GroupReduce | Warp)).collect();
        let extents: Vec<UOp> = lanes.iter().map(|a| a.extent.clone()).collect();
        let together = |a: usize, b: usize| self.are_together(lanes[a].origin, lanes[b].origin);
        let classes = crate::dims::share(&extents, together, grid)?;
        crate::dims::check_warp(&classes, |i| lanes[i].kind)?;
        let block: usize = classes.iter().filter_map(|c| lanes[c[0]].size()).product();
        self.check_groups(block, grid.local_bytes)
    }

    /// Whether reduces across lanes have the local memory they pass through: an array for each copy.
    fn check_groups(&self, lanes: usize, allowed: usize) -> Result<(), String> {
        let across = |r: &&UOp| {
            let summed = closed(r);
            self.axes.iter().any(|a| a.kind == AxisKind::GroupReduce && summed.contains(&a.origin))
        };
        if !self.axes.iter().any(|a| a.kind == AxisKind::GroupReduce) {
            return Ok(());
        }
        let order = self.ast.toposort();
        let bytes = order.iter().filter(|n| n.op == Op::Reduce).filter(across).map(|r| {
            let upcast = |a: &&Axis| a.kind == AxisKind::Upcast && r.ranges.contains(&a.origin);
            let copies: usize = self.axes.iter().filter(upcast).filter_map(|a| a.size()).product();
            copies * (lanes * r.dtype.size()).next_multiple_of(64)
        });
        match bytes.sum::<usize>() {
            n if n > allowed => Err(format!("{n} bytes of local memory, {allowed} allowed")),
            _ => Ok(()),
        }
    }

    fn has_checked_store(&self) -> bool {
        self.ast.any(|n| n.op == Op::Store && matches!(n.arg, Arg::Site(_)))
    }

    pub(crate) fn replace_value(&mut self, a: &Axis, value: &UOp) {
        let map: FxHashMap<u32, UOp> = [(a.id(), value.clone())].into_iter().collect();
        if let Some(p) = self.parts.get_mut(&a.origin) {
            p.value = substitute_open(&p.value, &map);
            p.gate = p.gate.as_ref().map(|g| substitute_open(g, &map));
        }
    }

    fn reorder(&mut self, order: &[usize]) -> Result<(), String> {
        self.unstaged()?;
        let mut seen: Vec<usize> = order.to_vec();
        seen.sort_unstable();
        if seen != (0..self.axes.len()).collect::<Vec<_>>() {
            return Err(format!("not a permutation of {} axes", self.axes.len()));
        }
        let old = std::mem::take(&mut self.axes);
        self.axes = order.iter().map(|&i| old[i].clone()).collect();
        self.check_order().and_then(|()| self.check_lanes()).inspect_err(|_| self.axes = old)
    }

    /// Whether the axis becomes a loop (not lanes, blocks or copies).
    fn is_loop(&self, kind: AxisKind) -> bool {
        use AxisKind::*;
        matches!(kind, Loop | Ordered | Reduce | Thread) || kind == Global && self.target.grid.is_none()
    }

    fn check_order(&self) -> Result<(), String> {
        for (at, a) in self.axes.iter().enumerate() {
            for b in &self.axes[at + 1..] {
                if !self.is_loop(a.kind) || !self.is_loop(b.kind) {
                    continue;
                }
                if self.outside.binary_search(&(b.origin, a.origin)).is_ok() {
                    return Err("a reduce would be outside a loop it depends on".into());
                }
                if b.kind == AxisKind::Thread {
                    return Err("the thread axis must be the outermost loop".into());
                }
            }
        }
        Ok(())
    }

    fn pad(&mut self, axis: usize, n: usize) -> Result<(), String> {
        self.unstaged()?;
        let a = self.axis(axis)?.clone();
        if !matches!(a.kind, AxisKind::Global | AxisKind::Loop | AxisKind::Reduce) {
            return Err(format!("a {:?} axis cannot be padded", a.kind));
        }
        if n < 2 || divide(&a.extent, n).is_some() {
            return Err(format!("it is a multiple of {n} already"));
        }
        if self.checked.contains(&a.origin) {
            return Err("a checked access moves with it".into());
        }
        let Some(part) = self.parts.get(&a.origin).filter(|p| p.value == a.range && p.gate.is_none()) else {
            return Err("the axis is split or padded already".into());
        };
        let count = match a.extent.as_int() {
            Some(e) => UOp::index((e as u64).div_ceil(n as u64) as i64),
            None => (&a.extent + (n as i64 - 1)).floordiv(&UOp::index(n as i64)),
        };
        let (extent, origin) = (count.fold_mul(&UOp::index(n as i64)), part.origin.clone());
        let range = self.placeholder(&extent);
        let gate = Some(range.lt(&a.extent));
        let before = self.clone();
        self.parts.insert(a.origin, Part { origin, value: range.clone(), gate });
        self.axes[axis] = Axis { range, extent, ..a };
        self.check_matrix().inspect_err(|_| *self = before)
    }

    fn stage(&mut self, operand: usize, at: usize, space: Space) -> Result<(), String> {
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
        let dims = self.dims(load, &tile, part.is_none()).ok_or("its size is not known")?;
        let bytes = dims.iter().map(|d| d.extent).product::<i64>() as usize * load.dtype.size();
        let limit = match &self.target.grid {
            Some(g) => g.local_bytes,
            None => self.target.caches[1].max(1 << 20),
        };
        if bytes > limit {
            return Err(format!("{bytes} bytes of local memory, {limit} allowed"));
        }
        self.tiles.push(Tile { operand, dims, space });
        Ok(())
    }

    /// How large the copy of a load would be that is made at an axis.
    pub fn staged_bytes(&self, operand: usize, at: usize) -> Option<usize> {
        let mut staged = self.clone();
        staged.stage(operand, at, Space::Local).ok()?;
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

    /// The kernel with its ranges replaced by the axes.
    pub fn finish(self) -> Result<UOp, Error> {
        let last: FxHashMap<u32, UOp> = self
            .axes
            .iter()
            .enumerate()
            .map(|(i, a)| (a.id(), UOp::range(&a.extent, i as u32, a.kind)))
            .collect();
        let gates: FxHashMap<u32, UOp> = self
            .parts
            .iter()
            .filter_map(|(id, p)| Some((*id, substitute_open(p.gate.as_ref()?, &last))))
            .collect();
        let map: FxHashMap<u32, Replacement> = self
            .parts
            .iter()
            .map(|(id, p)| {
                let mine = self.axes.iter().filter(|a| a.origin == *id).map(|a| last[&a.id()].clone());
                (*id, Replacement { value: substitute_open(&p.value, &last), ranges: mine.collect() })
            })
            .collect();
        let clamped = self.clamped(&last);
        let nodes = ranges::replace(&self.ast, &map, |old, new| {
            mask(old, self.clamp(old, new, &map, &clamped), &gates, &clamped)
        });
        let mut sink = nodes[&self.ast].clone();
        let mut next = self.axes.len() as u32;
        let mut staged: FxHashMap<UOp, UOp> = FxHashMap::default();
        let has_reduce = self.ast.any(|n| n.op == Op::Reduce);
        let tiled = |operand: usize| {
            let chosen = self.matrix.as_ref()?;
            let operand = chosen.operand(operand)?;
            matches!(chosen.unit.homes[operand], Home::Tile(_) | Home::Memory(_)).then_some(())
        };
        for (id, t) in self.tiles.iter().enumerate().filter(|(_, t)| tiled(t.operand).is_none()) {
            let load = &nodes[&self.operands[t.operand]];
            let mut fill: FxHashMap<u32, UOp> = FxHashMap::default();
            let (mut src, mut flat): (SmallVec<[UOp; 4]>, UOp) = (smallvec![], UOp::index(0));
            let mut range = |extent: i64, kind: AxisKind| {
                if extent == 1 {
                    return UOp::index(0);
                }
                next += 1;
                let r = UOp::range(&UOp::index(extent), next - 1, kind);
                src.push(r.clone());
                r
            };
            let mut inside = None;
            let across = self.runs(load, &t.dims, &last);
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
                    let kind = if vector { AxisKind::Upcast } else { AxisKind::Loop };
                    fill.insert(id(*axis), range(d.extent, kind));
                    continue;
                }
                let used: i64 = 1 + d
                    .axes
                    .iter()
                    .map(|(a, s)| s.abs() * (last[a].src[0].bounds.1 as i64 - 1))
                    .sum::<i64>();
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
            if !has_reduce && self.target.grid.is_none() {
                value = in_order_of_memory(value, &mut src);
            }
            src.insert(0, value);
            let stage = UOp::new(Op::Stage, load.dtype, src, Arg::Stage { space: t.space, id: id as u32 });
            staged.insert(load.clone(), stage.at(&flat).load());
        }
        sink = sink.substitute(&staged);
        if let Some(chosen) = &self.matrix {
            let reduce = nodes[&chosen.reduce].substitute(&staged);
            let load = |operand: usize| {
                let load = &nodes[&self.operands[operand]];
                staged.get(load).unwrap_or(load)
            };
            let lowering = Lowering { plan: &self, chosen, last: &last, next };
            sink = lowering.lower(&sink, &reduce, chosen.operands.map(load));
        }
        Ok(sink)
    }

    /// What stands for a padded axis in a load of rows: the last row again where there is none. Its results are not
    /// stored, and a load in the innermost loop needs no gate. Not along vectors, which must stay side by side.
    fn clamped(&self, last: &FxHashMap<u32, UOp>) -> FxHashMap<u32, UOp> {
        let most = self.target.lanes(frit_uop::DType::F32);
        let is_vector = |a: &Axis| a.kind == AxisKind::Upcast && a.size() == Some(most);
        let rows = |id: &u32, p: &Part| {
            let kind = p.origin.range_arg().map(|a| a.kind);
            matches!(kind, Some(AxisKind::Global | AxisKind::Loop))
                && !self.axes.iter().any(|a| a.origin == *id && is_vector(a))
        };
        let end = |p: &Part| &p.origin.src[0] + -1;
        self.parts
            .iter()
            .filter(|(id, p)| p.gate.is_some() && self.target.grid.is_none() && rows(id, p))
            .map(|(id, p)| (*id, substitute_open(&p.value, last).bin(Alu::Min, &end(p))))
            .collect()
    }

    /// A load that is rebuilt, with its clamped ranges in its index.
    fn clamp(
        &self,
        old: &UOp,
        new: UOp,
        map: &FxHashMap<u32, Replacement>,
        clamped: &FxHashMap<u32, UOp>,
    ) -> UOp {
        let Some((_, idx)) = address(old).filter(|_| old.op == Op::Load) else { return new };
        if !idx.ranges.iter().any(|id| is_clamped(idx, *id, clamped)) {
            return new;
        }
        let value = |id: &u32| match is_clamped(idx, *id, clamped) {
            true => clamped[id].clone(),
            false => map[id].value.clone(),
        };
        let values: FxHashMap<u32, UOp> = idx.ranges.iter().map(|id| (*id, value(id))).collect();
        let mut src = new.src.clone();
        src[0] = src[0].with_src(smallvec![src[0].src[0].clone(), substitute_open(idx, &values)]);
        new.with_src(src)
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
        if whole % lanes == 0 { vec![begin..end] } else { vec![] }
    }

    /// Every single opt that is legal now, with the usual sizes.
    pub fn legal(&self) -> Vec<Opt> {
        use AxisKind::*;
        let mut all = vec![];
        for (axis, a) in self.axes.iter().enumerate() {
            for n in [2, 3, 4, 5, 7, 8, 16, 32] {
                for kind in [Global, Thread, Local, Loop, Reduce, GroupReduce, Upcast, Unroll] {
                    all.extend([true, false].map(|inner| Opt::Split { axis, n, kind, inner }));
                }
                if n <= 8 {
                    all.push(Opt::Pad { axis, n });
                }
            }
            if let Some(n) = a.size().filter(|n| *n > 8 && *n <= 64) {
                all.extend([Upcast, Unroll, Local, GroupReduce].map(|kind| Opt::Split {
                    axis,
                    n,
                    kind,
                    inner: true,
                }));
            }
            all.extend((axis + 1..self.axes.len()).map(|b| Opt::Swap { a: axis, b }));
        }
        let n = self.axes.len();
        if n > 2 {
            all.push(Opt::Reorder { order: (1..n).chain([0]).collect() });
            all.push(Opt::Reorder { order: [n - 1].into_iter().chain(0..n - 1).collect() });
        }
        for operand in 0..self.operands.len() {
            all.extend((0..n).map(|at| Opt::Stage { operand, at, space: Space::Local }));
        }
        all.extend(self.matrix_opts());
        all.retain(|o| self.clone().apply(o).is_ok());
        all
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

/// The extent divided by `n`, if that is exact for every value.
pub(crate) fn divide(extent: &UOp, n: usize) -> Option<UOp> {
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

/// Keep a rebuilt node from touching or counting what padding added.
fn mask(old: &UOp, new: UOp, gates: &FxHashMap<u32, UOp>, clamped: &FxHashMap<u32, UOp>) -> UOp {
    if gates.is_empty() {
        return new;
    }
    let all = |ids: &[u32]| ids.iter().filter_map(|id| gates.get(id)).cloned().reduce(|a, b| a.and_(&b));
    match old.op {
        Op::Load | Op::Store if address(old).is_some() => {
            let ids: SmallVec<[u32; 6]> = match old.op {
                Op::Load => {
                    let idx = &old.src[0].src[1];
                    idx.ranges.iter().copied().filter(|id| !is_clamped(idx, *id, clamped)).collect()
                }
                _ => old.ranges.iter().copied().collect(),
            };
            let Some(gate) = all(&ids) else { return new };
            let mut src = new.src.clone();
            let idx = gate.select(&src[0].src[1], &UOp::invalid());
            src[0] = src[0].with_src(smallvec![src[0].src[0].clone(), idx]);
            new.with_src(src)
        }
        Op::Reduce => {
            let ids = closed(old);
            let (Some(gate), Arg::Alu(op)) = (all(&ids), &old.arg) else { return new };
            let masked: SmallVec<[u32; 4]> =
                ids.iter().copied().filter(|id| gates.contains_key(id)).collect();
            if *op == Alu::Add && masked.iter().all(|id| is_zero_outside(&old.src[0], *id)) {
                return new;
            }
            let Some(identity) = Scalar::identity(*op, new.dtype) else { return new };
            let mut src = new.src.clone();
            src[0] = gate.select(&src[0], &UOp::constant(identity, new.dtype));
            new.with_src(src)
        }
        _ => new,
    }
}

/// Whether a load reads the last row again where padding has none, instead of nothing.
fn is_clamped(idx: &UOp, id: u32, clamped: &FxHashMap<u32, UOp>) -> bool {
    clamped.contains_key(&id) && coefficient(idx, id).is_some_and(|c| c.abs() > 1)
}

/// Whether a value is zero where the loads that move with a range read nothing.
fn is_zero_outside(x: &UOp, id: u32) -> bool {
    match x.op {
        Op::Load => address(x).is_some_and(|(_, idx)| idx.ranges.contains(&id)) && x.src.len() == 1,
        // both, since zero times infinity is not zero
        Op::Mul | Op::Add | Op::Sub => x.src.iter().all(|s| is_zero_outside(s, id)),
        Op::Cast | Op::Neg => is_zero_outside(&x.src[0], id),
        _ => false,
    }
}

/// The pass: choose opts if asked to, and apply them.
pub fn opt(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let mut plan = Plan::new(sink, ctx.target)?;
    ctx.applied = match ctx.opts {
        Opts::Heuristic => crate::heuristic::choose(&mut plan),
        Opts::List(list) => {
            list.iter().try_for_each(|o| plan.apply(o))?;
            list.to_vec()
        }
    };
    plan.finish()
}
