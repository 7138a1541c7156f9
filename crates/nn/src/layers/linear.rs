//! Fully connected layers.

use super::uniform_fan_in;
use crate::Module;
use frit_tensor::Tensor;

/// `y = x @ weight.T + bias`, over the last dim.
#[derive(Module)]
pub struct Linear {
    /// (out, in)
    pub weight: Tensor,
    /// (out,)
    pub bias: Option<Tensor>,
}

impl Linear {
    /// From `inputs` features to `outputs`.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize) -> Linear {
        let _c = frit_tensor::call("linear");
        let bias = Some(uniform_fan_in(&[outputs], inputs));
        Linear { bias, ..Linear::without_bias(inputs, outputs) }
    }
    /// The same without a bias.
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize) -> Linear {
        let _c = frit_tensor::call("linear");
        Linear { weight: uniform_fan_in(&[outputs, inputs], inputs), bias: None }
    }
    /// (.., in) -> (.., out)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("linear");
        x.linear(&self.weight, self.bias.as_ref())
    }
}
