//! Kernel -> linear program.
//!
//! A kernel comes as loops over ranges around stores. The passes decide how it is walked (opts), write that out
//! (copies, vectors, accumulators, local memory), decide widths, replace what the target lacks, and put everything in
//! one list. [`PASSES`] is that list of passes, as data.

#![forbid(unsafe_code)]

pub mod access;
pub mod coalesce;
pub mod contract;
pub mod cost;
pub mod decompose;
pub mod dims;
pub mod error;
pub mod expand;
pub mod gates;
pub mod group;
pub mod heuristic;
mod interleave;
pub mod keep;
pub mod lanes;
pub mod linearise;
pub mod matrix;
pub mod opt;
mod pad;
mod prefetch;
pub mod ranges;
pub mod reduce;
pub mod shuffle;
pub mod squares;
pub mod stage;
mod tiles;
mod turns;
pub mod verify;
pub mod widths;

pub use error::Error;
pub use opt::{Layout, Opt, Plan};

use frit_abi::Target;
use frit_abi::sync::LazyLock;
use frit_uop::spec::{self, Spec};
use frit_uop::{Linear, Op, UOp};
use std::sync::Arc;

/// How the opts of a kernel are found.
#[derive(Clone, Copy, Debug)]
pub enum Opts<'a> {
    /// Chosen by looking at the kernel's accesses.
    Heuristic,
    /// Exactly these, in this order.
    List(&'a [Opt]),
}

/// What passes share.
pub struct Ctx<'a> {
    /// The machine.
    pub target: &'a Target,
    /// Where opts come from.
    pub opts: Opts<'a>,
    /// The opts that were applied.
    pub applied: Vec<Opt>,
    /// The kernel's parameters and variables, whether or not they survive.
    params: Vec<UOp>,
    vars: Vec<UOp>,
    name: Arc<str>,
    flops: UOp,
    bytes: UOp,
    next_define: u32,
}

impl<'a> Ctx<'a> {
    /// For one kernel.
    pub fn new(target: &'a Target, opts: Opts<'a>) -> Self {
        let (flops, bytes) = (UOp::index(0), UOp::index(0));
        let (applied, params, vars) = (vec![], vec![], vec![]);
        Ctx { target, opts, applied, params, vars, name: "kernel".into(), flops, bytes, next_define: 0 }
    }
    /// A number for a new `Define`.
    fn fresh(&mut self) -> u32 {
        self.next_define += 1;
        self.next_define - 1
    }
}

/// One pass.
pub struct Pass {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// What it does.
    pub run: fn(&UOp, &mut Ctx) -> Result<UOp, Error>,
    /// What holds afterwards.
    pub spec: Spec,
}

const fn pass(name: &'static str, run: fn(&UOp, &mut Ctx) -> Result<UOp, Error>, spec: Spec) -> Pass {
    Pass { name, run, spec }
}

/// Every pass from scheduled kernel to program graph, in order; `linearise` makes the list of it.
#[rustfmt::skip]
pub const PASSES: &[Pass] = &[
    //   name          function               legal afterwards
    pass("ranges",     ranges::ranges,        Spec::Kernel),
    pass("keep",       keep::keep,            Spec::Kernel),
    pass("opt",        opt::opt,              Spec::Kernel),
    pass("dims",       dims::dims,            Spec::Kernel),
    pass("stage",      stage::stage,          Spec::Expanded),
    pass("expand",     expand::expand,        Spec::Expanded),
    pass("gates",      gates::gates,          Spec::Expanded),
    pass("lanes",      lanes::lanes,          Spec::Expanded),
    pass("group",      group::group,          Spec::Expanded),
    pass("reduce",     reduce::reduce,        Spec::Expanded),
    pass("coalesce",   coalesce::coalesce,    Spec::Expanded),
    pass("widths",     widths::widths,        Spec::Program),
    pass("decompose",  |s, c| Ok(decompose::decompose(s, c.target)), Spec::Program),
];

