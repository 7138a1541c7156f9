//! Operators of `com.microsoft` that real exports contain: fused layers, attention with caches, quantised arithmetic.

use super::attention::{apply_rotary, attend, heads, packed};
use super::conv::convolved;
use super::encoder::seen_keys;
use super::quant::{dequantized, quantized};
use super::shape::size_at;
use super::{Op, op, quant};
use crate::call::{Call, Outs, fail, give};
use crate::value::Value;
use frit_tensor::linalg::{Bytes, Words, Zero};
use frit_tensor::{DType, Device, Dim, Result, Tensor, keepdim};

pub(super) const OPS: &[Op] = &[
    op("BiasGelu", 1, |c| c.zip(|a, b| (a + b).gelu())),
    op("DequantizeLinear", 1, quant::dequantize),
    op("DynamicQuantizeMatMul", 1, dynamic_quantize_matmul),
    op("FastGelu", 1, |c| {
        let bias = c.optional(1)?;
        c.map(|x| bias.map_or(x.clone(), |b| x + b).gelu_tanh())
    }),
    op("FusedConv", 1, fused_conv),
    op("FusedMatMul", 1, fused_matmul),
    op("Gelu", 1, |c| c.map(Tensor::gelu)),
    op("MatMulIntegerToFloat", 1, |c| {
        let sums = quant::product((&c.tensor(0)?, c.optional(4)?), (&c.tensor(1)?, c.optional(5)?));
        let y = sums.float() * c.tensor(2)? * c.tensor(3)?;
        give(c.optional(6)?.map_or(y.clone(), |b| y + b))
    }),
    op("MatMulNBits", 1, matmul_bits),
    op("MultiHeadAttention", 1, multi_head_attention),
    op("QGemm", 1, q_gemm),
    op("QLinearAdd", 1, |c| q_binary(c, |a, b| a + b)),
    op("QLinearAveragePool", 1, q_average_pool),
    op("QLinearConcat", 1, q_concat),
    op("QLinearGlobalAveragePool", 1, q_global_average_pool),
    op("QLinearLeakyRelu", 1, |c| {
        let alpha = c.float_or("alpha", 0.01)?;
        q_unary(c, |x| x.leaky_relu(alpha))
    }),
    op("QLinearMul", 1, |c| q_binary(c, |a, b| a * b)),
    op("QLinearSigmoid", 1, |c| q_unary(c, Tensor::sigmoid)),
    op("QLinearSoftmax", 1, |c| {
        c.ignore(&["opset"]);
        let axis = c.axis("axis", -1)?;
        q_unary(c, |x| x.softmax(axis))
    }),
    op("QLinearWhere", 1, |c| {
        let (on, a, b) = (c.tensor(0)?, real(c, 1)?, real(c, 4)?);
        let to = c.value(8).unwrap_or(c.input(1)?).element()?;
        let y = on.where_(a, b) / c.tensor(7)?;
        give(quantized(&y, c.optional(8)?.map(|z| z.float()), to, true)?)
    }),
    op("QuantizeLinear", 1, quant::quantize),
    op("QuickGelu", 1, |c| {
        let alpha = c.float_or("alpha", 1.702)?;
        c.map(|x| x * (x * alpha).sigmoid())
    }),
    op("RotaryEmbedding", 1, rotary_embedding),
    op("SkipLayerNormalization", 1, |c| skip_norm(c, true)),
    op("SkipSimplifiedLayerNormalization", 1, |c| skip_norm(c, false)),
];
/// In the domain of ONNX, though it is none of its operators.
pub(super) const IN_ONNX: &[Op] = &[op("SimplifiedLayerNormalization", 1, |c| {
    c.ignore(&["stash_type"]);
    let (axis, eps, scale) = (c.axis("axis", -1)?, c.float_or("epsilon", 1e-5)?, c.tensor(1)?);
    c.kept(|x| x.rmsnorm(axis, None, eps) * scale)
})];

fn fused_matmul(c: &Call) -> Result<Outs> {
    let alpha = c.float_or("alpha", 1.0)?;
    let flags = |side: &str| -> Result<(bool, bool)> {
        Ok((c.flag(&format!("transBatch{side}"))?, c.flag(&format!("trans{side}"))?))
    };
    // (M, batch .., K) as (batch .., M, K), then maybe (batch .., K, M)
    let turned = |x: &Tensor, (batch, last): (bool, bool)| {
        let x = if batch && x.rank() > 2 { x.movedim(0, -2) } else { x.clone() };
        if last { x.t() } else { x }
    };
    let (of_a, of_b) = (flags("A")?, flags("B")?);
    c.zip(|a, b| turned(a, of_a).matmul(&turned(b, of_b)) * alpha)
}

