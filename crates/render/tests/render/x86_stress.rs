//! Machine code under strain: more values than registers, long loops, far places, many parameters, buffers that end
//! where memory does.

use crate::build::*;
use crate::x86::{levels, run_native};
use frit_abi::{Alu, DType, Target};
use frit_render::x86;
use frit_runtime::cpu::{Config, Cpu};
use frit_runtime::env::CacheSetting;
use frit_runtime::{Block, Device, Error, Memory};
use frit_uop::{AxisKind, Linear, Op, Space, Step, UOp};
use std::sync::Arc;

const F: DType = DType::F32;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(f32::of).collect()
}
fn bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.bytes()).collect()
}

/// `n` loads of `w` lanes that all live until the last is made, then all used twice.
fn crowd(n: usize, w: u32, d: DType) -> Vec<Step> {
    let (out, a) = (UOp::param(0, w as usize, d), UOp::param(1, n * w as usize, d));
    let at = |i: usize| a.at_lanes(&int((i * w as usize) as i64), w).load();
    let loads: Vec<UOp> = (0..n).map(at).collect();
    let mut nodes = loads.clone();
    let mut sum = loads[0].clone();
    for x in loads.iter().rev().chain(&loads) {
        sum = if d.is_float() {
            &sum + &(x * &UOp::float(0.5, d))
        } else {
            sum.bin(Alu::Xor, &(x * &UOp::int(3, d)))
        };
        nodes.extend([sum.src[1].clone(), sum.clone()]);
    }
    nodes.push(out.at_lanes(&int(0), w).store(&sum));
    let mut seen = rustc_hash::FxHashSet::default();
    nodes.into_iter().filter(|n| seen.insert(n.clone())).map(Step::Do).collect()
}

#[test]
fn values_that_do_not_fit_the_registers_go_to_the_stack() {
    for target in levels() {
        for w in [1, 4, 16] {
            let (n, w_) = (70, w as usize);
            let a: Vec<f32> = (0..n * w_).map(|i| (i % 13) as f32).collect();
            let bufs = [vec![0; 4 * w_], bytes(&a)];
            let got = run_native(&linear(crowd(n, w, F)), &target, &bufs, &[], 1).unwrap();
            let want: Vec<f32> = (0..w_).map(|l| a[l] + (0..n).map(|i| a[i * w_ + l]).sum::<f32>()).collect();
            assert_eq!(floats(&got[0]), want, "{} x{w}", target.name);
            let ints: Vec<i64> = (0..n * w_).map(|i| (i as i64 * 0x9E37_79B9) ^ 77).collect();
            let int_bytes: Vec<u8> = ints.iter().flat_map(|x| x.bytes()).collect();
            let steps = crowd(n, w, DType::I64);
            let got = run_native(&linear(steps), &target, &[vec![0; 8 * w_], int_bytes], &[], 1).unwrap();
            let got: Vec<i64> = got[0].chunks(8).map(i64::of).collect();
            let twice = |l: usize| {
                let x = |i: usize| ints[i * w_ + l].wrapping_mul(3);
                (0..n).fold(ints[l], |s, i| s ^ x(i) ^ x(i))
            };
            assert_eq!(got, (0..w_).map(twice).collect::<Vec<_>>(), "{} x{w}", target.name);
        }
    }
}

