//! The nodes of a graph, written as operators in an order in which each comes after what it needs.

use super::Options;
use super::elementwise;
use super::loops::Written;
use super::named::{Form, form};
use super::writer::{Attribute::*, Graph, Size, port};
use crate::element::Element;
use frit_tensor::trace::{Step, Trace};
use frit_tensor::{DType, Tensor};
use frit_uop::graph::toposort_outside;
use frit_uop::{Alu, Arg, Op, ScatterMode, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) type Done<T> = Result<T, String>;

/// The file of a program.
pub(super) fn model(program: &Trace, options: &Options) -> Done<Vec<u8>> {
    let name = |given: &[String], kind: &str, i: usize| given.get(i).cloned().unwrap_or(format!("{kind}{i}"));
    let mut l = Lowering::new(program, options.opset);
    let (mut inputs, mut outputs) = (vec![], vec![]);
    for (i, x) in program.inputs.iter().enumerate() {
        let name = name(&options.inputs, "input", i);
        l.graph.take(&name)?;
        inputs.push(port(&name, element(x.dtype)?, &sizes(x)));
        for (axis, d) in x.shape().iter().enumerate() {
            l.sizes.entry(variable(d).clone()).or_insert((name.clone(), axis));
        }
        l.names.insert(x.clone(), name);
    }
    let names: Vec<String> =
        (0..program.outputs.len()).map(|i| name(&options.outputs, "output", i)).collect();
    names.iter().try_for_each(|n| l.graph.take(n))?;
    l.write(&program.outputs)?;
    for (y, name) in program.outputs.iter().zip(&names) {
        outputs.push(port(name, element(y.dtype)?, &sizes(y)));
        let value = l.name(y)?;
        l.graph.output(&value, name);
    }
    l.graph.model(options.opset, inputs, outputs)
}

/// The element type of a value; sizes are int64.
pub(super) fn element(d: DType) -> Done<Element> {
    match d {
        DType::Index => Ok(Element::Int64),
        d => match Element::of(d) {
            Element::String => Err(format!("ONNX has no type {d}")),
            e => Ok(e),
        },
    }
}

fn variable(d: &UOp) -> &UOp {
    if d.op == Op::Bind { d.variable() } else { d }
}
pub(super) fn sizes(x: &UOp) -> Vec<Size> {
    let size = |d: &UOp| match (d.as_int(), &variable(d).arg) {
        (Some(n), _) => Size::Number(n),
        (None, Arg::Var { name, .. }) => Size::Name(name.to_string()),
        _ => Size::Any,
    };
    x.shape().iter().map(size).collect()
}
fn numbers(dims: &[UOp]) -> Option<Vec<i64>> {
    dims.iter().map(|d| d.as_int()).collect()
}
fn count(n: &UOp) -> Option<i64> {
    numbers(n.try_shape()?)?.iter().try_fold(1i64, |a, d| a.checked_mul(*d))
}

/// Constants that are larger than what they are made of are computed in the model, unless they are as small as this.
const SMALL: i64 = 1024;

pub(super) struct Lowering<'a> {
    opset: i64,
    pub graph: Graph,
    steps: FxHashMap<&'a UOp, &'a Step>,
    pub names: FxHashMap<UOp, String>,
    /// For a variable: an input that has it as size, and the axis.
    sizes: FxHashMap<UOp, (String, usize)>,
    /// What does not depend on inputs: the elements of the largest memory behind it.
    constant: FxHashMap<UOp, i64>,
    seen: FxHashSet<UOp>,
    draws: &'a [UOp],
    pub loops: FxHashMap<UOp, Written>,
}

