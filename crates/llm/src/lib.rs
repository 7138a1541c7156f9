//! Language models: read from GGUF files and Hugging Face folders, run for many sequences at once (decision 021).
//!
//! ```text
//! keys, weights  ->  config, families  ->  decoder      a model, whichever format and family
//! blocks, cache  ->  step  ->  engine                   many requests, a step at a time
//!                    sample
//! messages       ->  chat                               prompts, tokens, tool calls
//! texts          ->  tune  ->  adapter                  products get a little to add to what they compute
//! ```

#![forbid(unsafe_code)]

pub mod chat;
mod keys;
pub mod rope;
pub mod config;
pub mod adapter;
mod weights;
mod layers;
mod families;
pub mod decoder;
mod encoder;
mod sentence;
mod model;
pub mod blocks;
pub mod cache;
pub mod step;
pub mod sample;
pub mod engine;
pub mod stops;
mod generate;
pub mod tune;

/// The programs in the guide run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/models.md")]
struct Guide;

pub use config::Config;
pub use decoder::Decoder;
pub use encoder::{Embedder, Encoder};
pub use generate::{Answer, Ask, Llm, Message, Running};
pub use model::{Options, Products, is_encoder, open, open_encoder, open_to_tune};
