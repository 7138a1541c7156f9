//! Lower, compile and time a few kernels on this machine's CPU: `cargo run --release -p frit-codegen --example kernels
//! [names…]`. Prints the opts the heuristic chose, the time to lower, and the speed.

use frit_abi::{LaunchDims, Target};
use frit_codegen::{Opts, lower_and_watch};
use frit_uop::{Alu, AxisKind, DType, Op, UOp};
use std::time::{Duration, Instant};

const F: DType = DType::F32;

fn range(n: i64, id: u32, kind: AxisKind) -> UOp {
    UOp::range(&UOp::index(n), id, kind)
}
fn global(n: i64, id: u32) -> UOp {
    range(n, id, AxisKind::Global)
}
fn red(n: i64, id: u32) -> UOp {
    range(n, id, AxisKind::Reduce)
}
fn buf(slot: u32, len: i64) -> UOp {
    UOp::param(slot, len as usize, F)
}

fn matmul(m: i64, n: i64, k: i64, ta: bool, tb: bool) -> UOp {
    let (i, j, r) = (global(m, 0), global(n, 1), red(k, 2));
    let a = buf(1, m * k).at(&if ta { &r * m + &i } else { &i * k + &r }).load();
    let b = buf(2, k * n).at(&if tb { &j * k + &r } else { &r * n + &j }).load();
    let x = (&a * &b).reduce(Alu::Add, [r]);
    UOp::sink([buf(0, m * n).at(&(&i * n + &j)).store(&x).end([i, j])])
}
fn elementwise(n: i64) -> UOp {
    let i = global(n, 0);
    let x = |s| buf(s, n).at(&i).load();
    let v = (x(1) * &x(2) + &x(3)).bin(Alu::Max, &UOp::float(0.0, F));
    UOp::sink([buf(0, n).at(&i).store(&v).end([i.clone()])])
}
fn sum(n: i64) -> UOp {
    let (i, r) = (global(256, 0), red(n / 256, 1));
    let x = buf(1, n).at(&(&i * (n / 256) + &r)).load().reduce(Alu::Add, [r]);
    UOp::sink([buf(0, 256).at(&i).store(&x).end([i])])
}
fn sum_rows(m: i64, n: i64) -> UOp {
    let (i, r) = (global(m, 0), red(n, 1));
    let x = buf(1, n * m).at(&(&i * n + &r)).load().reduce(Alu::Add, [r]);
    UOp::sink([buf(0, m).at(&i).store(&x).end([i])])
}
fn sum_columns(m: i64, n: i64) -> UOp {
    let (j, r) = (global(n, 0), red(m, 1));
    let x = buf(1, n * m).at(&(&r * n + &j)).load().reduce(Alu::Add, [r]);
    UOp::sink([buf(0, n).at(&j).store(&x).end([j])])
}
fn softmax(rows: i64, n: i64) -> UOp {
    let (g, r, q) = (global(rows, 0), red(n, 1), range(n, 2, AxisKind::Loop));
    let x = |i: &UOp| buf(1, rows * n).at(&(&g * n + i)).load();
    let m = x(&r).reduce(Alu::Max, [r.clone()]);
    let s = (x(&r) - &m).un(Alu::Exp).reduce(Alu::Add, [r.clone()]);
    let v = (x(&q) - &m).un(Alu::Exp).bin(Alu::Fdiv, &s);
    UOp::sink([buf(0, rows * n).at(&(&g * n + &q)).store(&v).end([g.clone(), q])])
}
fn transpose(n: i64) -> UOp {
    let (i, j) = (global(n, 0), global(n, 1));
    let x = buf(1, n * n).at(&(&j * n + &i)).load();
    UOp::sink([buf(0, n * n).at(&(&i * n + &j)).store(&x).end([i, j])])
}
/// Channels, size and kernel; `pad` keeps the size.
fn conv(n: i64, ci: i64, co: i64, s: i64, k: i64, pad: i64, stride: i64) -> UOp {
    let o_ = (s + 2 * pad - k) / stride + 1;
    let (b, o, y, x) = (global(n, 0), global(co, 1), global(o_, 2), global(o_, 3));
    let (c, dy, dx) = (red(ci, 4), red(k, 5), red(k, 6));
    let (iy, ix) = (&y * stride + &dy - pad, &x * stride + &dx - pad);
    let at = ((&b * ci + &c) * s + &iy) * s + &ix;
    let inside = |i: &UOp| i.ge_int(&UOp::index(0)).and_(&i.lt(&UOp::index(s)));
    let at = if pad > 0 { inside(&iy).and_(&inside(&ix)).select(&at, &UOp::invalid()) } else { at };
    let input = buf(1, n * ci * s * s).at(&at).load();
    let weight = buf(2, co * ci * k * k).at(&(((&o * ci + &c) * k + &dy) * k + &dx)).load();
    let bias = buf(3, co).at(&o).load();
    let v = ((&input * &weight).reduce(Alu::Add, [c, dy, dx]) + &bias).bin(Alu::Max, &UOp::float(0.0, F));
    let out = ((&b * co + &o) * o_ + &y) * o_ + &x;
    UOp::sink([buf(0, n * co * o_ * o_).at(&out).store(&v).end([b, o, y, x])])
}
/// The weight gradient of a convolution without padding: reduces over batch and space.
fn conv_weight_grad(n: i64, ci: i64, co: i64, s: i64, k: i64) -> UOp {
    let o_ = s - k + 1;
    let (o, c, dy, dx) = (global(co, 0), global(ci, 1), global(k, 2), global(k, 3));
    let (b, y, x) = (red(n, 4), red(o_, 5), red(o_, 6));
    let input = buf(1, n * ci * s * s).at(&(((&b * ci + &c) * s + &y + &dy) * s + &x + &dx)).load();
    let grad = buf(2, n * co * o_ * o_).at(&(((&b * co + &o) * o_ + &y) * o_ + &x)).load();
    let v = (&input * &grad).reduce(Alu::Add, [b, y, x]);
    UOp::sink([buf(0, co * ci * k * k)
        .at(&(((&o * ci + &c) * k + &dy) * k + &dx))
        .store(&v)
        .end([o, c, dy, dx])])
}

