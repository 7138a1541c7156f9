//! Devices by name: `CPU`, `cpu:0`, `NULL`. Each is opened once per process, when first asked for.

use crate::{Device, Error, cpu, cuda, disk, interp, null};
use frit_abi::fork;
use frit_abi::sync::Mutex;
use std::sync::{Arc, PoisonError};

/// One kind of device: its name, what it is, and how to open the one with a given suffix.
struct Kind {
    name: &'static str,
    about: &'static str,
    /// What may follow `NAME:`; the first is the default. Opens the device with one of them.
    suffixes: fn() -> Vec<&'static str>,
    /// How many there are, told apart by their number after `NAME:`.
    count: u16,
    open: fn(&str) -> Result<Arc<dyn Device>, Error>,
}

/// Every kind of device there is, best first.
const KINDS: &[Kind] = &[
    Kind {
        name: "CPU",
        about: "this machine's cores; CPU:1, CPU:2, ... the same with memory of their own; CPU:C through a compiler, CPU:SSE2, CPU:AVX2, CPU:AVX512, CPU:AMX with no more than that",
        suffixes: || vec!["0", "C", "SSE2", "AVX2", "AVX512", "AMX"],
        count: 256,
        open: cpu::open_as,
    },
    Kind {
        name: "CUDA",
        about: "a GPU of NVIDIA's; CUDA:1, CUDA:2, ... the others",
        suffixes: || vec!["0"],
        count: 64,
        open: cuda::open,
    },
    Kind {
        name: "INTERP",
        about: "checks every step, slow; as a CPU or, with INTERP:GPU, a GPU",
        suffixes: interp::target::names,
        count: 0,
        open: interp::open,
    },
    Kind {
        name: "NULL",
        about: "compiles, runs nothing; NULL:AVX2, NULL:GPU, NULL:H200, ... for a machine that need not be here",
        suffixes: null::target::names,
        count: 0,
        open: null::open,
    },
    Kind {
        name: disk::NAME,
        about: "a file as memory, DISK:/path: holds bytes, runs nothing",
        suffixes: || vec![""],
        count: 0,
        open: |_| disk::open(),
    },
];

/// A device that was opened.
struct Opened {
    kind: &'static str,
    suffix: String,
    device: Arc<dyn Device>,
    /// In which process: see [`fork::generation`].
    generation: u64,
}

impl Opened {
    fn device(&self) -> Result<Arc<dyn Device>, Error> {
        if self.generation != fork::generation() && !self.device.survives_fork() {
            let name = self.device.name();
            return Err(Error::Device(format!(
                "{name} was in use when this process was forked, and cannot be used in the child: \
                 start the process anew (spawn) or use {name} only after the fork"
            )));
        }
        Ok(self.device.clone())
    }
}

/// A kind of device as `frit devices` shows it.
pub struct DeviceInfo {
    /// Its name, as [`device`] takes it.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The device, or why it is not available.
    pub device: Result<Arc<dyn Device>, Error>,
}

/// The device whose memory is this process's, and the one to use where none is asked for.
pub const HOST: &str = "CPU";

/// The device called `name`, in any case; the same one every time.
pub fn device(name: &str) -> Result<Arc<dyn Device>, Error> {
    static OPEN: Mutex<Vec<Opened>> = Mutex::new(Vec::new());
    let (kind, suffix) = parse(name)?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = open.iter().find(|o| (o.kind, &*o.suffix) == (kind.name, &*suffix)) {
        return known.device();
    }
    let device = (kind.open)(&suffix)?;
    let generation = fork::generation();
    open.push(Opened { kind: kind.name, suffix, device: device.clone(), generation });
    Ok(device)
}

/// Every kind of device, and whether it can be used here.
pub fn available() -> Vec<DeviceInfo> {
    KINDS.iter().map(|k| DeviceInfo { name: k.name, about: k.about, device: device(k.name) }).collect()
}

