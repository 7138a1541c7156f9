//! Device memory, and the pinned host memory through which bytes come and go.

use super::context::Context;
use super::device::Shared;
use super::driver::Address;
use super::foreign::Foreign;
use super::queue::Event;
use crate::memory::Block;
use crate::{Error, Memory};
use frit_abi::record::Kind;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of the driver; dropping it gives it back, when what uses it is done.
pub struct Region {
    context: Arc<Context>,
    address: Address,
}

impl Region {
    /// So many bytes; `None` where the device has no more.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Option<Region> {
        let mut address = 0;
        // SAFETY: the place is valid for the call.
        let code = unsafe { (context.enter().ok()?.alloc)(&mut address, bytes) };
        context.check("cuMemAlloc", code).ok()?;
        Some(Region { context: context.clone(), address })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and no one has it any more; the call waits for what the device does with it.
        self.context.leave(|driver| _ = unsafe { (driver.free)(self.address) });
    }
}

/// A region in use. When it is dropped the next user gets it at once: whatever that one does is queued after.
pub struct DeviceBlock {
    /// Present until dropped.
    region: Option<Region>,
    bytes: usize,
    device: Arc<Shared>,
}

impl DeviceBlock {
    /// `bytes` of a device's memory.
    pub fn new(device: &Arc<Shared>, bytes: usize) -> Result<DeviceBlock, Error> {
        device.context.enter()?;
        let region = device.memory.take(bytes, |class| Region::new(&device.context, class));
        let region = region.map_err(|e| match (e, device.context.memory()) {
            (Error::OutOfMemory { device, bytes, in_use, .. }, Ok((free, _))) => {
                Error::OutOfMemory { device, bytes, in_use, free: Some(free) }
            }
            // the device went away under the call
            (_, Err(lost)) => lost,
            (e, _) => e,
        })?;
        device.memory.note(Kind::Alloc, region.address, bytes);
        Ok(DeviceBlock { region: Some(region), bytes, device: device.clone() })
    }
    /// Queue that it becomes zeros.
    pub fn clear(&self) -> Result<(), Error> {
        let (context, stream) = (&self.device.context, self.device.queue.stream);
        let driver = context.enter()?;
        // SAFETY: the region is ours and at least as long; it is freed in the order of the same queue.
        context.check("cuMemsetD8Async", unsafe { (driver.fill)(self.address(), 0, self.bytes, stream) })
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            let address = region.address;
            self.device.memory.put(self.bytes, region);
            self.device.memory.note(Kind::Free, address, self.bytes);
        }
    }
}

// SAFETY: the region is ours until the block is dropped, and at least `bytes` long.
unsafe impl Block for DeviceBlock {
    fn len(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> u64 {
        self.region.as_ref().map_or(0, |r| r.address)
    }
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        self.device.stage(|s| s.copy_in(&self.device, self.address() + offset as u64, data))
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        self.device.stage(|s| s.copy_out(&self.device, self.address() + offset as u64, data))
    }
    fn copy_from(&self, offset: usize, from: &Memory) -> Option<Result<(), Error>> {
        let source = from.block().as_any()?;
        let ours = source.downcast_ref::<DeviceBlock>().map(|b| &b.device);
        let source = ours.or_else(|| source.downcast_ref::<Foreign>().map(Foreign::device))?;
        Some(self.device.copy(self.address() + offset as u64, source, from.address(), from.len_bytes()))
    }
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

/// Host memory that does not move, which the device reads and writes by itself.
pub struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
}

