//! What was stored since a run that may have missed, on a device that runs apart from the host.
//!
//! That an index missed is known when someone waits for the device, and nobody waits for that alone. So what is stored
//! from such a run on is remembered until the next wait, and lost where that finds a miss: it may come from one.

use super::buffer::Versions;
use crate::Error;
use frit_abi::sync::Mutex;
use frit_runtime::Device;
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock, PoisonError, Weak};

/// Of each device that was looked at.
static DEVICES: LazyLock<Mutex<FxHashMap<String, Unconfirmed>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Unconfirmed {
    stored: Vec<Weak<Versions>>,
    /// What a wait under way is for.
    waited: Vec<Weak<Versions>>,
    /// Who waits: a miss is told once, so one at a time.
    turn: Arc<Mutex<()>>,
    /// When those that nobody holds any more are taken out next.
    sweep_at: usize,
    /// Waits that found a miss, and what the last one found.
    misses: usize,
    last: Option<Error>,
}

/// A place in a device's queue.
pub(crate) struct Mark {
    misses: usize,
}

fn of_device<R>(dev: &dyn Device, then: impl FnOnce(&mut Unconfirmed) -> R) -> R {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    match devices.get_mut(dev.name()) {
        Some(known) => then(known),
        None => then(devices.entry(dev.name().into()).or_default()),
    }
}

/// Where the queue is before a run; `None` where a launch that returns has run.
pub(crate) fn mark(dev: &dyn Device) -> Option<Mark> {
    dev.runs_apart().then(|| of_device(dev, |u| Mark { misses: u.misses }))
}

/// A run that was queued after the mark stores to these.
pub(crate) fn note<'a>(
    dev: &dyn Device,
    since: Option<Mark>,
    can_miss: bool,
    stored: impl Iterator<Item = &'a Arc<Versions>>,
) {
    let Some(since) = since else { return };
    of_device(dev, |u| match &u.last {
        // another thread waited while this one queued: the miss may be this run's
        Some(e) if u.misses != since.misses => stored.for_each(|v| v.lose(e)),
        _ if can_miss || !u.stored.is_empty() || !u.waited.is_empty() => u.remember(stored),
        _ => {}
    });
}

/// Wait for all that was queued. Where an index missed, what may come from it is lost.
pub(crate) fn wait(dev: &dyn Device) -> Result<(), Error> {
    if !dev.runs_apart() {
        return Ok(dev.synchronize()?);
    }
    let _span = frit_abi::record::span("wait", "");
    let turn = of_device(dev, |u| u.turn.clone());
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    of_device(dev, |u| u.waited = std::mem::take(&mut u.stored));
    let waited = dev.synchronize().map_err(Error::from);
    of_device(dev, |u| {
        if let Err(e @ Error::Index(_)) = &waited {
            let since = std::mem::take(&mut u.stored);
            u.waited.iter().chain(&since).filter_map(Weak::upgrade).for_each(|v| v.lose(e));
            (u.misses, u.last) = (u.misses + 1, Some(e.clone()));
        }
        u.waited.clear();
    });
    waited
}

/// Wait for all that was queued on a device; an error where an index missed.
pub fn synchronize(device: &str) -> Result<(), Error> {
    wait(&*frit_runtime::device(device)?)
}

impl Unconfirmed {
    fn remember<'a>(&mut self, stored: impl Iterator<Item = &'a Arc<Versions>>) {
        self.stored.extend(stored.map(Arc::downgrade));
        if self.stored.len() > self.sweep_at {
            self.stored.sort_unstable_by_key(Weak::as_ptr);
            self.stored.dedup_by(|a, b| a.ptr_eq(b));
            self.stored.retain(|v| v.strong_count() > 0);
            self.sweep_at = 2 * self.stored.len() + 1024;
        }
    }
}
