//! Attention, and positions by rotation.

use super::shape::size_at;
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::element::Element;
use frit_tensor::{Attention, DType, Dim, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("Attention", 23, attention),
    op("LinearAttention", 27, linear_attention),
    op("RotaryEmbedding", 23, rotary_embedding),
];
pub(super) const PREVIEW: &[Op] = &[op("FlexAttention", 1, flex_attention)];

const NEVER: f64 = f64::NEG_INFINITY;

/// (B, T, H * D) as (B, H, T, D).
pub(super) fn heads(x: &Tensor, n: i64) -> Tensor {
    let s = x.shape();
    x.reshape((&s[0], &s[1], n, -1)).transpose(1, 2)
}
/// (B, H, T, D) as (B, T, H * D).
pub(super) fn packed(x: &Tensor) -> Tensor {
    let s = x.shape();
    x.transpose(1, 2).reshape((&s[0], &s[2], -1))
}
/// Key heads, each as often as query heads share it.
pub(super) fn shared(x: &Tensor, queries: &Dim) -> Tensor {
    match (queries.as_int(), x.shape()[1].as_int()) {
        (Some(q), Some(k)) if k > 0 && q > k => x.repeat_interleave(q / k, 1),
        _ => x.clone(),
    }
}

/// The type that the softmax is computed in.
fn precision(c: &Call, d: DType) -> Result<DType> {
    let named = c.element_named("softmax_precision")?.map(Element::dtype);
    Ok(named.unwrap_or(if d == DType::F64 { d } else { DType::F32 }))
}

fn scale_of(c: &Call, q: &Tensor) -> Result<f64> {
    let size = q.dims()?.last().copied().unwrap_or(1);
    Ok(c.float("scale")?.unwrap_or(1.0 / (size as f64).sqrt()))
}

fn attention(c: &Call) -> Result<Outs> {
    let (q_heads, kv_heads) = (c.int_or("q_num_heads", 0)?, c.int_or("kv_num_heads", 0)?);
    let mode = c.int_or("qk_matmul_output_mode", 0)?;
    let is_flat = c.tensor(0)?.rank() == 3;
    let split = |i: usize, n: i64| -> Result<Tensor> {
        let x = c.tensor(i)?;
        match if is_flat { heads(&x, n) } else { x.clone() } {
            split if split.rank() == 4 => Ok(split),
            split => split.check().and(fail(format!("input {i} is of shape {}", x.shape()))),
        }
    };
    let (q, k, v) = (split(0, q_heads)?, split(1, kv_heads)?, split(2, kv_heads)?);
    let past = (c.optional(4)?, c.optional(5)?);
    let before = past.0.as_ref().map_or(Ok(0), |p| size_at(p, 2))?;
    let join = |past: Option<Tensor>, x: Tensor| past.map_or(x.clone(), |p| Tensor::cat(&[p, x], 2));
    let (k, v) = (join(past.0, k), join(past.1, v));
    let d = q.dtype();
    let root = scale_of(c, &q)?.sqrt();
    let wide = |x: &Tensor| if d == DType::F64 { x.clone() } else { x.float() };
    let n = q.shape()[1].clone();
    let raw = (wide(&q) * root).matmul(&(wide(&shared(&k, &n)) * root).t());
    let cap = c.float_or("softcap", 0.0)?;
    let capped = if cap > 0.0 { (&raw / cap).tanh() * cap } else { raw.clone() };
    let biased = bias(c, &capped, before)?;
    let at = precision(c, d)?;
    // where nothing is seen the softmax would be 0/0
    let seen = biased.ne(NEVER).any(keepdim(-1));
    let weights = seen.where_(seen.where_(&biased, 0.0).cast(at).softmax(-1), 0.0);
    let y = wide(&weights.cast(d)).matmul(&wide(&shared(&v, &n))).cast(d);
    let shown = match mode {
        0 => raw,
        1 => capped,
        2 => biased,
        3 => weights,
        other => return fail(format!("attribute \"qk_matmul_output_mode\" is {other}")),
    };
    give(vec![if is_flat { packed(&y) } else { y }, k, v, shown.cast(d)])
}

