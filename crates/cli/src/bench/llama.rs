//! A token, and a prompt, of a language model of the size and shape of Llama 3 8B, with random weights.

use super::ops::randn;
use super::{Bench, CHECK, Line, captured};
use frit::*;
use std::sync::atomic::Ordering;

/// Sizes of a model.
#[derive(Clone, Copy)]
struct Sizes {
    layers: usize,
    dim: usize,
    heads: usize,
    kv_heads: usize,
    hidden: usize,
    words: usize,
    /// Tokens of context.
    length: usize,
}

const LLAMA_8B: Sizes =
    Sizes { layers: 32, dim: 4096, heads: 32, kv_heads: 8, hidden: 14336, words: 128_256, length: 512 };
const SMALL: Sizes =
    Sizes { layers: 2, dim: 256, heads: 8, kv_heads: 2, hidden: 512, words: 1000, length: 64 };

/// The weights of a layer, and the keys and values of what it has seen.
struct Layer {
    norms: [Tensor; 2],
    qkv: Tensor,
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cache: [Tensor; 2],
}

struct Model {
    sizes: Sizes,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    classify: Tensor,
}

fn weights(dims: &[usize]) -> Result<Tensor> {
    (randn(dims)? * 0.02).cast(DType::BF16).realize()
}

impl Model {
    fn new(sizes: Sizes) -> Result<Model> {
        let Sizes { dim, heads, kv_heads, hidden, words, length, .. } = sizes;
        let head = dim / heads;
        let layer = || {
            Ok(Layer {
                norms: [weights(&[dim])?, weights(&[dim])?],
                qkv: weights(&[(heads + 2 * kv_heads) * head, dim])?,
                out: weights(&[dim, dim])?,
                gate: weights(&[hidden, dim])?,
                up: weights(&[hidden, dim])?,
                down: weights(&[dim, hidden])?,
                cache: [weights(&[kv_heads, length, head])?, weights(&[kv_heads, length, head])?],
            })
        };
        let layers = (0..sizes.layers).map(|_| layer()).collect::<Result<_>>()?;
        let (embedding, classify) = (weights(&[words, dim])?, weights(&[words, dim])?);
        Ok(Model { sizes, embedding, layers, norm: weights(&[dim])?, classify })
    }

    fn bytes(&self) -> f64 {
        let Sizes { layers, dim, heads, kv_heads, hidden, words, length } = self.sizes;
        let kv = dim / heads * kv_heads;
        let layer = 2 * dim * dim + 2 * dim * kv + 3 * dim * hidden + 2 * kv * length;
        2.0 * (layers * layer + words * dim) as f64
    }

    /// The token after `token`, which stands at `place`; both int32, in memory.
    fn next(&self, token: &Tensor, place: &Tensor) -> Result<Tensor> {
        let Sizes { dim, heads, kv_heads, length, .. } = self.sizes;
        let (head, groups) = (dim / heads, heads / kv_heads);
        let now = Tensor::arange(length).eq(place).reshape((1, length, 1));
        let mut x = self.embedding.embedding(token).reshape((1, dim));
        let mut state = vec![];
        for layer in &self.layers {
            let h = x.rmsnorm(-1, Some(&layer.norms[0]), 1e-5);
            let qkv = h.linear(&layer.qkv, None).reshape((heads + 2 * kv_heads, 1, head));
            let q = turned(&qkv.at(..heads), place).reshape((kv_heads, groups, head));
            let k = turned(&qkv.at(heads..heads + kv_heads), place); // (kv_heads, 1, head)
            let v = qkv.at(heads + kv_heads..);
            let [keys, values] = &layer.cache;
            keys.assign(now.where_(&k, keys));
            values.assign(now.where_(&v, values));
            state.extend([keys, values]);
            // the heads of a group share keys and values
            let y = q.scaled_dot_product_attention(keys, values, None, false);
            x = &x + y.reshape((1, dim)).linear(&layer.out, None);
            let h = x.rmsnorm(-1, Some(&layer.norms[1]), 1e-5);
            let h = h.linear(&layer.gate, None).silu() * h.linear(&layer.up, None);
            x = &x + h.linear(&layer.down, None);
        }
        let next = x.rmsnorm(-1, Some(&self.norm), 1e-5).linear(&self.classify, None).argmax(-1);
        Tensor::realize_all(&state.into_iter().chain([&next]).collect::<Vec<_>>())?;
        Ok(next)
    }

