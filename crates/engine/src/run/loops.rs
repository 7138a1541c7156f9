//! Loops: the body is planned once and launched as often as there are steps.
//!
//! ```text
//! Loop(count, inits…, captures…, body)  ->  program: kernels over numbered slots of memory, loops inside among them
//! slots: the inputs (carries, captures), the results (next carries, ys), what the body keeps for itself
//! ```
//!
//! Inputs are computed first, as a run of their own. Then every step binds its number and launches the same kernels; the
//! next carries of one step are the carries of the following one, in two buffers by turns, and a y is stored straight
//! into its place among the stacked ones. Nothing is allocated or looked up by structure between steps.

use super::launch::Ready;
use super::tape;
use crate::lru_map::LruMap;
use crate::memory::bindings::{Bindings, eval_index};
use crate::memory::buffer::Buffer;
use crate::memory::unconfirmed;
use crate::memory::view::{contiguous_base, most_elements, seen_as};
use crate::plan::cache::{Cache, key, lock};
use crate::plan::normalise::take_out;
use crate::plan::schedule::{Plan, check_tensors, plan};
use crate::{Error, config, devices};
use frit_abi::DType;
use frit_abi::sync::{LazyLock, Mutex};
use frit_runtime::Device;
use frit_uop::graph::toposort_outside;
use frit_uop::{Arg, Loop, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::time::Instant;

/// A loop's body, ready to run on any memory.
struct LoopBody {
    carries: usize,
    inputs: usize,
    /// Everything the body works on; the inputs come first.
    slots: Vec<Slot>,
    /// Where each result goes; `None` for one that nobody wants.
    outs: Vec<Option<usize>>,
    steps: Vec<Step>,
    /// The variable that is the number of the step.
    variable: Arc<str>,
}

impl LoopBody {
    /// The slots that neither an input, nor a carry, nor a loop inside brings its memory to.
    fn own_slots(&self) -> impl Iterator<Item = usize> {
        let mut brought: FxHashSet<usize> = self.outs[..self.carries].iter().flatten().copied().collect();
        for s in &self.steps {
            if let Step::Loop { outs, .. } = s {
                brought.extend(outs.iter().flatten());
            }
        }
        (self.inputs..self.slots.len()).filter(move |s| !brought.contains(s))
    }
}

#[derive(Clone, Copy)]
struct Slot {
    dtype: DType,
    len: usize,
}

enum Step {
    Kernels(Arc<Plan>),
    Loop {
        program: Arc<LoopBody>,
        count: UOp,
        /// The slots of this program that are its inputs and results.
        inputs: Vec<usize>,
        outs: Vec<Option<usize>>,
    },
}

static PROGRAMS: Cache<LoopBody> = LazyLock::new(|| Mutex::new(LruMap::new(512)));

/// Forget all programs.
pub(crate) fn forget() {
    lock(&PROGRAMS).clear();
}

/// For a loop that another one does all the work of, that other one: the gradient keeps more of a loop's steps than
/// the loop itself.
pub(crate) fn richest(outputs: &[UOp]) -> FxHashMap<UOp, UOp> {
    let nodes = toposort_outside(outputs);
    let loops: Vec<Loop> = nodes.iter().filter_map(Loop::of).collect();
    let does_all = |a: &Loop, b: &Loop| {
        a.arg == b.arg && a.node.inputs() == b.node.inputs() && a.results().starts_with(b.results())
    };
    let best = |b: &Loop| loops.iter().filter(|a| does_all(a, b)).max_by_key(|a| a.results().len());
    loops.iter().filter_map(|b| Some((b.node.clone(), best(b)?.node.clone()))).collect()
}

/// Computes values on a device.
pub(crate) type Realize = fn(&[UOp], Option<&Arc<str>>) -> Result<Vec<UOp>, Error>;

/// Run a loop; `asked` is a result of it, or of a loop that it does all the work of. Gives its results with their values.
/// What it takes from outside is computed by `realize`.
pub(crate) fn run(node: &UOp, asked: &UOp, realize: Realize) -> Result<Vec<(UOp, UOp)>, Error> {
    let malformed = || Error::Graph("a loop without a body".into());
    let l = Loop::of(node).ok_or_else(malformed)?;
    let small = Loop::of(&asked.src[0]).ok_or_else(malformed)?;
    let device = match node.device() {
        Some(d) => d,
        None => devices::default_device()?,
    };
    let moved = l.with_movement_inside();
    let moved = Loop::of(&moved).ok_or_else(malformed)?;
    let inputs = realize(moved.inputs(), Some(&device))?;
    let count = eval_index(l.count(), &Bindings::default())?;
    // a result that nobody holds is not made
    let outs: Vec<UOp> = (0..l.results().len()).map(|i| l.out(i)).collect();
    let small_outs: Vec<UOp> = (0..small.results().len()).map(|i| small.out(i)).collect();
    let held = |o: Option<&UOp>, mine: usize| o.is_some_and(|o| o.ref_count() > mine);
    let is_same = node == small.node;
    let wanted: Vec<bool> = (0..outs.len())
        .map(|i| held(outs.get(i), 1 + is_same as usize) || held(small_outs.get(i), 1 + is_same as usize))
        .collect();

    let (program, mut bindings) = program(&moved, &wanted, &device)?;
    if l.count().as_int().is_none() {
        tape::refuse("the number of steps of a loop is a variable, which a Jit would freeze");
    }
    let dev = frit_runtime::device(&device)?;
    let begin = Instant::now();
    let memory: Option<Vec<UOp>> = inputs.iter().map(|i| contiguous_base(i).cloned()).collect();
    let memory = memory.ok_or_else(|| Error::Graph("a realised value has no memory".into()))?;
    let mut instance = Instance::new(&program, &device, &*dev)?;
    for m in &memory {
        Buffer::of(m).map_or(Ok(()), Buffer::check)?;
    }
    instance.run(&memory, count, &mut bindings)?;
    unconfirmed::wait(&*dev)?;
    if config::debug()? >= 1 {
        eprintln!("loop {} of {count} steps in {:.3} ms", l.arg.name, begin.elapsed().as_secs_f64() * 1e3);
    }
    let mut values = vec![];
    for (i, out) in outs.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let value = if i < l.carries() && count <= 0 {
            inputs[i].clone()
        } else {
            seen_as(instance.result(i).ok_or_else(malformed)?, out.shape())
        };
        let both = [Some(out), small_outs.get(i)].into_iter().flatten();
        values.extend(both.map(|o| (o.clone(), value.clone())));
    }
    Ok(values)
}

