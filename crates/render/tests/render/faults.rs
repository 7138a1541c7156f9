//! Programs that are wrong are reported, with kernel and instruction.

use crate::build::*;
use crate::bytecode::grouped_sum;
use frit_abi::{Alu, DType, LaunchDims};
use frit_runtime::Error;
use frit_uop::{AxisKind, Step, UOp};

const F: DType = DType::F32;

/// The fault of a GPU program on two buffers of `len` floats, in blocks of eight lanes.
fn fault(steps: Vec<Step>, len: usize, dims: LaunchDims) -> String {
    let kernel = if dims.local == [1; 3] { cpu_kernel(steps) } else { gpu_kernel(steps) };
    match launch(&kernel, &vec![vec![1.0f32; len]; kernel.params.len()], &[], dims) {
        Err(e @ Error::Fault { .. }) => e.to_string(),
        other => panic!("not a fault: {other:?}"),
    }
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    assert!(parts.iter().all(|p| message.contains(p)), "{message}");
}

#[test]
fn a_missing_barrier_is_a_conflict() {
    let message = fault(grouped_sum().join(false, true), 32, grid(4, 8));
    says(&message, &["kernel test", "l0", "`"]);
    let message = fault(grouped_sum().join(true, false), 32, grid(4, 8));
    says(&message, &["kernel test", "since the last barrier"]);
}

#[test]
fn an_access_outside_a_buffer_names_instruction_and_index() {
    let (out, a) = (UOp::param(0, 8, F), UOp::param(1, 8, F));
    let l = special("lidx0", 8);
    let i = &l + 1;
    let x = a.at(&i).load();
    let store = out.at(&l).store(&x);
    let message = fault(run(&[&i, &x, &store]), 8, grid(1, 8));
    says(&message, &["= load b1[r", "index 8 is outside b1, which has 8 elements", "lane [7, 0, 0]"]);
    let r = range(3, 0);
    let below = &r - 1;
    let store = out.at(&below).store(&UOp::float(0.0, F));
    let message = fault(looped(&r, run(&[&below, &store])), 8, threads(1));
    says(&message, &["store b0[r", "index -1 is outside b0"]);
    let x = a.at_lanes(&int(6), 4).load();
    let message = fault(run(&[&x, &out.at_lanes(&int(0), 4).store(&x)]), 8, threads(1));
    says(&message, &["float32x4 = load b1", "index 8 is outside"]);
}

#[test]
fn memory_read_before_it_is_written_is_reported() {
    let out = UOp::param(0, 8, F);
    let l = special("lidx0", 8);
    let tile = local(0, 9, F);
    let (put, next) = (tile.at(&l).store(&UOp::float(1.0, F)), &l + 1);
    let x = tile.after([put.clone()]).at(&next).load();
    let message = fault(run(&[&put, &barrier(), &next, &x, &out.at(&l).store(&x)]), 8, grid(1, 8));
    says(&message, &["element 8 of l0 is read before it is written"]);
    let x = register(0, 1, F).load();
    let message = fault(run(&[&x, &out.at(&int(0)).store(&x)]), 8, threads(1));
    says(&message, &["variable is read before it is written"]);
}

#[test]
fn a_barrier_must_be_reached_by_all_lanes() {
    let out = UOp::param(0, 8, F);
    let l = special("lidx0", 8);
    // lane n goes round n times
    let r = range_over(&l, 0, AxisKind::Loop);
    let mut steps = looped(&r, run(&[&barrier()]));
    steps.extend(run(&[&out.at(&l).store(&UOp::float(1.0, F))]));
    says(&fault(steps, 8, grid(1, 8)), &["`barrier`", "never comes"]);
}

#[test]
fn lanes_and_threads_may_not_depend_on_each_other_through_buffers() {
    // out[i] = out[(i + 1) % 8]
    let out = UOp::param(0, 8, F);
    let l = special("lidx0", 8);
    let (next, wrapped) = (&l + 1, (&l + 1).bin(Alu::And, &int(7)));
    let x = out.at(&wrapped).load();
    let y = &x + &l.cast(F);
    let steps = run(&[&next, &wrapped, &x, &l.cast(F), &y, &out.at(&l).store(&y)]);
    says(&fault(steps, 8, grid(1, 8)), &["of b0 was"]);
    // every iteration of the thread axis stores another value to the same place
    let t = range_over(&int(8), 0, AxisKind::Thread);
    let x = t.cast(F);
    let steps = looped(&t, run(&[&x, &out.at(&int(0)).store(&x)]));
    says(&fault(steps, 8, threads(8)), &["element 0 of b0 was written by", "too"]);
}

