//! Memory stays flat: loops that would fail if anything were kept.
//!
//! Each loop runs in a process of its own, so that nothing else is measured. `FRIT_LONG=1` runs the whole 100,000 steps,
//! a million replays and 10,000 captures.

use crate::support::{child, is_child, is_long};
use frit::nn::{Adam, Linear, Optimizer, Sequential};
use frit::{Device, Jit, Tensor, manual_seed};
use std::time::{Duration, Instant};

/// Resident memory of this process, in KiB.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Sizes the batch cycles over.
const SIZES: usize = 50;

/// Train an MLP of 784-128-10; the batch is 32, or cycles over sizes.
fn train(cycling: bool) {
    let long = is_long();
    let (total, limit) = if long { (100_000, Duration::MAX) } else { (4_000, Duration::from_secs(10)) };
    // steps before the first measurement; a few rounds over the sizes are enough, for every one is compiled
    let settled = if cycling && !long { 5 * SIZES } else { 1000 };
    manual_seed(1);
    let net = Sequential::new().then(Linear::new(784, 128)).then_fn(|x| x.relu()).then(Linear::new(128, 10));
    let mut opt = Adam::new(&net, 1e-3).unwrap();
    let mut first = None;
    let mut clock = Instant::now();
    let mut done = 0;
    for step in 0..total {
        let n = if cycling { 8 + step % SIZES } else { 32 };
        let x: Vec<f32> = (0..n * 784).map(|i| ((i * 31 + step * 17) % 255) as f32 / 255.0).collect();
        let y: Vec<i32> = (0..n).map(|i| ((i + step) % 10) as i32).collect();
        let loss = net.forward(&Tensor::from_vec(x, [n, 784])).cross_entropy(&Tensor::from_vec(y, [n]));
        loss.backward().unwrap();
        opt.step_with(&[&loss]).unwrap();
        let value = loss.item::<f32>().unwrap();
        assert!(value.is_finite(), "step {step}: {value}");
        done = step + 1;
        if done == settled {
            first = Some((resident(), frit_uop::node::live_nodes()));
            clock = Instant::now();
        }
        if first.is_some() && clock.elapsed() > limit {
            break;
        }
    }
    let (memory, nodes) = first.expect("enough steps");
    let grown = resident() as i64 - memory as i64;
    let more = frit_uop::node::live_nodes() as i64 - nodes as i64;
    println!(
        "\n{done} steps: {memory} KiB after {settled}, {grown} KiB more now; {nodes} nodes, {more} more now"
    );
    assert!(done >= settled + 2 * SIZES, "{done} steps are too few to tell");
    assert!(grown <= 1024, "{grown} KiB more after {done} steps than after {settled}");
    assert!(more.abs() <= 64, "{more} nodes more after {done} steps than after {settled}");
}

/// What grows while `turn` is done `total` times, measured from a tenth of that on.
pub fn stays_flat(what: &str, total: usize, mut turn: impl FnMut(usize)) {
    let settled = total / 10;
    let (mut memory, mut nodes) = (0, 0);
    for i in 0..total {
        if i == settled {
            (memory, nodes) = (resident(), frit_uop::node::live_nodes());
        }
        turn(i);
    }
    let grown = resident() as i64 - memory as i64;
    let more = frit_uop::node::live_nodes() as i64 - nodes as i64;
    println!(
        "\n{total} {what}: {memory} KiB after {settled}, {grown} KiB more now; {nodes} nodes, {more} more now"
    );
    assert!(grown <= 1024, "{grown} KiB more after {total} {what} than after {settled}");
    assert!(more.abs() <= 64, "{more} nodes more after {total} {what} than after {settled}");
}

/// A step with everything a replay has to do: inputs, state, random numbers, a fresh result.
fn step() -> Jit<Tensor, Tensor> {
    let total = Tensor::zeros([16]).contiguous();
    let w = Tensor::ones([16]).contiguous();
    Tensor::realize_all(&[&total, &w]).unwrap();
    Jit::new(move |x: Tensor| {
        let y = (x * &w).relu() + Tensor::rand([16]);
        total.assign(&total * 0.5 + &y);
        Ok(y.contiguous() + 1.0)
    })
}

#[test]
fn replays_of_a_jit_run_in_flat_memory() {
    println!("{}", child("memory::child_replays", &[]));
}

#[test]
fn child_replays() {
    if is_child() {
        let (jit, x) = (step(), Tensor::ones([16]).contiguous());
        let total = if is_long() { 1_000_000 } else { 50_000 };
        stays_flat("replays", total, |_| _ = jit.call(x.clone()).unwrap());
        assert_eq!(jit.kernels().len(), 1, "it was replayed");
    }
}

#[test]
fn jits_made_and_dropped_leave_nothing() {
    println!("{}", child("memory::child_captures", &[]));
}

#[test]
fn child_captures() {
    if is_child() {
        let x = Tensor::ones([16]).contiguous();
        stays_flat("captures", if is_long() { 10_000 } else { 1_000 }, |_| {
            let jit = step();
            for _ in 0..3 {
                jit.call(x.clone()).unwrap();
            }
            assert_eq!(jit.kernels().len(), 1, "it was recorded");
        });
    }
}

#[test]
fn a_training_loop_runs_in_flat_memory() {
    println!("{}", child("memory::child_one_size", &[]));
}

#[test]
fn a_training_loop_over_many_shapes_runs_in_flat_memory() {
    println!("{}", child("memory::child_many_sizes", &[]));
}

#[test]
fn child_one_size() {
    if is_child() {
        Device::scope("CPU", || train(false)).unwrap();
    }
}

#[test]
fn child_many_sizes() {
    if is_child() {
        Device::scope("CPU", || train(true)).unwrap();
    }
}
