//! A plan: every kernel of a graph, loaded, in order, with where its arguments come from. Made once for a structure.

use super::cache::{Cache, key, lock};
use super::load::{compile_again, load_kernels};
use crate::kernel::compiled::Compiled;
use crate::lru_map::LruMap;
use crate::pass_log::PassLog;
use crate::{Error, config, record, stats};
use frit_abi::sync::{LazyLock, Mutex};
use frit_runtime::Device;
use frit_schedule::{BufRef, KernelCall, Schedule};
use frit_uop::spec::{self, Spec};
use frit_uop::verify::verify;
use frit_uop::{UOp, text};
use rustc_hash::FxHashMap;
use std::sync::Arc;
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
    /// The parts of the program that it belongs to, where someone wants to know.
    pub origin: Arc<str>,
}

static PLANS: Cache<Plan> = LazyLock::new(|| Mutex::new(LruMap::new(1024)));

/// Forget all plans.
pub(crate) fn forget() {
    lock(&PLANS).clear();
}

/// The plan for a normalised graph on a device.
pub fn plan(sink: &UOp, device: &Arc<str>) -> Result<Arc<Plan>, Error> {
    let key = key(sink, device);
    let known = lock(&PLANS).get(&key);
    if let Some(p) = known {
        if record::compiles() {
            plan_again(sink, device, &p)?;
        }
        return Ok(p);
    }
    let start = Instant::now();
    let dev = frit_runtime::device(device)?;
    if config::debug()? >= 1 {
        static DEVICE: std::sync::Once = std::sync::Once::new();
        DEVICE.call_once(|| eprintln!("device {}: {}", dev.name(), dev.describe()));
    }
    if record::compiles() {
        record::is_first(sink, device);
    }
    let schedule = scheduled(sink, &*dev)?;
    stats::count_schedule();
    check_kernels(&schedule)?;
    if config::debug()? >= 1 {
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let (k, mb) = (schedule.kernels.len(), schedule.arena_bytes as f64 / 1e6);
        eprintln!("schedule: {k} kernels, {mb:.1} MB of temporaries, {ms:.1} ms");
    }
    let asts: Vec<UOp> = schedule.kernels.iter().map(|k| k.ast.clone()).collect();
    let kernels = load_kernels(&asts, device)?;
    let call =
        |(k, kernel): (&KernelCall, _)| Call { kernel, args: k.args.clone(), origin: k.origin.clone() };
    let calls = schedule.kernels.iter().zip(kernels).map(call).collect();
    let plan = Arc::new(Plan::new(calls, schedule));
    lock(&PLANS).insert(key, plan.clone());
    Ok(plan)
}

/// A graph that was planned before: once more for the recording, if that has not seen it.
fn plan_again(sink: &UOp, device: &Arc<str>, plan: &Plan) -> Result<(), Error> {
    if !record::is_first(sink, device) {
        record::plan_hit(sink);
        return Ok(());
    }
    let dev = frit_runtime::device(device)?;
    scheduled(sink, &*dev)?;
    for call in &plan.calls {
        match record::is_first(&call.kernel.ast, device) {
            true => compile_again(&call.kernel, dev.target())?,
            false => record::hit(&call.kernel.ast),
        }
    }
    Ok(())
}

/// The schedule of a graph; its passes are shown and recorded, and what they leave is checked, where that is asked for.
fn scheduled(sink: &UOp, device: &dyn Device) -> Result<Schedule, Error> {
    let (mut log, check) = (PassLog::of("")?, config::spec()? > 0);
    let mut watch = |pass: &'static str, graph: &UOp, time| log.after(pass, || text::print(graph), time);
    let schedule = record::schedule(sink, device, check, &mut watch);
    log.print();
    schedule.map_err(|e| Error::Schedule(e.to_string()))
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
            verify(&k.ast).map_err(|e| Error::Schedule(e.to_string()))?;
        }
    }
    Ok(())
}

/// A tensor graph against its spec, if that is asked for.
pub(crate) fn check_tensors(sink: &UOp) -> Result<(), Error> {
    if config::spec()? > 0 {
        spec::check(sink, Spec::Tensor).map_err(|e| Error::Graph(e.to_string()))?;
    }
    Ok(())
}
