//! Rendered programs, run.

mod build;
mod bytecode;
mod c;
mod c_dialect;
mod c_memory;
mod faults;
mod files;
mod ptx;
mod shuffle;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(all(target_arch = "x86_64", unix))]
mod x86_stress;
mod x86_table;
