//! Values to begin with.

use super::shape::axis_of;
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::element::Element;
use crate::value::{Strings, Value};
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("Bernoulli", 15, bernoulli),
    op("Constant", 1, constant),
    op("ConstantOfShape", 9, constant_of_shape),
    op("EyeLike", 9, eye_like),
    op("Multinomial", 7, multinomial),
    op("OneHot", 9, one_hot),
    op("RandomNormal", 1, |c| random(c, c.sizes("shape")?.unwrap_or_default(), DType::F32, normal)),
    op("RandomNormalLike", 1, |c| random(c, c.input(0)?.dims()?, c.tensor(0)?.dtype(), normal)),
    op("RandomUniform", 1, |c| random(c, c.sizes("shape")?.unwrap_or_default(), DType::F32, uniform)),
    op("RandomUniformLike", 1, |c| random(c, c.input(0)?.dims()?, c.tensor(0)?.dtype(), uniform)),
    op("Range", 11, range),
];

fn constant(c: &Call) -> Result<Outs> {
    if let Some(v) = c.constant("value")?.or(c.constant("sparse_value")?) {
        return give(v.clone());
    }
    if let Some(v) = c.float("value_float")? {
        return give(Tensor::full_dtype((), v, DType::F32));
    }
    if let Some(v) = c.floats("value_floats")? {
        return give(Tensor::from_slice(v));
    }
    if let Some(v) = c.int("value_int")? {
        return give(Tensor::full_dtype((), v, DType::I64));
    }
    if let Some(v) = c.list("value_ints")? {
        return give(Tensor::from_slice(&v));
    }
    if let Some(v) = c.text("value_string")? {
        return give(Strings::new(vec![], vec![v.to_string()]));
    }
    match c.texts("value_strings")? {
        Some(v) => give(Strings::new(vec![v.len()], v.to_vec())),
        None => fail("no value"),
    }
}

fn constant_of_shape(c: &Call) -> Result<Outs> {
    let dims = c.dims(0)?;
    match c.constant("value")? {
        Some(v) => {
            let one = v.tensor()?.reshape(());
            give(Value::Tensor(one.expand(dims), v.element()?))
        }
        None => give(Tensor::full_dtype(dims, 0.0, DType::F32)),
    }
}

/// The type that `dtype` names, else another.
fn named(c: &Call, other: DType) -> Result<DType> {
    Ok(c.element_named("dtype")?.map_or(other, Element::dtype))
}

fn eye_like(c: &Call) -> Result<Outs> {
    let (x, k) = (c.tensor(0)?, c.int_or("k", 0)?);
    let s = x.shape();
    if s.rank() != 2 {
        return fail(format!("of shape {s}, not a matrix"));
    }
    let (rows, cols) = (Tensor::arange(&s[0]).unsqueeze(1), Tensor::arange(&s[1]));
    give((rows + k).eq(cols).cast(named(c, x.dtype())?))
}

fn one_hot(c: &Call) -> Result<Outs> {
    let (idx, depth) = (c.tensor(0)?, c.float_input(1)? as i64);
    let axis = axis_of(c.int_or("axis", -1)?, idx.rank() + 1)? as isize;
    let idx = idx.cast(DType::I64);
    let idx = idx.lt(0).where_(&idx + depth, &idx);
    let places = (0..idx.rank() as isize - axis).fold(Tensor::arange(depth).long(), |p, _| p.unsqueeze(-1));
    let hot = idx.unsqueeze(axis).eq(places);
    give(c.moved_value(2, |values| Ok(hot.where_(values.select(0, 1), values.select(0, 0))))?)
}

fn range(c: &Call) -> Result<Outs> {
    let d = c.tensor(0)?.dtype();
    if d.is_float() {
        let (start, step) = (c.tensor(0)?.reshape(()), c.tensor(2)?.reshape(()));
        let n = ((c.float_input(1)? - c.float_input(0)?) / c.float_input(2)?).ceil() as i64;
        // numbers of two types meet at a wider one, and the result is of theirs
        return give((Tensor::arange(n.max(0)).cast(d) * step + start).cast(d));
    }
    match (&c.dims(0)?[..], &c.dims(1)?[..], c.int_input(2)?) {
        (_, _, 0) => fail("by steps of 0"),
        ([start], [end], by) => give(Tensor::arange_between(start, end, by).cast(d)),
        _ => fail("a start, end or step of several elements"),
    }
}

fn seed(c: &Call) -> Result<()> {
    // a seed makes runs repeat themselves; the numbers are ours either way
    c.float("seed").map(drop)
}
fn normal(c: &Call, dims: &[usize], d: DType) -> Result<Tensor> {
    let (mean, scale) = (c.float_or("mean", 0.0)?, c.float_or("scale", 1.0)?);
    Ok((Tensor::randn(dims) * scale + mean).cast(d))
}
fn uniform(c: &Call, dims: &[usize], d: DType) -> Result<Tensor> {
    let (low, high) = (c.float_or("low", 0.0)?, c.float_or("high", 1.0)?);
    Ok((Tensor::rand(dims) * (high - low) + low).cast(d))
}
fn random(
    c: &Call,
    dims: Vec<usize>,
    d: DType,
    f: fn(&Call, &[usize], DType) -> Result<Tensor>,
) -> Result<Outs> {
    seed(c)?;
    give(f(c, &dims, named(c, d)?)?)
}
fn bernoulli(c: &Call) -> Result<Outs> {
    seed(c)?;
    let x = c.tensor(0)?;
    give(Tensor::rand(x.shape()).lt(x.float()).cast(named(c, x.dtype())?))
}
fn multinomial(c: &Call) -> Result<Outs> {
    seed(c)?;
    let n = c.count("sample_size", 1)?;
    let d = named(c, DType::I32)?;
    c.map(|x| x.softmax(-1).multinomial(n, true).cast(d))
}
