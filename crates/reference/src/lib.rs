//! Plain nested-loop implementations over `Vec<f64>` that share nothing with frit: a test oracle.
//!
//! Everything is a method on [`Array`], a shape and its row-major data, and is written as its definition
//! reads: slow, obvious, in float64. A mistake in the compiler and the same mistake here are unlikely.
//! Bad arguments panic; this crate is linked into tests only.
//!
//! ```text
//! array        the type, constructors, broadcasting
//! movement     reshape … roll, gather and scatter
//! elementwise  unary and binary tables, casts, erf
//! reduce       folds over axes, scans, softmax, sort
//! nn           matmul, convolution, pooling, normalisation, losses
//! grad         gradients by central differences
//! goldens      reader of `tests-data/goldens/`, values computed by torch
//! tolerance    how far from those values a result may be
//! ```
#![forbid(unsafe_code)]

mod array;
mod elementwise;
pub mod goldens;
mod grad;
mod movement;
mod nn;
mod reduce;
pub mod tolerance;

pub use array::{Array, axis_of, broadcast_shapes};
pub use elementwise::{BINARY, UNARY, erf, erfc, round_to_bf16, round_to_f16, round_to_float};
pub use grad::finite_difference;
pub use nn::{Conv2d, Pool2d};
