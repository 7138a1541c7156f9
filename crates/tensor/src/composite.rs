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

/// An odd function from its values at magnitudes; at zero it is x, so that -0.0 stays and the slope there is 1.
fn odd(x: &UOp, f: impl FnOnce(&UOp) -> UOp) -> UOp {
    let negative = x.lt(&x.const_like(0));
    let y = f(&negative.select(&neg(x), x));
    x.eq_(&x.const_like(0)).select(x, &negative.select(&neg(&y), &y))
}

/// Where the square of x would say no more, and might overflow.
fn large(x: &UOp) -> UOp {
    number(if x.dtype == DType::F64 { 3e8 } else { 1e5 }, x.dtype).lt(x)
}

/// `log(2x)`.
fn log_of_twice(x: &UOp) -> UOp {
    add(&x.un(Alu::Log), &number(std::f64::consts::LN_2, x.dtype))
}

/// Inverse hyperbolic sine: `log1p(a + a² / (1 + sqrt(1 + a²)))`, which cancels nowhere.
pub(crate) fn asinh(x: &UOp) -> UOp {
    odd(x, |a| {
        let large = large(a);
        let s = large.select(&one(a), a);
        let square = mul(&s, &s);
        let root = add(&square, &one(a)).un(Alu::Sqrt);
        let near = add(&s, &div(&square, &add(&root, &one(a)))).un(Alu::Log1p);
        large.select(&log_of_twice(a), &near)
    })
}

/// Inverse hyperbolic cosine: `log1p(t + sqrt(t (t + 2)))`, t = x - 1.
pub(crate) fn acosh(x: &UOp) -> UOp {
    let large = large(x);
    let t = sub(&large.select(&x.const_like(2), x), &one(x));
    let root = mul(&t, &add(&t, &x.const_like(2))).un(Alu::Sqrt);
    // the root is of a positive number below -1 too
    let inside = x.lt(&one(x)).select(&number(f64::NAN, x.dtype), &add(&t, &root));
    large.select(&log_of_twice(x), &inside.un(Alu::Log1p))
}

/// Inverse hyperbolic tangent: `log1p(2a / (1 - a)) / 2`.
pub(crate) fn atanh(x: &UOp) -> UOp {
    odd(x, |a| {
        let ratio = div(&add(a, a), &sub(&one(a), a));
        mul(&ratio.un(Alu::Log1p), &number(0.5, a.dtype))
    })
}
