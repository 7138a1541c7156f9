//! Quantised numbers: `(q - zero) * scale`.

use super::conv::{convolved, integers_convolved, zero_beside, zeroed};
use super::shape::{axis_of, size_at};
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
    if block > 0 && t.rank() == x.rank() {
        let want = size_at(x, at)? as i64;
        // one block may be longer than all there is
        let block = block.min(want.max(1));
        let have = size_at(t, at)? as i64 * block;
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
    between(x, x.min(..), x.max(..))
}
/// The same for numbers from a least to a greatest.
fn between(x: &Tensor, lo: Tensor, hi: Tensor) -> (Tensor, Tensor, Tensor) {
    let (lo, hi) = (lo.minimum(0.0), hi.maximum(0.0));
    // zeros alone have any scale
    let scale = hi.eq(&lo).where_(1.0, (&hi - &lo) / 255.0).cast(x.dtype());
    let zero = (lo.neg() / &scale).clamp(0.0, 255.0).round();
    let y = ((x / &scale).round() + &zero).clamp(0.0, 255.0);
    (y.cast(DType::U8), scale, zero.cast(DType::U8))
}
/// Numbers as they are after [`dynamically`].
pub(super) fn rounded(x: &Tensor) -> Tensor {
    let (q, scale, zero) = dynamically(x);
    (q.int() - zero.int()).float() * scale
}
/// The same, each row by itself.
pub(super) fn rounded_by_row(x: &Tensor) -> Tensor {
    let (q, scale, zero) = between(x, x.min(keepdim(-1)), x.max(keepdim(-1)));
    (q.int() - zero.int()).float() * scale
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

/// Operators of dequantised numbers, and what they are planned as: the integers are multiplied.
pub(crate) static DEQUANTISED: [(&str, &Op); 3] =
    [("MatMul", &DEQUANTISED_PRODUCT), ("Gemm", &DEQUANTISED_GEMM), ("Conv", &DEQUANTISED_CONV)];

/// What a product of two dequantised matrices is planned as. Its inputs are those of both `DequantizeLinear`, its attributes
/// the axes of their parameters.
static DEQUANTISED_PRODUCT: Op = op("MatMul", 1, |c| {
    let (a, b) = (Side::of(c, 0, "a_axis")?, Side::of(c, 3, "b_axis")?);
    if let Some(y) = integers_multiplied(&a, &b) {
        return give(y);
    }
    let (a, b) = (a.real()?, b.real()?);
    c.alike(&a, &b)?;
    give(a.matmul(&b).cast(a.dtype()))
});

/// The same for `Gemm`, whose third input follows.
static DEQUANTISED_GEMM: Op = op("Gemm", 1, |c| {
    let (mut a, mut b) = (Side::of(c, 0, "a_axis")?, Side::of(c, 3, "b_axis")?);
    let (alpha, beta) = (c.float_or("alpha", 1.0)?, c.float_or("beta", 1.0)?);
    let add = c.optional(6)?;
    for (side, name) in [(&mut a, "transA"), (&mut b, "transB")] {
        if c.flag(name)? {
            side.transpose();
        }
    }
    let y = match integers_multiplied(&a, &b) {
        Some(y) => y,
        None => a.real()?.matmul(&b.real()?),
    };
    let y = if alpha == 1.0 { y } else { y * alpha };
    give(add.map_or(y.clone(), |add| y + if beta == 1.0 { add } else { add * beta }))
});

/// Integers with their scale and zero point, which may be of places along an axis.
struct Side {
    x: Tensor,
    scale: Tensor,
    zero: Option<Tensor>,
    axis: i64,
}

fn is_one(t: &Tensor) -> bool {
    t.shape().numel() == 1
}

impl Side {
    fn of(c: &Call, i: usize, axis: &str) -> Result<Side> {
        Ok(Side {
            x: c.tensor(i)?,
            scale: c.tensor(i + 1)?,
            zero: c.optional(i + 2)?,
            axis: c.int_or(axis, 1)?,
        })
    }
    fn is_small(&self) -> bool {
        self.x.rank() > 1 && matches!(self.x.dtype(), DType::I8 | DType::U8)
    }
    /// Of a matrix, its rows as columns.
    fn transpose(&mut self) {
        self.x = self.x.t();
        self.axis = 1 - self.axis.rem_euclid(2);
    }
    /// The numbers that it stands for.
    fn real(&self) -> Result<Tensor> {
        let x = self.x.cast(DType::I32);
        let beside = |t: &Tensor| beside(t, &x, self.axis, 0);
        let moved = match &self.zero {
            Some(z) => &x - beside(&z.cast(DType::I32))?,
            None => x.clone(),
        };
        Ok(moved.cast(self.scale.dtype()) * beside(&self.scale)?)
    }
}

/// The product of two matrices, where integers of bytes can be multiplied: one scale for the first, and one for each column
/// of the second.
fn integers_multiplied(a: &Side, b: &Side) -> Option<Tensor> {
    let is_last = axis_of(b.axis, b.x.rank()).is_ok_and(|at| at + 1 == b.x.rank());
    let of_columns = is_one(&b.scale) || b.scale.rank() == 1 && is_last;
    let fits = a.is_small() && b.is_small() && is_one(&a.scale) && of_columns;
    if !fits || a.scale.dtype() != b.scale.dtype() {
        return None;
    }
    let scale = |t: &Tensor| if is_one(t) { t.reshape(()) } else { t.clone() };
    let sums = product((&a.x, a.zero.clone()), (&b.x, b.zero.clone()));
    Some(sums.cast(a.scale.dtype()) * (scale(&a.scale) * scale(&b.scale)))
}

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
    let x = c.tensor(0)?;
    let mut sums = integers_convolved(c, (&x, c.optional(2)?), (&c.tensor(3)?, c.optional(5)?))?;
    if let Some(bias) = c.optional(8)? {
        sums = sums + of_channels(bias, x.rank());
    }
    let factor = c.tensor(1)?.float() * of_channels(c.tensor(4)?.float(), x.rank());
    requantized(c, &sums, factor, 6, 7)
}

/// One number, or one for each channel of what a convolution gives.
fn of_channels(t: Tensor, rank: usize) -> Tensor {
    match t.shape().numel() == 1 {
        true => t.reshape(()),
        false => (2..rank).fold(t, |t, _| t.unsqueeze(-1)),
    }
}

/// What a convolution of dequantised numbers is planned as: inputs as in [`DEQUANTISED_PRODUCT`], then the bias.
static DEQUANTISED_CONV: Op = op("Conv", 1, |c| {
    let (a, b) = (Side::of(c, 0, "a_axis")?, Side::of(c, 3, "b_axis")?);
    let is_by_channel =
        is_one(&b.scale) || b.scale.rank() == 1 && axis_of(b.axis, b.x.rank()).is_ok_and(|at| at == 0);
    let bias = c.optional(6)?;
    if a.is_small() && b.is_small() && is_one(&a.scale) && is_by_channel && a.scale.dtype() == b.scale.dtype()
    {
        let (rank, d) = (a.x.rank(), a.scale.dtype());
        let sums = integers_convolved(c, (&a.x, a.zero), (&b.x, b.zero))?;
        let y = sums.cast(d) * (a.scale.reshape(()) * of_channels(b.scale, rank));
        return give(bias.map_or(y.clone(), |bias| y + of_channels(bias, rank)));
    }
    let (a, b) = (a.real()?, b.real()?);
    c.alike(&a, &b)?;
    give(convolved(c, &a, &b, bias.as_ref())?)
});
