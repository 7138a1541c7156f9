//! Linear program -> source text or machine code. One file per language; none knows a device by name.
//!
//! - [`bytecode`]: the interpreter's program, one instruction per step.
//! - [`c`]: C for the system's compiler.
//! - [`x86`]: machine code for x86-64.

#![forbid(unsafe_code)]

pub mod bytecode;
pub mod c;
pub mod x86;

use frit_abi::{DType, Kernel, Language, Param, Target};
use frit_uop::{Arg, Linear, Op, UOp};

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

/// Writes a program in one language.
pub type Renderer = fn(&Linear, &Target) -> Result<Kernel, Error>;

/// Who writes which language.
pub const RENDERERS: [(Language, Renderer); 3] =
    [(Language::X86, x86::render), (Language::C, c::render), (Language::Bytecode, bytecode::render)];

/// The program in the language of its target.
pub fn render(linear: &Linear, target: &Target) -> Result<Kernel, Error> {
    match RENDERERS.iter().find(|(language, _)| *language == target.language) {
        Some((_, write)) => write(linear, target),
        None => Err(Error::Limit {
            kernel: linear.name.to_string(),
            message: format!("nothing writes {:?}", target.language),
        }),
    }
}

/// A kernel's parameters: buffers, then variables.
fn params(linear: &Linear) -> Vec<Param> {
    let buffers = linear.params.iter().zip(&linear.written).map(|(p, &written)| {
        let len = if let Arg::Param { len, .. } = p.arg { len } else { 0 };
        Param::Buffer { dtype: p.dtype, len, written }
    });
    let vars = linear.vars.iter().map(|v| Param::Var { name: var_name(v).into() });
    buffers.chain(vars).collect()
}

/// The name of a `Variable`.
fn var_name(v: &UOp) -> &str {
    if let Arg::Var { name, .. } = &v.arg { name } else { "" }
}
