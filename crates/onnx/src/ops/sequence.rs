//! Sequences, optionals, and what is made of them.

use super::shape::{axis_of, checked_parts};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Dim, Result, Tensor};

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
    if c.alone().is_ok() {
        return give(joined(all, axis as i64, stacked)?);
    }
    let tensors = all.iter().map(Value::tensor).collect::<Result<Vec<_>>>()?;
    let element = all.first().map_or_else(|| fail("the sequence is empty"), Value::element)?;
    let joined = if stacked { Tensor::stack(&tensors, axis) } else { Tensor::cat(&tensors, axis) };
    give(Value::Tensor(joined, element))
}

/// Values one after the other along an axis, on the host: there is no program for each number of them.
fn joined(all: &[Value], axis: i64, stacked: bool) -> Result<Value> {
    let Some(first) = all.first() else { return fail("the sequence is empty") };
    let axis = axis_of(axis, first.rank()? + usize::from(stacked))?;
    let (mut lengths, mut shape) = (vec![], vec![]);
    for v in all {
        let mut dims = v.dims()?;
        if stacked && axis <= dims.len() {
            dims.insert(axis, 1);
        }
        if v.element()? != first.element()? || !lengths.is_empty() && !fits(&dims, &shape, axis) {
            return fail(format!("values of shapes {shape:?} and {dims:?}, or of different types"));
        }
        lengths.push(dims[axis]);
        shape = dims;
    }
    let (outer, inner) = (shape[..axis].iter().product(), shape[axis + 1..].iter().product::<usize>());
    shape[axis] = lengths.iter().sum();
    let Value::Tensor(t, element) = first else {
        let texts = |v: &Value| match v {
            Value::Strings(s) => Ok(s.texts.to_vec()),
            other => fail(format!("{} among texts", other.kind())),
        };
        let texts = all.iter().map(texts).collect::<Result<Vec<_>>>()?;
        let blocks: Vec<usize> = lengths.iter().map(|n| n * inner).collect();
        return Ok(Strings::new(shape, interleaved(&texts, &blocks, outer)).into());
    };
    let bytes = all.iter().map(|v| bytes(&v.tensor()?)).collect::<Result<Vec<_>>>()?;
    let blocks: Vec<usize> = lengths.iter().map(|n| n * inner * t.dtype().size()).collect();
    let bytes = interleaved(&bytes, &blocks, outer);
    Ok(Value::Tensor(Tensor::from_bytes(t.dtype(), &bytes, shape), *element))
}

/// The elements of a tensor; of sizes, which are known, without a program that writes them down.
fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    let sizes = t.as_sizes().filter(|_| t.dtype() == DType::I64);
    let known = sizes.and_then(|all| all.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>());
    known.map_or_else(|| t.to_bytes(), |all| Ok(all.iter().flat_map(|v| v.to_le_bytes()).collect()))
}

/// Whether two shapes are the same but for one dim.
fn fits(a: &[usize], b: &[usize], axis: usize) -> bool {
    a.len() == b.len() && (0..a.len()).all(|i| i == axis || a[i] == b[i])
}

/// A block of each in turn, so many times.
fn interleaved<T: Clone>(all: &[Vec<T>], blocks: &[usize], times: usize) -> Vec<T> {
    let mut out = vec![];
    for i in 0..times {
        all.iter().zip(blocks).for_each(|(v, n)| out.extend_from_slice(&v[i * n..(i + 1) * n]));
    }
    out
}

/// So many elements from `begin` on along an axis, which is dropped where there is one alone; on the host, as above.
fn cut(v: &Value, axis: usize, begin: usize, size: usize, drop: bool) -> Result<Value> {
    fn rows<T: Clone>(all: &[T], row: usize, from: usize, size: usize) -> Vec<T> {
        let rows = all.len().checked_div(row).unwrap_or(0);
        (0..rows).flat_map(|i| all[i * row + from..i * row + from + size].iter().cloned()).collect()
    }
    let mut dims = v.dims()?;
    let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    match drop {
        true => {
            dims.remove(axis);
        }
        false => dims[axis] = size,
    }
    Ok(match v {
        Value::Strings(s) => {
            Strings::new(dims, rows(&s.texts, n * inner, begin * inner, size * inner)).into()
        }
        other => {
            let t = other.tensor()?;
            let inner = inner * t.dtype().size();
            let bytes = rows(&bytes(&t)?, n * inner, begin * inner, size * inner);
            Value::Tensor(Tensor::from_bytes(t.dtype(), &bytes, dims), other.element()?)
        }
    })
}

fn split(c: &Call) -> Result<Outs> {
    let (axis, keep) = (c.int_or("axis", 0)?, c.int_or("keepdims", 1)? != 0);
    let dims = c.input(0)?.dims()?;
    let at = axis_of(axis, dims.len())?;
    let n = dims[at];
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
        out.push(match c.alone() {
            Ok(_) => cut(c.input(0)?, at, begin, size as usize, drop)?,
            Err(_) => c.moved_value(0, |x| {
                let part = x.narrow(axis as isize, begin, size);
                Ok(if drop { part.squeeze(axis as isize) } else { part })
            })?,
        });
        begin += size as usize;
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
