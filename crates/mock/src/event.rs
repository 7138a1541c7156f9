//! Events: places in a queue, and when they were reached.

use crate::stream::Stream;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

/// A place in a queue.
pub struct Event {
    /// Its device.
    pub device: usize,
    /// Whether it keeps a time.
    pub is_timed: bool,
    state: Mutex<Recorded>,
    reached: Condvar,
}

#[derive(Default)]
struct Recorded {
    /// How often it was put into a queue.
    asked: u64,
    /// The last of those that was reached.
    done: u64,
    time: Option<Instant>,
    /// The queue it was put into last, and its place there.
    place: Option<(Weak<Stream>, u64)>,
}

impl Event {
    /// One that is in no queue: it counts as reached.
    pub fn new(device: usize, is_timed: bool) -> Event {
        Event { device, is_timed, state: Mutex::default(), reached: Condvar::new() }
    }
    fn state(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// It is being put into a queue for this many times.
    pub fn ask(&self) -> u64 {
        let mut state = self.state();
        state.asked += 1;
        state.asked
    }
    /// It is at a place of a queue.
    pub fn put(&self, stream: &Arc<Stream>, at: u64) {
        self.state().place = Some((Arc::downgrade(stream), at));
    }
    /// How often it was put into a queue.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }
    /// The queue has come to it.
    pub fn reach(&self, ticket: u64) {
        let mut state = self.state();
        if ticket > state.done {
            (state.done, state.time) = (ticket, Some(Instant::now()));
        }
        self.reached.notify_all();
    }
    /// Wait until the queue came to it so often.
    pub fn wait(&self, ticket: u64) {
        let place = self.state().place.clone();
        if let Some((stream, at)) = place.and_then(|(s, at)| Some((s.upgrade()?, at))) {
            stream.want(at);
        }
        let mut state = self.state();
        while state.done < ticket {
            state = self.reached.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
    /// When it was reached; `None` where it is still to come, an error where it is in no queue.
    pub fn time(&self) -> Result<Option<Instant>, ()> {
        let state = self.state();
        match state.asked {
            0 => Err(()),
            n if state.done < n => Ok(None),
            _ => Ok(state.time),
        }
    }
}
