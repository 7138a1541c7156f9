//! Second derivatives against finite differences of the plain loops, in float64.

use crate::support::{Random, array, on, tensor};
use frit::{DType, Tensor, Window};
use frit_reference::{Array, Conv2d, finite_difference};

/// A scalar function of one input, as a tensor and as a plain loop.
struct Case {
    name: &'static str,
    shape: &'static [usize],
    ours: fn(&Tensor) -> Tensor,
    plain: fn(&Array) -> Array,
}

fn ramp(shape: &[usize]) -> Array {
    let mut i = 0.0;
    Array::from_fn(shape, |_| {
        i += 1.0;
        (i * 0.7_f64).sin() + 0.3
    })
}

fn constant(shape: &[usize]) -> Tensor {
    tensor(&ramp(shape), DType::F64)
}

const CASES: &[Case] = &[
    Case { name: "cube", shape: &[4], ours: |x| x.pow(3), plain: |x| x.map(|v| v * v * v) },
    Case { name: "exp", shape: &[4], ours: |x| x.exp(), plain: |x| x.exp() },
    Case { name: "log", shape: &[4], ours: |x| x.log(), plain: |x| x.log() },
    Case { name: "sqrt", shape: &[4], ours: |x| x.sqrt(), plain: |x| x.sqrt() },
    Case { name: "reciprocal", shape: &[4], ours: |x| 1.0 / x, plain: |x| x.reciprocal() },
    Case { name: "tanh", shape: &[4], ours: |x| x.tanh(), plain: |x| x.tanh() },
    Case { name: "sigmoid", shape: &[4], ours: |x| x.sigmoid(), plain: |x| x.sigmoid() },
    Case { name: "sin", shape: &[4], ours: |x| x.sin(), plain: |x| x.sin() },
    Case { name: "gelu", shape: &[4], ours: |x| x.gelu(), plain: |x| x.gelu() },
    Case { name: "softplus", shape: &[4], ours: |x| x.softplus(), plain: |x| x.softplus() },
    Case { name: "power", shape: &[4], ours: |x| x.pow(1.7), plain: |x| x.map(|v| v.powf(1.7)) },
    Case {
        name: "quotient",
        shape: &[2, 3],
        ours: |x| x.at(0) / x.at(1),
        plain: |x| {
            let row = |i| x.shrink(&[(i, i + 1), (0, 3)]);
            row(0).div(&row(1))
        },
    },
    Case { name: "softmax", shape: &[2, 3], ours: |x| x.softmax(1), plain: |x| x.softmax(1) },
    Case { name: "log_softmax", shape: &[2, 3], ours: |x| x.log_softmax(0), plain: |x| x.log_softmax(0) },
    Case { name: "logsumexp", shape: &[2, 3], ours: |x| x.logsumexp(1), plain: |x| x.logsumexp(&[1], false) },
    Case { name: "var", shape: &[2, 3], ours: |x| x.var(1, 1), plain: |x| x.var(&[1], false, 1.0) },
    Case { name: "prod", shape: &[2, 3], ours: |x| x.prod(1), plain: |x| x.prod(&[1], false) },
    Case {
        name: "gram",
        shape: &[2, 3],
        ours: |x| x.matmul(&x.t()),
        plain: |x| x.matmul(&x.permute(&[1, 0])),
    },
    Case {
        name: "layernorm",
        shape: &[2, 3],
        ours: |x| x.layernorm(-1, None, None, 1e-3),
        plain: |x| x.layernorm(1, None, None, 1e-3),
    },
    Case {
        name: "cumsum squared",
        shape: &[5],
        ours: |x| x.cumsum(0).square(),
        plain: |x| x.cumsum(0).square(),
    },
    Case { name: "cumprod", shape: &[4], ours: |x| x.cumprod(0), plain: |x| x.cumprod(0) },
    Case {
        name: "maximum of two squares",
        shape: &[4],
        ours: |x| x.square().maximum(x * 1.3),
        plain: |x| x.square().maximum(&x.map(|v| v * 1.3)),
    },
    Case {
        name: "greatest, squared",
        shape: &[2, 3],
        ours: |x| x.max(1).pow(3),
        plain: |x| x.max(&[1], false).map(|v| v * v * v),
    },
    Case {
        name: "pads, flips and slices",
        shape: &[2, 3],
        ours: |x| x.pad(&[(1, 0), (0, 2)], 0.0).flip(1) * constant(&[3, 5]) * x.sum(..),
        plain: |x| {
            let padded = x.pad(&[(1, 0), (0, 2)], 0.0).flip(&[1]);
            padded.mul(&ramp(&[3, 5])).mul(&x.sum(&[], false))
        },
    },
    Case {
        name: "conv2d",
        shape: &[1, 1, 4, 4],
        ours: |x| x.conv2d(&x.shrink(&[(0, 1), (0, 1), (0, 2), (0, 3)]), None, Window::new().padding(1)),
        plain: |x| {
            let w = x.shrink(&[(0, 1), (0, 1), (0, 2), (0, 3)]);
            let (stride, padding) = ([1, 1], [1, 1]);
            x.conv2d(&w, None, Conv2d { stride, padding, dilation: [1, 1], groups: 1 })
        },
    },
    Case {
        name: "embedding",
        shape: &[3, 2],
        ours: |x| x.embedding(&Tensor::new([2, 0, 2])).square() * x.sum(..),
        plain: |x| x.embedding(&Array::new(&[3], [2., 0., 2.])).square().mul(&x.sum(&[], false)),
    },
    Case {
        name: "where",
        shape: &[4],
        ours: |x| x.gt(0.9).where_(x.exp(), x.square()),
        plain: |x| x.map(|v| if v > 0.9 { v.exp() } else { v * v }),
    },
];

