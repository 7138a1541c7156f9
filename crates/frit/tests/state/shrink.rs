//! A failing program made small: steps left out, arguments made plain, as long as it fails the same way.

use crate::program::{Op, Program, Step, Value};
use crate::run::{Failure, run};
use frit::DType;
use std::time::{Duration, Instant};

/// How long one program may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn shrink(program: &Program, failure: &Failure) -> (Program, Failure) {
    let end = Instant::now() + PATIENCE;
    let (mut best, mut how) = (program.clone(), failure.clone());
    best.steps.truncate(how.at.saturating_add(1));
    if run(&best).is_err_and(|f| f.kind == how.kind) {
        how = run(&best).err().unwrap_or(how);
    } else {
        best = program.clone();
    }
    loop {
        let before = best.clone();
        let mut size = best.steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < best.steps.len() && Instant::now() < end {
                let mut smaller = best.clone();
                smaller.steps.drain(at..(at + size).min(smaller.steps.len()));
                if !better(&mut best, &mut how, smaller) {
                    at += size;
                }
            }
            if size == 1 {
                break;
            }
            size = size.div_ceil(2);
        }
        for at in 0..best.steps.len() {
            for op in plainer(&best.steps[at]) {
                if Instant::now() > end {
                    break;
                }
                let mut simpler = best.clone();
                simpler.steps[at].op = op;
                better(&mut best, &mut how, simpler);
            }
        }
        if format!("{before}") == format!("{best}") || Instant::now() > end {
            return (best, how);
        }
    }
}

fn better(best: &mut Program, how: &mut Failure, other: Program) -> bool {
    match run(&other) {
        Err(f) if f.kind == how.kind => {
            (*best, *how) = (other, f);
            true
        }
        _ => false,
    }
}

/// The same step with less in it.
fn plainer(step: &Step) -> Vec<Op> {
    match &step.op {
        Op::Data { dtype, dims, values } => {
            let mut all = vec![];
            if *dtype != DType::F32 {
                all.push(Op::Data { dtype: DType::F32, dims: dims.clone(), values: values.clone() });
            }
            if dims.len() > 1 {
                all.push(Op::Data { dtype: *dtype, dims: vec![values.len()], values: values.clone() });
            }
            if values.len() > 2 {
                let values = values[..2].to_vec();
                all.push(Op::Data { dtype: *dtype, dims: vec![2], values });
            }
            all
        }
        Op::Full { dtype, dims, value } if *dtype != DType::F32 => {
            vec![Op::Full { dtype: DType::F32, dims: dims.clone(), value: *value }]
        }
        Op::Realize { all } => {
            (0..all.len()).filter(|_| all.len() > 1).map(|i| Op::Realize { all: without(all, i) }).collect()
        }
        Op::Assign { to, value } if *value != Value::Number(1) => {
            vec![Op::Assign { to: *to, value: Value::Number(1) }]
        }
        Op::InPlace { to, fun, by: Value::Tensor(_) } => {
            vec![Op::InPlace { to: *to, fun: *fun, by: Value::Number(1) }]
        }
        Op::Apply { of, fun, by: Value::Tensor(_) } => {
            vec![Op::Apply { of: *of, fun: *fun, by: Value::Number(1) }]
        }
        Op::Set { to, places, value } => {
            let mut all = vec![];
            if places.len() > 1 {
                all.push(Op::Set { to: *to, places: places[..1].to_vec(), value: *value });
            }
            if *value != Value::Number(1) {
                all.push(Op::Set { to: *to, places: places.clone(), value: Value::Number(1) });
            }
            all
        }
        Op::Define { function: f } => {
            let mut all = vec![];
            for i in 0..f.body.len() {
                let mut g = f.clone();
                g.body.remove(i);
                all.push(Op::Define { function: g });
            }
            for i in 0..f.body.len() {
                for op in plainer(&f.body[i]) {
                    let mut g = f.clone();
                    g.body[i].op = op;
                    all.push(Op::Define { function: g });
                }
            }
            for i in 0..f.returns.len() {
                let mut g = f.clone();
                g.returns.remove(i);
                all.push(Op::Define { function: g });
            }
            for i in 0..f.captures.len() {
                let mut g = f.clone();
                g.captures.remove(i);
                all.push(Op::Define { function: g });
            }
            all
        }
        Op::Gradient { leaves, a, b, computed: true } => {
            vec![Op::Gradient { leaves: leaves.clone(), a: a.clone(), b: b.clone(), computed: false }]
        }
        Op::Call { jit, inputs, training } => {
            let mut all = vec![];
            if *training {
                all.push(Op::Call { jit: *jit, inputs: inputs.clone(), training: false });
            }
            all
        }
        _ => vec![],
    }
}

fn without<T: Clone>(all: &[T], i: usize) -> Vec<T> {
    all.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| v.clone()).collect()
}
