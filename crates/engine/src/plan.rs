//! A plan: every kernel of a graph, loaded, in order, with where its arguments come from. Made once for a structure.

use crate::normalise::{Bindings, eval_index};
use crate::{Error, config, interrupt, search, stats};
use frit_abi::sync::{LazyLock, Mutex, MutexGuard};
use frit_abi::{Kernel, LaunchDims, Param, Target};
use frit_codegen::{Opt, Opts};
use frit_runtime::Executable;
use frit_schedule::{BufRef, Schedule};
use frit_uop::spec::{self, Spec};
use frit_uop::verify::verify_scheduled;
use frit_uop::{Arg, Linear, UOp, text};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::hash::Hash;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// A schedule with its kernels loaded.
pub struct Plan {
    /// Kernels in order, each with its arguments.
    pub calls: Vec<Call>,
    /// The schedule: temporaries and their places.
    pub schedule: Schedule,
    stores: FxHashMap<u32, (usize, usize)>,
}

impl Plan {
    fn new(calls: Vec<Call>, schedule: Schedule) -> Plan {
        let mut stores: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        for (i, call) in calls.iter().enumerate() {
            for (arg, _) in call.args.iter().zip(call.kernel.stored()).filter(|(_, w)| *w) {
                if let BufRef::Param(slot) = arg {
                    stores.entry(*slot).or_insert((i, i)).1 = i;
                }
            }
        }
        Plan { calls, schedule, stores }
    }
    /// The numbers of the first and the last call that store to a parameter.
    pub fn stores_to(&self, slot: usize) -> Option<(usize, usize)> {
        self.stores.get(&(slot as u32)).copied()
    }
}

/// One launch.
pub struct Call {
    /// What runs.
    pub kernel: Arc<Compiled>,
    /// On which buffers.
    pub args: Vec<BufRef>,
}

/// A loaded kernel with what a launch needs to know.
pub struct Compiled {
    /// For people.
    pub name: Arc<str>,
    /// What it was made from.
    pub ast: UOp,
    /// On the device.
    pub executable: Arc<dyn Executable>,
    /// Variables in the order of its arguments.
    pub vars: Vec<Arc<str>>,
    /// Extents of the hardware ids: blocks, then lanes.
    grid: [[Option<UOp>; 3]; 2],
    thread: Option<UOp>,
    flops: UOp,
    bytes: UOp,
}

impl Compiled {
    /// A kernel as it was lowered and loaded.
    pub(crate) fn new(ast: UOp, linear: &Linear, executable: Arc<dyn Executable>) -> Compiled {
        let special = |prefix: &str, i: usize| {
            let name = format!("{prefix}{i}");
            let found = linear.specials.iter().find(|s| matches!(&s.arg, Arg::Name(n) if **n == *name));
            found.map(|s| s.src[0].clone())
        };
        let vars = linear.vars.iter().filter_map(|v| match &v.arg {
            Arg::Var { name, .. } => Some(name.clone()),
            _ => None,
        });
        Compiled {
            name: linear.name.clone(),
            ast,
            executable,
            vars: vars.collect(),
            grid: ["gidx", "lidx"].map(|p| std::array::from_fn(|i| special(p, i))),
            thread: linear.thread.as_ref().map(|r| r.src[0].clone()),
            flops: linear.flops.clone(),
            bytes: linear.bytes.clone(),
        }
    }
    /// Which arguments it stores to.
    pub fn stored(&self) -> impl Iterator<Item = bool> {
        self.executable.params().iter().filter_map(|p| match p {
            Param::Buffer { written, .. } => Some(*written),
            Param::Var { .. } => None,
        })
    }
    /// The numbers of a launch with these variables.
    pub fn dims(&self, b: &Bindings) -> Result<LaunchDims, Error> {
        let size = |e: &Option<UOp>| e.as_ref().map_or(Ok(1), |e| eval_index(e, b));
        let mut grid = [[1u32; 3]; 2];
        for (out, exprs) in grid.iter_mut().zip(&self.grid) {
            for (o, e) in out.iter_mut().zip(exprs) {
                *o = u32::try_from(size(e)?)
                    .map_err(|_| Error::Graph("a launch dim exceeds 32 bits".into()))?;
            }
        }
        Ok(LaunchDims { global: grid[0], local: grid[1], thread_extent: size(&self.thread)? })
    }
    /// Arithmetic operations and bytes of a launch with these variables.
    pub fn cost(&self, b: &Bindings) -> (u64, u64) {
        let eval = |e| eval_index(e, b).unwrap_or(0).max(0) as u64;
        (eval(&self.flops), eval(&self.bytes))
    }
}

/// A map that forgets its older half when it is full.
pub(crate) struct Bounded<K, V> {
    pub(crate) map: FxHashMap<K, (V, u64)>,
    clock: u64,
    capacity: usize,
}

