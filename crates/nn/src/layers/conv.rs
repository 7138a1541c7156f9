//! Convolutions over one, two or three spatial dims.

use super::uniform_fan_in;
use crate::Module;
use frit_tensor::{Error, Tensor, Window};

/// One size for each of `N` spatial dims: `3`, or `[3, 5]`.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<const N: usize>(pub [usize; N]);

impl<const N: usize> From<usize> for Sizes<N> {
    fn from(size: usize) -> Self {
        Sizes([size; N])
    }
}
impl<const N: usize> From<[usize; N]> for Sizes<N> {
    fn from(sizes: [usize; N]) -> Self {
        Sizes(sizes)
    }
}

/// A convolution over `N` spatial dims.
///
/// ```
/// # use frit_nn::{Conv1d, Conv2d};
/// # use frit_tensor::Tensor;
/// let conv = Conv2d::new(3, 8, 5).stride(2).padding(2);
/// assert_eq!(conv.forward(&Tensor::zeros([1, 3, 28, 28])).shape(), [1, 8, 14, 14]);
/// let conv = Conv1d::new(3, 8, 4).padding_same();
/// assert_eq!(conv.forward(&Tensor::zeros([1, 3, 9])).shape(), [1, 8, 9]);
/// ```
#[derive(Module)]
pub struct Conv<const N: usize> {
    /// (out, in / groups, kernel..)
    pub weight: Tensor,
    /// (out,)
    pub bias: Option<Tensor>,
    #[module(skip)]
    kernel: [usize; N],
    #[module(skip)]
    window: Window,
    #[module(skip)]
    dilation: [usize; N],
}

/// A convolution over sequences: (N, in, length).
pub type Conv1d = Conv<1>;
/// A convolution over images: (N, in, rows, columns).
pub type Conv2d = Conv<2>;
/// A convolution over volumes: (N, in, depth, rows, columns).
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    const NAME: &'static str = match N {
        1 => "conv1d",
        2 => "conv2d",
        3 => "conv3d",
        _ => "conv",
    };
    /// From `inputs` channels to `outputs`, with a kernel of one size or of one for each dim.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: impl Into<Sizes<N>>) -> Conv<N> {
        let _c = frit_tensor::call(Self::NAME);
        Conv::grouped(inputs, outputs, kernel, 1)
    }
    /// The channels in `groups` that do not see each other.
    #[track_caller]
    pub fn grouped(inputs: usize, outputs: usize, kernel: impl Into<Sizes<N>>, groups: usize) -> Conv<N> {
        let _c = frit_tensor::call(Self::NAME);
        let Sizes(kernel) = kernel.into();
        let (weight, bias) = match check_groups(Self::NAME, inputs, outputs, groups) {
            Ok(()) => {
                let dims = [&[outputs, inputs / groups], &kernel[..]].concat();
                let fan_in = dims[1..].iter().product();
                (uniform_fan_in(&dims, fan_in), uniform_fan_in(&[outputs], fan_in))
            }
            Err(e) => (Tensor::failed(e.clone()), Tensor::failed(e)),
        };
        let window = Window::new().stride(1).groups(groups);
        Conv { weight, bias: Some(bias), kernel, window, dilation: [1; N] }
    }
    /// How far the kernel moves: one number, or one for each dim.
    pub fn stride(self, stride: impl Into<Sizes<N>>) -> Conv<N> {
        Conv { window: self.window.stride(stride.into().0), ..self }
    }
    /// Zeros on both sides: one number, or one for each dim.
    pub fn padding(self, padding: impl Into<Sizes<N>>) -> Conv<N> {
        Conv { window: self.window.padding(padding.into().0), ..self }
    }
    /// As many zeros as it takes for a result of the input's size, where the stride is 1; an odd one comes after.
    /// Set a dilation before.
    pub fn padding_same(self) -> Conv<N> {
        let around = |(size, apart): (&usize, &usize)| {
            let total = apart * size.saturating_sub(1);
            (total / 2, total - total / 2)
        };
        let pads: Vec<(usize, usize)> = self.kernel.iter().zip(&self.dilation).map(around).collect();
        Conv { window: self.window.clone().pads(&pads), ..self }
    }
    /// How far apart the places are that the kernel looks at: one number, or one for each dim.
    pub fn dilation(self, dilation: impl Into<Sizes<N>>) -> Conv<N> {
        let Sizes(dilation) = dilation.into();
        Conv { window: self.window.dilation(dilation), dilation, ..self }
    }
    /// Drops the bias.
    pub fn without_bias(mut self) -> Conv<N> {
        self.bias = None;
        self
    }
    /// (batch, in, places..) -> (batch, out, places'..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call(Self::NAME);
        if let (Ok(()), true) = (x.check(), x.rank() != N + 2) {
            let message = format!("expected (N, C) and {N} spatial dims, got {}", x.shape());
            return Tensor::failed(Error::new(Self::NAME, message));
        }
        x.conv(&self.weight, self.bias.as_ref(), self.window.clone())
    }
}

fn check_groups(op: &'static str, inputs: usize, outputs: usize, groups: usize) -> frit_tensor::Result<()> {
    if groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        return Ok(());
    }
    let message = format!("{inputs} input and {outputs} output channels do not divide into {groups} groups");
    Err(Error::new(op, message))
}
