//! A search for every kernel of a recorded program, judged by how the program runs.

use super::file;
use super::recording::{Place, Recording};
use crate::kernel::choice::Choice;
use crate::kernel::compile::compile;
use crate::kernel::compiled::Compiled;
use crate::memory::bindings::Bindings;
use crate::run::one_at_a_time::one_at_a_time;
use crate::search::apart::search_on;
use crate::search::beam::{Effort, Tuned, duration};
use crate::search::compare::{median, winner};
use crate::search::store::{remember, remembered};
use crate::search::trial::{self, Args};
use crate::{Error, interrupt};
use frit_abi::Param;
use frit_codegen::{Opt, Opts};
use frit_runtime::{Bound, Memory};
use frit_uop::UOp;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kernels that take less of a program's time than this part are left as they are.
const SHARE: f64 = 0.005;
/// How often a program is run each way, and for how long.
const TURNS: [usize; 2] = [9, 1001];
const LONG: Duration = Duration::from_millis(1500);

/// What a search did for a program.
#[derive(Clone, Copy, Debug)]
pub struct TunedRecording {
    /// How long it takes with the heuristic's opts for each kernel.
    pub before: Duration,
    /// The same with what was found, in turns.
    pub after: Duration,
    /// Different kernels.
    pub kernels: usize,
    /// Those of them that run another way now.
    pub changed: usize,
}

/// One of the different kernels of a program: the heuristic's way, what was found, if that is another, and its launches.
struct Kernel {
    ast: UOp,
    ways: [Arc<Compiled>; 2],
    opts: [Vec<Opt>; 2],
    launches: Vec<usize>,
}

/// Every launch of a program bound to its memory, one way or the other.
type Bounds = Vec<Bound>;

/// [`tune_recording`] for a program that was saved to a file, on inputs that are made up. What is found is remembered.
pub fn tune(
    path: &Path,
    effort: &Effort,
    told: impl FnMut(usize, usize, &str, &Tuned),
) -> Result<TunedRecording, Error> {
    let mut saved = file::load(path)?;
    for (step, l) in saved.program.steps.iter().zip(&saved.program.parts.launches) {
        let made_up = |p: &Place| matches!(p, Place::Input(_));
        let params = l.kernel.executable.params().iter().filter(|p| matches!(p, Param::Buffer { .. }));
        for ((place, param), memory) in l.args.iter().zip(params).zip(step.buffers()) {
            if made_up(place) {
                trial::fill(std::slice::from_ref(param), std::slice::from_ref(memory), 1)?;
            }
        }
    }
    tune_recording(&mut saved.program, effort, told)
}

/// Search for every kernel of a program that takes a part of its time worth speaking of, remember what was found, and
/// run the program that way from now on. What a kernel gains is measured in the program itself, which runs on the inputs
/// of its last call; memory that it writes and others see is as before afterwards.
pub fn tune_recording(
    program: &mut Recording,
    effort: &Effort,
    mut told: impl FnMut(usize, usize, &str, &Tuned),
) -> Result<TunedRecording, Error> {
    let _guard = one_at_a_time();
    let kept = Kept::of(program)?;
    let result = Tuning::new(program).and_then(|mut t| {
        t.find(effort, &mut told)?;
        t.judge()
    });
    kept.put_back()?;
    let (tuned, kernels) = result?;
    for k in kernels {
        for at in k.launches {
            let bound = rebind(program, at, &k.ways[1])?;
            program.steps[at] = bound;
            program.parts.launches[at].kernel = k.ways[1].clone();
        }
    }
    program.forget_graph();
    Ok(tuned)
}

/// A launch with another kernel for the same graph.
fn rebind(program: &Recording, at: usize, kernel: &Arc<Compiled>) -> Result<Bound, Error> {
    let Args { memory, bindings } = args(program, at);
    let vars = kernel.vars.iter().map(|v| bindings.get(v).copied().unwrap_or(0)).collect();
    Ok(Bound::new(kernel.executable.clone(), memory, vars, kernel.dims(&bindings)?)?)
}

