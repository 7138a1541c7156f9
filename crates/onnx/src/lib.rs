//! ONNX models: read where they lie, run as tensors.
//!
//! ```text
//! file  ->  wire, proto  ->  plan  ->  session  ->  ops  ->  tensors
//!           messages         slots     runs        one function an operator
//! ```
//!
//! - [`wire`] reads and writes protobuf, [`proto`] has the messages of ONNX as tables of their fields;
//! - [`element`] has the element types, [`value`] what flows between nodes, `weights` what is stored;
//! - `types` says what operators may be given, `plan` resolves names, functions and operators, [`session`] runs what it made, in recorded `parts`;
//! - `ops` has a table of operators for each family, with domain and the version each row holds from;
//! - [`check`] compares a model with stored outputs;
//! - [`mod@export`] writes programs of tensors as models.
//!
//! Nothing in a file is believed: what does not fit is an error that names the field or node, and no file outside the
//! model's folder is opened.

#![forbid(unsafe_code)]

pub mod wire;
pub mod proto;
pub mod element;
pub mod value;
mod weights;
mod types;
mod plan;
mod call;
mod ops;
mod packed;
mod sizes;
mod constants;
mod parts;
pub mod session;
pub mod check;
pub mod export;

pub use element::Element;
pub use ops::operators;
pub use parts::Image;
pub use session::{Kind, Port, Session, Size, Summary, Uses};
pub use value::{Key, Strings, Value};
