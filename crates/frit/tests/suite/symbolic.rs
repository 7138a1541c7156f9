//! A length that is known only when it is bound: one schedule and one set of kernels for all its values.

use crate::support::{DEVICES, Random, array, on, tensor};
use frit::engine::stats::stats;
use frit::engine::with_random_opts;
use frit::{DType, Dim, Jit, Result, Tensor, Variable, Window, step};
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

/// A function of memory of ten rows and a length, and the same by plain arrays.
type Case = (&'static str, fn(&Tensor, &Dim) -> Tensor, fn(&Array, usize) -> Array);

fn first(a: &Array, n: usize) -> Array {
    a.shrink(&[(0, n), (0, 3)])
}
fn rows(a: &Array, of: impl Iterator<Item = usize>) -> Array {
    let of: Vec<usize> = of.collect();
    Array::from_fn(&[of.len(), 3], |i| a.data[of[i[0]] * 3 + i[1]])
}

const CASES: [Case; 31] = [
    ("a part of a part", |x, n| (x.at(..n.clone()) + 0.0).at(..2), |a, n| first(a, n.min(2))),
    ("two from a place", |x, n| x.at(n.clone()..n + 2) + 0.0, |a, n| rows(a, n..(n + 2).min(10))),
    ("the rest", |x, n| x.at(n.clone()..) + 0.0, |a, n| rows(a, n..10)),
    ("backwards", |x, n| x.at(..n.clone()).at(step(.., -1)) + 0.0, |a, n| rows(a, (0..n).rev())),
    ("every third", |x, n| x.at(..n.clone()).at(step(.., 3)) + 0.0, |a, n| rows(a, (0..n).step_by(3))),
    (
        "cat",
        |x, n| Tensor::cat(&[x.at(n.clone()..), x.at(..n.clone()) * 2.0, Tensor::ones([1, 3])], 0),
        |a, n| {
            let row = |i: usize| if i < 10 - n { n + i } else { i + n - 10 };
            Array::from_fn(&[11, 3], |i| match i[0] {
                10 => 1.0,
                r => a.data[row(r) * 3 + i[1]] * if r < 10 - n { 1.0 } else { 2.0 },
            })
        },
    ),
    (
        "pad or cut to five",
        |x, n| x.at(..n.clone()).pad(&[(Dim::from(0), Dim::from(5) - n), (0.into(), 0.into())], 9),
        |a, n| Array::from_fn(&[5, 3], |i| if i[0] < n { a.data[i[0] * 3 + i[1]] } else { 9.0 }),
    ),
    ("roll by", |x, n| x.roll(n.clone(), 0), |a, n| rows(a, (0..10).map(|i| (i + 10 - n) % 10))),
    (
        "roll a part",
        |x, n| x.at(..n.clone()).roll(2, 0),
        |a, n| rows(a, (0..n).map(|i| (i + n * 2 - 2.min(n * 2)) % n)),
    ),
    (
        "triu by",
        |x, n| x.triu(Dim::from(1) - n),
        |a, n| Array::from_fn(&[10, 3], |i| if i[1] + n > i[0] { a.data[i[0] * 3 + i[1]] } else { 0.0 }),
    ),
    (
        "a square",
        |_, n| Tensor::tri(n, n, n - 3),
        |_, n| Array::from_fn(&[n, n], |i| if i[1] + 3 <= i[0] + n { 1.0 } else { 0.0 }),
    ),
    ("sum", |x, n| x.at(..n.clone()).sum(0), |a, n| first(a, n).sum(&[0], false)),
    ("cumsum", |x, n| x.at(..n.clone()).cumsum(0), |a, n| first(a, n).cumsum(0)),
    (
        "matmul over it",
        |x, n| x.at(..n.clone()).t().matmul(&x.at(..n.clone())),
        |a, n| {
            let p = first(a, n);
            p.permute(&[1, 0]).matmul(&p)
        },
    ),
    ("matmul of it", |x, n| x.at(..n.clone()).matmul(&x.t()), |a, n| first(a, n).matmul(&a.permute(&[1, 0]))),
    ("sort", |x, n| x.at(..n.clone()).sort(0, true).0, |a, n| rows(a, (0..n).rev())),
    (
        "flatten and split",
        |x, n| x.at(..n.clone()).reshape(-1).reshape((n, 3)).t() + 1.0,
        |a, n| first(a, n).permute(&[1, 0]).map(|v| v + 1.0),
    ),
    // at most one row, and none at all of ten
    ("one from a place", |x, n| x.at(n.clone()..n + 1) + 0.0, |a, n| rows(a, n..(n + 1).min(10))),
    ("one backwards", |x, n| x.at(n.clone()..n + 1).flip(0) + 0.0, |a, n| rows(a, n..(n + 1).min(10))),
    (
        "a column backwards",
        |x, n| {
            let column = x.at((.., step(n.clone()..Dim::from(1), -2))).flip(1);
            Tensor::cat(&[column.clone(), column * 2.0], 0)
        },
        |a, n| {
            let value = |i: usize| a.data[i % 10 * 3 + 2] * if i < 10 { 1.0 } else { 2.0 };
            Array::from_fn(&[20, (n > 1) as usize], |i| value(i[0]))
        },
    ),
    (
        "sum of one",
        |x, n| x.at(n + 1..n + 2).sum(0) + 1.0,
        |a, n| Array::from_fn(&[3], |i| if n < 9 { a.data[(n + 1) * 3 + i[0]] + 1.0 } else { 1.0 }),
    ),
    (
        "one repeated",
        |x, n| x.at(n + 1..n + 2).at((.., 0)).reshape((-1, 1)).repeat(&[1, 3]).reshape(-1) + 0.0,
        |a, n| Array::from_fn(&[if n < 9 { 3 } else { 0 }], |_| a.data[(n + 1) * 3]),
    ),
    (
        "sum of one repeated",
        |x, n| (x.sum(1).at(n + 1..n + 2).reshape((-1, 1)).repeat(&[1, 3]).reshape(-1) * 2.0).sum(0),
        |a, n| Array::scalar(if n < 9 { a.data[(n + 1) * 3..][..3].iter().sum::<f64>() * 6.0 } else { 0.0 }),
    ),
    ("cumsum of one", |x, n| x.at(n + 1..n + 2).cumsum(0), |a, n| rows(a, n + 1..(n + 2).min(10).max(n + 1))),
    (
        "matmul over one",
        |x, n| x.at(n + 1..n + 2).t().matmul(&x.at(n + 1..n + 2)),
        |a, n| {
            let row = |i: usize| if n < 9 { a.data[(n + 1) * 3 + i] } else { 0.0 };
            Array::from_fn(&[3, 3], |i| row(i[0]) * row(i[1]))
        },
    ),
    (
        "pieces between places",
        |x, n| {
            let all = x.at(..n.clone()).tensor_split(&[2, 5], 0);
            Tensor::cat(&[all[1].clone(), all[2].clone() * 2.0, all[0].clone()], 0)
        },
        |a, n| {
            let (first, last) = (n.min(2), n.min(5));
            let order: Vec<usize> = (first..n).chain(0..first).collect();
            let by = |i: usize| if (last..n).contains(&i) { 2.0 } else { 1.0 };
            Array::from_fn(&[n, 3], |i| a.data[order[i[0]] * 3 + i[1]] * by(order[i[0]]))
        },
    ),
    (
        "so many pieces",
        |x, n| x.at(..n.clone()).tensor_split_into(3, 0)[1].sum(0),
        |a, n| {
            let begin = n / 3 + 1.min(n % 3);
            rows(a, begin..2 * (n / 3) + 2.min(n % 3)).sum(&[0], false)
        },
    ),
    (
        "windows",
        |x, n| more(x, n).unfold(0, 3, 2) * 1.0,
        |a, n| Array::from_fn(&[n / 2 + 1, 3, 3], |i| plain_more(a, n)(2 * i[0] + i[2], i[1])),
    ),
    (
        "the greatest of windows",
        |x, n| more(x, n).t().unsqueeze(0).max_pool(&[3], Window::new().stride(1)),
        |a, n| {
            let row = plain_more(a, n);
            Array::from_fn(&[1, 3, n + 1], |i| (0..3).map(|k| row(i[2] + k, i[1])).fold(-99.0, f64::max))
        },
    ),
    ("convolution", convolution, plain_convolution),
    (
        "gradient of a convolution",
        |x, n| convolution(x, n).square().sum(..).gradient(&[x]).unwrap()[0].clone(),
        |a, n| {
            let y = plain_convolution(a, n);
            let places = y.shape[2];
            Array::from_fn(&[10, 3], |i| {
                // the windows that a row is in, at each place of theirs
                let of = |o: usize, k: usize| {
                    (n > i[0] && 2 * o + k == i[0] + 2).then(|| {
                        (0..2)
                            .map(|c| 2.0 * y.data[c * places + o] * a.data[c * 9 + i[1] * 3 + k])
                            .sum::<f64>()
                    })
                };
                (0..places).flat_map(|o| (0..3).filter_map(move |k| of(o, k))).sum()
            })
        },
    ),
];

/// So many rows, and the first three again.
fn more(x: &Tensor, n: &Dim) -> Tensor {
    Tensor::cat(&[x.at(..n.clone()), x.at(..3)], 0)
}
fn plain_more(a: &Array, n: usize) -> impl Fn(usize, usize) -> f64 + '_ {
    move |row, column| a.data[if row < n { row } else { row - n } * 3 + column]
}

