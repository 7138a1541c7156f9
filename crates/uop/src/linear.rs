//! A linear program: what codegen hands to a renderer.

use crate::node::UOp;
use std::sync::Arc;

/// One step of a linear program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Compute a value or perform a store or barrier. Constants, parameters, addresses (`Index`), `Define`s, `Special`s
    /// and `Variable`s are not steps: a renderer writes them where they are used.
    Do(UOp),
    /// Begin the loop over a range.
    Open(UOp),
    /// End it.
    Close(UOp),
    /// The memory so many bytes after an address will be wanted soon. A hint: it changes no value, and what it names need
    /// not be in a buffer.
    Prefetch(UOp, i32),
}

/// A kernel as a list of steps, each after what it needs.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Name of the kernel.
    pub name: Arc<str>,
    /// The steps.
    pub steps: Vec<Step>,
    /// `Param` nodes by slot; slots are dense.
    pub params: Vec<UOp>,
    /// Which params are stored to, by slot.
    pub written: Vec<bool>,
    /// `Variable` nodes in the order of the kernel's arguments (sorted by name).
    pub vars: Vec<UOp>,
    /// `Define` nodes, register variables and local arrays.
    pub defines: Vec<UOp>,
    /// Hardware ids in use.
    pub specials: Vec<UOp>,
    /// The thread range of a CPU-like kernel.
    pub thread: Option<UOp>,
    /// Arithmetic operations and bytes moved, as expressions over the variables: for reports and cost.
    pub flops: UOp,
    /// Bytes of memory that must move at least once.
    pub bytes: UOp,
}
