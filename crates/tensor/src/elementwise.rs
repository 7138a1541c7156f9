//! Arithmetic, comparison, logic and rounding, element by element.
//!
//! Integers wrap; division and modulo floor and give 0 by zero. `maximum` and `minimum` propagate NaN, and share the
//! gradient of a tie.

use crate::composite;
use crate::error::{Result, call, fail};
use crate::operand::{Operand, binary, divide, meet, pair};
use crate::tensor::{Tensor, align, number};
use crate::trace::{Composite, noted};
use frit_uop::promote::{self, Weak};
use frit_uop::{Alu, DType, Scalar, UOp};

/// As the float type it works in.
pub(crate) fn to_float(x: &UOp) -> UOp {
    x.cast(promote::to_float(x.dtype))
}
/// A function computed in at least float32 and rounded once at the end.
pub(crate) fn in_f32(x: &UOp, f: impl FnOnce(&UOp) -> UOp) -> UOp {
    let x = to_float(x);
    if x.dtype.is_small_float() { f(&x.cast(DType::F32)).cast(x.dtype) } else { f(&x) }
}

/// A value, or its limit where it is beyond that.
fn limited(what: Composite, ab: Result<[UOp; 2]>, is_beyond: fn(&UOp, &UOp) -> UOp) -> Tensor {
    let [x, limit] = match ab {
        Ok(ab) => ab,
        Err(e) => return Tensor::failed(e),
    };
    let value = Tensor::of(Ok(is_beyond(&x, &limit).select(&limit, &x)));
    if !crate::trace::is_open() {
        return value;
    }
    noted(|| what, &[Some(&Tensor::of(Ok(x))), Some(&Tensor::of(Ok(limit)))], value)
}

impl Tensor {
    /// `f` computed in at least float32 and rounded once at the end.
    #[track_caller]
    pub(crate) fn in_f32(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        match self.dtype() {
            d if d.is_small_float() => f(&self.cast(DType::F32)).cast(d),
            d if d.is_float() => f(self),
            DType::Void => self.clone(),
            _ => f(&self.cast(DType::F32)),
        }
    }
}

macro_rules! binaries {
    ($($(#[$doc:meta])* $name:ident $op:literal $alu:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, o: impl Into<Operand>) -> Tensor {
                let _c = call($op);
                binary($op, Alu::$alu, &self.into(), &o.into())
            }
        )*}
    };
}
binaries! {
    /// Sum; `a + b`.
    add         "add" Add;
    /// Difference; `a - b`.
    sub         "sub" Sub;
    /// Product; `a * b`.
    mul         "mul" Mul;
    /// The greater; NaN if either is.
    maximum     "maximum" Max;
    /// The lesser; NaN if either is.
    minimum     "minimum" Min;
    /// Bits of both; `a & b`.
    bitwise_and "bitwise_and" And;
    /// Bits of either; `a | b`.
    bitwise_or  "bitwise_or" Or;
    /// Bits that differ; `a ^ b`.
    bitwise_xor "bitwise_xor" Xor;
    /// Shifted left; by the width or more gives 0; `a << b`.
    lshift      "lshift" Shl;
    /// Shifted right, keeping the sign; `a >> b`.
    rshift      "rshift" Shr;
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident |$a:ident, $b:ident| $f:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, o: impl Into<Operand>) -> Tensor {
                let _c = call(stringify!($name));
                Tensor::of(pair(stringify!($name), &self.into(), &o.into(), Ok).map(|[$a, $b]| $f))
            }
        )*}
    };
}
comparisons! {
    /// Less.
    lt |a, b| a.lt(&b);
    /// Greater.
    gt |a, b| b.lt(&a);
    /// Less or equal; false with NaN.
    le |a, b| if a.dtype.is_float() { a.lt(&b).or_(&a.eq_(&b)) } else { b.lt(&a).un(Alu::Not) };
    /// Greater or equal; false with NaN.
    ge |a, b| if a.dtype.is_float() { b.lt(&a).or_(&a.eq_(&b)) } else { a.lt(&b).un(Alu::Not) };
    /// Equal.
    eq |a, b| a.eq_(&b);
    /// Not equal; true with NaN.
    ne |a, b| a.ne_(&b);
}

