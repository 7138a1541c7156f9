//! Branches and loops.

use super::shape::{axis_of, size_at};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::{Strings, Value};
use frit_tensor::{Result, Tensor};

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
    let mut carries: Vec<Option<Value>> = c.inputs.get(2..).unwrap_or_default().to_vec();
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
    let stacked = stacked.into_iter().map(|all| stack(all, 0).map(Some)).collect::<Result<Vec<_>>>()?;
    Ok(Outs(carries.into_iter().chain(stacked).collect()))
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
    let (carries, scanned) = c.inputs.split_at(c.len() - n);
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

/// One step described once; an error in it comes out of the loop.
fn run_scan(
    c: &Call,
    length: &frit_tensor::Dim,
    begin: &[Tensor],
    rows: &[Tensor],
    outs: usize,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let body = c.graph("body")?;
    let mut fault = None;
    let done = Tensor::scan(length, &begin.iter().collect::<Vec<_>>(), |i, carries| {
        let now = rows.iter().map(|x| x.select(0, i));
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
    c.ignore(&["directions"]);
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
        let length = rows[0].shape()[0].clone();
        let (last, all) = run_scan(c, &length, &begin, &rows, outs)?;
        samples.push([last, all].concat());
    }
    let stacked = |k: usize| Tensor::stack(&samples.iter().map(|s| s[k].clone()).collect::<Vec<_>>(), 0);
    give((0..carries + outs).map(stacked).collect::<Vec<_>>())
}
