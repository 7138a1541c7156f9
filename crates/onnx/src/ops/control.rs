//! Branches and loops.

use super::shape::{axis_of, size_at};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{DType, Dim, Result, Tensor};

pub(super) const OPS: &[Op] = &[
    op("If", 1, |c| {
        let name = if c.int_input(0)? != 0 { "then_branch" } else { "else_branch" };
        c.ignore(&["then_branch", "else_branch"]);
        give(c.run(c.graph(name)?, vec![])?)
    }),
    op("Loop", 1, repeat),
    op("Scan", 8, old_scan),
    op("Scan", 9, scan),
];

/// Runs a body until its count or its condition ends it; what it gives besides the carries is stacked.
fn repeat(c: &Call) -> Result<Outs> {
    let body = c.graph("body")?;
    c.alone()?;
    let count = if c.value(0).is_some() { Some(c.int_input(0)?) } else { None };
    let mut go = if c.value(1).is_some() { c.int_input(1)? != 0 } else { true };
    let mut carries: Vec<Option<Value>> = c.rest(2).to_vec();
    let n = carries.len();
    let mut stacked: Vec<Vec<Value>> = vec![vec![]; body.outputs.len().saturating_sub(1 + n)];
    let mut i = 0;
    while go && count.is_none_or(|count| i < count) {
        // in memory, so that all steps are one recording
        let number: Value = Tensor::from_slice(&[i]).reshape(()).realize()?.clone().into();
        let flag: Value = Tensor::full((), go).into();
        let outs = c.run(body, [Some(number), Some(flag)].into_iter().chain(carries).collect())?;
        // a variable in a size has another value in the next step
        let outs = outs.into_iter().map(Value::with_numbers).collect::<Result<Vec<_>>>()?;
        let mut outs = outs.into_iter();
        go = match outs.next() {
            Some(v) => v.ints()?.first().is_some_and(|v| *v != 0),
            None => return fail("the body gives no condition"),
        };
        carries = outs.by_ref().take(n).map(Some).collect();
        stacked.iter_mut().zip(outs).for_each(|(all, v)| all.push(v));
        i += 1;
    }
    if i == 0 && !stacked.is_empty() {
        let first: Value = Tensor::full_dtype((), 0, DType::I64).into();
        let inputs = [Some(first), Some(Tensor::full((), true).into())].into_iter().chain(carries.clone());
        let none = none_of_each(c, inputs.collect(), 1 + n)?.into_iter().map(Some);
        return Ok(Outs(carries.into_iter().chain(none).collect()));
    }
    let stacked = stacked.into_iter().map(|all| stack(all, 0).map(Some)).collect::<Result<Vec<_>>>()?;
    Ok(Outs(carries.into_iter().chain(stacked).collect()))
}

/// What a body that runs no step stacks: nothing, of the types and sizes that its values after the first `n` would have.
fn none_of_each(c: &Call, inputs: Vec<Option<Value>>, n: usize) -> Result<Vec<Value>> {
    let body = c.graph("body")?;
    let outs = c.describe(body, inputs.clone()).or_else(|_| c.run(body, inputs))?;
    let none = |v: Value| match v {
        Value::Strings(s) => Ok(Strings::new([&[0], &s.dims[..]].concat(), vec![]).into()),
        v => {
            let t = v.tensor()?;
            let dims = [&[Dim::from(0)], t.shape().as_slice()].concat();
            Ok(Value::Tensor(Tensor::full_dtype(dims, 0, t.dtype()), v.element()?))
        }
    };
    outs.into_iter().skip(n).map(none).collect()
}

/// Values of one shape along a new axis.
fn stack(all: Vec<Value>, axis: isize) -> Result<Value> {
    let Some(first) = all.first() else { return Ok(Tensor::zeros([0]).into()) };
    if let Value::Strings(s) = first {
        let dims: Vec<usize> = [all.len()].into_iter().chain(s.dims.iter().copied()).collect();
        let mut texts = vec![];
        for v in &all {
            match v {
                Value::Strings(s) => texts.extend(s.texts.iter().cloned()),
                other => return fail(format!("{} among texts", other.kind())),
            }
        }
        return Ok(Strings::new(dims, texts).into());
    }
    let element = first.element()?;
    let tensors = all.iter().map(Value::tensor).collect::<Result<Vec<_>>>()?;
    Ok(Value::Tensor(Tensor::stack(&tensors, axis), element))
}

