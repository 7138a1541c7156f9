//! The evaluator: what a tensor graph means, element by element, in float64 and 128-bit integers.
//!
//! Graph in, arrays out. Nothing is scheduled, fused or rounded on the way: integers wrap to their types, floats stay
//! doubles until a cast, reductions go from the first element to the last. It is slow and has no opinions, so it can say
//! whether the compiler is right. It is iterative, for graphs may be deeper than a stack.
//!
//! ```text
//! eval(Add(Buffer[1, 2, 3], Const 0.5))  ->  Array { shape: [3], values: [1.5, 2.5, 3.5] }
//! ```
//!
//! **Versions.** A `Buffer` or `Param` read by itself holds what it held before any store of the graph. `After(x,
//! stores…)`, with x a view of a buffer, holds what x holds once those stores, and the ones they build on, are done.

mod array;
mod value;

pub use array::Array;
pub use value::{Value, apply};

use crate::arg::{Arg, ScatterMode};
use crate::graph::toposort_outside;
use crate::loops::Loop;
use crate::node::UOp;
use crate::nodes::Nodes;
use crate::op::Op;
use array::{for_each_coordinate, place};
use frit_abi::{Alu, DType, Scalar};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Where the leaves of a graph have their values from.
pub struct Inputs<'a> {
    /// The elements of a `Buffer` or `Param`.
    pub buffer: &'a dyn Fn(&UOp) -> Option<Vec<Value>>,
    /// The value of a `Variable` (or of a `Range` or `Special`, in an index expression).
    pub variable: &'a dyn Fn(&UOp) -> Option<i64>,
}

impl Inputs<'_> {
    /// None: for graphs of constants.
    pub const NONE: Inputs<'static> = Inputs { buffer: &|_| None, variable: &|_| None };
}

/// Why a graph has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EvalError {
    /// The node and what is wrong with it.
    pub message: String,
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for EvalError {}

/// The value of a node.
pub fn eval(root: &UOp, inputs: &Inputs) -> Result<Array<Value>, EvalError> {
    let mut values = eval_all(std::slice::from_ref(root), inputs)?;
    values.pop().ok_or_else(|| wrong(root, "has no value"))
}

/// The values of several nodes, in order.
pub fn eval_all(roots: &[UOp], inputs: &Inputs) -> Result<Vec<Array<Value>>, EvalError> {
    let mut evaluator = Evaluator::new(inputs, roots);
    evaluator.run()?;
    roots.iter().map(|r| evaluator.value(r).map(|v| (*v).clone())).collect()
}

/// What every buffer that a graph of stores writes to holds in the end, in the order of the first store to each.
pub fn eval_stores(sink: &UOp, inputs: &Inputs) -> Result<Vec<(UOp, Vec<Value>)>, EvalError> {
    let mut evaluator = Evaluator::new(inputs, std::slice::from_ref(sink));
    evaluator.run()?;
    let stores: Vec<UOp> = evaluator.order.iter().filter(|n| n.op == Op::Store).cloned().collect();
    let mut written: Vec<(UOp, Vec<Value>)> = vec![];
    for store in stores {
        let log = evaluator.log(&store)?;
        let found = written.iter().position(|(b, _)| *b == log.buffer);
        let at = match found {
            Some(at) => at,
            None => {
                let contents = evaluator.contents_before(&log.buffer)?;
                written.push((log.buffer.clone(), (*contents).clone()));
                written.len() - 1
            }
        };
        log.write(&mut written[at].1);
    }
    Ok(written)
}

/// What a store did: elements of a buffer and what they became.
#[derive(Clone)]
struct Log {
    buffer: UOp,
    positions: Rc<Array<Option<usize>>>,
    value: Rc<Array<Value>>,
}

impl Log {
    fn write(&self, contents: &mut [Value]) {
        let is_scalar = self.value.values.len() == 1;
        for (i, position) in self.positions.values.iter().enumerate() {
            if let Some(p) = *position {
                contents[p] = self.value.values[if is_scalar { 0 } else { i }];
            }
        }
    }
}

