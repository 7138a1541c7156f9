//! Learning rates that change with the steps.
//!
//! A schedule is a plain function from the number of steps made to the learning rate; nothing is hidden in the
//! optimiser:
//!
//! ```
//! use frit_nn::optim::schedule::{Cosine, Schedule, Warmup};
//! use frit_nn::{Adam, Linear, Optimizer};
//!
//! let mut opt = Adam::new(&Linear::new(2, 1), 1e-3)?;
//! let schedule = Warmup { length: 10, start: 0.1, then: Cosine { lr: 1e-3, min: 0.0, length: 90 } };
//! for step in 0..100 {
//!     opt.set_lr(schedule.lr(step))?; // nothing is compiled again
//! }
//! # Ok::<(), frit_tensor::Error>(())
//! ```

use std::f64::consts::PI;

/// The learning rate at each step.
pub trait Schedule {
    /// The learning rate after `step` steps.
    fn lr(&self, step: usize) -> f64;
}

/// Always the same.
impl Schedule for f64 {
    fn lr(&self, _: usize) -> f64 {
        *self
    }
}

/// Times `gamma` after every `size` steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// At first.
    pub lr: f64,
    /// Steps between changes; 0 for none.
    pub size: usize,
    /// What each change multiplies by.
    pub gamma: f64,
}

impl Schedule for Steps {
    fn lr(&self, step: usize) -> f64 {
        let changes = step.checked_div(self.size).unwrap_or(0);
        self.lr * self.gamma.powi(changes as i32)
    }
}

/// Times `gamma` at each of some steps.
#[derive(Clone, Debug)]
pub struct MultiStep {
    /// At first.
    pub lr: f64,
    /// The steps, in any order.
    pub at: Vec<usize>,
    /// What each change multiplies by.
    pub gamma: f64,
}

impl Schedule for MultiStep {
    fn lr(&self, step: usize) -> f64 {
        let changes = self.at.iter().filter(|at| **at <= step).count();
        self.lr * self.gamma.powi(changes as i32)
    }
}

/// Times `gamma` at every step.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// At first.
    pub lr: f64,
    /// What each step multiplies by.
    pub gamma: f64,
}

impl Schedule for Exponential {
    fn lr(&self, step: usize) -> f64 {
        self.lr * self.gamma.powf(step as f64)
    }
}

/// Along half a cosine from `lr` to `min` in `length` steps; then it stays.
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    /// At first.
    pub lr: f64,
    /// At last.
    pub min: f64,
    /// Steps from the one to the other.
    pub length: usize,
}

impl Schedule for Cosine {
    fn lr(&self, step: usize) -> f64 {
        cosine(self.lr, self.min, part(step, self.length))
    }
}

/// Half cosines from `lr` to `min` again and again, the first of `length` steps, each `times` as long as the one before.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    /// At the start of each.
    pub lr: f64,
    /// At the end of each.
    pub min: f64,
    /// Steps of the first.
    pub length: usize,
    /// How much longer each is.
    pub times: usize,
}

impl Schedule for Restarts {
    fn lr(&self, step: usize) -> f64 {
        let (mut at, mut length, times) = (step, self.length.max(1), self.times.max(1));
        if times == 1 {
            at %= length;
        }
        while at >= length {
            at -= length;
            length = length.saturating_mul(times);
        }
        cosine(self.lr, self.min, part(at, length))
    }
}

/// In a straight line from `start * lr` to `end * lr` in `length` steps; then it stays.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// What the two are parts of.
    pub lr: f64,
    /// At first.
    pub start: f64,
    /// At last.
    pub end: f64,
    /// Steps from the one to the other.
    pub length: usize,
}

impl Schedule for Linear {
    fn lr(&self, step: usize) -> f64 {
        self.lr * line(self.start, self.end, part(step, self.length))
    }
}

/// `lr * (1 - step / length)^power`; then 0.
#[derive(Clone, Copy, Debug)]
pub struct Polynomial {
    /// At first.
    pub lr: f64,
    /// Steps to 0.
    pub length: usize,
    /// 1 is a straight line.
    pub power: f64,
}

impl Schedule for Polynomial {
    fn lr(&self, step: usize) -> f64 {
        self.lr * (1.0 - part(step, self.length)).powf(self.power)
    }
}

