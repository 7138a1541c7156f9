//! Make long reductions to few outputs, and long scans of few rows, parallel.
//!
//! ```text
//! sum over n              ->  sum over c of Contiguous(sum over n/c)          (+ the sum of what is left over)
//! scan over n             ->  scan inside chunks, scan of the chunks' totals, combine
//! ```
//! The work stays linear in n. Only static sizes are split.

use crate::error::Error;
use crate::index::{broadcast, max_numel};
use crate::plan::Plan;
use frit_abi::{Alu, Scalar, Target};
use frit_uop::graph::{NodeMap, rebuild};
use frit_uop::record::became;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, Op, UOp};

/// Reductions shorter than this are left alone.
const LONG_REDUCE: u64 = 32768;
/// Scans shorter than this are left alone.
const LONG_SCAN: i64 = 4096;

/// Outputs for each core of a CPU from which its threads are busy without splitting: several, so that they end together.
const OUTPUTS_A_THREAD: u64 = 8;
/// Outputs from which a grid is: a block each, and several blocks for each multiprocessor of the largest.
const OUTPUTS_OF_A_GRID: u64 = 1024;
/// Elements of a chunk, at least: below it the second sum is as long as the first.
const LEAST_IN_CHUNK: u64 = 64;
/// Chunks, at most, on a CPU and on a grid: enough for all cores, few enough that the second sum does not show.
const MOST_CHUNKS: [u64; 2] = [256, 1024];
/// Elements of a chunk of a scan, and the chunks that there are at least and at most.
const SCAN_CHUNK: i64 = 1024;
const SCAN_CHUNKS: [i64; 2] = [4, 256];

/// Long reductions and scans in the tensor graph become short ones.
pub fn split_long(plan: &mut Plan) -> Result<(), Error> {
    let target = plan.target;
    let split = |n: &UOp| match n.op {
        Op::ReduceAxis => split_reduce(n, target),
        Op::ScanAxis => split_scan(n, target),
        _ => None,
    };
    if plan.list().nodes.iter().all(|n| split(n).is_none()) {
        return Ok(());
    }
    let mut done = NodeMap::default();
    rebuild(plan.sink(), &mut done, |n| match split(&n) {
        Some(parts) => {
            replaced("a long one in parts", &n, &parts);
            parts
        }
        None => n,
    });
    became(done.iter());
    let sink = done[plan.sink()].clone();
    plan.set_sink(sink);
    Ok(())
}

/// How many outputs keep a target busy without splitting.
fn enough_outputs(target: &Target) -> u64 {
    if target.grid.is_some() { OUTPUTS_OF_A_GRID } else { OUTPUTS_A_THREAD * target.threads as u64 }
}

fn split_reduce(n: &UOp, target: &Target) -> Option<UOp> {
    let Arg::ReduceAxes(op, axes) = &n.arg else { return None };
    let x = &n.src[0];
    let dims: Vec<i64> = x.shape().iter().map(|d| d.as_int()).collect::<Option<_>>()?;
    let outputs = max_numel(n.shape());
    let length = axes.iter().fold(1u64, |l, &a| l.saturating_mul(dims[a as usize] as u64));
    // the largest axis, the outermost of equals
    let axis = axes.iter().map(|&a| a as usize).rev().max_by_key(|&a| dims[a])?;
    let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
    let size = dims[axis];
    if outputs >= enough_outputs(target) || length < LONG_REDUCE || folds_away(x) {
        return None;
    }
    let most = (length / LEAST_IN_CHUNK).min(MOST_CHUNKS[target.grid.is_some() as usize]) as i64;
    match chunks(size, most) {
        Some(c) => Some(in_chunks(x, *op, &axes, axis, c)),
        None if size >= 4 * most => {
            let main = size - size % most;
            let part = |begin: i64, len: i64| {
                let mut at: Vec<UOp> = dims.iter().map(|_| UOp::index(0)).collect();
                let mut to: Vec<UOp> = x.shape().to_vec();
                (at[axis], to[axis]) = (UOp::index(begin), UOp::index(len));
                x.shrink(&at, &to)
            };
            let most_of_it = in_chunks(&part(0, main), *op, &axes, axis, most);
            Some(most_of_it.bin(*op, &part(main, size - main).reduce_axes(*op, &axes)))
        }
        None => None,
    }
}

