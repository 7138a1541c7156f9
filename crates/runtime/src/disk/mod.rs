//! The DISK device: a file as memory. It holds bytes, and runs nothing: they are moved to be used.

pub mod device;
pub mod memory;

pub use device::{NAME, open, path_of};
pub use memory::open as open_file;
