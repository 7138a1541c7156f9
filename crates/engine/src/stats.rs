//! Counters of what the engine did: for tests, benchmarks and `FRIT_DEBUG=1`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Graphs that were scheduled (not found in the plan cache).
    pub schedules: u64,
    /// Kernels that were lowered and loaded (not found in the kernel cache).
    pub compiles: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Bytes those kernels had to move at least.
    pub bytes: u64,
    /// Arithmetic operations they did.
    pub flops: u64,
    /// Recordings made by a Jit.
    pub captures: u64,
}

thread_local! {
    static COUNTERS: Cell<Stats> = const { Cell::new(Stats { schedules: 0, compiles: 0, launches: 0, bytes: 0, flops: 0, captures: 0 }) };
}

/// The counters of this thread now: a thread counts what it asked for, whoever did the work.
pub fn stats() -> Stats {
    COUNTERS.get()
}

/// Launches, bytes and operations of the whole process.
static TOTALS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Kernels launched by all threads so far, the bytes they had to move at least, and the operations they did.
pub fn totals() -> (u64, u64, u64) {
    let [launches, bytes, flops] = &TOTALS;
    (launches.load(Relaxed), bytes.load(Relaxed), flops.load(Relaxed))
}

fn count(f: impl FnOnce(&mut Stats)) {
    let mut s = COUNTERS.get();
    f(&mut s);
    COUNTERS.set(s);
}

impl std::ops::Sub for Stats {
    type Output = Stats;
    fn sub(self, o: Stats) -> Stats {
        Stats {
            schedules: self.schedules - o.schedules,
            compiles: self.compiles - o.compiles,
            launches: self.launches - o.launches,
            bytes: self.bytes - o.bytes,
            flops: self.flops - o.flops,
            captures: self.captures - o.captures,
        }
    }
}

pub(crate) fn count_schedule() {
    count(|s| s.schedules += 1);
}
pub(crate) fn count_compiles(n: u64) {
    count(|s| s.compiles += n);
}
pub(crate) fn count_capture() {
    count(|s| s.captures += 1);
}
pub(crate) fn count_launch(bytes: u64, flops: u64) {
    count_launches(1, bytes, flops);
}
pub(crate) fn count_launches(n: u64, bytes: u64, flops: u64) {
    for (total, v) in TOTALS.iter().zip([n, bytes, flops]) {
        total.fetch_add(v, Relaxed);
    }
    count(|s| {
        s.launches += n;
        s.bytes += bytes;
        s.flops += flops;
    });
}
