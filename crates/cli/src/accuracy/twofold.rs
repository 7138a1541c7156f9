//! Numbers as sums of two doubles, about 106 bits, and the elementary functions on them: what float64 results are
//! measured by. Slow and plain.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `high + low`, the second below half a unit of the first.
#[derive(Clone, Copy, Debug)]
pub struct Twofold(pub f64, pub f64);

const LN2: Twofold = Twofold(std::f64::consts::LN_2, 2.3190468138462996e-17);
const LN10: Twofold = Twofold(std::f64::consts::LN_10, -2.1707562233822494e-16);
const HALF_PI: Twofold = Twofold(std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// What is left of pi/2 after the two doubles.
const HALF_PI_REST: f64 = -1.4973849048591698e-33;
const TWO_OVER_SQRT_PI: Twofold = Twofold(std::f64::consts::FRAC_2_SQRT_PI, 1.533545961316588e-17);

fn sum(a: f64, b: f64) -> Twofold {
    let s = a + b;
    let t = s - a;
    Twofold(s, (a - (s - t)) + (b - t))
}
fn product(a: f64, b: f64) -> Twofold {
    let p = a * b;
    Twofold(p, a.mul_add(b, -p))
}
fn tidy(Twofold(h, l): Twofold) -> Twofold {
    let s = h + l;
    Twofold(s, l - (s - h))
}

impl From<f64> for Twofold {
    fn from(x: f64) -> Twofold {
        Twofold(x, 0.0)
    }
}
impl Add for Twofold {
    type Output = Twofold;
    fn add(self, o: Twofold) -> Twofold {
        let s = sum(self.0, o.0);
        let t = sum(self.1, o.1);
        let s = tidy(Twofold(s.0, s.1 + t.0));
        tidy(Twofold(s.0, s.1 + t.1))
    }
}
impl Neg for Twofold {
    type Output = Twofold;
    fn neg(self) -> Twofold {
        Twofold(-self.0, -self.1)
    }
}
impl Sub for Twofold {
    type Output = Twofold;
    fn sub(self, o: Twofold) -> Twofold {
        self + -o
    }
}
impl Mul for Twofold {
    type Output = Twofold;
    fn mul(self, o: Twofold) -> Twofold {
        let p = product(self.0, o.0);
        tidy(Twofold(p.0, p.1 + (self.0 * o.1 + self.1 * o.0)))
    }
}
impl Div for Twofold {
    type Output = Twofold;
    fn div(self, o: Twofold) -> Twofold {
        let q = self.0 / o.0;
        let r = self - o * q.into();
        let q2 = r.0 / o.0;
        let r = r - o * q2.into();
        tidy(sum(q, q2)) + (r.0 / o.0).into()
    }
}

/// `1 + x/1 + x²/(1·2) + …` from term `first`, signs and steps as `next` says.
fn series(first: Twofold, mut next: impl FnMut(Twofold, f64) -> Twofold) -> Twofold {
    let (mut term, mut total, mut n) = (first, first, 0.0);
    while term.0.abs() > total.0.abs() * 1e-34 && n < 400.0 {
        n += 1.0;
        term = next(term, n);
        total = total + term;
    }
    total
}

impl Twofold {
    /// Times a power of two.
    fn scale(self, n: i32) -> Twofold {
        let half = n / 2;
        let (a, b) = (2f64.powi(half), 2f64.powi(n - half));
        Twofold(self.0 * a * b, self.1 * a * b)
    }
    /// The magnitude.
    pub fn abs(self) -> Twofold {
        if self.0 < 0.0 { -self } else { self }
    }
    /// Square root.
    pub fn sqrt(self) -> Twofold {
        if self.0 <= 0.0 || self.0.is_infinite() {
            return self.0.sqrt().into();
        }
        if self.0 < 1e-280 {
            return self.scale(200).sqrt().scale(-100);
        }
        let s: Twofold = self.0.sqrt().into();
        s + (self - s * s) / (s + s)
    }
    /// `exp(x) - 1`.
    pub fn expm1(self) -> Twofold {
        if self.0.abs() > 0.35 {
            return self.exp() - 1.0.into();
        }
        series(self, |t, n| t * self / (n + 1.0).into())
    }
    /// e to this.
    pub fn exp(self) -> Twofold {
        if self.0 > 710.0 || self.0.is_nan() {
            return (self.0 + f64::INFINITY).into();
        }
        if self.0 < -760.0 {
            return 0.0.into();
        }
        let n = (self.0 / LN2.0).round();
        let r = self - LN2 * n.into();
        (r.expm1() + 1.0.into()).scale(n as i32)
    }
    /// Natural logarithm, by two steps of Newton's method.
    pub fn log(self) -> Twofold {
        if !(self.0 > 0.0 && self.0.is_finite()) {
            return self.0.ln().into();
        }
        if (self.0 - 1.0).abs() < 0.3 {
            return (self - 1.0.into()).log1p();
        }
        // away from the ends of the range
        let n = match self.0 {
            x if x < 1e-290 => 1000,
            x if x > 1e290 => -1000,
            _ => 0,
        };
        let x = self.scale(n);
        let mut y: Twofold = x.0.ln().into();
        for _ in 0..2 {
            y = y + (x * (-y).exp() - 1.0.into());
        }
        y - LN2 * f64::from(n).into()
    }
    /// `log(1 + x)`.
    pub fn log1p(self) -> Twofold {
        if self.0.abs() > 0.35 || self.0.is_nan() {
            return (self + 1.0.into()).log();
        }
        let mut y: Twofold = self.0.ln_1p().into();
        for _ in 0..2 {
            let m = y.expm1();
            y = y + (self - m) / (m + 1.0.into());
        }
        y
    }
    /// Sine and cosine, for magnitudes up to about 1e6.
    fn sin_cos(self) -> (Twofold, Twofold) {
        let n = (self.0 / HALF_PI.0).round();
        let high = product(n, HALF_PI.0);
        let r = ((self - high) - product(n, HALF_PI.1)) - (n * HALF_PI_REST).into();
        let square = -(r * r);
        let sin = series(r, |t, n| t * square / (2.0 * n * (2.0 * n + 1.0)).into());
        let cos = series(1.0.into(), |t, n| t * square / ((2.0 * n - 1.0) * 2.0 * n).into());
        match n.rem_euclid(4.0) as i64 {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }
    /// Sine.
    pub fn sin(self) -> Twofold {
        self.sin_cos().0
    }
    /// Cosine.
    pub fn cos(self) -> Twofold {
        self.sin_cos().1
    }
    /// Tangent.
    pub fn tan(self) -> Twofold {
        let (s, c) = self.sin_cos();
        s / c
    }
    /// The angle of the point (x, this), near an estimate.
    pub fn atan2(self, x: Twofold) -> Twofold {
        let mut a: Twofold = self.0.atan2(x.0).into();
        if !(self.0.is_finite() && x.0.is_finite()) || self.0 == 0.0 {
            return a;
        }
        // the greater of the two to about 1
        let n = -(self.0.abs().max(x.0.abs()).log2() as i32);
        let (y, x) = (self.scale(n), x.scale(n));
        for _ in 0..2 {
            let (s, c) = a.sin_cos();
            a = a + (y * c - x * s) / (x * c + y * s);
        }
        a
    }
    /// Arc sine.
    pub fn asin(self) -> Twofold {
        self.atan2(((Twofold::from(1.0) - self) * (Twofold::from(1.0) + self)).sqrt())
    }
    /// Arc cosine.
    pub fn acos(self) -> Twofold {
        ((Twofold::from(1.0) - self) * (Twofold::from(1.0) + self)).sqrt().atan2(self)
    }
    /// Hyperbolic sine.
    pub fn sinh(self) -> Twofold {
        if self.0.abs() > 0.35 {
            let h = (self.abs() - LN2).exp();
            let value = h - Twofold::from(0.25) / h;
            return if self.0 < 0.0 { -value } else { value };
        }
        let square = self * self;
        series(self, |t, n| t * square / (2.0 * n * (2.0 * n + 1.0)).into())
    }
    /// Hyperbolic cosine.
    pub fn cosh(self) -> Twofold {
        let h = (self.abs() - LN2).exp();
        h + Twofold::from(0.25) / h
    }
    /// Hyperbolic tangent.
    pub fn tanh(self) -> Twofold {
        if self.0.abs() > 40.0 {
            return self.0.signum().into();
        }
        let m = (self + self).expm1();
        m / (m + 2.0.into())
    }
    /// Inverse hyperbolic sine.
    pub fn asinh(self) -> Twofold {
        let a = self.abs();
        let value = if a.0 > 1e18 {
            a.log() + LN2
        } else {
            let square = a * a;
            (a + square / ((square + 1.0.into()).sqrt() + 1.0.into())).log1p()
        };
        if self.0 < 0.0 { -value } else { value }
    }
    /// Inverse hyperbolic cosine.
    pub fn acosh(self) -> Twofold {
        if self.0 > 1e18 {
            return self.log() + LN2;
        }
        let t = self - 1.0.into();
        (t + (t * (t + 2.0.into())).sqrt()).log1p()
    }
    /// Inverse hyperbolic tangent.
    pub fn atanh(self) -> Twofold {
        let a = self.abs();
        let value = ((a + a) / (Twofold::from(1.0) - a)).log1p() * 0.5.into();
        if self.0 < 0.0 { -value } else { value }
    }
    /// `1 / (1 + exp(-x))`.
    pub fn sigmoid(self) -> Twofold {
        let e = (-self.abs()).exp();
        let below = Twofold::from(1.0) + e;
        (if self.0 < 0.0 { e } else { 1.0.into() }) / below
    }
    /// The error function: a series without cancelling.
    pub fn erf(self) -> Twofold {
        if self.0.abs() > 6.5 || self.0.is_nan() {
            return if self.0.is_nan() { self } else { self.0.signum().into() };
        }
        let square = self * self;
        let total = series(self, |t, n| t * square * 2.0.into() / (2.0 * n + 1.0).into());
        TWO_OVER_SQRT_PI * (-square).exp() * total
    }
    /// `1 - erf(x)`: from erf below 2, a continued fraction beyond.
    pub fn erfc(self) -> Twofold {
        if self.0 < 2.0 || self.0.is_nan() {
            return Twofold::from(1.0) - self.erf();
        }
        if self.0 > 28.0 {
            return 0.0.into();
        }
        let terms = (1500.0 / (self.0 * self.0)) as i32 + 60;
        let below = (1..=terms).rev().fold(self, |b, k| self + Twofold::from(0.5 * f64::from(k)) / b);
        (-(self * self)).exp() * TWO_OVER_SQRT_PI * 0.5.into() / below
    }
    /// This to a power, of positive numbers.
    pub fn pow(self, y: Twofold) -> Twofold {
        (self.log() * y).exp()
    }
    /// 2 to this.
    pub fn exp2(self) -> Twofold {
        (self * LN2).exp()
    }
    /// Logarithm to base 2.
    pub fn log2(self) -> Twofold {
        self.log() / LN2
    }
    /// Logarithm to base 10.
    pub fn log10(self) -> Twofold {
        self.log() / LN10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values to 32 digits, as the double and what is left.
    #[test]
    fn known_to_thirty_digits() {
        let near = |got: Twofold, high: f64, low: f64| {
            let off = ((got.0 - high) + (got.1 - low)).abs() / high.abs();
            assert!(off < 1e-29, "{got:?}, not {high:e} + {low:e}");
        };
        near(Twofold::from(1.0).exp(), std::f64::consts::E, 1.4456468917292502e-16);
        near(Twofold::from(2.0).log(), LN2.0, LN2.1);
        near(Twofold::from(10.0).log(), LN10.0, LN10.1);
        near(Twofold::from(2.0).sqrt(), std::f64::consts::SQRT_2, -9.667293313452913e-17);
        near(Twofold::from(1.0).atan2(0.0.into()), HALF_PI.0, HALF_PI.1);
        near(Twofold::from(1e-9).erf() * 1e9.into(), TWO_OVER_SQRT_PI.0, 8.523658351864667e-17);
        let x = Twofold::from(0.7);
        let one = x.sin() * x.sin() + x.cos() * x.cos();
        near(one, 1.0, 0.0);
        near(x.sinh().asinh(), 0.7, 0.0);
        near(x.tan().atan2(1.0.into()), 0.7, 0.0);
        near(x.erf() + x.erfc(), 1.0, 0.0);
        let (a, b) = (Twofold::from(2.0).erfc(), Twofold::from(1.0) - Twofold::from(2.0).erf());
        assert!(((a - b).0 / a.0).abs() < 1e-28);
    }
}