impl<K: Hash + Eq, V: Clone> Bounded<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Bounded { map: FxHashMap::default(), clock: 0, capacity }
    }
    pub(crate) fn get(&mut self, k: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.map.get_mut(k)?;
        entry.1 = self.clock;
        Some(entry.0.clone())
    }
    pub(crate) fn insert(&mut self, k: K, v: V) {
        if self.map.len() >= self.capacity {
            let mut ages: Vec<u64> = self.map.values().map(|v| v.1).collect();
            let (_, &mut median, _) = ages.select_nth_unstable(self.capacity / 2);
            self.map.retain(|_, v| v.1 > median);
        }
        self.clock += 1;
        self.map.insert(k, (v, self.clock));
    }
}

/// Structure, device, and the seed of random opts.
pub(crate) type Key = (UOp, Arc<str>, Option<u64>);
pub(crate) type Cache<V> = LazyLock<Mutex<Bounded<Key, Arc<V>>>>;
static PLANS: Cache<Plan> = LazyLock::new(|| Mutex::new(Bounded::new(1024)));
static KERNELS: Cache<Compiled> = LazyLock::new(|| Mutex::new(Bounded::new(8192)));

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

thread_local! {
    static CHAOS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Run `f` with kernels optimised at random instead of by the heuristic: legal opts, chosen by the seed. What a kernel
/// computes must not depend on its opts, and this is how tests find out.
pub fn with_random_opts<T>(seed: u64, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHAOS.set(self.0);
        }
    }
    let _restore = Restore(CHAOS.replace(Some(seed)));
    f()
}

/// Forget all plans and kernels: for measuring, and to give their memory back.
pub fn clear_caches() {
    crate::loops::forget();
    lock(&PLANS).map.clear();
    lock(&KERNELS).map.clear();
}

/// The key of a structure on a device, for this thread.
pub(crate) fn key(structure: &UOp, device: &Arc<str>) -> Key {
    (structure.clone(), device.clone(), CHAOS.get())
}

/// The plan for a normalised graph on a device.
pub fn plan(sink: &UOp, device: &Arc<str>) -> Result<Arc<Plan>, Error> {
    let key = key(sink, device);
    if let Some(p) = lock(&PLANS).get(&key) {
        return Ok(p);
    }
    let start = Instant::now();
    let dev = frit_runtime::device(device)?;
    if config::debug()? >= 1 {
        static DEVICE: std::sync::Once = std::sync::Once::new();
        DEVICE.call_once(|| eprintln!("device {}: {}", dev.name(), dev.describe()));
    }
    let schedule = frit_schedule::schedule(sink, dev.target()).map_err(|e| Error::Schedule(e.to_string()))?;
    stats::count_schedule();
    check_kernels(&schedule)?;
    if config::debug()? >= 1 {
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let (k, mb) = (schedule.kernels.len(), schedule.arena_bytes as f64 / 1e6);
        eprintln!("schedule: {k} kernels, {mb:.1} MB of temporaries, {ms:.1} ms");
    }
    let asts: Vec<UOp> = schedule.kernels.iter().map(|k| k.ast.clone()).collect();
    let kernels = load_kernels(&asts, device)?;
    let calls = schedule.kernels.iter().zip(kernels).map(|(k, kernel)| Call { kernel, args: k.args.clone() });
    let plan = Arc::new(Plan::new(calls.collect(), schedule));
    lock(&PLANS).insert(key, plan.clone());
    Ok(plan)
}

/// Kernel graphs against their spec, their buffers and their text form, if that is asked for; printed, if that is.
fn check_kernels(schedule: &Schedule) -> Result<(), Error> {
    let (check, debug) = (config::spec()?, config::debug()?);
    for k in &schedule.kernels {
        if debug >= 3 {
            eprintln!("kernel graph, arguments {:?}:\n{}", k.args, text::print(&k.ast));
        }
        if check >= 1 {
            spec::check(&k.ast, Spec::Kernel).map_err(|e| Error::Schedule(e.to_string()))?;
        }
        if check >= 2 && text::parse(&text::print(&k.ast)).as_ref() != Ok(&k.ast) {
            return Err(Error::Schedule("a kernel's text does not parse back to it".into()));
        }
        if check >= 3 {
            verify_scheduled(&k.ast).map_err(|e| Error::Schedule(e.to_string()))?;
        }
    }
    Ok(())
}

