//! Tiles of results that products are given.

use crate::kernels::{Case, range};
use crate::run::run;
use frit_abi::Target;
use frit_abi::target::Isa;
use frit_codegen::{Opt, Opts, lower};
use frit_uop::{Alu, AxisKind, DType, UOp};

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
