//! Functions whose values are rounded to eight bits before anyone sees them are computed by approximations, the target's where it
//! has them.
//!
//! ```text
//! Cast<bfloat16>(Exp(x) * y)   ->   Cast<bfloat16>(Exp2Near(x * log2 e) * y)
//! Sigmoid(x: bfloat16)         ->   Cast<bfloat16>(near(Cast<float32>(x)))
//! ```
//! Their errors are below 2^-17 of the value, so that a rounding to eight bits is what it would have been but for one in
//! hundreds. A value that is stored in more bits, compared, or rounded to an integer on some way is computed as ever.

use super::real::Real;
use crate::error::Error;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::replaced;
use frit_uop::{Alu, Arg, DType, Merge, Op, UOp};
use std::f64::consts::LOG2_E;

/// The pass.
pub fn approximate(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let is_function = |n: &UOp| matches!(n.op, Op::Exp | Op::Exp2 | Op::Sigmoid | Op::Erfc);
    if !sink.any(is_function) {
        return Ok(sink.clone());
    }
    let list = Numbered::of(sink);
    let is_exact = exact(&list);
    let mut i = 0;
    let done = list.map(|n, src| {
        i += 1;
        let new = n.with_src(src);
        let near = if is_small(n.dtype) {
            small(&new)
        } else if is_exact[i - 1] {
            None
        } else {
            near(&new)
        };
        if let Some(near) = &near {
            replaced("rounded to eight bits before anyone sees it", n, near);
        }
        Ok::<_, Error>(near.unwrap_or(new))
    })?;
    Ok(done.last().unwrap_or(sink).clone())
}

/// Of each node, whether it is seen before it is rounded to eight bits.
fn exact(list: &Numbered) -> Vec<bool> {
    let mut exact = vec![false; list.nodes.len()];
    for (i, n) in list.nodes.iter().enumerate().rev() {
        let own = exact[i];
        let of = |k: usize| match n.op {
            Op::Store if k == 1 => !n.src[1].dtype.is_small_float(),
            Op::Cast if n.dtype.is_small_float() => own || !is_small(n.dtype),
            Op::Cast => own || !n.dtype.is_float(),
            Op::Where => own || k == 0,
            Op::Index | Op::Load => own || k > 0,
            // each value of a softmax comes from the greatest and from its own
            Op::Reduce => match n.arg {
                Arg::Fold(f) if f.merge == Merge::Rescale => own && (k == 0 || k == f.value as usize),
                Arg::Fold(_) => true,
                _ => own,
            },
            Op::Stack | Op::Lane | Op::LaneShuffle | Op::Stage | Op::Matrix => own,
            Op::Sink | Op::End | Op::After => own,
            o => own || !o.is_elementwise() || o.alu().is_none_or(|a| a.is_comparison()),
        };
        for (k, s) in list.src(i).iter().enumerate() {
            exact[*s as usize] |= of(k);
        }
    }
    exact
}

/// `erfc(x) = exp(-x^2) k / (x + k) (…)`, in (x - k) / (x + k), k = 2, for x of at least 0: to 19 bits.
const ERFC: [f64; 7] = [
    0.5107914805412292,
    -0.34358832240104675,
    0.13973401486873627,
    -0.018111368641257286,
    -0.010726237669587135,
    0.002851888770237565,
    0.0013512356672436,
];

/// Whether a type has no more than eight bits of mantissa.
fn is_small(d: DType) -> bool {
    d.is_small_float() && d != DType::F16
}

/// A function of a small float, which rounds its value by itself.
fn small(n: &UOp) -> Option<UOp> {
    let wide = n.src.first()?.cast(DType::F32).un(n.op.alu().filter(|a| a.arity() == 1)?);
    Some(near(&wide)?.cast(n.dtype))
}

/// The function of float32 that a node is, approximately.
fn near(n: &UOp) -> Option<UOp> {
    let (x, f) = (n.src.first()?, Real::of(n).filter(|f| f.dtype == DType::F32)?);
    let exp = |x: &UOp, by: f64| (x * &f.c(by)).un(Alu::Exp2Near);
    match n.op {
        Op::Exp => Some(exp(x, LOG2_E)),
        Op::Exp2 => Some(x.un(Alu::Exp2Near)),
        Op::Sigmoid => {
            let e = exp(&f.abs(x), -LOG2_E);
            let r = f.reciprocal(&(&e + &f.c(1.0)));
            Some(x.lt(&f.c(0.0)).select(&(e * &r), &r))
        }
        Op::Erfc => {
            // 0 beyond
            let abs = f.abs(x).bin(Alu::Min, &f.c(11.0));
            let k = f.c(2.0);
            let inverse = f.reciprocal(&(&abs + &k));
            let q = (&abs - &k) * &inverse;
            let p = f.poly(&q, &ERFC) * &(&inverse * &k);
            let value = exp(&(&abs * &abs), -LOG2_E) * &p;
            Some(x.lt(&f.c(0.0)).select(&(f.c(2.0) - &value), &value))
        }
        _ => None,
    }
}