#[test]
fn addresses_and_what_was_loaded_from_them_go_to_the_stack_together() {
    // a loop whose 40 loads each have an index of their own; loads and indices are all used again at the end
    let n = 40usize;
    let (out, a) = (UOp::param(0, 64, F), UOp::param(1, 4096, F));
    let (picks, out_picks) = (UOp::param(2, n, DType::I32), UOp::param(3, 1, DType::I32));
    let r = range(8, 0);
    let (mut nodes, mut loads, mut places) = (vec![], vec![], vec![]);
    for i in 0..n {
        let p = picks.at(&int(i as i64)).load();
        let place = p.bin(Alu::And, &int(4087));
        let x = a.at_lanes(&place, 8).load();
        nodes.extend([p, place.clone(), x.clone()]);
        loads.push(x);
        places.push(place);
    }
    let mut sum = loads[0].clone();
    for x in loads.iter().chain(loads.iter().rev()) {
        sum = &sum + x;
        nodes.push(sum.clone());
    }
    let mut mixed = places[0].clone();
    for p in &places[1..] {
        mixed = mixed.bin(Alu::Xor, p);
        nodes.push(mixed.clone());
    }
    let at = &r * 8;
    nodes.extend([at.clone(), out.at_lanes(&at, 8).store(&sum), out_picks.at(&int(0)).store(&mixed)]);
    let mut seen = rustc_hash::FxHashSet::default();
    let steps: Vec<Step> = nodes.into_iter().filter(|n| seen.insert(n.clone())).map(Step::Do).collect();
    let steps = looped(&r, steps);
    let v: Vec<f32> = (0..4096).map(|i| (i % 9) as f32).collect();
    let rows: Vec<i32> = (0..n as i32).map(|i| i * 101 + 3).collect();
    let row_bytes: Vec<u8> = rows.iter().flat_map(|x| x.bytes()).collect();
    let at = |i: usize, k: usize| v[(rows[i] & 4087) as usize + k % 8];
    let want: Vec<f32> = (0..64).map(|k| at(0, k) + 2.0 * (0..n).map(|i| at(i, k)).sum::<f32>()).collect();
    let mixed = rows.iter().fold(0, |m, p| m ^ (p & 4087));
    for target in levels() {
        let bufs = [vec![0; 256], bytes(&v), row_bytes.clone(), vec![0; 4]];
        let got = run_native(&linear(steps.clone()), &target, &bufs, &[], 1).unwrap();
        assert_eq!(floats(&got[0]), want, "{}", target.name);
        assert_eq!(i32::of(&got[3]), mixed, "{}", target.name);
    }
}

#[test]
fn masks_that_do_not_fit_the_registers_go_to_the_stack() {
    // twelve comparisons live at once, eight at a time in each of two values
    let (out, a) = (UOp::param(0, 16, F), UOp::param(1, 16, F));
    let x = a.at_lanes(&int(0), 16).load();
    let tests: Vec<UOp> = (0..12).map(|i| x.lt(&UOp::float(i as f64, F))).collect();
    let mut nodes = vec![x.clone()];
    nodes.extend(tests.clone());
    let mut sum = UOp::float(0.0, F);
    for t in tests.iter().chain(tests.iter().rev()) {
        let one = t.select(&UOp::float(1.0, F), &UOp::float(0.25, F));
        sum = &one + &sum;
        nodes.extend([one, sum.clone()]);
    }
    nodes.push(out.at_lanes(&int(0), 16).store(&sum));
    let mut seen = rustc_hash::FxHashSet::default();
    let steps: Vec<Step> = nodes.into_iter().filter(|n| seen.insert(n.clone())).map(Step::Do).collect();
    let v: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let want: Vec<f32> =
        v.iter().map(|x| (0..12).map(|i| if *x < i as f32 { 2.0 } else { 0.5 }).sum()).collect();
    for target in levels() {
        let got = run_native(&linear(steps.clone()), &target, &[vec![0; 64], bytes(&v)], &[], 1).unwrap();
        assert_eq!(floats(&got[0]), want, "{}", target.name);
    }
}

#[test]
fn accumulators_stay_right_over_long_nested_loops() {
    // out[t] = sum over i, j of a[(i * 7 + j * 3 + t) % 512], 100 times 1000 rounds
    let (out, a) = (UOp::param(0, 4, F), UOp::param(1, 512, F));
    let t = range_over(&int(4), 0, AxisKind::Thread);
    let (i, j) = (range_over(&int(100), 1, AxisKind::Reduce), range_over(&int(1000), 2, AxisKind::Reduce));
    let acc = register(0, 1, F);
    let zero = acc.store(&UOp::float(0.0, F));
    let (p, q) = (&i * 7, &j * 3);
    let s = &p + &q;
    let u = &s + &t;
    let idx = u.bin(Alu::And, &int(511));
    let x = a.at(&idx).load();
    let before = acc.after([zero.clone(), i.clone(), j.clone()]).load();
    let sum = &before + &x;
    let keep = acc.store(&sum);
    let total = acc.after([keep.clone()]).load();
    let inner = looped(&j, run(&[&q, &s, &u, &idx, &x, &before, &sum, &keep]));
    let mut body = run(&[&p]);
    body.extend(inner);
    let mut steps = run(&[&zero]);
    steps.extend(looped(&i, body));
    steps.extend(run(&[&total, &out.at(&t).store(&total)]));
    let steps = looped(&t, steps);
    let v: Vec<f32> = (0..512).map(|i| (i % 5) as f32).collect();
    let at = |t: usize| (0..100 * 1000).map(|n| v[(n / 1000 * 7 + n % 1000 * 3 + t) % 512]).sum::<f32>();
    for target in levels() {
        let got = run_native(&linear(steps.clone()), &target, &[vec![0; 16], bytes(&v)], &[], 4).unwrap();
        assert_eq!(floats(&got[0]), (0..4).map(at).collect::<Vec<f32>>(), "{}", target.name);
    }
}