/// Rows as the places of three channels, to two, with the first six rows for weights.
fn convolution(x: &Tensor, n: &Dim) -> Tensor {
    let weight = x.at(..6).reshape([2, 3, 3]).detach();
    x.at(..n.clone()).t().unsqueeze(0).conv1d(&weight, None, Window::new().stride(2).padding(2))
}
fn plain_convolution(a: &Array, n: usize) -> Array {
    let at =
        |place: usize, c: usize| if (2..n + 2).contains(&place) { a.data[(place - 2) * 3 + c] } else { 0.0 };
    let all = || (0..3).flat_map(|c| (0..3).map(move |k| (c, k)));
    Array::from_fn(&[1, 2, n.div_ceil(2) + 1], |i| {
        all().map(|(c, k)| at(2 * i[2] + k, c) * a.data[i[1] * 9 + c * 3 + k]).sum()
    })
}

fn must_be_near(got: &Tensor, want: &Array, what: &str) {
    let got = array(got).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(got.shape, want.shape, "{what}");
    let near = got.data.iter().zip(&want.data).all(|(g, w)| (g - w).abs() <= 1e-4 * w.abs().max(1.0));
    assert!(near, "{what}: {:?}, not {:?}", got.data, want.data);
}

/// Each case for many lengths, plainly and in a Jit; after two lengths nothing is compiled.
fn every_length_is_right(device: &str, counted: bool) {
    let data = Array::from_fn(&[10, 3], |i| (i[0] * 3 + i[1]) as f64 - 9.0);
    let length = Variable::new("N", 0, 10).unwrap();
    let memory = tensor(&data, DType::F32);
    for (what, function, want) in CASES {
        let now = std::sync::Arc::new(std::sync::Mutex::new(length.bind(0).unwrap()));
        let held = now.clone();
        let jit = Jit::new(move |x: Tensor| {
            let n = held.lock().unwrap().clone();
            Ok(function(&x, &n))
        });
        for (turn, n) in [4usize, 1, 7, 0, 10, 3].into_iter().enumerate() {
            let what = format!("{device} {what} N={n}");
            let dim = length.bind(n as i64).unwrap();
            *now.lock().unwrap() = dim.clone();
            let before = stats();
            must_be_near(&function(&memory, &dim), &want(&data, n), &what);
            let recorded = jit.call_with(memory.clone(), &[dim]).unwrap_or_else(|e| panic!("{what}: {e}"));
            must_be_near(&recorded, &want(&data, n), &format!("{what} in a Jit"));
            let did = stats() - before;
            assert!(!counted || turn < 2 || (did.schedules, did.compiles) == (0, 0), "{what}: {did:?}");
        }
        assert_eq!(jit.kernels().len(), 1, "{device} {what}");
    }
}

