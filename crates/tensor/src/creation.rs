//! Making tensors from numbers.

use crate::error::{Error, Result, call, fail};
use crate::operand::{Operand, filling};
use crate::realize;
use crate::shape::{self, Dim, Dims};
use crate::tensor::{Tensor, filled, number};
use frit_uop::promote::{self, Weak};
use frit_uop::{Alu, DType, Scalar, UOp};

/// A Rust number that is an element of a tensor.
pub trait Element: Copy + Send + Sync + 'static {
    /// Its type.
    const DTYPE: DType;
    /// Writes its bytes as memory has them; the slice has the element's size.
    fn put(self, place: &mut [u8]);
    /// The value of bytes in memory; the slice has the element's size.
    fn take(bytes: &[u8]) -> Self;
    /// The element of a value, converted.
    fn of(v: Scalar) -> Self;
    /// The element as a value.
    fn scalar(self) -> Scalar;
}
macro_rules! elements {
    ($($t:ty => $d:ident, |$v:ident| $of:expr, |$s:ident| $scalar:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn put(self, place: &mut [u8]) { place.copy_from_slice(&self.to_ne_bytes()); }
            fn take(bytes: &[u8]) -> $t { bytes.try_into().map(<$t>::from_ne_bytes).unwrap_or_default() }
            fn of($v: Scalar) -> $t { $of }
            fn scalar(self) -> Scalar { let $s = self; $scalar }
        }
    )*};
}
elements! {
    f32 => F32, |v| v.as_f64() as f32, |s| Scalar::Float(s as f64);
    f64 => F64, |v| v.as_f64(), |s| Scalar::Float(s);
    i8  => I8,  |v| v.as_i128() as i8, |s| Scalar::Int(s as i64);
    i16 => I16, |v| v.as_i128() as i16, |s| Scalar::Int(s as i64);
    i32 => I32, |v| v.as_i128() as i32, |s| Scalar::Int(s as i64);
    i64 => I64, |v| v.as_i128() as i64, |s| Scalar::Int(s);
    u8  => U8,  |v| v.as_i128() as u8, |s| Scalar::Int(s as i64);
    u16 => U16, |v| v.as_i128() as u16, |s| Scalar::Int(s as i64);
    u32 => U32, |v| v.as_i128() as u32, |s| Scalar::Int(s as i64);
    u64 => U64, |v| v.as_i128() as u64, |s| Scalar::int(s as i128, DType::U64);
}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn put(self, place: &mut [u8]) {
        place.fill(self as u8);
    }
    fn take(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|b| *b != 0)
    }
    fn of(v: Scalar) -> bool {
        v.as_bool()
    }
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

/// Numbers, nested arrays and nested vectors of them, for [`Tensor::new`].
pub trait Nested {
    /// The innermost type.
    type Item: Element;
    /// Append the elements in order, and the sizes from `depth` on; false where rows differ in length.
    fn collect(&self, out: &mut Vec<Self::Item>, dims: &mut Vec<usize>, depth: usize) -> bool;
}
macro_rules! nested_leaf {
    ($($t:ty),*) => {$( impl Nested for $t {
        type Item = $t;
        fn collect(&self, out: &mut Vec<$t>, dims: &mut Vec<usize>, depth: usize) -> bool { out.push(*self); dims.len() == depth }
    } )*};
}
nested_leaf!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool);
impl<T: Nested> Nested for [T] {
    type Item = T::Item;
    fn collect(&self, out: &mut Vec<T::Item>, dims: &mut Vec<usize>, depth: usize) -> bool {
        if dims.len() == depth {
            dims.push(self.len());
        }
        dims[depth] == self.len() && self.iter().all(|x| x.collect(out, dims, depth + 1))
    }
}
impl<T: Nested, const N: usize> Nested for [T; N] {
    type Item = T::Item;
    fn collect(&self, out: &mut Vec<T::Item>, dims: &mut Vec<usize>, depth: usize) -> bool {
        self[..].collect(out, dims, depth)
    }
}
impl<T: Nested> Nested for Vec<T> {
    type Item = T::Item;
    fn collect(&self, out: &mut Vec<T::Item>, dims: &mut Vec<usize>, depth: usize) -> bool {
        self[..].collect(out, dims, depth)
    }
}
impl<T: Nested + ?Sized> Nested for &T {
    type Item = T::Item;
    fn collect(&self, out: &mut Vec<T::Item>, dims: &mut Vec<usize>, depth: usize) -> bool {
        (**self).collect(out, dims, depth)
    }
}

