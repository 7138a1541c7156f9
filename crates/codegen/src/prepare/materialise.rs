//! Compute what several loops over a row need once, and keep it in a stage.
//!
//! A kernel with reductions inside walks a row more than once. Reloads hit the cache, but recomputing can cost more than a
//! store and a reload: then a loop of its own fills a stage with the value, and the others read it there.
//!
//! ```text
//! s = Reduce(exp(x[r] - m), r);  out[j] = exp(x[j] - m) / s
//!     ->   row = Stage(exp(x[f] - m), f);   s = Reduce(row[r], r);   out[j] = row[j] / s
//! ```
//! Machines with blocks of lanes share rows in other ways; this is for threads that have a row each.

use crate::error::Error;
use crate::kernel::access::substitute_open;
use crate::kernel::ranges::{self, closed};
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Work for each element from which it is kept, where an addition is 1: to store and to load again are about 3.
const WORTH: u32 = 8;
/// Rows shorter than this are not worth a loop.
const SHORTEST: i64 = 64;

/// The pass.
pub fn materialise(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let near = ctx.target.l2() / 4;
    Ok(find(sink, near).map_or_else(|| sink.clone(), |kept| sink.substitute(&kept)))
}

/// A value that two loops over equal extents compute: what takes the place of each time it is computed.
fn find(sink: &UOp, near: usize) -> Option<FxHashMap<UOp, UOp>> {
    let order = sink.toposort();
    let mut reduces = order.iter().filter(|n| n.op == Op::Reduce && closed(n).len() == 1).peekable();
    reduces.peek()?;
    let all = ranges::all(&order);
    let there: FxHashSet<&UOp> = order.iter().collect();
    for reduce in reduces {
        let (id, range) = (closed(reduce)[0], &reduce.closed_ranges()[0]);
        let Some(n) = range.extent().as_int().filter(|n| *n >= SHORTEST) else { continue };
        let others: Vec<&UOp> = all.iter().filter(|r| *r != range && r.src[0] == range.src[0]).collect();
        // the whole body first, then what it is made of
        for value in reduce.src[0].toposort().iter().rev() {
            let fits = n as usize * value.dtype.size() <= near;
            if !fits || !value.op.is_elementwise() || weight(value, id).is_none_or(|w| w < WORTH) {
                continue;
            }
            let named = |to: &UOp| substitute_open(value, &[(id, to.clone())].into_iter().collect());
            let again = others.iter().map(|r| (named(r), *r)).filter(|(v, _)| there.contains(v));
            let uses: Vec<(UOp, &UOp)> = again.chain([(value.clone(), range)]).collect();
            let outer: SmallVec<[u32; 6]> = value.ranges.iter().copied().filter(|r| *r != id).collect();
            if uses.len() < 2 || !uses.iter().all(|(_, r)| is_row(&order, r, &outer)) {
                continue;
            }
            let fill = UOp::range(range.extent(), ranges::next_id(&order), AxisKind::Loop);
            let arg = Arg::Stage { space: Space::Local, id: fill.range_arg()?.id, buffers: 1 };
            let row = UOp::new(Op::Stage, value.dtype, [named(&fill), fill], arg);
            return Some(uses.iter().map(|(v, r)| (v.clone(), row.at(r).load())).collect());
        }
    }
    None
}

/// Whether every loop over a range is inside these loops and no others: it walks one row for each time they go round.
fn is_row(order: &[UOp], range: &UOp, outer: &[u32]) -> bool {
    let Some(id) = range.range_arg().map(|a| a.id) else { return false };
    order.iter().filter(|n| closed(n).contains(&id)).all(|n| {
        let around = n.src[0].ranges.iter().copied().filter(|r| *r != id);
        around.eq(outer.iter().copied())
    })
}

/// The work that a value costs for each iteration of a range; `None` where it may not be moved.
fn weight(value: &UOp, id: u32) -> Option<u32> {
    let mut sum = 0;
    for n in value.toposort().iter().filter(|n| n.ranges.contains(&id) || closed(n).contains(&id)) {
        sum += match n.op {
            Op::Reduce | Op::Scan | Op::Stage | Op::After => return None,
            Op::Load if n.arg != Arg::None => return None,
            _ if n.dtype.is_float() => n.op.weight(),
            _ => 0,
        };
    }
    Some(sum)
}