#[test]
fn loops_go_as_often_as_their_variable_says_also_never() {
    let (out, a) = (UOp::param(0, 6, F), UOp::param(1, 48, F));
    let n = UOp::new(frit_uop::Op::Variable, DType::I32, [], UOp::variable("n", 0, 8).arg.clone());
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
    let mut inside = run(&[&row, &zero]);
    inside.extend(looped(&r, run(&[&idx, &x, &before, &sum, &keep])));
    inside.extend(run(&[&total, &out.at(&t).store(&total)]));
    let steps = looped(&t, inside);
    let v: Vec<f32> = (0..48).map(|i| i as f32).collect();
    for target in levels() {
        for n in [0, 1, 3, 8] {
            let bufs = [bytes(&[-1.0; 6]), bytes(&v)];
            let got = run_native(&linear(steps.clone()), &target, &bufs, &[n], 6).unwrap();
            let want: Vec<f32> = v.chunks(8).map(|c| c[..n as usize].iter().sum()).collect();
            assert_eq!(floats(&got[0]), want, "{} {n}", target.name);
        }
    }
}

#[test]
fn places_further_than_an_instruction_can_say_are_reached() {
    // 2.4 GB of bytes that are never touched but at the ends
    let len = 2_400_000_000usize;
    let (out, a) = (UOp::param(0, 1, DType::U8), UOp::param(1, len, DType::U8));
    let idx = UOp::int(len as i64 - 1, DType::I64);
    let x = a.at(&idx).load();
    let back = gated_store(&a.at(&idx), &(&x + 1), &UOp::boolean(true), None);
    let plus = &x + 1;
    let steps = run(&[&x, &plus, &back, &out.at(&int(0)).store(&plus)]);
    for target in levels() {
        let kernel = x86::render(&linear(steps.clone()), &target).unwrap();
        let cpu = cpu();
        let loaded = cpu.load(&kernel).unwrap();
        let big = Arc::new(Guarded::new(len, true));
        let memory_of = |b: &Arc<Guarded>| Memory::new(b.clone() as Arc<dyn Block>);
        memory_of(&big).copy_in(len - 1, &[41]).unwrap();
        let small = memory::<u8>(&cpu, &[0]);
        loaded.launch(&[&small, &memory_of(&big)], &[], threads(1)).unwrap();
        assert_eq!(values::<u8>(&small), [42], "{}", target.name);
    }
}

#[test]
fn forty_parameters_are_all_read() {
    let n = 40;
    let out = UOp::param(0, 16, F);
    let params: Vec<UOp> = (1..=n).map(|i| UOp::param(i, 16, F)).collect();
    let r = range(2, 0);
    let at = &r * 8;
    let loads: Vec<UOp> = params.iter().map(|p| p.at_lanes(&at, 8).load()).collect();
    let mut nodes = vec![at.clone()];
    nodes.extend(loads.clone());
    let mut sum = loads[0].clone();
    for l in &loads[1..] {
        sum = &sum + l;
        nodes.push(sum.clone());
    }
    nodes.push(out.at_lanes(&at, 8).store(&sum));
    let steps = looped(&r, nodes.into_iter().map(Step::Do).collect());
    let mut bufs = vec![vec![0; 64]];
    bufs.extend((1..=n).map(|i| bytes(&[i as f32; 16])));
    for target in levels() {
        let got = run_native(&linear(steps.clone()), &target, &bufs, &[], 1).unwrap();
        assert_eq!(floats(&got[0]), [820.0; 16], "{}", target.name);
    }
}

#[test]
fn a_gemm_tile_keeps_its_accumulators_in_registers() {
    let k = 64;
    let program = crate::c::micro_kernel(k);
    let a: Vec<f32> = (0..6 * k).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..32 * k).map(|i| (i % 5) as f32 - 2.0).collect();
    let want: Vec<f32> = (0..6 * 32)
        .map(|n| (0..k).map(|r| a[(r * 6 + n / 32) as usize] * b[(r * 32 + n % 32) as usize]).sum())
        .collect();
    for target in levels().into_iter().filter(|t| t.supports(Alu::MulAcc, F)) {
        let got =
            run_native(&program, &target, &[vec![0; 6 * 32 * 4], bytes(&a), bytes(&b)], &[], 1).unwrap();
        assert_eq!(floats(&got[0]), want, "{}", target.name);
        if target.vector_bytes == 64 {
            let kernel = x86::render(&program, &target).unwrap();
            let text = cpu().load(&kernel).unwrap().disassembly().unwrap();
            let stack = text.lines().filter(|l| l.contains("[rsp")).count();
            assert_eq!(stack, 0, "{text}");
            assert_eq!(text.matches("vfmadd231ps").count(), 12, "{text}");
        }
    }
}

