//! Quantised numbers: `(q - zero) * scale`.

use super::conv::{convolved, zero_beside, zeroed};
use super::shape::axis_of;
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::element::Element;
use crate::value::Value;
use frit_tensor::{DType, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("DequantizeLinear", 10, dequantize),
    op("DynamicQuantizeLinear", 11, dynamic_quantize),
    op("MatMulInteger", 10, |c| {
        give(product((&c.tensor(0)?, c.optional(2)?), (&c.tensor(1)?, c.optional(3)?)))
    }),
    op("QLinearConv", 10, q_linear_conv),
    op("QLinearMatMul", 10, q_linear_matmul),
    op("QuantizeLinear", 10, quantize),
];

/// A parameter beside `x`: one, one for each place along an axis, or one for each block along it.
fn beside(t: &Tensor, x: &Tensor, axis: i64, block: i64) -> Result<Tensor> {
    let n: usize = t.numel()?;
    if t.rank() == 0 || (t.rank() == 1 && n == 1) {
        return Ok(t.reshape(()));
    }
    let at = axis_of(axis, x.rank())?;
    if block > 0 {
        let (have, want) = (t.dims()?[at] as i64 * block, x.dims()?[at] as i64);
        let long = t.repeat_interleave(block, at as isize);
        return Ok(if have > want { long.narrow(at as isize, 0, want) } else { long });
    }
    match t.rank() {
        1 => Ok((at + 1..x.rank()).fold(t.clone(), |t, _| t.unsqueeze(-1))),
        _ => fail(format!("a parameter of shape {} beside {}", t.shape(), x.shape())),
    }
}

pub(super) fn quantize(c: &Call) -> Result<Outs> {
    let (axis, block) = (c.int_or("axis", 1)?, c.int_or("block_size", 0)?);
    let saturate = c.int_or("saturate", 1)? != 0;
    c.ignore(&["precision"]);
    let named = c.element_named("output_dtype")?;
    let to = match (c.value(2), named) {
        (Some(zero), _) => zero.element()?,
        (None, Some(e)) => e,
        (None, None) => Element::Uint8,
    };
    let x = c.tensor(0)?;
    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let scale = beside(&c.tensor(1)?.cast(wide), &x, axis, block)?;
    let zero = c.optional(2)?.map(|z| beside(&z.cast(wide), &x, axis, block)).transpose()?;
    give(quantized(&(x.cast(wide) / scale), zero, to, saturate)?)
}

/// Rounded and moved by the zero point, inside what the type holds.
pub(super) fn quantized(x: &Tensor, zero: Option<Tensor>, to: Element, saturate: bool) -> Result<Value> {
    let Some((lo, hi)) = to.int_range() else {
        let moved = zero.map_or(x.clone(), |z| x + z);
        return super::cast::converted(&moved, to, saturate, "up");
    };
    let rounded = x.round();
    let moved = zero.map_or(rounded.clone(), |z| rounded + z);
    Ok(Value::Tensor(moved.clamp(lo, hi).cast(to.dtype()), to))
}

pub(super) fn dequantize(c: &Call) -> Result<Outs> {
    let (axis, block) = (c.int_or("axis", 1)?, c.int_or("block_size", 0)?);
    let named = c.element_named("output_dtype")?;
    let (x, scale) = (c.tensor(0)?, c.tensor(1)?);
    let d = named.map_or(scale.dtype(), Element::dtype);
    let wide = if d == DType::F64 { DType::F64 } else { DType::F32 };
    let exact = |t: &Tensor| if t.dtype().is_int() { t.cast(DType::I32) } else { t.cast(wide) };
    let part = beside(&scale.cast(wide), &x, axis, block)?;
    let moved = match c.optional(2)? {
        Some(zero) => exact(&x) - beside(&exact(&zero), &x, axis, block)?,
        None => exact(&x),
    };
    give((moved.cast(wide) * part).cast(d))
}

/// Numbers by one scale and zero point for all.
pub(super) fn dequantized(x: &Tensor, scale: &Tensor, zero: Option<Tensor>) -> Tensor {
    zeroed(x, zero, 0).cast(scale.dtype()) * scale
}

/// Numbers from 0 to 255, with the scale and zero point that use all of them.
pub(super) fn dynamically(x: &Tensor) -> (Tensor, Tensor, Tensor) {
    let (lo, hi) = (x.min(..).minimum(0.0), x.max(..).maximum(0.0));
    let scale = (&hi - &lo) / 255.0;
    let zero = (lo.neg() / &scale).clamp(0.0, 255.0).round();
    let y = ((x / &scale).round() + &zero).clamp(0.0, 255.0);
    (y.cast(DType::U8), scale, zero.cast(DType::U8))
}
fn dynamic_quantize(c: &Call) -> Result<Outs> {
    let (y, scale, zero) = dynamically(&c.tensor(0)?);
    give(vec![y, scale, zero])
}

