//! A recording: launches that are repeated with new inputs, and the memory they share.

use crate::kernel::compiled::Compiled;
use crate::memory::bindings::Bindings;
use crate::memory::buffer::{Buffer, Versions};
use crate::memory::unconfirmed;
use crate::memory::view::{contiguous_base, seen_as, versions};
use crate::plan::load::compile_again;
use crate::plan::normalise::{bindings_of, normalise};
use crate::run::launch::report;
use crate::run::one_at_a_time::one_at_a_time;
use crate::{Error, config, record, stats};
use frit_abi::DType;
use frit_runtime::{Bound, Device, Graph, Memory};
use frit_uop::{Arg, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// Where a piece of memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Given with each call.
    Input(usize),
    /// Fresh with each call.
    Output(usize),
    /// Kept: constants and state.
    Held(usize),
    /// Shared by intermediates.
    Arena { offset: usize, bytes: usize },
}

/// A kernel and where its arguments are.
pub(crate) struct Launch {
    pub kernel: Arc<Compiled>,
    /// The parts of the program that it belongs to, where that was wanted; not in a file.
    pub origin: Arc<str>,
    pub args: Vec<Place>,
    pub vars: Vec<Var>,
    /// All variables as they were, for extents.
    pub frozen: Bindings,
}

/// A variable of a launch.
pub(crate) enum Var {
    /// Takes the value it is bound to in the shapes of the inputs.
    Bound(Arc<str>),
    /// Is what it was.
    Frozen(i64),
}

/// A result.
pub(crate) struct Output {
    /// The result as a view of `Param` 0.
    pub view: UOp,
    pub bytes: usize,
    pub dtype: DType,
    /// Where the launches leave it: an output's own place, or elsewhere, to be copied from there.
    pub from: Place,
}

/// A program as it is written down: what a file of one holds.
pub(crate) struct Parts {
    pub device: Arc<str>,
    pub launches: Vec<Launch>,
    /// Memory that is kept.
    pub held: Vec<Memory>,
    /// Bytes shared by intermediates.
    pub arena: usize,
    pub outputs: Vec<Output>,
    pub inputs: usize,
    pub written_inputs: Vec<usize>,
    /// Kept memory that is written by the launches.
    pub state: Vec<usize>,
    /// Kept memory that is let go for an output's after each replay.
    pub moved: Vec<(usize, usize)>,
    /// Kept memory that holds places in the random stream.
    pub draws: Vec<usize>,
}

/// What is launched again and again.
pub struct Recording {
    pub(crate) parts: Parts,
    dev: Arc<dyn Device>,
    pub(crate) steps: Vec<Bound>,
    /// The steps as one, where the device has that.
    graph: Option<Box<dyn Graph>>,
    /// Replays so far.
    replays: u64,
    /// Whether an access of a step may miss.
    can_miss: bool,
    /// Launches that read only kept memory which the others do not write: done again where that was assigned to.
    once: Vec<(Launch, Bound)>,
    /// For kept memory that tensors outside are in, what its versions share.
    versions: Vec<Option<Arc<Versions>>>,
    /// Memory that no tensor it knows is in, and the version that it reads: something outside that was still to be computed
    /// was made of it.
    lone: Vec<(Arc<Versions>, u64)>,
    /// Keeps the intermediates' memory.
    arena: Memory,
    /// What stands for inputs and outputs until the first replay.
    later: Option<Memory>,
    /// (step, argument) of every use, by input, by output and by kept memory.
    patches: [Vec<Vec<(usize, usize)>>; 3],
    /// Steps whose extents or variables follow the inputs.
    varying: Vec<usize>,
    /// Whether a result's size does.
    has_sizes: bool,
    cost: (u64, u64),
}

