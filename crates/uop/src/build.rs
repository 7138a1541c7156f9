//! Making nodes: short names for what passes build all the time.

use crate::arg::{Arg, Axes, AxisKind, RangeArg, ScatterMode, Space, Storage};
use crate::fold::{Fold, Merge};
use crate::node::UOp;
use crate::op::Op;
use frit_abi::sync::LazyLock;
use frit_abi::{Alu, DType, Scalar};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Most dims of a tensor: an axis is a byte, with room to spare.
pub const MAX_RANK: usize = 64;

/// The number of an axis. One that no tensor has stays one that none has: the node has no shape and fails its spec.
fn axis(a: usize) -> u8 {
    u8::try_from(a).unwrap_or(u8::MAX)
}

impl UOp {
    // ---- leaves
    /// A constant of a type; the value is converted.
    pub fn constant(v: Scalar, dtype: DType) -> UOp {
        UOp::new(Op::Const, dtype, [], Arg::Scalar(v.cast(dtype)))
    }
    /// An integer constant of a type, wrapped (or converted for floats and bools).
    pub fn int(v: i64, dtype: DType) -> UOp {
        UOp::new(Op::Const, dtype, [], Arg::Scalar(Scalar::int(v as i128, dtype)))
    }
    /// A float constant of a type.
    pub fn float(v: f64, dtype: DType) -> UOp {
        UOp::constant(Scalar::Float(v), dtype)
    }
    /// A constant of type `Index`.
    pub fn index(v: i64) -> UOp {
        // a third of all nodes that scheduling asks for: these are held
        static SMALL: LazyLock<Vec<UOp>> =
            LazyLock::new(|| (-1..=16).map(|v| UOp::int(v, DType::Index)).collect());
        let small = usize::try_from(v.wrapping_add(1)).ok().and_then(|at| SMALL.get(at));
        small.cloned().unwrap_or_else(|| UOp::int(v, DType::Index))
    }
    /// A bool constant.
    pub fn boolean(v: bool) -> UOp {
        UOp::new(Op::Const, DType::Bool, [], Arg::Scalar(Scalar::Bool(v)))
    }
    /// An integer constant of this node's type.
    pub fn const_like(&self, v: i64) -> UOp {
        UOp::int(v, self.dtype)
    }
    /// The index that must not be accessed.
    pub fn invalid() -> UOp {
        UOp::new(Op::Invalid, DType::Index, [], Arg::None)
    }
    /// An integer known at launch.
    pub fn variable(name: &str, min: i64, max: i64) -> UOp {
        UOp::new(Op::Variable, DType::Index, [], Arg::Var { name: name.into(), min, max })
    }
    /// A variable with its value of this time.
    pub fn bind(&self, v: i64) -> UOp {
        UOp::new(Op::Bind, DType::Index, [self.clone(), UOp::index(v)], Arg::None)
    }
    /// Memory on a device.
    pub fn buffer(storage: Arc<dyn Storage>, dtype: DType) -> UOp {
        UOp::new(Op::Buffer, dtype, [], Arg::Buffer(storage))
    }
    /// The n-th buffer of a graph or kernel.
    pub fn param(slot: u32, len: usize, dtype: DType) -> UOp {
        UOp::new(Op::Param, dtype, [], Arg::Param { slot, len })
    }
    /// Memory inside a kernel.
    pub fn define(space: Space, id: u32, len: usize, dtype: DType) -> UOp {
        UOp::new(Op::Define, dtype, [], Arg::Define { space, id, len })
    }
    /// A loop variable.
    pub fn range(extent: &UOp, id: u32, kind: AxisKind) -> UOp {
        UOp::new(Op::Range, DType::Index, [extent.clone()], Arg::Range(RangeArg { id, kind }))
    }
    /// A hardware id.
    pub fn special(name: &str, extent: &UOp) -> UOp {
        UOp::new(Op::Special, DType::Index, [extent.clone()], Arg::Name(name.into()))
    }

