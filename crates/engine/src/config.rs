//! The environment variables this room reads. A value that means nothing is an error.

use crate::Error;
use frit_abi::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Every variable read here, with what it accepts and does: for help texts.
pub const FLAGS: [(&str, &str, &str); 11] = [
    ("FRIT_DEVICE", "a device name, such as CPU or INTERP", "the device tensors are made on; CPU by default"),
    (
        "FRIT_DEBUG",
        "0 to 6",
        "1 totals, 2 a line a kernel, 3 kernel graphs and passes, 4 source, 5 linear programs, 6 disassembly",
    ),
    ("FRIT_VIZ", "a file", "records what the compiler and the devices do there, for frit viz"),
    (
        "FRIT_PROFILE",
        "a .json, .pftrace or .viz file",
        "a trace of launches, copies, memory and spans, for Perfetto",
    ),
    ("FRIT_PROGRESS", "off", "shows no progress of long work on a terminal"),
    ("FRIT_PASS", "names of codegen's passes, with commas", "prints every kernel after these passes"),
    ("FRIT_KERNEL", "a part of a kernel's name", "FRIT_PASS prints only kernels whose names hold it"),
    (
        "FRIT_BEAM",
        "0 to 64",
        "search for the best opts of each kernel, so many states wide; found ones are kept",
    ),
    ("FRIT_BEAM_SECONDS", "1 to 255", "how long a search may take for each kernel; 10 by default"),
    ("FRIT_BEAM_CHECK", "0 or 1", "1 compares what a search found with the kernel as it came"),
    (
        "FRIT_SPEC",
        "0 to 3",
        "1 checks every graph against its spec, 2 also the text form's round trip, 3 also that indices are inside",
    ),
];

/// A number that is read from the environment once, and can be set by the program.
struct Setting {
    name: &'static str,
    max: u8,
    read: OnceLock<Result<u8, Error>>,
    /// What the program says; above 255: nothing.
    set: AtomicU16,
}

const UNSET: u16 = 256;

impl Setting {
    const fn new(name: &'static str, max: u8) -> Setting {
        Setting { name, max, read: OnceLock::new(), set: AtomicU16::new(UNSET) }
    }
    fn get(&self) -> Result<u8, Error> {
        match u8::try_from(self.set.load(Ordering::Relaxed)) {
            Ok(v) => Ok(v),
            Err(_) => self
                .read
                .get_or_init(|| parse(self.name, std::env::var(self.name).ok().as_deref(), self.max))
                .clone(),
        }
    }
}

static DEBUG: Setting = Setting::new("FRIT_DEBUG", 6);
static BEAM: Setting = Setting::new("FRIT_BEAM", 64);
static BEAM_SECONDS: Setting = Setting::new("FRIT_BEAM_SECONDS", 255);
static BEAM_CHECK: Setting = Setting::new("FRIT_BEAM_CHECK", 1);
static SPEC: Setting = Setting::new("FRIT_SPEC", 3);
static VIZ_CANDIDATES: Setting = Setting::new("FRIT_VIZ_CANDIDATES", 1);

/// Settings that can change while the program runs.
static SETTINGS: [&Setting; 6] = [&DEBUG, &BEAM, &BEAM_SECONDS, &BEAM_CHECK, &SPEC, &VIZ_CANDIDATES];

fn setting(name: &str) -> Result<&'static Setting, Error> {
    let known = SETTINGS.into_iter().find(|s| s.name == name);
    known.ok_or_else(|| {
        Error::Env(format!("{name} cannot be changed while the program runs: set it in the environment"))
    })
}

/// The value of a variable now. Only numbers that can change while the program runs.
pub fn get(name: &str) -> Result<u8, Error> {
    setting(name)?.get()
}

/// Changes a variable for the whole process, whatever the environment says. Kernels compiled before stay as they are.
pub fn set(name: &str, value: i64) -> Result<(), Error> {
    let setting = setting(name)?;
    let value = parse(name, Some(&value.to_string()), setting.max)?;
    setting.set.store(value.into(), Ordering::Relaxed);
    if name == DEBUG.name && value >= 2 {
        frit_abi::record::keep_origins();
    }
    Ok(())
}

