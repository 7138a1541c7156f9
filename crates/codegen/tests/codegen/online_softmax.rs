//! Attention that carries what it knows of rows from one block of keys to the next, against loops.

use crate::evaluate::Buffers;
use crate::kernels::{Case, matmul, range};
use crate::run::run_against;
use frit_abi::Target;
use frit_abi::matrix::MMA_SYNC;
use frit_codegen::{Opt, Opts, lower, random_opts};
use frit_uop::{Alu, AxisKind, DType, Op, Scalar, Step, UOp};
use std::rc::Rc;

const F: DType = DType::F32;

#[derive(Clone, Copy, PartialEq)]
enum Mask {
    None,
    Causal,
    /// Some rows see nothing and are zero.
    Empty,
    /// A bias from memory.
    Bias,
}

fn gpu() -> Target {
    Target { matrix: MMA_SYNC.to_vec(), ..Target::interp_gpu() }
}

/// Attention of `heads` times `rows` queries over `keys` keys, weights rounded to the type of v.
fn attention([heads, rows, keys, width, columns]: [i64; 5], mask: Mask, dtype: DType) -> UOp {
    let (h, i, d) = (
        range(heads, 0, AxisKind::Global),
        range(rows, 1, AxisKind::Global),
        range(columns, 2, AxisKind::Global),
    );
    let red = |n: i64, id: u32| range(n, id, AxisKind::Reduce);
    let buf = |slot: u32, len: i64| UOp::param(slot, len as usize, dtype);
    let c = |v: f64| UOp::float(v, F);
    let score = |j: &UOp, id: u32| {
        let e = red(width, id);
        let q = buf(1, heads * rows * width).at(&((&h * rows + &i) * width + &e)).load();
        let k = buf(2, heads * keys * width).at(&((&h * keys + j) * width + &e)).load();
        let s = (q.cast(F) * &k.cast(F)).reduce(Alu::Add, [e]) * &c(0.03125);
        match mask {
            Mask::None => s,
            Mask::Causal => i.lt(j).select(&c(f64::NEG_INFINITY), &s),
            Mask::Empty => i.lt(&UOp::index(rows / 2)).select(&c(f64::NEG_INFINITY), &s),
            Mask::Bias => s + &UOp::param(4, (rows * keys) as usize, F).at(&(&i * keys + j)).load(),
        }
    };
    let (j, l, m) = (red(keys, 3), red(keys, 4), red(keys, 5));
    let most = score(&j, 6).reduce(Alu::Max, [j]);
    let base = match mask {
        Mask::Empty => most.eq_(&c(f64::NEG_INFINITY)).select(&c(0.0), &most),
        _ => most,
    };
    let weight = |j: &UOp, id: u32| (score(j, id) - &base).un(Alu::Exp);
    let sum = weight(&l, 7).reduce(Alu::Add, [l]);
    let sum = if mask == Mask::Empty { sum.eq_(&c(0.0)).select(&c(1.0), &sum) } else { sum };
    let v = buf(3, heads * keys * columns).at(&((&h * keys + &m) * columns + &d)).load();
    let w = (weight(&m, 8) * &sum.un(Alu::Recip)).cast(dtype);
    let y = (w.cast(F) * &v.cast(F)).reduce(Alu::Add, [m]);
    let place = UOp::param(0, (heads * rows * columns) as usize, F).at(&((&h * rows + &i) * columns + &d));
    UOp::sink([place.store(&(y + &c(0.5))).end([h, i, d])])
}

const CASES: [([i64; 5], Mask, DType); 6] = [
    ([2, 32, 64, 16, 16], Mask::None, DType::BF16),
    ([1, 16, 32, 32, 8], Mask::None, DType::F16),
    ([1, 64, 64, 16, 8], Mask::Causal, DType::BF16),
    // one round for all rows
    ([1, 16, 32, 16, 8], Mask::Causal, DType::BF16),
    ([1, 32, 32, 16, 8], Mask::Empty, DType::BF16),
    ([2, 16, 48, 16, 8], Mask::Bias, DType::BF16),
];

