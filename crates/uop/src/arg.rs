//! What a node carries besides its sources. No arg holds a node.

use crate::fold::Fold;
use crate::op::Op;
use frit_abi::{Alu, Scalar};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A short list of axis numbers.
pub type Axes = SmallVec<[u8; 8]>;

/// How a range is walked. The order is the order of nesting from the outside where ids leave it open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AxisKind {
    /// Independent iterations, to be given to blocks or threads.
    Global,
    /// Lanes of a warp.
    Warp,
    /// Iterations given to CPU threads.
    Thread,
    /// Lanes of a block.
    Local,
    /// A plain loop; iterations are independent.
    Loop,
    /// A loop whose iterations run in order and carry a value.
    Ordered,
    /// Combined by a reduce.
    Reduce,
    /// Combined by a reduce across the lanes of a block.
    GroupReduce,
    /// The lanes of a vector: one access, one operation. Several in a kernel, never two open in one value.
    Vector,
    /// Unrolled into values side by side in registers (unroll and jam).
    Upcast,
    /// A reduce axis, unrolled.
    Unroll,
    /// A part that one operation of a matrix unit takes.
    Matrix,
}

impl AxisKind {
    /// All kinds, for tables and parsers.
    pub const ALL: [AxisKind; 12] = {
        use AxisKind::*;
        [Global, Warp, Thread, Local, Loop, Ordered, Reduce, GroupReduce, Vector, Upcast, Unroll, Matrix]
    };
    /// Whether its iterations are held in registers side by side, as values of their own or as lanes.
    pub const fn is_in_registers(self) -> bool {
        matches!(self, AxisKind::Vector | AxisKind::Upcast | AxisKind::Unroll)
    }
    /// The same, but for what a reduce takes in turn.
    pub const fn is_side_by_side(self) -> bool {
        matches!(self, AxisKind::Vector | AxisKind::Upcast)
    }
}

/// Which range this is. Ids are unique in a kernel; among ranges that are open together the smaller id is outside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RangeArg {
    /// Identity and nesting order.
    pub id: u32,
    /// How it is walked.
    pub kind: AxisKind,
}

/// Where memory lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    /// Device memory, seen by all.
    Global,
    /// Shared by the lanes of a block; private scratch of a thread on CPU-like machines.
    Local,
    /// Registers of one lane.
    Reg,
}

/// What a scatter does when several values go to one place (values are taken in order, so results are deterministic).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ScatterMode {
    /// The last value stays.
    Set,
    /// Values are combined with what was there.
    Combine(Alu),
}

/// What a loop is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoopArg {
    /// How many values go from one step to the next.
    pub carries: u32,
    /// One more than the highest level of the loops in its body; 0 where there is none.
    pub level: u32,
    /// Empty, or the name under which it has a gradient of its own.
    pub name: Arc<str>,
}

/// Memory behind a `Buffer` node. Dropping the last node that names it frees it.
pub trait Storage: Send + Sync + std::any::Any {
    /// Identity: two storages are the same memory exactly when their ids are equal.
    fn id(&self) -> u64;
    /// Elements of the node's dtype.
    fn len(&self) -> usize;
    /// Whether it holds no element.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Name of the device that owns it.
    fn device(&self) -> &str;
    /// Whether someone else may change it at any time: then no value computed from it is remembered.
    fn is_volatile(&self) -> bool {
        false
    }
}

