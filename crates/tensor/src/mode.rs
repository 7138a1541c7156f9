//! What functions may ask of their surroundings: training or evaluating, what new tensors are, and in which type to multiply.
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
use frit_uop::DType;
use frit_uop::promote::{Defaults, defaults};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
    static FACTORS: Cell<Option<DType>> = const { Cell::new(None) };
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

/// Mixed precision: runs `f` with the matrix products and convolutions of float32 that this thread describes computed on factors
/// of another type, which is also that of their results; sums are float32's. Weights stay float32, and so do their gradients
/// and the optimiser's steps.
///
/// ```
/// use frit_tensor::{DType, Error, Tensor, autocast};
///
/// let (x, w) = (Tensor::ones([2, 3]), Tensor::ones([3, 4]).requires_grad(true));
/// let y = autocast(DType::BF16, || x.matmul(&w));
/// assert_eq!(y.dtype(), DType::BF16);
/// y.sum(..).backward()?;
/// assert_eq!(w.grad().map(|g| g.dtype()), Some(DType::F32));
/// # Ok::<(), Error>(())
/// ```
pub fn autocast<T>(dtype: DType, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<DType>);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_factors(self.0);
        }
    }
    let _restore = Restore(set_factors(Some(dtype)));
    f()
}

/// The same from here on, or no more; what was before. For languages without closures: [`autocast`] puts it back by itself.
pub fn set_factors(dtype: Option<DType>) -> Option<DType> {
    FACTORS.replace(dtype)
}

/// The type in which factors of this one are multiplied.
pub(crate) fn factor_type(d: DType) -> DType {
    FACTORS.get().filter(|_| d == DType::F32).unwrap_or(d)
}

/// All of it: a function that a Jit recorded under one is not replayed under another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ambient {
    training: bool,
    device: Arc<str>,
    types: Defaults,
    factors: Option<DType>,
}

impl Ambient {
    pub(crate) fn now() -> Result<Ambient> {
        let (device, factors) = (crate::realize::default_device()?, FACTORS.get());
        Ok(Ambient { training: is_training(), device, types: defaults(), factors })
    }
}
