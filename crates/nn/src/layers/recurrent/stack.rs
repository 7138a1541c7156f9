//! A cell along the sequence, there and back, layer upon layer.

use super::cell::{Step, Weights, zeros};
use crate::is_training;
use frit_tensor::{Error, Result, Tensor};

/// What recurrent layers can be told.
#[derive(Clone, Copy, Debug)]
pub struct RnnOptions {
    /// How many layers, each over the results of the one before.
    pub layers: usize,
    /// Also from the end to the beginning; the results stand side by side.
    pub bidirectional: bool,
    /// (N, T, ..) in place of (T, N, ..); the states are not turned.
    pub batch_first: bool,
    /// While training, what is dropped between layers.
    pub dropout: f64,
    /// With biases.
    pub bias: bool,
}

impl Default for RnnOptions {
    fn default() -> RnnOptions {
        RnnOptions { layers: 1, bidirectional: false, batch_first: false, dropout: 0.0, bias: true }
    }
}

impl RnnOptions {
    fn directions(&self) -> usize {
        1 + self.bidirectional as usize
    }
}

/// Layers of one kind of cell.
pub struct Stack<K> {
    op: &'static str,
    pub step: K,
    /// Layer by layer, forth and back.
    weights: Vec<Weights>,
    inputs: usize,
    hidden: usize,
    options: RnnOptions,
}

impl<K> Stack<K> {
    pub fn new<const S: usize>(
        op: &'static str,
        step: K,
        inputs: usize,
        hidden: usize,
        options: RnnOptions,
    ) -> Stack<K>
    where
        K: Step<S>,
    {
        let directions = options.directions();
        let width = |layer| if layer == 0 { inputs } else { directions * hidden };
        let weights = (0..options.layers * directions)
            .map(|i| Weights::new(width(i / directions), hidden, K::GATES, options.bias))
            .collect();
        Stack { op, step, weights, inputs, hidden, options }
    }
    pub fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        let directions = self.options.directions();
        for (i, w) in self.weights.iter().enumerate() {
            let back = if i % directions == 1 { "_reverse" } else { "" };
            w.visit(path, &format!("_l{}{back}", i / directions), f);
        }
    }
    /// The results of the last layer, and the last states of all.
    pub fn forward<const S: usize>(&self, x: &Tensor, state: Option<[&Tensor; S]>) -> (Tensor, [Tensor; S])
    where
        K: Step<S>,
    {
        self.run(x, state).unwrap_or_else(|e| {
            (Tensor::failed(e.clone()), std::array::from_fn(|_| Tensor::failed(e.clone())))
        })
    }
    fn run<const S: usize>(&self, x: &Tensor, state: Option<[&Tensor; S]>) -> Result<(Tensor, [Tensor; S])>
    where
        K: Step<S>,
    {
        x.check()?;
        let batched = x.rank() == 3;
        if !matches!(x.rank(), 2 | 3) || x.shape()[-1] != self.inputs {
            let order = if self.options.batch_first { "N, T" } else { "T, N" };
            let message = format!("expected ({order}, {}) or (T, {0}), got {}", self.inputs, x.shape());
            return Err(Error::new(self.op, message));
        }
        let mut x = match (batched, self.options.batch_first) {
            (false, _) => x.unsqueeze(1),
            (true, true) => x.transpose(0, 1),
            (true, false) => x.clone(),
        };
        if self.weights.is_empty() {
            return Err(Error::new(self.op, "there are no layers"));
        }
        let first = self.first_states(&x, state, batched)?;
        let directions = self.options.directions();
        let mut last: [Vec<Tensor>; S] = std::array::from_fn(|_| Vec::new());
        for (layer, weights) in self.weights.chunks(directions).enumerate() {
            if layer > 0 && self.options.dropout > 0.0 && is_training() {
                x = x.dropout(self.options.dropout);
            }
            let mut sides = Vec::new();
            for (direction, w) in weights.iter().enumerate() {
                let begin = first.each_ref().map(|s| s.at(layer * directions + direction));
                let (y, end) = self.along(w, &x, begin, direction == 1)?;
                sides.push(y);
                last.iter_mut().zip(end).for_each(|(all, s)| all.push(s));
            }
            x = if sides.len() == 1 { sides.remove(0) } else { Tensor::cat(&sides, -1) };
        }
        let last = last.map(|s| Tensor::stack(&s, 0));
        Ok(match (batched, self.options.batch_first) {
            (false, _) => (x.squeeze(1), last.map(|s| s.squeeze(1))),
            (true, true) => (x.transpose(0, 1), last),
            (true, false) => (x, last),
        })
    }
    /// The states given, as (layers * directions, N, hidden), or zeros.
    fn first_states<const S: usize>(
        &self,
        x: &Tensor,
        state: Option<[&Tensor; S]>,
        batched: bool,
    ) -> Result<[Tensor; S]> {
        let dims = [self.weights.len(), x.dims()?[1], self.hidden];
        let Some(state) = state else { return Ok(zeros(&dims, x)) };
        let state = state.map(|s| if batched { s.clone() } else { s.unsqueeze(1) });
        for s in &state {
            s.check()?;
            if s.shape() != dims {
                let message = format!("expected states of shape {dims:?}, got {}", s.shape());
                return Err(Error::new(self.op, message));
            }
        }
        Ok(state)
    }
    /// One direction of one layer: (T, N, in) -> (T, N, hidden), and the states after the last place.
    fn along<const S: usize>(
        &self,
        w: &Weights,
        x: &Tensor,
        begin: [Tensor; S],
        back: bool,
    ) -> Result<(Tensor, [Tensor; S])>
    where
        K: Step<S>,
    {
        let length = &x.shape()[0];
        if length.as_int() == Some(0) {
            return Err(Error::new(self.op, "a sequence of no places"));
        }
        // From the end: the sequence reversed, and its results reversed back.
        let turned = |t: Tensor| if back { t.flip(0) } else { t };
        let gates = turned(w.gates_of_x(x)); // for all places at once
        let (end, results) = Tensor::scan(length, &begin.each_ref(), |t, state| {
            let state: [&Tensor; S] = std::array::from_fn(|i| &state[i]);
            let next = self.step.step(&gates.at(t), &w.gates_of_h(state[0]), state);
            (next.to_vec(), next[..1].to_vec())
        });
        let result = results.into_iter().next().unwrap_or_else(|| x.clone());
        result.check()?;
        match <[Tensor; S]>::try_from(end) {
            Ok(end) => Ok((turned(result), end)),
            Err(_) => Err(Error::new(self.op, "the loop lost a state")),
        }
    }
}
