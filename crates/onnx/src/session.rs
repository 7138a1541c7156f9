//! A loaded model, and runs of it.

use crate::call::{Call, Mode, fail};
use crate::element::Element;
use crate::parts::{Decoder, Image, Runner};
use crate::plan::{Plan, Planner, Run, Slot, Step};
use crate::proto::{self, Model, Type, ValueInfo};
use crate::value::Value;
use crate::weights::Source;
use frit_tensor::{Blob, Error, Result, named_scope};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// One size of an input or output, as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Number(usize),
    /// Any number, the same for each size of that name.
    Name(String),
    /// Any number.
    Any,
}

/// What an input or output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers or texts.
    Tensor,
    /// Values in order.
    Sequence,
    /// A value or none.
    Optional,
    /// Values by key.
    Map,
    /// Something else, or nothing is said of it.
    Other,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The type of its elements, if it is a tensor.
    pub element: Option<Element>,
    /// Its dims, if it is a tensor and they are declared.
    pub dims: Option<Vec<Size>>,
    /// Whether the model has a value for it where none is given.
    pub has_default: bool,
}

/// A model that is ready to run, from several threads too.
///
/// ```no_run
/// # use frit_onnx::Session;
/// # use frit_tensor::Tensor;
/// let model = Session::load("model.onnx")?;
/// let outputs = model.run([("x", Tensor::zeros([1, 3, 224, 224]).into())])?;
/// println!("{}", outputs[0].tensor()?);
/// # Ok::<(), frit_tensor::Error>(())
/// ```
pub struct Session {
    usual: Planned,
    /// For runs that are given other values for inputs that have one.
    overriding: OnceLock<std::result::Result<Planned, String>>,
    blob: Blob,
    folder: Option<PathBuf>,
    images: Option<Decoder>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

/// A plan, and what is recorded of its runs.
struct Planned {
    plan: Arc<Plan>,
    runner: Runner,
}

impl Planned {
    fn new(model: &Model, source: Source, keeps_defaults: bool) -> std::result::Result<Planned, String> {
        let plan = Arc::new(Planner::plan(model, source, keeps_defaults)?);
        Ok(Planned { plan, runner: Runner::default() })
    }
}

impl Session {
    /// Loads a model; its weights stay in the file.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Result<Session> {
        let _c = frit_tensor::call("onnx");
        let path = path.as_ref();
        let named = |e: String| Error::new("onnx", format!("{}: {e}", path.display()));
        let blob = Blob::open(path).map_err(|e| named(e.to_string()))?;
        let folder = match path.parent() {
            Some(p) if p.as_os_str().is_empty() => Path::new("."),
            Some(p) => p,
            None => Path::new("."),
        };
        Session::parse(&blob, Some(folder)).map_err(named)
    }
    /// A model that is in memory, and not beside any file.
    #[track_caller]
    pub fn from_blob(blob: &Blob) -> Result<Session> {
        let _c = frit_tensor::call("onnx");
        Session::parse(blob, None).map_err(|e| Error::new("onnx", e))
    }
    pub(crate) fn parse(blob: &Blob, folder: Option<&Path>) -> std::result::Result<Session, String> {
        let model: Model = proto::parse(blob)?;
        let usual = Planned::new(&model, Source::new(blob, folder), true)?;
        let graph = model.graph.as_ref().ok_or("graph: the model has none")?;
        let mut inputs = graph.input.iter().map(port).collect::<std::result::Result<Vec<_>, _>>()?;
        for (port, slot) in inputs.iter_mut().zip(&usual.plan.inputs) {
            port.has_default = usual.plan.constants.iter().any(|(s, _)| s == slot);
        }
        let outputs = graph.output.iter().map(port).collect::<std::result::Result<_, _>>()?;
        let (blob, folder) = (blob.clone(), folder.map(Path::to_path_buf));
        Ok(Session { usual, overriding: OnceLock::new(), blob, folder, images: None, inputs, outputs })
    }
    /// The plan for runs that are given other values for inputs that have one.
    fn overriding(&self) -> Result<&Planned> {
        let read = || {
            let source = Source::new(&self.blob, self.folder.as_deref());
            let mut planned = Planned::new(&proto::parse(&self.blob)?, source, false)?;
            planned.runner.images = self.images.clone();
            Ok(planned)
        };
        self.overriding.get_or_init(read).as_ref().map_err(|e| Error::new("onnx", e.clone()))
    }
    /// The model with numbers for sizes that have names: these are the same in every run, and what is compiled knows them.
    ///
    /// ```no_run
    /// # use frit_onnx::Session;
    /// let model = Session::load("model.onnx")?.with_sizes([("batch", 1)])?;
    /// # Ok::<(), frit_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn with_sizes<N: AsRef<str>>(
        mut self,
        sizes: impl IntoIterator<Item = (N, usize)>,
    ) -> Result<Session> {
        let _c = frit_tensor::call("onnx");
        let named = |s: &Size| if let Size::Name(n) = s { Some(n.clone()) } else { None };
        let all = self.inputs.iter().flat_map(|p| p.dims.iter().flatten()).filter_map(named);
        let known: BTreeSet<String> = all.collect();
        for (name, n) in sizes {
            let name = name.as_ref();
            if !known.contains(name) {
                let known = Vec::from_iter(known).join(", ");
                return Err(Error::new("onnx", format!("no size {name:?}, the inputs have {known}")));
            }
            let ports = self.inputs.iter_mut().chain(&mut self.outputs);
            for size in ports.flat_map(|p| p.dims.iter_mut().flatten()) {
                if matches!(size, Size::Name(of) if of == name) {
                    *size = Size::Number(n);
                }
            }
        }
        Ok(self)
    }
    /// The model with a function that makes pictures of the bytes of files: what `ImageDecoder` does, as no format is read here.
    pub fn with_images(mut self, decode: impl Fn(&[u8]) -> Result<Image> + Send + Sync + 'static) -> Session {
        self.images = Some(Arc::new(decode));
        self.usual.runner.images = self.images.clone();
        self.overriding = OnceLock::new();
        self
    }
    /// The inputs, in the model's order.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }
    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }
    /// What it is made of.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        summary.add(&self.usual.plan);
        summary
    }
    /// What was strange in runs so far and no error, each once: values of other shapes than the model declares, with their
    /// nodes.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = self.usual.plan.warnings();
        if let Some(Ok(planned)) = self.overriding.get() {
            found.extend(planned.plan.warnings());
        }
        let mut known = BTreeSet::new();
        found.retain(|w| known.insert(w.clone()));
        found
    }
    /// All outputs, computed, for inputs by name.
    #[track_caller]
    pub fn run<N: AsRef<str>>(&self, feeds: impl IntoIterator<Item = (N, Value)>) -> Result<Vec<Value>> {
        let _c = frit_tensor::call("onnx");
        let mut inputs: Vec<Option<Value>> = vec![None; self.inputs.len()];
        for (name, value) in feeds {
            let name = name.as_ref();
            let Some(i) = self.inputs.iter().position(|p| p.name == name) else {
                let known: Vec<&str> = self.inputs.iter().map(|p| p.name.as_str()).collect();
                return Err(Error::new(
                    "onnx",
                    format!("no input {name:?}, the model has {}", known.join(", ")),
                ));
            };
            self.inputs[i].check(&value)?;
            inputs[i] = Some(value);
        }
        let missing = self.inputs.iter().zip(&inputs).filter(|(p, v)| v.is_none() && !p.has_default);
        let missing: Vec<&str> = missing.map(|(p, _)| p.name.as_str()).collect();
        if !missing.is_empty() {
            return Err(Error::new("onnx", format!("no value for {}", missing.join(", "))));
        }
        let name = |i: usize, axis: usize| match self.inputs.get(i)?.dims.as_ref()?.get(axis)? {
            Size::Name(name) => Some(name.clone()),
            Size::Any => Some(format!("i{i}_{axis}")),
            Size::Number(_) => None,
        };
        let overrides = self.inputs.iter().zip(&inputs).any(|(p, v)| p.has_default && v.is_some());
        let planned = if overrides { self.overriding()? } else { &self.usual };
        planned.runner.run_named(&planned.plan, inputs, name)
    }
}

