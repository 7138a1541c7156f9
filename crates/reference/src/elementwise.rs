//! Elementwise ops: one table of unary functions, one of binary ones, and the few with more arguments.
//!
//! Truth is 1.0 and false 0.0. Integers are held exactly in float64; their wrapping and their division by
//! zero are not modelled.

use crate::array::{Array, broadcast_shapes};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

macro_rules! unary {
    ($($name:ident = $f:expr;)*) => {
        impl Array { $(
            #[doc = concat!("Elementwise `", stringify!($name), "`.")]
            pub fn $name(&self) -> Array { self.map($f) }
        )* }
        /// Every unary op by name.
        pub const UNARY: &[(&str, fn(f64) -> f64)] = &[$((stringify!($name), $f)),*];
    };
}

macro_rules! binary {
    ($($name:ident = $f:expr;)*) => {
        impl Array { $(
            #[doc = concat!("Elementwise `", stringify!($name), "` of two arrays, broadcast.")]
            pub fn $name(&self, other: &Array) -> Array { self.zip(other, $f) }
        )* }
        /// Every binary op by name.
        pub const BINARY: &[(&str, fn(f64, f64) -> f64)] = &[$((stringify!($name), $f)),*];
    };
}

unary! {
    neg         = |x| -x;
    abs         = f64::abs;
    sign        = |x| f64::from(x > 0.0) - f64::from(x < 0.0);
    floor       = f64::floor;
    ceil        = f64::ceil;
    trunc       = f64::trunc;
    round       = f64::round_ties_even;
    sqrt        = f64::sqrt;
    rsqrt       = |x| 1.0 / x.sqrt();
    reciprocal  = |x| 1.0 / x;
    square      = |x| x * x;
    exp         = f64::exp;
    exp2        = f64::exp2;
    expm1       = f64::exp_m1;
    log         = f64::ln;
    log2        = f64::log2;
    log10       = f64::log10;
    log1p       = f64::ln_1p;
    sin         = f64::sin;
    cos         = f64::cos;
    tan         = f64::tan;
    asin        = f64::asin;
    acos        = f64::acos;
    atan        = f64::atan;
    sinh        = f64::sinh;
    cosh        = f64::cosh;
    tanh        = f64::tanh;
    asinh       = f64::asinh;
    acosh       = f64::acosh;
    atanh       = f64::atanh;
    erf         = erf;
    erfc        = erfc;
    sigmoid     = sigmoid;
    logsigmoid  = |x| -softplus(-x);
    softplus    = softplus;
    softsign    = |x| x / (1.0 + x.abs());
    relu        = |x| if x <= 0.0 { 0.0 } else { x };
    relu6       = |x| clamp(x, 0.0, 6.0);
    hardtanh    = |x| clamp(x, -1.0, 1.0);
    hardsigmoid = |x| clamp(x + 3.0, 0.0, 6.0) / 6.0;
    hardswish   = |x| x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
    selu        = |x| 1.0507009873554805 * elu(x, 1.6732632423543772);
    gelu        = |x| 0.5 * x * erfc(-x * FRAC_1_SQRT_2);
    gelu_tanh   = |x| x * sigmoid(2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x));
    quick_gelu  = |x| x * sigmoid(1.702 * x);
    silu        = |x| x * sigmoid(x);
    mish        = |x| x * softplus(x).tanh();
    isnan       = |x| f64::from(x.is_nan());
    isinf       = |x| f64::from(x.is_infinite());
    isfinite    = |x| f64::from(x.is_finite());
    logical_not = |x| f64::from(x == 0.0);
    bitwise_not = |x| !(x as i64) as f64;
}

binary! {
    add         = |x, y| x + y;
    sub         = |x, y| x - y;
    mul         = |x, y| x * y;
    div         = |x, y| x / y;
    floor_div   = |x, y| (x / y).floor();
    modulo      = modulo;
    fmod        = |x, y| x % y;
    pow         = f64::powf;
    maximum     = |x, y| if x.is_nan() || x > y { x } else { y };
    minimum     = |x, y| if x.is_nan() || x < y { x } else { y };
    atan2       = f64::atan2;
    copysign    = f64::copysign;
    logaddexp   = |x, y| if x == y { x + 2f64.ln() } else { x.max(y) + (-(x - y).abs()).exp().ln_1p() };
    eq          = |x, y| f64::from(x == y);
    ne          = |x, y| f64::from(x != y);
    lt          = |x, y| f64::from(x < y);
    le          = |x, y| f64::from(x <= y);
    gt          = |x, y| f64::from(x > y);
    ge          = |x, y| f64::from(x >= y);
    logical_and = |x, y| f64::from(x != 0.0 && y != 0.0);
    logical_or  = |x, y| f64::from(x != 0.0 || y != 0.0);
    logical_xor = |x, y| f64::from((x != 0.0) != (y != 0.0));
    bitwise_and = |x, y| (x as i64 & y as i64) as f64;
    bitwise_or  = |x, y| (x as i64 | y as i64) as f64;
    bitwise_xor = |x, y| (x as i64 ^ y as i64) as f64;
    shl         = |x, y| ((x as i64) << y as u32) as f64;
    shr         = |x, y| (x as i64 >> y as u32) as f64;
}

