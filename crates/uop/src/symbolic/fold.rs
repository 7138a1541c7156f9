//! Constants: an elementwise op on constants is a constant, a vector of them a vector.

use crate::graph::NodeMap;
use crate::node::UOp;
use crate::op::Op;
use crate::rules;
use frit_abi::Scalar;
use smallvec::SmallVec;

rules! {
    /// Elementwise ops whose operands are all constants.
    pub CONSTANTS;
    (Unary|Cast|Bitcast)((Const|Stack)(..)) as n                                 => constant(n);
    (Binary|Comparison)((Const|Stack)(..), (Const|Stack)(..)) as n               => constant(n);
    MulAcc((Const|Stack)(..), (Const|Stack)(..), (Const|Stack)(..)) as n         => constant(n);
    Where(Const() as c, x, y)             => if c.as_int() == Some(0) { y } else { x };
}

/// The value of an elementwise node whose sources are constants or vectors of them.
pub fn constant(n: &UOp) -> Option<UOp> {
    let lanes = n.src.iter().map(|s| if s.op == Op::Stack { s.src.len() } else { 0 }).max()?;
    if lanes == 0 {
        return Some(UOp::constant(value(n, |s| s.as_scalar())?, n.dtype));
    }
    if n.src
        .iter()
        .any(|s| s.op == Op::Stack && (s.src.len() != lanes || s.src.iter().any(|e| e.op != Op::Const)))
    {
        return None;
    }
    let lane = |i: usize| value(n, |s| if s.op == Op::Stack { s.src[i].as_scalar() } else { s.as_scalar() });
    let lanes = (0..lanes).map(|i| lane(i).map(|v| UOp::constant(v, n.dtype)));
    Some(UOp::stack(lanes.collect::<Option<SmallVec<[UOp; 8]>>>()?))
}

/// One elementwise op on scalars, by the numeric contract.
pub fn value(n: &UOp, operand: impl Fn(&UOp) -> Option<Scalar>) -> Option<Scalar> {
    let from = n.src.first()?.dtype;
    match n.op {
        Op::Cast => Some(operand(n.input())?.cast(n.dtype)),
        Op::Bitcast if from.size() == n.dtype.size() => operand(n.input())?.bitcast(from, n.dtype),
        op => {
            let operands: SmallVec<[Scalar; 3]> = n.src.iter().map(&operand).collect::<Option<_>>()?;
            let alu = op.alu().filter(|a| a.arity() == operands.len())?;
            let dtype = if op == Op::Where { n.dtype } else { from };
            Some(Scalar::alu(alu, dtype, &operands))
        }
    }
}

/// The value of an expression of elementwise ops on scalars; `leaf` says what everything else in it is.
pub fn evaluate<E>(expr: &UOp, mut leaf: impl FnMut(&UOp) -> Result<Scalar, E>) -> Result<Scalar, E> {
    if let Some(v) = expr.as_scalar() {
        return Ok(v);
    }
    let mut known: NodeMap<Scalar> = NodeMap::default();
    for n in expr.toposort() {
        let v = n.as_scalar().or_else(|| value(&n, |s| known.get(s).copied()));
        let v = v.map_or_else(|| leaf(&n), Ok)?;
        known.insert(n, v);
    }
    Ok(known[expr])
}

/// Zero of the node's type and shape; `None` where the shape is not one of a program's values.
pub fn zero_like(n: &UOp) -> Option<UOp> {
    let zero = n.const_like(0);
    match n.try_shape()?.as_slice() {
        [] => Some(zero),
        [w] => Some(UOp::stack((0..w.as_int()?).map(|_| zero.clone()))),
        _ => None,
    }
}