/// What attention gives, in double precision: the evaluation of kernels would compute scores again for every result.
fn expected(inputs: &Buffers, [heads, rows, keys, width, columns]: [i64; 5], mask: Mask) -> Rc<Buffers> {
    let mut buffers = inputs.clone();
    let at = |slot: usize, i: i64| inputs[slot][i as usize].as_f64();
    for h in 0..heads {
        for i in 0..rows {
            let score = |j: i64| {
                let product = |e: i64| at(1, (h * rows + i) * width + e) * at(2, (h * keys + j) * width + e);
                let s = (0..width).map(product).sum::<f64>() * 0.03125;
                match mask {
                    Mask::None => s,
                    Mask::Causal => {
                        if i < j {
                            f64::NEG_INFINITY
                        } else {
                            s
                        }
                    }
                    Mask::Empty => {
                        if i < rows / 2 {
                            f64::NEG_INFINITY
                        } else {
                            s
                        }
                    }
                    Mask::Bias => s + at(4, i * keys + j),
                }
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let most = if most == f64::NEG_INFINITY { 0.0 } else { most };
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..columns {
                let y: f64 =
                    (0..keys).map(|j| weights[j as usize] * at(3, (h * keys + j) * columns + d)).sum();
                let y = if sum == 0.0 { 0.0 } else { y / sum };
                buffers[0][((h * rows + i) * columns + d) as usize] = Scalar::float(y + 0.5, F);
            }
        }
    }
    Rc::new(buffers)
}

fn check((sizes, mask, dtype): ([i64; 5], Mask, DType), opts: Opts) {
    let case = Case { name: "attention", sink: attention(sizes, mask, dtype), vars: vec![], exact: false };
    // weights have eight digits
    let close = |got: f64, want: f64| (got - want).abs() <= want.abs().max(1.0) / 64.0;
    if let Err(e) = run_against(|inputs| expected(inputs, sizes, mask), close, &case, &gpu(), opts) {
        panic!("{sizes:?} with {opts:?}: {e}");
    }
}

#[test]
fn rows_are_carried_along_keys() {
    for case in CASES {
        let sink = attention(case.0, case.1, case.2);
        check(case, Opts::Heuristic);
        for (warps, keys) in [(1, 16), (1, 32), (2, 16)] {
            let opts = [Opt::OnlineSoftmax { warps, keys }];
            if lower(&sink, &gpu(), Opts::List(&opts)).is_ok() {
                check(case, Opts::List(&opts));
            }
        }
        let lowered = lower(&sink, &gpu(), Opts::Heuristic).unwrap();
        let [Opt::OnlineSoftmax { .. }] = lowered.opts[..] else { panic!("{:?}", lowered.opts) };
        let linear = &lowered.programs[0];
        assert!(linear.steps.iter().any(|s| matches!(s, Step::Do(n) if n.op == Op::Matrix)));
        let random = |seed| random_opts(&sink, &gpu(), seed, 3).unwrap();
        assert!((0..9).any(|s| matches!(random(s)[..], [Opt::OnlineSoftmax { .. }])));
    }
}

#[test]
fn a_mask_ends_the_loop_over_keys() {
    let sink = attention([1, 128, 128, 16, 8], Mask::Causal, DType::BF16);
    let opts = [Opt::OnlineSoftmax { warps: 1, keys: 16 }];
    let lowered = lower(&sink, &gpu(), Opts::List(&opts)).unwrap();
    let text = lowered.to_string();
    let bounded =
        |l: &&str| l.contains("Range:int32") && l.contains("Reduce") && !l.contains(":int32 8:int32");
    assert!(text.lines().any(|l| bounded(&l)), "{text}");
}

#[test]
fn what_is_not_attention_says_so() {
    let fails = |sink: &UOp, warps: usize, keys: usize| {
        let opts = [Opt::OnlineSoftmax { warps, keys }];
        let e = lower(sink, &gpu(), Opts::List(&opts)).unwrap_err().to_string();
        assert!(e.contains("it is for attention"), "{e}");
    };
    fails(&matmul(16, 16, 16), 1, 16);
    let sink = attention([1, 16, 32, 16, 8], Mask::None, DType::BF16);
    fails(&sink, 2, 16);
    fails(&sink, 1, 64);
    fails(&sink, 0, 0);
    // no unit takes these
    fails(&attention([1, 16, 32, 16, 8], Mask::None, DType::F32), 1, 16);
}
