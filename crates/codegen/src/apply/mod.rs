//! Rows that rewrite a kernel by its plan.

pub mod pad;
pub mod split;
pub mod stage;
pub mod matrix;
