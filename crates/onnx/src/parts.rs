//! Runs in parts. A plan is cut where a step needs numbers that are computed, and what lies between two cuts is recorded:
//! from the third run on only its kernels are launched.
//!
//! ```text
//! steps   0 1 2 | 3 4 5 6 | 7 8
//!               |         step 7 runs apart: a loop, or what reads data in a way of its own
//!               step 3 asks for numbers that step 2 computes; they are read, and it is described again with the answer
//! ```
//!
//! Where a plan must be cut shows when it is tried, since whether a `Reshape` reads data depends on where its shape comes
//! from. A part is recorded for what is known of its inputs: types, sizes, integers that follow from sizes, and answers.

use crate::call::{Asking, Call, Mode, Question};
use crate::constants::Constants;
use crate::packed::{Given, Packed};
use crate::plan::{Plan, Run, Slot, Step};
use crate::sizes::{Beside, Sizes, computed, with_dims};
use crate::value::Value;
use frit_tensor::{Dim, Error, Jit, Kind, Result, Tensor, check_interrupt, named_scope, rehearse};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Before a step, or in one that has been given so many answers.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    step: usize,
    answers: usize,
}

/// Why a part ends.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    /// The step asks for numbers.
    Question,
    /// The step runs by itself.
    Apart,
    /// There are no more steps.
    End,
}

/// Why a part cannot be described to its end.
enum Halt {
    /// A step asks for numbers.
    Question(Place),
    /// A step that was said to ask for numbers does not.
    NoQuestion(Place),
    /// A step fails in a part, and may run by itself.
    Step(usize, Error),
    /// The program asked work to end, which nothing here may try again.
    Interrupted(Error),
}

/// Recordings that a part remembers.
const RECORDINGS: usize = 32;

/// A picture: rows from the top, of red, green and blue.
pub struct Image {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Three bytes a pixel.
    pub rgb: Vec<u8>,
}

/// What makes a picture of the bytes of a file.
pub(crate) type Decoder = Arc<dyn Fn(&[u8]) -> Result<Image> + Send + Sync>;

/// What is recorded of a session.
#[derive(Default)]
pub(crate) struct Runner {
    pub images: Option<Decoder>,
    sizes: Arc<Mutex<Sizes>>,
    /// By the number of the plan.
    states: Mutex<FxHashMap<usize, Arc<State>>>,
}

/// How a plan is cut, and its parts.
#[derive(Default)]
struct State {
    stops: Mutex<BTreeMap<Place, Stop>>,
    parts: Mutex<FxHashMap<(Place, Place), Arc<Part>>>,
}

struct Part {
    plan: Arc<Plan>,
    from: Place,
    to: Place,
    stop: Stop,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    /// What its steps read that is the same in every run.
    fixed: Vec<(Slot, Value)>,
    constants: Mutex<Constants>,
    /// Those of the session.
    sizes: Arc<Mutex<Sizes>>,
    recordings: Mutex<FxHashMap<Vec<Given>, Arc<Recording>>>,
}

/// The outputs of a part, and the question that it ends with.
type Made = (Vec<Option<Value>>, Option<Question>);

struct Recording {
    jit: Jit<Vec<Tensor>, Vec<Tensor>>,
    /// What a call gives to the function besides tensors, and what that gives back.
    passed: Arc<Mutex<Passed>>,
    /// Calls take turns, so that `passed` is of one.
    turn: Mutex<()>,
    /// It could not be recorded.
    is_plain: AtomicBool,
}

