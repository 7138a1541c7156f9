//! A length that is known only when it is bound: one schedule and one set of kernels for all its values.

use crate::support::{DEVICES, Random, array, on, tensor};
use frit::engine::stats::stats;
use frit::{DType, Dim, Tensor, Variable};
use frit_reference::Array;

const LONGEST: usize = 128;
const WIDTH: usize = 8;
const WORDS: usize = 20;

struct Weights {
    table: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
}

fn weights() -> Weights {
    let mut random = Random::new(1);
    let mut make = |shape: &[usize]| Array::from_fn(shape, |_| random.fraction());
    let square = [WIDTH, WIDTH];
    Weights {
        table: make(&[WORDS, WIDTH]),
        q: make(&square),
        k: make(&square),
        v: make(&square),
        out: make(&[WIDTH, 5]),
    }
}

/// Embedding, causal attention, matmul.
fn model(w: &Weights, tokens: &Tensor, length: &Dim) -> Tensor {
    let t = |a: &Array| tensor(a, DType::F32);
    let seen = tokens.narrow(0, 0, length);
    let x = t(&w.table).embedding(&seen);
    let (q, k, v) = (x.matmul(&t(&w.q)), x.matmul(&t(&w.k)), x.matmul(&t(&w.v)));
    q.scaled_dot_product_attention(&k, &v, None, true).matmul(&t(&w.out))
}

/// The same by plain loops.
fn expected(w: &Weights, tokens: &Array, length: usize) -> Array {
    let x = w.table.embedding(&tokens.shrink(&[(0, length)]));
    let (q, k, v) = (x.matmul(&w.q), x.matmul(&w.k), x.matmul(&w.v));
    let mask = Array::from_fn(&[length, length], |i| if i[1] <= i[0] { 0.0 } else { f64::NEG_INFINITY });
    let scores = q.matmul(&k.permute(&[1, 0])).map(|s| s / (WIDTH as f64).sqrt()).add(&mask);
    scores.softmax(1).matmul(&v).matmul(&w.out)
}

#[test]
fn attention_of_a_symbolic_length_has_one_schedule() {
    let w = weights();
    let tokens = Array::from_fn(&[LONGEST], |i| ((i[0] * 7 + 3) % WORDS) as f64);
    for device in DEVICES {
        on(device, || {
            let variable = Variable::new("T", 1, LONGEST as i64).unwrap();
            let memory = tensor(&tokens, DType::I32);
            let mut first = None;
            for length in [5, 1, 77, 128, 31] {
                let dim = variable.bind(length as i64).unwrap();
                let before = stats();
                let got = array(&model(&w, &memory, &dim)).unwrap();
                let did = stats() - before;
                let want = expected(&w, &tokens, length);
                assert_eq!(got.shape, want.shape, "{device} T={length}");
                for (i, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
                    assert!(
                        (g - w).abs() <= 2e-5 * w.abs().max(1.0),
                        "{device} T={length}: element {i} is {g}, not {w}"
                    );
                }
                match first {
                    None => {
                        assert_eq!(did.schedules, 1, "{device}: {did:?}");
                        first = Some(did.launches);
                    }
                    Some(launches) => {
                        assert_eq!((did.schedules, did.compiles), (0, 0), "{device} T={length}: {did:?}");
                        assert_eq!(did.launches, launches, "{device} T={length}");
                    }
                }
            }
        });
    }
}

#[test]
fn work_follows_the_value_and_memory_the_maximum() {
    let w = weights();
    let tokens = Array::from_fn(&[LONGEST], |i| (i[0] % WORDS) as f64);
    on("NULL", || {
        let variable = Variable::new("T", 1, LONGEST as i64).unwrap();
        let memory = tensor(&tokens, DType::I32);
        let flops = |length: i64| {
            let before = stats();
            model(&w, &memory, &variable.bind(length).unwrap()).realize().unwrap();
            (stats() - before).flops
        };
        let (small, large) = (flops(2), flops(128));
        assert!(large > 20 * small, "{small} operations for 2, {large} for 128");
        let arena = |length| {
            let node = model(&w, &memory, &variable.bind(length).unwrap()).uop().unwrap();
            frit::engine::measure::schedule(&[node]).unwrap().arena_bytes
        };
        assert_eq!(arena(2), arena(128), "planned by the maximum");
        assert!(arena(2) >= LONGEST * WIDTH * 4);
    });
}

#[test]
fn reductions_scans_and_concatenation_of_a_symbolic_length() {
    let data = Array::from_fn(&[10, 3], |i| (i[0] * 3 + i[1]) as f64 - 9.0);
    for device in DEVICES {
        on(device, || {
            let variable = Variable::new("N", 1, 10).unwrap();
            let memory = tensor(&data, DType::F32);
            for n in [4usize, 1, 10, 7] {
                let x = memory.narrow(0, 0, variable.bind(n as i64).unwrap());
                let plain = data.shrink(&[(0, n), (0, 3)]);
                let checks = [
                    ("sum", x.sum(0), plain.sum(&[0], false)),
                    ("mean", x.mean(0), plain.mean(&[0], false)),
                    ("max", x.max(..), plain.max(&[], false)),
                    ("cumsum", x.cumsum(0), plain.cumsum(0)),
                    ("softmax", x.softmax(0), plain.softmax(0)),
                    ("flip", x.flip(0) * 2.0, plain.flip(&[0]).map(|v| v * 2.0)),
                    ("transpose", x.t() + 1.0, plain.permute(&[1, 0]).map(|v| v + 1.0)),
                    ("flatten", x.reshape(-1) + 0.0, plain.reshape(&[-1])),
                    ("outer", x.matmul(&x.t()), plain.matmul(&plain.permute(&[1, 0]))),
                    ("argmax", x.argmax(0), plain.argmax(Some(0), false)),
                ];
                for (what, got, want) in checks {
                    let got = array(&got).unwrap_or_else(|e| panic!("{device} {what} N={n}: {e}"));
                    assert_eq!(got.shape, want.shape, "{device} {what} N={n}");
                    let near = got
                        .data
                        .iter()
                        .zip(&want.data)
                        .all(|(g, w)| (g - w).abs() <= 1e-4 * w.abs().max(1.0));
                    assert!(near, "{device} {what} N={n}: {:?}, not {:?}", got.data, want.data);
                }
            }
        });
    }
}
