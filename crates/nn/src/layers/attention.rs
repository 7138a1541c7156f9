//! Attention with several heads.

use super::{Linear, filled, plus};
use crate::{Module, is_training};
use frit_tensor::{DType, Error, Result, Tensor};

/// What is hidden from attention. As in torch's layers a bool mask is `true` where nothing may be looked at; another
/// is added to the scores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masks<'a> {
    /// (L, S), or (N * heads, L, S): which keys a query may not see.
    pub attention: Option<&'a Tensor>,
    /// (N, S): which keys no query may see.
    pub key_padding: Option<&'a Tensor>,
    /// A query does not see later keys.
    pub causal: bool,
}

impl<'a> Masks<'a> {
    /// A query does not see later keys.
    pub fn causal() -> Masks<'a> {
        Masks { causal: true, ..Masks::default() }
    }
}

/// Attention with several heads, each over its part of the features.
///
/// ```
/// # use frit_nn::{Masks, MultiheadAttention};
/// # use frit_tensor::Tensor;
/// let attention = MultiheadAttention::new(8, 2).batch_first();
/// let x = Tensor::zeros([3, 5, 8]); // 3 sequences of 5 places
/// assert_eq!(attention.forward(&x, &x, &x, Masks::causal()).shape(), [3, 5, 8]);
/// ```
#[derive(Module)]
pub struct MultiheadAttention {
    /// (3 * dim, dim): queries, keys, values; where keys and values have as many features as queries
    pub in_proj_weight: Option<Tensor>,
    /// (dim, dim), (dim, key features), (dim, value features); elsewhere
    pub q_proj_weight: Option<Tensor>,
    /// See `q_proj_weight`
    pub k_proj_weight: Option<Tensor>,
    /// See `q_proj_weight`
    pub v_proj_weight: Option<Tensor>,
    /// (3 * dim,)
    pub in_proj_bias: Option<Tensor>,
    /// Mixes the heads
    pub out_proj: Linear,
    dim: usize,
    heads: usize,
    dropout: f64,
    batch_first: bool,
}

