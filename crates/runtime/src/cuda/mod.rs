//! NVIDIA's GPUs, through the driver's library as it is found at run time.
//!
//! A device is one queue: launches and copies run in the order in which they were asked for, so memory that is freed can be
//! handed out again at once. The host waits where it needs bytes ([`crate::Block::copy_out`]) or an answer
//! ([`crate::Device::synchronize`]).

mod clock;
pub mod context;
pub mod device;
pub mod driver;
mod foreign;
mod graph;
mod memory;
mod program;
mod queue;
mod status;
mod target;

pub use device::{Cuda, open};
