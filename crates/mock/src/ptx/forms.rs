//! What each instruction does: its name, the types of its result and operands, and the value of a lane.

use super::floats::*;
use crate::run::regs::{Kind, LANES, Lane, Regs, lanes};

/// An instruction on registers: where its result and operands are, and the lanes it is for. Lanes that fault are returned.
pub type Run = fn(&mut Regs, &Rows, u32) -> u32;

/// Rows of an instruction's registers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rows {
    /// The result.
    pub to: u32,
    /// The operands.
    pub from: [u32; 4],
}

/// An instruction that computes.
pub struct Form {
    /// With all modifiers.
    pub name: &'static str,
    /// The result.
    pub to: Kind,
    /// The operands.
    pub from: &'static [Kind],
    /// All lanes of it.
    pub run: Run,
}

// A row is a name, types and an expression, which a function cannot take.
macro_rules! forms {
    ($($name:literal $to:ident($($x:ident: $t:ident),+) = $value:expr;)*) => {
        &[$(Form {
            name: $name,
            to: <$to as Lane>::KIND,
            from: &[$(<$t as Lane>::KIND),+],
            run: |regs, rows, mask| {
                let mut at = rows.from.into_iter();
                $(let $x = <$t as Lane>::read(regs, at.next().unwrap_or(0));)+
                let mut out = [<$to>::default(); LANES];
                for lane in 0..LANES {
                    $(let $x = $x[lane];)+
                    out[lane] = $value;
                }
                <$to as Lane>::write(regs, rows.to, out, mask);
                0
            },
        }),*]
    };
}
// Truth values are computed with all lanes at once.
macro_rules! masks {
    ($($name:literal($($x:ident),+) = $value:expr;)*) => {
        &[$(Form {
            name: $name,
            to: Kind::Pred,
            from: &[$({ let _ = stringify!($x); Kind::Pred }),+],
            run: |regs, rows, mask| {
                let mut at = rows.from.into_iter();
                $(let $x = regs.p[at.next().unwrap_or(0) as usize];)+
                let row = &mut regs.p[rows.to as usize];
                *row = *row & !mask | $value & mask;
                0
            },
        }),*]
    };
}
// Quotients, which fault where there is none.
macro_rules! quotients {
    ($($name:literal $t:ident;)*) => {
        &[$(Form {
            name: $name,
            to: <$t as Lane>::KIND,
            from: &[<$t as Lane>::KIND; 2],
            run: |regs, rows, mask| {
                let (a, b) = (<$t as Lane>::read(regs, rows.from[0]), <$t as Lane>::read(regs, rows.from[1]));
                let (mut out, mut faults) = ([0; LANES], 0);
                for lane in lanes(mask) {
                    match a[lane].checked_div(b[lane]) {
                        Some(quotient) => out[lane] = quotient,
                        None => faults |= 1 << lane,
                    }
                }
                <$t as Lane>::write(regs, rows.to, out, mask);
                faults
            },
        }),*]
    };
}

/// All that compute.
pub fn all() -> impl Iterator<Item = &'static Form> {
    [BITS, PREDICATES, COMPARISONS, INTEGERS, QUOTIENTS, FLOATS, HALVES, CONVERSIONS].into_iter().flatten()
}

