//! Specs: which nodes are legal at which level, as a table. A pass says which spec holds after it; tests and
//! `FRIT_SPEC=1` check it.

use crate::arg::{Arg, Space};
use crate::node::UOp;
use crate::op::{Op, OpSet};
use frit_abi::DType;

/// A level of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Spec {
    /// What people build: buffers, movement, axes.
    Tensor = 1,
    /// One kernel over ranges.
    Kernel = 2,
    /// Upcast and unroll ranges have become shapes.
    Expanded = 4,
    /// What a renderer sees: decided widths, explicit accumulators.
    Program = 8,
}

/// A node that has no place at its level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The level.
    pub spec: Spec,
    /// The node and what is wrong with it.
    pub message: String,
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not legal in the {:?} spec: {}", self.spec, self.message)
    }
}
impl std::error::Error for SpecError {}

/// One row: these ops, at these levels, if the check holds. An op with several rows must satisfy one of them.
struct Row {
    ops: OpSet,
    levels: u8,
    check: fn(&UOp) -> bool,
}

const fn row(ops: &'static [Op], levels: u8, check: fn(&UOp) -> bool) -> Row {
    class(OpSet::of(ops), levels, check)
}
const fn class(ops: OpSet, levels: u8, check: fn(&UOp) -> bool) -> Row {
    Row { ops, levels, check }
}

const T: u8 = Spec::Tensor as u8;
const K: u8 = Spec::Kernel as u8;
const E: u8 = Spec::Expanded as u8;
const P: u8 = Spec::Program as u8;
const ALL: u8 = T | K | E | P;

#[rustfmt::skip]
const TABLE: &[Row] = {
    use Op::*;
    &[
        // leaves
        row(&[Const],                    ALL,       |n| n.src.is_empty() && matches!(n.arg, Arg::Scalar(_))),
        row(&[Invalid],                  K | E,     |n| n.src.is_empty()),
        row(&[Variable],                 ALL,       |n| matches!(n.arg, Arg::Var { .. })),
        row(&[Bind],                     T,         |n| n.src.len() == 2 && n.src[0].op == Variable && n.src[1].op == Const),
        row(&[Buffer],                   T,         |n| matches!(n.arg, Arg::Buffer(_))),
        row(&[Param],                    ALL,       |n| matches!(n.arg, Arg::Param { .. })),
        row(&[Define],                   E | P,     |n| matches!(n.arg, Arg::Define { space: Space::Local | Space::Reg, .. })),
        row(&[Range],                    K | E | P, |n| n.src.len() == 1 && is_index(&n.src[0]) && matches!(n.arg, Arg::Range(_))),
        row(&[Special],                  K | E | P, |n| n.src.len() == 1 && matches!(n.arg, Arg::Name(_))),
        // tensor level
        row(&[Iota],                     T,         |n| n.src.len() == 1 && is_index(&n.src[0])),
        row(&[Reshape, Expand, Shrink, Pad], T,     |n| has_shape(n) && n.src[1..].iter().all(is_index) && keeps_dtype(n)),
        row(&[Permute, Flip],            T,         |n| has_shape(n) && n.src.len() == 1 && keeps_dtype(n) && matches!(n.arg, Arg::Axes(_))),
        row(&[ReduceAxis, ScanAxis],     T,         |n| has_shape(n) && n.src.len() == 1 && keeps_dtype(n) && matches!(n.arg, Arg::ReduceAxes(..))),
        row(&[Gather],                   T,         |n| has_shape(n) && n.src.len() == 2 && n.src[1].dtype.is_int() && keeps_dtype(n)),
        row(&[Scatter],                  T,         |n| has_shape(n) && n.src.len() == 3 && n.src[1].dtype.is_int() && n.src[2].dtype == n.dtype),
        row(&[Contiguous, Detach, Copy], T,         |n| n.src.len() == 1 && keeps_dtype(n)),
        row(&[Leaf],                     T,         |n| n.src.len() == 1 && keeps_dtype(n) && matches!(n.arg, Arg::Scalar(_))),
        row(&[Loop],                     T,         |n| crate::Loop::of(n).is_some() && is_index(&n.src[0])),
        row(&[LoopIn],                   T,         |n| matches!(n.arg, Arg::LoopIn { .. }) && n.src.iter().all(is_index)),
        row(&[LoopOut],                  T,         |n| has_shape(n) && n.src.len() == 1 && crate::Loop::of(&n.src[0]).is_some_and(|l| matches!(n.arg, Arg::Lane(i) if l.results().get(i as usize).is_some_and(|r| r.dtype == n.dtype)))),
        // effects and memory
        row(&[Store],                    T,         |n| n.src.len() == 2 && n.src[0].dtype == n.src[1].dtype && n.src[0].try_shape().is_some()),
        row(&[Store],                    K | E | P, |n| (n.src.len() == 2 || n.src.len() == 3 && is_bool(&n.src[2])) && n.src[0].dtype == n.src[1].dtype && is_place(&n.src[0])),
        row(&[After],                    ALL,       |n| n.src.len() >= 2 && keeps_dtype(n)),
        row(&[End],                      K | E | P, |n| n.src.len() >= 2 && n.src[1..].iter().all(|r| r.op == Range)),
        row(&[Sink],                     ALL,       |_| true),
        row(&[Barrier],                  E | P,     |_| true),
        row(&[Index],                    K | E | P, |n| n.src.len() >= 2 && is_memory(&n.src[0]) && n.src[1..].iter().all(is_index)),
        row(&[Load],                     K | E | P, |n| n.src.first().is_some_and(is_place) && keeps_dtype(n) && (n.src.len() == 1 || n.src.len() == 3 && n.src[1].dtype == n.dtype && is_bool(&n.src[2]))),
        // kernel level
        row(&[Reduce],                   K | E,     |n| n.src.len() >= 2 && keeps_dtype(n) && matches!(n.arg, Arg::Alu(_))),
        row(&[Scan],                     K | E,     |n| n.src.len() == 2 && n.src[1].op == Range && keeps_dtype(n)),
        row(&[Stage],                    K,         |n| (n.src.len() >= 2 || n.src.first().is_some_and(|x| x.lanes() > 1)) && matches!(n.arg, Arg::Stage { .. })),
        row(&[Stack],                    K | E | P,     |n| has_shape(n) && n.src.iter().all(|s| s.dtype == n.dtype)),
        row(&[Lane],                     K | E | P,     |n| n.src.len() == 1 && matches!(n.arg, Arg::Lane(_))),
        row(&[Matrix],                   K | E | P, |n| n.src.len() == 3 && n.src[2].dtype == n.dtype && matches!(n.arg, Arg::Name(_)) && has_shape(n)),
        row(&[Shuffle],                  E | P,     |n| n.src.len() == 2 && same_dtype(n, 0) && n.src[0].lanes() == n.src[1].lanes() && matches!(&n.arg, Arg::Axes(from) if from.iter().all(|l| (*l as usize) < 2 * n.src[0].lanes()))),
        // elementwise
        row(&[Cast],                     ALL,       |n| n.src.len() == 1 && n.dtype != DType::Void),
        row(&[Bitcast],                  ALL,       |n| n.src.len() == 1 && n.src[0].dtype.size() == n.dtype.size()),
        class(OpSet::Unary,              ALL,       |n| n.src.len() == 1 && keeps_dtype(n) && has_shape(n)),
        class(OpSet::Binary,             ALL,       |n| n.src.len() == 2 && same_dtype(n, 0) && has_shape(n)),
        class(OpSet::Comparison,         ALL,       |n| n.src.len() == 2 && n.dtype == DType::Bool && n.src[0].dtype == n.src[1].dtype && has_shape(n)),
        row(&[Where],                    ALL,       |n| n.src.len() == 3 && is_bool(&n.src[0]) && same_dtype(n, 1) && has_shape(n)),
        row(&[MulAcc],                   ALL,       |n| n.src.len() == 3 && same_dtype(n, 0) && has_shape(n)),
    ]
};