impl Array {
    /// `a` where `self` is not zero, `b` elsewhere; all three broadcast.
    pub fn where_(&self, a: &Array, b: &Array) -> Array {
        let shape = broadcast_shapes(&self.shape, &broadcast_shapes(&a.shape, &b.shape));
        let pick = |i: &[usize]| if self.at_broadcast(i) != 0.0 { a } else { b };
        Array::from_fn(&shape, |i| pick(i).at_broadcast(i))
    }

    /// Limit to `low ..= high`; NaN stays.
    pub fn clamp(&self, low: f64, high: f64) -> Array {
        self.map(|x| clamp(x, low, high))
    }

    /// `self + weight * (end - self)`.
    pub fn lerp(&self, end: &Array, weight: &Array) -> Array {
        self.add(&end.sub(self).mul(weight))
    }

    /// `x` for positive `x`, `slope * x` otherwise.
    pub fn leaky_relu(&self, slope: f64) -> Array {
        self.map(|x| if x > 0.0 { x } else { slope * x })
    }

    /// `x` for positive `x`, `alpha * (exp(x) - 1)` otherwise.
    pub fn elu(&self, alpha: f64) -> Array {
        self.map(|x| elu(x, alpha))
    }

    /// Like `elu`, with `alpha` also dividing `x`, so that the slope is continuous.
    pub fn celu(&self, alpha: f64) -> Array {
        self.map(|x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() })
    }

    /// Nearest float16 of every element.
    pub fn to_f16(&self) -> Array {
        self.map(round_to_f16)
    }

    /// Nearest bfloat16 of every element.
    pub fn to_bf16(&self) -> Array {
        self.map(round_to_bf16)
    }

    /// Cast to an integer type with bounds `low ..= high`: truncate, saturate, NaN gives 0.
    pub fn to_int(&self, low: f64, high: f64) -> Array {
        self.map(|x| if x.is_nan() { 0.0 } else { x.trunc().clamp(low, high) + 0.0 })
    }
}

fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// Python's `%`: the result has the sign of the divisor.
fn modulo(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}

fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x > 0.0 { x } else { alpha * x.exp_m1() }
}

/// The error function, to about 1e-15: `2/sqrt(pi) * integral of exp(-t²) from 0 to x`.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x < 0.0 {
        -erf(-x)
    } else if x < 2.5 {
        erf_series(x)
    } else {
        1.0 - erfc_fraction(x)
    }
}

/// `1 - erf(x)` without cancellation for large `x`, to a relative error of about 1e-13.
pub fn erfc(x: f64) -> f64 {
    if x < 2.5 { 1.0 - erf(x) } else { erfc_fraction(x) }
}

/// `2/sqrt(pi) * exp(-x²) * sum of 2^n x^(2n+1) / (1·3·…·(2n+1))`: all terms positive, none cancel.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-18 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// `exp(-x²)/sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …))))`, for `x` of 2 and more.
fn erfc_fraction(x: f64) -> f64 {
    if x.is_nan() || x > 30.0 {
        return if x.is_nan() { x } else { 0.0 };
    }
    let below = (1..=120).rev().fold(x, |below, k| x + 0.5 * f64::from(k) / below);
    (-x * x).exp() / (PI.sqrt() * below)
}

/// Nearest float16, ties to even; too large becomes infinite.
pub fn round_to_f16(x: f64) -> f64 {
    round_to_float(x, 10, -14, 65504.0)
}

/// Nearest bfloat16, ties to even; too large becomes infinite.
pub fn round_to_bf16(x: f64) -> f64 {
    round_to_float(x, 7, -126, f64::from(f32::from_bits(0x7f7f_0000)))
}

