//! A kernel of the interpreter: checked against its machine when it is loaded, walked when it is launched.

use super::decode::{self, Decoded};
use super::memory::{Buffers, Locals};
use super::random::Random;
use super::walk::{Fault, Machine};
use crate::{Error, Executable, Memory};
use frit_abi::bytecode::Program;
use frit_abi::{Kernel, LaunchDims, Param, Target};
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kernel ready to be walked.
pub struct InterpKernel {
    name: String,
    params: Vec<Param>,
    program: Arc<Program>,
    decoded: Decoded,
    target: Target,
    seed: u64,
    /// Launches so far: each has its own random order.
    launches: AtomicU64,
}

impl Executable for InterpKernel {
    fn name(&self) -> &str {
        &self.name
    }
    fn params(&self) -> &[Param] {
        &self.params
    }
    fn launch(&self, bufs: &[&Memory], vars: &[i64], dims: LaunchDims) -> Result<(), Error> {
        crate::check_args(&self.name, &self.params, bufs, vars)?;
        crate::interrupt::check()?;
        self.check_dims(dims)?;
        let Some(bases) = bufs.iter().map(|b| b.host_ptr()).collect::<Option<Vec<_>>>() else {
            return Err(self.refuse("a buffer is not in this machine's memory"));
        };
        let is_grid = self.target.grid.is_some();
        let launch = self.launches.fetch_add(1, Relaxed);
        let mut machine = Machine {
            program: &self.decoded,
            // SAFETY: `check_args` compared sizes and writability with the parameters, the memories live as long as
            // the borrow, and callers order launches that touch the same memory, as `Memory` asks.
            buffers: unsafe { Buffers::new(&self.params, &bases) },
            locals: Locals::new(self.program.locals.iter().map(|l| l.lanes as usize), is_grid),
            variables: vars,
            dims,
            random: Random::new(self.seed.wrapping_add(launch)),
            aligned: self.target.vector_bytes == 0,
            status: 0,
        };
        let outcome = if is_grid { machine.run_grid() } else { machine.run_slices() };
        crate::check_intact(bufs.iter().copied())?;
        match outcome {
            Ok(0) => Ok(()),
            Ok(code) => Err(Error::Index { kernel: self.name.clone(), site: code - 1 }),
            Err(fault) => Err(self.report(*fault)),
        }
    }
}

impl InterpKernel {
    /// A program for a machine like `target`, where it fits one.
    pub fn new(
        kernel: &Kernel,
        program: &Arc<Program>,
        target: &Target,
        seed: u64,
    ) -> Result<InterpKernel, Error> {
        let decoded = decode::decode(program)?;
        let fail = |message: String| Err(Error::Object(format!("kernel {}: {message}", kernel.name)));
        let buffers = kernel.params.iter().filter(|p| matches!(p, Param::Buffer { .. })).count();
        if buffers != program.buffers as usize {
            return fail(format!("its program has {} buffers, it has {buffers}", program.buffers));
        }
        match &target.grid {
            Some(grid) if program.local_bytes() > grid.local_bytes => {
                let (have, most) = (program.local_bytes(), grid.local_bytes);
                return fail(format!("it needs {have} bytes of local memory, there are {most}"));
            }
            Some(_) if decoded.has_thread => return fail("it has a thread axis, this device a grid".into()),
            None if decoded.uses != [[false; 3]; 2] => return fail("it needs a grid".into()),
            _ => {}
        }
        Ok(InterpKernel {
            name: kernel.name.clone(),
            params: kernel.params.clone(),
            program: program.clone(),
            decoded,
            target: target.clone(),
            seed: seed ^ BuildHasherDefault::<rustc_hash::FxHasher>::default().hash_one(&kernel.name),
            launches: AtomicU64::new(0),
        })
    }
    fn check_dims(&self, dims: LaunchDims) -> Result<(), Error> {
        let Some(grid) = &self.target.grid else {
            if dims.global != [1; 3] || dims.local != [1; 3] || dims.thread_extent < 0 {
                return Err(self.refuse("this device has no grid, and its thread axis cannot be negative"));
            }
            if !self.decoded.has_thread && dims.thread_extent > 1 {
                return Err(self.refuse("it has no thread axis to share out"));
            }
            return Ok(());
        };
        let rows = [("global", dims.global, grid.max_global), ("local", dims.local, grid.max_local)];
        for (row, (name, have, most)) in rows.into_iter().enumerate() {
            if (0..3).any(|i| have[i] > most[i]) {
                return Err(self.refuse(format!("{name} size {have:?}, at most {most:?} allowed")));
            }
            if (0..3).any(|i| have[i] != 1 && !self.decoded.uses[row][i]) {
                return Err(
                    self.refuse(format!("{name} size {have:?} in a dimension the kernel does not use"))
                );
            }
        }
        let block: u64 = dims.local.iter().map(|&d| d as u64).product();
        if block > grid.max_block as u64 {
            return Err(self.refuse(format!("{block} lanes in a block, at most {} allowed", grid.max_block)));
        }
        Ok(())
    }
    fn refuse(&self, message: impl Into<String>) -> Error {
        Error::Launch { kernel: self.name.clone(), message: message.into() }
    }
    fn report(&self, fault: Fault) -> Error {
        let instruction = fault.op.map(|op| {
            let pc = self.decoded.origin[op] as usize;
            format!("{pc} `{}`", self.program.show(pc))
        });
        Error::Fault {
            kernel: self.name.clone(),
            instruction: instruction.unwrap_or_default(),
            message: fault.message,
        }
    }
}
