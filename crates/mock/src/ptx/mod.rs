//! PTX: its text, what its instructions do, and programs decoded from it.
//!
//! ```text
//! text ── words ──> statements ── decode ──> Program: rows of registers, dense instructions
//! ```
//!
//! Only what frit writes is known: an instruction, modifier or directive beyond it is an error that names its line.

pub mod decode;
pub mod floats;
pub mod forms;
pub(crate) mod operand;
pub mod program;
pub mod text;

pub use decode::decode;
pub use program::Program;
pub use text::Error;
