//! One kernel: from its graph to code on a device.

pub(crate) mod choice;
pub(crate) mod compile;
pub(crate) mod sequence;
pub(crate) mod compiled;

pub use choice::{Choice, with_random_opts};
pub use compile::compile;
pub use compiled::Compiled;
