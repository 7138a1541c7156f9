//! Reduces that need each other as one fold, at every level, against the loops one after the other.

use crate::kernels::{Case, range, softmax};
use crate::run::{check, cpu, targets};
use frit_abi::Target;
use frit_codegen::{Opt, Opts, lower, random_opts};
use frit_uop::{Alu, Arg, AxisKind, DType, Scalar, UOp};

const ROWS: i64 = 5;

/// A kernel that stores what `of` makes of a row of `n` elements: given the elements over a range, and a range.
fn rows(n: i64, dtype: DType, of: impl Fn(&dyn Fn(&UOp) -> UOp, [UOp; 2]) -> UOp) -> UOp {
    let (g, r, q) = (range(ROWS, 0, AxisKind::Global), red(n, 1), red(n, 2));
    let x = |i: &UOp| UOp::param(1, (ROWS * n) as usize, DType::F32).at(&(&g * n + i)).load();
    let v = of(&x, [r, q]);
    UOp::sink([UOp::param(0, ROWS as usize, dtype).at(&g).store(&v).end([g.clone()])])
}

fn red(n: i64, id: u32) -> UOp {
    range(n, id, AxisKind::Reduce)
}

fn argument(best: Alu, nan: bool, n: i64) -> UOp {
    rows(n, DType::I32, |x, [r, q]| {
        let m = x(&r).reduce(best, [r.clone()]);
        let hit = x(&q).eq_(&m);
        let hit = if nan { hit.or_(&x(&q).ne_(&x(&q))) } else { hit };
        let never = UOp::constant(Scalar::identity(Alu::Min, DType::I32).unwrap(), DType::I32);
        hit.select(&q.cast(DType::I32), &never).reduce(Alu::Min, [q])
    })
}

fn logsumexp(n: i64) -> UOp {
    rows(n, DType::F32, |x, [r, q]| {
        let m = x(&r).reduce(Alu::Max, [r.clone()]);
        let c = |v: f64| UOp::float(v, DType::F32);
        let infinite = m.eq_(&c(f64::INFINITY)).or_(&m.eq_(&c(f64::NEG_INFINITY)));
        let finite = infinite.select(&c(0.0), &m);
        (x(&q) - &finite).un(Alu::Exp).reduce(Alu::Add, [q]).un(Alu::Log) + &finite
    })
}

/// What a softmax expects of other values.
fn expectation(n: i64) -> UOp {
    rows(n, DType::F32, |x, [r, q]| {
        let m = x(&r).reduce(Alu::Max, [r.clone()]);
        let e = (x(&q) - &m).un(Alu::Exp);
        let other = UOp::param(2, n as usize, DType::F32).at(&q).load();
        (&e * &other).reduce(Alu::Add, [q])
    })
}

fn squares(n: i64) -> UOp {
    rows(n, DType::F32, |x, [r, q]| {
        let mean = &x(&r).reduce(Alu::Add, [r.clone()]) * &UOp::float(1.0 / n as f64, DType::F32);
        let d = x(&q) - &mean;
        (&d * &d).reduce(Alu::Add, [q]) + &mean
    })
}

fn cases() -> Vec<Case> {
    let case = |name, sink, exact| Case { name, sink, vars: vec![], exact };
    [36, 64, 7]
        .iter()
        .flat_map(|&n| {
            [
                case("argmax", argument(Alu::Max, true, n), true),
                case("argmin", argument(Alu::Min, false, n), true),
                case("logsumexp", logsumexp(n), false),
                case("expectation", expectation(n), false),
                case("squares", squares(n), false),
                case("softmax", softmax(ROWS, n), false),
            ]
        })
        .collect()
}

fn folds(sink: &UOp, target: &Target) {
    let lowered = lower(sink, target, Opts::List(&[Opt::Fold])).unwrap();
    assert_eq!(lowered.opts, [Opt::Fold]);
}

#[test]
fn a_fold_is_what_its_loops_are() {
    for target in targets() {
        for case in cases() {
            folds(&case.sink, &target);
            check(&case, &target, &[Opt::Fold]);
            for seed in (1..32).step_by(2) {
                let opts = random_opts(&case.sink, &target, seed, 1 + seed as usize % 4).unwrap();
                assert_eq!(opts[0], Opt::Fold);
                check(&case, &target, &opts);
            }
        }
    }
}

#[test]
fn a_fold_is_what_its_loops_are_in_machine_code_and_c() {
    for device in ["CPU:SSE2", "CPU:AVX2", "CPU:AVX512", "CPU:C"] {
        let Some(target) = cpu(device).map(|d| d.target().clone()) else { continue };
        let most = if device == "CPU:C" { 3 } else { 16 };
        for case in cases() {
            for seed in (1..most).step_by(2) {
                let opts = random_opts(&case.sink, &target, seed, 1 + seed as usize % 4).unwrap();
                check(&case, &target, &opts);
            }
        }
    }
}

#[test]
fn a_row_that_is_too_long_to_keep_is_read_once() {
    let loads = |sink: &UOp, target: &Target| {
        let lowered = lower(sink, target, Opts::Heuristic).unwrap();
        let reads = |n: &UOp| matches!(n.arg, Arg::Fold(_));
        assert!(
            lowered
                .programs
                .iter()
                .all(|p| !p.steps.iter().any(|s| matches!(s, frit_uop::Step::Do(n) if reads(n))))
        );
        lowered.opts.first() == Some(&Opt::Fold)
    };
    let gpu = Target::interp_gpu();
    assert!(loads(&argument(Alu::Max, true, 1 << 16), &gpu) && loads(&logsumexp(1 << 16), &gpu));
    assert!(!loads(&logsumexp(1 << 10), &gpu) && !loads(&softmax(64, 1 << 10), &gpu));
    // on a CPU only what is exact
    let cpu = Target::interp();
    assert!(loads(&argument(Alu::Max, true, 1 << 24), &cpu) && !loads(&logsumexp(1 << 24), &cpu));
}

#[test]
fn what_is_no_fold_says_so() {
    let fails = |sink: &UOp| {
        let e = lower(sink, &Target::interp(), Opts::List(&[Opt::Fold])).unwrap_err().to_string();
        assert!(e.contains("no reduce needs another"), "{e}");
    };
    fails(&crate::kernels::matmul(4, 4, 8));
    // of another row
    fails(&rows(8, DType::F32, |x, [r, q]| {
        let m = (&x(&r) * &x(&r)).reduce(Alu::Max, [r.clone()]);
        (x(&q) - &m).un(Alu::Exp).reduce(Alu::Add, [q])
    }));
    // of what is not the mean
    fails(&rows(8, DType::F32, |x, [r, q]| {
        let m = &x(&r).reduce(Alu::Add, [r.clone()]) * &UOp::float(0.25, DType::F32);
        let d = x(&q) - &m;
        (&d * &d).reduce(Alu::Add, [q])
    }));
}
