//! The INTERP devices.

use super::program::InterpKernel;
use super::target;
use crate::allocator::Allocator;
use crate::{Blob, Device, Error, Executable, Memory, MemoryStats};
use frit_abi::{Code, Kernel, Target};
use std::sync::Arc;

/// Free memory that is kept for reuse.
const CACHE_LIMIT: usize = 256 << 20;

/// A machine that walks bytecode and checks every step. Launches run to their end before they return.
pub struct Interp {
    name: String,
    target: Target,
    allocator: Allocator,
    seed: u64,
}

/// The device for the registry, posing as one of [`target::names`].
pub fn open(suffix: &str) -> Result<Arc<dyn Device>, Error> {
    let name = if suffix == target::CPU { "INTERP".into() } else { format!("INTERP:{suffix}") };
    Ok(Arc::new(Interp::new(&name, target::of(suffix)?, crate::env::interp_seed()?)))
}

impl Interp {
    /// One that poses as a CPU, with a seed for the order of things.
    pub fn cpu(seed: u64) -> Interp {
        Interp::new("INTERP", Target::interp(), seed)
    }
    /// One that poses as a GPU.
    pub fn gpu(seed: u64) -> Interp {
        Interp::new("INTERP:GPU", Target::interp_gpu(), seed)
    }
    fn new(name: &str, target: Target, seed: u64) -> Interp {
        Interp { name: name.into(), target, allocator: Allocator::new(name, CACHE_LIMIT), seed }
    }
}

impl Device for Interp {
    fn name(&self) -> &str {
        &self.name
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        let memory = self.allocator.alloc(bytes)?;
        // garbage that shows: NaN as any float, -1 as a signed integer
        if let Some(base) = memory.host_ptr() {
            // SAFETY: the memory was just made, is this long, and no one else has it.
            unsafe { std::ptr::write_bytes(base, 0xFF, bytes) };
        }
        Ok(memory)
    }
    fn borrow(&self, bytes: &Blob, align: usize) -> Option<Memory> {
        Some(bytes.memory(align))
    }
    fn memory_stats(&self) -> MemoryStats {
        self.allocator.stats()
    }
    fn trim(&self) {
        self.allocator.trim();
    }
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>, Error> {
        let Code::Bytecode(program) = &kernel.code else {
            return Err(Error::compiler(&kernel.name, "the interpreter takes bytecode"));
        };
        Ok(Arc::new(InterpKernel::new(kernel, program, &self.target, self.seed)?))
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
