//! Functions composed of several elementwise nodes that have a derivative of their own.
//!
//! The value is written for accuracy (a series near zero, no overflow at the ends). Differentiating such a form term
//! by term would be large and inexact, so the gradient recognises a node made here (by making it again and finding
//! the same node) and uses the derivative in the table.

use crate::tensor::number;
use frit_uop::{Alu, DType, Op, UOp};

/// One function: how it is made, where its argument is found in the result, its derivative times `g`.
pub(crate) struct Composite {
    build: fn(&UOp) -> UOp,
    argument: fn(&UOp) -> Option<UOp>,
    /// From the argument, the value and the gradient of the value.
    pub gradient: fn(&UOp, &UOp, &UOp) -> UOp,
}

/// All of them.
pub(crate) const COMPOSITES: &[Composite] = &[
    //          value            where x is                 derivative
    Composite { build: sigmoid, argument: compared, gradient: |_, y, g| mul(g, &mul(y, &sub(&one(y), y))) },
    Composite { build: tanh, argument: scaled, gradient: |_, y, g| mul(g, &sub(&one(y), &mul(y, y))) },
    Composite { build: expm1, argument: near_zero, gradient: |x, _, g| mul(g, &x.un(Alu::Exp)) },
    Composite { build: log1p, argument: near_zero, gradient: |x, _, g| div(g, &add(x, &one(x))) },
    Composite { build: erf, argument: near_zero, gradient: erf_gradient },
];

/// The function this node is the result of, and its argument.
pub(crate) fn recognise(n: &UOp) -> Option<(UOp, &'static Composite)> {
    if !matches!(n.op, Op::Where | Op::Mul) || !n.dtype.is_float() {
        return None;
    }
    COMPOSITES.iter().find_map(|c| (c.argument)(n).filter(|x| (c.build)(x) == *n).map(|x| (x, c)))
}

// Where(Lt(x, 0), ..)
fn compared(n: &UOp) -> Option<UOp> {
    let lt = (n.op == Op::Where).then(|| &n.src[0]).filter(|c| c.op == Op::Lt)?;
    Some(lt.src[0].clone())
}
// Where(Lt(Mul(x, sign), limit), ..)
fn near_zero(n: &UOp) -> Option<UOp> {
    let a = compared(n).filter(|a| a.op == Op::Mul)?;
    Some(a.src[0].clone())
}
// Mul(sign, ..) with sign = Where(Lt(x, 0), ..)
fn scaled(n: &UOp) -> Option<UOp> {
    if n.op == Op::Mul { compared(&n.src[0]) } else { None }
}

fn erf_gradient(x: &UOp, _: &UOp, g: &UOp) -> UOp {
    let e = neg(&mul(x, x)).un(Alu::Exp);
    mul(g, &mul(&e, &number(std::f64::consts::FRAC_2_SQRT_PI, x.dtype)))
}

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

/// 1, or -1 where x < 0.
fn sign(x: &UOp) -> UOp {
    x.lt(&x.const_like(0)).select(&x.const_like(-1), &one(x))
}

/// `c0 + z*(c1 + z*(…))`.
fn poly(z: &UOp, c: &[f64]) -> UOp {
    let mut it = c.iter().rev();
    let first = number(it.next().copied().unwrap_or(0.0), z.dtype);
    it.fold(first, |acc, &c| add(&mul(&acc, z), &number(c, z.dtype)))
}

/// Terms of a series: enough for the type.
fn terms(d: DType, single: usize, double: usize) -> usize {
    if d == DType::F64 { double } else { single }
}

/// 1 / (1 + exp(-x)), by the exponential that does not overflow.
pub(crate) fn sigmoid(x: &UOp) -> UOp {
    let e = neg(&mul(x, &sign(x))).un(Alu::Exp);
    let d = add(&e, &one(x));
    x.lt(&x.const_like(0)).select(&div(&e, &d), &div(&one(x), &d))
}

/// Odd, from `expm1(-2|x|)`: exact near zero, no overflow.
pub(crate) fn tanh(x: &UOp) -> UOp {
    let a = mul(x, &sign(x));
    let m = expm1(&mul(&a, &x.const_like(-2)));
    mul(&sign(x), &neg(&div(&m, &add(&m, &x.const_like(2)))))
}

