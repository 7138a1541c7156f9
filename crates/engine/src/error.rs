//! What can go wrong between a graph and its value.

use frit_uop::site;

/// A failure of the engine; `Display` is one helpful sentence.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device, its compiler or its memory.
    Runtime(frit_runtime::Error),
    /// The graph could not be cut into kernels.
    Schedule(String),
    /// A kernel could not be lowered or rendered.
    Compile {
        /// The kernel's name.
        kernel: String,
        /// Why.
        message: String,
    },
    /// An index that comes from data was outside its tensor.
    Index(String),
    /// A graph that is not legal, or asks for what cannot be.
    Graph(String),
    /// An environment variable with a value that means nothing.
    Env(String),
    /// The program asked long work to end.
    Interrupted,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Runtime(e) => e.fmt(f),
            Error::Schedule(m) | Error::Index(m) | Error::Graph(m) | Error::Env(m) => f.write_str(m),
            Error::Interrupted => f.write_str("interrupted"),
            Error::Compile { kernel, message } => write!(f, "kernel {kernel}: {message}"),
        }
    }
}
impl std::error::Error for Error {}

impl From<frit_runtime::Error> for Error {
    fn from(e: frit_runtime::Error) -> Error {
        match e {
            frit_runtime::Error::Index { site, .. } => Error::Index(match site::lookup(site) {
                Some(s) => format!("{s}: an index in the data is out of range"),
                None => "an index in the data is out of range".into(),
            }),
            frit_runtime::Error::Interrupted => Error::Interrupted,
            e => Error::Runtime(e),
        }
    }
}