/// What a model is made of.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Operators by name, in graphs inside others too.
    pub operators: BTreeMap<String, Uses>,
    /// Stored numbers.
    pub parameters: usize,
    /// Bytes that they take.
    pub parameter_bytes: usize,
}

/// How an operator is used in a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// How many nodes call it.
    pub nodes: usize,
    /// Stored numbers that it is the first to read.
    pub parameters: usize,
    /// Bytes that they take.
    pub parameter_bytes: usize,
}

impl Summary {
    fn add(&mut self, plan: &Plan) {
        let mut unread: FxHashMap<Slot, (usize, usize)> = FxHashMap::default();
        for (slot, value) in &plan.constants {
            let n = value.dims().map_or(0, |d| d.iter().product::<usize>());
            let bytes = value.element().ok().and_then(|e| e.bytes(n)).unwrap_or(0);
            self.parameters += n;
            self.parameter_bytes += bytes;
            unread.insert(*slot, (n, bytes));
        }
        for step in &plan.steps {
            match &step.run {
                Run::Operator(op) => {
                    let uses = self.operators.entry(op.name.to_string()).or_default();
                    uses.nodes += 1;
                    for (n, bytes) in step.reads().filter_map(|slot| unread.remove(&slot)) {
                        uses.parameters += n;
                        uses.parameter_bytes += bytes;
                    }
                }
                Run::Function(_, plan) => self.add(plan),
            }
            step.graphs().for_each(|g| self.add(g));
        }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)?;
        match (self.element, &self.dims) {
            (Some(e), Some(dims)) => write!(f, "  {} {}", e.name(), show(dims)),
            (Some(e), None) => write!(f, "  {}", e.name()),
            (None, _) => write!(f, "  {:?}", self.kind),
        }
    }
}

