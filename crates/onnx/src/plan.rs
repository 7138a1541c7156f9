//! From the messages of a file to what a run needs: names become slots, calls of operators rows of their table, functions
//! and subgraphs plans of their own.
//!
//! ```text
//! Graph { nodes, initialisers }  ->  Plan { constants, steps: operator, attributes, slots }
//! ```
//!
//! Afterwards every slot that a step reads is written before it, by a step, an input or a constant.

use crate::element::Element;
use crate::ops::{self, Op};
use crate::proto::{self, Dimension, Function, Graph, Model, Node, OperatorSet, ValueInfo};
use crate::types::Types;
use crate::value::Value;
use crate::weights::Source;
use frit_tensor::{Dim, Progress};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A place for a value during a run.
pub(crate) type Slot = usize;
type Read<T> = Result<T, String>;

/// A graph, ready to run.
#[derive(Default)]
pub(crate) struct Plan {
    /// Of all graphs of a model.
    pub id: usize,
    pub slots: usize,
    /// Which slots hold the same in every run: constants, and what is made of them alone.
    pub fixed: Vec<bool>,
    pub inputs: Vec<Slot>,
    pub outputs: Vec<(String, Slot)>,
    pub constants: Vec<(Slot, Value)>,
    pub steps: Vec<Step>,
    /// Values of the graph around it: their slots there and here.
    pub captures: Vec<(Slot, Slot)>,
    /// Of a whole model: whether it has warnings.
    is_strange: Arc<AtomicBool>,
}

/// One node.
pub(crate) struct Step {
    pub name: String,
    pub run: Run,
    pub version: i64,
    pub inputs: Vec<Option<Slot>>,
    pub outputs: Vec<Option<Slot>>,
    pub attributes: Vec<(String, Attribute)>,
    /// The types that its inputs may have, where something is known of them.
    pub types: Option<&'static Types>,
    /// What the model declares of its outputs, where it declares anything.
    pub declared: Vec<Option<Declared>>,
    /// Slots that no later step reads.
    pub last: Vec<Slot>,
}

/// What a model says of a value.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    name: String,
    /// The type of its elements; none where it is a sequence.
    element: Option<Element>,
    /// Its sizes, where they are numbers.
    dims: Option<Vec<Option<usize>>>,
    /// What is to be said of a shape that is another one, and that there is something to be said of the model.
    warning: OnceLock<String>,
    is_strange: Arc<AtomicBool>,
}

impl Declared {
    fn of(v: &ValueInfo, is_strange: &Arc<AtomicBool>) -> Option<Declared> {
        let kind = v.kind.as_ref()?;
        // zero and below stand for anything in real files
        let size = |d: &Dimension| d.dim_value.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let shape = kind.tensor.as_ref().and_then(|t| t.shape.as_ref());
        let element = match &kind.tensor {
            Some(t) => Some(Element::from_number(t.elem_type).ok()?),
            None => kind.sequence.as_ref().map(|_| None)?,
        };
        let dims = shape.map(|s| s.dim.iter().map(size).collect());
        let (name, is_strange) = (v.name.to_string(), is_strange.clone());
        Some(Declared { name, element, dims, warning: OnceLock::new(), is_strange })
    }
    /// What is wrong with a value's type.
    pub fn check(&self, v: &Value) -> Read<()> {
        match (self.element, v) {
            (Some(_), Value::Optional(_)) | (None, Value::Sequence(_) | Value::Optional(_)) => Ok(()),
            (Some(e), v) if v.element().is_ok_and(|of| of == e) => Ok(()),
            (declared, v) => {
                let is = v.element().map_or(v.kind(), Element::name);
                let declared = declared.map_or("a sequence", Element::name);
                Err(format!("is {is}, the model declares {declared}"))
            }
        }
    }
    /// Remembers a shape that is another one than declared: exporters write that of the example they had, and what is
    /// computed is what counts.
    pub fn note_shape(&self, node: &str, v: &Value) {
        let Some(declared) = &self.dims else { return };
        let dims: Vec<Dim> = match v {
            Value::Tensor(t, _) => t.shape().as_slice().to_vec(),
            Value::Strings(s) => s.dims.iter().map(Dim::from).collect(),
            _ => return,
        };
        // a size that varies is not the number it is declared to be
        let differs =
            |(said, is): (&Option<usize>, &Dim)| said.is_some_and(|n| is.as_int() != Some(n as i64));
        if declared.len() == dims.len() && !declared.iter().zip(&dims).any(differs) {
            return;
        }
        self.warning.get_or_init(|| {
            self.is_strange.store(true, Ordering::Relaxed);
            let said = declared.iter().map(|n| n.map_or("?".into(), |n| n.to_string()));
            let is = dims.iter().map(|d| d.as_int().map_or("?".into(), |n| n.to_string()));
            let [said, is] = [said.collect::<Vec<_>>(), is.collect()].map(|all: Vec<String>| all.join(", "));
            format!("{node}: {:?} has the shape [{is}], the model declares [{said}]", self.name)
        });
    }
}

