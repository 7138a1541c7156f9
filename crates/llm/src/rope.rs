//! Rotary positions: how fast each pair of a head turns, and turning it.
//!
//! Scalings change the frequencies so that a model reads further than it was trained to: `Linear` by one factor, `Yarn` by
//! factors between 1 and it, `Llama3` by its own ramp, and `Factors` by a list.

use frit_tensor::Tensor;
use std::f64::consts::PI;

/// How positions turn pairs of elements of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Pair i of n turns by `base^(-i/n)` a position.
    pub base: f64,
    /// How many elements of a head turn, from the first.
    pub dims: usize,
    /// Pairs are neighbours, instead of one of each half.
    pub interleaved: bool,
    /// What is done to the frequencies.
    pub scaling: Scaling,
}

/// What is done to the frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Nothing.
    None,
    /// All are divided.
    Linear(f64),
    /// Slow ones are divided, fast ones are kept, between them a ramp by wave length.
    Llama3 {
        /// What slow ones are divided by.
        factor: f64,
        /// Waves longer than the original context by this are slow.
        low: f64,
        /// Waves shorter than it by this are fast.
        high: f64,
        /// The context of training.
        original: f64,
    },
    /// Between dividing and keeping by how often a pair turns in the original context.
    Yarn {
        /// What slow ones are divided by.
        factor: f64,
        /// Turns of what is kept.
        fast: f64,
        /// Turns of what is divided.
        slow: f64,
        /// The context of training.
        original: f64,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
    /// Each is divided by its own factor.
    Factors {
        /// One for each pair.
        factors: Vec<f64>,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
}

impl Rope {
    /// The angle of each pair a position.
    pub fn frequencies(&self) -> Vec<f64> {
        let half = self.dims / 2;
        (0..half).map(|i| self.scaled(i, self.base.powf(-(i as f64) / half as f64))).collect()
    }
    fn scaled(&self, i: usize, f: f64) -> f64 {
        match &self.scaling {
            Scaling::None => f,
            Scaling::Linear(factor) => f / factor,
            // a model has one for each pair, or it is not opened
            Scaling::Factors { factors, .. } => f / factors.get(i).copied().unwrap_or(f64::NAN),
            Scaling::Llama3 { factor, low, high, original } => {
                let turns = original * f / (2.0 * PI);
                match turns {
                    t if t < *low => f / factor,
                    t if t > *high => f,
                    t => {
                        let smooth = (t - low) / (high - low);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                }
            }
            Scaling::Yarn { factor, fast, slow, original, .. } => {
                // the pair that turns so often in the original context
                let pair = |turns: f64| {
                    self.dims as f64 * (original / (turns * 2.0 * PI)).ln() / (2.0 * self.base.ln())
                };
                let begin = pair(*fast).floor().max(0.0);
                let end = pair(*slow).ceil().min(self.dims as f64 - 1.0);
                let ramp = ((i as f64 - begin) / (end - begin).max(0.001)).clamp(0.0, 1.0);
                f / factor * ramp + f * (1.0 - ramp)
            }
        }
    }
    fn magnitude(&self) -> f64 {
        match &self.scaling {
            Scaling::Yarn { magnitude, .. } | Scaling::Factors { magnitude, .. } => *magnitude,
            _ => 1.0,
        }
    }
    /// Cosines and sines at positions `(T)`: `(T, pairs)` each. They are computed once for all layers.
    pub fn angles(&self, positions: &Tensor) -> [Tensor; 2] {
        // rounded once: an error here grows with the position
        let turns: Vec<f32> = self.frequencies().iter().map(|f| *f as f32).collect();
        let turns = match positions.device() {
            Ok(device) => Tensor::from_slice(&turns).to(&device),
            Err(e) => Tensor::failed(e),
        };
        let angle = positions.float().unsqueeze(-1) * turns;
        [angle.cos(), angle.sin()].map(|t| (t * self.magnitude()).contiguous())
    }
    /// Turns `(T, heads, head)` by the angles of its positions.
    pub fn turn(&self, x: &Tensor, [cos, sin]: &[Tensor; 2]) -> Tensor {
        let whole = x.shape()[-1].get();
        let half = self.dims / 2;
        // (T, heads, half, 2) or (T, heads, 2, half)
        let (sizes, axis) = if self.interleaved { ([half, 2], -1) } else { ([2, half], -2) };
        let pairs = x.narrow(-1, 0, self.dims).unflatten(-1, sizes);
        let (cos, sin) = (cos.unsqueeze(1).unsqueeze(axis), sin.unsqueeze(1).unsqueeze(axis));
        let sizes = if self.interleaved { [1, 2] } else { [2, 1] };
        let is_first = Tensor::arange(2).reshape(sizes).eq(0);
        // a cos - b sin, b cos + a sin: each element and the other of its pair
        let out = &pairs * cos + pairs.flip(axis) * is_first.where_(-&sin, &sin);
        let out = out.flatten(-2, -1);
        match whole - self.dims {
            0 => out,
            rest => Tensor::cat(&[out, x.narrow(-1, self.dims, rest)], -1),
        }
    }
}
