//! Tests of the rule notation, the drivers, and the symbolic algebra.

mod algebra;
mod engine;
mod every_rule;
mod random;
mod sample;

use frit_uop::{Alu, Arg, AxisKind, Op, UOp};

/// A range `0..n`; a smaller id is further out.
pub fn range(id: u32, n: i64) -> UOp {
    UOp::range(&UOp::index(n), id, AxisKind::Loop)
}
/// An index variable between bounds.
pub fn var(name: &str, min: i64, max: i64) -> UOp {
    UOp::variable(name, min, max)
}
/// Floor division by a constant.
pub fn div(x: &UOp, c: i64) -> UOp {
    x.floordiv(&x.const_like(c))
}
/// Remainder by a constant.
pub fn rem(x: &UOp, c: i64) -> UOp {
    x.modulo(&x.const_like(c))
}
/// Less than a constant.
pub fn lt(x: &UOp, c: i64) -> UOp {
    x.lt(&x.const_like(c))
}
/// Not.
pub fn not(x: &UOp) -> UOp {
    x.un(Alu::Not)
}

/// An expression as people write it, for messages.
pub fn show(n: &UOp) -> String {
    let s = |i: usize| show(&n.src[i]);
    match (n.op, &n.arg) {
        (Op::Const, Arg::Scalar(v)) => match v {
            frit_uop::Scalar::Int(i) => format!("{i}"),
            frit_uop::Scalar::Float(f) => format!("{f:?}"),
            v => format!("{v:?}"),
        },
        (Op::Range, Arg::Range(r)) => format!("r{}", r.id),
        (Op::Variable, Arg::Var { name, .. }) => name.to_string(),
        (Op::Add, _) => format!("({}+{})", s(0), s(1)),
        (Op::Mul, _) => format!("{}*{}", s(0), s(1)),
        (Op::Idiv, _) => format!("({}//{})", s(0), s(1)),
        (Op::Mod, _) => format!("({}%{})", s(0), s(1)),
        (Op::Lt, _) => format!("({}<{})", s(0), s(1)),
        (Op::Not, _) => format!("!{}", s(0)),
        (Op::Load, Arg::None) if n.src[0].op == Op::Index => {
            format!("{}[{}]", show(&n.src[0].src[0]), show(&n.src[0].src[1]))
        }
        (Op::Param, Arg::Param { slot, .. }) => format!("p{slot}:{}", n.dtype),
        _ => {
            let cast = if n.op == Op::Cast { format!(":{}", n.dtype) } else { String::new() };
            format!("{}{cast}({})", n.op.name(), n.src.iter().map(show).collect::<Vec<_>>().join(", "))
        }
    }
}
