//! Queues: a thread each, which does what it was told in order, apart from the host.

use crate::event::Event;
use crate::memory::Region;
use crate::run::{self, Fault, Launch};
use crate::settings::Pace;
use crate::state::state;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something to be done.
pub enum Command {
    /// Bytes go elsewhere.
    Copy {
        /// Where to.
        to: Place,
        /// Where from.
        from: Place,
        /// How many.
        bytes: usize,
    },
    /// Bytes become this one.
    Fill {
        /// Where.
        to: Place,
        /// Which.
        byte: u8,
        /// How many.
        bytes: usize,
    },
    /// A kernel, or several.
    Launches(Vec<Launch>),
    /// An event is reached.
    Record(Arc<Event>, u64),
    /// Wait until one is.
    Wait(Arc<Event>, u64),
}

/// One end of a copy.
pub enum Place {
    /// In an allocation.
    Region(Arc<Region>, usize),
    /// Bytes of the host that were taken when the copy was asked for.
    Bytes(Vec<u8>),
    /// Host memory that the caller keeps until the copy is done.
    Host(*mut u8),
}

// SAFETY: the pointer is only followed while the caller waits for the copy.
unsafe impl Send for Place {}

/// A queue.
pub struct Stream {
    /// Its device.
    pub device: usize,
    state: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    commands: VecDeque<Command>,
    /// How many were ever put in.
    pushed: u64,
    /// How many of them are done.
    done: u64,
    /// How many someone waits for.
    wanted: u64,
    is_closed: bool,
}

impl Stream {
    /// An empty queue and its thread.
    pub fn new(device: usize) -> std::io::Result<Arc<Stream>> {
        let stream = Arc::new(Stream { device, state: Mutex::default(), changed: Condvar::new() });
        let of_thread = stream.clone();
        std::thread::Builder::new().name("frit-mock".into()).spawn(move || of_thread.work())?;
        Ok(stream)
    }
    fn state(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Put a command in; its place.
    pub fn push(&self, command: Command) -> u64 {
        let mut state = self.state();
        state.commands.push_back(command);
        state.pushed += 1;
        self.changed.notify_all();
        state.pushed
    }
    /// Someone waits for all up to a place.
    pub fn want(&self, place: u64) {
        let mut state = self.state();
        state.wanted = state.wanted.max(place);
        self.changed.notify_all();
    }
    /// Wait for all that was put in.
    pub fn wait(&self) {
        let place = self.state().pushed;
        self.want(place);
        let mut state = self.state();
        while state.done < place {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
    /// Nothing more comes; what is there is still done.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.changed.notify_all();
    }
    fn work(&self) {
        loop {
            let mut state = self.state();
            let is_due = |q: &Queue| q.is_closed || q.wanted > q.done || state_pace() != Pace::Late;
            while !(state.is_closed || !state.commands.is_empty() && is_due(&state)) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(command) = state.commands.pop_front() else { return };
            drop(state);
            if let Pace::Slow(pause) = state_pace() {
                std::thread::sleep(pause);
            }
            self.perform(command);
            self.state().done += 1;
            self.changed.notify_all();
        }
    }
    fn perform(&self, command: Command) {
        let is_lost = state().alive(self.device).is_err();
        match command {
            // events are reached all the same, so that no one waits for ever
            Command::Record(event, ticket) => event.reach(ticket),
            Command::Wait(event, ticket) => event.wait(ticket),
            _ if is_lost => {}
            Command::Copy { to, from, bytes } => copy(to, from, bytes),
            Command::Fill { to, byte, bytes } => fill(to, byte, bytes),
            Command::Launches(launches) => {
                if let Err(fault) = launches.into_iter().try_for_each(run::launch) {
                    self.fail(fault);
                }
            }
        }
    }
    fn fail(&self, fault: Fault) {
        eprintln!("frit-mock: {}", fault.message);
        state().lose(self.device, fault);
    }
}

fn state_pace() -> Pace {
    state().settings.pace()
}

fn fill(to: Place, byte: u8, bytes: usize) {
    if let Place::Region(r, at) = to {
        // SAFETY: the place was found by `Space::find` for this many bytes, and the region lives as long as the command.
        unsafe { std::ptr::write_bytes(r.pointer(at), byte, bytes) };
        r.know_all(at, bytes, None);
    }
}

fn copy(to: Place, from: Place, bytes: usize) {
    let source: *const u8 = match &from {
        Place::Region(r, at) => r.pointer(*at),
        Place::Bytes(b) => b.as_ptr(),
        Place::Host(p) => *p,
    };
    let target = match &to {
        Place::Region(r, at) => r.pointer(*at),
        Place::Bytes(_) => return,
        Place::Host(p) => *p,
    };
    // SAFETY: places in regions were found by `Space::find` for this many bytes and regions live as long as the command; the
    // caller keeps host memory until then. They may overlap.
    unsafe { std::ptr::copy(source, target, bytes) };
    if let Place::Region(r, at) = &to {
        let from = match &from {
            Place::Region(r, at) => Some((&**r, *at)),
            _ => None,
        };
        r.know_all(*at, bytes, from);
    }
}
