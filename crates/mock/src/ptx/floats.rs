//! Floats as the hardware computes them: rounded once, with one NaN.

use frit_abi::DType;
use frit_abi::small_float::SmallFloat;

/// A float32, or the one NaN that arithmetic makes. By its bits: to the compiler one NaN is as good as another.
#[inline(always)]
pub fn one_nan(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
}

/// Whether bits are those of a float64's NaN.
#[inline(always)]
fn is_nan64(bits: u64) -> bool {
    bits & !(1 << 63) > 0x7ff0_0000_0000_0000
}
/// A float64 result; a NaN is the first one among the operands, quiet, or the one of invalid operations.
#[inline(always)]
pub fn first_nan<const N: usize>(x: f64, operands: [f64; N]) -> f64 {
    if !is_nan64(x.to_bits()) {
        return x;
    }
    let nan = operands.map(f64::to_bits).into_iter().find(|b| is_nan64(*b));
    f64::from_bits(nan.map_or(0xfff8 << 48, |b| b | 1 << 51))
}
/// A float64 as float32; of a NaN as much as fits.
pub fn narrowed(x: f64) -> f32 {
    let bits = x.to_bits();
    match is_nan64(bits) {
        true => {
            f32::from_bits((bits >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x3f_ffff)
        }
        false => x as f32,
    }
}

const fn layout(d: DType) -> SmallFloat {
    match d.small_float() {
        Some(s) => s,
        None => panic!("a small float"),
    }
}
const F16: SmallFloat = layout(DType::F16);
const BF16: SmallFloat = layout(DType::BF16);
const E4M3: SmallFloat = layout(DType::F8E4M3);
const E5M2: SmallFloat = layout(DType::F8E5M2);

/// A kind of half.
#[derive(Clone, Copy)]
pub struct Half(SmallFloat);
/// float16.
pub const HALF: Half = Half(F16);
/// bfloat16.
pub const BRAIN: Half = Half(BF16);

impl Half {
    /// Its value; exact.
    pub fn value(self, bits: u16) -> f64 {
        if self.0 == BF16 {
            f64::from(f32::from_bits(u32::from(bits) << 16))
        } else {
            F16.to_f64(bits.into())
        }
    }
    /// The nearest one.
    pub fn nearest(self, x: f64) -> u16 {
        if x.is_nan() { 0x7fff } else { self.0.from_f64(x) as u16 }
    }
    /// `a * b + c`, rounded once.
    pub fn fma(self, a: u16, b: u16, c: u16) -> u16 {
        // the product is exact; the sum is rounded to odd, so that the second rounding is right
        self.nearest(sum_to_odd(self.value(a) * self.value(b), self.value(c)))
    }
    /// A sum, difference or product: exact before it is rounded.
    pub fn apply(self, op: fn(f64, f64) -> f64, a: u16, b: u16) -> u16 {
        self.nearest(op(self.value(a), self.value(b)))
    }
    /// The greater of two, or NaN.
    pub fn max(self, a: u16, b: u16) -> u16 {
        self.nearest(max_or_nan(self.value(a), self.value(b)))
    }
    /// The lesser of two, or NaN.
    pub fn min(self, a: u16, b: u16) -> u16 {
        self.nearest(-max_or_nan(-self.value(a), -self.value(b)))
    }
    /// The other sign.
    pub fn neg(self, a: u16) -> u16 {
        if self.value(a).is_nan() { 0x7fff } else { a ^ 0x8000 }
    }
}

/// A sum whose last bit says whether it is inexact.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    match (error == 0.0, sum.to_bits() & 1) {
        (true, _) | (_, 1) => sum,
        // between the sum and its neighbour towards the error, of which one is odd
        _ if (error > 0.0) == (sum > 0.0) => f64::from_bits(sum.to_bits() + 1),
        _ => f64::from_bits(sum.to_bits() - 1),
    }
}

/// The greater, NaN where one is; +0 is more than -0.
pub fn max_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { b } else { a }
    } else if a > b {
        a
    } else {
        b
    }
}

/// The greater float64; the number where one is NaN.
pub fn max_number(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => first_nan(b, [b]),
        (_, true) => a,
        _ => max_or_nan(a, b),
    }
}
/// The lesser float64; the number where one is NaN.
pub fn min_number(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => first_nan(b, [b]),
        (_, true) => a,
        _ => -max_or_nan(-a, -b),
    }
}

/// Something on both halves of 32 bits.
pub fn both<const N: usize>(words: [u32; N], f: impl Fn([u16; N]) -> u16) -> u32 {
    join(f(words.map(|w| w as u16)), f(words.map(|w| (w >> 16) as u16)))
}
/// Halves side by side.
pub fn join(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Two 8-bit floats as halves.
pub fn decode8(bits: u16, is_e5m2: bool) -> u32 {
    let layout = if is_e5m2 { E5M2 } else { E4M3 };
    let one = |byte: u16| HALF.nearest(layout.to_f64((byte & 0xff).into()));
    join(one(bits), one(bits >> 8))
}
/// Two numbers as 8-bit floats, at most the greatest.
pub fn encode8(low: f32, high: f32, is_e5m2: bool) -> u16 {
    let layout = if is_e5m2 { E5M2 } else { E4M3 };
    let most = layout.to_f64(layout.max_bits());
    let one = |x: f32| match x.is_nan() {
        true => 0x7f,
        false => layout.from_f64(f64::from(x).clamp(-most, most)) as u16,
    };
    one(low) | one(high) << 8
}

/// A float as an integer: what `as` does, but for NaN.
pub fn or_if_nan<T>(is_nan: bool, x: T, nan: T) -> T {
    if is_nan { nan } else { x }
}

/// A float32 of ten bits of fraction, the nearest; ties away from zero. What is no number loses its low bits.
pub fn ten_bits(x: f32) -> u32 {
    let half = if x.is_finite() { 1 << 12 } else { 0 };
    (x.to_bits() + half) & !((1 << 13) - 1)
}
