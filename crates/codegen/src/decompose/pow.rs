//! `Pow`, of floats and of integers.
//!
//! ```text
//! x^y = exp(y * log x), the logarithm as a pair of floats        n^k = the product of n^(2^i) over the bits i of k
//! ```

use super::exp::{bound, exp_sum, ln2};
use super::lacks;
use super::log::split;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

rules! { pub POW(target: Target);
    Pow(x, y) as n  if lacks(target, n)  => if x.dtype.is_float() { power(x, y) } else { Some(int_power(x, y)) };
}

/// `log((1 + s) / (1 - s)) = 2s + 2/3 s^3 + s z^2 (…)`, z = s^2.
const TAIL_F32: [f64; 3] = [0.40000152587890625, 0.28547099232673645, 0.23419277369976044];
const TAIL_F64: [f64; 7] = [
    0.4000000000000225,
    0.28571428570102336,
    0.2222222251942333,
    0.18181784411089483,
    0.15386755303497185,
    0.13256864882708289,
    0.13195892799047626,
];

/// The logarithm of a positive finite number, to nearly twice the precision.
fn log_pair(f: Real, x: &UOp) -> Pair {
    let (e, m) = split(f, x);
    // s = m / (2 + m); the sum is exact as a pair, and so is the remainder of the division
    let two = f.c(2.0);
    let Pair(d, d_low) = Pair::sum(&two, &m);
    let s = m.bin(Alu::Fdiv, &d);
    let neg = s.un(Alu::Neg);
    let rest = fma(&neg, &d_low, &fma(&neg, &d, &m));
    let s = Pair(s, rest.bin(Alu::Fdiv, &d));
    let z = s.times(&s);
    let tail = &z.0 * f.poly(&z.0, f.pick(&TAIL_F32[..], &TAIL_F64[..]));
    let two_thirds =
        f.pick((0.6666666865348816, -1.9868215517249155e-08), (0.6666666666666666, 3.700743415417188e-17));
    let Pair(v, v_low) = Pair::sum(&f.c(two_thirds.0), &tail);
    let zv = z.times(&Pair(v, v_low + f.c(two_thirds.1)));
    let Pair(w, w_low) = Pair::sum(&two, &zv.0);
    let log_m = s.times(&Pair(w, w_low + zv.1));
    let (ln2_hi, ln2_lo) = ln2(f);
    let Pair(h, l) = Pair::sum(&(&e * ln2_hi), &log_m.0);
    Pair::sum(&h, &(fma(&e, &ln2_lo, &log_m.1) + l))
}

fn power(x: &UOp, y: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (zero, one, inf) = (f.c(0.0), f.c(1.0), f.c(f64::INFINITY));
    let abs = f.abs(x);
    let Pair(h, l) = log_pair(f, &abs);
    // the logarithms of 0, infinity and NaN
    let finite = zero.lt(&abs).and_(&abs.lt(&inf));
    let edge = abs.eq_(&zero).select(&f.c(f64::NEG_INFINITY), &abs);
    let (h, l) = (finite.select(&h, &edge), finite.select(&l, &zero));
    let p = y * &h;
    let p_low = fma(y, &l, &fma(y, &h, &p.un(Alu::Neg)));
    // beyond the bound the result is 0 or infinite, and the low part may be NaN
    let limit = f.c(bound(f));
    let clamped = p.bin(Alu::Max, &f.c(-bound(f))).bin(Alu::Min, &limit);
    let p_low = f.abs(&p).lt(&limit).select(&p_low, &zero);
    let magnitude = exp_sum(f, &clamped, &p_low);
    let magnitude = abs.eq_(&one).select(&one, &magnitude);
    // a negative base: whole exponents only, odd ones keep the sign
    let whole = y.un(Alu::Trunc).eq_(y);
    let half = y * f.c(0.5);
    let odd = whole.and_(&half.un(Alu::Trunc).ne_(&half));
    let sign = odd.select(&f.bits(x).and_(&f.i(-1 - f.int_max())), &f.i(0));
    let value = f.float(&f.bits(&magnitude).bin(Alu::Xor, &sign));
    let no_root = x.lt(&zero).and_(&abs.lt(&inf)).and_(&whole.un(Alu::Not));
    let value = no_root.select(&f.c(f64::NAN), &value);
    Some(y.eq_(&zero).or_(&x.eq_(&one)).select(&one, &value))
}

/// Squares and multiplies; a negative exponent gives the truncated reciprocal: 0, 1 or -1.
fn int_power(x: &UOp, y: &UOp) -> UOp {
    let (one, zero) = (x.const_like(1), x.const_like(0));
    let (mut result, mut square) = (one.clone(), x.clone());
    let most = y.bounds.1.max(0);
    let bits = 128 - most.leading_zeros();
    for i in 0..bits {
        let set = y.bin(Alu::Shr, &y.const_like(i as i64)).and_(&one).ne_(&zero);
        result = match y.as_int() {
            Some(k) if k >> i.min(63) & 1 == 1 => &result * &square,
            Some(_) => result,
            None => set.select(&(&result * &square), &result),
        };
        if i + 1 < bits {
            square = &square * &square;
        }
    }
    if y.bounds.0 >= 0 {
        return result;
    }
    let odd = y.and_(&one).ne_(&zero);
    let minus = x.const_like(-1);
    let unit = x.eq_(&minus).select(&odd.select(&minus, &one), &zero);
    let reciprocal = x.eq_(&one).select(&one, &unit);
    y.lt(&zero).select(&reciprocal, &result)
}
