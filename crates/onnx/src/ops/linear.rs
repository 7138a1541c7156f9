//! Products of matrices.

use super::{Op, op};
use crate::call::{Call, Outs, give};
use frit_tensor::{Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("Det", 11, |c| c.map(Tensor::det)),
    op("Einsum", 12, einsum),
    op("Gemm", 1, gemm),
    op("MatMul", 1, |c| {
        let d = c.tensor(0)?.dtype();
        c.zip(|a, b| a.matmul(b).cast(d))
    }),
];

fn einsum(c: &Call) -> Result<Outs> {
    let formula = c.text_or("equation", "")?;
    let all = c.tensors()?;
    give(Tensor::einsum(formula, &all.iter().collect::<Vec<_>>()))
}

fn gemm(c: &Call) -> Result<Outs> {
    let (alpha, beta) = (c.float_or("alpha", 1.0)?, c.float_or("beta", 1.0)?);
    c.ignore(&["broadcast"]);
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    c.alike(&a, &b)?;
    let a = if c.flag("transA")? { a.t() } else { a };
    let b = if c.flag("transB")? { b.t() } else { b };
    let scaled = |x: Tensor, by: f64| match by {
        1.0 => x,
        _ if x.dtype().is_float() => x * by,
        _ => x * by as i64,
    };
    let product = scaled(a.matmul(&b), alpha);
    let d = a.dtype();
    give(c.optional(2)?.map_or(product.clone(), |bias| product + scaled(bias, beta)).cast(d))
}
