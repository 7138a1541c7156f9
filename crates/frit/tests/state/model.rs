//! What tensors mean, plainly: memory is an array of elements, a tensor is a window on one, everything happens at once.
//!
//! ```text
//! window    (memory, offset, dims, strides)     shares the memory: reads what is there now, writes there
//! value     memory of its own                   keeps what it was computed from
//! ```
//!
//! A step that has no exact meaning (a sum that rounds, an index out of range, a name that is gone) is refused: it
//! gives `None`, and is not done at all.

use crate::number::{self, Fun, Number};
use crate::program::{Function, Id, Op, Place, Step, Value, input};
use crate::window::{Window, expanded, indexed, reshaped, row_major, within};
use frit::DType;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Memory {
    data: Vec<u64>,
    /// Someone may see it through another handle than the one it was made with.
    seen: bool,
    /// It was assigned to.
    written: bool,
}

/// A Jit: what it has of the outside, and what it was first called with.
#[derive(Clone, Debug)]
pub struct Defined {
    pub function: Function,
    captures: Tensors,
    signature: Option<Vec<(Vec<usize>, DType, bool)>>,
}

pub type Tensors = BTreeMap<Id, Window>;

/// The state of a program.
#[derive(Clone, Debug, Default)]
pub struct Model {
    memories: Vec<Memory>,
    pub tensors: Tensors,
    /// What was lent: the type and elements at that time.
    pub lent: BTreeMap<Id, (DType, Vec<u64>)>,
    pub jits: BTreeMap<Id, Defined>,
    training: bool,
}

