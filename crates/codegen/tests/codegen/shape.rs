//! What lowered kernels look like: loops, loads, vectors, errors.

use crate::kernels::{cases, conv, matmul, range, softmax};
use crate::run::lower;
use frit_abi::Target;
use frit_abi::target::Isa;
use frit_codegen::{Error, Opt, Opts, Order};
use frit_uop::{Alu, Arg, AxisKind, DType, Linear, Op, Space, Step, UOp};

fn case(name: &str) -> UOp {
    cases().into_iter().find(|c| c.name == name).unwrap().sink
}
fn plain(name: &str) -> Linear {
    lower(&case(name), &Target::interp(), Opts::List(&[])).unwrap()
}
fn count(l: &Linear, f: impl Fn(&UOp) -> bool) -> usize {
    l.steps.iter().filter(|s| matches!(s, Step::Do(n) if f(n))).count()
}
fn loops(l: &Linear) -> usize {
    l.steps.iter().filter(|s| matches!(s, Step::Open(_))).count()
}
fn param_loads(l: &Linear) -> usize {
    count(l, |n| n.op == Op::Load && n.src[0].op == Op::Index)
}
fn split(axis: usize, n: usize, kind: AxisKind) -> Opt {
    Opt::Split { axis, n, kind, inner: true }
}

#[test]
fn reduces_of_one_row_share_the_loop_and_the_load() {
    let l = plain("sum, max and squares");
    assert_eq!((loops(&l), param_loads(&l)), (2, 1), "{}", l);
}

#[test]
fn reduces_that_need_each_other_are_loops_after_each_other() {
    let l = lower(&softmax(6, 24), &Target::interp(), Opts::List(&[])).unwrap();
    // rows, max, sum, output
    assert_eq!((loops(&l), param_loads(&l)), (4, 3), "{}", l);
}

#[test]
fn what_does_not_change_in_a_loop_is_outside_it() {
    let l = plain("minus the total");
    let first =
        l.steps.iter().position(|s| matches!(s, Step::Open(r) if Some(r) == l.thread.as_ref())).unwrap();
    let sum = l.steps.iter().position(|s| matches!(s, Step::Close(_))).unwrap();
    assert!(sum < first, "{}", l);
}

#[test]
fn neighbouring_axes_become_one() {
    let (i, j) =
        (crate::kernels::range(4, 0, AxisKind::Global), crate::kernels::range(6, 1, AxisKind::Global));
    let at = &i * 6 + &j;
    let x = UOp::param(1, 24, DType::F32).at(&at).load();
    let sink = UOp::sink([UOp::param(0, 24, DType::F32).at(&at).store(&x).end([i, j])]);
    let l = lower(&sink, &Target::interp(), Opts::List(&[])).unwrap();
    assert_eq!((loops(&l), &*l.name), (1, "e_24"));
}

#[test]
fn a_vector_axis_becomes_vectors_and_an_upcast_one_does_not() {
    let opts = [split(1, 4, AxisKind::Vector), split(0, 2, AxisKind::Upcast)];
    let l = lower(&matmul(16, 24, 20), &Target::interp(), Opts::List(&opts)).unwrap();
    let is_vector = |n: &UOp| n.op == Op::Load && n.src[0].op == Op::Index && n.lanes() == 4;
    assert_eq!(count(&l, is_vector), 1, "{}", l);
    assert_eq!(count(&l, |n| n.op == Op::MulAcc && n.lanes() == 4), 2, "{}", l);
    assert_eq!(count(&l, |n| matches!(n.op, Op::Stack | Op::Lane)), 1, "only the zeros: {}", l);
}

#[test]
fn a_short_window_is_written_out_and_its_rows_are_loaded_once() {
    let target = Target::native(Isa::Avx512, 2, [48 << 10, 2 << 20, 64 << 20]);
    let l = lower(&case("convolution of each channel"), &target, Opts::Heuristic).unwrap();
    let is_reduce =
        |s: &Step| matches!(s, Step::Open(r) if r.range_arg().is_some_and(|a| a.kind == AxisKind::Reduce));
    assert!(!l.steps.iter().any(is_reduce), "{}", l);
    let rows = count(&l, |n| n.op == Op::Load && n.src[0].op == Op::Index && n.lanes() == 16);
    let products = count(&l, |n| matches!(n.op, Op::Mul | Op::MulAcc) && n.dtype == DType::F32);
    assert!(rows * 2 <= products, "{rows} loads for {products} products: {}", l);
}

#[test]
fn neighbours_are_moved_together_where_arithmetic_is_scalar() {
    let opts = [split(0, 4, AxisKind::Upcast), split(0, 8, AxisKind::Local)];
    let l = lower(&case("add"), &Target::interp_gpu(), Opts::List(&opts)).unwrap();
    assert_eq!(count(&l, |n| n.op == Op::Load), 2, "{}", l);
    assert_eq!(count(&l, |n| n.op == Op::Store && n.src[0].lanes() == 4), 1, "{}", l);
    assert_eq!(count(&l, |n| n.op == Op::Add && n.dtype == DType::F32), 4, "{}", l);
}

