//! Counters of what the engine did: for tests, benchmarks and `FRIT_DEBUG=1`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened so far in this process.
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
}

static COUNTERS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// The counters now.
pub fn stats() -> Stats {
    let [schedules, compiles, launches, bytes, flops] = std::array::from_fn(|i| COUNTERS[i].load(Relaxed));
    Stats { schedules, compiles, launches, bytes, flops }
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
        }
    }
}

pub(crate) fn count_schedule() {
    COUNTERS[0].fetch_add(1, Relaxed);
}
pub(crate) fn count_compiles(n: u64) {
    COUNTERS[1].fetch_add(n, Relaxed);
}
pub(crate) fn count_launch(bytes: u64, flops: u64) {
    COUNTERS[2].fetch_add(1, Relaxed);
    COUNTERS[3].fetch_add(bytes, Relaxed);
    COUNTERS[4].fetch_add(flops, Relaxed);
}
