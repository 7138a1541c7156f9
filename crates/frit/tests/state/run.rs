//! A program on tensors and on the model, step by step.

use crate::model::Model;
use crate::number::{self, Fun};
use crate::program::{Function, Id, Op, Place, Program, Step, Value, input};
use crate::window::Window;
use frit::nn;
use frit::{DType, Dim, Index, Indices, Jit, Lent, Result, Tensor, Variable};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a program went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    /// The step it was found at; the number of steps if it was at the end.
    pub at: usize,
    pub what: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Other numbers than the model's.
    Value,
    /// Another shape or type.
    Form,
    /// An error where there is nothing wrong.
    Error,
    Panic,
    /// Memory that was lent changed.
    Lent,
}

type Tensors = BTreeMap<Id, Tensor>;

/// The tensors of a program.
#[derive(Default)]
struct Real {
    tensors: Tensors,
    lent: BTreeMap<Id, Lent>,
    jits: BTreeMap<Id, Jit<Vec<Tensor>, Vec<Tensor>>>,
}

/// Run a program; steps that mean nothing are left out.
pub fn run(program: &Program) -> std::result::Result<(), Failure> {
    let go = || run_here(program);
    match frit::Device::scope(program.device, go) {
        Ok(r) => r,
        Err(e) => Err(Failure { kind: Kind::Error, at: 0, what: e.to_string() }),
    }
}

fn run_here(program: &Program) -> std::result::Result<(), Failure> {
    let (mut model, mut real) = (Model::default(), Real::default());
    for (at, step) in program.steps.iter().enumerate() {
        if model.step(step).is_none() {
            continue;
        }
        let fail = |kind, what: String| Failure { kind, at, what };
        match catch_unwind(AssertUnwindSafe(|| real.step(step))) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(fail(Kind::Error, e.to_string())),
            Err(p) => return Err(fail(Kind::Panic, panic_text(&*p))),
        }
        let checked = catch_unwind(AssertUnwindSafe(|| check(&model, &real, step)));
        match checked {
            Ok(Ok(())) => {}
            Ok(Err((kind, what))) => return Err(fail(kind, what)),
            Err(p) => return Err(fail(Kind::Panic, panic_text(&*p))),
        }
        for id in model.given_back(step) {
            model.tensors.remove(&id);
            real.tensors.remove(&id);
        }
    }
    let at = program.steps.len();
    let last = catch_unwind(AssertUnwindSafe(|| check_all(&model, &real, program.forwards)));
    match last {
        Ok(r) => r.map_err(|(kind, what)| Failure { kind, at, what }),
        Err(p) => Err(Failure { kind: Kind::Panic, at, what: panic_text(&*p) }),
    }
}

fn panic_text(p: &(dyn std::any::Any + Send)) -> String {
    let text = p.downcast_ref::<String>().cloned();
    text.or_else(|| p.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
}

type Checked = std::result::Result<(), (Kind, String)>;

/// What is cheap to look at after a step: shapes and types; numbers where it reads.
fn check(model: &Model, real: &Real, step: &Step) -> Checked {
    let outs = step.out..step.out + step.op.outs();
    for id in outs.chain(step.op.target()) {
        if let Some(w) = model.tensors.get(&id) {
            check_form(id, w, &real.tensors[&id])?;
        }
    }
    for id in model.given_back(step) {
        check_values(model, id, &model.tensors[&id], &real.tensors[&id])?;
    }
    match &step.op {
        Op::Read { of } => check_values(model, *of, &model.tensors[of], &real.tensors[of]),
        _ => Ok(()),
    }
}

fn check_all(model: &Model, real: &Real, forwards: bool) -> Checked {
    let mut all: Vec<(&Id, &Window)> = model.tensors.iter().collect();
    if !forwards {
        all.reverse();
    }
    for (id, w) in all {
        check_form(*id, w, &real.tensors[id])?;
        check_values(model, *id, w, &real.tensors[id])?;
    }
    for (id, (dtype, expected)) in &model.lent {
        let found = elements(&real.lent[id], *dtype);
        compare(*id, *dtype, expected, &found).map_err(|(_, what)| (Kind::Lent, what))?;
    }
    Ok(())
}

fn check_form(id: Id, w: &Window, t: &Tensor) -> Checked {
    let dims = t.check().and_then(|()| t.dims()).map_err(|e| (Kind::Error, format!("t{id}: {e}")))?;
    if dims != w.dims || t.dtype() != w.dtype {
        let found = format!("{} {dims:?}", t.dtype());
        return Err((Kind::Form, format!("t{id} is {found}, expected {} {:?}", w.dtype, w.dims)));
    }
    Ok(())
}

fn check_values(model: &Model, id: Id, w: &Window, t: &Tensor) -> Checked {
    let bytes = t.to_bytes().map_err(|e| (Kind::Error, format!("reading t{id}: {e}")))?;
    compare(id, w.dtype, &model.read(w), &elements(&bytes, w.dtype))
}

fn elements(bytes: &[u8], dtype: DType) -> Vec<u64> {
    let word = |b: &[u8]| b.iter().rev().fold(0, |v, b| v << 8 | *b as u64);
    bytes.chunks(dtype.size()).map(word).collect()
}

fn compare(id: Id, d: DType, expected: &[u64], found: &[u64]) -> Checked {
    let same =
        expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| number::alike(*a, *b, d));
    if same {
        return Ok(());
    }
    let show = |v: &[u64]| v.iter().map(|b| number::show(*b, d)).collect::<Vec<_>>().join(", ");
    Err((Kind::Value, format!("t{id} ({d}):\n  expected [{}]\n  found    [{}]", show(expected), show(found))))
}

