//! Joins the rooms: a tensor graph goes in, memory with its value comes out. Speaks UOps only; has no rewrite rules.
//!
//! The modules stand in the order in which each uses those before it, and none after it:
//!
//! 1. [`error`], [`config`] (every flag read here), `pass_log` (passes shown and timed), [`stats`] (counters), [`peaks`] (what
//!    devices were measured to do), [`record`] (recordings), [`progress`] (lines on a terminal), `lru_map`, [`devices`] (the default device);
//! 2. [`memory`]: the bytes and versions behind nodes, views of them, files as memory;
//! 3. [`kernel`]: one kernel, lowered, rendered and loaded;
//! 4. [`search`]: opts of a kernel found by trying;
//! 5. [`plan`]: buffers become numbered parameters, which is the key of the plan cache; schedule, compile in parallel, load;
//! 6. [`run`]: which stores can be in place, loops, launches, what the host reads;
//! 7. [`jit`]: launches written down and repeated, kept in files (which are not trusted), tuned as a whole;
//! 8. [`measure`]: compile times, for benchmarks.

pub mod error;
pub mod config;
mod pass_log;
pub mod stats;
pub mod peaks;
pub mod record;
pub mod progress;
mod lru_map;
pub mod devices;
pub mod memory;
pub mod kernel;
pub mod search;
pub mod plan;
pub mod run;
pub mod jit;
pub mod measure;

pub use devices::{default_device, scope};
pub use error::Error;
pub use frit_abi::{fork, sync};
pub use frit_runtime::{Blob, interrupt};
pub use kernel::with_random_opts;
pub use memory::{from_blob, from_bytes};
pub use run::{disk, read, realize, write};

/// Forget all plans and kernels: for measuring, and to give their memory back.
pub fn clear_caches() {
    run::loops::forget();
    plan::schedule::forget();
    plan::load::forget();
}
