//! A call of an operator: its inputs and attributes through a checker that knows which were read.

use crate::element::Element;
use crate::ops::Op;
use crate::parts::Runner;
use crate::plan::{Attribute, Plan, Step};
use crate::value::{Strings, Value};
use frit_tensor::{Dim, Error, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What an operator is called with.
pub(crate) struct Call<'a> {
    pub step: &'a Step,
    inputs: Vec<Option<Value>>,
    /// Values that are there, for graphs among the attributes.
    slots: &'a [Option<Value>],
    mode: Mode<'a>,
    /// Which attributes were read.
    read: Vec<Cell<bool>>,
    /// Which inputs were.
    taken: Vec<Cell<bool>>,
}

/// How numbers that are computed become known.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// They are read, and graphs run in parts.
    Host(&'a Runner),
    /// They are asked for.
    Part(&'a Asking),
    /// They do not: this is described, and nothing is computed.
    Describe,
}

impl<'a> Mode<'a> {
    /// That of the steps in a graph or function inside, which ask for nothing: they cannot begin again.
    pub fn inside(&self) -> Mode<'a> {
        match self {
            Mode::Part(_) => Mode::Describe,
            other => *other,
        }
    }
}

/// Numbers that a step needs to go on.
#[derive(Clone)]
pub(crate) enum Question {
    /// As sizes, which may be variables.
    Sizes(Tensor),
    /// As they are.
    Numbers(Tensor),
}

impl Question {
    pub fn tensor(&self) -> &Tensor {
        let (Question::Sizes(t) | Question::Numbers(t)) = self;
        t
    }
    /// The same question about another tensor.
    pub fn about(&self, t: Tensor) -> Question {
        match self {
            Question::Sizes(_) => Question::Sizes(t),
            Question::Numbers(_) => Question::Numbers(t),
        }
    }
}

/// The answers that a step has, and the question it ends with.
#[derive(Default)]
pub(crate) struct Asking {
    answers: Vec<Value>,
    asked: Cell<usize>,
    question: RefCell<Option<Question>>,
}

impl Asking {
    pub fn new(answers: Vec<Value>) -> Asking {
        Asking { answers, ..Asking::default() }
    }
    /// The next answer, or an error where there is none yet.
    fn ask(&self, question: Question) -> Result<Value> {
        let at = self.asked.replace(self.asked.get() + 1);
        match self.answers.get(at) {
            Some(v) => Ok(v.clone()),
            None => {
                self.question.borrow_mut().get_or_insert(question);
                fail("it needs numbers that are computed")
            }
        }
    }
    /// What it asked for that it was not told, after how many answers.
    pub fn into_question(self) -> Option<(usize, Question)> {
        self.question.into_inner().map(|q| (self.answers.len(), q))
    }
}

/// What an operator gives: as many values as it has, of which a model may want fewer.
pub(crate) struct Outs(pub Vec<Option<Value>>);

impl<V: Into<Value>> From<V> for Outs {
    fn from(v: V) -> Outs {
        Outs(vec![Some(v.into())])
    }
}
impl From<(Tensor, Tensor)> for Outs {
    fn from((a, b): (Tensor, Tensor)) -> Outs {
        Outs::from(vec![a, b])
    }
}
impl From<Vec<Tensor>> for Outs {
    fn from(all: Vec<Tensor>) -> Outs {
        Outs(all.into_iter().map(|t| Some(t.into())).collect())
    }
}
impl From<Vec<Value>> for Outs {
    fn from(all: Vec<Value>) -> Outs {
        Outs(all.into_iter().map(Some).collect())
    }
}

/// What an operator gives back.
pub(crate) fn give(v: impl Into<Outs>) -> Result<Outs> {
    Ok(v.into())
}
/// The greatest size or count that an attribute may say.
const MOST_SIZE: i64 = i32::MAX as i64;
/// The most elements that are made on the host because a model says so.
const MOST_ELEMENTS: usize = 1 << 26;

/// The product of counts that a model says, if so many elements may be made on the host.
pub(crate) fn bounded(counts: &[usize]) -> Result<usize> {
    let all = counts.iter().try_fold(1usize, |n, c| n.checked_mul(*c));
    let few = all.filter(|n| *n <= MOST_ELEMENTS);
    few.map_or_else(|| fail(format!("{counts:?} elements are more than {MOST_ELEMENTS}")), Ok)
}
/// An error of the operator that runs.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::elsewhere("onnx", message))
}

