//! Trains a small convolutional net on MNIST and tests it.
//!
//! ```text
//! cargo run --release --example mnist                # one epoch, then the test set; fails below 98%
//! cargo run --release --example mnist -- --epochs 5
//! cargo run --release --example mnist -- --steps 20  # a short run that shows that everything works
//! ```

use frit::nn::data::{Batches, Mnist};
use frit::nn::{Adam, BatchNorm, Conv2d, Linear, Module, Optimizer, training};
use frit::prelude::*;
use frit::{Jit, Progress, Window};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const BATCH: usize = 128;
const LEARNING_RATE: f64 = 1e-3;
const GOAL: f64 = 0.98;

#[derive(Module)]
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    bn1: BatchNorm,
    conv3: Conv2d,
    conv4: Conv2d,
    bn2: BatchNorm,
    linear: Linear,
}

impl Net {
    fn new() -> Net {
        Net {
            conv1: Conv2d::new(1, 32, 5),
            conv2: Conv2d::new(32, 32, 5),
            bn1: BatchNorm::new(32),
            conv3: Conv2d::new(32, 64, 3),
            conv4: Conv2d::new(64, 64, 3),
            bn2: BatchNorm::new(64),
            linear: Linear::new(576, 10),
        }
    }
    /// (N, 1, 28, 28) -> (N, 10)
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.conv1.forward(x).relu(); // (N, 32, 24, 24)
        let x = self.conv2.forward(&x).relu(); // (N, 32, 20, 20)
        let x = self.bn1.forward(&x).max_pool2d(2, Window::new()); // (N, 32, 10, 10)
        let x = self.conv3.forward(&x).relu(); // (N, 64, 8, 8)
        let x = self.conv4.forward(&x).relu(); // (N, 64, 6, 6)
        let x = self.bn2.forward(&x).max_pool2d(2, Window::new()); // (N, 64, 3, 3)
        self.linear.forward(&x.flatten(1, -1))
    }
}

/// How many of the predictions are right.
fn count_correct(logits: &Tensor, labels: &Tensor) -> Tensor {
    logits.argmax(1).eq(labels).sum(..)
}

struct Options {
    epochs: usize,
    /// Stop after this many steps, and ask nothing of the accuracy.
    steps: Option<usize>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { epochs: 1, steps: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|v| v.parse().ok()).ok_or(format!("{arg} needs a number"));
        match arg.as_str() {
            "--epochs" => options.epochs = number()?,
            "--steps" => options.steps = Some(number()?),
            _ => return Err(format!("unknown argument {arg}; there are --epochs N and --steps N")),
        }
    }
    Ok(options)
}

/// Images and labels in, the loss and how many were right out; the net is better afterwards.
type Step = Jit<(Tensor, Tensor), (Tensor, Tensor)>;

fn training_step(net: Arc<Net>) -> frit::Result<Step> {
    let mut opt = Adam::new(&*net, LEARNING_RATE)?;
    Ok(Jit::new(move |(images, labels): (Tensor, Tensor)| {
        let (loss, right) = training(true, || {
            let logits = net.forward(&images);
            (logits.cross_entropy(&labels), count_correct(&logits, &labels))
        });
        loss.backward()?;
        opt.step_with(&[&loss, &right])?;
        Ok((loss, right))
    }))
}

fn train(step: &Step, data: &Mnist, epoch: usize, steps: usize) -> frit::Result<()> {
    let batches = Batches::new(data.len(), BATCH)?.shuffle(epoch as u64).drop_last().take(steps);
    let progress = Progress::new(&format!("epoch {epoch}"), batches.len());
    let _span = frit::span("epoch");
    let start = Instant::now();
    let (mut loss_sum, mut correct, mut seen) = (0.0, 0, 0);
    for batch in batches {
        let (loss, right) = step.call(data.batch(&batch)?)?;
        let loss = loss.item::<f32>()?;
        loss_sum += loss as f64 * batch.len() as f64;
        correct += right.item::<i32>()?;
        seen += batch.len();
        progress.value("loss", loss.into());
        progress.step();
    }
    drop(progress);
    let n = seen as f64;
    let rate = n / start.elapsed().as_secs_f64();
    println!(
        "epoch {epoch}: loss {:.4}, accuracy {:.2}%, {rate:.0} images/s",
        loss_sum / n,
        100.0 * correct as f64 / n
    );
    Ok(())
}

fn test(net: &Net, data: &Mnist) -> frit::Result<f64> {
    let mut correct = 0;
    for batch in Batches::new(data.len(), 500)? {
        let (images, labels) = data.batch(&batch)?;
        correct += count_correct(&net.forward(&images), &labels).item::<i32>()?;
    }
    Ok(correct as f64 / data.len() as f64)
}

fn run(options: &Options) -> frit::Result<bool> {
    let start = Instant::now();
    let (train_data, test_data) = (Mnist::train()?, Mnist::test()?);
    frit::manual_seed(1337);
    let net = Arc::new(Net::new());
    let step = training_step(net.clone())?;
    let mut steps_left = options.steps.unwrap_or(usize::MAX);
    for epoch in 1..=options.epochs {
        train(&step, &train_data, epoch, steps_left)?;
        steps_left = steps_left.saturating_sub(train_data.len() / BATCH);
        if steps_left == 0 {
            break;
        }
    }
    let accuracy = test(&net, &test_data)?;
    println!("test accuracy {:.2}% after {:.1} s", 100.0 * accuracy, start.elapsed().as_secs_f64());
    Ok(accuracy >= GOAL || options.steps.is_some())
}

fn main() -> ExitCode {
    let outcome = options().and_then(|options| run(&options).map_err(|e| e.to_string()));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("below the goal of {}%", 100.0 * GOAL);
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