fn is_bool(n: &UOp) -> bool {
    n.dtype == DType::Bool
}
/// An index before or after its width is decided.
fn is_index(n: &UOp) -> bool {
    matches!(n.dtype, DType::Index | DType::I32 | DType::I64)
}
fn keeps_dtype(n: &UOp) -> bool {
    n.src.first().is_some_and(|s| s.dtype == n.dtype)
}
fn same_dtype(n: &UOp, from: usize) -> bool {
    n.src[from..].iter().all(|s| s.dtype == n.dtype)
}
fn has_shape(n: &UOp) -> bool {
    n.try_shape().is_some()
}
fn is_memory(n: &UOp) -> bool {
    match n.op {
        Op::After => is_memory(&n.src[0]),
        o => matches!(o, Op::Param | Op::Define | Op::Stage),
    }
}
/// An address or a register variable.
fn is_place(n: &UOp) -> bool {
    match n.op {
        Op::After => is_place(&n.src[0]),
        Op::Define => matches!(n.arg, Arg::Define { space: Space::Reg, .. }),
        o => o == Op::Index,
    }
}

/// Check one node against a level.
pub fn check_node(n: &UOp, spec: Spec) -> Result<(), SpecError> {
    let mut rows = TABLE.iter().filter(|r| r.ops.has(n.op) && r.levels & spec as u8 != 0).peekable();
    let message = if rows.peek().is_none() {
        format!("{n:?} has no place here")
    } else if rows.any(|r| (r.check)(n)) {
        return Ok(());
    } else {
        let src: Vec<String> = n.src.iter().map(|s| format!("{s:?}")).collect();
        format!("{n:?} with sources {}", src.join("; "))
    };
    Err(SpecError { spec, message })
}

/// Check everything below a node against a level.
pub fn check(root: &UOp, spec: Spec) -> Result<(), SpecError> {
    root.toposort().iter().try_for_each(|n| check_node(n, spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisKind;

    #[test]
    fn every_op_has_a_row() {
        for op in Op::ALL {
            assert!(TABLE.iter().any(|r| r.ops.has(*op)), "{} is in no row", op.name());
        }
    }
    #[test]
    fn levels_are_told_apart() {
        let p = UOp::param(0, 4, DType::F32);
        let r = UOp::range(&UOp::index(4), 0, AxisKind::Global);
        let kernel = UOp::sink([p.at(&r).store(&(p.at(&r).load() + &p.at(&r).load())).end([r])]);
        assert_eq!(check(&kernel, Spec::Kernel), Ok(()));
        assert!(check(&kernel, Spec::Tensor).is_err());
        assert!(check(&p.reshape(&[UOp::index(2), UOp::index(2)]), Spec::Kernel).is_err());
        let mixed = UOp::new(Op::Add, DType::F32, [p.clone(), UOp::int(1, DType::I32)], Arg::None);
        assert!(check(&mixed, Spec::Tensor).unwrap_err().to_string().contains("Add:float32"));
    }
}
