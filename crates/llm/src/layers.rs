//! The parts of a layer: norms, products, feed-forwards, attention.

use crate::adapter::LowRank;
use crate::config::{self, Activation, Config, FEW};
use crate::weights::{Experts, Rounding, Weights};
use frit_nn::Linear;
use frit_nn::gguf::Words;
use frit_tensor::{DType, Result, Tensor};
use std::sync::Arc;

/// A norm with its weights.
pub struct Norm {
    weight: Tensor,
    bias: Option<Tensor>,
    kind: config::Norm,
}

impl Norm {
    /// The norm of a name, over vectors of `size` elements.
    pub fn read(w: &Weights, name: &str, size: usize, kind: config::Norm) -> Result<Norm> {
        let weight = w.get(&format!("{name}.weight"), &[size])?;
        let weight = if kind.offset == 0.0 { weight } else { (weight + kind.offset).realize()? };
        Ok(Norm { weight, bias: w.get_if(&format!("{name}.bias"), &[size])?, kind })
    }
    /// The same, if it is there.
    pub fn read_if(w: &Weights, name: &str, size: usize, kind: config::Norm) -> Result<Option<Norm>> {
        w.has(&format!("{name}.weight")).then(|| Norm::read(w, name, size, kind)).transpose()
    }
    /// (…, size) -> (…, size)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match self.kind.is_rms {
            true => x.rmsnorm(-1, Some(&self.weight), self.kind.eps),
            false => x.layernorm(-1, Some(&self.weight), self.bias.as_ref(), self.kind.eps),
        }
    }
}

/// A norm that not every model has.
pub fn maybe(norm: &Option<Norm>, x: Tensor) -> Tensor {
    match norm {
        Some(n) => n.forward(&x),
        None => x,
    }
}

/// A product with a weight of `(outputs, inputs)`, a bias where there is one, and what an adapter adds.
pub struct Product {
    linear: Linear,
    /// The same weight in whole numbers.
    words: Option<Arc<Words>>,
    rounding: Rounding,
    added: Option<LowRank>,
}

/// A factor as the units for bfloat16 take it; sums of products stay float32.
fn narrow(factor: &Tensor) -> Tensor {
    factor.cast(DType::BF16).float()
}

impl Product {
    /// With a weight alone.
    pub fn of(weight: Tensor) -> Product {
        Product {
            linear: Linear { weight, bias: None },
            words: None,
            rounding: Rounding::default(),
            added: None,
        }
    }
    /// With a weight that is stored under a name, and has no bias.
    pub fn tied(w: &Weights, name: &str, weight: Tensor) -> Result<Product> {
        let words = w.words(name)?.map(Arc::new);
        Ok(Product { words, rounding: w.rounding(), ..Product::of(weight) })
    }
    /// Some rows of its weight.
    fn rows(&self, begin: usize, count: usize) -> Product {
        let rows = |t: &Tensor| t.narrow(0, begin, count);
        let linear = Linear { weight: rows(&self.linear.weight), bias: self.linear.bias.as_ref().map(rows) };
        let words = self.words.as_ref().map(|w| Arc::new(w.rows(begin, count)));
        let added = self.added.as_ref().map(|a| a.rows(begin, count));
        Product { linear, words, rounding: self.rounding, added }
    }
    /// (.., inputs) -> (.., outputs)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let tokens = x.dims().ok().filter(|dims| dims.len() == 2).map(|dims| dims[0]);
        let y = match self.words.as_ref().zip(self.rounding.whole(tokens)) {
            Some((words, bytes)) => {
                let y = words.product(x, bytes);
                self.linear.bias.as_ref().map_or(y.clone(), |b| y + b)
            }
            None if self.rounding.is_narrow(tokens) => {
                narrow(x).linear(&narrow(&self.linear.weight), self.linear.bias.as_ref())
            }
            None => self.linear.forward(x),
        };
        match &self.added {
            Some(added) => y + added.forward(x),
            None => y,
        }
    }
}