#[derive(Default)]
struct Passed {
    sizes: Vec<Dim>,
    halt: Option<Halt>,
    /// The outputs, tensors left out, and the question.
    made: Option<(Vec<Given>, Vec<Dim>, Option<Question>)>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// The outputs of a model for inputs whose sizes have names.
    pub fn run_named(
        &self,
        plan: &Arc<Plan>,
        inputs: Vec<Option<Value>>,
        name: impl Fn(usize, usize) -> Option<String>,
    ) -> Result<Vec<Value>> {
        let given = self.settled(inputs, name)?;
        let outputs = self.parts(plan, given, vec![])?;
        realize(&outputs, true)?;
        Ok(outputs)
    }
    /// Inputs with their sizes by name, variables where these have changed.
    fn settled(
        &self,
        inputs: Vec<Option<Value>>,
        name: impl Fn(usize, usize) -> Option<String>,
    ) -> Result<Vec<Option<Value>>> {
        let mut sizes = lock(&self.sizes);
        let mut known: FxHashMap<String, (usize, Dim)> = FxHashMap::default();
        let shape = |v: &Option<Value>| match v {
            Some(v @ Value::Tensor(..)) => v.dims(),
            _ => Ok(vec![]),
        };
        let shapes = inputs.iter().map(shape).collect::<Result<Vec<_>>>()?;
        let places = || shapes.iter().enumerate().flat_map(|(i, s)| (0..s.len()).map(move |a| (i, a)));
        // words first, then what is said with them
        for (i, axis) in places() {
            let (n, Some(name)) = (shapes[i][axis], name(i, axis)) else { continue };
            if !name.contains(' ') && !known.contains_key(&name) {
                let dim = sizes.dim(&name, n, shapes[i].iter().product())?;
                known.insert(name, (n, dim));
            }
        }
        for (i, axis) in places() {
            let (n, Some(name)) = (shapes[i][axis], name(i, axis)) else { continue };
            if !known.contains_key(&name) {
                let said = computed(&name, |word| known.get(word).map(|(_, dim)| dim.clone()));
                let said = said.filter(|d| d.value().is_ok_and(|v| v == n as i64));
                let elements = shapes[i].iter().product();
                let dim = said.map_or_else(|| sizes.dim(&name, n, elements), Ok)?;
                known.insert(name, (n, dim));
            }
        }
        let dim = |i: usize, axis: usize, n: usize| match name(i, axis).and_then(|name| known.get(&name)) {
            // a name has one value in a run; another one beside it is a number
            Some((value, dim)) if *value == n => dim.clone(),
            _ => Dim::from(n),
        };
        let settle = |(i, v): (usize, Option<Value>)| {
            let dims = shapes[i].iter().enumerate().map(|(axis, n)| dim(i, axis, *n)).collect();
            v.map(|v| with_dims(v, dims)).transpose()
        };
        inputs.into_iter().enumerate().map(settle).collect()
    }
    /// The outputs of a graph inside another, or of a function.
    pub fn run(
        &self,
        plan: &Arc<Plan>,
        inputs: Vec<Option<Value>>,
        captured: Vec<Option<Value>>,
    ) -> Result<Vec<Value>> {
        // a loop may never end by itself
        check_interrupt()?;
        let mut given = vec![];
        for (i, v) in inputs.into_iter().enumerate() {
            let name = format!("g{}_{i}", plan.id);
            let settle = |v| lock(&self.sizes).settle(v, &name, &mut Beside::default());
            given.push(v.map(settle).transpose()?);
        }
        self.parts(plan, given, captured)
    }