    // ---- tensor level (callers have checked shapes; a malformed node has no shape and fails its spec)
    /// `0, 1, … n-1`.
    pub fn iota(n: &UOp, dtype: DType) -> UOp {
        UOp::new(Op::Iota, dtype, [n.clone()], Arg::None)
    }
    fn with_dims(&self, op: Op, dims: &[&[UOp]]) -> UOp {
        let mut src: SmallVec<[UOp; 4]> = smallvec![self.clone()];
        src.extend(dims.iter().flat_map(|d| d.iter().cloned()));
        UOp::new(op, self.dtype, src, Arg::None)
    }
    /// Same elements, other dims; itself if they are its own.
    pub fn reshape(&self, dims: &[UOp]) -> UOp {
        if self.shape() == dims { self.clone() } else { self.with_dims(Op::Reshape, &[dims]) }
    }
    /// Dims of size 1 repeated; itself if nothing changes.
    pub fn expand(&self, dims: &[UOp]) -> UOp {
        if self.shape() == dims { self.clone() } else { self.with_dims(Op::Expand, &[dims]) }
    }
    /// Dims reordered.
    pub fn permute(&self, axes: &[usize]) -> UOp {
        if axes.iter().enumerate().all(|(i, &a)| i == a) {
            return self.clone();
        }
        UOp::new(Op::Permute, self.dtype, [self.clone()], Arg::Axes(axes.iter().map(|&a| axis(a)).collect()))
    }
    /// Zeros around.
    pub fn pad(&self, before: &[UOp], after: &[UOp]) -> UOp {
        if before.iter().chain(after).all(|d| d.as_int() == Some(0)) {
            return self.clone();
        }
        self.with_dims(Op::Pad, &[before, after])
    }
    /// A box cut out, by begin and size.
    pub fn shrink(&self, begin: &[UOp], size: &[UOp]) -> UOp {
        if self.shape() == size && begin.iter().all(|d| d.as_int() == Some(0)) {
            return self.clone();
        }
        self.with_dims(Op::Shrink, &[begin, size])
    }
    /// Reversed along the axes.
    pub fn flip(&self, axes: &[usize]) -> UOp {
        if axes.is_empty() {
            return self.clone();
        }
        UOp::new(Op::Flip, self.dtype, [self.clone()], Arg::Axes(axes.iter().map(|&a| axis(a)).collect()))
    }
    /// Combined over axes, which become size 1.
    pub fn reduce_axes(&self, op: Alu, axes: &[usize]) -> UOp {
        if axes.is_empty() {
            return self.clone();
        }
        let mut axes: Axes = axes.iter().map(|&a| axis(a)).collect();
        axes.sort_unstable();
        UOp::new(Op::ReduceAxis, self.dtype, [self.clone()], Arg::ReduceAxes(op, axes))
    }
    /// Inclusive prefix combination along an axis.
    pub fn scan_axis(&self, op: Alu, axis: usize) -> UOp {
        UOp::new(Op::ScanAxis, self.dtype, [self.clone()], Arg::ReduceAxes(op, smallvec![self::axis(axis)]))
    }
    /// Rows picked by an index tensor.
    pub fn gather(&self, idx: &UOp, site: u32) -> UOp {
        UOp::new(Op::Gather, self.dtype, [self.clone(), idx.clone()], Arg::Site(site))
    }
    /// Rows written at places given by an index tensor, in order.
    pub fn scatter(&self, idx: &UOp, val: &UOp, mode: ScatterMode, site: u32) -> UOp {
        UOp::new(Op::Scatter, self.dtype, [self.clone(), idx.clone(), val.clone()], Arg::Scatter(mode, site))
    }
    /// Materialised in row-major order.
    pub fn contiguous(&self) -> UOp {
        UOp::new(Op::Contiguous, self.dtype, [self.clone()], Arg::None)
    }
    /// Opaque to gradients.
    pub fn detach(&self) -> UOp {
        UOp::new(Op::Detach, self.dtype, [self.clone()], Arg::None)
    }
    /// Told apart from every other value, equal or not.
    pub fn leaf(&self) -> UOp {
        static NEXT: AtomicI64 = AtomicI64::new(0);
        let number = Scalar::Int(NEXT.fetch_add(1, Relaxed));
        UOp::new(Op::Leaf, self.dtype, [self.clone()], Arg::Scalar(number))
    }
    /// On another device.
    pub fn copy_to(&self, device: &str) -> UOp {
        UOp::new(Op::Copy, self.dtype, [self.clone()], Arg::Device(device.into()))
    }

