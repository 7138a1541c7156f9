//! Tiles of results that products are given.

use crate::kernels::{Case, gated_products, made_factors, range, strided_conv};
use crate::run::run;
use frit_abi::Target;
use frit_abi::target::Isa;
use frit_codegen::{Opt, Opts, PASSES, Run, lower};
use frit_uop::{Alu, AxisKind, DType, Linear, Op, Step, UOp};

/// `out[i, j] = sum over r of x[r, i] y[r, j]`.
fn transposed(m: i64, n: i64, k: i64, dtype: DType) -> Case {
    let (i, j, r) =
        (range(m, 0, AxisKind::Global), range(n, 1, AxisKind::Global), range(k, 2, AxisKind::Reduce));
    let buf = |slot, len: i64| UOp::param(slot, len as usize, dtype);
    let (x, y) = (buf(1, m * k).at(&(&r * m + &i)).load(), buf(2, k * n).at(&(&r * n + &j)).load());
    let sum = (x * y).reduce(Alu::Add, [r]);
    let sink = UOp::sink([buf(0, m * n).at(&(&i * n + &j)).store(&sum).end([i, j])]);
    Case { name: "transposed", sink, vars: vec![], exact: true }
}

#[test]
fn a_factor_whose_lines_come_from_far_is_used_for_several_vectors() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    for (m, n, k, dtype) in [(520, 134, 448, DType::F64), (224, 256, 3136, DType::F32)] {
        let opts = lower(&transposed(m, n, k, dtype).sink, &target, Opts::Heuristic).unwrap().opts;
        let is_tiled = |o: &&Opt| matches!(o, Opt::Split { kind: AxisKind::Upcast, .. });
        assert_eq!(opts.iter().filter(is_tiled).count(), 2, "{opts:?}");
    }
    let small = transposed(52, 34, 12, DType::F64);
    assert_eq!(run(&small, &Target::interp(), Opts::Heuristic), Ok(()));
}

#[test]
fn a_factor_that_the_sum_walks_across_is_transposed_once() {
    let small = transposed(20, 34, 24, DType::F32);
    let (first, split) = (Opt::TransposeFactor, Opt::SplitReduce { n: 3 });
    for opts in [vec![first.clone()], vec![first.clone(), split.clone()]] {
        for target in [Target::interp(), Target::native(Isa::Avx2, 2, [32 << 10, 1 << 20, 32 << 20])] {
            let lowered = lower(&small.sink, &target, Opts::List(&opts)).unwrap();
            assert_eq!(lowered.opts, opts);
            // the transposed one, and after it the partial sums, which are added up at the end
            let bytes = [20 * 24 * 4, 3 * 20 * 34 * 4];
            assert_eq!(lowered.workspaces, bytes[..opts.len()]);
            assert_eq!(lowered.programs.len(), [2, 3][opts.len() - 1]);
        }
        assert_eq!(run(&small, &Target::interp(), Opts::List(&opts)), Ok(()));
    }
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let chosen = |case: &Case| lower(&case.sink, &target, Opts::Heuristic).unwrap().opts.contains(&first);
    let large = [(256, 256, 256), (1024, 1024, 1024), (128, 200, 6816)];
    assert!(large.iter().all(|(m, n, k)| chosen(&transposed(*m, *n, *k, DType::F32))));
    // near anyway, or used too seldom
    let others = [(20, 34, 24), (64, 64, 64), (4096, 8, 1024)];
    assert!(!others.iter().any(|(m, n, k)| chosen(&transposed(*m, *n, *k, DType::F32))));
    let e = lower(&small.sink, &Target::interp_gpu(), Opts::List(&opts_of("transpose-factor"))).unwrap_err();
    assert!(e.to_string().contains("TransposeFactor"), "{e}");
}

