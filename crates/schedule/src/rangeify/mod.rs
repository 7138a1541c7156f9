//! Ranges instead of views: tensor level in, staged graph out.
//!
//! ```text
//! Store(out, relu(x @ w))  ->  End(Store(Index(out, i*n+j), Max(Reduce(…), 0)), i, j)
//! ```
//! [`walk`] goes from the stores to the inputs and decides what is computed where; [`build`] makes the graph, sources
//! first. [`chain`] finds products that stay in one kernel with what they are made of, [`layout`] in which order dims lie
//! in memory. What they hand each other, and nothing after them sees, is in [`request`].

mod build;
mod chain;
mod layout;
mod record;
mod request;
mod walk;

use crate::error::Error;
use crate::plan::Plan;

/// Leaves no movement op and no axis behind: values that live in memory are `Stage`s, all others are inside kernels.
pub fn rangeify(plan: &mut Plan) -> Result<(), Error> {
    let mut cut = walk::walk(plan.list(), plan.target)?;
    let (sink, places) = build::build(&mut cut);
    plan.origins = record::origins(&cut, &places);
    plan.set_sink(sink);
    Ok(())
}
