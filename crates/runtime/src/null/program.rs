//! A kernel of the NULL device: it checks its arguments.

use crate::{Error, Executable, Memory};
use frit_abi::{Kernel, LaunchDims, Param};

/// A kernel that checks its arguments.
pub struct NullKernel {
    name: String,
    params: Vec<Param>,
}

impl NullKernel {
    /// The kernel without its code.
    pub fn new(kernel: &Kernel) -> NullKernel {
        NullKernel { name: kernel.name.clone(), params: kernel.params.clone() }
    }
}

impl Executable for NullKernel {
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