/// Operators that give something else each time.
const RANDOM: &[&str] = &[
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

impl Plan {
    /// Values of a model that have had another shape than it declares, with their nodes.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = vec![];
        if self.is_strange.load(Ordering::Relaxed) {
            self.collect_warnings(&mut found);
        }
        found
    }
    fn collect_warnings(&self, found: &mut Vec<String>) {
        for step in &self.steps {
            found.extend(step.declared.iter().flatten().filter_map(|d| d.warning.get().cloned()));
            if let Run::Function(_, plan) = &step.run {
                plan.collect_warnings(found);
            }
            step.graphs().for_each(|g| g.collect_warnings(found));
        }
    }
}

impl Step {
    /// The graphs among its attributes.
    pub fn graphs(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.attributes.iter().filter_map(|(_, a)| match a {
            Attribute::Graph(g) => Some(g),
            _ => None,
        })
    }
    /// The slots that it reads, in graphs inside it too.
    pub fn reads(&self) -> impl Iterator<Item = Slot> {
        let captured = self.graphs().flat_map(|g| g.captures.iter().map(|c| c.0));
        self.inputs.iter().flatten().copied().chain(captured)
    }
    /// The slots that it writes.
    pub fn writes(&self) -> impl Iterator<Item = Slot> {
        self.outputs.iter().flatten().copied()
    }
    /// Whether it gives the same in every run, inputs that do so given.
    fn is_constant(&self) -> bool {
        match &self.run {
            Run::Operator(op) => !RANDOM.contains(&op.name) && self.graphs().next().is_none(),
            Run::Function(..) => false,
        }
    }
}

/// What a node does.
pub(crate) enum Run {
    Operator(&'static Op),
    Function(String, Arc<Plan>),
}

/// An attribute's value.
#[derive(Clone)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Value(Value),
    Graph(Arc<Plan>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    /// A type, which values here carry themselves.
    Type,
}

/// Versions of domains.
type Opsets = FxHashMap<String, i64>;

fn opsets(imports: &[OperatorSet]) -> Opsets {
    imports.iter().map(|o| (ops::domain(o.domain).to_string(), o.version)).collect()
}

/// Names of a graph; those of the graph around it are seen too, unless it is a function's.
#[derive(Default)]
struct Scope<'m> {
    names: FxHashMap<String, Slot>,
    plan: Plan,
    /// What the graph declares of its values.
    declared: FxHashMap<&'m str, Declared>,
    is_closed: bool,
}

impl Scope<'_> {
    fn fresh(&mut self, name: &str, is_fixed: bool) -> Slot {
        let slot = self.plan.slots;
        self.plan.slots += 1;
        self.plan.fixed.push(is_fixed);
        self.names.insert(name.to_string(), slot);
        slot
    }
    fn define(&mut self, name: &str, is_fixed: bool) -> Read<Slot> {
        match self.names.contains_key(name) {
            true => Err(format!("{name:?} is computed twice")),
            false => Ok(self.fresh(name, is_fixed)),
        }
    }
    fn inputs<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        is_fixed: impl Fn(&str) -> bool,
    ) -> Read<()> {
        self.plan.inputs = names.map(|name| self.define(name, is_fixed(name))).collect::<Read<_>>()?;
        Ok(())
    }
    /// A constant may also be an input, whose value it is where none is given.
    fn constant(&mut self, name: &str, value: Value) -> Read<()> {
        let slot = match self.names.get(name) {
            Some(slot) if self.plan.inputs.contains(slot) => *slot,
            _ => self.define(name, true)?,
        };
        self.plan.constants.push((slot, value));
        Ok(())
    }
}

