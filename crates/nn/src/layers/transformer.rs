//! Transformer layers and stacks of them, under torch's names.

use super::{Dropout, LayerNorm, Linear, Masks, MultiheadAttention};
use crate::Module;
use frit_tensor::Tensor;

/// What transformer layers can be told.
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// Features between the two linear layers.
    pub feedforward: usize,
    /// While training, what is dropped after each part and within attention.
    pub dropout: f64,
    /// Between the two linear layers.
    pub activation: fn(&Tensor) -> Tensor,
    /// Of the norms.
    pub eps: f64,
    /// (N, L, dim) in place of (L, N, dim).
    pub batch_first: bool,
    /// Norms before each part in place of after it.
    pub norm_first: bool,
    /// With biases.
    pub bias: bool,
}

impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        TransformerOptions {
            feedforward: 2048,
            dropout: 0.1,
            activation: Tensor::relu,
            eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
}

impl TransformerOptions {
    fn attention(&self, dim: usize, heads: usize) -> MultiheadAttention {
        let a = MultiheadAttention::new(dim, heads).dropout(self.dropout);
        let a = if self.batch_first { a.batch_first() } else { a };
        if self.bias { a } else { a.without_bias() }
    }
    fn linear(&self, inputs: usize, outputs: usize) -> Linear {
        if self.bias { Linear::new(inputs, outputs) } else { Linear::without_bias(inputs, outputs) }
    }
    fn norm(&self, dim: usize) -> LayerNorm {
        let norm = LayerNorm::new([dim]).eps(self.eps);
        if self.bias { norm } else { norm.without_bias() }
    }
}

/// `part` added to what comes in, with a norm before it or after the sum.
fn residual(x: &Tensor, norm: &LayerNorm, norm_first: bool, part: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if norm_first { x + part(&norm.forward(x)) } else { norm.forward(&(x + part(x))) }
}

/// Attention to itself, then two linear layers, each added to what came in.
///
/// ```
/// # use frit_nn::{Masks, TransformerEncoderLayer, TransformerOptions};
/// # use frit_tensor::Tensor;
/// let options = TransformerOptions { feedforward: 16, batch_first: true, ..TransformerOptions::default() };
/// let layer = TransformerEncoderLayer::with(8, 2, options);
/// assert_eq!(layer.forward(&Tensor::zeros([3, 5, 8]), Masks::causal()).shape(), [3, 5, 8]);
/// ```
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// Attention to itself
    pub self_attn: MultiheadAttention,
    /// (dim -> feedforward)
    pub linear1: Linear,
    /// (feedforward -> dim)
    pub linear2: Linear,
    /// Of attention
    pub norm1: LayerNorm,
    /// Of the linear layers
    pub norm2: LayerNorm,
    dropout: Dropout,
    activation: fn(&Tensor) -> Tensor,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// `heads` heads over `dim` features.
    #[track_caller]
    pub fn new(dim: usize, heads: usize) -> TransformerEncoderLayer {
        TransformerEncoderLayer::with(dim, heads, TransformerOptions::default())
    }
    /// With options.
    #[track_caller]
    pub fn with(dim: usize, heads: usize, options: TransformerOptions) -> TransformerEncoderLayer {
        let _c = frit_tensor::call("transformer");
        TransformerEncoderLayer {
            self_attn: options.attention(dim, heads),
            linear1: options.linear(dim, options.feedforward),
            linear2: options.linear(options.feedforward, dim),
            norm1: options.norm(dim),
            norm2: options.norm(dim),
            dropout: Dropout::new(options.dropout),
            activation: options.activation,
            norm_first: options.norm_first,
        }
    }
    /// (L, N, dim) -> (L, N, dim)
    #[track_caller]
    pub fn forward(&self, x: &Tensor, masks: Masks) -> Tensor {
        let _c = frit_tensor::call("transformer");
        let drop = |x: Tensor| self.dropout.forward(&x);
        let x = residual(x, &self.norm1, self.norm_first, |x| drop(self.self_attn.forward(x, x, x, masks)));
        residual(&x, &self.norm2, self.norm_first, |x| {
            let hidden = drop((self.activation)(&self.linear1.forward(x)));
            drop(self.linear2.forward(&hidden))
        })
    }
}