#[test]
fn parts_of_a_symbolic_length_are_right_for_every_value() {
    for device in DEVICES {
        on(device, || every_length_is_right(device, true));
    }
}

#[test]
fn parts_of_a_symbolic_length_are_right_with_random_opts() {
    for (seed, device) in DEVICES.into_iter().enumerate() {
        with_random_opts(seed as u64 + 3, || on(device, || every_length_is_right(device, false)));
    }
}

#[test]
fn what_needs_a_number_says_which_op_it_is() {
    let length = Variable::new("N", 0, 10).unwrap();
    let part = |n: i64| Tensor::ones([10, 1]).at(..length.bind(n).unwrap());
    let line = |n: i64| part(n).t().unsqueeze(0);
    let weight = Tensor::ones([1, 1, 3]);
    let refused = |t: Tensor| t.to_vec::<f32>().unwrap_err().to_string();
    for (op, e) in [
        ("split", refused(part(4).split(2, 0)[0].clone())),
        ("split", refused(part(4).split_sizes(&[2, 2], 0)[0].clone())),
        ("chunk", refused(part(4).chunk(2, 0)[0].clone())),
        ("conv_transpose1d", refused(line(4).conv_transpose1d(&weight, None, Window::new()))),
        ("max_pool", refused(line(4).max_pool(&[3], Window::new().ceil_mode(true)))),
    ] {
        assert!(e.starts_with(&format!("{op}: size N=4 must be a number here, not a variable")), "{op}: {e}");
    }
    // windows that do not fit what is there now
    assert!(refused(part(2).unfold(0, 3, 1)).starts_with("unfold: a window of 3 does not fit size N=2"));
    let e = refused(line(2).conv1d(&weight, None, Window::new()));
    assert!(e.starts_with("conv1d: a window of [3] (dilation [1]) does not fit"), "{e}");
    assert_eq!(part(3).unfold(0, 3, 1).to_vec::<f32>().unwrap(), [1.0; 3]);
}

