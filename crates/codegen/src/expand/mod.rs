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
pub mod reduce;
pub mod coalesce;
pub mod widths;

use frit_uop::{Alu, Arg, DType, Op, UOp};

/// Values combined pairwise, in a tree: the shortest chain.
fn combine(alu: Alu, mut values: Vec<UOp>) -> UOp {
    while values.len() > 1 {
        values = values
            .chunks(2)
            .map(|p| if p.len() == 2 { p[0].bin(alu, &p[1]) } else { p[0].clone() })
            .collect();
    }
    values.swap_remove(0)
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