impl Recording {
    /// Bind every launch to its memory. `once` are launched now, and again only where what they read has changed.
    pub(crate) fn new(
        parts: Parts,
        once: Vec<Launch>,
        versions: Vec<Option<Arc<Versions>>>,
        bindings: &Bindings,
    ) -> Result<Recording, Error> {
        let dev = frit_runtime::device(&parts.device)?;
        let arena = dev.alloc(parts.arena)?;
        let passed = |(p, bytes): (&Place, usize)| match p {
            Place::Input(_) | Place::Output(_) => bytes,
            Place::Held(_) | Place::Arena { .. } => 0,
        };
        let launches = parts.launches.iter().chain(&once);
        let later = dev.alloc(launches.flat_map(Launch::buffers).map(passed).max().unwrap_or(0))?;
        let mut patches = [parts.inputs, parts.outputs.len(), parts.held.len()].map(|n| vec![vec![]; n]);
        let mut steps = vec![];
        for (step, l) in parts.launches.iter().enumerate() {
            for (arg, place) in l.args.iter().enumerate() {
                match place {
                    Place::Input(i) => patches[0][*i].push((step, arg)),
                    Place::Output(i) => patches[1][*i].push((step, arg)),
                    Place::Held(i) => patches[2][*i].push((step, arg)),
                    Place::Arena { .. } => {}
                }
            }
            steps.push(l.bind(&parts.held, &arena, &later, bindings)?);
        }
        let bound = |l: Launch| l.bind(&parts.held, &arena, &later, bindings).map(|b| (l, b));
        let once = once.into_iter().map(bound).collect::<Result<Vec<_>, Error>>()?;
        once.iter().try_for_each(|(_, b)| b.launch())?;
        unconfirmed::wait(&*dev)?;
        let varies = |l: &Launch| l.vars.iter().any(|v| matches!(v, Var::Bound(_)));
        let varying = (0..steps.len()).filter(|&i| varies(&parts.launches[i])).collect();
        let has_sizes = parts.outputs.iter().any(|o| o.view.any(|n| n.op == Op::Variable));
        let costs = parts.launches.iter().map(|l| l.kernel.cost(&l.frozen));
        let cost = costs.fold((0, 0), |a, c| (a.0 + c.0, a.1 + c.1));
        let (graph, replays, can_miss) = (None, 0, parts.launches.iter().any(|l| l.kernel.can_miss));
        Ok(Recording {
            parts,
            dev,
            steps,
            graph,
            replays,
            can_miss,
            once,
            versions,
            lone: vec![],
            arena,
            later: Some(later),
            patches,
            varying,
            has_sizes,
            cost,
        })
    }

    /// It reads these as they are now, and no later version of them.
    pub(crate) fn keep_to(&mut self, lone: impl Iterator<Item = Arc<Versions>>) {
        self.lone = lone.map(|v| (v.clone(), v.latest())).collect();
    }
    /// Whether what it reads, and follows nobody in, is what it was.
    pub fn is_current(&self) -> bool {
        self.lone.iter().all(|(v, read)| v.latest() == *read)
    }
    /// Where it runs.
    pub(crate) fn dev(&self) -> &dyn Device {
        &*self.dev
    }
    /// The device it runs on.
    pub fn device(&self) -> Arc<str> {
        self.parts.device.clone()
    }
    /// How many kernels a replay launches.
    pub fn kernels(&self) -> usize {
        self.steps.len()
    }
    /// Bytes of the arena that holds the intermediates.
    pub fn arena_bytes(&self) -> usize {
        self.arena.len_bytes()
    }
    /// How many inputs, results and random places it has.
    pub fn counts(&self) -> [usize; 3] {
        [self.parts.inputs, self.parts.outputs.len(), self.parts.draws.len()]
    }
    /// Inputs that a replay writes to.
    pub fn written_inputs(&self) -> &[usize] {
        &self.parts.written_inputs
    }
    /// Whether it writes to memory that outlives it.
    fn has_state(&self) -> bool {
        let Parts { state, written_inputs, moved, .. } = &self.parts;
        !state.is_empty() || !written_inputs.is_empty() || !moved.is_empty()
    }
    /// Let a tensor's memory be where it is now, on the program's device and as large as it was.
    pub fn set_held(&mut self, held: usize, value: &UOp) -> Result<(), Error> {
        let buffer = contiguous_base(value).and_then(Buffer::of);
        let Some(b) = buffer.filter(|b| b.memory.len_bytes() == self.parts.held[held].len_bytes()) else {
            return Err(Error::Graph("a tensor that a Jit reads is not the memory it was".into()));
        };
        self.versions[held] = Some(b.versions().clone());
        self.put_held(held, &b.memory)
    }
    fn put_held(&mut self, held: usize, memory: &Memory) -> Result<(), Error> {
        for &(step, arg) in &self.patches[2][held] {
            self.steps[step].set_buffer(arg, memory)?;
        }
        for (l, bound) in &mut self.once {
            for (arg, _) in l.args.iter().enumerate().filter(|(_, p)| **p == Place::Held(held)) {
                bound.set_buffer(arg, memory)?;
            }
        }
        self.parts.held[held] = memory.clone();
        Ok(())
    }
    /// Kept memory holds other values than before: compute again what was computed from it once.
    pub fn renew(&mut self, mut changed: Vec<usize>) -> Result<(), Error> {
        let held = |p: &Place| match p {
            Place::Held(h) => Some(*h),
            _ => None,
        };
        // a launch that stores to memory which is computed again is part of that, be it before or after the one that is
        let mut again = vec![false; self.once.len()];
        loop {
            let known = changed.len();
            for ((l, _), again) in self.once.iter().zip(&mut again).filter(|(_, again)| !**again) {
                if !l.args.iter().filter_map(held).any(|h| changed.contains(&h)) {
                    continue;
                }
                *again = true;
                let stored = l.args.iter().zip(l.kernel.stored()).filter(|(_, stored)| *stored);
                changed.extend(stored.filter_map(|(p, _)| held(p)));
            }
            if changed.len() == known {
                break;
            }
        }
        for ((_, bound), _) in self.once.iter().zip(again).filter(|(_, again)| *again) {
            bound.launch()?;
        }
        unconfirmed::wait(&*self.dev)
    }
    /// Put new bytes into a random place.
    pub fn set_draw(&self, i: usize, bytes: &[u8]) -> Result<(), Error> {
        let Some(memory) = self.parts.draws.get(i).and_then(|&h| self.parts.held.get(h)) else {
            return Ok(());
        };
        Ok(memory.copy_in(0, bytes)?)
    }

