//! The words every room shares: element types, scalar values and their arithmetic, what a machine can do, what a
//! compiled kernel is. Nothing here knows a UOp, a file or a device.

pub mod alu;
pub mod bytecode;
pub mod costs;
pub mod dtype;
pub mod elementary;
pub mod fork;
pub mod kernel;
pub mod layout;
pub mod machines;
pub mod matrix;
pub mod record;
pub mod scalar;
pub mod small_float;
pub mod sync;
pub mod target;
pub mod wire;

pub use alu::Alu;
pub use costs::Costs;
pub use dtype::DType;
pub use kernel::{Code, Kernel, Language, LaunchDims, Param};
pub use matrix::MatrixUnit;
pub use scalar::Scalar;
pub use target::Target;
