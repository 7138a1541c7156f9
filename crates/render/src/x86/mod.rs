//! Linear program -> x86-64 machine code, straight to bytes.
//!
//! ```text
//! select     steps -> instructions over virtual registers, constants apart, loop invariants hoisted
//! dead_code        -> without those whose result no one reads
//! regalloc         -> the machine's registers, spills in the frame
//! encode           -> bytes: code, then the constants it refers to
//! ```
//!
//! The entry point follows the CPU convention of `abi::kernel` in the System V calling convention. The code refers to
//! nothing outside itself and calls nothing, so its bytes can stand anywhere.
//!
//! **Instruction sets.** `target.isa` says which: the SSE2 baseline, AVX2 (with FMA, F16C and BMI2), AVX-512 (F, BW, DQ
//! and VL). The rows of `table` know which set has what; selection asks them.
//!
//! **Registers.** Integers, addresses and scalar truth values (0 or 1) are in general registers, narrow integers
//! extended to 32 bits by their sign with zeros above. Floats are in the first lane of vector registers. A vector wider
//! than the machine's is several registers, its parts. A vector of truth values is a mask register with AVX-512, with
//! zeros beyond its lanes; elsewhere a vector of integers, 0 or -1, as wide as what was compared to make it.
//!
//! **Tiles** of AMX are values of more lanes than a vector has; `select/tile.rs` has their instructions.
//!
//! **Small floats** are their bits, except that float16 converts from and to float32 in hardware.

mod dead_code;
mod encode;
mod program;
mod regalloc;
mod select;
mod split;
mod table;
mod text;

use crate::walk::{Walk, params};
use crate::{Error, Watch};
use frit_abi::{Code, Kernel, Param, Target};
use frit_uop::Linear;
use program::Program;
use regalloc::Assignment;

/// A kernel on its way to machine code: what the passes read and write.
pub struct Job<'a> {
    linear: &'a Linear,
    target: &'a Target,
    program: Program,
    /// Bytes of scratch that a thread needs.
    scratch: usize,
    assignment: Assignment,
    bytes: Vec<u8>,
    /// Where the bytes of each instruction begin, then those that end the kernel.
    starts: Vec<u32>,
}

impl Walk for Job<'_> {
    fn program(&self) -> (&Linear, &Target) {
        (self.linear, self.target)
    }
}

/// One pass: its name, which is its file's, and what it does.
pub type Pass = (&'static str, fn(&mut Job) -> Result<(), Error>);

/// Every pass from linear program to bytes, in order.
pub const PASSES: [Pass; 4] = [
    ("select", select::select),
    ("dead_code", dead_code::dead_code),
    ("regalloc", regalloc::regalloc),
    ("encode", encode::encode),
];

/// The program as machine code.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    render_and_watch(linear, target, &mut |_, _| {})
}

/// [`render`], showing the program after every pass to `watch`: its registers are virtual until `regalloc`.
pub fn render_and_watch(linear: &Linear, target: &Target, watch: &mut Watch) -> Result<Kernel, Error> {
    let (program, assignment) = (Program::default(), Assignment::default());
    let mut job = Job { linear, target, program, scratch: 0, assignment, bytes: vec![], starts: vec![] };
    for (name, run) in PASSES {
        run(&mut job)?;
        watch(name, &job);
    }
    let (name, mut params, scratch) = (linear.name.to_string(), params(linear), job.scratch);
    for p in &mut params {
        if let Param::Buffer { align, .. } = p {
            // its moves take any address
            *align = 1;
        }
    }
    Ok(Kernel { name, code: Code::Native(job.bytes.into()), params, scratch })
}
