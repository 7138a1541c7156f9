//! `Log`, `Log2`, `Log10` and `Log1p`.
//!
//! ```text
//! x = 2^e * m,  m in [sqrt(1/2), sqrt(2)),  f = m - 1        log(x) = e*ln2 + log(1 + f)
//! ```
//!
//! `log(1 + f)` is f, -f^2/2 and a polynomial, for float32 in f, for float64 in s = f / (2 + f), which is shorter. Sums
//! are kept in two parts until the end, so that there is one rounding that counts.

use super::exp::ln2;
use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub LOG(target: Target) for float;
    Log(x) as n   if lacks(target, n)  => log(x);
    Log2(x) as n  if lacks(target, n)  => log2(x);
    Log10(x) as n if lacks(target, n)  => log10(x);
    Log1p(x) as n if lacks(target, n)  => log1p(x);
}

/// `log(1 + f) = f + f^2 (…)`.
const LOG_F32: [f64; 10] = [
    -0.5,
    0.3333331346511841,
    -0.25000011920928955,
    0.20002074539661407,
    -0.1666785478591919,
    0.14220190048217773,
    -0.12408175319433212,
    0.1188654974102974,
    -0.11660927534103394,
    0.06732506304979324,
];
/// `log(1 + f) = 2s + s z (…)`, z = s^2.
const LOG_F64: [f64; 7] = [
    0.6666666666666734,
    0.3999999999941708,
    0.28571428741882127,
    0.2222219862284751,
    0.18183561838831844,
    0.1531411214104606,
    0.14795351432104858,
];

/// A positive number as `2^e * (1 + f)`, f between sqrt(1/2) - 1 and sqrt(2) - 1; e as a float.
pub fn split(f: Real, x: &UOp) -> (UOp, UOp) {
    // below the normal range the exponent bits say nothing: scale up first
    let tiny = x.lt(&f.exp2(1 - f.bias));
    let up = f.man + 1;
    let scaled = x * tiny.select(&f.exp2(up), &f.c(1.0));
    let from = sqrt_half(f);
    split_normal(f, &scaled, &tiny.select(&f.i(from + (up << f.man)), &f.i(from)))
}

/// The bits of sqrt(1/2).
fn sqrt_half(f: Real) -> i64 {
    f.pick(0x3f35_04f3, 0x3fe6_a09e_667f_3bcd)
}

/// [`split`] of a number in the normal range; `from` are the bits of sqrt(1/2), and above them what to take from e.
fn split_normal(f: Real, x: &UOp, from: &UOp) -> (UOp, UOp) {
    let above = f.bits(x) - from;
    let e = above.bin(Alu::Shr, &f.i(f.man));
    let m = f.float(&(above.and_(&f.i((1 << f.man) - 1)) + sqrt_half(f)));
    (e.cast(f.dtype), m - f.c(1.0))
}

/// `of` e and f of x. What is not a positive normal number is rare: it has a side of its own, which `skip` leaves out for
/// vectors that hold none.
fn by_parts(f: Real, x: &UOp, of: impl Fn(UOp, UOp) -> UOp) -> UOp {
    let (least, inf) = (1 << f.man, (2 * f.bias + 1) << f.man);
    // the least normal number becomes the least integer, and those below it the greatest
    let place = f.bits(x) + (f.int_max() - least + 1);
    let is_rare = f.i(inf - least - f.int_max() - 2).lt(&place);
    let (e, m) = split(f, x);
    let rare = special(f, x, &of(e, m));
    let (e, m) = split_normal(f, x, &f.i(sqrt_half(f)));
    is_rare.select(&rare, &of(e, m))
}

/// `log(1 + f)`: f - f^2/2 exactly, what follows in the low part.
fn series(f: Real, x: &UOp) -> Pair {
    let square = x * x;
    let half = &square * f.c(0.5);
    let lost = fma(x, x, &square.un(Alu::Neg)); // by rounding the square
    let Pair(sum, low) = Pair::sum(x, &half.un(Alu::Neg));
    let low = fma(&lost, &f.c(-0.5), &low);
    if f.man == 23 {
        return Pair(sum, fma(&(x * &square), &f.poly(x, &LOG_F32[1..]), &low));
    }
    let s = x.bin(Alu::Fdiv, &(x + f.c(2.0)));
    let z = &s * &s;
    let r = &z * f.poly(&z, &LOG_F64);
    Pair(sum, fma(&s, &(half + r), &low))
}

