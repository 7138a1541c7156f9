//! Layers of encoders that onnxruntime fuses: what BERT's models become there.

use super::attention::{attend, heads, packed};
use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use frit_tensor::{DType, Dim, Result, Tensor};

pub(super) const OPS: &[Op] =
    &[op("Attention", 1, attention), op("EmbedLayerNormalization", 1, embed_layer_normalization)];

/// Which keys of (B, H, T, S) a mask lets be seen: how many there are in each row of a batch (alone, with the first of them,
/// or with places of rows that are packed), which ones, or which ones by which queries.
pub(super) fn seen_keys(mask: &Tensor, batch: &Dim, keys: &Dim) -> Result<Tensor> {
    let place = Tensor::arange(keys).int();
    let row = |from: &Dim| mask.narrow(0, from, batch).int().reshape((-1, 1, 1, 1));
    let has = |n: &Dim| mask.shape()[0].is_equal(n);
    match mask.rank() {
        1 if has(batch)? || has(&(batch * 3 + 2))? => Ok(place.lt(row(&0.into()))),
        1 if has(&(batch * 2))? => Ok(place.lt(row(&0.into())).logical_and(place.ge(row(batch)))),
        2 => Ok(mask.ne(0).unsqueeze(1).unsqueeze(1)),
        3 => Ok(mask.ne(0).unsqueeze(1)),
        _ => fail(format!("a mask of shape {} is not supported", mask.shape())),
    }
}

/// Queries, keys and values by one product, then attention.
fn attention(c: &Call) -> Result<Outs> {
    let (n, scale) = (c.int_or("num_heads", 1)?, c.float("scale")?.filter(|s| *s != 0.0));
    let (causal, never) = (c.flag("unidirectional")?, c.float_or("mask_filter_value", -10000.0)?);
    if c.flag("do_rotary")? || c.flag("past_present_share_buffer")? || c.value(6).is_some() {
        return fail("rotary positions and past keys that share a buffer are not supported");
    }
    c.ignore(&["rotary_embedding_dim"]);
    let y = c.tensor(0)?.matmul(&c.tensor(1)?);
    let y = c.optional(2)?.map_or(y.clone(), |b| y + b);
    let all = y.dims()?.last().copied().unwrap_or(0);
    let sizes = c.sizes("qkv_hidden_sizes")?.unwrap_or(vec![all / 3; 3]);
    let [q, k, v] = sizes[..] else { return fail(format!("three hidden sizes, not {sizes:?}")) };
    if q + k + v != all {
        return fail(format!("{sizes:?} of {all} columns"));
    }
    let part = |begin: usize, size: usize| heads(&y.narrow(-1, begin, size), n);
    let (query, mut key, mut value) = (part(0, q), part(q, k), part(q + k, v));
    let length = query.shape()[2].clone();
    let past = match c.optional(4)? {
        Some(past) => {
            let (keys, values) = (past.select(0, 0), past.select(0, 1));
            (key, value) = (Tensor::cat(&[keys.clone(), key], 2), Tensor::cat(&[values, value], 2));
            keys.shape()[2].clone()
        }
        None => 0.into(),
    };
    let total = key.shape()[2].clone();
    let mut mask = c.optional(5)?;
    let mut hide = |seen: Tensor| {
        let more = seen.where_(0.0, never);
        mask = Some(mask.take().map_or(more.clone(), |m| m + more));
    };
    if let Some(on) = c.optional(3)? {
        hide(seen_keys(&on, &query.shape()[0], &total)?);
    }
    if causal {
        let at = Tensor::arange(&length).unsqueeze(1) + past.tensor();
        hide(Tensor::arange(&total).le(at));
    }
    let y = attend(&query, &key, &value, scale, mask, false)?;
    give(vec![packed(&y), Tensor::stack(&[key, value], 0)])
}

/// Words, places and parts of a text, added up and normalised; how many words there are of each.
fn embed_layer_normalization(c: &Call) -> Result<Outs> {
    let (ids, eps) = (c.tensor(0)?, c.float_or("epsilon", 1e-12)?);
    let (gamma, beta) = (c.tensor(5)?, c.tensor(6)?);
    c.ignore(&["mask_index_type"]);
    let places = match c.optional(8)? {
        Some(places) => places,
        None => Tensor::arange(&ids.shape()[1]).unsqueeze(0).expand(ids.shape()),
    };
    let mut sum = c.tensor(2)?.embedding(&ids) + c.tensor(3)?.embedding(&places);
    if let (Some(parts), Some(table)) = (c.optional(1)?, c.optional(4)?) {
        sum = sum + table.embedding(&parts);
    }
    let y = sum.layernorm(-1, Some(&gamma), Some(&beta), eps);
    let there = match c.optional(7)? {
        Some(mask) => mask.int().sum(1).cast(DType::I32),
        None => Tensor::full_dtype([ids.shape()[0].clone()], 0, DType::I32),
    };
    give(vec![y, there, sum])
}
