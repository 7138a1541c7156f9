//! Values of variables, and of sizes that are expressions over them.

use crate::Error;
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
    if let Some(v) = expr.as_int() {
        return Ok(v);
    }
    let mut done: FxHashMap<UOp, Scalar> = FxHashMap::default();
    for n in expr.toposort() {
        let value = match (&n.arg, n.op.alu()) {
            (Arg::Scalar(s), _) => *s,
            (Arg::Var { name, .. }, _) => match bindings.get(name) {
                Some(v) => Scalar::Int(*v),
                // the variable of a Bind: its value comes with the Bind
                None => Scalar::Int(0),
            },
            (_, Some(alu)) => {
                let args: Vec<Scalar> = n.src.iter().map(|s| done[s]).collect();
                Scalar::alu(alu, n.src.last().map_or(n.dtype, |s| s.dtype), &args)
            }
            _ if n.op == Op::Bind => Scalar::Int(binding(&n)?.1),
            _ if n.op == Op::Cast => done[&n.src[0]].cast(n.dtype),
            _ => {
                return Err(Error::Graph(format!(
                    "{n:?} in an index expression that must be known at launch"
                )));
            }
        };
        done.insert(n, value);
    }
    done[expr].as_i64().ok_or_else(|| Error::Graph("an index expression is not an integer".into()))
}
