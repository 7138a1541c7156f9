//! Errors that know where they were born.
//!
//! An operation with a bad argument returns a failed tensor that carries an [`Error`]: which call of the user's program
//! it was, what did not fit, and the file and line. Every public method opens a [`Call`]; the outermost one on the
//! thread names the operation and the line, so an error inside `layernorm` blames the user's `layernorm`, not the
//! multiplication in it.

use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

/// What went wrong, in which call, at which line of the user's program. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    op: &'static str,
    path: Option<String>,
    message: String,
    at: Option<&'static Location<'static>>,
    kind: Kind,
}

/// What sort of mistake it was, for callers in languages that tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Kind {
    /// Shapes, types, devices or values that do not go together, and whatever else fails.
    #[default]
    General,
    /// An axis or an index that is out of range, at the call or in the data.
    Index,
    /// The program asked long work to end.
    Interrupted,
}

/// The result of whatever computes or asks early.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the operation `op`, blamed on the call that is open on this thread.
    #[track_caller]
    pub fn new(op: &'static str, message: impl Into<String>) -> Error {
        let message = message.into();
        let here = Location::caller();
        let inner = match CURRENT.get() {
            Some((outer, at)) if outer == op => Inner::new(op, message, Some(at)),
            Some((outer, at)) => Inner::new(outer, format!("{op}: {message}"), Some(at)),
            None => Inner::new(op, message, Some(here)),
        };
        Error(Arc::new(inner))
    }
    /// The same error, of a kind.
    pub fn of_kind(self, kind: Kind) -> Error {
        Error(Arc::new(Inner { kind, ..(*self.0).clone() }))
    }
    /// What sort of mistake it was.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    /// An error of the call that is open on this thread, whatever it does inside; of `op` if there is none.
    #[track_caller]
    pub(crate) fn of_call(op: &'static str, message: impl Into<String>) -> Error {
        let (op, at) = CURRENT.get().unwrap_or((op, Location::caller()));
        Error(Arc::new(Inner::new(op, message.into(), Some(at))))
    }
    /// An error that belongs to no line of the program: a file, an environment variable.
    pub fn elsewhere(op: &'static str, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner::new(op, message.into(), None)))
    }
    /// The call that failed: `matmul`.
    pub fn op(&self) -> &str {
        self.0.op
    }
    /// What did not fit.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The path of the layer or node that it happened in.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }
    /// The line of the user's program, if the error belongs to one.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.at
    }
    /// The same error with the path of the layer it happened in (`encoder.3.attn`), outermost first.
    pub fn within(&self, path: &str) -> Error {
        let i = &self.0;
        let path = match &i.path {
            Some(inner) => format!("{path}.{inner}"),
            None => path.to_string(),
        };
        Error(Arc::new(Inner { path: Some(path), ..(**i).clone() }))
    }
}

impl Inner {
    fn new(op: &'static str, message: String, at: Option<&'static Location<'static>>) -> Inner {
        Inner { op, path: None, message, at, kind: Kind::General }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let i = &self.0;
        write!(f, "{}: {}", i.op, i.message)?;
        if let Some(p) = &i.path {
            write!(f, " in {p}")?;
        }
        if let Some(at) = i.at {
            write!(f, " at {}:{}", at.file(), at.line())?;
        }
        Ok(())
    }
}
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
impl std::error::Error for Error {}
impl PartialEq for Error {
    fn eq(&self, o: &Error) -> bool {
        self.to_string() == o.to_string()
    }
}

thread_local! {
    static CURRENT: Cell<Option<(&'static str, &'static Location<'static>)>> = const { Cell::new(None) };
}

/// An open call of a public operation; errors born while it is open are blamed on the outermost one.
#[must_use]
pub struct Call {
    outermost: bool,
}

/// Open a call of `op`, at the caller's line. Layers use it in `forward` as operations do.
#[track_caller]
pub fn call(op: &'static str) -> Call {
    let outermost = CURRENT.get().is_none();
    if outermost {
        CURRENT.set(Some((op, Location::caller())));
    }
    Call { outermost }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.outermost {
            CURRENT.set(None);
        }
    }
}

/// Run a function of the user's inside an open call: errors born in it belong to its own lines.
pub(crate) fn outside<T>(f: impl FnOnce() -> T) -> T {
    struct Back(Option<(&'static str, &'static Location<'static>)>);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.take());
    f()
}

/// The number of the open call in the table of places that kernels can blame.
#[track_caller]
pub(crate) fn site(op: &'static str) -> u32 {
    let (op, at) = CURRENT.get().unwrap_or((op, Location::caller()));
    frit_uop::site::register(op, at)
}

/// The open call and its line.
pub(crate) fn current() -> Option<(&'static str, &'static Location<'static>)> {
    CURRENT.get()
}

/// The line of the open call.
#[track_caller]
pub(crate) fn here() -> &'static Location<'static> {
    CURRENT.get().map_or(Location::caller(), |c| c.1)
}

/// `Err` of an [`Error`] with a formatted message.
macro_rules! fail {
    ($op:expr, $($t:tt)*) => { Err($crate::error::Error::new($op, format!($($t)*))) };
}
pub(crate) use fail;

/// `Err` of an index or axis that is out of range.
macro_rules! fail_index {
    ($op:expr, $($t:tt)*) => {
        Err($crate::error::Error::new($op, format!($($t)*)).of_kind($crate::error::Kind::Index))
    };
}
pub(crate) use fail_index;
