//! The language: one small graph that is the tensor program, the kernel and the machine program.
//!
//! A [`UOp`] is an immutable, hash-consed node `{op, dtype, src, arg}`. Rewrite rules in tables turn one level of the
//! language into the next; [`op`] says which ops exist and what they mean.

pub mod arg;
pub mod bench;
pub mod build;
pub mod eval;
pub mod graph;
pub mod infer;
pub mod linear;
pub mod loops;
pub mod node;
pub mod op;
mod place;
pub mod promote;
pub mod rewrite;
pub mod rules;
pub mod site;
pub mod sources;
pub mod spec;
pub mod symbolic;
pub mod text;
pub mod verify;

pub use arg::{Arg, Axes, AxisKind, LoopArg, RangeArg, ScatterMode, Space, Storage};
pub use frit_abi::{Alu, DType, Scalar};
pub use linear::{Linear, Step};
pub use loops::Loop;
pub use node::{Node, Shape, UOp};
pub use op::{Op, OpSet};