/// Scores with what each query may look at: a mask, a causal frontier, a window, lengths of keys.
fn bias(c: &Call, scores: &Tensor, past: usize) -> Result<Tensor> {
    let causal = c.flag("is_causal")?;
    let (left, right) = (c.int_or("left_window_size", -1)?, c.int_or("right_window_size", -1)?);
    let (queries, keys) = (size_at(scores, 2)? as i64, size_at(scores, 3)? as i64);
    let mut scores = scores.clone();
    if let Some(mask) = c.optional(3)? {
        let have = mask.dims()?.last().copied().unwrap_or(0) as i64;
        let mut more = vec![(0, 0); mask.rank()];
        if let Some(last) = more.last_mut() {
            *last = (0, if have == 1 { 0 } else { (keys - have).max(0) });
        }
        scores = match mask.dtype() {
            DType::Bool => mask.pad(&more, false).where_(&scores, NEVER),
            _ => &scores + mask.cast(scores.dtype()).pad(&more, NEVER),
        };
    }
    let lengths = c.optional(6)?.map(|n| n.long().reshape((-1, 1, 1, 1)));
    let place = Tensor::arange(keys).long();
    if let Some(n) = &lengths {
        scores = place.lt(n).where_(scores, NEVER);
    }
    if causal || left >= 0 || right >= 0 {
        let offset = match &lengths {
            Some(n) if past == 0 => n - queries,
            _ => Tensor::full_dtype((), past as i64, DType::I64),
        };
        let at = Tensor::arange(queries).long().unsqueeze(1) + offset;
        if causal {
            scores = place.le(&at).where_(scores, NEVER);
        }
        if left >= 0 {
            scores = place.ge(&at - left).where_(scores, NEVER);
        }
        if right >= 0 {
            scores = place.le(&at + right).where_(scores, NEVER);
        }
    }
    Ok(scores)
}

fn flex_attention(c: &Call) -> Result<Outs> {
    let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (d, scale) = (q.dtype(), scale_of(c, &q)?);
    let at = precision(c, d)?;
    let n = q.shape()[1].clone();
    let modified = |name: &str, x: Tensor| -> Result<Tensor> {
        match c.optional_graph(name)? {
            Some(g) => match &c.run(g, vec![Some(x.into())])?[..] {
                [y] => y.tensor(),
                all => fail(format!("{name} gives {} values", all.len())),
            },
            None => Ok(x),
        }
    };
    let scores = q.cast(at).matmul(&shared(&k, &n).cast(at).t()) * scale;
    let scores = modified("score_mod", scores)?;
    let seen = scores.ne(NEVER).any(keepdim(-1));
    let weights = seen.where_(seen.where_(&scores, 0.0).softmax(-1), 0.0);
    let weights = modified("prob_mod", weights)?;
    give(weights.matmul(&shared(&v, &n).cast(at)).cast(d))
}

