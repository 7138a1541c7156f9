//! The interpreter's bytecode.

/// A program for the interpreter.
#[derive(Clone, Debug)]
pub struct Program {}
