//! How the warps of a block share a product that a matrix unit computes: what each has of the results, and what they copy to
//! local memory for each other, ahead of the rounds that use it.
//!
//! ```text
//! for blocks of m, n { for rounds of k { copy A, B of a later round;  warps of 64 x 64 { for 16 of k { 4 x 8 operations } } } }
//! ```
//! Which shape: the least of an estimate in cycles over all of them.

use super::ways::{Applied, Ways};
use crate::plan::Plan;
use crate::plan::opt::{Opt, Order};
use crate::plan::shape::{After, Products, Shape};
use frit_uop::{AxisKind, DType, Op, Space, UOp};
use rustc_hash::FxHashSet;

/// Instructions of a function that the machine has none for.
const FUNCTION: usize = 64;

/// Shapes that are tried until one is legal.
const TRIED: usize = 4;

/// What happens to an element of the result after the sum.
fn after(plan: &Plan, ways: &Ways) -> After {
    let mut after = After { instructions: 0, bytes: 0 };
    // what is made of the sum
    let mut results: FxHashSet<UOp> = FxHashSet::default();
    for n in plan.ast.toposort() {
        let is_result = n.src.iter().any(|s| s.op == Op::Reduce || results.contains(s));
        if is_result {
            results.insert(n.clone());
        }
        match (n.op, n.op.alu()) {
            (_, Some(alu)) if is_result && n.dtype != DType::Bool => {
                let is_there = plan.target.supports(alu, n.dtype);
                after.instructions += if is_there { 1 } else { FUNCTION };
            }
            (Op::Store, _) => after.bytes += n.src[1].dtype.size(),
            (Op::Load, _) if ways.origins[..2].iter().all(|o| n.index().ranges.contains(o)) => {
                after.bytes += n.dtype.size();
            }
            _ => {}
        }
    }
    after
}
/// All shapes, the one with the least estimate first.
fn ranked(ways: &Ways, plan: &Plan, batches: usize) -> Vec<Shape> {
    let Some(grid) = plan.target.grid.as_ref() else { return vec![] };
    let products = Products { unit: ways.unit, sizes: ways.sizes, batches, after: after(plan, ways) };
    products.ranked(grid).into_iter().map(|(shape, _)| shape).collect()
}

/// Opts for a block of warps, applied; nothing where none are legal.
pub fn apply(ways: &Ways, done: &mut Applied, batches: usize) -> Option<()> {
    let before = (done.plan.clone(), done.opts.clone());
    for shape in ranked(ways, done.plan, batches).iter().take(TRIED) {
        if applied(ways, done, shape).is_some() {
            return Some(());
        }
        (*done.plan, done.opts) = before.clone();
    }
    None
}

/// Opts for the best shapes after the first.
pub fn alternatives(ways: &Ways, plan: &Plan, batches: usize, most: usize) -> Vec<Vec<Opt>> {
    let opts = |shape: &Shape| {
        let mut trial = plan.clone();
        let mut done = Applied { plan: &mut trial, opts: vec![] };
        applied(ways, &mut done, shape).map(|()| done.opts)
    };
    ranked(ways, plan, batches).iter().skip(1).filter_map(opts).take(most).collect()
}

fn applied(ways: &Ways, done: &mut Applied, shape: &Shape) -> Option<()> {
    for (d, n) in shape.size(&ways.unit).into_iter().enumerate() {
        if !ways.sizes[d].is_multiple_of(n) {
            let axis = done.find(ways.origins[d], None)?;
            done.take(Opt::Pad { axis, n })?;
        }
    }
    ways.take_unit(done)?;
    for d in 0..2 {
        for (n, kind) in [(shape.operations[d], AxisKind::Upcast), (shape.warps[d], AxisKind::Local)] {
            if n > 1 {
                let axis = done.find(ways.origins[d], Some(AxisKind::Global))?;
                done.take(Opt::Split { axis, n, kind, inner: true })?;
            }
        }
    }
    let axis = done.find(ways.origins[2], Some(AxisKind::Reduce))?;
    let rounds = done.plan.axes[axis].size()? / shape.depth;
    if shape.depth > 1 && rounds > 1 {
        done.take(Opt::Split { axis, n: shape.depth, kind: AxisKind::Reduce, inner: true })?;
    }
    let at = axis + usize::from(rounds > 1);
    if shape.depth > 1 {
        done.take(Opt::Split { axis: at, n: shape.depth, kind: AxisKind::Unroll, inner: true })?;
    }
    for operand in done.plan.matrix.as_ref()?.operands {
        let stage =
            |buffers| Opt::Stage { operand, at, space: Space::Local, order: Order::LoopOrder, buffers };
        done.take(stage(shape.buffers)).or_else(|| done.take(stage(1)))?;
    }
    Some(())
}
