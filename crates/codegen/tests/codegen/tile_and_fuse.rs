//! Chains of products in blocks of rows, against the same loops one inside the other.

use crate::evaluate::Buffers;
use crate::kernels::{Case, matmul, range, softmax};
use crate::run::{check, cpu, run, run_against};
use frit_abi::Target;
use frit_codegen::{Opt, Opts, lower, random_opts};
use frit_uop::{Alu, Arg, AxisKind, DType, Op, Scalar, Step, UOp};
use std::rc::Rc;

const F: DType = DType::F32;

#[derive(Clone, Copy, PartialEq)]
enum Mask {
    None,
    /// No key after its query.
    Causal,
    /// Keys from 100 to 150 after a query's number.
    Window,
    /// Numbers to be added, and rows that see nothing.
    Empty,
    /// Queries up to a number in memory, times 60.
    Length(i64),
}

/// The parameter that lengths are in.
const LENGTHS: u32 = 9;

impl Mask {
    fn of(self, score: UOp, i: &UOp, j: &UOp) -> UOp {
        let c = |v: f64| UOp::float(v, F);
        let hidden = c(f64::NEG_INFINITY);
        match self {
            Mask::None => score,
            Mask::Causal => i.lt(j).select(&hidden, &score),
            Mask::Window => j.lt(&(i + 100)).select(&hidden, &j.lt(&(i + 150)).select(&score, &hidden)),
            Mask::Empty => i.lt(&UOp::index(4)).select(&hidden, &(score + &c(1.0))),
            Mask::Length(at) => {
                let length = UOp::param(LENGTHS, 3, DType::I32).at(&UOp::index(at)).load();
                let length = length * &UOp::int(60, DType::I32);
                i.cast(DType::I32).lt(&length).select(&score, &hidden)
            }
        }
    }
}

/// Attention of `heads` times `rows` queries over `keys` keys, with what follows it.
fn attention(sizes: [i64; 5], mask: Mask, dtype: DType) -> UOp {
    attention_beside(&[], sizes, mask, dtype)
}

/// What attention reduces of each row.
enum Statistic {
    Most,
    Sum,
}

