//! Layers, optimisers, state files and data sets.
//!
//! - [`Module`] (with its derive): whatever has tensors in it, each under a name;
//! - [`layers`]: plain structs with a `forward`; their values and initialisations are torch's;
//! - [`training`]: the scope in which dropout drops and BatchNorm takes statistics;
//! - [`optim`]: from gradients to new parameters;
//! - [`StateDict`], [`load`] and [`mod@state`]: values by name, in memory and in files of every common format;
//! - [`data`]: data sets and batches.

#![forbid(unsafe_code)]

// The derive writes `::frit_nn` inside this package.
extern crate self as frit_nn;

mod module;
pub mod layers;
pub mod optim;
pub mod state;
pub mod data;

pub use frit_derive::Module;
#[doc(no_inline)]
pub use frit_tensor::Tensor;
pub use frit_tensor::{is_training, training};
pub use layers::{
    BatchNorm, Bilinear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Dropout,
    Embedding, GroupNorm, Gru, GruCell, InstanceNorm, Layer, LayerNorm, LayerNorm2d, Linear, Lstm, LstmCell,
    Masks, MultiheadAttention, RmsNorm, Rnn, RnnCell, RnnOptions, Sequential, Transformer,
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};
pub use module::{Module, visit_field};
pub use optim::{Adagrad, Adam, AdamW, Lamb, Lars, Lion, Muon, Optimizer, RmsProp, Sgd};
pub use state::{StateDict, gguf, load, npy, safetensors, torch};
