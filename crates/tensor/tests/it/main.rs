//! Everything a user can write, on the interpreter.
mod arguments;
mod assign;
mod behaviour;
mod disk;
mod errors;
mod fft;
#[cfg(unix)]
mod fork;
mod function;
mod fusion;
mod hash;
mod jit;
mod meanwhile;
mod memory;
mod state;
mod state_jit;
mod tiny;
mod untrusted;
