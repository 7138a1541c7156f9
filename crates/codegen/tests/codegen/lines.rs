//! What is read along one axis and written along another, through copies of whole vectors.

use crate::kernels::{Case, range};
use crate::run::{check, cpu, lower, run};
use frit_abi::Target;
use frit_codegen::{Opt, Opts, Order, plan};
use frit_uop::{AxisKind, DType, Op, Space, Step, UOp};

/// `out[i, j] = x[j, i]`, with nothing read from the last columns of x if some are `hidden`.
fn turned(rows: i64, columns: i64, hidden: i64, dtype: DType) -> Case {
    let (i, j) = (range(columns, 0, AxisKind::Global), range(rows, 1, AxisKind::Global));
    let buf = |slot| UOp::param(slot, (rows * columns) as usize, dtype);
    let at = &j * columns + &i;
    let at = match hidden {
        0 => at,
        n => i.lt(&UOp::index(columns - n)).select(&at, &UOp::invalid()),
    };
    let x = buf(1).at(&at).load();
    let sink = UOp::sink([buf(0).at(&(&i * rows + &j)).store(&x).end([i, j])]);
    Case { name: "turned", sink, vars: vec![], exact: true }
}

fn machines() -> Vec<Target> {
    let found = ["CPU:SSE2", "CPU:AVX2", "CPU:AVX512", "CPU:C"].into_iter().filter_map(cpu);
    found.map(|d| d.target().clone()).chain([Target::interp()]).collect()
}

#[test]
fn vectors_that_are_taken_in_parts_are_right_wherever_they_are_copied() {
    let split = |axis, n, kind| Opt::Split { axis, n, kind, inner: true };
    for target in machines() {
        let w = target.lanes(DType::F32);
        let c = turned(6 * w as i64 - 3, 5 * w as i64 + 1, 3, DType::F32);
        let opts = [
            Opt::Pad { axis: 0, n: 2 * w },
            Opt::Pad { axis: 1, n: 2 * w },
            split(0, w / 2, AxisKind::Upcast),
            split(0, 2, AxisKind::Loop),
            split(3, w, AxisKind::Vector),
            split(3, 2, AxisKind::Loop),
            Opt::Reorder { order: vec![0, 3, 1, 4, 2, 5] },
        ];
        let stage =
            |at| Opt::Stage { operand: 0, at, space: Space::Local, order: Order::RowMajor, buffers: 1 };
        let staged = (0..5).map(|at| [&opts[..], &[stage(at)]].concat());
        let legal: Vec<Vec<Opt>> = staged.filter(|o| plan(&c.sink, &target, o).is_ok()).collect();
        // from the loop over halves of a vector outward
        assert_eq!(legal.len(), 3, "{}", target.name);
        legal.iter().for_each(|o| check(&c, &target, o));
    }
}

#[test]
fn far_memory_is_brought_near_in_whole_vectors() {
    for mut target in machines() {
        // everything is far
        target.caches = [1 << 10, 1 << 10, 0];
        for (hidden, dtype) in [(0, DType::F32), (3, DType::F32), (0, DType::BF16)] {
            let c = turned(1037, 139, hidden, dtype);
            let opts = frit_codegen::lower(&c.sink, &target, Opts::Heuristic).unwrap().opts;
            let in_lines = |o: &Opt| matches!(o, Opt::Stage { order: Order::RowMajor, .. });
            // short vectors are not worth it where there is an edge
            let worth = target.lanes(DType::F32) >= 8;
            assert_eq!(opts.iter().any(in_lines), worth, "{} {dtype}: {opts:?}", target.name);
            run(&c, &target, Opts::Heuristic).unwrap_or_else(|e| panic!("{} {dtype}: {e}", target.name));
        }
    }
}

#[test]
fn interleaved_rows_are_prefetched_where_they_are_written() {
    let Some(target) = cpu("CPU:AVX512").map(|d| d.target().clone()) else { return };
    let linear = lower(&turned(4095, 4095, 0, DType::F32).sink, &target, Opts::Heuristic).unwrap();
    let inner = linear.steps.iter().rposition(|s| matches!(s, Step::Open(_))).unwrap();
    let count = |f: &dyn Fn(&Step) -> bool| linear.steps[inner..].iter().filter(|s| f(s)).count();
    let stores = count(&|s| matches!(s, Step::Do(n) if n.op == Op::Store));
    let requests = count(&|s| matches!(s, Step::Prefetch(_, 128)));
    assert_eq!((stores, requests), (8, 8));
}
