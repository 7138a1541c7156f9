//! Sources by name: `store.value()` instead of `store.src[1]`. The names are those of the table in [`op`](crate::op).
//!
//! **The convention.** An accessor belongs to the ops that its first line lists. Asking another op is a fault of the
//! caller, which debug builds assert; where the op is not known, ask it first (`n.op == Op::Load`, a match or a rule).
//! What an op may lack is an `Option`. Nodes must be well-formed: untrusted ones go through [`spec`](crate::spec) before.

use crate::node::{Node, UOp};
use crate::op::{Op, OpSet};

/// Accessors of single sources: name, the ops that have it, position.
macro_rules! sources {
    ($($(#[$doc:meta])* $name:ident = $at:literal of $ops:expr;)*) => {
        impl Node {$(
            $(#[$doc])*
            #[inline]
            #[track_caller]
            pub fn $name(&self) -> &UOp {
                self.source($at, const { $ops }, stringify!($name))
            }
        )*}
    };
}

const fn of(ops: &'static [Op]) -> OpSet {
    OpSet::of(ops)
}

/// Ops of two operands.
const PAIR: OpSet = OpSet::Binary.or(OpSet::Comparison);
/// Ops whose first source is the value that they move, convert, order or keep.
const HAS_INPUT: OpSet = {
    use Op::*;
    let unary = OpSet::Unary.or(of(&[Cast, Bitcast, Lane]));
    let axes = of(&[ReduceAxis, ScanAxis, Gather, Scatter]);
    unary.or(OpSet::Movement).or(axes).or(of(&[Contiguous, Detach, Leaf, Copy, LoopOut, After, End, Stage]))
};

sources! {
    /// Unary elementwise ops, `Cast`, `Bitcast`, `Lane`; movement, axis and memory ops of a tensor; `After`, `End`, `Stage`:
    /// what they work on.
    input = 0 of HAS_INPUT;
    /// Binary elementwise ops: the left operand.
    lhs = 0 of PAIR;
    /// Binary elementwise ops: the right operand.
    rhs = 1 of PAIR;
    /// `Where`: what chooses.
    condition = 0 of of(&[Op::Where]);
    /// `Where`: the value where the condition holds.
    if_true = 1 of of(&[Op::Where]);
    /// `Where`: the value where it does not.
    if_false = 2 of of(&[Op::Where]);
    /// `MulAcc`, `Matrix`: what is added to the product of the first two.
    addend = 2 of of(&[Op::MulAcc, Op::Matrix]);
    /// `Range`, `Special`, `Iota`: how many there are.
    extent = 0 of of(&[Op::Range, Op::Special, Op::Iota]);
    /// `Bind`: the variable.
    variable = 0 of of(&[Op::Bind]);
    /// `Bind`: the value that the variable has this time.
    bound = 1 of of(&[Op::Bind]);
    /// `Load`, `Store`: what is accessed. An `Index`, a register variable, or in a tensor graph the view that is stored to.
    target = 0 of of(&[Op::Load, Op::Store]);
    /// `Store`: what is stored.
    value = 1 of of(&[Op::Store]);
    /// `Gather`, `Scatter`: which rows.
    rows = 1 of of(&[Op::Gather, Op::Scatter]);
    /// `Scatter`: what is written to the rows.
    updates = 2 of of(&[Op::Scatter]);
    /// `Reduce`, `Scan`: what is combined; of an expanded reduce the first, see [`Node::bodies`].
    body = 0 of of(&[Op::Reduce, Op::Scan]);
}

impl Node {
    #[inline]
    #[track_caller]
    fn source(&self, at: usize, ops: OpSet, name: &str) -> &UOp {
        debug_assert!(ops.has(self.op), "a {} has no {name}", self.op.name());
        &self.src[at]
    }
    /// Binary elementwise ops, `MulAcc`, `Matrix`: the first two operands.
    #[inline]
    #[track_caller]
    pub fn operands(&self) -> [&UOp; 2] {
        let ops = const { PAIR.or(of(&[Op::MulAcc, Op::Matrix])) };
        [self.source(0, ops, "operands"), self.source(1, ops, "operands")]
    }
    /// `Reshape`, `Expand`: the dims of the result.
    #[inline]
    #[track_caller]
    pub fn dims(&self) -> &[UOp] {
        debug_assert!(matches!(self.op, Op::Reshape | Op::Expand), "a {} has no dims", self.op.name());
        &self.src[1..]
    }
    /// `Pad`: how much is added before and after each dim.
    #[inline]
    #[track_caller]
    pub fn padding(&self) -> (&[UOp], &[UOp]) {
        debug_assert!(self.op == Op::Pad, "a {} has no padding", self.op.name());
        self.src[1..].split_at(self.src.len() / 2)
    }
    /// `Shrink`: where the box begins in each dim, and its size.
    #[inline]
    #[track_caller]
    pub fn cut(&self) -> (&[UOp], &[UOp]) {
        debug_assert!(self.op == Op::Shrink, "a {} has no cut", self.op.name());
        self.src[1..].split_at(self.src.len() / 2)
    }
    /// `After`: what comes before.
    #[inline]
    #[track_caller]
    pub fn deps(&self) -> &[UOp] {
        debug_assert!(self.op == Op::After, "a {} has no deps", self.op.name());
        &self.src[1..]
    }
    /// `Reduce`: the values that are combined in turn, one until a kernel is expanded; those that a fold carries.
    #[track_caller]
    pub fn bodies(&self) -> &[UOp] {
        debug_assert!(self.op == Op::Reduce, "a {} has no bodies", self.op.name());
        let ranges = self.src.iter().rev().take_while(|s| matches!(s.op, Op::Range | Op::Special)).count();
        &self.src[..(self.src.len() - ranges).max(1)]
    }
    /// `Reduce`, `Stage`, `End`: the ranges that are closed there (its own `ranges` are those still open).
    #[inline]
    #[track_caller]
    pub fn closed_ranges(&self) -> &[UOp] {
        let ops = const { of(&[Op::Reduce, Op::Stage, Op::End]) };
        debug_assert!(ops.has(self.op), "a {} closes no range", self.op.name());
        let values = if self.op == Op::Reduce { self.bodies().len() } else { 1 };
        &self.src[values..]
    }
    /// `Index`, and `Load` and `Store` through one: the memory, with the `After` that orders the access.
    #[inline]
    #[track_caller]
    pub fn buffer(&self) -> &UOp {
        &self.indexed().src[0]
    }
    /// `Index`, and `Load` and `Store` through one: which element; the first where a stage is read by several.
    #[inline]
    #[track_caller]
    pub fn index(&self) -> &UOp {
        &self.indexed().src[1]
    }
    /// `Index`: one index for each dim of a stage, one for other memory.
    #[inline]
    #[track_caller]
    pub fn indices(&self) -> &[UOp] {
        &self.indexed().src[1..]
    }
    #[inline]
    #[track_caller]
    fn indexed(&self) -> &Node {
        let at = if matches!(self.op, Op::Load | Op::Store) { &self.src[0] } else { self };
        debug_assert!(at.op == Op::Index, "a {} at {} has no index", self.op.name(), at.op.name());
        at
    }
    /// The buffer and the index of a load or store of memory; `None` for other nodes and for register variables.
    #[inline]
    pub fn buffer_and_index(&self) -> Option<(&UOp, &UOp)> {
        match (self.op, self.src.first().map(|at| (at.op, &at.src[..]))) {
            (Op::Load | Op::Store, Some((Op::Index, [buffer, index]))) => Some((buffer, index)),
            _ => None,
        }
    }
    /// `Load`: the value where its gate is false, if it has a gate.
    #[inline]
    #[track_caller]
    pub fn alt(&self) -> Option<&UOp> {
        debug_assert!(self.op == Op::Load, "a {} has no alternative", self.op.name());
        self.src.get(1)
    }
    /// `Load`, `Store`: whether it happens, if that is asked; `None` for other ops.
    #[inline]
    pub fn gate(&self) -> Option<&UOp> {
        if matches!(self.op, Op::Load | Op::Store) { self.src.get(2) } else { None }
    }
}

impl UOp {
    /// What an `After` orders: this node without the `After`s around it.
    pub fn behind_after(&self) -> &UOp {
        let mut n = self;
        while n.op == Op::After {
            n = n.input();
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisKind;
    use frit_abi::{Alu, DType};

    #[test]
    fn sources_have_names() {
        let (p, n) = (UOp::param(0, 8, DType::F32), UOp::index(8));
        let r = UOp::range(&n, 0, AxisKind::Reduce);
        let load = p.after([r.clone()]).at(&r).load();
        assert_eq!((load.buffer().behind_after(), load.index(), load.alt()), (&p, &r, None));
        assert_eq!(load.buffer_and_index(), Some((load.buffer(), &r)));
        let sum = load.reduce(Alu::Add, [r.clone()]);
        assert_eq!((sum.body(), sum.bodies(), sum.closed_ranges()), (&load, &sum.src[..1], &sum.src[1..]));
        assert_eq!(r.extent(), &n);
        let store = p.at(&UOp::index(0)).store(&sum);
        assert_eq!((store.value(), store.target().index(), store.gate()), (&sum, &UOp::index(0), None));
        let pad = p.pad(&[UOp::index(1)], &[UOp::index(2)]);
        assert_eq!((pad.input(), pad.padding()), (&p, (&pad.src[1..2], &pad.src[2..])));
        let either = load.lt(&sum).select(&load, &sum);
        assert_eq!(
            (either.condition().operands(), either.if_true(), either.if_false()),
            ([&load, &sum], &load, &sum)
        );
    }
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a Range has no value")]
    fn another_op_is_a_fault() {
        let _ = UOp::range(&UOp::index(3), 0, AxisKind::Loop).value();
    }
}
