//! Compute what several loops over a row need once, and keep it where the row's results will be.
//!
//! A kernel with reductions inside walks a row more than once. Reloads hit the cache, but recomputing can cost more than a
//! store and a reload: then a loop of its own writes the value to the output's row, and the others read it there. The row
//! is fetched while there is something to compute, and the last loop finds it in the cache.
//!
//! ```text
//! s = Reduce(exp(x[r] - m), r);  out[j] = exp(x[j] - m) / s
//!     ->   for f { out[f] = exp(x[f] - m) };   s = Reduce(out[r], r);   out[j] = out[j] / s
//! ```
//! Machines with blocks of lanes share rows in other ways; this is for threads that have a row each.

use crate::error::Error;
use crate::kernel::access::{coefficient, slot, substitute_open};
use crate::kernel::ranges::{self, closed};
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Work for each element from which it is kept, where an addition is 1: to store and to load again are about 3.
const WORTH: u32 = 8;
/// Rows shorter than this are not worth a loop.
const SHORTEST: i64 = 64;

/// The pass.
pub fn materialise(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let near = ctx.target.l2() / 4;
    Ok(find(sink, near).map_or_else(|| sink.clone(), |kept| sink.substitute(&kept)))
}

/// A value that two loops over equal extents compute: what takes the place of each time it is computed, and of the store.
fn find(sink: &UOp, near: usize) -> Option<FxHashMap<UOp, UOp>> {
    let order = sink.toposort();
    let mut reduces = order.iter().filter(|n| n.op == Op::Reduce && closed(n).len() == 1).peekable();
    reduces.peek()?;
    let store = the_store(&order)?;
    let all = ranges::all(&order);
    let there: FxHashSet<&UOp> = order.iter().collect();
    for reduce in reduces {
        let (id, range) = (closed(reduce)[0], &reduce.src[1]);
        let Some(n) = range.extent().as_int().filter(|n| *n >= SHORTEST) else { continue };
        let others: Vec<&UOp> = all.iter().filter(|r| *r != range && r.src[0] == range.src[0]).collect();
        // the whole body first, then what it is made of
        for value in reduce.src[0].toposort().iter().rev() {
            let fits = value.dtype == store.src[1].dtype && n as usize * value.dtype.size() <= near;
            if !fits || !value.op.is_elementwise() || weight(value, id).is_none_or(|w| w < WORTH) {
                continue;
            }
            let named = |to: &UOp| substitute_open(value, &[(id, to.clone())].into_iter().collect());
            let again = others.iter().map(|r| (named(r), *r)).filter(|(v, _)| there.contains(v));
            let uses: Vec<(UOp, &UOp)> = again.chain([(value.clone(), range)]).collect();
            let Some(last) = uses.iter().map(|u| u.1).find(|j| is_row(store, j, value, id)) else { continue };
            let rows: Vec<&UOp> = uses.iter().map(|u| u.1).filter(|r| *r != last).collect();
            // the last loop writes over what the others read
            if order.iter().any(|n| is_in(n, last) && rows.iter().any(|r| is_in(n, r))) {
                continue;
            }
            let next = 1 + all.iter().filter_map(|r| Some(r.range_arg()?.id)).max().unwrap_or(0);
            let fill = UOp::range(range.extent(), next, AxisKind::Loop);
            return Some(written_first(store, last, &uses, &fill, &named(&fill)));
        }
    }
    None
}

/// The only store of a kernel, to a parameter that it does not read.
fn the_store(order: &[UOp]) -> Option<&UOp> {
    let mut stores = order.iter().filter(|n| n.op == Op::Store);
    let (Some(store), None) = (stores.next(), stores.next()) else { return None };
    let (buf, idx) = store.buffer_and_index()?;
    let plain = store.src.len() == 2 && store.arg == Arg::None && buf.op == Op::Param;
    let is_read = |n: &UOp| n.op == Op::Load && slot(n) == slot(store);
    (plain && !idx.any(|n| n.op == Op::Invalid) && !order.iter().any(is_read)).then_some(store)
}

/// Whether the store writes, along `last`, a row for each row that there is of the value along `id`.
fn is_row(store: &UOp, last: &UOp, value: &UOp, id: u32) -> bool {
    let (Some((_, idx)), Some(j)) = (store.buffer_and_index(), last.range_arg().map(|a| a.id)) else {
        return false;
    };
    let outer = |n: &UOp, own: u32| -> Vec<u32> { n.ranges.iter().copied().filter(|r| *r != own).collect() };
    idx.ranges == store.ranges
        && store.ranges.contains(&j)
        && outer(store, j) == outer(value, id)
        && coefficient(idx, j).is_some_and(|c| c != 0)
}

fn is_in(n: &UOp, range: &UOp) -> bool {
    range.range_arg().is_some_and(|a| n.ranges.contains(&a.id))
}

/// A loop of its own writes the value to the row, the others read it there.
fn written_first(
    store: &UOp,
    last: &UOp,
    uses: &[(UOp, &UOp)],
    fill: &UOp,
    value: &UOp,
) -> FxHashMap<UOp, UOp> {
    let (buf, idx) = (store.buffer(), store.index());
    let j = last.range_arg().map_or(0, |a| a.id);
    let at = |r: &UOp| substitute_open(idx, &[(j, r.clone())].into_iter().collect());
    let row = buf.after([buf.at(&at(fill)).store(value).end([fill.clone()])]);
    let mut map: FxHashMap<UOp, UOp> = uses.iter().map(|(v, r)| (v.clone(), row.at(&at(r)).load())).collect();
    let result = store.src[1].substitute(&map);
    map.insert(store.clone(), row.at(idx).store(&result));
    map
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