impl Tensor {
    /// A tensor of literals, nested as deep as it has dims: float32 for floats, int32 for integers (int64 if one does
    /// not fit), bool. [`Tensor::from_slice`] keeps the exact Rust type instead.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert_eq!(x.dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn new<N: Nested>(data: N) -> Tensor {
        let _c = call("new");
        let (mut out, mut dims) = (vec![], vec![]);
        if !data.collect(&mut out, &mut dims, 0) {
            return Tensor::failed(Error::new("new", "rows differ in length"));
        }
        let d = N::Item::DTYPE;
        let values = || out.iter().map(|v| v.scalar());
        let fits =
            |v: Scalar, d: DType| d.int_range().is_some_and(|(lo, hi)| (lo..=hi).contains(&v.as_i128()));
        let to = match d {
            DType::Bool => DType::Bool,
            d if d.is_float() => promote::defaults().float,
            _ if values().all(|v| fits(v, promote::defaults().int)) => promote::defaults().int,
            _ if values().all(|v| matches!(v, Scalar::Int(_))) => DType::I64,
            _ => return Tensor::failed(Error::new("new", "a literal is beyond int64")),
        };
        if dims.is_empty() {
            let v = values().next().unwrap_or(Scalar::zero(to));
            return Tensor::leaf(Ok(UOp::constant(v, to)));
        }
        let mut bytes = Vec::with_capacity(out.len() * to.size());
        for v in values() {
            bytes.extend_from_slice(&v.cast(to).to_bits(to).to_ne_bytes()[..to.size()]);
        }
        Tensor::of(memory(to, &bytes, &Dims::from(dims)))
    }
    /// A vector of exactly this type.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T]) -> Tensor {
        let _c = call("from_slice");
        Tensor::of(host(data, &Dims::from(data.len())))
    }
    /// Elements of exactly this type, in row-major order, in the given dims.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::from_vec(vec![1u8, 2, 3, 4], [2, 2]);
    /// assert_eq!((x.dtype(), x.dims()?), (DType::U8, vec![2, 2]));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(data: impl AsRef<[T]>, dims: impl Into<Dims>) -> Tensor {
        let _c = call("from_vec");
        let dims = dims.into();
        Tensor::of(host(data.as_ref(), &dims))
    }
    /// Elements of any type from their bytes, in row-major order.
    #[track_caller]
    pub fn from_bytes(dtype: DType, bytes: &[u8], dims: impl Into<Dims>) -> Tensor {
        let _c = call("from_bytes");
        let dims = dims.into();
        Tensor::of(match dtype.size() {
            0 => fail!("from_bytes", "{dtype} is not a type of elements"),
            _ => memory(dtype, bytes, &dims),
        })
    }
    /// Every element the same number: float32, int32 (int64 where it does not fit) or bool.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::full([2], 3_000_000_000i64).dtype(), DType::I64);
    /// ```
    #[track_caller]
    pub fn full(dims: impl Into<Dims>, v: impl Into<Operand>) -> Tensor {
        let _c = call("full");
        let (dims, v) = (dims.into(), v.into());
        Tensor::leaf(v.tensor().uop().and_then(|v| {
            if !v.shape().is_empty() {
                return fail!("full", "with a tensor of shape {}", shape::show_all(v.shape()));
            }
            Ok(filled(&sizes("full", &dims)?, v))
        }))
    }
    /// Every element the same number, of a type.
    #[track_caller]
    pub fn full_dtype(dims: impl Into<Dims>, v: impl Into<Operand>, dtype: DType) -> Tensor {
        let _c = call("full");
        let (dims, v) = (dims.into(), v.into());
        Tensor::leaf((|| match v {
            Operand::Number(s, _) => Ok(filled(&sizes("full", &dims)?, filling("full", s, dtype)?)),
            Operand::Tensor(t) => t.full_as(&dims, dtype),
        })())
    }
    fn full_as(&self, dims: &Dims, dtype: DType) -> Result<UOp> {
        let v = self.uop()?;
        match v.shape().is_empty() {
            true => Ok(filled(&sizes("full", dims)?, v.cast(dtype))),
            false => fail!("full", "with a tensor of shape {}", shape::show_all(v.shape())),
        }
    }
    /// Zeros, float32.
    #[track_caller]
    pub fn zeros(dims: impl Into<Dims>) -> Tensor {
        let _c = call("zeros");
        Tensor::full(dims, 0.0)
    }
    /// Ones, float32.
    #[track_caller]
    pub fn ones(dims: impl Into<Dims>) -> Tensor {
        let _c = call("ones");
        Tensor::full(dims, 1.0)
    }
    /// Memory of its own with no particular content (zeros, for now), float32.
    #[track_caller]
    pub fn empty(dims: impl Into<Dims>) -> Tensor {
        let _c = call("empty");
        Tensor::full(dims, 0.0).contiguous()
    }
    /// The same number in this tensor's shape and type.
    #[track_caller]
    pub fn full_like(&self, v: impl Into<Operand>) -> Tensor {
        let _c = call("full_like");
        let v = v.into();
        Tensor::leaf(
            self.uop().and_then(|x| Ok(filled(x.shape(), v.node("full_like", x.dtype)?.cast(x.dtype)))),
        )
    }
    /// Zeros in this tensor's shape and type.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        let _c = call("zeros_like");
        Tensor::leaf(self.uop().map(|x| filled(x.shape(), x.const_like(0))))
    }
    /// Ones in this tensor's shape and type.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        let _c = call("ones_like");
        Tensor::leaf(self.uop().map(|x| filled(x.shape(), x.const_like(1))))
    }
    /// Memory of its own with no particular content, in this tensor's shape and type.
    #[track_caller]
    pub fn empty_like(&self) -> Tensor {
        let _c = call("empty_like");
        self.zeros_like().contiguous()
    }
    /// `0, 1, … n-1`, int32.
    #[track_caller]
    pub fn arange(n: impl Into<Dim>) -> Tensor {
        let _c = call("arange");
        let n = n.into();
        Tensor::of(n.0.and_then(|n| {
            if n.as_int().is_some_and(|n| n < 0) {
                return fail!("arange", "of {} elements", shape::show(&n));
            }
            let n = shape::not_negative("arange", &[n])?.remove(0);
            let d = if n.bounds.1 > i32::MAX as i128 { DType::I64 } else { DType::I32 };
            Ok(UOp::iota(&n, d))
        }))
    }
    /// From `start` by `step`, stopping before `end`, where these are sizes that may have variables; none if `end` is
    /// not beyond `start`.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let v = Variable::new("v", 0, 9)?.bind(4)?;
    /// assert_eq!(Tensor::arange_between(&v, &v + 3, 2).to_vec::<i32>()?, [4, 6]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn arange_between(start: impl Into<Dim>, end: impl Into<Dim>, step: i64) -> Tensor {
        let _c = call("arange");
        let (start, end) = (start.into(), end.into());
        if step == 0 {
            return Tensor::failed(Error::new("arange", "by steps of 0"));
        }
        let length = if step > 0 { &end - &start } else { &start - &end };
        let by = step.unsigned_abs();
        let count = (length.at_least(0) + (by - 1)) / by;
        let (i, start) = (Tensor::arange(count), start.tensor());
        if step == 1 { i + start } else { i * step + start }
    }
    /// From `start` by `step`, stopping before `end`: integers if all three are, else float32.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::arange_step(10, 0, -3).to_vec::<i32>()?, [10, 7, 4, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn arange_step(
        start: impl Into<Operand>,
        end: impl Into<Operand>,
        step: impl Into<Operand>,
    ) -> Tensor {
        let _c = call("arange");
        let (a, b, s) = (start.into(), end.into(), step.into());
        Tensor::leaf((|| {
            let (Operand::Number(a, wa), Operand::Number(b, wb), Operand::Number(s, ws)) = (&a, &b, &s)
            else {
                return fail!("arange", "takes plain numbers");
            };
            if [wa, wb, ws].iter().any(|w| **w == Weak::Float) {
                let (a, b, s) = (a.as_f64(), b.as_f64(), s.as_f64());
                let n = ((b - a) / s).ceil().max(0.0);
                if !n.is_finite() {
                    return fail!("arange", "from {a} to {b} by {s}");
                }
                return Ok(ramp(n as i64, a, s, DType::F32).cast(promote::defaults().float));
            }
            let (a, b, s) = (a.as_i128(), b.as_i128(), s.as_i128());
            if s == 0 {
                return fail!("arange", "by steps of 0");
            }
            let n = if s > 0 { (b - a + s - 1).div_euclid(s) } else { (a - b - s - 1).div_euclid(-s) }.max(0);
            let last = a + s * (n - 1).max(0);
            let d = if [a, last].iter().all(|v| i32::try_from(*v).is_ok()) { DType::I32 } else { DType::I64 };
            if i64::try_from(a).is_err() || i64::try_from(last).is_err() || n > 1 << 62 {
                return fail!("arange", "from {a} to {b} by {s} is beyond int64");
            }
            let i = UOp::iota(&UOp::index(n as i64), d);
            let i = if s == 1 { i } else { i.bin(Alu::Mul, &UOp::int(s as i64, d)) };
            Ok(if a == 0 { i } else { i.bin(Alu::Add, &UOp::int(a as i64, d)) })
        })())
    }
    /// `n` numbers from `start` to `end`, both included, float32.
    #[track_caller]
    pub fn linspace(start: f64, end: f64, n: usize) -> Tensor {
        let _c = call("linspace");
        if n == 1 {
            return Tensor::full([1], start);
        }
        // from both ends, so that both are exact
        let step = (end - start) / (n.max(2) - 1) as f64;
        let d = DType::F32;
        let i = UOp::iota(&UOp::index(n as i64), d);
        let up = i.bin(Alu::Mul, &number(step, d)).bin(Alu::Add, &number(start, d));
        let back = UOp::int(n as i64 - 1, d).bin(Alu::Sub, &i).bin(Alu::Mul, &number(step, d));
        let down = number(end, d).bin(Alu::Sub, &back);
        Tensor::leaf(Ok(i.lt(&UOp::int(n as i64 / 2, d)).select(&up, &down)))
    }
    /// `n` numbers from `base` to the `start` to `base` to the `end`, evenly spaced in the exponent, float32.
    #[track_caller]
    pub fn logspace(start: f64, end: f64, n: usize, base: f64) -> Tensor {
        let _c = call("logspace");
        Tensor::full((), base).pow(Tensor::linspace(start, end, n))
    }
    /// The identity matrix, float32: of one size, or of rows and columns.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::eye((2, 3)).to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eye(dims: impl Into<Dims>) -> Tensor {
        let _c = call("eye");
        let dims = dims.into();
        let (rows, cols) = match &dims.0[..] {
            [n] => (n, n),
            [r, c] => (r, c),
            _ => return Tensor::of(fail!("eye", "takes one or two sizes, not {}", dims.0.len())),
        };
        let one = Tensor::arange(rows).unsqueeze(1).eq(Tensor::arange(cols).unsqueeze(0)).cast(DType::F32);
        Tensor::leaf(one.uop())
    }
    /// Ones on and below diagonal `k`, float32.
    #[track_caller]
    pub fn tri(rows: impl Into<Dim>, cols: impl Into<Dim>, k: impl Into<Dim>) -> Tensor {
        let _c = call("tri");
        Tensor::leaf(mask(rows.into(), cols.into(), k.into()).cast(DType::F32).uop())
    }
    /// The lower triangle of the last two dims: what is above diagonal `k` becomes 0.
    #[track_caller]
    pub fn tril(&self, k: impl Into<Dim>) -> Tensor {
        let (_c, k) = (call("tril"), k.into());
        self.triangle("tril").map_or_else(Tensor::failed, |(r, c)| mask(r, c, k).where_(self, self.zero()))
    }
    /// The upper triangle of the last two dims: what is below diagonal `k` becomes 0.
    #[track_caller]
    pub fn triu(&self, k: impl Into<Dim>) -> Tensor {
        let (_c, k) = (call("triu"), k.into());
        self.triangle("triu")
            .map_or_else(Tensor::failed, |(r, c)| mask(r, c, k - 1).where_(self.zero(), self))
    }
    fn zero(&self) -> Tensor {
        self.map(|x| Ok(x.const_like(0)))
    }
    fn triangle(&self, op: &'static str) -> Result<(Dim, Dim)> {
        let x = self.uop()?;
        match x.shape() {
            [.., r, c] => Ok((Dim(Ok(r.clone())), Dim(Ok(c.clone())))),
            s => fail!(op, "of shape {}, not a matrix", shape::show_all(s)),
        }
    }
    /// A new last dim of `classes` with true where it equals the index, as int32.
    #[track_caller]
    pub fn one_hot(&self, classes: impl Into<Dim>) -> Tensor {
        let _c = call("one_hot");
        self.hot(classes).cast(DType::I32)
    }
    /// A new last dim of `classes`, true where it equals the index.
    #[track_caller]
    pub(crate) fn hot(&self, classes: impl Into<Dim>) -> Tensor {
        if self.dtype().is_float() {
            return Tensor::failed(Error::new("one_hot", format!("of {} values", self.dtype())));
        }
        self.unsqueeze(-1).eq(Tensor::arange(classes).cast(self.dtype()))
    }
    /// Coordinates of a grid: one tensor for each vector (a scalar counts as one element), all of the grid's shape,
    /// the first vector running along dim 0 (`ij` order).
    #[track_caller]
    pub fn meshgrid(vectors: &[Tensor]) -> Vec<Tensor> {
        let _c = call("meshgrid");
        if let Some(v) = vectors.iter().find(|v| v.rank() > 1) {
            let e = Error::new("meshgrid", format!("of shape {}, not a vector", v.shape()));
            return vec![Tensor::failed(e); vectors.len()];
        }
        let vectors: Vec<Tensor> = vectors.iter().map(|v| v.reshape([-1])).collect();
        let dims = Dims(vectors.iter().map(|v| v.shape()[0].clone()).collect());
        let n = vectors.len();
        let line = |i: usize| {
            let mut d = Dims(std::iter::repeat_n(Dim::from(1), n).collect());
            d.0[i] = dims.0[i].clone();
            d
        };
        (0..n).map(|i| vectors[i].reshape(line(i)).expand(dims.clone())).collect()
    }
    /// [`Tensor::meshgrid`] with the first two dims exchanged: the first vector runs along dim 1 (`xy` order).
    #[track_caller]
    pub fn meshgrid_xy(vectors: &[Tensor]) -> Vec<Tensor> {
        let _c = call("meshgrid");
        let grid = Tensor::meshgrid(vectors);
        if vectors.len() < 2 { grid } else { grid.iter().map(|g| g.transpose(0, 1)).collect() }
    }
}

