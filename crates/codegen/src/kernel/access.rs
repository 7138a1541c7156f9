//! How an index moves with a range: what the heuristic, the lane choice and coalescing look at.

use frit_uop::symbolic::simplify;
use frit_uop::symbolic::sum::gcd;
use frit_uop::{Arg, AxisKind, DType, Op, Scalar, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// How much the index grows for each step of range `id`: `idx = rest + c * range` exactly, with `rest` free of it.
/// `None` where it is not of that form. A gate in the index (`Where(g, i, Invalid)`) does not count.
pub fn coefficient(idx: &UOp, id: u32) -> Option<i64> {
    if !idx.ranges.contains(&id) {
        return Some(0);
    }
    match idx.op {
        Op::Range => Some((idx.range_arg()?.id == id) as i64),
        Op::Add => coefficient(idx.lhs(), id)?.checked_add(coefficient(idx.rhs(), id)?),
        Op::Sub => coefficient(idx.lhs(), id)?.checked_sub(coefficient(idx.rhs(), id)?),
        Op::Neg => coefficient(idx.input(), id)?.checked_neg(),
        Op::Mul => match (idx.lhs().as_int(), idx.rhs().as_int()) {
            (_, Some(c)) => coefficient(idx.lhs(), id)?.checked_mul(c),
            (Some(c), _) => coefficient(idx.rhs(), id)?.checked_mul(c),
            _ => None,
        },
        Op::Where if idx.if_false().op == Op::Invalid => coefficient(idx.if_true(), id),
        _ => None,
    }
}

/// How an index grows with a range that it may be made of digits of: by how much with most steps, and for how many in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    pub step: i64,
    pub run: i64,
}

/// How the index walks along range `id`; `None` where that is not known.
pub fn walk(idx: &UOp, id: u32) -> Option<Walk> {
    if let Some(step) = coefficient(idx, id) {
        return Some(Walk { step, run: i64::MAX });
    }
    let both = |f: fn(i64, i64) -> Option<i64>| {
        let (a, b) = (walk(idx.lhs(), id)?, walk(idx.rhs(), id)?);
        Some(Walk { step: f(a.step, b.step)?, run: a.run.min(b.run) })
    };
    match idx.op {
        Op::Add => both(i64::checked_add),
        Op::Sub => both(i64::checked_sub),
        Op::Mul => {
            let (x, c) = (walk(idx.lhs(), id)?, idx.rhs().as_int()?);
            Some(Walk { step: x.step.checked_mul(c)?, ..x })
        }
        // it goes on as it does until the next multiple
        Op::Mod | Op::Idiv => {
            let (x, c) = (walk(idx.lhs(), id)?, idx.rhs().as_int().filter(|c| *c > 0)?);
            let run = if x.step == 0 { x.run } else { x.run.min(c / x.step.abs()).max(1) };
            let step = match idx.op {
                Op::Mod => x.step,
                _ => x.step / c,
            };
            Some(Walk { step, run })
        }
        Op::Where if idx.if_false().op == Op::Invalid => walk(idx.if_true(), id),
        _ => None,
    }
}

/// Whether `lanes` steps of range `id` are a vector wherever one begins: aligned, contiguous, under one gate.
pub fn is_vector(idx: &UOp, id: u32, extent: i64, lanes: i64) -> bool {
    if lanes < 1 || extent % lanes != 0 {
        return false;
    }
    let begin = UOp::range(&UOp::index(extent / lanes), id, AxisKind::Loop) * lanes;
    let lane = UOp::range(&UOp::index(lanes), u32::MAX, AxisKind::Vector);
    let at = |x: UOp| simplify(&substitute_open(idx, &[(id, x)].into_iter().collect()));
    let (first, all) = (at(begin.clone()), at(begin + &lane));
    let is_whole = all.op != Op::Where || !all.condition().ranges.contains(&u32::MAX);
    is_whole && coefficient(&all, u32::MAX) == Some(1) && factor(&first) % lanes == 0
}

