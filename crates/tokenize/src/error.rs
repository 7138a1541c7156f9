//! What is wrong with a file.

/// What is wrong, and in which file or field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

/// The result of reading a tokeniser.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn fail<T>(what: impl Into<String>) -> Result<T> {
    Err(Error(what.into()))
}

pub(crate) fn within<T>(field: &str, r: Result<T>) -> Result<T> {
    r.map_err(|e| Error(format!("{field}: {}", e.0)))
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tokenizer: {}", self.0)
    }
}
impl std::error::Error for Error {}
