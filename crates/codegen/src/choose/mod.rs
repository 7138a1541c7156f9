//! From facts about a kernel to opts: which axis is a vector, which tile of results stays in registers, what is staged.
//!
//! Heuristics see how accesses move with axes, never the names of ops.

mod chooser;
mod vector;
mod tile;
mod transpose;
mod block;
mod digits;
mod grid;
mod contraction;
mod ways;
mod warps;
mod matrix;
pub mod collapse;
pub mod random;

use crate::error::Error;
use crate::pass::{Ctx, Opts};
use crate::plan::Plan;
use crate::plan::opt::Opt;
use chooser::Chooser;
use frit_uop::UOp;

/// The pass: choose opts if asked to, and what they make of the kernel's axes. The kernel stays as it is.
pub fn choose(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let mut plan = Plan::new(sink, ctx.target)?;
    let chosen = match ctx.opts {
        Opts::Heuristic => heuristic(&mut plan),
        Opts::List(list) => {
            list.iter().try_for_each(|o| plan.apply(o))?;
            list.to_vec()
        }
    };
    ctx.applied.extend(chosen);
    ctx.plan = Some(plan);
    Ok(sink.clone())
}

/// Choose opts, apply them, and say which.
fn heuristic(plan: &mut Plan) -> Vec<Opt> {
    if let Some(opts) = matrix::choose(plan) {
        return opts;
    }
    if plan.target.grid.is_some() {
        let mut c = Chooser::new(plan);
        c.grid();
        return c.applied;
    }
    contraction::choose(plan).unwrap_or_else(|| cpu(Chooser::new(plan)))
}

/// Vectors along the axes that make accesses cheapest; a register tile that loads least for what it computes; small
/// reduce axes unrolled; the loop that re-reads least outside, and its operand packed.
fn cpu(mut c: Chooser) -> Vec<Opt> {
    let vectors = c.vectorise();
    c.unroll_shared_work(&vectors);
    let tiled = c.tile(c.plan.target.registers, &vectors);
    if !tiled {
        c.block_transposes(&vectors);
        c.unroll_for_ilp(&vectors);
    }
    c.unroll();
    c.order_loops();
    if vectors.is_empty() {
        if !tiled && c.reduces.is_empty() {
            c.share_tables();
        }
        c.vectorise_copies();
    }
    c.applied
}

/// Lists of opts besides the heuristic's that look good for a kernel, the best looking first: places for a search to
/// start from.
pub fn alternatives(plan: &Plan, most: usize) -> Vec<Vec<Opt>> {
    match plan.target.grid {
        Some(_) => matrix::alternatives(plan, most),
        None => contraction::alternatives(plan, most),
    }
}