fn parse(name: &str, value: Option<&str>, max: u8) -> Result<u8, Error> {
    let Some(v) = value.filter(|v| !v.is_empty()) else { return Ok(0) };
    v.parse()
        .ok()
        .filter(|n| *n <= max)
        .ok_or_else(|| Error::Env(format!("{name}={v}: expected a number from 0 to {max}")))
}

/// Every variable of this room and of the runtime, once: one that means nothing is an error before anything runs, not
/// where it happens to be used.
pub(crate) fn check() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), Error>> = OnceLock::new();
    let all = || {
        SETTINGS.iter().try_for_each(|s| s.get().map(drop))?;
        shown_passes("")?;
        Ok(frit_runtime::env::check()?)
    };
    CHECKED.get_or_init(all).clone()
}

/// How much to print.
pub fn debug() -> Result<u8, Error> {
    DEBUG.get()
}

/// How wide to search; 0 not at all.
pub fn beam() -> Result<u8, Error> {
    BEAM.get()
}

/// Seconds that a search may take for each kernel.
pub fn beam_seconds() -> Result<u64, Error> {
    Ok(match BEAM_SECONDS.get()? {
        0 => 10,
        seconds => seconds.into(),
    })
}

/// Whether what a search finds is compared with the kernel as it came.
pub fn beam_check() -> Result<bool, Error> {
    Ok(BEAM_CHECK.get()? == 1)
}

/// Whether recordings have the passes of all candidates of searches, not of the winners alone.
pub fn viz_candidates() -> Result<bool, Error> {
    Ok(VIZ_CANDIDATES.get()? > 0)
}

/// How much to check; always at least 1 in debug builds.
pub fn spec() -> Result<u8, Error> {
    Ok(SPEC.get()?.max(cfg!(debug_assertions) as u8))
}

/// The passes after which a kernel of this name is printed.
pub fn shown_passes(kernel: &str) -> Result<&'static [String], Error> {
    static PASSES: OnceLock<Result<Vec<String>, Error>> = OnceLock::new();
    static KERNEL: OnceLock<String> = OnceLock::new();
    let read = || passes(&std::env::var("FRIT_PASS").unwrap_or_default());
    let part = KERNEL.get_or_init(|| std::env::var("FRIT_KERNEL").unwrap_or_default());
    let passes = PASSES.get_or_init(read).as_ref().map_err(|e| e.clone())?;
    Ok(if kernel.contains(part.as_str()) { passes } else { &[] })
}

fn passes(list: &str) -> Result<Vec<String>, Error> {
    let known = |p: &str| {
        let mut scheduling = frit_schedule::PASSES.iter().map(|row| row.name);
        let mut lowering = frit_codegen::PASSES.iter().map(|row| row.name);
        scheduling.any(|n| n == p) || lowering.any(|n| n == p) || frit_render::passes().any(|n| n == p)
    };
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
    match names.iter().find(|p| !known(p)) {
        Some(p) => Err(Error::Env(format!("FRIT_PASS={list}: there is no pass {p}"))),
        None => Ok(names.into_iter().map(String::from).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_means_nothing_is_an_error() {
        assert_eq!(parse("FRIT_DEBUG", Some("3"), 6).ok(), Some(3));
        assert_eq!(parse("FRIT_DEBUG", None, 6).ok(), Some(0));
        let e = parse("FRIT_DEBUG", Some("lots"), 6).unwrap_err();
        assert_eq!(e.to_string(), "FRIT_DEBUG=lots: expected a number from 0 to 6");
        assert!(parse("FRIT_DEBUG", Some("7"), 6).is_err());
    }
    #[test]
    fn a_pass_that_is_not_there_is_an_error() {
        let known = ["expand", "vectorise", "rangeify", "regalloc", "ptx"];
        assert_eq!(passes(&known.join(", ")).ok(), Some(known.map(String::from).to_vec()));
        assert_eq!(passes("").ok(), Some(vec![]));
        assert_eq!(passes("lanes").unwrap_err().to_string(), "FRIT_PASS=lanes: there is no pass lanes");
    }
    #[test]
    fn what_is_read_once_cannot_be_set() {
        assert!(set("FRIT_BEAM_CHECK", 2).is_err());
        let e = set("FRIT_THREADS", 2).unwrap_err();
        assert_eq!(
            e.to_string(),
            "FRIT_THREADS cannot be changed while the program runs: set it in the environment"
        );
    }
}
