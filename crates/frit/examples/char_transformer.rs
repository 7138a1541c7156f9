//! A transformer that learns to write one character after another, from a part of Shakespeare's plays in
//! `data/shakespeare`.
//!
//! ```text
//! cargo run --release --example char_transformer
//! cargo run --release --example char_transformer -- --steps 40
//! ```

use frit::Progress;
use frit::nn::data::find;
use frit::nn::optim::clip_grad_norm;
use frit::nn::optim::schedule::{Cosine, Schedule, Warmup};
use frit::nn::{
    AdamW, Embedding, Linear, Masks, Module, Optimizer, TransformerEncoder, TransformerOptions, training,
};
use frit::prelude::*;

const CONTEXT: usize = 64;
const BATCH: usize = 32;
const DIM: usize = 64;

#[derive(Module)]
struct Writer {
    characters: Embedding,
    places: Embedding,
    body: TransformerEncoder,
    head: Linear,
}

impl Writer {
    fn new(characters: usize) -> Writer {
        let options = TransformerOptions {
            feedforward: 4 * DIM,
            dropout: 0.1,
            activation: Tensor::gelu,
            batch_first: true,
            norm_first: true,
            ..TransformerOptions::default()
        };
        Writer {
            characters: Embedding::new(characters, DIM),
            places: Embedding::new(CONTEXT, DIM),
            body: TransformerEncoder::new(DIM, 4, 2, options),
            head: Linear::new(DIM, characters),
        }
    }
    /// (N, CONTEXT) -> logits of what comes next at each place, (N, CONTEXT, characters)
    fn forward(&self, text: &Tensor) -> Tensor {
        let x = self.characters.forward(text) + self.places.forward(&Tensor::arange(CONTEXT));
        self.head.forward(&self.body.forward(&x, Masks::causal()))
    }
}

/// Numbers that look random, for choosing pieces of text and the next character.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    fn below(&mut self, n: usize) -> usize {
        (self.roll() * n as f64) as usize
    }
    /// A place, the likelier the higher its logit.
    fn choose(&mut self, logits: &[f32], temperature: f32) -> usize {
        let top = logits.iter().copied().fold(f32::MIN, f32::max);
        let weights: Vec<f64> = logits.iter().map(|l| ((l - top) / temperature).exp() as f64).collect();
        let mut left = self.roll() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|w| {
            left -= w;
            left <= 0.0
        });
        chosen.unwrap_or(logits.len() - 1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => 1500,
        [flag, n] if flag == "--steps" => n.parse()?,
        _ => return Err("there is --steps N".into()),
    };
    let text = std::fs::read_to_string(find("shakespeare")?.join("plays.txt"))?;
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort();
    alphabet.dedup();
    let number = |c: char| alphabet.binary_search(&c).unwrap_or(0) as i32;
    let numbers: Vec<i32> = text.chars().map(number).collect();
    println!("{} characters, {} different ones", numbers.len(), alphabet.len());

    frit::manual_seed(11);
    let mut dice = Dice(11);
    let net = Writer::new(alphabet.len());
    let schedule = Warmup { length: 20, start: 0.05, then: Cosine { lr: 3e-3, min: 1e-4, length: steps } };
    let mut opt = AdamW::new(&net, schedule.lr(0))?.betas(0.9, 0.99);
    let (mut first, mut recent) = (None, f32::NAN);
    let progress = Progress::new("training", steps);
    for step in 0..steps {
        let starts: Vec<usize> = (0..BATCH).map(|_| dice.below(numbers.len() - CONTEXT)).collect();
        let pieces = |shift: usize| {
            let all: Vec<i32> =
                starts.iter().flat_map(|s| &numbers[s + shift..s + shift + CONTEXT]).copied().collect();
            Tensor::from_vec(all, [BATCH, CONTEXT])
        };
        let (text, next) = (pieces(0), pieces(1));
        opt.set_lr(schedule.lr(step))?;
        let loss = training(true, || net.forward(&text)).flatten(0, 1).cross_entropy(&next.flatten(0, 1));
        loss.backward()?;
        clip_grad_norm(&net, 1.0)?;
        opt.step_with(&[&loss])?;
        let loss = loss.item::<f32>()?;
        first.get_or_insert(loss);
        progress.value("loss", loss.into());
        progress.step();
        recent = if recent.is_nan() { loss } else { 0.95 * recent + 0.05 * loss };
        if step % 50 == 0 {
            progress.say(&format!("step {step:4}  loss {recent:.3}"));
        }
    }
    drop(progress);

    // Goes on from the beginning of the text, always looking at the last CONTEXT characters.
    let mut written = numbers[..CONTEXT].to_vec();
    for _ in 0..if steps < 100 { 20 } else { 300 } {
        let window = Tensor::from_vec(&written[written.len() - CONTEXT..], [1, CONTEXT]);
        let logits = net.forward(&window).at((0, -1)).to_vec::<f32>()?;
        written.push(dice.choose(&logits, 0.8) as i32);
    }
    let sample: String = written.iter().map(|n| alphabet[*n as usize]).collect();
    println!("---\n{sample}\n---\nloss {recent:.3} a character after {steps} steps");
    if first.is_some_and(|first| recent > 0.9 * first) {
        return Err("the loss did not fall".into());
    }
    Ok(())
}
