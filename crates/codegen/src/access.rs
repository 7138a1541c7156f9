//! How an index moves with a range: what the heuristic, the lane choice and coalescing look at.

use frit_uop::{Arg, Op, UOp};
use rustc_hash::FxHashMap;

/// How much the index grows for each step of range `id`: `idx = rest + c * range` exactly, with `rest` free of it.
/// `None` where it is not of that form. A gate in the index (`Where(g, i, Invalid)`) does not count.
pub fn coefficient(idx: &UOp, id: u32) -> Option<i64> {
    if !idx.ranges.contains(&id) {
        return Some(0);
    }
    match idx.op {
        Op::Range => Some((idx.range_arg()?.id == id) as i64),
        Op::Add => coefficient(&idx.src[0], id)?.checked_add(coefficient(&idx.src[1], id)?),
        Op::Sub => coefficient(&idx.src[0], id)?.checked_sub(coefficient(&idx.src[1], id)?),
        Op::Neg => coefficient(&idx.src[0], id)?.checked_neg(),
        Op::Mul => match (idx.src[0].as_int(), idx.src[1].as_int()) {
            (_, Some(c)) => coefficient(&idx.src[0], id)?.checked_mul(c),
            (Some(c), _) => coefficient(&idx.src[1], id)?.checked_mul(c),
            _ => None,
        },
        Op::Where if idx.src[2].op == Op::Invalid => coefficient(&idx.src[1], id),
        _ => None,
    }
}

/// A constant that divides every value of the index; 0 for the constant 0.
pub fn factor(idx: &UOp) -> i64 {
    match idx.op {
        Op::Const => idx.as_int().unwrap_or(1).saturating_abs(),
        Op::Add | Op::Sub => gcd(factor(&idx.src[0]), factor(&idx.src[1])),
        Op::Mul => factor(&idx.src[0]).saturating_mul(factor(&idx.src[1])),
        Op::Neg | Op::Cast => factor(&idx.src[0]),
        Op::Where => gcd(factor(&idx.src[1]), factor(&idx.src[2])),
        Op::Invalid => 0,
        _ => 1,
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The address of a load or store in memory, if it is one: buffer and index.
pub fn address(access: &UOp) -> Option<(&UOp, &UOp)> {
    match (access.op, access.src.first()) {
        (Op::Load | Op::Store, Some(a)) if a.op == Op::Index && a.src.len() == 2 => {
            Some((&a.src[0], &a.src[1]))
        }
        _ => None,
    }
}

/// What an `After` stands for.
pub fn behind_after(mut n: &UOp) -> &UOp {
    while n.op == Op::After {
        n = &n.src[0];
    }
    n
}

/// The parameter a load or store goes to.
pub fn slot(access: &UOp) -> Option<u32> {
    match behind_after(address(access)?.0).arg {
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
            let new = fold(&n.with_src(n.src.iter().map(|s| done[s].clone()).collect()));
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
    use frit_uop::{DType, Scalar};
    if n.dtype != DType::Index && n.dtype != DType::Bool {
        return n.clone();
    }
    let Some(alu) = n.op.alu() else { return n.clone() };
    if n.src.iter().all(|s| s.op == Op::Const) {
        let values: Vec<Scalar> = n.src.iter().filter_map(|s| s.as_scalar()).collect();
        let operand = n.src[(n.op == Op::Where) as usize].dtype;
        return UOp::constant(Scalar::alu(alu, operand, &values), n.dtype);
    }
    let c = |i: usize| n.src.get(i).and_then(|s| s.as_int());
    match (n.op, c(0), c(1)) {
        (Op::Add, Some(0), _) => n.src[1].clone(),
        (Op::Add | Op::Sub, _, Some(0)) => n.src[0].clone(),
        (Op::Mul, Some(0), _) | (Op::Mul, _, Some(0)) => n.const_like(0),
        (Op::Mul, Some(1), _) => n.src[1].clone(),
        (Op::Mul | Op::Idiv, _, Some(1)) => n.src[0].clone(),
        (Op::Where, Some(c), _) => n.src[if c != 0 { 1 } else { 2 }].clone(),
        _ => n.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_uop::AxisKind;

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
    fn factors_divide() {
        let r = UOp::range(&UOp::index(8), 0, AxisKind::Global);
        assert_eq!(factor(&(&r * 8 + 4)), 4);
        assert_eq!(factor(&(&r * 8 + 16)), 8);
        assert_eq!(factor(&(&r + 4)), 1);
    }
}
