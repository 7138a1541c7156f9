//! Fine-tuning: texts in, an adapter out, the weights of the model as they were.
//!
//! ```text
//! file  ->  data: examples  ->  trainer: a captured step  ->  adapter, checkpoints
//! ```
//!
//! What step n computes follows from the settings and n alone: which examples, what is left out, the learning rate. So a
//! run that goes on from a checkpoint gives the losses of one that never stopped, bit for bit.

mod data;
mod trainer;

pub use data::{Example, Loss, read};
pub use trainer::{Rate, Trainer, Tuning};
