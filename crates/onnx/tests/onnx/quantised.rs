//! Products of quantised numbers: sums in int32, exact whatever multiplies them.

use crate::build::{Attr, Model, stored};
use frit_onnx::Element::{Float, Int8, Uint8};
use frit_onnx::{Element, Value};
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

/// A convolution in plain loops, stride 2 down, padding 1 before: (N, C, H, W) and (O, C / groups, 3, 2).
fn convolved(x: &[i64], w: &[i64], (p, q): (i64, &[i64]), c: usize, groups: usize) -> Vec<i64> {
    let ([h, wd], [oh, ow], o) = ([9, 8], [5, 8], q.len());
    let (each, of) = (c / groups, o / groups);
    let mut y = vec![];
    for n in 0..x.len() / (c * h * wd) {
        for k in 0..o {
            for (i, j) in (0..oh).flat_map(|i| (0..ow).map(move |j| (i, j))) {
                let mut sum = 0;
                for (l, a, b) in
                    (0..each).flat_map(|l| (0..3).flat_map(move |a| (0..2).map(move |b| (l, a, b))))
                {
                    let (row, col) = (2 * i + a, j + b);
                    if row >= 1 && row <= h && col >= 1 && col <= wd {
                        let channel = k / of * each + l;
                        let at = ((n * c + channel) * h + row - 1) * wd + col - 1;
                        sum += (x[at] - p) * (w[((k * each + l) * 3 + a) * 2 + b] - q[k]);
                    }
                }
                y.push(sum);
            }
        }
    }
    y
}

fn walk() -> Vec<(&'static str, Attr<'static>)> {
    vec![
        ("strides", Attr::Ints(&[2, 1])),
        ("pads", Attr::Ints(&[1, 1, 1, 0])),
        ("kernel_shape", Attr::Ints(&[3, 2])),
    ]
}

