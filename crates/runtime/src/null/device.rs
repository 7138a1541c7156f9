//! The NULL device.

use super::allocator::Allocator;
use crate::cpu;
use crate::{Device, Error, Loaded, Memory, MemoryStats};
use frit_abi::{Kernel, LaunchDims, Param, Target};
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
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Loaded>, Error> {
        Ok(Arc::new(Nothing { name: kernel.name.clone(), params: kernel.params.clone() }))
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A kernel that checks its arguments.
struct Nothing {
    name: String,
    params: Vec<Param>,
}

impl Loaded for Nothing {
    fn name(&self) -> &str {
        &self.name
    }
    fn params(&self) -> &[Param] {
        &self.params
    }
    fn launch(&self, bufs: &[&Memory], vars: &[i64], _dims: LaunchDims) -> Result<(), Error> {
        crate::check_args(&self.name, &self.params, bufs, vars)
    }
}