/// Attention to itself, attention to what an encoder gave, then two linear layers, each added to what came in.
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// Attention to itself
    pub self_attn: MultiheadAttention,
    /// Attention to the encoder's results
    pub multihead_attn: MultiheadAttention,
    /// (dim -> feedforward)
    pub linear1: Linear,
    /// (feedforward -> dim)
    pub linear2: Linear,
    /// Of the first attention
    pub norm1: LayerNorm,
    /// Of the second attention
    pub norm2: LayerNorm,
    /// Of the linear layers
    pub norm3: LayerNorm,
    dropout: Dropout,
    activation: fn(&Tensor) -> Tensor,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// `heads` heads over `dim` features.
    #[track_caller]
    pub fn new(dim: usize, heads: usize) -> TransformerDecoderLayer {
        TransformerDecoderLayer::with(dim, heads, TransformerOptions::default())
    }
    /// With options.
    #[track_caller]
    pub fn with(dim: usize, heads: usize, options: TransformerOptions) -> TransformerDecoderLayer {
        let _c = frit_tensor::call("transformer");
        TransformerDecoderLayer {
            self_attn: options.attention(dim, heads),
            multihead_attn: options.attention(dim, heads),
            linear1: options.linear(dim, options.feedforward),
            linear2: options.linear(options.feedforward, dim),
            norm1: options.norm(dim),
            norm2: options.norm(dim),
            norm3: options.norm(dim),
            dropout: Dropout::new(options.dropout),
            activation: options.activation,
            norm_first: options.norm_first,
        }
    }
    /// (L, N, dim) and what the encoder gave, (S, N, dim) -> (L, N, dim). `own` masks the first attention, `others` the
    /// one to the encoder.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, own: Masks, others: Masks) -> Tensor {
        let _c = frit_tensor::call("transformer");
        let drop = |x: Tensor| self.dropout.forward(&x);
        let x = residual(x, &self.norm1, self.norm_first, |x| drop(self.self_attn.forward(x, x, x, own)));
        let x = residual(&x, &self.norm2, self.norm_first, |x| {
            drop(self.multihead_attn.forward(x, memory, memory, others))
        });
        residual(&x, &self.norm3, self.norm_first, |x| {
            let hidden = drop((self.activation)(&self.linear1.forward(x)));
            drop(self.linear2.forward(&hidden))
        })
    }
}

/// Encoder layers one after another.
#[derive(Module)]
pub struct TransformerEncoder {
    /// In order
    pub layers: Vec<TransformerEncoderLayer>,
    /// After the last, if there is one
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `count` layers; with a norm at the end where norms come first.
    #[track_caller]
    pub fn new(dim: usize, heads: usize, count: usize, options: TransformerOptions) -> TransformerEncoder {
        let _c = frit_tensor::call("transformer");
        let layers = (0..count).map(|_| TransformerEncoderLayer::with(dim, heads, options)).collect();
        TransformerEncoder { layers, norm: options.norm_first.then(|| options.norm(dim)) }
    }
    /// (L, N, dim) -> (L, N, dim)
    #[track_caller]
    pub fn forward(&self, x: &Tensor, masks: Masks) -> Tensor {
        let _c = frit_tensor::call("transformer");
        let x = self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x, masks));
        self.norm.as_ref().map_or_else(|| x.clone(), |norm| norm.forward(&x))
    }
}

/// Decoder layers one after another.
#[derive(Module)]
pub struct TransformerDecoder {
    /// In order
    pub layers: Vec<TransformerDecoderLayer>,
    /// After the last, if there is one
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `count` layers; with a norm at the end where norms come first.
    #[track_caller]
    pub fn new(dim: usize, heads: usize, count: usize, options: TransformerOptions) -> TransformerDecoder {
        let _c = frit_tensor::call("transformer");
        let layers = (0..count).map(|_| TransformerDecoderLayer::with(dim, heads, options)).collect();
        TransformerDecoder { layers, norm: options.norm_first.then(|| options.norm(dim)) }
    }
    /// As [`TransformerDecoderLayer::forward`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, own: Masks, others: Masks) -> Tensor {
        let _c = frit_tensor::call("transformer");
        let x = self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x, memory, own, others));
        self.norm.as_ref().map_or_else(|| x.clone(), |norm| norm.forward(&x))
    }
}

/// An encoder and a decoder, each with a norm at its end.
#[derive(Module)]
pub struct Transformer {
    /// Reads the source
    pub encoder: TransformerEncoder,
    /// Writes the target
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// So many layers in the encoder and in the decoder; matrices drawn by Glorot's rule, as torch's.
    #[track_caller]
    pub fn new(dim: usize, heads: usize, layers: [usize; 2], options: TransformerOptions) -> Transformer {
        let _c = frit_tensor::call("transformer");
        let norm = || Some(options.norm(dim));
        let encoder =
            TransformerEncoder { norm: norm(), ..TransformerEncoder::new(dim, heads, layers[0], options) };
        let decoder =
            TransformerDecoder { norm: norm(), ..TransformerDecoder::new(dim, heads, layers[1], options) };
        let whole = Transformer { encoder, decoder };
        for p in whole.parameters().iter().filter(|p| p.rank() > 1) {
            p.replace(&Tensor::glorot_uniform(p.shape().as_slice()));
        }
        whole
    }
    /// Source (S, N, dim) and target (L, N, dim) -> (L, N, dim). The decoder does not see the source's padding.
    #[track_caller]
    pub fn forward(
        &self,
        source: &Tensor,
        target: &Tensor,
        source_masks: Masks,
        target_masks: Masks,
    ) -> Tensor {
        let _c = frit_tensor::call("transformer");
        let memory = self.encoder.forward(source, source_masks);
        let across = Masks { key_padding: source_masks.key_padding, ..Masks::default() };
        self.decoder.forward(target, &memory, target_masks, across)
    }
}
