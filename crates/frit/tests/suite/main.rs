//! What frit promises, tested through `Tensor` from end to end.
//!
//! ```text
//! goldens      every op against torch's values, forward and gradient, on every device, with random opts
//! tidy         the repository keeps its own promises
//! ```

mod goldens;
mod ops;
mod programs;
mod support;
mod tidy;