    /// Launch everything again with these inputs, which are in memory and have the signature of those recorded, and
    /// these sizes, whose variables may have other values.
    pub fn replay(&mut self, inputs: &[UOp], sizes: &[UOp]) -> Result<Vec<UOp>, Error> {
        let begin = Instant::now();
        let _guard = self.has_state().then(one_at_a_time);
        // what is whole now may be lost while this is queued
        let mark = unconfirmed::mark(&*self.dev);
        if mark.is_some() {
            let mut read = inputs.iter().filter_map(versions).chain(self.versions.iter().flatten());
            read.try_for_each(|v| v.whole())?;
        }
        let memory = |n: &UOp| contiguous_base(n).and_then(Buffer::of).map(|b| b.memory.clone());
        for (input, uses) in inputs.iter().zip(&self.patches[0]) {
            let memory = memory(input).ok_or_else(|| Error::Graph("an input is not in memory".into()))?;
            for &(step, arg) in uses {
                if self.steps[step].addresses()[arg] != memory.address() || !memory.is_writable() {
                    self.steps[step].set_buffer(arg, &memory)?;
                }
            }
        }
        let mut results: Vec<Memory> = vec![];
        for (output, uses) in self.parts.outputs.iter().zip(&self.patches[1]) {
            // the last result's memory, when no one kept it
            let last = uses.first().map(|&(step, arg)| &self.steps[step].buffers()[arg]);
            if let Some(last) = last.filter(|m| m.holders() == uses.len() && m.len_bytes() == output.bytes) {
                results.push(last.clone());
                continue;
            }
            let fresh = self.dev.alloc(output.bytes)?;
            for &(step, arg) in uses {
                self.steps[step].set_buffer(arg, &fresh)?;
            }
            results.push(fresh);
        }
        self.later = None;
        let mut bindings = Bindings::default();
        if !self.varying.is_empty() || self.has_sizes {
            bindings = bindings_of(inputs, sizes)?;
            for &i in &self.varying {
                let (vars, dims) = self.parts.launches[i].numbers(&bindings)?;
                self.steps[i].set_vars(&vars, dims)?;
            }
        }
        let mut begun = 0;
        if let Err(e) = self.launch_all(&mut begun) {
            self.lose(inputs, begun, &e);
            return Err(e);
        }
        for (i, output) in self.parts.outputs.iter().enumerate() {
            let from = match output.from {
                Place::Output(j) if j == i => continue,
                Place::Output(j) => results[j].clone(),
                Place::Input(j) => {
                    memory(&inputs[j]).ok_or_else(|| Error::Graph("an input is gone".into()))?
                }
                Place::Held(h) => self.parts.held[h].clone(),
                Place::Arena { offset, bytes } => self.arena.view(offset, bytes)?,
            };
            results[i].copy_from(&from.view(0, output.bytes.min(from.len_bytes()))?)?;
        }
        stats::count_launches(self.steps.len() as u64, self.cost.1, self.cost.0);
        if config::debug()? == 1 {
            let ms = begin.elapsed().as_secs_f64() * 1e3;
            eprintln!("replay: {} kernels in {ms:.3} ms", self.steps.len());
        }
        for versions in self.stored(inputs) {
            versions.bump();
        }
        let outputs = self.parts.outputs.iter().zip(results);
        let values = outputs
            .map(|(o, m)| o.value(Buffer::of_memory(&self.parts.device, o.dtype, m), &bindings))
            .collect::<Result<Vec<UOp>, Error>>()?;
        for (held, output) in self.parts.moved.clone() {
            self.set_held(held, &values[output])?;
        }
        let made = values.iter().filter_map(versions);
        unconfirmed::note(&*self.dev, mark, self.can_miss, self.stored(inputs).chain(made));
        Ok(values)
    }

