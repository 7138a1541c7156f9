//! The NULL device: schedules and lowers like the CPU, runs nothing. For measuring the compiler.

pub mod allocator;
pub mod device;

pub use device::{Null, open};