macro_rules! unaries {
    ($($(#[$doc:meta])* $name:ident |$x:ident| $f:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                let _c = call(stringify!($name));
                self.map(|$x| Ok($f))
            }
        )*}
    };
}
unaries! {
    /// Square root.
    sqrt        |x| to_float(x).un(Alu::Sqrt);
    /// 1 / sqrt(x).
    rsqrt       |x| to_float(x).un(Alu::Rsqrt);
    /// 1 / x.
    reciprocal  |x| to_float(x).un(Alu::Recip);
    /// x².
    square      |x| x.bin(Alu::Mul, x);
    /// e to the x.
    exp         |x| to_float(x).un(Alu::Exp);
    /// 2 to the x.
    exp2        |x| to_float(x).un(Alu::Exp2);
    /// e to the x, less 1, exact near zero.
    expm1       |x| to_float(x).un(Alu::Expm1);
    /// Natural logarithm.
    log         |x| to_float(x).un(Alu::Log);
    /// Logarithm to base 2.
    log2        |x| to_float(x).un(Alu::Log2);
    /// Logarithm to base 10.
    log10       |x| to_float(x).un(Alu::Log10);
    /// log(1 + x), exact near zero.
    log1p       |x| to_float(x).un(Alu::Log1p);
    /// Sine of radians.
    sin         |x| to_float(x).un(Alu::Sin);
    /// Cosine of radians.
    cos         |x| to_float(x).un(Alu::Cos);
    /// Tangent of radians.
    tan         |x| to_float(x).un(Alu::Tan);
    /// Arc sine, of |x| <= 1.
    asin        |x| to_float(x).un(Alu::Asin);
    /// Arc cosine, of |x| <= 1.
    acos        |x| to_float(x).un(Alu::Acos);
    /// Arc tangent.
    atan        |x| { let x = to_float(x); x.bin(Alu::Atan2, &x.const_like(1)) };
    /// Hyperbolic sine.
    sinh        |x| to_float(x).un(Alu::Sinh);
    /// Hyperbolic cosine.
    cosh        |x| to_float(x).un(Alu::Cosh);
    /// Hyperbolic tangent.
    tanh        |x| to_float(x).un(Alu::Tanh);
    /// Inverse hyperbolic sine.
    asinh       |x| in_f32(x, composite::asinh);
    /// Inverse hyperbolic cosine, of x >= 1.
    acosh       |x| in_f32(x, composite::acosh);
    /// Inverse hyperbolic tangent, of |x| <= 1.
    atanh       |x| in_f32(x, composite::atanh);
    /// The error function.
    erf         |x| to_float(x).un(Alu::Erf);
    /// 1 - erf(x), without cancelling.
    erfc        |x| to_float(x).un(Alu::Erfc);
    /// Towards minus infinity.
    floor       |x| if x.dtype.is_float() { x.un(Alu::Floor) } else { x.clone() };
    /// Towards plus infinity.
    ceil        |x| if x.dtype.is_float() { x.un(Alu::Neg).un(Alu::Floor).un(Alu::Neg) } else { x.clone() };
    /// To the nearest integer, halves to even.
    round       |x| if x.dtype.is_float() { x.un(Alu::Round) } else { x.clone() };
    /// Towards zero.
    trunc       |x| if x.dtype.is_float() { x.un(Alu::Trunc) } else { x.clone() };
    /// -1, 0 or 1; 0 of NaN.
    sign        |x| sign(x);
    /// Magnitude.
    abs         |x| abs(x);
    /// Where it is not a number.
    isnan       |x| x.ne_(x);
    /// Where it is an infinity.
    isinf       |x| is_inf(x);
    /// Where it is neither an infinity nor NaN.
    isfinite    |x| is_inf(x).or_(&x.ne_(x)).un(Alu::Not);
    /// True where it is zero.
    logical_not |x| truth(x).un(Alu::Not);
}