/// The product of matrices of small integers less their zero points, summed in int32 (which wraps, so any order is exact).
/// What is multiplied are the integers as they are stored, which matrix units take; what zero points add to that follows
/// from sums of rows and columns:
///
/// ```text
/// sum (a - p) (b - q)  =  sum a b  -  p sum b  -  q sum a  +  k p q
/// ```
pub(super) fn product((a, p): (&Tensor, Option<Tensor>), (b, q): (&Tensor, Option<Tensor>)) -> Tensor {
    if a.rank() < 2 || b.rank() < 2 {
        return zeroed(a, p, -2).matmul(&zeroed(b, q, -1));
    }
    let (p, q) = (zero_beside(a, p, -2), zero_beside(b, q, -1));
    // in memory as they are: quantising once an element, not once a product
    let [a, b] = [a, b].map(|t| t.contiguous().cast(DType::I32));
    let mut sums = a.matmul(&b);
    if let Some(p) = &p {
        sums = sums - p * b.sum(keepdim(-2));
    }
    if let Some(q) = &q {
        sums = sums - q * a.sum(keepdim(-1));
    }
    match (p, q) {
        (Some(p), Some(q)) => sums + p * q * a.shape()[-1].tensor().cast(DType::I32),
        _ => sums,
    }
}

/// What a product of two dequantised matrices is planned as: their integers are multiplied. Its inputs are those of both
/// `DequantizeLinear`, its attributes the axes of their parameters.
pub(crate) static DEQUANTISED_PRODUCT: Op = op("MatMul", 1, |c| {
    let side = |i: usize, axis: i64| Ok((c.tensor(i)?, c.tensor(i + 1)?, c.optional(i + 2)?, axis));
    let a = side(0, c.int_or("a_axis", 1)?)?;
    let b = side(3, c.int_or("b_axis", 1)?)?;
    let is_small = |x: &Tensor| x.rank() > 1 && matches!(x.dtype(), DType::I8 | DType::U8);
    let is_one = |t: &Tensor| t.shape().numel() == 1;
    let is_last = |x: &Tensor, axis: i64| axis_of(axis, x.rank()).is_ok_and(|at| at + 1 == x.rank());
    let of_columns = is_one(&b.1) || b.1.rank() == 1 && is_last(&b.0, b.3);
    if is_small(&a.0) && is_small(&b.0) && is_one(&a.1) && of_columns && a.1.dtype() == b.1.dtype() {
        let scale = |t: &Tensor| if is_one(t) { t.reshape(()) } else { t.clone() };
        let sums = product((&a.0, a.2), (&b.0, b.2));
        return give(sums.cast(a.1.dtype()) * (scale(&a.1) * scale(&b.1)));
    }
    let real = |(x, scale, zero, axis): (Tensor, Tensor, Option<Tensor>, i64)| -> Result<Tensor> {
        let zero = zero.map(|z| beside(&z.cast(DType::I32), &x, axis, 0)).transpose()?;
        let moved = zero.map_or(x.cast(DType::I32), |z| x.cast(DType::I32) - z);
        Ok(moved.cast(scale.dtype()) * beside(&scale, &x, axis, 0)?)
    };
    let (a, b) = (real(a)?, real(b)?);
    c.alike(&a, &b)?;
    give(a.matmul(&b).cast(a.dtype()))
});

/// Sums of products of quantised numbers, quantised again.
fn requantized(c: &Call, sums: &Tensor, factor: Tensor, scale: usize, zero: usize) -> Result<Outs> {
    let x = sums.float() * factor / c.tensor(scale)?.float();
    give(quantized(&x, Some(c.tensor(zero)?.float()), c.element(zero)?, true)?)
}

fn q_linear_matmul(c: &Call) -> Result<Outs> {
    let sums = product((&c.tensor(0)?, c.optional(2)?), (&c.tensor(3)?, c.optional(5)?));
    let rows = |t: Tensor| if t.rank() == 1 && t.shape().numel() != 1 { t.unsqueeze(-1) } else { t };
    let factor = rows(c.tensor(1)?.float()) * c.tensor(4)?.float();
    requantized(c, &sums, factor, 6, 7)
}

fn q_linear_conv(c: &Call) -> Result<Outs> {
    let x = zeroed(&c.tensor(0)?, c.optional(2)?, 1);
    let w = zeroed(&c.tensor(3)?, c.optional(5)?, 0);
    let sums = convolved(c, &x, &w, c.optional(8)?.as_ref())?;
    let per_channel = |t: Tensor| match t.rank() {
        1 => (2..x.rank()).fold(t, |t, _| t.unsqueeze(-1)),
        _ => t,
    };
    let factor = c.tensor(1)?.float() * per_channel(c.tensor(4)?.float());
    requantized(c, &sums, factor, 6, 7)
}