    fn parts(
        &self,
        plan: &Arc<Plan>,
        inputs: Vec<Option<Value>>,
        captured: Vec<Option<Value>>,
    ) -> Result<Vec<Value>> {
        let state = lock(&self.states).entry(plan.id).or_default().clone();
        let mut slots = plan.begin(inputs, captured);
        let (mut at, mut answers) = (Place::default(), vec![]);
        // a step that failed in a part, until it is known that it runs apart
        let mut failed: Option<usize> = None;
        loop {
            let (to, stop) = match (failed, state.next(plan, at)) {
                (Some(step), next) if step <= next.0.step => (Place { step, answers: 0 }, Stop::Apart),
                (_, next) => next,
            };
            let mut asked = None;
            if to >= at {
                let part = state.part(plan, (at, to), stop, &slots, &self.sizes)?;
                match part.run(&mut slots, &answers)? {
                    Ok(question) => {
                        asked = question;
                        part.number_sequences(&mut slots)?;
                    }
                    Err(Halt::Question(place)) => {
                        lock(&state.stops).insert(place, Stop::Question);
                        continue;
                    }
                    Err(Halt::NoQuestion(place)) => {
                        lock(&state.stops).remove(&place);
                        continue;
                    }
                    Err(Halt::Interrupted(e)) => return Err(e),
                    Err(Halt::Step(step, e)) if failed == Some(step) => return Err(e),
                    Err(Halt::Step(step, _)) => {
                        failed = Some(step);
                        continue;
                    }
                }
            }
            for step in plan.steps.iter().take(to.step).skip(at.step) {
                step.last.iter().for_each(|slot| slots[*slot] = None);
            }
            match stop {
                Stop::End => return plan.end(&mut slots),
                Stop::Question => {
                    if to.step != at.step {
                        answers.clear();
                    }
                    if let Some(question) = asked {
                        answers.push(self.answer(plan, to, &question)?);
                    }
                    at = Place { step: to.step, answers: to.answers + 1 };
                }
                Stop::Apart => {
                    let label = |e: Error| e.within(&plan.steps[to.step].label());
                    self.apart(plan, to.step, &mut slots).map_err(label)?;
                    if failed == Some(to.step) {
                        failed = None;
                        let mut stops = lock(&state.stops);
                        stops.retain(|place, _| place.step != to.step);
                        stops.insert(to, Stop::Apart);
                    }
                    plan.steps[to.step].last.iter().for_each(|slot| slots[*slot] = None);
                    (at, answers) = (Place { step: to.step + 1, answers: 0 }, vec![]);
                }
            }
        }
    }
    /// What a step asked for, read from memory; sizes that change are variables.
    fn answer(&self, plan: &Plan, at: Place, question: &Question) -> Result<Value> {
        let t = match question {
            Question::Sizes(t) => t,
            Question::Numbers(t) => return known(t),
        };
        let name = format!("d{}_{}_{}", plan.id, at.step, at.answers);
        Ok(lock(&self.sizes).integers(t, &name)?.into())
    }
    /// Runs one step by itself: its graphs in parts of their own, and what it reads is read.
    fn apart(&self, plan: &Arc<Plan>, at: usize, slots: &mut [Option<Value>]) -> Result<()> {
        let step = &plan.steps[at];
        let _scope = named_scope(|| step.label());
        plan.describe_fixed(slots, step.reads())?;
        let inputs = step.inputs.iter().map(|s| s.and_then(|s| slots[s].clone()));
        let outs = match &step.run {
            Run::Function(_, inner) => {
                let outs = self.run(inner, inputs.collect(), vec![]);
                outs?.into_iter().map(Some).collect()
            }
            Run::Operator(op) => {
                // an operator that runs its graphs takes sizes as they are, another one needs numbers
                let numbered = |v: Option<Value>| match v {
                    Some(v) if step.graphs().next().is_none() => v.with_numbers().map(Some),
                    v => Ok(v),
                };
                let inputs = inputs.map(numbered).collect::<Result<_>>()?;
                let call = Call::new(step, inputs, slots, Mode::Host(self));
                call.answer(op)?
            }
        };
        // values of a sequence may be of several runs of a graph, in which variables differ
        let numbered = |v: Option<Value>| match v {
            Some(v) if v.is_sequence() => v.with_numbers().map(Some),
            v => Ok(v),
        };
        let outs = outs.into_iter().map(numbered).collect::<Result<Vec<_>>>()?;
        let given: Vec<Value> = outs.iter().flatten().cloned().collect();
        given.iter().try_for_each(Value::check)?;
        realize(&given, false)?;
        let counts = reads_counts(step, slots);
        let mut beside = Beside::default();
        for (i, (slot, value)) in step.outputs.iter().zip(outs).enumerate() {
            let Some(v) = &value else { continue };
            step.check_declared(i, v)?;
            let Some(slot) = slot else { continue };
            let name = output_name(plan, at, i);
            let mut sizes = lock(&self.sizes);
            slots[*slot] = Some(match v {
                // how many texts or values there are
                Value::Tensor(t, _) if counts && t.dtype().is_int() && Given::is_known(v) => {
                    sizes.integers(t, &name)?.into()
                }
                // sizes of another place in a sequence have other names
                v if counts => sizes.settle(v.clone().with_numbers()?, &name, &mut beside)?,
                v => sizes.settle(v.clone(), &name, &mut beside)?,
            });
        }
        Ok(())
    }
}

