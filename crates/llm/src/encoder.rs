//! An encoder: a text to a vector for each token, or to one for all of it.

use crate::config::{Config, Pooling};
use crate::layers::{self, FeedForward, Norm, Product};
use crate::weights::Weights;
use frit_tensor::{Error, Jit, Result, Tensor};
use rustc_hash::FxHashMap;
use std::sync::Arc;

struct Layer {
    q: Product,
    k: Product,
    v: Product,
    out: Product,
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
    pub(crate) fn read(w: &Weights, mut config: Config) -> Result<Encoder> {
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
        let positions = w.get("position_embd.weight", &[c.context, c.width])?;
        let norm = Norm::read(w, "token_embd_norm", c.width, c.norm)?;
        let layers = (0..c.layers).map(layer).collect::<Result<_>>()?;
        config.context = config.longest_text.map_or(config.context, |n| n.min(config.context));
        Ok(Encoder { positions, kind: kinds.select(0, 0), norm, layers, embedding, config })
    }
    /// What it is.
    pub fn config(&self) -> &Config {
        &self.config
    }
    fn check(&self, ids: &[u32]) -> Result<()> {
        let (n, most, tokens) = (ids.len(), self.config.context, self.embedding.shape()[0].get());
        match n == 0 || n > most || ids.iter().any(|i| *i as usize >= tokens) {
            true => {
                let message = format!("{n} tokens; there may be 1 to {most}, each below {tokens}");
                Err(Error::new("encode", message))
            }
            false => Ok(()),
        }
    }
    /// A vector for each token of a text: `(T, width)`.
    #[track_caller]
    pub fn forward(&self, ids: &[u32]) -> Result<Tensor> {
        let _c = frit_tensor::call("encode");
        self.check(ids)?;
        let n = ids.len();
        let ids: Vec<i32> = ids.iter().map(|i| *i as i32).collect();
        Ok(self.vectors(&Tensor::from_slice(&ids), &Tensor::from_slice(&[n as i32])))
    }
    /// Tokens `(n)`, of which the first `count` are a text and the others fill it up: `(n, width)`.
    fn vectors(&self, ids: &Tensor, count: &Tensor) -> Tensor {
        let (c, n) = (&self.config, ids.shape()[0].get());
        let x = self.embedding.embedding(ids) + self.positions.narrow(0, 0, n) + &self.kind;
        let mut x = self.norm.forward(&x);
        let seen = Tensor::arange(n).int().lt(count).reshape([1, 1, n]).expand([1, n, n]);
        for l in &self.layers {
            let heads = |p: &Product| p.forward(&x).unflatten(-1, [c.heads, c.head]).unsqueeze(0);
            let y = layers::attend(c, &heads(&l.q), &heads(&l.k), &heads(&l.v), &seen).squeeze(0);
            x = l.norm_attention.forward(&(&x + l.out.forward(&y)));
            x = l.norm.forward(&(&x + l.between.forward(&x)));
        }
        x
    }
    /// One vector of length 1 for a text.
    #[track_caller]
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        let _c = frit_tensor::call("encode");
        let count = Tensor::from_slice(&[ids.len() as i32]);
        Ok(self.pool(&self.forward(ids)?, &count))
    }
    fn pool(&self, x: &Tensor, count: &Tensor) -> Tensor {
        let within = || Tensor::arange(&x.shape()[0]).int().lt(count).unsqueeze(-1);
        let one = match self.config.pooling {
            Pooling::First => x.select(0, 0),
            Pooling::Last => x.embedding(&(count - 1)).squeeze(0),
            Pooling::Mean => within().where_(x, 0.0).sum(0) / count.float(),
            Pooling::Max => within().where_(x, f64::NEG_INFINITY).max(0),
        };
        one.normalize(2.0, -1, 1e-12)
    }
}

/// Tokens that shorter texts are filled up to.
const SHORTEST: usize = 16;

/// An encoder that embeds texts by captured programs, one for each of a few lengths.
pub struct Embedder {
    encoder: Arc<Encoder>,
    programs: FxHashMap<usize, Jit<(Tensor, Tensor), Tensor>>,
}

impl Embedder {
    /// Of an encoder.
    pub fn new(encoder: Encoder) -> Embedder {
        Embedder { encoder: Arc::new(encoder), programs: FxHashMap::default() }
    }
    /// What it runs.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }
    /// Compiles and records the programs of all lengths, so that no text waits for it later.
    pub fn warm_up(&mut self) -> Result<()> {
        let most = self.encoder.config.context;
        let mut size = SHORTEST;
        while size < 2 * most {
            // called, recorded, replayed
            for _ in 0..3 {
                self.embed(&vec![0; size.min(most)])?;
            }
            size *= 2;
        }
        Ok(())
    }
    /// One vector of length 1 for a text.
    #[track_caller]
    pub fn embed(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let _c = frit_tensor::call("encode");
        self.encoder.check(ids)?;
        let size = ids.len().next_power_of_two().max(SHORTEST).min(self.encoder.config.context);
        let mut padded: Vec<i32> = ids.iter().map(|i| *i as i32).collect();
        padded.resize(size, 0);
        let inputs = [padded, vec![ids.len() as i32]].map(|v| Tensor::from_slice(&v).realize());
        let [tokens, count] = inputs;
        let encoder = self.encoder.clone();
        let program = self.programs.entry(size).or_insert_with(|| {
            Jit::new(move |(ids, count): (Tensor, Tensor)| {
                Ok(encoder.pool(&encoder.vectors(&ids, &count), &count))
            })
        });
        program.call((tokens?, count?))?.to_vec()
    }
}
