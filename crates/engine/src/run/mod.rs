//! Values are computed: stores in place, loops, launches in order, what the host reads.

pub mod disk;
pub(crate) mod in_place;
pub(crate) mod launch;
pub(crate) mod loops;
pub(crate) mod one_at_a_time;
pub(crate) mod read;
pub(crate) mod realize;
pub(crate) mod tape;

pub use read::{Lent, LentThere, lend, lend_there, read, write};
pub use realize::realize;
pub use tape::{Tape, is_recording, record, rehearse};
