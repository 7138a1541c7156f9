//! The NULL device: schedules and lowers like the machine it poses as, runs nothing. For measuring the compiler, and for
//! seeing what it makes for machines that are not here.

pub mod device;
pub mod memory;
mod program;
pub mod target;

pub use device::{Null, open};
