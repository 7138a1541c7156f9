//! What a kernel does, counted before any opt: arithmetic, bytes, a name.

use super::access::slot;
use super::ranges::{all, closed};
use frit_uop::{Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// On a grid: results below which the lanes of a block share the reduce of each.
pub const FEW_RESULTS: u64 = 4096;
/// On a grid: lanes of a block, at most.
pub const MOST_LANES: u64 = 256;

/// On a grid: elements of a row that a lane keeps in registers for the loops that go over it.
pub const ROW_ELEMENTS: usize = 64;

/// How often a node inside these ranges is computed.
fn times(ids: impl Iterator<Item = u32>, extents: &FxHashMap<u32, UOp>) -> UOp {
    ids.filter_map(|id| extents.get(&id)).fold(UOp::index(1), |n, e| n.fold_mul(e))
}

/// Float and integer operations on data, and bytes that must move at least once, both over the kernel's variables.
pub fn count(order: &[UOp]) -> (UOp, UOp) {
    let extents: FxHashMap<u32, UOp> =
        all(order).into_iter().filter_map(|r| Some((r.range_arg()?.id, r.extent().clone()))).collect();
    let mut flops = UOp::index(0);
    // the largest region of each parameter that one access walks, for reading and for writing
    let mut regions: FxHashMap<(u32, bool), (UOp, i64)> = FxHashMap::default();
    for n in order {
        match n.op {
            Op::Reduce => {
                let ids = n.ranges.iter().copied().chain(closed(n));
                flops = flops.fold_add(&times(ids, &extents));
            }
            Op::Load | Op::Store => {
                let (Some((buf, idx)), Some(slot)) = (n.buffer_and_index(), slot(n)) else { continue };
                let region = times(idx.ranges.iter().copied(), &extents);
                let entry = regions.entry((slot, n.op == Op::Store));
                let bytes = buf.dtype.size() as i64;
                let len = buf.shape().first().and_then(|d| d.as_int()).unwrap_or(i64::MAX);
                let region = if region.bounds.1 > len as i128 { UOp::index(len) } else { region };
                let new = (region.clone(), bytes);
                entry
                    .and_modify(|old| {
                        if old.0.bounds.1 < region.bounds.1 {
                            *old = new.clone()
                        }
                    })
                    .or_insert(new);
            }
            op if op.alu().is_some()
                && !matches!(n.dtype, frit_uop::DType::Index | frit_uop::DType::Bool) =>
            {
                flops = flops.fold_add(&times(n.ranges.iter().copied(), &extents));
            }
            _ => {}
        }
    }
    let mut regions: Vec<_> = regions.into_iter().collect();
    regions.sort_by_key(|(k, _)| *k);
    let bytes = regions
        .iter()
        .fold(UOp::index(0), |sum, (_, (region, size))| sum.fold_add(&region.fold_mul(&UOp::index(*size))));
    (flops, bytes)
}

/// A name that shows the axes: `r_64_32_4` reduces, `s_…` scans, `e_…` does neither; `v` is an extent known at launch.
pub fn name(sink: &UOp) -> Arc<str> {
    let order = sink.toposort();
    let kind = match () {
        _ if order.iter().any(|n| n.op == Op::Scan) => "s",
        _ if order.iter().any(|n| n.op == Op::Reduce) => "r",
        _ => "e",
    };
    let mut name = kind.to_string();
    for r in all(&order) {
        let part = if r.range_arg().is_some_and(|a| a.kind.is_in_registers()) { "x" } else { "" };
        let extent = r.extent().as_int().map_or("v".to_string(), |n| n.to_string());
        name += &format!("_{part}{extent}");
    }
    name.into()
}
