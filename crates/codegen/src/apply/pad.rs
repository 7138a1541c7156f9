//! Ranges that opts rounded up: what is beyond neither loads, nor stores, nor counts in a reduce.
//!
//! ```text
//! for i < 10 { y[i] = x[i] }   ->   for i < 12 { y[i if i < 10] = x[i if i < 10] }
//! ```
//! Where results may be computed twice, the last block begins earlier instead, and nothing needs a gate:
//!
//! ```text
//! for i < 10 { y[i] = sum(x[i, k], k) }   ->   for i < 12 { j = min(i/4*4, 6) + i%4; y[j] = sum(x[j, k], k) }
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, gated, is_zero_outside, slot, substitute_open, with_index};
use crate::kernel::ranges::{Replacement, closed, replace};
use crate::pass::Ctx;
use crate::plan::{Axis, Plan};
use frit_uop::{Alu, Arg, AxisKind, Op, Scalar, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// The ranges that are rounded up, by id.
struct Padded {
    /// The rounded range, and what takes the place of its value.
    ranges: FxHashMap<u32, Replacement>,
    /// Where it is inside.
    gates: FxHashMap<u32, UOp>,
    /// Its value with a last row again where there is none, for those of which rows are loaded so.
    clamped: FxHashMap<u32, UOp>,
    /// The parameters that the kernel writes.
    written: Vec<Option<u32>>,
}

/// The pass.
pub fn pad(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let plan = ctx.plan()?;
    let padded = Padded::of(plan);
    if padded.ranges.is_empty() {
        return Ok(sink.clone());
    }
    let nodes = replace(sink, &padded.ranges, |old, new| padded.mask(old, padded.clamp(old, new)));
    plan.follow(|n| nodes[n].clone());
    Ok(nodes[sink].clone())
}

impl Padded {
    fn of(plan: &Plan) -> Padded {
        let (mut ranges, mut gates, mut clamped) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        for (&id, part) in &plan.parts {
            let (Some(p), Some(a)) = (&part.padded, part.origin.range_arg()) else { continue };
            let (r, end) = (UOp::range(&p.extent, id, a.kind), part.origin.extent());
            let mut replacement = Replacement { value: r.clone(), ranges: smallvec![r.clone()] };
            if plan.can_overlap(id, p.multiple) {
                let n = UOp::index(p.multiple as i64);
                let begin = r.floordiv(&n).fold_mul(&n).bin(Alu::Min, &(end + -(p.multiple as i64)));
                replacement.value = begin + r.modulo(&n);
                ranges.insert(id, replacement);
                continue;
            }
            gates.insert(id, r.lt(end));
            // a range that may be empty has no last row
            let has_last = end.bounds.0 >= 1;
            if has_last && matches!(a.kind, AxisKind::Global | AxisKind::Loop) && can_clamp(plan, id) {
                clamped.insert(id, r.bin(Alu::Min, &(end + -1)));
            }
            ranges.insert(id, replacement);
        }
        let written = plan.ast.toposort().iter().filter(|n| n.op == Op::Store).map(slot).collect();
        Padded { ranges, gates, clamped, written }
    }

    /// Whether a load reads the last row again where padding has none, instead of nothing. Not from what the kernel writes
    /// itself: another thread may be writing that row.
    fn is_clamped(&self, load: &UOp, id: u32) -> bool {
        let far = |(buf, idx): (&UOp, &UOp)| {
            buf.op != Op::After && coefficient(idx, id).is_none_or(|c| c.abs() > 1)
        };
        self.clamped.contains_key(&id)
            && !self.written.contains(&slot(load))
            && load.buffer_and_index().is_some_and(far)
    }

    /// A load that is rebuilt, with its clamped ranges in its index.
    fn clamp(&self, old: &UOp, new: UOp) -> UOp {
        let Some((_, idx)) = new.buffer_and_index().filter(|_| new.op == Op::Load) else { return new };
        let mine = idx.ranges.iter().filter(|id| self.is_clamped(old, **id));
        let values: FxHashMap<u32, UOp> = mine.map(|id| (*id, self.clamped[id].clone())).collect();
        if values.is_empty() { new } else { with_index(&new, substitute_open(idx, &values)) }
    }

    /// Keep a rebuilt node from touching or counting what padding added.
    fn mask(&self, old: &UOp, new: UOp) -> UOp {
        let all =
            |ids: &[u32]| ids.iter().filter_map(|id| self.gates.get(id)).cloned().reduce(|a, b| a.and_(&b));
        match (old.op, old.buffer_and_index()) {
            (Op::Load, Some((_, idx))) => {
                let ids: SmallVec<[u32; 6]> =
                    idx.ranges.iter().copied().filter(|id| !self.is_clamped(old, *id)).collect();
                gated(new, all(&ids))
            }
            (Op::Store, Some(_)) => gated(new, all(&old.ranges)),
            (Op::Reduce, _) => {
                let ids = closed(old);
                let Some(gate) = all(&ids) else { return new };
                let mut masked = ids.iter().filter(|id| self.gates.contains_key(id));
                let is_sum = old.arg == Arg::Alu(Alu::Add);
                if is_sum && masked.all(|id| is_zero_outside(old.body(), *id)) {
                    return new;
                }
                let identity = |i: usize, dtype| match old.arg {
                    Arg::Alu(op) => Scalar::identity(op, dtype),
                    Arg::Fold(fold) => fold.merge.identity(i, dtype),
                    _ => None,
                };
                let mut src = new.src.clone();
                for (i, x) in src.iter_mut().enumerate().take(old.bodies().len()) {
                    let Some(none) = identity(i, x.dtype) else { return new };
                    *x = gate.select(x, &UOp::constant(none, x.dtype));
                }
                new.with_src(src)
            }
            _ => new,
        }
    }
}

/// Whether loads of rows along a range may read the last row again: results of such rows are not stored, and a load in
/// the innermost loop needs no gate. Not along vectors, which must stay side by side.
fn can_clamp(plan: &Plan, id: u32) -> bool {
    let is_vector = |a: &Axis| a.kind == AxisKind::Vector;
    plan.target.grid.is_none() && !plan.axes.iter().any(|a| a.origin == id && is_vector(a))
}
