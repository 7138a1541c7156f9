//! Squeezes MNIST digits through 16 numbers and draws what comes out.
//!
//! ```text
//! cargo run --release --example autoencoder                # two epochs
//! cargo run --release --example autoencoder -- --steps 60
//! ```

use frit::Progress;
use frit::nn::data::{Loader, Mnist};
use frit::nn::{Adam, Linear, Module, Optimizer, Sequential};
use frit::prelude::*;

const BATCH: usize = 128;
const CODE: usize = 16;

#[derive(Module)]
struct Autoencoder {
    encoder: Sequential,
    decoder: Sequential,
}

impl Autoencoder {
    fn new() -> Autoencoder {
        let encoder =
            Sequential::new().then(Linear::new(784, 128)).then_fn(Tensor::relu).then(Linear::new(128, CODE));
        let decoder =
            Sequential::new().then(Linear::new(CODE, 128)).then_fn(Tensor::relu).then(Linear::new(128, 784));
        Autoencoder { encoder, decoder }
    }
    /// (N, 784) -> logits of the same pixels
    fn forward(&self, x: &Tensor) -> Tensor {
        self.decoder.forward(&self.encoder.forward(x))
    }
}

/// Two images of 28 x 28 from 0 to 1, side by side, two rows to a line.
fn draw(left: &[f32], right: &[f32]) {
    let shades: Vec<char> = " .:-=+*#%@".chars().collect();
    for rows in (0..28).step_by(2) {
        let line = |image: &[f32]| -> String {
            let shade = |c: usize| (image[rows * 28 + c] + image[(rows + 1) * 28 + c]) / 2.0;
            (0..28).map(|c| shades[(shade(c) * 9.99) as usize]).collect()
        };
        println!("{}  |  {}", line(left), line(right));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => 2 * 60_000 / BATCH,
        [flag, n] if flag == "--steps" => n.parse()?,
        _ => return Err("there is --steps N".into()),
    };
    frit::manual_seed(3);
    let net = Autoencoder::new();
    let mut opt = Adam::new(&net, 2e-3)?;
    let loader = Loader::new(Mnist::train()?, BATCH)?.shuffle(1).drop_last();
    let (mut first, mut recent) = (None, f32::NAN);
    let progress = Progress::new("training", steps);
    let batches = (0..).flat_map(|epoch| loader.epoch(epoch)).take(steps);
    for (step, batch) in batches.enumerate() {
        let (images, _) = batch?;
        let x = images.flatten(1, -1); // (N, 784)
        let loss = net.forward(&x).binary_cross_entropy_with_logits(&x);
        loss.backward()?;
        opt.step_with(&[&loss])?;
        let loss = loss.item::<f32>()?;
        first.get_or_insert(loss);
        progress.value("loss", loss.into());
        progress.step();
        recent = if recent.is_nan() { loss } else { 0.95 * recent + 0.05 * loss };
        if step % 50 == 0 {
            progress.say(&format!("step {step:4}  loss {recent:.4}"));
        }
    }
    drop(progress);
    let (digit, _) = Mnist::test()?.batch(&[0])?;
    let drawn = net.forward(&digit.flatten(1, -1)).sigmoid();
    println!("a digit of the test set, and what {CODE} numbers keep of it:");
    draw(&digit.to_vec::<f32>()?, &drawn.to_vec::<f32>()?);
    println!("loss {recent:.4} after {steps} steps");
    if first.is_some_and(|first| recent > 0.7 * first) {
        return Err("the loss did not fall".into());
    }
    Ok(())
}
