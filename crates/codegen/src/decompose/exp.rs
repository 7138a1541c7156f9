//! `Exp` and `Exp2`.
//!
//! ```text
//! exp(x) = 2^n * exp(r),   n = round(x / ln2),  r = x - n*ln2  in two steps,  |r| <= ln2/2
//! ```
//!
//! Adding 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits of the sum, so no conversion is needed.
//! `2^n` is two factors, so that results below the normal range and the last ones before infinity are right.

use super::lacks;
use super::real::{Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub EXP(target: Target) for float;
    Exp(x) as n   if lacks(target, n)  => exp(x);
    Exp2(x) as n  if lacks(target, n)  => exp2(x);
}

/// `exp(r) = 1 + r + r^2 (…)` for `|r| <= ln2 / 2`.
const EXP_F32: [f64; 7] = [
    1.0,
    1.0,
    0.4999999403953552,
    0.1666652113199234,
    0.04166826605796814,
    0.008368677459657192,
    0.0013820747844874859,
];
const EXP_F64: [f64; 12] = [
    1.0,
    1.0,
    0.5000000000000011,
    0.16666666666666427,
    0.04166666666652682,
    0.008333333333485182,
    0.0013888888944409558,
    0.0001984126952671778,
    2.480149235744087e-05,
    2.755756829816552e-06,
    2.7630496385421056e-07,
    2.500582079202667e-08,
];
/// `2^r = 1 + r (…)` for `|r| <= 1/2`.
const EXP2_F32: [f64; 7] = [
    1.0,
    0.6931471824645996,
    0.24022647738456726,
    0.05550359562039375,
    0.009618500247597694,
    0.0013390976237133145,
    0.00015328943845815957,
];
const EXP2_F64: [f64; 12] = [
    1.0,
    std::f64::consts::LN_2,
    0.2402265069591011,
    0.055504108664821736,
    0.00961812910760066,
    0.0013333558146540621,
    0.00015403530450089188,
    1.52527336409909e-05,
    1.321543835963425e-06,
    1.0178156679246411e-07,
    7.073308596041252e-09,
    4.439417399008837e-10,
];

/// ln2 in two parts; the first has few enough bits that its product with any exponent is exact.
pub fn ln2(f: Real) -> (UOp, UOp) {
    let (hi, lo) =
        f.pick((0.693115234375, 3.194618329871446e-05), (0.6931471805601177, -1.7239444525614835e-13));
    (f.c(hi), f.c(lo))
}

/// The constant that rounds to an integer when added; its low bits are twice the bias, so that half of what they
/// become is a biased exponent.
fn rounder(f: Real) -> UOp {
    f.c(f.pick(12582912.0, 6755399441055744.0) + 2.0 * f.bias as f64)
}

/// `p * 2^n`, where `t` is n plus the rounder.
fn scale(f: Real, p: &UOp, t: &UOp) -> UOp {
    let bits = f.bits(t);
    let half = bits.bin(Alu::Shr, &f.i(1));
    let power = |e: &UOp| f.float(&e.bin(Alu::Shl, &f.i(f.man)));
    p * power(&half) * power(&(bits - half))
}

/// `x` between bounds beyond which the result is 0 or infinite anyway; NaN stays.
fn clamp(f: Real, x: &UOp, bound: f64) -> UOp {
    x.bin(Alu::Max, &f.c(-bound)).bin(Alu::Min, &f.c(bound))
}

fn exp(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    Some(exp_sum(f, &clamp(f, x, bound(f)), None))
}

/// A power of e beyond this is infinite, below its negative zero.
pub fn bound(f: Real) -> f64 {
    f.pick(128.0, 800.0)
}

/// `exp(x + low)`, for x within [`bound`] and low much smaller.
pub fn exp_sum(f: Real, x: &UOp, low: Option<&UOp>) -> UOp {
    let (ln2_hi, ln2_lo) = ln2(f);
    let magic = rounder(f);
    let t = fma(x, &f.c(std::f64::consts::LOG2_E), &magic);
    let n = magic - &t; // minus n
    let r = fma(&n, &ln2_lo, &fma(&n, &ln2_hi, x));
    let r = low.map_or(r.clone(), |low| &r + low);
    let p = f.poly(&r, f.pick(&EXP_F32[..], &EXP_F64[..]));
    scale(f, &p, &t)
}

fn exp2(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let x = clamp(f, x, f.pick(180.0, 1100.0));
    let magic = rounder(f);
    let t = &x + &magic;
    let r = &x - (&t - magic);
    let p = f.poly(&r, f.pick(&EXP2_F32[..], &EXP2_F64[..]));
    Some(scale(f, &p, &t))
}
