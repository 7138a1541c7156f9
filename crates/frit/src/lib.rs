//! frit: tensors that are only a description until someone needs the numbers, and a compiler that turns the
//! description into machine code when they do.
//!
//! ```
//! use frit::prelude::*;
//!
//! let x = Tensor::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
//! let y = (&x * 2.0 + 1.0).sum(1); // nothing is computed yet
//! assert_eq!(y.to_vec::<f32>()?, [15.0, 33.0]); // one kernel
//! # Ok::<(), frit::Error>(())
//! ```
//!
//! A net is a struct; the derive finds its parameters:
//!
//! ```
//! use frit::nn::{Adam, Linear, Module, Optimizer};
//! use frit::prelude::*;
//!
//! #[derive(Module)]
//! struct Net {
//!     hidden: Linear,
//!     out: Linear,
//! }
//! impl Net {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         self.out.forward(&self.hidden.forward(x).tanh())
//!     }
//! }
//!
//! frit::manual_seed(1);
//! let net = Net { hidden: Linear::new(2, 8), out: Linear::new(8, 1) };
//! let mut opt = Adam::new(&net, 0.05)?;
//! // exclusive or
//! let x = Tensor::new([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
//! let y = Tensor::new([[0.0], [1.0], [1.0], [0.0]]);
//! let mut last = f32::MAX;
//! for _ in 0..100 {
//!     let loss = (net.forward(&x) - &y).square().mean(..);
//!     loss.backward()?;
//!     opt.step_with(&[&loss])?;
//!     last = loss.item::<f32>()?;
//! }
//! assert!(last < 0.1, "{last}");
//! # Ok::<(), frit::Error>(())
//! ```
//!
//! Errors are deferred: operations never return `Result`, a bad one gives a failed tensor, and the first call that
//! computes gives the error back with the line that caused it.
//!
//! ```
//! use frit::prelude::*;
//!
//! let z = Tensor::zeros([2, 3]).matmul(&Tensor::zeros([4, 5])).relu();
//! assert!(z.realize().unwrap_err().to_string().starts_with("matmul: "));
//! ```

#![forbid(unsafe_code)]

/// Layers, optimisers, state files, data.
pub use frit_nn as nn;
/// ONNX models.
pub use frit_onnx as onnx;
pub use frit_tensor::*;

/// The engine below, for tools: counters of what ran, compile times.
#[doc(hidden)]
pub use frit_engine as engine;

/// What most programs name.
pub mod prelude {
    pub use frit_nn::{Module, Optimizer};
    pub use frit_tensor::{DType, Tensor};
}

/// The programs in the README run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs in the guide run.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/data.md")]
    struct Data;
    #[doc = include_str!("../../../docs/guide/devices.md")]
    struct Devices;
    #[doc = include_str!("../../../docs/guide/files.md")]
    struct Files;
    #[doc = include_str!("../../../docs/guide/gradients.md")]
    struct Gradients;
    #[doc = include_str!("../../../docs/guide/jit.md")]
    struct Jit;
    #[doc = include_str!("../../../docs/guide/kernel.md")]
    struct Kernel;
    #[doc = include_str!("../../../docs/guide/numerics.md")]
    struct Numerics;
    #[doc = include_str!("../../../docs/guide/slow.md")]
    struct Slow;
    #[doc = include_str!("../../../docs/guide/state.md")]
    struct State;
    #[doc = include_str!("../../../docs/guide/tensors.md")]
    struct Tensors;
    #[doc = include_str!("../../../docs/guide/torch.md")]
    struct Torch;
    #[doc = include_str!("../../../docs/guide/training.md")]
    struct Training;
}
