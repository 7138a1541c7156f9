//! Devices: where kernels are compiled, loaded and launched, and where memory lives. Nothing here knows a UOp.
//!
//! Reading order:
//!
//! - [`Device`] and [`Executable`], below: what every device does.
//! - [`bound`]: a launch that is repeated. [`memory`]: a region of device memory, [`blob`]: bytes that someone else owns, [`registry`]: devices by name, [`error`]: what can go wrong.
//! - [`reuse`]: free memory waits to be used again; [`allocator`]: the host's.
//! - [`cpu`]: the C compiler, the object loader, the thread pool. [`cuda`]: GPUs through their driver. [`null`]: lowers everything, runs nothing. [`disk`]: files as memory.
//! - [`interp`]: walks bytecode and checks every step, as a CPU or as a GPU.
//! - [`cache`]: compiled kernels on disk. [`mod@env`]: every `FRIT_` flag this room reads.
//! - [`interrupt`]: long work that is asked to end. [`sys`]: what differs between operating systems.
//!
//! ```no_run
//! # fn main() -> Result<(), frit_runtime::Error> {
//! let cpu = frit_runtime::device("CPU")?;
//! let x = cpu.alloc(1024)?;
//! x.copy_in(0, &[1, 2, 3])?;
//! # Ok(()) }
//! ```

pub mod allocator;
pub mod blob;
pub mod bound;
pub mod cache;
pub mod cpu;
pub mod cuda;
pub mod disk;
pub mod env;
pub mod error;
pub mod interp;
pub mod interrupt;
pub mod memory;
pub mod null;
pub mod parallel;
pub mod registry;
pub mod reuse;
pub mod sys;

use frit_abi::{Kernel, LaunchDims, Param, Target};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use blob::Blob;
pub use bound::Bound;
pub use error::Error;
pub use memory::{Block, Memory, MemoryStats};
pub use registry::{DeviceInfo, HOST, available, device};