/// 28 accumulators: two vectors for each of 14 places of a window of three, K times.
fn window_kernel(k: i64) -> Linear {
    let (out, x, w) =
        (UOp::param(0, 28 * 16, F), UOp::param(1, 16 * k as usize, F), UOp::param(2, 96 * k as usize, F));
    let acc: Vec<UOp> = (0..28).map(|i| UOp::define(Space::Reg, i, 16, F)).collect();
    let zero: Vec<UOp> = acc.iter().map(|d| d.store(&UOp::float(0.0, F))).collect();
    let r = UOp::range(&int(k), 0, AxisKind::Reduce);
    let mut sums: Vec<UOp> =
        acc.iter().zip(&zero).map(|(d, z)| d.after([z.clone(), r.clone()]).load()).collect();
    for step in 0..3 {
        for (i, sum) in sums.iter_mut().enumerate() {
            let value = x.at(&(&r * 16 + (i as i64 / 2 + step))).load();
            let weights = w.at_lanes(&(&r * 96 + (step * 32 + i as i64 % 2 * 16)), 16).load();
            *sum = UOp::alu(Alu::MulAcc, &[&value, &weights, sum]);
        }
    }
    let stores: Vec<UOp> = acc.iter().zip(&sums).map(|(d, s)| d.store(s)).collect();
    // step by step, as they are read
    let (mut steps, mut there) = (zero.iter().cloned().map(Step::Do).collect::<Vec<_>>(), vec![]);
    steps.push(Step::Open(r.clone()));
    let by_step = |n: usize| sums.iter().map(move |s| (0..2 - n).fold(s, |s, _| &s.src[2]));
    for n in (0..3).flat_map(by_step).flat_map(|s| s.toposort()) {
        let is_done = matches!(n.op, Op::Load | Op::Mul | Op::Add | Op::MulAcc) && !there.contains(&n);
        if is_done {
            steps.push(Step::Do(n.clone()));
            there.push(n);
        }
    }
    steps.extend(stores.iter().cloned().map(Step::Do));
    steps.push(Step::Close(r.clone()));
    for (i, store) in stores.iter().enumerate() {
        let last = acc[i].after([store.end([r.clone()])]).load();
        steps.push(Step::Do(last.clone()));
        steps.push(Step::Do(out.at_lanes(&int(i as i64 * 16), 16).store(&last)));
    }
    linear(steps)
}

#[test]
fn values_of_a_window_are_operands_in_memory_before_a_sum_goes_to_the_stack() {
    let k = 5;
    let program = window_kernel(k);
    let x: Vec<f32> = (0..16 * k).map(|i| (i % 7) as f32 - 3.0).collect();
    let w: Vec<f32> = (0..96 * k).map(|i| (i % 5) as f32 - 2.0).collect();
    let at = |n: i64, r: i64, s: i64| {
        let (i, lane) = (n / 16, n % 16);
        x[(r * 16 + i / 2 + s) as usize] * w[(r * 96 + s * 32 + i % 2 * 16 + lane) as usize]
    };
    let sum = |n: i64| (0..k).flat_map(|r| (0..3).map(move |s| (r, s))).map(|(r, s)| at(n, r, s)).sum();
    let want: Vec<f32> = (0..28 * 16).map(sum).collect();
    for target in levels().into_iter().filter(|t| t.supports(Alu::MulAcc, F)) {
        let got = run_native(&program, &target, &[vec![0; 28 * 64], bytes(&x), bytes(&w)], &[], 1).unwrap();
        assert_eq!(floats(&got[0]), want, "{}", target.name);
        if target.vector_bytes == 64 {
            let kernel = x86::render(&program, &target).unwrap();
            let text = cpu().load(&kernel).unwrap().disassembly().unwrap();
            assert!(!text.contains("[rsp"), "{text}");
            assert!(text.matches("{1to16}").count() > 40, "{text}");
        }
    }
}

