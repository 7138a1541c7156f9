//! Inverse trigonometric functions from a series on a small interval.

use crate::composite::{add, div, mul, neg, one, sub};
use crate::tensor::number;
use frit_uop::{Alu, DType, UOp};
use std::f64::consts as c;

/// Arc tangent: `|x| > 1` by the reciprocal, then two halvings of the angle, then the series.
pub(crate) fn atan(x: &UOp) -> UOp {
    let zero = x.const_like(0);
    let negative = x.lt(&zero);
    let a = negative.select(&neg(x), x);
    let big = one(x).lt(&a);
    let t = div(&big.select(&one(x), &a), &big.select(&a, &one(x)));
    // tan(v/2) = t / (1 + sqrt(1 + t²))
    let half = |t: &UOp| div(t, &add(&add(&mul(t, t), &one(x)).un(Alu::Sqrt), &one(x)));
    let t = half(&half(&t));
    let z = neg(&mul(&t, &t));
    let n = if x.dtype == DType::F64 { 12 } else { 6 };
    let series =
        (0..n).rev().fold(zero, |s, i| add(&mul(&s, &z), &number(4.0 / (2 * i + 1) as f64, x.dtype)));
    let v = mul(&t, &series);
    let v = big.select(&sub(&number(c::FRAC_PI_2, x.dtype), &v), &v);
    negative.select(&neg(&v), &v)
}

/// Arc sine: `atan(x / sqrt((1-x)(1+x)))`.
pub(crate) fn asin(x: &UOp) -> UOp {
    atan(&div(x, &mul(&sub(&one(x), x), &add(x, &one(x))).un(Alu::Sqrt)))
}

/// Arc cosine: `2 atan(sqrt((1-x)/(1+x)))`, exact near 1.
pub(crate) fn acos(x: &UOp) -> UOp {
    let q = div(&sub(&one(x), x), &add(x, &one(x)));
    mul(&atan(&q.un(Alu::Sqrt)), &x.const_like(2))
}

/// The angle of the point (x, y), in all four quadrants and on the axes, zeros by their signs.
pub(crate) fn atan2(y: &UOp, x: &UOp) -> UOp {
    let zero = x.const_like(0);
    let pi = number(c::PI, x.dtype);
    let minus = |v: &UOp| v.lt(&zero).or_(&v.eq_(&zero).and_(&v.un(Alu::Recip).lt(&zero)));
    let inf =
        |v: &UOp| v.eq_(&number(f64::INFINITY, v.dtype)).or_(&v.eq_(&number(f64::NEG_INFINITY, v.dtype)));
    let both = |p: &UOp, q: &UOp| p.and_(q);
    // a quotient of one where it would be 0/0 or inf/inf, each then set right below
    let special = both(&x.eq_(&zero), &y.eq_(&zero)).or_(&both(&inf(x), &inf(y)));
    // on the axis of y the sign of a zero x does not count
    let q = div(&special.select(&one(y), y), &special.select(&one(x), &x.eq_(&zero).select(&zero, x)));
    let a = atan(&q);
    let a = x.lt(&zero).select(&minus(y).select(&sub(&a, &pi), &add(&a, &pi)), &a);
    let at_zero = minus(x).select(&pi, &zero);
    let at_inf = minus(x).select(&number(0.75 * c::PI, x.dtype), &number(c::FRAC_PI_4, x.dtype));
    let magnitude = inf(x).select(&at_inf, &at_zero);
    special.select(&minus(y).select(&neg(&magnitude), &magnitude), &a)
}
