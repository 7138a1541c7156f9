//! `Exp`, `Exp2` and `Expm1`.
//!
//! ```text
//! exp(x) = 2^n * exp(r),   n = round(x / ln2),  r = x - n*ln2  in two steps,  |r| <= ln2/2
//! ```
//!
//! Adding 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits of the sum, so no conversion is needed.
//! `2^n` is two factors, so that results below the normal range and the last ones before infinity are right. Both are 0 at the
//! least n: products that underflow take some hundred cycles, and exponentials of masks are all that small.
//! `exp(x) - 1` is `(2^n - 1) + 2^n r + 2^n (exp(r) - 1 - r)`, summed in that order, in halves.

use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub EXP(target: Target) for float;
    Exp(x) as n   if lacks(target, n)  => exp(x);
    Exp2(x) as n  if lacks(target, n)  => exp2(x);
    Expm1(x) as n if lacks(target, n)  => expm1(x);
    Exp2Near(x) as n if n.dtype == DType::F32 && lacks(target, n)  => exp2_near(x);
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

/// The same to 22 bits.
const EXP2_NEAR: [f64; 6] = [
    1.0000001192092896,
    0.6931469440460205,
    0.24022120237350464,
    0.05550713092088699,
    0.009675541892647743,
    0.0013276488753035665,
];

/// `exp(r) = 1 + r + r^2 (…)`, with errors that are small beside `exp(r) - 1`.
const EXPM1_F32: [f64; 6] = [
    0.5,
    0.1666666567325592,
    0.041666481643915176,
    0.0083334194496274,
    0.0013933253940194845,
    0.00019824132323265076,
];
const EXPM1_F64: [f64; 12] = [
    0.5,
    0.16666666666666666,
    0.0416666666666667,
    0.008333333333334523,
    0.0013888888888864124,
    0.000198412698365021,
    2.4801587369287924e-05,
    2.755732742159662e-06,
    2.755723364005219e-07,
    2.5045763564719422e-08,
    2.092813601327124e-09,
    1.7871047214932697e-10,
];

/// ln2 in two parts; the first has few enough bits that its product with any exponent is exact.
pub fn ln2(f: Real) -> (UOp, UOp) {
    let (hi, lo) =
        f.pick((0.693115234375, 3.194618329871446e-05), (0.6931471805601177, -1.7239444525614835e-13));
    (f.c(hi), f.c(lo))
}

/// The constant that rounds to an integer when added, and leaves it plus `offset` in the low bits.
fn rounder(f: Real, offset: i64) -> UOp {
    f.c(f.pick(12582912.0, 6755399441055744.0) + offset as f64)
}

/// Twice the bias: half of the low bits is a biased exponent.
fn two_factors(f: Real) -> UOp {
    rounder(f, 2 * f.bias)
}

/// `2^(n + offset - bias)` where t is n plus the rounder of an offset.
fn power_of_two(f: Real, t: &UOp) -> UOp {
    f.float(&f.bits(t).bin(Alu::Shl, &f.i(f.man)))
}

/// `p * 2^n`, where `t` is n plus the rounder for two factors.
pub fn scale(f: Real, p: &UOp, t: &UOp) -> UOp {
    let bits = f.bits(t);
    let half = bits.bin(Alu::Shr, &f.i(1));
    let power = |e: &UOp| f.float(&e.bin(Alu::Shl, &f.i(f.man)));
    p * power(&half) * power(&(bits - half))
}

/// `x` between bounds where the factors are infinite, and 0, which is where it is put from where the result is 0; NaN stays.
fn clamp(f: Real, x: &UOp, zero: f64, bound: f64) -> UOp {
    x.lt(&f.c(zero)).select(&f.c(-bound), x).bin(Alu::Min, &f.c(bound))
}

fn exp(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let x = clamp(f, x, f.pick(-104.0, -745.2), bound(f));
    let (ln2_hi, ln2_lo) = ln2(f);
    let magic = two_factors(f);
    let t = fma(&x, &f.c(std::f64::consts::LOG2_E), &magic);
    let n = magic - &t; // minus n
    let r = fma(&n, &ln2_lo, &fma(&n, &ln2_hi, &x));
    let p = f.poly(&r, f.pick(&EXP_F32[..], &EXP_F64[..]));
    Some(scale(f, &p, &t))
}

/// A power of e beyond this is infinite, below its negative zero, and so are both of its [`two_factors`].
pub fn bound(f: Real) -> f64 {
    f.pick(176.0, 1418.0)
}

fn exp2(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let x = clamp(f, x, f.pick(-150.0, -1075.0), 2.0 * f.bias as f64);
    let magic = two_factors(f);
    let t = &x + &magic;
    let r = &x - (&t - magic);
    let p = f.poly(&r, f.pick(&EXP2_F32[..], &EXP2_F64[..]));
    Some(scale(f, &p, &t))
}

/// Between the bounds where both factors are 0, and infinite: what is far below is fast.
fn exp2_near(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let bound = 2.0 * f.bias as f64;
    let x = x.bin(Alu::Max, &f.c(-bound)).bin(Alu::Min, &f.c(bound + 2.0));
    let magic = two_factors(f);
    let t = &x + &magic;
    let r = &x - (&t - magic);
    Some(scale(f, &f.poly(&r, &EXP2_NEAR), &t))
}

