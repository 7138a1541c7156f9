//! Everything a user can write, on the interpreter.
mod tiny;
