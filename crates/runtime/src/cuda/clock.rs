//! The device's clock in the host's time: an event is timed against another whose time on the host is known.

use super::context::Context;
use super::device::Shared;
use super::queue::{Event, Queue};
use crate::{Error, Mark};
use frit_abi::record::now;
use frit_abi::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

/// How often the clocks are compared: two that differ by ten in a million are a microsecond apart after this.
const EVERY: u64 = 100_000_000;
/// Tries of a comparison, of which the shortest counts.
const TRIES: usize = 4;
/// One that took so many times as long as the last is no better than that was, for so long.
const WORSE: u64 = 2;
const LONGEST: u64 = 10 * EVERY;
/// Comparisons that are kept, for events that are asked for late.
const KEPT: usize = 64;
/// Events that wait to be used again.
const SPARE: usize = 4096;

/// Compares the clocks, in a queue of its own that never has to wait.
pub struct Clock {
    queue: Queue,
    anchors: Mutex<VecDeque<Anchor>>,
    /// When they were compared last, whatever came of it.
    tried: AtomicU64,
    spare: Mutex<Vec<Event>>,
}

/// An event, and when it was on the host.
#[derive(Clone)]
struct Anchor {
    event: Arc<Event>,
    at: u64,
    /// How long the comparison took: the time may be wrong by half of that.
    took: u64,
}

impl Clock {
    /// One that has compared them once.
    pub fn new(context: &Arc<Context>) -> Result<Clock, Error> {
        let (anchors, tried, spare) = Default::default();
        let clock = Clock { queue: Queue::new(context)?, anchors, tried, spare };
        clock.compare()?;
        Ok(clock)
    }
    /// The host's time of an event is between those before and after it; the narrower, the better.
    fn compare(&self) -> Result<(), Error> {
        self.tried.store(now(), Relaxed);
        let mut best: Option<Anchor> = None;
        for _ in 0..TRIES {
            let event = self.event()?;
            let from = now();
            event.record(&self.queue)?;
            event.wait()?;
            let took = now() - from;
            if best.as_ref().is_none_or(|best| took < best.took) {
                best = Some(Anchor { event: Arc::new(event), at: from + took / 2, took });
            } else {
                self.give_back(event);
            }
        }
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |new: &Anchor, old: &Anchor| new.took <= WORSE * old.took || new.at > old.at + LONGEST;
        let better = best.filter(|new| anchors.back().is_none_or(|old| is_good(new, old)));
        anchors.extend(better);
        if anchors.len() > KEPT {
            anchors.pop_front();
        }
        Ok(())
    }
    /// The last comparison before a time of the host, as far back as they are kept.
    fn anchor(&self, before: u64) -> Result<Anchor, Error> {
        if self.tried.load(Relaxed) + EVERY < now() {
            self.compare()?;
        }
        let anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        let found = anchors.iter().rev().find(|a| a.at <= before).or(anchors.front());
        found.cloned().ok_or_else(|| Error::Device("the clock of a device was not compared with ours".into()))
    }
    /// A timed event that is in no queue.
    fn event(&self) -> Result<Event, Error> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| Event::new(&self.queue.context, true), Ok)
    }
    fn give_back(&self, event: Event) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(event);
        }
    }
}

/// A place in the queue of a device.
pub struct CudaMark {
    event: Option<Event>,
    device: Arc<Shared>,
}

impl CudaMark {
    /// After all that is queued now.
    pub fn new(device: &Arc<Shared>) -> Result<CudaMark, Error> {
        let event = device.clock()?.event()?;
        event.record(&device.queue)?;
        Ok(CudaMark { event: Some(event), device: device.clone() })
    }
}

impl Mark for CudaMark {
    fn reached(&self, after: u64) -> Result<Option<u64>, Error> {
        let Some(event) = &self.event else { return Ok(None) };
        if !event.is_done()? {
            return Ok(None);
        }
        let anchor = self.device.clock()?.anchor(after)?;
        let since = (event.seconds_since(&anchor.event)? * 1e9) as i64;
        Ok(Some(anchor.at.saturating_add_signed(since)))
    }
    fn wait(&self) -> Result<(), Error> {
        self.event.as_ref().map_or(Ok(()), Event::wait)
    }
}

impl Drop for CudaMark {
    fn drop(&mut self) {
        if let (Some(event), Ok(clock)) = (self.event.take(), self.device.clock()) {
            clock.give_back(event);
        }
    }
}
