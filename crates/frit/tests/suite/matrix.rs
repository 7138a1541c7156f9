//! Products of small types, which matrix units compute where there are any: the same on every device, at odd and thin
//! sizes, fused with what comes before and after, with random opts, at the edges of memory.

use crate::support::{Random, array, child, gpu, is_child, on};
use frit::engine::with_random_opts;
use frit::nn::gguf::{Bytes, Kind};
use frit::{DType, Tensor, Variable, Window};

/// Whole numbers from -4 to 4: sums of products are exact in every order.
fn whole(dims: [usize; 2], seed: usize, dtype: DType) -> Tensor {
    let v: Vec<f32> = (0..dims[0] * dims[1]).map(|i| ((i * 7 + i / 3 + seed) % 9) as f32 - 4.0).collect();
    let least = if dtype.is_unsigned() { 4.0 } else { 0.0 };
    (Tensor::from_vec(v, dims) + least).cast(dtype).realize().unwrap_or_else(|e| panic!("{e}"))
}

/// What a program gives for these types and sizes.
fn products(types: [DType; 2], [m, n, k]: [usize; 3]) -> Vec<Vec<f64>> {
    let (a, b) = (whole([m, k], 1, types[0]), whole([k, n], 2, types[1]));
    let (at, bt) = (whole([k, m], 1, types[0]), whole([n, k], 2, types[1]));
    let bias = whole([1, n], 5, types[1]);
    let all = [a.matmul(&b), a.matmul(&bt.t()), at.t().matmul(&b), (a.matmul(&b) + &bias).relu()];
    all.iter().map(|x| array(&x.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data).collect()
}

/// A machine that has no matrix unit.
const PLAIN: &str = "CPU:SSE2";
const TYPES: [[DType; 2]; 4] = [[DType::BF16; 2], [DType::I8; 2], [DType::U8, DType::I8], [DType::U8; 2]];
const SIZES: [[usize; 3]; 4] = [[32, 32, 64], [33, 47, 65], [8, 70, 40], [70, 9, 33]];

#[test]
fn every_device_gives_the_same_at_every_size() {
    for types in TYPES {
        for size in SIZES {
            let expected = on(PLAIN, || products(types, size));
            for device in ["CPU", "CPU:AVX512", "CPU:AVX2"] {
                if frit::engine::devices::canonical(device).is_ok() {
                    assert_eq!(
                        on(device, || products(types, size)),
                        expected,
                        "{types:?} {size:?} on {device}"
                    );
                }
            }
        }
        let small = [17, 20, 33];
        let expected = on(PLAIN, || products(types, small));
        for device in ["INTERP", "INTERP:GPU", gpu()] {
            assert_eq!(on(device, || products(types, small)), expected, "{types:?} on {device}");
        }
    }
}

/// A convolution and its gradients.
fn windows(dtype: DType, window: Window) -> Vec<Vec<f64>> {
    let of = |dims: [usize; 4], seed| {
        whole([dims[0] * dims[1], dims[2] * dims[3]], seed, dtype).reshape(dims).requires_grad(true)
    };
    let (x, w) = (of([2, 8, 9, 9], 1), of([16, 8, 3, 3], 2));
    let y = x.conv2d(&w, None, window);
    let weight = whole([1, y.shape()[3].get()], 3, dtype);
    (y.cast(DType::F32) * weight.cast(DType::F32)).sum(..).backward().unwrap_or_else(|e| panic!("{e}"));
    let all = [Some(y), x.grad(), w.grad()];
    let values = |t: Tensor| array(&t.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data;
    all.into_iter().flatten().map(values).collect()
}

#[test]
fn convolutions_are_products_on_every_device() {
    for (dtype, window) in [
        (DType::BF16, Window::new().padding(1)),
        (DType::BF16, Window::new().stride(2)),
        (DType::F16, Window::new()),
    ] {
        let expected = on(PLAIN, || windows(dtype, window.clone()));
        assert_eq!(expected.len(), 3);
        for device in ["CPU", "INTERP:GPU", gpu()] {
            assert_eq!(on(device, || windows(dtype, window.clone())), expected, "{dtype:?} on {device}");
        }
    }
}

/// Attention, plain and causal, with a bias, with keys that heads share.
fn attention() -> Vec<Vec<f64>> {
    let of = |rows: usize, width: usize, seed| {
        whole([6 * rows, width], seed, DType::BF16).reshape([2, 3, rows, width])
    };
    let (q, k, v) = (of(32, 16, 1), of(32, 16, 2), of(32, 24, 3));
    let bias = whole([32, 32], 5, DType::BF16);
    let shared = |x: &Tensor| x.narrow(1, 1, 1).expand([2, 3, 32, x.shape()[3].get()]);
    let all = [
        q.scaled_dot_product_attention(&k, &v, None, false),
        q.scaled_dot_product_attention(&k, &v, None, true),
        q.scaled_dot_product_attention(&k, &v, Some(&bias), false),
        q.scaled_dot_product_attention(&shared(&k), &shared(&v), None, false),
    ];
    all.iter().map(|x| array(&x.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data).collect()
}

#[test]
fn attention_on_a_unit_is_attention() {
    let expected = on(PLAIN, attention);
    let got = on(gpu(), attention);
    for (got, expected) in got.iter().zip(&expected) {
        // weights of eight bits, rounded before they are divided or after; values up to 4
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 4.0 / 64.0;
        assert!(got.len() == expected.len() && got.iter().zip(expected).all(close), "{got:?} {expected:?}");
    }
}

/// Attention over as many keys as a variable says, of those that there is memory for, with a mask from data.
fn attention_over(blocks: i64) -> Vec<f64> {
    let (q, k, v) = (
        whole([128, 16], 1, DType::BF16),
        whole([128, 16], 2, DType::BF16),
        whole([128, 24], 3, DType::BF16),
    );
    let places =
        Tensor::from_vec((0..64).map(|i| i + 32 * (blocks as i32 - 1)).collect::<Vec<i32>>(), [1, 64, 1]);
    let count =
        Variable::new("blocks", 1, 4).and_then(|v| v.bind(blocks)).unwrap_or_else(|e| panic!("{e}")) * 32;
    let keys = |x: &Tensor| x.at(..count.clone()).unsqueeze(0);
    let seen = Tensor::arange(&count).reshape([1, 1, -1]).le(places.realize().unwrap());
    let scores = q.reshape([2, 64, 16]).float().matmul(&keys(&k).float().transpose(1, 2)) * 0.25;
    let weights = seen.where_(scores, f64::NEG_INFINITY).softmax(-1).cast(DType::BF16);
    let y = weights.float().matmul(&keys(&v).float());
    array(&y.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data
}

#[test]
fn attention_on_a_unit_walks_along_any_number_of_keys() {
    for blocks in [1, 3, 4, 2] {
        let (expected, got) = (on(PLAIN, || attention_over(blocks)), on(gpu(), || attention_over(blocks)));
        let worst = got.iter().zip(&expected).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(got.len() == expected.len() && worst <= 4.0 / 64.0, "{blocks}: {worst}");
    }
}

/// Attention and its gradients: of queries, of keys that groups of heads share, of values; plain, causal, with a bias.
fn gradients() -> Vec<Vec<f64>> {
    let of = |heads: usize, rows: usize, width: usize, seed| {
        let x = whole([heads * rows, width], seed, DType::BF16).reshape([1, heads, rows, width]) * 0.25;
        x.realize().unwrap_or_else(|e| panic!("{e}")).requires_grad(true)
    };
    let bias = whole([64, 128], 5, DType::BF16);
    let mut all = vec![];
    for (mask, causal, heads) in [(None, false, 2), (None, true, 2), (Some(&bias), false, 1)] {
        let (q, k, v) = (of(2, 64, 16, 1), of(heads, 128, 16, 2), of(heads, 128, 24, 3));
        let y = q.scaled_dot_product_attention(&k, &v, mask, causal);
        let weight = whole([64, 24], 7, DType::F32);
        (y.cast(DType::F32) * weight).sum(..).backward().unwrap_or_else(|e| panic!("{e}"));
        all.extend([Some(y), q.grad(), k.grad(), v.grad()]);
    }
    let values = |t: Tensor| array(&t.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data;
    all.into_iter().flatten().map(values).collect()
}

#[test]
fn gradients_of_attention_on_a_unit_are_those_of_attention() {
    let expected = on(PLAIN, gradients);
    assert_eq!(expected.len(), 12);
    // with other seeds than these loops are inside one another, which the stand-in takes minutes for
    for seed in [None, Some(1)] {
        let got = match seed {
            Some(seed) => with_random_opts(seed, || on(gpu(), gradients)),
            None => on(gpu(), gradients),
        };
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            // factors of eight bits, rounded in another order
            let most = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            let worst = got.iter().zip(expected).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
            assert!(
                got.len() == expected.len() && worst <= most / 64.0,
                "{i}, seed {seed:?}: {worst} of {most}"
            );
        }
    }
}

/// Gradients of attention of many queries, whose weights are stored or computed again in blocks.
fn gradients_of_many(causal: bool, is_stored: bool) -> Vec<Vec<f64>> {
    let of = |seed| (whole([2 * 80, 4], seed, DType::F32).reshape([2, 80, 4]) * 0.25).realize().unwrap();
    let [q, k, v] = [1, 2, 3].map(|seed| of(seed).requires_grad(true));
    let scores = q.matmul(&k.t()) * 0.5;
    let scores = if causal {
        Tensor::ones([80, 80]).tril(0).cast(DType::Bool).where_(scores, f64::NEG_INFINITY)
    } else {
        scores
    };
    let weights = scores.softmax(-1);
    let weights = if is_stored { weights.contiguous() } else { weights };
    let y = weights.matmul(&v);
    let all = (&y * whole([80, 4], 7, DType::F32)).sum(..).gradient(&[&q, &k, &v]).unwrap();
    all.iter().map(|t| array(&t.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data).collect()
}

#[test]
fn gradients_of_attention_in_blocks_are_those_with_stored_weights() {
    for causal in [false, true] {
        let expected = on("CPU", || gradients_of_many(causal, true));
        for device in ["CPU", "INTERP"] {
            let got = on(device, || gradients_of_many(causal, false));
            for (got, expected) in got.iter().zip(&expected) {
                let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
                assert!(
                    got.len() == expected.len() && got.iter().zip(expected).all(close),
                    "{device}, {causal}"
                );
            }
        }
    }
}

#[test]
fn weights_in_blocks_are_multiplied_on_every_device() {
    use frit::nn::gguf::Kind;
    for (kind, [rows, columns]) in [
        (Kind::Q4_K, [12, 1024]),
        (Kind::Q6_K, [8, 1024]),
        (Kind::Q4_1, [8, 512]),
        (Kind::Q8_0, [6, 256]),
        (Kind::Q5_K, [4, 768]),
    ] {
        let bytes = columns / kind.block_len() * kind.block_bytes();
        // scales of float16 among them are numbers
        let raw: Vec<u8> = (0..rows * bytes).map(|i| (i * 11 % 60) as u8).collect();
        let product = || {
            let w = kind.dequantize(&Tensor::from_vec(raw.clone(), [rows, bytes]).realize().unwrap());
            let x = whole([columns, 1], 3, DType::F32);
            let [y, largest] = [w.matmul(&x), w.abs().matmul(&x.abs())];
            [y, largest].map(|t| array(&t.cast(DType::F64)).unwrap_or_else(|e| panic!("{e}")).data)
        };
        let [expected, size] = on(PLAIN, product);
        for device in ["CPU", gpu()] {
            let [got, _] = on(device, product);
            let close = |(i, x): (usize, &f64)| (x - expected[i]).abs() <= 1e-5 * size[i];
            assert!(got.iter().enumerate().all(close), "{kind} on {device}: {got:?} {expected:?}");
        }
    }
}

#[test]
fn random_opts_change_nothing() {
    for types in TYPES {
        let size = [32, 48, 64];
        let expected = on(PLAIN, || products(types, size));
        for seed in 0..6 {
            let got = with_random_opts(seed, || on("CPU", || products(types, size)));
            assert_eq!(got, expected, "{types:?}, seed {seed}");
        }
    }
}

#[test]
fn no_tile_reaches_outside_its_buffer() {
    if is_child() {
        for types in TYPES {
            for size in SIZES {
                on("CPU", || products(types, size));
            }
            with_random_opts(3, || on("CPU", || products(types, [32, 48, 64])));
        }
        return;
    }
    for side in ["start", "end"] {
        child("matrix::no_tile_reaches_outside_its_buffer", &[("FRIT_GUARD", side)]);
    }
}

#[test]
fn a_machine_may_be_told_to_keep_subnormals() {
    let of = |v: f32, dims: [usize; 2]| Tensor::from_vec(vec![v; 16 * 32], dims).cast(DType::BF16);
    let tiny = || of(f32::from_bits(0x0040_0000), [16, 32]);
    let huge = || of(2f32.powi(125), [32, 16]);
    let all = || on("CPU", || array(&tiny().realize()?.matmul(&huge().realize()?).cast(DType::F64)));
    if is_child() {
        let got = all().unwrap_or_else(|e| panic!("{e}")).data;
        assert!(got.iter().all(|x| *x == 8.0), "{got:?}");
        return;
    }
    for setting in [("FRIT_MATRIX", "exact"), ("FRIT_MATRIX", "off"), ("FRIT_ISA", "avx512")] {
        child("matrix::a_machine_may_be_told_to_keep_subnormals", &[setting]);
    }
}

/// Rows of blocks of weights, and a vector for each of a few tokens.
fn weights_in_blocks(kind: Kind, halves: &[usize], [rows, count]: [usize; 2]) -> (Tensor, Tensor) {
    let mut random = Random::new(kind.number() as u64);
    let mut raw: Vec<u8> = (0..rows * count * kind.block_bytes()).map(|_| random.bits() as u8).collect();
    for block in raw.chunks_mut(kind.block_bytes()) {
        // float16 of 0.03 to 0.1
        halves.iter().for_each(|at| block[at + 1] = 0x28 + (block[at + 1] & 3));
    }
    let x: Vec<f32> = (0..2 * count * kind.block_len()).map(|_| random.below(256) as f32 - 128.0).collect();
    let bytes = Tensor::from_vec(raw, [rows, count * kind.block_bytes()]);
    (bytes, Tensor::from_slice(&x).reshape([2, count * kind.block_len()]))
}

#[test]
fn weights_of_few_bits_are_multiplied_in_whole_numbers_on_a_gpu() {
    let product = |device: &str, kind: Kind, halves: &[usize], size: [usize; 2]| {
        let (bytes, x) = weights_in_blocks(kind, halves, size);
        let words = kind.words(&bytes.to(device)).unwrap();
        array(&words.product(&x.to(device), Bytes::One)).unwrap_or_else(|e| panic!("{e}")).data
    };
    let kinds: [(Kind, &[usize]); 4] =
        [(Kind::Q4_K, &[0, 2]), (Kind::Q6_K, &[208]), (Kind::Q8_0, &[0]), (Kind::Q4_1, &[0, 2])];
    for (kind, halves) in kinds {
        for size in [[5, 3], [64, 16]] {
            let expected = product("CPU", kind, halves, size);
            let most = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            for (got, want) in product(gpu(), kind, halves, size).iter().zip(&expected) {
                assert!((got - want).abs() <= 1e-5 * most, "{kind} {size:?}: {got} for {want}");
            }
        }
    }
}
