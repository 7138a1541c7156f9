//! Linear program -> x86-64 machine code, straight to bytes.
//!
//! ```text
//! select    steps     -> instructions over virtual registers, constants apart, loop invariants before their loops
//! regalloc            -> the machine's registers, spills in the frame
//! encode              -> bytes: code, then the constants it refers to
//! ```
//!
//! The entry point follows the CPU convention of `abi::kernel` in the System V calling convention. The code refers to
//! nothing outside itself and calls nothing, so its bytes can stand anywhere.
//!
//! **Instruction sets.** `target.isa` says which: the SSE2 baseline, AVX2 (with FMA, F16C and BMI2), AVX-512 (F, BW, DQ
//! and VL). The rows of [`table`] know which set has what; selection asks them.
//!
//! **Registers.** Integers, addresses and scalar truth values (0 or 1) are in general registers, narrow integers
//! extended to 32 bits by their sign with zeros above. Floats are in the first lane of vector registers. A vector wider
//! than the machine's is several registers, its parts. A vector of truth values is a mask register with AVX-512, with
//! zeros beyond its lanes; elsewhere a vector of integers, 0 or -1, as wide as what was compared to make it.
//!
//! **Tiles** of AMX are values of more lanes than a vector has; [`tile`] has their instructions.
//!
//! **Small floats** are their bits, except that float16 converts from and to float32 in hardware.

mod address;
mod build;
mod cast;
mod encode;
mod ir;
mod memory;
mod regalloc;
mod scalar;
mod select;
mod shape;
mod shuffle;
mod strided;
mod table;
mod tile;
mod truth;
mod uses;
mod vector;

use crate::Error;
use frit_abi::{Code, Kernel, Target};
use frit_uop::Linear;

/// The program as machine code.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    let (mut program, scratch) = select::select(linear, target)?;
    let failed = |message: String| Error::Malformed { kernel: linear.name.to_string(), message };
    let assignment = regalloc::allocate(&mut program, target.isa).map_err(failed)?;
    let bytes = encode::encode(&program, &assignment, target.isa).map_err(failed)?;
    Ok(Kernel {
        name: linear.name.to_string(),
        code: Code::Native(bytes.into()),
        params: crate::params(linear),
        scratch,
    })
}
