//! What people write with: tensors that are only a description until someone needs the numbers.
//!
//! Every operation builds graph ([`frit_uop`]); `realize`, `to_vec`, `item` and `Display` compute. A bad argument gives
//! a failed tensor, and the first call that returns a `Result` gives the error back with the user's line, so
//! `(&x * &w).sum(1).relu()` has no `?` in it.
//!
//! By subject: [`tensor`] the handle, [`shape`] dims and axes, [`operand`] operators and numbers, `creation`, `random`,
//! `movement` (with `parts`, `repeat`, `windows`, [`pad`], `diagonal`, `rearrange`), [`index`] (with `mask`, `scatter`), `elementwise` (with `composite` and `trig` under it),
//! `activation`, `reduce` (with `scan`), `ranking` and `counting` (over `sort`), `linalg`, [`conv`], `pool`,
//! [`interpolate`], [`grid_sample`], [`fft`], [`hash`], `norm`, [`attention`], [`loss`] (with [`ctc`] and `similarity`),
//! `gradient`, `control` (loops), `assign`, `bitcast`, `blob` (files and
//! borrowed memory), [`realize`], [`jit`], `display`, `known` (what follows from sizes), [`trace`] (programs written down).

#![forbid(unsafe_code)]

// the handle, and what can go wrong
pub mod tensor;
pub mod error;
pub mod shape;
pub mod operand;
mod watch;
mod turn;
mod mode;
// values to begin with
mod creation;
mod shuffle;
mod random;
mod blob;
// movement and indexing
mod movement;
mod parts;
mod repeat;
mod windows;
pub mod pad;
mod diagonal;
mod rearrange;
mod bitcast;
pub mod index;
mod mask;
mod scatter;
mod view;
mod assign;
// arithmetic
mod elementwise;
mod composite;
mod activation;
// along axes
mod reduce;
mod scan;
mod sort;
mod ranking;
mod counting;
// linear algebra, windows, signals
pub mod linalg;
pub mod conv;
mod pool;
pub mod interpolate;
pub mod grid_sample;
pub mod fft;
pub mod hash;
// networks
mod norm;
pub mod attention;
pub mod loss;
pub mod ctc;
mod similarity;
// programs of tensors
mod gradient;
mod control;
pub mod function;
mod history;
pub mod realize;
pub mod jit;
mod bundle;
mod display;
mod known;
pub mod trace;

pub use attention::{Attention, Rope};
pub use conv::{Window, WindowDims};
pub use counting::Unique;
pub use creation::{Element, Nested};
pub use ctc::Ctc;
pub use error::{Call, Error, Kind, Result, call};
pub use fft::{Fft, FftNorm, Stft};
pub use frit_uop::promote::{Defaults, choose_defaults, defaults, with_defaults};
pub use frit_uop::site::set_caller_hook;
pub use frit_uop::{DType, Scalar};
pub use function::{Function, function};
pub use grid_sample::{GridSample, Outside};
pub use hash::Keccak;
pub use index::{Ellipsis, Index, Indices, NewAxis, step};
pub use interpolate::{Interpolate, Sampling};
pub use jit::{Bundle, Jit, rehearse};
pub use linalg::Triangular;
pub use loss::{Bce, CrossEntropy, Reduction};
pub use mode::{autocast, is_training, set_factors, training};
pub use operand::Operand;
pub use pad::PadMode;
pub use random::manual_seed;
pub use realize::{
    Blob, Device, Lent, LentThere, Progress, Recording, Scope, UserSpan, check_interrupt, named_scope, span,
};
pub use repeat::Shifts;
pub use shape::{Axes, Dim, Dims, Shape, Variable, keepdim};
pub use tensor::{Tensor, WeakTensor};
