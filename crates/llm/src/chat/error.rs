//! What is wrong with a template, its values or a model's texts.

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

/// The result of working with conversations.
pub type Result<T> = std::result::Result<T, Error>;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "chat: {}", self.0)
    }
}
impl std::error::Error for Error {}
