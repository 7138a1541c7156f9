//! Launching a plan.

use crate::buffer::Buffer;
use crate::normalise::Normal;
use crate::plan::Plan;
use crate::{Error, capture, config, stats};
use frit_runtime::Memory;
use frit_schedule::BufRef;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Run every kernel of a plan on the buffers of a graph.
pub fn run(plan: &Plan, normal: &Normal, device: &Arc<str>) -> Result<(), Error> {
    let dev = frit_runtime::device(device)?;
    let debug = config::debug()?;
    let arena = dev.alloc(plan.schedule.arena_bytes)?;
    let temps = plan.schedule.temps.iter().map(|t| arena.view(t.offset, t.len * t.dtype.size()));
    let temps = temps.collect::<Result<Vec<Memory>, _>>()?;
    let recorded = capture::begin_run(device, &plan.schedule.temps);
    let (begin, mut total, mut done) = (Instant::now(), Duration::ZERO, (0, 0));
    for call in &plan.calls {
        let bufs =
            call.args.iter().map(|a| memory(*a, normal, &temps)).collect::<Result<Vec<&Memory>, _>>()?;
        let vars = call.kernel.vars.iter().map(|v| match normal.bindings.get(v) {
            Some(value) => Ok(*value),
            None => Err(Error::Graph(format!("variable {v} has no value: bind it"))),
        });
        let vars = vars.collect::<Result<Vec<i64>, _>>()?;
        let dims = call.kernel.dims(&normal.bindings)?;
        let (flops, bytes) = call.kernel.cost(&normal.bindings);
        stats::count_launch(bytes, flops);
        done = (done.0 + flops, done.1 + bytes);
        if debug >= 2 {
            let time = call.kernel.loaded.time(&bufs, &vars, dims)?;
            total += time;
            report(&call.kernel.name, time, flops, bytes, dev.memory_stats().in_use);
        } else {
            call.kernel.loaded.launch(&bufs, &vars, dims)?;
        }
        capture::launched(&call.kernel, &call.args, &normal.buffers, &normal.bindings, recorded);
    }
    dev.synchronize()?;
    if debug >= 1 {
        // the kernels' own times where each was waited for, else the whole run
        let s = if debug >= 2 { total } else { begin.elapsed() }.as_secs_f64().max(1e-9);
        let (gflops, gbps) = (done.0 as f64 / s / 1e9, done.1 as f64 / s / 1e9);
        eprintln!("{} kernels in {:.3} ms, {gflops:.1} GFLOP/s, {gbps:.1} GB/s", plan.calls.len(), s * 1e3);
    }
    Ok(())
}

fn memory<'a>(arg: BufRef, normal: &'a Normal, temps: &'a [Memory]) -> Result<&'a Memory, Error> {
    let missing = || Error::Graph("a kernel argument is not a buffer of its graph".into());
    match arg {
        BufRef::Param(i) => {
            let node = normal.buffers.get(i as usize).ok_or_else(missing)?;
            Buffer::of(node).map(|b| &b.memory).ok_or_else(missing)
        }
        BufRef::Temp(i) => temps.get(i as usize).ok_or_else(missing),
    }
}

/// One line for people.
pub(crate) fn report(name: &str, time: Duration, flops: u64, bytes: u64, in_use: usize) {
    let s = time.as_secs_f64().max(1e-9);
    eprintln!(
        "{:40} {:10.1} us {:8.1} GFLOP/s {:8.1} GB/s {:8.1} MB in use",
        name,
        s * 1e6,
        flops as f64 / s / 1e9,
        bytes as f64 / s / 1e9,
        in_use as f64 / 1e6
    );
}
