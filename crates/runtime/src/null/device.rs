//! The NULL device.

use super::memory::Allocator;
use super::program::NullKernel;
use crate::cpu;
use crate::{Device, Error, Executable, Memory, MemoryStats};
use frit_abi::{Kernel, Target};
use std::sync::Arc;

/// Counts memory and checks arguments; nothing is stored, compiled or computed. Reading gives zeros.
pub struct Null {
    target: Target,
    allocator: Allocator,
}

/// The device for the registry: it poses as this machine's CPU.
pub fn open() -> Result<Arc<dyn Device>, Error> {
    Ok(Arc::new(Null::new(cpu::target::detect(
        crate::env::threads()?,
        crate::env::isa(cpu::target::machine())?,
        crate::env::units()?,
    ))))
}

impl Null {
    /// One that poses as `target`.
    pub fn new(target: Target) -> Null {
        Null { target, allocator: Allocator::default() }
    }
}

impl Device for Null {
    fn name(&self) -> &str {
        "NULL"
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        self.allocator.alloc(bytes)
    }
    fn memory_stats(&self) -> MemoryStats {
        self.allocator.stats()
    }
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>, Error> {
        Ok(Arc::new(NullKernel::new(kernel)))
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