/// The product of a name.
pub fn linear(w: &Weights, name: &str, inputs: usize, outputs: usize) -> Result<Product> {
    let (weight, added) = w.product(name, inputs, outputs)?;
    let bias = w.get_if(&format!("{name}.bias"), &[outputs])?;
    let words = w.words(&format!("{name}.weight"))?.map(Arc::new);
    let linear = Linear { weight, bias };
    Ok(Product { linear, words, rounding: w.rounding(), added })
}

/// Several products of one input: their weights by name, or the rows of one weight that has them one after the other.
pub fn linears<const N: usize>(
    w: &Weights,
    names: [String; N],
    fused: &str,
    inputs: usize,
    outputs: [usize; N],
) -> Result<[Product; N]> {
    let all: Vec<Product> = match w.has(&format!("{fused}.weight")) && !w.has(&format!("{}.weight", names[0]))
    {
        false => {
            names.iter().zip(outputs).map(|(n, out)| linear(w, n, inputs, out)).collect::<Result<_>>()?
        }
        true => {
            let whole = linear(w, fused, inputs, outputs.iter().sum())?;
            let mut begin = 0;
            let part = |out: usize| {
                let part = whole.rows(begin, out);
                begin += out;
                part
            };
            outputs.into_iter().map(part).collect()
        }
    };
    all.try_into().map_err(|_| frit_tensor::Error::new("load", "as many products as names"))
}

fn activate(kind: Activation, x: &Tensor) -> Tensor {
    match kind {
        Activation::Silu => x.silu(),
        Activation::Gelu => x.gelu(),
        Activation::GeluTanh => x.gelu_tanh(),
        Activation::Relu => x.relu(),
    }
}

/// Two products with something between them.
pub struct FeedForward {
    gate: Option<Product>,
    up: Product,
    down: Product,
    activation: Activation,
}

impl FeedForward {
    /// That of a layer; `ending` tells one that all tokens share from those of experts.
    pub fn read(w: &Weights, c: &Config, at: &str, ending: &str, hidden: usize) -> Result<FeedForward> {
        let name = |part: &str| format!("{at}.ffn_{part}{ending}");
        let up = name("up");
        let is_fused = w.has(&format!("{up}.weight")) && {
            let rows = w.find(&format!("{up}.weight"))?.dims()?;
            rows.first() == Some(&(2 * hidden))
        };
        let (gate, up) = if is_fused {
            let missing = [format!("{up} (gate)"), format!("{up} (up)")];
            let [gate, up] = linears(w, missing, &up, c.width, [hidden, hidden])?;
            (Some(gate), up)
        } else if w.has(&format!("{}.weight", name("gate"))) {
            (Some(linear(w, &name("gate"), c.width, hidden)?), linear(w, &up, c.width, hidden)?)
        } else {
            (None, linear(w, &up, c.width, hidden)?)
        };
        Ok(FeedForward {
            gate,
            up,
            down: linear(w, &name("down"), hidden, c.width)?,
            activation: c.activation,
        })
    }
    /// (…, width) -> (…, width)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let h = match &self.gate {
            Some(gate) => activate(self.activation, &gate.forward(x)) * self.up.forward(x),
            None => activate(self.activation, &self.up.forward(x)),
        };
        self.down.forward(&h)
    }
}

/// Feed-forwards of which some are chosen for each token: only their weights are read.
pub struct Mixture {
    router: Product,
    /// Each (hidden, width)
    gate: Experts,
    up: Experts,
    /// Each (width, hidden)
    down: Experts,
    /// One that every token goes through, and how much of it each takes.
    shared: Option<(FeedForward, Product)>,
    used: usize,
    is_normalised: bool,
    activation: Activation,
}