#[test]
fn a_part_without_elements_is_not_written() {
    let data = Array::from_fn(&[10], |i| i[0] as f64);
    let length = Variable::new("N", 0, 12).unwrap();
    for device in DEVICES {
        on(device, || {
            for n in [0, 12, 9, 3, 10] {
                let (bound, rows) =
                    (length.bind(n as i64).unwrap(), |i: usize, at: bool| if at { 100.0 } else { i as f64 });
                let wrote = |from: &dyn Fn(&Tensor)| {
                    let memory = tensor(&data, DType::F32).contiguous().realize().unwrap();
                    from(&memory);
                    array(&memory).unwrap().data
                };
                let want = |f: &dyn Fn(usize) -> bool| (0..10).map(|i| rows(i, f(i))).collect::<Vec<_>>();
                let what = format!("{device} N={n}");
                let last = wrote(&|x| drop(x.set(Dim::from(9)..bound.clone(), 100.0)));
                assert_eq!(last, want(&|i| i == 9 && n > 9), "{what}");
                let one = wrote(&|x| drop(x.set(bound.clone()..&bound + 1, 100.0)));
                assert_eq!(one, want(&|i| i == n), "{what}");
                // the same place as many times as there are
                let places = Tensor::full_dtype(&bound, 3, DType::I32);
                let often = wrote(&|x| drop(x.set(places.clone(), 100.0)));
                assert_eq!(often, want(&|i| i == 3 && n > 0), "{what}");
            }
        });
    }
}

#[test]
fn fixed_numbers_of_places_need_no_data() {
    let x = Tensor::new([1.0, 0.0, 2.0, 0.0, 3.0]);
    assert_eq!(x.nonzero_sized(3, 0).to_vec::<i32>().unwrap(), [0, 2, 4]);
    assert_eq!(x.nonzero_sized(2, 0).to_vec::<i32>().unwrap(), [0, 2]);
    let table = Tensor::new([[0, 5], [7, 0]]);
    assert_eq!(table.nonzero_sized(3, -1).to_vec::<i32>().unwrap(), [0, 1, 1, 0, -1, -1]);
    let jit = Jit::new(|x: Tensor| Ok((x.masked_select_sized(&x.gt(1.5), 3, 9.0), x.nonzero_sized(4, -1))));
    for shift in [0.0, 1.0, -1.0, 5.0] {
        let (picked, places) = jit.call((&x + shift).realize().unwrap()).unwrap();
        let plain: Vec<f32> = [1.0, 0.0, 2.0, 0.0, 3.0].map(|v| v + shift as f32).to_vec();
        let mut want: Vec<f32> = plain.iter().copied().filter(|v| *v > 1.5).take(3).collect();
        want.resize(3, 9.0);
        assert_eq!(picked.to_vec::<f32>().unwrap(), want);
        let mut at: Vec<i32> = (0..5).filter(|i| plain[*i as usize] != 0.0).take(4).collect();
        at.resize(4, -1);
        assert_eq!(places.to_vec::<i32>().unwrap(), at);
    }
}