fn abs(x: &UOp) -> UOp {
    match x.dtype {
        DType::Bool => x.clone(),
        d if d.is_unsigned() => x.clone(),
        // a product with the sign has the gradient 0 at 0, as torch's
        d if d.is_float() => {
            let zero = x.const_like(0);
            let signed = x.lt(&zero).select(&x.un(Alu::Neg), x);
            x.eq_(&zero).select(&zero, &signed)
        }
        _ => x.lt(&x.const_like(0)).select(&x.un(Alu::Neg), x),
    }
}
fn sign(x: &UOp) -> UOp {
    let (zero, one) = (x.const_like(0), x.const_like(1));
    match x.dtype {
        DType::Bool => x.clone(),
        d if d.is_unsigned() => x.eq_(&zero).select(&zero, &one),
        d => {
            // at zero (and of NaN): zero, by a way that has the gradient zero instead of none
            let rest = if d.is_float() { x.ne_(x).select(&zero, &x.un(Alu::Trunc)) } else { zero.clone() };
            x.lt(&zero).select(&x.const_like(-1), &zero.lt(x).select(&one, &rest))
        }
    }
}
fn is_inf(x: &UOp) -> UOp {
    if !x.dtype.is_float() {
        return x.ne_(x);
    }
    let inf = number(f64::INFINITY, x.dtype);
    x.eq_(&inf).or_(&x.eq_(&inf.un(Alu::Neg)))
}
/// As a bool: not zero.
pub(crate) fn truth(x: &UOp) -> UOp {
    if x.dtype == DType::Bool { x.clone() } else { x.ne_(&x.const_like(0)) }
}

/// x to a whole power by repeated squaring.
fn powi(x: &UOp, n: u32) -> UOp {
    let (mut base, mut n, mut r) = (x.clone(), n, None::<UOp>);
    while n > 0 {
        if n & 1 == 1 {
            r = Some(r.map_or(base.clone(), |r| r.bin(Alu::Mul, &base)));
        }
        n >>= 1;
        if n > 0 {
            base = base.bin(Alu::Mul, &base);
        }
    }
    r.unwrap_or_else(|| composite::joined(&crate::tensor::filled(x.shape(), x.const_like(1)), x))
}