/// An index without its constant, and that.
pub fn without_constant(idx: &UOp) -> (UOp, i64) {
    match (idx.op, idx.src.get(1).and_then(|c| c.as_int())) {
        (Op::Add, Some(c)) => (idx.src[0].clone(), c),
        (Op::Const, _) => (UOp::index(0), idx.as_int().unwrap_or(0)),
        _ => (idx.clone(), 0),
    }
}

/// A constant that divides every value of the index; 0 for the constant 0.
pub fn factor(idx: &UOp) -> i64 {
    match idx.op {
        Op::Const => idx.as_int().unwrap_or(1).saturating_abs(),
        Op::Add | Op::Sub => gcd(factor(idx.lhs()), factor(idx.rhs())),
        Op::Mul => factor(idx.lhs()).saturating_mul(factor(idx.rhs())),
        Op::Mod => gcd(factor(idx.lhs()), factor(idx.rhs())),
        Op::Neg | Op::Cast => factor(idx.input()),
        Op::Where => gcd(factor(idx.if_true()), factor(idx.if_false())),
        Op::Invalid => 0,
        _ => 1,
    }
}

/// A load or store with another index.
pub fn with_index(access: &UOp, idx: UOp) -> UOp {
    let mut src = access.src.clone();
    src[0] = src[0].with_src(smallvec![src[0].src[0].clone(), idx]);
    access.with_src(src)
}

/// An access under a gate.
pub fn gated(access: UOp, gate: Option<UOp>) -> UOp {
    match (gate, access.buffer_and_index()) {
        (Some(gate), Some((_, idx))) => with_index(&access, gate.select(idx, &UOp::invalid())),
        _ => access,
    }
}

/// Whether a node makes wider floats of the small ones that a load gives.
pub fn is_widened(n: &UOp, load: &UOp) -> bool {
    let is_wider = n.dtype.is_float() && n.dtype.size() > load.dtype.size();
    n.op == Op::Cast && n.input() == load && load.op == Op::Load && load.dtype.is_small_float() && is_wider
}

/// Whether a value is zero where the loads that move with a range read nothing.
pub fn is_zero_outside(x: &UOp, id: u32) -> bool {
    match x.op {
        Op::Load => x.buffer_and_index().is_some_and(|(_, idx)| idx.ranges.contains(&id)) && x.src.len() == 1,
        // both, since zero times infinity is not zero
        Op::Mul | Op::Add | Op::Sub => x.src.iter().all(|s| is_zero_outside(s, id)),
        Op::Cast | Op::Neg => is_zero_outside(x.input(), id),
        Op::Where if is_zero(x.if_false()) => is_zero_outside(x.if_true(), id),
        _ => false,
    }
}

/// Whether it is the number zero.
pub fn is_zero(x: &UOp) -> bool {
    x.as_scalar().is_some_and(|z| z.as_f64() == 0.0)
}

/// The parameter a load or store goes to.
pub fn slot(access: &UOp) -> Option<u32> {
    match access.buffer_and_index()?.0.behind_after().arg {
        Arg::Param { slot, .. } => Some(slot),
        _ => None,
    }
}

