//! An encoder: a text to a vector for each token, or to one for all of it.

use crate::config::Config;
use crate::layers::{self, FeedForward, Norm};
use crate::weights::Weights;
use frit_nn::Linear;
use frit_tensor::{Error, Result, Tensor};

struct Layer {
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    norm_attention: Norm,
    between: FeedForward,
    norm: Norm,
}

/// The weights of an encoder.
pub struct Encoder {
    config: Config,
    /// (tokens, width)
    embedding: Tensor,
    /// (context, width)
    positions: Tensor,
    /// What is added to tokens of a first text: (width,)
    kind: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Encoder {
    /// The encoder of a configuration.
    pub(crate) fn read(w: &Weights, config: Config) -> Result<Encoder> {
        let c = &config;
        let embedding = w.find("token_embd.weight")?;
        let kinds = w.find("token_types.weight")?;
        let is_table = |t: &Tensor| t.rank() == 2 && t.shape()[1].get() == c.width && t.shape()[0].get() > 0;
        if !is_table(&embedding) || !is_table(&kinds) {
            let message =
                format!("tables of shapes {} and {}, not of {}", embedding.shape(), kinds.shape(), c.width);
            return Err(Error::new("load", message));
        }
        let layer = |i: usize| {
            let name = |part: &str| format!("blk.{i}.{part}");
            let square = |part: &str| layers::linear(w, &name(part), c.width, c.width);
            Ok(Layer {
                q: square("attn_q")?,
                k: square("attn_k")?,
                v: square("attn_v")?,
                out: square("attn_output")?,
                norm_attention: Norm::read(w, &name("attn_output_norm"), c.width, c.norm)?,
                between: FeedForward::read(w, c, &format!("blk.{i}"), "", c.hidden)?,
                norm: Norm::read(w, &name("layer_output_norm"), c.width, c.norm)?,
            })
        };
        Ok(Encoder {
            positions: w.get("position_embd.weight", &[c.context, c.width])?,
            kind: kinds.select(0, 0),
            norm: Norm::read(w, "token_embd_norm", c.width, c.norm)?,
            layers: (0..c.layers).map(layer).collect::<Result<_>>()?,
            embedding,
            config,
        })
    }
    /// What it is.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// A vector for each token of a text: `(T, width)`.
    #[track_caller]
    pub fn forward(&self, ids: &[u32]) -> Result<Tensor> {
        let _c = frit_tensor::call("encode");
        let (c, n, tokens) = (&self.config, ids.len(), self.embedding.shape()[0].get());
        if n == 0 || n > c.context || ids.iter().any(|i| *i as usize >= tokens) {
            let message = format!("{n} tokens; there may be 1 to {}, each below {tokens}", c.context);
            return Err(Error::new("encode", message));
        }
        let ids: Vec<i32> = ids.iter().map(|i| *i as i32).collect();
        let x =
            self.embedding.embedding(&Tensor::from_slice(&ids)) + self.positions.narrow(0, 0, n) + &self.kind;
        let mut x = self.norm.forward(&x);
        let seen = Tensor::arange(n).ge(0).reshape([1, 1, n]).expand([1, n, n]);
        for l in &self.layers {
            let heads = |p: &Linear| p.forward(&x).unflatten(-1, [c.heads, c.head]).unsqueeze(0);
            let y = layers::attend(c, &heads(&l.q), &heads(&l.k), &heads(&l.v), &seen).squeeze(0);
            x = l.norm_attention.forward(&(&x + l.out.forward(&y)));
            x = l.norm.forward(&(&x + l.between.forward(&x)));
        }
        Ok(x)
    }
    /// One vector of length 1 for a text: the mean of its tokens'.
    #[track_caller]
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        Ok(self.forward(ids)?.mean(0).normalize(2.0, -1, 1e-12))
    }
}
