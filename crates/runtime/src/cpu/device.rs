//! The CPU device.

use super::compiler::{Compiler, Source};
use super::pool::{self, Pool};
use super::program::CpuKernel;
use super::{native, target};
use crate::allocator::Allocator;
use crate::cache::{self, DiskCache};
use crate::env::{self, CacheSetting, Units};
use crate::{Blob, Device, Error, Executable, Memory, MemoryStats};
use frit_abi::target::Isa;
use frit_abi::{Code, Kernel, Target};
use std::ffi::OsString;
use std::sync::Arc;

/// What a CPU device can be told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Threads that a kernel may use.
    pub threads: usize,
    /// Threads that kernels are planned for.
    pub plan_threads: usize,
    /// The instructions of machine code; `Portable` for kernels in C.
    pub isa: Isa,
    /// The matrix units that machine code may use.
    pub units: Units,
    /// The C compiler; `None` finds one.
    pub cc: Option<OsString>,
    /// Where compiled kernels are kept.
    pub cache: CacheSetting,
}

impl Config {
    /// What the environment asks for.
    pub fn from_env() -> Result<Config, Error> {
        let isa = env::isa(target::machine())?;
        let (threads, plan_threads, units) = (env::threads()?, env::plan_threads()?, env::cpu_units()?);
        Ok(Config { threads, plan_threads, isa, units, cc: env::cc(), cache: env::cache() })
    }
}

/// This machine's cores. Launches run to their end before they return.
pub struct Cpu {
    name: String,
    target: Target,
    allocator: Allocator,
    compiler: Compiler,
    pool: Arc<Pool>,
}

/// The device for the registry.
pub fn open() -> Result<Arc<dyn Device>, Error> {
    open_as("0")
}

/// The device with a suffix: a number for what the environment asks for, `C`, `AMX` for everything there is, or the name of an
/// instruction set without matrix units.
pub fn open_as(suffix: &str) -> Result<Arc<dyn Device>, Error> {
    let mut config = Config::from_env()?;
    let all = [Isa::Sse2, Isa::Avx2, Isa::Avx512];
    match suffix {
        number if number.parse::<u16>().is_ok() => {}
        "C" => config.isa = Isa::Portable,
        "AMX" if target::machine() == Isa::Avx512 && !target::matrix_units().is_empty() => {
            (config.isa, config.units) = (Isa::Avx512, Units::All);
        }
        name => match all.into_iter().find(|i| i.name().eq_ignore_ascii_case(name)) {
            Some(isa) if isa <= target::machine() => (config.isa, config.units) = (isa, Units::Off),
            _ => return Err(Error::Device(format!("this machine has no {name}"))),
        },
    }
    let name = if suffix == "0" { "CPU".into() } else { format!("CPU:{suffix}") };
    Ok(Arc::new(Cpu { name, ..Cpu::new(config) }))
}

impl Cpu {
    /// A device of its own; those with the same number of threads share them.
    pub fn new(config: Config) -> Cpu {
        let target = target::detect(config.plan_threads.max(1), config.isa, config.units);
        let cache = Arc::new(DiskCache::new(config.cache, cache::DEFAULT_LIMIT));
        let processes = std::thread::available_parallelism().map_or(1, |n| n.get());
        let compiler = Compiler::new(config.cc, cache, processes, &target.name);
        let pool = pool::shared(config.threads.max(1));
        Cpu { name: "CPU".into(), target, allocator: Allocator::for_machine("CPU"), compiler, pool }
    }
    /// The compiler in use.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }
    /// The threads in use.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

/// The processor's own name, where the system says it.
fn model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

impl Device for Cpu {
    fn name(&self) -> &str {
        &self.name
    }
    fn describe(&self) -> String {
        let mut about = format!("{}, {} threads", self.target.name, self.pool.threads());
        if self.target.isa == Isa::Portable {
            about += &format!(", {}", self.compiler.describe().unwrap_or_else(|e| e.to_string()));
        }
        match model() {
            Some(model) => format!("{about}, {model}"),
            None => about,
        }
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn alloc(&self, bytes: usize) -> Result<Memory, Error> {
        self.allocator.alloc(bytes)
    }
    fn borrow(&self, bytes: &Blob, align: usize) -> Option<Memory> {
        // machine code of ours reads at any address; a compiler may count on the alignment of a type
        let any = self.target.isa != Isa::Portable;
        Some(bytes.memory(if any { 1 } else { align }))
    }
    fn memory_stats(&self) -> MemoryStats {
        self.allocator.stats()
    }
    fn trim(&self) {
        self.allocator.trim();
    }
    fn load(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>, Error> {
        let loaded = self.load_all(std::slice::from_ref(kernel)).pop();
        loaded.unwrap_or_else(|| Err(Error::compiler(&kernel.name, "the compiler lost it")))
    }
    fn load_all(&self, kernels: &[Kernel]) -> Vec<Result<Arc<dyn Executable>, Error>> {
        let codes = kernels.iter().filter_map(|k| match &k.code {
            Code::Native(bytes) => Some(&**bytes),
            _ => None,
        });
        let mut loaded = native::load(&codes.collect::<Vec<_>>()).map(|l| l.into_iter());
        let sources: Vec<Source> = kernels
            .iter()
            .filter_map(|k| match &k.code {
                Code::C(text) => Some(Source { name: &k.name, text }),
                _ => None,
            })
            .collect();
        let mut images = self.compiler.compile(&sources).into_iter();
        let load = |k: &Kernel| {
            let image = match (&k.code, &mut loaded) {
                (Code::C(_), _) => images.next().map(|i| i?.load()),
                (Code::Native(_), Ok(l)) => l.next().map(Ok),
                (Code::Native(_), Err(e)) => Some(Err(e.clone())),
                _ => None,
            };
            let image = image.ok_or_else(|| Error::compiler(&k.name, "the CPU takes machine code or C"))?;
            Ok(Arc::new(CpuKernel::new(k, image?, self.pool.clone())) as Arc<dyn Executable>)
        };
        kernels.iter().map(load).collect()
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
