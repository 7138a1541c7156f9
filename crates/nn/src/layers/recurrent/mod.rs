//! Recurrent layers: a cell that goes along a sequence, in both directions if asked, several of them stacked.
//!
//! 1. [`cell`]: what happens at one place of the sequence, and the cells as layers of their own;
//! 2. [`stack`]: along the sequence (one loop over a step that is compiled once), there and back, layer upon layer;
//! 3. here: `Rnn`, `Lstm` and `Gru`. Parameter names and the order of the gates are torch's.

mod cell;
mod stack;

pub use cell::{GruCell, LstmCell, RnnCell};
pub use stack::RnnOptions;

use crate::Module;
use cell::{GruStep, LstmStep, RnnStep};
use frit_tensor::Tensor;
use stack::Stack;

macro_rules! recurrent {
    ($(#[$doc:meta])* $name:ident, $op:literal, $step:ty, $make:expr) => {
        $(#[$doc])*
        pub struct $name(Stack<$step>);

        impl $name {
            /// One layer from `inputs` to `hidden` features, over (T, N, inputs).
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> $name {
                $name::with(inputs, hidden, RnnOptions::default())
            }
            /// With options.
            #[track_caller]
            pub fn with(inputs: usize, hidden: usize, options: RnnOptions) -> $name {
                let _c = frit_tensor::call($op);
                $name(Stack::new($op, $make, inputs, hidden, options))
            }
        }

        impl Module for $name {
            fn visit(&self, path: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                self.0.visit(path, f);
            }
        }
    };
}

recurrent!(
    /// `h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)` along a sequence.
    ///
    /// ```
    /// # use frit_nn::{Rnn, RnnOptions};
    /// # use frit_tensor::Tensor;
    /// let rnn = Rnn::with(3, 4, RnnOptions { layers: 2, bidirectional: true, ..RnnOptions::default() });
    /// let (y, h) = rnn.forward(&Tensor::zeros([5, 2, 3]), None); // 5 places, 2 sequences, 3 features
    /// assert_eq!((y.shape(), h.shape()), (Tensor::zeros([5, 2, 8]).shape(), Tensor::zeros([4, 2, 4]).shape()));
    /// ```
    Rnn,
    "rnn",
    RnnStep,
    RnnStep(Tensor::tanh)
);
recurrent!(
    /// Long short-term memory along a sequence; the gates are input, forget, cell, output.
    Lstm,
    "lstm",
    LstmStep,
    LstmStep
);
recurrent!(
    /// Gated recurrent units along a sequence; the gates are reset, update, new.
    Gru,
    "gru",
    GruStep,
    GruStep
);

impl Rnn {
    /// With another function than `tanh`.
    pub fn activation(mut self, f: fn(&Tensor) -> Tensor) -> Rnn {
        self.0.step = RnnStep(f);
        self
    }
    /// (T, N, in), (layers * directions, N, hidden) -> (T, N, directions * hidden), the last states. The first states
    /// are zero if there are none. One sequence may come without its N; `batch_first` puts N before T.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> (Tensor, Tensor) {
        let _c = frit_tensor::call("rnn");
        let (y, [h]) = self.0.forward(x, h.map(|h| [h]));
        (y, h)
    }
}

impl Gru {
    /// As [`Rnn::forward`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> (Tensor, Tensor) {
        let _c = frit_tensor::call("gru");
        let (y, [h]) = self.0.forward(x, h.map(|h| [h]));
        (y, h)
    }
}

impl Lstm {
    /// As [`Rnn::forward`]; the states are `h` and `c`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        let _c = frit_tensor::call("lstm");
        let (y, [h, c]) = self.0.forward(x, state.map(|(h, c)| [h, c]));
        (y, (h, c))
    }
}
