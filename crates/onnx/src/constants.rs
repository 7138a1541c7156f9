//! What is made of weights alone is computed once: factors of channels, sums of columns.
//!
//! ```text
//! Mul(Conv(x, w), Rsqrt(variance + epsilon))   ->   Mul(Conv(x, w), memory)
//! ```
//!
//! Only what is as small as the weights behind it: a model's weights stay in their file, and are not unpacked in memory.

use crate::value::Value;
use frit_tensor::{DType, Result, Tensor};
use frit_uop::graph::Numbered;
use frit_uop::record::became;
use frit_uop::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of a constant, at most.
const MOST_BYTES: usize = 1 << 20;

/// Constants that have been computed.
pub(crate) struct Constants {
    /// The memory of the weights.
    weights: FxHashSet<UOp>,
    /// By what describes them, the memory they are in.
    computed: FxHashMap<UOp, UOp>,
}

impl Constants {
    /// None yet, of these values.
    pub fn new<'a>(values: impl Iterator<Item = &'a Value>) -> Result<Constants> {
        let (mut tensors, mut weights) = (vec![], FxHashSet::default());
        values.for_each(|v| v.tensors(&mut tensors));
        for t in tensors {
            let nodes = t.uop()?.toposort();
            weights.extend(nodes.iter().filter(|n| n.op == Op::Buffer).cloned());
        }
        Ok(Constants { weights, computed: FxHashMap::default() })
    }
    /// The same values, made of constants that are computed.
    pub fn fold(&mut self, outputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let roots = outputs.iter().map(Tensor::uop).collect::<Result<Vec<UOp>>>()?;
        let graph = Numbered::down_to(&roots, |_| false);
        let found: Vec<&UOp> = self.find(&graph).into_iter().map(|i| &graph.nodes[i]).collect();
        if found.is_empty() {
            return Ok(outputs);
        }
        let new = found.iter().filter(|n| !self.computed.contains_key(**n));
        let new: Vec<Tensor> = new.map(|n| Tensor::from_uop((*n).clone())).collect();
        Tensor::realize_all(&new.iter().collect::<Vec<_>>())?;
        for n in found {
            if let Some(memory) = n.realized() {
                self.computed.entry(n.clone()).or_insert_with(|| memory.clone());
            }
        }
        let made = graph.map(|n, src| match self.computed.get(n) {
            Some(memory) => Ok(memory.clone()),
            None => Result::Ok(n.with_src(src)),
        })?;
        became(graph.nodes.iter().zip(&made));
        let output = |(t, number): (Tensor, &u32)| match &made[*number as usize] {
            node if t.uop().is_ok_and(|before| before == *node) => t,
            node => Tensor::from_uop(node.clone()),
        };
        Ok(outputs.into_iter().zip(&graph.roots).map(output).collect())
    }
    /// The constants of a graph that are part of no other, by number.
    fn find(&self, graph: &Numbered) -> Vec<usize> {
        let kinds = self.kinds(graph);
        let is_constant = |i: usize| kinds[i].is_some_and(|k| k.is_computed && k.is_small);
        let used = |i: usize| graph.src(i).iter().map(|s| *s as usize);
        let mut found = vec![false; graph.nodes.len()];
        let inside = (0..graph.nodes.len()).filter(|i| !is_constant(*i)).flat_map(used);
        for mut i in inside.chain(graph.roots.iter().map(|r| *r as usize)).filter(|i| is_constant(*i)) {
            // what only moves elements costs nothing later
            while let Some(input) =
                used(i).next().filter(|s| graph.nodes[i].op.is_movement() && is_constant(*s))
            {
                i = input;
            }
            found[i] = true;
        }
        (0..found.len()).filter(|i| found[*i]).collect()
    }
    /// For each node what it is made of, where that is weights alone.
    fn kinds(&self, graph: &Numbered) -> Vec<Option<Kind>> {
        let mut kinds: Vec<Option<Kind>> = Vec::with_capacity(graph.nodes.len());
        for (i, n) in graph.nodes.iter().enumerate() {
            let own = match n.op {
                Op::Buffer if self.weights.contains(n) => bytes(n),
                // other memory, what is stored or drawn, and what changes from run to run
                Op::Buffer | Op::After | Op::Store | Op::Copy | Op::Threefry => None,
                Op::LoopIn | Op::Variable | Op::Bind => None,
                _ => Some(0),
            };
            let sources = graph.src(i).iter().map(|s| kinds[*s as usize]);
            let behind = sources.clone().try_fold(own.unwrap_or(0), |most, k| Some(most.max(k?.behind)));
            let computes = n.op.alu().is_some() || matches!(n.op, Op::ReduceAxis | Op::ScanAxis);
            let is_computed = computes || sources.flatten().any(|k| k.is_computed);
            kinds.push(own.and(behind).map(|behind| {
                let is_small = bytes(n).is_some_and(|b| b <= behind.min(MOST_BYTES));
                Kind { behind, is_computed, is_small }
            }));
        }
        kinds
    }
}

