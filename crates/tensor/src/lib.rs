//! What people write with: tensors that are only a description until someone needs the numbers.
//!
//! Every operation builds graph ([`frit_uop`]); `realize`, `to_vec`, `item` and `Display` compute. A bad argument gives
//! a failed tensor, and the first call that returns a `Result` gives the error back with the user's line, so
//! `(&x * &w).sum(1).relu()` has no `?` in it.
//!
//! By subject: [`tensor`] the handle, [`shape`] dims and axes, [`operand`] operators and numbers, `creation`, `random`,
//! `movement` (with [`pad`], `diagonal`, `rearrange`), [`index`] (with `mask`, `scatter`), `elementwise` (with `composite` and `trig` under it),
//! `activation`, `reduce` (with `scan`), `ranking` and `counting` (over `sort`), `linalg`, [`conv`], `pool`,
//! [`interpolate`], [`grid_sample`], [`fft`], [`hash`], `norm`, [`attention`], [`loss`] (with [`ctc`] and `similarity`),
//! `gradient`, `control` (loops), `assign`, `bitcast`, `blob` (files and
//! borrowed memory), [`realize`], [`jit`], `display`.

#![forbid(unsafe_code)]

mod activation;
mod assign;
pub mod attention;
mod bitcast;
mod blob;
mod bundle;
mod composite;
mod control;
pub mod conv;
mod counting;
mod creation;
pub mod ctc;
mod diagonal;
mod display;
mod elementwise;
pub mod error;
pub mod fft;
pub mod function;
mod gradient;
mod gradient_rules;
pub mod grid_sample;
pub mod hash;
pub mod index;
pub mod interpolate;
pub mod jit;
pub mod linalg;
pub mod loss;
mod mask;
mod mode;
mod movement;
mod norm;
pub mod operand;
pub mod pad;
mod pool;
mod random;
mod ranking;
pub mod realize;
mod rearrange;
mod reduce;
mod scan;
mod scatter;
pub mod shape;
mod similarity;
mod sort;
pub mod tensor;
mod turn;
mod view;
mod watch;

pub use attention::{Attention, Rope};
pub use conv::Window;
pub use counting::Unique;
pub use creation::{Element, Nested};
pub use ctc::Ctc;
pub use error::{Call, Error, Kind, Result, call};
pub use fft::{Fft, FftNorm, Stft};
pub use frit_uop::promote::{Defaults, choose_defaults, defaults, with_defaults};
pub use frit_uop::site::blame;
pub use frit_uop::{DType, Scalar};
pub use function::{Function, function};
pub use grid_sample::{GridSample, Outside};
pub use hash::Keccak;
pub use index::{Ellipsis, Index, Indices, NewAxis, step};
pub use interpolate::{Interpolate, Sampling};
pub use jit::{Bundle, Jit};
pub use linalg::Triangular;
pub use loss::{Bce, CrossEntropy, Reduction};
pub use mode::{is_training, training};
pub use movement::Shifts;
pub use operand::Operand;
pub use pad::PadMode;
pub use random::manual_seed;
pub use realize::{Blob, Device, Lent};
pub use shape::{Axes, Dim, Dims, Shape, Variable, keepdim};
pub use tensor::{Tensor, WeakTensor};
