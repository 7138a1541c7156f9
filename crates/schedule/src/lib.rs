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

mod error;
mod record;
mod index;
mod cost;
mod kernels;
mod products;
mod plan;

// passes, in order
mod prepare;
mod split;
mod versions;

mod rangeify;

mod fold;
mod hazards;

mod group;

mod build_kernels;
pub mod memory;

pub use error::Error;

use frit_abi::{DType, Target};
use frit_uop::UOp;
use frit_uop::rewrite::take_error;
use frit_uop::spec::{self, Spec};
use plan::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kernels in the order they run and the memory they share.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The kernels, in order.
    pub kernels: Vec<KernelCall>,
    /// Buffers that live only inside the schedule.
    pub temps: Vec<Temp>,
    /// The place of each of them in the arena in bytes, 64-byte aligned.
    pub offsets: Vec<usize>,
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
    /// The parts of the program that it belongs to, where someone wants to know.
    pub origin: Arc<str>,
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
}

/// One step of the pipeline.
pub struct Pass {
    /// The name of the pass and of its file.
    pub name: &'static str,
    run: fn(&mut Plan) -> Result<(), Error>,
    /// What the graph is afterwards.
    pub legal: Spec,
}

const fn pass(name: &'static str, run: fn(&mut Plan) -> Result<(), Error>, legal: Spec) -> Pass {
    Pass { name, run, legal }
}

/// Every pass from tensor graph to ordered kernels with planned memory.
#[rustfmt::skip]
pub const PASSES: &[Pass] = &[
    //   name             function                         legal afterwards
    pass("prepare",       prepare::prepare,                Spec::Tensor),
    pass("split",         split::split_long,               Spec::Tensor),
    pass("versions",      versions::chain_versions,        Spec::Tensor),
    pass("rangeify",      rangeify::rangeify,              Spec::Staged),
    pass("fold",          fold::fold_loops,                Spec::Staged),
    pass("hazards",       hazards::resolve_hazards,        Spec::Staged),
    pass("group",         group::group_kernels,            Spec::Staged),
    // the graph stays; the schedule is made of it
    pass("build_kernels", build_kernels::build_kernels,    Spec::Staged),
    pass("memory",        memory::plan_memory,             Spec::Staged),
];

/// Schedule a tensor-level `Sink` for a target.
pub fn schedule(sink: &UOp, target: &Target) -> Result<Schedule, Error> {
    schedule_and_watch(sink, target, false, |_, _, _| {})
}

/// As [`schedule`], telling after each pass its name, the graph it left and how long it took; if asked to, what it left is
/// checked against what it promises.
pub fn schedule_and_watch(
    sink: &UOp,
    target: &Target,
    check: bool,
    after: impl FnMut(&'static str, &UOp, Duration),
) -> Result<Schedule, Error> {
    run(PASSES, Plan::new(sink.clone(), target), check, after)
}

fn run(
    passes: &[Pass],
    mut plan: Plan,
    check: bool,
    mut after: impl FnMut(&'static str, &UOp, Duration),
) -> Result<Schedule, Error> {
    // what others left is not a fault of these passes
    _ = take_error();
    for pass in passes {
        let start = Instant::now();
        (pass.run)(&mut plan)?;
        let time = start.elapsed();
        let broken = |message: String| Error::Pass { pass: pass.name, message };
        if let Some(e) = take_error() {
            return Err(broken(e.to_string()));
        }
        after(pass.name, plan.sink(), time);
        if check && plan.has_changed() {
            spec::check(plan.sink(), pass.legal).map_err(|e| broken(e.to_string()))?;
        }
    }
    Ok(plan.schedule)
}

/// Some passes, in this order, on a graph as the pass before the first leaves it: what they make of it, and the schedule
/// where `build_kernels` is among them. A name that is no row is an error.
pub fn run_passes(names: &[&str], sink: &UOp, target: &Target) -> Result<(UOp, Schedule), Error> {
    let mut plan = Plan::new(sink.clone(), target);
    for name in names {
        let pass = PASSES.iter().find(|p| p.name == *name);
        (pass.ok_or_else(|| Error::Malformed(format!("there is no pass {name}")))?.run)(&mut plan)?;
    }
    Ok((plan.sink().clone(), plan.schedule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_uop::Op;
    use frit_uop::rewrite::rewrite;
    use frit_uop::rules::Matcher;

    // not one of the compiler's tables, which have tests of their own
    frit_uop::rules! { ENDLESS;
        Flip(x) as n => x.flip(&[0]).contiguous().flip(&[n.shape().len() - 1]);
    }
    fn message(run_one: fn(&mut Plan) -> Result<(), Error>) -> String {
        let x = UOp::param(1, 8, DType::F32).flip(&[0]);
        let sink = UOp::sink([UOp::param(0, 8, DType::F32).store(&x)]);
        let passes = [pass("one", run_one, Spec::Tensor)];
        run(&passes, Plan::new(sink, &Target::interp()), true, |_, _, _| {}).unwrap_err().to_string()
    }

    #[test]
    fn a_rule_that_loops_is_an_error_that_names_the_pass() {
        let e = message(|plan| {
            plan.set_sink(rewrite(plan.sink(), &Matcher::new(&[&ENDLESS], &[]), &mut ()));
            Ok(())
        });
        assert!(e.starts_with("pass one: rewriting does not end: Flip(x)"), "{e}");
    }
    #[test]
    fn what_a_pass_must_not_leave_is_an_error_that_names_the_pass() {
        let e = message(|plan| {
            plan.set_sink(UOp::sink([UOp::new(Op::Barrier, DType::Void, [], frit_uop::Arg::None)]));
            Ok(())
        });
        assert!(e.starts_with("pass one: ") && e.contains("Barrier"), "{e}");
    }
}
