//! Derivatives of the elementary functions, times the gradient of the value.

use crate::composite::{add, div, mul, neg, one, sub};
use crate::tensor::number;
use frit_uop::{Alu, Op, UOp};
use std::f64::consts as c;

/// The gradient of the argument of a function of one, from the node and its gradient; `None` if it is no such function.
pub(crate) fn of_unary(n: &UOp, g: &UOp) -> Option<UOp> {
    let x = n.src.first()?;
    let constant = |v: f64| number(v, n.dtype);
    Some(match n.op {
        Op::Recip => neg(&mul(g, &mul(n, n))),
        Op::Sqrt => div(g, &add(n, n)),
        Op::Rsqrt => mul(&mul(g, &constant(-0.5)), &mul(n, &mul(n, n))),
        Op::Exp => mul(g, n),
        Op::Exp2 => mul(&mul(g, n), &constant(c::LN_2)),
        Op::Expm1 => mul(g, &x.un(Alu::Exp)),
        Op::Log => div(g, x),
        Op::Log2 => div(g, &mul(x, &constant(c::LN_2))),
        Op::Log10 => div(g, &mul(x, &constant(c::LN_10))),
        Op::Log1p => div(g, &add(x, &one(x))),
        Op::Sin => mul(g, &x.un(Alu::Cos)),
        Op::Cos => neg(&mul(g, &x.un(Alu::Sin))),
        Op::Tan => mul(g, &add(&mul(n, n), &one(n))),
        Op::Asin => div(g, &away_from_one(x)),
        Op::Acos => neg(&div(g, &away_from_one(x))),
        Op::Sinh => mul(g, &x.un(Alu::Cosh)),
        Op::Cosh => mul(g, &x.un(Alu::Sinh)),
        Op::Tanh => mul(g, &sub(&one(n), &mul(n, n))),
        Op::Sigmoid => mul(g, &mul(n, &sub(&one(n), n))),
        Op::Erf => mul(g, &bell(x)),
        Op::Erfc => neg(&mul(g, &bell(x))),
        _ => return None,
    })
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
pub(crate) fn of_angle(n: &UOp, g: &UOp) -> [UOp; 2] {
    let (y, x) = (&n.src[0], &n.src[1]);
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