/// exp(x) - 1: the series where the difference would cancel.
pub(crate) fn expm1(x: &UOp) -> UOp {
    let n = terms(x.dtype, 9, 17);
    let mut c = vec![1.0; n];
    for i in 1..n {
        c[i] = c[i - 1] / (i as f64 + 1.0);
    }
    let near = mul(x, &sign(x)).lt(&number(0.5, x.dtype));
    let z = near.select(x, &x.const_like(0));
    near.select(&mul(&z, &poly(&z, &c)), &sub(&x.un(Alu::Exp), &one(x)))
}

/// log(1 + x): 2 atanh(x / (2 + x)) as a series near zero.
pub(crate) fn log1p(x: &UOp) -> UOp {
    let n = terms(x.dtype, 8, 17);
    let c: Vec<f64> = (0..n).map(|i| 2.0 / (2 * i + 1) as f64).collect();
    let near = mul(x, &sign(x)).lt(&number(0.5, x.dtype));
    let z = near.select(x, &x.const_like(0));
    let s = div(&z, &add(&z, &x.const_like(2)));
    near.select(&mul(&s, &poly(&mul(&s, &s), &c)), &add(x, &one(x)).un(Alu::Log))
}

/// The error function: its series near zero, else 1 - erfc|x|.
pub(crate) fn erf(x: &UOp) -> UOp {
    let n = terms(x.dtype, 11, 20);
    let (mut c, mut f) = (vec![], std::f64::consts::FRAC_2_SQRT_PI);
    for i in 0..n {
        c.push(f / (2 * i + 1) as f64);
        f /= -(i as f64 + 1.0);
    }
    let a = mul(x, &sign(x));
    let near = a.lt(&x.const_like(1));
    let z = near.select(x, &x.const_like(0));
    let far = mul(&sign(x), &sub(&one(x), &erfc_positive(&a)));
    near.select(&mul(&z, &poly(&mul(&z, &z), &c)), &far)
}

/// 1 - erf(x), without cancelling for large x.
pub(crate) fn erfc(x: &UOp) -> UOp {
    let a = mul(x, &sign(x));
    let e = erfc_positive(&a);
    let far = x.lt(&x.const_like(0)).select(&sub(&x.const_like(2), &e), &e);
    let near = mul(x, &sign(x)).lt(&number(0.5, x.dtype));
    near.select(&sub(&one(x), &erf(x)), &far)
}

/// erfc for x >= 0: `t exp(-x² + P(t))`, a Chebyshev fit with t = 2/(2+x).
fn erfc_positive(x: &UOp) -> UOp {
    const COEFFS: [f64; 28] = [
        -1.3026537197817094,
        6.419_697_923_564_902e-1,
        1.9476473204185836e-2,
        -9.561_514_786_808_63e-3,
        -9.46595344482036e-4,
        3.66839497852761e-4,
        4.2523324806907e-5,
        -2.0278578112534e-5,
        -1.624290004647e-6,
        1.303655835580e-6,
        1.5626441722e-8,
        -8.5238095915e-8,
        6.529054439e-9,
        5.059343495e-9,
        -9.91364156e-10,
        -2.27365122e-10,
        9.6467911e-11,
        2.394038e-12,
        -6.886027e-12,
        8.94487e-13,
        3.13092e-13,
        -1.12708e-13,
        3.81e-16,
        7.106e-15,
        -1.523e-15,
        -9.4e-17,
        1.21e-16,
        -2.8e-17,
    ];
    let n = terms(x.dtype, 11, 28);
    let c = |v: f64| number(v, x.dtype);
    let t = div(&c(2.0), &add(x, &c(2.0)));
    let ty = sub(&mul(&t, &c(4.0)), &c(2.0));
    let (mut d, mut dd) = (c(0.0), c(0.0));
    for &k in COEFFS[1..n].iter().rev() {
        let next = add(&sub(&mul(&ty, &d), &dd), &c(k));
        dd = d;
        d = next;
    }
    let p = sub(&mul(&add(&mul(&ty, &d), &c(COEFFS[0])), &c(0.5)), &dd);
    mul(&t, &sub(&p, &mul(x, x)).un(Alu::Exp))
}
