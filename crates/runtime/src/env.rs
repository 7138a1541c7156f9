//! The environment variables this room reads, all of them here. A value that means nothing is an error, never ignored.
//!
//! An empty value is the same as none.

use crate::Error;
use frit_abi::MatrixUnit;
use frit_abi::sync::OnceLock;
use frit_abi::target::Isa;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// One variable, for `--help` and the documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// What it may be set to.
    pub accepts: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// Every variable read here.
pub const FLAGS: [Flag; 10] =
    [THREADS, PLAN_THREADS, CPU, ISA, MATRIX, CC, CACHE, INTERP_SEED, GUARD, CUDA_DRIVER];

const THREADS: Flag = Flag {
    name: "FRIT_THREADS",
    accepts: "a number of threads from 1 to 1024",
    about: "threads that a CPU kernel may use; by default the cores that this process may run on, fewer under a quota",
};
const PLAN_THREADS: Flag = Flag {
    name: "FRIT_PLAN_THREADS",
    accepts: "a number of threads from 1 to 1024",
    about: "threads that CPU kernels are planned for, whatever the number that runs them: results are the same bit by bit; FRIT_THREADS by default",
};
const CPU: Flag = Flag {
    name: "FRIT_CPU",
    accepts: "native or c",
    about: "how CPU kernels are made: machine code in process, or C for a compiler; native where there is any",
};
const ISA: Flag = Flag {
    name: "FRIT_ISA",
    accepts: "sse2, avx2, avx512 or amx",
    about: "the most that native CPU kernels may use; what the machine has by default",
};
const MATRIX: Flag = Flag {
    name: "FRIT_MATRIX",
    accepts: "all, exact, tf32 or off",
    about: "matrix units that kernels may use: all, those that keep subnormal numbers, also those that round float32 to ten bits of fraction, none; all by default",
};
const CC: Flag = Flag {
    name: "FRIT_CC",
    accepts: "the name or path of a C compiler (clang or gcc)",
    about: "C compiler for CPU kernels; the first of clang, gcc, cc in PATH by default",
};
const CACHE: Flag = Flag {
    name: "FRIT_CACHE",
    accepts: "a directory, or 0 or off",
    about: "where compiled kernels are kept; frit in the user's cache directory by default",
};
const INTERP_SEED: Flag = Flag {
    name: "FRIT_INTERP_SEED",
    accepts: "a number from 0 to 18446744073709551615",
    about: "seed for the order in which the interpreter runs lanes, blocks and slices; 0 by default",
};

const GUARD: Flag = Flag {
    name: "FRIT_GUARD",
    accepts: "start or end",
    about: "puts each CPU buffer's start or end at a page that cannot be touched: for tests",
};

const CUDA_DRIVER: Flag = Flag {
    name: "FRIT_CUDA_DRIVER",
    accepts: "the path of a library",
    about: "the driver of CUDA devices; the system's by default",
};

/// Which side of a buffer lies at a page that cannot be touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Its start.
    Start,
    /// Its end.
    End,
}

/// `FRIT_GUARD`, if set.
pub fn guard() -> Result<Option<Guard>, Error> {
    static READ: OnceLock<Result<Option<Guard>, Error>> = OnceLock::new();
    let parse = |value: OsString| match value.to_str() {
        Some("start") => Ok(Guard::Start),
        Some("end") => Ok(Guard::End),
        _ => Err(invalid(&GUARD, &value)),
    };
    // asked for with every allocation
    READ.get_or_init(|| read(&GUARD).map(parse).transpose()).clone()
}

/// Where compiled kernels are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CacheSetting {
    /// Nowhere.
    Off,
    /// In this directory.
    At(PathBuf),
}

/// `FRIT_THREADS`, or the cores that affinity and the quota of a control group leave this process.
pub fn threads() -> Result<usize, Error> {
    parse_threads(&THREADS, read(&THREADS).as_deref())
}

/// `FRIT_PLAN_THREADS`, or as many as [`threads`]: how a sum is cut depends on it, and so does how it rounds.
pub fn plan_threads() -> Result<usize, Error> {
    match read(&PLAN_THREADS) {
        Some(value) => parse_threads(&PLAN_THREADS, Some(&value)),
        None => threads(),
    }
}

/// `FRIT_CPU` and `FRIT_ISA`: the instructions of machine code, at most `machine`; `Portable` for C.
pub fn isa(machine: Isa) -> Result<Isa, Error> {
    let (most, asked) = (parse_isa(read(&ISA).as_deref())?, is_native(read(&CPU).as_deref())?);
    if asked == Some(true) && machine == Isa::Portable {
        return Err(Error::Device("FRIT_CPU=native: no machine code is written for this machine yet".into()));
    }
    Ok(if asked == Some(false) { Isa::Portable } else { most.min(machine) })
}

/// Which matrix units kernels may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Units {
    /// None.
    Off,
    /// Those that keep numbers below the normal range.
    Exact,
    /// All that the machine has for the types of the program.
    All,
    /// Also those that round operands to fewer bits than they have.
    Tf32,
}

impl Units {
    /// Of some units those that are asked for.
    pub fn of(self, mut all: Vec<MatrixUnit>) -> Vec<MatrixUnit> {
        all.retain(|u| match self {
            Units::Off => false,
            Units::Exact => u.keeps_subnormals && u.fraction.is_none(),
            Units::All => u.fraction.is_none(),
            Units::Tf32 => true,
        });
        all
    }
}

