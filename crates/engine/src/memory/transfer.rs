//! Bytes to memory and back.

use super::buffer::Buffer;
use super::unconfirmed;
use super::view::{byte_count, contiguous_base};
use crate::{Error, devices, record};
use frit_abi::DType;
use frit_runtime::{Blob, Memory, Owner};
use frit_uop::{Storage, UOp};
use std::alloc::Layout;
use std::sync::Arc;

/// A one-dimensional buffer of `len` elements with these bytes.
pub fn from_bytes(device: &str, dtype: DType, len: usize, bytes: &[u8]) -> Result<UOp, Error> {
    if bytes.len() != len.saturating_mul(dtype.size()) {
        return Err(Error::Graph(format!("{} bytes are not {len} elements of {dtype}", bytes.len())));
    }
    let buffer = Buffer::alloc(&devices::canonical(device)?, dtype, len)?;
    record::copy("host to device", bytes.len(), || buffer.memory.copy_in(0, bytes))?;
    Ok(buffer.into_uop(dtype))
}

/// Bytes that someone else owns as a one-dimensional value on a device: the memory itself, read-only, where the device
/// can reach it, else a copy that is made when it is used.
pub fn from_blob(device: &str, dtype: DType, blob: &Blob) -> Result<UOp, Error> {
    let size = dtype.size().max(1);
    if !blob.len().is_multiple_of(size) {
        return Err(Error::Graph(format!("{} bytes are not whole elements of {dtype}", blob.len())));
    }
    let device = devices::canonical(device)?;
    let borrowed = |device: &Arc<str>, memory| {
        Buffer::new(device, blob.len() / size, memory, blob.is_volatile()).into_uop(dtype)
    };
    match frit_runtime::device(&device)?.borrow(blob, size) {
        Some(memory) => Ok(borrowed(&device, memory)),
        None => Ok(borrowed(&devices::canonical(devices::HOST)?, blob.memory(size)).copy_to(&device)),
    }
}

/// Memory of a device that another library owns and may change, as a one-dimensional value there: that memory itself, or
/// a copy on the device.
///
/// # Safety
/// As long as `owner` lives, the elements at the address can be read.
pub unsafe fn adopt(
    device: &str,
    dtype: DType,
    address: u64,
    len: usize,
    owner: Owner,
    is_copied: bool,
) -> Result<UOp, Error> {
    let device = devices::canonical(device)?;
    let dev = frit_runtime::device(&device)?;
    let bytes = len.checked_mul(dtype.size());
    let bytes =
        bytes.ok_or_else(|| Error::Graph(format!("{len} elements are larger than the address space")))?;
    // of a buffer's own start kernels count on what the widest access needs
    let align = dtype.size().max(dev.target().vector_access_bytes).max(1);
    if !is_copied && bytes > 0 && !address.is_multiple_of(align as u64) {
        return Err(Error::Graph(format!(
            "memory at {address:#x} is not aligned to {align} bytes, which kernels on {device} need: copy it first"
        )));
    }
    // SAFETY: as the caller says.
    let memory = unsafe { dev.adopt(address, bytes, owner) }?;
    if is_copied {
        let copy = Buffer::alloc(&device, dtype, len)?;
        copy.memory.copy_from(&memory)?;
        return Ok(copy.into_uop(dtype));
    }
    Ok(Buffer::volatile(&device, len, memory).into_uop(dtype))
}

/// Zeros to be overwritten; an error where there is no memory for them.
pub(crate) fn zeros(len: usize) -> Result<Vec<u8>, Error> {
    let short = || Error::Graph(format!("there is no memory for {len} bytes"));
    let layout = Layout::array::<u8>(len).map_err(|_| short())?;
    if len == 0 {
        return Ok(vec![]);
    }
    // SAFETY: the layout is not of size zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(short());
    }
    // SAFETY: just allocated by the allocator that vectors use, for as many bytes, all of them initialised.
    Ok(unsafe { Vec::from_raw_parts(start, len, len) })
}

/// The memory of a realised value, when all that was launched is done.
pub(crate) fn memory_of(realised: &UOp) -> Result<&Memory, Error> {
    let base = contiguous_base(realised);
    let buffer =
        base.and_then(Buffer::of).ok_or_else(|| Error::Graph("a realised value has no memory".into()))?;
    buffer.check()?;
    match unconfirmed::wait(&*frit_runtime::device(buffer.device())?) {
        // of this value or of others
        Err(Error::Index(_)) => buffer.check()?,
        waited => waited?,
    }
    buffer.memory.intact()?;
    Ok(&buffer.memory)
}

/// The bytes of a value that is realised, in row-major order.
pub(crate) fn bytes_of(value: &UOp, realised: &UOp) -> Result<Vec<u8>, Error> {
    let mut bytes = zeros(byte_count(value)?)?;
    let memory = memory_of(realised)?;
    record::copy("device to host", bytes.len(), || memory.copy_out(0, &mut bytes))?;
    Ok(bytes)
}