struct Evaluator<'a> {
    inputs: &'a Inputs<'a>,
    /// Sources before users; stores are done in this order.
    order: Nodes,
    /// How many users of a value have not been evaluated; roots are never done.
    uses: FxHashMap<UOp, usize>,
    values: FxHashMap<UOp, Rc<Array<Value>>>,
    logs: FxHashMap<UOp, Log>,
    /// What the buffer behind an `After` holds, and what a buffer holds before all stores.
    contents: FxHashMap<UOp, Rc<Vec<Value>>>,
    /// Which elements of its buffer a view is made of.
    views: FxHashMap<UOp, Rc<Array<Option<usize>>>>,
    /// The results of the loops.
    loops: FxHashMap<UOp, Vec<Rc<Array<Value>>>>,
}

impl<'a> Evaluator<'a> {
    fn new(inputs: &'a Inputs<'a>, roots: &[UOp]) -> Self {
        let order = toposort_outside(roots);
        let mut uses: FxHashMap<UOp, usize> = FxHashMap::default();
        for n in order.iter().flat_map(|n| n.inputs().iter()).chain(roots) {
            *uses.entry(n.clone()).or_default() += 1;
        }
        let (values, logs, contents) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        let (views, loops) = (FxHashMap::default(), FxHashMap::default());
        Evaluator { inputs, order, uses, values, logs, contents, views, loops }
    }

