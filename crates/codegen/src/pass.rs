//! What a pass is, and what passes share.

use crate::error::Error;
use crate::kernel::{cost, verify};
use crate::plan::Plan;
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::spec::{self, Spec};
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, DType, Linear, Op, Step, UOp, text};
use std::cell::OnceCell;
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
    /// The opts that were applied, and what they make of the kernel's axes.
    pub(crate) applied: Vec<Opt>,
    pub(crate) plan: Option<Plan<'a>>,
    /// The kernel's parameters and variables, whether or not they survive.
    pub(crate) params: Vec<UOp>,
    pub(crate) vars: Vec<UOp>,
    /// What it does, counted before any opt.
    pub(crate) flops: UOp,
    pub(crate) bytes: UOp,
    /// The parameters for what programs of one kernel leave each other, which come last.
    pub(crate) workspaces: Vec<UOp>,
    /// Which of the programs that it is cut into its opts are for, and whether this is that one.
    pub(crate) main: usize,
    pub(crate) is_main: bool,
    /// The blocks that programs of this kernel run for, one after the other, to be one in the end.
    pub(crate) blocks: Option<Arc<Blocks>>,
    /// Room for the same machine as a program of a block sees it, which is one thread; made for the few kernels that are cut
    /// so.
    pub(crate) one_thread: Option<&'a OnceCell<Target>>,
    next_define: u32,
}

/// A kernel whose programs all run for a block before any runs for the next one.
#[derive(Debug)]
pub struct Blocks {
    /// How many there are.
    pub count: i64,
    /// The first parameter that is local memory, which ends with a block.
    pub first_local: u32,
    /// The opt that made them.
    pub opt: Opt,
    /// Name of the whole kernel.
    pub name: Arg,
    /// Its arithmetic operations.
    pub flops: UOp,
    /// Its bytes moved.
    pub bytes: UOp,
}

/// The variable that stands for the number of a block until its programs are one.
pub(crate) const BLOCK: &str = "block#";

impl<'a> Ctx<'a> {
    /// For one kernel.
    pub fn new(ast: &UOp, target: &'a Target, opts: Opts<'a>) -> Self {
        let order = ast.toposort();
        let of = |op: Op| order.iter().filter(|n| n.op == op).cloned().collect();
        let (flops, bytes) = cost::count(&order);
        let (params, vars) = (of(Op::Param), of(Op::Variable));
        let (applied, plan, workspaces, blocks, next_define) = (vec![], None, vec![], None, 0);
        Ctx {
            target,
            opts,
            applied,
            plan,
            params,
            vars,
            flops,
            bytes,
            workspaces,
            main: 0,
            is_main: true,
            blocks,
            one_thread: None,
            next_define,
        }
    }
    /// A parameter more for what programs of this kernel leave each other: so many elements.
    pub(crate) fn workspace(&mut self, len: usize, dtype: DType) -> UOp {
        let work = UOp::param(self.params.len() as u32, len, dtype);
        self.params.push(work.clone());
        self.workspaces.push(work.clone());
        work
    }
    /// For each program that a kernel was cut into: all take the same parameters, and the opts are for the main one, or the
    /// heuristic's for programs of a block.
    pub(crate) fn cut(self, programs: &[UOp]) -> Vec<Ctx<'a>> {
        if self.blocks.is_some() {
            let alone = || Target { threads: 1, ..self.target.clone() };
            let target = self.one_thread.map_or(self.target, |t| t.get_or_init(alone));
            let of_block = |sink: &UOp| {
                let (params, vars, blocks) = (self.params.clone(), self.vars.clone(), self.blocks.clone());
                Ctx { params, vars, blocks, ..Ctx::new(sink, target, Opts::Heuristic) }
            };
            return programs.iter().map(of_block).collect();
        }
        let part = |(i, sink): (usize, &UOp)| {
            let (params, vars) = (self.params.clone(), self.vars.clone());
            let is_main = self.is_main && i == self.main;
            let opts = if is_main { self.opts } else { Opts::Heuristic };
            let applied = if is_main { self.applied.clone() } else { vec![] };
            let workspaces = self.workspaces.clone();
            Ctx { params, vars, applied, workspaces, is_main, ..Ctx::new(sink, self.target, opts) }
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

/// A kernel of these effects, with what is added to a kernel's name.
pub(crate) fn named(effects: &[UOp], sink: &UOp, suffix: &str) -> UOp {
    let arg = match &sink.arg {
        Arg::Name(name) => Arg::Name(format!("{name}{suffix}").into()),
        other => other.clone(),
    };
    simplify(&UOp::new(Op::Sink, DType::Void, effects.iter().cloned(), arg))
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
    /// Rewrites the list, and may define registers.
    List(fn(Linear, &Target) -> Linear),
    /// Makes one list of those of a block.
    Join(fn(Vec<Linear>, &Blocks) -> Result<Linear, Error>),
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
            (Run::List(f), Program::List(linear)) => Program::List(f(linear, ctx.target)),
            (Run::Join(_), list @ Program::List(_)) => list,
            _ => return Err(self.broken("it stands where the kernel has another form")),
        };
        Ok(vec![(new, ctx)])
    }
    /// [`Pass::run`] over all programs of a kernel at once, if that is what it is for.
    pub(crate) fn run_all<'a>(
        &self,
        programs: Vec<(Program, Ctx<'a>)>,
    ) -> Result<Vec<(Program, Ctx<'a>)>, Error> {
        let blocks = programs.first().and_then(|(_, ctx)| ctx.blocks.clone());
        let (Run::Join(join), Some(blocks)) = (self.run, blocks) else { return Ok(programs) };
        let (programs, ctxs): (Vec<Program>, Vec<Ctx>) = programs.into_iter().unzip();
        let list = |p| if let Program::List(list) = p { Some(list) } else { None };
        let lists: Option<Vec<Linear>> = programs.into_iter().map(list).collect();
        let lists = lists.ok_or_else(|| self.broken("it stands where the kernel has another form"))?;
        let joined = Program::List(join(lists, &blocks)?);
        let ctx = ctxs.into_iter().next().map(|ctx| Ctx { applied: vec![blocks.opt.clone()], ..ctx });
        Ok(ctx.map(|ctx| (joined, ctx)).into_iter().collect())
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
