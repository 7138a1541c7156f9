//! The NULL device.

use super::memory::Allocator;
use super::program::NullKernel;
use super::target;
use crate::{Device, Error, Executable, Memory, MemoryStats};
use frit_abi::{Kernel, Target};
use std::sync::Arc;

/// Counts memory and checks arguments; nothing is stored, compiled or computed. Reading gives zeros.
pub struct Null {
    name: String,
    target: Target,
    allocator: Allocator,
}

/// The device for the registry, posing as one of [`target::names`].
pub fn open(suffix: &str) -> Result<Arc<dyn Device>, Error> {
    let name = if suffix == target::HERE { "NULL".into() } else { format!("NULL:{suffix}") };
    let allocator = Allocator::new(&name);
    Ok(Arc::new(Null { name, target: target::of(suffix)?, allocator }))
}

impl Device for Null {
    fn name(&self) -> &str {
        &self.name
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
