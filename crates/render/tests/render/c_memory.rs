//! Loads, stores, gates, misses, scratch and threads in C, on the CPU.

use crate::build::*;
use frit_abi::{Alu, DType, Target};
use frit_render::c;
use frit_runtime::{Error, Memory};
use frit_uop::{AxisKind, Op, Step, UOp};

const F: DType = DType::F32;

/// Run as C for vectors of this many bytes.
fn launch_c<T: Element>(
    steps: Vec<Step>,
    vector_bytes: usize,
    bufs: &[Vec<T>],
    vars: &[i64],
    extent: i64,
) -> Result<Vec<T>, Error> {
    let device = frit_runtime::cpu::open()?;
    let target = Target { vector_bytes, ..device.target().clone() };
    let kernel = c::render(&linear(steps), &target).unwrap();
    let memories: Vec<Memory> = bufs.iter().map(|b| memory(&*device, b)).collect();
    let loaded = device.load(&kernel)?;
    loaded.launch(&memories.iter().collect::<Vec<_>>(), vars, threads(extent))?;
    device.synchronize()?;
    Ok(values(&memories[0]))
}

#[test]
fn scalar_gates_read_the_alternative_and_store_nothing() {
    let (out, a) = (UOp::param(0, 8, F), UOp::param(1, 4, F));
    let r = range(8, 0);
    let i = &r - 2;
    let (low, high, last) = (int(1).lt(&r), r.lt(&int(6)), r.lt(&int(7)));
    let gate = low.and_(&high);
    let x = gated_load(&a.at(&i), &UOp::float(7.0, F), &gate, None);
    let store = gated_store(&out.at(&r), &x, &last, None);
    let steps = looped(&r, run(&[&i, &low, &high, &gate, &last, &x, &store]));
    let got = launch_c(steps, 64, &[vec![9.0f32; 8], vec![1.0, 2.0, 3.0, 4.0]], &[], 1).unwrap();
    assert_eq!(got, [7.0, 7.0, 1.0, 2.0, 3.0, 4.0, 7.0, 9.0]);
}

/// `0, 1, … n-1` as a vector.
fn lanes(n: i64) -> UOp {
    UOp::stack((0..n).map(int))
}

#[test]
fn every_lane_has_its_gate() {
    // lanes 0..11 are loaded, 2.. are stored, whatever the vectors of the machine
    for (bytes, w) in [(64, 16), (32, 16), (16, 16), (64, 4)] {
        for d in [F, DType::I32, DType::F64, DType::U8] {
            let (out, a) = (UOp::param(0, w, d), UOp::param(1, w, d));
            let n = lanes(w as i64);
            let inside = n.lt(&int(11));
            let late = int(1).lt(&n);
            let x = gated_load(&a.at_lanes(&int(0), w as u32), &UOp::int(7, d), &inside, None);
            let store = gated_store(&out.at_lanes(&int(0), w as u32), &x, &late, None);
            let steps = || run(&[&n, &inside, &late, &x, &store]);
            let want: Vec<u8> = (0..w as u8)
                .map(|i| [9, 9].get(i as usize).copied().unwrap_or(if i < 11 { i } else { 7 }))
                .collect();
            macro_rules! check {
                ($t:ty) => {{
                    let a: Vec<$t> = (0..w).map(|i| i as $t).collect();
                    let got = launch_c(steps(), bytes, &[vec![9 as $t; w], a], &[], 1).unwrap();
                    assert_eq!(
                        got,
                        want.iter().map(|&x| x as $t).collect::<Vec<_>>(),
                        "{d} in {bytes} bytes"
                    );
                }};
            }
            match d {
                DType::I32 => check!(i32),
                DType::F64 => check!(f64),
                DType::U8 => check!(u8),
                _ => check!(f32),
            }
        }
    }
}

#[test]
fn lanes_may_come_from_places_of_their_own_and_go_there() {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 3, F));
    let picks = UOp::stack([2, 0, 5, 1].map(int));
    let gate = picks.lt(&int(3));
    let x = gated_load(&a.at(&picks), &UOp::float(-1.0, F), &gate, None);
    let back = UOp::stack([3, 2, 1, 0].map(int));
    let store = out.at(&back).store(&x);
    let steps = run(&[&picks, &gate, &x, &back, &store]);
    let got = launch_c(steps, 64, &[vec![9.0f32; 4], vec![1.0, 2.0, 3.0]], &[], 1).unwrap();
    assert_eq!(got, [2.0, -1.0, 1.0, 3.0]);
}