/// The arg of a node.
#[derive(Clone)]
pub enum Arg {
    /// Nothing.
    None,
    /// `Const`.
    Scalar(Scalar),
    /// `Permute`, `Flip`.
    Axes(Axes),
    /// `ReduceAxis`, `ScanAxis`: the combining operation and the axes.
    ReduceAxes(Alu, Axes),
    /// `Reduce`, `Scan`: the combining operation.
    Alu(Alu),
    /// `Reduce`: values that are carried together.
    Fold(Fold),
    /// `Scan` of what comes before each iteration, without its own.
    Exclusive(Alu),
    /// `Range`.
    Range(RangeArg),
    /// `Param`: position and length in elements.
    Param {
        /// Position.
        slot: u32,
        /// Elements.
        len: usize,
    },
    /// `Variable`.
    Var {
        /// Name; variables of one name, min and max are one variable.
        name: Arc<str>,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// `Buffer`.
    Buffer(Arc<dyn Storage>),
    /// `Copy`.
    Device(Arc<str>),
    /// `Special`, `Sink` (the kernel's name), `Matrix` (the unit's).
    Name(Arc<str>),
    /// `Define`.
    Define {
        /// `Local` or `Reg`.
        space: Space,
        /// Identity within the kernel.
        id: u32,
        /// Elements of the array, or lanes of the register variable.
        len: usize,
    },
    /// `Stage`: the address space, and a number that keeps two stages of one value apart where that is wanted.
    Stage {
        /// Where the buffer lives.
        space: Space,
        /// Identity.
        id: u32,
        /// How many of them take turns, so that one is filled while another is read.
        buffers: u8,
    },
    /// `Index`: how many consecutive elements. `Wait`: how many groups.
    Lanes(u32),
    /// `Index`: rows of consecutive elements.
    Tile {
        /// How many rows.
        rows: u32,
        /// Elements of a row.
        lanes: u32,
        /// From the start of a row to that of the next.
        stride: i64,
    },
    /// `LoadMatrix`.
    Fragment {
        /// How many matrices.
        matrices: u8,
        /// Lanes get parts of columns and not of rows.
        transposed: bool,
    },
    /// `Lane`, `LoopOut`: which one.
    Lane(u32),
    /// `Gather`, checked `Load` and `Store`: the place in the user's program to blame for a miss.
    Site(u32),
    /// `Scatter`: duplicates, and the place to blame for a miss.
    Scatter(ScatterMode, u32),
    /// `Loop`.
    Loop(LoopArg),
    /// `LoopIn`.
    LoopIn {
        /// The level of the loop it belongs to.
        level: u32,
        /// Which: carries first, then captures.
        slot: u32,
    },
}

impl Arg {
    fn tag(&self) -> u8 {
        match self {
            Arg::None => 0,
            Arg::Scalar(_) => 1,
            Arg::Axes(_) => 2,
            Arg::ReduceAxes(..) => 3,
            Arg::Alu(_) => 4,
            Arg::Range(_) => 5,
            Arg::Param { .. } => 6,
            Arg::Var { .. } => 7,
            Arg::Buffer(_) => 8,
            Arg::Device(_) => 9,
            Arg::Name(_) => 10,
            Arg::Define { .. } => 11,
            Arg::Stage { .. } => 12,
            Arg::Lanes(_) => 13,
            Arg::Lane(_) => 14,
            Arg::Site(_) => 15,
            Arg::Scatter(..) => 16,
            Arg::Loop(_) => 17,
            Arg::LoopIn { .. } => 18,
            Arg::Tile { .. } => 19,
            Arg::Exclusive(_) => 20,
            Arg::Fold(_) => 21,
            Arg::Fragment { .. } => 22,
        }
    }
    /// The op named by a combining arg, if it has one.
    pub fn combine(&self) -> Option<Op> {
        match self {
            Arg::ReduceAxes(a, _) | Arg::Alu(a) | Arg::Scatter(ScatterMode::Combine(a), _) => {
                Some(Op::of(*a))
            }
            _ => None,
        }
    }
}

impl PartialEq for Arg {
    fn eq(&self, o: &Arg) -> bool {
        match (self, o) {
            (Arg::None, Arg::None) => true,
            (Arg::Scalar(a), Arg::Scalar(b)) => a == b,
            (Arg::Axes(a), Arg::Axes(b)) => a == b,
            (Arg::ReduceAxes(a, x), Arg::ReduceAxes(b, y)) => a == b && x == y,
            (Arg::Alu(a), Arg::Alu(b)) | (Arg::Exclusive(a), Arg::Exclusive(b)) => a == b,
            (Arg::Fold(a), Arg::Fold(b)) => a == b,
            (Arg::Range(a), Arg::Range(b)) => a == b,
            (Arg::Param { slot: a, len: x }, Arg::Param { slot: b, len: y }) => a == b && x == y,
            (Arg::Var { name: a, min: l, max: h }, Arg::Var { name: b, min: m, max: i }) => {
                a == b && l == m && h == i
            }
            (Arg::Buffer(a), Arg::Buffer(b)) => a.id() == b.id(),
            (Arg::Device(a), Arg::Device(b)) | (Arg::Name(a), Arg::Name(b)) => a == b,
            (Arg::Define { space: a, id: i, len: n }, Arg::Define { space: b, id: j, len: m }) => {
                a == b && i == j && n == m
            }
            (Arg::Stage { space: a, id: i, buffers: k }, Arg::Stage { space: b, id: j, buffers: l }) => {
                (a, i, k) == (b, j, l)
            }
            (Arg::Lanes(a), Arg::Lanes(b)) | (Arg::Lane(a), Arg::Lane(b)) | (Arg::Site(a), Arg::Site(b)) => {
                a == b
            }
            (Arg::Scatter(a, i), Arg::Scatter(b, j)) => a == b && i == j,
            (Arg::Loop(a), Arg::Loop(b)) => a == b,
            (Arg::LoopIn { level: a, slot: i }, Arg::LoopIn { level: b, slot: j }) => a == b && i == j,
            (Arg::Tile { rows: a, lanes: i, stride: x }, Arg::Tile { rows: b, lanes: j, stride: y }) => {
                a == b && i == j && x == y
            }
            (Arg::Fragment { matrices: a, transposed: x }, Arg::Fragment { matrices: b, transposed: y }) => {
                a == b && x == y
            }
            _ => false,
        }
    }
}
impl Eq for Arg {}

impl Hash for Arg {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u8(self.tag());
        match self {
            Arg::None => {}
            Arg::Scalar(s) => s.hash(h),
            Arg::Axes(a) => a.hash(h),
            Arg::ReduceAxes(o, a) => (o, a).hash(h),
            Arg::Alu(o) | Arg::Exclusive(o) => o.hash(h),
            Arg::Fold(f) => f.hash(h),
            Arg::Range(r) => r.hash(h),
            Arg::Param { slot, len } => (slot, len).hash(h),
            Arg::Var { name, min, max } => (name, min, max).hash(h),
            Arg::Buffer(b) => h.write_u64(b.id()),
            Arg::Device(s) | Arg::Name(s) => s.hash(h),
            Arg::Define { space, id, len } => (space, id, len).hash(h),
            Arg::Stage { space, id, buffers } => (space, id, buffers).hash(h),
            Arg::Lanes(n) | Arg::Lane(n) | Arg::Site(n) => h.write_u32(*n),
            Arg::Scatter(m, s) => (m, s).hash(h),
            Arg::Loop(l) => l.hash(h),
            Arg::LoopIn { level, slot } => (level, slot).hash(h),
            Arg::Tile { rows, lanes, stride } => (rows, lanes, stride).hash(h),
            Arg::Fragment { matrices, transposed } => (matrices, transposed).hash(h),
        }
    }
}

