//! The machines that NULL poses as.

use crate::{Error, cpu, env};
use frit_abi::Target;
use frit_abi::machines::{MACHINES, machine};

/// This machine's CPU, as the environment asks for it.
pub const HERE: &str = "0";

/// Their names, the default first.
pub fn names() -> Vec<&'static str> {
    std::iter::once(HERE).chain(MACHINES.iter().map(|(name, _)| *name)).collect()
}

/// The machine of a name.
pub fn of(name: &str) -> Result<Target, Error> {
    if name == HERE {
        return Ok(cpu::target::detect(
            env::plan_threads()?,
            env::isa(cpu::target::machine())?,
            env::cpu_units()?,
        ));
    }
    let target = machine(name).ok_or_else(|| Error::Device(format!("NULL knows no machine {name}")))?;
    Ok(Target { matrix: env::units()?.of(target.all_units()), ..target })
}