/// Put other expressions in the place of open ranges. What is closed below is another range of the same name and stays.
pub fn substitute_open(root: &UOp, map: &FxHashMap<u32, UOp>) -> UOp {
    let touches = |n: &UOp| n.ranges.iter().any(|r| map.contains_key(r));
    if !touches(root) {
        return root.clone();
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut stack = vec![(root.clone(), false)];
    while let Some((n, expanded)) = stack.pop() {
        if done.contains_key(&n) {
            continue;
        }
        if !touches(&n) {
            done.insert(n.clone(), n);
        } else if let Some(to) = n.range_arg().and_then(|a| map.get(&a.id)) {
            done.insert(n, to.clone());
        } else if expanded {
            let new = fold_with(&n, n.src.iter().map(|s| done[s].clone()).collect());
            done.insert(n, new);
        } else {
            stack.push((n.clone(), true));
            stack.extend(n.src.iter().filter(|s| !done.contains_key(*s)).map(|s| (s.clone(), false)));
        }
    }
    done[root].clone()
}

/// The cheapest simplifications of index arithmetic, for nodes made by the thousand: a full simplification follows.
pub fn fold(n: &UOp) -> UOp {
    folded(n, &n.src).unwrap_or_else(|| n.clone())
}

/// The node with other sources, [folded](fold).
pub fn fold_with(n: &UOp, src: SmallVec<[UOp; 4]>) -> UOp {
    folded(n, &src).unwrap_or_else(|| n.with_src(src))
}

/// What the node with these sources is without being made.
fn folded(n: &UOp, src: &[UOp]) -> Option<UOp> {
    if n.dtype != DType::Index && n.dtype != DType::Bool {
        return None;
    }
    let alu = n.op.alu()?;
    if src.iter().all(|s| s.op == Op::Const) {
        let values: SmallVec<[Scalar; 3]> = src.iter().filter_map(|s| s.as_scalar()).collect();
        let operand = src[(n.op == Op::Where) as usize].dtype;
        return Some(UOp::constant(Scalar::alu(alu, operand, &values), n.dtype));
    }
    let c = |i: usize| src.get(i).and_then(|s| s.as_int());
    match (n.op, c(0), c(1)) {
        (Op::Add, Some(0), _) => Some(src[1].clone()),
        (Op::Add | Op::Sub, _, Some(0)) => Some(src[0].clone()),
        (Op::Mul, Some(0), _) | (Op::Mul, _, Some(0)) => Some(n.const_like(0)),
        (Op::Mul, Some(1), _) => Some(src[1].clone()),
        (Op::Mul | Op::Idiv, _, Some(1)) => Some(src[0].clone()),
        (Op::Where, Some(c), _) => Some(src[if c != 0 { 1 } else { 2 }].clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_see_through_sums_products_and_gates() {
        let r = UOp::range(&UOp::index(8), 0, AxisKind::Global);
        let q = UOp::range(&UOp::index(8), 1, AxisKind::Global);
        let i = (&r * 8 + &q) * 3 + 5;
        assert_eq!(
            (coefficient(&i, 0), coefficient(&i, 1), coefficient(&i, 2)),
            (Some(24), Some(3), Some(0))
        );
        assert_eq!(coefficient(&i.floordiv(&UOp::index(2)), 1), None);
        let gated = r.lt(&UOp::index(3)).select(&(&r + &q), &UOp::invalid());
        assert_eq!(coefficient(&gated, 1), Some(1));
    }
    #[test]
    fn digits_walk_in_runs() {
        let r = UOp::range(&UOp::index(96), 0, AxisKind::Global);
        let (row, column) = (r.floordiv(&UOp::index(12)), r.modulo(&UOp::index(12)));
        assert_eq!(walk(&column, 0), Some(Walk { step: 1, run: 12 }));
        assert_eq!(walk(&(&row * 14 + &column * 2 + 3), 0), Some(Walk { step: 2, run: 12 }));
        assert_eq!(walk(&(&r * 5), 0), Some(Walk { step: 5, run: i64::MAX }));
        assert_eq!(walk(&(&r * &r), 0), None);
    }
    #[test]
    fn vectors_begin_anywhere() {
        let r = UOp::range(&UOp::index(96), 0, AxisKind::Global);
        let q = UOp::range(&UOp::index(4), 1, AxisKind::Reduce);
        let (row, column) = (r.floordiv(&UOp::index(24)), r.modulo(&UOp::index(24)));
        let rows = &row * 48 + &column + &q * 8;
        assert!(is_vector(&rows, 0, 96, 8));
        assert!(!is_vector(&rows, 0, 96, 16));
        assert!(!is_vector(&(&rows + &q), 0, 96, 8));
        let gate = |x: &UOp| x.lt(&UOp::index(3)).select(&rows, &UOp::invalid());
        assert!(is_vector(&gate(&row), 0, 96, 8));
        assert!(!is_vector(&gate(&column), 0, 96, 8));
    }
    #[test]
    fn factors_divide() {
        let r = UOp::range(&UOp::index(8), 0, AxisKind::Global);
        assert_eq!(factor(&(&r * 8 + 4)), 4);
        assert_eq!(factor(&(&r * 8 + 16)), 8);
        assert_eq!(factor(&(&r + 4)), 1);
    }
}
