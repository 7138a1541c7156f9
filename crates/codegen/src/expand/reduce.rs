//! Reduces and scans become register variables carried over loops.
//!
//! ```text
//! Reduce(x, r)   ->   acc = identity;  for r { acc = acc (+) x };  acc
//! Scan(x, r)     ->   acc = identity;  for r { acc = acc (+) x;  … acc … }
//! ```
//! A product meets its sum in one fused multiply-add.

use crate::error::Error;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_abi::Target;
use frit_uop::graph::Numbered;
use frit_uop::{Alu, Arg, Op, Scalar, Space, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The pass. Leaves no `Reduce` and no `Scan` behind.
pub fn reduce(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let graph = Numbered::of(sink);
    let order = &graph.nodes;
    if !order.iter().any(|n| matches!(n.op, Op::Reduce | Op::Scan)) {
        return Ok(sink.clone());
    }
    let all: FxHashMap<u32, UOp> =
        ranges::all(order).into_iter().filter_map(|r| Some((r.range_arg()?.id, r))).collect();
    // copies of a reduce share its loops, so all stand where any of them must: one may have lost its body to a mask
    let mut around: FxHashMap<u32, SmallVec<[u32; 6]>> = FxHashMap::default();
    for n in order.iter().filter(|n| n.op == Op::Reduce) {
        for id in ranges::closed(n) {
            let ids = around.entry(id).or_default();
            ids.extend(n.ranges.iter().copied());
            ids.sort_unstable();
            ids.dedup();
        }
    }
    // a scan begins anew in every round of the loops around its own, though it may not look at them
    for (id, others) in ranges::around_scans(order) {
        around.entry(id).or_default().extend(others);
    }
    let done = graph.map(|n, src| match n.op {
        Op::Reduce | Op::Scan => to_accumulator(n, &src, &all, &around, ctx),
        _ => Ok(n.with_src(src)),
    })?;
    Ok(done.last().unwrap_or(sink).clone())
}

fn to_accumulator(
    n: &UOp,
    src: &[UOp],
    all: &FxHashMap<u32, UOp>,
    around: &FxHashMap<u32, SmallVec<[u32; 6]>>,
    ctx: &mut Ctx,
) -> Result<UOp, Error> {
    let Arg::Alu(alu) = n.arg else { return Err(Error::Kernel(format!("{n:?} combines nothing"))) };
    let identity = Scalar::identity(alu, n.dtype)
        .ok_or_else(|| Error::Kernel(format!("{alu:?} of {} has no identity", n.dtype)))?;
    let (loops, parts): (Vec<UOp>, Vec<UOp>) = src.iter().cloned().partition(|s| s.op == Op::Range);
    if loops.is_empty() {
        return Ok(accumulate(alu, &parts[0], &parts[1..], ctx.target));
    }
    let is_mine = |id: &u32| loops.iter().any(|r| r.range_arg().is_some_and(|a| a.id == *id));
    let closed: Vec<u32> = loops.iter().filter_map(|r| Some(r.range_arg()?.id)).collect();
    let mut outer: SmallVec<[u32; 6]> = n.ranges.iter().copied().filter(|id| !is_mine(id)).collect();
    outer.extend(closed.iter().filter_map(|id| around.get(id)).flatten().copied());
    outer.sort_unstable();
    outer.dedup();
    let outer = outer.iter().filter_map(|id| all.get(id).cloned());
    let w = parts.iter().map(|x| x.lanes()).max().unwrap_or(1);
    let acc = UOp::define(Space::Reg, ctx.fresh(), w, n.dtype);
    let zero = UOp::constant(identity, n.dtype);
    let zero = if w > 1 { UOp::stack((0..w).map(|_| zero.clone())) } else { zero };
    let init = acc.after(outer).store(&zero);
    let inside = acc.after([init].into_iter().chain(loops.iter().cloned()));
    let before = UOp::new(Op::Load, n.dtype, [inside.clone()], Arg::None);
    let update = inside.store(&accumulate(alu, &before, &parts, ctx.target));
    let done = if n.op == Op::Scan { update } else { update.end(loops.iter().cloned()) };
    Ok(UOp::new(Op::Load, n.dtype, [acc.after([done])], Arg::None))
}

/// `acc (+) x0 (+) x1 …`, in this order.
fn accumulate(alu: Alu, acc: &UOp, parts: &[UOp], target: &Target) -> UOp {
    let fused = alu == Alu::Add && acc.dtype.is_float() && target.supports(Alu::MulAcc, acc.dtype);
    parts.iter().fold(acc.clone(), |acc, p| match p.op {
        Op::Matrix => p.with_src(p.src[..2].iter().cloned().chain([acc]).collect()),
        Op::Mul if fused => UOp::alu(Alu::MulAcc, &[&p.src[0], &p.src[1], &acc]),
        _ => acc.bin(alu, p),
    })
}