#[test]
fn lanes_that_reduce_a_row_also_write_it() {
    let opts = [
        split(1, 8, AxisKind::Local),
        split(3, 8, AxisKind::GroupReduce),
        split(5, 8, AxisKind::GroupReduce),
    ];
    let l = lower(&softmax(6, 24), &Target::interp_gpu(), Opts::List(&opts)).unwrap();
    let lanes: Vec<&UOp> =
        l.specials.iter().filter(|s| matches!(&s.arg, Arg::Name(n) if n.starts_with("lidx"))).collect();
    assert_eq!(lanes.len(), 1, "{}", l);
    assert_eq!(count(&l, |n| n.op == Op::Barrier), 2, "{}", l);
}

#[test]
fn flops_and_bytes_do_not_depend_on_opts() {
    let target = Target::interp();
    let a = lower(&matmul(16, 24, 20), &target, Opts::List(&[])).unwrap();
    let b = lower(&matmul(16, 24, 20), &target, Opts::Heuristic).unwrap();
    assert_eq!(
        (a.flops.as_int(), a.bytes.as_int()),
        (Some(2 * 16 * 24 * 20), Some(4 * (16 * 24 + 16 * 20 + 24 * 20)))
    );
    assert_eq!((a.flops, a.bytes), (b.flops, b.bytes));
}

#[test]
fn lowering_twice_gives_the_same_program() {
    for target in crate::run::targets() {
        let lower = || lower(&conv(2, 3, 4, 6, 3), &target, Opts::Heuristic).unwrap();
        assert_eq!(lower().steps, lower().steps);
    }
}

#[test]
fn an_illegal_opt_says_why() {
    let check =
        |sink: &UOp, target: &Target, opt: Opt, why: &str| match lower(sink, target, Opts::List(&[opt])) {
            Err(Error::Opt { why: found, .. }) => assert!(found.contains(why), "{found:?}, not {why:?}"),
            other => panic!("{other:?}"),
        };
    use AxisKind::*;
    let (cpu, gpu) = (Target::interp(), Target::interp_gpu());
    let m = matmul(16, 24, 20);
    check(&m, &cpu, split(0, 3, Upcast), "3 does not divide");
    check(&m, &cpu, split(7, 2, Upcast), "there are 3 axes");
    check(&m, &cpu, split(0, 2, Local), "Global cannot become Local on interp");
    check(&m, &cpu, split(0, 2, Unroll), "Global cannot become Unroll");
    check(&m, &cpu, split(1, 3, Vector), "a power of two of lanes, 4 at most");
    check(&m, &cpu, split(1, 8, Vector), "a power of two of lanes, 4 at most");
    check(&m, &gpu, split(1, 4, Vector), "Global cannot become Vector on interp-gpu");
    check(&m, &cpu, split(2, 2, Global), "Reduce cannot become Global");
    check(&m, &cpu, split(0, 16, Global), "would change nothing");
    check(&m, &cpu, Opt::Swap { a: 1, b: 2 }, "a loop would be outside one that it depends on");
    check(&m, &cpu, Opt::Reorder { order: vec![0, 0, 1] }, "not a permutation of 3 axes");
    check(&m, &cpu, Opt::Pad { axis: 0, n: 4 }, "a multiple of 4 already");
    check(
        &m,
        &cpu,
        Opt::Stage { operand: 9, at: 0, space: Space::Local, order: Order::LoopOrder, buffers: 1 },
        "there are 2 loads",
    );
    check(
        &m,
        &cpu,
        Opt::Stage { operand: 0, at: 0, space: Space::Reg, order: Order::LoopOrder, buffers: 1 },
        "registers hold",
    );
    check(&matmul(256, 8, 8), &gpu, split(0, 256, Local), "lanes of [256]");
    check(&matmul(64, 64, 8), &gpu, split(0, 1, Local), "at least two");
    check(&case("cumsum of columns"), &cpu, split(1, 3, Reduce), "Ordered cannot become Reduce");
    check(&case("gather"), &cpu, Opt::Pad { axis: 0, n: 4 }, "a checked access moves with it");
}

#[test]
fn a_kernel_that_no_target_dimension_holds_is_an_error() {
    // more blocks than three dimensions have
    let n = 1 << 40;
    let i = crate::kernels::range(n, 0, AxisKind::Global);
    let sink = UOp::sink([UOp::param(0, n as usize, DType::F32)
        .at(&i)
        .store(&UOp::float(1.0, DType::F32))
        .end([i])]);
    let error = lower(&sink, &Target::interp_gpu(), Opts::List(&[])).unwrap_err();
    assert!(error.to_string().contains("gidx"), "{error}");
}

