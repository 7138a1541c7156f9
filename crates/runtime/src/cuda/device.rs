//! The CUDA devices.

use super::clock::{Clock, CudaMark};
use super::context::Context;
use super::driver::{Address, Driver};
use super::foreign::Foreign;
use super::graph::CudaGraph;
use super::memory::{DeviceBlock, Region, Staging};
use super::program::{CudaKernel, assemble};
use super::queue::Queue;
use super::status::Statuses;
use super::target;
use crate::cache::{self, DiskCache, Key};
use crate::reuse::Reuse;
use crate::{Bound, Device, Error, Executable, Graph, Mark, Memory, MemoryStats, Owner, env};
use frit_abi::sync::Mutex;
use frit_abi::{Code, Kernel, Target};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A GPU of NVIDIA's. Launches and copies run in the order they were asked for, apart from the host.
pub struct Cuda {
    name: String,
    about: String,
    target: Target,
    cache: DiskCache,
    shared: Arc<Shared>,
}

/// What memory and kernels of a device need of it.
pub struct Shared {
    pub(super) context: Arc<Context>,
    pub(super) queue: Queue,
    pub(super) memory: Reuse<Region>,
    pub(super) statuses: Arc<Statuses>,
    /// Made when first needed.
    staging: Mutex<Option<Staging>>,
    clock: Mutex<Option<Arc<Clock>>>,
}

/// The device of a number, for the registry.
pub fn open(suffix: &str) -> Result<Arc<dyn Device>, Error> {
    let ordinal = suffix.parse().map_err(|_| Error::Device(format!("there is no device CUDA:{suffix}")))?;
    Ok(Arc::new(Cuda::new(Driver::get()?, ordinal)?))
}

impl Cuda {
    /// The device of a number, by a driver.
    pub fn new(driver: Arc<Driver>, ordinal: i32) -> Result<Cuda, Error> {
        let name = if ordinal == 0 { "CUDA".into() } else { format!("CUDA:{ordinal}") };
        let mut count = 0;
        // SAFETY: the place is valid for the call.
        driver.check("cuDeviceGetCount", unsafe { (driver.device_count)(&mut count) })?;
        if ordinal >= count {
            return Err(Error::Device(format!("there is no device {name}: the driver has {count}")));
        }
        let context = Arc::new(Context::new(driver, ordinal, &name)?);
        let model = target::model(&context)?;
        let target = target::of(&context, &model)?;
        let (_, total) = context.memory()?;
        let about = format!("{model}, {}, {:.1} GiB", target.isa.name(), total as f64 / (1u64 << 30) as f64);
        let shared = Shared {
            queue: Queue::new(&context)?,
            // a program may use nearly all of the memory, and what waits is given back when it is short
            memory: Reuse::new(&name, total),
            statuses: Arc::new(Statuses::new(&context)),
            staging: Mutex::new(None),
            clock: Mutex::new(None),
            context,
        };
        let cache = DiskCache::new(env::cache(), cache::DEFAULT_LIMIT);
        Ok(Cuda { name, about, target, cache, shared: Arc::new(shared) })
    }
    /// The machine code of a kernel: from the cache, or assembled and put there.
    fn image(&self, kernel: &Kernel) -> Result<Vec<u8>, Error> {
        let Code::Ptx(text) = &kernel.code else {
            return Err(Error::compiler(&kernel.name, "a CUDA device takes PTX"));
        };
        let key = Key::of(&[b"ptx", self.about.as_bytes(), text.as_bytes()]);
        if let Some(image) = self.cache.get(key) {
            return Ok(image);
        }
        let image = assemble(&self.shared.context, &kernel.name, text)?;
        self.cache.put(key, &image);
        Ok(image)
    }
}