/// The slot of a name in the last scope, through those around it where it is theirs.
fn find(scopes: &mut [Scope<'_>], name: &str) -> Option<Slot> {
    let (scope, around) = scopes.split_last_mut()?;
    if let Some(slot) = scope.names.get(name) {
        return Some(*slot);
    }
    let outer = if scope.is_closed { None } else { find(around, name) }?;
    let is_fixed = around.last().is_some_and(|s| s.plan.fixed[outer]);
    let slot = scope.fresh(name, is_fixed);
    scope.plan.captures.push((outer, slot));
    Some(slot)
}

/// More steps than this in functions that are filled in are refused: a few bytes of a file may stand for any number.
const MAX_STEPS: usize = 1 << 20;
/// Graphs inside graphs, and calls of functions inside functions.
const MAX_NESTING: usize = 64;

/// Builds plans.
pub(crate) struct Planner<'m> {
    source: Source,
    functions: FxHashMap<(&'m str, &'m str, &'m str), &'m Function<'m>>,
    /// The graph that is being planned, after those around it.
    scopes: Vec<Scope<'m>>,
    /// Operators that are not there, with the nodes that want them.
    missing: BTreeMap<String, Vec<String>>,
    steps: usize,
    plans: usize,
    /// Inputs of the model that have a value are never given another.
    keeps_defaults: bool,
    /// Weights and nodes of the whole graph.
    progress: Progress,
    is_strange: Arc<AtomicBool>,
}

/// What the nodes of a graph or function are read with: versions of domains, attributes of the call.
#[derive(Clone, Copy)]
struct Within<'a> {
    opsets: &'a Opsets,
    given: &'a [(String, Attribute)],
}