#[test]
fn an_opt_is_a_line_that_parses_back() {
    let target = Target::interp_gpu();
    for ast in [matmul(8, 16, 4), conv(1, 2, 4, 6, 3)] {
        for opt in frit_codegen::plan(&ast, &target, &[]).unwrap().legal() {
            assert_eq!(opt.to_string().parse::<Opt>(), Ok(opt));
        }
    }
    let vector = split(0, 4, AxisKind::Vector);
    assert_eq!(vector.to_string(), "split 0 4 Vector inner");
    assert_eq!(vector.to_string().parse::<Opt>(), Ok(vector));
    let lines = Opt::Stage { operand: 1, at: 2, space: Space::Local, order: Order::RowMajor, buffers: 1 };
    assert_eq!(lines.to_string().parse::<Opt>(), Ok(lines));
    let rows = Opt::TileAndFuse { rows: 64 };
    assert_eq!(rows.to_string().parse::<Opt>(), Ok(rows));
    for line in [
        "",
        "split",
        "split 0 4 Sideways inner",
        "split 0 4 Upcast",
        "reorder x",
        "stage 0",
        "stage 0 1 Local",
        "tile 1 2",
    ] {
        assert!(line.parse::<Opt>().is_err(), "{line}");
    }
}

#[test]
fn two_vectors_are_never_open_in_one_value() {
    let opts = [split(1, 4, AxisKind::Vector), split(0, 4, AxisKind::Vector)];
    match lower(&matmul(16, 24, 20), &Target::interp(), Opts::List(&opts)) {
        Err(Error::Opt { why, .. }) => assert!(why.contains("in another vector"), "{why}"),
        other => panic!("{other:?}"),
    }
    // rows of a softmax are walked by loops of their own, each with its vector
    let opts = [split(1, 4, AxisKind::Vector), split(3, 4, AxisKind::Vector), split(5, 4, AxisKind::Vector)];
    let l = lower(&softmax(6, 24), &Target::interp(), Opts::List(&opts)).unwrap();
    assert_eq!(count(&l, |n| n.op == Op::Load && n.src[0].op == Op::Index && n.lanes() == 4), 3, "{l}");
}

#[test]
fn a_linear_program_is_a_listing_that_parses_back() {
    for target in crate::run::targets() {
        for case in cases() {
            let l = lower(&case.sink, &target, Opts::Heuristic).unwrap();
            let text = l.to_string();
            assert_eq!(Linear::parse(&text).as_ref(), Ok(&l), "{text}");
        }
    }
    for bad in ["kernel x\nnonsense", "}", "for %0 {", "prefetch 3", "let %1 = Const:int32 {3}"] {
        assert!(Linear::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn rows_of_whole_vectors_of_any_number_have_vectors() {
    let n = UOp::variable("t", 1, 16) * 32;
    let (g, r) = (range(64, 0, AxisKind::Global), UOp::range(&n, 1, AxisKind::Reduce));
    let x = UOp::param(1, 64 * 512, DType::F32).at(&(&g * &n + &r)).load().un(Alu::Exp);
    let sink = UOp::sink([UOp::param(0, 64, DType::F32).at(&g).store(&x.reduce(Alu::Add, [r])).end([g])]);
    let target = Target::native(Isa::Avx512, 1, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = frit_codegen::lower(&sink, &target, Opts::Heuristic).unwrap();
    assert!(lowered.opts.contains(&split(1, 16, AxisKind::Vector)), "{:?}", lowered.opts);
}

#[test]
fn sums_over_rows_that_are_pages_apart_take_many_vectors_together() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let side_by_side = |columns: i64, is_summed: bool| {
        let range = |n: i64, id: u32, kind| UOp::range(&UOp::index(n), id, kind);
        let i = range(columns, 0, AxisKind::Global);
        let k = range(64, 1, if is_summed { AxisKind::Reduce } else { AxisKind::Global });
        let (all, at) = ((64 * columns) as usize, &k * columns + &i);
        let x = UOp::param(1, all, DType::F32).at(&at).load();
        let sink = match is_summed {
            true => {
                UOp::param(0, columns as usize, DType::F32).at(&i).store(&x.reduce(Alu::Add, [k])).end([i])
            }
            false => UOp::param(0, all, DType::F32).at(&at).store(&x.un(Alu::Sqrt)).end([k, i]),
        };
        let opts = frit_codegen::lower(&UOp::sink([sink]), &target, Opts::Heuristic).unwrap().opts;
        let upcast = |o: &Opt| match o {
            Opt::Split { n, kind: AxisKind::Upcast, .. } => Some(*n),
            _ => None,
        };
        opts.iter().find_map(upcast)
    };
    // rows of 4 KiB and of 512 bytes, and what has no sum
    assert_eq!(
        [(1024, true), (128, true), (1024, false)].map(|(n, s)| side_by_side(n, s)),
        [Some(16), Some(4), Some(4)]
    );
}