/// How many inputs are scanned, of some.
fn scanned_inputs(c: &Call, of: usize) -> Result<usize> {
    match c.count("num_scan_inputs", 0)? {
        n if n <= of => Ok(n),
        n => fail(format!("attribute \"num_scan_inputs\" is {n}, of {of} inputs")),
    }
}

fn scan(c: &Call) -> Result<Outs> {
    let body = c.graph("body")?;
    let n = scanned_inputs(c, c.len())?;
    // a recording has sizes as variables, where it can be made; what runs by itself has them as they are
    let settled = |v: &Option<Value>| match (v, c.alone()) {
        (Some(v), Ok(_)) => v.clone().with_numbers().map(Some),
        _ => Ok(v.clone()),
    };
    let inputs = c.rest(0).iter().map(settled).collect::<Result<Vec<_>>>()?;
    let (carries, scanned) = inputs.split_at(c.len() - n);
    let outs = body.outputs.len().saturating_sub(carries.len());
    let list = |name: &str, len: usize| -> Result<Vec<i64>> {
        match c.list(name)? {
            Some(l) if l.len() == len => Ok(l),
            Some(l) => fail(format!("attribute {name:?} has {} numbers, {len} are wanted", l.len())),
            None => Ok(vec![0; len]),
        }
    };
    let (in_axes, out_axes) = (list("scan_input_axes", n)?, list("scan_output_axes", outs)?);
    let (in_back, out_back) = (list("scan_input_directions", n)?, list("scan_output_directions", outs)?);
    let tensor = |v: &Option<Value>| v.as_ref().map_or_else(|| fail("an input is not there"), Value::tensor);
    // the scanned axis first, the last element first where it goes backwards
    let mut rows = vec![];
    for (i, v) in scanned.iter().enumerate() {
        let x = tensor(v)?;
        let x = x.movedim(axis_of(in_axes[i], x.rank())? as isize, 0);
        rows.push(if in_back[i] != 0 { x.flip(0) } else { x });
    }
    let length = match rows.first() {
        Some(x) => x.shape()[0].clone(),
        None => return fail("nothing to scan"),
    };
    let begin = carries.iter().map(tensor).collect::<Result<Vec<_>>>()?;
    let (last, all) = run_scan(c, &length, &begin, &rows, outs)?;
    let mut given = last;
    for (i, y) in all.into_iter().enumerate() {
        let y = if out_back[i] != 0 { y.flip(0) } else { y };
        let axis = axis_of(out_axes[i], y.rank())?;
        given.push(y.movedim(0, axis as isize));
    }
    give(given)
}

/// The last carries, and what each step gave besides, along a first axis.
type Scanned = (Vec<Tensor>, Vec<Tensor>);

/// All steps: as one loop, or one after the other where a step cannot be described before it runs.
fn run_scan(c: &Call, length: &Dim, begin: &[Tensor], rows: &[Tensor], outs: usize) -> Result<Scanned> {
    if *length == 0 {
        let rows = rows.iter().map(|x| Tensor::full_dtype(&x.shape().as_slice()[1..], 0, x.dtype()));
        let inputs = begin.iter().cloned().chain(rows).map(|t| Some(t.into())).collect();
        let none = none_of_each(c, inputs, begin.len())?;
        return Ok((begin.to_vec(), none.iter().map(Value::tensor).collect::<Result<_>>()?));
    }
    match (described(c, length, begin, rows, outs), c.alone()) {
        (Err(_), Ok(_)) => stepped(c, length, begin, rows, outs),
        (done, _) => done,
    }
}

/// Runs a step after the other, each captured body in parts.
fn stepped(c: &Call, length: &Dim, begin: &[Tensor], rows: &[Tensor], outs: usize) -> Result<Scanned> {
    let body = c.graph("body")?;
    let mut carries = begin.to_vec();
    let mut stacked: Vec<Vec<Value>> = vec![vec![]; outs];
    for i in 0..length.value()? {
        // in memory, so that all steps are one recording
        let now: Vec<Tensor> = rows.iter().map(|x| x.select(0, i).contiguous()).collect();
        Tensor::realize_all(&now.iter().collect::<Vec<_>>())?;
        let inputs = carries.into_iter().chain(now).map(|t| Some(Value::from(t))).collect();
        let given = c.run(body, inputs)?.into_iter().map(Value::with_numbers).collect::<Result<Vec<_>>>()?;
        if given.len() != begin.len() + outs {
            return fail("the body gives another number of values");
        }
        carries = given[..begin.len()].iter().map(Value::tensor).collect::<Result<_>>()?;
        stacked.iter_mut().zip(given.into_iter().skip(begin.len())).for_each(|(all, v)| all.push(v));
    }
    let stacked = stacked.into_iter().map(|all| stack(all, 0)?.tensor());
    Ok((carries, stacked.collect::<Result<_>>()?))
}

