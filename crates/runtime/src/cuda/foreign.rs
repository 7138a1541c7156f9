//! Memory of other libraries on the same device.

use super::device::Shared;
use super::driver::Address;
use crate::memory::Block;
use crate::{Error, Owner};
use std::sync::Arc;

/// Memory that another library owns and may change. Kernels only read it.
pub struct Foreign {
    address: Address,
    bytes: usize,
    device: Arc<Shared>,
    /// Dropped after what this has done below.
    _owner: Owner,
}

impl Foreign {
    /// So many bytes at an address, which must be of this device.
    pub fn new(device: &Arc<Shared>, address: Address, bytes: usize, owner: Owner) -> Result<Foreign, Error> {
        if bytes > 0 {
            let last = address.checked_add(bytes as u64 - 1).ok_or_else(|| elsewhere(device, address))?;
            for at in [address, last] {
                if owner_of(device, at)? != Some(device.context.device) {
                    return Err(elsewhere(device, address));
                }
            }
        }
        Ok(Foreign { address, bytes, device: device.clone(), _owner: owner })
    }
    /// Where it is.
    pub fn device(&self) -> &Arc<Shared> {
        &self.device
    }
}

fn elsewhere(device: &Shared, address: Address) -> Error {
    Error::Device(format!("{}: the memory at {address:#x} is not of this device", device.context.name))
}

/// The number of the device whose memory is at an address.
fn owner_of(device: &Shared, address: Address) -> Result<Option<i32>, Error> {
    /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
    const DEVICE: i32 = 9;
    /// What the driver answers for an address that it did not hand out.
    const INVALID_VALUE: i32 = 1;
    let (context, mut ordinal) = (&device.context, 0i32);
    // SAFETY: the place is valid for an answer of this kind.
    let code =
        unsafe { (context.enter()?.address_about)(std::ptr::from_mut(&mut ordinal).cast(), DEVICE, address) };
    if code == INVALID_VALUE {
        return Ok(None);
    }
    context.check("cuPointerGetAttribute", code)?;
    Ok(Some(ordinal))
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // its owner may give it to someone else at once, whose queue knows nothing of ours
        _ = self.device.queue.wait();
    }
}

// SAFETY: whoever made it keeps so many bytes there until the owner is dropped, and the driver said that they are of this
// device; no one writes through it.
unsafe impl Block for Foreign {
    fn len(&self) -> usize {
        self.bytes
    }
    fn address(&self) -> u64 {
        self.address
    }
    fn is_writable(&self) -> bool {
        false
    }
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        self.device.stage(|s| s.copy_out(&self.device, self.address + offset as u64, data))
    }
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}