/// `FRIT_MATRIX`.
pub fn units() -> Result<Units, Error> {
    parse_units(read(&MATRIX).as_deref())
}
/// The same for a CPU, as far as `FRIT_ISA` leaves any.
pub fn cpu_units() -> Result<Units, Error> {
    let masked = read(&ISA).is_some_and(|v| v != "amx");
    units().map(|asked| if masked { Units::Off } else { asked })
}

fn parse_units(value: Option<&OsStr>) -> Result<Units, Error> {
    match value.map(|v| (v, v.to_str().unwrap_or(""))) {
        None | Some((_, "all")) => Ok(Units::All),
        Some((_, "tf32")) => Ok(Units::Tf32),
        Some((_, "exact")) => Ok(Units::Exact),
        Some((_, "off")) => Ok(Units::Off),
        Some((v, _)) => Err(invalid(&MATRIX, v)),
    }
}

/// `FRIT_CUDA_DRIVER`, if set.
pub fn cuda_driver() -> Option<String> {
    read(&CUDA_DRIVER).map(|v| v.to_string_lossy().into_owned())
}

/// `FRIT_CC`, if set.
pub fn cc() -> Option<OsString> {
    read(&CC)
}

/// `FRIT_CACHE`, or `$XDG_CACHE_HOME/frit`, or `~/.cache/frit`; off where there is no home either.
pub fn cache() -> CacheSetting {
    let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    match read(&CACHE) {
        Some(v) if v == "0" || v.eq_ignore_ascii_case("off") => CacheSetting::Off,
        Some(v) => CacheSetting::At(v.into()),
        None => match dir("XDG_CACHE_HOME").or_else(|| dir("HOME").map(|h| h.join(".cache"))) {
            Some(base) => CacheSetting::At(base.join("frit")),
            None => CacheSetting::Off,
        },
    }
}

/// `FRIT_INTERP_SEED`, or 0.
pub fn interp_seed() -> Result<u64, Error> {
    let Some(value) = read(&INTERP_SEED) else { return Ok(0) };
    value.to_str().and_then(|v| v.trim().parse().ok()).ok_or_else(|| invalid(&INTERP_SEED, &value))
}

/// Every variable whose values can be wrong, whether or not it will be used.
pub fn check() -> Result<(), Error> {
    parse_isa(read(&ISA).as_deref())?;
    is_native(read(&CPU).as_deref())?;
    threads().and(plan_threads()).and(units().map(drop)).and(interp_seed().map(drop)).and(guard().map(drop))
}

/// The directories of `PATH`.
pub fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default()
}

fn read(flag: &Flag) -> Option<OsString> {
    std::env::var_os(flag.name).filter(|v| !v.is_empty())
}

fn parse_threads(flag: &Flag, value: Option<&OsStr>) -> Result<usize, Error> {
    let Some(value) = value else {
        return Ok(std::thread::available_parallelism().map_or(1, |n| n.get()).min(1024));
    };
    let n = value.to_str().and_then(|v| v.trim().parse::<usize>().ok()).filter(|n| (1..=1024).contains(n));
    n.ok_or_else(|| invalid(flag, value))
}

/// What `FRIT_CPU` asks for, if anything.
fn is_native(value: Option<&OsStr>) -> Result<Option<bool>, Error> {
    match value.map(|v| (v, v.to_str().unwrap_or(""))) {
        None => Ok(None),
        Some((_, "native")) => Ok(Some(true)),
        Some((_, "c")) => Ok(Some(false)),
        Some((v, _)) => Err(invalid(&CPU, v)),
    }
}

fn parse_isa(value: Option<&OsStr>) -> Result<Isa, Error> {
    let Some(value) = value else { return Ok(Isa::Avx512) };
    if value == "amx" {
        return Ok(Isa::Avx512);
    }
    let all = [Isa::Sse2, Isa::Avx2, Isa::Avx512];
    all.into_iter().find(|i| value == i.name()).ok_or_else(|| invalid(&ISA, value))
}

fn invalid(flag: &Flag, value: &OsStr) -> Error {
    let (name, accepts) = (flag.name.into(), flag.accepts.into());
    Error::Env { name, value: value.to_string_lossy().into_owned(), accepts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_thread_count_is_named() {
        for bad in ["0", "-1", "many", "1025", "2.5", "99999999999999999999"] {
            let message = parse_threads(&THREADS, Some(bad.as_ref())).unwrap_err().to_string();
            assert!(
                message.contains(&format!("FRIT_THREADS={bad}")) && message.contains("1 to 1024"),
                "{message}"
            );
        }
        assert_eq!(parse_threads(&THREADS, Some(" 3 ".as_ref())), Ok(3));
        assert!(parse_threads(&THREADS, None).unwrap() >= 1);
    }
    #[test]
    fn a_bad_instruction_set_or_compiler_is_named() {
        let message = parse_isa(Some("mmx".as_ref())).unwrap_err().to_string();
        assert_eq!(message, "FRIT_ISA=mmx is not valid: expected sse2, avx2, avx512 or amx");
        let message = parse_units(Some("some".as_ref())).unwrap_err().to_string();
        assert_eq!(message, "FRIT_MATRIX=some is not valid: expected all, exact, tf32 or off");
        let message = is_native(Some("llvm".as_ref())).unwrap_err().to_string();
        assert_eq!(message, "FRIT_CPU=llvm is not valid: expected native or c");
        assert_eq!(parse_isa(Some("avx2".as_ref())), Ok(Isa::Avx2));
        assert_eq!(is_native(Some("native".as_ref())), Ok(Some(true)));
        assert_eq!((is_native(Some("c".as_ref())), is_native(None)), (Ok(Some(false)), Ok(None)));
    }
}
