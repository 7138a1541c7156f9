//! One kernel with memory to run on: lists of opts become code that is timed.

use super::compare;
use super::moves::work;
use crate::kernel::compile::record_candidate;
use crate::kernel::compiled::Compiled;
use crate::memory::bindings::Bindings;
use crate::record::Candidates;
use crate::{Error, config, interrupt, stats};
use frit_abi::{DType, Param, Scalar};
use frit_codegen::{Lowered, Opt, Opts};
use frit_runtime::parallel::in_parallel;
use frit_runtime::{Bound, Device, Memory};
use frit_uop::{Arg, Linear, Op, Step, UOp, text};
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A candidate that is slower than the best by this factor in its first run is not run again, nor run at all where it
/// has this much more to do.
const HOPELESS: f64 = 1.5;
const TOO_MUCH: f64 = 3.0;
/// Candidates within this factor of the best are timed again, in turns.
const CLOSE: f64 = 1.25;
/// What is timed at once: short kernels run several times for it.
const SHORTEST: Duration = Duration::from_micros(100);
/// Turns of a comparison in each round and of the last one, at least and at most, and how long that should take.
const TRIED: [usize; 2] = [3, 15];
const TURNS: [usize; 2] = [9, 301];
const LAST: Duration = Duration::from_millis(1500);
/// How far apart integers are that may be places, tried in this order: zeros are always allowed.
const PLACES: [u64; 5] = [1 << 15, 1 << 11, 1 << 7, 1 << 3, 1];

/// What a trial is about to do, for someone who watches from another process.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// Run the kernel with these opts.
    Trying(&'a [Opt]),
    /// Nothing that could hang.
    Idle,
    /// These are the best so far.
    Best(&'a [Opt]),
}

/// Someone who is told.
pub type Watch<'a> = &'a (dyn Fn(Event) + Sync);

/// A list of opts, the kernel with it, and how long it takes.
pub struct Candidate {
    pub opts: Vec<Opt>,
    pub bound: Bound,
    pub time: f64,
    /// How much it has to do.
    work: f64,
}

/// What a launch is given: its buffers, and the values of variables.
pub struct Args {
    pub memory: Vec<Memory>,
    pub bindings: Bindings,
}

/// A kernel with memory to run on.
pub struct Trial<'a> {
    pub ast: &'a UOp,
    pub dev: Arc<dyn Device>,
    /// Opts that all lists begin with: how the kernel is cut into programs.
    cut: Vec<Opt>,
    bindings: Bindings,
    memory: Option<Vec<Memory>>,
    /// Whether each run begins with cold caches: on a GPU what a kernel reads was seldom touched last, and small buffers
    /// would stay in its cache from run to run.
    is_cold: bool,
    watch: Watch<'a>,
    /// Programs that were tried already, by hash: other lists of opts may come to the same.
    seen: FxHashSet<u64>,
    /// The least that any has to do, and the fastest time.
    least: f64,
    best: f64,
    /// When to stop trying.
    pub until: Instant,
    /// Candidates that were timed.
    pub tried: usize,
    /// Rounds so far.
    rounds: usize,
    /// For the recording, if there is one.
    pub candidates: Candidates,
}

