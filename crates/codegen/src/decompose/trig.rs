//! `Sin`, `Cos` and `Tan`, for every magnitude.
//!
//! ```text
//! x = q * pi/2 + r,  |r| <= pi/4        sin(x) = ± sin(r) or ± cos(r), by q mod 4        tan(x) = tan(r) or -1 / tan(r)
//! ```
//!
//! Two reductions. Arguments below 2^15 (float64: 2^20) take Cody and Waite's: q times pi/2 in three parts is taken away, the
//! first part exactly. All others take Payne and Hanek's in integers: of 2/pi only the bits that decide `x * 2/pi` modulo 4 and
//! its fraction are taken (which ones, x's exponent says), three words of them, and multiplied by x's mantissa exactly. That is
//! several times as long, so the whole function of large arguments stands on its side of one `Where`, which `skip` leaves out
//! for vectors that hold no large one.

use super::inverse::half_pi;
use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub TRIG(target: Target) for float;
    Sin(x) as n  if lacks(target, n)  => sin_cos(x, false);
    Cos(x) as n  if lacks(target, n)  => sin_cos(x, true);
    Tan(x) as n  if lacks(target, n)  => tan(x);
}

/// `sin(r) = r + r z (…)`, z = r^2.
const SIN_F32: [f64; 3] = [-0.16666655242443085, 0.008332189172506332, -0.00019518285989761353];
const SIN_F64: [f64; 6] = [
    -0.1666666666666663,
    0.008333333333321914,
    -0.00019841269829453184,
    2.7557313580347794e-06,
    -2.5050742029101803e-08,
    1.5895927666229879e-10,
];
/// `cos(r)`, in z = r^2.
const COS_F32: [f64; 5] = [1.0, -0.5, 0.04166664555668831, -0.0013887310633435845, 2.4432563805021346e-05];
const COS_F64: [f64; 8] = [
    1.0,
    -0.5,
    0.041666666666666595,
    -0.0013888888888873344,
    2.480158728900364e-05,
    -2.755731421741354e-07,
    2.0875705428658164e-09,
    -1.1358749816941826e-11,
];
/// `tan(r) = r + r z (…)`.
const TAN_F32: [f64; 7] = [
    0.33333349227905273,
    0.13332675397396088,
    0.05405891314148903,
    0.02128620631992817,
    0.010827457532286644,
    9.821332059800625e-05,
    0.004372721537947655,
];
const TAN_F64: [f64; 16] = [
    0.3333333333333333,
    0.133333333333338,
    0.05396825396790451,
    0.02186948854872815,
    0.008863235266972242,
    0.0035921315751170353,
    0.0014558018106785612,
    0.000590240610103979,
    0.00023811394778712095,
    0.00010047810325100674,
    3.0038596211244104e-05,
    3.349279532300835e-05,
    -1.7551571369105564e-05,
    2.5177518519165948e-05,
    -1.2331105148633813e-05,
    4.485531903029205e-06,
];
/// The binary digits of 2/pi after the point.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
];

/// Word `k` of `zeros` zero bits followed by 2/pi.
fn word(k: i64, width: i64, zeros: i64) -> u64 {
    let bit = |i: i64| match i - zeros {
        i if i < 0 => 0,
        i => TWO_OVER_PI.get(i as usize / 64).map_or(0, |w| w >> (63 - i % 64) & 1),
    };
    (0..width).fold(0, |w, j| w << 1 | bit(k * width + j))
}

/// `f` of the quadrant of |x| modulo 4 and how far |x| is from it, by the reduction that x needs; NaN of what is not finite.
fn by_quadrant(f: Real, x: &UOp, of: impl Fn(&UOp, &Pair) -> UOp) -> UOp {
    let abs = f.abs(x);
    let limit = f.c(f.pick(32768.0, 1048576.0));
    let (q, r) = reduce_small(f, &abs);
    let small = of(&q, &r);
    let (q, r) = reduce(f, &abs);
    let large = abs.lt(&f.c(f64::INFINITY)).select(&of(&q, &r), &f.c(f64::NAN));
    // what is not finite is NaN either way
    limit.lt(&abs).select(&large, &small)
}

