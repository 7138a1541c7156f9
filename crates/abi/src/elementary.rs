//! Elementary functions of doubles; those that the standard library does not have are written here.

use crate::Alu;
use std::f64::consts as c;

/// A function of one number; of what is none, the number.
pub fn unary(op: Alu, x: f64) -> f64 {
    match op {
        Alu::Recip | Alu::RecipNear => 1.0 / x,
        Alu::Sqrt => x.sqrt(),
        Alu::Rsqrt => 1.0 / x.sqrt(),
        Alu::Exp2 | Alu::Exp2Near => x.exp2(),
        Alu::Log2 => x.log2(),
        Alu::Exp => x.exp(),
        Alu::Log => x.ln(),
        Alu::Sin => x.sin(),
        Alu::Cos => x.cos(),
        Alu::Tan => x.tan(),
        Alu::Asin => x.asin(),
        Alu::Acos => x.acos(),
        Alu::Sinh => x.sinh(),
        Alu::Cosh => x.cosh(),
        Alu::Tanh => x.tanh(),
        Alu::Expm1 => x.exp_m1(),
        Alu::Log1p => x.ln_1p(),
        Alu::Log10 => x.log10(),
        Alu::Sigmoid => sigmoid(x),
        Alu::Erf => erf(x),
        Alu::Erfc => erfc(x),
        Alu::Trunc => x.trunc(),
        Alu::Floor => x.floor(),
        Alu::Round => x.round_ties_even(),
        _ => x,
    }
}

/// `1 / (1 + exp(-x))`, by the exponential that does not overflow.
pub fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// The error function.
pub fn erf(x: f64) -> f64 {
    if x.abs() < 1.0 {
        return series(x);
    }
    (1.0 - fraction(x.abs())).copysign(x)
}

/// `1 - erf(x)`, without cancelling.
pub fn erfc(x: f64) -> f64 {
    if x.abs() < 0.5 {
        return 1.0 - series(x);
    }
    if x < 0.0 { 2.0 - fraction(-x) } else { fraction(x) }
}

/// `2/sqrt(pi) * (x - x^3/3 + x^5/(2! 5) - …)`.
fn series(x: f64) -> f64 {
    let (mut power, mut sum, mut n) = (x, 0.0, 0.0);
    let mut terms = vec![];
    while power.abs() > x.abs() * 1e-18 {
        terms.push(power / (2.0 * n + 1.0));
        n += 1.0;
        power *= -x * x / n;
    }
    for t in terms.into_iter().rev() {
        sum += t;
    }
    if sum == 0.0 { x * c::FRAC_2_SQRT_PI } else { sum * c::FRAC_2_SQRT_PI }
}

/// erfc of 1/2 and more: `exp(-x²)/sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …))))`.
fn fraction(x: f64) -> f64 {
    if x.is_nan() || x > 28.0 {
        return if x.is_nan() { x } else { 0.0 };
    }
    let terms = (200.0 / (x * x)) as i32 + 30;
    let below = (1..=terms).rev().fold(x, |below, k| x + 0.5 * f64::from(k) / below);
    let square = x * x;
    let lost = x.mul_add(x, -square);
    let e = (-square).exp();
    (e - e * lost) * c::FRAC_2_SQRT_PI * 0.5 / below
}

/// Remainder with the sign of the divisor, from the exact one of C's `fmod`.
pub fn modulo(x: f64, y: f64) -> f64 {
    match x % y {
        r if r != 0.0 && (r < 0.0) != (y < 0.0) => r + y,
        0.0 => 0f64.copysign(y),
        r => r,
    }
}

/// `floor(x / y)` of the exact quotient, rounded once; by zero what `x / y` is, of an infinity NaN.
pub fn floor_div(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let r = x.abs() % y.abs();
    let q = ((x.abs() - r) / y.abs()).round_ties_even();
    match x.is_sign_negative() == y.is_sign_negative() {
        true => q,
        false => -(q + if r == 0.0 { 0.0 } else { 1.0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_and_erfc_at_known_places() {
        for (x, want) in [
            (1e-300, 1.1283791670955126e-300),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (3.5, 0.9999992569016276),
        ] {
            assert!((erf(x) / want - 1.0).abs() < 3e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        for (x, want) in
            [(0.75, 0.28884436634648486), (3.0, 2.209049699858544e-5), (10.0, 2.088487583762545e-45)]
        {
            assert!((erfc(x) / want - 1.0).abs() < 1e-15, "erfc({x}) = {}", erfc(x));
        }
        assert_eq!(
            (erf(f64::INFINITY), erfc(f64::NEG_INFINITY), erf(-0.0).is_sign_negative()),
            (1.0, 2.0, true)
        );
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    }
    #[test]
    fn float_division_floors_the_exact_quotient() {
        // 1 / 0.1 rounds to 10, but the double 0.1 is more than a tenth
        assert_eq!((floor_div(1.0, 0.1), (1.0f64 / 0.1).floor()), (9.0, 10.0));
        assert_eq!((floor_div(-7.0, 2.0), modulo(-7.0, 2.0), modulo(7.0, -2.0)), (-4.0, 1.0, -1.0));
        assert_eq!((floor_div(-1.0, f64::INFINITY), modulo(-1.0, f64::INFINITY)), (-1.0, f64::INFINITY));
        assert_eq!(modulo(1e300, 3.0), 1e300 % 3.0);
        assert!(modulo(1.0, 0.0).is_nan() && floor_div(1.0, 0.0).is_infinite());
    }
}