fn kernels() -> Vec<(&'static str, UOp)> {
    vec![
        ("gemm_256", matmul(256, 256, 256, false, false)),
        ("gemm_512", matmul(512, 512, 512, false, false)),
        ("gemm_1024", matmul(1024, 1024, 1024, false, false)),
        ("gemm_1024_ta", matmul(1024, 1024, 1024, true, false)),
        ("gemm_1024_tb", matmul(1024, 1024, 1024, false, true)),
        ("gemm_1000", matmul(1000, 1000, 1000, false, false)),
        ("gemm_1023", matmul(1023, 1023, 1023, false, false)),
        ("gemm_2048", matmul(2048, 2048, 2048, false, false)),
        ("gemm_64x4096x512", matmul(64, 4096, 512, false, false)),
        ("gemm_512x10x576", matmul(512, 10, 576, false, true)),
        ("gemv_4096", matmul(4096, 1, 4096, false, false)),
        ("elementwise_16m", elementwise(1 << 24)),
        ("elementwise_odd", elementwise(1_000_003)),
        ("sum_16m", sum(1 << 24)),
        ("sum_rows_4095", sum_rows(4095, 4095)),
        ("sum_columns_4096", sum_columns(4096, 4096)),
        ("softmax_4096", softmax(4096, 4096)),
        ("transpose_4096", transpose(4096)),
        ("conv3x3_64x128", conv(8, 64, 128, 56, 3, 1, 1)),
        ("conv1x1_64x128", conv(8, 64, 128, 56, 1, 0, 1)),
        ("conv3x3_s2", conv(8, 64, 128, 56, 3, 1, 2)),
        ("mnist_conv5_1", conv(512, 1, 32, 28, 5, 0, 1)),
        ("mnist_conv5_32", conv(512, 32, 32, 24, 5, 0, 1)),
        ("mnist_conv3_64", conv(512, 64, 64, 8, 3, 0, 1)),
        ("mnist_conv5_wgrad", conv_weight_grad(512, 32, 32, 24, 5)),
    ]
}

