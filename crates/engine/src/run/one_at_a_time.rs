//! Runs that store take turns.

use frit_abi::fork::{Turn, Turns};

/// Graphs with stores run one at a time: a version must not be stored twice.
pub(crate) fn one_at_a_time() -> Turn {
    static STORES: Turns = Turns::new();
    STORES.take()
}
