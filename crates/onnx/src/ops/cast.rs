//! Between element types.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::element::Element;
use crate::value::{Strings, Value};
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("BitCast", 26, bit_cast),
    op("Cast", 1, old_cast),
    op("Cast", 6, |c| match c.element_named("to")? {
        Some(to) => cast(c, to),
        None => fail("attribute \"to\" is not there"),
    }),
    op("CastLike", 15, |c| cast(c, c.element(1)?)),
];

/// The type was a text once.
fn old_cast(c: &Call) -> Result<Outs> {
    let name = c.text_or("to", "")?.to_lowercase();
    match (1..=28).filter_map(|n| Element::from_number(n).ok()).find(|e| e.name() == name) {
        Some(to) => cast(c, to),
        None => fail(format!("attribute \"to\" is {name:?}")),
    }
}

fn cast(c: &Call, to: Element) -> Result<Outs> {
    let saturate = c.int_or("saturate", 1)? != 0;
    let round = c.text_or("round_mode", "up")?;
    match (c.input(0)?, to) {
        (Value::Strings(s), Element::String) => give(s.clone()),
        (Value::Strings(s), to) => give(parsed(s, to)?),
        (other, Element::String) => give(printed(&other.tensor()?)?),
        (other, to) => give(converted(&other.tensor()?, to, saturate, round)?),
    }
}

/// Numbers as another type.
pub(super) fn converted(x: &Tensor, to: Element, saturate: bool, round: &str) -> Result<Value> {
    use Element::*;
    if to.dtype() == DType::Void {
        return fail(format!("{} elements are not supported", to.name()));
    }
    let t = match to {
        Float8E8M0 => to_e8m0(&x.float(), saturate, round)?,
        Float8E4M3Fn | Float8E4M3Fnuz | Float8E5M2 | Float8E5M2Fnuz if x.dtype().is_float() => {
            to_float8(x, to.dtype(), saturate)
        }
        _ => to.round(x),
    };
    Ok(Value::Tensor(t, to))
}

/// What is beyond the greatest number becomes that, or else the type's infinity or NaN.
fn to_float8(x: &Tensor, to: DType, saturate: bool) -> Tensor {
    let Some(info) = to.finfo() else { return x.cast(to) };
    let x = if x.dtype().size() < 4 { x.float() } else { x.clone() };
    if saturate {
        return x.isnan().where_(&x, x.clamp(info.min, info.max)).cast(to);
    }
    // halfway to what would be the next number, and on
    let beyond = info.max + info.ulp(info.max) / 2.0;
    let outside = x.abs().ge(beyond);
    let outside = if to == DType::F8E5M2 {
        (x.sign() * f64::INFINITY, outside)
    } else {
        (x.full_like(f64::NAN), outside)
    };
    outside.1.where_(outside.0, x.clamp(info.min, info.max)).cast(to)
}

/// To powers of two.
fn to_e8m0(x: &Tensor, saturate: bool, round: &str) -> Result<Tensor> {
    let bits = x.abs().bitcast(DType::I32);
    let (exponent, rest) = (bits.rshift(23), bits.bitwise_and(0x7f_ffff));
    let up = match round {
        "up" => rest.ne(0),
        "down" => rest.lt(0),
        "nearest" => rest.ge(0x40_0000),
        other => return fail(format!("attribute \"round_mode\" is {other:?}")),
    };
    let code = exponent + up.int();
    let code = if saturate { code.clamp(0, 254) } else { code.gt(254).where_(255, code) };
    let code = x
        .isfinite()
        .where_(code, if saturate { x.isnan().where_(255, 254) } else { x.isnan().where_(255, 255) });
    Ok(Element::Float8E8M0.decode(&code.cast(DType::U8)))
}

fn parsed(s: &Strings, to: Element) -> Result<Value> {
    let number = |t: &String| match t.trim().to_ascii_lowercase().as_str() {
        "inf" | "+inf" | "infinity" => Ok(f64::INFINITY),
        "-inf" | "-infinity" => Ok(f64::NEG_INFINITY),
        "nan" | "-nan" => Ok(f64::NAN),
        t => t.parse::<f64>().or_else(|_| fail(format!("{t:?} is not a number"))),
    };
    let texts = s.texts.iter();
    if to.dtype().is_int() {
        let int = |t: &String| t.trim().parse::<i64>().or_else(|_| number(t).map(|v| v as i64));
        let all = texts.map(int).collect::<Result<Vec<_>>>()?;
        return converted(&Tensor::from_vec(all, &s.dims), to, true, "up");
    }
    let all = texts.map(number).collect::<Result<Vec<_>>>()?;
    converted(&Tensor::from_vec(all, &s.dims), to, true, "up")
}

/// Numbers as numpy would print them.
fn printed(x: &Tensor) -> Result<Strings> {
    let dims = x.dims()?;
    let special = |v: f64, text: String| match v {
        v if v.is_nan() => "NaN".to_string(),
        v if v.is_infinite() => if v > 0.0 { "INF" } else { "-INF" }.to_string(),
        _ => text,
    };
    let texts = match x.dtype() {
        DType::Bool => x.to_vec::<bool>()?.iter().map(|v| if *v { "1" } else { "0" }.to_string()).collect(),
        DType::F64 => x.to_vec::<f64>()?.iter().map(|v| special(*v, v.to_string())).collect(),
        DType::U64 => x.to_vec::<u64>()?.iter().map(u64::to_string).collect(),
        d if d.is_float() => {
            x.float().to_vec::<f32>()?.iter().map(|v| special(f64::from(*v), v.to_string())).collect()
        }
        _ => x.long().to_vec::<i64>()?.iter().map(i64::to_string).collect(),
    };
    Ok(Strings::new(dims, texts))
}

fn bit_cast(c: &Call) -> Result<Outs> {
    let Some(to) = c.element_named("to")? else { return fail("attribute \"to\" is not there") };
    let x = c.tensor(0)?;
    if !to.is_native() || to.dtype().size() != x.dtype().size() {
        return fail(format!("{} as {}, which is of another size", x.dtype(), to.name()));
    }
    // a truth value is a byte of one or zero
    let bits = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x };
    give(if to == Element::Bool { bits.bitcast(DType::U8).ne(0) } else { bits.bitcast(to.dtype()) })
}
