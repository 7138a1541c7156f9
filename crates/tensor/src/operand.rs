//! What stands on either side of an operator: tensors and plain numbers, and the types they meet at.
//!
//! A plain number is weakly typed: it takes the tensor's type where that can hold its kind (`int8 + 3` is int8,
//! `int8 + 0.5` is float32). An integer that does not fit the type is an error, not a wrapped value.

use crate::error::{Result, call, fail};
use crate::tensor::{Tensor, align, promoted};
use frit_uop::promote::{self, Weak};
use frit_uop::{Alu, DType, Scalar, UOp};

/// A tensor or a plain number.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor, with its own type.
    Tensor(Tensor),
    /// A number that takes the type of what it meets.
    Number(Scalar, Weak),
}

impl From<Tensor> for Operand {
    fn from(t: Tensor) -> Operand {
        Operand::Tensor(t)
    }
}
impl From<&Tensor> for Operand {
    fn from(t: &Tensor) -> Operand {
        Operand::Tensor(t.clone())
    }
}
macro_rules! numbers {
    ($weak:ident, $f:expr; $($t:ty),*) => {$(
        impl From<$t> for Operand { fn from(v: $t) -> Operand { let f: fn($t) -> Scalar = $f; Operand::Number(f(v), Weak::$weak) } }
        impl From<$t> for Tensor { #[track_caller] fn from(v: $t) -> Tensor { Operand::from(v).tensor() } }
    )*};
}
numbers!(Float, |v| Scalar::Float(v as f64); f32);
numbers!(Float, Scalar::Float; f64);
numbers!(Int, |v| Scalar::int(v as i128, if v as i128 > i64::MAX as i128 { DType::U64 } else { DType::I64 });
    i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
numbers!(Bool, Scalar::Bool; bool);

impl Operand {
    /// As a tensor by itself: float32, int32 (int64 where it does not fit), bool.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        let _c = call("tensor");
        match self {
            Operand::Tensor(t) => t.clone(),
            Operand::Number(v, w) => Tensor::leaf(default_dtype(*v, *w).map(|d| UOp::constant(*v, d))),
        }
    }
    /// As a tensor that changes no types beside `other`: a number takes the type it would in an operation with it.
    #[track_caller]
    pub fn beside(&self, other: &Tensor) -> Tensor {
        let _c = call("tensor");
        match self {
            Operand::Tensor(t) => t.clone(),
            Operand::Number(v, w) => Tensor::of(
                other.form().and_then(|o| literal("tensor", *v, promote::promote_weak(o.dtype, *w))),
            ),
        }
    }
    /// As a node of type `dtype` (numbers) or of its own type (tensors).
    pub(crate) fn node(&self, op: &'static str, dtype: DType) -> Result<UOp> {
        match self {
            Operand::Tensor(t) => t.uop(),
            Operand::Number(v, _) => literal(op, *v, dtype),
        }
    }
}

/// The type a number has on its own.
pub(crate) fn default_dtype(v: Scalar, w: Weak) -> Result<DType> {
    Ok(match (w, v) {
        (Weak::Bool, _) => DType::Bool,
        (Weak::Float, _) => promote::defaults().float,
        (_, Scalar::Uint(u)) => return fail!("tensor", "literal {u} is beyond int64"),
        (Weak::Int, v) => {
            let int = promote::defaults().int;
            let fits = int.int_range().is_some_and(|(lo, hi)| (lo..=hi).contains(&v.as_i128()));
            if fits { int } else { DType::I64 }
        }
    })
}

/// A constant of an integer or float type that holds it.
pub(crate) fn literal(op: &'static str, v: Scalar, dtype: DType) -> Result<UOp> {
    if let (Some((lo, hi)), true) = (dtype.int_range(), dtype != DType::Bool) {
        let n = v.as_i128();
        if !matches!(v, Scalar::Float(_)) && (n < lo || n > hi) {
            return fail!(op, "literal {n} does not fit {dtype} ({lo}..={hi})");
        }
    }
    Ok(UOp::constant(v, dtype))
}

/// A constant of an integer or float type, an integer wrapped to the type's bits: for operations whose results wrap,
/// where it makes no difference which of the two does.
fn wrapped(v: Scalar, dtype: DType) -> UOp {
    match v {
        Scalar::Float(_) => UOp::constant(v, dtype),
        _ => UOp::constant(Scalar::from_bits(v.as_i128() as u64, dtype), dtype),
    }
}

/// A number to fill a tensor with: of an unsigned type also a negative one, by its bits, as in torch.
pub(crate) fn filling(op: &'static str, v: Scalar, dtype: DType) -> Result<UOp> {
    let most = dtype.int_range().map_or(0, |r| r.1);
    let negative = !matches!(v, Scalar::Float(_)) && (-most..0).contains(&v.as_i128());
    if negative && dtype.is_unsigned() { Ok(wrapped(v, dtype)) } else { literal(op, v, dtype) }
}

/// The type an operation on two operands works in.
pub(crate) fn meet(op: &'static str, a: &Operand, b: &Operand) -> Result<DType> {
    use Operand::*;
    match (a, b) {
        (Tensor(a), Tensor(b)) => promoted(op, a.form()?.dtype, b.form()?.dtype),
        (Tensor(t), Number(_, w)) | (Number(_, w), Tensor(t)) => {
            Ok(promote::promote_weak(t.form()?.dtype, *w))
        }
        (Number(v, x), Number(w, y)) => promoted(op, default_dtype(*v, *x)?, default_dtype(*w, *y)?),
    }
}

/// Both operands as nodes of one type and shape (or scalars), after `widen` had its say about the type.
pub(crate) fn pair(
    op: &'static str,
    a: &Operand,
    b: &Operand,
    widen: impl FnOnce(DType) -> Result<DType>,
) -> Result<[UOp; 2]> {
    let dtype = widen(meet(op, a, b)?)?;
    align(op, [a.node(op, dtype)?.cast(dtype), b.node(op, dtype)?.cast(dtype)])
}

/// A binary operation in the type both meet at.
pub(crate) fn binary(op: &'static str, alu: Alu, a: &Operand, b: &Operand) -> Tensor {
    Tensor::of((|| {
        let d = allowed(op, alu, meet(op, a, b)?)?;
        let modular = matches!(alu, Alu::Add | Alu::Sub | Alu::Mul | Alu::And | Alu::Or | Alu::Xor);
        let node = |x: &Operand| match x {
            Operand::Number(v, _) if modular && d.is_int() && d != DType::Bool => Ok(wrapped(*v, d)),
            x => Ok(x.node(op, d)?.cast(d)),
        };
        let [a, b] = align(op, [node(a)?, node(b)?])?;
        Ok(a.bin(alu, &b))
    })())
}

fn allowed(op: &'static str, alu: Alu, d: DType) -> Result<DType> {
    let ok = match alu {
        Alu::And | Alu::Or | Alu::Xor => !d.is_float(),
        Alu::Shl | Alu::Shr => d.is_int(),
        Alu::Sub => d != DType::Bool,
        _ => true,
    };
    if ok { Ok(d) } else { fail!(op, "is not defined for {d}") }
}

// one impl for everything on the right, so that the result's type never waits for a literal's
macro_rules! operators {
    ($($tr:ident $m:ident $call:ident),* $(,)?) => {$(
        impl<T: Into<Operand>> std::ops::$tr<T> for Tensor { type Output = Tensor; #[track_caller] fn $m(self, o: T) -> Tensor { Tensor::$call(&self, o) } }
        impl<T: Into<Operand>> std::ops::$tr<T> for &Tensor { type Output = Tensor; #[track_caller] fn $m(self, o: T) -> Tensor { Tensor::$call(self, o) } }
        // one float and one integer type on the left, for the same reason
        impl std::ops::$tr<Tensor> for f64 { type Output = Tensor; #[track_caller] fn $m(self, o: Tensor) -> Tensor { flip::$m(self.into(), o.into()) } }
        impl std::ops::$tr<&Tensor> for f64 { type Output = Tensor; #[track_caller] fn $m(self, o: &Tensor) -> Tensor { flip::$m(self.into(), o.into()) } }
        impl std::ops::$tr<Tensor> for i64 { type Output = Tensor; #[track_caller] fn $m(self, o: Tensor) -> Tensor { flip::$m(self.into(), o.into()) } }
        impl std::ops::$tr<&Tensor> for i64 { type Output = Tensor; #[track_caller] fn $m(self, o: &Tensor) -> Tensor { flip::$m(self.into(), o.into()) } }
    )*};
}
operators!(
    Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem modulo,
    BitAnd bitand bitwise_and, BitOr bitor bitwise_or, BitXor bitxor bitwise_xor, Shl shl lshift, Shr shr rshift,
);

/// Operators by name, with a number on the left.
mod flip {
    use super::*;
    macro_rules! flipped {
        ($($m:ident $alu:ident),*) => {$( #[track_caller] pub fn $m(a: Operand, b: Operand) -> Tensor { let _c = call(stringify!($m)); binary(stringify!($m), Alu::$alu, &a, &b) } )*};
    }
    flipped!(add Add, sub Sub, mul Mul, bitand And, bitor Or, bitxor Xor, shl Shl, shr Shr);
    #[track_caller]
    pub fn rem(a: Operand, b: Operand) -> Tensor {
        let _c = call("mod");
        binary("mod", Alu::Mod, &a, &b)
    }
    #[track_caller]
    pub fn div(a: Operand, b: Operand) -> Tensor {
        let _c = call("div");
        divide(&a, &b)
    }
}

pub(crate) fn divide(a: &Operand, b: &Operand) -> Tensor {
    Tensor::of(pair("div", a, b, |d| Ok(promote::to_float(d))).map(|[a, b]| a.bin(Alu::Fdiv, &b)))
}

impl std::ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}
impl std::ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}
impl std::ops::Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}
impl std::ops::Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}
