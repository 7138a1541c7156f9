//! What functions may ask of their surroundings: training or evaluating, and what new tensors are.
//!
//! Training is a scope of the calling thread, not a property of a layer. Dropout and BatchNorm ask [`is_training`] in their
//! `forward`. Outside any scope the answer is no, so a program that only evaluates says nothing. There is no switch that can
//! be left on: a scope ends where its closure does, by return or by panic, and no other thread sees it.
//!
//! ```
//! use frit_tensor::{is_training, training};
//!
//! assert!(!is_training());
//! training(true, || {
//!     assert!(is_training());
//!     training(false, || assert!(!is_training())); // a validation pass in the middle
//! });
//! assert!(!is_training());
//! ```

use crate::error::Result;
use frit_uop::promote::{Defaults, defaults};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with layers of this thread in training mode (`true`) or in evaluation mode (`false`).
pub fn training<T>(on: bool, f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRAINING.set(self.0);
        }
    }
    let _restore = Restore(TRAINING.replace(on));
    f()
}

/// Whether a [`training`] scope of this thread says so; `false` outside.
pub fn is_training() -> bool {
    TRAINING.get()
}

/// All of it: a function that a Jit recorded under one is not replayed under another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ambient {
    training: bool,
    device: Arc<str>,
    types: Defaults,
}

impl Ambient {
    pub(crate) fn now() -> Result<Ambient> {
        Ok(Ambient { training: is_training(), device: crate::realize::default_device()?, types: defaults() })
    }
}
