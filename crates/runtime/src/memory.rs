//! A region of device memory: shared, sliceable, returned to its allocator when the last holder lets go.

use crate::Error;
use std::fmt;
use std::sync::Arc;

/// One allocation as its device sees it; dropping it gives the memory back.
///
/// Offsets are in bytes and already checked against `len` by [`Memory`].
///
/// # Safety
/// Kernels follow what this says: as long as the block lives, `len` bytes at `address` and at `host_ptr`, where it gives
/// one, can be read, and written too if `is_writable`.
pub unsafe trait Block: Send + Sync {
    /// Number of bytes.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Where it starts, in the device's own address space; 0 where there is nothing real.
    fn address(&self) -> u64;
    /// The same place as a pointer this process can follow, if there is one, valid for `len` bytes.
    fn host_ptr(&self) -> Option<*mut u8> {
        None
    }
    /// Whether kernels and copies may write to it.
    fn is_writable(&self) -> bool {
        true
    }
    /// Whether its bytes are still those it had: a mapped file may have been shortened.
    fn intact(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Copy from the host, after the launches that were queued before.
    fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        let to = self.host_ptr().ok_or_else(out_of_reach)?;
        // SAFETY: the block is as long as it says and `Memory` checked the range and that it is writable; whoever copies
        // orders accesses to the same bytes, as `Memory` asks.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.add(offset), data.len()) };
        Ok(())
    }
    /// Copy to the host, after the launches that were queued before.
    fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        let from = self.host_ptr().ok_or_else(out_of_reach)?;
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(from.add(offset), data.as_mut_ptr(), data.len()) };
        Ok(())
    }
    /// Copy from other memory without the host, after what was queued before on either side; `None` where it cannot.
    fn copy_from(&self, _offset: usize, _from: &Memory) -> Option<Result<(), Error>> {
        None
    }
    /// The block as what it is, for its device.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

fn out_of_reach() -> Error {
    Error::Device("this memory is not one that the host can reach".into())
}

/// Device memory: an allocation or a part of one. Clones and views share it.
///
/// It has no lock: whoever launches and copies orders the accesses to the same bytes.
#[derive(Clone)]
pub struct Memory {
    block: Arc<dyn Block>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// The whole of `block`.
    pub fn new(block: Arc<dyn Block>) -> Memory {
        let len = block.len();
        Memory { block, offset: 0, len }
    }
    /// Number of bytes.
    pub fn len_bytes(&self) -> usize {
        self.len
    }
    /// Where it starts, in the device's address space.
    pub fn address(&self) -> u64 {
        self.block.address() + self.offset as u64
    }
    /// Where it starts, for this process, if the memory is one it can reach; valid for `len_bytes`.
    pub fn host_ptr(&self) -> Option<*mut u8> {
        self.block.host_ptr().map(|p| p.wrapping_add(self.offset))
    }
    /// Whether it may be written to.
    pub fn is_writable(&self) -> bool {
        self.block.is_writable()
    }
    /// An error where bytes of it are gone: then what was read of them, until now, is not to be believed.
    pub fn intact(&self) -> Result<(), Error> {
        self.block.intact()
    }
    /// The `bytes` bytes from `offset`, sharing this allocation.
    pub fn view(&self, offset: usize, bytes: usize) -> Result<Memory, Error> {
        self.check(offset, bytes)?;
        Ok(Memory { block: self.block.clone(), offset: self.offset + offset, len: bytes })
    }
    /// Copy `data` to `offset`.
    pub fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        self.check(offset, data.len())?;
        if !self.is_writable() {
            return Err(Error::Device("this memory is read-only: copy it before writing to it".into()));
        }
        self.block.copy_in(self.offset + offset, data)
    }
    /// Fill `data` from `offset`.
    pub fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), Error> {
        self.check(offset, data.len())?;
        self.block.copy_out(self.offset + offset, data)
    }
    /// Copy all of `from`, of any device, to the start of this.
    pub fn copy_from(&self, from: &Memory) -> Result<(), Error> {
        const PIECE: usize = 1 << 20;
        self.check(0, from.len)?;
        if !self.is_writable() {
            return self.copy_in(0, &[]);
        }
        if let Some(done) = self.block.copy_from(self.offset, from) {
            return done;
        }
        let mut piece = vec![0; from.len.min(PIECE)];
        for at in (0..from.len).step_by(PIECE) {
            let part = &mut piece[..PIECE.min(from.len - at)];
            from.copy_out(at, part)?;
            self.copy_in(at, part)?;
            crate::interrupt::check()?;
        }
        Ok(())
    }
    /// The allocation.
    pub fn block(&self) -> &dyn Block {
        &*self.block
    }
    /// Whether both are parts of one allocation.
    pub fn same_allocation(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }
    /// How many memories share this allocation.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.block)
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::Bounds { offset, bytes, len: self.len }),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes at {:#x})", self.len, self.address())
    }
}

/// What an allocator holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Asked for and not yet returned.
    pub in_use: usize,
    /// The most that was ever in use at once.
    pub peak: usize,
    /// Free, kept for reuse.
    pub cached: usize,
    /// Allocations so far.
    pub allocations: u64,
    /// Those of them that reused cached memory.
    pub reused: u64,
}
