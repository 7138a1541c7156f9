//! Facts about a kernel that every folder asks for.

pub mod access;
pub mod ranges;
pub mod mask;
pub mod cost;
pub mod contraction;
pub mod chain;
pub mod word;
pub mod fragment;
pub mod row_block;
pub mod verify;