impl Port {
    /// Whether a value can be fed here.
    fn check(&self, value: &Value) -> Result<()> {
        let wrong = |what: String| Err(Error::new("onnx", format!("input {:?} {what}", self.name)));
        if let Some(element) = self.element {
            match value.element() {
                Ok(e) if e == element => {}
                Ok(e) => return wrong(format!("is {}, not {}", element.name(), e.name())),
                Err(_) => return wrong(format!("is a tensor, not {}", value.kind())),
            }
        }
        if let (Some(declared), Some(_)) = (&self.dims, self.element) {
            let dims = value.dims()?;
            let fits = |(s, d): (&Size, &usize)| !matches!(s, Size::Number(n) if n != d);
            if declared.len() != dims.len() || !declared.iter().zip(&dims).all(fits) {
                return wrong(format!("is {}, not {dims:?}", show(declared)));
            }
        }
        Ok(())
    }
}

fn show(sizes: &[Size]) -> String {
    let one = |s: &Size| match s {
        Size::Number(n) => n.to_string(),
        Size::Name(n) => n.clone(),
        Size::Any => "?".into(),
    };
    format!("[{}]", sizes.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn port(v: &ValueInfo) -> std::result::Result<Port, String> {
    let tensor = v.kind.as_ref().and_then(|t: &Type| t.tensor.as_ref());
    let element = match tensor.map(|t| t.elem_type) {
        None | Some(0) => None,
        Some(n) => Some(Element::from_number(n).map_err(|e| format!("{:?}: elem_type: {e}", v.name))?),
    };
    let size = |d: &proto::Dimension| match (d.dim_value, d.dim_param) {
        // zero and below stand for anything in real files
        (Some(n), _) => usize::try_from(n).ok().filter(|n| *n > 0).map_or(Size::Any, Size::Number),
        (None, "") => Size::Any,
        (None, name) => Size::Name(name.to_string()),
    };
    let dims = tensor.and_then(|t| t.shape.as_ref()).map(|s| s.dim.iter().map(size).collect());
    let kind = match v.kind.as_ref() {
        Some(t) if t.tensor.is_some() => Kind::Tensor,
        Some(t) if t.sequence.is_some() => Kind::Sequence,
        Some(t) if t.optional.is_some() => Kind::Optional,
        Some(t) if t.map.is_some() => Kind::Map,
        _ => Kind::Other,
    };
    Ok(Port { name: v.name.to_string(), kind, element, dims, has_default: false })
}

impl Plan {
    /// Slots with what is there before the first step.
    pub fn begin(&self, inputs: Vec<Option<Value>>, captured: Vec<Option<Value>>) -> Vec<Option<Value>> {
        let mut slots: Vec<Option<Value>> = vec![None; self.slots];
        for (slot, value) in &self.constants {
            slots[*slot] = Some(value.clone());
        }
        for (slot, value) in self.inputs.iter().zip(inputs) {
            if value.is_some() {
                slots[*slot] = value;
            }
        }
        for ((_, slot), value) in self.captures.iter().zip(captured) {
            slots[*slot] = value;
        }
        slots
    }
    /// The outputs, after the last step.
    pub fn end(&self, slots: &mut [Option<Value>]) -> Result<Vec<Value>> {
        self.describe_fixed(slots, self.outputs.iter().map(|(_, slot)| *slot))?;
        let value = |(name, slot): &(String, Slot)| match &slots[*slot] {
            Some(v) => Ok(v.clone()),
            None => fail(format!("the output {name:?} has no value")),
        };
        self.outputs.iter().map(value).collect()
    }
    /// Fills slots that hold the same in every run, and those behind them.
    pub fn describe_fixed(
        &self,
        slots: &mut [Option<Value>],
        wanted: impl Iterator<Item = Slot>,
    ) -> Result<()> {
        let mut missing = vec![false; self.slots];
        wanted
            .filter(|slot| self.fixed[*slot] && slots[*slot].is_none())
            .for_each(|slot| missing[slot] = true);
        if !missing.contains(&true) {
            return Ok(());
        }
        let mut steps = vec![];
        for step in self.steps.iter().rev().filter(|s| s.is_fixed(self)) {
            if step.writes().any(|slot| missing[slot]) {
                step.reads().filter(|slot| slots[*slot].is_none()).for_each(|slot| missing[slot] = true);
                steps.push(step);
            }
        }
        // those that earlier steps were the last to read
        for (slot, value) in self.constants.iter().filter(|(slot, _)| missing[*slot]) {
            slots[*slot].get_or_insert_with(|| value.clone());
        }
        steps.into_iter().rev().try_for_each(|step| step.take(slots, &Mode::Describe))
    }
    /// The outputs, described.
    pub fn describe(
        &self,
        inputs: Vec<Option<Value>>,
        captured: Vec<Option<Value>>,
        mode: &Mode,
    ) -> Result<Vec<Value>> {
        let mut slots = self.begin(inputs, captured);
        for step in &self.steps {
            step.take(&mut slots, mode)?;
            step.last.iter().for_each(|slot| slots[*slot] = None);
        }
        self.end(&mut slots)
    }
}

impl Step {
    /// Whether it gives the same in every run.
    pub fn is_fixed(&self, plan: &Plan) -> bool {
        self.writes().all(|slot| plan.fixed[slot])
    }
    /// Describes what it gives, from slots into slots.
    pub fn take(&self, slots: &mut [Option<Value>], mode: &Mode) -> Result<()> {
        let _scope = named_scope(|| self.label());
        self.give(slots, mode).map_err(|e| e.within(&self.label()))
    }
    fn give(&self, slots: &mut [Option<Value>], mode: &Mode) -> Result<()> {
        let inputs: Vec<Option<Value>> =
            self.inputs.iter().map(|s| s.and_then(|s| slots[s].clone())).collect();
        let outs = match &self.run {
            Run::Function(_, plan) => {
                plan.describe(inputs, vec![], &mode.inside())?.into_iter().map(Some).collect()
            }
            Run::Operator(op) => {
                let call = Call::new(self, inputs, slots, *mode);
                call.answer(op)?
            }
        };
        let mut outs = outs.into_iter();
        for (i, slot) in self.outputs.iter().enumerate() {
            let value = outs.next().flatten();
            if let Some(v) = &value {
                v.check()?;
                self.check_declared(i, v)?;
            }
            if let Some(slot) = slot {
                slots[*slot] = value;
            }
        }
        Ok(())
    }
    /// An error where an output is of another type than the model declares; another shape is worth a warning.
    pub fn check_declared(&self, i: usize, v: &Value) -> Result<()> {
        let Some(declared) = self.declared.get(i).and_then(Option::as_ref) else { return Ok(()) };
        declared.note_shape(&self.label(), v);
        declared.check(v).or_else(|e| fail(format!("output {i} {e}")))
    }
    /// What errors in it are said to be in.
    pub fn label(&self) -> String {
        let op = match &self.run {
            Run::Operator(op) => op.name,
            Run::Function(name, _) => name,
        };
        if self.name.is_empty() { op.to_string() } else { format!("{op} {:?}", self.name) }
    }
}
