//! Activations, and softmax and what is like it.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{DType, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("Celu", 12, |c| {
        let alpha = c.float_or("alpha", 1.0)?;
        c.kept(|x| x.celu(alpha))
    }),
    op("Dropout", 1, old_dropout),
    op("Dropout", 7, old_dropout),
    op("Dropout", 12, dropout),
    op("Elu", 1, |c| with(c, "alpha", 1.0, Tensor::elu)),
    op("Gelu", 20, gelu),
    op("HardSigmoid", 1, hard_sigmoid),
    op("HardSwish", 14, |c| c.map(Tensor::hardswish)),
    op("Hardmax", 1, |c| flat(c, hardmax)),
    op("Hardmax", 13, |c| along(c, hardmax)),
    op("LeakyRelu", 1, |c| with(c, "alpha", 0.01, Tensor::leaky_relu)),
    op("LogSoftmax", 1, |c| flat(c, Tensor::log_softmax)),
    op("LogSoftmax", 13, |c| along(c, Tensor::log_softmax)),
    op("Mish", 18, |c| c.map(Tensor::mish)),
    op("PRelu", 1, prelu),
    op("Relu", 1, |c| {
        c.ignore(&["consumed_inputs"]);
        c.map(Tensor::relu)
    }),
    op("Selu", 1, selu),
    op("Shrink", 9, shrink),
    op("Sigmoid", 1, |c| {
        c.ignore(&["consumed_inputs"]);
        c.map(Tensor::sigmoid)
    }),
    op("Softmax", 1, |c| flat(c, Tensor::softmax)),
    op("Softmax", 13, |c| along(c, Tensor::softmax)),
    op("Softplus", 1, |c| c.map(|x| x.logaddexp(0.0))),
    op("Softsign", 1, |c| c.map(Tensor::softsign)),
    op("SwiGLU", 28, swiglu),
    op("Swish", 24, |c| with(c, "alpha", 1.0, swish)),
    op("ThresholdedRelu", 1, |c| with(c, "alpha", 1.0, |x, at| x.threshold(at, 0.0))),
];

/// A function with one parameter.
fn with(c: &Call, name: &str, default: f32, f: fn(&Tensor, f64) -> Tensor) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    let v = c.float_or(name, default)?;
    c.map(|x| f(x, v))
}

fn swish(x: &Tensor, alpha: f64) -> Tensor {
    x * (x * alpha).sigmoid()
}

fn gelu(c: &Call) -> Result<Outs> {
    match c.text_or("approximate", "none")? {
        "none" => c.map(Tensor::gelu),
        "tanh" => c.map(Tensor::gelu_tanh),
        other => fail(format!("attribute \"approximate\" is {other:?}")),
    }
}

fn hard_sigmoid(c: &Call) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    let (alpha, beta) = (c.float_or("alpha", 0.2)?, c.float_or("beta", 0.5)?);
    c.map(|x| (x * alpha + beta).clamp(0.0, 1.0))
}

fn selu(c: &Call) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    // the defaults before opset 6 had fewer digits
    let old = c.version() < 6;
    let alpha = c.float_or("alpha", if old { 1.6732 } else { 1.673_263_2 })?;
    let gamma = c.float_or("gamma", if old { 1.0507 } else { 1.050_701 })?;
    c.map(|x| x.elu(alpha) * gamma)
}

fn shrink(c: &Call) -> Result<Outs> {
    let (bias, lambd) = (c.float_or("bias", 0.0)?, c.float_or("lambd", 0.5)?);
    c.kept(|x| x.lt(-lambd).where_(x + bias, x.gt(lambd).where_(x - bias, x.zeros_like())))
}

fn prelu(c: &Call) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    let (x, slope) = (c.tensor(0)?, c.tensor(1)?);
    // one slope a channel, before slopes were broadcast like other operands
    let slope = match slope.rank() {
        1 if c.version() < 7 && x.rank() > 2 => (2..x.rank()).fold(slope, |s, _| s.unsqueeze(-1)),
        _ => slope,
    };
    give(x.lt(0).where_(&x * slope, &x))
}

fn swiglu(c: &Call) -> Result<Outs> {
    let alpha = c.float_or("alpha", 1.0)?;
    c.zip(|gate, up| swish(gate, alpha) * up)
}

/// True at the first of the greatest along an axis.
fn hardmax(x: &Tensor, axis: isize) -> Tensor {
    let at = x.argmax_axes(keepdim(axis));
    let n = x.shape()[axis].clone();
    let places = (0..x.rank() as isize - 1 - axis.rem_euclid(x.rank().max(1) as isize))
        .fold(Tensor::arange(n), |p, _| p.unsqueeze(-1));
    places.eq(at).cast(x.dtype())
}

fn along(c: &Call, f: fn(&Tensor, isize) -> Tensor) -> Result<Outs> {
    let axis = c.axis("axis", -1)?;
    c.map(|x| f(x, axis))
}
/// Before opset 13: over all dims from the axis on.
fn flat(c: &Call, f: fn(&Tensor, isize) -> Tensor) -> Result<Outs> {
    let axis = c.axis("axis", 1)?;
    c.map(|x| {
        let axis = if axis < 0 { axis + x.rank() as isize } else { axis };
        let rows = x
            .shape()
            .as_slice()
            .iter()
            .take(axis.max(0) as usize)
            .fold(1.into(), |a: frit_tensor::Dim, b| a * b);
        f(&x.reshape((rows, -1)), 1).reshape(x.shape())
    })
}

fn old_dropout(c: &Call) -> Result<Outs> {
    c.ignore(&["consumed_inputs", "ratio"]);
    let is_test = c.flag("is_test")? || c.version() >= 7;
    if !is_test {
        return fail("training is not supported before opset 12");
    }
    let x = c.tensor(0)?;
    // the mask was of the input's type before opset 10
    let mask = x.ones_like().cast(if c.version() < 10 { x.dtype() } else { DType::Bool });
    give((x, mask))
}
fn dropout(c: &Call) -> Result<Outs> {
    c.ignore(&["seed"]);
    let x = c.tensor(0)?;
    let ratio = if c.value(1).is_some() { c.float_input(1)? } else { 0.5 };
    let training = if c.value(2).is_some() { c.int_input(2)? != 0 } else { false };
    if !training || ratio == 0.0 {
        return give((x.clone(), x.ones_like().cast(DType::Bool)));
    }
    let mask = Tensor::rand(x.shape()).ge(ratio);
    let scale = mask.cast(x.dtype()) * (1.0 / (1.0 - ratio));
    give((x * scale, mask))
}