/// A name as an error repeats it: its beginning, where it is longer than any device's.
fn shown(name: &str) -> String {
    match name.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

fn parse(name: &str) -> Result<(&'static Kind, String), Error> {
    // a path says which file, and not which device
    let name = if disk::path_of(name).is_some() { disk::NAME } else { name };
    let upper = name.trim().to_ascii_uppercase();
    let (base, suffix) = upper.split_once(':').map_or((&*upper, None), |(b, s)| (b, Some(s)));
    let Some(kind) = KINDS.iter().find(|k| k.name == base) else {
        let known: Vec<_> = KINDS.iter().map(|k| k.name).collect();
        return Err(Error::Device(format!(
            "there is no device {}: expected one of {}",
            shown(name),
            known.join(", ")
        )));
    };
    let suffixes = (kind.suffixes)();
    let found = suffix.map_or(suffixes.first(), |s| suffixes.iter().find(|k| **k == s));
    let number = || suffix?.parse::<u16>().ok().filter(|n| *n < kind.count).map(|n| n.to_string());
    let found = found.map(|s| s.to_string()).or_else(number);
    found.map(|s| (kind, s)).ok_or_else(|| {
        let known: Vec<_> = suffixes.iter().map(|s| format!("{}:{s}", kind.name)).collect();
        let (name, kind) = (shown(name), kind.name);
        Error::Device(format!("there is no device {name}: expected {kind} or {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_does_not_survive_a_fork_is_an_error_in_the_child() {
        struct Remote(Arc<dyn Device>);
        impl Device for Remote {
            fn name(&self) -> &str {
                "REMOTE"
            }
            fn target(&self) -> &frit_abi::Target {
                self.0.target()
            }
            fn alloc(&self, bytes: usize) -> Result<crate::Memory, Error> {
                self.0.alloc(bytes)
            }
            fn memory_stats(&self) -> crate::MemoryStats {
                self.0.memory_stats()
            }
            fn load(&self, kernel: &frit_abi::Kernel) -> Result<Arc<dyn crate::Executable>, Error> {
                self.0.load(kernel)
            }
            fn synchronize(&self) -> Result<(), Error> {
                Ok(())
            }
            fn survives_fork(&self) -> bool {
                false
            }
        }
        let device: Arc<dyn Device> = Arc::new(Remote(device("NULL").unwrap()));
        let mut opened =
            Opened { kind: "REMOTE", suffix: "0".into(), device, generation: fork::generation() };
        assert!(opened.device().is_ok());
        // as in a child of the process that opened it
        opened.generation = fork::generation().wrapping_sub(1);
        let message = opened.device().err().unwrap().to_string();
        assert!(message.contains("REMOTE") && message.contains("fork"), "{message}");
    }
    #[test]
    fn numbered_devices_are_separate_and_account_for_their_own_memory() {
        let (one, two) = (device("CPU:1").unwrap(), device("cpu:02").unwrap());
        assert_eq!((one.name(), two.name()), ("CPU:1", "CPU:2"));
        let before = two.memory_stats().in_use;
        let memory = one.alloc(4096).unwrap();
        assert!(one.memory_stats().in_use >= 4096 && two.memory_stats().in_use == before);
        drop(memory);
        assert!(Arc::ptr_eq(&device("CPU").unwrap(), &device("CPU:0").unwrap()));
    }
    #[test]
    fn null_poses_as_any_machine_and_interp_as_those_with_a_grid() {
        let of = |name: &str| device(name).map(|d| (d.name().to_string(), d.target().name.clone()));
        assert_eq!(of("null:sse2"), Ok(("NULL:SSE2".into(), "x86-64-sse2".into())));
        assert_eq!(of("NULL:GPU").unwrap().1, of("INTERP:GPU").unwrap().1);
        assert!(of("INTERP:H200").is_ok() && of("INTERP:AVX2").is_err());
    }
    #[test]
    fn names_are_parsed_in_any_case_and_unknown_ones_list_the_known() {
        for name in ["CPU", "cpu", "Cpu:0", " CPU "] {
            assert_eq!(parse(name).map(|(k, s)| (k.name, s)), Ok(("CPU", "0".to_string())));
        }
        let message = device("TPU").err().unwrap().to_string();
        assert!(["TPU", "CPU", "NULL"].iter().all(|word| message.contains(word)), "{message}");
        let message = device("cpu:700").err().unwrap().to_string();
        assert!(message.contains("cpu:700") && message.contains("CPU:0"), "{message}");
        let message = device("null:z80").err().unwrap().to_string();
        assert!(
            ["null:z80", "NULL:0", "NULL:AVX2", "NULL:H200"].iter().all(|w| message.contains(w)),
            "{message}"
        );
        for name in ["", ":", "CPU:", "CPU:0:1", "CPU:-1"] {
            assert!(parse(name).is_err(), "{name}");
        }
    }
}
