//! The gradients of a node's sources from its own, as tables: `x y z` are the sources, `n` the node, `g` its gradient.
//!
//! A row gives a node for each source that is a float, in order: one, a list of them, or [`ZERO`] for a source that the
//! node does not follow.

use super::{axes, rows};
use crate::composite::{add, div, mul, neg, one, sub};
use crate::error::{Result, fail};
use crate::tensor::number;
use frit_abi::sync::LazyLock;
use frit_uop::rules::{IntoRewrite, Matcher};
use frit_uop::{Alu, UOp, rules};
use smallvec::{SmallVec, smallvec};
use std::f64::consts as c;

/// For each source of a node that is a float: its gradient; `None` where it is zero.
pub(super) type Grads = SmallVec<[Option<UOp>; 3]>;

/// What a row gives.
struct Found(Result<Grads>);

/// Rounding: the slope is zero everywhere.
const ZERO: Zero = Zero;
struct Zero;

impl IntoRewrite<Found> for UOp {
    fn into_rewrite(self) -> Option<Found> {
        [self].into_rewrite()
    }
}
impl IntoRewrite<Found> for Zero {
    fn into_rewrite(self) -> Option<Found> {
        Some(Found(Ok(smallvec![None, None])))
    }
}
impl<const N: usize> IntoRewrite<Found> for [UOp; N] {
    fn into_rewrite(self) -> Option<Found> {
        Some(Found(Ok(self.into_iter().map(Some).collect())))
    }
}
impl IntoRewrite<Found> for Result<Grads> {
    fn into_rewrite(self) -> Option<Found> {
        Some(Found(self))
    }
}
impl IntoRewrite<Found> for Result<UOp> {
    fn into_rewrite(self) -> Option<Found> {
        Some(Found(self.map(|g| smallvec![Some(g)])))
    }
}

rules! {
    /// Arithmetic, casts, choices.
    ARITHMETIC(g: UOp) -> Found;
    Add(_, _)                   => [g.clone(), g.clone()];
    Sub(_, _)                   => [g.clone(), neg(g)];
    Mul(x, y)                   => [mul(g, y), mul(g, x)];
    Fdiv(_, y) as n             => [div(g, y), neg(&div(&mul(g, n), y))];
    MulAcc(x, y, _)             => [mul(g, y), mul(g, x), g.clone()];
    Neg(_)                      => neg(g);
    (Trunc|Floor|Round)(_)      => ZERO;
    (Idiv|Tdiv)(_, _)           => ZERO;
    Mod(x, y)                   => [g.clone(), neg(&mul(g, &x.bin(Alu::Idiv, y)))];
    Max(x, y)                   => tie(g, x, y, |a, b| a.lt(b));
    Min(x, y)                   => tie(g, x, y, |a, b| b.lt(a));
    Where(p, _, _)              => [p.select(g, &g.const_like(0)), p.select(&g.const_like(0), g)];
    Cast(x)                     => g.cast(x.dtype);
    Copy(x)                     => x.device().map_or(g.clone(), |d| g.copy_to(&d));
}

rules! {
    /// Elementary functions.
    FUNCTIONS(g: UOp) -> Found;
    Recip(_) as n               => neg(&mul(g, &mul(n, n)));
    Sqrt(_) as n                => div(g, &add(n, n));
    Rsqrt(_) as n               => mul(&mul(g, &number(-0.5, n.dtype)), &mul(n, &mul(n, n)));
    Exp(_) as n                 => mul(g, n);
    Exp2(_) as n                => mul(&mul(g, n), &number(c::LN_2, n.dtype));
    Expm1(x)                    => mul(g, &x.un(Alu::Exp));
    Log(x)                      => div(g, x);
    Log2(x)                     => div(g, &mul(x, &number(c::LN_2, x.dtype)));
    Log10(x)                    => div(g, &mul(x, &number(c::LN_10, x.dtype)));
    Log1p(x)                    => div(g, &add(x, &one(x)));
    Sin(x)                      => mul(g, &x.un(Alu::Cos));
    Cos(x)                      => neg(&mul(g, &x.un(Alu::Sin)));
    Tan(_) as n                 => mul(g, &add(&mul(n, n), &one(n)));
    Asin(x)                     => div(g, &away_from_one(x));
    Acos(x)                     => neg(&div(g, &away_from_one(x)));
    Sinh(x)                     => mul(g, &x.un(Alu::Cosh));
    Cosh(x)                     => mul(g, &x.un(Alu::Sinh));
    Tanh(_) as n                => mul(g, &sub(&one(n), &mul(n, n)));
    Sigmoid(_) as n             => mul(g, &mul(n, &sub(&one(n), n)));
    Erf(x)                      => mul(g, &bell(x));
    Erfc(x)                     => neg(&mul(g, &bell(x)));
    Pow(_, _) as n              => power(n, g);
    Atan2(_, _) as n            => angle(n, g);
}

