//! Launches written down and repeated.

pub mod capture;
pub(crate) mod check;
pub mod file;
pub mod recording;
pub mod tune;