/// A selection by an index: `fold` removes the loop, so it must stay whole.
fn folds_away(x: &UOp) -> bool {
    x.op == Op::Where && matches!(x.src[0].op, Op::Eq | Op::Ne)
}

/// A number of chunks that divides n: the greatest divisor up to `most` if that is not much less.
fn chunks(n: i64, most: i64) -> Option<i64> {
    (most / 4..=most).rev().find(|&c| c > 1 && n % c == 0)
}

fn in_chunks(x: &UOp, op: Alu, axes: &[usize], axis: usize, c: i64) -> UOp {
    let mut dims: Vec<UOp> = x.shape().to_vec();
    let mut out = dims.clone();
    let n = dims[axis].as_int().unwrap_or(1);
    dims[axis] = UOp::index(n / c);
    dims.insert(axis, UOp::index(c));
    for &a in axes {
        out[a] = UOp::index(1);
    }
    let inner: Vec<usize> = axes.iter().map(|&a| if a >= axis { a + 1 } else { a }).collect();
    let partial = x.reshape(&dims).reduce_axes(op, &inner).contiguous();
    partial.reduce_axes(op, &[axis]).reshape(&out)
}

fn split_scan(n: &UOp, target: &Target) -> Option<UOp> {
    let Arg::ReduceAxes(op, axes) = &n.arg else { return None };
    let (x, axis) = (&n.src[0], *axes.first()? as usize);
    let dims: Vec<i64> = x.shape().iter().map(|d| d.as_int()).collect::<Option<_>>()?;
    let (len, rows) = (dims[axis], max_numel(x.shape()) / (dims[axis].max(1) as u64));
    if len < LONG_SCAN || rows >= enough_outputs(target) {
        return None;
    }
    let c = (len / SCAN_CHUNK).clamp(SCAN_CHUNKS[0], SCAN_CHUNKS[1]);
    let per = len.div_euclid(c) + (len % c != 0) as i64;
    let zeros: Vec<UOp> = dims.iter().map(|_| UOp::index(0)).collect();
    let mut after = zeros.clone();
    // zeros at the end reach only results that are cut off again
    after[axis] = UOp::index(per * c - len);
    let mut split: Vec<UOp> = x.shape().to_vec();
    (split[axis], _) = (UOp::index(c), split.insert(axis + 1, UOp::index(per)));
    let local = x.pad(&zeros, &after).reshape(&split).scan_axis(*op, axis + 1).contiguous();
    // totals of all chunks but the last, scanned; chunk k continues from total k-1
    let mut begin: Vec<UOp> = split.iter().map(|_| UOp::index(0)).collect();
    let mut size = split.clone();
    (begin[axis + 1], size[axis + 1], size[axis]) = (UOp::index(per - 1), UOp::index(1), UOp::index(c - 1));
    let totals = local.shrink(&begin, &size).scan_axis(*op, axis).contiguous();
    let none: Vec<UOp> = split.iter().map(|_| UOp::index(0)).collect();
    let mut one = none.clone();
    one[axis] = UOp::index(1);
    let mut carried = totals.pad(&one, &none);
    if *op != Alu::Add {
        let mut line: Vec<UOp> = split.iter().map(|_| UOp::index(1)).collect();
        line[axis] = UOp::index(c);
        let first = UOp::iota(&UOp::index(c), frit_abi::DType::I32).lt(&UOp::int(1, frit_abi::DType::I32));
        let identity = UOp::constant(Scalar::identity(*op, n.dtype)?, n.dtype);
        let first = first.reshape(&line).expand(carried.shape());
        carried = first.select(&broadcast(&identity, carried.shape()), &carried);
    }
    let mut whole: Vec<UOp> = x.shape().to_vec();
    whole[axis] = UOp::index(per * c);
    Some(carried.expand(&split).bin(*op, &local).reshape(&whole).shrink(&zeros, x.shape()))
}