/// Up from `max / div` to `max`, then down to `max / div / final_div`.
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    /// The peak.
    pub max: f64,
    /// All steps.
    pub length: usize,
    /// Which part of them goes up.
    pub rise: f64,
    /// How far below the peak it starts.
    pub div: f64,
    /// How far below the start it ends.
    pub final_div: f64,
    /// In straight lines in place of half cosines.
    pub linear: bool,
}

impl OneCycle {
    /// Torch's shape: 30% of the steps go up, from a 25th of the peak; the end is a 10,000th of the start.
    pub fn new(max: f64, length: usize) -> OneCycle {
        OneCycle { max, length, rise: 0.3, div: 25.0, final_div: 1e4, linear: false }
    }
}

impl Schedule for OneCycle {
    fn lr(&self, step: usize) -> f64 {
        let last = self.length.saturating_sub(1) as f64;
        let (peak, step) = ((self.rise * self.length as f64 - 1.0).max(0.0), (step as f64).min(last));
        let between = if self.linear { line } else { cosine };
        let start = self.max / self.div;
        if step <= peak {
            between(start, self.max, if peak > 0.0 { step / peak } else { 1.0 })
        } else {
            between(self.max, start / self.final_div, (step - peak) / (last - peak))
        }
    }
}

/// In a straight line from a part of another schedule's first learning rate up to it, and then that schedule.
#[derive(Clone, Copy, Debug)]
pub struct Warmup<S> {
    /// Steps of warming up.
    pub length: usize,
    /// The part at first.
    pub start: f64,
    /// What follows, from its own step 0.
    pub then: S,
}

impl<S: Schedule> Schedule for Warmup<S> {
    fn lr(&self, step: usize) -> f64 {
        match step.checked_sub(self.length) {
            Some(later) => self.then.lr(later),
            None => self.then.lr(0) * line(self.start, 1.0, part(step, self.length)),
        }
    }
}

/// Times `factor` whenever something watched stops getting better. It looks at what it is told, so unlike the others
/// it has a state.
#[derive(Clone, Debug)]
pub struct Plateau {
    /// The learning rate now.
    pub lr: f64,
    /// What a change multiplies by.
    pub factor: f64,
    /// How often in a row it may fail to get better.
    pub patience: usize,
    /// How often nothing is counted after a change.
    pub cooldown: usize,
    /// Never below.
    pub min: f64,
    /// How much better is better: a part of the best, or an amount with `absolute`.
    pub threshold: f64,
    /// See `threshold`.
    pub absolute: bool,
    /// Larger is better.
    pub maximize: bool,
    best: Option<f64>,
    bad: usize,
    cooling: usize,
}

impl Plateau {
    /// Torch's: a tenth after 10 times without getting better by a part of 1e-4; smaller is better.
    pub fn new(lr: f64) -> Plateau {
        let (absolute, maximize, best) = (false, false, None);
        let (factor, patience, cooldown, min, threshold, bad, cooling) = (0.1, 10, 0, 0.0, 1e-4, 0, 0);
        Plateau { lr, factor, patience, cooldown, min, threshold, absolute, maximize, best, bad, cooling }
    }
    /// Takes notice of the latest value (a validation loss), and gives the learning rate from now on.
    pub fn observe(&mut self, value: f64) -> f64 {
        if self.is_better(value) {
            (self.best, self.bad) = (Some(value), 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
        if self.bad > self.patience {
            let next = (self.lr * self.factor).max(self.min);
            // a change that makes no difference is not made
            self.lr = if self.lr - next > 1e-8 { next } else { self.lr };
            (self.cooling, self.bad) = (self.cooldown, 0);
        }
        self.lr
    }
    fn is_better(&self, value: f64) -> bool {
        let Some(best) = self.best else { return !value.is_nan() };
        match (self.maximize, self.absolute) {
            (false, false) => value < best * (1.0 - self.threshold),
            (false, true) => value < best - self.threshold,
            (true, false) => value > best * (1.0 + self.threshold),
            (true, true) => value > best + self.threshold,
        }
    }
}

/// How much of `length` steps is behind, at most all.
fn part(step: usize, length: usize) -> f64 {
    if step >= length { 1.0 } else { step as f64 / length as f64 }
}

fn line(from: f64, to: f64, part: f64) -> f64 {
    from + (to - from) * part
}

fn cosine(from: f64, to: f64, part: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * part).cos()) / 2.0
}