const BITS: &[Form] = forms! {
    "mov.b16"  u16(a: u16) = a;
    "mov.b32"  u32(a: u32) = a;
    "mov.b64"  u64(a: u64) = a;
    "cvta.to.global.u64" u64(a: u64) = a;
    "selp.b16" u16(a: u16, b: u16, c: bool) = if c { a } else { b };
    "selp.b32" u32(a: u32, b: u32, c: bool) = if c { a } else { b };
    "selp.b64" u64(a: u64, b: u64, c: bool) = if c { a } else { b };
    "bfe.u32"  u32(a: u32, b: u32, c: u32) = extract(a, b, c, false);
    "bfe.s32"  u32(a: u32, b: u32, c: u32) = extract(a, b, c, true);
    "bfi.b32"  u32(a: u32, b: u32, c: u32, len: u32) = insert(a, b, c, len);
    "and.b32"  u32(a: u32, b: u32) = a & b;
    "or.b32"   u32(a: u32, b: u32) = a | b;
    "xor.b32"  u32(a: u32, b: u32) = a ^ b;
    "and.b64"  u64(a: u64, b: u64) = a & b;
    "or.b64"   u64(a: u64, b: u64) = a | b;
    "xor.b64"  u64(a: u64, b: u64) = a ^ b;
    "not.b32"  u32(a: u32) = !a;
    "not.b64"  u64(a: u64) = !a;
    // amounts beyond the width count as the width
    "shl.b32"  u32(a: u32, b: u32) = a.checked_shl(b).unwrap_or(0);
    "shl.b64"  u64(a: u64, b: u32) = a.checked_shl(b).unwrap_or(0);
    "shr.u32"  u32(a: u32, b: u32) = a.checked_shr(b).unwrap_or(0);
    "shr.u64"  u64(a: u64, b: u32) = a.checked_shr(b).unwrap_or(0);
    "shr.s32"  i32(a: i32, b: u32) = a >> b.min(31);
    "shr.s64"  i64(a: i64, b: u32) = a >> b.min(63);
};

const PREDICATES: &[Form] = masks! {
    "mov.pred"(a) = a;
    "not.pred"(a) = !a;
    "and.pred"(a, b) = (a & b);
    "or.pred"(a, b) = (a | b);
    "xor.pred"(a, b) = (a ^ b);
};

const COMPARISONS: &[Form] = forms! {
    "setp.lt.s32"  bool(a: i32, b: i32) = a < b;
    "setp.lt.u32"  bool(a: u32, b: u32) = a < b;
    "setp.lt.s64"  bool(a: i64, b: i64) = a < b;
    "setp.lt.u64"  bool(a: u64, b: u64) = a < b;
    "setp.eq.s32"  bool(a: i32, b: i32) = a == b;
    "setp.eq.s64"  bool(a: i64, b: i64) = a == b;
    "setp.ne.s32"  bool(a: i32, b: i32) = a != b;
    "setp.ne.s64"  bool(a: i64, b: i64) = a != b;
    "setp.lt.f32"  bool(a: f32, b: f32) = a < b;
    "setp.lt.f64"  bool(a: f64, b: f64) = a < b;
    "setp.eq.f32"  bool(a: f32, b: f32) = a == b;
    "setp.eq.f64"  bool(a: f64, b: f64) = a == b;
    "setp.ge.f32"  bool(a: f32, b: f32) = a >= b;
    "setp.neu.f32" bool(a: f32, b: f32) = a != b;
    "setp.neu.f64" bool(a: f64, b: f64) = a != b;
    "setp.nan.f64" bool(a: f64, b: f64) = a.is_nan() | b.is_nan();
};

/// Zero in place of what is subnormal.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

/// The bytes of a times those of b with their signs, and c.
fn dot4(a: u32, b: u32, c: i32) -> i32 {
    let products =
        a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(x, y)| i32::from(x) * i32::from(y as i8));
    products.fold(c, i32::wrapping_add)
}

