//! Layers: plain structs with public tensors and a `forward`. Names, shapes and first values are torch's, so its
//! checkpoints load as they are.

mod attention;
mod batchnorm;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod recurrent;
mod sequential;
mod transformer;

pub use attention::{Masks, MultiheadAttention};
pub use batchnorm::BatchNorm;
pub use conv::{
    Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Sizes,
};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::{Bilinear, Linear};
pub use norm::{GroupNorm, InstanceNorm, LayerNorm, LayerNorm2d, RmsNorm};
pub use recurrent::{Gru, GruCell, Lstm, LstmCell, Rnn, RnnCell, RnnOptions};
pub use sequential::Sequential;
pub use transformer::{
    Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};

use crate::Module;
use frit_tensor::Tensor;

/// A module that maps one tensor to one tensor: what a [`Sequential`] is made of.
pub trait Layer: Module {
    /// The layer's value at `x`.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
}

macro_rules! layers {
    ($($layer:ty),*) => {$(
        impl Layer for $layer {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                <$layer>::forward(self, x)
            }
        }
    )*};
}
layers!(
    BatchNorm,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Dropout,
    Embedding,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    Linear,
    RmsNorm,
    Sequential
);

/// A parameter drawn evenly from `-bound..bound` with `bound = 1 / sqrt(fan_in)`: torch's choice for weights and
/// biases of linear and convolution layers.
fn uniform_fan_in(dims: &[usize], fan_in: usize) -> Tensor {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    Tensor::uniform(-bound, bound, dims).requires_grad(true)
}

/// A float32 tensor in memory with every element `v`.
fn filled(dims: &[usize], v: f32) -> Tensor {
    Tensor::from_vec(vec![v; dims.iter().product()], dims)
}

/// `y + b`, where there is a `b`.
fn plus(y: Tensor, b: Option<&Tensor>) -> Tensor {
    match b {
        Some(b) => y + b,
        None => y,
    }
}
