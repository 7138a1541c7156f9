//! Single operations on as much as a GPU needs to be busy.

use super::ops::{gemm, moving, randn};
use super::{Bench, captured};
use frit::*;

/// A value of `dims` in a type, in memory.
fn random(dims: &[usize], dtype: DType) -> Result<Tensor> {
    let x = randn(dims)?.cast(dtype);
    x.realize()?;
    Ok(x)
}

/// Bytes of any value.
fn bytes(dims: &[usize]) -> Result<Tensor> {
    let x = Tensor::randint(-128, 128, dims).cast(DType::I8);
    x.realize()?;
    Ok(x)
}

/// The list.
pub fn benches() -> Vec<Bench> {
    use DType::{BF16, F16, F32, I32};
    type Op = fn(&Tensor) -> Tensor;
    // name, dims, type, bytes that an element costs, what
    let rows: [(&str, [usize; 2], DType, f64, Op); 11] = [
        ("copy_128MiB", [8192, 4096], F32, 8.0, |x| x + 0.0),
        ("copy_1000x1001", [1000, 1001], F32, 8.0, |x| x + 0.0),
        ("gelu_64m", [8192, 8192], BF16, 4.0, |x| x.gelu()),
        ("logsumexp_4096x50257", [4096, 50257], F32, 4.0, |x| x.logsumexp(-1)),
        ("sum_all_1GiB_f32", [16384, 16384], F32, 4.0, |x| x.sum(..)),
        ("sum_rows_8192", [8192, 8192], F32, 4.0, |x| x.sum(1)),
        ("sum_columns_8192", [8192, 8192], F32, 4.0, |x| x.sum(0)),
        ("transpose_1GiB_f32", [16384, 16384], F32, 8.0, |x| x.t().contiguous()),
        ("cumsum_4096_axis0", [4096, 4096], F32, 8.0, |x| x.cumsum(0)),
        ("argmax_4096x50257", [4096, 50257], F32, 4.0, |x| x.argmax(-1)),
        ("max_8192x8192_bf16", [8192, 8192], BF16, 2.0, |x| x.max(-1)),
    ];
    let row = |name: String, dims: [usize; 2], dtype: DType, bytes: f64, f: Op| {
        Bench::new(name, move || {
            let x = random(&dims, dtype)?;
            moving(bytes * (dims[0] * dims[1]) as f64, x, move |x| f(&x))
        })
    };
    let mut v: Vec<Bench> = rows.into_iter().map(|(name, d, t, b, f)| row(name.into(), d, t, b, f)).collect();
    let norms: [(&str, Op); 3] = [
        ("softmax", |x| x.softmax(-1)),
        ("layernorm", |x| x.layernorm(-1, None, None, 1e-5)),
        ("rmsnorm", |x| {
            let y = x.cast(F32);
            (&y * (y.square().mean(keepdim(-1)) + 1e-6).rsqrt()).cast(BF16)
        }),
    ];
    for (name, f) in norms {
        v.extend([8192, 8191, 4095].map(|n| row(format!("{name}_{n}x{n}_bf16"), [n, n], BF16, 4.0, f)));
    }
    v.push(Bench::new("sort_1024x8192_f32", || captured(randn(&[1024, 8192])?, |x| Ok(x.sort(-1, false)))));
    v.push(Bench::new("gather_embedding_16384", || {
        let (table, idx) = (randn(&[50257, 768])?, Tensor::randint(0, 50257, [16384]));
        idx.realize()?;
        moving(8.0 * 16384.0 * 768.0, (table, idx), |(table, idx)| table.embedding(&idx))
    }));
    v.push(Bench::new("gemm_f32_4096", || gemm(4096, 4096, 4096, F32)));
    for (n, dtype) in [(4096, BF16), (8192, BF16), (4096, F16), (1000, BF16), (4095, BF16)] {
        let name = format!("gemm_{}_{n}", if dtype == F16 { "fp16" } else { "bf16" });
        v.push(Bench::new(name, move || gemm(n, n, n, dtype)));
    }
    for (m, k, n) in [(64, 4096, 4096), (300, 4096, 11008), (8192, 64, 8192)] {
        v.push(Bench::new(format!("gemm_bf16_{m}x{k}x{n}"), move || gemm(m, k, n, BF16)));
    }
    type Of2 = fn(&Tensor, &Tensor) -> Tensor;
    let int8: Of2 = |a, b| a.cast(I32).matmul(&b.t().cast(I32));
    let products: [(&str, [&[usize]; 2], f64, Of2); 6] = [
        ("gemm_int8_4096_nt", [&[4096, 4096]; 2], 4096f64.powi(3), int8),
        ("gemm_bf16_4096_tn", [&[4096, 4096]; 2], 4096f64.powi(3), |a, b| a.t().matmul(b)),
        ("gemm_bf16_4096_nt", [&[4096, 4096]; 2], 4096f64.powi(3), |a, b| a.matmul(&b.t())),
        ("gemm_bf16_4096_tt", [&[4096, 4096]; 2], 4096f64.powi(3), |a, b| a.t().matmul(&b.t())),
        ("bmm_bf16_64x128", [&[64, 128, 128]; 2], 64.0 * 128f64.powi(3), |a, b| a.matmul(b)),
        ("gemm_bias_gelu_4096", [&[4096, 4096]; 2], 4096f64.powi(3), |a, b| {
            (a.matmul(b) + b.select(0, 0)).gelu()
        }),
    ];
    for (name, dims, products, f) in products {
        v.push(Bench::new(name, move || {
            let pair = match name.contains("int8") {
                false => (random(dims[0], BF16)?, random(dims[1], BF16)?),
                true => (bytes(dims[0])?, bytes(dims[1])?),
            };
            let line = captured(pair, move |(a, b)| Ok(f(&a, &b)))?;
            let gflops = 2.0 * products / line.ms / 1e6;
            Ok(line.with("gflops", gflops))
        }));
    }
    for (heads, width, is_causal) in [(32, 128, false), (32, 128, true), (64, 64, false), (64, 64, true)] {
        let causal = if is_causal { "_causal" } else { "" };
        v.push(Bench::new(format!("sdpa_b4h{heads}s4096d{width}{causal}"), move || {
            let x = || random(&[4, heads, 4096, width], BF16);
            let line = captured((x()?, x()?, x()?), move |(q, k, v)| {
                Ok(q.scaled_dot_product_attention(&k, &v, None, is_causal))
            })?;
            // of a causal one half is asked for
            let products = if is_causal { 2.0 } else { 4.0 } * (4 * heads * width) as f64 * 4096f64.powi(2);
            let gflops = products / line.ms / 1e6;
            Ok(line.with("gflops", gflops))
        }));
    }
    for ([batch, heads, length, width], is_causal) in [
        ([2, 4, 512, 64], true),
        ([16, 12, 1024, 64], true),
        ([64, 16, 512, 64], false),
        ([4, 32, 4096, 128], true),
    ] {
        let causal = if is_causal { "_causal" } else { "" };
        let name = format!("sdpa_backward_b{batch}h{heads}s{length}d{width}{causal}");
        v.push(Bench::new(name, move || {
            let x = || random(&[batch, heads, length, width], BF16);
            let line = captured((x()?, x()?, x()?, x()?), move |(q, k, v, g)| {
                let y = q.scaled_dot_product_attention(&k, &v, None, is_causal);
                let mut all = y.gradient_with(&g, &[&q, &k, &v])?;
                all.push(y);
                Ok(all)
            })?;
            // two products forward and five back
            let all = if is_causal { 7.0 } else { 14.0 } * (batch * heads * width) as f64;
            let gflops = all * (length as f64).powi(2) / line.ms / 1e6;
            Ok(line.with("gflops", gflops))
        }));
    }
    v
}