impl Mixture {
    /// That of a layer.
    pub fn read(w: &Weights, c: &Config, e: &config::Experts, at: &str) -> Result<Mixture> {
        let name = |part: &str| format!("{at}.ffn_{part}_exps.weight");
        let shared = match w.has(&format!("{at}.ffn_up_shexp.weight")) {
            true => {
                let rows = w.find(&format!("{at}.ffn_up_shexp.weight"))?.dims()?;
                let forward = FeedForward::read(w, c, at, "_shexp", rows.first().copied().unwrap_or(0))?;
                // GGUF has a vector there, a folder a matrix of one row
                let gate = w.find(&format!("{at}.ffn_gate_inp_shexp.weight"))?.reshape([1, c.width]);
                gate.check()?;
                Some((forward, Product::of(gate)))
            }
            false => None,
        };
        Ok(Mixture {
            // no adapter's: which experts are chosen is not trained
            router: Product::of(w.get(&format!("{at}.ffn_gate_inp.weight"), &[e.count, c.width])?),
            gate: w.experts(&name("gate"), e.count, [e.hidden, c.width])?,
            up: w.experts(&name("up"), e.count, [e.hidden, c.width])?,
            down: w.experts(&name("down"), e.count, [c.width, e.hidden])?,
            shared,
            used: e.used,
            is_normalised: e.is_normalised,
            activation: c.activation,
        })
    }
    /// (T, width) -> (T, width)
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let (parts, chosen) = self.router.forward(x).softmax(-1).topk(self.used, -1, true); // (T, used)
        let (parts, chosen) = (parts.contiguous(), chosen.contiguous());
        let parts = match self.is_normalised {
            true => &parts / parts.sum(frit_tensor::keepdim(-1)),
            false => parts,
        };
        // (T, used, outputs, inputs) times (T, used or 1, inputs, 1)
        let product = |w: &Experts, x: &Tensor| w.of(&chosen).matmul(&x.unsqueeze(-1)).squeeze(-1);
        let each = x.unsqueeze(1);
        let h = activate(self.activation, &product(&self.gate, &each)) * product(&self.up, &each);
        let y = (product(&self.down, &h) * parts.unsqueeze(-1)).sum(1);
        match &self.shared {
            Some((forward, gate)) => y + forward.forward(x) * gate.forward(x).sigmoid(),
            None => y,
        }
    }
}

/// Attention of queries `(R, C, heads, head)` of R sequences over their keys and values `(R, S, kv_heads, head)`, where
/// `seen` is true `(R, C, S)`: `(R, C, heads * head)`.
pub fn attend(c: &Config, q: &Tensor, k: &Tensor, v: &Tensor, seen: &Tensor) -> Tensor {
    let group = c.heads / c.kv_heads;
    let is_few = q.shape()[1].as_int().is_some_and(|n| n <= FEW as i64);
    let factor = |t: &Tensor| if c.is_rounded && !is_few { narrow(t) } else { t.clone() };
    let q = factor(&(q * c.scale)).unflatten(2, [c.kv_heads, group]).permute([0, 2, 3, 1, 4]);
    let (k, v) = (factor(k).permute([0, 2, 3, 1]), factor(v).permute([0, 2, 1, 3]));
    // heads of a group share keys: those of few tokens are rows of one product, (R, kv_heads, group * C, head)
    let count = q.shape()[3].clone();
    let product = |a: &Tensor, b: &Tensor| match is_few {
        true => a.flatten(2, 3).matmul(b).unflatten(2, [group.into(), count.clone()]),
        false => a.matmul(&b.unsqueeze(2)),
    };
    let scores = product(&q, &k); // (R, kv_heads, group, C, S)
    let scores = match c.attention_cap {
        Some(cap) => (scores / cap).tanh() * cap,
        None => scores,
    };
    let seen = seen.unsqueeze(1).unsqueeze(1); // (R, 1, 1, C, S)
    let weights = seen.where_(scores, f64::NEG_INFINITY).softmax(-1);
    product(&factor(&weights), &v).permute([0, 3, 1, 2, 4]).flatten(2, 4) // (R, C, kv_heads * group * head)
}

/// Which of keys at `keys` (S) a query at each of `positions` (R, C) sees: `(R, C, S)`.
pub fn seen(positions: &Tensor, keys: &Tensor, window: Option<usize>) -> Tensor {
    let (p, k) = (positions.unsqueeze(-1), keys.reshape([1, 1, -1]));
    let causal = k.le(&p);
    match window {
        Some(n) => causal.logical_and(k.gt(&p - n as i64)),
        None => causal,
    }
}