impl<'a> Lowering<'a> {
    fn new(program: &'a Trace, opset: i64) -> Lowering<'a> {
        let steps = program.steps.iter().map(|s| (&s.result, s)).collect();
        let (graph, names, sizes) = (Graph::default(), FxHashMap::default(), FxHashMap::default());
        let (constant, seen) = (FxHashMap::default(), FxHashSet::default());
        let (loops, draws) = (FxHashMap::default(), &program.draws[..]);
        Lowering { opset, graph, steps, names, sizes, constant, seen, draws, loops }
    }
    /// For a graph inside this one, which sees what is named here.
    pub fn inside(&self) -> Lowering<'a> {
        let (names, constant, seen, loops) = Default::default();
        let (graph, steps, sizes) = (self.graph.inside(), self.steps.clone(), self.sizes.clone());
        Lowering { opset: self.opset, graph, steps, names, sizes, constant, seen, draws: self.draws, loops }
    }
    /// The name of a value that is written.
    pub fn name(&self, n: &UOp) -> Done<String> {
        self.names.get(n).cloned().ok_or_else(|| format!("a {} has no value", n.op.name()))
    }
    /// Notes which of the nodes behind a value are constants.
    fn classify(&mut self, root: &UOp) {
        if self.constant.contains_key(root) || self.seen.contains(root) {
            return;
        }
        for n in toposort_outside(std::slice::from_ref(root)) {
            if !self.seen.insert(n.clone()) {
                continue;
            }
            let own = match n.op {
                Op::LoopIn | Op::Variable | Op::Bind => continue,
                // random numbers cannot be made there
                Op::Buffer | Op::Threefry => count(&n).unwrap_or(0),
                _ => 0,
            };
            let mut behind = n.inputs().iter().map(|s| self.constant.get(s).copied());
            if let Some(largest) = behind.try_fold(own, |a, b| Some(a.max(b?))) {
                self.constant.insert(n, largest);
            }
        }
    }
    fn is_stored(&mut self, n: &UOp) -> bool {
        self.classify(n);
        let (Some(behind), Some(count)) = (self.constant.get(n), count(n)) else { return false };
        count <= SMALL.max(*behind) && !matches!(n.dtype, DType::Index | DType::Void)
    }
    /// Writes values and all that they need.
    pub fn write(&mut self, roots: &[UOp]) -> Done<()> {
        let mut stack: Vec<(UOp, bool)> = roots.iter().rev().map(|r| (r.clone(), false)).collect();
        while let Some((n, is_ready)) = stack.pop() {
            if self.names.contains_key(&n) {
                continue;
            }
            if is_ready {
                let name = self.lower(&n)?;
                self.names.insert(n, name);
                continue;
            }
            let sources = self.sources(&n)?;
            stack.push((n, true));
            stack.extend(sources.into_iter().rev().map(|s| (s, false)));
        }
        Ok(())
    }
    fn named(&self, n: &UOp) -> Option<Result<Form, &'a UOp>> {
        let step = self.steps.get(n)?;
        Some(form(step, self.opset).ok_or(&step.value))
    }
    /// What must be written before a node.
    fn sources(&mut self, n: &UOp) -> Done<Vec<UOp>> {
        if self.is_stored(n) {
            return Ok(vec![]);
        }
        if let Some(named) = self.named(n) {
            return Ok(match named {
                Ok(form) => form.inputs.into_iter().flatten().collect(),
                Err(value) => vec![value.clone()],
            });
        }
        Ok(match n.op {
            Op::LoopOut => self.before_loop(n)?,
            Op::Bind | Op::Variable => vec![],
            op if op.alu().is_some() => elementwise::operands(n),
            // a dim that is a number is written where it is needed
            _ => n.src.iter().filter(|s| s.dtype != DType::Index || s.as_int().is_none()).cloned().collect(),
        })
    }
    fn lower(&mut self, n: &UOp) -> Done<String> {
        if self.is_stored(n) {
            // one draw for ever is not what the program computes; what was drawn before it is a constant to it, too
            if !self.draws.is_empty() && n.any(|s| self.draws.contains(s)) {
                return Err("random numbers are drawn in the program, and a model would store one draw of them: draw them outside, \
                            or make them an input".into());
            }
            let bytes = Tensor::from_uop(n.clone()).to_bytes().map_err(|e| e.to_string())?;
            let dims = numbers(n.shape()).unwrap_or_default();
            return Ok(self.graph.store(element(n.dtype)?, &dims, bytes));
        }
        if let Some(named) = self.named(n) {
            let form = match named {
                Ok(form) => form,
                Err(value) => return self.name(value),
            };
            let inputs = form.inputs.iter().map(|i| i.as_ref().map_or(Ok(String::new()), |u| self.name(u)));
            let inputs = inputs.collect::<Done<Vec<_>>>()?;
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            let (results, which, dtype) = form.output;
            let made = self.graph.call_for(form.op, &inputs, form.attributes, results, which);
            return if dtype == n.dtype { Ok(made) } else { self.cast(&made, n.dtype) };
        }
        if n.op.alu().is_some() {
            return elementwise::lower(self, n);
        }
        if n.op == Op::LoopOut {
            return self.loop_result(n);
        }
        let refuse = |what: &str| Err(format!("ONNX has no form for {what}"));
        let x = n.src.first().filter(|s| s.dtype != DType::Index || n.op == Op::Cast);
        let x = x.map(|x| self.name(x)).transpose()?.unwrap_or_default();
        match (n.op, &n.arg) {
            (Op::Const, _) => self.scalar(n),
            (Op::Variable | Op::Bind, _) => {
                let Some((name, axis)) = self.sizes.get(variable(n)).cloned() else {
                    return refuse("a variable that is no size of an input");
                };
                let (start, end) = (Int(axis as i64), Int(axis as i64 + 1));
                let size = self.graph.call("Shape", &[&name], vec![("start", start), ("end", end)]);
                let none = self.graph.ints(&[]);
                Ok(self.graph.call("Reshape", &[&size, &none], vec![]))
            }
            (Op::Contiguous | Op::Detach | Op::Leaf | Op::Copy, _) => Ok(x),
            (Op::Cast, _) => Ok(self.cast(&x, n.dtype)?),
            (Op::Iota, _) => {
                let (zero, one) = (self.index(0), self.index(1));
                let end = self.size(n.extent())?;
                let range = self.graph.call("Range", &[&zero, &end, &one], vec![]);
                if n.dtype == DType::I64 { Ok(range) } else { self.cast(&range, n.dtype) }
            }
            (Op::Reshape, _) => {
                let dims = self.shape(n.dims())?;
                Ok(self.graph.call("Reshape", &[&x, &dims], vec![("allowzero", Int(1))]))
            }
            (Op::Expand, _) => {
                let dims = self.shape(n.dims())?;
                Ok(self.graph.call("Expand", &[&x, &dims], vec![]))
            }
            (Op::Permute, Arg::Axes(axes)) => {
                let axes = axes.iter().map(|a| i64::from(*a)).collect();
                Ok(self.graph.call("Transpose", &[&x], vec![("perm", Ints(axes))]))
            }
            (Op::Pad, _) => {
                let (before, after) = n.padding();
                let pads = self.shape(&[before, after].concat())?;
                // ONNX pads no truth values before 21
                let wide = if n.dtype == DType::Bool { self.cast(&x, DType::U8)? } else { x };
                let padded = self.graph.call("Pad", &[&wide, &pads], vec![]);
                if n.dtype == DType::Bool { self.cast(&padded, DType::Bool) } else { Ok(padded) }
            }
            (Op::Shrink, _) => {
                let (begin, size) = n.cut();
                let from = self.shape(begin)?;
                let end = match numbers(begin).zip(numbers(size)) {
                    Some((b, s)) => {
                        self.graph.ints(&b.iter().zip(&s).map(|(b, s)| b + s).collect::<Vec<_>>())
                    }
                    None => {
                        let size = self.shape(size)?;
                        self.graph.call("Add", &[&from, &size], vec![])
                    }
                };
                Ok(self.graph.call("Slice", &[&x, &from, &end], vec![]))
            }
            (Op::Flip, Arg::Axes(axes)) => {
                let axes: Vec<i64> = axes.iter().map(|a| i64::from(*a)).collect();
                let all = |v: i64| vec![v; axes.len()];
                let [from, end, axes, back] =
                    [&all(-1), &all(i64::MIN + 1), &axes, &all(-1)].map(|v| self.graph.ints(v));
                Ok(self.graph.call("Slice", &[&x, &from, &end, &axes, &back], vec![]))
            }
            (Op::ReduceAxis, Arg::ReduceAxes(alu, axes)) => {
                let op = match alu {
                    Alu::Add => "ReduceSum",
                    Alu::Mul => "ReduceProd",
                    Alu::Max | Alu::Or => "ReduceMax",
                    Alu::Min | Alu::And => "ReduceMin",
                    other => return refuse(&format!("a reduction by {other:?}")),
                };
                let axes = self.graph.ints(&axes.iter().map(|a| i64::from(*a)).collect::<Vec<_>>());
                let is_bool = n.dtype == DType::Bool;
                let wide = if is_bool { self.cast(&x, DType::I32)? } else { x };
                let y = self.graph.call(op, &[&wide, &axes], vec![("keepdims", Int(1))]);
                if is_bool { self.cast(&y, DType::Bool) } else { Ok(y) }
            }
            (Op::ScanAxis, Arg::ReduceAxes(Alu::Add, axes)) => {
                let axis = self.index(axes.first().map_or(0, |a| i64::from(*a)));
                Ok(self.graph.call("CumSum", &[&x, &axis], vec![]))
            }
            (Op::Gather, _) => {
                let rows = self.rows(n.rows())?;
                Ok(self.graph.call("Gather", &[&x, &rows], vec![("axis", Int(0))]))
            }
            (Op::Scatter, Arg::Scatter(mode, _)) => {
                let how = match mode {
                    ScatterMode::Set => "none",
                    ScatterMode::Combine(Alu::Add) => "add",
                    ScatterMode::Combine(Alu::Mul) => "mul",
                    ScatterMode::Combine(Alu::Max) => "max",
                    ScatterMode::Combine(Alu::Min) => "min",
                    other => return refuse(&format!("a scatter by {other:?}")),
                };
                let (rows, updates) = (self.rows(n.rows())?, self.name(n.updates())?);
                let rows = if n.rows().dtype == DType::I64 { rows } else { self.cast(&rows, DType::I64)? };
                let axis = self.graph.ints(&[-1]);
                let rows = self.graph.call("Unsqueeze", &[&rows, &axis], vec![]);
                Ok(self.graph.call("ScatterND", &[&x, &rows, &updates], vec![("reduction", Text(how))]))
            }
            (Op::After | Op::Store, _) => refuse("an assignment: give the value back"),
            (Op::ScanAxis, Arg::ReduceAxes(alu, _)) => refuse(&format!("a scan by {alu:?}")),
            (op, _) => refuse(&format!("a {}", op.name())),
        }
    }
    /// Indices of a type that ONNX takes.
    fn rows(&mut self, rows: &UOp) -> Done<String> {
        let name = self.name(rows)?;
        if matches!(rows.dtype, DType::I32 | DType::I64) { Ok(name) } else { self.cast(&name, DType::I64) }
    }
    pub fn cast(&mut self, x: &str, to: DType) -> Done<String> {
        Ok(self.graph.call("Cast", &[x], vec![("to", Int(element(to)?.number()))]))
    }
    /// A constant.
    pub fn scalar(&mut self, n: &UOp) -> Done<String> {
        if let (DType::Index, Some(v)) = (n.dtype, n.as_int()) {
            return Ok(self.index(v));
        }
        let bytes = Tensor::from_uop(n.clone()).to_bytes().map_err(|e| e.to_string())?;
        Ok(self.graph.store(element(n.dtype)?, &[], bytes))
    }
    fn index(&mut self, v: i64) -> String {
        self.graph.store(Element::Int64, &[], v.to_le_bytes().to_vec())
    }
    pub fn size(&mut self, d: &UOp) -> Done<String> {
        match d.as_int() {
            Some(v) => Ok(self.index(v)),
            None => self.name(d),
        }
    }
    /// Sizes as one tensor.
    fn shape(&mut self, dims: &[UOp]) -> Done<String> {
        if let Some(numbers) = numbers(dims) {
            return Ok(self.graph.ints(&numbers));
        }
        let (axis, mut parts) = (self.graph.ints(&[0]), vec![]);
        for d in dims {
            parts.push(match d.as_int() {
                Some(v) => self.graph.ints(&[v]),
                None => {
                    let name = self.name(d)?;
                    self.graph.call("Unsqueeze", &[&name, &axis], vec![])
                }
            });
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(self.graph.call("Concat", &parts, vec![("axis", Int(0))]))
    }
}