/// The row of a step. A step of a loop is inside any size that is its count, but where that is a variable this is not known.
fn row(x: &Tensor, step: &Dim) -> Tensor {
    match x.shape()[0].as_int() {
        Some(_) => x.select(0, step),
        None => x.index_select(0, &Tensor::from(step).long().reshape([1])).squeeze(0),
    }
}

/// One step described once; an error in it comes out of the loop.
fn described(c: &Call, length: &Dim, begin: &[Tensor], rows: &[Tensor], outs: usize) -> Result<Scanned> {
    let body = c.graph("body")?;
    let mut fault = None;
    let done = Tensor::scan(length, &begin.iter().collect::<Vec<_>>(), |i, carries| {
        let now = rows.iter().map(|x| row(x, i));
        let inputs = carries.iter().cloned().chain(now).map(|t| Some(Value::from(t))).collect();
        let tensors = c
            .describe(body, inputs)
            .and_then(|all| all.iter().map(Value::tensor).collect::<Result<Vec<_>>>());
        match tensors {
            Ok(mut next) if next.len() == carries.len() + outs => {
                let ys = next.split_off(carries.len());
                (next, ys)
            }
            result => {
                fault = Some(result.err());
                (carries.to_vec(), vec![])
            }
        }
    });
    match fault {
        None => Ok(done),
        Some(Some(e)) => Err(e),
        Some(None) => fail("the body gives another number of values"),
    }
}

/// Opset 8 had a batch dim first, each sample with a length of its own.
fn old_scan(c: &Call) -> Result<Outs> {
    let n = scanned_inputs(c, c.len().saturating_sub(1))?;
    let back = c.list("directions")?.unwrap_or_else(|| vec![0; n]);
    if back.len() != n {
        return fail(format!("attribute \"directions\" has {} numbers, {n} are wanted", back.len()));
    }
    let lengths = c.optional_ints(0)?;
    let carries = c.len() - 1 - n;
    let batch = size_at(&c.tensor(1 + carries)?, 0)?;
    if batch == 0 {
        return fail("of a batch of none");
    }
    let outs = c.graph("body")?.outputs.len().saturating_sub(carries);
    let mut samples: Vec<Vec<Tensor>> = vec![];
    for b in 0..batch as i64 {
        let part = |i: usize| -> Result<Tensor> { Ok(c.tensor(1 + i)?.select(0, b)) };
        let begin = (0..carries).map(part).collect::<Result<Vec<_>>>()?;
        let rows = (carries..carries + n).map(part).collect::<Result<Vec<_>>>()?;
        let most = size_at(&rows[0], 0)? as i64;
        let length = match lengths.as_ref().map_or(Some(most), |l| l.get(b as usize).copied()) {
            Some(length) if (0..=most).contains(&length) => length,
            other => return fail(format!("{other:?} steps of sample {b}, which has {most}")),
        };
        let turned = |(x, back): (Tensor, &i64)| {
            let x = x.narrow(0, 0, length);
            if *back != 0 { x.flip(0) } else { x }
        };
        let rows: Vec<Tensor> = rows.into_iter().zip(&back).map(turned).collect();
        let (last, all) = run_scan(c, &length.into(), &begin, &rows, outs)?;
        // zeros where a sample has ended
        let filled = |y: Tensor| {
            let mut more = vec![(0, 0); y.rank()];
            more[0] = (0, most - length);
            y.pad(&more, 0)
        };
        samples.push(last.into_iter().chain(all.into_iter().map(filled)).collect());
    }
    let stacked = |k: usize| Tensor::stack(&samples.iter().map(|s| s[k].clone()).collect::<Vec<_>>(), 0);
    give((0..carries + outs).map(stacked).collect::<Vec<_>>())
}
