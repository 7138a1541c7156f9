//! Arithmetic, comparisons, logic: element by element.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::Value;
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("Abs", 1, |c| unary(c, Tensor::abs)),
    op("Acos", 7, |c| unary(c, Tensor::acos)),
    op("Acosh", 9, |c| unary(c, Tensor::acosh)),
    op("Add", 1, |c| old_binary(c, |a, b| a + b)),
    op("Add", 7, |c| c.zip(|a, b| a + b)),
    op("And", 1, |c| old_binary(c, |a, b| a.logical_and(b))),
    op("And", 7, |c| c.zip(|a, b| a.logical_and(b))),
    op("Asin", 7, |c| unary(c, Tensor::asin)),
    op("Asinh", 9, |c| unary(c, Tensor::asinh)),
    op("Atan", 7, |c| unary(c, Tensor::atan)),
    op("Atanh", 9, |c| unary(c, Tensor::atanh)),
    op("BitShift", 11, bit_shift),
    op("BitwiseAnd", 18, |c| c.zip(|a, b| a.bitwise_and(b))),
    op("BitwiseNot", 18, |c| c.map(Tensor::bitwise_not)),
    op("BitwiseOr", 18, |c| c.zip(|a, b| a.bitwise_or(b))),
    op("BitwiseXor", 18, |c| c.zip(|a, b| a.bitwise_xor(b))),
    op("Ceil", 1, |c| unary(c, Tensor::ceil)),
    op("Clip", 1, old_clip),
    op("Clip", 11, clip),
    op("Cos", 7, |c| unary(c, Tensor::cos)),
    op("Cosh", 9, |c| unary(c, Tensor::cosh)),
    op("Div", 1, |c| old_binary(c, divide)),
    op("Div", 7, |c| c.zip(divide)),
    op("Equal", 1, |c| old_binary(c, |a, b| a.eq(b))),
    op("Equal", 7, equal),
    op("Erf", 9, |c| c.kept(Tensor::erf)),
    op("Exp", 1, |c| unary(c, Tensor::exp)),
    op("Floor", 1, |c| unary(c, Tensor::floor)),
    op("Greater", 1, |c| old_binary(c, |a, b| a.gt(b))),
    op("Greater", 7, |c| c.zip(|a, b| a.gt(b))),
    op("GreaterOrEqual", 12, |c| c.zip(|a, b| a.ge(b))),
    op("IsInf", 10, is_inf),
    op("IsNaN", 9, |c| c.map(Tensor::isnan)),
    op("Less", 1, |c| old_binary(c, |a, b| a.lt(b))),
    op("Less", 7, |c| c.zip(|a, b| a.lt(b))),
    op("LessOrEqual", 12, |c| c.zip(|a, b| a.le(b))),
    op("Log", 1, |c| unary(c, Tensor::log)),
    op("Max", 1, |c| fold(c, |a, b| a.maximum(b))),
    op("Mean", 1, |c| give(folded(c, |a, b| a + b)? / c.len() as f64)),
    op("Min", 1, |c| fold(c, |a, b| a.minimum(b))),
    op("Mod", 10, modulo),
    op("Mul", 1, |c| old_binary(c, |a, b| a * b)),
    op("Mul", 7, |c| c.zip(|a, b| a * b)),
    op("Neg", 1, |c| unary(c, Tensor::neg)),
    op("Not", 1, |c| c.map(Tensor::logical_not)),
    op("Or", 1, |c| old_binary(c, |a, b| a.logical_or(b))),
    op("Or", 7, |c| c.zip(|a, b| a.logical_or(b))),
    op("Pow", 1, |c| old_binary(c, power)),
    op("Pow", 7, |c| give(power(&c.tensor(0)?, &c.tensor(1)?))),
    op("Reciprocal", 1, |c| unary(c, Tensor::reciprocal)),
    op("Round", 11, |c| c.map(Tensor::round)),
    op("Sign", 9, |c| c.map(Tensor::sign)),
    op("Sin", 7, |c| unary(c, Tensor::sin)),
    op("Sinh", 9, |c| unary(c, Tensor::sinh)),
    op("Sqrt", 1, |c| unary(c, Tensor::sqrt)),
    op("Sub", 1, |c| old_binary(c, |a, b| a - b)),
    op("Sub", 7, |c| c.zip(|a, b| a - b)),
    op("Sum", 1, |c| fold(c, |a, b| a + b)),
    op("Tan", 7, |c| unary(c, Tensor::tan)),
    op("Tanh", 1, |c| unary(c, Tensor::tanh)),
    op("Where", 9, where_),
    op("Xor", 1, |c| old_binary(c, |a, b| a.logical_xor(b))),
    op("Xor", 7, |c| c.zip(|a, b| a.logical_xor(b))),
];

fn unary(c: &Call, f: fn(&Tensor) -> Tensor) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    c.map(f)
}