impl std::fmt::Debug for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arg::None => f.write_str("-"),
            Arg::Scalar(s) => write!(f, "{s:?}"),
            Arg::Axes(a) => write!(f, "{a:?}"),
            Arg::ReduceAxes(o, a) => write!(f, "{o:?}{a:?}"),
            Arg::Alu(o) => write!(f, "{o:?}"),
            Arg::Exclusive(o) => write!(f, "{o:?} exclusive"),
            Arg::Fold(x) => write!(f, "{:?} {}", x.merge, x.value),
            Arg::Range(r) => write!(f, "{:?}{}", r.kind, r.id),
            Arg::Param { slot, len } => write!(f, "#{slot}[{len}]"),
            Arg::Var { name, min, max } => write!(f, "{name} in {min}..={max}"),
            Arg::Buffer(b) => write!(f, "buffer {} [{}] on {}", b.id(), b.len(), b.device()),
            Arg::Device(s) | Arg::Name(s) => f.write_str(s),
            Arg::Define { space, id, len } => write!(f, "{space:?}{id}[{len}]"),
            Arg::Stage { space, id, buffers } => write!(f, "{space:?}{id}x{buffers}"),
            Arg::Lanes(n) => write!(f, "x{n}"),
            Arg::Lane(n) => write!(f, ".{n}"),
            Arg::Site(s) => write!(f, "@{s}"),
            Arg::Scatter(m, s) => write!(f, "{m:?}@{s}"),
            Arg::Loop(l) => write!(f, "{} carries, level {} {}", l.carries, l.level, l.name),
            Arg::LoopIn { level, slot } => write!(f, "level {level} #{slot}"),
            Arg::Tile { rows, lanes, stride } => write!(f, "{rows}x{lanes} by {stride}"),
            Arg::Fragment { matrices, transposed } => {
                write!(f, "x{matrices}{}", if *transposed { " transposed" } else { "" })
            }
        }
    }
}