/// The program of a loop, and the values of the variables in it.
fn program(l: &Loop, wanted: &[bool], device: &Arc<str>) -> Result<(Arc<LoopBody>, Bindings), Error> {
    let normal = take_out(&UOp::sink([l.body().clone(), l.count().clone()]))?;
    if !normal.buffers.is_empty() {
        return Err(Error::Graph("the body of a loop names memory outside it".into()));
    }
    let inputs = l.inputs().len();
    let program = cached(&normal.sink, (l.carries(), l.arg.level, inputs), wanted, device)?;
    Ok((program, normal.bindings))
}

/// Numbers of a loop: carries, level, inputs.
type Numbers = (usize, u32, usize);

fn cached(sink: &UOp, numbers: Numbers, wanted: &[bool], device: &Arc<str>) -> Result<Arc<LoopBody>, Error> {
    let name = format!("{numbers:?} {wanted:?}");
    let structure = UOp::new(Op::Sink, DType::Void, sink.src.clone(), Arg::Name(name.into()));
    let key = key(&structure, device);
    if let Some(p) = lock(&PROGRAMS).get(&key) {
        return Ok(p);
    }
    let made = Arc::new(Builder::new(&sink.src[0], &sink.src[1], numbers, device).build(wanted)?);
    lock(&PROGRAMS).insert(key, made.clone());
    Ok(made)
}

/// A program in the making.
struct Builder<'a> {
    results: &'a [UOp],
    count: &'a UOp,
    numbers: Numbers,
    device: &'a Arc<str>,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    /// The memory that inputs and results of loops inside are in.
    known: FxHashMap<UOp, UOp>,
}

