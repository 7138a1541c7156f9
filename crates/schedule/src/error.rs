//! What can be wrong with a graph that is handed to the scheduler.

use frit_uop::UOp;

/// A graph that cannot be scheduled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// A node whose parts do not fit together, or that does not belong at the tensor level.
    Malformed(String),
    /// A store whose target is not a view of a buffer that can be written through.
    Target(String),
    /// A tensor with more elements than can be addressed.
    TooLarge(String),
    /// A pass whose rules do not end, or that left what it must not: a fault of the compiler, not of its user.
    Pass {
        /// The name of the pass.
        pass: &'static str,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    /// A malformed node, named with what is wrong with it.
    pub(crate) fn malformed(n: &UOp, why: &str) -> Error {
        Error::Malformed(format!("{n:?}: {why}"))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(s) => write!(f, "cannot schedule {s}"),
            Error::Target(s) => write!(f, "cannot store to {s}"),
            Error::TooLarge(s) => write!(f, "too many elements in {s}"),
            Error::Pass { pass, message } => write!(f, "pass {pass}: {message}"),
        }
    }
}
impl std::error::Error for Error {}
