//! BEAM: try legal opts on the device itself, keep the best, remember them on disk.
//!
//! A state is a list of opts. From each of the few best states every legal opt is tried next; candidates are lowered in
//! parallel, one that does not compile or run is skipped, and the rest are timed in turns, so that a slow moment of the
//! machine does not fall on one of them. It ends when a round brings nothing.
//!
//! The heuristic's list and every beginning of it are among the first states, so a search never ends worse than it.

use crate::normalise::Bindings;
use crate::plan::{Compiled, Renderer, in_parallel, renderer};
use crate::{Error, config, interrupt, stats};
use frit_abi::{DType, Param, Scalar, Target};
use frit_codegen::{Opt, Opts, Plan};
use frit_runtime::cache::{DEFAULT_LIMIT, DiskCache, Key};
use frit_runtime::env::CacheSetting;
use frit_runtime::{Bound, Device, Memory};
use frit_uop::{Arg, Op, UOp, text};
use rustc_hash::FxHashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Part of every key: results of another search are not used.
const VERSION: &[u8] = b"tuned 2";
/// Candidates of a round that are compiled for each state.
const PER_STATE: usize = 64;
/// Rounds at most.
const ROUNDS: usize = 12;
/// A candidate this much slower than the best after its first run is not run again.
const HOPELESS: f64 = 2.0;
/// A round must make the kernel faster by this part to be followed by another.
const WORTH: f64 = 0.01;

/// What a search found for one kernel.
pub struct Tuned {
    /// The opts.
    pub opts: Vec<Opt>,
    /// How long the kernel takes with the heuristic's opts, and with these.
    pub before: Duration,
    /// The same with the opts that were found.
    pub after: Duration,
    /// Candidates that were timed.
    pub tried: usize,
}

impl std::fmt::Display for Tuned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        write!(f, "{:.1} us, was {:.1} us, {} ways tried", us(self.after), us(self.before), self.tried)
    }
}

/// What searches found, in a place of its own: it can be shipped with an application.
struct Found {
    cache: DiskCache,
    /// Whether there is anything: most machines have never searched, and need not look for every kernel.
    any: AtomicBool,
}

fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let (setting, any) = match frit_runtime::env::cache() {
            CacheSetting::At(dir) => (CacheSetting::At(dir.join("tuned")), dir.join("tuned").is_dir()),
            CacheSetting::Off => (CacheSetting::Off, false),
        };
        Found { cache: DiskCache::new(setting, DEFAULT_LIMIT), any: AtomicBool::new(any) }
    })
}

fn key(ast: &UOp, target: &Target) -> Key {
    // everything a target says, its limits and the number of its threads too
    Key::of(&[VERSION, text::print(ast).as_bytes(), format!("{target:?}").as_bytes()])
}

/// The opts that an earlier search found for a kernel on such a machine, if they are still legal.
pub fn remembered(ast: &UOp, target: &Target) -> Option<Vec<Opt>> {
    let found = found();
    if !found.any.load(Relaxed) {
        return None;
    }
    let bytes = found.cache.get(key(ast, target))?;
    let lines = std::str::from_utf8(&bytes).ok()?.lines();
    let opts: Vec<Opt> = lines.map(|l| l.parse().ok()).collect::<Option<_>>()?;
    frit_codegen::plan(ast, target, &opts).ok().map(|_| opts)
}

/// Keep what a search found.
pub fn remember(ast: &UOp, target: &Target, opts: &[Opt]) {
    let lines: Vec<String> = opts.iter().map(Opt::to_string).collect();
    found().cache.put(key(ast, target), lines.join("\n").as_bytes());
    found().any.store(true, Relaxed);
}

/// Search for the best opts of a kernel, at most `width` states in a round.
pub fn search(ast: &UOp, device: &Arc<str>, width: usize) -> Result<Tuned, Error> {
    let dev = frit_runtime::device(device)?;
    let mut bench = Bench::new(ast, &*dev, renderer(device, dev.target()))?;
    let (_, heuristic) = frit_codegen::lower_and_watch(ast, dev.target(), Opts::Heuristic, &mut |_, _| {})
        .map_err(|e| Error::Schedule(e.to_string()))?;
    let mut seen: FxHashSet<Vec<Opt>> = FxHashSet::default();
    let starts: Vec<Vec<Opt>> = (0..=heuristic.len()).rev().map(|n| heuristic[..n].to_vec()).collect();
    let first = bench.round(starts, None)?;
    let before = first.iter().find(|c| c.opts == heuristic).map(|c| c.time);
    let Some(before) = before else {
        return Err(Error::Schedule("the kernel does not run with the heuristic's opts".into()));
    };
    let mut best = first;
    for _ in 0..ROUNDS {
        interrupt::check()?;
        best.sort_by_key(|c| c.time);
        best.truncate(width.max(1));
        let leader = best[0].time;
        let next: Vec<Vec<Opt>> = best.iter().flat_map(|c| moves(ast, dev.target(), &c.opts)).collect();
        let next = next.into_iter().filter(|o| seen.insert(o.clone())).collect();
        let found = bench.round(next, Some(leader))?;
        best.extend(found);
        let now = best.iter().map(|c| c.time).min().unwrap_or(leader);
        if now.as_secs_f64() > leader.as_secs_f64() * (1.0 - WORTH) {
            break;
        }
    }
    // what is close is measured once more, side by side with the heuristic
    best.sort_by_key(|c| c.time);
    best.truncate(4);
    let others = best.into_iter().map(|c| c.opts).filter(|o| *o != heuristic);
    let last = [heuristic.clone()].into_iter().chain(others).collect();
    let last = bench.round(last, None)?;
    let winner = last.iter().min_by_key(|c| c.time);
    let before = last.iter().find(|c| c.opts == heuristic).map_or(before, |c| c.time);
    let (opts, after) = winner.map_or((heuristic, before), |c| (c.opts.clone(), c.time));
    if config::beam_check()? {
        bench.check(&opts)?;
    }
    Ok(Tuned { opts, before, after, tried: bench.tried })
}