/// The same that stores beside its results what it reduces of each row.
fn attention_beside(
    stored: &[Statistic],
    [heads, rows, keys, width, columns]: [i64; 5],
    mask: Mask,
    dtype: DType,
) -> UOp {
    let first = stored.len() as u32;
    let (h, i, d) = (
        range(heads, 0, AxisKind::Global),
        range(rows, 1, AxisKind::Global),
        range(columns, 2, AxisKind::Global),
    );
    let red = |n: i64, id: u32| range(n, id, AxisKind::Reduce);
    let buf = |slot: u32, len: i64| UOp::param(first + slot, len as usize, dtype);
    let c = |v: f64| UOp::float(v, F);
    // loops of its own wherever scores are asked for, as a scheduler writes it
    let score = |j: &UOp, id: u32| {
        let e = red(width, id);
        let q = buf(1, heads * rows * width).at(&((&h * rows + &i) * width + &e)).load();
        let k = buf(2, heads * keys * width).at(&((&h * keys + j) * width + &e)).load();
        mask.of((q.cast(F) * &k.cast(F)).reduce(Alu::Add, [e]) * &c(0.0625), &i, j)
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
    // all positive, so that sums keep their digits
    let v = v.cast(F) + &c(6.0);
    let y = (weight(&m, 8) * &sum.un(Alu::Recip) * &v).reduce(Alu::Add, [m]);
    let place = buf(0, heads * rows * columns).at(&((&h * rows + &i) * columns + &d));
    let results = place.store(&(y + &c(0.5)).cast(dtype));
    let of_row =
        |slot: u32, x: &UOp| UOp::param(slot, (heads * rows) as usize, F).at(&(&h * rows + &i)).store(x);
    let beside = (0..).zip(stored).map(|(slot, s)| match s {
        Statistic::Most => of_row(slot, &base),
        Statistic::Sum => of_row(slot, &sum),
    });
    UOp::sink(beside.chain([results]).map(|s| s.end([h.clone(), i.clone(), d.clone()])))
}

/// The greatest score of each row and the reciprocal of its sum of weights, in one kernel.
fn statistics([rows, keys, width]: [i64; 3], mask: Mask) -> UOp {
    let i = range(rows, 0, AxisKind::Global);
    let score = |j: &UOp, id: u32| {
        let e = range(width, id, AxisKind::Reduce);
        let q = UOp::param(2, (rows * width) as usize, F).at(&(&i * width + &e)).load();
        let k = UOp::param(3, (keys * width) as usize, F).at(&(j * width + &e)).load();
        mask.of((q * &k).reduce(Alu::Add, [e]) * &UOp::float(0.0625, F), &i, j)
    };
    let [j, l] = [1, 2].map(|id| range(keys, id, AxisKind::Reduce));
    let most = score(&j, 3).reduce(Alu::Max, [j]);
    let sum = (score(&l, 4) - &most).un(Alu::Exp).reduce(Alu::Add, [l]);
    let stored = |slot: u32, x: &UOp| UOp::param(slot, rows as usize, F).at(&i).store(x).end([i.clone()]);
    UOp::sink([stored(0, &most), stored(1, &sum.un(Alu::Recip))])
}

/// The gradients of values and keys, in one kernel, from what is known of each query; all that is added up is positive, so that
/// sums keep their digits.
fn gradients([heads, rows, keys, width]: [i64; 4], mask: Mask) -> UOp {
    let (h, j, d) = (
        range(heads, 0, AxisKind::Global),
        range(keys, 1, AxisKind::Global),
        range(width, 2, AxisKind::Global),
    );
    let buf = |slot: u32, len: i64, at: UOp| UOp::param(slot, (heads * len) as usize, F).at(&at);
    let positive = |x: UOp| x.load() + &UOp::float(6.0, F);
    let query = |slot: u32, i: &UOp, e: &UOp| positive(buf(slot, rows * width, (&h * rows + i) * width + e));
    let key = |slot: u32, e: &UOp| buf(slot, keys * width, (&h * keys + &j) * width + e);
    let of_query = |slot: u32, i: &UOp| buf(slot, rows, &h * rows + i).load();
    let product = |a: &dyn Fn(&UOp) -> UOp, b: &dyn Fn(&UOp) -> UOp, id: u32| {
        let e = range(width, id, AxisKind::Reduce);
        (a(&e) * &b(&e)).reduce(Alu::Add, [e])
    };
    let weight = |i: &UOp, id: u32| {
        let score = product(&|e| query(2, i, e), &|e| key(3, e).load(), id) * &UOp::float(0.0625, F);
        (mask.of(score, i, &j) - &of_query(4, i)).un(Alu::Exp) * &(of_query(5, i) + &UOp::float(6.0, F))
    };
    let [a, b] = [3, 4].map(|id| range(rows, id, AxisKind::Reduce));
    let of_values = (weight(&a, 5) * &query(6, &a, &d)).reduce(Alu::Add, [a]);
    let of_weights = product(&|e| query(6, &b, e), &|e| positive(key(7, e)), 6);
    let of_scores = weight(&b, 7) * &(of_weights - &(of_query(8, &b) - &UOp::float(6.0, F)));
    let of_keys = (of_scores * &query(2, &b, &d)).reduce(Alu::Add, [b]);
    let stored = |slot: u32, x: &UOp| key(slot, &d).store(x).end([h.clone(), j.clone(), d.clone()]);
    UOp::sink([stored(0, &of_values), stored(1, &of_keys)])
}

fn cases() -> Vec<Case> {
    let case = |name, sink| Case { name, sink, vars: vec![], exact: false };
    let both = [Statistic::Most, Statistic::Sum];
    vec![
        case("statistics", statistics([8, 6, 3], Mask::None)),
        case("statistics of a window", statistics([7, 320, 2], Mask::Window)),
        case("gradients", gradients([2, 6, 8, 3], Mask::None)),
        case("causal gradients", gradients([1, 9, 7, 4], Mask::Causal)),
        case("gradients of a window", gradients([1, 160, 160, 2], Mask::Window)),
        case("causal gradients in chunks", gradients([1, 160, 9, 2], Mask::Causal)),
        case("causal gradients of a prime number", gradients([1, 149, 9, 2], Mask::Causal)),
        case("gradients of a window of a prime number", gradients([1, 149, 149, 2], Mask::Window)),
        case("gradients of some of a prime number", gradients([1, 149, 7, 2], Mask::Length(1))),
        case("gradients of all of a prime number", gradients([1, 149, 7, 2], Mask::Length(2))),
        case("statistics of a window of a prime number", statistics([7, 149, 2], Mask::Window)),
        case("gradients of no queries", gradients([1, 160, 7, 2], Mask::Length(0))),
        case("gradients of some queries", gradients([1, 160, 7, 2], Mask::Length(1))),
        case("gradients of all queries", gradients([1, 160, 7, 2], Mask::Length(2))),
        case("attention", attention([2, 8, 8, 4, 8], Mask::None, F)),
        case("odd attention", attention([3, 7, 5, 3, 9], Mask::None, F)),
        case("causal attention", attention([1, 10, 10, 3, 8], Mask::Causal, F)),
        case("attention to nothing", attention([2, 9, 6, 4, 8], Mask::Empty, F)),
        case("attention and its statistics", attention_beside(&both, [2, 9, 6, 4, 8], Mask::Empty, F)),
        case(
            "causal attention and its sums",
            attention_beside(&both[1..], [1, 10, 10, 3, 8], Mask::Causal, F),
        ),
    ]
}

#[test]
fn blocks_of_rows_give_what_loops_give() {
    for case in cases() {
        check(&case, &Target::interp(), &[]);
        for rows in [1, 3, 4, 7] {
            check(&case, &Target::interp(), &[Opt::TileAndFuse { rows }]);
        }
        run(&case, &Target::interp(), Opts::Heuristic).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    }
}

#[test]
fn blocks_of_rows_give_what_loops_give_in_machine_code_and_c() {
    for device in ["CPU:SSE2", "CPU:AVX2", "CPU:AVX512", "CPU:AMX", "CPU:C"] {
        let Some(target) = cpu(device).map(|d| d.target().clone()) else { continue };
        for case in cases() {
            run(&case, &target, Opts::Heuristic).unwrap_or_else(|e| panic!("{} on {device}: {e}", case.name));
            let seeds = if device == "CPU:C" { 1..2 } else { 0..16 };
            for seed in seeds {
                check(
                    &case,
                    &target,
                    &random_opts(&case.sink, &target, seed, 1 + seed as usize % 4).unwrap(),
                );
            }
        }
    }
}

#[test]
fn the_heuristic_fuses_what_it_is_given_and_random_opts_do_now_and_then() {
    let target = Target::interp();
    for case in cases() {
        let lowered = lower(&case.sink, &target, Opts::Heuristic).unwrap();
        let [Opt::TileAndFuse { .. }] = lowered.opts[..] else { panic!("{:?}", lowered.opts) };
        let [program] = &lowered.programs[..] else { panic!("{} programs", lowered.programs.len()) };
        let stores = case.sink.src.len();
        assert!(
            program.written.iter().take(stores).all(|w| *w) && !program.written[stores..].contains(&true)
        );
        let is_buffer = |n: &&UOp| matches!(n.arg, Arg::Param { .. });
        let buffers = case.sink.toposort().iter().filter(is_buffer).count();
        assert_eq!(program.params.len(), buffers, "{}", case.name);
        assert!(program.vars.is_empty() && program.thread.is_some());
        assert_eq!(program.flops, lower(&case.sink, &target, Opts::List(&[])).unwrap().programs[0].flops);
        let random = |seed| random_opts(&case.sink, &target, seed, 3).unwrap();
        assert!((0..9).any(|s| matches!(random(s)[..], [Opt::TileAndFuse { .. }])));
        assert!((0..9).any(|s| !matches!(random(s)[..], [Opt::TileAndFuse { .. }])));
    }
}

#[test]
fn loops_end_where_a_length_in_memory_says() {
    let (target, opts) = (Target::interp(), [Opt::TileAndFuse { rows: 7 }]);
    let ends_in_memory = |mask| {
        let sink = gradients([1, 160, 7, 2], mask);
        let program = lower(&sink, &target, Opts::List(&opts)).unwrap().programs.remove(0);
        let is_loaded = |s: &Step| matches!(s, Step::Open(r) if r.extent().any(|n| n.op == Op::Load));
        program.steps.iter().any(is_loaded)
    };
    assert!(ends_in_memory(Mask::Length(1)) && !ends_in_memory(Mask::Causal));
}

/// Attention whose factors are all rounded to bfloat16.
fn rounded_attention([heads, rows, keys, width, columns]: [i64; 5]) -> UOp {
    let (h, i, d) = (
        range(heads, 0, AxisKind::Global),
        range(rows, 1, AxisKind::Global),
        range(columns, 2, AxisKind::Global),
    );
    let red = |n: i64, id: u32| range(n, id, AxisKind::Reduce);
    let load = |slot: u32, len: i64, at: &UOp| {
        UOp::param(slot, (heads * len) as usize, DType::BF16).at(at).load().cast(F)
    };
    let score = |j: &UOp, id: u32| {
        let e = red(width, id);
        let q = load(1, rows * width, &((&h * rows + &i) * width + &e));
        let k = load(2, keys * width, &((&h * keys + j) * width + &e));
        (q * &k).reduce(Alu::Add, [e]) * &UOp::float(0.0625, F)
    };
    let (j, l, m) = (red(keys, 3), red(keys, 4), red(keys, 5));
    let most = score(&j, 6).reduce(Alu::Max, [j]);
    let weight = |j: &UOp, id: u32| (score(j, id) - &most).un(Alu::Exp);
    let sum = weight(&l, 7).reduce(Alu::Add, [l]);
    let part = (weight(&m, 8) * &sum.un(Alu::Recip)).cast(DType::BF16).cast(F);
    let v = load(3, keys * columns, &((&h * keys + &m) * columns + &d));
    let place = UOp::param(0, (heads * rows * columns) as usize, F).at(&((&h * rows + &i) * columns + &d));
    UOp::sink([place.store(&(part * &v).reduce(Alu::Add, [m])).end([h, i, d])])
}

/// The same in float64, without roundings: loops inside loops would take minutes.
fn rounded_by_hand([heads, rows, keys, width, columns]: [i64; 5], inputs: &Buffers) -> Rc<Buffers> {
    let mut all = inputs.clone();
    let at = |slot: usize, i: i64| inputs[slot][i as usize].as_f64();
    for (h, i) in (0..heads).flat_map(|h| (0..rows).map(move |i| (h, i))) {
        let product = |j: i64, e: i64| at(1, (h * rows + i) * width + e) * at(2, (h * keys + j) * width + e);
        let scores: Vec<f64> =
            (0..keys).map(|j| (0..width).map(|e| product(j, e)).sum::<f64>() * 0.0625).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..columns {
            let v = |j: usize| at(3, (h * keys + j as i64) * columns + d);
            let y: f64 = weights.iter().enumerate().map(|(j, w)| w / sum * v(j)).sum();
            all[0][((h * rows + i) * columns + d) as usize] = Scalar::float(y, F);
        }
    }
    Rc::new(all)
}

#[test]
fn both_products_of_rounded_factors_are_given_to_a_unit() {
    let case = |sink| Case { name: "rounded attention", sink, vars: vec![], exact: false };
    // weights of a row sum up to 1, values are at most 5, and each weight is rounded once, before or after it is divided
    let most = 2.0 * 5.0 * 2f64.powi(-9);
    let close = |got: f64, want: f64| (got - want).abs() <= most + 1e-5;
    for sizes in [[2, 32, 64, 32, 16], [1, 24, 40, 32, 16]] {
        let case = case(rounded_attention(sizes));
        for target in [Some(Target::interp()), cpu("CPU:AMX").map(|d| d.target().clone())] {
            let Some(target) = target else { continue };
            let run =
                |opts| run_against(|inputs| rounded_by_hand(sizes, inputs), close, &case, &target, opts);
            for opts in [Opts::List(&[Opt::TileAndFuse { rows: 16 }]), Opts::Heuristic] {
                run(opts).unwrap_or_else(|e| panic!("{sizes:?} on {}: {e}", target.name));
            }
        }
        let amx = frit_abi::machines::machine("AMX").unwrap();
        let [program] = &lower(&case.sink, &amx, Opts::Heuristic).unwrap().programs[..] else { panic!() };
        let products = program.to_string().lines().filter(|l| l.contains("{amx-bf16}")).count();
        assert!(products >= 2, "{sizes:?}: {products} products on a unit\n{program}");
    }
}

#[test]
fn what_is_no_chain_says_so() {
    let fails = |sink: &UOp, opts: &[Opt]| {
        let e = lower(sink, &Target::interp(), Opts::List(opts)).unwrap_err().to_string();
        assert!(e.contains("chains of sums of products"), "{e}");
    };
    fails(&matmul(4, 4, 8), &[Opt::TileAndFuse { rows: 2 }]);
    fails(&softmax(4, 8), &[Opt::TileAndFuse { rows: 2 }]);
    let chain = attention([1, 4, 4, 4, 8], Mask::None, F);
    fails(&chain, &[Opt::TileAndFuse { rows: 5 }]);
    fails(&chain, &[Opt::TileAndFuse { rows: 0 }]);
    fails(&chain, &[Opt::TileAndFuse { rows: 2 }, Opt::Pad { axis: 0, n: 2 }]);
}