/// Before opset 7 the second operand was only broadcast where `broadcast` said so, from `axis` on.
fn old_binary(c: &Call, f: fn(&Tensor, &Tensor) -> Tensor) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    let (a, mut b) = (c.tensor(0)?, c.tensor(1)?);
    c.alike(&a, &b)?;
    let (is_broadcast, axis) = (c.flag("broadcast")?, c.int("axis")?);
    if !is_broadcast && a.shape() != b.shape() {
        return fail(format!("shapes {} and {} differ, and broadcast is not set", a.shape(), b.shape()));
    }
    if let Some(axis) = axis {
        let axis = if axis < 0 { axis + a.rank() as i64 } else { axis };
        let behind = a.rank() as i64 - axis - b.rank() as i64;
        if axis < 0 || behind < 0 {
            return fail(format!("shape {} does not fit into {} at axis {axis}", b.shape(), a.shape()));
        }
        b = (0..behind).fold(b, |b, _| b.unsqueeze(-1));
    }
    give(f(&a, &b))
}

fn folded(c: &Call, f: fn(&Tensor, &Tensor) -> Tensor) -> Result<Tensor> {
    c.ignore(&["consumed_inputs"]);
    let all = c.tensors()?;
    all.iter().try_for_each(|t| c.alike(&all[0], t))?;
    match all.into_iter().reduce(|a, b| f(&a, &b)) {
        Some(t) => Ok(t),
        None => fail("no inputs"),
    }
}
fn fold(c: &Call, f: fn(&Tensor, &Tensor) -> Tensor) -> Result<Outs> {
    give(folded(c, f)?)
}

/// Integers are divided towards zero.
fn divide(a: &Tensor, b: &Tensor) -> Tensor {
    if a.dtype().is_float() { a.div(b) } else { a.trunc_div(b) }
}

/// Of the type of the base, computed in floats where the exponent has any.
fn power(a: &Tensor, b: &Tensor) -> Tensor {
    let d = a.dtype();
    let known = b.as_numbers().filter(|_| d.is_float() && b.rank() <= a.rank());
    // a product is rounded once, which a power in general is not; norms are made of them
    if known.as_deref() == Some(&[2.0]) {
        return a.square();
    }
    match (d.is_float(), b.dtype().is_float()) {
        (false, true) => a.double().pow(b.double()).cast(d),
        (true, _) => a.pow(b.cast(d)),
        _ => a.pow(b).cast(d),
    }
}

fn modulo(c: &Call) -> Result<Outs> {
    match c.flag("fmod")? {
        true => c.zip(|a, b| a.fmod(b)),
        false => c.zip(|a, b| a.modulo(b)),
    }
}

fn bit_shift(c: &Call) -> Result<Outs> {
    match c.text_or("direction", "")? {
        "LEFT" => c.zip(|a, b| a.lshift(b)),
        "RIGHT" => c.zip(|a, b| a.rshift(b)),
        other => fail(format!("attribute \"direction\" is {other:?}, not LEFT or RIGHT")),
    }
}

fn old_clip(c: &Call) -> Result<Outs> {
    c.ignore(&["consumed_inputs"]);
    let (lo, hi) = (c.float("min")?, c.float("max")?);
    let x = c.tensor(0)?;
    let x = lo.map_or(x.clone(), |lo| x.clamp_min(lo));
    give(hi.map_or(x.clone(), |hi| x.clamp_max(hi)))
}
fn clip(c: &Call) -> Result<Outs> {
    let x = c.tensor(0)?;
    let x = c.optional(1)?.map_or(x.clone(), |lo| x.maximum(lo));
    give(c.optional(2)?.map_or(x.clone(), |hi| x.minimum(hi)))
}

fn equal(c: &Call) -> Result<Outs> {
    if let (Value::Strings(a), Value::Strings(b)) = (c.input(0)?, c.input(1)?) {
        let mut known = vec![];
        return give(a.numbered(&mut known).eq(b.numbered(&mut known)));
    }
    c.zip(|a, b| a.eq(b))
}

fn is_inf(c: &Call) -> Result<Outs> {
    let (down, up) = (c.int_or("detect_negative", 1)? != 0, c.int_or("detect_positive", 1)? != 0);
    c.map(|x| match (down, up) {
        (true, true) => x.isinf(),
        (true, false) => x.isinf().logical_and(x.lt(0.0)),
        (false, true) => x.isinf().logical_and(x.gt(0.0)),
        (false, false) => x.isinf().logical_and(false),
    })
}

fn where_(c: &Call) -> Result<Outs> {
    let (condition, a, b) = (c.tensor(0)?, c.input(1)?, c.input(2)?);
    if let (Value::Strings(a), Value::Strings(b)) = (a, b) {
        let mut known = vec![];
        let (x, y) = (a.numbered(&mut known), b.numbered(&mut known));
        let all = crate::Strings::new(vec![known.len()], known);
        return give(all.moved(|places| Ok(places.take(&condition.where_(x, y))))?);
    }
    let (a, b) = (a.tensor()?, b.tensor()?);
    c.alike(&a, &b)?;
    match condition.dtype() {
        DType::Bool => give(condition.where_(a, b)),
        d => fail(format!("the condition is {d}, not bool")),
    }
}
