//! What can go wrong with a device, a driver, a compiler or a file.

use std::fmt;

/// A failure of a device, driver, compiler or file; `Display` is one helpful sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A device that does not exist, is not available, or was asked for something it does not have.
    Device(String),
    /// A `FRIT_` environment variable with a value that means nothing.
    Env {
        /// Name of the variable.
        name: String,
        /// What it was set to.
        value: String,
        /// What it may be set to.
        accepts: String,
    },
    /// There is no compiler, or it refused a kernel.
    Compiler {
        /// Name of the kernel; empty where none is concerned.
        kernel: String,
        /// What it said.
        message: String,
    },
    /// Compiled code that cannot be loaded.
    Object(String),
    /// The system has no more memory for us.
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes that were in use at that time.
        in_use: usize,
        /// Bytes that the machine had free, where it says so.
        free: Option<usize>,
    },
    /// A place outside a device memory.
    Bounds {
        /// First byte asked for.
        offset: usize,
        /// Number of bytes asked for.
        bytes: usize,
        /// Number of bytes there are.
        len: usize,
    },
    /// Arguments of a launch that do not fit the kernel.
    Launch {
        /// Name of the kernel.
        kernel: String,
        /// Why it was not launched.
        message: String,
    },
    /// A kernel did what no kernel may: a fault of the compiler, found by a device that checks.
    Fault {
        /// Name of the kernel.
        kernel: String,
        /// The instruction, by number and text; empty where none is to blame.
        instruction: String,
        /// What it did.
        message: String,
    },
    /// A load or store at a place that came from data missed its buffer.
    Index {
        /// Name of the kernel.
        kernel: String,
        /// Which access of the kernel it was: the number that its renderer gave it.
        site: u32,
    },
    /// The program asked long work to end.
    Interrupted,
}

impl Error {
    /// A [`Error::Compiler`].
    pub(crate) fn compiler(kernel: &str, message: impl Into<String>) -> Error {
        Error::Compiler { kernel: kernel.into(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(message) => f.write_str(message),
            Error::Interrupted => f.write_str("interrupted"),
            Error::Env { name, value, accepts } => {
                write!(f, "{name}={value} is not valid: expected {accepts}")
            }
            Error::Compiler { kernel, message } if kernel.is_empty() => f.write_str(message),
            Error::Compiler { kernel, message } => write!(f, "kernel {kernel} does not compile: {message}"),
            Error::Object(message) => write!(f, "compiled code cannot be loaded: {message}"),
            Error::OutOfMemory { device, bytes, in_use, free } => {
                write!(f, "{device} is out of memory: {bytes} bytes asked for with {in_use} in use")?;
                free.map_or(Ok(()), |free| write!(f, " and {free} free"))
            }
            Error::Bounds { offset, bytes, len } => {
                write!(f, "{bytes} bytes at offset {offset} are outside a memory of {len} bytes")
            }
            Error::Launch { kernel, message } => write!(f, "kernel {kernel} was not launched: {message}"),
            Error::Fault { kernel, instruction, message } => {
                write!(f, "kernel {kernel} is wrong: instruction {instruction}: {message}")
            }
            Error::Index { kernel, site } => {
                write!(f, "an index computed from data is out of range in kernel {kernel} (access {site})")
            }
        }
    }
}

impl std::error::Error for Error {}
