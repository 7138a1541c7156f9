//! Rendered programs, run.

mod build;
mod bytecode;
mod c;
mod c_memory;
mod faults;