#[test]
fn a_checked_miss_is_an_error_with_its_site() {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 4, F));
    for (from, site) in [(0, None), (2, Some(41))] {
        let r = range(4, 0);
        let i = &r + from;
        let inside = i.lt(&int(4));
        let x = gated_load(&a.at(&i), &UOp::float(0.0, F), &inside, Some(41));
        let steps = looped(&r, run(&[&i, &inside, &x, &out.at(&r).store(&x)]));
        let wide = &lanes(4) + &int(from);
        let ok = wide.lt(&int(4));
        let v = gated_load(&a.at_lanes(&int(from), 4), &UOp::float(0.0, F), &ok, Some(41));
        let vector = run(&[&wide, &ok, &v, &out.at_lanes(&int(0), 4).store(&v)]);
        for steps in [steps, vector.into_iter().flat_map(with_sources).collect()] {
            let got = launch_c(steps, 64, &[vec![0.0f32; 4], vec![1.0; 4]], &[], 1);
            assert_eq!(got.err(), site.map(|site| Error::Index { kernel: "test".into(), site }));
        }
    }
}

/// A step and before it the stacks it uses.
fn with_sources(step: Step) -> Vec<Step> {
    let Step::Do(n) = &step else { return vec![step] };
    let mut out: Vec<Step> = n.src.iter().filter(|s| s.op == Op::Stack).cloned().map(Step::Do).collect();
    out.push(step);
    out
}

#[test]
fn threads_have_scratch_of_their_own_and_loops_take_their_extent_from_variables() {
    // out[t] = sum over n of a[t * 8 + n], each put in scratch first, backwards
    let (out, a) = (UOp::param(0, 6, F), UOp::param(1, 48, F));
    let n = UOp::new(Op::Variable, DType::I32, [], UOp::variable("n", 1, 8).arg.clone());
    let t = range_over(&int(6), 0, AxisKind::Thread);
    let (fill, r) = (range_over(&n, 1, AxisKind::Loop), range_over(&n, 2, AxisKind::Reduce));
    let tile = local(0, 8, F);
    let (row, seven) = (&t * 8, int(7));
    let (from, to) = (&row + &fill, &seven - &fill);
    let x = a.at(&from).load();
    let put = tile.at(&to).store(&x);
    let acc = register(1, 1, F);
    let zero = acc.store(&UOp::float(0.0, F));
    let at = &seven - &r;
    let y = tile.after([put.clone()]).at(&at).load();
    let before = acc.after([zero.clone(), r.clone()]).load();
    let sum = &before + &y;
    let keep = acc.store(&sum);
    let total = acc.after([keep.clone()]).load();
    let mut inside = run(&[&row]);
    inside.extend(looped(&fill, run(&[&from, &to, &x, &put])));
    inside.extend(run(&[&zero]));
    inside.extend(looped(&r, run(&[&at, &y, &before, &sum, &keep])));
    inside.extend(run(&[&total, &out.at(&t).store(&total)]));
    let steps = looped(&t, inside);
    let a: Vec<f32> = (0..48).map(|i| i as f32).collect();
    for n in [1, 3, 8] {
        let got = launch_c(steps.clone(), 64, &[vec![-1.0; 6], a.clone()], &[n], 6).unwrap();
        let want: Vec<f32> = a.chunks(8).map(|c| c[..n as usize].iter().sum()).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn a_value_wider_than_a_vector_is_several() {
    // float64 of 16 lanes in a register variable: the sum of four rows
    let (out, a) = (UOp::param(0, 16, DType::F64), UOp::param(1, 64, DType::F64));
    let acc = register(0, 16, DType::F64);
    let zero = acc.store(&UOp::float(0.0, DType::F64));
    let r = range(4, 0);
    let i = &r * 16;
    let x = a.at_lanes(&i, 16).load();
    let before = acc.after([zero.clone(), r.clone()]).load();
    let sum = UOp::alu(Alu::MulAcc, &[&x, &UOp::float(2.0, DType::F64), &before]);
    let keep = acc.store(&sum);
    let total = acc.after([keep.clone()]).load();
    let mut steps = run(&[&zero]);
    steps.extend(looped(&r, run(&[&i, &x, &before, &sum, &keep])));
    steps.extend(run(&[&total, &out.at_lanes(&int(0), 16).store(&total)]));
    let a: Vec<f64> = (0..64).map(|i| i as f64).collect();
    for bytes in [64, 32, 16] {
        let got = launch_c(steps.clone(), bytes, &[vec![0.0; 16], a.clone()], &[], 1).unwrap();
        let want: Vec<f64> = (0..16).map(|j| (0..4).map(|r| 2.0 * a[r * 16 + j]).sum()).collect();
        assert_eq!(got, want);
    }
}