/// `sum(f(x) * weights)`, so that every output counts differently.
fn total(out: &Array) -> f64 {
    out.mul(&ramp(&out.shape)).sum(&[], false).item()
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    let mut faults = vec![];
    for device in ["INTERP", "CPU"] {
        on(device, || {
            let mut made = vec![];
            for (seed, case) in CASES.iter().enumerate() {
                let mut random = Random::new(seed as u64);
                // positive and apart, so that logarithms exist and no two are equal
                let x = Array::from_fn(case.shape, |_| 1.2 + 0.9 * random.fraction());
                let direction = Array::from_fn(case.shape, |_| random.fraction());
                let (leaf, v) = (tensor(&x, DType::F64), tensor(&direction, DType::F64));
                let out = (case.ours)(&leaf);
                let loss = (&out * constant(&out.dims().unwrap())).sum(..);
                let second = loss
                    .gradient_or_zeros(&[&leaf])
                    .and_then(|g| (&g[0] * &v).sum(..).gradient_or_zeros(&[&leaf]))
                    .map(|mut h| h.remove(0));
                made.push((case, x, direction, second));
            }
            let ready: Vec<&Tensor> = made.iter().filter_map(|m| m.3.as_ref().ok()).collect();
            let _ = Tensor::realize_all(&ready);
            for (case, x, direction, second) in &made {
                let got = match second.as_ref().map_err(|e| e.clone()).and_then(array) {
                    Ok(got) => got,
                    Err(e) => {
                        faults.push(format!("{} on {device}: {e}", case.name));
                        continue;
                    }
                };
                let slope = |x: &[Array]| {
                    let f = |x: &[Array]| total(&(case.plain)(&x[0]));
                    finite_difference(&f, x, 0, 1e-4).mul(direction).sum(&[], false).item()
                };
                let want = finite_difference(&slope, std::slice::from_ref(x), 0, 1e-4);
                let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 2e-5 * w.abs().max(1.0);
                if got.shape != want.shape || !got.data.iter().zip(&want.data).all(near) {
                    faults.push(format!("{} on {device}: {:?}, not {:?}", case.name, got.data, want.data));
                }
            }
        });
    }
    assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_third_derivative() {
    on("INTERP", || {
        let x = Tensor::new([0.5, 1.5, -2.0]).double();
        let mut d = x.pow(5);
        for _ in 0..3 {
            d = d.sum(..).gradient(&[&x]).unwrap().remove(0);
        }
        let want: Vec<f64> = [0.5f64, 1.5, -2.0].iter().map(|v| 60.0 * v * v).collect();
        let got = d.to_vec::<f64>().unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-9), "{got:?}, not {want:?}");
    });
}
