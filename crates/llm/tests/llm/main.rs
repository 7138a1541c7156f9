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

use frit_nn::StateDict;
use frit_nn::gguf::{self, Gguf, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// A GGUF file of `tests/data` written again with other tensors or keys.
fn rewrite(name: &str, to: &Path, change: impl Fn(&mut StateDict, &mut BTreeMap<String, Value>)) {
    let file = Gguf::open(data(name)).unwrap();
    let (mut state, mut metadata) = (file.state().unwrap(), file.metadata().clone());
    change(&mut state, &mut metadata);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    gguf::save(to, &state, &metadata).unwrap();
}

/// The folder that `FRIT_FILES` names, where `tests-data/fetch.py` puts real files and `.ci/run` what other packages make of
/// them; all of them are there, or none is read.
fn files() -> Option<PathBuf> {
    let folder = std::env::var_os("FRIT_FILES").map(PathBuf::from);
    if folder.is_none() {
        println!("FRIT_FILES names no folder: what real files say is not tested");
    }
    folder
}