/// A kernel as a linear program for a target.
pub fn lower(ast: &UOp, target: &Target, opts: Opts) -> Result<Linear, Error> {
    lower_and_watch(ast, target, opts, &mut |_, _| {}).map(|(linear, _)| linear)
}

/// [`lower`], showing the graph after every pass to `watch`; with the opts that were applied.
pub fn lower_and_watch(
    ast: &UOp,
    target: &Target,
    opts: Opts,
    watch: &mut dyn FnMut(&'static str, &UOp),
) -> Result<(Linear, Vec<Opt>), Error> {
    let mut ctx = Ctx::new(target, opts);
    let order = ast.toposort();
    ctx.params = order.iter().filter(|n| n.op == Op::Param).cloned().collect();
    ctx.vars = order.iter().filter(|n| n.op == Op::Variable).cloned().collect();
    (ctx.flops, ctx.bytes) = cost::count(ast);
    let mut sink = ast.clone();
    for p in PASSES {
        sink = (p.run)(&sink, &mut ctx)?;
        watch(p.name, &sink);
        if checking() {
            spec::check(&sink, p.spec).map_err(|e| Error::Pass { pass: p.name, message: e.to_string() })?;
        }
        if p.name == "opt" {
            ctx.name = cost::name(&sink);
        }
    }
    let linear = linearise::linearise(&sink, &ctx)?;
    if checking() {
        verify::verify(&linear, target)?;
    }
    Ok((linear, ctx.applied))
}

/// Whether every pass is checked: `FRIT_SPEC=1`, and in builds with debug assertions.
fn checking() -> bool {
    static ON: LazyLock<bool> =
        LazyLock::new(|| cfg!(debug_assertions) || std::env::var("FRIT_SPEC").is_ok_and(|v| v != "0"));
    *ON
}

/// A kernel with these opts applied, to be looked at and continued.
pub fn plan<'a>(ast: &UOp, target: &'a Target, opts: &[Opt]) -> Result<Plan<'a>, Error> {
    let mut ctx = Ctx::new(target, Opts::List(&[]));
    let sink = keep::keep(&ranges::ranges(ast, &mut ctx)?, &mut ctx)?;
    let mut plan = Plan::new(&sink, target)?;
    opts.iter().try_for_each(|o| plan.apply(o))?;
    Ok(plan)
}

/// Lists of opts besides the heuristic's that look good for a kernel, the best looking first: places for a search to
/// start from.
pub fn alternatives(plan: &Plan, most: usize) -> Vec<Vec<Opt>> {
    if plan.target.grid.is_some() { vec![] } else { contract::alternatives(plan, most) }
}

/// Every opt that is legal as the first one.
pub fn legal_opts(ast: &UOp, target: &Target) -> Result<Vec<Opt>, Error> {
    Ok(plan(ast, target, &[])?.legal())
}

/// At most `count` legal opts, one after the other, chosen by a seed: for tests and as a start for search.
pub fn random_opts(ast: &UOp, target: &Target, seed: u64, count: usize) -> Result<Vec<Opt>, Error> {
    let mut plan = plan(ast, target, &[])?;
    let (mut chosen, mut state) = (vec![], seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B);
    for _ in 0..count {
        let legal = plan.legal();
        if legal.is_empty() {
            break;
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // a matrix unit is one opt among hundreds, and should be seen more often than that
        let units: Vec<&Opt> = legal.iter().filter(|o| matches!(o, Opt::Matrix { .. })).collect();
        let of: Vec<&Opt> =
            if !units.is_empty() && state >> 60 & 3 == 0 { units } else { legal.iter().collect() };
        let opt = of[(state >> 33) as usize % of.len()].clone();
        plan.apply(&opt)?;
        chosen.push(opt);
    }
    Ok(chosen)
}

pub(crate) use frit_uop::symbolic::{simplify, simplify_given};