impl<'m> Planner<'m> {
    /// The plan of a model's graph. Old files list all weights as inputs: where it `keeps_defaults`, what they are made into
    /// is the same in every run.
    pub fn plan(model: &'m Model<'m>, source: Source, keeps_defaults: bool) -> Read<Plan> {
        let key = |f: &'m Function<'m>| ((ops::domain(f.domain), f.name, f.overload), f);
        let functions = model.functions.iter().map(key).collect();
        let (scopes, missing) = (vec![], BTreeMap::new());
        let graph = model.graph.as_ref().ok_or("graph: the model has none")?;
        let progress = Progress::new("loading", graph.initializer.len() + graph.node.len());
        let is_strange: Arc<AtomicBool> = Arc::default();
        let mut p = Planner {
            source,
            functions,
            scopes,
            missing,
            steps: 0,
            plans: 0,
            keeps_defaults,
            progress,
            is_strange: is_strange.clone(),
        };
        let opsets = opsets(&model.opset_import);
        let plan =
            p.graph(graph, Within { opsets: &opsets, given: &[] }).map_err(|e| format!("graph: {e}"))?;
        match p.missing.is_empty() {
            true => Ok(Plan { is_strange, ..plan }),
            false => Err(p.complaint()),
        }
    }
    fn complaint(&self) -> String {
        let of = |(op, nodes): (&String, &Vec<String>)| {
            let shown = nodes.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            let more = if nodes.len() > 5 { format!(" and {} more", nodes.len() - 5) } else { String::new() };
            format!("{op} ({shown}{more})")
        };
        let all: Vec<String> = self.missing.iter().map(of).collect();
        format!("{} operators are not supported: {}", all.len(), all.join("; "))
    }
    fn graph(&mut self, graph: &Graph<'m>, within: Within) -> Read<Plan> {
        let mut scope = Scope::default();
        let values = graph.value_info.iter().chain(&graph.output);
        scope.declared = values.filter_map(|v| Some((v.name, Declared::of(v, &self.is_strange)?))).collect();
        let stored: FxHashSet<&str> = match self.scopes.is_empty() && self.keeps_defaults {
            true => graph.initializer.iter().map(|t| t.name).collect(),
            false => FxHashSet::default(),
        };
        scope.inputs(graph.input.iter().map(|i| i.name), |name| stored.contains(name))?;
        for (i, t) in graph.initializer.iter().enumerate() {
            let value = self.source.value(t).map_err(|e| format!("initializer[{i}]: {e}"))?;
            scope.constant(t.name, value)?;
            if self.scopes.is_empty() {
                self.progress.step();
            }
        }
        for (i, s) in graph.sparse_initializer.iter().enumerate() {
            let value = self.source.sparse(s).map_err(|e| format!("sparse_initializer[{i}]: {e}"))?;
            scope.constant(s.values.name, value)?;
        }
        let outputs: Vec<&str> = graph.output.iter().map(|o| o.name).collect();
        self.nodes(scope, &graph.node, &outputs, within)
    }
    fn function(&mut self, f: &'m Function<'m>, given: &[(String, Attribute)]) -> Read<Plan> {
        let mut scope = Scope { is_closed: true, ..Scope::default() };
        scope.inputs(f.input.iter().copied(), |_| false)?;
        let opsets = opsets(&f.opset_import);
        let mut all = given.to_vec();
        for a in f.attribute_proto.iter().filter(|a| !given.iter().any(|(name, _)| name == a.name)) {
            let value = self.attribute(a, Within { opsets: &opsets, given: &[] })?;
            all.extend(value.map(|v| (a.name.to_string(), v)));
        }
        self.nodes(scope, &f.node, &f.output, Within { opsets: &opsets, given: &all })
    }
    fn nodes(
        &mut self,
        scope: Scope<'m>,
        nodes: &[Node<'m>],
        outputs: &[&str],
        within: Within,
    ) -> Read<Plan> {
        if self.scopes.len() >= MAX_NESTING {
            return Err(format!("graphs and functions are nested more than {MAX_NESTING} deep"));
        }
        self.scopes.push(scope);
        for (i, node) in nodes.iter().enumerate() {
            let step = self.step(node, within).map_err(|e| format!("{}: {e}", label(node, i)))?;
            self.scope().plan.steps.extend(step);
            if self.scopes.len() == 1 {
                self.progress.step();
            }
        }
        for name in outputs {
            let slot = self.find(name).ok_or_else(|| format!("no node computes the output {name:?}"))?;
            self.scope().plan.outputs.push((name.to_string(), slot));
        }
        let mut plan = self.scopes.pop().map(|s| s.plan).unwrap_or_default();
        plan.id = self.plans;
        self.plans += 1;
        multiply_integers(&mut plan);
        mark_last(&mut plan);
        Ok(plan)
    }
    fn scope(&mut self) -> &mut Scope<'m> {
        self.scopes.last_mut().expect("nodes are read inside a scope")
    }
    fn find(&mut self, name: &str) -> Option<Slot> {
        find(&mut self.scopes, name)
    }
    /// A node as a step; none where its operator is missing.
    fn step(&mut self, node: &Node<'m>, within: Within) -> Read<Option<Step>> {
        self.steps += usize::from(self.scopes.iter().any(|s| s.is_closed));
        if self.steps > MAX_STEPS {
            return Err(format!("more than {MAX_STEPS} nodes in functions that are filled in"));
        }
        let mut inputs = vec![];
        for name in &node.input {
            let missing = || format!("its input {name:?} is computed by no node before it");
            inputs.push(match *name {
                "" => None,
                name => Some(self.find(name).ok_or_else(missing)?),
            });
        }
        let mut attributes: Vec<(String, Attribute)> = vec![];
        for a in &node.attribute {
            let value = self.attribute(a, within).map_err(|e| format!("attribute {:?}: {e}", a.name))?;
            attributes.extend(value.map(|v| (a.name.to_string(), v)));
        }
        let run = self.resolve(node, within, &attributes)?;
        let define = |name: &&str| (!name.is_empty()).then(|| self.scope().define(name, false)).transpose();
        let outputs = node.output.iter().map(define).collect::<Read<Vec<_>>>()?;
        let Some((run, version)) = run else { return Ok(None) };
        let types = match &run {
            Run::Operator(op) => Types::of(ops::domain(node.domain), op.name, version),
            Run::Function(..) => None,
        };
        let declared: Vec<_> = node.output.iter().map(|o| self.scope().declared.get(o).cloned()).collect();
        let declared = if declared.iter().any(Option::is_some) { declared } else { vec![] };
        let step = Step {
            name: node.name.into(),
            run,
            version,
            inputs,
            outputs,
            attributes,
            types,
            declared,
            last: vec![],
        };
        let fixed = &mut self.scope().plan.fixed;
        if step.is_constant() && step.inputs.iter().flatten().all(|slot| fixed[*slot]) {
            step.writes().for_each(|slot| fixed[slot] = true);
        }
        Ok(Some(step))
    }
    /// What a node runs, and the version of it; none where there is no such operator.
    fn resolve(
        &mut self,
        node: &Node<'m>,
        within: Within,
        attributes: &[(String, Attribute)],
    ) -> Read<Option<(Run, i64)>> {
        let domain = ops::domain(node.domain);
        if let Some(f) = self.functions.get(&(domain, node.op_type, node.overload)).copied() {
            let plan = self.function(f, attributes).map_err(|e| format!("function {:?}: {e}", f.name))?;
            return Ok(Some((Run::Function(f.name.into(), Arc::new(plan)), 0)));
        }
        let Some(version) = within.opsets.get(domain).copied() else {
            return Err(format!("no version of the operators of {:?} is imported", node.domain));
        };
        if domain.is_empty() && version > ops::NEWEST {
            return Err(format!("opset {version} is newer than {}", ops::NEWEST));
        }
        if let Some(op) = ops::find(domain, node.op_type, version) {
            return Ok(Some((Run::Operator(op), version)));
        }
        let op =
            if domain.is_empty() { node.op_type.to_string() } else { format!("{domain}.{}", node.op_type) };
        let name = if node.name.is_empty() { node.output.join(", ") } else { node.name.to_string() };
        self.missing.entry(op).or_default().push(name);
        Ok(None)
    }
    /// An attribute's value; none where it stands for one of the function's that was not given.
    fn attribute(&mut self, a: &proto::Attribute<'m>, within: Within) -> Read<Option<Attribute>> {
        if !a.ref_attr_name.is_empty() {
            return Ok(within.given.iter().find(|(name, _)| name == a.ref_attr_name).map(|(_, v)| v.clone()));
        }
        let text =
            |b: &[u8]| std::str::from_utf8(b).map(str::to_string).map_err(|e| format!("not UTF-8: {e}"));
        let kind = if a.kind == 0 { kind_of(a) } else { a.kind };
        Ok(Some(match kind {
            1 => Attribute::Float(a.f.unwrap_or(0.0)),
            2 => Attribute::Int(a.i.unwrap_or(0)),
            3 => Attribute::Text(text(a.s.unwrap_or_default())?),
            4 => Attribute::Value(self.source.value(a.t.as_ref().ok_or("t: not there")?)?),
            5 => Attribute::Graph(Arc::new(self.graph(a.g.as_ref().ok_or("g: not there")?, within)?)),
            6 => Attribute::Floats(a.floats.values()?),
            7 => Attribute::Ints(a.ints.values()?),
            8 => Attribute::Texts(a.strings.iter().map(|s| text(s)).collect::<Read<_>>()?),
            11 => Attribute::Value(
                self.source.sparse(a.sparse_tensor.as_ref().ok_or("sparse_tensor: not there")?)?,
            ),
            13 => Attribute::Type,
            kind => return Err(format!("of the unsupported type {kind}")),
        }))
    }
}

