//! The queue of a device: launches and copies run in the order in which they were put there, apart from the host.

use super::context::Context;
use super::driver::Handle;
use crate::Error;
use std::sync::Arc;

/// A queue that no other waits for.
const NON_BLOCKING: u32 = 1;
/// An event without a time of its own is cheaper.
const NO_TIME: u32 = 2;

/// An order of work.
pub struct Queue {
    pub(super) context: Arc<Context>,
    pub(super) stream: Handle,
}

impl Queue {
    /// An empty one.
    pub fn new(context: &Arc<Context>) -> Result<Queue, Error> {
        let mut stream = 0;
        // SAFETY: the place is valid for the call.
        context.check("cuStreamCreate", unsafe { (context.enter()?.stream)(&mut stream, NON_BLOCKING) })?;
        Ok(Queue { context: context.clone(), stream })
    }
    /// Wait until all that was queued is done.
    pub fn wait(&self) -> Result<(), Error> {
        let driver = self.context.enter()?;
        // SAFETY: the stream lives as long as this.
        self.context.check("cuStreamSynchronize", unsafe { (driver.stream_wait)(self.stream) })
    }
    /// What follows runs after an event, of this or another device.
    pub fn after(&self, event: &Event) -> Result<(), Error> {
        let driver = self.context.enter()?;
        // SAFETY: stream and event live as long as their holders.
        self.context
            .check("cuStreamWaitEvent", unsafe { (driver.stream_after)(self.stream, event.handle, 0) })
    }
    /// An event that is done when all that is queued now is.
    pub fn record(&self, is_timed: bool) -> Result<Event, Error> {
        let event = Event::new(&self.context, is_timed)?;
        event.record(self)?;
        Ok(event)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no one has it any more.
        self.context.leave(|driver| _ = unsafe { (driver.stream_destroy)(self.stream) });
    }
}

/// A place in a queue.
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

impl Event {
    /// One that was not recorded: it counts as done.
    pub fn new(context: &Arc<Context>, is_timed: bool) -> Result<Event, Error> {
        let mut handle = 0;
        let flags = if is_timed { 0 } else { NO_TIME };
        // SAFETY: the place is valid for the call.
        context.check("cuEventCreate", unsafe { (context.enter()?.event)(&mut handle, flags) })?;
        Ok(Event { context: context.clone(), handle })
    }
    /// Done when all that is in the queue now is.
    pub fn record(&self, queue: &Queue) -> Result<(), Error> {
        let driver = self.context.enter()?;
        // SAFETY: stream and event live as long as their holders.
        self.context.check("cuEventRecord", unsafe { (driver.event_record)(self.handle, queue.stream) })
    }
    /// Wait for it.
    pub fn wait(&self) -> Result<(), Error> {
        let driver = self.context.enter()?;
        // SAFETY: the event lives as long as this.
        self.context.check("cuEventSynchronize", unsafe { (driver.event_wait)(self.handle) })
    }
    /// Whether all that was in the queue when it was recorded is done.
    pub fn is_done(&self) -> Result<bool, Error> {
        const NOT_READY: i32 = 600;
        let driver = self.context.enter()?;
        // SAFETY: the event lives as long as this.
        match unsafe { (driver.event_query)(self.handle) } {
            NOT_READY => Ok(false),
            code => self.context.check("cuEventQuery", code).map(|()| true),
        }
    }
    /// Seconds by the device's clock from another to this; both are timed and done.
    pub fn seconds_since(&self, from: &Event) -> Result<f64, Error> {
        let mut ms = 0.0;
        let driver = self.context.enter()?;
        // SAFETY: both events live as long as their holders.
        let code = unsafe { (driver.event_between)(&mut ms, from.handle, self.handle) };
        self.context.check("cuEventElapsedTime", code)?;
        Ok(f64::from(ms) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no one has it any more.
        self.context.leave(|driver| _ = unsafe { (driver.event_destroy)(self.handle) });
    }
}
