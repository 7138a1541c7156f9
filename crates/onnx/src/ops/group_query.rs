//! Queries in groups that share a key head, over keys and values that are kept: all of them or those of a window, as numbers or
//! rounded to few bits.

use super::attention::{apply_rotary, attend, heads, packed, shared};
use super::shape::size_at;
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{DType, Dim, Result, Tensor};

pub(super) const OPS: &[Op] = &[op("GroupQueryAttention", 1, group_query_attention)];

fn group_query_attention(c: &Call) -> Result<Outs> {
    let (n, kv) = (c.count("num_heads", 1)? as i64, c.count("kv_num_heads", 1)? as i64);
    let scale = c.float("scale")?.filter(|s| *s != 0.0);
    let (window, cap) = (c.int_or("local_window_size", -1)?, c.float_or("softcap", 0.0)?);
    let (causal, shown) = (c.int_or("causal", 1)? != 0, c.int_or("qk_output", 0)?);
    if !causal && window >= 0 {
        return fail(format!("a window of {window} keys where every query sees all"));
    }
    let (q, k, v) = match (c.tensor(0)?, c.optional(1)?, c.optional(2)?) {
        (q, Some(k), Some(v)) => (heads(&q, n), heads(&k, kv), heads(&v, kv)),
        (all, None, None) => {
            let all = heads(&all, n + 2 * kv);
            (all.narrow(1, 0, n), all.narrow(1, n, kv), all.narrow(1, n + kv, kv))
        }
        _ => return fail("keys without values, or values without keys"),
    };
    let (q, k) = normed(c, q, k)?;
    let length = size_at(&q, 2)? as i64;
    let total = c.dims(6)?.pop().map_or_else(|| fail("no total length"), Ok)?;
    // (B, 1): how many keys came before, of which each sample has as many as it has keys less those of now
    let last = c.tensor(5)?.long().reshape((-1, 1));
    let is_first = total.is_equal(length)?;
    let before = if is_first { last.zeros_like() } else { &last - (length - 1) };
    let at = &before + Tensor::arange(length).long(); // (B, T)
    let (q, k) = turned(c, q, k, &at)?;
    let codes = (Codes::of(c, "k_quant_type", 12)?, Codes::of(c, "v_quant_type", 13)?);
    let (k, v) = (codes.0.write(&k), codes.1.write(&v));
    let place =
        Place { total: &total, length, before: &before, last: &last, is_one: q.shape()[0].is_equal(1)? };
    let keys = match c.flag("sliding_window_cache")? {
        true => place.slid(c, &k, &v, window)?,
        false => place.joined(c, &k, &v)?,
    };
    let (k, v) = (codes.0.read(&keys.k), codes.1.read(&keys.v));
    let at = at.unsqueeze(1).unsqueeze(-1);
    // no query sees keys that pad a sample, not even one that pads it too
    let ends = last.unsqueeze(-1).unsqueeze(-1);
    let mut seen = keys.at.le(if causal { at.minimum(ends) } else { ends }); // (B, 1, T or 1, S)
    if window >= 0 {
        seen = seen.logical_and(keys.at.gt(&at - window));
    }
    if let Some(there) = &keys.there {
        seen = seen.logical_and(there);
    }
    let sink = match (c.optional(11)?, c.flag("smooth_softmax")?) {
        (Some(sink), _) => Some(sink.float().reshape((1, -1, 1, 1))),
        (None, true) => Some(Tensor::zeros([1, n as usize, 1, 1])),
        (None, false) => None,
    };
    let bias = c.optional(10)?.map(|b| keys.of_bias(&b));
    let mut scores = None;
    let y = if cap > 0.0 || sink.is_some() || bias.is_some() || shown != 0 {
        let made = scored(&q, &k, &v, Scores { scale, cap, bias, sink }, &seen);
        scores = match shown {
            0 => None,
            1 => Some(seen.where_(made.scores, 0.0)),
            2 => Some(made.weights),
            other => return fail(format!("attribute \"qk_output\" is {other}")),
        };
        made.y
    } else {
        attend(&q, &k, &v, scale, Some(seen), false)?
    };
    let mut outs = vec![packed(&y), keys.present.0, keys.present.1];
    if let Some(scores) = scores {
        if keys.there.is_some() {
            return fail("scores of keys that are kept in a window are not supported");
        }
        outs.push(scores.narrow(-1, 0, &total).cast(q.dtype()));
    }
    give(outs)
}

/// Queries and keys, each head divided by its root mean square.
fn normed(c: &Call, q: Tensor, k: Tensor) -> Result<(Tensor, Tensor)> {
    let eps = c.float_or("qk_norm_epsilon", 1e-6)?;
    match (c.optional(14)?, c.optional(15)?) {
        (Some(a), Some(b)) => Ok((q.rmsnorm(-1, Some(&a), eps), k.rmsnorm(-1, Some(&b), eps))),
        (None, None) => Ok((q, k)),
        _ => fail("weights of the norm of queries or of keys alone"),
    }
}

