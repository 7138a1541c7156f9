//! Long sums in slices that a second program adds up.

use crate::kernels::{Case, conv, matmul, range, red};
use crate::run::check;
use frit_abi::Target;
use frit_abi::machines::machine;
use frit_abi::target::Isa;
use frit_codegen::{Opt, Opts, lower, plan};
use frit_uop::{Alu, AxisKind, DType, Op, Step, UOp};

fn case(sink: UOp) -> Case {
    Case { name: "split", sink, vars: vec![], exact: true }
}

#[test]
fn slices_add_up_to_the_sum() {
    let target = Target::interp();
    // 5 slices of 4, and one of what is left
    for n in [2, 3, 5, 6] {
        check(&case(matmul(5, 8, 24)), &target, &[Opt::SplitReduce { n }]);
        let vector = Opt::Split { axis: 2, n: 4, kind: AxisKind::Vector, inner: true };
        check(&case(matmul(5, 8, 24)), &target, &[Opt::SplitReduce { n }, vector]);
        // the epilogue is in the second program
        check(&case(conv(2, 6, 4, 5, 3)), &target, &[Opt::SplitReduce { n }]);
    }
}

#[test]
fn what_cannot_be_cut_says_so() {
    let fails = |sink: &UOp, opts: &[Opt], why: &str| {
        let e = lower(sink, &Target::interp(), Opts::List(opts)).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    };
    let (cut, pad) = (Opt::SplitReduce { n: 48 }, Opt::Pad { axis: 0, n: 3 });
    fails(&matmul(4, 4, 24), std::slice::from_ref(&cut), "so long");
    fails(&crate::kernels::softmax(4, 40), std::slice::from_ref(&cut), "so long");
    fails(&matmul(4, 4, 25), &[pad, cut], "before anything else");
}

#[test]
fn few_results_of_a_long_sum_are_cut() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = lower(&matmul(64, 64, 1 << 17), &target, Opts::Heuristic).unwrap();
    let [sliced, merged] = &lowered.programs[..] else { panic!("{} programs", lowered.programs.len()) };
    let Opt::SplitReduce { n } = lowered.opts[0] else { panic!("{:?}", lowered.opts) };
    assert_eq!(lowered.workspaces, [n * 64 * 64 * DType::F32.size()]);
    assert_eq!((sliced.params.len(), merged.params.len()), (4, 4));
    assert_eq!(
        (&sliced.written[..], &merged.written[..]),
        (&[false, false, false, true][..], &[true, false, false, false][..])
    );
    assert!(lowered.to_string().contains(&format!("of 2, workspaces {:?}\n", lowered.workspaces)));
    assert!(plan(&matmul(64, 64, 1 << 17), &target, &lowered.opts).is_ok());
    // as many results as a square has are not
    for (m, n, k) in [(1024, 1024, 1024), (64, 64, 1024), (4096, 4096, 1 << 14)] {
        assert_eq!(lower(&matmul(m, n, k), &target, Opts::Heuristic).unwrap().programs.len(), 1);
    }
}

#[test]
fn what_slices_leave_over_is_a_shorter_one() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = lower(&matmul(64, 64, 10007), &target, Opts::Heuristic).unwrap();
    let Opt::SplitReduce { n } = lowered.opts[0] else { panic!("{:?}", lowered.opts) };
    assert_eq!(lowered.workspaces, [(n + 1) * 64 * 64 * DType::F32.size()]);
    let written: Vec<usize> =
        lowered.programs.iter().flat_map(|p| p.written.iter().position(|w| *w)).collect();
    assert_eq!(written, [3, 3, 0]);
}

/// `out[c, w] = sum over k of a[k] b[k, w, c]`: columns whose neighbours in memory are not those of the result.
fn weights(rows: i64, channels: i64, width: i64, k: i64) -> UOp {
    let range = |n: i64, id: u32, kind| UOp::range(&UOp::index(n), id, kind);
    let [o, c, w] = [(rows, 0), (channels, 1), (width, 2)].map(|(n, id)| range(n, id, AxisKind::Global));
    let s = range(k, 3, AxisKind::Reduce);
    let a = UOp::param(1, (k * rows) as usize, DType::BF16).at(&(&s * rows + &o)).load().cast(DType::F32);
    let b = UOp::param(2, (k * width * channels) as usize, DType::BF16);
    let b = b.at(&((&s * width + &w) * channels + &c)).load().cast(DType::F32);
    let sum = (&a * &b).reduce(Alu::Add, [s]);
    let to = UOp::param(0, (rows * channels * width) as usize, DType::F32)
        .at(&((&o * channels + &c) * width + &w));
    UOp::sink([to.store(&sum).end([o, c, w])])
}

#[test]
fn partial_sums_of_a_unit_lie_as_it_walks_columns() {
    let h200 = machine("H200").unwrap();
    let lowered = lower(&weights(64, 64, 9, 1 << 15), &h200, Opts::Heuristic).unwrap();
    assert!(matches!(lowered.opts[..], [Opt::SplitReduce { .. }, ..]), "{:?}", lowered.opts);
    // two columns of a lane are neighbours, so they are stored together
    let stores = lowered.programs[0].steps.iter().filter(|s| matches!(s, Step::Do(n) if n.op == Op::Store));
    let to_memory = |s: &&Step| s.node().buffer_and_index().is_some_and(|(b, _)| b.op == Op::Param);
    let lanes: Vec<usize> = stores.filter(to_memory).map(|s| s.node().target().lanes()).collect();
    assert!(!lanes.is_empty() && lanes.iter().all(|n| *n == 2), "{lanes:?}");
    check(&case(weights(32, 16, 3, 256)), &machine("GPU").unwrap(), &[Opt::SplitReduce { n: 4 }]);
}

/// `out[i] = x[i] * sum over k of x[k] x[k]`: a row that is scaled by a sum over it.
fn scaled(n: i64) -> UOp {
    let (k, i) = (red(n, 0), range(n, 1, AxisKind::Loop));
    let x = |at: &UOp| UOp::param(1, n as usize, DType::F32).at(at).load();
    let sum = (x(&k) * x(&k)).reduce(Alu::Add, [k.clone()]);
    let to = UOp::param(0, n as usize, DType::F32).at(&i);
    UOp::sink([to.store(&(x(&i) * sum)).end([i])])
}

#[test]
fn the_loop_that_uses_a_sliced_sum_has_lanes_of_a_grid() {
    let h200 = machine("H200").unwrap();
    let lowered = lower(&scaled(1 << 16), &h200, Opts::Heuristic).unwrap();
    let [_, merged] = &lowered.programs[..] else { panic!("{} programs", lowered.programs.len()) };
    let lanes: i64 = merged.specials.iter().filter_map(|s| s.extent().as_int()).product();
    assert!(lanes >= 1 << 12, "{lanes} lanes:\n{merged}");
    // a block adds up a short row by itself
    assert_eq!(lower(&scaled(1 << 12), &h200, Opts::Heuristic).unwrap().programs.len(), 1);
    check(&case(scaled(512)), &machine("GPU").unwrap(), &[Opt::SplitReduce { n: 4 }]);
}
