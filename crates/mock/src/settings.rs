//! What tests choose: how many devices, how the queues run, what fails.

use crate::api::Code;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How queues run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At once, apart from the host.
    Eager,
    /// Only when someone waits, so that a host that forgets to is found out.
    Late,
    /// A pause before each command.
    Slow(Duration),
}

/// What a kernel does instead of what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It never ends.
    Hang,
    /// It touches what is not there.
    Fault,
}

/// The choices. They come from the environment and may be changed at any time.
pub struct Settings {
    /// Devices there are.
    pub devices: AtomicUsize,
    /// Bytes of memory that each has.
    pub memory: AtomicUsize,
    /// Cores that run blocks.
    pub threads: AtomicUsize,
    /// Whether blocks that touch the same bytes are told.
    pub has_race_checks: AtomicBool,
    /// Bytes of the cache that all processors share; an H200's without.
    pub l2: Option<i32>,
    /// Lanes of a block that is trouble, and which: it never ends, or it faults.
    pub trouble: Option<(u32, Trouble)>,
    pace: Mutex<Pace>,
    /// Calls of the driver so far.
    calls: AtomicU64,
    /// The call that fails, and how.
    fail: Mutex<Option<(u64, Code)>>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

impl Settings {
    /// As the environment says.
    pub fn from_env() -> Settings {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let fail = std::env::var("FRIT_MOCK_FAIL").ok();
        let fail = fail.and_then(|f| {
            let (n, code) = f.split_once(':')?;
            Some((n.parse().ok()?, code.parse().ok()?))
        });
        let pace = match std::env::var("FRIT_MOCK_QUEUE").as_deref() {
            Ok("late") => Pace::Late,
            Ok(other) => match other.strip_prefix("slow:").and_then(|us| us.parse().ok()) {
                Some(us) => Pace::Slow(Duration::from_micros(us)),
                None => Pace::Eager,
            },
            Err(_) => Pace::Eager,
        };
        let kernel = std::env::var("FRIT_MOCK_KERNEL").ok();
        let trouble = kernel.and_then(|k| {
            let (what, lanes) = k.split_once(':')?;
            let what =
                [("hang", Trouble::Hang), ("fault", Trouble::Fault)].into_iter().find(|t| t.0 == what)?;
            Some((lanes.parse().ok()?, what.1))
        });
        Settings {
            l2: number("FRIT_MOCK_L2").and_then(|n| i32::try_from(n).ok()),
            trouble,
            devices: AtomicUsize::new(number("FRIT_MOCK_DEVICES").unwrap_or(1) as usize),
            memory: AtomicUsize::new(number("FRIT_MOCK_MEMORY").unwrap_or(8 << 30) as usize),
            threads: AtomicUsize::new(cores),
            has_race_checks: AtomicBool::new(number("FRIT_MOCK_RACES") != Some(0)),
            pace: Mutex::new(pace),
            calls: AtomicU64::new(0),
            fail: Mutex::new(fail),
        }
    }
    /// How queues run.
    pub fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Choose it.
    pub fn set_pace(&self, pace: Pace) {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner) = pace;
    }
    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }
    /// Let the n-th call from now return a code; `None` forgets it.
    pub fn set_fail(&self, fail: Option<(u64, Code)>) {
        let at = fail.map(|(n, code)| (self.calls() + n, code));
        *self.fail.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
    /// A call comes in: the code it is to return, if it fails.
    pub fn count_call(&self) -> Option<Code> {
        let n = self.calls.fetch_add(1, Relaxed) + 1;
        let mut fail = self.fail.lock().unwrap_or_else(PoisonError::into_inner);
        fail.take_if(|(at, _)| *at == n).map(|(_, code)| code)
    }
}
