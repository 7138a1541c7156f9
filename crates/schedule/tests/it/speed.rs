//! Scheduling takes time in proportion to the graph. Run with `--release --no-capture` for figures.

use crate::build::*;
use frit_abi::{Alu, DType};
use frit_schedule::{Schedule, schedule, schedule_and_watch};
use frit_uop::UOp;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

const F: DType = DType::F32;

struct Net {
    slot: u32,
}
impl Net {
    fn weight(&mut self, shape: &[i64]) -> UOp {
        self.slot += 1;
        input(self.slot, shape, F)
    }
    /// Convolution with "same" padding, inference batchnorm.
    fn conv(&mut self, x: &UOp, co: i64, k: i64, stride: i64) -> UOp {
        let s = sizes(x);
        let (b, ci) = (s[0], s[1]);
        let p = dims(&[0, 0, k / 2, k / 2]);
        let x = strided(&strided(&x.pad(&p, &p), 2, k, stride), 4, k, stride);
        let o = sizes(&x);
        let (oh, ow) = (o[2], o[4]);
        let full = [b, co, oh, ow, ci, k, k];
        let x = expand(&reshape(&x.permute(&[0, 2, 4, 1, 3, 5]), &[b, 1, oh, ow, ci, k, k]), &full);
        let w = expand(&reshape(&self.weight(&[co, ci, k, k]), &[1, co, 1, 1, ci, k, k]), &full);
        let y = reshape(&(x * w).reduce_axes(Alu::Add, &[4, 5, 6]), &[b, co, oh, ow]);
        let mut v = || like(&reshape(&self.weight(&[co]), &[1, co, 1, 1]), &y);
        let scale = (v() + UOp::float(1e-5, F)).un(Alu::Sqrt).un(Alu::Recip);
        (&y - v()) * scale * v() + v()
    }
    fn bottleneck(&mut self, x: &UOp, mid: i64, stride: i64) -> UOp {
        let y = relu32(&self.conv(x, mid, 1, 1));
        let y = relu32(&self.conv(&y, mid, 3, stride));
        let y = self.conv(&y, mid * 4, 1, 1);
        let short = if sizes(x) == sizes(&y) { x.clone() } else { self.conv(x, mid * 4, 1, stride) };
        relu32(&(y + short))
    }
}
fn relu32(x: &UOp) -> UOp {
    x.bin(Alu::Max, &UOp::float(0.0, F))
}
/// Axis `a` becomes (outputs, k): element (i, j) is i*stride + j.
fn strided(x: &UOp, a: usize, k: i64, stride: i64) -> UOp {
    let w = if k == 1 {
        let mut s = sizes(x);
        s.insert(a + 1, 1);
        reshape(x, &s)
    } else {
        windows(x, a, k)
    };
    if stride == 1 {
        return w;
    }
    let mut s = sizes(&w);
    let o = (s[a] + stride - 1) / stride;
    let mut after = vec![0; s.len()];
    after[a] = o * stride - s[a];
    let w = w.pad(&dims(&vec![0; s.len()]), &dims(&after));
    s[a] = o;
    s.insert(a + 1, stride);
    let w = reshape(&w, &s);
    s[a + 1] = 1;
    let w = w.shrink(&dims(&vec![0; s.len()]), &dims(&s));
    s.remove(a + 1);
    reshape(&w, &s)
}

fn resnet50() -> UOp {
    let mut n = Net { slot: 0 };
    let x = input(0, &[1, 3, 224, 224], F);
    let mut x = relu32(&n.conv(&x, 64, 7, 2));
    let p = dims(&[0, 0, 1, 1]);
    let w = strided(&strided(&x.pad(&p, &p), 2, 3, 2), 4, 3, 2);
    let s = sizes(&w);
    x = reshape(&w.reduce_axes(Alu::Max, &[3, 5]), &[s[0], s[1], s[2], s[4]]);
    for (blocks, mid, stride) in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)] {
        for b in 0..blocks {
            x = n.bottleneck(&x, mid, if b == 0 { stride } else { 1 });
        }
    }
    let s = sizes(&x);
    let mean = x.reduce_axes(Alu::Add, &[2, 3]) * UOp::float(1.0 / (s[2] * s[3]) as f64, F);
    let y = matmul(&reshape(&mean, &[1, s[1]]), &n.weight(&[s[1], 1000]));
    outputs(&[y])
}

/// A deep perceptron's training step: forward, backward, momentum updates.
fn training(layers: usize, b: i64, d: i64) -> UOp {
    let mut h = vec![input(0, &[b, d], F)];
    let ws: Vec<UOp> = (0..layers).map(|i| input(1 + 2 * i as u32, &[d, d], F)).collect();
    for w in &ws {
        let y = matmul(&h[h.len() - 1], w);
        let mean = y.reduce_axes(Alu::Add, &[1]) * UOp::float(1.0 / d as f64, F);
        h.push(relu32(&(&y - like(&mean, &y))));
    }
    let mut g = h[layers].clone();
    let mut stores = vec![];
    for i in (0..layers).rev() {
        let zero = UOp::float(0.0, F);
        let pass = zero.lt(&h[i + 1]).select(&g, &zero);
        let mean = pass.reduce_axes(Alu::Add, &[1]) * UOp::float(1.0 / d as f64, F);
        let dy = &pass - like(&mean, &pass);
        let dw = matmul(&h[i].permute(&[1, 0]), &dy);
        let m = input(2 + 2 * i as u32, &[d, d], F);
        let m2 = &m * UOp::float(0.9, F) + &dw;
        stores.push(m.store(&m2));
        stores.push(ws[i].store(&(&ws[i] - &m2 * UOp::float(0.01, F))));
        g = matmul(&dy, &ws[i].permute(&[1, 0]));
    }
    UOp::sink(stores)
}