const INTEGERS: &[Form] = forms! {
    "add.s32"    u32(a: u32, b: u32) = a.wrapping_add(b);
    "sub.s32"    u32(a: u32, b: u32) = a.wrapping_sub(b);
    "add.s64"    u64(a: u64, b: u64) = a.wrapping_add(b);
    "sub.s64"    u64(a: u64, b: u64) = a.wrapping_sub(b);
    "mul.lo.s32" u32(a: u32, b: u32) = a.wrapping_mul(b);
    "mul.lo.s64" u64(a: u64, b: u64) = a.wrapping_mul(b);
    "mad.lo.s32" u32(a: u32, b: u32, c: u32) = a.wrapping_mul(b).wrapping_add(c);
    "mad.lo.s64" u64(a: u64, b: u64, c: u64) = a.wrapping_mul(b).wrapping_add(c);
    "mad.wide.s32" i64(a: i32, b: i32, c: i64) = (i64::from(a) * i64::from(b)).wrapping_add(c);
    "dp4a.u32.s32" i32(a: u32, b: u32, c: i32) = dot4(a, b, c);
    "neg.s32"    u32(a: u32) = a.wrapping_neg();
    "neg.s64"    u64(a: u64) = a.wrapping_neg();
    "max.s32"    i32(a: i32, b: i32) = a.max(b);
    "max.u32"    u32(a: u32, b: u32) = a.max(b);
    "max.s64"    i64(a: i64, b: i64) = a.max(b);
    "max.u64"    u64(a: u64, b: u64) = a.max(b);
    "min.s32"    i32(a: i32, b: i32) = a.min(b);
    "min.u32"    u32(a: u32, b: u32) = a.min(b);
    "min.s64"    i64(a: i64, b: i64) = a.min(b);
    "min.u64"    u64(a: u64, b: u64) = a.min(b);
};

const QUOTIENTS: &[Form] = quotients! {
    "div.s32" i32;
    "div.u32" u32;
    "div.s64" i64;
    "div.u64" u64;
};

const FLOATS: &[Form] = forms! {
    "add.rn.f32"  f32(a: f32, b: f32) = one_nan(a + b);
    "sub.rn.f32"  f32(a: f32, b: f32) = one_nan(a - b);
    "mul.rn.f32"  f32(a: f32, b: f32) = one_nan(a * b);
    "div.rn.f32"  f32(a: f32, b: f32) = one_nan(a / b);
    "fma.rn.f32"  f32(a: f32, b: f32, c: f32) = one_nan(a.mul_add(b, c));
    "rcp.rn.f32"  f32(a: f32) = one_nan(1.0 / a);
    "ex2.approx.f32" f32(a: f32) = one_nan(f64::from(a).exp2() as f32);
    "rcp.approx.ftz.f32" f32(a: f32) = one_nan(flushed(1.0 / flushed(a)));
    "sqrt.rn.f32" f32(a: f32) = one_nan(a.sqrt());
    "neg.f32"     f32(a: f32) = one_nan(-a);
    "abs.f32"     f32(a: f32) = one_nan(a.abs());
    "max.NaN.f32" f32(a: f32, b: f32) = one_nan(max_or_nan(a.into(), b.into()) as f32);
    "min.NaN.f32" f32(a: f32, b: f32) = one_nan(-max_or_nan((-a).into(), (-b).into()) as f32);
    "add.rn.f64"  f64(a: f64, b: f64) = first_nan(a + b, [b, a]);
    "sub.rn.f64"  f64(a: f64, b: f64) = first_nan(a - b, [b, a]);
    "mul.rn.f64"  f64(a: f64, b: f64) = first_nan(a * b, [b, a]);
    "div.rn.f64"  f64(a: f64, b: f64) = first_nan(a / b, [b, a]);
    "fma.rn.f64"  f64(a: f64, b: f64, c: f64) = first_nan(a.mul_add(b, c), [b, c, a]);
    "rcp.rn.f64"  f64(a: f64) = first_nan(1.0 / a, [a]);
    "sqrt.rn.f64" f64(a: f64) = first_nan(a.sqrt(), [a]);
    "neg.f64"     f64(a: f64) = first_nan(-a, [a]);
    "max.f64"     f64(a: f64, b: f64) = max_number(a, b);
    "min.f64"     f64(a: f64, b: f64) = min_number(a, b);
    "cvt.rzi.f32.f32" f32(a: f32) = one_nan(a.trunc());
    "cvt.rmi.f32.f32" f32(a: f32) = one_nan(a.floor());
    "cvt.rni.f32.f32" f32(a: f32) = one_nan(a.round_ties_even());
    "cvt.rzi.f64.f64" f64(a: f64) = first_nan(a.trunc(), [a]);
    "cvt.rmi.f64.f64" f64(a: f64) = first_nan(a.floor(), [a]);
    "cvt.rni.f64.f64" f64(a: f64) = first_nan(a.round_ties_even(), [a]);
};