/// Time this thread has run, if kernels run on it alone and the system tells.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().next()?.parse().ok()?;
    std::env::var("FRIT_THREADS").is_ok_and(|n| n == "1").then_some(Duration::from_nanos(ns))
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let device = frit_runtime::device("CPU").expect("a CPU");
    let target: &Target = device.target();
    for (name, ast) in kernels() {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let mut lowering = Duration::MAX;
        let mut result = None;
        let mut passes = String::new();
        for _ in 0..10 {
            let start = Instant::now();
            let mut times = vec![];
            result = Some(lower_and_watch(&ast, target, Opts::Heuristic, false, &mut |name, _, time| {
                times.push(format!("{name} {:.2}", time.as_secs_f64() * 1e3));
            }));
            if start.elapsed() < lowering {
                lowering = start.elapsed();
                passes = times.join(", ");
            }
        }
        let lowered = match result {
            Some(Ok(r)) => r,
            Some(Err(e)) => {
                println!("{name}: {e}");
                continue;
            }
            None => continue,
        };
        // of a kernel that is cut the first part
        let linear = &lowered.programs[0];
        if std::env::var("STEPS").is_ok() {
            println!("    {passes} ms");
            for o in &lowered.opts {
                println!("    {o:?}");
            }
        }
        let kernel = match frit_render::render(linear, target) {
            Ok(k) => k,
            Err(e) => {
                println!("{name}: {e}");
                continue;
            }
        };
        if let (frit_abi::Code::C(text), Ok(_)) = (&kernel.code, std::env::var("SOURCE")) {
            println!("{text}");
        }
        let start = Instant::now();
        let loaded = device.load(&kernel).expect("it compiles");
        let compiling = start.elapsed();
        let memories: Vec<_> = linear
            .params
            .iter()
            .map(|p| {
                let n = p.shape()[0].as_int().unwrap_or(0) as usize;
                let m = device.alloc(n * 4).expect("memory");
                let bytes: Vec<u8> = (0..n).flat_map(|i| ((i % 7) as f32 - 3.0).to_le_bytes()).collect();
                m.copy_in(0, &bytes).expect("a copy");
                m
            })
            .collect();
        let bufs: Vec<_> = memories.iter().collect();
        let extent = linear.thread.as_ref().map_or(1, |t| t.src[0].as_int().unwrap_or(1));
        let dims = LaunchDims { global: [1; 3], local: [1; 3], thread_extent: extent };
        // the best round by the clock; with one thread the mean of the time on the processor, which a busy machine does
        // not disturb
        let (mut best, mut rounds, before, start) = (Duration::MAX, 0, on_cpu(), Instant::now());
        while rounds < 7 || start.elapsed() < Duration::from_millis(150) {
            best = best.min(device.time(&mut || loaded.launch(&bufs, &[], dims)).expect("it runs"));
            rounds += 1;
        }
        if let (Some(a), Some(b)) = (on_cpu(), before) {
            best = (a - b) / rounds;
        }
        let s = best.as_secs_f64();
        let (flops, bytes) =
            (linear.flops.as_int().unwrap_or(0) as f64, linear.bytes.as_int().unwrap_or(0) as f64);
        let copies =
            linear.steps.iter().filter(|s| matches!(s, frit_uop::Step::Do(n) if n.op == Op::MulAcc)).count();
        println!(
            "{name:20} lower {:6.2} ms  compile {:4.0} ms  {:9.3} ms  {:7.1} GFLOP/s  {:6.1} GB/s  {} steps, {copies} mulacc, thread {extent}  {}",
            lowering.as_secs_f64() * 1e3,
            compiling.as_secs_f64() * 1e3,
            s * 1e3,
            flops / s / 1e9,
            bytes / s / 1e9,
            linear.steps.len(),
            linear.name,
        );
    }
}
