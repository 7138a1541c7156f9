//! Products with quantised weights in whole numbers, against float64 of what the weights and the rounded vectors stand for.

use frit_nn::gguf::{Bytes, Kind};
use frit_tensor::Tensor;

/// Types that have such products, where their float16 are, and how many elements share the scale of a rounded vector.
const KINDS: [(Kind, &[usize], usize); 5] = [
    (Kind::Q4_0, &[0], 32),
    (Kind::Q4_1, &[0, 2], 32),
    (Kind::Q8_0, &[0], 32),
    (Kind::Q4_K, &[0, 2], 32),
    (Kind::Q6_K, &[208], 16),
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}

/// Rows of blocks of random bytes, then a row of the largest and one of the smallest.
fn blocks(kind: Kind, halves: &[usize], rows: usize, count: usize) -> Vec<u8> {
    let mut random = Random(kind.number() as u64);
    let mut raw: Vec<u8> = vec![];
    for block in 0..rows * count {
        let row = block / count;
        let byte = |random: &mut Random| match rows - row {
            1 => 0x80,
            2 => 0xff,
            _ => random.next() as u8,
        };
        let mut bytes: Vec<u8> = (0..kind.block_bytes()).map(|_| byte(&mut random)).collect();
        for at in halves {
            // float16 of 0.03 to 0.1, some of them negative
            let sign = if random.next().is_multiple_of(4) { 0x8000 } else { 0 };
            let half = (0x2800 + (random.next() % 0x600) as u16) | sign;
            bytes[*at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        raw.extend(bytes);
    }
    raw
}

/// A vector as it is rounded: whole numbers, each with its scale.
fn rounded(x: &[f32], part: usize, bytes: Bytes) -> Vec<f64> {
    let each = |part: &[f32]| {
        let most = part.iter().fold(0f32, |m, v| m.max(v.abs()));
        let d = most / if bytes == Bytes::One { 127.0 } else { 32639.0 };
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        part.iter().map(|v| (v * inverse).round_ties_even() as f64 * d as f64).collect::<Vec<f64>>()
    };
    x.chunks(part).flat_map(each).collect()
}

#[test]
fn whole_numbers_give_what_the_rounded_vectors_do() {
    // few vectors, and so many that rows lie side by side
    for (rows, tokens, counts) in [(7, 3, &[1, 3, 4][..]), (40, 21, &[3])] {
        agree(rows, tokens, counts, Bytes::One);
    }
    for (rows, tokens) in [(7, 3), (40, 21)] {
        agree(rows, tokens, &[3], Bytes::Two);
    }
    let bytes = Tensor::from_vec(vec![0u8; 2 * 18], [2, 18]);
    assert!(Kind::IQ4_NL.words(&bytes).is_none() && Kind::Q4_1.words(&bytes).is_none());
}

fn agree(rows: usize, tokens: usize, counts: &[usize], bytes: Bytes) {
    for device in ["INTERP", "INTERP:GPU", "CPU:SSE2", "CPU:AVX2", "CPU:AVX512", "CPU:C", "CPU", "CUDA"] {
        for (kind, halves, part) in KINDS {
            for &count in counts {
                let raw = blocks(kind, halves, rows, count);
                let inputs = count * kind.block_len();
                let mut random = Random(9);
                let value = |i: usize| match i / inputs {
                    // what is rounded to the ends of a byte everywhere, and a part of zeros
                    0 if i < part => 0.0,
                    0 => 1.0 - 2.0 * (i % 2) as f32,
                    _ => random.next() as f32 / (1 << 30) as f32 - 1.0,
                };
                let x: Vec<f32> = (0..tokens * inputs).map(value).collect();
                let blocks = Tensor::from_vec(raw.clone(), [rows, count * kind.block_bytes()]);
                // machines that are not here are left out
                let blocks = blocks.to(device);
                if blocks.check().is_err() {
                    continue;
                }
                let weights = kind.dequantize(&blocks).to_vec::<f32>().unwrap();
                let words = kind.words(&blocks).unwrap();
                let given = Tensor::from_slice(&x).reshape([tokens, inputs]).to(device);
                let y = words.product(&given, bytes).to_vec::<f32>().unwrap();
                let y_rows = words.rows(2, 3).product(&given, bytes).to_vec::<f32>().unwrap();
                for t in 0..tokens {
                    let p = rounded(&x[t * inputs..][..inputs], part, bytes);
                    for r in 0..rows {
                        let w = &weights[r * inputs..][..inputs];
                        let products = w.iter().zip(&p).map(|(w, p)| *w as f64 * p);
                        let (sum, bound) = products.fold((0.0, 1e-6), |(s, b), v| (s + v, b + v.abs()));
                        let got = y[t * rows + r] as f64;
                        let close = (got - sum).abs() <= 2e-6 * bound;
                        assert!(
                            close,
                            "{kind} x {count} on {device} in {bytes:?}: {got} for {sum}, of {bound}"
                        );
                        if (2..5).contains(&r) {
                            let same = y_rows[t * 3 + r - 2] as f64;
                            assert!((same - sum).abs() <= 2e-6 * bound, "{kind} rows: {same} for {sum}");
                        }
                    }
                }
            }
        }
    }
}
