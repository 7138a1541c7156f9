//! Products of quantised numbers: sums in int32, exact whatever multiplies them.

use crate::build::Model;
use frit_onnx::Element;
use frit_onnx::Element::{Float, Int8, Uint8};
use frit_tensor::{DType, Result, Tensor};

/// Integers of a type, its ends among them.
fn integers(n: usize, element: Element, seed: u64) -> Vec<i64> {
    let (lo, hi) = if element == Int8 { (-128, 127) } else { (0, 255) };
    let next = |i: u64| {
        (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let one = |i: usize| match i % 7 {
        0 => lo,
        1 => hi,
        _ => lo + (next(i as u64) >> 40) as i64 % (hi - lo + 1),
    };
    (0..n).map(one).collect()
}
fn tensor(values: &[i64], dims: &[usize], element: Element) -> Tensor {
    let d = if element == Int8 { DType::I8 } else { DType::U8 };
    Tensor::from_slice(values).reshape(dims).cast(d)
}

#[test]
fn products_of_integers_are_exact() -> Result<()> {
    for (m, k, n) in [(1, 300, 20), (3, 7, 5), (20, 70, 33), (64, 512, 48)] {
        for (of_a, of_b) in [(Uint8, Int8), (Int8, Int8), (Uint8, Uint8)] {
            let (a, b) = (integers(m * k, of_a, 1), integers(k * n, of_b, 2));
            let (p, q) = (integers(m, of_a, 3), integers(n, of_b, 4));
            let model = Model::new(13)
                .input("a", of_a, &["m", "k"])
                .input("b", of_b, &["k", "n"])
                .input("p", of_a, &["m"])
                .input("q", of_b, &["n"])
                .node("y = MatMulInteger(a, b, p, q)")
                .output("y");
            let feeds = [
                ("a", tensor(&a, &[m, k], of_a)),
                ("b", tensor(&b, &[k, n], of_b)),
                ("p", tensor(&p, &[m], of_a)),
                ("q", tensor(&q, &[n], of_b)),
            ];
            let got = model.run(&feeds)?[0].tensor()?.long().to_vec::<i64>()?;
            for i in 0..m {
                for j in 0..n {
                    let want: i64 = (0..k).map(|l| (a[i * k + l] - p[i]) * (b[l * n + j] - q[j])).sum();
                    assert_eq!(got[i * n + j], want, "{m} x {k} x {n}, {of_a:?} {of_b:?} at {i}, {j}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn products_of_dequantised_numbers_sum_integers() -> Result<()> {
    let (m, k, n) = (24, 600, 32);
    let (a, b) = (integers(m * k, Uint8, 1), integers(k * n, Int8, 2));
    let scale = |i: usize| 0.001 * (i + 1) as f32;
    let scales: Vec<f32> = (0..n).map(scale).collect();
    let model = Model::new(13)
        .input("a", Uint8, &["m", "k"])
        .input("s", Float, &[])
        .input("p", Uint8, &[])
        .input("b", Int8, &["k", "n"])
        .input("t", Float, &["n"])
        .node("x = DequantizeLinear(a, s, p)")
        .node("w = DequantizeLinear(b, t)")
        .node("y = MatMul(x, w)")
        .output("y");
    let feeds = [
        ("a", tensor(&a, &[m, k], Uint8)),
        ("s", Tensor::full((), 0.03f32)),
        ("p", tensor(&[77], &[], Uint8)),
        ("b", tensor(&b, &[k, n], Int8)),
        ("t", Tensor::from_slice(&scales)),
    ];
    let got = model.floats(&feeds)?;
    for i in 0..m {
        for j in 0..n {
            let sum: i64 = (0..k).map(|l| (a[i * k + l] - 77) * b[l * n + j]).sum();
            // an integer, and two roundings
            assert_eq!(got[i * n + j], sum as f32 * (0.03f32 * scales[j]), "at {i}, {j}");
        }
    }
    Ok(())
}
