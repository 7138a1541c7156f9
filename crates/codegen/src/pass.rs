//! What a pass is, and what passes share.

use crate::error::Error;
use crate::kernel::{cost, verify};
use crate::plan::Plan;
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::spec::{self, Spec};
use frit_uop::{Linear, Op, Step, UOp, text};

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
    /// The opts that were applied, and what they make of the kernel's axes.
    pub(crate) applied: Vec<Opt>,
    pub(crate) plan: Option<Plan<'a>>,
    /// The kernel's parameters and variables, whether or not they survive.
    pub(crate) params: Vec<UOp>,
    pub(crate) vars: Vec<UOp>,
    /// What it does, counted before any opt.
    pub(crate) flops: UOp,
    pub(crate) bytes: UOp,
    /// The parameter for what programs of one kernel leave each other.
    pub(crate) workspace: Option<UOp>,
    next_define: u32,
}

impl<'a> Ctx<'a> {
    /// For one kernel.
    pub fn new(ast: &UOp, target: &'a Target, opts: Opts<'a>) -> Self {
        let order = ast.toposort();
        let of = |op: Op| order.iter().filter(|n| n.op == op).cloned().collect();
        let (flops, bytes) = cost::count(&order);
        let (params, vars) = (of(Op::Param), of(Op::Variable));
        let (applied, plan, workspace, next_define) = (vec![], None, None, 0);
        Ctx { target, opts, applied, plan, params, vars, flops, bytes, workspace, next_define }
    }
    /// For each program that a kernel was cut into: all take the same parameters, and the opts are for the first.
    pub(crate) fn cut(self, programs: &[UOp]) -> Vec<Ctx<'a>> {
        let part = |(i, sink): (usize, &UOp)| {
            let (params, vars) = (self.params.iter().chain(&self.workspace).cloned(), self.vars.clone());
            let opts = if i == 0 { self.opts } else { Opts::Heuristic };
            let applied = if i == 0 { self.applied.clone() } else { vec![] };
            let workspace = self.workspace.clone();
            Ctx { params: params.collect(), vars, applied, workspace, ..Ctx::new(sink, self.target, opts) }
        };
        programs.iter().enumerate().map(part).collect()
    }
    /// A number for a new `Define`.
    pub(crate) fn fresh(&mut self) -> u32 {
        self.next_define += 1;
        self.next_define - 1
    }
    /// The plan that was chosen.
    pub(crate) fn plan(&mut self) -> Result<&mut Plan<'a>, Error> {
        self.plan.as_mut().ok_or_else(|| Error::Kernel("no opts were chosen for it".into()))
    }
}

/// A kernel between two passes.
pub enum Program {
    /// A graph.
    Graph(UOp),
    /// A list of steps.
    List(Linear),
}

impl std::fmt::Display for Program {
    /// Its listing, which parses back.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Program::Graph(sink) => f.write_str(&text::print(sink)),
            Program::List(linear) => linear.fmt(f),
        }
    }
}

/// What a pass does.
#[derive(Clone, Copy)]
pub enum Run {
    /// Makes one kernel or several of it, which run one after the other.
    Cut(fn(&UOp, &mut Ctx) -> Result<Vec<UOp>, Error>),
    /// Rewrites the graph.
    Graph(fn(&UOp, &mut Ctx) -> Result<UOp, Error>),
    /// Puts the graph in a list.
    Order(fn(&UOp, &mut Ctx) -> Result<Linear, Error>),
    /// Rewrites the steps of the list.
    Steps(fn(Vec<Step>, &Target) -> Vec<Step>),
}

/// What holds after a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// A graph of this level.
    Graph(Spec),
    /// A list in which everything is computed before it is used.
    Linear,
}

/// One pass.
pub struct Pass {
    /// Its name, which is its file's and its function's.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
    /// What holds afterwards.
    pub holds: Holds,
    /// Which targets it is for.
    pub applies: fn(&Target) -> bool,
}

impl Pass {
    pub(crate) fn run<'a>(
        &self,
        program: Program,
        mut ctx: Ctx<'a>,
    ) -> Result<Vec<(Program, Ctx<'a>)>, Error> {
        let new = match (self.run, program) {
            (Run::Cut(f), Program::Graph(sink)) => {
                let parts = f(&sink, &mut ctx)?;
                if parts.len() > 1 {
                    let all = ctx.cut(&parts).into_iter();
                    return Ok(parts.into_iter().map(Program::Graph).zip(all).collect());
                }
                parts.into_iter().next().map_or(Program::Graph(sink), Program::Graph)
            }
            (Run::Graph(f), Program::Graph(sink)) => Program::Graph(f(&sink, &mut ctx)?),
            (Run::Order(f), Program::Graph(sink)) => Program::List(f(&sink, &mut ctx)?),
            (Run::Steps(f), Program::List(mut linear)) => {
                linear.steps = f(linear.steps, ctx.target);
                Program::List(linear)
            }
            _ => return Err(self.broken("it stands where the kernel has another form")),
        };
        Ok(vec![(new, ctx)])
    }
    /// Whether it kept its promise.
    pub(crate) fn check(&self, program: &Program, target: &Target) -> Result<(), Error> {
        match (self.holds, program) {
            (Holds::Graph(level), Program::Graph(sink)) => {
                spec::check(sink, level).map_err(|e| self.broken(&e.to_string()))
            }
            (Holds::Linear, Program::List(linear)) => {
                verify::verify(linear, target).map_err(|e| self.broken(&e))
            }
            _ => Err(self.broken("the kernel has another form than it promises")),
        }
    }
    pub(crate) fn broken(&self, message: &str) -> Error {
        Error::Pass { pass: self.name, message: message.into() }
    }
}
