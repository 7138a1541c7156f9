//! Dropout.

use crate::{Module, is_training};
use frit_tensor::Tensor;

/// While training, sets elements to zero with probability `p` and scales the others so that the mean stays; elsewhere
/// does nothing.
#[derive(Module)]
pub struct Dropout {
    /// How likely an element is dropped.
    pub p: f64,
}

impl Dropout {
    /// Drops with probability `p`.
    pub fn new(p: f64) -> Dropout {
        Dropout { p }
    }
    /// Any shape -> the same shape
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("dropout");
        if is_training() { x.dropout(self.p) } else { x.clone() }
    }
}
