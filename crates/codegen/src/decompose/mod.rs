//! Replace what a target lacks by what it has.
//!
//! ```text
//! Exp(x)  ->  2^n * p(x - n*ln2)        Idiv(x, 7)  ->  (x * 613566757) >> 32        Add(a: f16, b)  ->  via float32
//! ```
//!
//! **In**: a kernel whose reduces and scans have become accumulators (a `Reduce` names its operation in its arg, where
//! no rule here looks) and whose index widths are decided (nothing of dtype `Index` but constants and extents).
//! Values may be scalars or vectors: every replacement is branch-free and elementwise.
//! **Out**: `target.supports(op, dtype)` holds for every elementwise operation. `Tdiv` is the machine's division: its
//! divisor is not zero and nothing overflows. Shift amounts are in range. A small float that the target cannot compute
//! with is only loaded, stored, selected, stacked and bitcast.
//!
//! What stays as it is, for the renderer to refuse: 64-bit integers on a target without them.
//!
//! Errors in units in the last place are in docs/numerics.md, as `frit accuracy` measures them; `tests.rs` holds them
//! here, without a device.
//!
//! They lean on `MulAcc` for exact products; where a target has none it is made from float64, or from halves of the
//! factors, which is slower but as exact.

pub mod approximate;
mod basic;
mod convert;
mod divide;
mod erf;
mod exp;
mod float_mod;
mod hyperbolic;
mod inverse;
mod log;
pub mod pack;
mod pow;
mod real;
mod shift;
mod small_float;
#[cfg(test)]
mod tests;
mod threefry;
mod trig;

use crate::error::Error;
use crate::pass::Ctx;
use frit_abi::Target;
use frit_abi::sync::LazyLock;
use frit_uop::rewrite::rewrite;
use frit_uop::rules::{Matcher, RuleSet};
use frit_uop::{Op, UOp};

/// Every table, in the order they are tried: small floats first, since what they become is decomposed further.
static TABLES: [&RuleSet<Target>; 13] = [
    &small_float::SMALL_FLOAT,
    &exp::EXP,
    &log::LOG,
    &trig::TRIG,
    &inverse::INVERSE,
    &hyperbolic::HYPERBOLIC,
    &erf::ERF,
    &pow::POW,
    &divide::DIVIDE,
    &shift::SHIFT,
    &convert::CONVERT,
    &threefry::THREEFRY,
    &basic::BASIC,
];
static MATCHER: LazyLock<Matcher<Target>> = LazyLock::new(|| Matcher::new(&[], &TABLES));

/// The pass. Leaves only elementwise operations that the target has.
pub fn decompose(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    Ok(for_target(sink, ctx.target))
}

fn for_target(sink: &UOp, target: &Target) -> UOp {
    rewrite(sink, &MATCHER, &mut target.clone())
}

/// Whether the target lacks the operation that `n` is, on the type of its operands.
fn lacks(target: &Target, n: &UOp) -> bool {
    let operand = if n.op == Op::Where { n.src.get(1) } else { n.src.first() };
    let dtype = operand.map_or(n.dtype, |s| s.dtype);
    n.op.alu().is_some_and(|a| !target.supports(a, dtype))
}
