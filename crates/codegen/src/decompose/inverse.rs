//! `Asin`, `Acos` and `Atan2` (of which the arc tangent is `Atan2(x, 1)`).
//!
//! ```text
//! |x| < 1/2:  asin(x) = x + x z p(z), z = x^2             else:  pi/2 - 2 asin(s), s = sqrt((1 - |x|) / 2)
//! atan(q) = q + q z p(z) for q = min / max of the two magnitudes, then added to or taken from 0, pi/2 or pi
//! ```
//!
//! Constants are pairs, and what a square root or a division rounds off is carried along.

use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub INVERSE(target: Target) for float;
    Asin(x) as n      if lacks(target, n)  => asin(x);
    Acos(x) as n      if lacks(target, n)  => acos(x);
    Atan2(y, x) as n  if lacks(target, n)  => atan2(y, x);
}

/// `asin(x) = x + x z (…)`, z = x^2, for |x| <= 1/2.
const ASIN_F32: [f64; 6] = [
    0.16666659712791443,
    0.07500521838665009,
    0.044513385742902756,
    0.03183871507644653,
    0.014318489469587803,
    0.03768717870116234,
];
const ASIN_F64: [f64; 14] = [
    0.1666666666666666,
    0.07500000000002385,
    0.04464285713982525,
    0.030381944637868707,
    0.02237215180857789,
    0.017352941152749813,
    0.013961930937339604,
    0.011585419284244189,
    0.009485783200543394,
    0.010001186625097278,
    0.0007095556372948371,
    0.024769078461963613,
    -0.026078705989388617,
    0.033604677995451936,
];
/// `atan(x) = x + x z (…)`, z = x^2, for |x| <= 1.
const ATAN_F32: [f64; 9] = [
    -0.33333298563957214,
    0.1999852955341339,
    -0.14264015853405,
    0.10950881242752075,
    -0.0839930847287178,
    0.05788131430745125,
    -0.031096644699573517,
    0.010868269950151443,
    -0.0017826564144343138,
];
const ATAN_F64: [f64; 22] = [
    -0.33333333333333326,
    0.19999999999998289,
    -0.1428571428557803,
    0.11111111105602418,
    -0.0909090895663608,
    0.0769230551678552,
    -0.0666664171986018,
    0.05882141508126063,
    -0.052617911361544666,
    0.04755005202122586,
    -0.043201260607102394,
    0.03910261163596889,
    -0.034662444142050046,
    0.02929417088780687,
    -0.022792126757467484,
    0.0156967746404593,
    -0.009183638016447823,
    0.004369015577204264,
    -0.0016050321623978369,
    0.0004238951838975186,
    -7.124422971316544e-05,
    5.702376562272162e-06,
];

/// pi/2 as a pair.
pub fn half_pi(f: Real) -> Pair {
    let (high, low) = f.pick(
        (1.5707963705062866, -4.371138828673793e-08),
        (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17),
    );
    Pair(f.c(high), f.c(low))
}

/// Where |x| is at least 1/2; s, whose arc sine counts, either |x| or sqrt((1 - |x|) / 2); and `asin(s) - s`.
fn arc(f: Real, x: &UOp) -> (UOp, Pair) {
    let (abs, half) = (f.abs(x), f.c(0.5));
    let far = abs.lt(&half).un(Alu::Not);
    let quarter = (f.c(1.0) - &abs) * &half;
    let root = quarter.un(Alu::Sqrt);
    // what the root rounded off; at 1 there is nothing, and nothing to divide by
    let safe = (&root + &root).bin(Alu::Max, &f.exp2(-f.man));
    let lost = fma(&root.un(Alu::Neg), &root, &quarter).bin(Alu::Fdiv, &safe);
    let z = far.select(&quarter, &(&abs * &abs));
    let s = far.select(&root, &abs);
    let p = f.poly(&z, f.pick(&ASIN_F32[..], &ASIN_F64[..]));
    let tail = fma(&(&s * &z), &p, &far.select(&lost, &f.c(0.0)));
    (far, Pair(s, tail))
}

/// `c - 2 p` (or `c - p`), c a pair that is not smaller.
fn take(f: Real, c: &Pair, p: &Pair, times: f64) -> UOp {
    let k = f.c(-times);
    let Pair(high, low) = Pair::sum(&c.0, &(&p.0 * &k));
    high + (fma(&p.1, &k, &c.1) + low)
}

fn asin(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (far, p) = arc(f, x);
    let value = far.select(&take(f, &half_pi(f), &p, 2.0), &(&p.0 + &p.1));
    Some(f.with_sign_of(&value, x))
}

fn acos(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (far, p) = arc(f, x);
    let negative = x.lt(&f.c(0.0));
    let (quarter_turn, two) = (half_pi(f), f.c(2.0));
    let half_turn = Pair(&quarter_turn.0 * &two, &quarter_turn.1 * &two);
    let double = (&p.0 + &p.1) * two;
    let near = negative.select(&take(f, &quarter_turn, &p, -1.0), &take(f, &quarter_turn, &p, 1.0));
    Some(far.select(&negative.select(&take(f, &half_turn, &p, 2.0), &double), &near))
}

/// The angle of the point (x, y): zeros by their signs, infinities as C has them.
fn atan2(y: &UOp, x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (zero, one, inf) = (f.c(0.0), f.c(1.0), f.c(f64::INFINITY));
    let (ax, ay) = (f.abs(x), f.abs(y));
    let steep = ax.lt(&ay);
    let (over, under) = (steep.select(&ax, &ay), steep.select(&ay, &ax));
    // 0/0 is 0 here, inf/inf is 1, a finite number over infinity 0, NaN itself
    let infinite = under.eq_(&inf);
    let over = infinite.select(&over.eq_(&inf).select(&one, &(&over * &zero)), &over);
    let under = infinite.or_(&under.eq_(&zero)).select(&one, &under);
    // where what is left of the division would be below the normal range
    let up = under.lt(&f.exp2(-2 * f.man)).select(&f.exp2(3 * f.man), &one);
    let (over, under) = (over * &up, under * up);
    let q = over.bin(Alu::Fdiv, &under);
    let lost = fma(&q.un(Alu::Neg), &under, &over).bin(Alu::Fdiv, &under);
    let (tail, z) = f.odd_tail(&q, f.pick(&ATAN_F32[..], &ATAN_F64[..]));
    // the slope 1 / (1 + z), roughly: it is for the last digits
    let slope = f.poly(&z, &[0.992, -0.84, 0.35]);
    let left = f.bits(x).lt(&f.i(0));
    let Pair(quarter, quarter_low) = half_pi(f);
    let base = |quarter: &UOp| steep.select(quarter, &left.select(&(quarter + quarter), &zero));
    let turned = steep.ne_(&left);
    let sign = turned.select(&f.c(-1.0), &one);
    let Pair(high, low) = Pair::sum(&base(&quarter), &(q * &sign));
    // what is far below the last place first, so that it rounds nothing off
    let least = fma(&(lost * slope), &sign, &(low + base(&quarter_low)));
    let value = high + fma(&tail, &sign, &least);
    Some(f.with_sign_of(&value, y))
}
