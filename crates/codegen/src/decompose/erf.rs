//! `Erf` and `Erfc`.
//!
//! ```text
//! |x| < 7/8:  erf(x) = x + x p(x^2)                          else:  1 - erfc(1) exp(t p(t)), t = |x| - 1
//! |x| >= 0.8: erfc|x| = exp(-x^2) k p((|x| - k) / (|x| + k)) / (|x| + k)      else:  1 - erf(x)
//! ```
//!
//! erf near 1 leaves the exponential little to say; for erfc it says everything, so x^2 is a pair there.

use super::exp::{exp_pair, exp_within, scale};
use super::lacks;
use super::real::{Pair, Real, fma};
use frit_abi::Target;
use frit_uop::{Alu, UOp, rules};

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
/// `erfc(x) = exp(-x^2) k / (x + k) (…)`, in (x - k) / (x + k), k = 2, for x of at least 1/2.
const ERFC_F32: [f64; 9] = [
    0.5107913613319397,
    -0.34358033537864685,
    0.13973554968833923,
    -0.018220819532871246,
    -0.010747374035418034,
    0.003235544078052044,
    0.0015014925738796592,
    -0.0004017072496935725,
    -0.00023612035147380084,
];
/// The same, k = 3.
const ERFC_F64: [f64; 22] = [
    0.3580023023627799,
    -0.2944648177232945,
    0.19674278570136738,
    -0.1034890873001881,
    0.03984258709575631,
    -0.008942411541530594,
    -0.00040413887555783913,
    0.0010113540009628625,
    -0.0001827698996491438,
    -9.22592861009109e-05,
    3.5853848573455566e-05,
    1.0132732771956702e-05,
    -5.823626102497034e-06,
    -1.5830623911681362e-06,
    9.221529859602841e-07,
    3.3276457151316706e-07,
    -1.3676628728234107e-07,
    -7.720507729941495e-08,
    1.6398951558855455e-08,
    1.586811156620674e-08,
    -1.1382353484415892e-09,
    -1.987987322339508e-09,
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
    // 0 beyond
    let inside = abs.bin(Alu::Min, &f.c(f.pick(11.0, 28.0)));
    let Pair(square, lost) = Pair::product(&inside, &inside);
    let (t, Pair(high, low)) = exp_pair(f, &square.un(Alu::Neg));
    let low = fma(&high, &lost.un(Alu::Neg), &low);
    let k = f.c(f.pick(2.0, 3.0));
    let inverse = f.reciprocal(&(&inside + &k));
    let q = (&inside - &k) * &inverse;
    let p = f.poly(&q, f.pick(&ERFC_F32[..], &ERFC_F64[..])) * k * inverse;
    let far = scale(f, &fma(&high, &p, &(low * &p)), &t);
    let value = abs.lt(&f.c(0.8125)).select(&(&one - near_zero(f, &abs)), &far);
    Some(x.lt(&f.c(0.0)).select(&(f.c(2.0) - &value), &value))
}
