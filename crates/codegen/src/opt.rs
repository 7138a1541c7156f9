//! Opts: the ways a kernel may be walked, as data; and applying a list of them.
//!
//! A kernel's axes are an ordered list, outermost first. An opt names axes by their place in the list as it stands when
//! the opt is applied. Nothing is rewritten until the list is done: then every range is replaced once, with ids that
//! say how the loops nest.
//!
//! ```text
//! Split { axis: 0, n: 4, kind: Upcast, inner: true }     i -> i0 * 4 + i1, i1 kept side by side in registers
//! ```

use crate::access::{address, substitute_open};
use crate::matrix::lower::Lowering;
use crate::pad::mask;
use crate::ranges::{self, Replacement, closed};
use crate::tiles::Tile;
use crate::{Ctx, Error, Opts};
use frit_abi::Target;
use frit_abi::matrix::Home;
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// How a staged tile lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// As the kernel walks it: loops in their order, then copies, of those the contiguous one last.
    Walked,
    /// The same, but what was one vector in memory stays together, though a loop inside takes it in parts; filled as
    /// memory lies, a few vectors of a row at once.
    Lines,
}

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
        /// How it lies there.
        layout: Layout,
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
            Opt::Stage { operand, at, space, layout } => {
                write!(f, "stage {operand} {at} {space:?} {layout:?}")
            }
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
                let space = spaces.into_iter().find(|s| format!("{s:?}") == word(3)).ok_or_else(wrong)?;
                let layouts = [Layout::Walked, Layout::Lines];
                let layout = layouts.into_iter().find(|l| format!("{l:?}") == word(4)).ok_or_else(wrong)?;
                Opt::Stage { operand: number(1)?, at: number(2)?, space, layout }
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
    pub(crate) origin: UOp,
    pub(crate) value: UOp,
    pub(crate) gate: Option<UOp>,
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
                Op::Reduce | Op::End => {
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
                // what a loop wrote before is written over by another, once for each time
                Op::Store if address(n).is_some_and(|(buf, _)| buf.op == Op::After) => {
                    let outer = &n.src[0].src[0].ranges;
                    let inner = n.ranges.iter().filter(|i| !outer.contains(i));
                    plan.outside.extend(inner.flat_map(|&i| outer.iter().map(move |&o| (o, i))));
                }
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
            Opt::Stage { operand, at, space, layout } => self.stage(*operand, *at, *space, *layout),
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
        let tiled = |operand: usize| {
            let chosen = self.matrix.as_ref()?;
            let operand = chosen.operand(operand)?;
            matches!(chosen.unit.homes[operand], Home::Tile(_) | Home::Memory(_)).then_some(())
        };
        for (id, t) in self.tiles.iter().enumerate().filter(|(_, t)| tiled(t.operand).is_none()) {
            let load = &nodes[&self.operands[t.operand]];
            let (src, flat) = self.fill(load, t, &last, &mut next);
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
            for layout in [Layout::Walked, Layout::Lines] {
                all.extend((0..n).map(|at| Opt::Stage { operand, at, space: Space::Local, layout }));
            }
        }
        all.extend(self.matrix_opts());
        all.retain(|o| self.clone().apply(o).is_ok());
        all
    }
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
