//! Devices, contexts, and words for errors.

use super::{attributes, error, exports, give};
use crate::state::state;
use std::ffi::c_char;
use std::sync::atomic::Ordering::Relaxed;

/// Not that of a real one: what is cached for it must not be run there.
const NAME: &[u8] = b"frit stand-in H200";
/// CUDA 13.0.
const VERSION: i32 = 13_000;

exports! {
    fn cuInit(flags: u32) {
        if flags == 0 { Ok(()) } else { Err(error::INVALID_VALUE) }
    }
    fn cuDriverGetVersion(version: *mut i32) {
        // SAFETY: the caller gives a place.
        unsafe { give(version, VERSION) }
    }
    fn cuGetErrorName(code: i32, name: *mut *const c_char) {
        let words = error::words(code).ok_or(error::INVALID_VALUE)?;
        // SAFETY: the caller gives a place; the words are constant.
        unsafe { give(name, words.0.as_ptr()) }
    }
    fn cuGetErrorString(code: i32, text: *mut *const c_char) {
        let words = error::words(code).ok_or(error::INVALID_VALUE)?;
        // SAFETY: the caller gives a place; the words are constant.
        unsafe { give(text, words.1.as_ptr()) }
    }
    fn cuDeviceGetCount(count: *mut i32) {
        // SAFETY: the caller gives a place.
        unsafe { give(count, state().device_count() as i32) }
    }
    fn cuDeviceGet(device: *mut i32, ordinal: i32) {
        state().device(ordinal)?;
        // SAFETY: the caller gives a place.
        unsafe { give(device, ordinal) }
    }
    fn cuDeviceGetName(name: *mut c_char, len: i32, device: i32) {
        state().device(device)?;
        if name.is_null() || len < 1 {
            return Err(error::INVALID_VALUE);
        }
        let bytes = &NAME[..NAME.len().min(len as usize - 1)];
        // SAFETY: the caller's place is this long.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, bytes.len());
            name.add(bytes.len()).write(0);
        }
        Ok(())
    }
    fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) {
        state().device(device)?;
        // SAFETY: the caller gives a place.
        unsafe { give(value, attributes::get(attribute).ok_or(error::INVALID_VALUE)?) }
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) {
        state().device(device)?;
        // SAFETY: the caller gives a place.
        unsafe { give(bytes, state().settings.memory.load(Relaxed)) }
    }
    fn cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
        state().device(device)?;
        state().device(peer)?;
        // SAFETY: the caller gives a place.
        unsafe { give(can, i32::from(device != peer)) }
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) {
        let d = state().device(device)?;
        // SAFETY: the caller gives a place.
        unsafe { give(context, state().context_of(device as usize)) }?;
        d.holders.fetch_add(1, Relaxed);
        Ok(())
    }
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let d = state().device(device)?;
        if d.holders.fetch_sub(1, Relaxed) <= 0 {
            d.holders.fetch_add(1, Relaxed);
            return Err(error::INVALID_CONTEXT);
        }
        Ok(())
    }
    fn cuCtxSetCurrent(context: usize) {
        let device = if context == 0 { None } else { Some(state().device_of(context)?) };
        state().set_current(device);
        Ok(())
    }
    fn cuCtxSynchronize() {
        let device = state().current()?;
        state().streams(device).iter().for_each(|s| s.wait());
        state().alive(device)
    }
    fn cuCtxEnablePeerAccess(peer: usize, flags: u32) {
        let (device, peer) = (state().current()?, state().device_of(peer)?);
        if flags != 0 || device == peer {
            return Err(error::INVALID_VALUE);
        }
        let before = state().device(device as i32)?.peers.fetch_or(1 << peer, Relaxed);
        if before >> peer & 1 == 1 { Err(error::PEER_ACCESS_ALREADY_ENABLED) } else { Ok(()) }
    }
}
