//! Opts found by trying.

pub(crate) mod apart;
pub(crate) mod beam;
pub(crate) mod compare;
pub(crate) mod moves;
pub(crate) mod store;
pub(crate) mod trial;

pub use apart::{in_children, search};
pub use beam::{Effort, Tuned};
pub use store::{remember, remembered};