/// What the names of sizes of a step's output begin with.
fn output_name(plan: &Plan, step: usize, output: usize) -> String {
    format!("o{}_{step}_{output}", plan.id)
}

/// Whether a step reads values that are as many as a run happened to make: texts, or those of a sequence.
fn reads_counts(step: &Step, slots: &[Option<Value>]) -> bool {
    step.reads().filter_map(|s| slots[s].as_ref()).any(|v| v.is_of_host() || v.is_sequence())
}

/// Integers or numbers of a tensor in memory, as constants.
fn known(t: &Tensor) -> Result<Value> {
    if t.dtype().is_float() {
        return Ok(crate::packed::numbers(t.dtype(), &t.dims()?, &t.double().to_vec::<f64>()?).into());
    }
    let ints = t.cast(frit_tensor::DType::I64).to_vec::<i64>()?;
    let dims: Vec<Dim> = ints.into_iter().map(Dim::from).collect();
    Ok(crate::packed::integers(t.dtype(), &t.dims()?, &dims).into())
}

/// Computes values, of those that are known on the host only where all are wanted.
fn realize(values: &[Value], all: bool) -> Result<()> {
    let mut tensors = vec![];
    values.iter().for_each(|v| v.tensors(&mut tensors));
    if !all {
        tensors.retain(|t| !Given::is_known(&Value::from((*t).clone())));
    }
    Tensor::realize_all(&tensors)
}

impl State {
    fn next(&self, plan: &Plan, at: Place) -> (Place, Stop) {
        let end = (Place { step: plan.steps.len(), answers: 0 }, Stop::End);
        lock(&self.stops).range(at..).next().map_or(end, |(place, stop)| (*place, *stop))
    }
    fn part(
        &self,
        plan: &Arc<Plan>,
        ends: (Place, Place),
        stop: Stop,
        slots: &[Option<Value>],
        sizes: &Arc<Mutex<Sizes>>,
    ) -> Result<Arc<Part>> {
        if let Some(part) = lock(&self.parts).get(&ends) {
            return Ok(part.clone());
        }
        let part = Arc::new(Part::new(plan, ends, stop, slots, sizes.clone())?);
        Ok(lock(&self.parts).entry(ends).or_insert(part).clone())
    }
}

