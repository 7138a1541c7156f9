//! Attention, and what feeds it: positions by rotation, embeddings.

use crate::creation::float_of;
use crate::error::{Error, Result, call, fail};
use crate::mode::{autocast, factor_type};
use crate::norm::wide;
use crate::shape::show_all;
use crate::tensor::Tensor;
use crate::trace::{Composite, noted};
use frit_uop::DType;

/// Options of [`Tensor::attention`].
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// Bools say where to look, other values are added to the scores.
    pub mask: Option<Tensor>,
    /// Hide later positions.
    pub causal: bool,
    /// What scores are multiplied by; `1 / sqrt(E)` if not given.
    pub scale: Option<f64>,
    /// The part of the weights that is dropped.
    pub dropout: f64,
}

/// Options of [`Tensor::rope`].
#[derive(Clone, Debug)]
pub struct Rope {
    /// The base of the frequencies: pair i of n turns by `base^(-i/n)` a position.
    pub base: f64,
    /// Pairs are neighbours (0 and 1, 2 and 3, …), instead of one of each half (0 and n, 1 and n+1, …).
    pub interleaved: bool,
    /// How many of the last elements turn, from the first; all if not given.
    pub dims: Option<usize>,
    /// The first position.
    pub offset: usize,
    /// The position of each (`T`, or with batch dims in front); `offset` and on if not given.
    pub positions: Option<Tensor>,
}

impl Default for Rope {
    fn default() -> Rope {
        Rope { base: 10000.0, interleaved: false, dims: None, offset: 0, positions: None }
    }
}

impl Tensor {
    /// Attention of queries (this: `…, L, E`) over keys and values (`…, S, E`): `softmax(q k^T / sqrt(E) + mask) v`.
    /// A bool mask says where to look; another is added. `causal` hides later positions. Fewer key heads than query
    /// heads (dim -3) are shared by groups of them.
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Tensor {
        self.attention(key, value, Attention { mask: mask.cloned(), causal, ..Attention::default() })
    }
    /// [`Tensor::scaled_dot_product_attention`] with all options. A query that may look nowhere gives zeros.
    #[track_caller]
    pub fn attention(&self, key: &Tensor, value: &Tensor, o: Attention) -> Tensor {
        let _c = call("attention");
        let (q, k) = (self.shape(), key.shape());
        let mut shared = (key.clone(), value.clone());
        if let (4.., 4.., Some(hq), Some(hk)) = (q.rank(), k.rank(), q[-3].as_int(), k[-3].as_int())
            && hk > 1
            && hq > hk
            && hq % hk == 0
        {
            let n = (hq / hk) as usize;
            shared = (key.repeat_interleave(n, -3), value.repeat_interleave(n, -3));
        }
        let given = [Some(self), Some(key), Some(value), o.mask.as_ref()];
        let (key, value) = shared;
        let scale = match (o.scale, q[-1].value()) {
            (Some(s), _) => s,
            (None, Ok(e)) => 1.0 / (e as f64).sqrt(),
            (None, Err(e)) => return Tensor::failed(e),
        };
        // scores are not rounded where factors are
        let factor = |t: &Tensor| t.cast(factor_type(t.dtype()));
        let exact = |a: &Tensor, b: &Tensor| autocast(DType::F32, || wide(a).matmul(&wide(b)));
        let mut scores = exact(&factor(self), &factor(&key).t()) * scale;
        if o.causal {
            let (l, s) = (Tensor::arange(&q[-2]).unsqueeze(1), Tensor::arange(&k[-2]).unsqueeze(0));
            scores = s.le(l).where_(&scores, f64::NEG_INFINITY);
        }
        let weights = match &o.mask {
            None => scores.softmax(-1),
            Some(m) if m.dtype() == DType::Bool => weights(&m.where_(scores, f64::NEG_INFINITY)),
            Some(m) => weights(&(scores + m)),
        };
        let weights = if o.dropout > 0.0 { weights.dropout(o.dropout) } else { weights };
        let value = factor(&value);
        let weights = if value.dtype().is_small_float() { weights.cast(value.dtype()) } else { weights };
        let y = exact(&weights, &value).cast(float_of(self.dtype()));
        if o.dropout > 0.0 {
            return y;
        }
        noted(|| Composite::Attention { causal: o.causal, scale }, &given, y)
    }
    /// Rotary positions: pairs of elements of the last dim turn by an angle that grows with the position (dim -2).
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1.0, 0.0], [1.0, 0.0]]).rope(Rope::default()); // (T, 2)
    /// let turned = [1.0, 0.0, 1f32.cos(), 1f32.sin()];
    /// assert!(x.to_vec::<f32>()?.iter().zip(turned).all(|(a, b)| (a - b).abs() < 1e-6));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rope(&self, o: Rope) -> Tensor {
        let _c = call("rope");
        rope(self, &o).unwrap_or_else(Tensor::failed)
    }
    /// [`Tensor::embedding`] where one row (negative counts from the end) gets no gradient.
    #[track_caller]
    pub fn embedding_padded(&self, idx: &Tensor, padding_idx: isize) -> Tensor {
        let _c = call("embedding");
        let rows = match self.uop() {
            Err(e) => return Tensor::failed(e),
            Ok(x) if x.shape().is_empty() => return self.embedding(idx),
            Ok(_) => self.shape()[0].get() as isize,
        };
        if padding_idx < -rows || padding_idx >= rows {
            let message = format!("padding index {padding_idx} of {rows} rows");
            return Tensor::failed(Error::new("embedding", message));
        }
        let pad = if padding_idx < 0 { padding_idx + rows } else { padding_idx };
        let picked = self.embedding(idx);
        let behind = self.rank() - 1;
        let is_pad = (0..behind).fold(idx.eq(pad).logical_or(idx.eq(pad - rows)), |m, _| m.unsqueeze(-1));
        is_pad.where_(picked.detach(), picked)
    }
}