/// Queries and keys turned by the angles of their places (B, T).
fn turned(c: &Call, q: Tensor, k: Tensor, at: &Tensor) -> Result<(Tensor, Tensor)> {
    let (interleaved, places) = (c.flag("rotary_interleaved")?, c.optional(9)?);
    if !c.flag("do_rotary")? {
        // angles that turn nothing
        c.ignore_inputs(&[7, 8]);
        return Ok((q, k));
    }
    let at = places.map_or(at.clone(), |p| p.long());
    let s = at.shape();
    let angles = |t: Tensor| t.index_select(0, &at.reshape([-1])).reshape((&s[0], 1, &s[1], -1));
    let (cos, sin) = (angles(c.tensor(7)?), angles(c.tensor(8)?));
    let turn = |x: &Tensor| apply_rotary(x, &cos, &sin, interleaved, 0);
    Ok((turn(&q)?, turn(&k)?))
}

/// How numbers are kept: as they are, or divided by a scale and rounded to so many bits.
struct Codes(Option<(Tensor, i64)>);

impl Codes {
    fn of(c: &Call, kind: &str, scale: usize) -> Result<Codes> {
        let bits = c.int_or("kv_cache_bit_width", 0)?;
        match (c.text_or(kind, "NONE")?, c.optional(scale)?, bits) {
            ("NONE", None, _) => Ok(Codes(None)),
            ("PER_TENSOR" | "PER_CHANNEL", Some(scale), 4 | 8) => Ok(Codes(Some((scale, bits)))),
            (kind, scale, bits) => {
                let scale = if scale.is_some() { "a scale" } else { "no scale" };
                fail(format!("keys or values kept as {kind:?} with {bits} bits and {scale}"))
            }
        }
    }
    /// (.., D) as they are kept: of 4 bits two to a byte, the first in its low half, zero being 8.
    fn write(&self, x: &Tensor) -> Tensor {
        let Some((scale, bits)) = &self.0 else { return x.clone() };
        let half = 1i64 << (bits - 1);
        let codes = (x.float() / scale).round().clamp(-half, half - 1).int();
        match bits {
            8 => codes.cast(DType::I8),
            _ => {
                let pairs = (codes + half).unflatten(-1, (-1, 2));
                (pairs.select(-1, 0) + pairs.select(-1, 1) * 16).cast(DType::U8)
            }
        }
    }
    fn read(&self, x: &Tensor) -> Tensor {
        let Some((scale, bits)) = &self.0 else { return x.clone() };
        let codes = match bits {
            8 => x.int(),
            _ => {
                let halves = x.int().unsqueeze(-1).rshift(Tensor::arange(2) * 4).bitwise_and(15);
                halves.flatten(-2, -1) - 8
            }
        };
        codes.float() * scale
    }
}

/// Where the samples of a batch are.
struct Place<'a> {
    total: &'a Dim,
    /// Keys of now.
    length: i64,
    /// (B, 1): keys that came before.
    before: &'a Tensor,
    /// (B, 1): the place of the last one.
    last: &'a Tensor,
    is_one: bool,
}

/// Keys and values that may be looked at, and what is kept of them.
struct Keys {
    k: Tensor,
    v: Tensor,
    /// (B or 1, 1, 1, S): their places in the text.
    at: Tensor,
    /// The same: which of them there are, where not all are.
    there: Option<Tensor>,
    present: (Tensor, Tensor),
}

impl Keys {
    /// (B or 1, H or 1, T, total): columns of a bias for these keys.
    fn of_bias(&self, bias: &Tensor) -> Tensor {
        let (s, keys) = (bias.shape(), self.at.shape()[3].clone());
        match &self.there {
            None if s[3] == keys => bias.clone(),
            // keys behind the last one are never seen
            _ => {
                let at = self.at.clamp_min(0).minimum((&s[3] - 1).tensor().long());
                let rows = if at.shape()[0] == 1 { s[0].clone() } else { at.shape()[0].clone() };
                let wide = bias.expand((&rows, &s[1], &s[2], &s[3]));
                wide.gather(3, &at.expand((&rows, &s[1], &s[2], &keys)))
            }
        }
    }
}

