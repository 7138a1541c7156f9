//! Short names for arithmetic on nodes, and functions composed of several of them.

use crate::tensor::number;
use frit_uop::{Alu, DType, UOp};

pub(crate) fn add(a: &UOp, b: &UOp) -> UOp {
    a.bin(Alu::Add, b)
}
pub(crate) fn sub(a: &UOp, b: &UOp) -> UOp {
    a.bin(Alu::Sub, b)
}
pub(crate) fn mul(a: &UOp, b: &UOp) -> UOp {
    a.bin(Alu::Mul, b)
}
pub(crate) fn div(a: &UOp, b: &UOp) -> UOp {
    a.bin(Alu::Fdiv, b)
}
pub(crate) fn neg(a: &UOp) -> UOp {
    a.un(Alu::Neg)
}
pub(crate) fn one(x: &UOp) -> UOp {
    x.const_like(1)
}

/// `y`, which depends on x with the slope zero everywhere: the branch that is never taken shows the way to gradients.
pub(crate) fn joined(y: &UOp, x: &UOp) -> UOp {
    match x.dtype.is_float() {
        true => UOp::boolean(true).select(y, &x.un(Alu::Trunc).cast(y.dtype)),
        false => y.clone(),
    }
}

/// Where the square of x would say no more, and might overflow.
fn large(x: &UOp) -> UOp {
    number(if x.dtype == DType::F64 { 3e8 } else { 1e5 }, x.dtype).lt(x)
}

/// `log(2x)` where x is `large`; elsewhere a number that counts for nothing, in the gradient too.
fn log_of_twice(x: &UOp, large: &UOp) -> UOp {
    add(&large.select(x, &one(x)).un(Alu::Log), &number(std::f64::consts::LN_2, x.dtype))
}

/// Inverse hyperbolic sine of the magnitude a: `log1p(a + a² / (1 + sqrt(1 + a²)))`, which cancels nowhere, with the
/// sign; at zero it is x, so that -0.0 stays and the slope there is 1.
pub(crate) fn asinh(x: &UOp) -> UOp {
    let negative = x.lt(&x.const_like(0));
    let a = negative.select(&neg(x), x);
    let large = large(&a);
    let s = large.select(&one(x), &a);
    let square = mul(&s, &s);
    let root = add(&square, &one(x)).un(Alu::Sqrt);
    let near = add(&s, &div(&square, &add(&root, &one(x)))).un(Alu::Log1p);
    let y = large.select(&log_of_twice(&a, &large), &near);
    x.eq_(&x.const_like(0)).select(x, &negative.select(&neg(&y), &y))
}

/// Inverse hyperbolic cosine: `log1p(t + sqrt(t) sqrt(t + 2))`, t = x - 1. Of negative numbers it is NaN, with the slope
/// `1 / sqrt(x² - 1)` there too, as torch has it.
pub(crate) fn acosh(x: &UOp) -> UOp {
    let negative = x.lt(&x.const_like(0));
    let a = negative.select(&neg(x), x);
    let large = large(&a);
    let t = sub(&large.select(&x.const_like(2), &a), &one(x));
    let root = mul(&t.un(Alu::Sqrt), &add(&t, &x.const_like(2)).un(Alu::Sqrt));
    let y = large.select(&log_of_twice(&a, &large), &add(&t, &root).un(Alu::Log1p));
    negative.select(&sub(&number(f64::NAN, x.dtype), &y), &y)
}

/// Inverse hyperbolic tangent: `(log(1 + x) - log(1 - x)) / 2`, whose terms have the same sign.
pub(crate) fn atanh(x: &UOp) -> UOp {
    mul(&sub(&x.un(Alu::Log1p), &neg(x).un(Alu::Log1p)), &number(0.5, x.dtype))
}