const HALVES: &[Form] = forms! {
    "add.rn.f16"    u16(a: u16, b: u16) = HALF.apply(|a, b| a + b, a, b);
    "sub.rn.f16"    u16(a: u16, b: u16) = HALF.apply(|a, b| a - b, a, b);
    "mul.rn.f16"    u16(a: u16, b: u16) = HALF.apply(|a, b| a * b, a, b);
    "fma.rn.f16"    u16(a: u16, b: u16, c: u16) = HALF.fma(a, b, c);
    "fma.rn.bf16"   u16(a: u16, b: u16, c: u16) = BRAIN.fma(a, b, c);
    "neg.f16"       u16(a: u16) = HALF.neg(a);
    "neg.bf16"      u16(a: u16) = BRAIN.neg(a);
    "max.NaN.f16"   u16(a: u16, b: u16) = HALF.max(a, b);
    "min.NaN.f16"   u16(a: u16, b: u16) = HALF.min(a, b);
    "max.NaN.bf16"  u16(a: u16, b: u16) = BRAIN.max(a, b);
    "min.NaN.bf16"  u16(a: u16, b: u16) = BRAIN.min(a, b);
    "add.rn.f16x2"  u32(a: u32, b: u32) = both([a, b], |[a, b]| HALF.apply(|a, b| a + b, a, b));
    "sub.rn.f16x2"  u32(a: u32, b: u32) = both([a, b], |[a, b]| HALF.apply(|a, b| a - b, a, b));
    "mul.rn.f16x2"  u32(a: u32, b: u32) = both([a, b], |[a, b]| HALF.apply(|a, b| a * b, a, b));
    "fma.rn.f16x2"  u32(a: u32, b: u32, c: u32) = both([a, b, c], |[a, b, c]| HALF.fma(a, b, c));
    "fma.rn.bf16x2" u32(a: u32, b: u32, c: u32) = both([a, b, c], |[a, b, c]| BRAIN.fma(a, b, c));
    "neg.f16x2"     u32(a: u32) = both([a], |[a]| HALF.neg(a));
    "neg.bf16x2"    u32(a: u32) = both([a], |[a]| BRAIN.neg(a));
    "max.NaN.f16x2"  u32(a: u32, b: u32) = both([a, b], |[a, b]| HALF.max(a, b));
    "min.NaN.f16x2"  u32(a: u32, b: u32) = both([a, b], |[a, b]| HALF.min(a, b));
    "max.NaN.bf16x2" u32(a: u32, b: u32) = both([a, b], |[a, b]| BRAIN.max(a, b));
    "min.NaN.bf16x2" u32(a: u32, b: u32) = both([a, b], |[a, b]| BRAIN.min(a, b));
};

/// What float64s and conversions to 64 bits make of NaN.
const LEAST: u64 = 1 << 63;

