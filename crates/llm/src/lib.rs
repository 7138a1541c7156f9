//! Language models: read from GGUF files and Hugging Face folders, run for many sequences at once (decision 021).
//!
//! ```text
//! keys     ->  config  ->  families  ->  decoder      a model, whichever format and family
//! weights
//! messages ->  chat                                   prompts, tokens, tool calls
//! ```

#![forbid(unsafe_code)]

pub mod chat;
mod keys;
pub mod rope;
pub mod config;
mod weights;
mod layers;
mod families;
pub mod decoder;
mod model;

pub use config::Config;
pub use decoder::Decoder;
pub use model::{Options, open};