impl<'a> Trial<'a> {
    /// With the arguments of a launch, or some that are made up.
    pub fn new(
        ast: &'a UOp,
        dev: Arc<dyn Device>,
        until: Instant,
        args: Option<Args>,
        cut: Vec<Opt>,
        watch: Watch<'a>,
    ) -> Trial<'a> {
        // variables at their largest: that is when it matters most
        let largest = |n: UOp| match &n.arg {
            Arg::Var { name, max, .. } if n.op == Op::Variable => Some((name.clone(), *max)),
            _ => None,
        };
        let (memory, bindings) = match args {
            Some(a) => (Some(a.memory), a.bindings),
            None => (None, ast.toposort().into_iter().filter_map(largest).collect()),
        };
        let (seen, least, best) = (FxHashSet::default(), f64::INFINITY, f64::INFINITY);
        let (is_cold, tried, rounds) = (false, 0, 0);
        let candidates = Candidates::default();
        Trial {
            ast,
            dev,
            cut,
            bindings,
            memory,
            is_cold,
            watch,
            seen,
            least,
            best,
            until,
            tried,
            rounds,
            candidates,
        }
    }

    /// Never try a list of opts, nor what comes to the same program.
    pub fn refuse(&mut self, opts: &[Opt]) {
        let lowered = frit_codegen::lower(self.ast, self.dev.target(), Opts::List(&self.whole(opts)));
        self.seen.extend(lowered.iter().map(hash));
    }

    /// Tell whoever watches.
    pub fn tell(&self, event: Event) {
        (self.watch)(event);
    }

    /// A list of opts with those that all begin with.
    pub fn whole(&self, opts: &[Opt]) -> Vec<Opt> {
        [&self.cut[..], opts].concat()
    }

    /// Whether there is time left.
    pub fn has_time(&self) -> bool {
        Instant::now() < self.until
    }

    /// Compile lists of opts and time those that work and are not hopeless, and the `best` so far together with them in
    /// turns; the best of all comes first. Whether it is a new one, and faster by the part `worth`.
    pub fn round(
        &mut self,
        lists: &[Vec<Opt>],
        best: &mut Vec<Candidate>,
        keep: usize,
        worth: f64,
    ) -> Result<bool, Error> {
        self.rounds += 1;
        let mut timed: Vec<Candidate> = vec![];
        for mut c in self.compile(lists, true) {
            interrupt::check()?;
            if c.work > self.least * TOO_MUCH || !self.has_time() {
                continue;
            }
            self.tried += 1;
            // the first run warms up, and tells the hopeless
            let Some(first) = self.time(&c.opts, &c.bound, 1)? else { continue };
            self.record(&c.opts, first)?;
            let short = first <= SHORTEST.as_secs_f64();
            if !short && first > self.best * HOPELESS {
                continue;
            }
            let Some(again) = self.time(&c.opts, &c.bound, self.repeats(first))? else { continue };
            c.time = if short { again } else { again.min(first) };
            if c.time <= self.best * CLOSE {
                self.best = self.best.min(c.time);
                timed.push(c);
            }
        }
        timed.sort_by(|a, b| a.time.total_cmp(&b.time));
        timed.truncate(keep.min(self.affordable(TRIED[0])));
        let old = best.len();
        best.extend(timed);
        let turns = self.turns(&best.iter().collect::<Vec<_>>(), TRIED, LAST / 8)?;
        for (i, c) in best.iter_mut().enumerate() {
            c.time = compare::median(turns.iter().map(|t| t[i]));
        }
        let fastest = |of: &[Candidate]| of.iter().map(|c| c.time).fold(f64::INFINITY, f64::min);
        let is_better = fastest(&best[old..]) < fastest(&best[..old]) * (1.0 - worth);
        self.best = fastest(best);
        best.sort_by(|a, b| a.time.total_cmp(&b.time));
        Ok(is_better)
    }

    /// One list of opts as a candidate, if it compiles and runs.
    pub fn candidate(&mut self, opts: &[Opt]) -> Result<Candidate, Error> {
        let failed = || Error::Schedule("the kernel does not run with the heuristic's opts".into());
        let mut c = self.compile(&[opts.to_vec()], false).pop().ok_or_else(failed)?;
        self.tried += 1;
        self.time(opts, &c.bound, 1)?.ok_or_else(failed)?;
        c.time = self.time(opts, &c.bound, 1)?.ok_or_else(failed)?;
        self.record(opts, c.time)?;
        self.best = self.best.min(c.time);
        Ok(c)
    }

    /// Write a candidate that ran to the recording, with its passes if that is asked for: the time that takes is not the
    /// search's.
    fn record(&mut self, opts: &[Opt], seconds: f64) -> Result<(), Error> {
        let number = self.candidates.tried(self.rounds, opts, seconds);
        if number > 0 && config::viz_candidates()? {
            let begun = Instant::now();
            record_candidate(self.ast, self.dev.target(), self.whole(opts), number)?;
            self.until += begun.elapsed();
        }
        Ok(())
    }

    /// Lower in parallel, leave out what is known or has too much to do, load the rest: the least to do first.
    fn compile(&mut self, lists: &[Vec<Opt>], hurry: bool) -> Vec<Candidate> {
        let target = self.dev.target();
        let lower = |opts: &Vec<Opt>| {
            if hurry && !self.has_time() {
                return None;
            }
            let lowered = frit_codegen::lower(self.ast, target, Opts::List(&self.whole(opts))).ok()?;
            let work = lowered.programs.iter().map(|p| lanes(p) * work(p, target)).sum::<f64>();
            if work > self.least * TOO_MUCH || self.seen.contains(&hash(&lowered)) {
                return None;
            }
            let kernels = lowered.programs.iter().map(|p| frit_render::render(p, target));
            let kernels = kernels.collect::<Result<Vec<_>, _>>().ok()?;
            Some((opts.clone(), lowered, kernels, work))
        };
        let mut lowered: Vec<_> = in_parallel(lists, lower).into_iter().flatten().collect();
        lowered.retain(|l| self.seen.insert(hash(&l.1)));
        self.least = lowered.iter().map(|l| l.3).fold(self.least, f64::min);
        lowered.sort_by(|a, b| a.3.total_cmp(&b.3));
        let kernels: Vec<_> = lowered.iter().flat_map(|l| l.2.clone()).collect();
        stats::count_compiles(lowered.len() as u64);
        let (mut ready, mut loaded) = (vec![], self.dev.load_all(&kernels).into_iter());
        for (opts, lowered, kernels, work) in lowered {
            let programs: Vec<_> = loaded.by_ref().take(kernels.len()).collect();
            let Ok(programs) = programs.into_iter().collect() else { continue };
            let compiled = Compiled::new(self.ast.clone(), &lowered, programs, &self.dev);
            if let Ok(bound) = compiled.and_then(|c| self.bind(&opts, &c)) {
                ready.push(Candidate { opts, bound, time: f64::INFINITY, work });
            }
        }
        ready
    }

    /// How many can be compared in so many turns without taking too long.
    fn affordable(&self, turns: usize) -> usize {
        (LAST.as_secs_f64() / (2 * turns) as f64 / self.best).max(2.0) as usize
    }

    /// How often to run what takes so long for it to be measured.
    fn repeats(&self, time: f64) -> usize {
        (SHORTEST.as_secs_f64() / time.max(1e-9)).ceil().clamp(1.0, 1000.0) as usize
    }

    /// Seconds of one run, of so many; `None` where it does not run, an error where nothing
    /// on the device does any more or the search is to end.
    fn time(&self, opts: &[Opt], bound: &Bound, repeats: usize) -> Result<Option<f64>, Error> {
        self.tell(Event::Trying(opts));
        let time = self.seconds(bound, repeats);
        self.tell(Event::Idle);
        if let Err(cut @ frit_runtime::Error::Interrupted) = time {
            return Err(cut.into());
        }
        if time.is_err()
            && let Err(lost @ frit_runtime::Error::Device(_)) = self.dev.synchronize()
        {
            return Err(lost.into());
        }
        Ok(time.ok())
    }
    fn seconds(&self, bound: &Bound, repeats: usize) -> Result<f64, frit_runtime::Error> {
        let mut total = Duration::ZERO;
        // the host queues a run while the device is busy with its caches: no latency is timed
        for _ in 0..if self.is_cold { repeats } else { 0 } {
            self.dev.flush_caches()?;
            total += self.dev.time(&mut || bound.launch())?;
        }
        if !self.is_cold {
            total = self.dev.time(&mut || (0..repeats).try_for_each(|_| bound.launch()))?;
        }
        self.dev.synchronize()?;
        Ok(total.as_secs_f64() / repeats as f64)
    }

    /// Run some kernels in turns, each turn beginning with another: seconds of each, turn by turn. Between so many turns
    /// and so many, for as long as it takes them. Each runs once more before it is timed, as programs repeat what they do:
    /// what it copied close is as near as that leaves it.
    fn turns(
        &self,
        ways: &[&Candidate],
        [least, most]: [usize; 2],
        time: Duration,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let (begun, mut turns) = (Instant::now(), vec![]);
        while turns.len() < most && (turns.len() < least || begun.elapsed() < time) {
            let mut turn = vec![f64::INFINITY; ways.len()];
            for i in 0..ways.len() {
                interrupt::check()?;
                let (at, repeats) = ((i + turns.len()) % ways.len(), self.repeats(self.best));
                let Candidate { opts, bound, .. } = ways[at];
                if self.time(opts, bound, 1)?.is_some()
                    && let Some(time) = self.time(opts, bound, repeats)?
                {
                    turn[at] = time;
                }
            }
            turns.push(turn);
        }
        Ok(turns)
    }

    /// The last comparison of the first candidate with the others, as many of them as there is time for: which wins, and
    /// how long each takes.
    pub fn compare(&self, candidates: &[&Candidate]) -> Result<(usize, Vec<f64>), Error> {
        let some = &candidates[..candidates.len().min(self.affordable(TURNS[0]))];
        let turns = self.turns(some, TURNS, LAST)?;
        let times = (0..some.len()).map(|i| compare::median(turns.iter().map(|t| t[i]))).collect();
        Ok((compare::winner(&turns), times))
    }

    /// The kernel on memory that all candidates share.
    fn bind(&mut self, opts: &[Opt], kernel: &Compiled) -> Result<Bound, Error> {
        let vars: Vec<i64> = kernel.vars.iter().map(|v| self.bindings.get(v).copied().unwrap_or(0)).collect();
        let dims = kernel.dims(&self.bindings)?;
        let params = kernel.executable.params();
        let bytes: usize = buffers(params).map(|(dtype, len, _)| len * dtype.size()).sum();
        let target = self.dev.target();
        self.is_cold = target.grid.is_some() && bytes <= target.l2();
        if let Some(memory) = &self.memory {
            return Ok(Bound::new(kernel.executable.clone(), memory.clone(), vars, dims)?);
        }
        let memory = memory(&*self.dev, params)?;
        let bound = Bound::new(kernel.executable.clone(), memory.clone(), vars, dims)?;
        for apart in PLACES {
            fill(params, &memory, apart)?;
            if self.time(opts, &bound, 1)?.is_some() {
                break;
            }
        }
        self.memory = Some(memory);
        Ok(bound)
    }

    /// Whether the kernel computes with these opts what it computes with none.
    pub fn check(&self, opts: &[Opt]) -> Result<(), Error> {
        let run = |opts: &[Opt]| {
            let why = |e: String| Error::Compile { kernel: "?".into(), message: e };
            let lowered = frit_codegen::lower(self.ast, self.dev.target(), Opts::List(opts));
            let lowered = lowered.map_err(|e| why(e.to_string()))?;
            let mut programs = vec![];
            for p in &lowered.programs {
                let kernel = frit_render::render(p, self.dev.target()).map_err(|e| why(e.to_string()))?;
                programs.push(self.dev.load(&kernel)?);
            }
            let compiled = Compiled::new(self.ast.clone(), &lowered, programs, &self.dev)?;
            let params = compiled.executable.params();
            let memory = memory(&*self.dev, params)?;
            fill(params, &memory, 1)?;
            let vars = compiled.vars.iter().map(|v| self.bindings.get(v).copied().unwrap_or(0)).collect();
            Bound::new(compiled.executable.clone(), memory.clone(), vars, compiled.dims(&self.bindings)?)?
                .launch()?;
            self.dev.synchronize()?;
            let mut results = vec![];
            for (m, p) in memory.iter().zip(buffers(params)) {
                if let (dtype, len, true) = p {
                    let mut bytes = vec![0; len * dtype.size()];
                    m.copy_out(0, &mut bytes)?;
                    results.push(values(&bytes, dtype));
                }
            }
            Ok::<_, Error>(results)
        };
        // sums in another order differ by the roundings of a long float32 sum
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * (1.0 + a.abs().max(b.abs()));
        let same = |a: &Vec<f64>, b: &Vec<f64>| {
            a.iter().zip(b).all(|(a, b)| near(*a, *b) || a.is_nan() && b.is_nan())
        };
        match run(&[])?.iter().zip(&run(&self.whole(opts))?).all(|(a, b)| same(a, b)) {
            true => Ok(()),
            false => Err(Error::Schedule(format!(
                "opts {opts:?} change what a kernel computes: {}",
                text::print(self.ast)
            ))),
        }
    }
}

