//! Kernel -> linear program.
//!
//! A kernel comes as loops over ranges around stores. The passes decide how it is walked (opts), rewrite it so, make
//! values explicit (copies, vectors, accumulators, local memory), decide widths, replace what the target lacks, and put
//! everything in one list. [`PASSES`] is that list of passes, as data; folders stand in its order, and each uses only
//! those before it.

#![forbid(unsafe_code)]

mod error;
mod kernel;
mod plan;
mod pass;
mod prepare;
mod choose;
mod apply;
mod expand;
mod decompose;
mod order;

pub use choose::alternatives;
pub use error::Error;
pub use kernel::verify::verify;
pub use pass::{Blocks, Ctx, Holds, Opts, Pass, Program, Run};
pub use plan::opt::{Opt, Order};
pub use plan::{Axis, Plan};

use frit_abi::Target;
use frit_abi::target::DTypeSet;
use frit_uop::rewrite::take_error;
use frit_uop::spec::Spec;
use frit_uop::{Linear, UOp};
use std::cell::OnceCell;
use std::time::{Duration, Instant};

const KERNEL: Holds = Holds::Graph(Spec::Kernel);
const EXPANDED: Holds = Holds::Graph(Spec::Expanded);
const PROGRAM: Holds = Holds::Graph(Spec::Program);
const LINEAR: Holds = Holds::Linear;

/// Which targets a pass is for.
type Targets = fn(&Target) -> bool;
const ALL: Targets = |_| true;
const CPUS: Targets = |t| t.grid.is_none();
const GRIDS: Targets = |t| t.grid.is_some();
const SCALAR: Targets = |t| t.vector_bytes == 0;
const PACKED: Targets = |t| t.packed != DTypeSet::default();
const VECTOR_CPUS: Targets = |t| t.grid.is_none() && t.vector_bytes > 0;

const fn row(name: &'static str, run: Run, holds: Holds, applies: Targets) -> Pass {
    Pass { name, run, holds, applies }
}