/// What a launch is given.
fn args(program: &Recording, at: usize) -> Args {
    let (step, launch) = (&program.steps[at], &program.parts.launches[at]);
    let mut bindings: Bindings = launch.frozen.clone();
    bindings.extend(launch.kernel.vars.iter().cloned().zip(step.vars().iter().copied()));
    Args { memory: step.buffers().to_vec(), bindings }
}

struct Tuning<'a> {
    program: &'a Recording,
    kernels: Vec<Kernel>,
    before: Bounds,
}

impl<'a> Tuning<'a> {
    /// Every different kernel with the heuristic's opts.
    fn new(program: &'a Recording) -> Result<Tuning<'a>, Error> {
        let (dev, device) = (program.dev(), &program.parts.device);
        let mut at: FxHashMap<&UOp, usize> = FxHashMap::default();
        let mut kernels: Vec<Kernel> = vec![];
        for (i, l) in program.parts.launches.iter().enumerate() {
            let ast = &l.kernel.ast;
            if let Some(&k) = at.get(ast) {
                kernels[k].launches.push(i);
                continue;
            }
            at.insert(ast, kernels.len());
            let lowered = frit_codegen::lower(ast, dev.target(), Opts::Heuristic);
            let opts = lowered.map_err(|e| Error::Schedule(e.to_string()))?.opts;
            let way = build(ast, device, &Choice::Heuristic)?;
            kernels.push(Kernel {
                ast: ast.clone(),
                ways: [way.clone(), way],
                opts: [opts.clone(), opts],
                launches: vec![i],
            });
        }
        let mut tuning = Tuning { program, kernels, before: vec![] };
        tuning.before = tuning.bounds(0)?;
        Ok(tuning)
    }

    fn bounds(&self, way: usize) -> Result<Bounds, Error> {
        let mut all: Vec<Option<Bound>> = self.program.steps.iter().map(|_| None).collect();
        for k in &self.kernels {
            for &at in &k.launches {
                all[at] = Some(rebind(self.program, at, &k.ways[way])?);
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Run the program twice, as it is repeated: seconds of each different kernel the second time.
    fn run(&self, bounds: &Bounds) -> Result<Vec<f64>, Error> {
        interrupt::check()?;
        bounds.iter().try_for_each(Bound::launch)?;
        let mut each = vec![0.0; bounds.len()];
        for (time, b) in each.iter_mut().zip(bounds) {
            *time = self.program.dev().time(&mut || b.launch())?.as_secs_f64();
        }
        Ok(self.kernels.iter().map(|k| k.launches.iter().map(|at| each[*at]).sum()).collect())
    }

    /// Search for the kernels that matter, those that take longest first.
    fn find(
        &mut self,
        effort: &Effort,
        told: &mut dyn FnMut(usize, usize, &str, &Tuned),
    ) -> Result<(), Error> {
        self.run(&self.before)?;
        let times = self.run(&self.before)?;
        let all: f64 = times.iter().sum();
        let mut order: Vec<usize> = (0..times.len()).filter(|i| times[*i] >= SHARE * all).collect();
        order.sort_by(|a, b| times[*b].total_cmp(&times[*a]));
        let (device, target) = (&self.program.parts.device, self.program.dev().target());
        for (done, &i) in order.iter().enumerate() {
            let k = &mut self.kernels[i];
            let opts = match remembered(&k.ast, target) {
                Some(opts) => opts,
                None => {
                    // up to its first launch: then what it reads is there
                    self.before[..k.launches[0]].iter().try_for_each(Bound::launch)?;
                    let tuned = search_on(&k.ast, device, effort, Some(args(self.program, k.launches[0])))?;
                    remember(&k.ast, target, &tuned.opts);
                    told(done + 1, order.len(), &k.ways[0].name, &tuned);
                    tuned.opts
                }
            };
            if opts != k.opts[0] {
                k.ways[1] = build(&k.ast, device, &Choice::List(opts.clone()))?;
                k.opts[1] = opts;
            }
        }
        Ok(())
    }

    /// Run the program both ways in turns: seconds of each different kernel each way, turn by turn.
    fn turns(&self) -> Result<Vec<[Vec<f64>; 2]>, Error> {
        let bounds = [&self.before, &self.bounds(1)?];
        let (begun, mut turns) = (Instant::now(), vec![]);
        while turns.len() < TURNS[1] && (turns.len() < TURNS[0] || begun.elapsed() < LONG) {
            // not always the same one first
            let first = turns.len() % 2;
            let (a, b) = (self.run(bounds[first])?, self.run(bounds[1 - first])?);
            turns.push(if first == 0 { [a, b] } else { [b, a] });
        }
        Ok(turns)
    }

    /// Take back what is not faster in the program, until what is left is not slower as a whole.
    fn judge(mut self) -> Result<(TunedRecording, Vec<Kernel>), Error> {
        let turns = self.turns()?;
        for i in 0..self.kernels.len() {
            let pairs: Vec<Vec<f64>> = turns.iter().map(|t| vec![t[0][i], t[1][i]]).collect();
            if winner(&pairs) == 0 {
                self.take_back(i);
            }
        }
        let whole = |turns: Vec<[Vec<f64>; 2]>| -> [f64; 2] {
            std::array::from_fn(|way| median(turns.iter().map(|t| t[way].iter().sum())))
        };
        let mut times = whole(if self.changed() > 0 { self.turns()? } else { turns });
        if times[1] > times[0] {
            (0..self.kernels.len()).for_each(|i| self.take_back(i));
        }
        if self.changed() == 0 {
            // the same code
            times[1] = times[0];
        }
        let [before, after] = times.map(duration);
        let tuned = TunedRecording { before, after, kernels: self.kernels.len(), changed: self.changed() };
        Ok((tuned, self.kernels))
    }

    fn changed(&self) -> usize {
        self.kernels.iter().filter(|k| k.opts[0] != k.opts[1]).count()
    }
    fn take_back(&mut self, i: usize) {
        let k = &mut self.kernels[i];
        if k.opts[0] != k.opts[1] {
            (k.opts[1], k.ways[1]) = (k.opts[0].clone(), k.ways[0].clone());
            remember(&k.ast, self.program.dev().target(), &k.opts[0]);
        }
    }
}

fn build(ast: &UOp, device: &Arc<str>, choice: &Choice) -> Result<Arc<Compiled>, Error> {
    let dev = frit_runtime::device(device)?;
    let (lowered, kernels) = compile(ast, dev.target(), choice)?;
    let programs = dev.load_all(&kernels).into_iter().collect::<Result<_, _>>()?;
    Ok(Arc::new(Compiled::new(ast.clone(), &lowered, programs, &dev)?))
}

/// Bytes of all memory that a program writes and that outlives it.
struct Kept(Vec<(Memory, Vec<u8>)>);

impl Kept {
    fn of(program: &Recording) -> Result<Kept, Error> {
        let mut kept: Vec<(Memory, Vec<u8>)> = vec![];
        for (step, l) in program.steps.iter().zip(&program.parts.launches) {
            let written = l.kernel.executable.params().iter().filter_map(|p| match p {
                Param::Buffer { written, .. } => Some(*written),
                Param::Var { .. } => None,
            });
            for ((place, written), memory) in l.args.iter().zip(written).zip(step.buffers()) {
                let outlives = matches!(place, Place::Held(_) | Place::Input(_));
                let known = kept.iter().any(|(m, _)| m.address() == memory.address());
                if written && outlives && !known {
                    let mut bytes = vec![0; memory.len_bytes()];
                    memory.copy_out(0, &mut bytes)?;
                    kept.push((memory.clone(), bytes));
                }
            }
        }
        Ok(Kept(kept))
    }
    fn put_back(self) -> Result<(), Error> {
        Ok(self.0.iter().try_for_each(|(memory, bytes)| memory.copy_in(0, bytes))?)
    }
}