fn fused_conv(c: &Call) -> Result<Outs> {
    let (x, w, bias, more) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?, c.optional(3)?);
    let parameters = c.floats("activation_params")?.unwrap_or_default();
    let parameter = |i: usize, default: f32| f64::from(parameters.get(i).copied().unwrap_or(default));
    let y = convolved(c, &x, &w, bias.as_ref())?;
    let y = more.map_or(y.clone(), |z| y + z);
    give(match c.text_or("activation", "")? {
        "" => y,
        "Relu" => y.relu(),
        "Sigmoid" => y.sigmoid(),
        "Tanh" => y.tanh(),
        "LeakyRelu" => y.leaky_relu(parameter(0, 0.01)),
        "Clip" => y.clamp(parameter(0, f32::MIN), parameter(1, f32::MAX)),
        "HardSigmoid" => (y * parameter(0, 0.2) + parameter(1, 0.5)).clamp(0.0, 1.0),
        other => return fail(format!("attribute \"activation\" is {other:?}")),
    })
}

/// The sum of two layers, normalised.
fn skip_norm(c: &Call, centred: bool) -> Result<Outs> {
    let eps = c.float_or("epsilon", 1e-12)?;
    let (gamma, beta) = (c.tensor(2)?, if centred { c.optional(3)? } else { None });
    let bias = c.optional(if centred { 4 } else { 3 })?;
    let sum = c.tensor(0)? + c.tensor(1)?;
    let sum = bias.map_or(sum.clone(), |b| sum + b);
    let y = match centred {
        true => sum.layernorm(-1, Some(&gamma), beta.as_ref(), eps),
        false => sum.rmsnorm(-1, Some(&gamma), eps),
    };
    if !c.wants(1) && !c.wants(2) {
        return Ok(Outs(vec![Some(y.into()), None, None, Some(sum.into())]));
    }
    let wide = sum.float();
    let mean = wide.mean(keepdim(-1));
    let mean = if centred { mean } else { mean.zeros_like() };
    let inverse = ((wide - &mean).square().mean(keepdim(-1)) + eps).rsqrt();
    give(vec![y, mean, inverse, sum])
}

fn rotary_embedding(c: &Call) -> Result<Outs> {
    c.ignore(&["is_packed_batching", "scale"]);
    let (x, at, cos, sin) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?, c.tensor(3)?);
    let (interleaved, part) = (c.flag("interleaved")?, c.int_or("rotary_embedding_dim", 0)?);
    let is_flat = x.rank() == 3;
    let half = cos.dims()?.last().copied().unwrap_or(1) as i64;
    let n = match c.int_or("num_heads", 0)? {
        0 if is_flat => size_at(&x, 2)? as i64 / (2 * half).max(1),
        n => n,
    };
    let y = if is_flat { heads(&x, n) } else { x.clone() };
    let length = y.shape()[2].clone();
    // one number is the first position
    let at = if at.shape().numel() == 1 { at.reshape([1, 1]) + Tensor::arange(length).long() } else { at };
    let angles = |t: &Tensor| {
        let s = at.shape();
        t.index_select(0, &at.reshape([-1])).reshape((&s[0], 1, &s[1], -1))
    };
    let y = apply_rotary(&y, &angles(&cos), &angles(&sin), interleaved, part)?;
    give(if is_flat { packed(&y) } else { y })
}