/// Search for every kernel of a recorded program that was saved to a file, telling the name of each and what was found.
pub fn tune(
    path: &Path,
    width: usize,
    mut told: impl FnMut(usize, usize, &str, &Tuned),
) -> Result<(), Error> {
    let saved = crate::program_file::load(path)?;
    let mut seen = FxHashSet::default();
    let kernels: Vec<&Arc<Compiled>> =
        saved.program.parts.launches.iter().map(|l| &l.kernel).filter(|k| seen.insert(&k.ast)).collect();
    for (i, k) in kernels.iter().enumerate() {
        let device = &saved.program.parts.device;
        let tuned = search(&k.ast, device, width)?;
        remember(&k.ast, frit_runtime::device(device)?.target(), &tuned.opts);
        told(i + 1, kernels.len(), &k.name, &tuned);
    }
    Ok(())
}

/// Lists with one more opt, or without the last stage.
fn moves(ast: &UOp, target: &Target, opts: &[Opt]) -> Vec<Vec<Opt>> {
    let Ok(plan) = frit_codegen::plan(ast, target, opts) else { return vec![] };
    let one_more = |plan: Plan, start: &[Opt]| {
        let longer = plan.legal().into_iter().map(|o| start.iter().cloned().chain([o]).collect::<Vec<_>>());
        longer.collect::<Vec<_>>()
    };
    let mut all = one_more(plan, opts);
    // stages come last, so splits are tried before them
    let stages = opts.iter().rev().take_while(|o| matches!(o, Opt::Stage { .. })).count();
    if stages > 0 {
        let (start, end) = opts.split_at(opts.len() - stages);
        if let Ok(plan) = frit_codegen::plan(ast, target, start) {
            all.extend(one_more(plan, start).into_iter().map(|o| [&o[..], end].concat()));
        }
    }
    // spread over the list, which is ordered by axis and size
    let step = all.len().div_ceil(PER_STATE).max(1);
    all.into_iter().step_by(step).collect()
}

/// A list of opts and how long the kernel takes with it.
struct Candidate {
    opts: Vec<Opt>,
    time: Duration,
}

/// A kernel with memory to run on.
struct Bench<'a> {
    ast: &'a UOp,
    dev: &'a dyn Device,
    render: Renderer,
    bindings: Bindings,
    tried: usize,
}

