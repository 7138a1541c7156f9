//! Fallbacks for the simplest operations, for machines that lack even those.

use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub BASIC(target: Target);
    Max(x, y) as n        if lacks(target, n)  => extreme(x, y, true);
    Min(x, y) as n        if lacks(target, n)  => extreme(x, y, false);
    Sqrt(x) as n          if lacks(target, n)  => sqrt(x);
    Rsqrt(x) as n         if lacks(target, n)  => rsqrt(x);
    RecipNear(x) as n     if lacks(target, n) || n.dtype != DType::F32  => x.const_like(1).bin(Alu::Fdiv, x);
    Exp2Near(x) as n      if n.dtype != DType::F32  => x.un(Alu::Exp2);
    Trunc(x) as n         if lacks(target, n)  => trunc(x);
    Floor(x) as n         if lacks(target, n)  => floor(x);
    Round(x) as n         if lacks(target, n)  => round(x);
    Neg(x) as n           if lacks(target, n)  => negate(x);
    MulAcc(x, y, z) as n  if lacks(target, n)  => multiply_add(x, y, z, target);
    Dot4(x, y, z) as n    if lacks(target, n) || n.dtype.size() != 4  => dot(x, y, z);
}

/// Byte by byte, in the signed type of the width.
fn dot(x: &UOp, y: &UOp, z: &UOp) -> UOp {
    let d = [DType::I8, DType::I16, DType::I32, DType::I64][x.dtype.size().trailing_zeros() as usize];
    let bits = d.bits() as i64;
    let (xs, ys) = (x.bitcast(d), y.bitcast(d));
    let product = |j: i64| {
        let shifted = |v: &UOp, alu: Alu, by: i64| v.bin(alu, &v.const_like(by));
        let byte = shifted(&xs, Alu::Shr, 8 * j);
        // of one byte the sign makes no difference to what is left of the product
        let byte = if bits == 8 { byte } else { byte.and_(&byte.const_like(255)) };
        let signed = shifted(&shifted(&ys, Alu::Shl, bits - 8 - 8 * j), Alu::Shr, bits - 8);
        byte * signed
    };
    let sum = (0..bits / 8).fold(z.bitcast(d), |sum, j| sum + product(j));
    sum.bitcast(x.dtype)
}

fn extreme(x: &UOp, y: &UOp, max: bool) -> UOp {
    let before = if max { y.lt(x) } else { x.lt(y) };
    // neither comparison holds for NaN: x must be taken where it is one
    let take = if x.dtype.is_float() { before.or_(&x.ne_(x)) } else { before };
    take.select(x, y)
}
/// Reductions make no fused operation where there is none, so this one was asked for by a function that needs what a
/// product rounds off. In float32 by way of float64, which holds the product; else by halves of the factors.
fn multiply_add(x: &UOp, y: &UOp, z: &UOp, target: &Target) -> UOp {
    let Some(f) = Real::of(x) else { return x * y + z };
    if x.dtype == DType::F32 && target.supports(Alu::Mul, DType::F64) {
        let wide = |v: &UOp| v.cast(DType::F64);
        return (wide(x) * wide(y) + wide(z)).cast(DType::F32);
    }
    let p = x * y;
    let s = &p + z;
    let taken = &s - &p;
    let rounded = (&p - (&s - &taken)) + (z - taken);
    let lost = rounded + product_error(f, x, y, &p);
    // infinities have nothing that could be lost
    lost.eq_(&lost).select(&(&s + &lost), &s)
}

/// What the product `p` of x and y rounded off, without a fused operation.
fn product_error(f: Real, x: &UOp, y: &UOp, p: &UOp) -> UOp {
    let half = |v: &UOp| {
        let high = f.float(&f.bits(v).and_(&f.i(-1 << (f.man / 2 + 1))));
        let low = v - &high;
        (high, low)
    };
    let ((xh, xl), (yh, yl)) = (half(x), half(y));
    ((&xh * &yh - p) + &xh * &yl + &xl * &yh) + xl * yl
}
fn negate(x: &UOp) -> UOp {
    match Real::of(x) {
        Some(f) => f.float(&f.bits(x).bin(Alu::Xor, &f.i(-1 - f.int_max()))),
        None if x.dtype == DType::Bool => x.un(Alu::Not),
        None => x.const_like(0) - x,
    }
}
/// Nearest whole number, ties to even: below 2^23 (2^52) adding and taking away that much rounds.
fn round(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (abs, big) = (f.abs(x), f.exp2(f.man));
    let whole = (&abs + &big) - &big;
    Some(abs.lt(&big).select(&f.with_sign_of(&whole, x), x))
}
fn trunc(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (abs, big) = (f.abs(x), f.exp2(f.man));
    let near = (&abs + &big) - &big;
    let whole = abs.lt(&near).select(&(&near - f.c(1.0)), &near);
    Some(abs.lt(&big).select(&f.with_sign_of(&whole, x), x))
}
fn floor(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let near = round(x)?;
    // -0.0 stays: it is not less than itself
    Some(x.lt(&near).select(&(&near - f.c(1.0)), &near))
}
/// From an estimate of 1/sqrt by its bits, doubled in digits until it is full.
fn sqrt(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let tiny = x.lt(&f.exp2(1 - f.bias + f.man));
    let up = 2 * ((f.man + 3) / 2);
    let v = tiny.select(&(x * f.exp2(up)), x);
    let guess = f.i(f.pick(0x5f37_59df, 0x5fe6_eb50_c7b5_37a9)) - f.bits(&v).bin(Alu::Shr, &f.i(1));
    let mut y = f.float(&guess);
    for _ in 0..f.pick(3, 4) {
        let e = fma(&(&v * &y).un(Alu::Neg), &y, &f.c(1.0));
        y = fma(&(&y * f.c(0.5)), &e, &y);
    }
    let s = &v * &y;
    let rest = fma(&s.un(Alu::Neg), &s, &v);
    let s = fma(&rest, &(&y * f.c(0.5)), &s);
    let s = tiny.select(&(&s * f.exp2(-up / 2)), &s);
    let positive = f.c(0.0).lt(x).and_(&x.lt(&f.c(f64::INFINITY)));
    // zeros, infinity and NaN are their own roots
    let other = x.lt(&f.c(0.0)).select(&f.c(f64::NAN), x);
    Some(positive.select(&s, &other))
}

/// A step of Newton's method from `1 / sqrt(x)`, whose two roundings would show.
fn rsqrt(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let y = f.c(1.0).bin(Alu::Fdiv, &x.un(Alu::Sqrt));
    let Pair(p, low) = Pair::product(x, &y);
    let rest = fma(&p.un(Alu::Neg), &y, &f.c(1.0)) - low * &y;
    let better = fma(&(&y * f.c(0.5)), &rest, &y);
    let positive = f.c(0.0).lt(x).and_(&x.lt(&f.c(f64::INFINITY)));
    Some(positive.select(&better, &y))
}
