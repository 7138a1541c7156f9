//! Language models against transformers, llama.cpp's converter and plain references.

mod chat;
mod engine;
mod families;
mod generate;
mod real;
mod tune;

use std::path::PathBuf;

/// A file or folder of `tests/data`.
fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
