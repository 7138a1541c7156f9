//! Casts: only conversions that lose nothing disappear.

use crate::node::UOp;
use crate::op::Op;
use crate::rules;
use frit_abi::DType;

rules! {
    /// Chains of casts.
    pub CAST_CHAINS;
    Cast(x) as n if n.dtype == x.dtype                      => x;
    Cast(Cast(x) as inner) as n                             => through(x, inner.dtype, n.dtype);
}
rules! {
    /// Casts of bits and constants, and comparisons of a bool made a number.
    pub CASTS;
    Bitcast(x) as n if n.dtype == x.dtype                   => x;
    // a bool outside memory is no byte: 0 or 1, and any but 0 is true
    Bitcast(x) as n if x.dtype == DType::Bool               => x.cast(DType::U8).bitcast(n.dtype);
    Bitcast(x) as n if n.dtype == DType::Bool               => x.bitcast(DType::U8).cast(DType::Bool);
    Bitcast(Bitcast(x) as i) as n if i.dtype.is_int()       => x.bitcast(n.dtype); // a float may forget which NaN it was
    Cast(Where(c, Const() as a, Const() as b)) as n      => c.select(&a.cast(n.dtype), &b.cast(n.dtype));
    (Eq|Ne)(Cast(x) as f, 0) as n if x.dtype == DType::Bool && f.dtype.is_int() => truth(x, n.op == Op::Ne);
    (Eq|Ne)(Cast(x) as f, 1) as n if x.dtype == DType::Bool && f.dtype.is_int() => truth(x, n.op == Op::Eq);
    Lt(Cast(x) as f, 1) if x.dtype == DType::Bool && f.dtype.is_int()           => truth(x, false);
}

fn truth(x: &UOp, holds: bool) -> UOp {
    if holds { x.clone() } else { x.un(frit_abi::Alu::Not) }
}

/// `x` converted to `b` and then to `c`, in one step, where `b` holds every value of `x`.
fn through(x: &UOp, b: DType, c: DType) -> Option<UOp> {
    if !is_exact(x, b) {
        return None;
    }
    // float to int saturates, int to int wraps: an int that went through a float may go directly only if it fits
    let kinds_differ = b.is_float() && !x.dtype.is_float() && c.is_int();
    (!kinds_differ || is_exact(x, c)).then(|| x.cast(c))
}

/// Whether `to` holds every value that `x` can have.
pub fn is_exact(x: &UOp, to: DType) -> bool {
    let from = x.dtype;
    match (from.int_range(), to.int_range()) {
        _ if from == to => true,
        (Some(_), Some(_)) if to == DType::Bool => x.bounds.0 >= 0 && x.bounds.1 <= 1,
        (Some(_), Some((lo, hi))) => lo <= x.bounds.0 && x.bounds.1 <= hi,
        (Some(_), None) => x.bounds.0.abs().max(x.bounds.1.abs()) <= integers_exact(to),
        (None, None) => float_holds(from, to),
        _ => false,
    }
}

/// Up to which magnitude a float type has every integer.
fn integers_exact(d: DType) -> i128 {
    match d {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        d if d.is_float() => 1,
        _ => 0,
    }
}

fn float_holds(from: DType, to: DType) -> bool {
    match to {
        DType::F64 => from != DType::Void,
        DType::F32 => from.is_small_float(),
        DType::F16 | DType::BF16 => from.is_float() && from.size() == 1,
        _ => false,
    }
}
