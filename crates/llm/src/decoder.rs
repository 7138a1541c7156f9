//! A decoder: tokens at positions to vectors, and vectors to logits. Where keys and values are kept is the caller's.

use crate::config::Config;
use crate::layers::{self, FeedForward, Mixture, Norm, Product, maybe};
use crate::weights::Weights;
use frit_tensor::{Error, Result, Tensor};

/// What attention is over: it takes queries `(T, heads, head)` and the keys and values `(T, kv_heads, head)` of the same
/// tokens, and gives `(T, heads * head)`.
pub trait Attend {
    /// Attention of one layer.
    fn attend(&mut self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor>;
}

enum Between {
    Dense(Box<FeedForward>),
    Mixture(Box<Mixture>),
}

struct Layer {
    norm: Norm,
    q: Product,
    k: Product,
    v: Product,
    out: Product,
    norm_q: Option<Norm>,
    norm_k: Option<Norm>,
    after_attention: Option<Norm>,
    norm_between: Norm,
    between: Between,
    after_between: Option<Norm>,
}

/// The weights of a decoder.
pub struct Decoder {
    config: Config,
    /// (tokens, width)
    embedding: Tensor,
    /// (context, width), where positions are vectors
    positions: Option<Tensor>,
    layers: Vec<Layer>,
    norm: Norm,
    head: Product,
}

impl Decoder {
    /// The decoder of a configuration.
    pub(crate) fn read(w: &Weights, config: Config) -> Result<Decoder> {
        let c = &config;
        let embedding = w.find("token_embd.weight")?;
        let [tokens, width] = embedding.dims()?[..] else {
            return Err(Error::new("load", format!("the embeddings are of shape {}", embedding.shape())));
        };
        if width != c.width || tokens == 0 {
            let message = format!("embeddings of {tokens} tokens with {width} elements, not {}", c.width);
            return Err(Error::new("load", message));
        }
        let head = match c.is_tied || !w.has("output.weight") {
            true => {
                w.pass_over("output.weight");
                Product::tied(w, "token_embd.weight", embedding.clone())?
            }
            false => layers::linear(w, "output", c.width, tokens)?,
        };
        let positions = match c.rope {
            Some(_) => None,
            None => Some(w.get("position_embd.weight", &[c.context, c.width])?),
        };
        let layers = (0..c.layers).map(|i| Layer::read(w, c, i)).collect::<Result<_>>()?;
        let norm = Norm::read(w, "output_norm", c.width, c.norm)?;
        Ok(Decoder { config, embedding, positions, layers, norm, head })
    }
    /// What it is.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// How many tokens it knows.
    pub fn tokens(&self) -> usize {
        self.embedding.shape()[0].get()
    }
    /// Tokens `(T)` at positions `(T)` to vectors `(T, width)`.
    pub fn forward(&self, ids: &Tensor, positions: &Tensor, attend: &mut dyn Attend) -> Result<Tensor> {
        let c = &self.config;
        let mut x = self.embedding.embedding(ids);
        if c.embedding_scale != 1.0 {
            x = x * c.embedding_scale;
        }
        if let Some(table) = &self.positions {
            x = x + table.embedding(positions);
        }
        let global = c.rope.as_ref().map(|r| r.angles(positions));
        let local = c.local_rope.as_ref().map(|r| r.angles(positions));
        for (i, layer) in self.layers.iter().enumerate() {
            let is_local = c.windows[i].is_some() && local.is_some();
            let angles = if is_local { &local } else { &global };
            x = layer.forward(c, i, &x, angles.as_ref(), attend)?;
        }
        Ok(x)
    }
    /// Vectors `(T, width)` to the logits of the next tokens `(T, tokens)`.
    pub fn logits(&self, x: &Tensor) -> Tensor {
        let logits = self.head.forward(&self.norm.forward(x));
        match self.config.logit_cap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }
    /// The logits after each of some tokens, which are a whole text: without any memory of keys and values.
    pub fn whole(&self, ids: &[u32]) -> Result<Tensor> {
        let ids: Vec<i32> = ids.iter().map(|i| *i as i32).collect();
        let positions = Tensor::arange(ids.len()).int();
        let x = self.forward(&Tensor::from_slice(&ids), &positions, &mut Whole { config: &self.config })?;
        Ok(self.logits(&x))
    }
}

impl Layer {
    fn read(w: &Weights, c: &Config, i: usize) -> Result<Layer> {
        let at = format!("blk.{i}");
        let name = |part: &str| format!("{at}.{part}");
        let norm = |part: &str| Norm::read(w, &name(part), c.width, c.norm);
        let norm_if = |part: &str, size: usize| Norm::read_if(w, &name(part), size, c.norm);
        let (wide, narrow) = (c.heads * c.head, c.kv_heads * c.head);
        let names = [name("attn_q"), name("attn_k"), name("attn_v")];
        let [q, k, v] = layers::linears(w, names, &name("attn_qkv"), c.width, [wide, narrow, narrow])?;
        let between = match &c.experts {
            Some(e) if w.has(&name("ffn_gate_inp.weight")) => {
                Between::Mixture(Box::new(Mixture::read(w, c, e, &at)?))
            }
            _ => Between::Dense(Box::new(FeedForward::read(w, c, &at, "", c.hidden)?)),
        };
        Ok(Layer {
            norm: norm("attn_norm")?,
            q,
            k,
            v,
            out: layers::linear(w, &name("attn_output"), wide, c.width)?,
            norm_q: norm_if("attn_q_norm", c.head)?,
            norm_k: norm_if("attn_k_norm", c.head)?,
            after_attention: norm_if("post_attention_norm", c.width)?,
            norm_between: norm("ffn_norm")?,
            between,
            after_between: norm_if("post_ffw_norm", c.width)?,
        })
    }
    fn forward(
        &self,
        c: &Config,
        i: usize,
        x: &Tensor,
        angles: Option<&[Tensor; 2]>,
        attend: &mut dyn Attend,
    ) -> Result<Tensor> {
        let h = self.norm.forward(x);
        let heads = |l: &Product, n: usize| l.forward(&h).unflatten(-1, [n, c.head]);
        let mut q = maybe(&self.norm_q, heads(&self.q, c.heads));
        let mut k = maybe(&self.norm_k, heads(&self.k, c.kv_heads));
        let v = heads(&self.v, c.kv_heads);
        if let (Some(rope), Some(angles)) = (c.rope_of(i), angles) {
            (q, k) = (rope.turn(&q, angles), rope.turn(&k, angles));
        }
        let y = attend.attend(i, &q, &k, &v)?;
        let x = x + maybe(&self.after_attention, self.out.forward(&y));
        let h = self.norm_between.forward(&x);
        let y = match &self.between {
            Between::Dense(f) => f.forward(&h),
            Between::Mixture(m) => m.forward(&h),
        };
        Ok(x + maybe(&self.after_between, y))
    }
}

/// Attention over the tokens themselves.
struct Whole<'a> {
    config: &'a Config,
}

impl Attend for Whole<'_> {
    fn attend(&mut self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let keys = Tensor::arange(&q.shape()[0]).int();
        let seen = layers::seen(&keys.unsqueeze(0), &keys, self.config.windows[layer]);
        let [q, k, v] = [q, k, v].map(|t| t.unsqueeze(0));
        Ok(layers::attend(self.config, &q, &k, &v, &seen).squeeze(0))
    }
}
