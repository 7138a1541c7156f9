//! Memory and copies.

use super::stream::stream_of;
use super::{Code, Done, error, exports, give};
use crate::memory::Region;
use crate::state::state;
use crate::stream::{Command, Place};
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: i32 = 9;

/// Wait for all that a device does.
fn wait_for(device: usize) {
    state().streams(device).iter().for_each(|s| s.wait());
}

/// So many bytes of a device's memory at an address.
fn of_device(address: u64, bytes: usize, device: usize) -> Result<Place, Code> {
    let found = state().space.find(address, bytes).filter(|(r, _)| r.device == Some(device));
    found.map(|(r, at)| Place::Region(r, at)).ok_or(error::INVALID_VALUE)
}
/// Pinned memory at an address.
fn pinned(address: *const c_void, bytes: usize) -> Option<Place> {
    let found = state().space.find(address as u64, bytes).filter(|(r, _)| r.device.is_none());
    found.map(|(r, at)| Place::Region(r, at))
}
fn host_copy(host: *const c_void, bytes: usize) -> Done {
    if host.is_null() && bytes > 0 { Err(error::INVALID_VALUE) } else { Ok(()) }
}

exports! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        let device = state().current()?;
        if bytes == 0 {
            return Err(error::INVALID_VALUE);
        }
        let (used, limit) = (&state().device(device as i32)?.used, state().settings.memory.load(Relaxed));
        let take = |used: usize| used.checked_add(bytes).filter(|all| *all <= limit);
        used.fetch_update(Relaxed, Relaxed, take).map_err(|_| error::OUT_OF_MEMORY)?;
        let Some(region) = state().space.alloc(bytes, Some(device)) else {
            used.fetch_sub(bytes, Relaxed);
            return Err(error::OUT_OF_MEMORY);
        };
        // SAFETY: the caller gives a place.
        unsafe { give(address, region.base) }
    }
    fn cuMemFree_v2(address: u64) {
        let device = state().current()?;
        if address == 0 {
            return Ok(());
        }
        wait_for(device);
        let its = |r: &Region| r.device == Some(device);
        let region = state().space.free(address, its).ok_or(error::INVALID_VALUE)?;
        state().device(device as i32)?.used.fetch_sub(region.len, Relaxed);
        Ok(())
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let device = state().current()?;
        let limit = state().settings.memory.load(Relaxed);
        let used = state().device(device as i32)?.used.load(Relaxed);
        // SAFETY: the caller gives places.
        unsafe {
            give(free, limit.saturating_sub(used))?;
            give(total, limit)
        }
    }
    fn cuPointerGetAttribute(value: *mut c_void, attribute: i32, address: u64) {
        state().current()?;
        let device = state().space.find(address, 1).and_then(|(r, _)| r.device).ok_or(error::INVALID_VALUE)?;
        if attribute != DEVICE_ORDINAL {
            return Err(error::NOT_SUPPORTED);
        }
        // SAFETY: the caller gives a place for an answer of this kind.
        unsafe { give(value.cast::<i32>(), device as i32) }
    }
    fn cuMemHostAlloc(start: *mut *mut c_void, bytes: usize, flags: u32) {
        state().current()?;
        if bytes == 0 || flags & !7 != 0 {
            return Err(error::INVALID_VALUE);
        }
        let region = state().space.alloc(bytes, None).ok_or(error::OUT_OF_MEMORY)?;
        // SAFETY: the caller gives a place.
        unsafe { give(start, region.pointer(0).cast()) }
    }
    fn cuMemFreeHost(start: *mut c_void) {
        wait_for(state().current()?);
        let freed = state().space.free(start as u64, |r: &Region| r.device.is_none());
        freed.map(drop).ok_or(error::INVALID_VALUE)
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize) {
        let stream = stream_of(stream)?;
        host_copy(from, bytes)?;
        let to = of_device(to, bytes, stream.device)?;
        let from = pinned(from, bytes).unwrap_or_else(|| {
            // memory that may move is read before the call returns
            // SAFETY: the caller's memory is this long.
            Place::Bytes(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec())
        });
        stream.push(Command::Copy { to, from, bytes });
        Ok(())
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize) {
        let stream = stream_of(stream)?;
        host_copy(to, bytes)?;
        let from = of_device(from, bytes, stream.device)?;
        if let Some(to) = pinned(to, bytes) {
            stream.push(Command::Copy { to, from, bytes });
            return Ok(());
        }
        // memory that may move is written before the call returns
        stream.push(Command::Copy { to: Place::Host(to.cast()), from, bytes });
        stream.wait();
        state().alive(stream.device)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        let stream = stream_of(stream)?;
        let (to, from) = (of_device(to, bytes, stream.device)?, of_device(from, bytes, stream.device)?);
        stream.push(Command::Copy { to, from, bytes });
        Ok(())
    }
    fn cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: usize) {
        let stream = stream_of(stream)?;
        let to = of_device(to, bytes, stream.device)?;
        stream.push(Command::Fill { to, byte, bytes });
        Ok(())
    }
    fn cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize) {
        let stream = stream_of(stream)?;
        let to = of_device(to, bytes, state().device_of(to_context)?)?;
        let from = of_device(from, bytes, state().device_of(from_context)?)?;
        stream.push(Command::Copy { to, from, bytes });
        Ok(())
    }
}
