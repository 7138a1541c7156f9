//! One place of a sequence: the cells.
//!
//! ```text
//! x @ weight_ih.T + bias_ih    h @ weight_hh.T + bias_hh      each (N, gates * hidden)
//!                  \                  /
//!                   step(.., .., state) -> new state
//! ```

use super::super::{plus, uniform_fan_in};
use crate::{Module, visit_field};
use frit_tensor::{Error, Result, Tensor};

/// The arithmetic of a cell with `S` states.
pub trait Step<const S: usize> {
    /// How many blocks of `hidden` rows the weights have.
    const GATES: usize;
    /// The next states, from what the input and the hidden state give the gates.
    fn step(&self, from_x: &Tensor, from_h: &Tensor, state: [&Tensor; S]) -> [Tensor; S];
}

/// A function of the sum.
pub struct RnnStep(pub fn(&Tensor) -> Tensor);
/// Gates: input, forget, cell, output.
pub struct LstmStep;
/// Gates: reset, update, new.
pub struct GruStep;

impl Step<1> for RnnStep {
    const GATES: usize = 1;
    fn step(&self, from_x: &Tensor, from_h: &Tensor, _: [&Tensor; 1]) -> [Tensor; 1] {
        [self.0(&(from_x + from_h))]
    }
}
impl Step<2> for LstmStep {
    const GATES: usize = 4;
    fn step(&self, from_x: &Tensor, from_h: &Tensor, [_, c]: [&Tensor; 2]) -> [Tensor; 2] {
        let both = from_x + from_h;
        let gate = |k| gate(&both, k, Self::GATES);
        let c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
        [gate(3).sigmoid() * c.tanh(), c]
    }
}
impl Step<1> for GruStep {
    const GATES: usize = 3;
    fn step(&self, from_x: &Tensor, from_h: &Tensor, [h]: [&Tensor; 1]) -> [Tensor; 1] {
        let gate = |t: &Tensor, k| gate(t, k, Self::GATES);
        let r = (gate(from_x, 0) + gate(from_h, 0)).sigmoid();
        let z = (gate(from_x, 1) + gate(from_h, 1)).sigmoid();
        let n = (gate(from_x, 2) + r * gate(from_h, 2)).tanh();
        [&n + z * (h - &n)]
    }
}

/// The `k`th of `count` equal parts of the last dim.
fn gate(t: &Tensor, k: usize, count: usize) -> Tensor {
    let size = t.shape()[-1].get() / count;
    t.narrow(-1, k * size, size)
}

/// The parameters of a cell.
pub struct Weights {
    /// (gates * hidden, in)
    pub weight_ih: Tensor,
    /// (gates * hidden, hidden)
    pub weight_hh: Tensor,
    /// (gates * hidden,) each
    pub bias: Option<[Tensor; 2]>,
    pub inputs: usize,
    pub hidden: usize,
}