impl<'a> Bench<'a> {
    fn new(ast: &'a UOp, dev: &'a dyn Device, render: Renderer) -> Result<Bench<'a>, Error> {
        // variables at their largest: that is when it matters most
        let vars = ast.toposort().into_iter().filter_map(|n| match &n.arg {
            Arg::Var { name, max, .. } if n.op == Op::Variable => Some((name.clone(), *max)),
            _ => None,
        });
        let bindings = vars.collect();
        Ok(Bench { ast, dev, render, bindings, tried: 0 })
    }

    /// Compile lists of opts and time those that work; those that are much slower than the leader are left out. Without
    /// a leader the first list is what the others are compared with, and stays.
    fn round(&mut self, lists: Vec<Vec<Opt>>, leader: Option<Duration>) -> Result<Vec<Candidate>, Error> {
        let lower = |opts: &Vec<Opt>| {
            let linear = frit_codegen::lower(self.ast, self.dev.target(), Opts::List(opts)).ok()?;
            let kernel = (self.render)(&linear, self.dev.target()).ok()?;
            Some((opts.clone(), linear, kernel))
        };
        let lowered: Vec<_> = in_parallel(&lists, lower).into_iter().flatten().collect();
        let kernels: Vec<_> = lowered.iter().map(|l| l.2.clone()).collect();
        let loaded = self.dev.load_all(&kernels);
        let mut ready = vec![];
        for ((opts, linear, _), loaded) in lowered.into_iter().zip(loaded) {
            let Ok(loaded) = loaded else { continue };
            let compiled = Compiled::new(self.ast.clone(), &linear, loaded);
            if let Some(bound) = ready.first().map_or_else(
                || self.bind(&compiled, None).ok(),
                |(_, b, _): &(Vec<Opt>, Bound, Duration)| self.bind(&compiled, Some(b.buffers())).ok(),
            ) {
                ready.push((opts, bound, Duration::MAX));
            }
        }
        interrupt::check()?;
        self.tried += ready.len();
        stats::count_compiles(ready.len() as u64);
        let mut best = leader.unwrap_or(Duration::MAX);
        for (_, bound, time) in &mut ready {
            interrupt::check()?;
            // the first run warms up, the second counts
            let runs = [self.time(bound), self.time(bound)];
            if let [Some(_), Some(t)] = runs {
                *time = t;
                best = best.min(t);
            }
        }
        let hopeful = |t: Duration| t.as_secs_f64() <= best.as_secs_f64() * HOPELESS;
        let first = lists.first().filter(|_| leader.is_none());
        ready.retain(|(o, _, t)| *t != Duration::MAX && (hopeful(*t) || Some(o) == first));
        // in turns, as often as fits in a little while
        let rounds = (Duration::from_millis(20).as_nanos() / best.as_nanos().max(1)).clamp(3, 40);
        for _ in 0..rounds {
            interrupt::check()?;
            for (_, bound, time) in &mut ready {
                if let Some(t) = self.time(bound) {
                    *time = t.min(*time);
                }
            }
        }
        Ok(ready.into_iter().map(|(opts, _, time)| Candidate { opts, time }).collect())
    }

    fn time(&self, bound: &Bound) -> Option<Duration> {
        let start = Instant::now();
        bound.launch().ok()?;
        self.dev.synchronize().ok()?;
        Some(start.elapsed())
    }

    /// The kernel on memory like that of the others, or on its own.
    fn bind(&self, kernel: &Compiled, memory: Option<&[Memory]>) -> Result<Bound, Error> {
        let bufs = match memory {
            Some(m) => m.to_vec(),
            None => self.memory(kernel.loaded.params())?,
        };
        let vars = kernel.vars.iter().map(|v| self.bindings.get(v).copied().unwrap_or(0)).collect();
        Ok(Bound::new(kernel.loaded.clone(), bufs, vars, kernel.dims(&self.bindings)?)?)
    }

    /// A buffer for each parameter: floats near one, integers zero, since they may be places.
    fn memory(&self, params: &[Param]) -> Result<Vec<Memory>, Error> {
        let mut all = vec![];
        for p in params {
            let Param::Buffer { dtype, len, .. } = p else { continue };
            let memory = self.dev.alloc(len * dtype.size())?;
            memory.copy_in(0, &sample(*dtype, *len))?;
            all.push(memory);
        }
        Ok(all)
    }

    /// Whether the kernel computes with these opts what it computes with none.
    fn check(&self, opts: &[Opt]) -> Result<(), Error> {
        let run = |opts: &[Opt]| {
            let why = |e: String| Error::Compile { kernel: "?".into(), message: e };
            let linear = frit_codegen::lower(self.ast, self.dev.target(), Opts::List(opts));
            let linear = linear.map_err(|e| why(e.to_string()))?;
            let kernel = (self.render)(&linear, self.dev.target()).map_err(|e| why(e.to_string()))?;
            let compiled = Compiled::new(self.ast.clone(), &linear, self.dev.load(&kernel)?);
            let bound = self.bind(&compiled, None)?;
            bound.launch()?;
            self.dev.synchronize()?;
            let mut results = vec![];
            for (m, p) in bound.buffers().iter().zip(compiled.loaded.params()) {
                if let Param::Buffer { dtype, len, written: true } = p {
                    let mut bytes = vec![0; len * dtype.size()];
                    m.copy_out(0, &mut bytes)?;
                    results.push(values(&bytes, *dtype));
                }
            }
            Ok::<_, Error>(results)
        };
        // sums in another order differ by the roundings of a long float32 sum
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * (1.0 + a.abs().max(b.abs()));
        let same = |a: &Vec<f64>, b: &Vec<f64>| {
            a.iter().zip(b).all(|(a, b)| near(*a, *b) || a.is_nan() && b.is_nan())
        };
        match run(&[])?.iter().zip(&run(opts)?).all(|(a, b)| same(a, b)) {
            true => Ok(()),
            false => Err(Error::Schedule(format!(
                "opts {opts:?} change what a kernel computes: {}",
                text::print(self.ast)
            ))),
        }
    }
}

/// Bytes of `len` elements.
fn sample(dtype: DType, len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(len * dtype.size());
    for _ in 0..len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let value = if dtype.is_float() { 0.5 + (state >> 40) as f64 / (1u64 << 24) as f64 } else { 0.0 };
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
