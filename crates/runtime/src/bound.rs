//! A kernel together with its arguments, checked once: launching it again costs little more than the kernel.

use crate::{Error, Executable, Memory, check_args};
use frit_abi::LaunchDims;
use std::sync::Arc;

/// A launch that can be repeated, with other memory or other numbers if need be.
pub struct Bound {
    executable: Arc<dyn Executable>,
    bufs: Vec<Memory>,
    /// Where each buffer starts: what a kernel is called with.
    addresses: Vec<u64>,
    vars: Vec<i64>,
    dims: LaunchDims,
}

impl Bound {
    /// A launch of `executable` on these arguments, which must fit its parameters.
    pub fn new(
        executable: Arc<dyn Executable>,
        bufs: Vec<Memory>,
        vars: Vec<i64>,
        dims: LaunchDims,
    ) -> Result<Bound, Error> {
        let mut bound = Bound { executable, bufs, addresses: vec![], vars, dims };
        bound.check()?;
        bound.addresses = bound.bufs.iter().map(Memory::address).collect();
        Ok(bound)
    }
    /// Let the kernel use other memory for a buffer.
    pub fn set_buffer(&mut self, arg: usize, memory: &Memory) -> Result<(), Error> {
        let wrong = || Error::Launch {
            kernel: self.executable.name().into(),
            message: format!("it has no buffer {arg}"),
        };
        let old = self.bufs.get(arg).ok_or_else(wrong)?;
        // memory no shorter, no less aligned and no less writable needs no second look at the kernel's parameters
        let fits = memory.len_bytes() >= old.len_bytes()
            && memory.address().is_multiple_of(64)
            && memory.is_writable()
            && memory.host_ptr().is_some() == old.host_ptr().is_some();
        let old = std::mem::replace(&mut self.bufs[arg], memory.clone());
        if !fits && let Err(e) = self.check() {
            // the address still points there
            self.bufs[arg] = old;
            return Err(e);
        }
        self.addresses[arg] = memory.address();
        Ok(())
    }
    /// Let the kernel run with other variables, and the extents that follow from them.
    pub fn set_vars(&mut self, vars: &[i64], dims: LaunchDims) -> Result<(), Error> {
        if vars.len() != self.vars.len() {
            let message = format!("it takes {} variables, was given {}", self.vars.len(), vars.len());
            return Err(Error::Launch { kernel: self.executable.name().into(), message });
        }
        if dims != self.dims {
            self.executable.check(&self.bufs.iter().collect::<Vec<_>>(), dims)?;
        }
        self.vars.copy_from_slice(vars);
        self.dims = dims;
        Ok(())
    }
    /// Run it.
    pub fn launch(&self) -> Result<(), Error> {
        self.executable.launch_bound(self)
    }
    /// The kernel.
    pub fn executable(&self) -> &Arc<dyn Executable> {
        &self.executable
    }
    /// Its buffers, in order.
    pub fn buffers(&self) -> &[Memory] {
        &self.bufs
    }
    /// Where they start, in the device's address space.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }
    /// Its variables, in order.
    pub fn vars(&self) -> &[i64] {
        &self.vars
    }
    /// The numbers of the launch.
    pub fn dims(&self) -> LaunchDims {
        self.dims
    }

    fn check(&self) -> Result<(), Error> {
        let bufs: Vec<&Memory> = self.bufs.iter().collect();
        check_args(self.executable.name(), self.executable.params(), &bufs, &self.vars)?;
        self.executable.check(&bufs, self.dims)
    }
}
