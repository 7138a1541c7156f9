//! Tests of the scheduler: kernel counts, kinds and bytes; and scheduled kernels, evaluated, against the tensor graph.

// a list of one reads like a list of two
#![allow(clippy::cloned_ref_to_slice_refs)]

mod build;
mod kernel_eval;
mod tensor_eval;

mod assign;
mod files;
mod fusion;
mod memory;
mod random;
mod shape;
mod speed;
mod values;