#[test]
fn scratch_does_not_carry_a_value_from_one_thread_iteration_to_the_next() {
    let out = UOp::param(0, 8, F);
    let t = range_over(&int(8), 0, AxisKind::Thread);
    let tile = local(0, 1, F);
    let gate = t.eq_(&int(0));
    let put = gated_store(&tile.at(&int(0)), &UOp::float(1.0, F), &gate, None);
    let x = tile.after([put.clone()]).at(&int(0)).load();
    let steps = looped(&t, run(&[&gate, &put, &x, &out.at(&t).store(&x)]));
    says(&fault(steps, 8, threads(8)), &["of l0"]);
}

#[test]
fn what_machines_leave_undefined_is_reported() {
    let (out, a) = (UOp::param(0, 4, DType::I32), UOp::param(1, 4, DType::I32));
    let undefined = |op: Alu, x: i32, y: i32| {
        let (p, q) = (a.at(&int(0)).load(), a.at(&int(1)).load());
        let z = p.bin(op, &q);
        let kernel = cpu_kernel(run(&[&p, &q, &z, &out.at(&int(0)).store(&z)]));
        launch(&kernel, &[vec![0; 4], vec![x, y, 0, 0]], &[], threads(1)).map(|v| v[0])
    };
    assert_eq!(undefined(Alu::Tdiv, -7, 2), Ok(-3));
    assert_eq!(undefined(Alu::Shl, 1, 31), Ok(i32::MIN));
    for (op, x, y, text) in [
        (Alu::Tdiv, 5, 0, "5 is divided by zero"),
        (Alu::Tdiv, i32::MIN, -1, "does not fit int32"),
        (Alu::Shl, 1, 32, "shifted by 32"),
        (Alu::Shr, 1, -1, "shifted by -1"),
    ] {
        says(&undefined(op, x, y).unwrap_err().to_string(), &[text]);
    }
}

#[test]
fn vector_accesses_of_a_gpu_are_aligned() {
    let (out, a) = (UOp::param(0, 16, F), UOp::param(1, 16, F));
    let l = special("lidx0", 2);
    for (offset, is_aligned) in [(0, true), (4, true), (2, false)] {
        let i = &(&l * 8) + offset;
        let x = a.at_lanes(&i, 4).load();
        let steps = run(&[&(&l * 8), &i, &x, &out.at_lanes(&i, 4).store(&x)]);
        if is_aligned {
            launch(&gpu_kernel(steps), &[vec![0.0f32; 16], vec![1.0; 16]], &[], grid(1, 2)).unwrap();
        } else {
            says(&fault(steps, 16, grid(1, 2)), &["16 bytes at index", "not aligned"]);
        }
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let out = UOp::param(0, 512, F);
    let (g, l) = (special("gidx0", 2), special("lidx0", 64));
    let (base, i) = (&g * 64, &(&g * 64) + &l);
    let kernel = gpu_kernel(run(&[&base, &i, &out.at(&i).store(&UOp::float(1.0, F))]));
    let bufs = [vec![0.0f32; 512]];
    let at = |global, local| LaunchDims { global, local, thread_extent: 1 };
    assert!(launch(&kernel, &bufs, &[], at([2, 1, 1], [64, 1, 1])).is_ok());
    for (dims, text) in [
        (at([2, 1, 1], [65, 1, 1]), "local size"),
        (at([2, 2000, 1], [64, 1, 1]), "global size"),
        (at([2, 3, 1], [64, 1, 1]), "a dimension the kernel does not use"),
        (at([3, 1, 1], [64, 1, 1]), "the launch has 3 of gidx0, the kernel 2"),
    ] {
        says(&launch(&kernel, &bufs, &[], dims).unwrap_err().to_string(), &[text]);
    }
    let (x, y) = (special("lidx0", 64), special("lidx1", 4));
    let i = &(&y * 64) + &x;
    let kernel = gpu_kernel(run(&[&(&y * 64), &i, &out.at(&i).store(&UOp::float(1.0, F))]));
    let message = launch(&kernel, &bufs, &[], at([1; 3], [64, 4, 1])).unwrap_err().to_string();
    says(&message, &["256 lanes in a block, at most 128"]);
}