/// The type of an attribute that does not say it, as the oldest files do.
fn kind_of(a: &proto::Attribute) -> i64 {
    let found = [
        (1, a.f.is_some()),
        (2, a.i.is_some()),
        (3, a.s.is_some()),
        (4, a.t.is_some()),
        (5, a.g.is_some()),
        (6, !a.floats.is_empty()),
        (8, !a.strings.is_empty()),
    ];
    found.iter().find(|(_, is)| *is).map_or(7, |(kind, _)| *kind)
}

fn label(node: &Node, i: usize) -> String {
    match node.name {
        "" => format!("node[{i}] ({})", node.op_type),
        name => format!("node {name:?} ({})", node.op_type),
    }
}

/// Lets products and convolutions of dequantised numbers multiply their integers:
///
/// ```text
/// MatMul(DequantizeLinear(a, s, p), DequantizeLinear(b, t, q))  ->  one step of a, s, p, b, t, q
/// ```
/// `Conv` and `Gemm` have a third input, which follows.
fn multiply_integers(plan: &mut Plan) {
    let is = |step: &Step, name: &str| matches!(&step.run, Run::Operator(op) if op.name == name);
    // by the slot they write: inputs, and the axis of their parameters
    let mut integers: FxHashMap<Slot, (Vec<Option<Slot>>, Attribute)> = FxHashMap::default();
    for step in &mut plan.steps {
        let [first, ..] = step.outputs[..] else { continue };
        if is(step, "DequantizeLinear") && step.attributes.iter().all(|(name, _)| name == "axis") {
            let axis = step.attributes.first().map_or(Attribute::Int(1), |(_, a)| a.clone());
            let mut inputs = step.inputs.clone();
            inputs.resize(3, None);
            integers.extend(first.map(|slot| (slot, (inputs, axis))));
        } else if let Some((_, product)) = ops::quant::DEQUANTISED.iter().find(|(name, _)| is(step, name))
            && let [Some(a), Some(b), ref more @ ..] = step.inputs[..]
            && let (Some((a, a_axis)), Some((b, b_axis))) = (integers.get(&a), integers.get(&b))
        {
            step.inputs = [&a[..], &b[..], more].concat();
            let axes = [("a_axis".into(), a_axis.clone()), ("b_axis".into(), b_axis.clone())];
            step.attributes.extend(axes);
            step.run = Run::Operator(product);
            step.types = None;
        }
    }
}

/// Notes at each step which slots no later one reads.
fn mark_last(plan: &mut Plan) {
    let mut kept: Vec<bool> = vec![false; plan.slots];
    plan.outputs.iter().for_each(|(_, slot)| kept[*slot] = true);
    for step in plan.steps.iter_mut().rev() {
        let used: Vec<Slot> = step.reads().chain(step.writes()).collect();
        step.last = used.into_iter().filter(|slot| !std::mem::replace(&mut kept[*slot], true)).collect();
    }
}