    /// What the versions of memory share that a replay stores to in place.
    fn stored<'a>(&'a self, inputs: &'a [UOp]) -> impl Iterator<Item = &'a Arc<Versions>> {
        let state = self.parts.state.iter().filter_map(|&h| self.versions.get(h)?.as_ref());
        let given = self.parts.written_inputs.iter().filter_map(|&i| versions(inputs.get(i)?));
        state.chain(given)
    }
    /// A replay failed after so many launches: what one of those stores to holds no value any more.
    fn lose(&self, inputs: &[UOp], begun: usize, why: &Error) {
        for l in &self.parts.launches[..begun.min(self.parts.launches.len())] {
            for (p, _) in l.args.iter().zip(l.kernel.stored()).filter(|(_, stored)| *stored) {
                let versions = match p {
                    Place::Held(h) => self.versions.get(*h).and_then(Option::as_ref),
                    Place::Input(i) => inputs.get(*i).and_then(versions),
                    _ => None,
                };
                if let Some(v) = versions {
                    v.lose(why);
                }
            }
        }
    }

    /// The next replay makes a graph anew: the steps, or what the old one knows of them, are not what they were.
    pub(crate) fn forget_graph(&mut self) {
        (self.graph, self.replays) = (None, self.replays.min(1));
    }

    /// Kernels that the recording of what the compiler does has not seen are compiled once more for it: this may have been
    /// recorded before that one began.
    fn compile_for_recording(&self) -> Result<(), Error> {
        if record::compiles() {
            for l in &self.parts.launches {
                if record::is_first(&l.kernel.ast, &self.parts.device) {
                    compile_again(&l.kernel, self.dev.target())?;
                }
            }
        }
        Ok(())
    }

    fn launch_all(&mut self, begun: &mut usize) -> Result<(), Error> {
        let debug = config::debug()?;
        if debug >= 2 || record::runs() {
            self.compile_for_recording()?;
            record::replay(self.steps.len());
            for (step, l) in self.steps.iter().zip(&self.parts.launches) {
                *begun += 1;
                let (flops, bytes) = l.kernel.cost(&l.frozen);
                let named = (&l.kernel.ast, &*l.kernel.name, &*l.origin);
                let time = record::launch(&*self.dev, named, (flops, bytes), debug >= 2, || step.launch())?;
                if debug >= 2 {
                    report((named.1, named.2), time, flops, bytes, self.dev.memory_stats().in_use);
                }
            }
            return Ok(());
        }
        // the first replay may be the only one
        if self.replays == 1 {
            self.graph = self.dev.graph(&self.steps).transpose()?;
        }
        self.replays += 1;
        if let Some(graph) = &mut self.graph {
            *begun = self.steps.len();
            if let Err(e) = graph.launch(&self.steps) {
                // some of its nodes may have other arguments than it knows of
                self.forget_graph();
                return Err(e.into());
            }
        } else {
            for step in &self.steps {
                *begun += 1;
                step.launch()?;
            }
        }
        Ok(())
    }
}

impl Launch {
    /// Variables and extents for these bindings of the inputs' variables.
    fn numbers(&self, bound: &Bindings) -> Result<(Vec<i64>, frit_abi::LaunchDims), Error> {
        let mut all = self.frozen.clone();
        all.extend(bound.iter().map(|(k, v)| (k.clone(), *v)));
        let value = |v: &Var| match v {
            Var::Frozen(n) => Ok(*n),
            Var::Bound(name) => {
                bound.get(name).copied().ok_or_else(|| Error::Graph(format!("variable {name} has no value")))
            }
        };
        let vars = self.vars.iter().map(value).collect::<Result<Vec<i64>, _>>()?;
        Ok((vars, self.kernel.dims(&all)?))
    }

