//! Long sums and what is made of them, against the bound that the type they accumulate in predicts.
//!
//! A sum of n terms in a type of unit roundoff u makes n roundings of partial sums no greater than the sum of
//! magnitudes; if they do not conspire, their total is below `4 sqrt(n) u` of it but for one case in a thousand
//! (however long the sum: Higham and Mary, 2019), and never above `n u`. float16 and bfloat16 accumulate in float32 and
//! round once more at the end. Errors are given as a part of that bound, so 1 is where it is broken.

use super::measure::{Row, tensor, values};
use frit::{DType, Result, Scalar, Tensor, keepdim};

/// How one is computed and what it may be off by.
#[derive(Clone, Copy)]
pub struct Reduction {
    /// As a method of `Tensor`, or nearly.
    pub name: &'static str,
    /// Rows and columns of what is reduced along the columns.
    pub shape: (usize, usize),
    compute: fn(&Tensor) -> Tensor,
    /// From a row in double precision: the results.
    exact: fn(&[f64]) -> Vec<f64>,
    /// From a row and the accumulator's roundoff: how far each may be off before the last rounding.
    slack: fn(&[f64], f64) -> Vec<f64>,
}

/// The types they are measured in.
pub const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// All of them.
pub const REDUCTIONS: &[Reduction] = &[
    Reduction {
        name: "sum of 1048576",
        shape: (1, 1 << 20),
        compute: |x| x.sum(1),
        exact: |x| vec![exact_sum(x)],
        slack: |x, u| vec![sum_slack(x, u)],
    },
    Reduction {
        name: "mean of 65536",
        shape: (4, 1 << 16),
        compute: |x| x.mean(1),
        exact: |x| vec![exact_sum(x) / x.len() as f64],
        slack: |x, u| vec![sum_slack(x, u) / x.len() as f64 + u * (exact_sum(x) / x.len() as f64).abs()],
    },
    Reduction {
        name: "dot of 65536",
        shape: (4, 1 << 16),
        compute: |x| (x * x.flip(1)).sum(1),
        exact: |x| vec![exact_sum(&products(x))],
        slack: |x, u| vec![sum_slack(&products(x), u)],
    },
    Reduction {
        name: "matmul over 4096",
        shape: (4, 4096),
        compute: |x| x.matmul(&x.flip(1).transpose(0, 1)).diagonal(),
        exact: |x| vec![exact_sum(&products(x))],
        slack: |x, u| vec![sum_slack(&products(x), u)],
    },
    Reduction {
        name: "cumsum of 65536",
        shape: (2, 1 << 16),
        compute: |x| x.cumsum(1),
        exact: |x| {
            let mut total = (0.0, 0.0);
            x.iter()
                .map(|&v| {
                    total = add(total, v);
                    total.0 + total.1
                })
                .collect()
        },
        slack: |x, u| {
            let mut total = 0.0;
            x.iter()
                .enumerate()
                .map(|(i, v)| {
                    total += v.abs();
                    4.0 * ((i + 1) as f64).sqrt() * u * total
                })
                .collect()
        },
    },
    Reduction {
        name: "softmax of 4096",
        shape: (8, 4096),
        compute: |x| (x * 8.0).softmax(1),
        exact: |x| softmax(x),
        // x - max and its exponential, the sum, the division
        slack: |x, u| softmax(x).iter().map(|p| p * u * (24.0 + 4.0 * (x.len() as f64).sqrt())).collect(),
    },
    Reduction {
        name: "layernorm of 4096",
        shape: (8, 4096),
        compute: |x| {
            let centred = x - x.mean(keepdim(1));
            &centred * (centred.square().mean(keepdim(1)) + 1e-5).rsqrt()
        },
        exact: |x| layernorm(x),
        // the mean, then the variance, of whose relative error half counts
        slack: |x, u| {
            let spread = 4.0 * (x.len() as f64).sqrt() * u;
            layernorm(x).iter().map(|y| 2.0 * spread + y.abs() * (spread + 4.0 * u)).collect()
        },
    },
];

fn products(x: &[f64]) -> Vec<f64> {
    x.iter().zip(x.iter().rev()).map(|(a, b)| a * b).collect()
}
/// A sum of two doubles and one more term.
fn add((high, low): (f64, f64), v: f64) -> (f64, f64) {
    let s = high + v;
    let t = s - high;
    (s, low + ((high - (s - t)) + (v - t)))
}
fn exact_sum(x: &[f64]) -> f64 {
    let (high, low) = x.iter().fold((0.0, 0.0), |s, &v| add(s, v));
    high + low
}
fn sum_slack(x: &[f64], u: f64) -> f64 {
    4.0 * (x.len() as f64).sqrt() * u * x.iter().map(|v| v.abs()).sum::<f64>()
}
fn softmax(x: &[f64]) -> Vec<f64> {
    let most = x.iter().fold(f64::MIN, |m, v| m.max(8.0 * v));
    let e: Vec<f64> = x.iter().map(|v| (8.0 * v - most).exp()).collect();
    let total = exact_sum(&e);
    e.iter().map(|v| v / total).collect()
}
fn layernorm(x: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = exact_sum(x) / n;
    let squares: Vec<f64> = x.iter().map(|v| (v - mean) * (v - mean)).collect();
    let scale = 1.0 / (exact_sum(&squares) / n + 1e-5).sqrt();
    x.iter().map(|v| (v - mean) * scale).collect()
}

/// Measure one in a type, on the default device.
pub fn measure(r: &Reduction, dtype: DType) -> Result<Row> {
    let (rows, columns) = r.shape;
    // a fixed sequence, of both signs but not of mean zero
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Scalar::float((state >> 33) as f64 / (1u64 << 31) as f64 - 0.47, dtype).as_f64()
    };
    let data: Vec<f64> = (0..rows * columns).map(|_| draw()).collect();
    let x = tensor(&data, dtype).reshape([rows, columns]);
    // small types round once, where the method as a whole is written that way
    let computed = match dtype.is_small_float() && r.name.starts_with("layernorm") {
        true => (r.compute)(&x.cast(DType::F32)).cast(dtype),
        false => (r.compute)(&x),
    };
    let got = values(&computed)?;
    let wide = if dtype.is_small_float() { DType::F32 } else { dtype };
    let eps = |d: DType| d.finfo().map_or(0.0, |i| i.eps);
    let mut row =
        Row { name: r.name, dtype, points: 0, max: 0.0, mean: 0.0, at: vec![], bound: 1.0, unit: "bound" };
    let each = got.len() / rows;
    for (i, data) in data.chunks(columns).enumerate() {
        let (want, slack) = ((r.exact)(data), (r.slack)(data, eps(wide) / 2.0));
        for (j, (want, slack)) in want.iter().zip(slack).enumerate() {
            let last = dtype.finfo().map_or(0.0, |f| f.ulp(*want)) * 0.5;
            let products = if dtype.is_small_float() && r.name.starts_with("dot") {
                product_slack(data, dtype)
            } else {
                0.0
            };
            row.count((got[i * each + j] - want).abs() / (slack + last + products), &[i as f64, j as f64]);
        }
    }
    row.mean /= row.points.max(1) as f64;
    Ok(row)
}

/// Products that are written apart from their sum round to the type first.
fn product_slack(x: &[f64], dtype: DType) -> f64 {
    let u = dtype.finfo().map_or(0.0, |i| i.eps / 2.0);
    products(x).iter().map(|p| p.abs() * u).sum()
}