/// A value that is made of weights alone.
#[derive(Clone, Copy)]
struct Kind {
    /// Bytes of the largest of them.
    behind: usize,
    /// More is done than moving and converting elements.
    is_computed: bool,
    /// It takes no more memory than what it is made of.
    is_small: bool,
}

/// Bytes of a value, if it is a tensor and of known size.
fn bytes(n: &UOp) -> Option<usize> {
    if matches!(n.dtype, DType::Index | DType::Void) {
        return None;
    }
    let dims = n.try_shape()?.iter().map(|d| usize::try_from(d.as_int()?).ok());
    dims.into_iter().try_fold(n.dtype.size(), |all, d| all.checked_mul(d?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(weights: &[&Tensor], y: &Tensor) -> Result<(Vec<Op>, Tensor)> {
        let values: Vec<Value> = weights.iter().map(|w| Value::from((*w).clone())).collect();
        let y = Constants::new(values.iter())?.fold(vec![y.clone()])?.remove(0);
        Ok((y.uop()?.toposort().iter().map(|n| n.op).collect(), y))
    }

    #[test]
    fn what_is_made_of_weights_is_computed_once() -> Result<()> {
        let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).realize()?;
        let variance = Tensor::new([0.25f32, 4.0]).realize()?;
        let y = &x * variance.rsqrt().reshape([2, 1]);
        let (ops, y) = folded(&[&variance], &y)?;
        assert!(!ops.contains(&Op::Rsqrt) && ops.contains(&Op::Mul), "{ops:?}");
        assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 1.5, 2.0]);
        Ok(())
    }
    #[test]
    fn inputs_and_what_is_larger_than_its_weights_stay() -> Result<()> {
        let x = Tensor::new([1.0f32, 2.0]).realize()?;
        let w = Tensor::new([3, 4]).cast(DType::I8).realize()?;
        // four bytes for each of one
        let unpacked = w.cast(DType::F32) * 0.5;
        let (ops, y) = folded(&[&w], &(x.sqrt() * unpacked))?;
        assert!(ops.contains(&Op::Sqrt) && ops.iter().filter(|o| **o == Op::Mul).count() == 2, "{ops:?}");
        assert_eq!(y.to_vec::<f32>()?[0], 1.5);
        Ok(())
    }
    #[test]
    fn sums_of_columns_are_constants() -> Result<()> {
        let w = Tensor::new([[3, 4], [5, 6]]).cast(DType::I8).realize()?;
        let x = Tensor::new([1i32, 2]).realize()?;
        let (ops, y) = folded(&[&w], &(&x + w.cast(DType::I32).sum(0)))?;
        // two words of sums are more than four bytes of weights
        assert!(ops.contains(&Op::ReduceAxis), "{ops:?}");
        let wide = w.cast(DType::I32).realize()?;
        let (ops, z) = folded(&[&wide], &(&x + wide.sum(0)))?;
        assert!(!ops.contains(&Op::ReduceAxis), "{ops:?}");
        assert_eq!(y.to_vec::<i32>()?, [9, 12]);
        assert_eq!(y.to_vec::<i32>()?, z.to_vec::<i32>()?);
        Ok(())
    }
}
