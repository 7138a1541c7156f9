//! Recordings of what the compiler and the devices do (decision 022): written while a program runs, read afterwards.
//!
//! - [`mod@format`]: the bytes of a file; [`writer`]: the sink that rooms write to; [`reader`]: records one after the other, and
//!   as text;
//! - [`trace`]: records as a trace for Perfetto, written as they come;
//! - [`model`]: a whole recording, with what belongs together put together;
//! - [`explain`]: why the operations of a line became these kernels;
//! - [`pack`]: the same in parts that the page asks for one at a time; [`page`]: the page itself.
//!
//! Nothing here knows a UOp: nodes are numbers, ops are texts.

#![forbid(unsafe_code)]

pub mod format;
pub mod reader;
mod json;
pub mod trace;
pub mod writer;
pub mod model;
pub mod parts;
mod tracks;
pub mod pack;
pub mod explain;
pub mod page;

pub use model::Model;
pub use reader::read;
pub use writer::{Recording, from_environment};