/// Lanes of a program's whole grid: each of them does its work.
fn lanes(linear: &Linear) -> f64 {
    linear.specials.iter().map(|s| s.src[0].bounds.1.max(1) as f64).product()
}

/// Of the programs' steps; nodes are kept once, so what is equal is the same.
fn hash(lowered: &Lowered) -> u64 {
    let mut h = FxHasher::default();
    for s in lowered.programs.iter().flat_map(|p| &p.steps) {
        match s {
            Step::Do(n) => (0, n).hash(&mut h),
            Step::Open(n) => (1, n).hash(&mut h),
            Step::Close(n) => (2, n).hash(&mut h),
            Step::Prefetch(n, ahead) => (3, n, ahead).hash(&mut h),
        }
    }
    h.finish()
}

/// Type, length and whether it is written, of each buffer.
fn buffers(params: &[Param]) -> impl Iterator<Item = (DType, usize, bool)> + '_ {
    params.iter().filter_map(|p| match p {
        Param::Buffer { dtype, len, written, .. } => Some((*dtype, *len, *written)),
        Param::Var { .. } => None,
    })
}

fn memory(dev: &dyn Device, params: &[Param]) -> Result<Vec<Memory>, Error> {
    buffers(params).map(|(dtype, len, _)| Ok(dev.alloc(len * dtype.size())?)).collect()
}