/// The gradients of a residual perceptron by all of its weights.
fn residual(layers: usize, b: i64, d: i64) -> UOp {
    let ws: Vec<UOp> = (0..layers).map(|i| input(1 + i as u32, &[d, d], F)).collect();
    let (mut h, mut y) = (vec![input(0, &[b, d], F)], vec![]);
    for (i, w) in ws.iter().enumerate() {
        y.push(relu32(&matmul(&h[i], w)));
        h.push(&h[i] + &y[i]);
    }
    let zero = UOp::float(0.0, F);
    let mut g = like(&reshape(&UOp::float(1.0, F), &[1, 1]), &h[0]);
    let mut dw = vec![];
    for i in (0..layers).rev() {
        let pass = zero.lt(&y[i]).select(&g, &zero);
        dw.push(matmul(&h[i].permute(&[1, 0]), &pass));
        g = &g + matmul(&pass, &ws[i].permute(&[1, 0]));
    }
    UOp::sink(dw.iter().enumerate().map(|(i, g)| input((1 + layers + i) as u32, &[d, d], F).store(g)))
}

/// Milliseconds of processor time this thread has had, so that a busy machine does not count.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|t| t.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e6)
}

fn timed(name: &str, build: impl Fn() -> UOp) -> (Schedule, f64) {
    let sink = build();
    let nodes = sink.toposort().len();
    let mut best = f64::MAX;
    let mut s = Schedule::default();
    for _ in 0..3 {
        let t = cpu_ms();
        s = schedule(&sink, &cpu()).unwrap();
        best = best.min(cpu_ms() - t);
    }
    let row = |pass: &str, _: &UOp, t: Duration| println!("  {pass:<14}{:8.2} ms", t.as_secs_f64() * 1e3);
    schedule_and_watch(&sink, &cpu(), false, row).unwrap();
    println!(
        "{name}: {nodes} nodes, {} kernels, {best:.1} ms, arena {} KiB",
        s.kernels.len(),
        s.arena_bytes >> 10
    );
    (s, best)
}

#[test]
fn resnet50_forward() {
    let (s, ms) = timed("resnet50", resnet50);
    well_formed(&s);
    // 53 convolutions, a pool, a mean, a matmul
    assert!(s.kernels.len() <= 56, "{}", s.kernels.len());
    assert!(cfg!(debug_assertions) || ms < 100.0, "{ms} ms");
}
#[test]
fn a_deep_training_step() {
    let (s, ms) = timed("training", || training(120, 32, 64));
    well_formed(&s);
    assert!(s.kernels.len() <= 6 * 120, "{}", s.kernels.len());
    assert!(cfg!(debug_assertions) || ms < 300.0, "{ms} ms");
    check_on(&training(3, 4, 8), &cpu());
}
/// Counts what a thread allocates: what grows with depth is seen there on a busy machine too, and caches are not.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: the system's allocator does the work
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|a| a.set((a.get().0 + 1, a.get().1 + layout.size())));
        // SAFETY: by the caller's word
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by the caller's word
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn scheduling_is_linear_in_depth() {
    check_on(&residual(3, 4, 8), &cpu());
    let per_layer = |n: usize| {
        timed("residual", || residual(n, 32, 64));
        let sink = residual(n, 32, 64);
        let before = ALLOCATED.get();
        schedule(&sink, &cpu()).unwrap();
        let after = ALLOCATED.get();
        ((after.0 - before.0) as f64 / n as f64, (after.1 - before.1) as f64 / n as f64)
    };
    let (few, many) = (per_layer(32), per_layer(2000));
    println!("allocations and bytes a layer: {few:?} at 32 layers, {many:?} at 2000");
    assert!(many.0 < 1.1 * few.0 && many.1 < 1.15 * few.1, "{few:?} at 32 layers, {many:?} at 2000");
    // what is larger than the caches costs by its bytes
    assert!(many.1 < 90_000.0, "{} bytes a layer", many.1);
    // the same number of layers in many small graphs and in one, in turns: what else the machine does is in both
    let (small, large) = (residual(32, 32, 64), residual(2000, 32, 64));
    let ms = |sink: &UOp, times: usize| {
        let t = cpu_ms();
        (0..times).for_each(|_| _ = schedule(sink, &cpu()).unwrap());
        cpu_ms() - t
    };
    let turns = if cfg!(debug_assertions) { 0 } else { 5 };
    let slower = (0..turns).map(|_| (ms(&small, 62), ms(&large, 1))).map(|(few, many)| many / few);
    let slower: Vec<f64> = slower.collect();
    println!("a layer of 2000 takes {slower:.2?} times as long as one of 32");
    assert!(turns == 0 || slower.iter().any(|r| *r < 2.0), "{slower:?}");
}
