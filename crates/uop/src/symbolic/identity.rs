//! Rules that hold at a glance, by kind of value.

use super::sum::{self, order};
use super::{compare, divmod};
use crate::node::UOp;
use crate::op::Op;
use crate::rules;
use frit_abi::{Alu, DType, Scalar};
use std::cmp::Ordering;

rules! {
    /// True for every type, floats included.
    pub ANY;
    Lt(x, =x)                                       => UOp::boolean(false);
    (Max|Min)(x, =x)                                => x;
    Neg(Neg(x))                                     => x;
    Not(Not(x))                                     => x;
    Lane(Stack(..) as s) as n                       => lane_of(n, s);
    Stack(Lane(x), ..) as n if is_all_lanes(n, x)   => x;
}

rules! {
    /// Integers and `Index`: a commutative ring that wraps.
    pub INT for int;
    (Sub|Mod|Xor)(x, =x)                            => x.const_like(0);
    Sub(x, #c) if !x.dtype.is_unsigned()            => x + c.wrapping_neg();
    Mul[x, 0]                                       => x.const_like(0);
    Mul[x, 1]                                       => x;
    Mul[Mul(x, #a), #b]                             => x * a.wrapping_mul(b);
    Mul[Mul(x, #a), y] if y.op != Op::Const         => x * y * a;
    Mul(Neg(x), #a)                                 => x * a.wrapping_neg();
    Mul(Add(x, #a), #b)                             => x * b + a.wrapping_mul(b);
    Add[x, Neg(y)] if y != x                        => x - y;
    Add[x, Neg(=x)]                                 => x.const_like(0);
    (Eq) (x, =x)                                    => UOp::boolean(true);
    Ne(x, =x)                                       => UOp::boolean(false);
    Add(_, _) as n                                  => sum::collect(n);
    Mul(_, _) as n                                  => ordered_factors(n);
    (Max|Min)(_, _) as n                            => extremum(n);
    (Idiv|Mod)(_, _) as n                           => divmod::simplify(n);
    Tdiv(x, 1)                                      => x;
    Lt(_, _) as n                                   => compare::less(n);
    (Eq|Ne)(_, _) as n                              => compare::equal(n);
    (And|Or|Xor|Shl|Shr|Sub|Neg|Tdiv)(..) as n if n.bounds.0 == n.bounds.1 => bounded_constant(n);
}

rules! {
    /// Bits of integers, and bools.
    pub BITS for bits;
    (And|Or)(x, =x)                                 => x;
    (Or|Xor)[x, 0]                                  => x;
    And[x, 0]                                       => x.const_like(0);
    (Shl|Shr)(x, 0)                                 => x;
    And[x, #m] if m == -1 && x.dtype.is_int()       => x;
    And[x, #m] if is_within_mask(x, m)              => x;                                 // the upper bits are zeros already
    And[And[x, #a], #b]                             => x.bin(Alu::And, &x.const_like(a & b));
    Or[Or[x, #a], #b]                               => x.bin(Alu::Or, &x.const_like(a | b));
    Xor[Xor[x, y], =y]                              => x;
    Max[Max(x, #a), #b]                             => x.bin(Alu::Max, &x.const_like(a.max(b)));
    Min[Min(x, #a), #b]                             => x.bin(Alu::Min, &x.const_like(a.min(b)));
    (Max|Min|Xor|Eq|Ne)(x, y) as n if order(x, y) == Ordering::Greater                   => y.bin(n.op.alu()?, x);
    (And|Or)(x, y) as n if n.dtype != DType::Bool && order(x, y) == Ordering::Greater    => y.bin(n.op.alu()?, x);
}

rules! {
    /// Index arithmetic: no overflow, subtraction and negation as addition, products distributed over sums.
    pub INDEX for index;
    Sub(x, y)                                       => x + y * -1;
    Neg(x)                                          => x * -1;
    MulAcc(x, y, z)                                 => x * y + z;
    Mul(Add(x, y), #a)                              => x * a + y * a;
    Mul[Add(x, y) as s, z] if z.op != Op::Const && z.ranges.is_empty() && !s.ranges.is_empty() => x * z + y * z;
}

rules! {
    /// Floats: only what is exact for every value, NaN, infinities and both zeros included.
    pub FLOAT for float;
    Mul[x, 1.0]                                     => x;
    Fdiv(x, 1.0)                                    => x;
    Add[x, -0.0]                                    => x;
    Sub(x, 0.0)                                     => x;
    Mul[x, -1.0]                                    => x.un(Alu::Neg);
    Fdiv(x, Const() as c)                           => by_power_of_two(x, c);
    (Add|Mul)(Const() as c, x) as n if x.op != Op::Const => x.bin(n.op.alu()?, c);
}

/// What an operation on two indices is without a node being made: one of them or a constant. These are the identities of
/// [`INT`] that need no more than a look, for code that makes indices by the thousand; an index that no int64 holds stays
/// at its end, which no tensor has.
#[inline]
pub fn trivial(op: Alu, x: &UOp, y: &UOp) -> Option<UOp> {
    match (op, x.as_int(), y.as_int()) {
        (Alu::Add, Some(a), Some(b)) => Some(UOp::index(a.saturating_add(b))),
        (Alu::Sub, Some(a), Some(b)) => Some(UOp::index(a.saturating_sub(b))),
        (Alu::Mul, Some(a), Some(b)) => Some(UOp::index(a.saturating_mul(b))),
        (Alu::Idiv, Some(a), Some(b)) if b > 0 => Some(UOp::index(a.div_euclid(b))),
        (Alu::Mod, Some(a), Some(b)) if b > 0 => Some(UOp::index(a.rem_euclid(b))),
        (Alu::Add, Some(0), _) | (Alu::Mul, Some(1), _) => Some(y.clone()),
        (Alu::Add | Alu::Sub, _, Some(0)) | (Alu::Mul | Alu::Idiv, _, Some(1)) => Some(x.clone()),
        (Alu::Mod, _, Some(1)) => Some(UOp::index(0)),
        _ => None,
    }
}

impl UOp {
    /// The operation on two indices; what is [`trivial`] is no node of its own.
    pub fn folded(&self, op: Alu, o: &UOp) -> UOp {
        trivial(op, self, o).unwrap_or_else(|| self.bin(op, o))
    }
}

/// Whether an integer has no bits outside a mask of the lowest ones.
fn is_within_mask(x: &UOp, m: i64) -> bool {
    m > 0 && m & m.wrapping_add(1) == 0 && x.dtype.is_int() && x.bounds.0 >= 0 && x.bounds.1 <= m as i128
}

fn lane_of(n: &UOp, stack: &UOp) -> Option<UOp> {
    match n.arg {
        crate::arg::Arg::Lane(i) => stack.src.get(i as usize).cloned(),
        _ => None,
    }
}

/// `Stack(x.0, x.1, …)` of all the lanes of `x`.
fn is_all_lanes(n: &UOp, x: &UOp) -> bool {
    n.try_shape() == x.try_shape()
        && n.src
            .iter()
            .enumerate()
            .all(|(i, s)| s.op == Op::Lane && s.input() == x && s.arg == crate::arg::Arg::Lane(i as u32))
}

fn bounded_constant(n: &UOp) -> Option<UOp> {
    Some(UOp::constant(Scalar::int(n.bounds.0, n.dtype), n.dtype))
}

/// Factors in order, leaning to the left, the constant last.
fn ordered_factors(n: &UOp) -> Option<UOp> {
    let [x, y] = n.operands();
    if n.bounds.0 == n.bounds.1 {
        return bounded_constant(n);
    }
    if y.op == Op::Const {
        return None;
    }
    let last = if x.op == Op::Mul { x.rhs() } else { x };
    if y.op != Op::Mul && order(last, y) != Ordering::Greater {
        return None;
    }
    let mut factors = compare::flatten(n, Op::Mul);
    factors.sort_by(order);
    factors.into_iter().reduce(|a, b| a * b)
}

/// `Max` or `Min` decided by bounds.
fn extremum(n: &UOp) -> Option<UOp> {
    let [x, y] = n.operands();
    let (x_wins, y_wins) = match n.op {
        Op::Max => (x.bounds.0 >= y.bounds.1, y.bounds.0 >= x.bounds.1),
        _ => (x.bounds.1 <= y.bounds.0, y.bounds.1 <= x.bounds.0),
    };
    if x_wins {
        Some(x.clone())
    } else if y_wins {
        Some(y.clone())
    } else {
        None
    }
}

/// Division by a power of two is multiplication by its inverse, which is exact.
fn by_power_of_two(x: &UOp, c: &UOp) -> Option<UOp> {
    let f = c.as_scalar()?.as_f64();
    let exponent = (f.to_bits() >> 52 & 0x7ff) as i64 - 1023;
    let normal = match x.dtype {
        DType::F32 => 126,
        DType::F64 => 1022,
        _ => return None,
    };
    (f.to_bits() << 12 == 0 && exponent.abs() <= normal).then(|| x * UOp::float(1.0 / f, x.dtype))
}
