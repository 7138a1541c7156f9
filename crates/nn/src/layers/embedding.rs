//! Embeddings.

use crate::Module;
use frit_tensor::{Error, Tensor};

/// A row of a table for each index. An index outside the table is an error of the call that computes it.
#[derive(Module)]
pub struct Embedding {
    /// (rows, width)
    pub weight: Tensor,
    padding: Option<usize>,
}

impl Embedding {
    /// A table drawn from the normal distribution.
    #[track_caller]
    pub fn new(rows: usize, width: usize) -> Embedding {
        let _c = frit_tensor::call("embedding");
        Embedding { weight: Tensor::randn([rows, width]).requires_grad(true), padding: None }
    }
    /// With a row that stands for nothing: zero at first, and without a gradient.
    #[track_caller]
    pub fn with_padding(rows: usize, width: usize, padding: usize) -> Embedding {
        let _c = frit_tensor::call("embedding");
        if padding >= rows {
            let e = Error::new("embedding", format!("padding row {padding} of {rows} rows"));
            return Embedding { weight: Tensor::failed(e), padding: None };
        }
        let used = Tensor::arange(rows).ne(padding as i64).unsqueeze(1);
        let weight = used.where_(Tensor::randn([rows, width]), 0.0).requires_grad(true);
        Embedding { weight, padding: Some(padding) }
    }
    /// (..) of any integer type -> (.., width)
    #[track_caller]
    pub fn forward(&self, indices: &Tensor) -> Tensor {
        let _c = frit_tensor::call("embedding");
        let rows = self.weight.embedding(indices);
        match self.padding {
            Some(p) => indices.eq(p as i64).unsqueeze(-1).where_(rows.detach(), &rows),
            None => rows,
        }
    }
}