fn numel(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// The dims two shapes broadcast to.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let n = a.len().max(b.len());
    let at = |d: &[usize], i: usize| if i + d.len() >= n { d[i + d.len() - n] } else { 1 };
    (0..n)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

impl Model {
    /// The elements a window shows, as bits of its type.
    pub fn read(&self, w: &Window) -> Vec<u64> {
        let data = &self.memories[w.memory].data;
        (0..w.numel()).map(|i| data[w.place(i)]).collect()
    }
    fn fresh(&mut self, dims: Vec<usize>, dtype: DType, data: Vec<u64>) -> Window {
        debug_assert_eq!(numel(&dims), data.len());
        self.memories.push(Memory { data, ..Default::default() });
        let strides = row_major(&dims);
        Window {
            memory: self.memories.len() - 1,
            offset: 0,
            dims,
            strides,
            dtype,
            writable: true,
            leaf: false,
        }
    }
    fn write(&mut self, w: &Window, values: &[u64]) -> Option<()> {
        if !w.writable {
            return None;
        }
        for (i, v) in values.iter().enumerate() {
            self.memories[w.memory].data[w.place(i)] = *v;
        }
        self.memories[w.memory].written = true;
        Some(())
    }
    fn share(&mut self, w: Window) -> Window {
        self.memories[w.memory].seen = true;
        Window { leaf: false, ..w }
    }

    /// Elements repeated to dims.
    fn broadcasted(&self, w: &Window, dims: &[usize]) -> Option<Vec<u64>> {
        Some(self.read(&expanded(w, dims)?))
    }

    /// What an assigned value is at a place of a shape and type.
    fn fitted(&self, env: &Tensors, v: &Value, dims: &[usize], dtype: DType) -> Option<Vec<u64>> {
        match v {
            Value::Number(v) => {
                // numbers that do not fit are another matter
                let bits = number::encode(Number::Int(*v as i128), dtype)?;
                let same = number::decode(bits, dtype)?;
                let fits = dtype == DType::Bool || same == Number::Int(*v as i128) || dtype.is_float();
                fits.then(|| vec![bits; numel(dims)])
            }
            Value::Float(v) => Some(vec![number::encode(Number::Float(*v as f64), dtype)?; numel(dims)]),
            Value::Tensor(t) => {
                let w = env.get(t)?;
                let data = self.broadcasted(w, dims)?;
                data.into_iter().map(|b| number::cast(b, w.dtype, dtype)).collect()
            }
            Value::Computed(t, fun, by) => {
                let w = env.get(t)?;
                let data = self.applied(env, w, *fun, &Value::Number(*by))?.1;
                let m = Model { memories: vec![Memory { data, ..Default::default() }], ..Default::default() };
                let whole = Window { memory: 0, offset: 0, strides: row_major(&w.dims), ..w.clone() };
                let data = m.broadcasted(&whole, dims)?;
                data.into_iter().map(|b| number::cast(b, w.dtype, dtype)).collect()
            }
        }
    }

    /// `w fun by`, in w's type.
    fn applied(&self, env: &Tensors, w: &Window, fun: Fun, by: &Value) -> Option<(Vec<usize>, Vec<u64>)> {
        if !fun.is_for(w.dtype) || matches!(by, Value::Computed(..) | Value::Float(_)) {
            return None;
        }
        let dims = match by {
            Value::Tensor(t) => broadcast(&w.dims, &env.get(t)?.dims)?,
            _ => w.dims.clone(),
        };
        let (a, b) = (self.broadcasted(w, &dims)?, self.fitted(env, by, &dims, w.dtype)?);
        let data = a.into_iter().zip(b).map(|(a, b)| fun.of(a, b, w.dtype)).collect::<Option<_>>()?;
        Some((dims, data))
    }

    /// Do a step at the top of a program. `None` if it has no meaning; then nothing has changed.
    pub fn step(&mut self, step: &Step) -> Option<()> {
        match &step.op {
            Op::Define { function } => {
                let ids = function.captures.iter();
                let captures =
                    ids.map(|i| Some((*i, self.tensors.get(i)?.clone()))).collect::<Option<_>>()?;
                let defined = Defined { function: function.clone(), captures, signature: None };
                self.jits.insert(step.out, defined);
            }
            Op::Call { .. } => {
                let before = self.clone();
                if self.call(step).is_none() {
                    *self = before;
                    return None;
                }
            }
            Op::Read { of } => drop(self.tensors.get(of)?),
            Op::Drop { of } => drop(self.tensors.remove(of)?),
            Op::Lend { of } => {
                let w = self.tensors.get(of)?;
                self.lent.insert(step.out, (w.dtype, self.read(w)));
            }
            Op::Return { of } => drop(self.lent.remove(of)?),
            _ => {
                let mut env = std::mem::take(&mut self.tensors);
                let done = self.local(&mut env, step);
                self.tensors = env;
                return done;
            }
        }
        Some(())
    }

    /// Call a function: its result is that of its body, each time.
    fn call(&mut self, step: &Step) -> Option<()> {
        let Op::Call { jit, inputs, training } = &step.op else { return None };
        let mut defined = self.jits.get(jit)?.clone();
        let f = &defined.function;
        if inputs.len() != f.inputs {
            return None;
        }
        let mut env = defined.captures.clone();
        let mut signature = vec![(vec![], DType::Void, *training)];
        for (i, given) in inputs.iter().enumerate() {
            let mut w = self.tensors.get(&given.of)?.clone();
            let mut dims = w.dims.clone();
            if let Some(k) = given.rows {
                if k == 0 || k > *w.dims.first()? {
                    return None;
                }
                (w.dims[0], dims[0]) = (k, 0);
                w.writable = false;
                w = self.share(w);
            }
            signature.push((dims, w.dtype, given.rows.is_some()));
            env.insert(input(i), w);
        }
        match &defined.signature {
            Some(s) if *s != signature && !f.recapture => return None,
            _ => defined.signature = Some(signature),
        }
        self.training = *training;
        for s in &f.body {
            self.local(&mut env, s)?;
        }
        // an input that is given back may or may not be the caller's own handle: it is looked at and let go
        let given: Vec<usize> = (0..f.inputs).map(|i| env[&input(i)].memory).collect();
        let is_outside = |m: usize| given.contains(&m) || defined.captures.values().any(|c| c.memory == m);
        let mut results = vec![];
        for (i, r) in f.returns.iter().enumerate() {
            let mut w = env.get(r)?.clone();
            // results are memory of their own: no two of them are windows on one
            if results.contains(&w.memory) && !is_outside(w.memory) {
                return None;
            }
            results.push(w.memory);
            w.leaf = false;
            self.memories[w.memory].seen |= defined.captures.values().any(|c| c.memory == w.memory);
            w.writable &= !given.contains(&w.memory);
            self.tensors.insert(step.out + i as Id, w);
        }
        self.jits.insert(*jit, defined);
        Some(())
    }

    /// Which results of a call share memory with one of its inputs, or may have a size that is a variable.
    pub fn given_back(&self, step: &Step) -> Vec<Id> {
        let Op::Call { inputs, .. } = &step.op else { return vec![] };
        if inputs.iter().any(|i| i.rows.is_some()) {
            let outs = step.out..step.out + step.op.outs();
            return outs.filter(|o| self.tensors.contains_key(o)).collect();
        }
        let of = |id: &Id| self.tensors.get(id).map(|w| w.memory);
        let given: Vec<_> = inputs.iter().map(|i| of(&i.of)).collect();
        (step.out..step.out + step.op.outs()).filter(|o| of(o).is_some() && given.contains(&of(o))).collect()
    }

    /// A step on some tensors, at the top or in a function.
    pub fn local(&mut self, env: &mut Tensors, step: &Step) -> Option<()> {
        let get = |id: &Id| env.get(id).cloned();
        let made = match &step.op {
            Op::Data { dtype, dims, values } => {
                let encoded = values.iter().map(|v| number::encode(Number::Int(*v as i128), *dtype));
                let data: Vec<u64> = encoded.collect::<Option<_>>()?;
                if data.len() != numel(dims) {
                    return None;
                }
                Window { leaf: true, ..self.fresh(dims.clone(), *dtype, data) }
            }
            Op::Full { dtype, dims, value } => {
                let bits = number::encode(Number::Int(*value as i128), *dtype)?;
                Window { leaf: true, ..self.fresh(dims.clone(), *dtype, vec![bits; numel(dims)]) }
            }
            Op::Arange { dtype, n } => {
                let encoded = (0..*n).map(|v| number::encode(Number::Int(v as i128), *dtype));
                let data = encoded.collect::<Option<_>>()?;
                self.fresh(vec![*n], *dtype, data)
            }
            Op::At { of, places } => {
                let w = indexed(&get(of)?, places)?;
                self.share(w)
            }
            Op::Reshape { of, dims } => {
                let w = get(of)?;
                if numel(dims) != w.numel() {
                    return None;
                }
                match reshaped(&w, dims) {
                    Some(strides) => self.share(Window { dims: dims.clone(), strides, ..w }),
                    None => {
                        let data = self.values(&w)?;
                        self.fresh(dims.clone(), w.dtype, data)
                    }
                }
            }
            Op::Permute { of, axes } => {
                let w = get(of)?;
                let mut sorted = axes.clone();
                sorted.sort();
                if sorted != (0..w.dims.len()).collect::<Vec<_>>() {
                    return None;
                }
                let dims = axes.iter().map(|&a| w.dims[a]).collect();
                let strides = axes.iter().map(|&a| w.strides[a]).collect();
                self.share(Window { dims, strides, ..w })
            }
            Op::Squeeze { of, axis } => {
                let mut w = get(of)?;
                if *w.dims.get(*axis)? == 1 {
                    w.dims.remove(*axis);
                    w.strides.remove(*axis);
                }
                self.share(w)
            }
            Op::Unsqueeze { of, axis } => {
                let mut w = get(of)?;
                if *axis > w.dims.len() {
                    return None;
                }
                let stride = w.strides.get(*axis).map_or(1, |s| s * w.dims[*axis].max(1) as isize);
                w.dims.insert(*axis, 1);
                w.strides.insert(*axis, stride);
                self.share(w)
            }
            Op::Expand { of, dims } => {
                let w = expanded(&get(of)?, dims)?;
                self.share(Window { writable: false, ..w })
            }
            Op::Split { of, size, axis, part } => {
                let w = get(of)?;
                let n = *w.dims.get(*axis)?;
                let (from, to) = (part * size, (part * size + size).min(n));
                if *size == 0 || from >= n {
                    return None;
                }
                let mut places = vec![Place::Slice(None, None, 1); *axis];
                places.push(Place::Slice(Some(from as i64), Some(to as i64), 1));
                let w = indexed(&w, &places)?;
                self.share(w)
            }
            Op::Detach { of } => {
                let w = get(of)?;
                self.share(w)
            }
            Op::Bitcast { of, dtype } => {
                let w = get(of)?;
                if w.dtype.size() != dtype.size() || w.dtype == DType::Bool || *dtype == DType::Bool {
                    return None;
                }
                self.share(Window { dtype: *dtype, ..w })
            }
            Op::Alias { of } => {
                let w = get(of)?;
                let leaf = w.leaf;
                Window { leaf, ..self.share(w) }
            }
            Op::Cast { of, dtype } => {
                let w = get(of)?;
                let cast = |b: u64| number::cast(b, w.dtype, *dtype);
                let data = self.read(&w).into_iter().map(cast).collect::<Option<_>>()?;
                self.fresh(w.dims, *dtype, data)
            }
            Op::Contiguous { of } => {
                let w = get(of)?;
                let data = self.values(&w)?;
                self.fresh(w.dims, w.dtype, data)
            }
            Op::Flip { of, axis } => {
                let w = get(of)?;
                w.dims.get(*axis)?;
                let mut places = vec![Place::Slice(None, None, 1); *axis];
                places.push(Place::Slice(None, None, -1));
                let data = self.values(&indexed(&w, &places)?)?;
                self.fresh(w.dims, w.dtype, data)
            }
            Op::Cat { a, b, axis } => {
                let (a, b) = (get(a)?, get(b)?);
                let mut dims = a.dims.clone();
                *dims.get_mut(*axis)? += *b.dims.get(*axis)?;
                let alike = (0..dims.len()).all(|i| i == *axis || b.dims.get(i) == Some(&dims[i]));
                if !alike || a.dims.len() != b.dims.len() || a.dtype != b.dtype {
                    return None;
                }
                let (x, y) = (self.values(&a)?, self.values(&b)?);
                let (m, n) = (numel(&a.dims[*axis..]), numel(&b.dims[*axis..]));
                let rows = 0..numel(&a.dims[..*axis]);
                let data = rows.flat_map(|r| [&x[r * m..r * m + m], &y[r * n..r * n + n]].concat()).collect();
                self.fresh(dims, a.dtype, data)
            }
            Op::Apply { of, fun, by } => {
                let w = get(of)?;
                let (dims, data) = self.applied(env, &w, *fun, by)?;
                self.fresh(dims, w.dtype, data)
            }
            Op::Sum { of, axis } => {
                let w = get(of)?;
                let (dims, data) = self.sum(&w, *axis)?;
                self.fresh(dims, w.dtype, data)
            }
            Op::EmptySum { of } => {
                let w = get(of)?;
                if w.dims.is_empty() || w.dtype == DType::Bool {
                    return None;
                }
                let one = number::encode(Number::Int(1), w.dtype)?;
                self.fresh(vec![], w.dtype, vec![one])
            }
            Op::Take { of, rows } => {
                let w = get(of)?;
                self.taken(&w, rows, &[rows.len()])?
            }
            Op::TakeBy { of, rows } => {
                let (w, i) = (get(of)?, get(rows)?);
                let rows = self.integers(&i)?;
                self.taken(&w, &rows, &i.dims)?
            }
            Op::Pick { of, mask } => {
                let (w, m) = (get(of)?, get(mask)?);
                if m.dtype != DType::Bool || m.dims != w.dims || m.dims.is_empty() {
                    return None;
                }
                let (data, keep) = (self.values(&w)?, self.read(&m));
                let data: Vec<u64> = data.into_iter().zip(keep).filter(|d| d.1 != 0).map(|d| d.0).collect();
                self.fresh(vec![data.len()], w.dtype, data)
            }
            Op::Mode { of } => {
                let w = get(of)?;
                let (fun, by) = if self.training { (Fun::Mul, 2) } else { (Fun::Add, 1) };
                let (dims, data) = self.applied(env, &w, fun, &Value::Number(by))?;
                self.fresh(dims, w.dtype, data)
            }
            Op::Assign { to, value } => {
                let w = get(to)?;
                let data = self.fitted(env, value, &w.dims, w.dtype)?;
                return self.write(&w, &data);
            }
            Op::InPlace { to, fun, by } => {
                let w = get(to)?;
                let (dims, data) = self.applied(env, &w, *fun, by)?;
                return if dims == w.dims { self.write(&w, &data) } else { None };
            }
            Op::Set { to, places, value } => {
                let w = indexed(&get(to)?, places)?;
                let data = self.fitted(env, value, &w.dims, w.dtype)?;
                return self.write(&w, &data);
            }
            Op::SetRows { to, rows, value } => {
                let w = get(to)?;
                let mut dims = w.dims.clone();
                *dims.first_mut()? = rows.len();
                let data = self.fitted(env, value, &dims, w.dtype)?;
                let row = numel(&w.dims[1..]);
                let places: Vec<usize> = rows.iter().map(|&r| within(r, w.dims[0])).collect::<Option<_>>()?;
                if !w.writable {
                    return None;
                }
                for (i, r) in places.into_iter().enumerate() {
                    let w = indexed(&w, &[Place::At(r as i64)])?;
                    self.write(&w, &data[i * row..i * row + row])?;
                }
                self.memories[w.memory].written = true;
                return Some(());
            }
            Op::SetMask { to, mask, value } => {
                let (w, m) = (get(to)?, get(mask)?);
                if m.dtype != DType::Bool || m.dims != w.dims || m.dims.is_empty() {
                    return None;
                }
                let keep = self.read(&m);
                let count = keep.iter().filter(|k| **k != 0).count();
                let mut values = self.fitted(env, value, &[count], w.dtype)?.into_iter();
                let mut data = self.read(&w);
                for (d, k) in data.iter_mut().zip(keep) {
                    if k != 0 {
                        *d = values.next()?;
                    }
                }
                return self.write(&w, &data);
            }
            Op::SetPrefix { to, value } => {
                let (w, v) = (get(to)?, get(value)?);
                let n = *v.dims.first()?;
                if v.dims.len() != w.dims.len() || v.dims[1..] != w.dims[1..] || n > w.dims[0] {
                    return None;
                }
                let w = indexed(&w, &[Place::Slice(None, Some(n as i64), 1)])?;
                let data = self.fitted(env, &Value::Tensor(*value), &w.dims, w.dtype)?;
                return self.write(&w, &data);
            }
            Op::Replace { to, value } => {
                let w = get(to)?;
                // what windows show afterwards, and whether a window can be replaced, is not for us to say
                let is_value = matches!(value, Value::Computed(..));
                if self.memories[w.memory].seen
                    || !is_value
                    || w.numel() != self.memories[w.memory].data.len()
                {
                    return None;
                }
                let Value::Computed(of, ..) = value else { return None };
                let v = get(of)?;
                if v.dims != w.dims || v.dtype != w.dtype {
                    return None;
                }
                let data = self.fitted(env, value, &w.dims, w.dtype)?;
                return self.write(&w, &data);
            }
            Op::Realize { all } => return all.iter().all(|i| env.contains_key(i)).then_some(()),
            Op::Gradient { leaves, a, b, .. } => {
                let grads = self.gradients(env, leaves, a, b)?;
                let like = get(leaves.first()?)?;
                for (i, data) in grads.into_iter().enumerate() {
                    let w = self.fresh(like.dims.clone(), like.dtype, data);
                    env.insert(step.out + i as Id, w);
                }
                return Some(());
            }
            _ => return None,
        };
        env.insert(step.out, made);
        Some(())
    }

    /// The elements, if all of them can be computed with: copies of what is no number may differ in their bits.
    fn values(&self, w: &Window) -> Option<Vec<u64>> {
        let data = self.read(w);
        data.iter().all(|b| number::decode(*b, w.dtype).is_some()).then_some(data)
    }

    fn integers(&self, w: &Window) -> Option<Vec<i64>> {
        if w.dtype.is_float() || w.dtype == DType::Bool {
            return None;
        }
        let value = |b: u64| match number::decode(b, w.dtype)? {
            Number::Int(v) => i64::try_from(v).ok(),
            Number::Float(_) => None,
        };
        self.read(w).into_iter().map(value).collect()
    }

    fn sum(&self, w: &Window, axis: Option<usize>) -> Option<(Vec<usize>, Vec<u64>)> {
        if w.dtype == DType::Bool {
            return None;
        }
        let total = |data: Vec<u64>| number::sum(&data, w.dtype);
        let Some(axis) = axis else { return Some((vec![], vec![total(self.read(w))?])) };
        let mut rest = w.clone();
        let (n, stride) = (*w.dims.get(axis)?, w.strides[axis]);
        rest.dims.remove(axis);
        rest.strides.remove(axis);
        let one = |i: usize| {
            let at = rest.place(i) as isize;
            let column = Window { offset: at, dims: vec![n], strides: vec![stride], ..w.clone() };
            total(self.read(&column))
        };
        let data = (0..rest.numel()).map(one).collect::<Option<_>>()?;
        Some((rest.dims, data))
    }

    fn taken(&mut self, w: &Window, rows: &[i64], lead: &[usize]) -> Option<Window> {
        let n = *w.dims.first()?;
        let mut data = vec![];
        for r in rows {
            let row = indexed(w, &[Place::At(within(*r, n)? as i64)])?;
            data.extend(self.values(&row)?);
        }
        let dims = [lead, &w.dims[1..]].concat();
        Some(self.fresh(dims, w.dtype, data))
    }

    /// Of a sum of `a_i x_i + b_i x_i x_j`, where j is the next one, by each of them.
    fn gradients(&self, env: &Tensors, leaves: &[Id], a: &[i64], b: &[i64]) -> Option<Vec<Vec<u64>>> {
        let all: Vec<&Window> = leaves.iter().map(|l| env.get(l)).collect::<Option<_>>()?;
        let first = *all.first()?;
        let n = all.len();
        for (i, w) in all.iter().enumerate() {
            let alone = all.iter().enumerate().all(|(j, o)| i == j || o.memory != w.memory);
            // what one of several was computed from may be another of them, and a computed number may be one of ours
            let plain = w.leaf && !self.memories[w.memory].written || n == 1 && !w.dims.is_empty();
            if !plain || !alone || !w.dtype.is_float() || w.dtype != first.dtype || w.dims != first.dims {
                return None;
            }
        }
        let of = |k: i64| number::encode(Number::Int(k as i128), first.dtype);
        let data: Vec<Vec<u64>> = all.iter().map(|w| self.values(w)).collect::<Option<_>>()?;
        let one = |i: usize, e: usize| {
            let (next, last) = ((i + 1) % n, (i + n - 1) % n);
            let d = first.dtype;
            let by = |b: i64, x: u64| Fun::Mul.of(of(b)?, x, d);
            number::sum(&[of(a[i])?, by(b[i], data[next][e])?, by(b[last], data[last][e])?], d)
        };
        let grad = |i: usize| (0..first.numel()).map(|e| one(i, e)).collect::<Option<Vec<u64>>>();
        (0..n).map(grad).collect()
    }
}