/// Every pass from scheduled kernel to linear program, in order.
#[rustfmt::skip]
pub const PASSES: &[Pass] = {
    use Run::*;
    &[
        //  name          function                                       legal afterwards  targets
        row("tile_and_fuse", Cut(prepare::tile_and_fuse::tile_and_fuse), KERNEL,          CPUS),
        row("online_softmax", Graph(prepare::online_softmax::online_softmax), KERNEL,     GRIDS),
        row("fuse_products", Graph(prepare::fuse_products::fuse_products), KERNEL,        GRIDS),
        row("carry",       Graph(prepare::carry::carry),                 KERNEL,           ALL),
        row("residues",    Graph(prepare::residues::residues),           KERNEL,           ALL),
        row("transpose_factor", Cut(prepare::transpose_factor::transpose_factor), KERNEL, VECTOR_CPUS),
        row("split_reduce", Cut(prepare::split_reduce::split_reduce),    KERNEL,           ALL),
        row("owners",      Graph(prepare::owners::owners),               KERNEL,           GRIDS),
        row("digits",      Graph(prepare::digits::digits),               KERNEL,           ALL),
        row("ranges",      Graph(prepare::ranges::ranges),               KERNEL,           ALL),
        row("materialise", Graph(prepare::materialise::materialise),     KERNEL,           VECTOR_CPUS),
        row("distribute",  Graph(prepare::distribute::distribute),       KERNEL,           VECTOR_CPUS),
        row("widen",       Graph(prepare::widen::widen),                 KERNEL,           VECTOR_CPUS),
        row("approximate", Graph(decompose::approximate::approximate),   KERNEL,           ALL),
        row("collapse",    Graph(choose::collapse::collapse),            KERNEL,           GRIDS),
        row("choose",      Graph(choose::choose),                        KERNEL,           ALL),
        row("pad",         Graph(apply::pad::pad),                       KERNEL,           ALL),
        row("split",       Graph(apply::split::split),                   KERNEL,           ALL),
        row("stage",       Graph(apply::stage::stage),                   KERNEL,           ALL),
        row("matrix",      Graph(apply::matrix::matrix),                 KERNEL,           ALL),
        row("dims",        Graph(expand::dims::dims),                    KERNEL,           ALL),
        row("bufferise",   Graph(expand::bufferise::bufferise),          EXPANDED,         ALL),
        row("expand",      Graph(expand::expand::expand),                EXPANDED,         ALL),
        row("gates",       Graph(expand::gates::gates),                  EXPANDED,         ALL),
        row("vectorise",   Graph(expand::vectorise::vectorise),          EXPANDED,         VECTOR_CPUS),
        row("group",       Graph(expand::group::group),                  EXPANDED,         GRIDS),
        row("scan",        Graph(expand::scan::scan),                    EXPANDED,         GRIDS),
        row("write_after_read", Graph(expand::write_after_read::write_after_read), EXPANDED, GRIDS),
        row("reduce",      Graph(expand::reduce::reduce),                EXPANDED,         ALL),
        row("coalesce",    Graph(expand::coalesce::coalesce),            EXPANDED,         SCALAR),
        row("widths",      Graph(expand::widths::widths),                PROGRAM,          ALL),
        row("decompose",   Graph(decompose::decompose),                  PROGRAM,          ALL),
        row("pack",        Graph(decompose::pack::pack),                 PROGRAM,          PACKED),
        row("skip",        Graph(order::skip::skip),                     PROGRAM,          ALL),
        row("linearise",   Order(order::linearise::linearise),           LINEAR,           ALL),
        row("unroll",      Steps(order::unroll::unroll),                 LINEAR,           GRIDS),
        row("pipeline",    Steps(order::pipeline::pipeline),             LINEAR,           GRIDS),
        row("overlap",     List(order::overlap::overlap),                LINEAR,           GRIDS),
        row("interleave",  Steps(order::interleave::interleave),         LINEAR,           VECTOR_CPUS),
        row("prefetch",    Steps(order::prefetch::prefetch),             LINEAR,           VECTOR_CPUS),
        row("join",        Join(order::join::join),                      LINEAR,           CPUS),
    ]
};

/// What a kernel becomes: programs that run one after the other, almost always one.
#[derive(Clone, PartialEq, Debug)]
pub struct Lowered {
    /// In order, each after all of the one before. All take the same parameters, and of the workspaces the first ones.
    pub programs: Vec<Linear>,
    /// Bytes of each memory for what they leave each other, which are the last of their parameters. Nothing in it outlives the
    /// kernel.
    pub workspaces: Vec<usize>,
    /// The opts that were applied to the one that they are for; others have the heuristic's.
    pub opts: Vec<Opt>,
}

impl std::fmt::Display for Lowered {
    /// The listings one after the other; of several each under a line that says so.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.programs.len();
        for (i, p) in self.programs.iter().enumerate() {
            match (count, i) {
                (1, _) => {}
                (_, 0) => writeln!(f, "program {} of {count}, workspaces {:?}", p.name, self.workspaces)?,
                _ => writeln!(f, "program {} of {count}", p.name)?,
            }
            write!(f, "{p}")?;
        }
        Ok(())
    }
}

/// A kernel as linear programs for a target.
pub fn lower(ast: &UOp, target: &Target, opts: Opts) -> Result<Lowered, Error> {
    lower_and_watch(ast, target, opts, false, &mut |_, _, _| {})
}