impl Device for Cuda {
    fn name(&self) -> &str {
        &self.name
    }
    fn describe(&self) -> String {
        self.about.clone()
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        Ok(Memory::new(Arc::new(DeviceBlock::new(&self.shared, bytes)?)))
    }
    unsafe fn adopt(&self, address: u64, bytes: usize, owner: Owner) -> Result<Memory, Error> {
        Ok(Memory::new(Arc::new(Foreign::new(&self.shared, address, bytes, owner)?)))
    }
    fn queue_handle(&self) -> Option<u64> {
        Some(self.shared.queue.stream as u64)
    }
    fn settle(&self) -> Result<(), Error> {
        let context = &self.shared.context;
        // SAFETY: the context is this thread's.
        context.check("cuCtxSynchronize", unsafe { (context.enter()?.context_wait)() })
    }
    fn memory_stats(&self) -> MemoryStats {
        self.shared.memory.stats()
    }
    fn trim(&self) {
        self.shared.memory.trim();
    }
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>, Error> {
        Ok(Arc::new(CudaKernel::new(&self.shared, kernel, &self.image(kernel)?)?))
    }
    fn load_all(&self, kernels: &[Kernel]) -> Vec<Result<Arc<dyn Executable>, Error>> {
        crate::parallel::in_parallel(kernels, |k| self.load(k))
    }
    fn graph(&self, steps: &[Bound]) -> Option<Result<Box<dyn Graph>, Error>> {
        Some(CudaGraph::new(&self.shared, steps).map(|g| Box::new(g) as Box<dyn Graph>))
    }
    fn runs_apart(&self) -> bool {
        true
    }
    fn survives_fork(&self) -> bool {
        false
    }
    fn synchronize(&self) -> Result<(), Error> {
        self.shared.queue.wait()?;
        self.shared.statuses.take()
    }
    fn time(&self, queue: &mut dyn FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
        let from = self.shared.queue.record(true)?;
        queue()?;
        let to = self.shared.queue.record(true)?;
        to.wait()?;
        Ok(Duration::from_secs_f64(to.seconds_since(&from)?.max(0.0)))
    }
    fn mark(&self) -> Option<Result<Arc<dyn Mark>, Error>> {
        Some(CudaMark::new(&self.shared).map(|m| Arc::new(m) as Arc<dyn Mark>))
    }
    fn flush_caches(&self) -> Result<(), Error> {
        // twice what the cache holds: it does not keep lines strictly by age
        let block = DeviceBlock::new(&self.shared, 2 * self.target.l2())?;
        block.clear()
    }
}

impl Shared {
    /// The device's clock beside the host's.
    pub(super) fn clock(&self) -> Result<Arc<Clock>, Error> {
        let held = || self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = &*held() {
            return Ok(clock.clone());
        }
        // it waits for the device, so not inside the lock
        let made = Arc::new(Clock::new(&self.context)?);
        Ok(held().get_or_insert(made).clone())
    }
    /// Copy through pinned memory, which one copy has at a time.
    pub(super) fn stage(&self, copy: impl FnOnce(&mut Staging) -> Result<(), Error>) -> Result<(), Error> {
        let mut held = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        copy(match &mut *held {
            Some(staging) => staging,
            none => none.insert(Staging::new(&self.context)?),
        })
    }
    /// Queue a copy from memory of this or another CUDA device.
    pub(super) fn copy(
        &self,
        to: Address,
        source: &Shared,
        from: Address,
        bytes: usize,
    ) -> Result<(), Error> {
        if Arc::ptr_eq(&self.context, &source.context) {
            let driver = self.context.enter()?;
            // SAFETY: both places were checked by `Memory`, and are freed in the order of this queue.
            let code = unsafe { (driver.copy)(to, from, bytes, self.queue.stream) };
            return self.context.check("cuMemcpyDtoDAsync", code);
        }
        // after what was queued on either side, and before what will be
        self.queue.after(&source.queue.record(false)?)?;
        let driver = self.context.enter()?;
        let (here, there) = (self.context.handle, source.context.handle);
        // SAFETY: both places were checked by `Memory`; the events order the copy with the queues in which they are freed.
        let code = unsafe { (driver.copy_peer)(to, here, from, there, bytes, self.queue.stream) };
        self.context.check("cuMemcpyPeerAsync", code)?;
        source.queue.after(&self.queue.record(false)?)
    }
}