impl<'a> Call<'a> {
    pub fn new(
        step: &'a Step,
        inputs: Vec<Option<Value>>,
        slots: &'a [Option<Value>],
        mode: Mode<'a>,
    ) -> Call<'a> {
        let (read, taken) =
            (vec![Cell::new(false); step.attributes.len()], vec![Cell::new(false); inputs.len()]);
        Call { step, inputs, slots, mode, read, taken }
    }
    /// What an operator gives, if it may be called with these inputs.
    pub fn answer(&self, op: &Op) -> Result<Vec<Option<Value>>> {
        if let Some(types) = self.step.types {
            types.check(&self.inputs).or_else(fail)?;
        }
        let outs = (op.run)(self)?.0;
        self.finish()?;
        Ok(outs)
    }
    /// The version of the operator's domain.
    pub fn version(&self) -> i64 {
        self.step.version
    }

    // ---- inputs

    /// How many inputs there are, those left out at the end not counted.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }
    /// How many outputs the model wants.
    pub fn outs(&self) -> usize {
        self.step.outputs.len()
    }
    /// Whether the model wants this output.
    pub fn wants(&self, i: usize) -> bool {
        self.step.outputs.get(i).is_some_and(Option::is_some)
    }
    /// An input that may be left out.
    pub fn value(&self, i: usize) -> Option<&Value> {
        self.taken.get(i).inspect(|t| t.set(true));
        self.inputs.get(i).and_then(Option::as_ref)
    }
    /// The inputs from one on, also those that are left out.
    pub fn rest(&self, from: usize) -> &[Option<Value>] {
        self.taken.iter().skip(from).for_each(|t| t.set(true));
        self.inputs.get(from..).unwrap_or_default()
    }
    /// Inputs that change nothing here.
    pub fn ignore_inputs(&self, places: &[usize]) {
        for i in places {
            self.value(*i);
        }
    }
    /// An input.
    pub fn input(&self, i: usize) -> Result<&Value> {
        self.value(i).map_or_else(|| fail(format!("input {i} is not there")), Ok)
    }
    /// A tensor of numbers.
    pub fn tensor(&self, i: usize) -> Result<Tensor> {
        self.input(i)?.tensor()
    }
    /// A tensor of numbers that may be left out.
    pub fn optional(&self, i: usize) -> Result<Option<Tensor>> {
        self.value(i).map(Value::tensor).transpose()
    }
    /// All inputs, tensors of numbers.
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        (0..self.len()).map(|i| self.tensor(i)).collect()
    }
    /// Texts.
    pub fn strings(&self, i: usize) -> Result<&Strings> {
        match self.input(i)? {
            Value::Strings(s) => Ok(s),
            other => fail(format!("input {i} is {}, not texts", other.kind())),
        }
    }
    /// A value as it must be known now: where it is computed, as the answer to a question.
    fn known(&self, v: &Value, is_known: bool, question: fn(Tensor) -> Question) -> Result<Value> {
        match self.mode {
            Mode::Part(asking) if !is_known => asking.ask(question(v.tensor()?)),
            _ => Ok(v.clone()),
        }
    }
    /// Integers of a value that must be known now.
    pub fn ints_of(&self, v: &Value) -> Result<Vec<i64>> {
        let sizes = v.tensor()?.as_sizes();
        let is_known = sizes.is_some_and(|all| all.iter().all(|d| d.as_int().is_some()));
        self.known(v, is_known, Question::Numbers)?.ints()
    }
    /// Numbers of a value that must be known now.
    pub fn numbers_of(&self, v: &Value) -> Result<Vec<f64>> {
        self.known(v, v.tensor()?.as_numbers().is_some(), Question::Numbers)?.numbers()
    }
    /// A size that is computed.
    pub fn size_of(&self, t: &Tensor) -> Result<Dim> {
        let v = Value::from(t.clone());
        match &self.known(&v, t.as_sizes().is_some(), Question::Sizes)?.sizes()?[..] {
            [d] => Ok(d.clone()),
            all => fail(format!("{} sizes where one is wanted", all.len())),
        }
    }
    /// An error where this cannot run among others: it reads numbers of its own accord, or runs graphs many times.
    pub fn alone(&self) -> Result<&'a Runner> {
        match self.mode {
            Mode::Host(runner) => Ok(runner),
            _ => fail("it runs by itself"),
        }
    }
    /// Integers that must be known now.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>> {
        self.ints_of(self.input(i)?)
    }
    /// Sizes: integers that must be known now, but for variables in them.
    pub fn dims(&self, i: usize) -> Result<Vec<Dim>> {
        let v = self.input(i)?;
        self.known(v, v.tensor()?.as_sizes().is_some(), Question::Sizes)?.sizes()
    }
    /// Integers that must be known now and may be left out.
    pub fn optional_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        self.value(i).map(|v| self.ints_of(v)).transpose()
    }
    /// One integer that must be known now.
    pub fn int_input(&self, i: usize) -> Result<i64> {
        match self.ints(i)?[..] {
            [v] => Ok(v),
            ref all => fail(format!("input {i} has {} elements, one is wanted", all.len())),
        }
    }
    /// One number that must be known now.
    pub fn float_input(&self, i: usize) -> Result<f64> {
        match self.numbers_of(self.input(i)?)?[..] {
            [v] => Ok(v),
            ref all => fail(format!("input {i} has {} elements, one is wanted", all.len())),
        }
    }
    /// The element type of an input.
    pub fn element(&self, i: usize) -> Result<Element> {
        self.input(i)?.element()
    }
    /// What `f` makes of the first input.
    pub fn map(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Result<Outs> {
        give(f(&self.tensor(0)?))
    }
    /// What `f` makes of the first input, in the type that has.
    pub fn kept(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Result<Outs> {
        let x = self.tensor(0)?;
        give(f(&x).cast(x.dtype()))
    }
    /// What moving elements of the first input gives: of its element type, which may be none of a tensor's.
    pub fn moved(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Outs> {
        give(self.moved_value(0, f)?)
    }
    /// The same of another input, also of texts: their places are moved, then the texts.
    pub fn moved_value(&self, i: usize, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Value> {
        match self.input(i)? {
            Value::Strings(s) => s.moved(f).map(Value::Strings),
            other => Ok(Value::Tensor(f(&other.tensor()?)?, other.element()?)),
        }
    }
    /// What `f` makes of the first two inputs, which are of one type.
    pub fn zip(&self, f: impl FnOnce(&Tensor, &Tensor) -> Tensor) -> Result<Outs> {
        let (a, b) = (self.tensor(0)?, self.tensor(1)?);
        self.alike(&a, &b)?;
        give(f(&a, &b))
    }
    /// Two inputs of one type.
    pub fn alike(&self, a: &Tensor, b: &Tensor) -> Result<()> {
        match a.dtype() == b.dtype() {
            true => Ok(()),
            false => fail(format!("inputs of types {} and {}, which must be one", a.dtype(), b.dtype())),
        }
    }

    // ---- attributes

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        let i = self.step.attributes.iter().rposition(|(n, _)| n == name)?;
        self.read[i].set(true);
        Some(&self.step.attributes[i].1)
    }
    /// Inputs and attributes that no one asked for are an error: they would mean something.
    fn finish(&self) -> Result<()> {
        let unread = self.inputs.iter().zip(&self.taken).position(|(v, taken)| v.is_some() && !taken.get());
        if let Some(i) = unread {
            return fail(format!("at opset {} it has no input {i}", self.version()));
        }
        let unread = self.step.attributes.iter().zip(&self.read).filter(|(_, read)| !read.get());
        let names: Vec<String> = unread.map(|((name, _), _)| format!("{name:?}")).collect();
        match names.is_empty() {
            true => Ok(()),
            false => fail(format!("at opset {} it has no attribute {}", self.version(), names.join(", "))),
        }
    }
    /// Attributes that change nothing here.
    pub fn ignore(&self, names: &[&str]) {
        for name in names {
            self.attribute(name);
        }
    }
    fn wrong<T>(&self, name: &str, wanted: &str) -> Result<T> {
        fail(format!("attribute {name:?} is not {wanted}"))
    }
    /// An integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(v)) => Ok(Some(*v)),
            Some(_) => self.wrong(name, "an integer"),
        }
    }
    /// An integer with a default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }
    /// How many of something there are: at least one, and no more than sizes are.
    pub fn count(&self, name: &str, default: i64) -> Result<usize> {
        match self.int_or(name, default)? {
            v if (1..=MOST_SIZE).contains(&v) => Ok(v as usize),
            v => fail(format!("attribute {name:?} is {v}")),
        }
    }
    /// A truth value, no if it is not there.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.int_or(name, 0)? != 0)
    }
    /// An axis with a default.
    pub fn axis(&self, name: &str, default: isize) -> Result<isize> {
        Ok(self.int(name)?.map_or(default, |v| v as isize))
    }
    /// A float.
    pub fn float(&self, name: &str) -> Result<Option<f64>> {
        match self.attribute(name) {
            None => Ok(None),
            // the number that was meant, not the float32 next to it, makes a difference for nobody
            Some(Attribute::Float(v)) => Ok(Some(f64::from(*v))),
            Some(_) => self.wrong(name, "a float"),
        }
    }
    /// A float with a default.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f64> {
        Ok(self.float(name)?.unwrap_or(f64::from(default)))
    }
    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Text(v)) => Ok(Some(v)),
            Some(_) => self.wrong(name, "a text"),
        }
    }
    /// A text with a default.
    pub fn text_or<'s>(&'s self, name: &str, default: &'s str) -> Result<&'s str> {
        Ok(self.text(name)?.unwrap_or(default))
    }
    /// Integers.
    pub fn list(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(v)) => Ok(Some(v.clone())),
            Some(_) => self.wrong(name, "a list of integers"),
        }
    }
    /// Sizes: integers that are not negative, and whose products are integers.
    pub fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let size = |v: i64| match (0..=MOST_SIZE).contains(&v) {
            true => Ok(v as usize),
            false => fail(format!("attribute {name:?} has a {v}")),
        };
        self.list(name)?.map(|all| all.into_iter().map(size).collect()).transpose()
    }
    /// Floats.
    pub fn floats(&self, name: &str) -> Result<Option<&[f32]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(v)) => Ok(Some(v)),
            Some(Attribute::Ints(v)) if v.is_empty() => Ok(Some(&[])),
            Some(_) => self.wrong(name, "a list of floats"),
        }
    }
    /// Texts.
    pub fn texts(&self, name: &str) -> Result<Option<&[String]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(v)) => Ok(Some(v)),
            Some(Attribute::Ints(v)) if v.is_empty() => Ok(Some(&[])),
            Some(_) => self.wrong(name, "a list of texts"),
        }
    }
    /// A stored tensor.
    pub fn constant(&self, name: &str) -> Result<Option<&Value>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Value(v)) => Ok(Some(v)),
            Some(_) => self.wrong(name, "a tensor"),
        }
    }
    /// The element type that a number names.
    pub fn element_named(&self, name: &str) -> Result<Option<Element>> {
        let of = |n| Element::from_number(n).or_else(|e| fail(format!("attribute {name:?}: {e}")));
        self.int(name)?.map(of).transpose()
    }
    /// A graph.
    pub fn graph(&self, name: &str) -> Result<&Arc<Plan>> {
        match self.attribute(name) {
            Some(Attribute::Graph(g)) => Ok(g),
            _ => self.wrong(name, "a graph"),
        }
    }
    /// A graph that may be left out.
    pub fn optional_graph(&self, name: &str) -> Result<Option<&Arc<Plan>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Graph(g)) => Ok(Some(g)),
            Some(_) => self.wrong(name, "a graph"),
        }
    }
    /// What a graph among the attributes gives, with the values around it.
    pub fn run(&self, graph: &Arc<Plan>, inputs: Vec<Option<Value>>) -> Result<Vec<Value>> {
        let captured = |(outer, _): &(usize, usize)| self.slots.get(*outer).cloned().flatten();
        let captured = graph.captures.iter().map(captured).collect();
        match self.mode {
            Mode::Host(runner) => runner.run(graph, inputs, captured),
            mode => graph.describe(inputs, captured, &mode.inside()),
        }
    }
    /// What a graph among the attributes gives, described: for loops that take it as one step.
    pub fn describe(&self, graph: &Arc<Plan>, inputs: Vec<Option<Value>>) -> Result<Vec<Value>> {
        let captured = |(outer, _): &(usize, usize)| self.slots.get(*outer).cloned().flatten();
        graph.describe(inputs, graph.captures.iter().map(captured).collect(), &Mode::Describe)
    }
}
