//! Linear program -> source text or machine code. One folder per language; none knows a device by name.
//!
//! - [`bytecode`]: the interpreter's program, one instruction per step.
//! - [`c`]: C for the system's compiler, and what is like it.
//! - [`ptx`]: PTX for NVIDIA's driver.
//! - [`x86`]: machine code for x86-64.
//!
//! Each walks the steps of the program once, in files of the same names: `types` (what a type is in the language),
//! `values` (what computes), `memory` (loads and stores), `control` (loops, barriers, which step goes where). What all
//! of them ask is in `walk`.

#![forbid(unsafe_code)]

pub mod bytecode;
pub mod c;
pub mod ptx;
mod walk;
pub mod x86;

use frit_abi::{DType, Kernel, Language, Target};
use frit_uop::{Linear, Op};
use std::fmt::Display;

/// Why a linear program cannot be written for a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The target has no such operation or type.
    Unsupported {
        /// Name of the kernel.
        kernel: String,
        /// The operation.
        op: Op,
        /// The type it works on.
        dtype: DType,
        /// Name of the target.
        target: String,
    },
    /// The program breaks a rule that codegen must keep: a fault of the compiler, not of its user.
    Malformed {
        /// Name of the kernel.
        kernel: String,
        /// What is wrong, and with which step.
        message: String,
    },
    /// More of something than the target has (local memory, lanes of a block, 64-bit integers).
    Limit {
        /// Name of the kernel.
        kernel: String,
        /// What there is too much of, how much, and how much is allowed.
        message: String,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Unsupported { kernel, op, dtype, target } => {
                write!(f, "kernel {kernel}: {target} has no {} on {dtype}", op.name())
            }
            Error::Malformed { kernel, message } => write!(f, "kernel {kernel} is malformed: {message}"),
            Error::Limit { kernel, message } => {
                write!(f, "kernel {kernel} does not fit the target: {message}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// A program as a pass of a writer left it: its text, and what of the linear program its lines are for.
pub trait Shown: Display {
    /// For each line of the text the step that it is for, counted from 1; 0 where it is for none.
    fn steps(&self) -> Vec<u32>;
    /// Where the machine code of each line begins, in bytes; nothing where there is none yet.
    fn offsets(&self) -> Vec<u32> {
        vec![]
    }
}

/// Shown the program after each pass of a writer, with the pass's name.
pub type Watch<'a> = dyn FnMut(&'static str, &dyn Shown) + 'a;

/// Writes a program in one language.
pub type Renderer = fn(&Linear, &Target, &mut Watch) -> Result<Kernel, Error>;

/// Who writes which language.
pub const RENDERERS: [(Language, Renderer); 4] = [
    (Language::X86, x86::render_and_watch),
    (Language::C, c::render_and_watch),
    (Language::Bytecode, bytecode::render_and_watch),
    (Language::Ptx, ptx::render_and_watch),
];

/// The names of all passes that a [`Watch`] is told of: those of machine code, and each other language by its own.
pub fn passes() -> impl Iterator<Item = &'static str> {
    x86::PASSES.iter().map(|p| p.0).chain(["c", "bytecode", "ptx"])
}

/// The program in the language of its target.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    render_and_watch(linear, target, &mut |_, _| {})
}

/// [`render`], showing what it is on the way.
pub fn render_and_watch(linear: &Linear, target: &Target, watch: &mut Watch) -> Result<Kernel, Error> {
    match RENDERERS.iter().find(|(language, _)| *language == target.language) {
        Some((_, write)) => write(linear, target, watch),
        None => Err(Error::Limit {
            kernel: linear.name.to_string(),
            message: format!("nothing writes {:?}", target.language),
        }),
    }
}
