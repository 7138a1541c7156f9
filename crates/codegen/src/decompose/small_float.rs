//! Floats narrower than 32 bits, all as one family described by `SmallFloat`.
//!
//! ```text
//! Add(a: f16, b: f16)  ->  Cast<f16>(Add(Cast<f32>(a), Cast<f32>(b)))        Cast  ->  integer operations on the bits
//! ```
//!
//! Every operation rounds once, also within a chain: float32 has more than twice the digits of any of them, so for
//! one operation rounding first to float32 changes nothing.

use super::lacks;
use super::real::Real;
use frit_abi::small_float::SmallFloat;
use frit_abi::{Scalar, Target};
use frit_uop::{Alu, DType, Op, UOp, rules};

rules! { pub SMALL_FLOAT(target: Target);
    Cast(x) as n  if needs_conversion(target, x.dtype, n.dtype)  => convert(x, n.dtype);
    (Unary)(x) as n  if x.dtype.is_small_float() && lacks(target, n)  => through_float32(n);
    (Binary|Comparison)(x, _) as n  if x.dtype.is_small_float() && lacks(target, n)  => through_float32(n);
    MulAcc(x, _, _) as n  if x.dtype.is_small_float() && lacks(target, n)  => through_float32(n);
}

/// A cast from or to a small float, unless it is the one that the machine has, or it has all.
fn needs_conversion(target: &Target, from: DType, to: DType) -> bool {
    let is_plain = |d: DType| !d.is_small_float() || target.arithmetic.has(d) && !target.converts.has(d);
    let has = |small: DType, other: DType| target.converts.has(small) && other == DType::F32;
    let is_known = is_plain(from) && is_plain(to) || has(from, to) || has(to, from);
    !is_known
}

fn through_float32(n: &UOp) -> Option<UOp> {
    let alu = n.op.alu()?;
    let wide: Vec<UOp> = n.src.iter().map(|s| s.cast(DType::F32)).collect();
    let value = UOp::alu(alu, &wide.iter().collect::<Vec<_>>());
    Some(value.cast(n.dtype))
}

/// A cast from or to a small float.
fn convert(x: &UOp, to: DType) -> Option<UOp> {
    let (from, small) = (x.dtype.small_float(), to.small_float());
    if x.op == Op::Const {
        return Some(UOp::constant(x.as_scalar()?, to));
    }
    match (from, small) {
        (Some(s), None) if to == DType::F32 => Some(decode(x, s)),
        (Some(_), _) => Some(x.cast(DType::F32).cast(to)),
        (None, Some(s)) => match x.dtype {
            DType::F32 | DType::F64 => encode(x, to, s),
            DType::Bool => {
                let c = |v| UOp::constant(Scalar::Int(v), to);
                Some(x.select(&c(1), &c(0)))
            }
            // float32 holds 24 bits exactly; beyond, it would round once too often
            _ if -x.bounds.0.min(0) <= 1 << 24 && x.bounds.1 <= 1 << 24 => Some(x.cast(DType::F32).cast(to)),
            _ => Some(x.cast(DType::F64).cast(to)),
        },
        (None, None) => None,
    }
}

fn carrier(d: DType) -> DType {
    if d.size() == 1 { DType::U8 } else { DType::U16 }
}

/// To float32: mantissa and exponent into place, then a multiplication that moves the bias (and makes subnormals normal).
fn decode(x: &UOp, s: SmallFloat) -> UOp {
    let c = |v: i64| UOp::int(v, DType::U32);
    let width = (s.exp + s.man) as i64;
    let bits = x.bitcast(carrier(x.dtype)).cast(DType::U32);
    let up = 23 - s.man as i64;
    let rebias = 127 - s.bias() as i64;
    if rebias == 0 && s.has_inf() {
        return bits.bin(Alu::Shl, &c(up)).bitcast(DType::F32);
    }
    let magnitude = bits.and_(&c((1 << width) - 1));
    let sign = bits.and_(&c(1 << width)).bin(Alu::Shl, &c(31 - width));
    let placed = magnitude.bin(Alu::Shl, &c(up));
    let scale = UOp::float(f64::from_bits(((rebias + 1023) as u64) << 52), DType::F32);
    let value = (placed.bitcast(DType::F32) * scale).bitcast(DType::U32);
    let nan = c(0x7fc0_0000);
    let value = if s.has_inf() {
        let top = ((1i64 << s.exp) - 1) << s.man;
        let special = placed.or_(&c(0x7f80_0000)); // infinity or NaN, the mantissa as it is
        magnitude.lt(&c(top)).select(&value, &special).or_(&sign)
    } else if s.is_fnuz() {
        bits.eq_(&c(1 << width)).select(&nan, &value.or_(&sign))
    } else {
        magnitude.eq_(&c((1 << width) - 1)).select(&nan, &value).or_(&sign)
    };
    value.bitcast(DType::F32)
}

/// From float32 or float64, to nearest even.
fn encode(x: &UOp, to: DType, s: SmallFloat) -> Option<UOp> {
    let f = Real::of(x)?;
    let c = |v: i64| UOp::int(v, f.uint);
    let (width, down) = ((s.exp + s.man) as i64, f.man - s.man as i64);
    let bits = x.bitcast(f.uint);
    if f.bias == s.bias() as i64 && s.has_inf() {
        // the first bits of the same number: below the normal range and beyond the largest they round as elsewhere
        let even = bits.bin(Alu::Shr, &c(down)).and_(&c(1));
        let rounded = (&bits + &even + c((1i64 << (down - 1)) - 1)).bin(Alu::Shr, &c(down));
        let result = x.ne_(x).select(&c(s.from_f64(f64::NAN) as i64), &rounded);
        return Some(result.cast(carrier(to)).bitcast(to));
    }
    let abs = f.abs(x);
    let magnitude = abs.bitcast(f.uint);
    // normal results: move the bias, add half of the last place (just below it where that place is even), cut
    let rebias = (f.bias - s.bias() as i64) << f.man;
    let even = magnitude.bin(Alu::Shr, &c(down)).and_(&c(1));
    let normal = (&magnitude + &even + c((1i64 << (down - 1)) - 1 - rebias)).bin(Alu::Shr, &c(down));
    // subnormal results: a sum whose last place is theirs rounds the same way
    let least = 1 - s.bias() as i64;
    let adder = f.exp2(least + down);
    let subnormal = (&abs + &adder).bitcast(f.uint) - adder_bits(f, least + down);
    let value = abs.lt(&f.exp2(least)).select(&subnormal, &normal);
    let sign = bits.bin(Alu::Shr, &c(f.int.bits() as i64 - 1 - width)).and_(&c(1 << width));
    let constant = |v: f64| c(s.from_f64(v) as i64);
    let nan = constant(f64::NAN);
    let overflow = c(s.max_bits() as i64).lt(&value).or_(&abs.eq_(&f.c(f64::INFINITY)));
    let result = if s.is_fnuz() {
        let signed = value.eq_(&c(0)).select(&c(0), &value.or_(&sign));
        overflow.select(&nan, &signed)
    } else {
        overflow.select(&constant(f64::INFINITY), &value).or_(&sign)
    };
    let result = x.ne_(x).select(&nan, &result);
    Some(result.cast(carrier(to)).bitcast(to))
}

/// The bits of `2^p`.
fn adder_bits(f: Real, p: i64) -> UOp {
    UOp::int((p + f.bias) << f.man, f.uint)
}
