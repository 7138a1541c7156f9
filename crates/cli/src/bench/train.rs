//! Whole models: inference and training steps.

use super::models::{BERT_LARGE, Config, GPT2, Mnist, Resnet50, Transformer};
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

/// A training step in mixed precision: products of bfloat16, everything else and all that is kept in float32.
fn mixed_step<M: Module + Send + 'static>(
    model: M,
    forward: fn(&M, &Tensor) -> Tensor,
    inputs: Batch,
) -> Result<super::Line> {
    let mut opt = Adam::new(&model, 1e-3)?;
    Tensor::realize_all(&[&inputs.0, &inputs.1])?;
    let step = Jit::new(move |(x, y): Batch| {
        training(true, || {
            let logits = autocast(DType::BF16, || forward(&model, &x)).cast(DType::F32);
            let loss = logits.flatten(0, -2).cross_entropy(&y);
            loss.backward()?;
            opt.step_with(&[&loss])?;
            Ok(loss)
        })
    });
    let start = std::time::Instant::now();
    step.call(inputs.clone())?.realize()?;
    let first = start.elapsed();
    let line = time(|| step.call(inputs.clone()).map(|_| ()))?.with("first_s", first.as_secs_f64());
    searched(&step, inputs, line.with("peak_mb", peak_mb(0)?))
}

fn mixed_transformer(c: Config, batch: usize, len: usize) -> Result<super::Line> {
    let tokens = |dims: &[usize]| Tensor::randint(0, c.vocab as i64, dims);
    mixed_step(
        Transformer::new(c, true),
        Transformer::forward,
        (tokens(&[batch, len]), tokens(&[batch * len])),
    )
}

/// For machines that are large enough.
fn large(name: &str, run: impl Fn() -> Result<super::Line> + 'static) -> Bench {
    Bench { only_by_name: true, ..Bench::new(name, run) }
}

/// The list.
pub fn benches() -> Vec<Bench> {
    vec![
        large("resnet50_train_bs256_bf16", || {
            let inputs = (Tensor::randn([256, 3, 224, 224]), Tensor::randint(0, 1000, [256]));
            mixed_step(Resnet50::new(), Resnet50::forward, inputs)
        }),
        large("bert_large_train_bs64_s512_bf16", || mixed_transformer(BERT_LARGE, 64, 512)),
        large("gpt2_train_16x1024_bf16", || mixed_transformer(GPT2, 16, 1024)),
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