/// Sums over K rounds in `n` vectors of `w` lanes, then each is multiplied by `factors` others, and has them added, one after the
/// other: which all live until the last one's turn.
fn product_and_more(n: usize, w: usize, factors: usize, k: i64) -> Linear {
    let out = UOp::param(0, n * w, F);
    let [a, b, c] =
        [(1, k as usize), (2, n * w * k as usize), (3, factors * w)].map(|(i, n)| UOp::param(i, n, F));
    let acc: Vec<UOp> = (0..n).map(|i| UOp::define(Space::Reg, i as u32, w, F)).collect();
    let zero: Vec<UOp> = acc.iter().map(|d| d.store(&UOp::float(0.0, F))).collect();
    let mut steps: Vec<Step> = zero.iter().cloned().map(Step::Do).collect();
    let r = UOp::range(&int(k), 0, AxisKind::Reduce);
    let x = a.at(&r).load();
    steps.extend([Step::Open(r.clone()), Step::Do(x.clone())]);
    let mut stores = vec![];
    for i in 0..n {
        let before = acc[i].after([zero[i].clone(), r.clone()]).load();
        let y = b.at_lanes(&(&r * (n * w) as i64 + (i * w) as i64), w as u32).load();
        let sum = UOp::alu(Alu::MulAcc, &[&x, &y, &before]);
        stores.push(acc[i].store(&sum));
        steps.extend([before, y, sum, stores[i].clone()].map(Step::Do));
    }
    steps.push(Step::Close(r.clone()));
    let lasts: Vec<UOp> = (0..n).map(|i| acc[i].after([stores[i].end([r.clone()])]).load()).collect();
    let c: Vec<UOp> = (0..factors).map(|i| c.at_lanes(&int((i * w) as i64), w as u32).load()).collect();
    steps.extend(lasts.iter().chain(&c).cloned().map(Step::Do));
    for (i, last) in lasts.iter().enumerate() {
        let mut y = last.clone();
        for c in &c {
            let product = &y * c;
            y = &product + c;
            steps.extend([product, y.clone()].map(Step::Do));
        }
        steps.push(Step::Do(out.at_lanes(&int((i * w) as i64), w as u32).store(&y)));
    }
    linear(steps)
}

#[test]
fn what_comes_after_a_loop_takes_no_registers_from_it() {
    for target in levels().into_iter().filter(|t| t.supports(Alu::MulAcc, F)) {
        let (w, n, factors, k) = (target.vector_bytes / 4, target.registers - 3, 6, 9);
        let program = product_and_more(n, w, factors, k);
        let numbers = |n: usize, m: usize| -> Vec<f32> { (0..n).map(|i| (i % m) as f32 - 1.0).collect() };
        let (a, b, c) = (numbers(k as usize, 4), numbers(n * w * k as usize, 5), numbers(factors * w, 3));
        let want: Vec<f32> = (0..n * w)
            .map(|i| {
                let sum: f32 = (0..k as usize).map(|r| a[r] * b[r * n * w + i]).sum();
                (0..factors).fold(sum, |y, f| y * c[f * w + i % w] + c[f * w + i % w])
            })
            .collect();
        let bufs = [vec![0; n * w * 4], bytes(&a), bytes(&b), bytes(&c)];
        let got = run_native(&program, &target, &bufs, &[], 1).unwrap();
        assert_eq!(floats(&got[0]), want, "{}", target.name);
        let kernel = x86::render(&program, &target).unwrap();
        let text = cpu().load(&kernel).unwrap().disassembly().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let sums = |l: &&str| l.contains("vfmadd231ps");
        let [first, last] = [lines.iter().position(sums), lines.iter().rposition(sums)].map(Option::unwrap);
        assert!(lines[first..last].iter().all(|l| !l.contains("[rsp")), "{text}");
        assert!(lines[last..].iter().any(|l| l.contains("[rsp")), "{text}");
    }
}

fn cpu() -> Cpu {
    let isa = frit_abi::target::Isa::Portable;
    Cpu::new(Config {
        threads: 1,
        plan_threads: 1,
        isa,
        units: frit_runtime::env::Units::Off,
        cc: None,
        cache: CacheSetting::Off,
    })
}

/// Memory with nothing mapped just before and just behind it; it ends (or starts) exactly at the edge.
struct Guarded {
    base: *mut u8,
    whole: usize,
    at: *mut u8,
    len: usize,
}

