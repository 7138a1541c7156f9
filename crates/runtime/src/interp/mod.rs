//! The interpreter: walks bytecode, one checked step at a time. The oracle for every other device.
//!
//! As a CPU it runs the thread axis in random slices; as a GPU all lanes of a block advance to the next barrier in random
//! order. It reports, naming kernel and instruction: an access outside its memory; memory read before it is written;
//! lanes that touch the same element without a barrier between them when one writes (in local memory), or at all (in a
//! buffer); a barrier that not all lanes reach; division by zero and shifts by the width or more, which machines leave
//! undefined; vector accesses off their alignment; a launch that does not fit the kernel or the limits of the device.
//!
//! ```text
//! bytecode ── decode ──> operations on slots ── walk ──> buffers, or an Error
//! ```
//!
//! `FRIT_INTERP_SEED` chooses the random order.

pub mod alu;
mod copies;
mod decode;
pub mod device;
mod matrix;
mod memory;
mod program;
mod random;
pub mod target;
mod walk;

pub use device::{Interp, open};
