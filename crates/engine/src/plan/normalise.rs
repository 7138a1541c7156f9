//! A graph without its memory: buffers become numbered parameters, bound variables become plain ones, leaves lose their
//! numbers.
//!
//! ```text
//! Add(Buffer 17, Buffer 9)  ->  Add(Param 0, Param 1)  with [Buffer 17, Buffer 9]
//! ```
//!
//! Two computations of the same structure give the same node, which is the key of the plan cache.

use crate::memory::bindings::{Bindings, binding};
use crate::{Error, record};
use frit_uop::graph::Numbered;
use frit_uop::{Arg, Op, UOp, origin};

/// A graph and what was taken out of it.
pub struct Normal {
    /// The graph over `Param`s and `Variable`s.
    pub sink: UOp,
    /// `Buffer` nodes by slot.
    pub buffers: Vec<UOp>,
    /// Values of the variables.
    pub bindings: Bindings,
}

/// Take memory and values out of a graph.
pub fn normalise(sink: &UOp) -> Result<Normal, Error> {
    take_out_where(sink, |n| match n.op {
        Op::LoopIn => {
            Err("a value of a loop's step, or of a function's argument, has no numbers outside it".into())
        }
        Op::LoopOut => Err("a loop has not run before its results are used".into()),
        _ => Ok(()),
    })
}

/// The same for the body of a loop.
pub(crate) fn take_out(sink: &UOp) -> Result<Normal, Error> {
    take_out_where(sink, |_| Ok(()))
}

fn take_out_where(sink: &UOp, check: impl Fn(&UOp) -> Result<(), String>) -> Result<Normal, Error> {
    let _span = frit_abi::record::span("graph", "");
    let (mut buffers, mut bindings) = (vec![], Bindings::default());
    let list = Numbered::of(sink);
    let new = list.map(|n, src| {
        check(n).map_err(Error::Graph)?;
        Ok(match (n.op, &n.arg) {
            (Op::Buffer, Arg::Buffer(b)) => {
                buffers.push(n.clone());
                UOp::param(buffers.len() as u32 - 1, b.len(), n.dtype)
            }
            (Op::Bind, _) => {
                let (name, value) = binding(n)?;
                if let Some(old) = bindings.insert(name.clone(), value)
                    && old != value
                {
                    return Err(Error::Graph(format!(
                        "variable {name} is bound to both {old} and {value} here"
                    )));
                }
                n.variable().clone()
            }
            (Op::Leaf, _) => src[0].clone(),
            _ => n.with_src(src),
        })
    })?;
    origin::begin(list.nodes.iter().zip(&new));
    record::became(list.nodes.iter().zip(&new));
    let sink = new.into_iter().next_back().unwrap_or_else(|| sink.clone());
    Ok(Normal { sink, buffers, bindings })
}

/// The values variables have in the shapes of these, and in these sizes.
pub(crate) fn bindings_of(values: &[UOp], sizes: &[UOp]) -> Result<Bindings, Error> {
    if values.is_empty() && sizes.is_empty() {
        return Ok(Bindings::default());
    }
    Ok(normalise(&UOp::sink(values.iter().chain(sizes).cloned()))?.bindings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::bindings::eval_index;

    #[test]
    fn a_variable_has_one_value() {
        let t = UOp::variable("T", 1, 8);
        let two = UOp::sink([t.bind(3) + 1, t.bind(4) + 2]);
        assert_eq!(normalise(&two).err().unwrap().to_string(), "variable T is bound to both 3 and 4 here");
        assert!(normalise(&UOp::sink([t.bind(9)])).is_err());
        let one = normalise(&UOp::sink([t.bind(3) + 1])).unwrap();
        assert_eq!(one.sink, UOp::sink([&t + 1]));
        assert_eq!(eval_index(&((&t + 1) * 5), &one.bindings).unwrap(), 20);
        assert_eq!(eval_index(&((t.bind(3) + 1) * 5), &Bindings::default()).unwrap(), 20);
    }
}
