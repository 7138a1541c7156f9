//! Teaches an LSTM to add two numbers that are marked somewhere in a sequence (Hochreiter and Schmidhuber's "adding
//! problem"): it must find them, keep them, and ignore all others.
//!
//! ```text
//! cargo run --release --example lstm
//! cargo run --release --example lstm -- --steps 60
//! ```

use frit::Progress;
use frit::nn::optim::clip_grad_norm;
use frit::nn::{Adam, Linear, Lstm, Module, Optimizer, RnnOptions};
use frit::prelude::*;

const LENGTH: usize = 10;
const BATCH: usize = 64;
const HIDDEN: usize = 32;

#[derive(Module)]
struct Adder {
    lstm: Lstm,
    out: Linear,
}

impl Adder {
    /// (N, T, 2) -> (N,)
    fn forward(&self, x: &Tensor) -> Tensor {
        let (y, _) = self.lstm.forward(x, None); // (N, T, HIDDEN)
        self.out.forward(&y.at((.., -1))).squeeze(-1)
    }
}

/// Sequences of a number and a mark, and the sum of the two numbers that are marked, one in each half.
fn problems() -> (Tensor, Tensor) {
    let numbers = Tensor::rand([BATCH, LENGTH]);
    let half = LENGTH as i64 / 2;
    let places = [Tensor::randint(0, half, [BATCH, 1]), Tensor::randint(half, LENGTH as i64, [BATCH, 1])];
    let at = Tensor::arange(LENGTH).unsqueeze(0); // (1, T)
    let marks = at.eq(&places[0]).logical_or(at.eq(&places[1]));
    let sums = marks.where_(&numbers, 0.0).sum(1);
    (Tensor::stack(&[numbers, marks.float()], -1), sums)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => 1500,
        [flag, n] if flag == "--steps" => n.parse()?,
        _ => return Err("there is --steps N".into()),
    };
    frit::manual_seed(7);
    let options = RnnOptions { batch_first: true, ..RnnOptions::default() };
    let net = Adder { lstm: Lstm::with(2, HIDDEN, options), out: Linear::new(HIDDEN, 1) };
    let mut opt = Adam::new(&net, 5e-3)?;
    let (mut first, mut recent) = (None, f32::NAN);
    let progress = Progress::new("training", steps);
    for step in 0..steps {
        let (x, sums) = problems();
        let loss = net.forward(&x).mse_loss(&sums);
        loss.backward()?;
        clip_grad_norm(&net, 1.0)?;
        opt.step_with(&[&loss])?;
        let loss = loss.item::<f32>()?;
        first.get_or_insert(loss);
        progress.value("error", loss.into());
        progress.step();
        recent = if recent.is_nan() { loss } else { 0.9 * recent + 0.1 * loss };
        if step % 100 == 0 {
            progress.say(&format!("step {step:4}  mean squared error {recent:.4}"));
        }
    }
    drop(progress);
    println!("mean squared error {recent:.4} after {steps} steps; always saying 1 has 0.167");
    if first.is_some_and(|first| recent > 0.7 * first) {
        return Err("the error did not fall".into());
    }
    Ok(())
}