impl Part {
    fn new(
        plan: &Arc<Plan>,
        (from, to): (Place, Place),
        stop: Stop,
        slots: &[Option<Value>],
        sizes: Arc<Mutex<Sizes>>,
    ) -> Result<Part> {
        let behind = to.step + (stop == Stop::Question) as usize;
        let inside = &plan.steps[from.step..behind];
        let mut written = vec![false; plan.slots];
        plan.steps[from.step..to.step].iter().for_each(|s| s.writes().for_each(|slot| written[slot] = true));
        let mut read = vec![false; plan.slots];
        inside.iter().for_each(|s| s.reads().for_each(|slot| read[slot] = true));
        let mut wanted = vec![false; plan.slots];
        plan.steps[to.step..].iter().for_each(|s| s.reads().for_each(|slot| wanted[slot] = true));
        plan.outputs.iter().for_each(|(_, slot)| wanted[*slot] = true);
        let slot_where = |is: &dyn Fn(usize) -> bool| (0..plan.slots).filter(|s| is(*s)).collect::<Vec<_>>();
        let inputs = slot_where(&|s| read[s] && !written[s] && !plan.fixed[s]);
        let outputs = slot_where(&|s| written[s] && wanted[s] && !plan.fixed[s]);
        let needed = slot_where(&|s| read[s] && plan.fixed[s]);
        let mut slots = slots.to_vec();
        plan.describe_fixed(&mut slots, needed.iter().copied())?;
        let fixed: Vec<(Slot, Value)> =
            needed.into_iter().filter_map(|slot| Some((slot, slots[slot].clone()?))).collect();
        let constants = Mutex::new(Constants::new(fixed.iter().map(|(_, v)| v))?);
        let recordings = Mutex::default();
        Ok(Part { plan: plan.clone(), from, to, stop, inputs, outputs, fixed, constants, sizes, recordings })
    }
    /// Computes what later steps read, and the numbers that the next one asks for.
    fn run(
        self: &Arc<Part>,
        slots: &mut [Option<Value>],
        answers: &[Value],
    ) -> Result<std::result::Result<Option<Question>, Halt>> {
        if self.outputs.is_empty() && self.stop != Stop::Question {
            return Ok(Ok(None));
        }
        let values: Vec<Option<Value>> = self.inputs.iter().map(|s| slots[*s].clone()).collect();
        let all = values.iter().cloned().chain(answers.iter().cloned().map(Some));
        let mut packed = Packed::default();
        let key = all.map(|v| packed.pack(v.as_ref())).collect::<Option<Vec<Given>>>();
        let recording = key.map(|key| self.recording(key)).filter(|r| !r.is_plain.load(Ordering::Relaxed));
        if let Some(recording) = &recording {
            match recording.call(packed) {
                Ok((outs, question)) => {
                    self.outputs.iter().zip(outs).for_each(|(slot, v)| slots[*slot] = v);
                    return Ok(Ok(question));
                }
                Err(Some(halt)) => return Ok(Err(halt)),
                // an error of the run itself comes again; else it was that of recording it
                Err(None) => {}
            }
        }
        let numbered = |v: Option<Value>| v.map(Value::with_numbers).transpose();
        let values = values.into_iter().map(numbered).collect::<Result<_>>()?;
        let (outs, question) = match self.describe(values, answers.to_vec()) {
            Ok(made) => made,
            Err(halt) => return Ok(Err(halt)),
        };
        let mut given: Vec<Value> = outs.iter().flatten().cloned().collect();
        given.extend(question.as_ref().map(|q| Value::from(q.tensor().clone())));
        realize(&given, false)?;
        self.outputs.iter().zip(outs).for_each(|(slot, v)| slots[*slot] = v);
        if let Some(recording) = recording {
            recording.is_plain.store(true, Ordering::Relaxed);
        }
        Ok(Ok(question))
    }
    /// Sequences that leave a part may be kept for runs in which variables have other values.
    fn number_sequences(&self, slots: &mut [Option<Value>]) -> Result<()> {
        for slot in &self.outputs {
            if let Some(v) = slots[*slot].take_if(|v| v.is_sequence()) {
                slots[*slot] = Some(v.with_numbers()?);
            }
        }
        Ok(())
    }
    fn recording(self: &Arc<Part>, key: Vec<Given>) -> Arc<Recording> {
        let mut all = lock(&self.recordings);
        if all.len() >= RECORDINGS && !all.contains_key(&key) {
            all.clear();
        }
        let new = || Arc::new(Recording::new(self.clone(), &key));
        all.entry(key.clone()).or_insert_with(new).clone()
    }
    /// Whether a step reads texts, or a sequence from outside, which may have another length next time: it runs by itself,
    /// so that what is recorded around it holds for any number of them.
    fn is_of_host(&self, step: &Step, slots: &[Option<Value>]) -> bool {
        let mut read = step.reads().filter_map(|s| Some((s, slots[s].as_ref()?)));
        read.any(|(s, v)| v.is_of_host() || v.is_sequence() && self.inputs.contains(&s))
    }
    /// What the steps make of values; nothing is computed or read.
    fn describe(&self, inputs: Vec<Option<Value>>, answers: Vec<Value>) -> std::result::Result<Made, Halt> {
        let plan = &self.plan;
        let mut slots = plan.begin(vec![], vec![]);
        self.fixed.iter().for_each(|(slot, v)| slots[*slot] = Some(v.clone()));
        self.inputs.iter().zip(inputs).for_each(|(slot, v)| slots[*slot] = v.or(slots[*slot].take()));
        let behind = self.to.step + (self.stop == Stop::Question) as usize;
        let inside = &plan.steps[self.from.step..behind];
        let mut question = None;
        for (i, step) in inside.iter().enumerate() {
            let at = self.from.step + i;
            if step.is_fixed(plan) {
                continue;
            }
            if self.is_of_host(step, &slots) {
                return Err(Halt::Step(at, Error::elsewhere("onnx", "it runs by itself")));
            }
            let asking = Asking::new(if i == 0 { answers.clone() } else { vec![] });
            let done = rehearse(|| step.take(&mut slots, &Mode::Part(&asking)));
            let is_last = at == self.to.step;
            match (done, asking.into_question()) {
                (Err(_), Some((answers, asked))) => {
                    let place = Place { step: at, answers };
                    if !is_last || place != self.to {
                        return Err(Halt::Question(place));
                    }
                    question = Some(asked);
                }
                (Err(e), None) => return Err(Halt::Step(at, e)),
                (Ok(()), _) if is_last => return Err(Halt::NoQuestion(self.to)),
                (Ok(()), _) if step.writes().any(|s| slots[s].as_ref().is_some_and(Value::is_of_host)) => {
                    return Err(Halt::Step(at, Error::elsewhere("onnx", "it runs by itself")));
                }
                (Ok(()), _) => {}
            }
            // it would run by itself if the sequence came from outside, as it may in a run with other sizes
            if reads_counts(step, &slots) {
                let mut sizes = lock(&self.sizes);
                for (i, slot) in step.outputs.iter().enumerate() {
                    if let Some(v) = slot.and_then(|s| slots[s].as_ref()) {
                        sizes.note(v, &output_name(plan, at, i));
                    }
                }
            }
        }
        Ok((self.outputs.iter().map(|slot| slots[*slot].clone()).collect(), question))
    }
}

