//! Single operations.

use super::{Bench, CHECK, Line, captured, recorded};
use frit::*;
use std::sync::atomic::Ordering;

/// A tensor of random floats in memory.
pub(super) fn randn(dims: &[usize]) -> Result<Tensor> {
    let t = Tensor::randn(dims);
    t.realize()?;
    Ok(t)
}

/// Bytes per second of a copy of 64 Mi bytes, measured now, to compare memory-bound work with.
fn copy_gbps() -> Result<f64> {
    let x = randn(&[16 << 20])?;
    let (_, line) = recorded(x, |x| Ok(x + 0.0))?;
    Ok(2.0 * 4.0 * (16 << 20) as f64 / line.ms / 1e6)
}

pub(super) fn gemm(m: usize, k: usize, n: usize, dtype: DType) -> Result<Line> {
    let (a, b) = (randn(&[m, k])?.cast(dtype), randn(&[k, n])?.cast(dtype));
    Tensor::realize_all(&[&a, &b])?;
    let line = captured((a, b), |(a, b)| Ok(a.matmul(&b)))?;
    let gflops = 2.0 * (m * k * n) as f64 / line.ms / 1e6;
    Ok(line.with("gflops", gflops))
}

/// Memory-bound work that must move `bytes`, beside copies before and after it: what memory gives changes by the minute.
pub(super) fn moving<I: Bundle + Clone>(
    bytes: f64,
    inputs: I,
    f: impl Fn(I) -> Tensor + Send + 'static,
) -> Result<Line> {
    if CHECK.load(Ordering::Relaxed) {
        return captured(inputs, move |inputs| Ok(f(inputs)));
    }
    let before = copy_gbps()?;
    let line = captured(inputs, move |inputs| Ok(f(inputs)))?;
    let (gbps, after) = (bytes / line.ms / 1e6, copy_gbps()?);
    Ok(line.with("gbps", gbps).with("of_copy", 2.0 * gbps / (before + after)))
}

/// The list.
pub fn benches() -> Vec<Bench> {
    let mut v = vec![];
    for n in [256, 512, 1024, 2048, 1000, 1023] {
        v.push(Bench::new(format!("gemm_f32_{n}"), move || gemm(n, n, n, DType::F32)));
    }
    for (m, k, n) in [(64, 4096, 512), (4096, 64, 4096)] {
        v.push(Bench::new(format!("gemm_f32_{m}x{k}x{n}"), move || gemm(m, k, n, DType::F32)));
    }
    v.push(Bench::new("gemm_f32_1024_transposed", || {
        let (a, b) = (randn(&[1024, 1024])?, randn(&[1024, 1024])?);
        let line = captured((a, b), |(a, b)| Ok(a.t().matmul(&b.t())))?;
        let gflops = 2.0 * 1024f64.powi(3) / line.ms / 1e6;
        Ok(line.with("gflops", gflops))
    }));
    for n in [256, 512, 1024, 2048] {
        v.push(Bench::new(format!("gemm_bf16_{n}"), move || gemm(n, n, n, DType::BF16)));
    }
    v.push(Bench::new("gemv_f32_4096", || {
        let (a, b) = (randn(&[4096, 4096])?, randn(&[4096])?);
        moving(4.0 * 4096.0 * 4096.0, (a, b), |(a, b)| a.matmul(&b))
    }));
    const M16: usize = 16 << 20;
    v.push(Bench::new("fused_elementwise_16m", || {
        let (x, y) = (randn(&[M16])?, randn(&[M16])?);
        moving(12.0 * M16 as f64, (x, y), |(x, y)| x.sigmoid() * y + x)
    }));
    v.push(Bench::new("exp_16m", || {
        let x = randn(&[M16])?;
        moving(8.0 * M16 as f64, x, |x| x.exp())
    }));
    v.push(Bench::new("sum_16m", || {
        let x = randn(&[M16])?;
        moving(4.0 * M16 as f64, x, |x| x.sum(..))
    }));
    type Row = fn(&Tensor) -> Tensor;
    let rows: [(&str, f64, Row); 5] = [
        ("softmax", 8.0, |z| z.softmax(-1)),
        ("layernorm", 8.0, |z| z.layernorm(-1, None, None, 1e-5)),
        ("transpose", 8.0, |z| z.t().contiguous()),
        ("cumsum", 8.0, |z| z.cumsum(-1)),
        ("argmax", 4.0, |z| z.argmax(-1)),
    ];
    for (name, bytes, f) in rows {
        for n in [4096, 4095] {
            v.push(Bench::new(format!("{name}_{n}"), move || {
                let z = randn(&[n, n])?;
                moving(bytes * (n * n) as f64, z, move |z| f(&z))
            }));
        }
    }
    v.push(Bench::new("gather_embedding", || {
        let table = randn(&[50257, 768])?;
        let idx = Tensor::randint(0, 50257, [1024]);
        idx.realize()?;
        moving(8.0 * 1024.0 * 768.0, (table, idx), |(table, idx)| table.embedding(&idx))
    }));
    for (name, dims) in [
        ("sort_1024x1024", vec![1024, 1024]),
        ("sort_1000x1000", vec![1000, 1000]),
        ("sort_1m", vec![1 << 20]),
    ] {
        v.push(Bench::new(name, move || {
            let x = randn(&dims)?;
            captured(x, |x| Ok(x.sort(-1, false)))
        }));
    }
    let convs: [(&str, [usize; 4], [usize; 4], Window); 5] = [
        ("conv3x3_64x128", [8, 64, 56, 56], [128, 64, 3, 3], Window::new().padding(1)),
        ("conv_depthwise", [8, 128, 56, 56], [128, 1, 3, 3], Window::new().padding(1).groups(128)),
        ("conv1x1_64x128", [8, 64, 56, 56], [128, 64, 1, 1], Window::new()),
        ("conv3x3_64x128_stride2", [8, 64, 56, 56], [128, 64, 3, 3], Window::new().padding(1).stride(2)),
        ("conv3x3_63x65", [8, 63, 56, 56], [65, 63, 3, 3], Window::new().padding(1)),
    ];
    for (name, x, w, window) in convs {
        v.push(Bench::new(name, move || {
            let (x, weight, bias) = (randn(&x)?, randn(&w)?, randn(&w[..1])?);
            let y = x.conv2d(&weight, Some(&bias), window.clone());
            let flops = 2.0 * (y.numel()? * w[1] * w[2] * w[3]) as f64;
            drop(y);
            let window = window.clone();
            let line = captured((x, weight, bias), move |(x, weight, bias)| {
                Ok(x.conv2d(&weight, Some(&bias), window.clone()))
            })?;
            let gflops = flops / line.ms / 1e6;
            Ok(line.with("gflops", gflops))
        }));
    }
    v.push(Bench::new("attention_8x512x64", || {
        let (q, k, val) = (randn(&[1, 8, 512, 64])?, randn(&[1, 8, 512, 64])?, randn(&[1, 8, 512, 64])?);
        captured((q, k, val), |(q, k, val)| Ok(q.scaled_dot_product_attention(&k, &val, None, true)))
    }));
    v
}
