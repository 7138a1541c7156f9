//! Bools and `Where`.

use super::compare;
use crate::node::UOp;
use crate::op::Op;
use crate::rules;
use frit_abi::Alu;
use std::cmp::Ordering;

rules! {
    /// Truth values. `Add`, `Mul`, … of bools are written as the logic they are.
    pub BOOL for bool;
    Not(Lt(x, y) as l) if l.bounds.0 == l.bounds.1  => UOp::boolean(l.bounds.0 == 0);
    Not(Eq(x, y))                                   => x.ne_(y);
    Not(Ne(x, y))                                   => x.eq_(y);
    Not(And(x, y))                                  => x.un(Alu::Not).or_(&y.un(Alu::Not));
    Not(Or(x, y))                                   => x.un(Alu::Not).and_(&y.un(Alu::Not));
    And[x, true]                                    => x;
    Or[_, true]                                     => UOp::boolean(true);
    Xor[x, true]                                    => x.un(Alu::Not);
    Xor(x, =x)                                      => UOp::boolean(false);
    And[x, Not(=x)]                                 => UOp::boolean(false);
    Or[x, Not(=x)]                                  => UOp::boolean(true);
    (And|Or)(_, _) as n                             => compare::chain(n);
    Eq[x, true]                                     => x;
    Eq[x, false]                                    => x.un(Alu::Not);
    Ne[x, false]                                    => x;
    Ne[x, true]                                     => x.un(Alu::Not);
    Eq(x, =x)                                       => UOp::boolean(true);
    Ne(x, =x)                                       => UOp::boolean(false);
    Lt(x, y)                                        => x.un(Alu::Not).and_(y);
    (Add|Max)(x, y)                                 => x.or_(y);
    (Mul|Min)(x, y)                                 => x.and_(y);
    Sub(x, y)                                       => x.bin(Alu::Xor, y);
    Neg(x)                                          => x.un(Alu::Not);
    Where(c, x, false)                              => c.and_(x);
    Where(c, true, y)                               => c.or_(y);
    Where(c, x, true)                               => c.un(Alu::Not).or_(x);
    Where(c, false, y)                              => c.un(Alu::Not).and_(y);
}

rules! {
    /// `Where`, for every type.
    pub SELECT;
    Where(_, x, =x)                                 => x;
    Where(Not(c), x, y) if y.op != Op::Invalid      => c.select(y, x);
    Where(Ne(x, y), a, b) if b.op != Op::Invalid    => x.eq_(y).select(b, a);
    Where(c, Where(=c, x, _), y)                    => c.select(x, y);
    Where(c, x, Where(=c, _, y))                    => c.select(x, y);
    Where(c, Where(d, x, y), =y)                    => c.and_(d).select(x, y);
    Where(c, x, Where(d, =x, y))                    => c.or_(d).select(x, y);
    Where(c, Where(d, x, y), z)                     => implied(c, d, true).map(|t| c.select(if t { x } else { y }, z));
    Where(c, z, Where(d, x, y))                     => implied(c, d, false).map(|t| c.select(z, if t { x } else { y }));
}

rules! {
    /// Arithmetic on a choice between constants is a choice between constants.
    pub ARITHMETIC for int;
    (Add|Mul|Max|Min)(Where(c, Const() as a, Const() as b), Const() as k) as n =>
        c.select(&a.bin(n.op.alu()?, k), &b.bin(n.op.alu()?, k));
    (Lt|Eq|Ne)(Where(c, Const() as a, Const() as b), Const() as k) as n =>
        c.select(&a.bin(n.op.alu()?, k), &b.bin(n.op.alu()?, k));
}

/// Whether `c` (or its negation, if not `holds`) decides `d`, by its conjuncts alone.
fn implied(c: &UOp, d: &UOp, holds: bool) -> Option<bool> {
    let known = if holds { compare::conjuncts(c) } else { compare::flatten(c, Op::Or) };
    known.iter().find_map(|k| decides(k, holds, d))
}

/// What `k` being `value` says of `d`.
fn decides(k: &UOp, value: bool, d: &UOp) -> Option<bool> {
    let (k, value) = if k.op == Op::Not { (k.input(), !value) } else { (k, value) };
    if d.op == Op::Not {
        return decides(k, value, d.input()).map(|v| !v);
    }
    if k == d {
        return Some(value);
    }
    let (x, a, _) = compare::as_bound(k)?;
    let (y, b, _) = compare::as_bound(d)?;
    if x != y {
        return None;
    }
    // x < a says x < b for b >= a; x >= a says x >= b for b <= a
    match (value, a.cmp(&b)) {
        (true, Ordering::Less | Ordering::Equal) => Some(true),
        (false, Ordering::Greater | Ordering::Equal) => Some(false),
        _ => None,
    }
}
