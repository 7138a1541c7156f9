//! A graph without its memory -> kernels in order, once for each structure.

pub(crate) mod cache;
pub(crate) mod load;
pub(crate) mod normalise;
pub(crate) mod schedule;

pub use normalise::normalise;
pub use schedule::{Call, Plan, plan};
