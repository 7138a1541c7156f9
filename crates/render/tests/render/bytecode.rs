//! Programs that are right give right results, as a CPU and as a GPU.

use crate::build::*;
use frit_abi::{Alu, Code, DType, Scalar};
use frit_render::Error;
use frit_uop::{AxisKind, UOp};

const F: DType = DType::F32;

#[test]
fn vectors_are_added_in_a_loop() {
    let (out, a, b) = (UOp::param(0, 16, F), UOp::param(1, 16, F), UOp::param(2, 16, F));
    let r = range(4, 0);
    let i = &r * 4;
    let (x, y) = (a.at_lanes(&i, 4).load(), b.at_lanes(&i, 4).load());
    let sum = &x + &y;
    let store = out.at_lanes(&i, 4).store(&sum);
    let kernel = cpu_kernel(looped(&r, run(&[&i, &x, &y, &sum, &store])));
    let Code::Bytecode(program) = &kernel.code else { panic!() };
    assert_eq!(
        program.to_string(),
        "\
kernel test: 3 buffers
   0  r0:int32 = 4
   1  for r1:int32 < r0
   2    r2:int32 = Mul r1, r0
   3    r3:float32x4 = load b1[r2]
   4    r4:float32x4 = load b2[r2]
   5    r5:float32x4 = Add r3, r4
   6    store b0[r2] = r5
   7  end
"
    );
    let a: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let got = launch(&kernel, &[vec![0.0; 16], a.clone(), vec![0.5; 16]], &[], threads(1)).unwrap();
    assert_eq!(got, a.iter().map(|x| x + 0.5).collect::<Vec<_>>());
}

#[test]
fn lanes_are_stacked_and_taken_apart_and_scalars_meet_vectors() {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 4, F));
    let x = a.at_lanes(&int(0), 4).load();
    let lanes: Vec<UOp> = (0..4).map(|i| x.lane(3 - i)).collect();
    let back = UOp::stack(lanes.clone());
    let doubled = &back * &UOp::float(2.0, F);
    let small = doubled.lt(&UOp::float(5.0, F));
    let chosen = small.select(&UOp::float(-1.0, F), &doubled);
    let store = out.at_lanes(&int(0), 4).store(&chosen);
    let mut steps = run(&[&x]);
    steps.extend(run(&lanes.iter().collect::<Vec<_>>()));
    steps.extend(run(&[&back, &doubled, &small, &chosen, &store]));
    let got = launch(&cpu_kernel(steps), &[vec![0.0f32; 4], vec![1.0, 2.0, 3.0, 4.0]], &[], threads(1));
    assert_eq!(got.unwrap(), [8.0, 6.0, -1.0, -1.0]);
}

#[test]
fn an_accumulator_carries_a_sum_over_a_symbolic_loop_in_every_thread() {
    // out[t] = sum over n of a[t * 8 + n], threads and n from the launch
    let (out, a) = (UOp::param(0, 6, F), UOp::param(1, 48, F));
    let n = UOp::new(frit_uop::Op::Variable, DType::I32, [], UOp::variable("n", 1, 8).arg.clone());
    let t = range_over(&int(6), 0, AxisKind::Thread);
    let r = range_over(&n, 1, AxisKind::Reduce);
    let acc = register(0, 1, F);
    let (row, zero) = (&t * 8, acc.store(&UOp::float(0.0, F)));
    let idx = &row + &r;
    let x = a.at(&idx).load();
    let before = acc.after([zero.clone(), r.clone()]).load();
    let sum = &before + &x;
    let keep = acc.store(&sum);
    let total = acc.after([keep.clone()]).load();
    let store = out.at(&t).store(&total);
    let mut inside = run(&[&row, &zero]);
    inside.extend(looped(&r, run(&[&idx, &x, &before, &sum, &keep])));
    inside.extend(run(&[&total, &store]));
    let kernel = cpu_kernel(looped(&t, inside));
    let a: Vec<f32> = (0..48).map(|i| i as f32).collect();
    for n in [1, 3, 8] {
        let got = launch(&kernel, &[vec![-1.0; 6], a.clone()], &[n], threads(6)).unwrap();
        let want: Vec<f32> = a.chunks(8).map(|c| c[..n as usize].iter().sum()).collect();
        assert_eq!(got, want);
    }
    let message = launch(&kernel, &[vec![-1.0; 6], a], &[1], threads(5)).unwrap_err().to_string();
    assert!(message.contains("thread axis of 5, the kernel one of 6"), "{message}");
}

#[test]
fn gated_loads_read_the_alternative_and_gated_stores_store_nothing() {
    // out[i] = a[i - 2] inside, 7 outside; the last element is not stored
    let (out, a) = (UOp::param(0, 8, F), UOp::param(1, 4, F));
    let r = range(8, 0);
    let i = &r - 2;
    let (low, high, last) = (int(1).lt(&r), r.lt(&int(6)), r.lt(&int(7)));
    let gate = low.and_(&high);
    let x = gated_load(&a.at(&i), &UOp::float(7.0, F), &gate, None);
    let store = gated_store(&out.at(&r), &x, &last, None);
    let kernel = cpu_kernel(looped(&r, run(&[&i, &low, &high, &gate, &last, &x, &store])));
    let got = launch(&kernel, &[vec![9.0f32; 8], vec![1.0, 2.0, 3.0, 4.0]], &[], threads(1)).unwrap();
    assert_eq!(got, [7.0, 7.0, 1.0, 2.0, 3.0, 4.0, 7.0, 9.0]);
}