    /// Its arguments, with the bytes that its kernel asks for.
    fn buffers(&self) -> impl Iterator<Item = (&Place, usize)> {
        let bytes = self.kernel.executable.params().iter().filter_map(|p| match p {
            frit_abi::Param::Buffer { dtype, len, .. } => Some(len * dtype.size()),
            frit_abi::Param::Var { .. } => None,
        });
        self.args.iter().zip(bytes)
    }
    /// The launch with memory for its arguments. `later` is for inputs and outputs, which have theirs in a replay.
    fn bind(
        &self,
        held: &[Memory],
        arena: &Memory,
        later: &Memory,
        bindings: &Bindings,
    ) -> Result<Bound, Error> {
        let (vars, dims) = self.numbers(bindings)?;
        let memory = |(place, bytes): (&Place, usize)| match *place {
            Place::Held(h) => Ok(held[h].clone()),
            Place::Arena { offset, bytes } => arena.view(offset, bytes),
            Place::Input(_) | Place::Output(_) => later.view(0, bytes),
        };
        let bufs = self.buffers().map(memory).collect::<Result<Vec<_>, _>>()?;
        Ok(Bound::new(self.kernel.executable.clone(), bufs, vars, dims)?)
    }
}

impl Output {
    /// The result in this buffer, with variables at these values.
    fn value(&self, buffer: UOp, bindings: &Bindings) -> Result<UOp, Error> {
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for n in self.view.toposort() {
            match (n.op, &n.arg) {
                (Op::Param, _) => _ = map.insert(n, buffer.clone()),
                (Op::Variable, Arg::Var { name, .. }) => {
                    let Some(v) = bindings.get(name) else {
                        return Err(Error::Graph(format!(
                            "a result depends on variable {name}, which no input has"
                        )));
                    };
                    let bound = n.bind(*v);
                    map.insert(n, bound);
                }
                _ => {}
            }
        }
        Ok(self.view.substitute(&map))
    }
}

/// Everything a program needs in another process, besides the machine: see [`file`](super::file).
pub struct Saved {
    /// The program.
    pub program: Recording,
    /// What it takes.
    pub signature: Signature,
    /// Words of whoever saved it.
    pub notes: Vec<u64>,
}

/// What must be the same from call to call: the inputs without their memory, and which of them are the same memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    pub(crate) inputs: Vec<UOp>,
    pub(crate) same: Vec<usize>,
    pub(crate) device: Option<Arc<str>>,
}

impl Signature {
    /// Of inputs in memory.
    pub fn of(inputs: &[UOp]) -> Result<Signature, Error> {
        let bases: Vec<Option<&UOp>> = inputs.iter().map(contiguous_base).collect();
        let same = bases.iter().map(|b| bases.iter().position(|o| o == b).unwrap_or_default()).collect();
        let normal =
            inputs.iter().map(|i| Ok(normalise(&plain(i))?.sink)).collect::<Result<Vec<_>, Error>>()?;
        Ok(Signature { inputs: normal, same, device: inputs.iter().find_map(|i| i.device()) })
    }
    /// Whether it is that of these inputs, where that can be seen at a glance: each is all of its memory, of known size.
    pub fn is_plainly_of(&self, inputs: &[UOp]) -> bool {
        let bases: SmallVec<[Option<&UOp>; 8]> = inputs.iter().map(contiguous_base).collect();
        let first = |b: &Option<&UOp>| bases.iter().position(|o| o == b);
        let is_plain = |(k, (input, known)): (usize, (&UOp, &UOp))| {
            let Some(base) = bases[k].filter(|b| b.shape() == base_shape(known)) else { return false };
            let whole = base.shape().first().and_then(UOp::as_int);
            let count = input.shape().iter().try_fold(1i64, |n, d| n.checked_mul(d.as_int()?));
            count == whole && input.dtype == known.dtype && input.shape() == known.shape()
        };
        self.inputs.len() == inputs.len()
            && (0..inputs.len()).all(|k| first(&bases[k]) == Some(self.same[k]))
            && inputs.iter().zip(&self.inputs).enumerate().all(is_plain)
            && self.device == inputs.iter().find_map(|i| i.device())
    }
    /// How many inputs and sizes.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }
    /// In words: `float32 (3, 4), int32 (2,)`.
    pub fn describe(&self) -> String {
        let shape = |n: &UOp| {
            let dims = n.shape().iter().map(|d| d.as_int().map_or_else(|| name(d), |v| v.to_string()));
            dims.collect::<Vec<_>>().join(", ")
        };
        let one = |n: &UOp| format!("{} ({})", n.dtype, shape(n));
        self.inputs.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The dims of the memory that a view looks at.
fn base_shape(view: &UOp) -> &[UOp] {
    let mut n = view;
    while n.op.is_movement() {
        n = n.input();
    }
    n.shape()
}

/// The first elements of some memory in some dims, however they came to have them.
fn plain(view: &UOp) -> UOp {
    contiguous_base(view).map_or_else(|| view.clone(), |memory| seen_as(memory, view.shape()))
}

fn name(dim: &UOp) -> String {
    match &dim.arg {
        Arg::Var { name, .. } => name.to_string(),
        _ => "?".into(),
    }
}