    // ---- effects and memory
    /// A store.
    pub fn store(&self, value: &UOp) -> UOp {
        UOp::new(Op::Store, DType::Void, [self.clone(), value.clone()], Arg::None)
    }
    /// This, once `deps` are done.
    pub fn after(&self, deps: impl IntoIterator<Item = UOp>) -> UOp {
        let mut src: SmallVec<[UOp; 4]> = smallvec![self.clone()];
        src.extend(deps);
        if src.len() == 1 { self.clone() } else { UOp::new(Op::After, self.dtype, src, Arg::None) }
    }
    /// Close ranges.
    pub fn end(&self, ranges: impl IntoIterator<Item = UOp>) -> UOp {
        let mut src: SmallVec<[UOp; 4]> = smallvec![self.clone()];
        src.extend(ranges);
        if src.len() == 1 { self.clone() } else { UOp::new(Op::End, DType::Void, src, Arg::None) }
    }
    /// The root over effects.
    pub fn sink(effects: impl IntoIterator<Item = UOp>) -> UOp {
        UOp::new(Op::Sink, DType::Void, effects.into_iter().collect::<SmallVec<[UOp; 4]>>(), Arg::None)
    }
    /// An address in a buffer.
    pub fn at(&self, idx: &UOp) -> UOp {
        UOp::of(Op::Index, self.dtype, &[self, idx], Arg::None)
    }
    /// An address of `lanes` consecutive elements.
    pub fn at_lanes(&self, idx: &UOp, lanes: u32) -> UOp {
        let arg = if lanes == 1 { Arg::None } else { Arg::Lanes(lanes) };
        UOp::new(Op::Index, self.dtype, [self.clone(), idx.clone()], arg)
    }
    /// An address of `rows` rows of `lanes` elements, `stride` from one row to the next.
    pub fn at_tile(&self, idx: &UOp, rows: u32, lanes: u32, stride: i64) -> UOp {
        UOp::new(Op::Index, self.dtype, [self.clone(), idx.clone()], Arg::Tile { rows, lanes, stride })
    }
    /// What is at an address.
    pub fn load(&self) -> UOp {
        UOp::of(Op::Load, self.dtype, &[self], Arg::None)
    }
    /// Combined over ranges.
    pub fn reduce(&self, op: Alu, ranges: impl IntoIterator<Item = UOp>) -> UOp {
        let mut src: SmallVec<[UOp; 4]> = smallvec![self.clone()];
        src.extend(ranges);
        if src.len() == 1 { self.clone() } else { UOp::new(Op::Reduce, self.dtype, src, Arg::Alu(op)) }
    }
    /// Values carried together over ranges.
    pub fn fold(merge: Merge, values: &[UOp], ranges: &[UOp]) -> Vec<UOp> {
        if ranges.is_empty() {
            return values.to_vec();
        }
        let src: SmallVec<[UOp; 4]> = values.iter().chain(ranges).cloned().collect();
        let one = |(i, x): (usize, &UOp)| {
            UOp::new(Op::Reduce, x.dtype, src.clone(), Arg::Fold(Fold { merge, value: i as u8 }))
        };
        values.iter().enumerate().map(one).collect()
    }
    /// A vector of scalars.
    pub fn stack(lanes: impl IntoIterator<Item = UOp>) -> UOp {
        let src: SmallVec<[UOp; 4]> = lanes.into_iter().collect();
        let dtype = src.first().map_or(DType::Void, |s| s.dtype);
        UOp::new(Op::Stack, dtype, src, Arg::None)
    }
    /// Lanes of this vector and of another of its length, as `from` says: 0 is this one's first.
    pub fn shuffle(&self, other: &UOp, from: &[u8]) -> UOp {
        UOp::new(Op::Shuffle, self.dtype, [self.clone(), other.clone()], Arg::Axes(from.into()))
    }
    /// One element of a vector.
    pub fn lane(&self, i: u32) -> UOp {
        match self.op {
            Op::Stack => self.src[i as usize].clone(),
            _ => UOp::new(Op::Lane, self.dtype, [self.clone()], Arg::Lane(i)),
        }
    }