// SAFETY: it owns its memory; nothing in it is tied to a thread.
unsafe impl Send for Pinned {}
// SAFETY: a shared one only hands out its address.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// For every context of the process, and mapped into the device's addresses.
    const SHARED_AND_MAPPED: u32 = 1 | 2;

    /// So many bytes, zeros.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Pinned, Error> {
        let mut start = std::ptr::null_mut();
        // SAFETY: the place is valid for the call.
        let code = unsafe { (context.enter()?.host_alloc)(&mut start, bytes, Self::SHARED_AND_MAPPED) };
        context.check("cuMemHostAlloc", code)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::Device("no pinned memory".into()))?;
        // SAFETY: just allocated, so long, and no one else has it.
        unsafe { std::ptr::write_bytes(start.as_ptr(), 0, bytes) };
        Ok(Pinned { context: context.clone(), start })
    }
    /// Where it starts, for the host and for the device.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and no one has it any more.
        self.context.leave(|driver| _ = unsafe { (driver.host_free)(self.start().cast()) });
    }
}

/// Two pieces of pinned memory in turns: while the device copies one, the host fills or empties the other.
pub struct Staging {
    pieces: [(Pinned, Event); 2],
    next: usize,
}

impl Staging {
    const PIECE: usize = 4 << 20;

    /// Empty pieces.
    pub fn new(context: &Arc<Context>) -> Result<Staging, Error> {
        let piece = || Ok((Pinned::new(context, Self::PIECE)?, Event::new(context, false)?));
        Ok(Staging { pieces: [piece()?, piece()?], next: 0 })
    }
    /// Bytes to the device. Returns when they are in pieces that are queued, not when they have arrived.
    fn copy_in(&mut self, device: &Shared, to: Address, data: &[u8]) -> Result<(), Error> {
        let driver = device.context.enter()?;
        for (i, part) in data.chunks(Self::PIECE).enumerate() {
            let (pinned, event) = &self.pieces[self.next];
            event.wait()?;
            let at = to + (i * Self::PIECE) as u64;
            // SAFETY: the piece is at least as long as the part, and the event says that no copy uses it any more; the
            // destination was checked by `Memory`, and the piece is not touched again before its event.
            let code = unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), pinned.start(), part.len());
                (driver.copy_in)(at, pinned.start().cast(), part.len(), device.queue.stream)
            };
            device.context.check("cuMemcpyHtoDAsync", code)?;
            Self::mark(event, device)?;
            self.next ^= 1;
        }
        Ok(())
    }
    /// The event of a piece is done when the copy that was queued last is. Without one, that copy is waited for now: no one
    /// else would know of it.
    fn mark(event: &Event, device: &Shared) -> Result<(), Error> {
        event.record(&device.queue).inspect_err(|_| _ = device.queue.wait())
    }
    /// Bytes from the device, after all that was queued.
    pub(super) fn copy_out(&mut self, device: &Shared, from: Address, data: &mut [u8]) -> Result<(), Error> {
        let driver = device.context.enter()?;
        let mut waiting: Option<(usize, &mut [u8])> = None;
        for (i, part) in data.chunks_mut(Self::PIECE).enumerate() {
            let (pinned, event) = &self.pieces[self.next];
            event.wait()?;
            let at = from + (i * Self::PIECE) as u64;
            // SAFETY: as in `copy_in`, the other way round.
            let code = unsafe {
                (driver.copy_out)(pinned.start().cast::<c_void>(), at, part.len(), device.queue.stream)
            };
            device.context.check("cuMemcpyDtoHAsync", code)?;
            Self::mark(event, device)?;
            if let Some((piece, part)) = waiting.replace((self.next, part)) {
                self.empty(piece, part)?;
            }
            self.next ^= 1;
        }
        waiting.map_or(Ok(()), |(piece, part)| self.empty(piece, part))
    }
    /// What a copy put into a piece, once it is done.
    fn empty(&self, piece: usize, part: &mut [u8]) -> Result<(), Error> {
        let (pinned, event) = &self.pieces[piece];
        event.wait()?;
        // SAFETY: the piece is at least as long, and its event says that it holds what was copied.
        unsafe { std::ptr::copy_nonoverlapping(pinned.start(), part.as_mut_ptr(), part.len()) };
        Ok(())
    }
}