#[test]
fn accumulators_of_a_tile_take_turns() {
    let target = Target::native(Isa::Avx2, 2, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = lower(&transposed(256, 256, 256, DType::F32).sink, &target, Opts::Heuristic).unwrap();
    let product = lowered.programs.last().unwrap();
    let step = |s: &Step| if let Step::Do(n) = s { (n.op == Op::MulAcc).then(|| n.clone()) } else { None };
    let updates: Vec<UOp> = product.steps.iter().filter_map(step).collect();
    assert!(updates.len() > 48);
    assert!(updates.windows(2).all(|w| w[1].src[2] != w[0]));
}

/// How many parts of each program threads share.
fn parts(sink: &UOp, threads: usize) -> Vec<i64> {
    let target = Target::native(Isa::Avx512, threads, [48 << 10, 2 << 20, 32 << 20]);
    let parts = |p: &Linear| p.thread.as_ref().and_then(|t| t.extent().as_int()).unwrap_or(1);
    lower(sink, &target, Opts::Heuristic).unwrap().programs.iter().map(parts).collect()
}

#[test]
fn slices_of_a_sum_leave_blocks_of_rows_to_threads() {
    for (m, n, k) in [(218, 417, 2112), (352, 264, 2432), (128, 200, 6816)] {
        let all = parts(&transposed(m, n, k, DType::F32).sink, 16);
        assert!(all.len() > 2 && all[..2].iter().all(|parts| *parts >= 32), "{m} {n} {k}: {all:?}");
    }
}

#[test]
fn parts_that_pack_all_weights_are_no_more_than_threads_need() {
    assert_eq!(parts(&strided_conv(8, 192, 144, 14), 2), [2]);
}

#[test]
fn windows_of_images_that_are_computed_at_once_are_staged() {
    let small = Case { name: "strided", sink: strided_conv(2, 3, 4, 9), vars: vec![], exact: true };
    for opts in ["split 0 2 Upcast inner, stage 0 0 Local LoopOrder", "split 0 2 Upcast inner"] {
        assert_eq!(run(&small, &Target::interp(), Opts::List(&opts_of(opts))), Ok(()));
    }
}

#[test]
fn sums_that_share_a_factor_share_a_tile() {
    for isa in [Isa::Avx2, Isa::Avx512] {
        let target = Target::native(isa, 2, [32 << 10, 1 << 20, 32 << 20]);
        let lowered = lower(&gated_products(64, 256, 256, false), &target, Opts::Heuristic).unwrap();
        let [product] = &lowered.programs[..] else { panic!("{} programs", lowered.programs.len()) };
        // both sums have accumulators in one loop, as many as there are registers for
        let copies = |o: &Opt| if let Opt::Split { n, kind: AxisKind::Upcast, .. } = o { *n } else { 1 };
        let tile: usize = lowered.opts.iter().map(copies).product();
        assert!(8 * tile >= 3 * target.registers && 2 * tile + 3 <= target.registers, "{:?}", lowered.opts);
        let stages = lowered.opts.iter().filter(|o| matches!(o, Opt::Stage { .. })).count();
        assert_eq!(stages, 2, "{:?}", lowered.opts);
        let of = |s: &Step| if let Step::Do(n) = s { (n.op == Op::MulAcc).then(|| n.clone()) } else { None };
        let updates: Vec<UOp> = product.steps.iter().filter_map(of).collect();
        assert_eq!(updates.len() % (2 * tile), 0);
        // what they share is used by one after the other
        let shared = updates.windows(2).filter(|w| (0..2).any(|k| w[0].src[k] == w[1].src[k])).count();
        assert!(shared * 2 + 2 >= updates.len(), "{shared} of {}", updates.len());
    }
    let case = |sink| Case { name: "gated", sink, vars: vec![], exact: true };
    let [small, across] = [false, true].map(|across| case(gated_products(10, 34, 12, across)));
    for case in [&small, &across] {
        assert_eq!(run(case, &Target::interp(), Opts::Heuristic), Ok(()));
    }
    // a program before transposes the factor that they share, and slices have sums of both
    let opts = [Opt::TransposeFactor, Opt::SplitReduce { n: 3 }];
    assert_eq!(run(&across, &Target::interp(), Opts::List(&opts)), Ok(()));
    let lowered = lower(&across.sink, &Target::interp(), Opts::List(&opts)).unwrap();
    assert_eq!(lowered.workspaces, [10 * 12 * 4, 3 * 10 * 34 * 4, 3 * 10 * 34 * 4]);
    let plain = lower(&small.sink, &Target::interp(), Opts::List(&opts[..1])).unwrap_err();
    assert!(plain.to_string().contains("no sum walks across"), "{plain}");
}

#[test]
fn what_is_made_of_a_load_is_made_where_its_tile_is_filled() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = lower(&made_factors(64, 512, 256, false), &target, Opts::Heuristic).unwrap();
    assert!(lowered.opts.iter().any(|o| matches!(o, Opt::Stage { .. })), "{:?}", lowered.opts);
    let count = |op: Op| {
        let is = |s: &&Step| matches!(s, Step::Do(n) if n.op == op);
        lowered.programs.iter().flat_map(|p| p.steps.iter().filter(is)).count()
    };
    // not once for each of the products
    assert!(count(Op::Mul) * 4 < count(Op::MulAcc), "{} of {}", count(Op::Mul), count(Op::MulAcc));
    // the factor that is walked across is made where it is transposed
    let opts = lower(&made_factors(512, 512, 512, true), &target, Opts::Heuristic).unwrap().opts;
    assert_eq!(opts[0], Opt::TransposeFactor);
    let case =
        |across| Case { name: "made", sink: made_factors(10, 34, 12, across), vars: vec![], exact: true };
    assert_eq!(run(&case(true), &Target::interp(), Opts::List(&opts[..1])), Ok(()));
    assert_eq!(run(&case(false), &Target::interp(), Opts::Heuristic), Ok(()));
}

