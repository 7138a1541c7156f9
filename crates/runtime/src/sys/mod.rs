//! What differs between operating systems, behind one set of names. Where a system lacks something, the call fails
//! at run time with an ordinary error.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use other::*;
#[cfg(unix)]
pub use unix::*;