/// `tan(r + low) = high + low`; in the odd quadrants `-1 / tan`, with what the division left brought in.
fn tan(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let sign = f.bits(x).and_(&f.i(-1 - f.int_max()));
    Some(by_quadrant(f, x, |q, Pair(r, low)| {
        let (tail, _) = f.odd_tail(r, f.pick(&TAN_F32[..], &TAN_F64[..]));
        // the slope of the tangent is 1 and its square
        let t = r + &tail;
        let tail = tail + fma(&(low * &t), &t, low);
        let Pair(high, low) = Pair::sum(r, &tail);
        let inverse = f.c(-1.0).bin(Alu::Fdiv, &high);
        let rest = fma(&inverse, &low, &fma(&inverse, &high, &f.c(1.0)));
        let turned = fma(&inverse, &rest, &inverse);
        let odd = q.and_(&f.i(1)).ne_(&f.i(0));
        let value = f.bits(&odd.select(&turned, &high));
        f.float(&value.bin(Alu::Xor, &sign))
    }))
}

fn sin_cos(x: &UOp, is_cos: bool) -> Option<UOp> {
    let f = Real::of(x)?;
    Some(by_quadrant(f, x, |q, Pair(r, low)| {
        let z = fma(r, r, &((r + r) * low));
        let sin = r + fma(&(r * &z), &f.poly(&z, f.pick(&SIN_F32[..], &SIN_F64[..])), low);
        let cos = f.poly(&z, f.pick(&COS_F32[..], &COS_F64[..]));
        let turn = if is_cos { q + 1 } else { q.clone() };
        let even = turn.and_(&f.i(1)).eq_(&f.i(0));
        let value = f.bits(&even.select(&sin, &cos));
        let turned = turn.bin(Alu::Shl, &f.i(f.int.bits() as i64 - 2));
        let turned = if is_cos { turned } else { turned.bin(Alu::Xor, &f.bits(x)) };
        f.float(&value.bin(Alu::Xor, &turned.and_(&f.i(-1 - f.int_max()))))
    }))
}

/// For small x: the nearest multiple of pi/2, in its lowest bits, and how far x is from it.
fn reduce_small(f: Real, x: &UOp) -> (UOp, Pair) {
    let magic = f.c(f.pick(12582912.0, 6755399441055744.0));
    let sum = fma(x, &f.c(std::f64::consts::FRAC_2_PI), &magic);
    let n = magic - &sum; // minus n
    let Pair(high, middle) = half_pi(f);
    // exact: x and n * high are multiples of the last place of high, and near each other
    let near = fma(&n, &high, x);
    // near is a multiple of the last place of p, so that what the difference loses is exact whichever is greater
    let p = &n * f.c(f.pick(4.371138828673793e-08, -6.123233995736766e-17)); // minus middle
    let r = &near - &p;
    let lost = (&near - &r) - &p;
    let third = f.c(f.pick(-1.7151245100058819e-15, -1.4973849048591698e-33));
    let low = lost + fma(&n, &third, &fma(&n, &middle, &p));
    (f.bits(&sum), Pair(r, low))
}

