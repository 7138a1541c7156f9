//! The CPU: machine code, or C source -> compiler -> object -> image, in executable pages, launched on a pool of threads.

pub mod compiler;
pub mod device;
pub mod disassemble;
pub mod elf;
pub mod image;
pub mod libcalls;
pub mod native;
pub mod pool;
pub mod program;
mod rounding;
pub mod scratch;
pub mod target;

pub use device::{Config, Cpu, open, open_as};