fn multi_head_attention(c: &Call) -> Result<Outs> {
    let n = c.int_or("num_heads", 1)?;
    let (scale, causal) = (c.float("scale")?, c.flag("unidirectional")?);
    let never = c.float_or("mask_filter_value", -10000.0)?;
    let (q, k, v) = (c.tensor(0)?, c.optional(1)?, c.optional(2)?);
    // (B, T, H, parts, D): one of the parts, as heads
    let unpacked = |x: &Tensor, i: i64| x.select(3, i).transpose(1, 2);
    let (q, k, v) = match (k, v) {
        (Some(k), Some(v)) => (q, k, v),
        (Some(k), None) if k.rank() == 5 => (q, unpacked(&k, 0), unpacked(&k, 1)),
        (None, None) if q.rank() == 5 => (unpacked(&q, 0), unpacked(&q, 1), unpacked(&q, 2)),
        _ => return fail(format!("queries of shape {} without keys and values", q.shape())),
    };
    let bias = c.optional(3)?;
    let hidden = if q.rank() == 3 { size_at(&q, 2)? } else { 0 };
    let part = |x: Tensor, begin: usize| -> Result<Tensor> {
        if x.rank() == 4 {
            return Ok(x);
        }
        let size = size_at(&x, 2)?;
        Ok(heads(&bias.as_ref().map_or(x.clone(), |b| &x + b.narrow(0, begin, size)), n))
    };
    let (q, k, v) = (part(q, 0)?, part(k, hidden)?, part(v, 2 * hidden)?);
    let (past, from) = ([c.optional(6)?, c.optional(7)?], c.optional(9)?);
    let [old_k, old_v] = past;
    let (present, k, v) = match c.value(8) {
        Some(_) => {
            let before = c.int_input(8)?;
            let all = (buffered(old_k, &k, before)?, buffered(old_v, &v, before)?);
            // of the buffer no more than this is of now; what came before may be of other beams
            let used = |all: &Tensor, x: &Tensor| {
                let past = all.narrow(2, 0, before);
                Tensor::cat(&[from.as_ref().map_or(past.clone(), |from| beams(&past, from)), x.clone()], 2)
            };
            let (keys, values) = (used(&all.0, &k), used(&all.1, &v));
            (all, keys, values)
        }
        None => {
            let join = |past: Option<Tensor>, x: Tensor| past.map_or(x.clone(), |p| Tensor::cat(&[p, x], 2));
            let all = (join(old_k, k), join(old_v, v));
            (all.clone(), all.0, all.1)
        }
    };
    let mut mask = c.optional(5)?;
    if let Some(on) = c.optional(4)? {
        let hidden = seen_keys(&on, &q.shape()[0], &k.shape()[2])?.where_(0.0, never);
        mask = Some(mask.map_or(hidden.clone(), |m| m + hidden));
    }
    // the first query sees the first key alone where there is no past
    let is_square = causal && !c.wants(3) && q.shape()[2] == k.shape()[2];
    if causal && !is_square {
        let (new, all) = (q.shape()[2].clone(), k.shape()[2].clone());
        let at = Tensor::arange(&new).unsqueeze(1) + (&all - &new).tensor();
        let later = Tensor::arange(&all).le(at).where_(0.0, f64::from(f32::MIN));
        mask = Some(mask.map_or(later.clone(), |m| m + later));
    }
    let y = attend(&q, &k, &v, scale, mask.clone(), is_square)?;
    let mut outs = vec![packed(&y), present.0, present.1];
    if c.wants(3) {
        let size = q.dims()?.last().copied().unwrap_or(1) as f64;
        let scores = q.matmul(&k.t()) * scale.unwrap_or(1.0 / size.sqrt());
        outs.push(mask.map_or(scores.clone(), |m| scores + m));
    }
    give(outs)
}

/// (B, H, S, D) of a buffer with what is new behind the first `before`.
fn buffered(past: Option<Tensor>, x: &Tensor, before: i64) -> Result<Tensor> {
    let Some(past) = past else { return fail("a length of the past without one") };
    let (size, n) = (size_at(&past, 2)? as i64, size_at(x, 2)? as i64);
    let rest = size - before - n;
    if before < 0 || rest < 0 {
        return fail(format!("{n} keys behind {before} in a buffer of {size}"));
    }
    Ok(Tensor::cat(&[past.narrow(2, 0, before), x.clone(), past.narrow(2, before + n, rest)], 2))
}
/// Rows of a buffer (B * beams, H, S, D), each place from the beam of its batch that (B, beams, most) says.
fn beams(x: &Tensor, from: &Tensor) -> Tensor {
    let (s, f) = (x.shape(), from.shape());
    let first = Tensor::arange(&f[0]).int().reshape((-1, 1, 1)) * f[1].tensor().int();
    let row = (from.int() + first).narrow(2, 0, &s[2]).reshape((&s[0], 1, &s[2], 1));
    x.gather(0, &row.expand(s))
}

