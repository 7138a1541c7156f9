//! Programs running: a warp at a time over rows of 32 lanes, every access checked.
//!
//! Lanes of a warp that part at a branch are groups of their own; the one furthest back runs, until it meets the next.
//! Reported, naming the kernel, the line of its text, the block and the lane: an access outside of any allocation, after it
//! was freed, or off its alignment; memory read before it is written; lanes that touch the same byte, one of them to write,
//! without a barrier between (of different blocks there is none); a barrier that not all lanes reach; a quotient that is not
//! there; a loop that does not end.

mod access;
mod block;
mod copies;
mod launch;
mod matrix;
pub mod regs;
mod shared;
mod shuffle;
mod warp;

pub use launch::{Launch, Totals, launch};

/// Why a launch ended, as the driver reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The driver's code.
    pub code: i32,
    /// What happened where.
    pub message: String,
}

/// Codes of faults.
pub mod code {
    /// Outside of memory, and every other fault of a kernel's memory.
    pub const ILLEGAL_ADDRESS: i32 = 700;
    /// It does not end.
    pub const TIMEOUT: i32 = 702;
    /// An access off its alignment.
    pub const MISALIGNED: i32 = 716;
    /// Every other fault.
    pub const LAUNCH_FAILED: i32 = 719;
}
