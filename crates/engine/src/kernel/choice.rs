//! Where the opts of a kernel come from.

use frit_codegen::Opt;
use std::cell::Cell;

/// Where the opts of a kernel come from.
pub enum Choice {
    /// From the heuristic.
    Heuristic,
    /// From a seed: legal ones.
    Random(u64),
    /// From a search.
    List(Vec<Opt>),
}

thread_local! {
    static CHAOS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The seed of random opts on this thread, if they are asked for.
pub(crate) fn seed() -> Option<u64> {
    CHAOS.get()
}

/// Run `f` with kernels optimised at random instead of by the heuristic: legal opts, chosen by the seed. What a kernel
/// computes must not depend on its opts, and this is how tests find out.
pub fn with_random_opts<T>(seed: u64, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHAOS.set(self.0);
        }
    }
    let _restore = Restore(CHAOS.replace(Some(seed)));
    f()
}