impl MultiheadAttention {
    /// `heads` heads over `dim` features, for (L, N, dim).
    #[track_caller]
    pub fn new(dim: usize, heads: usize) -> MultiheadAttention {
        let _c = frit_tensor::call("attention");
        let in_proj_weight = match heads > 0 && dim.is_multiple_of(heads) {
            true => Tensor::glorot_uniform([3 * dim, dim]).requires_grad(true),
            false => {
                let message = format!("{dim} features do not divide into {heads} heads");
                Tensor::failed(Error::new("attention", message))
            }
        };
        let zeros = |n| filled(&[n], 0.0).requires_grad(true);
        let out_proj = Linear { bias: Some(zeros(dim)), ..Linear::without_bias(dim, dim) };
        MultiheadAttention {
            in_proj_weight: Some(in_proj_weight),
            q_proj_weight: None,
            k_proj_weight: None,
            v_proj_weight: None,
            in_proj_bias: Some(zeros(3 * dim)),
            out_proj,
            dim,
            heads,
            dropout: 0.0,
            batch_first: false,
        }
    }
    /// Keys and values with numbers of features of their own.
    #[track_caller]
    pub fn key_value_dims(mut self, keys: usize, values: usize) -> MultiheadAttention {
        let _c = frit_tensor::call("attention");
        let Some(Ok(())) = self.in_proj_weight.as_ref().map(Tensor::check) else { return self };
        let draw = |n: usize| Some(Tensor::glorot_uniform([self.dim, n]).requires_grad(true));
        self.q_proj_weight = draw(self.dim);
        self.k_proj_weight = draw(keys);
        self.v_proj_weight = draw(values);
        self.in_proj_weight = None;
        self
    }
    /// Drops the biases.
    pub fn without_bias(mut self) -> MultiheadAttention {
        self.in_proj_bias = None;
        self.out_proj.bias = None;
        self
    }
    /// While training, how many of the weights of attention are dropped.
    pub fn dropout(mut self, p: f64) -> MultiheadAttention {
        self.dropout = p;
        self
    }
    /// (N, L, dim) in place of (L, N, dim).
    pub fn batch_first(mut self) -> MultiheadAttention {
        self.batch_first = true;
        self
    }
    /// (L, N, dim), (S, N, keys), (S, N, values) -> (L, N, dim). One sequence may come without its N; `batch_first`
    /// puts N first.
    #[track_caller]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: Masks) -> Tensor {
        let _c = frit_tensor::call("attention");
        self.run(query, key, value, masks, false).map_or_else(Tensor::failed, |(y, _)| y)
    }
    /// As [`forward`](Self::forward), with the weights of attention: (N, heads, L, S).
    #[track_caller]
    pub fn forward_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: Masks,
    ) -> (Tensor, Tensor) {
        let _c = frit_tensor::call("attention");
        match self.run(query, key, value, masks, true) {
            Ok((y, weights)) => {
                (y, weights.unwrap_or_else(|| Tensor::failed(Error::new("attention", "no weights"))))
            }
            Err(e) => (Tensor::failed(e.clone()), Tensor::failed(e)),
        }
    }
    fn run(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: Masks,
        want_weights: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let batched = self.batched(query, key, value)?;
        let turned = |x: &Tensor| match (batched, self.batch_first) {
            (false, _) => x.unsqueeze(0),
            (true, true) => x.clone(),
            (true, false) => x.transpose(0, 1),
        };
        let project = |x: &Tensor, i| self.heads_of(&self.projected(&turned(x), i));
        let (q, k, v) = (project(query, 0), project(key, 1), project(value, 2)); // (N, heads, L, dim / heads)
        let mask = self.mask(&q, &k, masks)?;
        let dropped = self.dropout > 0.0 && is_training();
        let (y, weights) = if want_weights || dropped {
            let scale = ((self.dim / self.heads) as f64).sqrt().recip();
            let scores = plus((&q * scale).matmul(&k.t()), mask.as_ref());
            let weights = scores.softmax(-1);
            let kept = if dropped { weights.dropout(self.dropout) } else { weights.clone() };
            (kept.matmul(&v), Some(weights))
        } else {
            (q.scaled_dot_product_attention(&k, &v, mask.as_ref(), false), None)
        };
        let y = self.out_proj.forward(&y.transpose(1, 2).flatten(2, 3)); // (N, L, dim)
        Ok(match (batched, self.batch_first) {
            (false, _) => (y.squeeze(0), weights.map(|w| w.squeeze(0))),
            (true, true) => (y, weights),
            (true, false) => (y.transpose(0, 1), weights),
        })
    }
    /// Whether the inputs have an N, once they fit.
    fn batched(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<bool> {
        query.check().and(key.check()).and(value.check())?;
        if let Some(w) = &self.in_proj_weight {
            w.check()?;
        }
        let widths = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight]
            .map(|w| w.as_ref().map_or(self.dim, |w| w.shape()[1].get()));
        let rank = query.rank();
        for ((x, what), width) in [(query, "query"), (key, "key"), (value, "value")].into_iter().zip(widths) {
            if !matches!(rank, 2 | 3) || x.rank() != rank || x.shape()[-1] != width {
                let message =
                    format!("the {what} is {}, expected 2 or 3 dims with {width} features", x.shape());
                return Err(Error::new("attention", message));
            }
        }
        Ok(rank == 3)
    }
    /// Queries (0), keys (1) or values (2) of (N, L, features) as (N, L, dim).
    fn projected(&self, x: &Tensor, which: usize) -> Tensor {
        let part = |t: &Tensor| t.narrow(0, which * self.dim, self.dim);
        let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][which];
        let weight = match (&self.in_proj_weight, own) {
            (Some(all), _) => part(all),
            (None, Some(w)) => w.clone(),
            (None, None) => Tensor::failed(Error::new("attention", "there are no weights to project with")),
        };
        x.linear(&weight, self.in_proj_bias.as_ref().map(part).as_ref())
    }
    /// (N, L, dim) -> (N, heads, L, dim / heads)
    fn heads_of(&self, x: &Tensor) -> Tensor {
        x.unflatten(2, [self.heads, self.dim / self.heads]).transpose(1, 2)
    }
    /// All masks as one that is added: (1 or N, 1 or heads, L, S).
    fn mask(&self, q: &Tensor, k: &Tensor, masks: Masks) -> Result<Option<Tensor>> {
        let (q, k) = (q.shape(), k.shape());
        let (n, l, s) = (&q[0], &q[2], &k[2]);
        let wrong = |what: &str, m: &Tensor| {
            let message =
                format!("a {what} mask of shape {} for {n} sequences, {l} queries and {s} keys", m.shape());
            Err(Error::new("attention", message))
        };
        let mut all: Option<Tensor> = None;
        let mut add = |m: Tensor| {
            all = Some(match all.take() {
                Some(sum) => sum + m,
                None => m,
            })
        };
        if let Some(m) = masks.attention {
            m.check()?;
            let shape = m.shape();
            let fits = m.rank() >= 2 && shape[-2] == *l && shape[-1] == *s;
            add(match m.rank() {
                2 if fits => added(m),
                3 if fits && shape[0].get() == n.get() * self.heads => {
                    added(m).unflatten(0, [n.get(), self.heads])
                }
                _ => return wrong("attention", m),
            });
        }
        if let Some(m) = masks.key_padding {
            m.check()?;
            let m = if m.rank() == 1 { m.unsqueeze(0) } else { m.clone() };
            if m.rank() != 2 || m.shape()[0] != *n || m.shape()[1] != *s {
                return wrong("key padding", &m);
            }
            add(added(&m).unsqueeze(1).unsqueeze(1));
        }
        if masks.causal {
            add(added(&Tensor::arange(s).gt(Tensor::arange(l).unsqueeze(1))));
        }
        Ok(all)
    }
}

/// A mask as it is added to scores.
fn added(m: &Tensor) -> Tensor {
    if m.dtype() == DType::Bool { m.where_(f64::NEG_INFINITY, 0.0) } else { m.clone() }
}