impl<'a> Builder<'a> {
    fn new(body: &'a UOp, count: &'a UOp, numbers: Numbers, device: &'a Arc<str>) -> Builder<'a> {
        let slots = vec![Slot { dtype: DType::Bool, len: 0 }; numbers.2];
        let known = FxHashMap::default();
        Builder { results: &body.src, count, numbers, device, slots, steps: vec![], known }
    }
    fn build(mut self, wanted: &[bool]) -> Result<LoopBody, Error> {
        let (carries, level, inputs) = self.numbers;
        let needed = |i: usize| i < carries || wanted.get(i) == Some(&true);
        let roots: Vec<UOp> =
            (0..self.results.len()).filter(|i| needed(*i)).map(|i| self.results[i].clone()).collect();
        let order = toposort_outside(&roots);
        for n in &order {
            if let Arg::LoopIn { level: l, slot } = n.arg
                && l == level
                && (slot as usize) < inputs
            {
                self.slots[slot as usize] = Slot { dtype: n.dtype, len: most_elements(n.shape())? };
                self.known.insert(n.clone(), self.memory(slot as usize, n.shape()));
            }
        }
        let used: FxHashSet<&UOp> = order.iter().filter(|n| n.op == Op::LoopOut).collect();
        for l in order.iter().filter_map(Loop::of) {
            self.inner(&l, &used)?;
        }
        let variable: Arc<str> = format!("@{level}").into();
        let (mut outs, mut stores) = (vec![], vec![]);
        for i in 0..self.results.len() {
            outs.push(if needed(i) { Some(self.result(i, &mut stores)?) } else { None });
        }
        self.kernels(stores)?;
        Ok(LoopBody { carries, inputs, slots: self.slots, outs, steps: self.steps, variable })
    }
    /// A new slot for elements of a shape.
    fn slot(&mut self, dtype: DType, dims: &[UOp]) -> Result<usize, Error> {
        self.slots.push(Slot { dtype, len: most_elements(dims)? });
        Ok(self.slots.len() - 1)
    }
    /// A slot as a tensor.
    fn memory(&self, slot: usize, dims: &[UOp]) -> UOp {
        let s = self.slots[slot];
        seen_as(&UOp::param(slot as u32, s.len, s.dtype), dims)
    }
    /// Where a result goes, and the store that puts it there.
    fn result(&mut self, i: usize, stores: &mut Vec<UOp>) -> Result<usize, Error> {
        let value = self.results[i].substitute(&self.known);
        let dims = value.shape();
        if i < self.numbers.0 {
            let slot = self.slot(value.dtype, dims)?;
            stores.push(self.memory(slot, dims).store(&value));
            return Ok(slot);
        }
        let all: Vec<UOp> = std::iter::once(self.count).chain(dims).cloned().collect();
        let slot = self.slot(value.dtype, &all)?;
        let size = dims.iter().fold(UOp::index(1), |n, d| n.fold_mul(d));
        let last = self.count.bounds.1.clamp(1, i64::MAX as i128) as i64 - 1;
        let step = UOp::variable(&format!("@{}", self.numbers.1), 0, last);
        let s = self.slots[slot];
        let place = UOp::param(slot as u32, s.len, s.dtype).shrink(&[step.fold_mul(&size)], &[size]);
        stores.push(place.reshape(dims).store(&value));
        Ok(slot)
    }
    fn kernels(&mut self, stores: Vec<UOp>) -> Result<(), Error> {
        if !stores.is_empty() {
            let sink = UOp::sink(stores);
            check_tensors(&sink)?;
            self.steps.push(Step::Kernels(plan(&sink, self.device)?));
        }
        Ok(())
    }
    /// A loop inside: what it needs is computed, then it runs, then its results are known.
    fn inner(&mut self, l: &Loop, used: &FxHashSet<&UOp>) -> Result<(), Error> {
        let moved = l.with_movement_inside();
        let moved = Loop::of(&moved).ok_or_else(|| Error::Graph("a loop without a body".into()))?;
        let (mut inputs, mut stores) = (vec![], vec![]);
        for input in moved.inputs() {
            let value = input.substitute(&self.known);
            inputs.push(match whole_slot(&value) {
                Some(slot) => slot,
                None => {
                    let slot = self.slot(value.dtype, value.shape())?;
                    stores.push(self.memory(slot, value.shape()).store(&value));
                    slot
                }
            });
        }
        self.kernels(stores)?;
        let results: Vec<UOp> = (0..l.results().len()).map(|i| l.out(i)).collect();
        let wanted: Vec<bool> = results.iter().map(|r| used.contains(r)).collect();
        let sink = UOp::sink([moved.body().clone(), l.count().clone()]);
        let program = cached(&sink, (l.carries(), l.arg.level, inputs.len()), &wanted, self.device)?;
        let mut outs = vec![];
        for (r, wanted) in results.iter().zip(wanted) {
            outs.push(if wanted { Some(self.slot(r.dtype, r.shape())?) } else { None });
            if let Some(Some(slot)) = outs.last() {
                self.known.insert(r.clone(), self.memory(*slot, r.shape()));
            }
        }
        self.steps.push(Step::Loop { program, count: l.count().clone(), inputs, outs });
        Ok(())
    }
}

/// The slot whose first elements, in order, are the value.
fn whole_slot(value: &UOp) -> Option<usize> {
    let mut n = value;
    loop {
        match (n.op, &n.arg) {
            (Op::Param, Arg::Param { slot, .. }) => return Some(*slot as usize),
            (Op::Reshape, _) => n = &n.src[0],
            (Op::Shrink, _) if n.shape().len() == 1 && n.src[1].as_int() == Some(0) => n = &n.src[0],
            _ => return None,
        }
    }
}

/// A program with its memory.
struct Instance<'a> {
    program: &'a LoopBody,
    device: &'a Arc<str>,
    /// By slot: the buffer that is there now; something else where there is none yet.
    buffers: Vec<UOp>,
    /// Two buffers for each carry.
    turns: Vec<[Option<UOp>; 2]>,
    stages: Vec<Stage<'a>>,
}

