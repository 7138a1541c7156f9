//! How long compiling takes: for the `compile_*` benchmarks.

use crate::devices::device_of;
use crate::kernel::choice::Choice;
use crate::kernel::compile::compile;
use crate::memory::bindings::{Bindings, eval_index};
use crate::plan::normalise::normalise;
use crate::run::realize::stored;
use crate::search::moves::work;
use crate::{Error, config, record};
use frit_abi::Target;
use frit_runtime::parallel::in_parallel;
use frit_schedule::Schedule;
use frit_uop::{UOp, text};
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};

pub use frit_runtime::sys::thread_time;

/// Where the processor time from graph to code went, on one thread with nothing cached.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileTimes {
    /// Tensor graph to kernels.
    pub schedule: Duration,
    /// Kernels to linear programs.
    pub lower: Duration,
    /// Linear programs to machine code or source.
    pub render: Duration,
    /// The same for one kernel: the middle one and the slowest.
    pub render_one: [Duration; 2],
    /// Kernels in the schedule.
    pub kernels: usize,
    /// Different ones among them.
    pub distinct: usize,
    /// Bytes of temporaries.
    pub arena_bytes: usize,
}

/// The kernels that realising the outputs would run, scheduled on this thread without any cache: for counting them and
/// what they read and write.
pub fn schedule(outputs: &[UOp]) -> Result<Schedule, Error> {
    let device = device_of(outputs, None)?;
    let dev = frit_runtime::device(&device)?;
    let normal = normalise(&stored(outputs, &[], &device)?.0)?;
    frit_schedule::schedule(&normal.sink, dev.target()).map_err(|e| Error::Schedule(e.to_string()))
}

/// Schedule, lower and render what realising the outputs would run, on this thread, without any cache.
pub fn compile_times(outputs: &[UOp]) -> Result<CompileTimes, Error> {
    let device = device_of(outputs, None)?;
    let dev = frit_runtime::device(&device)?;
    let target = dev.target();
    let mut times = CompileTimes::default();
    config::debug()?;
    let start = thread_time();
    let schedule = schedule(outputs)?;
    times.schedule = thread_time() - start;
    times.kernels = schedule.kernels.len();
    times.arena_bytes = schedule.arena_bytes;
    let (mut seen, mut each) = (FxHashSet::default(), vec![]);
    for k in schedule.kernels.iter().filter(|k| seen.insert(k.ast.clone())) {
        let error = |m: String| Error::Compile { kernel: "?".into(), message: m };
        let start = thread_time();
        let lowered = frit_codegen::lower(&k.ast, target, frit_codegen::Opts::Heuristic);
        let lowered = lowered.map_err(|e| error(e.to_string()))?;
        times.lower += thread_time() - start;
        for linear in &lowered.programs {
            let start = thread_time();
            frit_render::render(linear, target).map_err(|e| error(e.to_string()))?;
            each.push(thread_time() - start);
        }
    }
    times.render = each.iter().sum();
    each.sort_unstable();
    if let (Some(middle), Some(slowest)) = (each.get(each.len() / 2), each.last()) {
        times.render_one = [*middle, *slowest];
    }
    times.distinct = seen.len();
    Ok(times)
}

/// The same with all threads: time from graph to code. It is what is recorded, where that is asked for.
pub fn compile_wall(outputs: &[UOp]) -> Result<Duration, Error> {
    let device = device_of(outputs, None)?;
    let dev = frit_runtime::device(&device)?;
    record::ask();
    let start = Instant::now();
    let normal = normalise(&stored(outputs, &[], &device)?.0)?;
    let schedule = record::schedule(&normal.sink, &*dev, false, &mut |_, _, _| {});
    let schedule = schedule.map_err(|e| Error::Schedule(e.to_string()))?;
    let asts: FxHashSet<UOp> = schedule.kernels.iter().map(|k| k.ast.clone()).collect();
    let asts: Vec<UOp> = asts.into_iter().collect();
    let done = in_parallel(&asts, |ast| compile(ast, dev.target(), &Choice::Heuristic).map(drop));
    done.into_iter().collect::<Result<(), _>>()?;
    Ok(start.elapsed())
}

/// How long the device takes to load the kernels of the outputs, whose code is there: all together, or one after the other.
pub fn load_time(outputs: &[UOp], are_together: bool) -> Result<Duration, Error> {
    let dev = frit_runtime::device(&device_of(outputs, None)?)?;
    let schedule = schedule(outputs)?;
    let mut kernels = vec![];
    for k in &schedule.kernels {
        kernels.extend(compile(&k.ast, dev.target(), &Choice::Heuristic)?.1);
    }
    let start = Instant::now();
    let loaded = match are_together {
        true => dev.load_all(&kernels),
        false => kernels.iter().map(|k| dev.load(k)).collect(),
    };
    let time = start.elapsed();
    loaded.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(time)
}

/// A kernel as the compiler makes it: for looking at, and for comparing with another compiler's.
pub struct LoweredKernel {
    /// What it computes, as text.
    pub graph: String,
    /// What it is called.
    pub name: String,
    /// The opts it was lowered with.
    pub opts: Vec<String>,
    /// An estimate of its cost: steps on vectors that its loops go through.
    pub steps: f64,
    /// Arithmetic operations it does.
    pub operations: u64,
    /// Bytes it must move at least.
    pub bytes: u64,
    /// Its programs as the last pass left them, almost always one.
    pub listings: Vec<String>,
    /// How long the linear program took to write.
    pub write: Duration,
}

/// The different kernels that realising the outputs would run, lowered and rendered, in order.
pub fn kernels(outputs: &[UOp]) -> Result<Vec<LoweredKernel>, Error> {
    let dev = frit_runtime::device(&device_of(outputs, None)?)?;
    let (schedule, mut seen) = (schedule(outputs)?, FxHashSet::default());
    let asts = schedule.kernels.iter().map(|k| &k.ast).filter(|ast| seen.insert((*ast).clone()));
    let asts: Vec<&UOp> = asts.collect();
    in_parallel(&asts, |ast| lowered(ast, dev.target())).into_iter().collect()
}

fn lowered(ast: &UOp, target: &Target) -> Result<LoweredKernel, Error> {
    let graph = text::print(ast);
    let error = |m: String| Error::Compile { kernel: graph.clone(), message: m };
    let made = frit_codegen::lower(ast, target, frit_codegen::Opts::Heuristic);
    let made = made.map_err(|e| error(e.to_string()))?;
    let number = |e: &UOp| eval_index(e, &Bindings::default()).unwrap_or(0).max(0) as u64;
    let opts = made.opts.iter().map(|o| o.to_string()).collect();
    let name = made.programs.first().map_or(String::new(), |p| p.name.to_string());
    let mut whole = LoweredKernel {
        graph: graph.clone(),
        name,
        opts,
        steps: 0.0,
        operations: 0,
        bytes: 0,
        listings: vec![],
        write: Duration::ZERO,
    };
    for linear in &made.programs {
        let mut listing = String::new();
        let start = thread_time();
        let rendered =
            frit_render::render_and_watch(linear, target, &mut |_, program| listing = program.to_string());
        whole.write += thread_time() - start;
        rendered.map_err(|e| error(e.to_string()))?;
        whole.steps += work(linear, target);
        whole.operations += number(&linear.flops);
        whole.bytes += number(&linear.bytes);
        whole.listings.push(listing);
    }
    Ok(whole)
}
