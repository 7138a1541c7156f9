//! Language models against transformers, llama.cpp's converter and plain references.

mod chat;
mod configs;
mod engine;
mod experts;
mod families;
mod generate;
mod pooling;
mod real;
mod tune;

use std::path::PathBuf;

/// A file or folder of `tests/data`.
fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A folder that goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("frit-llm-{name}-{}", std::process::id())))
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
