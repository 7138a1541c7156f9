//! The language: one small graph that is the tensor program, the kernel and the machine program.
//!
//! A [`UOp`] is an immutable, hash-consed node `{op, dtype, src, arg}`. Rewrite rules in tables turn one level of the
//! language into the next; [`op`] says which ops exist and what they mean.

// the language
#[doc(hidden)]
pub mod written;
pub mod op;
pub mod arg;
pub mod facts;
pub mod node;
mod slot;
mod table;
mod sync;
pub mod infer;
pub mod build;
pub mod sources;
pub mod loops;
pub mod fold;
pub mod promote;
pub mod site;
// what is legal, and what is safe
pub mod spec;
pub mod verify;
// walking and rewriting
pub mod nodes;
pub mod graph;
pub mod rules;
pub mod text;
pub mod origin;
pub mod record;
pub mod rewrite;
pub mod symbolic;
// out of the graph
pub mod linear;
pub mod eval;

pub use arg::{Arg, Axes, AxisKind, LoopArg, RangeArg, ScatterMode, Space, Storage};
pub use fold::{Fold, Merge};
pub use frit_abi::{Alu, DType, Scalar};
pub use linear::{Linear, Step};
pub use loops::Loop;
pub use node::{Node, Shape, UOp};
pub use op::{Op, OpSet};