    // ---- elementwise
    /// An elementwise operation; a comparison gives bool, `Where` the type of its branches.
    pub fn alu(op: Alu, src: &[&UOp]) -> UOp {
        let dtype = match op {
            Alu::Where => src[1].dtype,
            a if a.is_comparison() => DType::Bool,
            _ => src[0].dtype,
        };
        UOp::of(Op::of(op), dtype, src, Arg::None)
    }
    /// A unary elementwise operation.
    pub fn un(&self, op: Alu) -> UOp {
        UOp::alu(op, &[self])
    }
    /// A binary elementwise operation.
    pub fn bin(&self, op: Alu, o: &UOp) -> UOp {
        UOp::alu(op, &[self, o])
    }
    /// Converted to a type; itself if it has it.
    pub fn cast(&self, dtype: DType) -> UOp {
        if self.dtype == dtype { self.clone() } else { UOp::of(Op::Cast, dtype, &[self], Arg::None) }
    }
    /// The same bits as another type of the same size.
    pub fn bitcast(&self, dtype: DType) -> UOp {
        if self.dtype == dtype {
            self.clone()
        } else {
            UOp::new(Op::Bitcast, dtype, [self.clone()], Arg::None)
        }
    }
    /// `a` where this is true, else `b`.
    pub fn select(&self, a: &UOp, b: &UOp) -> UOp {
        UOp::alu(Alu::Where, &[self, a, b])
    }
    /// Less than.
    pub fn lt(&self, o: &UOp) -> UOp {
        self.bin(Alu::Lt, o)
    }
    /// At least, for integers: not less than.
    pub fn ge_int(&self, o: &UOp) -> UOp {
        self.lt(o).un(Alu::Not)
    }
    /// Equal.
    pub fn eq_(&self, o: &UOp) -> UOp {
        self.bin(Alu::Eq, o)
    }
    /// Not equal.
    pub fn ne_(&self, o: &UOp) -> UOp {
        self.bin(Alu::Ne, o)
    }
    /// Both.
    pub fn and_(&self, o: &UOp) -> UOp {
        self.bin(Alu::And, o)
    }
    /// Either.
    pub fn or_(&self, o: &UOp) -> UOp {
        self.bin(Alu::Or, o)
    }
    /// Floor division.
    pub fn floordiv(&self, o: &UOp) -> UOp {
        self.bin(Alu::Idiv, o)
    }
    /// Remainder of floor division.
    pub fn modulo(&self, o: &UOp) -> UOp {
        self.bin(Alu::Mod, o)
    }

    // ---- named accessors
    /// The arg of a `Range`.
    pub fn range_arg(&self) -> Option<RangeArg> {
        match self.arg {
            Arg::Range(r) if self.op == Op::Range => Some(r),
            _ => None,
        }
    }
    /// How many lanes a program value has: 1 for shape `()`.
    pub fn lanes(&self) -> usize {
        self.shape().first().and_then(|d| d.as_int()).unwrap_or(1) as usize
    }
    /// The device its memory is on, if it has any: that of the first source that has one.
    pub fn device(&self) -> Option<Arc<str>> {
        crate::infer::device_name(self.device)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl std::ops::$trait<&UOp> for &UOp { type Output = UOp; fn $method(self, o: &UOp) -> UOp { self.bin(Alu::$op, o) } }
        impl std::ops::$trait<UOp> for &UOp { type Output = UOp; fn $method(self, o: UOp) -> UOp { self.bin(Alu::$op, &o) } }
        impl std::ops::$trait<&UOp> for UOp { type Output = UOp; fn $method(self, o: &UOp) -> UOp { self.bin(Alu::$op, o) } }
        impl std::ops::$trait<UOp> for UOp { type Output = UOp; fn $method(self, o: UOp) -> UOp { self.bin(Alu::$op, &o) } }
        impl std::ops::$trait<i64> for &UOp { type Output = UOp; fn $method(self, o: i64) -> UOp { self.bin(Alu::$op, &self.const_like(o)) } }
        impl std::ops::$trait<i64> for UOp { type Output = UOp; fn $method(self, o: i64) -> UOp { self.bin(Alu::$op, &self.const_like(o)) } }
    )*};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul);
