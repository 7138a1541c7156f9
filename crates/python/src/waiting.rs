//! Which tensors that Python holds still wait to be computed from others.

use crate::convert::TensorArg;
use crate::live;
use crate::tensor::{PyTensor, outs};
use frit::Tensor;
use pyo3::prelude::*;
use std::collections::HashMap;

/// The tensors Python holds that are made of some and not computed yet, but for some others. Whoever gives those some new
/// values computes these with them; later their old values would have to be kept.
#[pyfunction]
fn waiting(of: Vec<TensorArg>, but: Vec<TensorArg>) -> PyResult<Vec<PyTensor>> {
    // whether a node is made of one of them
    let mut made: HashMap<usize, bool> = HashMap::new();
    for t in &of {
        if let Ok(n) = t.0.peek() {
            made.insert(n.address(), true);
        }
    }
    let known = |t: &Tensor| of.iter().chain(&but).any(|o| o.0.is_same(t));
    let mut found: Vec<Tensor> = vec![];
    for t in live::all() {
        let Ok(root) = t.peek() else { continue };
        if !made.contains_key(&root.address()) {
            for n in root.toposort() {
                if !made.contains_key(&n.address()) {
                    let below = n.src.iter().any(|s| made.get(&s.address()).copied().unwrap_or(false));
                    made.insert(n.address(), below);
                }
            }
        }
        if made.get(&root.address()) == Some(&true) && !known(&t) && !found.iter().any(|f| f.is_same(&t)) {
            found.push(t);
        }
    }
    outs(found)
}

/// Add this part to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(waiting, m)?)
}
