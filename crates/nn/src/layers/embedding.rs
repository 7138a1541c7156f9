//! Embeddings.

use crate::Module;
use frit_tensor::Tensor;

/// A row of a table for each index. An index outside the table is an error of the call that computes it.
#[derive(Module)]
pub struct Embedding {
    /// (rows, width)
    pub weight: Tensor,
}

impl Embedding {
    /// A table drawn from the normal distribution.
    #[track_caller]
    pub fn new(rows: usize, width: usize) -> Embedding {
        let _c = frit_tensor::call("embedding");
        Embedding { weight: Tensor::randn([rows, width]).requires_grad(true) }
    }
    /// (..) of any integer type -> (.., width)
    #[track_caller]
    pub fn forward(&self, indices: &Tensor) -> Tensor {
        let _c = frit_tensor::call("embedding");
        self.weight.embedding(indices)
    }
}
