//! Conversations as text, and text as conversations.
//!
//! ```text
//! messages, tools  ->  template  ->  prompt            what a model's own Jinja template makes of them
//! text             ->  calls     ->  text, tool calls  as it streams
//! ```
//!
//! - `json` writes values as Python does, which templates expect;
//! - `time` writes dates for them;
//! - `template` renders, `calls` reads what models write when they call tools;
//! - `source` finds the tokeniser and the template of a model.

mod error;
mod json;
mod time;
mod template;
mod calls;
mod source;

pub use calls::{Calls, Delta, Syntax};
pub use error::{Error, Result};
pub use json::{object, parse, to_json};
pub use minijinja::Value;
pub use minijinja::value::ValueKind;
pub use source::{Text, text_of};
pub use template::{Prompt, Template};
