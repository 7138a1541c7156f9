//! What can go wrong on the way from a kernel to a program.

/// Why a kernel could not be lowered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// An opt does not fit the kernel or the target.
    Opt {
        /// The opt.
        opt: String,
        /// Why not.
        why: String,
    },
    /// The kernel asks for something the target does not have.
    Target(String),
    /// The kernel is not well-formed: a fault of the room it comes from.
    Kernel(String),
    /// A pass broke its promise: a fault of this room.
    Pass {
        /// The pass.
        pass: &'static str,
        /// What it left behind.
        message: String,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Opt { opt, why } => write!(f, "{opt} is not legal here: {why}"),
            Error::Target(m) => write!(f, "the target cannot run this kernel: {m}"),
            Error::Kernel(m) => write!(f, "malformed kernel: {m}"),
            Error::Pass { pass, message } => write!(f, "after pass {pass}: {message}"),
        }
    }
}
impl std::error::Error for Error {}