/// Rows of weights in blocks of few bits, each block with a scale and maybe a zero point. With accuracy level 4 vectors may be
/// rounded to bytes block by block: then products are summed in int32.
fn matmul_bits(c: &Call) -> Result<Outs> {
    let level = c.int_or("accuracy_level", 0)?;
    if c.flag("weight_prepacked")? {
        return fail("its weights are stored as kernels of one kind of GPU want them");
    }
    let (k, n) = (c.int_or("K", 0)?, c.int_or("N", 0)?);
    let (bits, block) = (c.int_or("bits", 4)?, c.int_or("block_size", 32)?);
    let is_size = |v: i64| (1..1 << 31).contains(&v);
    let is_known = matches!(bits, 2 | 4 | 8) && [k, n, block].into_iter().all(is_size);
    if !is_known || block % (8 / bits) != 0 {
        return fail(format!("{n} rows of {k} with {bits} bits in blocks of {block}"));
    }
    let rows =
        BitRows { n, k, bits, block, codes: c.tensor(1)?, scales: c.tensor(2)?, zeros: c.optional(3)? };
    let (a, groups) = (c.tensor(0)?, c.optional(4)?);
    let has_dot4 = Device::target(&a.device()?)?.has_dot4();
    let words = if level == 4 && groups.is_none() && has_dot4 { rows.words()? } else { None };
    let y = match words {
        Some(words) => {
            let (shape, over) = (a.shape(), rows.blocks() * block - k);
            let y = words.product(&a.reshape((-1, k)).pad(&[(0, 0), (0, over)], 0.0), Bytes::One);
            let dims: Vec<Dim> = (1..a.rank()).map(|i| shape[i - 1].clone()).chain([n.into()]).collect();
            y.reshape(dims).cast(a.dtype())
        }
        None => a.matmul(&rows.real(groups).cast(a.dtype()).t()),
    };
    give(c.optional(5)?.map_or(y.clone(), |b| y + b))
}

/// Words of a block that are multiplied side by side; those that follow are added to them before a sum is scaled.
const LANES: usize = 16;

/// The weights of `MatMulNBits`: `n` rows of `k`.
struct BitRows {
    n: i64,
    k: i64,
    bits: i64,
    block: i64,
    /// `(n, blocks, bytes)`: the first of the values in a byte is in its lowest bits.
    codes: Tensor,
    scales: Tensor,
    /// Packed as values are, each row in bytes of its own; or of the type of the scales.
    zeros: Option<Tensor>,
}

impl BitRows {
    fn blocks(&self) -> i64 {
        (self.k + self.block - 1) / self.block
    }
    fn unpacked(&self, t: &Tensor) -> Tensor {
        let shifts = Tensor::arange(8 / self.bits) * self.bits;
        t.int().unsqueeze(-1).rshift(shifts).bitwise_and((1 << self.bits) - 1)
    }
    /// `(n, blocks)`, of a type.
    fn zeros(&self, d: DType) -> Option<Tensor> {
        let (n, blocks) = (self.n, self.blocks());
        Some(match self.zeros.as_ref()? {
            z if z.dtype().is_float() => z.reshape([n, blocks]).cast(d),
            z => self.unpacked(z).reshape((n, -1)).narrow(1, 0, blocks).cast(d),
        })
    }
    /// The numbers `(n, k)` that they stand for. A column may be of any block.
    fn real(&self, groups: Option<Tensor>) -> Tensor {
        let (n, blocks, d) = (self.n, self.blocks(), self.scales.dtype());
        let codes = self.unpacked(&self.codes).cast(d);
        let half = || Tensor::full_dtype((), 1i64 << (self.bits - 1), d);
        let scales = self.scales.reshape([n, blocks]);
        match groups {
            Some(groups) => {
                let groups = groups.narrow(0, 0, self.k);
                let of = |t: Tensor| t.index_select(1, &groups);
                let codes = codes.reshape((n, -1)).narrow(1, 0, self.k);
                (codes - self.zeros(d).map_or_else(half, of)) * of(scales)
            }
            None => {
                let of = |t: Tensor| t.reshape([n, blocks, 1]);
                let codes = codes.reshape([n, blocks, self.block]);
                let all = (codes - self.zeros(d).map_or_else(half, of)) * of(scales);
                all.reshape([n, blocks * self.block]).narrow(1, 0, self.k)
            }
        }
    }
    /// For products in whole numbers, if blocks are of whole words, not too many, and zero points are no fractions.
    fn words(&self) -> Result<Option<Words>> {
        let (n, blocks, count) = (self.n as usize, self.blocks() as usize, 8 / self.bits as usize);
        let fits = self.codes.dtype() == DType::U8 && self.block <= 256 && self.block * self.bits % 32 == 0;
        if !fits || self.zeros.as_ref().is_some_and(|z| z.dtype().is_float()) {
            return Ok(None);
        }
        let each = (self.block * self.bits / 32) as usize;
        let lanes = if each.is_multiple_of(LANES) { LANES } else { each };
        let codes = self.codes.bitcast(DType::I32).reshape([n, blocks * each / lanes, lanes]);
        let fields = if count == 1 { codes } else { Words::fields(&codes, count, self.bits as usize) };
        let words = Words {
            words: fields.reshape([n, blocks, each / lanes * count, lanes]),
            neighbours: count,
            zero: match self.zeros(DType::F32) {
                Some(zeros) => Zero::OfParts(zeros),
                None => Zero::One(1 << (self.bits - 1)),
            },
            scale: self.scales.float().reshape([n, blocks]),
            offset: None,
        };
        words.words.check()?;
        Ok(Some(words))
    }
}