impl Weights {
    /// Evenly within `1 / sqrt(hidden)`, as torch's.
    pub fn new(inputs: usize, hidden: usize, gates: usize, bias: bool) -> Weights {
        let draw = |dims: &[usize]| uniform_fan_in(dims, hidden);
        let rows = gates * hidden;
        let (weight_ih, weight_hh) = (draw(&[rows, inputs]), draw(&[rows, hidden]));
        let bias = bias.then(|| [draw(&[rows]), draw(&[rows])]);
        Weights { weight_ih, weight_hh, bias, inputs, hidden }
    }
    /// What the input gives the gates.
    pub fn gates_of_x(&self, x: &Tensor) -> Tensor {
        plus(x.linear(&self.weight_ih, None), self.bias.as_ref().map(|b| &b[0]))
    }
    /// What the hidden state gives the gates.
    pub fn gates_of_h(&self, h: &Tensor) -> Tensor {
        plus(h.linear(&self.weight_hh, None), self.bias.as_ref().map(|b| &b[1]))
    }
    /// The parameters under torch's names, each with `suffix`.
    pub fn visit(&self, path: &str, suffix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        let mut give = |name: &str, t: &Tensor| visit_field(t, path, &format!("{name}{suffix}"), f);
        give("weight_ih", &self.weight_ih);
        give("weight_hh", &self.weight_hh);
        if let Some([ih, hh]) = &self.bias {
            give("bias_ih", ih);
            give("bias_hh", hh);
        }
    }
    /// The next states of a single step, the first ones zero if there are none.
    fn advance<const S: usize, K: Step<S>>(
        &self,
        op: &'static str,
        step: &K,
        x: &Tensor,
        state: Option<[&Tensor; S]>,
    ) -> [Tensor; S] {
        let begin = || -> Result<[Tensor; S]> {
            x.check()?;
            if !matches!(x.rank(), 1 | 2) || x.shape()[-1] != self.inputs {
                return Err(Error::new(op, format!("expected (N, {}), got {}", self.inputs, x.shape())));
            }
            let mut dims = x.dims()?;
            if let Some(last) = dims.last_mut() {
                *last = self.hidden;
            }
            let Some(state) = state else { return Ok(zeros(&dims, x)) };
            for s in state {
                s.check()?;
                if s.dims()? != dims {
                    return Err(Error::new(
                        op,
                        format!("expected a state of shape {dims:?}, got {}", s.shape()),
                    ));
                }
            }
            Ok(state.map(Tensor::clone))
        };
        match begin() {
            Ok(state) => step.step(&self.gates_of_x(x), &self.gates_of_h(&state[0]), state.each_ref()),
            Err(e) => std::array::from_fn(|_| Tensor::failed(e.clone())),
        }
    }
}

/// States to start with.
pub fn zeros<const S: usize>(dims: &[usize], beside: &Tensor) -> [Tensor; S] {
    std::array::from_fn(|_| Tensor::full_dtype(dims, 0.0, beside.dtype()))
}

macro_rules! cell {
    ($(#[$doc:meta])* $name:ident, $op:literal, $step:ty, $make:expr, $gates:expr) => {
        $(#[$doc])*
        pub struct $name {
            weights: Weights,
            step: $step,
        }
        impl $name {
            /// From `inputs` to `hidden` features.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> $name {
                let _c = frit_tensor::call($op);
                $name { weights: Weights::new(inputs, hidden, $gates, true), step: $make }
            }
            /// Drops the biases.
            pub fn without_bias(mut self) -> $name {
                self.weights.bias = None;
                self
            }
        }
        impl Module for $name {
            fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                self.weights.visit(path, "", f);
            }
        }
    };
}
cell!(
    /// One step of an [`Rnn`](crate::Rnn).
    RnnCell,
    "rnn_cell",
    RnnStep,
    RnnStep(Tensor::tanh),
    <RnnStep as Step<1>>::GATES
);
cell!(
    /// One step of an [`Lstm`](crate::Lstm).
    LstmCell,
    "lstm_cell",
    LstmStep,
    LstmStep,
    <LstmStep as Step<2>>::GATES
);
cell!(
    /// One step of a [`Gru`](crate::Gru).
    GruCell,
    "gru_cell",
    GruStep,
    GruStep,
    <GruStep as Step<1>>::GATES
);

impl RnnCell {
    /// With another function than `tanh`.
    pub fn activation(mut self, f: fn(&Tensor) -> Tensor) -> RnnCell {
        self.step = RnnStep(f);
        self
    }
    /// (N, in), (N, hidden) -> (N, hidden), or all without N
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Tensor {
        let _c = frit_tensor::call("rnn_cell");
        let [h] = self.weights.advance("rnn_cell", &self.step, x, h.map(|h| [h]));
        h
    }
}
impl GruCell {
    /// (N, in), (N, hidden) -> (N, hidden), or all without N
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Tensor {
        let _c = frit_tensor::call("gru_cell");
        let [h] = self.weights.advance("gru_cell", &self.step, x, h.map(|h| [h]));
        h
    }
}
impl LstmCell {
    /// (N, in), `h` and `c` of (N, hidden) -> the next `h` and `c`, or all without N
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> (Tensor, Tensor) {
        let _c = frit_tensor::call("lstm_cell");
        let [h, c] = self.weights.advance("lstm_cell", &self.step, x, state.map(|(h, c)| [h, c]));
        (h, c)
    }
}