/// `exp(x)` for x so small, of either sign, that the result is a normal number; the last addition is its only rounding
/// that counts.
pub fn exp_within(f: Real, x: &UOp) -> UOp {
    let (ln2_hi, ln2_lo) = ln2(f);
    let magic = rounder(f, f.bias);
    let t = fma(x, &f.c(std::f64::consts::LOG2_E), &magic);
    let n = magic - &t; // minus n
    let r = fma(&n, &ln2_lo, &fma(&n, &ln2_hi, x));
    let power = power_of_two(f, &t);
    fma(&(f.poly(&r, f.pick(&EXP_F32[1..], &EXP_F64[1..])) * r), &power, &power)
}

/// x as n ln2 + r: n plus the rounder, r, and `exp(r) - 1 - r`, with what rounding r lost in it.
fn reduce(f: Real, x: &UOp, magic: &UOp) -> (UOp, UOp, UOp) {
    let (ln2_hi, ln2_lo) = ln2(f);
    let t = fma(x, &f.c(std::f64::consts::LOG2_E), magic);
    let n = magic - &t; // minus n
    let Pair(r, low) = Pair::sum(&fma(&n, &ln2_hi, x), &(n * ln2_lo));
    let p = f.poly(&r, f.pick(&EXPM1_F32[..], &EXPM1_F64[..]));
    let tail = fma(&(&r * &r), &p, &fma(&low, &r, &low));
    (t, r, tail)
}

/// `exp(x + low)` for x within [`bound`] and low much smaller, with hardly more than one rounding.
pub fn exp_sum(f: Real, x: &UOp, low: &UOp) -> UOp {
    let (t, r, tail) = reduce(f, x, &two_factors(f));
    let Pair(high, rest) = Pair::sum(&f.c(1.0), &r);
    let rest = rest + tail;
    scale(f, &(&high + fma(low, &(&high + &rest), &rest)), &t)
}

/// `exp(x)` as `2^n` times a pair: n plus the rounder for [`scale`], and the pair.
pub fn exp_pair(f: Real, x: &UOp) -> (UOp, Pair) {
    let (t, r, tail) = reduce(f, x, &two_factors(f));
    let Pair(high, low) = Pair::sum(&f.c(1.0), &r);
    (t, Pair::sum(&high, &(low + tail)))
}

/// `-exp(x) 2^more` as a pair, for x from the least that gives more than zero up to 0, and `more`; zeros of either sign where
/// the power of two has no exponent left, at -132.4 (-797.8). The second part has only a few digits right, which takes half of
/// the steps of [`exp_pair`].
pub fn minus_exp_down(f: Real, x: &UOp) -> (Pair, i64) {
    let (more, sign) = (f.pick(64, 128), 2 * (f.bias + 1));
    let magic = rounder(f, f.bias + more + sign);
    let t = fma(x, &f.c(std::f64::consts::LOG2_E), &magic);
    let n = magic - &t; // minus n
    let ln2 = std::f64::consts::LN_2;
    let ln2_rest = f.c(f.pick(ln2 - ln2 as f32 as f64, 2.3190468138462996e-17));
    // a multiple of the last digit of ln2, and small: nothing is lost
    let r = fma(&n, &f.c(ln2), x);
    let p = f.poly(&r, f.pick(&EXP_F32[2..], &EXP_F64[2..]));
    let z = fma(&(&r * &r), &p, &r);
    let power = power_of_two(f, &t);
    let e = fma(&power, &z, &power);
    let low = fma(&(n * ln2_rest), &e, &fma(&power, &z, &(&power - &e)));
    (Pair(e, low), more)
}

/// `exp(-x^2)` as `2^(n + more) (1 + e) 2^-more`: the power, e and `more`, for x up to where it is zero; the power is, too, at
/// 11.506 (28.2456). What is left of x^2 beside n ln2 is rounded once.
pub fn expm1_minus_square(f: Real, x: &UOp) -> (UOp, UOp, i64) {
    let more = f.pick(64, 128);
    let (ln2_hi, ln2_lo) = ln2(f);
    let magic = rounder(f, f.bias + more);
    let t = fma(&(x * x), &f.c(-std::f64::consts::LOG2_E), &magic);
    let n = &t - magic;
    let r = fma(&n, &ln2_lo, &fma(x, x, &(&n * ln2_hi))); // minus r
    let odd = |(i, c): (usize, &f64)| if i % 2 == 0 { -c } else { *c };
    let c: Vec<f64> = f.pick(&EXP_F32[1..], &EXP_F64[1..]).iter().enumerate().map(odd).collect();
    (power_of_two(f, &t), f.poly(&r, &c) * r, more)
}

fn expm1(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    // beyond these it is -1, and infinite
    let inside = x.bin(Alu::Max, &f.c(f.pick(-20.0, -40.0))).bin(Alu::Min, &f.c(f.pick(89.0, 710.0)));
    let (t, r, tail) = reduce(f, &inside, &rounder(f, f.bias - 1));
    let half = power_of_two(f, &t); // of 2^n
    let minus = f.c(-0.5);
    let whole = &half + &minus;
    let taken = &whole - &minus;
    let lost = (&half - &taken) + (&minus - (&whole - &taken));
    let Pair(sum, low) = Pair::sum(&whole, &(&half * &r));
    let value = (sum + fma(&half, &tail, &(low + lost))) * f.c(2.0);
    Some(f.abs(x).lt(&f.exp2(-f.man - 2)).select(x, &value))
}
