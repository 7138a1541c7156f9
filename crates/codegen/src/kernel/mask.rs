//! Where a mask begins and ends a loop: steps that it hides in all rows add nothing.

use super::access::{coefficient, substitute_open};
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;

/// The step from which on `along` gives none of these reduces anything in any row, if a mask says so. A mask is a value that is
/// minus infinity where a comparison of steps and rows holds, or does not.
///
/// ```text
/// Reduce(Where(row < along, -inf, x), along, Max)    row = 8 b + r, r in 0..8      ->     8 b + 8
/// ```
pub fn end_of(reduces: &[UOp], along: &UOp, row: Option<&UOp>) -> Option<UOp> {
    edge_of(reduces, along, row, Edge::End)
}

/// The step before which `along` gives none of these reduces anything in any row, if a mask says so; it may be below 0.
///
/// ```text
/// Reduce(Where(along < row, 0, x), along, Add)       row = 8 b + r, r in 0..8      ->     8 b
/// ```
pub fn begin_of(reduces: &[UOp], along: &UOp, row: Option<&UOp>) -> Option<UOp> {
    edge_of(reduces, along, row, Edge::Begin)
}

#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Begin,
    End,
}

fn edge_of(reduces: &[UOp], along: &UOp, row: Option<&UOp>, of: Edge) -> Option<UOp> {
    let moves = |n: &UOp| along.range_arg().is_some_and(|a| n.ranges.contains(&a.id));
    let nodes = reduces.first()?.body().toposort();
    nodes.iter().filter(|n| n.op == Op::Where && moves(n.condition())).find_map(|mask| {
        let is_hidden = |n: &UOp| n.as_scalar().is_some_and(|v| v.as_f64() == f64::NEG_INFINITY);
        let hides = [true, false].into_iter().find(|h| is_hidden(&mask.src[if *h { 1 } else { 2 }]))?;
        let vanishes = |n: &UOp| match n.arg {
            Arg::Alu(Alu::Max) => limit(n.body(), mask) == Some(f64::NEG_INFINITY),
            Arg::Alu(Alu::Add) => limit(n.body(), mask) == Some(0.0),
            _ => false,
        };
        reduces.iter().all(vanishes).then(|| edge(mask.condition(), hides, along, row, of)).flatten()
    })
}

/// The one value that a node has where a mask is minus infinity and all else is a number.
fn limit(n: &UOp, mask: &UOp) -> Option<f64> {
    if n == mask {
        return Some(f64::NEG_INFINITY);
    }
    let of = |k: usize| limit(&n.src[k], mask);
    match n.op {
        Op::Const => n.as_scalar().map(|v| v.as_f64()),
        Op::Cast if n.dtype.is_float() => of(0),
        Op::Add => [of(0), of(1)].into_iter().flatten().find(|v| *v == f64::NEG_INFINITY),
        Op::Sub => of(0).filter(|v| *v == f64::NEG_INFINITY),
        Op::Exp | Op::Exp2 => of(0).filter(|v| *v == f64::NEG_INFINITY).map(|_| 0.0),
        Op::Fdiv => of(0).filter(|v| *v == 0.0),
        Op::Mul => match (of(0), of(1)) {
            (Some(a), Some(b)) => Some(a * b),
            (a, b) => a.or(b).filter(|v| *v == 0.0),
        },
        // hidden as the mask is
        Op::Where if n.condition() == mask.condition() => {
            let is_hidden = |n: &UOp| n.as_scalar().is_some_and(|v| v.as_f64() == f64::NEG_INFINITY);
            of(if is_hidden(mask.if_true()) { 1 } else { 2 })
        }
        // another mask around it
        Op::Where => of(1).filter(|v| of(2) == Some(*v)),
        _ => None,
    }
}

/// The step from which on, or up to which, a comparison hides or shows nothing.
fn edge(gate: &UOp, hides: bool, along: &UOp, row: Option<&UOp>, of: Edge) -> Option<UOp> {
    let inner = |g: &UOp, hides: bool| edge(g, hides, along, row, of);
    match (gate.op, hides) {
        (Op::Not, _) => inner(gate.input(), !hides),
        (Op::And, false) | (Op::Or, true) => gate.src.iter().find_map(|g| inner(g, hides)),
        (Op::Lt, _) => {
            // it shows where this is 0 or more
            let (x, y) = (index(&gate.src[0])?, index(&gate.src[1])?);
            let shown = if hides { &x - &y } else { &y - &x - 1 };
            let id = along.range_arg()?.id;
            if coefficient(&shown, id)? != if of == Edge::End { -1 } else { 1 } {
                return None;
            }
            let mut at: FxHashMap<u32, UOp> = [(id, UOp::index(0))].into_iter().collect();
            if let Some(row) = row {
                let (id, last) = (row.range_arg()?.id, row.extent().as_int()? - 1);
                // the row that sees most
                let step = coefficient(&shown, id)?;
                at.insert(id, UOp::index(if step > 0 { last } else { 0 }));
            }
            let shown = substitute_open(&shown, &at);
            let edge = simplify(&if of == Edge::End { shown + 1 } else { UOp::index(0) - &shown });
            let is_known = |n: &UOp| matches!(n.op, Op::Const | Op::Variable) || n.op.is_elementwise();
            edge.toposort().iter().all(is_known).then_some(edge)
        }
        _ => None,
    }
}

/// Index arithmetic behind a cast that keeps its value.
fn index(n: &UOp) -> Option<UOp> {
    match n.op {
        _ if n.dtype == DType::Index => Some(n.clone()),
        Op::Const => Some(UOp::index(n.as_int()?)),
        Op::Cast if n.input().dtype == DType::Index => {
            let (low, high) = n.dtype.int_range()?;
            let inner = n.input();
            (inner.bounds.0 >= low && inner.bounds.1 <= high).then(|| inner.clone())
        }
        _ => None,
    }
}