impl Tensor {
    /// -x; wraps for unsigned types.
    #[track_caller]
    pub fn neg(&self) -> Tensor {
        let _c = call("neg");
        self.map(|x| match x.dtype {
            DType::Bool => fail!("neg", "is not defined for bool; use logical_not"),
            _ => Ok(x.un(Alu::Neg)),
        })
    }
    /// True division, in a float type; `a / b`.
    #[track_caller]
    pub fn div(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("div");
        divide(&self.into(), &o.into())
    }
    /// Division rounded towards minus infinity (of floats, the exact quotient); integers stay integers and give 0 by zero.
    #[track_caller]
    pub fn floor_div(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("floor_div");
        let ab = pair("floor_div", &self.into(), &o.into(), Ok);
        Tensor::of(ab.map(|[a, b]| a.bin(Alu::Idiv, &b)))
    }
    /// Division rounded towards zero.
    #[track_caller]
    pub fn trunc_div(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("trunc_div");
        let ab = pair("trunc_div", &self.into(), &o.into(), Ok);
        Tensor::of(ab.map(|[a, b]| {
            if a.dtype.is_float() {
                return a.bin(Alu::Fdiv, &b).un(Alu::Trunc);
            }
            let q = a.bin(Alu::Idiv, &b);
            let exact = q.bin(Alu::Mul, &b).eq_(&a);
            let negative = q.lt(&q.const_like(0));
            let bump = negative.and_(&exact.un(Alu::Not)).and_(&b.ne_(&b.const_like(0)));
            bump.select(&q.bin(Alu::Add, &q.const_like(1)), &q)
        }))
    }
    /// Remainder with the dividend's sign, as C's `fmod`; of floats it is exact.
    #[track_caller]
    pub fn fmod(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("fmod");
        let ab = pair("fmod", &self.into(), &o.into(), Ok);
        Tensor::of(ab.map(|[a, b]| {
            let negative = |v: &UOp| v.lt(&v.const_like(0));
            if !a.dtype.is_float() {
                let r = a.bin(Alu::Mod, &b);
                let across = r.ne_(&r.const_like(0)).and_(&negative(&r).ne_(&negative(&a)));
                return across.select(&r.bin(Alu::Sub, &b), &r);
            }
            let magnitude = |v: &UOp| negative(v).select(&v.un(Alu::Neg), v);
            let r = magnitude(&a).bin(Alu::Mod, &magnitude(&b));
            let r = negative(&a).select(&r.un(Alu::Neg), &r);
            // a zero keeps its sign
            r.eq_(&a).select(&a, &r)
        }))
    }
    /// Remainder of floor division, with the divisor's sign; of floats it is exact; `a % b`.
    #[track_caller]
    pub fn modulo(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("mod");
        binary("mod", Alu::Mod, &self.into(), &o.into())
    }
    /// x to the power y. A whole number is an exact chain of multiplications.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::new([1.0, 2.0, 3.0]).pow(3).to_vec::<f32>()?, [1.0, 8.0, 27.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pow(&self, y: impl Into<Operand>) -> Tensor {
        let _c = call("pow");
        let y = y.into();
        let whole = match y {
            Operand::Number(Scalar::Int(n), Weak::Int) => Some(n),
            Operand::Number(Scalar::Float(f), _) if f.fract() == 0.0 && f.abs() <= 64.0 => Some(f as i64),
            _ => None,
        };
        match whole.filter(|n| n.unsigned_abs() <= 64) {
            Some(n) => self.map(|x| {
                let d = meet("pow", &self.into(), &y)?;
                let d = if d == DType::Bool { DType::I32 } else { d };
                let x = x.cast(d);
                match n {
                    0.. => Ok(powi(&x, n as u32)),
                    _ if d.is_float() => Ok(powi(&x, n.unsigned_abs() as u32).un(Alu::Recip)),
                    _ => fail!("pow", "{d} to the negative power {n}; cast to a float type"),
                }
            }),
            None => binary("pow", Alu::Pow, &self.into(), &y),
        }
    }
    /// Where both are true (not zero).
    #[track_caller]
    pub fn logical_and(&self, o: impl Into<Operand>) -> Tensor {
        self.logical("logical_and", Alu::And, o.into())
    }
    /// Where either is true (not zero).
    #[track_caller]
    pub fn logical_or(&self, o: impl Into<Operand>) -> Tensor {
        self.logical("logical_or", Alu::Or, o.into())
    }
    /// Where one is true (not zero) and the other is not.
    #[track_caller]
    pub fn logical_xor(&self, o: impl Into<Operand>) -> Tensor {
        self.logical("logical_xor", Alu::Xor, o.into())
    }
    #[track_caller]
    fn logical(&self, op: &'static str, alu: Alu, o: Operand) -> Tensor {
        let _c = call(op);
        self.map(|x| {
            let [a, b] = align(op, [truth(x), truth(&o.tensor().uop()?)])?;
            Ok(a.bin(alu, &b))
        })
    }
    /// Every bit turned; `!x`.
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        let _c = call("bitwise_not");
        self.map(|x| match x.dtype {
            d if d.is_float() => fail!("bitwise_not", "is not defined for {d}"),
            DType::Bool => Ok(x.un(Alu::Not)),
            _ => Ok(x.bin(Alu::Xor, &x.const_like(-1))),
        })
    }
    /// `a` where this is true, else `b`; the branch not taken takes no part in the gradient.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([-1.0, 2.0]);
    /// assert_eq!(x.gt(0).where_(&x, 0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn where_(&self, a: impl Into<Operand>, b: impl Into<Operand>) -> Tensor {
        let _c = call("where");
        let (a, b) = (a.into(), b.into());
        self.map(|cond| {
            let d = meet("where", &a, &b)?;
            let (a, b) = (a.node("where", d)?.cast(d), b.node("where", d)?.cast(d));
            let [cond, a, b] = align("where", [truth(cond), a, b])?;
            Ok(cond.select(&a, &b))
        })
    }
    /// `v` where the mask is true. Of bools it stays bool, whatever the number.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, v: impl Into<Operand>) -> Tensor {
        let _c = call("masked_fill");
        match v.into() {
            Operand::Number(v, _) if self.dtype() == DType::Bool => mask.where_(v.as_f64() != 0.0, self),
            v => mask.where_(v, self),
        }
    }
    /// No less than `lo`, no more than `hi`. The gradient passes inside, not at the limits.
    #[track_caller]
    pub fn clamp(&self, lo: impl Into<Operand>, hi: impl Into<Operand>) -> Tensor {
        let _c = call("clamp");
        self.clamp_min(lo).clamp_max(hi)
    }
    /// The same as [`Tensor::clamp`].
    #[track_caller]
    pub fn clip(&self, lo: impl Into<Operand>, hi: impl Into<Operand>) -> Tensor {
        self.clamp(lo, hi)
    }
    /// No less than `lo`.
    #[track_caller]
    pub fn clamp_min(&self, lo: impl Into<Operand>) -> Tensor {
        let _c = call("clamp");
        let ab = pair("clamp", &self.into(), &lo.into(), Ok);
        limited(Composite::AtLeast, ab, |x, lo| x.lt(lo).or_(&x.eq_(lo)))
    }
    /// No more than `hi`.
    #[track_caller]
    pub fn clamp_max(&self, hi: impl Into<Operand>) -> Tensor {
        let _c = call("clamp");
        let ab = pair("clamp", &self.into(), &hi.into(), Ok);
        limited(Composite::AtMost, ab, |x, hi| hi.lt(x).or_(&hi.eq_(x)))
    }
    /// Products of bytes, four at a time: int32 words of four bytes without sign times words of four bytes with sign, whose
    /// products are added to `sum`. Machines have an instruction for it, or compute it exactly from products of 16 bits.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (x, y) = (Tensor::from_slice(&[255u8, 1, 2, 3]), Tensor::from_slice(&[-128i8, 1, 1, -1]));
    /// let sum = x.bitcast(DType::I32).dot4(&y.bitcast(DType::I32), 7);
    /// assert_eq!(sum.to_vec::<i32>()?, [255 * -128 + 1 + 2 - 3 + 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn dot4(&self, y: &Tensor, sum: impl Into<Operand>) -> Tensor {
        let _c = call("dot4");
        let (y, sum) = (Operand::from(y), sum.into());
        self.map(|x| {
            let d = DType::I32;
            let [x, y, z] = align("dot4", [x.clone(), y.node("dot4", d)?, sum.node("dot4", d)?])?;
            match [&x, &y, &z].into_iter().find(|n| n.dtype != d) {
                Some(n) => fail!("dot4", "of {}; words of bytes are int32", n.dtype),
                None => Ok(UOp::alu(Alu::Dot4, &[&x, &y, &z])),
            }
        })
    }
    /// From this to `end` by the fraction `w`: `x + (end - x) * w`.
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, w: impl Into<Operand>) -> Tensor {
        let _c = call("lerp");
        self.add((end - self).mul(w))
    }
    /// The magnitude of this with the sign of `o` (the sign bit, so of -0.0 too).
    #[track_caller]
    pub fn copysign(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("copysign");
        let ab = pair("copysign", &self.into(), &o.into(), |d| Ok(promote::to_float(d)));
        Tensor::of(ab.map(|[x, s]| {
            let zero = s.const_like(0);
            // 1/-0.0 is negative: a test that works on every float type
            let negative = s.lt(&zero).or_(&s.eq_(&zero).and_(&s.un(Alu::Recip).lt(&zero)));
            let a = abs(&x);
            composite::joined(&negative.select(&a.un(Alu::Neg), &a), &s)
        }))
    }
    /// log(exp(x) + exp(y)), without overflow.
    #[track_caller]
    pub fn logaddexp(&self, o: impl Into<Operand>) -> Tensor {
        let _c = call("logaddexp");
        let o = o.into();
        let (hi, lo) = (self.maximum(o.clone()), self.minimum(o));
        let d = (&lo - &hi).masked_fill(&lo.eq(&hi), 0.0);
        &hi + d.exp().log1p()
    }
    /// Where two are close: `|x - y| <= atol + rtol * |y|`, or equal.
    #[track_caller]
    pub fn isclose(&self, o: &Tensor, rtol: f64, atol: f64) -> Tensor {
        let _c = call("isclose");
        let near = (self - o).abs().le(o.abs() * rtol + atol);
        near.logical_and(o.isfinite()).logical_or(self.eq(o))
    }
    /// Whether all elements are close.
    #[track_caller]
    pub fn allclose(&self, o: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        let _c = call("allclose");
        self.isclose(o, rtol, atol).all(..).item::<bool>()
    }
    /// The angle of the point (x, this).
    #[track_caller]
    pub fn atan2(&self, x: impl Into<Operand>) -> Tensor {
        let _c = call("atan2");
        let ab = pair("atan2", &self.into(), &x.into(), |d| Ok(promote::to_float(d)));
        Tensor::of(ab.map(|[y, x]| y.bin(Alu::Atan2, &x)))
    }
}
