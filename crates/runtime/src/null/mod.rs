//! The NULL device: schedules and lowers like the CPU, runs nothing. For measuring the compiler.

pub mod device;
pub mod memory;
mod program;

pub use device::{Null, open};