/// The softmax of scores of which a whole row may be -inf: where nothing is seen there are no weights.
fn weights(scores: &Tensor) -> Tensor {
    let most = scores.max(crate::keepdim(-1)).detach();
    let e = (scores - most.eq(f64::NEG_INFINITY).where_(0.0, most)).exp();
    let sum = e.sum(crate::keepdim(-1));
    e * sum.eq(0.0).where_(1.0, sum).reciprocal()
}

fn rope(x: &Tensor, o: &Rope) -> Result<Tensor> {
    let u = x.uop()?;
    let s = u.shape();
    if s.len() < 2 {
        return fail!("rope", "of shape {}, not (…, positions, elements)", show_all(s));
    }
    let whole = crate::movement::fixed("rope", &s[s.len() - 1])? as usize;
    let n = o.dims.unwrap_or(whole);
    if n % 2 == 1 || n > whole || !(o.base > 0.0 && o.base.is_finite()) {
        return fail!("rope", "{n} of {whole} elements in pairs, base {}", o.base);
    }
    let half = n / 2;
    // rounded once: an error here grows with the position
    let turns: Vec<f32> = (0..half).map(|i| o.base.powf(-(i as f64) / half as f64) as f32).collect();
    let turns = Tensor::from_slice(&turns).to(&x.device()?);
    let positions = match &o.positions {
        Some(p) => p.clone(),
        None => Tensor::arange(&x.shape()[-2]) + o.offset,
    };
    let angle = positions.cast(DType::F32).unsqueeze(-1) * turns; // (…, T, half)
    // positions of a batch: heads and the like between it and the positions
    let lead = x.rank().saturating_sub(angle.rank());
    let angle = if angle.rank() > 2 { (0..lead).fold(angle, |a, _| a.unsqueeze(-3)) } else { angle };
    let (cos, sin) = (angle.cos(), angle.sin());
    let v = wide(x);
    let (turned, rest) = (v.narrow(-1, 0, n), v.narrow(-1, n, whole - n));
    let out = if o.interleaved {
        let pairs = turned.unflatten(-1, [half, 2]);
        let (a, b) = (pairs.narrow(-1, 0, 1).squeeze(-1), pairs.narrow(-1, 1, 1).squeeze(-1));
        Tensor::stack(&[&a * &cos - &b * &sin, &a * &sin + &b * &cos], -1).flatten(-2, -1)
    } else {
        let (a, b) = (turned.narrow(-1, 0, half), turned.narrow(-1, half, half));
        Tensor::cat(&[&a * &cos - &b * &sin, &a * &sin + &b * &cos], -1)
    };
    let out = if whole > n { Tensor::cat(&[out, rest], -1) } else { out };
    Ok(out.cast(float_of(x.dtype())))
}
