//! `Mod` and `Idiv` of floats: of the exact quotient, whatever its size.
//!
//! ```text
//! r = |x|;  for Y = |y| 2^(sk), k falling:  r = r - round(r / Y) Y        each step exact, and r shrinks by s bits
//! ```
//!
//! A rounded quotient below 2^s is right to within a half and a bit, so `r - q Y` is at most about half of Y and a
//! multiple of the last places of both: a float, and the fused multiply-add gives it without rounding. (A float64 machine
//! without one gives NaN within a factor of two of the greatest number, where `q Y` by itself overflows.)

use super::real::{Real, fma};
use frit_uop::{Alu, UOp};

/// `|x| mod |y|`, between 0 and |y|.
fn magnitude(f: Real, x: &UOp, y: &UOp) -> UOp {
    let step = f.man - 1;
    // from the greatest number to the least subnormal
    let steps = (2 * f.bias + f.man) / step + 1;
    let mut scaled = vec![f.abs(y)];
    for k in 1..steps as usize {
        scaled.push(&scaled[k - 1] * f.exp2(step));
    }
    let inf = f.c(f64::INFINITY);
    let mut r = f.abs(x);
    for y in scaled.iter().rev() {
        let q = r.bin(Alu::Fdiv, y).un(Alu::Round);
        // a multiple of y that overflows divides to 0, and must not multiply it
        let y = y.eq_(&inf).select(&f.c(0.0), y);
        r = fma(&q.un(Alu::Neg), &y, &r);
    }
    r.lt(&f.c(0.0)).select(&(&r + &scaled[0]), &r)
}

/// The remainder with the sign of y.
pub fn remainder(x: &UOp, y: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let r = magnitude(f, x, y);
    let across = differ(f, x, y).and_(&r.ne_(&f.c(0.0)));
    Some(f.with_sign_of(&across.select(&(f.abs(y) - &r), &r), y))
}

/// The quotient rounded towards minus infinity, then to a float; by zero what the division gives.
pub fn quotient(x: &UOp, y: &UOp) -> Option<UOp> {
    let f = Real::of(x)?;
    let r = magnitude(f, x, y);
    let q = (f.abs(x) - &r).bin(Alu::Fdiv, &f.abs(y)).un(Alu::Round);
    let opposite = differ(f, x, y);
    let q = opposite.and_(&r.ne_(&f.c(0.0))).select(&(&q + f.c(1.0)), &q);
    let q = opposite.select(&q.un(Alu::Neg), &q);
    Some(y.eq_(&f.c(0.0)).select(&x.bin(Alu::Fdiv, y), &q))
}

/// Whether the sign bits differ.
fn differ(f: Real, x: &UOp, y: &UOp) -> UOp {
    f.bits(x).bin(Alu::Xor, &f.bits(y)).lt(&f.i(0))
}
