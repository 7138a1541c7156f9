//! Convolutions.

use super::uniform_fan_in;
use crate::Module;
use frit_tensor::conv::Each;
use frit_tensor::{Error, Tensor, Window};

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
    window: Window,
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
            let message =
                format!("{inputs} input and {outputs} output channels do not divide into {groups} groups");
            let failed = Tensor::failed(Error::new("conv2d", message));
            (failed.clone(), failed)
        };
        Conv2d { weight, bias: Some(bias), window: Window::new().stride(1).groups(groups) }
    }
    /// How far the kernel moves: one number, or rows and columns.
    pub fn stride(self, stride: impl Into<Each>) -> Conv2d {
        Conv2d { window: self.window.stride(stride), ..self }
    }
    /// Zeros on both sides: one number, or rows and columns.
    pub fn padding(self, padding: impl Into<Each>) -> Conv2d {
        Conv2d { window: self.window.padding(padding), ..self }
    }
    /// How far apart the places are that the kernel looks at: one number, or rows and columns.
    pub fn dilation(self, dilation: impl Into<Each>) -> Conv2d {
        Conv2d { window: self.window.dilation(dilation), ..self }
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
        x.conv2d(&self.weight, self.bias.as_ref(), self.window.clone())
    }
}