/// Nearest number with `mantissa` stored bits, subnormal below `2^min_exp`, infinite above `max`.
pub fn round_to_float(x: f64, mantissa: i32, min_exp: i32, max: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let unit = 2f64.powi(exponent.max(min_exp) - mantissa);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() > max { f64::INFINITY.copysign(x) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(data: &[f64]) -> Array {
        Array::new(&[data.len()], data)
    }

    #[test]
    fn erf_matches_known_values() {
        // Abramowitz and Stegun, and mpmath for the tails
        let known = [
            (0.0, 0.0),
            (1e-8, 1.1283791670955126e-8),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.0, 0.9953222650189527),
            (2.6, 0.9997639655834707),
            (3.5, 0.9999992569016276),
        ];
        for (x, want) in known {
            assert!((erf(x) - want).abs() <= 2e-15 * want.abs(), "erf({x}) = {} not {want}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        for (x, want) in
            [(3.0, 2.209049699858544e-5), (5.0, 1.537_459_794_428_035e-12), (10.0, 2.088487583762545e-45)]
        {
            assert!((erfc(x) / want - 1.0).abs() < 1e-13, "erfc({x}) = {} not {want}", erfc(x));
        }
        assert_eq!((erf(f64::INFINITY), erfc(f64::NEG_INFINITY)), (1.0, 2.0));
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn rounding_goes_to_even() {
        assert_eq!(row(&[0.5, 1.5, 2.5, -0.5, -1.5]).round().data, [0., 2., 2., 0., -2.]);
    }

    #[test]
    fn floor_division_and_modulo_follow_python() {
        let (x, y) = (row(&[7., -7., 7., -7.]), row(&[3., 3., -3., -3.]));
        assert_eq!(x.floor_div(&y).data, [2., -3., -3., 2.]);
        assert_eq!(x.modulo(&y).data, [1., 2., -2., -1.]);
        assert_eq!(x.fmod(&y).data, [1., -1., 1., -1.]);
    }

    #[test]
    fn nan_passes_through_maximum_clamp_and_relu() {
        let nan = row(&[f64::NAN]);
        assert!(nan.maximum(&row(&[1.])).item().is_nan());
        assert!(row(&[1.]).maximum(&nan).item().is_nan());
        assert!(row(&[1.]).minimum(&nan).item().is_nan());
        assert!(nan.clamp(0., 1.).item().is_nan());
        assert!(nan.relu().item().is_nan());
    }

    #[test]
    fn activations_survive_extremes() {
        let x = row(&[-1000., 0., 1000.]);
        assert_eq!(x.sigmoid().data, [0., 0.5, 1.]);
        assert_eq!(x.softplus().data, [0., 2f64.ln(), 1000.]);
        assert_eq!(x.silu().data, [0., 0., 1000.]);
        assert_eq!(x.gelu_tanh().data, [0., 0., 1000.]);
        assert_eq!(x.mish().data, [0., 0., 1000.]);
        assert_eq!(x.elu(2.0).data, [-2., 0., 1000.]);
        assert_eq!(x.leaky_relu(0.5).data, [-500., 0., 1000.]);
        assert_eq!(x.logaddexp(&x).data[1], 2f64.ln());
    }

    #[test]
    fn where_broadcasts_three_ways() {
        let cond = Array::new(&[2, 1], [1., 0.]);
        let out = cond.where_(&row(&[1., 2.]), &Array::scalar(9.0));
        assert_eq!(out, Array::new(&[2, 2], [1., 2., 9., 9.]));
    }

    #[test]
    fn small_floats_round_to_nearest_even() {
        assert_eq!(round_to_f16(2049.0), 2048.0);
        assert_eq!(round_to_f16(2051.0), 2052.0);
        assert_eq!(round_to_f16(65519.0), 65504.0);
        assert_eq!(round_to_f16(65520.0), f64::INFINITY);
        assert_eq!(round_to_f16(2f64.powi(-24) * 0.75), 2f64.powi(-24));
        assert_eq!(round_to_bf16(1.0 + 2f64.powi(-8)), 1.0);
        assert_eq!(round_to_bf16(-(1.0 + 3.0 * 2f64.powi(-8))), -(1.0 + 2f64.powi(-6)));
        assert_eq!(row(&[2.9, -2.9, 300., f64::NAN]).to_int(-128., 127.).data, [2., -2., 127., 0.]);
    }

    #[test]
    fn integers_are_exact() {
        let (x, y) = (row(&[-8., 5.]), row(&[1., 3.]));
        assert_eq!(x.shr(&y).data, [-4., 0.]);
        assert_eq!(x.shl(&y).data, [-16., 40.]);
        assert_eq!(x.bitwise_and(&y).data, [0., 1.]);
        assert_eq!(x.bitwise_not().data, [7., -6.]);
    }
}