/// True on and below diagonal `k`.
#[track_caller]
fn mask(rows: Dim, cols: Dim, k: Dim) -> Tensor {
    let (r, c) = (Tensor::arange(rows).unsqueeze(1), Tensor::arange(cols).unsqueeze(0));
    match k.as_int() {
        Some(k) => c.le(r + k),
        None => c.le(r + k.tensor()),
    }
}

fn ramp(n: i64, start: f64, step: f64, d: DType) -> UOp {
    let i = UOp::iota(&UOp::index(n), d);
    i.bin(Alu::Mul, &number(step, d)).bin(Alu::Add, &number(start, d))
}

/// Sizes that are not negative.
pub(crate) fn sizes(op: &'static str, dims: &Dims) -> Result<smallvec::SmallVec<[UOp; 4]>> {
    let d = shape::not_negative(op, &dims.uops()?)?;
    shape::countable(op, &d).map(|()| d)
}

fn host<T: Element>(data: &[T], dims: &Dims) -> Result<UOp> {
    let mut bytes = vec![0; std::mem::size_of_val(data)];
    data.iter().zip(bytes.chunks_exact_mut(size_of::<T>())).for_each(|(v, place)| v.put(place));
    memory(T::DTYPE, &bytes, dims)
}

/// Memory on the default device with these bytes, in these dims.
fn memory(dtype: DType, bytes: &[u8], dims: &Dims) -> Result<UOp> {
    let dims = sizes("new", dims)?;
    let want = dims.iter().try_fold(1usize, |n, d| n.checked_mul(d.as_int().unwrap_or(0) as usize));
    let len = bytes.len() / dtype.size();
    if want != Some(len) || !bytes.len().is_multiple_of(dtype.size()) {
        return fail!("new", "{len} elements do not fill shape {}", shape::show_all(&dims));
    }
    Ok(realize::from_bytes(dtype, len, bytes)?.reshape(&dims))
}

/// The float type results of this type have.
pub(crate) fn float_of(d: DType) -> DType {
    promote::to_float(d)
}