fn dynamic_quantize_matmul(c: &Call) -> Result<Outs> {
    let (q, scale, zero) = quant::dynamically(&c.tensor(0)?);
    let sums = quant::product((&q, Some(zero)), (&c.tensor(1)?, c.optional(3)?));
    let y = sums.float() * scale * c.tensor(2)?;
    give(c.optional(4)?.map_or(y.clone(), |b| y + b))
}

/// A product of quantised matrices with integers added to its sums; quantised again where the output has a scale.
fn q_gemm(c: &Call) -> Result<Outs> {
    let alpha = c.float_or("alpha", 1.0)?;
    let turned = |i: usize, name: &str| -> Result<Tensor> {
        let x = c.tensor(i)?;
        Ok(if c.flag(name)? { x.t() } else { x })
    };
    let (a, b) = (turned(0, "transA")?, turned(3, "transB")?);
    let sums = quant::product((&a, c.optional(2)?), (&b, c.optional(5)?));
    let sums = c.optional(6)?.map_or(sums.clone(), |add| sums + add.int());
    let y = sums.float() * (c.tensor(1)?.float() * c.tensor(4)?.float() * alpha);
    match c.optional(7)? {
        None => give(y),
        Some(scale) => {
            let to = c.value(8).unwrap_or(c.input(0)?).element()?;
            give(quantized(&(y / scale), c.optional(8)?.map(|z| z.float()), to, true)?)
        }
    }
}

/// The numbers that three inputs from `i` on stand for.
fn real(c: &Call, i: usize) -> Result<Tensor> {
    Ok(dequantized(&c.tensor(i)?, &c.tensor(i + 1)?, c.optional(i + 2)?))
}
/// Numbers as two inputs from `i` on would have them; without a zero point of the type that the first input has.
fn quantized_as(c: &Call, x: &Tensor, i: usize) -> Result<Value> {
    let to = c.value(i + 1).unwrap_or(c.input(0)?).element()?;
    quantized(&(x / c.tensor(i)?), c.optional(i + 1)?.map(|z| z.float()), to, true)
}
fn q_unary(c: &Call, f: impl Fn(&Tensor) -> Tensor) -> Result<Outs> {
    give(quantized_as(c, &f(&real(c, 0)?), 3)?)
}
fn q_binary(c: &Call, f: fn(&Tensor, &Tensor) -> Tensor) -> Result<Outs> {
    give(quantized_as(c, &f(&real(c, 0)?, &real(c, 3)?), 6)?)
}
fn q_concat(c: &Call) -> Result<Outs> {
    let axis = c.axis("axis", 0)?;
    let parts = (2..c.len()).step_by(3).map(|i| real(c, i)).collect::<Result<Vec<_>>>()?;
    let joined = Tensor::cat(&parts, axis);
    give(quantized(&(joined / c.tensor(0)?), Some(c.tensor(1)?.float()), c.element(1)?, true)?)
}
fn q_average_pool(c: &Call) -> Result<Outs> {
    let last = c.flag("channels_last")?;
    let x = real(c, 0)?;
    let x = if last { x.movedim(-1, 1) } else { x };
    let y = super::pool::averages(c, &x)?;
    give(quantized_as(c, &if last { y.movedim(1, -1) } else { y }, 3)?)
}
fn q_global_average_pool(c: &Call) -> Result<Outs> {
    let last = c.flag("channels_last")?;
    q_unary(c, |x| {
        let rank = x.rank() as isize;
        let axes: Vec<isize> = if last { (1..rank - 1).collect() } else { (2..rank).collect() };
        x.mean(keepdim(&axes[..]))
    })
}
