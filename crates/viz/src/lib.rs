//! Recordings (decision 022) put together and shown.
//!
//! - [`model`]: a whole recording, with what belongs together put together; [`lines`]: which line of the program a node had, when;
//! - `placed`: which kernels compute a node, and for which line; [`explain`]: why the operations of a line became these kernels;
//! - [`pack`]: the same in parts that the page asks for one at a time; [`page`]: the page itself.
//!
//! Nothing here knows a UOp: nodes are numbers, ops are texts.

#![forbid(unsafe_code)]

pub mod lines;
pub mod model;
pub mod parts;
mod tracks;
mod placed;
pub mod pack;
pub mod explain;
pub mod page;

pub use model::Model;
