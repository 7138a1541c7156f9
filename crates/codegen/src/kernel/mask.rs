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
    edge_of(reduces, &Side { along, row, edge: Edge::End, shown: Shown::ToSome })
}

/// The step before which `along` gives none of these reduces anything in any row, if a mask says so; it may be below 0.
///
/// ```text
/// Reduce(Where(along < row, 0, x), along, Add)       row = 8 b + r, r in 0..8      ->     8 b
/// ```
pub fn begin_of(reduces: &[UOp], along: &UOp, row: Option<&UOp>) -> Option<UOp> {
    edge_of(reduces, &Side { along, row, edge: Edge::Begin, shown: Shown::ToSome })
}

/// Steps that masks show to all rows.
#[derive(Default)]
pub struct Interior {
    /// Where they begin and end, if not where all steps do.
    pub begin: Option<UOp>,
    pub end: Option<UOp>,
    /// What the comparisons of the masks are there.
    pub decided: FxHashMap<UOp, UOp>,
}

impl Interior {
    /// Between the edges of all masks among these nodes.
    ///
    /// ```text
    /// Where(row < along, -inf, x)      row = 8 b + r, r in 0..8      ->     steps below 8 b + 1, where row < along is false
    /// ```
    pub fn of(nodes: &[UOp], along: &UOp, row: Option<&UOp>) -> Interior {
        let mut interior = Interior::default();
        for (mask, hides) in masks(nodes, along) {
            let mut conditions = vec![(mask.condition().clone(), hides)];
            while let Some((condition, hides)) = conditions.pop() {
                match parts(&condition, hides) {
                    Some(parts) => conditions.extend(parts.map(|(part, hides)| (part.clone(), hides))),
                    None => interior.narrow(&condition, hides, along, row),
                }
            }
        }
        interior
    }
    fn narrow(&mut self, condition: &UOp, hides: bool, along: &UOp, row: Option<&UOp>) {
        let at = |edge: Edge| Side { along, row, edge, shown: Shown::ToAll }.of(condition, hides);
        let both = |a: &mut Option<UOp>, b: UOp, op: Alu| {
            *a = Some(a.take().map_or(b.clone(), |a| simplify(&a.bin(op, &b))));
        };
        if let Some(end) = at(Edge::End) {
            both(&mut self.end, end, Alu::Min);
        } else if let Some(begin) = at(Edge::Begin) {
            both(&mut self.begin, begin, Alu::Max);
        } else {
            return;
        }
        self.decided.insert(condition.clone(), UOp::boolean(!hides));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Begin,
    End,
}

/// To which rows a step within an edge is shown.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    ToSome,
    ToAll,
}

/// An edge that is looked for.
struct Side<'a> {
    along: &'a UOp,
    row: Option<&'a UOp>,
    edge: Edge,
    shown: Shown,
}

/// Masks of steps, and whether they hide where their conditions hold.
fn masks<'a>(nodes: &'a [UOp], along: &UOp) -> impl Iterator<Item = (&'a UOp, bool)> {
    let id = along.range_arg().map(|a| a.id);
    let moves = move |n: &UOp| id.is_some_and(|id| n.ranges.contains(&id));
    nodes.iter().filter(move |n| n.op == Op::Where && moves(n.condition())).filter_map(|mask| {
        let hides = [true, false].into_iter().find(|h| is_hidden(&mask.src[if *h { 1 } else { 2 }]))?;
        Some((mask, hides))
    })
}

fn is_hidden(n: &UOp) -> bool {
    n.as_scalar().is_some_and(|v| v.as_f64() == f64::NEG_INFINITY)
}

fn edge_of(reduces: &[UOp], side: &Side) -> Option<UOp> {
    let nodes = reduces.first()?.body().toposort();
    masks(&nodes, side.along).find_map(|(mask, hides)| {
        let vanishes = |n: &UOp| match n.arg {
            Arg::Alu(Alu::Max) => limit(n.body(), mask) == Some(f64::NEG_INFINITY),
            Arg::Alu(Alu::Add) => limit(n.body(), mask) == Some(0.0),
            _ => false,
        };
        reduces.iter().all(vanishes).then(|| side.of(mask.condition(), hides)).flatten()
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
        Op::Where if n.condition() == mask.condition() => of(if is_hidden(mask.if_true()) { 1 } else { 2 }),
        // another mask around it
        Op::Where => of(1).filter(|v| of(2) == Some(*v)),
        _ => None,
    }
}

/// The conditions that a condition is made of, each of which hides what it hides by itself; none if it is a comparison.
fn parts(gate: &UOp, hides: bool) -> Option<impl Iterator<Item = (&UOp, bool)>> {
    let hides = match (gate.op, hides) {
        (Op::Not, _) => !hides,
        (Op::And, false) | (Op::Or, true) => hides,
        _ => return None,
    };
    Some(gate.src.iter().map(move |g| (g, hides)))
}

impl Side<'_> {
    /// The step from which on, or up to which, a condition hides or shows nothing.
    fn of(&self, gate: &UOp, hides: bool) -> Option<UOp> {
        if let Some(mut parts) = parts(gate, hides) {
            return parts.find_map(|(g, hides)| self.of(g, hides));
        }
        let (x, y) = if gate.op == Op::Lt { sides(&gate.src[0], &gate.src[1])? } else { return None };
        // it shows where this is 0 or more
        let shown = if hides { &x - &y } else { &y - &x - 1 };
        let id = self.along.range_arg()?.id;
        if coefficient(&shown, id)? != if self.edge == Edge::End { -1 } else { 1 } {
            return None;
        }
        let mut at: FxHashMap<u32, UOp> = [(id, UOp::index(0))].into_iter().collect();
        if let Some(row) = self.row {
            let (id, last) = (row.range_arg()?.id, row.extent().as_int()? - 1);
            // the row that sees most, or least
            let is_last = (coefficient(&shown, id)? > 0) == (self.shown == Shown::ToSome);
            at.insert(id, UOp::index(if is_last { last } else { 0 }));
        }
        let shown = substitute_open(&shown, &at);
        let edge = simplify(&if self.edge == Edge::End { shown + 1 } else { UOp::index(0) - &shown });
        is_known(&edge).then_some(edge)
    }
}

/// Whether a number is the same wherever ranges are.
fn is_known(n: &UOp) -> bool {
    let is_leaf = |n: &UOp| matches!(n.op, Op::Const | Op::Variable | Op::Load | Op::Index | Op::Param);
    n.ranges.is_empty() && n.toposort().iter().all(|n| is_leaf(n) || n.op.is_elementwise())
}

/// Both sides of a comparison as index arithmetic.
fn sides(x: &UOp, y: &UOp) -> Option<(UOp, UOp)> {
    match (index(x), index(y)) {
        (Some(x), Some(y)) => Some((x, y)),
        (Some(x), None) => from_data(y, &x).map(|y| (x, y)),
        (None, Some(y)) => from_data(x, &y).map(|x| (x, y)),
        (None, None) => None,
    }
}

/// A number from memory, as far as it matters to what it is compared with: so no sum of both wraps.
fn from_data(n: &UOp, other: &UOp) -> Option<UOp> {
    let (low, high) = (other.bounds.0.checked_sub(1)?, other.bounds.1.checked_add(1)?);
    let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
    let fits = n.dtype.int_range().is_some_and(|(_, most)| most <= i64::MAX.into());
    let clamped = || n.cast(DType::Index).bin(Alu::Max, &UOp::index(low)).bin(Alu::Min, &UOp::index(high));
    (fits && is_known(n)).then(clamped)
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
