//! From a tensor graph to kernels: ranges through movement ops, fusion, order of effects, memory plan.
//!
//! In: a tensor-level `Sink` of `Store(view, value)`, buffers as numbered `Param`s, versions of a buffer as
//! `After(view, stores…)`. Out: a [`Schedule`]: kernel-level graphs in the order they run, each with the buffers its
//! local `Param`s stand for, and temporaries placed in one arena. [`PASSES`] is the pipeline.
//!
//! ```text
//! Store(out, ReduceAxis[Add 1](Mul(x, y)))
//!   -> Sink(End(Store(Index(p0, i), Reduce[Add](Mul(Load(Index(p1, i*8+r)), Load(Index(p2, i*8+r))), r)), i))
//! ```

#![forbid(unsafe_code)]

mod cost;
mod error;
mod fold;
mod group;
mod hazards;
mod index;
mod lower;
pub mod memory;
mod order;
mod plan;
mod prepare;
mod rangeify;
mod requests;
mod split;
mod versions;

pub use error::Error;

use frit_abi::{DType, Target};
use frit_uop::UOp;
use plan::Plan;
use std::time::{Duration, Instant};

/// Kernels in the order they run and the memory they share.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The kernels, in order.
    pub kernels: Vec<KernelCall>,
    /// Buffers that live only inside the schedule.
    pub temps: Vec<Temp>,
    /// Bytes of the arena that holds all temporaries.
    pub arena_bytes: usize,
}

impl Schedule {
    /// Bytes of memory needed besides the parameters while the kernels run.
    pub fn peak(&self) -> usize {
        self.arena_bytes
    }
}

/// One kernel and what it works on.
#[derive(Clone, Debug)]
pub struct KernelCall {
    /// A kernel-level `Sink` whose `Param`s are numbered by position in `args`.
    pub ast: UOp,
    /// The buffers, in the order of the local parameters.
    pub args: Vec<BufRef>,
}

/// A buffer of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BufRef {
    /// A parameter of the graph, by slot.
    Param(u32),
    /// A temporary, by position in [`Schedule::temps`].
    Temp(u32),
}

/// Memory for a value that lives only inside the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Temp {
    /// Element type.
    pub dtype: DType,
    /// Elements, by the greatest values of symbolic dims.
    pub len: usize,
    /// Place in the arena in bytes, 64-byte aligned.
    pub offset: usize,
}

/// One step of the pipeline.
pub struct Pass {
    /// The name of the pass and of its file.
    pub name: &'static str,
    run: fn(&mut Plan) -> Result<(), Error>,
}

/// Every pass from tensor graph to ordered kernels with planned memory.
pub const PASSES: &[Pass] = &[
    // tensor level
    Pass { name: "prepare", run: prepare::prepare },
    Pass { name: "split", run: split::split_long },
    Pass { name: "versions", run: versions::number_versions },
    // tensor level -> kernels
    Pass { name: "rangeify", run: rangeify::rangeify },
    // kernel level
    Pass { name: "fold", run: fold::fold_loops },
    Pass { name: "hazards", run: hazards::order_accesses },
    Pass { name: "group", run: group::group_kernels },
    Pass { name: "order", run: order::order_kernels },
    Pass { name: "memory", run: memory::plan_memory },
];

/// Schedule a tensor-level `Sink` for a target.
pub fn schedule(sink: &UOp, target: &Target) -> Result<Schedule, Error> {
    schedule_timed(sink, target, |_, _| {})
}

/// As [`schedule`], telling after each pass its name and how long it took.
pub fn schedule_timed(
    sink: &UOp,
    target: &Target,
    mut after: impl FnMut(&'static str, Duration),
) -> Result<Schedule, Error> {
    let mut plan = Plan::new(sink.clone(), target);
    for pass in PASSES {
        let start = Instant::now();
        (pass.run)(&mut plan)?;
        after(pass.name, start.elapsed());
    }
    Ok(plan.schedule)
}
