//! The machines that the interpreter poses as: a CPU of its own, and all with a grid, with their limits.

use crate::Error;
use frit_abi::machines::{MACHINES, machine};
use frit_abi::target::DTypeSet;
use frit_abi::{Language, Target};

/// The one it poses as where none is named.
pub const CPU: &str = "CPU";

/// Their names, the default first.
pub fn names() -> Vec<&'static str> {
    let grids = MACHINES.iter().filter(|(_, t)| t().grid.is_some());
    std::iter::once(CPU).chain(grids.map(|(name, _)| *name)).collect()
}

/// The machine of a name.
pub fn of(name: &str) -> Result<Target, Error> {
    let posing = |t: Target| Target { language: Language::Bytecode, packed: DTypeSet::default(), ..t };
    let found = if name == CPU { Some(Target::interp()) } else { machine(name).map(posing) };
    found.ok_or_else(|| Error::Device(format!("the interpreter knows no machine {name}")))
}
