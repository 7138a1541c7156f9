//! `Sinh`, `Cosh`, `Tanh` and `Sigmoid`.
//!
//! ```text
//! |x| < 1:  x + x z p(z), z = x^2        else, with e = exp|x|:  (e ± 1/e) / 2        1 - 2 / (e^2 + 1)
//! ```
//!
//! The exponential is a pair where its rounding would count. Odd functions are computed of the magnitude and given the
//! sign, so that zeros keep theirs.

use super::exp::{exp_pair, exp_within, minus_exp_down, scale};
use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub HYPERBOLIC(target: Target) for float;
    Sinh(x) as n     if lacks(target, n)  => sinh(x);
    Cosh(x) as n     if lacks(target, n)  => cosh(x);
    Tanh(x) as n     if lacks(target, n)  => tanh(x);
    Sigmoid(x) as n  if lacks(target, n)  => sigmoid(x);
}

/// `sinh(x) = x + x z (…)`, z = x^2, for |x| <= 1.
const SINH_F32: [f64; 4] =
    [0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06];
const SINH_F64: [f64; 8] = [
    0.16666666666666666,
    0.008333333333333573,
    0.0001984126984106116,
    2.7557319310091294e-06,
    2.5052089412325997e-08,
    1.606133927718702e-10,
    7.50325342258133e-13,
    6.475799128783722e-15,
];
/// `tanh(x) = x + x z (…)`, z = x^2, for |x| <= 1.
const TANH_F32: [f64; 7] = [
    -0.33333295583724976,
    0.13332346081733704,
    -0.05387984588742256,
    0.021486690267920494,
    -0.007946115918457508,
    0.0023014298640191555,
    -0.0003585115191526711,
];
const TANH_F64: [f64; 15] = [
    -0.33333333333332943,
    0.13333333333292696,
    -0.053968253953368676,
    0.02186948825885593,
    -0.008863232442066042,
    0.003592105544864713,
    -0.0014557210668376434,
    0.0005896179467521218,
    -0.00023804245714331872,
    9.476642498127675e-05,
    -3.60853257274224e-05,
    1.2340919903168717e-05,
    -3.4198114581402616e-06,
    6.54647302662518e-07,
    -6.272989128468053e-08,
];

/// `exp|x| / 2` as a pair, and `exp(-|x|) / 2`.
fn halves(f: Real, abs: &UOp) -> (Pair, UOp) {
    // infinite beyond
    let (t, Pair(high, low)) = exp_pair(f, &abs.bin(Alu::Min, &f.c(f.pick(91.0, 712.0))));
    let half = f.c(0.5);
    let (high, low) = (scale(f, &(high * &half), &t), scale(f, &(low * &half), &t));
    let inverse = f.c(0.25).bin(Alu::Fdiv, &high);
    (Pair(high, low), inverse)
}

/// `x + x z p(z)`.
fn near_zero(f: Real, x: &UOp, c: &[f64]) -> UOp {
    let z = x * x;
    let p = f.poly(&z, c);
    fma(&(x * z), &p, x)
}

fn sinh(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let abs = f.abs(x);
    let (Pair(high, low), inverse) = halves(f, &abs);
    let near = near_zero(f, &abs, f.pick(&SINH_F32[..], &SINH_F64[..]));
    let value = abs.lt(&f.c(1.0)).select(&near, &(high + (low - inverse)));
    Some(f.with_sign_of(&value, x))
}

fn cosh(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (Pair(high, low), inverse) = halves(f, &f.abs(x));
    Some(high + (low + inverse))
}

fn tanh(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (abs, one) = (f.abs(x), f.c(1.0));
    // 1 beyond
    let inside = abs.bin(Alu::Min, &f.c(f.pick(10.0, 20.0)));
    let e = exp_within(f, &(&inside + &inside));
    let far = &one - f.c(2.0).bin(Alu::Fdiv, &(e + &one));
    let near = near_zero(f, &abs, f.pick(&TANH_F32[..], &TANH_F64[..]));
    Some(f.with_sign_of(&abs.lt(&one).select(&near, &far), x))
}

/// `e / (1 + e)` with `e = exp(-|x|)`, by one division and a correction of what it left; for positive x one minus that. Signs
/// are such that every step is a multiplication with an addition. Below the normal range, where a step takes some hundred
/// cycles, is none but the last.
fn sigmoid(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let one = f.c(1.0);
    let minus_abs = f.minus_abs(x);
    let is_zero = minus_abs.lt(&f.c(f.pick(-104.0, -745.2)));
    let minus_abs = is_zero.select(&f.c(f.pick(-132.4, -797.8)), &minus_abs);
    let (Pair(large, low), more) = minus_exp_down(f, &minus_abs);
    let back = f.exp2(-more);
    let inverse = f.c(-1.0).bin(Alu::Fdiv, &fma(&large, &back, &f.c(-1.0)));
    let q = &large * &inverse;
    // large - q is exact, as q is between a half of it and all of it; where e is so small that it says nothing, it is not
    let e = large.bin(Alu::Min, &f.c(-f.pick(2f64.powi(26), 2f64.powi(68)))) * &back;
    let rest = fma(&q, &e, &(&large - &q));
    let q = fma(&fma(&low, &inverse, &rest), &inverse, &q);
    // q is negative, but for zeros of either sign: of negative x it is the result with its sign turned
    let sign = f.bits(x).and_(&f.i(-1 - f.int_max()));
    let from = f.bits(x).lt(&f.i(0)).select(&f.c(0.0), &one);
    Some(fma(&f.float(&f.bits(&q).bin(Alu::Xor, &sign)), &back, &from))
}