enum Stage<'a> {
    Kernels(Ready<'a>),
    Loop { instance: Box<Instance<'a>>, count: &'a UOp, inputs: &'a [usize], outs: &'a [Option<usize>] },
}

impl<'a> Instance<'a> {
    fn new(program: &'a LoopBody, device: &'a Arc<str>, dev: &'a dyn Device) -> Result<Instance<'a>, Error> {
        let stage = |s: &'a Step| {
            Ok(match s {
                Step::Kernels(plan) => Stage::Kernels(Ready::new(plan, dev)?),
                Step::Loop { program, count, inputs, outs } => {
                    let instance = Box::new(Instance::new(program, device, dev)?);
                    Stage::Loop { instance, count, inputs, outs }
                }
            })
        };
        let stages = program.steps.iter().map(stage).collect::<Result<Vec<_>, Error>>()?;
        let mut buffers = vec![UOp::index(0); program.slots.len()];
        for slot in program.own_slots() {
            buffers[slot] = allocate(program, slot, device)?;
        }
        Ok(Instance { program, device, buffers, turns: vec![[None, None]; program.carries], stages })
    }
    /// The buffer of a result, once it has run.
    fn result(&self, i: usize) -> Option<&UOp> {
        self.buffers.get((*self.program.outs.get(i)?)?)
    }
    /// Run all steps. Inputs are only read.
    fn run(&mut self, inputs: &[UOp], count: i64, bindings: &mut Bindings) -> Result<(), Error> {
        let program = self.program;
        self.buffers[..inputs.len()].clone_from_slice(inputs);
        let next: Vec<usize> = program.outs[..program.carries].iter().flatten().copied().collect();
        for step in 0..count {
            bindings.insert(program.variable.clone(), step);
            for (turns, &slot) in self.turns.iter_mut().zip(&next) {
                let turn = &mut turns[step as usize % 2];
                self.buffers[slot] = match turn {
                    Some(b) => b.clone(),
                    None => turn.insert(allocate(program, slot, self.device)?).clone(),
                };
            }
            self.step(bindings)?;
            for (k, &slot) in next.iter().enumerate() {
                self.buffers[k] = self.buffers[slot].clone();
            }
        }
        for (k, &slot) in next.iter().enumerate() {
            self.buffers[slot] = self.buffers[k].clone();
        }
        Ok(())
    }
    fn step(&mut self, bindings: &mut Bindings) -> Result<(), Error> {
        for stage in &mut self.stages {
            match stage {
                Stage::Kernels(ready) => {
                    ready.launch(&self.buffers, bindings, self.device, &mut 0)?;
                }
                Stage::Loop { instance, count, inputs, outs } => {
                    let given: Vec<UOp> = inputs.iter().map(|&i| self.buffers[i].clone()).collect();
                    let count = eval_index(count, bindings)?;
                    instance.run(&given, count, bindings)?;
                    for (i, slot) in outs.iter().enumerate().filter_map(|(i, o)| Some((i, (*o)?))) {
                        if let Some(b) = instance.result(i) {
                            self.buffers[slot] = b.clone();
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn allocate(program: &LoopBody, slot: usize, device: &Arc<str>) -> Result<UOp, Error> {
    let Slot { dtype, len } = program.slots[slot];
    Ok(Buffer::alloc(device, dtype, len)?.into_uop(dtype))
}
