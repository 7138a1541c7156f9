//! The CPU: C source -> compiler -> object -> image -> executable pages, launched on a pool of threads.

pub mod allocator;
pub mod compiler;
pub mod device;
pub mod disassemble;
pub mod elf;
pub mod image;
pub mod libcalls;
pub mod pool;
pub mod scratch;
pub mod target;

pub use device::{Config, Cpu, open};