impl Real {
    fn step(&mut self, step: &Step) -> Result<()> {
        match &step.op {
            Op::Define { function } => {
                self.jits.insert(step.out, jit(&self.tensors, function));
            }
            Op::Call { jit, inputs, training } => {
                let mut given = vec![];
                for i in inputs {
                    let t = &self.tensors[&i.of];
                    given.push(match i.rows {
                        Some(k) => {
                            let most = t.dims()?[0] as i64;
                            t.at(..Variable::new("n", 1, most)?.bind(k as i64)?)
                        }
                        None => t.clone(),
                    });
                }
                let results = nn::training(*training, || self.jits[jit].call(given))?;
                for (i, t) in results.into_iter().enumerate() {
                    self.tensors.insert(step.out + i as Id, t);
                }
            }
            Op::Read { .. } => {}
            Op::Drop { of } => drop(self.tensors.remove(of)),
            Op::Lend { of } => drop(self.lent.insert(step.out, self.tensors[of].lend()?)),
            Op::Return { of } => drop(self.lent.remove(of)),
            _ => local(&mut self.tensors, step)?,
        }
        Ok(())
    }
}

/// The function of a Jit: its body, again at each call that runs it.
fn jit(outside: &Tensors, f: &Function) -> Jit<Vec<Tensor>, Vec<Tensor>> {
    let captures: Tensors = f.captures.iter().map(|i| (*i, outside[i].clone())).collect();
    let (f, recapture) = (f.clone(), f.recapture);
    let jit = Jit::new(move |given: Vec<Tensor>| {
        let mut env = captures.clone();
        env.extend(given.into_iter().enumerate().map(|(i, t)| (input(i), t)));
        f.body.iter().try_for_each(|s| local(&mut env, s))?;
        Ok(f.returns.iter().map(|r| env[r].clone()).collect())
    });
    if recapture { jit.recapture() } else { jit }
}

fn applied(env: &Tensors, x: &Tensor, fun: Fun, by: &Value) -> Tensor {
    match by {
        Value::Tensor(t) => {
            let o = env[t].cast(x.dtype());
            match fun {
                Fun::Add => x + o,
                Fun::Sub => x - o,
                Fun::Mul => x * o,
                Fun::And => x & o,
                Fun::Xor => x ^ o,
            }
        }
        Value::Number(v) if x.dtype() == DType::Bool => match fun {
            Fun::And => x & (*v != 0),
            _ => x ^ (*v != 0),
        },
        Value::Number(v) | Value::Float(v) | Value::Computed(_, _, v) => match fun {
            Fun::Add => x + *v,
            Fun::Sub => x - *v,
            Fun::Mul => x * *v,
            Fun::And => x & *v,
            Fun::Xor => x ^ *v,
        },
    }
}

fn operand(env: &Tensors, v: &Value) -> frit::Operand {
    match v {
        Value::Number(v) => (*v).into(),
        Value::Float(v) => (*v as f64).into(),
        Value::Tensor(t) => (&env[t]).into(),
        Value::Computed(t, fun, by) => applied(env, &env[t], *fun, &Value::Number(*by)).into(),
    }
}

fn indices(places: &[Place]) -> Indices {
    let one = |p: &Place| match *p {
        Place::At(i) => Index::from(i),
        Place::Slice(start, end, step) => {
            Index::Slice { start: start.map(Dim::from), end: end.map(Dim::from), step }
        }
    };
    places.iter().map(one).collect::<Vec<Index>>().into()
}

fn numbers(dtype: DType, dims: &[usize], values: &[i64]) -> Tensor {
    let encode = |v: &i64| number::encode(number::Number::Int(*v as i128), dtype).unwrap_or(0);
    let bytes: Vec<u8> =
        values.iter().flat_map(|v| encode(v).to_le_bytes()[..dtype.size()].to_vec()).collect();
    Tensor::from_bytes(dtype, &bytes, dims)
}