/// A machine that holds memory and runs kernels.
pub trait Device: Send + Sync {
    /// The canonical name, one that [`device`] accepts: `CPU`, `NULL`.
    fn name(&self) -> &str;
    /// One line for people: what it is and what it works with.
    fn describe(&self) -> String {
        self.target().name.clone()
    }
    /// What the machine can do, for the compiler.
    fn target(&self) -> &Target;
    /// `bytes` of memory, at least 64-byte aligned. Zero is allowed; the content is arbitrary.
    fn alloc(&self, bytes: usize) -> Result<Memory, Error>;
    /// Memory over bytes that someone else owns, read-only, where kernels can reach them; `None` where they must be copied.
    fn borrow(&self, _bytes: &Blob, _align: usize) -> Option<Memory> {
        None
    }
    /// Memory at an address of the device that another library owns and may change; kernels only read it. The owner is let
    /// go when nothing on the device uses it any more.
    ///
    /// # Safety
    /// As long as `owner` lives, so many bytes at the address can be read.
    unsafe fn adopt(&self, _address: u64, _bytes: usize, _owner: Owner) -> Result<Memory, Error> {
        Err(Error::Device(format!("{} takes no memory of other libraries", self.name())))
    }
    /// What other libraries on the device know its queue by, to order theirs with it.
    fn queue_handle(&self) -> Option<u64> {
        None
    }
    /// Wait for all that anyone queued on the device, other libraries too.
    fn settle(&self) -> Result<(), Error> {
        self.synchronize()
    }
    /// What the allocator holds now.
    fn memory_stats(&self) -> MemoryStats;
    /// Give cached free memory back to the system.
    fn trim(&self) {}
    /// Compile a kernel, unless it is cached, and make it ready to launch.
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>, Error>;
    /// [`Device::load`] for many kernels, in the same order; devices may compile them together and in parallel.
    fn load_all(&self, kernels: &[Kernel]) -> Vec<Result<Arc<dyn Executable>, Error>> {
        kernels.iter().map(|k| self.load(k)).collect()
    }
    /// These launches as one, where the device has that: queued with one call.
    fn graph(&self, _steps: &[Bound]) -> Option<Result<Box<dyn Graph>, Error>> {
        None
    }
    /// Whether launches return before they have run.
    fn runs_apart(&self) -> bool {
        false
    }
    /// Whether it can be used in a process that was forked from the one that opened it.
    fn survives_fork(&self) -> bool {
        true
    }
    /// Wait for every launch; a data-dependent miss that was not reported yet is [`Error::Index`].
    fn synchronize(&self) -> Result<(), Error>;
    /// How long what `queue` launches takes, to its end and by the device's own clock where it has one; what missed is
    /// for [`Device::synchronize`] to say.
    fn time(&self, queue: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        let start = Instant::now();
        queue()?;
        self.synchronize()?;
        Ok(start.elapsed())
    }
    /// A place in the queue whose time is asked for later; `None` where launches have run when they return.
    fn mark(&self) -> Option<Result<Arc<dyn Mark>, Error>> {
        None
    }
    /// Queue writes to more memory than the device's caches hold, so that what is timed next begins with cold ones;
    /// nothing where kernels are timed with what the last run left there.
    fn flush_caches(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A kernel on its device, ready to launch. Launches from several threads at once are allowed.
pub trait Executable: Send + Sync {
    /// Run it: `bufs` and `vars` in the order of the kernel's parameters. Arguments are checked against them.
    ///
    /// On a device with a queue this returns before the kernel has run. The caller orders launches and copies that
    /// touch the same memory. [`Error::Interrupted`] may come before anything has run, or midway.
    fn launch(&self, bufs: &[&Memory], vars: &[i64], dims: LaunchDims) -> Result<(), Error>;
    /// Name of the kernel.
    fn name(&self) -> &str;
    /// What it takes.
    fn params(&self) -> &[Param];
    /// What the device asks of a launch besides what the parameters say.
    fn check(&self, _bufs: &[&Memory], _dims: LaunchDims) -> Result<(), Error> {
        Ok(())
    }
    /// [`Executable::launch`] with arguments that were checked before.
    fn launch_bound(&self, bound: &Bound) -> Result<(), Error> {
        self.launch(&bound.buffers().iter().collect::<Vec<_>>(), bound.vars(), bound.dims())
    }
    /// What of the machine it takes, where that is known.
    fn resources(&self) -> Option<Resources> {
        None
    }
    /// The machine code as text, for people.
    fn disassembly(&self) -> Result<String, Error> {
        Err(Error::Device("this device has no machine code to show".into()))
    }
    /// How many buffers it takes.
    fn buffers(&self) -> usize {
        self.params().iter().filter(|p| matches!(p, Param::Buffer { .. })).count()
    }
    /// Where it is several programs in a row: those with their dims, and the bytes of each memory that they take as their
    /// last buffers, or the first of those.
    fn programs(&self) -> Option<(&[Program], &[usize])> {
        None
    }
    /// The kernel as what it is, for its device.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

/// What a kernel takes of its machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Registers of a lane.
    pub registers: u32,
    /// Bytes of memory that hold what registers do not, of a lane.
    pub spilled: u32,
}

/// A place in the queue of a device.
pub trait Mark: Send + Sync {
    /// When the device came to it, by the clock of [`frit_abi::record::now`]; `None` while it has not. It was put in the
    /// queue after `after`.
    fn reached(&self, after: u64) -> Result<Option<u64>, Error>;
    /// Wait until the device comes to it.
    fn wait(&self) -> Result<(), Error>;
}

/// Whoever keeps memory that is not ours.
pub type Owner = Box<dyn std::any::Any + Send + Sync>;

/// One of the programs of a kernel, and the numbers of its launch.
pub type Program = (Arc<dyn Executable>, LaunchDims);

/// Launches that a device has as one.
pub trait Graph: Send {
    /// Queue them all. These are the launches it was made of, whose memory, variables and dims may have changed.
    fn launch(&mut self, steps: &[Bound]) -> Result<(), Error>;
}

/// An error where a kernel read memory that was there no more: a mapped file that became shorter.
pub(crate) fn check_intact<'a>(mut bufs: impl Iterator<Item = &'a Memory>) -> Result<(), Error> {
    if sys::any_lost() { bufs.try_for_each(Memory::intact) } else { Ok(()) }
}

/// Whether the arguments of a launch fit the kernel's parameters: their number, sizes, alignment and writability.
pub fn check_args(kernel: &str, params: &[Param], bufs: &[&Memory], vars: &[i64]) -> Result<(), Error> {
    let fail = |message: String| Err(Error::Launch { kernel: kernel.into(), message });
    let n_bufs = params.iter().filter(|p| matches!(p, Param::Buffer { .. })).count();
    if bufs.len() != n_bufs || vars.len() != params.len() - n_bufs {
        let n_vars = params.len() - n_bufs;
        let (b, v) = (bufs.len(), vars.len());
        return fail(format!("takes {n_bufs} buffers and {n_vars} variables, was given {b} and {v}"));
    }
    let buffers = params.iter().filter_map(|p| match p {
        Param::Buffer { dtype, len, written, align } => Some((dtype, *len, *written, *align)),
        Param::Var { .. } => None,
    });
    for (i, ((dtype, len, written, align), buf)) in buffers.zip(bufs).enumerate() {
        let (need, have) = (len.saturating_mul(dtype.size()), buf.len_bytes());
        if have < need {
            return fail(format!("buffer {i} needs {need} bytes ({len} of {dtype:?}), was given {have}"));
        }
        if !buf.address().is_multiple_of(align.max(1) as u64) {
            return fail(format!("buffer {i} is not aligned to {align} bytes, which its accesses need"));
        }
        if written && !buf.is_writable() {
            return fail(format!("buffer {i} is stored to, and its memory is read-only"));
        }
    }
    Ok(())
}