impl Recording {
    fn new(part: Arc<Part>, key: &[Given]) -> Recording {
        let passed: Arc<Mutex<Passed>> = Arc::default();
        let (key, seen) = (key.to_vec(), passed.clone());
        // the part holds what is recorded of it
        let part = Arc::downgrade(&part);
        let jit = Jit::new(move |tensors: Vec<Tensor>| {
            let Some(part) = part.upgrade() else {
                return Err(Error::elsewhere("onnx", "the session is gone"));
            };
            let packed = Packed { tensors, sizes: std::mem::take(&mut lock(&seen).sizes) };
            let mut values: Vec<Option<Value>> = packed.unpack(&key);
            let answers = values.split_off(part.inputs.len()).into_iter().flatten().collect();
            let (outs, question) = part.describe(values, answers).map_err(|halt| {
                lock(&seen).halt = Some(halt);
                Error::elsewhere("onnx", "a part ends early")
            })?;
            let mut packed = Packed::default();
            let given = outs.iter().map(|v| packed.pack(v.as_ref())).collect::<Option<Vec<Given>>>();
            let Some(given) = given else {
                return Err(Error::elsewhere("onnx", "a value is none of numbers"));
            };
            let mut tensors = packed.tensors;
            tensors.extend(question.as_ref().map(|q| q.tensor().clone()));
            lock(&seen).made = Some((given, packed.sizes, question));
            lock(&part.constants).fold(tensors)
        });
        Recording { jit, passed, turn: Mutex::default(), is_plain: AtomicBool::new(false) }
    }
    /// The outputs and the question; an error that is no halt is one of recording or of the run itself.
    fn call(&self, packed: Packed) -> std::result::Result<Made, Option<Halt>> {
        let _turn = lock(&self.turn);
        let now = packed.sizes.clone();
        lock(&self.passed).sizes = packed.sizes;
        let shapes: Vec<Dim> = packed.tensors.iter().flat_map(|t| t.shape().as_slice().to_vec()).collect();
        let called = self.jit.call_with(packed.tensors, &now);
        let mut passed = lock(&self.passed);
        let mut tensors = match called {
            Ok(tensors) => tensors,
            Err(e) if e.kind() == Kind::Interrupted => return Err(Some(Halt::Interrupted(e))),
            Err(_) => return Err(passed.halt.take()),
        };
        let Some((given, sizes, question)) = passed.made.clone() else { return Err(None) };
        let question = match question {
            Some(q) => Some(q.about(tensors.pop().ok_or(None)?)),
            None => None,
        };
        let by = [now, shapes].concat();
        let sizes = sizes.iter().map(|d| d.rebound(&by)).collect();
        Ok((Packed { tensors, sizes }.unpack(&given), question))
    }
}
