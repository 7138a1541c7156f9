//! Whole models: inference and training steps.

use super::models::{GPT2, Mnist, Resnet50, Transformer};
use super::{Bench, CHECK, captured, check, peak_mb, searched, time};
use frit::engine::devices::HOST;
use frit::nn::*;
use frit::*;
use std::sync::atomic::Ordering;

/// Images and their digits.
type Batch = (Tensor, Tensor);

/// One training step of the digit network, as a Jit: recorded by the second call, replayed from the third on.
fn mnist_step() -> Result<(Jit<Batch, Tensor>, Batch)> {
    let model = Mnist::new();
    let mut opt = Adam::new(&model, 1e-3)?;
    let x = Tensor::randn([512, 1, 28, 28]);
    let y = Tensor::randint(0, 10, [512]);
    Tensor::realize_all(&[&x, &y])?;
    let step = Jit::new(move |(x, y): Batch| {
        training(true, || {
            let loss = model.forward(&x).cross_entropy(&y);
            loss.backward()?;
            opt.step_with(&[&loss])?;
            Ok(loss)
        })
    });
    Ok((step, (x, y)))
}

/// Losses of a few training steps from the same random numbers.
fn losses() -> Result<Tensor> {
    manual_seed(42);
    let (step, inputs) = mnist_step()?;
    let losses = (0..4).map(|_| step.call(inputs.clone())?.to(HOST).item::<f32>());
    let losses = losses.collect::<Result<Vec<f32>>>()?;
    // the optimiser divides gradients by their size, roundings too: compared as coarser numbers
    Device::scope(HOST, || Tensor::new(losses).cast(DType::F16))
}

fn forward(model: impl Fn(&Tensor) -> Tensor + Send + 'static, dims: &[usize]) -> Result<super::Line> {
    let x = Tensor::randn(dims);
    x.realize()?;
    captured(x, move |x| Ok(model(&x)))
}

/// The list.
pub fn benches() -> Vec<Bench> {
    vec![
        Bench::new("mnist_train_bs512", || {
            if CHECK.load(Ordering::Relaxed) {
                let (ours, theirs) = (losses()?, Device::scope(HOST, losses)??);
                return check::verdict(check::difference(&ours, &theirs, &theirs)?);
            }
            // from nothing: initial weights, their optimiser's state, and the first step
            let start = std::time::Instant::now();
            let (step, inputs) = mnist_step()?;
            let call = || step.call(inputs.clone()).map(|_| ());
            call()?;
            let first = start.elapsed();
            call()?;
            let recorded = start.elapsed() - first;
            let line = time(call)?.with("first_s", first.as_secs_f64());
            let line = line.with("record_s", recorded.as_secs_f64()).with("peak_mb", peak_mb(0)?);
            searched(&step, inputs, line)
        }),
        Bench::new("gpt2_prefill_128", || {
            let model = Transformer::new(GPT2, false);
            model.realize_state()?;
            forward(move |x| model.forward(x), &[1, 128, GPT2.dim])
        }),
        Bench::new("gpt2_token_nocache", || {
            let model = Transformer::new(GPT2, false);
            model.realize_state()?;
            forward(move |x| model.forward(x), &[1, 1, GPT2.dim])
        }),
        Bench::new("resnet50_infer_bs1", || {
            let model = Resnet50::new();
            model.realize_state()?;
            forward(move |x| model.forward(x), &[1, 3, 224, 224])
        }),
    ]
}