/// For x of at least 1/2: the nearest multiple of pi/2 modulo 4, and how far x is from it.
fn reduce(f: Real, x: &UOp) -> (UOp, Pair) {
    let width = f.int.bits() as i64;
    let (u, c) = (f.uint, |v: i64| UOp::int(v, f.uint));
    let bits = x.bitcast(u);
    let man = bits.and_(&c((1 << f.man) - 1)).or_(&c(1 << f.man));
    // with man + 3 zeros in front, the first bit that matters for 2^e * m is number e + 1
    let skip = bits.bin(Alu::Shr, &c(f.man)) - c(f.bias - 1);
    let most = f.bias + 2; // of a finite number
    let at = skip.bin(Alu::Shr, &c(width.ilog2() as i64));
    let w = window(f, &at, most / width, width);
    let off = skip.and_(&c(width - 1));
    let rest = c(width - 1) - &off;
    let funnel = |a: &UOp, b: &UOp| a.bin(Alu::Shl, &off).or_(&b.bin(Alu::Shr, &c(1)).bin(Alu::Shr, &rest));
    let (w0, w1, w2) = (funnel(&w[0], &w[1]), funnel(&w[1], &w[2]), funnel(&w[2], &w[3]));
    // the upper two words of the product modulo 2^(3 width): two bits of quadrant, the rest fraction
    let mid_low = &man * &w1;
    let mid = &mid_low + mul_high(&man, &w2);
    let carry = mid.lt(&mid_low).select(&c(1), &c(0));
    let top = &man * &w0 + mul_high(&man, &w1) + carry;
    let upper = top.bin(Alu::Shl, &c(2)).or_(&mid.bin(Alu::Shr, &c(width - 2))).bitcast(f.int);
    let lower = mid.bin(Alu::Shl, &c(2));
    let quadrant = top.bin(Alu::Shr, &c(width - 2)).bitcast(f.int);
    let quadrant = quadrant - upper.bin(Alu::Shr, &f.i(width - 1)); // a fraction of a half and more is negative
    // the fraction in three pieces that floats hold exactly
    let spare = width - f.man - 1;
    let low_bits = (1i64 << spare) - 1;
    let a = upper.and_(&f.i(!low_bits)).cast(f.dtype) * f.exp2(-width);
    let keep = width - 2 * spare; // of the lower word in the second piece, one bit short of full
    let b = upper.and_(&f.i(low_bits)).bin(Alu::Shl, &f.i(keep));
    let b =
        b.or_(&lower.bin(Alu::Shr, &c(width - keep)).bitcast(f.int)).cast(f.dtype) * f.exp2(-width - keep);
    let last = lower.and_(&c((1i64 << (width - keep)) - 1)).bitcast(f.int);
    let last = last.cast(f.dtype) * f.exp2(-width) * f.exp2(-width);
    let Pair(high, low) = Pair::sum(&a, &b);
    (quadrant, Pair(high, low + last).times(&half_pi(f)))
}

/// Words `at .. at + 4` of 2/pi, chosen by the bits of `at`, which is at most `most`.
fn window(f: Real, at: &UOp, most: i64, width: i64) -> Vec<UOp> {
    let mut words: Vec<UOp> =
        (0..most + 4).map(|k| UOp::int(word(k, width, f.man + 3) as i64, f.uint)).collect();
    for level in (0..=most.ilog2()).rev() {
        let step = 1usize << level;
        let set = at.and_(&UOp::int(step as i64, f.uint)).ne_(&UOp::int(0, f.uint));
        // lower levels can still move on by step - 1
        let needed = (4 + step - 1).min(words.len());
        words = (0..needed)
            .map(|i| words.get(i + step).map_or(words[i].clone(), |w| set.select(w, &words[i])))
            .collect();
    }
    words
}

/// The upper half of the product of two unsigned integers.
pub fn mul_high(a: &UOp, b: &UOp) -> UOp {
    let (width, d) = (a.dtype.bits() as i64, a.dtype);
    if d != DType::U64 {
        let wide = if width == 32 { DType::U64 } else { DType::U32 };
        return (a.cast(wide) * b.cast(wide)).bin(Alu::Shr, &UOp::int(width, wide)).cast(d);
    }
    let (half, low) = (UOp::int(32, d), UOp::int(0xffff_ffff, d));
    let (a0, a1) = (a.and_(&low), a.bin(Alu::Shr, &half));
    let (b0, b1) = (b.and_(&low), b.bin(Alu::Shr, &half));
    let t = &a1 * &b0 + (&a0 * &b0).bin(Alu::Shr, &half);
    let u = &a0 * &b1 + t.and_(&low);
    a1 * b1 + t.bin(Alu::Shr, &half) + u.bin(Alu::Shr, &half)
}