/// `out[i, j] = sum over p of scale[p, j] times the sum over q of x[i, p, q] . w[p, q, j]`: words of four bytes, in parts that
/// have a scale; with upper bytes of x there are, 256 times theirs and what begins the sum of the part.
fn scaled_parts(m: i64, n: i64, parts: i64, run: i64, has_upper: bool) -> Case {
    let (i, j, p) =
        (range(m, 0, AxisKind::Global), range(n, 1, AxisKind::Global), range(parts, 2, AxisKind::Reduce));
    let words = |slot, len: i64| UOp::param(slot, len as usize, DType::I32);
    let (x, w) = (words(1, m * parts * run), words(2, parts * run * n));
    let dots = |begin: UOp, x: &UOp| {
        (0..run).fold(begin, |sum, q| {
            let a = x.at(&((&i * parts + &p) * run + q)).load();
            let b = w.at(&((&p * run + q) * n + &j)).load();
            UOp::alu(Alu::Dot4, &[&b, &a, &sum])
        })
    };
    let zero = UOp::int(0, DType::I32);
    let begin = match has_upper {
        true => {
            let begin = words(5, m * parts).at(&(&i * parts + &p)).load();
            begin + dots(zero, &words(4, m * parts * run)).bin(Alu::Shl, &UOp::int(8, DType::I32))
        }
        false => zero,
    };
    let scale = UOp::param(3, (parts * n) as usize, DType::F32).at(&(&p * n + &j)).load();
    let sum = (scale * dots(begin, &x).cast(DType::F32)).reduce(Alu::Add, [p]);
    let out = UOp::param(0, (m * n) as usize, DType::F32).at(&(&i * n + &j)).store(&sum);
    Case { name: "scaled_parts", sink: UOp::sink([out.end([i, j])]), vars: vec![], exact: false }
}

#[test]
fn sums_inside_updates_of_a_tile_take_turns() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    for has_upper in [false, true] {
        let case = |m, n, parts| scaled_parts(m, n, parts, 4, has_upper);
        let lowered = lower(&case(64, 128, 16).sink, &target, Opts::Heuristic).unwrap();
        let product = lowered.programs.last().unwrap();
        let step = |s: &Step| if let Step::Do(n) = s { (n.op == Op::Dot4).then(|| n.clone()) } else { None };
        let dots: Vec<UOp> = product.steps.iter().filter_map(step).collect();
        assert!(dots.len() >= 4 * 8);
        assert!(dots.windows(2).all(|w| w[1].src[2] != w[0]), "{product}");
        // one of what is multiplied is the same mostly: the fewer of them stay in registers
        let shared = dots.windows(2).filter(|w| (0..2).any(|k| w[0].src[k] == w[1].src[k])).count();
        assert!(shared * 4 >= dots.len() * 2, "{shared} of {}", dots.len());
        assert_eq!(run(&case(5, 19, 3), &Target::interp(), Opts::Heuristic), Ok(()));
    }
}

#[test]
fn chains_that_take_turns_stay_as_they_are() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let pass = PASSES.iter().find(|p| p.name == "interleave").unwrap();
    let Run::Steps(interleave) = pass.run else { panic!("interleave is a pass over steps") };
    let (out, x) = (UOp::param(0, 40, DType::F32), UOp::param(1, 40, DType::F32));
    let mut values: Vec<UOp> = (0..40).map(|i| x.at(&UOp::index(i)).load()).collect();
    let mut turns: Vec<UOp> = values.clone();
    for _ in 0..16 {
        values = values.iter().map(|v| UOp::alu(Alu::Sqrt, &[v])).collect();
        turns.extend(values.clone());
    }
    turns.extend(values.iter().enumerate().map(|(i, v)| out.at(&UOp::index(i as i64)).store(v)));
    let steps: Vec<Step> = turns.into_iter().map(Step::Do).collect();
    assert_eq!(interleave(steps.clone(), &target), steps);
}

fn opts_of(text: &str) -> Vec<Opt> {
    text.split(", ").map(|opt| opt.parse().unwrap()).collect()
}