const CONVERSIONS: &[Form] = forms! {
    "cvt.rna.tf32.f32" u32(a: f32) = ten_bits(a);
    "cvt.s32.s8"      i32(a: u32) = i32::from(a as i8);
    "cvt.s32.s16"     i32(a: u32) = i32::from(a as i16);
    "cvt.u32.u16"     u32(a: u16) = a.into();
    "cvt.u16.u32"     u16(a: u32) = a as u16;
    "cvt.s64.s32"     i64(a: i32) = a.into();
    "cvt.u64.u32"     u64(a: u32) = a.into();
    "cvt.u32.u64"     u32(a: u64) = a as u32;
    "cvt.rn.f32.s32"  f32(a: i32) = a as f32;
    "cvt.rn.f32.u32"  f32(a: u32) = a as f32;
    "cvt.rn.f32.s64"  f32(a: i64) = a as f32;
    "cvt.rn.f32.u64"  f32(a: u64) = a as f32;
    "cvt.rn.f64.s32"  f64(a: i32) = a as f64;
    "cvt.rn.f64.u32"  f64(a: u32) = a as f64;
    "cvt.rn.f64.s64"  f64(a: i64) = a as f64;
    "cvt.rn.f64.u64"  f64(a: u64) = a as f64;
    "cvt.rzi.s32.f32" i32(a: f32) = a as i32;
    "cvt.rzi.u32.f32" u32(a: f32) = a as u32;
    "cvt.rzi.s64.f32" u64(a: f32) = or_if_nan(a.is_nan(), a as i64 as u64, LEAST);
    "cvt.rzi.u64.f32" u64(a: f32) = or_if_nan(a.is_nan(), a as u64, LEAST);
    "cvt.rzi.s32.f64" i32(a: f64) = or_if_nan(a.is_nan(), a as i32, i32::MIN);
    "cvt.rzi.u32.f64" u32(a: f64) = or_if_nan(a.is_nan(), a as u32, 1 << 31);
    "cvt.rzi.s64.f64" u64(a: f64) = or_if_nan(a.is_nan(), a as i64 as u64, LEAST);
    "cvt.rzi.u64.f64" u64(a: f64) = or_if_nan(a.is_nan(), a as u64, LEAST);
    "cvt.f64.f32"     f64(a: f32) = a.into();
    "cvt.rn.f32.f64"  f32(a: f64) = narrowed(a);
    "cvt.f32.f16"     f32(a: u16) = one_nan(HALF.value(a) as f32);
    "cvt.rn.f16.f32"  u16(a: f32) = HALF.nearest(a.into());
    "cvt.rn.bf16.f32" u16(a: f32) = BRAIN.nearest(a.into());
    "cvt.rn.f16x2.f32"  u32(a: f32, b: f32) = join(HALF.nearest(b.into()), HALF.nearest(a.into()));
    "cvt.rn.bf16x2.f32" u32(a: f32, b: f32) = join(BRAIN.nearest(b.into()), BRAIN.nearest(a.into()));
    "cvt.rn.f16x2.e4m3x2" u32(a: u16) = decode8(a, false);
    "cvt.rn.f16x2.e5m2x2" u32(a: u16) = decode8(a, true);
    "cvt.rn.satfinite.e4m3x2.f32" u16(a: f32, b: f32) = encode8(b, a, false);
    "cvt.rn.satfinite.e5m2x2.f32" u16(a: f32, b: f32) = encode8(b, a, true);
};

/// `len` bits from bit `from` on; beyond the top there are zeros, or the sign.
fn extract(a: u32, from: u32, len: u32, is_signed: bool) -> u32 {
    let (from, len) = (from & 0xff, len & 0xff);
    if len == 0 {
        return 0;
    }
    let sign = is_signed && a >> (from + len - 1).min(31) & 1 == 1;
    let bits = a.checked_shr(from).unwrap_or(0);
    let kept = len.min(32u32.saturating_sub(from));
    let mask = 1u32.checked_shl(kept).map_or(!0, |m| m - 1);
    bits & mask | if sign { !mask } else { 0 }
}

/// `b` with `len` bits from bit `from` on replaced by the low ones of `a`.
fn insert(a: u32, b: u32, from: u32, len: u32) -> u32 {
    let (from, len) = (from & 0xff, len & 0xff);
    let mask = 1u32.checked_shl(len).map_or(!0, |m| m - 1).checked_shl(from).unwrap_or(0);
    b & !mask | a.checked_shl(from).unwrap_or(0) & mask
}
