//! Values as bytes, for someone who wants to see them: computed where no one has.

use super::realize::realize;
use super::tape;
use crate::memory::file;
use crate::memory::transfer::{bytes_of, memory_of, zeros};
use crate::memory::view::{byte_count, contiguous_base};
use crate::{Error, devices};
use frit_runtime::{Device, Memory};
use frit_uop::UOp;
use std::io::{self, Write};
use std::sync::Arc;

/// The bytes of a value, in row-major order; computes it if no one has.
pub fn read(value: &UOp) -> Result<Vec<u8>, Error> {
    bytes_of(value, &in_memory(value)?)
}

/// The bytes of a value where they lie. It holds the value's version: a store that follows goes to other memory.
pub struct Lent {
    bytes: Bytes,
    _version: UOp,
}
enum Bytes {
    /// Memory this process can read, and how much of it the value takes.
    There(Memory, usize),
    Copied(Vec<u8>),
}

impl std::ops::Deref for Lent {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(v) => v,
            Bytes::There(_, 0) => &[],
            Bytes::There(m, len) => m.host_ptr().map_or(&[], |p| {
                // SAFETY: the memory is held here, as long as it says, and no kernel writes to it while the version is.
                unsafe { std::slice::from_raw_parts(p, *len) }
            }),
        }
    }
}

/// A value's memory on its device, for another library there. It holds the value's version.
pub struct LentThere {
    memory: Memory,
    device: Arc<dyn Device>,
    _version: UOp,
}

impl LentThere {
    /// Where it starts, in the device's address space.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }
}

impl Drop for LentThere {
    fn drop(&mut self) {
        // the other library's queue may still read what is handed out again after this
        _ = self.device.settle();
    }
}

/// A value in the memory of its device, in row-major order and computed to the end.
pub fn lend_there(value: &UOp) -> Result<LentThere, Error> {
    let realised = in_memory(value)?;
    let memory = memory_of(&realised)?.clone();
    let name = realised.device().ok_or_else(|| Error::Graph("a realised value has no device".into()))?;
    Ok(LentThere { memory, device: frit_runtime::device(&name)?, _version: realised })
}

/// The bytes of a value, in row-major order; computes it if no one has, copies where the device's memory is elsewhere.
pub fn lend(value: &UOp) -> Result<Lent, Error> {
    let realised = in_memory(value)?;
    let memory = memory_of(&realised)?;
    let len = byte_count(value)?;
    let bytes = if memory.host_ptr().is_some() && len <= memory.len_bytes() {
        Bytes::There(memory.clone(), len)
    } else {
        let mut bytes = zeros(len)?;
        memory.copy_out(0, &mut bytes)?;
        Bytes::Copied(bytes)
    };
    Ok(Lent { bytes, _version: realised })
}

/// Writes the bytes of a value, in row-major order and in small pieces. What no one has computed is computed and
/// forgotten again.
pub fn write(value: &UOp, out: &mut dyn Write) -> Result<io::Result<()>, Error> {
    const PIECE: usize = 1 << 20;
    let has_memory = contiguous_base(value).is_some() || value.realized().is_some();
    let realised = in_memory(&if has_memory { value.clone() } else { value.contiguous() })?;
    let memory = memory_of(&realised)?;
    let bytes = byte_count(value)?;
    let mut piece = vec![0; bytes.min(PIECE)];
    for at in (0..bytes).step_by(PIECE) {
        let n = PIECE.min(bytes - at);
        memory.copy_out(at, &mut piece[..n])?;
        if let Err(e) = out.write_all(&piece[..n]) {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

/// The value in memory, for someone who wants to see it.
fn in_memory(value: &UOp) -> Result<UOp, Error> {
    tape::check_reading()?;
    let moved =
        file::needs_moving(value).then(|| devices::canonical(devices::HOST).map(|d| value.copy_to(&d)));
    let value = &moved.transpose()?.unwrap_or_else(|| value.clone());
    let realised = realize(std::slice::from_ref(value))?.into_iter().next();
    realised.ok_or_else(|| Error::Graph("a value was not realised".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::view::element_count;
    use frit_abi::DType;

    #[test]
    fn sizes_beyond_memory_are_errors_of_whoever_asks_for_the_bytes() {
        let huge = |n: usize| {
            let dims: Vec<UOp> = (0..n).map(|_| UOp::index(1 << 31)).collect();
            let ones: Vec<UOp> = dims.iter().map(|_| UOp::index(1)).collect();
            UOp::float(1.0, DType::F64).reshape(&ones).expand(&dims)
        };
        assert_eq!(element_count(&huge(2)).unwrap(), 1 << 62);
        assert!(byte_count(&huge(2)).is_err() && element_count(&huge(3)).is_err());
        assert!(read(&huge(2)).is_err() && lend(&huge(3)).is_err());
        assert_eq!(zeros(3).unwrap(), [0; 3]);
        assert!(zeros(0).unwrap().is_empty() && zeros(usize::MAX / 4).is_err() && zeros(usize::MAX).is_err());
    }
}
