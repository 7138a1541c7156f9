//! What recordings cost while there is none: checks are counted, since a clock does not see so little.

use frit::engine::measure;
use frit::nn::{Adam, Conv2d, Linear, Module, Optimizer};
use frit::*;
use frit_abi::record;
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The part of the time that may go into looking whether anything is recorded.
const MOST: f64 = 0.005;

/// Seconds of one check, which is a load and a branch where it is not counted: loops of many, the fastest of several.
fn check() -> f64 {
    const COUNT: u32 = 1_000_000;
    static LEVEL: AtomicU8 = AtomicU8::new(0);
    let once = || {
        let begun = Instant::now();
        for _ in 0..COUNT {
            if black_box(&LEVEL).load(Relaxed) & record::COMPILES != 0 {
                panic!("nothing is recorded");
            }
        }
        begun.elapsed().as_secs_f64() / f64::from(COUNT)
    };
    (0..9).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Checks of some work and the least time it took, of which checks may be a small part.
fn assert_small(what: &str, mut work: impl FnMut() -> Duration) {
    let mut least = f64::INFINITY;
    let before = record::checks();
    const ROUNDS: u64 = 3;
    for _ in 0..ROUNDS {
        least = least.min(work().as_secs_f64());
    }
    let checks = (record::checks() - before) / ROUNDS;
    let part = checks as f64 * check() / least;
    println!("{what}: {checks} checks in {least:.6} s, {:.4} %", 100.0 * part);
    assert!(checks > 0, "{what}: nothing was counted");
    assert!(part < MOST, "{what}: {checks} checks are {:.3} % of {least} s", 100.0 * part);
}

#[derive(Module)]
struct Net {
    conv: Conv2d,
    hidden: Linear,
    out: Linear,
}

/// Everything a training step updates.
fn step() -> Result<Vec<Tensor>> {
    let net =
        Net { conv: Conv2d::new(1, 8, 3), hidden: Linear::new(8 * 13 * 13, 32), out: Linear::new(32, 10) };
    let mut opt = Adam::new(&net, 1e-3)?;
    let (x, y) = (Tensor::zeros([16, 1, 28, 28]), Tensor::zeros([16]).cast(DType::I32));
    let seen = net.conv.forward(&x).relu().max_pool2d(2, Window::default()).flatten(1, -1);
    let loss = net.out.forward(&net.hidden.forward(&seen).relu()).cross_entropy(&y);
    loss.backward()?;
    Ok(opt.plan_step()?.into_iter().chain([loss]).collect())
}

/// Graph to code, on this thread.
#[test]
fn compiling_costs_nothing_while_nothing_is_recorded() {
    let nodes = Device::scope("NULL", || step()?.iter().map(|t| t.uop()).collect::<Result<Vec<_>>>());
    let nodes = nodes.unwrap().unwrap();
    assert_small("compiling a step", || {
        let t = measure::compile_times(&nodes).unwrap();
        t.schedule + t.lower + t.render
    });
}

/// Small kernels are the worst case: one that computes hardly anything, run plainly and replayed.
#[test]
fn running_costs_nothing_while_nothing_is_recorded() {
    let x = Tensor::ones([16]).contiguous().realize().unwrap();
    (&x + 1.0).realize().unwrap();
    let many = |run: &mut dyn FnMut()| {
        let begun = Instant::now();
        (0..200).for_each(|_| run());
        begun.elapsed()
    };
    assert_small("a small kernel", || many(&mut || drop((&x + 1.0).realize().unwrap())));
    let jit = Jit::new(|x: Tensor| Ok(x + 1.0));
    (0..3).for_each(|_| drop(jit.call(x.clone()).unwrap()));
    assert_small("a replay", || many(&mut || drop(jit.call(x.clone()).unwrap())));
}
