//! Values of variables, and of sizes that are expressions over them.

use crate::Error;
use frit_uop::symbolic::fold::evaluate;
use frit_uop::{Arg, Op, Scalar, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Values of variables, by name.
pub type Bindings = FxHashMap<Arc<str>, i64>;

/// Name and value of a `Bind`, checked against the variable's bounds.
pub(crate) fn binding(bind: &UOp) -> Result<(Arc<str>, i64), Error> {
    let (Arg::Var { name, min, max }, Some(value)) = (&bind.src[0].arg, bind.src[1].as_int()) else {
        return Err(Error::Graph("a Bind binds a variable to a constant".into()));
    };
    if !(*min..=*max).contains(&value) {
        return Err(Error::Graph(format!("variable {name} is bound to {value}, outside {min}..={max}")));
    }
    Ok((name.clone(), value))
}

/// The value of an index expression over variables.
pub fn eval_index(expr: &UOp, bindings: &Bindings) -> Result<i64, Error> {
    let leaf = |n: &UOp| match (n.op, &n.arg) {
        // that of a Bind has none of its own: its value comes with the Bind
        (_, Arg::Var { name, .. }) => Ok(Scalar::Int(bindings.get(name).copied().unwrap_or(0))),
        (Op::Bind, _) => Ok(Scalar::Int(binding(n)?.1)),
        _ => Err(Error::Graph(format!("{n:?} in an index expression that must be known at launch"))),
    };
    let value = evaluate(expr, leaf)?;
    value.as_i64().ok_or_else(|| Error::Graph("an index expression is not an integer".into()))
}