impl Guarded {
    fn new(len: usize, at_end: bool) -> Guarded {
        let page = 4096usize;
        let room = len.next_multiple_of(page).max(page);
        let whole = room + 2 * page;
        // SAFETY: a fresh mapping of our own; the pages in the middle are made accessible.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let base = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.add(page), room, libc::PROT_READ | libc::PROT_WRITE), 0);
            base as *mut u8
        };
        let at = base.wrapping_add(page + if at_end { room - len } else { 0 });
        Guarded { base, whole, at, len }
    }
}
impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which no one uses any more.
        unsafe { libc::munmap(self.base.cast(), self.whole) };
    }
}
// SAFETY: plain memory, used by one test at a time.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}
// SAFETY: `len` bytes at `at` are mapped, readable and writable as long as this lives.
unsafe impl Block for Guarded {
    fn len(&self) -> usize {
        self.len
    }
    fn address(&self) -> u64 {
        self.at as u64
    }
    fn host_ptr(&self) -> Option<*mut u8> {
        Some(self.at)
    }
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        // SAFETY: `Memory` checked that the range lies inside.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.at.add(offset), data.len()) };
        Ok(())
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(offset), data.as_mut_ptr(), data.len()) };
        Ok(())
    }
}

/// Run on buffers that end, and then that start, where memory does.
fn run_guarded(linear: &Linear, target: &Target, bufs: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let cpu = cpu();
    let kernel = x86::render(linear, target).unwrap();
    let loaded = cpu.load(&kernel).unwrap();
    let once = |at_end: bool| {
        let memories: Vec<Memory> = bufs
            .iter()
            .map(|b| {
                let m = Memory::new(Arc::new(Guarded::new(b.len(), at_end)));
                m.copy_in(0, b).unwrap();
                m
            })
            .collect();
        loaded.launch(&memories.iter().collect::<Vec<_>>(), &[], threads(1)).unwrap();
        memories.iter().map(values).collect::<Vec<Vec<u8>>>()
    };
    [false, true].map(once).to_vec()
}

#[test]
fn gated_lanes_touch_no_memory_and_vectors_end_where_buffers_do() {
    // 16 lanes are asked for at -3 and at 8: only those inside a buffer of 13 are there
    for target in levels() {
        for d in [DType::F32, DType::F64, DType::I32, DType::U8, DType::I16, DType::Bool] {
            for from in [-3i64, 8] {
                let (w, n) = (16usize, 13usize);
                let (out, a) = (UOp::param(0, n, d), UOp::param(1, n, d));
                let lanes = UOp::stack((0..w as i64).map(|i| int(i + from)));
                let gate = int(-1).lt(&lanes).and_(&lanes.lt(&int(n as i64)));
                let x = gated_load(&a.at_lanes(&int(from), w as u32), &UOp::int(1, d), &gate, None);
                let store = gated_store(&out.at_lanes(&int(from), w as u32), &x, &gate, None);
                let gates = [gate.src[0].clone(), gate.src[1].clone()];
                let steps = run(&[&lanes, &gates[0], &gates[1], &gate, &x, &store]);
                let (size, one) = (d.size(), |i: usize| (i % 2) as u8);
                let data: Vec<u8> = (0..n * size).map(|i| if size == 1 { one(i) } else { i as u8 }).collect();
                let untouched = vec![if d == DType::Bool { 1 } else { 9u8 }; n * size];
                for got in run_guarded(&linear(steps.clone()), &target, &[untouched.clone(), data.clone()]) {
                    let inside = |i: &usize| (0..w).any(|l| l as i64 + from == *i as i64);
                    let want: Vec<u8> = (0..n)
                        .flat_map(|i| {
                            if inside(&i) {
                                data[i * size..][..size].to_vec()
                            } else {
                                untouched[..size].to_vec()
                            }
                        })
                        .collect();
                    assert_eq!(got[0], want, "{} {d} from {from}", target.name);
                }
            }
        }
        // without a gate: the last vector of a buffer, each narrower than the machine's
        for w in [1u32, 2, 4, 8, 16] {
            for d in [DType::U8, DType::I16, DType::F32, DType::F64] {
                let n = w as usize;
                let (out, a) = (UOp::param(0, n, d), UOp::param(1, n, d));
                let x = a.at_lanes(&int(0), w).load();
                let y = &x + &x;
                let steps = run(&[&x, &y, &out.at_lanes(&int(0), w).store(&y)]);
                run_guarded(&linear(steps), &target, &[vec![0; n * d.size()], vec![1; n * d.size()]]);
            }
        }
    }
}