#[test]
fn convolutions_of_integers_are_exact() -> Result<()> {
    for (c, o, groups) in [(3, 4, 1), (16, 8, 1), (6, 6, 3), (5, 5, 5)] {
        for (of_x, of_w) in [(Uint8, Int8), (Int8, Uint8)] {
            for has_zeros in [false, true] {
                let (x, w) = (integers(2 * c * 72, of_x, 1), integers(o * c / groups * 6, of_w, 2));
                let q = if has_zeros { integers(o, of_w, 3) } else { vec![0; o] };
                let p = if has_zeros { 77 } else { 0 };
                let mut attributes = walk();
                attributes.push(("group", Attr::Int(groups as i64)));
                let line = if has_zeros { "y = ConvInteger(x, w, p, q)" } else { "y = ConvInteger(x, w)" };
                let model = ["x", "w", "p", "q"].iter().fold(Model::new(13), |m, n| m.any_input(n));
                let feeds = [
                    ("x", tensor(&x, &[2, c, 9, 8], of_x)),
                    ("w", tensor(&w, &[o, c / groups, 3, 2], of_w)),
                    ("p", tensor(&[p], &[], of_x)),
                    ("q", tensor(&q, &[o], of_w)),
                ];
                let got = model.node_with(line, attributes).output("y").run(&feeds)?;
                let want = convolved(&x, &w, (p, &q), c, groups);
                assert_eq!(
                    got[0].tensor()?.long().to_vec::<i64>()?,
                    want,
                    "{c} to {o} in {groups}, {has_zeros}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn convolutions_of_dequantised_numbers_sum_integers() -> Result<()> {
    let (c, o) = (32, 8);
    let (x, w) = (integers(c * 72, Uint8, 1), integers(o * c * 6, Int8, 2));
    let scales: Vec<f32> = (0..o).map(|i| 0.001 * (i + 1) as f32).collect();
    let bias: Vec<i64> = (0..o as i64).map(|i| 1000 * i).collect();
    let names = ["x", "s", "p", "w", "t", "b", "u"];
    let model = names.iter().fold(Model::new(13), |m, n| m.any_input(n));
    let axis = || vec![("axis", Attr::Int(0))];
    let model = model
        .node("a = DequantizeLinear(x, s, p)")
        .node_with("k = DequantizeLinear(w, t)", axis())
        .node_with("c = DequantizeLinear(b, u)", axis())
        .node_with("y = Conv(a, k, c)", walk())
        .output("y");
    let fine: Vec<f32> = scales.iter().map(|t| t * 0.03f32).collect();
    let feeds = [
        ("x", tensor(&x, &[1, c, 9, 8], Uint8)),
        ("s", Tensor::full((), 0.03f32)),
        ("p", tensor(&[77], &[], Uint8)),
        ("w", tensor(&w, &[o, c, 3, 2], Int8)),
        ("t", Tensor::from_slice(&scales)),
        ("b", Tensor::from_slice(&bias).cast(DType::I32)),
        ("u", Tensor::from_slice(&fine)),
    ];
    let got = model.floats(&feeds)?;
    let want = convolved(&x, &w, (77, &vec![0; o]), c, 1);
    for (i, (got, sum)) in got.iter().zip(want).enumerate() {
        let k = i / 40;
        // an integer, three roundings
        let want = sum as f32 * (0.03f32 * scales[k]) + bias[k] as f32 * fine[k];
        assert_eq!(*got, want, "at {i}");
    }
    Ok(())
}

#[test]
fn a_gemm_of_dequantised_numbers_sums_integers() -> Result<()> {
    let (m, k, n) = (5, 300, 12);
    let (a, b) = (integers(m * k, Int8, 1), integers(n * k, Int8, 2));
    let scales: Vec<f32> = (0..n).map(|i| 0.002 * (i + 1) as f32).collect();
    let model = ["a", "s", "b", "t", "c"].iter().fold(Model::new(13), |m, n| m.any_input(n));
    let model = model
        .node("x = DequantizeLinear(a, s)")
        .node_with("w = DequantizeLinear(b, t)", vec![("axis", Attr::Int(0))])
        .node_with("y = Gemm(x, w, c)", vec![("transB", Attr::Int(1)), ("beta", Attr::Float(0.5))])
        .output("y");
    let feeds = [
        ("a", tensor(&a, &[m, k], Int8)),
        ("s", Tensor::full((), 0.25f32)),
        ("b", tensor(&b, &[n, k], Int8)),
        ("t", Tensor::from_slice(&scales)),
        ("c", Tensor::full([n], 3.0f32)),
    ];
    let got = model.floats(&feeds)?;
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let sum: i64 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
        assert_eq!(got[i * n + j], sum as f32 * (0.25f32 * scales[j]) + 1.5, "at {i}, {j}");
    }
    Ok(())
}

/// Values of few bits in bytes, the first lowest, each row in bytes of its own.
fn packed(values: &[i64], row: usize, bits: usize) -> Vec<u8> {
    let byte = |part: &[i64]| part.iter().rev().fold(0, |byte, v| byte << bits | v) as u8;
    values.chunks(row).flat_map(|row| row.chunks(8 / bits).map(byte)).collect()
}

#[test]
fn products_of_few_bits_at_level_4_sum_integers() -> Result<()> {
    let n = 5;
    for (bits, block, k) in [
        (2, 16, 96usize),
        (2, 256, 300),
        (4, 16, 40),
        (4, 32, 224),
        (4, 128, 384),
        (4, 256, 500),
        (8, 16, 33),
        (8, 32, 128),
        (8, 256, 256),
    ] {
        for has_zeros in [false, true] {
            let blocks = k.div_ceil(block);
            let top = 1i64 << bits;
            let codes: Vec<i64> = integers(n * blocks * block, Uint8, 1).iter().map(|v| v % top).collect();
            let zeros: Vec<i64> = match has_zeros {
                true => integers(n * blocks, Uint8, 2).iter().map(|v| v % top).collect(),
                false => vec![top / 2; n * blocks],
            };
            let scales: Vec<f32> = (0..n * blocks).map(|i| [1.0, 0.5, 2.0, 0.25][i % 4]).collect();
            let bytes = scales.iter().flat_map(|s| s.to_le_bytes()).collect::<Vec<_>>();
            let sizes = |v: &[usize]| v.iter().map(|d| *d as i64).collect::<Vec<_>>();
            let rows = sizes(&[n, blocks, block * bits / 8]);
            let of_zeros = sizes(&[n, (blocks * bits).div_ceil(8)]);
            let attributes =
                [("K", k), ("N", n), ("bits", bits), ("block_size", block), ("accuracy_level", 4)];
            let line = "y = com.microsoft.MatMulNBits(a, b, s, z, _, c)";
            let line = if has_zeros { line.to_string() } else { line.replace('z', "_") };
            let session = Model::new(17)
                .import("com.microsoft", 1)
                .input("a", Float, &["1", "tokens", &k.to_string()])
                .any_input("c")
                .initializer(stored("b", Uint8, &rows, &packed(&codes, block, bits)))
                .initializer(stored("s", Float, &sizes(&[n, blocks]), &bytes))
                .initializer(stored("z", Uint8, &of_zeros, &packed(&zeros, blocks, bits)))
                .node_with(&line, attributes.map(|(name, v)| (name, Attr::Int(v as i64))).into())
                .output("y")
                .load()?;
            for m in [1, 6, 3, 9] {
                // vectors that are bytes already, with an end of them in every block: rounding leaves them as they are
                let mut a: Vec<i64> =
                    integers(m * k, Int8, 3 + m as u64).iter().map(|v| *v.max(&-127)).collect();
                (0..m * k).filter(|i| (i % k).is_multiple_of(block)).for_each(|i| a[i] = 127);
                let feeds = [
                    ("a", Tensor::from_slice(&a).float().reshape([1, m, k])),
                    ("c", Tensor::full([n], 3.0f32)),
                ];
                let got = session.run(feeds.map(|(n, t)| (n, Value::from(t))))?;
                let got = got[0].tensor()?.to_vec::<f32>()?;
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let of_block = |b: usize| -> f64 {
                        let at = j * blocks + b;
                        let columns = b * block..((b + 1) * block).min(k);
                        let product = |l: usize| a[i * k + l] * (codes[j * blocks * block + l] - zeros[at]);
                        columns.map(product).sum::<i64>() as f64 * scales[at] as f64
                    };
                    let want: f64 = (0..blocks).map(of_block).sum();
                    // every number on the way is one that float32 has
                    let what = format!("{bits} bits in {block}, {m} x {k} at {i}, {j}");
                    assert_eq!(got[i * n + j] as f64, want + 3.0, "{what}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn products_of_few_bits_of_other_levels_and_broken_ones() -> Result<()> {
    let (k, n) = (32, 2);
    let run =
        |attributes: &[(&'static str, i64)], bytes: usize, groups: Option<&[i64]>| -> Result<Vec<f32>> {
            let names = ["a", "b", "s", "z", "g"];
            let model = names.iter().fold(Model::new(17).import("com.microsoft", 1), |m, n| m.any_input(n));
            let line = "y = com.microsoft.MatMulNBits(a, b, s, z, g)";
            let line = if groups.is_some() { line.to_string() } else { line.replace(", g)", ")") };
            let attributes = attributes.iter().map(|(name, v)| (*name, Attr::Int(*v))).collect();
            let model = model.node_with(&line, attributes).output("y");
            let columns: Vec<f32> = (0..k).map(|i| i as f32 + 0.001).collect();
            model.floats(&[
                ("a", Tensor::from_slice(&columns).reshape([1, k])),
                ("b", Tensor::full_dtype([n, 2, bytes], 0x93, DType::U8)),
                ("s", Tensor::from_slice(&[1f32, 2.0, 4.0, 8.0])),
                ("z", Tensor::from_slice(&[0x53u8, 0x39])),
                ("g", Tensor::from_slice(groups.unwrap_or(&[0])).int()),
            ])
        };
    let sizes = [("K", k as i64), ("N", n as i64), ("bits", 4), ("block_size", 16)];
    let at = |level: i64| [&sizes[..], &[("accuracy_level", level)]].concat();
    // codes 3 and 9 in turn; zeros 3, 5 and 9, 3
    let want = |zero: [[f64; 2]; 2], of: &dyn Fn(usize) -> usize| -> Vec<f64> {
        let scale = [[1.0, 2.0], [4.0, 8.0]];
        let column = |l: usize| (l as f32 + 0.001) as f64;
        let value = |j: usize, l: usize| ([3.0, 9.0][l % 2] - zero[j][of(l)]) * scale[j][of(l)];
        (0..n).map(|j| (0..k).map(|l| column(l) * value(j, l)).sum()).collect()
    };
    let zeros = [[3.0, 5.0], [9.0, 3.0]];
    let close = |got: &[f32], want: &[f64], by: f64| {
        assert_eq!(got.len(), want.len());
        let off = got.iter().zip(want).map(|(g, w)| ((*g as f64 - w) / w).abs()).fold(0.0, f64::max);
        assert!(off < by, "{got:?} for {want:?}");
        off
    };
    let plain = want(zeros, &|l| l / 16);
    for level in [0, 1] {
        close(&run(&at(level), 8, None)?, &plain, 1e-6);
    }
    // rounded to bytes: close, and not the same
    assert!(close(&run(&at(4), 8, None)?, &plain, 1e-2) > 1e-5);
    let groups: Vec<i64> = (0..k as i64).map(|l| l / 5 % 2).collect();
    for level in [0, 4] {
        close(&run(&at(level), 8, Some(&groups))?, &want(zeros, &|l| l / 5 % 2), 1e-6);
    }
    for broken in [
        run(&at(4), 7, None),
        run(&at(4), 0, None),
        run(&at(0), 9, None),
        run(&at(4), 8, Some(&[7; 32])),
        run(&at(4), 8, Some(&[0; 3])),
        run(&[("K", 32), ("N", 2), ("bits", 3), ("block_size", 16)], 8, None),
        run(&[("K", 32), ("N", 2), ("bits", 2), ("block_size", 3)], 8, None),
        run(&[("K", 1 << 62), ("N", 1 << 62), ("accuracy_level", 4)], 8, None),
    ] {
        let why = broken.expect_err("this has no product").to_string();
        assert!(why.contains("MatMulNBits") || why.contains("index in the data is out of range"), "{why}");
    }
    Ok(())
}