fn linear_attention(c: &Call) -> Result<Outs> {
    c.ignore(&["chunk_size"]);
    let rule = c.text_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return fail(format!("attribute \"update_rule\" is {other:?}")),
    };
    let (nq, nk) = (c.count("q_num_heads", 1)? as i64, c.count("kv_num_heads", 1)? as i64);
    let d = c.tensor(0)?.dtype();
    let wide = |i: usize, n: i64| -> Result<Tensor> {
        Ok(heads(&c.tensor(i)?, n).cast(if d == DType::F64 { d } else { DType::F32 }))
    };
    let (q, k, v) = (wide(0, nq)?, wide(1, nk)?, wide(2, nk)?);
    let (kd, vd) = (k.dims()?, v.dims()?);
    let scale = match c.float_or("scale", 0.0)? {
        0.0 => 1.0 / (kd[3] as f64).sqrt(),
        s => s,
    };
    let zeros = || Tensor::full_dtype([kd[0], kd[1], kd[3], vd[3]], 0, k.dtype());
    let begin = c.optional(3)?.map_or_else(zeros, |s| s.cast(k.dtype()));
    // (B, H, T, dk or 1) and (B, H, T, 1)
    let decay = if gated { Some(wide(4, nk)?.exp()) } else { None };
    let beta = match delta {
        true => Some(c.tensor(5)?.cast(k.dtype()).transpose(1, 2).unsqueeze(-1)),
        false => None,
    };
    let groups = nq / nk;
    let (last, outs) = Tensor::scan(kd[2], &[&begin], |t, carry| {
        let row = |x: &Tensor| x.select(2, t);
        let mut s = carry[0].clone(); // (B, H, dk, dv)
        if let Some(g) = &decay {
            s = s * row(g).unsqueeze(-1);
        }
        let key = row(&k).unsqueeze(-1); // (B, H, dk, 1)
        let mut value = row(&v).unsqueeze(-2); // (B, H, 1, dv)
        if let Some(b) = &beta {
            value = (value - (&s * &key).sum(keepdim(-2))) * row(b).unsqueeze(-1);
        }
        let s = s + key * value;
        let per_query = if groups > 1 { s.repeat_interleave(groups, 1) } else { s.clone() };
        let out = (per_query * row(&q).unsqueeze(-1)).sum(-2) * scale; // (B, Hq, dv)
        (vec![s], vec![out])
    });
    let [state, outs] = [&last[0], &outs[0]];
    // (T, B, H, dv)
    give((packed(&outs.permute([1, 2, 0, 3])).cast(d), state.cast(d)))
}

fn rotary_embedding(c: &Call) -> Result<Outs> {
    let (x, cos, sin) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (interleaved, part) = (c.flag("interleaved")?, c.int_or("rotary_embedding_dim", 0)?);
    let n = c.int_or("num_heads", 0)?;
    let is_flat = x.rank() == 3;
    let y = if is_flat { heads(&x, n) } else { x.clone() };
    // (B, 1, T, half)
    let angles = |t: Tensor| -> Result<Tensor> {
        Ok(match c.optional(3)? {
            Some(at) => {
                let s = at.shape();
                t.index_select(0, &at.reshape([-1])).reshape((&s[0], &s[1], -1))
            }
            None => t,
        }
        .unsqueeze(1))
    };
    let (cos, sin) = (angles(cos)?, angles(sin)?);
    let y = apply_rotary(&y, &cos, &sin, interleaved, part)?;
    give(if is_flat { packed(&y) } else { y })
}

/// Pairs of the last dim turned by angles (B, 1, T, half), of its first `part` elements or of all.
pub(super) fn apply_rotary(
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    interleaved: bool,
    part: i64,
) -> Result<Tensor> {
    let size = x.dims()?.last().copied().unwrap_or(0) as i64;
    let turned = if part > 0 { part } else { size };
    let (front, rest) = (x.narrow(-1, 0, turned), x.narrow(-1, turned, size - turned));
    let (a, b) = match interleaved {
        true => {
            let pairs = front.unflatten(-1, (-1, 2));
            (pairs.select(-1, 0), pairs.select(-1, 1))
        }
        false => (front.narrow(-1, 0, turned / 2), front.narrow(-1, turned / 2, turned / 2)),
    };
    let (re, im) = (cos * &a - sin * &b, sin * a + cos * b);
    let front = match interleaved {
        true => Tensor::stack(&[re, im], -1).flatten(-2, -1),
        false => Tensor::cat(&[re, im], -1),
    };
    Ok(Tensor::cat(&[front, rest], -1).cast(x.dtype()))
}

/// Attention of (B, H, T, D) over keys and values with as many heads or fewer.
pub(super) fn attend(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: Option<f64>,
    mask: Option<Tensor>,
    causal: bool,
) -> Result<Tensor> {
    let n = q.shape()[1].clone();
    let options = Attention { mask, causal, scale, dropout: 0.0 };
    Ok(q.attention(&shared(k, &n), &shared(v, &n), options))
}
