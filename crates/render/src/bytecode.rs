//! Linear program -> the interpreter's bytecode.