/// The kernels of these graphs, in order: those not known yet are lowered in parallel and loaded together.
pub(crate) fn load_kernels(asts: &[UOp], device: &Arc<str>) -> Result<Vec<Arc<Compiled>>, Error> {
    let (dev, seed) = (frit_runtime::device(device)?, CHAOS.get());
    let mut known: FxHashMap<UOp, Arc<Compiled>> = FxHashMap::default();
    let mut missing: Vec<UOp> = vec![];
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    for ast in asts.iter().filter(|a| seen.insert(a)) {
        match lock(&KERNELS).get(&(ast.clone(), device.clone(), seed)) {
            Some(c) => _ = known.insert(ast.clone(), c),
            None => missing.push(ast.clone()),
        }
    }
    let choices = choices(&missing, device, dev.target())?;
    let jobs: Vec<(&UOp, Choice)> = missing.iter().zip(choices).collect();
    let is_cut = AtomicBool::new(false);
    let lowered = in_parallel(&jobs, |(ast, choice)| {
        // one thread is told that the work should end, all do
        if is_cut.load(Relaxed) || interrupt::check().is_err() {
            is_cut.store(true, Relaxed);
            return Err(Error::Interrupted);
        }
        compile(ast, dev.target(), choice)
    });
    let lowered = lowered.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (linears, kernels): (Vec<Linear>, Vec<Kernel>) = lowered.into_iter().unzip();
    stats::count_compiles(kernels.len() as u64);
    for ((ast, linear), loaded) in missing.into_iter().zip(&linears).zip(dev.load_all(&kernels)) {
        let compiled = Arc::new(Compiled::new(ast.clone(), linear, loaded?));
        if config::debug()? >= 6 {
            let text = compiled.executable.disassembly().unwrap_or_else(|e| e.to_string());
            eprintln!("machine code of {}:\n{text}", compiled.name);
        }
        lock(&KERNELS).insert((ast.clone(), device.clone(), seed), compiled.clone());
        known.insert(ast, compiled);
    }
    Ok(asts.iter().map(|ast| known[ast].clone()).collect())
}

/// Where the opts of a kernel come from.
pub enum Choice {
    /// From the heuristic.
    Heuristic,
    /// From a seed: legal ones.
    Random(u64),
    /// From a search.
    List(Vec<Opt>),
}

/// How each kernel is to be compiled: searched for, if that is asked for; as an earlier search found, if there is one.
fn choices(asts: &[UOp], device: &Arc<str>, target: &Target) -> Result<Vec<Choice>, Error> {
    let width = config::beam()? as usize;
    let mut all = vec![];
    for (i, ast) in asts.iter().enumerate() {
        all.push(match (CHAOS.get(), search::remembered(ast, target)) {
            (Some(seed), _) => Choice::Random(seed),
            (None, Some(opts)) => Choice::List(opts),
            (None, None) if width > 0 => {
                match search::search(ast, device, &search::Effort::of_width(width)?) {
                    Ok(tuned) => {
                        search::remember(ast, target, &tuned.opts);
                        if config::debug()? >= 1 || std::io::stderr().is_terminal() {
                            eprintln!("search {} of {}: {tuned}", i + 1, asts.len());
                        }
                        Choice::List(tuned.opts)
                    }
                    Err(e @ (Error::Interrupted | Error::Env(_))) => return Err(e),
                    // one that does not run on data that is made up
                    Err(_) => Choice::Heuristic,
                }
            }
            (None, None) => Choice::Heuristic,
        });
    }
    Ok(all)
}

/// Lower and render one kernel.
pub fn compile(ast: &UOp, target: &Target, choice: &Choice) -> Result<(Linear, Kernel), Error> {
    let debug = config::debug()?;
    let error = |message: String| Error::Compile { kernel: kernel_name(ast).into(), message };
    let random = match choice {
        Choice::Random(seed) => {
            let seed = seed ^ ast.structural_hash();
            Some(frit_codegen::random_opts(ast, target, seed, 4).map_err(|e| error(e.to_string()))?)
        }
        _ => None,
    };
    let opts = match (choice, &random) {
        (Choice::List(list), _) | (_, Some(list)) => Opts::List(list),
        _ => Opts::Heuristic,
    };
    let (linear, applied) = frit_codegen::lower_and_watch(ast, target, opts, &mut |_, _| {})
        .map_err(|e| error(format!("{e} (opts {opts:?})")))?;
    if debug >= 3 {
        let applied: Vec<String> = applied.iter().map(|o| o.to_string()).collect();
        eprintln!("opts of {}: {}", linear.name, applied.join(", "));
    }
    if debug >= 5 {
        eprintln!("program {}:", linear.name);
        for step in &linear.steps {
            eprintln!("  {step:?}");
        }
    }
    let mut source = String::new();
    let kernel = frit_render::render_and_watch(&linear, target, &mut |_, program| {
        if debug >= 4 {
            source = program.to_string();
        }
    });
    let kernel = kernel.map_err(|e| error(e.to_string()))?;
    if debug >= 4 {
        eprintln!("source of {}:\n{source}", linear.name);
    }
    Ok((linear, kernel))
}

fn kernel_name(ast: &UOp) -> &str {
    match &ast.arg {
        Arg::Name(n) => n,
        _ => "?",
    }
}

/// `f` over all items on as many threads as kernels may use.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = frit_runtime::env::threads().unwrap_or(1).min(items.len());
    if threads <= 1 {
        return items.iter().map(f).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut mine = vec![];
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(i) else { return mine };
            mine.push((i, f(item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|s| {
        let others: Vec<_> = (1..threads).map(|_| s.spawn(work)).collect();
        let mut all = work();
        for o in others {
            match o.join() {
                Ok(r) => all.extend(r),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|r| r.0);
    all.into_iter().map(|r| r.1).collect()
}
