//! The elementary functions and activations: how a tensor computes each, what it should be, how far off it may be.

use super::twofold::Twofold;
use frit::Tensor;

/// A function of one number, or of two.
#[derive(Clone, Copy)]
pub enum Kind {
    /// By a tensor, in double precision, and with twice its digits where float64 is measured.
    One(fn(&Tensor) -> Tensor, fn(f64) -> f64, Option<fn(Twofold) -> Twofold>),
    /// The same, of two.
    Two(fn(&Tensor, &Tensor) -> Tensor, fn(f64, f64) -> f64, Option<fn(Twofold, Twofold) -> Twofold>),
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Function {
    /// As a method of `Tensor`.
    pub name: &'static str,
    /// What it computes.
    pub kind: Kind,
    /// The greatest error in float32, in units in the last place.
    pub single: f64,
    /// Below this many times the least normal number errors are counted as if the result were that large: in a product
    /// x f(x), what f loses below the normal range is magnified.
    pub floor: f64,
    /// The same in float64; the reference's own half unit is in it for sines of arguments beyond 1e6.
    pub double: f64,
}

const fn one(
    name: &'static str,
    f: fn(&Tensor) -> Tensor,
    near: fn(f64) -> f64,
    exact: Option<fn(Twofold) -> Twofold>,
    single: f64,
    double: f64,
) -> Function {
    Function { name, kind: Kind::One(f, near, exact), single, double, floor: 1.0 }
}
const fn two(
    name: &'static str,
    f: fn(&Tensor, &Tensor) -> Tensor,
    near: fn(f64, f64) -> f64,
    exact: Option<fn(Twofold, Twofold) -> Twofold>,
    single: f64,
    double: f64,
) -> Function {
    Function { name, kind: Kind::Two(f, near, exact), single, double, floor: 1.0 }
}

/// Every function with a bound. Those of composed activations are for float32; float64 is measured where there is a
/// reference with more digits. `gelu` rounds its argument over sqrt(2), which counts x² times far below zero.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    one("sqrt",       |x| x.sqrt(),       f64::sqrt,              Some(|x| x.0.sqrt().into()), 0.5, 0.0),
    one("rsqrt",      |x| x.rsqrt(),      |x| 1.0 / x.sqrt(),     Some(|x| Twofold::from(1.0) / x.sqrt()), 0.51, 1.0),
    one("reciprocal", |x| x.reciprocal(), |x| 1.0 / x,            Some(|x| (1.0 / x.0).into()), 0.5, 0.0),
    one("exp",        |x| x.exp(),        f64::exp,               Some(|x| x.exp()),     1.0, 1.0),
    one("exp2",       |x| x.exp2(),       f64::exp2,              Some(|x| x.exp2()),    1.0, 1.0),
    one("expm1",      |x| x.expm1(),      f64::exp_m1,            Some(|x| x.expm1()),   1.0, 1.0),
    one("log",        |x| x.log(),        f64::ln,                Some(|x| x.log()),     1.0, 1.0),
    one("log2",       |x| x.log2(),       f64::log2,              Some(|x| x.log2()),    1.0, 1.0),
    one("log10",      |x| x.log10(),      f64::log10,             Some(|x| x.log10()),   1.0, 1.0),
    one("log1p",      |x| x.log1p(),      f64::ln_1p,             Some(|x| x.log1p()),   1.0, 1.0),
    one("sin",        |x| x.sin(),        f64::sin,               Some(|x| far(x, Twofold::sin, f64::sin)), 1.0, 1.5),
    one("cos",        |x| x.cos(),        f64::cos,               Some(|x| far(x, Twofold::cos, f64::cos)), 1.0, 1.5),
    one("tan",        |x| x.tan(),        f64::tan,               Some(|x| far(x, Twofold::tan, f64::tan)), 1.0, 1.5),
    one("asin",       |x| x.asin(),       f64::asin,              Some(|x| x.asin()),    1.0, 1.0),
    one("acos",       |x| x.acos(),       f64::acos,              Some(|x| x.acos()),    1.0, 1.0),
    one("atan",       |x| x.atan(),       f64::atan,              Some(|x| x.atan2(1.0.into())), 1.0, 1.5),
    one("sinh",       |x| x.sinh(),       f64::sinh,              Some(|x| x.sinh()),    1.0, 1.0),
    one("cosh",       |x| x.cosh(),       f64::cosh,              Some(|x| x.cosh()),    1.0, 1.0),
    one("tanh",       |x| x.tanh(),       f64::tanh,              Some(|x| x.tanh()),    1.0, 1.0),
    one("asinh",      |x| x.asinh(),      asinh,                  Some(|x| x.asinh()),   2.0, 2.0),
    one("acosh",      |x| x.acosh(),      acosh,                  Some(|x| x.acosh()),   4.0, 4.0),
    one("atanh",      |x| x.atanh(),      f64::atanh,             Some(|x| x.atanh()),   2.0, 2.0),
    one("erf",        |x| x.erf(),        erf,                    Some(|x| x.erf()),     1.0, 1.5),
    one("erfc",       |x| x.erfc(),       erfc,                   Some(|x| x.erfc()),    5.0, 6.0),
    one("sigmoid",    |x| x.sigmoid(),    sigmoid,                Some(|x| x.sigmoid()), 1.0, 1.0),
    one("softplus",   |x| x.softplus(),   softplus,               None,                  2.0, 0.0),
    one("logsigmoid", |x| x.logsigmoid(), |x| -softplus(-x),      None,                  2.0, 0.0),
    one("softsign",   |x| x.softsign(),   |x| if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }, None, 2.0, 0.0),
    Function { floor: 256.0, ..one("silu", |x| x.silu(), |x| gated(x, sigmoid), None, 2.0, 0.0) },
    Function { floor: 256.0, ..one("mish", |x| x.mish(), |x| gated(x, |x| softplus(x).tanh()), None, 4.0, 0.0) },
    Function { floor: 256.0, ..one("gelu", |x| x.gelu(), |x| gated(x, |x| 0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)), None, 200.0, 0.0) },
    one("elu",        |x| x.elu(1.0),     |x| if x > 0.0 { x } else { x.exp_m1() }, None, 1.0, 0.0),
    two("atan2",      |y, x| y.atan2(x),  f64::atan2,             Some(|y, x| y.atan2(x)), 1.0, 1.5),
    two("pow",        |x, y| x.pow(y),    f64::powf,              Some(Twofold::pow),    1.0, 1.0),
    two("div",        |x, y| x.div(y),    |x, y| x / y,           Some(|x, y| (x.0 / y.0).into()), 0.5, 0.0),
    two("fmod",       |x, y| x.fmod(y),   |x, y| x % y,           Some(|x, y| (x.0 % y.0).into()), 0.0, 0.0),
];

/// Beyond where pi is known well enough here, by the standard library.
fn far(x: Twofold, near: fn(Twofold) -> Twofold, beyond: fn(f64) -> f64) -> Twofold {
    if x.0.abs() < 1e6 { near(x) } else { beyond(x.0).into() }
}
/// `x f(x)`, whose limit at minus infinity is zero.
fn gated(x: f64, f: fn(f64) -> f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * f(x) }
}
fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}
fn softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) + (-x.abs()).exp().ln_1p() }
}
fn erf(x: f64) -> f64 {
    if x == 0.0 { x } else { Twofold::from(x).erf().0 }
}
fn erfc(x: f64) -> f64 {
    Twofold::from(x).erfc().0
}
/// The standard library's overflows.
fn asinh(x: f64) -> f64 {
    if x.abs() > 1e9 { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}
/// The standard library's is poor near 1.
fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x < 1.0 {
        f64::NAN
    } else if x > 1e9 {
        x.ln() + std::f64::consts::LN_2
    } else {
        (t + (t * (t + 2.0)).sqrt()).ln_1p()
    }
}
