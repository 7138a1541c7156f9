//! Ranges become the axes that opts made of them, with ids that say how the loops nest.
//!
//! ```text
//! x[i]   ->   x[i0*4 + i1]
//! ```

use crate::error::Error;
use crate::kernel::access::substitute_open;
use crate::kernel::ranges::{Replacement, replace};
use crate::pass::Ctx;
use frit_uop::UOp;
use rustc_hash::FxHashMap;

/// The pass.
pub fn split(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let plan = ctx.plan()?;
    let last = plan.ranges();
    let map: FxHashMap<u32, Replacement> = plan
        .parts
        .iter()
        .map(|(id, p)| {
            let mine = plan.axes.iter().filter(|a| a.origin == *id).map(|a| last[&a.id()].clone());
            (*id, Replacement { value: substitute_open(&p.value, &last), ranges: mine.collect() })
        })
        .collect();
    let nodes = replace(sink, &map, |_, n| n);
    plan.follow(|n| nodes[n].clone());
    Ok(nodes[sink].clone())
}
