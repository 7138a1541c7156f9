//! Small floats side by side are computed two at a time, where the target has that.
//!
//! ```text
//! Stack(Add(a.0, b.0), Add(a.1, b.1))  ->  Add(a, b)        Stack(Cast(x), Cast(y))  ->  Cast(Stack(x, y))
//! ```
//! What goes out as one store is walked backwards, for as long as its lanes do the same.

use crate::error::Error;
use crate::pass::Ctx;
use frit_abi::Target;
use frit_uop::graph::Numbered;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, DType, Op, UOp};

/// Operations that are followed at most.
const DEPTH: usize = 64;

/// The pass.
pub fn pack(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let is_packed = |n: &UOp| n.op == Op::Stack && ctx.target.packed.has(n.dtype);
    if !sink.any(is_packed) {
        return Ok(sink.clone());
    }
    let done = Numbered::of(sink).map(|n, src| {
        let new = n.with_src(src);
        if !is_packed(&new) {
            return Ok(new);
        }
        let packed = side_by_side(new.src.to_vec(), ctx.target, DEPTH);
        replaced("computed in pairs", n, &packed);
        Ok(packed)
    })?;
    Ok(done.last().unwrap_or(sink).clone())
}

/// A vector of these values.
fn side_by_side(lanes: Vec<UOp>, target: &Target, depth: usize) -> UOp {
    let first = &lanes[0];
    if let Some(v) = whole(&lanes) {
        return v;
    }
    let is_like = |n: &UOp| {
        let same_types = n.src.iter().zip(&first.src).all(|(a, b)| a.dtype == b.dtype && a.lanes() == 1);
        n.op == first.op && n.arg == first.arg && n.src.len() == first.src.len() && same_types
    };
    let is_same = lanes.iter().all(|n| n == first);
    if depth == 0 || is_same || !is_parallel(first, target) || !lanes.iter().all(is_like) {
        return UOp::stack(lanes);
    }
    let operand = |k: usize| {
        let column: Vec<UOp> = lanes.iter().map(|n| n.src[k].clone()).collect();
        match column.iter().all(|n| *n == column[0]) {
            true => column[0].clone(),
            false if target.packed.has(column[0].dtype) => side_by_side(column, target, depth - 1),
            false => UOp::stack(column),
        }
    };
    let src: Vec<UOp> = (0..first.src.len()).map(operand).collect();
    UOp::new(first.op, first.dtype, src, first.arg.clone())
}

/// The vector whose lanes these are, in its order.
fn whole(lanes: &[UOp]) -> Option<UOp> {
    let v = lanes.first().filter(|n| n.op == Op::Lane)?.src[0].clone();
    let is_lane = |(i, n): (usize, &UOp)| n.op == Op::Lane && n.arg == Arg::Lane(i as u32) && n.src[0] == v;
    (v.lanes() == lanes.len() && lanes.iter().enumerate().all(is_lane)).then_some(v)
}

/// Whether an instruction does this to two values at once.
fn is_parallel(n: &UOp, target: &Target) -> bool {
    match n.op {
        Op::Cast => n.src[0].dtype == DType::F32 && target.converts.has(n.dtype),
        Op::Where => false,
        op => op.alu().is_some_and(|a| target.supports(a, n.dtype)),
    }
}
