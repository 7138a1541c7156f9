//! The Python module `frit`: the names of [`frit`] with the arguments people already know.
//!
//! What is called a thousand times a step is here: `tensor` with all its methods, `dtype`, `device`, `symbolic`
//! sizes. What is called once is Python, in `python/frit`. A method here only reads its arguments (`convert`), calls
//! the method of the same name on a Rust tensor, and raises at once what Rust would carry along (`error`).
//!
//! Everything that computes lets go of the interpreter's lock meanwhile.

mod tensor;
mod dtype;
mod device;
mod symbolic;
mod function;
mod jit;
mod state;
mod onnx;
mod llm;
mod flags;
mod convert;
mod error;
mod memory;
mod live;
mod waiting;
mod viz;
mod fork;
mod search;

use pyo3::prelude::*;

/// Adds a part to the module.
type Part = fn(&Bound<'_, PyModule>) -> PyResult<()>;

/// Every part of the module, a line each.
const PARTS: &[Part] = &[
    //
    error::register,
    dtype::register,
    device::register,
    symbolic::register,
    memory::register,
    tensor::register,
    jit::register,
    state::register,
    onnx::register,
    llm::register,
    flags::register,
    fork::register,
    function::register,
    waiting::register,
    viz::register,
    // last: a process that was started for a search does nothing else
    search::register,
];

#[pymodule]
fn _frit(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    PARTS.iter().try_for_each(|part| part(m))
}
