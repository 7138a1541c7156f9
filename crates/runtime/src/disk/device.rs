//! The DISK device.

use crate::{Device, Error, Executable, Memory, MemoryStats, cpu};
use frit_abi::{Kernel, Target};
use std::path::Path;
use std::sync::Arc;

/// Its name. All files are on one device: which file it is, the memory knows.
pub const NAME: &str = "DISK";

/// Files; see [`crate::disk`].
struct Disk {
    target: Target,
}

/// The device for the registry.
pub fn open() -> Result<Arc<dyn Device>, Error> {
    let isa = crate::env::isa(cpu::target::machine())?;
    Ok(Arc::new(Disk {
        target: cpu::target::detect(crate::env::plan_threads()?, isa, crate::env::cpu_units()?),
    }))
}

/// The file that `disk:/path` names; `None` where that is another device, or there is no path.
pub fn path_of(device: &str) -> Option<&Path> {
    let (name, path) = device.split_once(':')?;
    (name.trim().eq_ignore_ascii_case(NAME) && !path.is_empty()).then(|| Path::new(path))
}

impl Device for Disk {
    fn name(&self) -> &str {
        NAME
    }
    fn describe(&self) -> String {
        "files, as disk:/path".into()
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn alloc(&self, _bytes: usize) -> Result<Memory, Error> {
        Err(Error::Device("memory on DISK is a file: name it, as in disk:/path".into()))
    }
    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }
    fn load(&self, _kernel: &Kernel) -> Result<Arc<dyn Executable>, Error> {
        Err(Error::Device("DISK only holds bytes: move it with to(...)".into()))
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
