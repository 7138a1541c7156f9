//! The families of models there are: each a file that says how its keys are read and what its tensors are called.

mod bert;
mod gemma;
mod gpt2;
mod llama;
mod phi;
mod qwen;

use crate::config::Config;
use crate::keys::Keys;
use crate::weights::Names;
use frit_tensor::{Error, Result};

/// What is particular to some architectures.
pub struct Family {
    /// What they are called in GGUF files, and in folders of Hugging Face.
    pub architectures: &'static [&'static str],
    /// Their tensors in folders.
    pub names: Names,
    /// Numbers that a `config.json` may leave out.
    pub defaults: &'static [(&'static str, f64)],
    /// Their configuration, for at most so many positions if that is said.
    pub config: fn(&Keys, Option<usize>) -> Result<Config>,
}

/// Every family of decoders.
pub const FAMILIES: &[&Family] = &[
    &llama::LLAMA,
    &llama::MIXTRAL,
    &qwen::QWEN,
    &qwen::QWEN_MOE,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3_WITH_PICTURES,
    &phi::PHI,
    &gpt2::GPT2,
];

/// Every family of encoders.
pub const ENCODERS: &[&Family] = &[&bert::BERT];

/// The family of an architecture, among some.
pub fn find(families: &[&'static Family], architecture: &str) -> Result<&'static Family> {
    let found = families.iter().find(|f| f.architectures.contains(&architecture));
    found.copied().ok_or_else(|| {
        let all: Vec<&str> = families.iter().flat_map(|f| f.architectures).copied().collect();
        let message = format!("the architecture {architecture:?} is not known, only {}", all.join(", "));
        Error::new("load", message)
    })
}