impl Place<'_> {
    /// All that there was and what there is.
    fn joined(&self, c: &Call, k: &Tensor, v: &Tensor) -> Result<Keys> {
        let past = c.optional(3)?.map_or(Ok(0), |p| size_at(&p, 2).map(|n| n as i64))?;
        let is_plain = self.is_one && self.total.is_equal(past + self.length)?;
        let join = |i: usize, x: &Tensor| -> Result<Tensor> {
            match c.optional(i)? {
                Some(p) if is_plain => Ok(Tensor::cat(&[p, x.clone()], 2)),
                p => Ok(appended(p.as_ref(), x, self.before, &self.total.at_least(past))),
            }
        };
        let (k, v) = (join(3, k)?, join(4, v)?);
        let at = Tensor::arange(&k.shape()[2]).long().reshape((1, 1, 1, -1));
        Ok(Keys { at, there: None, present: (k.clone(), v.clone()), k, v })
    }
    /// Those of a window, and of a few before it so that not every step moves all of them: of `t` keys the last `L(t)` are kept
    /// in order from row 0 on.
    ///
    /// ```text
    /// L(t) = t                          if t <= C, the rows that there are
    /// L(t) = t - G ceil((t - C) / G)    else, with G = C - window + 1
    /// ```
    fn slid(&self, c: &Call, k: &Tensor, v: &Tensor, window: i64) -> Result<Keys> {
        let (past_k, past_v) = (c.tensor(3)?, c.tensor(4)?);
        let rows = size_at(&past_k, 2)? as i64;
        if window <= 0 || rows < window {
            return fail(format!("a window of {window} keys in a cache of {rows}"));
        }
        let gap = rows - window + 1;
        let kept = |t: &Tensor| t - ((t - rows).clamp_min(0) + (gap - 1)).floor_div(gap) * gap;
        let first = self.before - kept(self.before); // (B, 1): the place of row 0
        let row = Tensor::arange(rows).long();
        let now = self.before + Tensor::arange(self.length).long();
        let at = Tensor::cat(&[&first + &row, now], 1); // (B, C + T)
        // rows behind those that were kept hold nothing
        let new = Tensor::full((), true).expand((&at.shape()[0], self.length));
        let there = Tensor::cat(&[row.lt(kept(self.before)), new], 1);
        let end = self.last + 1;
        let place = &end - kept(&end) + &row; // (B, C): what each row holds from now on
        let source = place.ge(self.before).where_(&place - self.before + rows, &place - &first);
        let is_kept = row.lt(kept(&end));
        let line = |t: &Tensor| t.unsqueeze(1).unsqueeze(-1);
        let present = |all: &Tensor| {
            let s = all.shape();
            let source = line(&source.clamp(0, rows + self.length - 1)).expand((&s[0], &s[1], rows, &s[3]));
            line(&is_kept).where_(all.gather(2, &source), Tensor::full_dtype((), 0, all.dtype()))
        };
        let (k, v) = (Tensor::cat(&[past_k, k.clone()], 2), Tensor::cat(&[past_v, v.clone()], 2));
        let present = (present(&k), present(&v));
        let across = |t: Tensor| t.unsqueeze(1).unsqueeze(1);
        Ok(Keys { k, v, at: across(at), there: Some(across(there)), present })
    }
}

/// (B, H, S, D) of what was and what is, each sample's where its own past ends; zeros behind.
fn appended(past: Option<&Tensor>, x: &Tensor, before: &Tensor, size: &Dim) -> Tensor {
    let (s, place) = (x.shape(), Tensor::arange(size).long());
    let at = &place - before; // (B, S), among what is
    let line = |t: Tensor| t.unsqueeze(1).unsqueeze(-1);
    let pick = |x: &Tensor, at: &Tensor, n: &Dim| {
        let at = at.clamp_min(0).minimum((n - 1).tensor().long());
        x.gather(2, &line(at).expand((&s[0], &s[1], size, &s[3])))
    };
    let is_now = at.ge(0).logical_and(at.lt(s[2].tensor().long()));
    let zeros = Tensor::full_dtype((), 0, x.dtype());
    let now = line(is_now).where_(pick(x, &at, &s[2]), zeros);
    match past {
        Some(p) if p.shape()[2] != 0 => {
            let places = &place + before.zeros_like();
            line(at.lt(0)).where_(pick(p, &places, &p.shape()[2]), now)
        }
        _ => now,
    }
}

/// What becomes of scores before and in the softmax.
struct Scores {
    scale: Option<f64>,
    /// They stay below it, where it is not zero.
    cap: f64,
    bias: Option<Tensor>,
    /// The score of nothing, which takes its share, for each head.
    sink: Option<Tensor>,
}

struct Scored {
    y: Tensor,
    scores: Tensor,
    weights: Tensor,
}

/// Attention with scores that are changed.
fn scored(q: &Tensor, k: &Tensor, v: &Tensor, how: Scores, seen: &Tensor) -> Scored {
    let size = q.shape()[3].as_int().unwrap_or(1) as f64;
    let [k, v] = [k, v].map(|t| shared(t, &q.shape()[1]));
    let mut scores = q.float().matmul(&k.float().t()) * how.scale.unwrap_or(1.0 / size.sqrt());
    if how.cap > 0.0 {
        scores = (scores / how.cap).tanh() * how.cap;
    }
    if let Some(bias) = how.bias {
        scores = scores + bias.float();
    }
    let looked = seen.where_(&scores, f64::NEG_INFINITY);
    let weights = match how.sink {
        Some(sink) => {
            let s = looked.shape();
            let all = Tensor::cat(&[looked.clone(), sink.expand((&s[0], &s[1], &s[2], 1))], -1);
            all.softmax(-1).narrow(-1, 0, &s[3])
        }
        None => looked.softmax(-1),
    };
    Scored { y: weights.matmul(&v.float()).cast(q.dtype()), scores, weights }
}
