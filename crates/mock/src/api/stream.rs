//! Queues and events.

use super::{Code, error, exports, give};
use crate::event::Event;
use crate::state::{Object, state};
use crate::stream::{Command, Stream};
use std::sync::Arc;

/// The flag of an event without a time.
const NO_TIME: u32 = 2;

/// The queue of a handle, on a device that is not lost. The null stream, which orders itself with all others, is not there.
pub fn stream_of(handle: usize) -> Result<Arc<Stream>, Code> {
    let device = state().current()?;
    match state().get(handle) {
        Some(Object::Stream(s)) if s.device == device => Ok(s),
        None if handle < 3 => Err(error::NOT_SUPPORTED),
        _ => Err(error::INVALID_HANDLE),
    }
}
fn event_of(handle: usize) -> Result<Arc<Event>, Code> {
    state().current()?;
    match state().get(handle) {
        Some(Object::Event(e)) => Ok(e),
        _ => Err(error::INVALID_HANDLE),
    }
}

exports! {
    fn cuStreamCreate(stream: *mut usize, flags: u32) {
        let device = state().current()?;
        if flags > 1 {
            return Err(error::INVALID_VALUE);
        }
        let made = Stream::new(device).map_err(|_| error::OUT_OF_MEMORY)?;
        // SAFETY: the caller gives a place.
        unsafe { give(stream, state().keep(Object::Stream(made))) }
    }
    fn cuStreamDestroy_v2(stream: usize) {
        state().current()?;
        if let Object::Stream(s) = state().remove(stream, |o| matches!(o, Object::Stream(_)))? {
            s.close();
        }
        Ok(())
    }
    fn cuStreamSynchronize(stream: usize) {
        let stream = stream_of(stream)?;
        stream.wait();
        state().alive(stream.device)
    }
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) {
        let (stream, event) = (stream_of(stream)?, event_of(event)?);
        if flags != 0 {
            return Err(error::INVALID_VALUE);
        }
        let ticket = event.asked();
        stream.push(Command::Wait(event, ticket));
        Ok(())
    }
    fn cuEventCreate(event: *mut usize, flags: u32) {
        let device = state().current()?;
        let made = Event::new(device, flags & NO_TIME == 0);
        // SAFETY: the caller gives a place.
        unsafe { give(event, state().keep(Object::Event(Arc::new(made)))) }
    }
    fn cuEventDestroy_v2(event: usize) {
        state().current()?;
        state().remove(event, |o| matches!(o, Object::Event(_))).map(drop)
    }
    fn cuEventRecord(event: usize, stream: usize) {
        let (stream, event) = (stream_of(stream)?, event_of(event)?);
        if event.device != stream.device {
            return Err(error::INVALID_HANDLE);
        }
        let ticket = event.ask();
        let at = stream.push(Command::Record(event.clone(), ticket));
        event.put(&stream, at);
        Ok(())
    }
    fn cuEventSynchronize(event: usize) {
        let event = event_of(event)?;
        event.wait(event.asked());
        state().alive(event.device)
    }
    fn cuEventQuery(event: usize) {
        let event = event_of(event)?;
        state().alive(event.device)?;
        // one that is in no queue counts as reached
        match event.time() {
            Ok(None) => Err(error::NOT_READY),
            _ => Ok(()),
        }
    }
    fn cuEventElapsedTime(ms: *mut f32, from: usize, to: usize) {
        let (from, to) = (event_of(from)?, event_of(to)?);
        if !from.is_timed || !to.is_timed {
            return Err(error::INVALID_HANDLE);
        }
        let time = |e: &Event| e.time().map_err(|()| error::INVALID_HANDLE)?.ok_or(error::NOT_READY);
        let (from, to) = (time(&from)?, time(&to)?);
        let between = if to >= from { (to - from).as_secs_f64() } else { -(from - to).as_secs_f64() };
        // SAFETY: the caller gives a place.
        unsafe { give(ms, (between * 1e3) as f32) }
    }
}