    /// The token after a prompt.
    fn after(&self, tokens: &Tensor) -> Tensor {
        let Sizes { dim, heads, kv_heads, length, .. } = self.sizes;
        let (head, groups) = (dim / heads, heads / kv_heads);
        let places = Tensor::arange(length).reshape((length, 1));
        let mut x = self.embedding.embedding(tokens);
        for layer in &self.layers {
            let h = x.rmsnorm(-1, Some(&layer.norms[0]), 1e-5);
            let qkv =
                h.linear(&layer.qkv, None).reshape((length, heads + 2 * kv_heads, head)).transpose(0, 1);
            let q = turned(&qkv.at(..heads), &places).reshape((kv_heads, groups, length, head));
            let shared = |t: Tensor| t.unsqueeze(1).expand((kv_heads, groups, length, head));
            let k = shared(turned(&qkv.at(heads..heads + kv_heads), &places));
            let v = shared(qkv.at(heads + kv_heads..));
            let y = q.scaled_dot_product_attention(&k, &v, None, true);
            let y = y.reshape((heads, length, head)).transpose(0, 1).reshape((length, dim));
            x = &x + y.linear(&layer.out, None);
            let h = x.rmsnorm(-1, Some(&layer.norms[1]), 1e-5);
            let h = h.linear(&layer.gate, None).silu() * h.linear(&layer.up, None);
            x = &x + h.linear(&layer.down, None);
        }
        let last = x.at(length - 1..).rmsnorm(-1, Some(&self.norm), 1e-5);
        last.linear(&self.classify, None).argmax(-1)
    }
}

/// Rotary places: the two halves of a head turned by an angle that grows with the place.
fn turned(x: &Tensor, place: &Tensor) -> Tensor {
    let n = x.shape()[-1].get() / 2;
    let speeds: Vec<f32> = (0..n).map(|i| 500_000f32.powf(-(i as f32) / n as f32)).collect();
    let angle = Tensor::from_slice(&speeds) * place.float();
    let (sin, cos) = (angle.sin().cast(DType::BF16), angle.cos().cast(DType::BF16));
    let (a, b) = (x.at((.., .., ..n)), x.at((.., .., n..)));
    Tensor::cat(&[&a * &cos - &b * &sin, a * sin + b * cos], -1)
}

/// Weights are random and stay on their device.
fn refuse_to_compare() -> Result<()> {
    let why = "the weights are random and stay on their device: nothing to compare with";
    if CHECK.load(Ordering::Relaxed) { Err(Error::new("bench", why)) } else { Ok(()) }
}

fn prefill(sizes: Sizes) -> Result<Line> {
    refuse_to_compare()?;
    let model = Model::new(sizes)?;
    let tokens = Tensor::randint(0, sizes.words as i64, [sizes.length]).realize()?;
    let line = captured(tokens, move |tokens| Ok(autocast(DType::BF16, || model.after(&tokens))))?;
    let rate = sizes.length as f64 / line.ms * 1e3;
    Ok(line.with("tokens_s", rate))
}

fn decode(sizes: Sizes) -> Result<Line> {
    refuse_to_compare()?;
    let model = Model::new(sizes)?;
    let bytes = model.bytes();
    let scalar = |n: i32| Tensor::from_vec([n], [1]).realize();
    let (token, place) = (scalar(1)?, scalar(sizes.length as i32 - 1)?);
    let line = captured((token, place), move |(token, place)| model.next(&token, &place))?;
    let rate = bytes / line.ms / 1e6;
    Ok(line.with("gbps", rate))
}

/// The list.
pub fn benches() -> Vec<Bench> {
    let large = |name: &str, run: fn(Sizes) -> Result<Line>| Bench {
        only_by_name: true,
        ..Bench::new(name, move || run(LLAMA_8B))
    };
    vec![
        Bench::new("llama_small_bf16_decode", || decode(SMALL)),
        Bench::new("llama_small_bf16_prefill", || prefill(SMALL)),
        large("llama8b_bf16_decode", decode),
        large("llama8b_bf16_prefill512", prefill),
    ]
}
