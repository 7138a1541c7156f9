//! A stand-in for the CUDA driver.

pub mod ptx;
pub mod run;
pub mod truth;