    fn run(&mut self) -> Result<(), EvalError> {
        for i in 0..self.order.len() {
            let node = self.order[i].clone();
            match node.op {
                Op::Store => {
                    let log = self.store(&node)?;
                    self.logs.insert(node.clone(), log);
                }
                Op::Sink | Op::End => {}
                Op::Loop => {
                    let results = self.run_loop(&node)?;
                    self.loops.insert(node.clone(), results);
                }
                // given from outside
                Op::LoopIn if self.values.contains_key(&node) => {}
                _ => {
                    let value = self.node(&node)?;
                    self.values.insert(node.clone(), value);
                }
            }
            // what no one will ask for again is let go; dims are small and views may ask for them later
            for s in node.inputs().iter().filter(|s| !s.shape().is_empty()) {
                if let Some(uses) = self.uses.get_mut(s) {
                    *uses -= 1;
                    if *uses == 0 {
                        self.values.remove(s);
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&self, node: &UOp) -> Result<Rc<Array<Value>>, EvalError> {
        self.values.get(node).cloned().ok_or_else(|| wrong(node, "has no value"))
    }
    fn source(&self, node: &UOp, i: usize) -> Result<Rc<Array<Value>>, EvalError> {
        self.value(node.src.get(i).ok_or_else(|| wrong(node, "has too few sources"))?)
    }
    fn log(&self, store: &UOp) -> Result<Log, EvalError> {
        self.logs.get(store).cloned().ok_or_else(|| wrong(store, "was not evaluated"))
    }
    /// Sizes among the sources.
    fn dims(&self, node: &UOp, from: usize, to: usize) -> Result<Vec<usize>, EvalError> {
        let dims = node.src.get(from..to).ok_or_else(|| wrong(node, "has too few sources"))?;
        let size = |d: &UOp| {
            let v = self.value(d)?;
            let v = v.values.first().map(|v| v.as_int()).and_then(|v| usize::try_from(v).ok());
            v.ok_or_else(|| wrong(node, "has a negative size"))
        };
        dims.iter().map(size).collect()
    }

    fn node(&mut self, n: &UOp) -> Result<Rc<Array<Value>>, EvalError> {
        let array = match (n.op, &n.arg) {
            (Op::Const, Arg::Scalar(s)) => Array::scalar(constant(*s, n.dtype)),
            (Op::Variable | Op::Range | Op::Special, _) => {
                let v = (self.inputs.variable)(n).ok_or_else(|| wrong(n, "is not given"))?;
                Array::scalar(Value::Int(v as i128))
            }
            (Op::Bind, _) => return self.source(n, 1),
            (Op::Buffer | Op::Param, _) => {
                let values = self.contents_before(n)?;
                Array { shape: vec![values.len()], values: (*values).clone() }
            }
            (Op::LoopOut, Arg::Lane(i)) => {
                let results = n.src.first().and_then(|l| self.loops.get(l));
                let found = results.and_then(|r| r.get(*i as usize));
                return found.cloned().ok_or_else(|| wrong(n, "is not a result of its loop"));
            }
            (Op::Contiguous | Op::Detach | Op::Leaf | Op::Copy, _) => return self.source(n, 0),
            (Op::After, _) => return self.version(n),
            (Op::Iota, _) => {
                let size = self.dims(n, 0, 1)?;
                Array::build(&size, |c| Value::Int(c[0] as i128).cast(n.dtype))
            }
            (op, _) if op.is_movement() => {
                let x = self.source(n, 0)?;
                self.movement(n, &x, Value::zero(n.dtype))?
            }
            (Op::ReduceAxis, Arg::ReduceAxes(op, axes)) => reduce(n, &*self.source(n, 0)?, *op, axes)?,
            (Op::ScanAxis, Arg::ReduceAxes(op, axes)) => scan(n, &*self.source(n, 0)?, *op, axes)?,
            (Op::Gather, _) => gather(n, &*self.source(n, 0)?, &*self.source(n, 1)?)?,
            (Op::Scatter, Arg::Scatter(mode, _)) => {
                scatter(n, &*self.source(n, 0)?, &*self.source(n, 1)?, &*self.source(n, 2)?, *mode)?
            }
            (Op::Cast, _) => map(&*self.source(n, 0)?, |v| v.cast(n.dtype)),
            (Op::Bitcast, _) => {
                let from = n.input().dtype;
                map(&*self.source(n, 0)?, |v| Value::from_bits(v.bits(from), n.dtype))
            }
            (op, _) => match op.alu() {
                Some(op) => self.elementwise(n, op)?,
                None => return Err(wrong(n, "is not part of a tensor graph")),
            },
        };
        Ok(Rc::new(array))
    }

    /// What a loop makes, step by step.
    fn run_loop(&self, n: &UOp) -> Result<Vec<Rc<Array<Value>>>, EvalError> {
        let l = Loop::of(n).ok_or_else(|| wrong(n, "is not a loop"))?;
        let count = self.dims(n, 0, 1)?[0];
        let mut inputs = l.inputs().iter().map(|i| self.value(i)).collect::<Result<Vec<_>, _>>()?;
        let (carries, step) = (l.carries(), l.variable());
        let mut ys: Vec<Vec<Rc<Array<Value>>>> = vec![vec![]; l.results().len() - carries];
        for i in 0..count {
            let variable = |v: &UOp| if *v == step { Some(i as i64) } else { (self.inputs.variable)(v) };
            let leaves = Inputs { buffer: self.inputs.buffer, variable: &variable };
            let mut body = Evaluator::new(&leaves, l.results());
            body.values.extend(inputs.iter().enumerate().map(|(slot, v)| (l.input(slot), v.clone())));
            body.run()?;
            let mut made = l.results().iter().map(|r| body.value(r)).collect::<Result<Vec<_>, _>>()?;
            ys.iter_mut().zip(made.drain(carries..)).for_each(|(all, y)| all.push(y));
            inputs.splice(..carries, made);
        }
        let mut results = inputs[..carries].to_vec();
        for (k, all) in ys.into_iter().enumerate() {
            let mut shape = vec![count];
            match all.first() {
                Some(y) => shape.extend(&y.shape),
                None => shape.extend(l.results()[carries + k].shape().iter().map(|d| d.bounds.1 as usize)),
            }
            let values = all.iter().flat_map(|y| y.values.iter().copied()).collect();
            results.push(Rc::new(Array { shape, values }));
        }
        Ok(results)
    }

    /// A movement op on any kind of element.
    fn movement<T: Clone>(&self, n: &UOp, x: &Array<T>, fill: T) -> Result<Array<T>, EvalError> {
        let (rank, end) = (x.shape.len(), n.src.len());
        let axes = || match &n.arg {
            Arg::Axes(axes) => axes.iter().map(|&a| a as usize).collect::<Vec<_>>(),
            _ => vec![],
        };
        let moved = match n.op {
            Op::Reshape => x.reshape(&self.dims(n, 1, end)?),
            Op::Expand => x.expand(&self.dims(n, 1, end)?),
            Op::Permute => x.permute(&axes()),
            Op::Flip => x.flip(&axes()),
            Op::Pad => x.pad(&self.dims(n, 1, 1 + rank)?, &self.dims(n, 1 + rank, 1 + 2 * rank)?, fill),
            Op::Shrink => x.shrink(&self.dims(n, 1, 1 + rank)?, &self.dims(n, 1 + rank, 1 + 2 * rank)?),
            _ => None,
        };
        moved.ok_or_else(|| wrong(n, &format!("does not fit a source of shape {:?}", x.shape)))
    }

    fn elementwise(&self, n: &UOp, op: Alu) -> Result<Array<Value>, EvalError> {
        if n.src.len() != op.arity() {
            return Err(wrong(n, "has another number of operands"));
        }
        let dtype = n.src[(op == Alu::Where) as usize].dtype;
        let args = (0..n.src.len()).map(|i| self.source(n, i)).collect::<Result<Vec<_>, _>>()?;
        let shape = args.iter().map(|a| &a.shape).find(|s| !s.is_empty()).cloned().unwrap_or_default();
        if args.iter().any(|a| !a.shape.is_empty() && a.shape != shape) {
            return Err(wrong(n, "has operands of different shapes"));
        }
        let mut operands = vec![Value::Int(0); args.len()];
        let values = (0..shape.iter().product())
            .map(|i: usize| {
                for (o, a) in operands.iter_mut().zip(&args) {
                    *o = a.values[if a.shape.is_empty() { 0 } else { i }];
                }
                apply(op, dtype, &operands)
            })
            .collect();
        Ok(Array { shape, values })
    }

    // ---- versions of buffers

    /// What a buffer holds before all stores.
    fn contents_before(&mut self, buffer: &UOp) -> Result<Rc<Vec<Value>>, EvalError> {
        if let Some(c) = self.contents.get(buffer) {
            return Ok(c.clone());
        }
        let values = (self.inputs.buffer)(buffer).ok_or_else(|| wrong(buffer, "is not given"))?;
        let len = buffer.shape().first().and_then(|d| d.as_int());
        if len != Some(values.len() as i64) {
            return Err(wrong(buffer, &format!("was given {} elements", values.len())));
        }
        let values = Rc::new(values);
        self.contents.insert(buffer.clone(), values.clone());
        Ok(values)
    }

    fn store(&mut self, n: &UOp) -> Result<Log, EvalError> {
        let target = n.src.first().ok_or_else(|| wrong(n, "has no target"))?;
        let Some(buffer) = buffer_behind(target) else {
            return Err(wrong(n, "does not store to a view of a buffer"));
        };
        let (positions, value) = (self.view(target)?, self.source(n, 1)?);
        if value.shape != positions.shape && !value.shape.is_empty() {
            let (have, want) = (&value.shape, &positions.shape);
            return Err(wrong(n, &format!("stores shape {have:?} to a place of shape {want:?}")));
        }
        Ok(Log { buffer, positions, value })
    }

    /// The value of an `After`.
    fn version(&mut self, n: &UOp) -> Result<Rc<Array<Value>>, EvalError> {
        let Some(buffer) = buffer_behind(n) else { return self.source(n, 0) };
        let contents = self.contents_after(n, &buffer)?;
        let view = self.view(n)?;
        let element = |p: &Option<usize>| p.map_or(Value::zero(n.dtype), |p| contents[p]);
        let values = view.values.iter().map(element).collect();
        Ok(Rc::new(Array { shape: view.shape.clone(), values }))
    }

    /// What the buffer holds once an `After`'s stores, and all they build on, are done.
    fn contents_after(&mut self, after: &UOp, buffer: &UOp) -> Result<Rc<Vec<Value>>, EvalError> {
        let before = version_behind(after.input());
        let one_more = match after.deps() {
            [s] if s.op == Op::Store && version_behind(s.target()) == before => Some(s),
            _ => None,
        };
        let contents = match (one_more, self.contents.get(before).cloned()) {
            // the usual chain: one store on top of the version the view is of
            (Some(store), Some(contents)) => {
                let mut contents = (*contents).clone();
                self.log(store)?.write(&mut contents);
                contents
            }
            _ => {
                let stores = stores_before(after);
                let stores: Vec<UOp> = self.order.iter().filter(|n| stores.contains(*n)).cloned().collect();
                let mut contents = (*self.contents_before(buffer)?).clone();
                for store in stores {
                    let log = self.log(&store)?;
                    if log.buffer == *buffer {
                        log.write(&mut contents);
                    }
                }
                contents
            }
        };
        let contents = Rc::new(contents);
        self.contents.insert(after.clone(), contents.clone());
        Ok(contents)
    }

    /// Which elements of its buffer a view is made of; `None` where it was padded.
    fn view(&mut self, n: &UOp) -> Result<Rc<Array<Option<usize>>>, EvalError> {
        let mut chain = vec![];
        let mut at = n;
        while !self.views.contains_key(at) && !matches!(at.op, Op::Buffer | Op::Param) {
            chain.push(at.clone());
            at = at.input();
        }
        let mut view = match self.views.get(at) {
            Some(v) => v.clone(),
            None => {
                let len = self.contents_before(at)?.len();
                Rc::new(Array { shape: vec![len], values: (0..len).map(Some).collect() })
            }
        };
        for n in chain.into_iter().rev() {
            if n.op.is_movement() {
                view = Rc::new(self.movement(&n, &view, None)?);
            }
            if n.op == Op::After {
                self.views.insert(n, view.clone());
            }
        }
        Ok(view)
    }
}

/// Whether a node is its first source, seen in another way.
fn is_view(op: Op) -> bool {
    op.is_movement() || matches!(op, Op::After | Op::Detach | Op::Leaf)
}

/// The buffer that a node is a view of.
fn buffer_behind(mut n: &UOp) -> Option<UOp> {
    while is_view(n.op) {
        n = n.input();
    }
    matches!(n.op, Op::Buffer | Op::Param).then(|| n.clone())
}

/// The version that a node is a view of: an `After`, or the buffer itself.
fn version_behind(mut n: &UOp) -> &UOp {
    while is_view(n.op) && n.op != Op::After {
        n = n.input();
    }
    n
}

/// Every store that must be done for an `After`: its own, and those of the versions they are made from.
fn stores_before(after: &UOp) -> FxHashSet<UOp> {
    let (mut stores, mut seen) = (FxHashSet::default(), FxHashSet::default());
    let mut stack = vec![after];
    while let Some(n) = stack.pop() {
        if !seen.insert(n) {
            continue;
        }
        match n.op {
            Op::Store => {
                stores.insert(n.clone());
                stack.extend(n.src.first());
            }
            Op::After | Op::Sink | Op::End => stack.extend(n.src.iter()),
            op if is_view(op) => stack.extend(n.src.first()),
            _ => {}
        }
    }
    stores
}

fn constant(s: Scalar, dtype: DType) -> Value {
    match s {
        Scalar::Float(f) if dtype.is_float() => Value::Float(f),
        Scalar::Float(f) => Value::Float(f).cast(dtype),
        other => Value::Int(other.as_i128()).cast(dtype),
    }
}

fn map(x: &Array<Value>, f: impl Fn(Value) -> Value) -> Array<Value> {
    Array { shape: x.shape.clone(), values: x.values.iter().map(|&v| f(v)).collect() }
}

fn reduce(n: &UOp, x: &Array<Value>, op: Alu, axes: &[u8]) -> Result<Array<Value>, EvalError> {
    let start = Value::identity(op, n.dtype).ok_or_else(|| wrong(n, "has no start value"))?;
    let mut shape = x.shape.clone();
    for &a in axes {
        *shape.get_mut(a as usize).ok_or_else(|| wrong(n, "reduces an axis that is not there"))? = 1;
    }
    // None until the first element, so that the start value does not change a signed zero
    let mut totals: Vec<Option<Value>> = vec![None; shape.iter().product()];
    let mut to = vec![0; shape.len()];
    for_each_coordinate(&x.shape, |c| {
        to.copy_from_slice(c);
        axes.iter().for_each(|&a| to[a as usize] = 0);
        let (total, v) = (&mut totals[place(&shape, &to)], *x.at(c));
        *total = Some(total.map_or(v, |t| apply(op, n.dtype, &[t, v])));
    });
    Ok(Array { shape, values: totals.into_iter().map(|t| t.unwrap_or(start)).collect() })
}

fn scan(n: &UOp, x: &Array<Value>, op: Alu, axes: &[u8]) -> Result<Array<Value>, EvalError> {
    let axis = match axes {
        [a] if (*a as usize) < x.shape.len() => *a as usize,
        _ => return Err(wrong(n, "does not scan along one axis")),
    };
    let mut out = x.clone();
    let mut before = vec![0; x.shape.len()];
    for_each_coordinate(&x.shape, |c| {
        if c[axis] > 0 {
            before.copy_from_slice(c);
            before[axis] -= 1;
            let so_far = *out.at(&before);
            out.values[place(&x.shape, c)] = apply(op, n.dtype, &[so_far, *x.at(c)]);
        }
    });
    Ok(out)
}

/// The row that an index names.
fn row(n: &UOp, idx: Value, rows: usize) -> Result<usize, EvalError> {
    let inside = usize::try_from(idx.as_int()).ok().filter(|&i| i < rows);
    inside.ok_or_else(|| wrong(n, &format!("has index {} for {rows} rows", idx.as_int())))
}

fn gather(n: &UOp, x: &Array<Value>, idx: &Array<Value>) -> Result<Array<Value>, EvalError> {
    let [rows, rest @ ..] = &x.shape[..] else { return Err(wrong(n, "has a source without dims")) };
    let size: usize = rest.iter().product();
    let mut values = Vec::with_capacity(idx.values.len() * size);
    for &i in &idx.values {
        let from = row(n, i, *rows)? * size;
        values.extend_from_slice(&x.values[from..from + size]);
    }
    Ok(Array { shape: [&idx.shape[..], rest].concat(), values })
}

fn scatter(
    n: &UOp,
    base: &Array<Value>,
    idx: &Array<Value>,
    val: &Array<Value>,
    mode: ScatterMode,
) -> Result<Array<Value>, EvalError> {
    let [rows, rest @ ..] = &base.shape[..] else { return Err(wrong(n, "has a base without dims")) };
    let size: usize = rest.iter().product();
    if val.shape != [&idx.shape[..], rest].concat() {
        return Err(wrong(n, "has values of a shape that does not fit"));
    }
    let mut out = base.clone();
    for (k, &i) in idx.values.iter().enumerate() {
        let to = row(n, i, *rows)? * size;
        for e in 0..size {
            let (place, v) = (&mut out.values[to + e], val.values[k * size + e]);
            *place = match mode {
                ScatterMode::Set => v,
                ScatterMode::Combine(op) => apply(op, n.dtype, &[*place, v]),
            };
        }
    }
    Ok(out)
}

fn wrong(n: &UOp, message: &str) -> EvalError {
    EvalError { message: format!("{n:?} {message}") }
}

#[cfg(test)]
mod tests;