/// Sees each program of a kernel after every pass: its name, what it left, how long it took.
pub type Watch<'w> = &'w mut dyn FnMut(&'static str, &Program, Duration);

/// [`lower`], showing the kernel after every pass to `watch` and, if asked to, checking what it promises (as debug builds
/// do always).
pub fn lower_and_watch(
    ast: &UOp,
    target: &Target,
    opts: Opts,
    check: bool,
    watch: Watch,
) -> Result<Lowered, Error> {
    let mut lowered = Lowered { programs: vec![], workspaces: vec![], opts: vec![] };
    let one_thread = OnceCell::new();
    let mut ctx = Ctx::new(ast, target, opts);
    ctx.one_thread = Some(&one_thread);
    for (program, ctx) in run(PASSES, ast, ctx, check, watch)? {
        let Program::List(linear) = program else {
            return Err(Error::Kernel("no pass made a list of it".into()));
        };
        lowered.programs.push(linear);
        let bytes =
            |w: &UOp| w.shape().first().and_then(|n| n.as_int()).unwrap_or(0) as usize * w.dtype.size();
        if ctx.workspaces.len() > lowered.workspaces.len() {
            lowered.workspaces = ctx.workspaces.iter().map(bytes).collect();
        }
        if ctx.is_main {
            lowered.opts = ctx.applied;
        }
    }
    Ok(lowered)
}

fn run<'a>(
    passes: &[Pass],
    ast: &UOp,
    ctx: Ctx<'a>,
    check: bool,
    watch: Watch,
) -> Result<Vec<(Program, Ctx<'a>)>, Error> {
    let target = ctx.target;
    let mut programs = vec![(Program::Graph(ast.clone()), ctx)];
    // what others left is not a fault of these passes
    _ = take_error();
    for pass in passes.iter().filter(|p| (p.applies)(target)) {
        let mut next = Vec::with_capacity(programs.len());
        for (program, ctx) in pass.run_all(programs)? {
            let start = Instant::now();
            let new = pass.run(program, ctx)?;
            let time = start.elapsed();
            if let Some(e) = take_error() {
                return Err(pass.broken(&e.to_string()));
            }
            for (program, _) in &new {
                watch(pass.name, program, time);
                if check || cfg!(debug_assertions) {
                    pass.check(program, target)?;
                }
            }
            next.extend(new);
        }
        programs = next;
    }
    Ok(programs)
}

/// A kernel with these opts applied, to be looked at and continued: what the passes before `choose` make of it, the
/// program that opts are for where it is cut.
pub fn plan<'a>(ast: &UOp, target: &'a Target, opts: &[Opt]) -> Result<Plan<'a>, Error> {
    let before = PASSES.iter().position(|p| p.name == "choose").unwrap_or(0);
    let (cut, opts) = opts.split_at(opts.iter().take_while(|o| o.is_first()).count());
    let ctx = Ctx::new(ast, target, Opts::List(cut));
    let programs = run(&PASSES[..before], ast, ctx, false, &mut |_, _, _| {})?;
    let Some((Program::Graph(sink), _)) = programs.into_iter().find(|(_, ctx)| ctx.is_main) else {
        return Err(Error::Kernel("it is a list before opts are chosen".into()));
    };
    let mut plan = Plan::new(&sink, target)?;
    opts.iter().try_for_each(|o| plan.apply(o))?;
    Ok(plan)
}

/// At most `count` legal opts, one after the other, chosen by a seed: for tests and as a start for search.
pub fn random_opts(ast: &UOp, target: &Target, seed: u64, count: usize) -> Result<Vec<Opt>, Error> {
    if seed % 3 == 1
        && target.grid.is_none()
        && let Some(rows) = prepare::tile_and_fuse::random_rows(ast, seed)
    {
        return Ok(vec![Opt::TileAndFuse { rows }]);
    }
    if seed % 3 == 1
        && let Some(opt) = prepare::online_softmax::random_blocks(ast, target, seed / 3)
            .or_else(|| prepare::fuse_products::random_blocks(ast, target, seed / 3))
    {
        return Ok(vec![opt]);
    }
    // a fold every other time that there is one
    let first: &[Opt] = if seed % 2 == 1 && prepare::carry::applies(ast) { &[Opt::Fold] } else { &[] };
    let opts = choose::random::random_opts(plan(ast, target, first)?, seed, count)?;
    Ok(first.iter().cloned().chain(opts).collect())
}
