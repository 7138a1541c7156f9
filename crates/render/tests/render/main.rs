//! Rendered programs, run.

mod build;
mod bytecode;
mod faults;
