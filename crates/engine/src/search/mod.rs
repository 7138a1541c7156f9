//! Opts found by trying.

pub(crate) mod beam;
pub(crate) mod compare;
pub(crate) mod moves;
pub(crate) mod store;
pub(crate) mod trial;

pub use beam::{Effort, Tuned, search};
pub use store::{remember, remembered};
