//! Measuring the two hot paths: interning and rewriting.

use frit_uop::{Arg, AxisKind, DType, Op, UOp, symbolic};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::time::Instant;

/// Distinct nodes in the working set: about what a kernel in compilation has.
const NODES: i64 = 1024;
/// Passes over them in one run.
const ROUNDS: usize = 32;
/// Runs, of which the least disturbed counts.
const RUNS: usize = 200;

/// Nanoseconds an interning hit takes: making nodes `x + c` that exist already, `threads` threads at once, each on
/// expressions of its own, as when several kernels are compiled at once. The time is per hit over all threads together,
/// so two threads that do not disturb each other halve it.
pub fn intern_hit_ns(threads: usize) -> f64 {
    let threads = threads.max(1);
    let sets: Vec<(UOp, Vec<UOp>, Vec<UOp>)> = (0..threads as i64)
        .map(|t| {
            let x = UOp::variable("bench", 0, 1000 + t);
            let constants: Vec<UOp> = (0..NODES).map(|i| UOp::index(1_000_000 * t + i)).collect();
            let alive = constants.iter().map(|c| &x + c).collect();
            (x, constants, alive)
        })
        .collect();
    // many short runs, each from the first thread's begin to the last one's end; the least, since others were disturbed
    let barrier = Barrier::new(threads);
    let (span, best) = (Mutex::new(None::<(Instant, Instant)>), Mutex::new(f64::INFINITY));
    std::thread::scope(|s| {
        for (x, constants, _alive) in &sets {
            let (barrier, span, best) = (&barrier, &span, &best);
            s.spawn(move || {
                for _ in 0..RUNS {
                    barrier.wait();
                    let begin = Instant::now();
                    for c in (0..ROUNDS).flat_map(|_| constants) {
                        std::hint::black_box(x + c);
                    }
                    let end = Instant::now();
                    {
                        let mut span = locked(span);
                        let (b, e) = span.unwrap_or((begin, end));
                        *span = Some((b.min(begin), e.max(end)));
                    }
                    if barrier.wait().is_leader()
                        && let Some((b, e)) = locked(span).take()
                    {
                        let hits = (ROUNDS * threads * NODES as usize) as f64;
                        let ns = (e - b).as_nanos() as f64 / hits;
                        let least = locked(best).min(ns);
                        *locked(best) = least;
                    }
                    barrier.wait();
                }
            });
        }
    });
    *locked(&best)
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Nanoseconds per node that simplifying takes: the first time, and again on what came out.
pub fn simplify_ns() -> (f64, f64) {
    let kernel = |k: i64| {
        // the indices of a padded convolution and its output, as ranges and movement make them
        let r = |id: u32, n: i64| UOp::range(&UOp::index(n), id, AxisKind::Loop);
        let (oc, y, x, ic, ky, kx) = (r(0, 64 + k), r(1, 28), r(2, 28), r(3, 64), r(4, 3), r(5, 3));
        let flat = ((&ic * 30 + (&y + &ky)) * 30 + (&x + &kx)) * 1;
        let (n, h, w) = (UOp::index(900), UOp::index(30), UOp::index(1));
        let (a, b) = (flat.floordiv(&n), flat.floordiv(&h).modulo(&h));
        let c = flat.floordiv(&w).modulo(&h);
        let inside = |v: &UOp| v.ge_int(&UOp::index(1)).and_(&v.lt(&UOp::index(29)));
        let gate = inside(&b).and_(&inside(&c));
        let idx = gate.select(&((&a * 28 + (&b - 1)) * 28 + (&c - 1)), &UOp::invalid());
        let image = UOp::param(0, 64 * 28 * 28, DType::F32).at(&idx).load();
        let weight = ((&oc * 64 + &ic) * 3 + &ky) * 3 + &kx;
        let weight = UOp::param(1, (64 + k as usize) * 64 * 9, DType::F32).at(&weight).load();
        let out = UOp::param(2, (64 + k as usize) * 28 * 28, DType::F32).at(&((&oc * 28 + &y) * 28 + &x));
        let value = (image * weight).reduce(frit_uop::Alu::Add, [ic, ky, kx]);
        let end = [out.store(&value), oc, y, x];
        UOp::sink([UOp::new(Op::End, DType::Void, end, Arg::None)])
    };
    let mut best = (f64::INFINITY, f64::INFINITY);
    for round in 0..20 {
        let kernels: Vec<UOp> = (0..60).map(|k| kernel(k + round * 60)).collect();
        let time = |graphs: &[UOp]| {
            let nodes: usize = graphs.iter().map(|k| k.toposort().len()).sum();
            let begin = Instant::now();
            let done: Vec<UOp> = graphs.iter().map(symbolic::simplify).collect();
            (begin.elapsed().as_nanos() as f64 / nodes as f64, done)
        };
        let (first, done) = time(&kernels);
        let (again, _) = time(&done);
        best = (best.0.min(first), best.1.min(again));
    }
    best
}
