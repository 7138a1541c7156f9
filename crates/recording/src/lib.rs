//! Recordings of what the compiler and the devices do (decision 022), as a program that runs writes them.
//!
//! - [`mod@format`]: the bytes of a file; [`writer`]: the sink that rooms write to, in a profile through a ring for each thread; [`reader`]: records one after the other, and
//!   as text;
//! - [`trace`]: records as a trace for Perfetto, written as they come.
//!
//! Nothing here knows a UOp: nodes are numbers, ops are texts. What is shown of a recording is `viz`'s, which no program needs
//! in order to run.

#![forbid(unsafe_code)]

pub mod format;
pub mod reader;
pub mod json;
pub mod trace;
mod ring;
pub mod writer;

pub use reader::read;
pub use writer::{Recording, from_environment};