/// Values for each parameter: floats near one, integers below a bound, since they may be places.
pub fn fill(params: &[Param], memory: &[Memory], bound: u64) -> Result<(), Error> {
    for ((dtype, len, _), memory) in buffers(params).zip(memory) {
        let (some, bytes) = (sample(dtype, len.min(SAMPLE), bound), len * dtype.size());
        let mut at = 0;
        while at < bytes {
            let n = some.len().min(bytes - at);
            memory.copy_in(at, &some[..n])?;
            at += n;
        }
    }
    Ok(())
}

/// Elements before the values begin again.
const SAMPLE: usize = 1 << 16;

/// Bytes of `len` elements.
fn sample(dtype: DType, len: usize, bound: u64) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(len * dtype.size());
    let bound = bound.min(if dtype.size() == 1 { 2 } else { u64::MAX });
    for _ in 0..len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        let value = if dtype.is_float() { 0.5 + unit } else { (unit * bound as f64).floor() };
        let word = Scalar::Float(value).cast(dtype).to_bits(dtype).to_le_bytes();
        bytes.extend_from_slice(&word[..dtype.size()]);
    }
    bytes
}

fn values(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let value = |b: &[u8]| {
        let mut word = [0u8; 8];
        word[..b.len()].copy_from_slice(b);
        Scalar::from_bits(u64::from_le_bytes(word), dtype).as_f64()
    };
    bytes.chunks_exact(dtype.size().max(1)).map(value).collect()
}
