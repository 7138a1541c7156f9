//! `Idiv` and `Mod` (they floor; by zero they give 0), and `Recip`.
//!
//! | divisor | becomes |
//! |---|---|
//! | 2^k | a shift; a mask |
//! | another constant | a multiplication by its reciprocal and a shift, where the product fits an integer of the target |
//! | anything | `Tdiv` with what it needs of guards and fix-ups; the bounds of both tell |
//!
//! For a negative dividend, `floor(x / c) = ~(~x / c)`: complement, divide a number that is not negative, complement.

use super::{float_mod, lacks};
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub DIVIDE(target: Target);
    Idiv(x, y) as n  if lacks(target, n)  => quotient(x, y, target);
    Mod(x, y) as n   if lacks(target, n)  => remainder(x, y, target);
    Recip(x) as n    if lacks(target, n)  => UOp::float(1.0, x.dtype).bin(Alu::Fdiv, x);
}

fn quotient(x: &UOp, y: &UOp, target: &Target) -> Option<UOp> {
    match (x.dtype, y.as_scalar().map(|c| c.as_i128())) {
        (DType::Bool, _) => Some(x.and_(y)),
        (d, _) if d.is_float() => float_mod::quotient(x, y),
        (_, Some(0)) => Some(x.const_like(0)),
        (_, Some(1)) => Some(x.clone()),
        (_, Some(c)) if c > 0 && c & (c - 1) == 0 => {
            Some(x.bin(Alu::Shr, &x.const_like(c.trailing_zeros() as i64)))
        }
        (_, Some(c)) if c > 0 => by_constant(x, c, target).or_else(|| Some(general(x, y).0)),
        _ => Some(general(x, y).0),
    }
}

fn remainder(x: &UOp, y: &UOp, target: &Target) -> Option<UOp> {
    match (x.dtype, y.as_scalar().map(|c| c.as_i128())) {
        // false, in the shape of x: by one nothing is left, by zero it is 0
        (DType::Bool, _) => Some(x.and_(&x.un(Alu::Not))),
        (d, _) if d.is_float() => float_mod::remainder(x, y),
        (_, Some(0 | 1)) => Some(x.const_like(0)),
        (_, Some(c)) if c > 0 && c & (c - 1) == 0 => Some(x.and_(&x.const_like((c - 1) as i64))),
        (_, Some(c)) if c > 0 => match by_constant(x, c, target) {
            Some(q) => Some(x - q * y),
            None => Some(general(x, y).1),
        },
        _ => Some(general(x, y).1),
    }
}

/// Division by a constant that is no power of two, without dividing.
fn by_constant(x: &UOp, c: i128, target: &Target) -> Option<UOp> {
    let d = x.dtype;
    if d == DType::Index {
        return None;
    }
    if x.bounds.0 >= 0 {
        return reciprocal(x, x.bounds.1, c, target);
    }
    let sign = x.bin(Alu::Shr, &x.const_like(d.bits() as i64 - 1));
    let magnitude = x.bounds.1.max(-1 - x.bounds.0);
    let q = reciprocal(&x.bin(Alu::Xor, &sign), magnitude, c, target)?;
    Some(q.bin(Alu::Xor, &sign))
}

/// `x / c` for x from 0 to `most`: `(x * m) >> s`, in x's own type if the product fits there, else in 64 bits.
fn reciprocal(x: &UOp, most: i128, c: i128, target: &Target) -> Option<UOp> {
    if most < c {
        return Some(x.const_like(0));
    }
    let fits = |d: DType| d.int_range().map_or(0, |r| r.1);
    let mut types = vec![x.dtype];
    if target.int64 && x.dtype.size() < 8 {
        // signed first: it is what most machines convert and multiply best
        types.extend([DType::I64, DType::U64]);
    }
    for d in types {
        if let Some((m, s)) = magic(most, c, fits(d)) {
            let wide = x.cast(d);
            let product = wide.bin(Alu::Mul, &UOp::constant(frit_abi::Scalar::int(m, d), d));
            return Some(product.bin(Alu::Shr, &UOp::int(s as i64, d)).cast(x.dtype));
        }
    }
    None
}

/// The least shift s and its m with `x * m >> s == x / c` for all x in `0..=most`, and `most * m <= limit`; `most >= c`.
fn magic(most: i128, c: i128, limit: i128) -> Option<(i128, u32)> {
    // the greatest x with the greatest remainder: the first to go wrong
    let worst = most - (most + 1) % c;
    for s in 0..63 {
        let p = 1i128 << s;
        let m = (p + c - 1) / c;
        if most.checked_mul(m)? > limit {
            return None;
        }
        // m = (p + e) / c; exact while x * e < p for the worst x
        if worst.checked_mul(m * c - p).is_some_and(|e| e < p) {
            return Some((m, s));
        }
    }
    None
}

/// Quotient and remainder by the machine's division.
fn general(x: &UOp, y: &UOp) -> (UOp, UOp) {
    let (zero, one) = (x.const_like(0), x.const_like(1));
    let never = |v: i128| y.bounds.0 > v || y.bounds.1 < v;
    let signed = x.bounds.0 < 0 || y.bounds.0 < 0;
    // a divisor that the machine takes: 1 for 0, and for -1, whose quotient may not fit
    let minus = x.const_like(-1);
    let whole = x.dtype.int_range().map_or(0, |r| r.0);
    let minus_matters = signed && !never(-1) && x.bounds.0 == whole;
    let mut d = y.clone();
    if minus_matters {
        d = y.eq_(&minus).select(&one, &d);
    }
    if !never(0) {
        d = y.eq_(&zero).select(&one, &d);
    }
    let q = x.bin(Alu::Tdiv, &d);
    let r = x - &q * &d;
    let (mut q, r) = if signed {
        // truncated towards zero: one less where the remainder is against the divisor's sign
        let off = r.ne_(&zero).and_(&r.bin(Alu::Xor, &d).lt(&zero));
        (off.select(&(&q - 1), &q), off.select(&(&r + &d), &r))
    } else {
        (q, r)
    };
    if minus_matters {
        q = y.eq_(&minus).select(&x.un(Alu::Neg), &q);
    }
    if !never(0) {
        q = y.eq_(&zero).select(&zero, &q);
    }
    (q, r)
}
