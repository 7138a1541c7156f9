//! `Invalid`: an index that must not be accessed, and memory accesses that have one.
//!
//! ```text
//! Where(g, i, Invalid)*4 + j           ->  Where(g, i*4 + j, Invalid)
//! Load(Index(buf, Invalid))            ->  0
//! Store(Index(buf, Invalid), v)        ->  nothing
//! ```
//! The value of `Invalid` is not defined: whatever computes a value from it (a comparison) may take the other branch.

use super::fold;
use crate::arg::Arg;
use crate::node::UOp;
use crate::op::Op;
use crate::rules;
use frit_abi::Alu;
use smallvec::SmallVec;

rules! {
    /// Gates move out of index arithmetic and become one.
    pub INVALID;
    (Add|Sub|Mul|Idiv|Mod|Tdiv|Max|Min|Shl|Shr|And|Or|Xor)(Where(g, x, Invalid() as i), y) as n => g.select(&x.bin(n.op.alu()?, y), i);
    (Add|Sub|Mul|Idiv|Mod|Tdiv|Max|Min|Shl|Shr|And|Or|Xor)(x, Where(g, y, Invalid() as i)) as n => g.select(&x.bin(n.op.alu()?, y), i);
    (Add|Sub|Mul|Idiv|Mod|Tdiv|Max|Min|Shl|Shr|And|Or|Xor)(Invalid() as i, _) => i;
    (Add|Sub|Mul|Idiv|Mod|Tdiv|Max|Min|Shl|Shr|And|Or|Xor)(_, Invalid() as i) => i;
    Neg(Where(g, x, Invalid() as i))                        => g.select(&x.un(Alu::Neg), i);
    Neg(Invalid() as i)                                     => i;
    (Comparison)(Where(_, x, Invalid()), y) as n              => x.bin(n.op.alu()?, y);
    (Comparison)(x, Where(_, y, Invalid())) as n              => x.bin(n.op.alu()?, y);
    Where(g, Invalid() as i, x) if x.op != Op::Invalid      => g.un(Alu::Not).select(x, i);
    Where(g, Where(h, x, Invalid() as i), =i)               => g.and_(h).select(x, i);
    Where(c, Where(g, x, Invalid() as i), y) if y.op != Op::Invalid => c.un(Alu::Not).or_(g).select(&c.select(x, y), i);
    Where(c, x, Where(g, y, Invalid() as i)) if x.op != Op::Invalid => c.or_(g).select(&c.select(x, y), i);
}

rules! {
    /// Accesses whose gate is decided. A checked access that misses is an error at run time, so it stays.
    pub MEMORY;
    Load(Index(_, Invalid(), ..), ..) as l if is_unchecked(l)   => alternative(l);
    Load(_, alt, false) as l if is_unchecked(l)                 => alt;
    Load(address, _, true)                                      => address.load();
    Store(Index(_, Invalid(), ..), ..) as s if is_unchecked(s)  => nothing();
    Store(_, _, false) as s if is_unchecked(s)                  => nothing();
    Store(address, x, true)                                     => address.store(x);
}

rules! {
    /// Effects that are nothing disappear from what waits for them.
    pub EFFECTS;
    End(Sink() as s, ..)                                        => s;
    Sink(..) as n                                               => without_nothing(n, 0);
    After(..) as n                                              => without_nothing(n, 1);
    Barrier(..) as n                                            => without_nothing(n, 0);
    After(x)                                                    => x;
}

/// No effect at all.
pub fn nothing() -> UOp {
    UOp::sink([])
}

fn is_unchecked(n: &UOp) -> bool {
    n.arg == Arg::None
}

/// What a load gives that does not happen.
fn alternative(l: &UOp) -> Option<UOp> {
    match l.alt() {
        Some(alt) => Some(alt.clone()),
        None => fold::zero_like(l),
    }
}

fn without_nothing(n: &UOp, first: usize) -> Option<UOp> {
    let is_nothing = |s: &UOp| s.op == Op::Sink && s.src.is_empty();
    if !n.src.iter().skip(first).any(is_nothing) {
        return None;
    }
    let kept = n.src.iter().enumerate().filter(|(i, s)| *i < first || !is_nothing(s)).map(|(_, s)| s.clone());
    Some(n.with_src(kept.collect::<SmallVec<[UOp; 4]>>()))
}
