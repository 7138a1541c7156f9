//! Launching a plan.

use super::tape;
use crate::memory::bindings::Bindings;
use crate::memory::buffer::Buffer;
use crate::memory::unconfirmed;
use crate::plan::normalise::Normal;
use crate::plan::schedule::Plan;
use crate::{Error, config, interrupt, record, stats};
use frit_runtime::{Device, Memory};
use frit_schedule::{BufRef, Temp};
use frit_uop::UOp;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Run every kernel of a plan on the buffers of a graph. `begun` counts the kernels that may have stored something.
pub fn run(plan: &Plan, normal: &Normal, device: &Arc<str>, begun: &mut usize) -> Result<(), Error> {
    let dev = frit_runtime::device(device)?;
    let begin = Instant::now();
    let total = Ready::new(plan, &*dev)?.launch(&normal.buffers, &normal.bindings, device, begun)?;
    let is_shown = config::debug()? >= 1;
    if is_shown {
        unconfirmed::wait(&*dev)?;
        total.report(plan.calls.len(), begin.elapsed());
    }
    Ok(())
}

/// A plan with memory for its temporaries.
pub struct Ready<'a> {
    plan: &'a Plan,
    dev: &'a dyn Device,
    temps: Vec<Memory>,
}

impl<'a> Ready<'a> {
    /// Allocate what the plan needs besides its parameters.
    pub fn new(plan: &'a Plan, dev: &'a dyn Device) -> Result<Ready<'a>, Error> {
        let bytes = |t: &Temp| t.len.saturating_mul(t.dtype.size());
        if frit_runtime::env::guard()?.is_some() {
            // each by itself, so that none can reach into another
            let temps = plan.schedule.temps.iter().map(|t| dev.alloc(bytes(t)));
            return Ok(Ready { plan, dev, temps: temps.collect::<Result<_, _>>()? });
        }
        let arena = dev.alloc(plan.schedule.arena_bytes)?;
        let places = plan.schedule.temps.iter().zip(&plan.schedule.offsets);
        let temps = places.map(|(t, offset)| arena.view(*offset, bytes(t)));
        Ok(Ready { plan, dev, temps: temps.collect::<Result<Vec<Memory>, _>>()? })
    }
    /// Launch every kernel, in order; `buffers` are the plan's parameters by number. Does not wait. `begun` counts them.
    pub fn launch(
        &self,
        buffers: &[UOp],
        bindings: &Bindings,
        device: &Arc<str>,
        begun: &mut usize,
    ) -> Result<Total, Error> {
        let debug = config::debug()?;
        let recorded = tape::begin_run(device, &self.plan.schedule.temps);
        let mut total = Total::default();
        for call in &self.plan.calls {
            let memory = |a: &BufRef| match *a {
                BufRef::Param(i) => buffers.get(i as usize).and_then(Buffer::of).map(|b| &b.memory),
                BufRef::Temp(i) => self.temps.get(i as usize),
            };
            let missing = || Error::Graph("a kernel argument is not a buffer of its graph".into());
            let bufs: SmallVec<[&Memory; 8]> =
                call.args.iter().map(|a| memory(a).ok_or_else(missing)).collect::<Result<_, _>>()?;
            let value = |v: &Arc<str>| match bindings.get(v) {
                Some(value) => Ok(*value),
                None => Err(Error::Graph(format!("variable {v} has no value: bind it"))),
            };
            let vars: SmallVec<[i64; 4]> = call.kernel.vars.iter().map(value).collect::<Result<_, _>>()?;
            let dims = call.kernel.dims(bindings)?;
            interrupt::check()?;
            *begun += 1;
            let (flops, bytes) = call.kernel.cost(bindings);
            stats::count_launch(bytes, flops);
            (total.flops, total.bytes) = (total.flops + flops, total.bytes + bytes);
            if debug >= 2 || record::runs() {
                let kernel = &call.kernel;
                let go = || kernel.executable.launch(&bufs, &vars, dims);
                let named = (&kernel.ast, &*kernel.name, &*call.origin);
                let time = record::launch(self.dev, named, (flops, bytes), debug >= 2, go)?;
                if debug >= 2 {
                    total.time += time;
                    report((&kernel.name, &call.origin), time, flops, bytes, self.dev.memory_stats().in_use);
                }
            } else {
                call.kernel.executable.launch(&bufs, &vars, dims)?;
            }
            tape::launched(call, buffers, bindings, recorded);
        }
        Ok(total)
    }
}

/// What launches came to.
#[derive(Clone, Copy, Default)]
pub struct Total {
    flops: u64,
    bytes: u64,
    /// The kernels' own times where each was waited for.
    time: Duration,
}

impl Total {
    fn report(&self, kernels: usize, whole: Duration) {
        let s = if self.time > Duration::ZERO { self.time } else { whole }.as_secs_f64().max(1e-9);
        let (gflops, gbps) = (self.flops as f64 / s / 1e9, self.bytes as f64 / s / 1e9);
        eprintln!("{kernels} kernels in {:.3} ms, {gflops:.1} GFLOP/s, {gbps:.1} GB/s", s * 1e3);
    }
}

/// One line for people.
pub(crate) fn report((name, origin): (&str, &str), time: Duration, flops: u64, bytes: u64, in_use: usize) {
    let s = time.as_secs_f64().max(1e-9);
    let (gflops, gbps, mb) = (flops as f64 / s / 1e9, bytes as f64 / s / 1e9, in_use as f64 / 1e6);
    let of = if origin.is_empty() { String::new() } else { format!("  {origin}") };
    eprintln!("{:40} {:10.1} us {gflops:8.1} GFLOP/s {gbps:8.1} GB/s {mb:8.1} MB in use{of}", name, s * 1e6);
}