#[test]
fn each_lane_of_a_vector_access_has_its_gate_and_may_have_its_index() {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 3, F));
    let picks = UOp::stack([2, 0, 5, 1].map(int));
    let gate = picks.lt(&int(3));
    let x = gated_load(&a.at(&picks), &UOp::float(-1.0, F), &gate, None);
    let store = out.at_lanes(&int(0), 4).store(&x);
    let kernel = cpu_kernel(run(&[&picks, &gate, &x, &store]));
    let got = launch(&kernel, &[vec![9.0f32; 4], vec![1.0, 2.0, 3.0]], &[], threads(1)).unwrap();
    assert_eq!(got, [3.0, 1.0, -1.0, 2.0]);
}

#[test]
fn a_checked_miss_is_an_error_with_its_site() {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 4, F));
    for (from, site) in [(0, None), (2, Some(41))] {
        let r = range(4, 0);
        let i = &r + from;
        let inside = i.lt(&int(4));
        let x = gated_load(&a.at(&i), &UOp::float(0.0, F), &inside, Some(41));
        let store = out.at(&r).store(&x);
        let kernel = cpu_kernel(looped(&r, run(&[&i, &inside, &x, &store])));
        let got = launch(&kernel, &[vec![0.0f32; 4], vec![1.0; 4]], &[], threads(1));
        let index = site.map(|site| frit_runtime::Error::Index { kernel: "test".into(), site });
        assert_eq!(got.err(), index);
    }
}

#[test]
fn casts_saturate_and_bitcasts_keep_bits() {
    let (out, a) = (UOp::param(0, 6, DType::I32), UOp::param(1, 6, DType::I32));
    let r = range(6, 0);
    let bits = a.at(&r).load();
    let x = bits.bitcast(F);
    let y = x.cast(DType::I32);
    let store = out.at(&r).store(&y);
    let kernel = cpu_kernel(looped(&r, run(&[&bits, &x, &y, &store])));
    let floats = [3e9f32, -3e9, f32::NAN, -1.9, f32::INFINITY, 100.5].map(|f| f.to_bits() as i32);
    let got = launch(&kernel, &[vec![0; 6], floats.to_vec()], &[], threads(1)).unwrap();
    assert_eq!(got, [i32::MAX, i32::MIN, 0, -1, i32::MAX, 100]);
}

#[test]
fn every_operation_runs_on_every_type_in_scalars_and_vectors() {
    for dtype in frit_abi::dtype::ALL {
        let picks = [3, 1, 2, 5].map(|v| UOp::int(v, dtype));
        for op in Alu::ALL {
            let results: Vec<UOp> = [false, true]
                .iter()
                .map(|&is_vector| {
                    let x = if is_vector { UOp::stack(picks.clone()) } else { picks[0].clone() };
                    let gate = UOp::boolean(true);
                    let all = [if op == Alu::Where { &gate } else { &x }, &x, &picks[1]];
                    UOp::alu(op, &all[..op.arity()])
                })
                .collect();
            let result = results[0].dtype;
            let out = UOp::param(0, 5, result);
            let stores = [out.at(&int(0)).store(&results[0]), out.at_lanes(&int(1), 4).store(&results[1])];
            let stack = UOp::stack(picks.clone());
            let steps = run(&[&stack, &results[0], &results[1], &stores[0], &stores[1]]);
            let kernel = cpu_kernel(steps);
            let size = result.size();
            let bytes = launch(&kernel, &[vec![0u8; 5 * size]], &[], threads(1)).unwrap();
            let element = |i: usize| {
                let raw = bytes[i * size..][..size].iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
                Scalar::from_bits(raw, result)
            };
            for (i, v) in [3, 3, 1, 2, 5].into_iter().enumerate() {
                let x = Scalar::int(v, dtype);
                let all = [if op == Alu::Where { Scalar::Bool(true) } else { x }, x, Scalar::int(1, dtype)];
                let want = match op.arity() {
                    1 => Scalar::alu(op, dtype, &all[..1]),
                    2 => Scalar::alu(op, dtype, &[x, x]),
                    _ => Scalar::alu(op, dtype, &all),
                };
                assert_eq!(element(i), want, "{op:?} {dtype} of {v}");
            }
        }
    }
}

