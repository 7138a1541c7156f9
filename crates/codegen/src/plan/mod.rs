//! What a list of opts makes of a kernel's axes, and which opts are legal.
//!
//! Opts come in from outside, and nothing is rewritten here: the passes of `apply` read the finished plan.

pub mod opt;
pub mod axes;
pub(crate) mod lanes;
mod pad;
pub mod stage;
pub mod shape;
mod matrix;
mod legal;

pub use axes::{Axis, Plan};
