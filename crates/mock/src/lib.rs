//! A stand-in for the CUDA driver, for tests where there is no GPU.
//!
//! It has the functions that frit calls, under the driver's names: as a library that is opened in the driver's place, or by
//! [`find`] in the same process. Memory has addresses of its own, and every access is checked; queues are threads; PTX is
//! decoded once and interpreted, a warp at a time ([`run`] says what is reported). A fault loses the device, as a real one
//! would: [`fault`] says why. What instructions do was recorded on an H200 ([`truth`]).
//!
//! ```text
//! cuLaunchKernel ── api ──> Command ── stream's thread ──> run ── blocks on all cores ──> memory, or a fault
//! ```
//!
//! The environment, when the first function is called: `FRIT_MOCK_DEVICES` (1), `FRIT_MOCK_MEMORY` (bytes a device has),
//! `FRIT_MOCK_L2` (bytes of its cache), `FRIT_MOCK_QUEUE` (`late`: queues run only when someone waits; `slow:N`: with pauses of
//! N microseconds), `FRIT_MOCK_FAIL` (`N:CODE`: the N-th call returns a code), `FRIT_MOCK_KERNEL` (`hang:N` or `fault:N`:
//! kernels with blocks of N lanes do that), `FRIT_MOCK_RACES` (0: blocks that touch the same bytes are not told).

mod api;
mod event;
mod memory;
pub mod ptx;
pub mod run;
mod settings;
mod state;
mod stream;
pub mod truth;

pub use api::find;
pub use run::{Fault, Totals};
pub use settings::Pace;

use state::state;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Let the n-th call from now (1 is the next) return a code. A code after which nothing works loses the device as well.
pub fn fail_at(n: u64, code: i32) {
    state().settings.set_fail(Some((n, code)));
}
/// No call is to fail any more.
pub fn fail_never() {
    state().settings.set_fail(None);
}
/// Calls of the driver so far.
pub fn calls() -> u64 {
    state().settings.calls()
}
/// Why a device is lost.
pub fn fault(device: usize) -> Option<Fault> {
    state().lost(device)
}
/// Lose a device, as when it falls off its bus.
pub fn lose(device: usize, code: i32) {
    state().lose(device, Fault { code, message: "it was told to be lost".into() });
}
/// A lost device works again, as in a new process.
pub fn repair(device: usize) {
    state().repair(device);
}
/// How queues run.
pub fn set_pace(pace: Pace) {
    state().settings.set_pace(pace);
}
/// How many devices there are, 16 at most.
pub fn set_devices(count: usize) {
    state().settings.devices.store(count, Relaxed);
}
/// Bytes of memory that each device has.
pub fn set_memory(bytes: usize) {
    state().settings.memory.store(bytes, Relaxed);
}
/// Cores that run blocks.
pub fn set_threads(count: usize) {
    state().settings.threads.store(count, Relaxed);
}
/// Whether blocks that touch the same bytes are told.
pub fn set_race_checks(are_on: bool) {
    state().settings.has_race_checks.store(are_on, Relaxed);
}
/// What there is of each kind of object: when all should be gone, what was leaked.
pub fn live() -> BTreeMap<&'static str, usize> {
    state().live()
}
