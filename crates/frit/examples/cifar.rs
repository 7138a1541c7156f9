//! Trains a small convolutional net on CIFAR-10 with random crops and flips, all of it tensor operations.
//!
//! ```text
//! cargo run --release --example cifar -- --data FOLDER   # with the five data_batch_N.bin and test_batch.bin
//! cargo run --release --example cifar                    # without them: coloured shapes made up here, of the same size
//! cargo run --release --example cifar -- --steps 40
//! ```

use frit::Progress;
use frit::nn::data::{Cifar10, Dataset, Loader, Samples};
use frit::nn::optim::schedule::{OneCycle, Schedule};
use frit::nn::{BatchNorm, Conv2d, Linear, Module, Optimizer, Sgd, training};
use frit::prelude::*;
use std::path::PathBuf;

const BATCH: usize = 64;
const SIDE: usize = 32;
const BORDER: usize = 4;

#[derive(Module)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Block {
    fn new(inputs: usize, outputs: usize) -> Block {
        Block {
            conv: Conv2d::new(inputs, outputs, 3).padding(1).without_bias(),
            norm: BatchNorm::new(outputs),
        }
    }
    /// (N, in, S, S) -> (N, out, S / 2, S / 2)
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x)).relu().max_pool2d(2, frit::Window::new())
    }
}

#[derive(Module)]
struct Net {
    blocks: [Block; 3],
    linear: Linear,
}

impl Net {
    fn new() -> Net {
        Net {
            blocks: [Block::new(3, 16), Block::new(16, 32), Block::new(32, 64)],
            linear: Linear::new(64 * 16, 10),
        }
    }
    /// (N, 3, 32, 32) -> (N, 10)
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold((x - 0.5) * 4.0, |x, block| block.forward(&x));
        self.linear.forward(&x.flatten(1, -1))
    }
}

/// Each image mirrored or not, then moved by up to 4 pixels each way: (N, 3, 32, 32) -> the same.
fn augment(x: &Tensor) -> Tensor {
    let n = x.shape()[0].clone();
    let mirrored = Tensor::rand((&n, 1, 1, 1)).lt(0.5);
    let x = mirrored.where_(x.flip(3), x);
    let b = BORDER as isize;
    let x = x.pad(&[(0, 0), (0, 0), (b, b), (b, b)], 0.0); // (N, 3, 40, 40)
    // Where each image's window begins, along dim 2 and then along dim 3.
    let window = |dim: usize| {
        let start = Tensor::randint(0, 2 * BORDER as i64 + 1, (&n, 1));
        let places = start + Tensor::arange(SIDE); // (N, 32)
        if dim == 2 { places.reshape((&n, 1, SIDE, 1)) } else { places.reshape((&n, 1, 1, SIDE)) }
    };
    let x = x.gather(2, &window(2).expand((&n, 3, SIDE, SIDE + 2 * BORDER)));
    x.gather(3, &window(3).expand((&n, 3, SIDE, SIDE)))
}

/// Images as they come, CIFAR's or the rows of a matrix, as (N, 3, 32, 32).
fn pictures(x: &Tensor) -> Tensor {
    x.reshape((-1, 3, SIDE, SIDE))
}

/// A made-up picture: a disc or a square, in one of five colours, somewhere on a noisy ground.
fn shape(i: usize) -> (Vec<f32>, i32) {
    let mut state = i as u64 + 1;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / (1u64 << 24) as f32
    };
    let colours = [[0.9, 0.2, 0.2], [0.2, 0.8, 0.2], [0.2, 0.3, 0.9], [0.9, 0.8, 0.2], [0.7, 0.3, 0.8]];
    let label = (random() * 10.0) as usize % 10;
    let (row, col, radius) = (10.0 + 12.0 * random(), 10.0 + 12.0 * random(), 5.0 + 4.0 * random());
    let mut pixels = vec![0.0; 3 * SIDE * SIDE];
    for p in 0..SIDE * SIDE {
        let (dr, dc) = ((p / SIDE) as f32 - row, (p % SIDE) as f32 - col);
        let inside = if label < 5 { dr.hypot(dc) < radius } else { dr.abs().max(dc.abs()) < radius };
        for c in 0..3 {
            let ground = 0.6 * random();
            pixels[c * SIDE * SIDE + p] =
                if inside { 0.8 * colours[label % 5][c] + 0.2 * ground } else { ground };
        }
    }
    (pixels, label as i32)
}

fn count_correct(logits: &Tensor, labels: &Tensor) -> Tensor {
    logits.argmax(1).eq(labels).sum(..)
}

fn run<D>(train: D, test: D, steps: usize) -> Result<(), Box<dyn std::error::Error>>
where
    D: Dataset<Batch = (Tensor, Tensor)> + 'static,
{
    frit::manual_seed(5);
    let net = Net::new();
    let schedule = OneCycle::new(0.1, steps.max(2));
    let mut opt = Sgd::new(&net, schedule.lr(0))?.momentum(0.9).nesterov().weight_decay(5e-4);
    let loader = Loader::new(train, BATCH)?.shuffle(1).drop_last().workers(2);
    let (mut first, mut recent) = (None, f32::NAN);
    let progress = Progress::new("training", steps);
    for (step, batch) in (0..).flat_map(|epoch| loader.epoch(epoch)).take(steps).enumerate() {
        let (images, labels) = batch?;
        opt.set_lr(schedule.lr(step))?;
        let loss = training(true, || net.forward(&augment(&pictures(&images))).cross_entropy(&labels));
        loss.backward()?;
        opt.step_with(&[&loss])?;
        let loss = loss.item::<f32>()?;
        first.get_or_insert(loss);
        progress.value("loss", loss.into());
        progress.step();
        recent = if recent.is_nan() { loss } else { 0.9 * recent + 0.1 * loss };
        if step % 20 == 0 {
            progress.say(&format!("step {step:4}  loss {recent:.4}"));
        }
    }
    drop(progress);
    let (mut correct, mut seen) = (0, 0);
    for batch in Loader::new(test, 250)?.epoch(0).take(8) {
        let (images, labels) = batch?;
        correct += count_correct(&net.forward(&pictures(&images)), &labels).item::<i32>()?;
        seen += labels.numel()?;
    }
    println!(
        "loss {recent:.4} after {steps} steps; {:.1}% of {seen} test images",
        100.0 * correct as f64 / seen as f64
    );
    if first.is_some_and(|first| recent > 0.9 * first) {
        return Err("the loss did not fall".into());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut steps, mut folder) = (None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--steps", Some(n)) => steps = Some(n.parse()?),
            ("--data", Some(path)) => folder = Some(PathBuf::from(path)),
            _ => return Err("there are --steps N and --data FOLDER".into()),
        }
    }
    match folder {
        Some(folder) => run(Cifar10::train(&folder)?, Cifar10::test(&folder)?, steps.unwrap_or(4000)),
        None => {
            println!("no --data: not CIFAR-10 but coloured shapes, made up as they are needed");
            let shapes = |from: usize, len| Samples::new(len, move |i| Ok(shape(from + i)));
            run(shapes(0, 20_000), shapes(1 << 20, 2_000), steps.unwrap_or(300))
        }
    }
}
