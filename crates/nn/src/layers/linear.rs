//! Fully connected layers.

use super::{plus, uniform_fan_in};
use crate::Module;
use frit_tensor::{Error, Tensor};

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

/// `y[o] = x1 @ weight[o] @ x2 + bias[o]`, over the last dims of two inputs.
///
/// ```
/// # use frit_nn::Bilinear;
/// # use frit_tensor::Tensor;
/// let b = Bilinear::new(3, 4, 5);
/// assert_eq!(b.forward(&Tensor::zeros([2, 3]), &Tensor::zeros([2, 4])).shape(), [2, 5]);
/// ```
#[derive(Module)]
pub struct Bilinear {
    /// (out, in1, in2)
    pub weight: Tensor,
    /// (out,)
    pub bias: Option<Tensor>,
}

impl Bilinear {
    /// From `inputs1` and `inputs2` features to `outputs`.
    #[track_caller]
    pub fn new(inputs1: usize, inputs2: usize, outputs: usize) -> Bilinear {
        let _c = frit_tensor::call("bilinear");
        let weight = uniform_fan_in(&[outputs, inputs1, inputs2], inputs1);
        Bilinear { weight, bias: Some(uniform_fan_in(&[outputs], inputs1)) }
    }
    /// Drops the bias.
    pub fn without_bias(mut self) -> Bilinear {
        self.bias = None;
        self
    }
    /// (.., in1), (.., in2) -> (.., out)
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let _c = frit_tensor::call("bilinear");
        let (a, b, w) = (x1.shape(), x2.shape(), self.weight.shape());
        let ready = x1.check().and(x2.check()).and(self.weight.check());
        if ready.is_ok() && (x1.rank() == 0 || x2.rank() == 0 || a[-1] != w[1] || b[-1] != w[2]) {
            let message = format!("expected (.., {}) and (.., {}), got {a} and {b}", w[1], w[2]);
            return Tensor::failed(Error::new("bilinear", message));
        }
        // (.., 1, in1) @ (out, in1, in2) -> (.., out, in2), one row for each output
        let rows = x1.unsqueeze(-2).unsqueeze(-2).matmul(&self.weight).squeeze(-2);
        plus((rows * x2.unsqueeze(-2)).sum(-1), self.bias.as_ref())
    }
}
