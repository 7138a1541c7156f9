//! Joins the rooms: a tensor graph goes in, memory with its value comes out. Speaks UOps only; has no rewrite rules.
//!
//! The way of a graph, in the order of the modules:
//!
//! 1. [`realize`]: which outputs need computing, which stores can be in place;
//! 2. [`normalise`]: buffers become numbered parameters, bound variables become variables: the key of the plan cache;
//! 3. [`plan`]: schedule, lower, render, load — once for a structure, in parallel, cached;
//! 4. [`run`]: allocate, launch, report. A loop is a run of its own, before what uses it: [`loops`].
//!
//! Beside it: [`capture`] and [`program`] (launches written down and repeated, for the Jit; [`program_file`] keeps them, and trusts no file), [`buffer`] (memory behind a node), [`devices`] (the default device), [`disk`] (files as memory), [`config`] (every flag read here),
//! [`search`] (opts found by trying), [`stats`] (counters), [`measure`] (compile times, for benchmarks).

pub mod assign;
pub mod buffer;
pub mod capture;
pub mod config;
pub mod devices;
pub mod disk;
pub mod error;
pub mod loops;
pub mod measure;
pub mod normalise;
pub mod plan;
pub mod program;
mod program_check;
pub mod program_file;
pub mod realize;
pub mod run;
pub mod search;
pub mod stats;

pub use buffer::{from_blob, from_bytes, read, write};
pub use devices::{default_device, scope};
pub use error::Error;
pub use frit_abi::{fork, sync};
pub use frit_runtime::{Blob, interrupt};
pub use realize::realize;
