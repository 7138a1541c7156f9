//! Programs running: a warp at a time, every access checked.

pub mod regs;