/// One step of attention with keys and values kept in a cache, at a place.
fn cached_step(w: &Weights, cache: &[Tensor; 2], x: &Tensor, at: &Dim) -> Result<Tensor> {
    let t = |a: &Array| tensor(a, DType::F32);
    let (q, k, v) = (x.matmul(&t(&w.q)), x.matmul(&t(&w.k)), x.matmul(&t(&w.v)));
    let end = at + &x.shape()[0];
    for (memory, new) in cache.iter().zip([k, v]) {
        memory.set(at.clone()..end.clone(), new);
    }
    let (keys, values) = (cache[0].at(..end.clone()), cache[1].at(..end.clone()));
    let later = Tensor::full((&x.shape()[0], &end), f64::NEG_INFINITY).triu(at + 1);
    let scores = q.matmul(&keys.t()) * (1.0 / (WIDTH as f64).sqrt()) + later;
    scores.softmax(-1).matmul(&values).matmul(&t(&w.out)).realize()
}

#[test]
fn attention_with_a_cache_is_recorded_once() {
    let w = weights();
    let tokens = Array::from_fn(&[24], |i| ((i[0] * 7 + 3) % WORDS) as f64);
    let want = expected(&w, &tokens, 24);
    for device in DEVICES {
        on(device, || {
            let place = Variable::new("at", 0, 23).unwrap();
            let cache = [Tensor::zeros([24, WIDTH]).contiguous(), Tensor::zeros([24, WIDTH]).contiguous()];
            Tensor::realize_all(&cache.iter().collect::<Vec<_>>()).unwrap();
            let now = std::sync::Arc::new(std::sync::Mutex::new(place.bind(0).unwrap()));
            let (held, kept, own) = (now.clone(), cache.clone(), weights());
            let jit = Jit::new(move |x: Tensor| {
                let at = held.lock().unwrap().clone();
                cached_step(&own, &kept, &x, &at)
            });
            let x = w.table.embedding(&tokens);
            for i in 0..24 {
                let row = tensor(&x.shrink(&[(i, i + 1), (0, WIDTH)]), DType::F32).realize().unwrap();
                let at = place.bind(i as i64).unwrap();
                *now.lock().unwrap() = at.clone();
                let before = stats();
                let got = jit.call_with(row, &[at]).unwrap();
                must_be_near(&got, &want.shrink(&[(i, i + 1), (0, 5)]), &format!("{device} place {i}"));
                let did = stats() - before;
                assert!(i < 2 || (did.schedules, did.compiles) == (0, 0), "{device} place {i}: {did:?}");
            }
            assert_eq!(jit.kernels().len(), 1, "{device}");
        });
    }
}

/// A place drawn from the five greatest scores by their likelihood.
fn sample(scores: &Tensor) -> Tensor {
    let (top, places) = (scores / 0.8).topk(5, -1, true);
    places.gather(0, &top.softmax(-1).multinomial(1, true))
}

#[test]
fn a_sampler_draws_the_same_recorded_and_plain() {
    let mut random = Random::new(9);
    let scores = Array::from_fn(&[30], |_| random.fraction() * 4.0);
    for device in DEVICES {
        on(device, || {
            let memory = tensor(&scores, DType::F32).realize().unwrap();
            let words = Variable::new("words", 5, 30).unwrap();
            let run = |f: &dyn Fn(Tensor) -> Tensor| {
                frit::manual_seed(4);
                let draw = |(turn, n): (usize, i64)| {
                    let before = stats();
                    let word = f(memory.at(..words.bind(n).unwrap())).item::<i32>().unwrap();
                    let did = stats() - before;
                    assert!(turn < 2 || did.compiles == 0, "{device} {n}: {did:?}");
                    let mut best: Vec<usize> = (0..n as usize).collect();
                    best.sort_by(|a, b| scores.data[*b].total_cmp(&scores.data[*a]));
                    assert!(best[..5].contains(&(word as usize)), "{device} {n}: {word}");
                    word
                };
                [30, 9, 13, 5, 29, 30, 21, 6].into_iter().enumerate().map(draw).collect::<Vec<_>>()
            };
            let jit = Jit::new(|x: Tensor| Ok(sample(&x)));
            assert_eq!(run(&|x| jit.call(x).unwrap()), run(&|x| sample(&x)), "{device}");
            assert_eq!(jit.kernels().len(), 1, "{device}");
        });
    }
}
