//! Rows from loops over ranges to explicit values: hardware ids, local memory, copies, vectors, accumulators, widths.

pub mod dims;
mod banks;
pub mod bufferise;
#[expect(clippy::module_inception)]
pub mod expand;
pub mod gates;
mod shuffle;
mod transpose;
pub mod vectorise;
pub mod group;
pub mod scan;
pub mod write_after_read;
pub mod reduce;
pub mod coalesce;
pub mod widths;

use crate::error::Error;
use frit_uop::symbolic::simplify;
use frit_uop::{Arg, DType, Op, UOp, fold};

/// Partial results of a reduce combined, each with the values that it carries.
fn merged(reduce: &UOp, parts: Vec<Vec<UOp>>) -> Result<Vec<UOp>, Error> {
    match reduce.arg {
        Arg::Alu(alu) => Ok(fold::combined(alu, parts.into_iter().flatten()).into_iter().collect()),
        Arg::Fold(_) if parts.len() == 1 => Ok(parts.into_iter().flatten().collect()),
        Arg::Fold(fold) => Ok(fold.merge.merge(&parts).iter().map(simplify).collect()),
        _ => Err(Error::Kernel(format!("{reduce:?} combines nothing"))),
    }
}

/// A reduce of these values over ranges: all that it carries.
fn carried(reduce: &UOp, values: Vec<UOp>, ranges: &[UOp]) -> Vec<UOp> {
    match reduce.arg {
        Arg::Fold(fold) => UOp::fold(fold.merge, &values, ranges),
        Arg::Alu(alu) => values.iter().map(|x| x.reduce(alu, ranges.iter().cloned())).collect(),
        _ => values,
    }
}

/// Which of the values that it carries is the node's.
fn place_of(reduce: &UOp) -> usize {
    if let Arg::Fold(fold) = reduce.arg { fold.value as usize } else { 0 }
}

/// Where all lanes of a block meet, after these.
fn barrier(deps: Vec<UOp>) -> UOp {
    UOp::new(Op::Barrier, DType::Void, deps, Arg::None)
}

/// The `lidx` ids of a kernel, the fastest first.
fn lane_ids(order: &[UOp]) -> Vec<UOp> {
    let is_id = |n: &&UOp| matches!(&n.arg, Arg::Name(s) if n.op == Op::Special && s.starts_with("lidx"));
    let mut ids: Vec<UOp> = order.iter().filter(is_id).cloned().collect();
    ids.sort_by_key(|n| if let Arg::Name(s) = &n.arg { s.clone() } else { "".into() });
    ids
}

/// The lanes of a block as one number, and how many there are; over the `lidx` ids that `keep` accepts.
fn linear_lane(order: &[UOp], keep: impl Fn(&UOp) -> bool) -> (UOp, i64) {
    let (mut lane, mut count) = (UOp::index(0), 1);
    for n in lane_ids(order).into_iter().filter(|n| keep(n)) {
        lane = lane.fold_add(&n.fold_mul(&UOp::index(count)));
        count *= n.src[0].as_int().unwrap_or(1);
    }
    (lane, count)
}