/// `out[block] = sum of a[block * 8 ..]`, a tree over eight lanes in a loop with barriers.
pub fn grouped_sum() -> Parts {
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 32, F));
    let (g, l) = (special("gidx0", 4), special("lidx0", 8));
    let tile = local(0, 8, F);
    let base = &g * 8;
    let i = &base + &l;
    let x = a.at(&i).load();
    let put = tile.at(&l).store(&x);
    let round = range(3, 0);
    let half = int(4).bin(Alu::Shr, &round);
    let active = l.lt(&half);
    let other = &l + &half;
    let zero = UOp::float(0.0, F);
    let mine = gated_load(&tile.after([put.clone(), round.clone()]).at(&l), &zero, &active, None);
    let theirs = gated_load(&tile.after([put.clone(), round.clone()]).at(&other), &zero, &active, None);
    let sum = &mine + &theirs;
    let keep = gated_store(&tile.at(&l), &sum, &active, None);
    let is_first = l.eq_(&int(0));
    let total = gated_load(&tile.after([keep.clone()]).at(&int(0)), &zero, &is_first, None);
    let store = gated_store(&out.at(&g), &total, &is_first, None);
    Parts {
        fill: run(&[&base, &i, &x, &put]),
        round,
        inside: run(&[&half, &active, &other, &mine, &theirs, &sum, &keep]),
        finish: run(&[&is_first, &total, &store]),
    }
}

/// The pieces of the grouped sum, to be put together with and without barriers.
pub struct Parts {
    pub fill: Vec<frit_uop::Step>,
    pub round: UOp,
    pub inside: Vec<frit_uop::Step>,
    pub finish: Vec<frit_uop::Step>,
}

impl Parts {
    pub fn join(self, after_fill: bool, in_loop: bool) -> Vec<frit_uop::Step> {
        let bar = || run(&[&barrier()]);
        let mut inside = self.inside;
        inside.extend(if in_loop { bar() } else { vec![] });
        let mut steps = self.fill;
        steps.extend(if after_fill { bar() } else { vec![] });
        steps.extend(looped(&self.round, inside));
        steps.extend(self.finish);
        steps
    }
}

#[test]
fn lanes_of_a_block_reduce_through_local_memory() {
    let kernel = gpu_kernel(grouped_sum().join(true, true));
    assert_eq!(kernel.scratch, 64);
    let a: Vec<f32> = (0..32).map(|i| (i * i) as f32).collect();
    let got = launch(&kernel, &[vec![0.0; 4], a.clone()], &[], grid(4, 8)).unwrap();
    assert_eq!(got, a.chunks(8).map(|c| c.iter().sum()).collect::<Vec<f32>>());
}

#[test]
fn programs_that_break_the_rules_are_refused() {
    let (a, out) = (UOp::param(0, 4, F), UOp::param(1, 4, F));
    let r = range(4, 0);
    let x = a.at(&r).load();
    let refuse =
        |steps, target: &frit_abi::Target| match frit_render::bytecode::render(&linear(steps), target) {
            Err(e) => e,
            Ok(_) => panic!("it was rendered"),
        };
    let (cpu, gpu) = (frit_abi::Target::interp(), frit_abi::Target::interp_gpu());
    // a value that left its loop
    let mut steps = looped(&r, run(&[&x]));
    steps.extend(run(&[&out.at(&int(0)).store(&x)]));
    let message = refuse(steps, &cpu).to_string();
    assert!(message.contains("used where it is not computed"), "{message}");
    // a loop that stays open, and one that was not opened
    assert!(matches!(refuse(vec![frit_uop::Step::Open(r.clone())], &cpu), Error::Malformed { .. }));
    assert!(matches!(refuse(vec![frit_uop::Step::Close(r.clone())], &cpu), Error::Malformed { .. }));
    // an operation and a vector the target does not have
    let e = x.un(Alu::Exp);
    let unsupported = refuse(looped(&r, run(&[&x, &e])), &gpu);
    assert_eq!(unsupported.to_string(), "kernel test: interp-gpu has no Exp on float32");
    let v = a.at_lanes(&int(0), 4).load();
    let message = refuse(run(&[&v, &(&v + &v)]), &gpu).to_string();
    assert!(message.contains("4 lanes on a target with scalar arithmetic"), "{message}");
    // too much local memory; undecided width
    let tile = local(0, 1 << 13, F).at(&int(0)).store(&UOp::float(0.0, F));
    assert!(matches!(refuse(run(&[&tile]), &gpu), Error::Limit { .. }));
    let wide = UOp::range(&UOp::index(4), 0, AxisKind::Loop);
    let message = refuse(looped(&wide, vec![]), &cpu).to_string();
    assert!(message.contains("no decided width"), "{message}");
}

#[test]
fn extents_may_be_computed_from_variables() {
    let n = UOp::new(frit_uop::Op::Variable, DType::I32, [], UOp::variable("n", 1, 8).arg.clone());
    let out = UOp::param(0, 16, F);
    let blocks = &n * 2;
    let g =
        UOp::new(frit_uop::Op::Special, DType::I32, [blocks.clone()], frit_uop::Arg::Name("gidx0".into()));
    let l = special("lidx0", 1);
    let i = &g + &l;
    // the extent is a step too
    let kernel = gpu_kernel(run(&[&blocks, &i, &out.at(&i).store(&UOp::float(1.0, F))]));
    let got = launch(&kernel, &[vec![0.0f32; 16]], &[3], grid(6, 1)).unwrap();
    assert_eq!(got.iter().sum::<f32>(), 6.0);
}