rules! {
    /// What is no function of one element.
    TENSORS(g: UOp) -> Found;
    ReduceAxis(_) as n          => axes::reduce(n, g);
    ScanAxis(_) as n            => axes::scan(n, g);
    Gather(..) as n             => rows::gather(n, g);
    Scatter(..) as n            => rows::scatter(n, g);
    After(..) as n              => rows::assigned(n, g);
}

static RULES: LazyLock<Matcher<UOp, Found>> =
    LazyLock::new(|| Matcher::new(&[], &[&ARITHMETIC, &FUNCTIONS, &TENSORS]));

/// The gradients of a node's float sources from its own.
pub(super) fn gradients(n: &UOp, g: &UOp) -> Result<Grads> {
    match RULES.find(n, &mut g.clone()) {
        Some(Found(grads)) => grads,
        None => fail!("gradient", "there is no gradient through {}", n.op.name()),
    }
}

/// max or min of two: to the winner, half to each of a tie; both get it with NaN, as torch's.
fn tie(g: &UOp, a: &UOp, b: &UOp, loses: impl Fn(&UOp, &UOp) -> UOp) -> [UOp; 2] {
    let half = a.eq_(b).select(&mul(g, &number(0.5, g.dtype)), g);
    let zero = g.const_like(0);
    [loses(a, b).select(&zero, &half), loses(b, a).select(&zero, &half)]
}

/// x^y: `y x^(y-1)`, 0 for y = 0; `x^y log x`, 0 where x = 0 and y >= 0.
fn power(n: &UOp, g: &UOp) -> [UOp; 2] {
    let [x, y] = n.operands();
    let zero = g.const_like(0);
    let dx = mul(g, &mul(y, &x.bin(Alu::Pow, &sub(y, &one(y)))));
    let flat = x.eq_(&x.const_like(0)).and_(&y.lt(&y.const_like(0)).un(Alu::Not));
    // the logarithm of a harmless number where it does not count
    let safe = flat.select(&one(x), x);
    let dy = mul(g, &mul(n, &safe.un(Alu::Log)));
    [y.eq_(&y.const_like(0)).select(&zero, &dx), flat.select(&zero, &dy)]
}

/// `sqrt(1 - x²)`.
fn away_from_one(x: &UOp) -> UOp {
    mul(&sub(&one(x), x), &add(x, &one(x))).un(Alu::Sqrt)
}

/// `2/sqrt(pi) exp(-x²)`.
fn bell(x: &UOp) -> UOp {
    mul(&neg(&mul(x, x)).un(Alu::Exp), &number(c::FRAC_2_SQRT_PI, x.dtype))
}

/// The angle of (x, y): `x / (x² + y²)` and `-y / (x² + y²)`, by the greater of the two so that no square overflows; 0
/// at the origin and far out.
fn angle(n: &UOp, g: &UOp) -> [UOp; 2] {
    let [y, x] = n.operands();
    if x.as_scalar().is_some_and(|s| s.as_f64() == 1.0) {
        let dy = div(g, &add(&mul(y, y), &one(y)));
        return [dy.clone(), neg(&mul(y, &dy))];
    }
    let magnitude = |v: &UOp| v.lt(&v.const_like(0)).select(&neg(v), v);
    let most = magnitude(x).bin(Alu::Max, &magnitude(y));
    let (zero, inf) = (g.const_like(0), number(f64::INFINITY, n.dtype));
    let flat = most.eq_(&most.const_like(0)).or_(&most.eq_(&inf));
    let most = flat.select(&one(&most), &most);
    let (u, v) = (div(x, &most), div(y, &most));
    let scale = div(g, &mul(&most, &add(&mul(&u, &u), &mul(&v, &v))));
    [flat.select(&zero, &mul(&scale, &u)), flat.select(&zero, &neg(&mul(&scale, &v)))]
}