/// A step on some tensors, at the top or in a function.
fn local(env: &mut Tensors, step: &Step) -> Result<()> {
    let get = |id: &Id| &env[id];
    let made = match &step.op {
        Op::Data { dtype, dims, values } => numbers(*dtype, dims, values),
        Op::Full { dtype: DType::Bool, dims, value } => Tensor::full(&dims[..], *value != 0),
        Op::Full { dtype, dims, value } => Tensor::full_dtype(&dims[..], *value, *dtype),
        Op::Arange { dtype, n } => Tensor::arange(*n).cast(*dtype),
        Op::At { of, places } => get(of).at(indices(places)),
        Op::Reshape { of, dims } => get(of).reshape(&dims[..]),
        Op::Permute { of, axes } => {
            get(of).permute(&axes.iter().map(|&a| a as isize).collect::<Vec<_>>()[..])
        }
        Op::Squeeze { of, axis } => get(of).squeeze(*axis as isize),
        Op::Unsqueeze { of, axis } => get(of).unsqueeze(*axis as isize),
        Op::Expand { of, dims } => get(of).expand(&dims[..]),
        Op::Split { of, size, axis, part } => {
            let parts = get(of).split(*size, *axis as isize);
            // a failed tensor has one part only
            parts.get(*part).unwrap_or(&parts[0]).clone()
        }
        Op::Detach { of } => get(of).detach(),
        Op::Bitcast { of, dtype } => get(of).bitcast(*dtype),
        Op::Alias { of } => get(of).clone(),
        Op::Cast { of, dtype } => get(of).cast(*dtype),
        Op::Contiguous { of } => get(of).contiguous(),
        Op::Flip { of, axis } => get(of).flip(*axis as isize),
        Op::Cat { a, b, axis } => Tensor::cat(&[get(a).clone(), get(b).clone()], *axis as isize),
        Op::Apply { of, fun, by } => applied(env, get(of), *fun, by),
        Op::Sum { of, axis } => sum(get(of), *axis),
        Op::EmptySum { of } => sum(&get(of).at(..0), None) + 1,
        Op::Take { of, rows } => get(of).at(&rows[..]),
        Op::TakeBy { of, rows } => get(of).at(get(rows)),
        Op::Pick { of, mask } => get(of).at(get(mask)),
        Op::Mode { of } if nn::is_training() => get(of) * 2,
        Op::Mode { of } => get(of) + 1,
        Op::Assign { to, value } => get(to).assign(operand(env, value)),
        Op::InPlace { to, fun, by } => get(to).assign(applied(env, get(to), *fun, by)),
        Op::Set { to, places, value } => get(to).set(indices(places), operand(env, value)),
        Op::SetRows { to, rows, value } => get(to).set(&rows[..], operand(env, value)),
        Op::SetMask { to, mask, value } => get(to).set(get(mask), operand(env, value)),
        Op::SetPrefix { to, value } => {
            let v = get(value);
            let n = v.shape()[0].clone();
            get(to).set(..n, v)
        }
        Op::Replace { to, value } => {
            get(to).replace(&operand(env, value).tensor());
            return Ok(());
        }
        Op::Realize { all } => return Tensor::realize_all(&all.iter().map(get).collect::<Vec<_>>()),
        Op::Gradient { leaves, a, b, computed } => {
            let xs: Vec<&Tensor> = leaves.iter().map(get).collect();
            let term = |i: usize| xs[i] * a[i] + xs[i] * xs[(i + 1) % xs.len()] * b[i];
            let loss = (1..xs.len()).fold(term(0), |sum, i| sum + term(i)).sum(..);
            if *computed {
                Tensor::realize_all(&xs)?;
            }
            let grads = loss.gradient(&xs)?;
            for (i, g) in grads.into_iter().enumerate() {
                env.insert(step.out + i as Id, g);
            }
            return Ok(());
        }
        Op::Define { .. } | Op::Call { .. } | Op::Read { .. } | Op::Drop { .. } | Op::Lend { .. } => {
            return Ok(());
        }
        Op::Return { .. } => return Ok(()),
    };
    made.check()?;
    if step.op.target().is_none() {
        env.insert(step.out, made);
    }
    Ok(())
}

fn sum(x: &Tensor, axis: Option<usize>) -> Tensor {
    let axes: frit::Axes = match axis {
        Some(a) => (a as isize).into(),
        None => (..).into(),
    };
    if x.dtype().is_float() { x.sum(axes) } else { x.sum_as(axes, x.dtype()) }
}
