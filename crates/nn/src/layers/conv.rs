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
        let per_group = |n: usize| n.checked_div(groups).unwrap_or(0);
        let dims = [&[outputs, per_group(inputs)], &kernel[..]].concat();
        let (weight, bias) = parameters(Self::NAME, inputs, outputs, groups, &dims);
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
        batched::<N>(Self::NAME, x, |x| x.conv(&self.weight, self.bias.as_ref(), self.window.clone()))
    }
}

/// The transpose of a convolution over `N` spatial dims: what a convolution's gradient by its input computes.
///
/// ```
/// # use frit_nn::ConvTranspose2d;
/// # use frit_tensor::Tensor;
/// let up = ConvTranspose2d::new(8, 3, 3).stride(2).padding(1).output_padding(1);
/// assert_eq!(up.forward(&Tensor::zeros([1, 8, 7, 7])).shape(), [1, 3, 14, 14]);
/// ```
#[derive(Module)]
pub struct ConvTranspose<const N: usize> {
    /// (in, out / groups, kernel..)
    pub weight: Tensor,
    /// (out,)
    pub bias: Option<Tensor>,
    window: Window,
}

/// A transposed convolution over sequences.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution over images.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution over volumes.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    const NAME: &'static str = match N {
        1 => "conv_transpose1d",
        2 => "conv_transpose2d",
        3 => "conv_transpose3d",
        _ => "conv_transpose",
    };
    /// From `inputs` channels to `outputs`, with a kernel of one size or of one for each dim.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: impl Into<Sizes<N>>) -> ConvTranspose<N> {
        let _c = frit_tensor::call(Self::NAME);
        ConvTranspose::grouped(inputs, outputs, kernel, 1)
    }
    /// The channels in `groups` that do not see each other.
    #[track_caller]
    pub fn grouped(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Sizes<N>>,
        groups: usize,
    ) -> ConvTranspose<N> {
        let _c = frit_tensor::call(Self::NAME);
        let per_group = |n: usize| n.checked_div(groups).unwrap_or(0);
        let dims = [&[inputs, per_group(outputs)], &kernel.into().0[..]].concat();
        let (weight, bias) = parameters(Self::NAME, inputs, outputs, groups, &dims);
        ConvTranspose { weight, bias: Some(bias), window: Window::new().stride(1).groups(groups) }
    }
    /// How far apart the kernel is put down: one number, or one for each dim.
    pub fn stride(self, stride: impl Into<Sizes<N>>) -> ConvTranspose<N> {
        ConvTranspose { window: self.window.stride(stride.into().0), ..self }
    }
    /// Results dropped on both sides: one number, or one for each dim.
    pub fn padding(self, padding: impl Into<Sizes<N>>) -> ConvTranspose<N> {
        ConvTranspose { window: self.window.padding(padding.into().0), ..self }
    }
    /// Results added at the end: one number, or one for each dim.
    pub fn output_padding(self, padding: impl Into<Sizes<N>>) -> ConvTranspose<N> {
        ConvTranspose { window: self.window.output_padding(padding.into().0), ..self }
    }
    /// How far apart the places are that the kernel writes to: one number, or one for each dim.
    pub fn dilation(self, dilation: impl Into<Sizes<N>>) -> ConvTranspose<N> {
        ConvTranspose { window: self.window.dilation(dilation.into().0), ..self }
    }
    /// Drops the bias.
    pub fn without_bias(mut self) -> ConvTranspose<N> {
        self.bias = None;
        self
    }
    /// (batch, in, places..) -> (batch, out, places'..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call(Self::NAME);
        batched::<N>(Self::NAME, x, |x| {
            x.conv_transpose(&self.weight, self.bias.as_ref(), self.window.clone())
        })
    }
}

/// A weight of `dims` and a bias, within torch's bound for what goes into one result.
fn parameters(
    op: &'static str,
    inputs: usize,
    outputs: usize,
    groups: usize,
    dims: &[usize],
) -> (Tensor, Tensor) {
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        let message =
            format!("{inputs} input and {outputs} output channels do not divide into {groups} groups");
        let failed = Tensor::failed(Error::new(op, message));
        return (failed.clone(), failed);
    }
    let fan_in = dims[1..].iter().product();
    (uniform_fan_in(dims, fan_in), uniform_fan_in(&[outputs], fan_in))
}

/// Applies `f` to (batch, C, `N` places..); a sample may come without its batch.
fn batched<const N: usize>(op: &'static str, x: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    match x.check().map(|()| x.rank()) {
        Err(_) => x.clone(),
        Ok(rank) if rank == N + 2 => f(x),
        Ok(rank) if rank == N + 1 => f(&x.unsqueeze(0)).squeeze(0),
        Ok(_) => {
            let message = format!("expected (N, C) and {N} spatial dims, got {}", x.shape());
            Tensor::failed(Error::new(op, message))
        }
    }
}
