//! Sequences, optionals, and what is made of them.

use super::shape::{axis_of, checked_parts};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::Value;
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("ConcatFromSequence", 11, concat),
    op("Optional", 15, |c| {
        c.ignore(&["type"]);
        give(Value::Optional(c.value(0).cloned().map(Box::new)))
    }),
    op("OptionalGetElement", 15, |c| match c.input(0)? {
        Value::Optional(Some(v)) => give((**v).clone()),
        Value::Optional(None) => fail("the optional is empty"),
        other => give(other.clone()),
    }),
    op("OptionalHasElement", 15, |c| {
        give(Tensor::full((), !matches!(c.value(0), None | Some(Value::Optional(None)))))
    }),
    op("SequenceAt", 11, |c| {
        let all = sequence(c, 0)?;
        let i = place(c.int_input(1)?, all.len(), false)?;
        give(all[i].clone())
    }),
    op("SequenceConstruct", 11, |c| {
        let all = (0..c.len()).map(|i| c.input(i).cloned()).collect::<Result<Vec<_>>>()?;
        give(Value::Sequence(all))
    }),
    op("SequenceEmpty", 11, |c| {
        c.ignore(&["dtype"]);
        give(Value::Sequence(vec![]))
    }),
    op("SequenceErase", 11, |c| {
        let mut all = sequence(c, 0)?.to_vec();
        let i = if c.value(1).is_some() { c.int_input(1)? } else { -1 };
        all.remove(place(i, all.len(), false)?);
        give(Value::Sequence(all))
    }),
    op("SequenceInsert", 11, |c| {
        let mut all = sequence(c, 0)?.to_vec();
        let i = if c.value(2).is_some() { place(c.int_input(2)?, all.len(), true)? } else { all.len() };
        all.insert(i, c.input(1)?.clone());
        give(Value::Sequence(all))
    }),
    op("SequenceLength", 11, |c| give(Tensor::full_dtype((), sequence(c, 0)?.len() as i64, DType::I64))),
    op("SequenceMap", 17, map),
    op("SplitToSequence", 11, split),
];

fn sequence<'a>(c: &'a Call, i: usize) -> Result<&'a [Value]> {
    match c.input(i)? {
        Value::Sequence(all) => Ok(all),
        Value::Optional(Some(v)) if let Value::Sequence(all) = &**v => Ok(all),
        other => fail(format!("input {i} is {}, not a sequence", other.kind())),
    }
}

/// A place in a sequence; where something is inserted also its end.
fn place(i: i64, n: usize, end: bool) -> Result<usize> {
    let at = if i < 0 { i + n as i64 } else { i };
    match usize::try_from(at) {
        Ok(at) if at < n + usize::from(end) => Ok(at),
        _ => fail(format!("place {i} in a sequence of {n}")),
    }
}

fn concat(c: &Call) -> Result<Outs> {
    let axis = c.axis("axis", 0)?;
    let stacked = c.flag("new_axis")?;
    let all = sequence(c, 0)?;
    if let Some(Value::Strings(_)) = all.first() {
        let texts = |v: &Value| match v {
            Value::Strings(s) if stacked => s.moved(|x| Ok(x.unsqueeze(axis))),
            Value::Strings(s) => Ok(s.clone()),
            other => fail(format!("{} among texts", other.kind())),
        };
        let mut all = all.iter().map(texts);
        let first = all.next().unwrap_or_else(|| fail("the sequence is empty"))?;
        return give(all.try_fold(first, |a, b| a.joined(&b?, axis))?);
    }
    let tensors = all.iter().map(Value::tensor).collect::<Result<Vec<_>>>()?;
    let element = all.first().map_or_else(|| fail("the sequence is empty"), Value::element)?;
    let joined = if stacked { Tensor::stack(&tensors, axis) } else { Tensor::cat(&tensors, axis) };
    give(Value::Tensor(joined, element))
}

fn split(c: &Call) -> Result<Outs> {
    let (axis, keep) = (c.int_or("axis", 0)?, c.int_or("keepdims", 1)? != 0);
    let dims = c.input(0)?.dims()?;
    let n = dims[axis_of(axis, dims.len())?];
    let sizes = match c.value(1) {
        None => vec![1; n],
        Some(v) if v.dims()?.is_empty() => match c.int_input(1)? {
            by if by > 0 => (0..n).step_by(by as usize).map(|i| by.min((n - i) as i64)).collect(),
            by => return fail(format!("in parts of {by}")),
        },
        Some(v) => checked_parts(c.ints_of(v)?, n)?,
    };
    let drop = c.value(1).is_none() && !keep;
    let (mut begin, mut out) = (0, vec![]);
    for size in sizes {
        out.push(c.moved_value(0, |x| {
            let part = x.narrow(axis as isize, begin, size);
            Ok(if drop { part.squeeze(axis as isize) } else { part })
        })?);
        begin += size;
    }
    give(Value::Sequence(out))
}

fn map(c: &Call) -> Result<Outs> {
    let body = c.graph("body")?;
    let n = sequence(c, 0)?.len();
    let mut out: Vec<Vec<Value>> = vec![vec![]; body.outputs.len()];
    for k in 0..n {
        let one = |i: usize| match c.input(i)? {
            Value::Sequence(all) => match all.get(k) {
                Some(v) => Ok(Some(v.clone())),
                None => fail(format!("input {i} has {} values, the first has {n}", all.len())),
            },
            other => Ok(Some(other.clone())),
        };
        let inputs = (0..c.len()).map(one).collect::<Result<Vec<_>>>()?;
        out.iter_mut().zip(c.run(body, inputs)?).for_each(|(all, v)| all.push(v));
    }
    give(out.into_iter().map(Value::Sequence).collect::<Vec<_>>())
}
