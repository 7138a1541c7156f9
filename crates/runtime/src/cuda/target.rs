//! What a GPU can do, asked of its driver.

use super::context::Context;
use crate::{Error, env};
use frit_abi::Target;
use frit_abi::target::{Grid, Isa, Processors};
use std::ffi::CStr;

/// Numbers of a device that the driver gives, by its name for them.
mod attribute {
    pub const MAX_BLOCK: i32 = 1;
    pub const MAX_LOCAL: [i32; 3] = [2, 3, 4];
    pub const MAX_GLOBAL: [i32; 3] = [5, 6, 7];
    pub const WARP: i32 = 10;
    pub const PROCESSORS: i32 = 16;
    pub const L2_BYTES: i32 = 38;
    pub const LANES_A_PROCESSOR: i32 = 39;
    pub const MAJOR: i32 = 75;
    pub const MINOR: i32 = 76;
    pub const SHARED_A_PROCESSOR: i32 = 81;
    pub const REGISTERS_A_PROCESSOR: i32 = 82;
    pub const SHARED_A_BLOCK: i32 = 97;
    pub const BLOCKS_A_PROCESSOR: i32 = 106;
}

/// The machine behind a context, by the name of its model: opts that a search found are kept for that model.
pub fn of(context: &Context, model: &str) -> Result<Target, Error> {
    use attribute::*;
    let get = |a| context.attribute(a);
    let three = |of: [i32; 3]| Ok::<_, Error>([get(of[0])? as u32, get(of[1])? as u32, get(of[2])? as u32]);
    let isa = isa(context)?;
    let processors = Processors {
        count: get(PROCESSORS)? as u32,
        lanes: get(LANES_A_PROCESSOR)? as u32,
        blocks: get(BLOCKS_A_PROCESSOR)? as u32,
        registers: get(REGISTERS_A_PROCESSOR)? as u32,
        local_bytes: get(SHARED_A_PROCESSOR)?,
        ..Processors::NVIDIA
    };
    let grid = Grid {
        max_global: three(MAX_GLOBAL)?,
        max_local: three(MAX_LOCAL)?,
        max_block: get(MAX_BLOCK)? as u32,
        local_bytes: get(SHARED_A_BLOCK)?,
        warp: get(WARP)? as u32,
        banks: 32,
        bank_bytes: 4,
        processors,
    };
    let caches = [get(SHARED_A_PROCESSOR)? + (28 << 10), get(L2_BYTES)?, 0];
    let name = format!("{} ({}, {} processors)", model, isa.name(), grid.processors.count);
    let ptx = Target::ptx(isa);
    Ok(Target { name, caches, grid: Some(grid), matrix: env::units()?.of(ptx.all_units()), ..ptx })
}

/// The instructions it has. Code for sm_90a runs on that machine alone; older ones run on all that came later.
fn isa(context: &Context) -> Result<Isa, Error> {
    match (context.attribute(attribute::MAJOR)?, context.attribute(attribute::MINOR)?) {
        (9, 0) => Ok(Isa::Sm90a),
        (8, 9) | (9.., _) => Ok(Isa::Sm89),
        (8, _) => Ok(Isa::Sm80),
        (major, minor) => {
            let model = model(context)?;
            Err(Error::Device(format!(
                "{model} has compute capability {major}.{minor}; 8.0 is the least that works"
            )))
        }
    }
}

/// The device's name for people.
pub fn model(context: &Context) -> Result<String, Error> {
    let mut name = [0u8; 128];
    // SAFETY: the place is as long as is said.
    let code =
        unsafe { (context.driver.device_name)(name.as_mut_ptr().cast(), name.len() as i32, context.device) };
    context.check("cuDeviceGetName", code)?;
    Ok(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned())
}
