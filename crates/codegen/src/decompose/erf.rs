//! `Erf` and `Erfc`.
//!
//! ```text
//! |x| < 7/8:  erf(x) = x + x p(x^2)                          else:  1 - erfc(1) exp(t p(t)), t = |x| - 1
//! erfc|x| = exp(-x^2) u p(u),  u = k / (|x| + k)            float64, |x| < 13/16:  1 - erf|x|
//! ```
//!
//! erf near 1 leaves the exponential little to say; for erfc it says everything, so -x^2 is reduced before it is rounded.

use super::exp::{exp_within, expm1_minus_square};
use super::lacks;
use super::real::{Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, DType, UOp, rules};

rules! { pub ERF(target: Target) for float;
    Erf(x) as n   if lacks(target, n)  => erf(x);
    Erfc(x) as n  if lacks(target, n)  => erfc(x);
}

/// `erf(x) = x + x (…)`, in x^2, for |x| <= 1.
const ERF_F32: [f64; 7] = [
    0.12837916612625122,
    -0.3761262595653534,
    0.11283578723669052,
    -0.026853347197175026,
    0.005187162198126316,
    -0.0007997853099368513,
    7.806903158780187e-05,
];
const ERF_F64: [f64; 15] = [
    0.1283791670955126,
    -0.37612638903184137,
    0.11283791670978502,
    -0.02686617065089776,
    0.005223977700502515,
    -0.0008548332909791504,
    0.00012055633083282609,
    -1.4936059643942858e-05,
    1.671414178720636e-06,
    -2.0669661309980982e-07,
    6.642836334205981e-08,
    -4.378222532905668e-08,
    2.3049079470429994e-08,
    -7.3025285073982045e-09,
    1.0361895553928402e-09,
];
/// `erf(x) = 1 - erfc(1) exp(t (…))`, t = x - 1, for x from 7/8 to where it is 1.
const ERF_FAR_F32: [f64; 6] = [
    -2.638967752456665,
    -0.8431066274642944,
    -0.04154922440648079,
    0.009973416104912758,
    -0.0018862540600821376,
    0.00020099908579140902,
];
const ERF_FAR_F64: [f64; 18] = [
    -2.6389675142347917,
    -0.8431072563584957,
    -0.041561098046438795,
    0.010033825435549412,
    -0.0019779030330554456,
    0.00023732470533989957,
    2.6270769334535806e-05,
    -2.71432810389062e-05,
    9.583588392272465e-06,
    -2.0301843247967534e-06,
    1.1733010250678671e-07,
    1.1387930204132382e-07,
    -5.972726065404503e-08,
    1.7536445252002607e-08,
    -3.494534243411575e-09,
    4.690633353156033e-10,
    -3.843144208571648e-11,
    1.4523150638120773e-12,
];
/// `exp(x^2) erfc(x) / u` in x u = 2 - 2 u, u = k / (x + k), k = 2: exact at zero.
const ERFC_F32: [f64; 10] = [
    1.0,
    -0.6283776164054871,
    0.12158995866775513,
    0.026675384491682053,
    -0.006905392277985811,
    -0.0015975674614310265,
    -0.0014709880342707038,
    0.000974064867477864,
    -7.630365871591493e-05,
    -2.0180892533971928e-05,
];
/// The same in 1 - 2 u, k = 3: so many terms must not cancel.
const ERFC_F64: [f64; 23] = [
    0.3580023023627799,
    -0.2944648177232945,
    0.19674278570136644,
    -0.10348908730019171,
    0.03984258709581378,
    -0.008942411541424016,
    -0.00040413887690714365,
    0.0010113539995006524,
    -0.0001827698834344505,
    -9.225927498298452e-05,
    3.585373482258441e-05,
    1.01326818871523e-05,
    -5.823127848580283e-06,
    -1.5829182525348834e-06,
    9.207503302784782e-07,
    3.325164098442873e-07,
    -1.3423382286431872e-07,
    -7.69656633795552e-08,
    1.3576119494190383e-08,
    1.576611100452039e-08,
    6.182848594265849e-10,
    -1.984117967894216e-09,
    -4.615227477863384e-10,
];

/// `|x| + |x| p(x^2)`.
fn near_zero(f: Real, abs: &UOp) -> UOp {
    fma(abs, &f.poly(&(abs * abs), f.pick(&ERF_F32[..], &ERF_F64[..])), abs)
}

fn erf(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (abs, one) = (f.abs(x), f.c(1.0));
    let t = abs.bin(Alu::Min, &f.c(f.pick(4.0, 6.0))) - &one;
    let e = exp_within(f, &(&t * f.poly(&t, f.pick(&ERF_FAR_F32[..], &ERF_FAR_F64[..]))));
    let far = fma(&f.c(-0.15729920705028513), &e, &one);
    let near = near_zero(f, &abs);
    Some(f.with_sign_of(&abs.lt(&f.c(0.875)).select(&near, &far), x))
}

fn erfc(x: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let (abs, one) = (f.abs(x), f.c(1.0));
    // the power is 0 there
    let inside = abs.bin(Alu::Min, &f.c(f.pick(11.506, 28.2456)));
    let (power, e, more) = expm1_minus_square(f, &inside);
    let u = f.reciprocal(&fma(&inside, &f.c(f.pick(1.0 / 2.0, 1.0 / 3.0)), &one));
    let v = f.pick(&inside * &u, fma(&u, &f.c(-2.0), &one));
    let down = f64::powi(2.0, -more as i32);
    let c = f.pick(&ERFC_F32[..], &ERFC_F64[..]).iter().map(|c| c * down);
    let p = &u * f.poly(&v, &c.collect::<Vec<_>>());
    let far = fma(&p, &e, &p) * power;
    // the many terms of float64 lose digits near zero
    let near = || abs.lt(&f.c(0.8125)).select(&(&one - near_zero(f, &abs)), &far);
    let value = if f.dtype == DType::F64 { near() } else { far };
    Some(x.lt(&f.c(0.0)).select(&(f.c(2.0) - &value), &value))
}