/// `log(1 + f)`, where what rounding the low part loses may show: for float32 f itself and all that follows.
fn short_series(f: Real, x: &UOp) -> Pair {
    if f.man == 23 { Pair(x.clone(), (x * x) * f.poly(x, &LOG_F32)) } else { series(f, x) }
}

/// `result`, except where the argument is not a positive finite number.
fn special(f: Real, x: &UOp, result: &UOp) -> UOp {
    let finite = x.lt(&f.c(f64::INFINITY)).select(result, x);
    let other = x.eq_(&f.c(0.0)).select(&f.c(f64::NEG_INFINITY), &f.c(f64::NAN));
    f.c(0.0).lt(x).select(&finite, &other)
}

fn log(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (ln2_hi, ln2_lo) = ln2(f);
    Some(by_parts(f, x, |e, m| {
        let Pair(l, low) = short_series(f, &m);
        let Pair(s, s_low) = Pair::sum(&(&e * &ln2_hi), &l);
        s + (fma(&e, &ln2_lo, &low) + s_low)
    }))
}

/// `e * step + unit * log(1 + m)`, in pairs: the logarithm to a base of `2^e * (1 + m)`. The high part of the step is so
/// short that its product with any exponent is exact.
fn to_base(f: Real, x: &UOp, unit: (f64, f64), step: (f64, f64)) -> UOp {
    by_parts(f, x, |e, m| {
        let Pair(l, low) = series(f, &m).times(&Pair(f.c(unit.0), f.c(unit.1)));
        let (high, low) = match step {
            (1.0, 0.0) => (e, low),
            (step, rest) => (&e * f.c(step), fma(&e, &f.c(rest), &low)),
        };
        let Pair(s, s_low) = Pair::sum(&high, &l);
        s + (low + s_low)
    })
}

fn log2(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let unit = f.pick(
        (1.4426950216293335, 1.925963033500011e-08),
        (std::f64::consts::LOG2_E, 2.0355273740931033e-17),
    );
    Some(to_base(f, x, unit, (1.0, 0.0)))
}

fn log10(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let unit = f.pick(
        (0.4342944920063019, -1.0103049952192578e-08),
        (std::f64::consts::LOG10_E, 1.098319650216765e-17),
    );
    let step = f.pick((0.301025390625, 4.605039066518657e-06), (0.30102999566383914, 1.42050232272661e-13));
    Some(to_base(f, x, unit, step))
}

/// `log(1 + x)`: where 1 + x is near 1, x itself is what the series takes; elsewhere what rounding 1 + x lost is
/// brought in by the slope.
fn log1p(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let one = f.c(1.0);
    let u = x + &one;
    let taken = &u - &one;
    let lost = (x - &taken) + (&one - (&u - &taken));
    let (e, m) = split(f, &u);
    let near = e.eq_(&f.c(0.0));
    let m = near.select(x, &m);
    // lost / u by a few terms of 1 / (1 + m) = 1 - m + …; 2^-e from its bits, 0 where that is below the normal range
    let biased = (f.i(f.bias) - e.cast(f.int)).bin(Alu::Max, &f.i(0));
    let down = f.float(&biased.bin(Alu::Shl, &f.i(f.man)));
    let slope = f.poly(&m, &[1.0, -1.0, 1.0, -0.9]);
    let lost = near.select(&f.c(0.0), &(lost * down * slope));
    let (ln2_hi, ln2_lo) = ln2(f);
    let Pair(l, low) = short_series(f, &m);
    let Pair(s, s_low) = Pair::sum(&(&e * ln2_hi), &l);
    let value = special(f, &u, &(s + (fma(&e, &ln2_lo, &(low + lost)) + s_low)));
    // zeros keep their sign
    Some(f.abs(x).lt(&f.exp2(-f.man - 2)).select(x, &value))
}
