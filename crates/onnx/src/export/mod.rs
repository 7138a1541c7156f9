//! Programs of tensors written as ONNX models.
//!
//! ```text
//! program  ->  trace  ->  order  ->  nodes  ->  file
//!              placeholders, named steps        one operator or a few for each node of the graph
//! ```
//!
//! - `named` gives operations that were noted by name their ONNX operator, or none;
//! - `lower` writes the nodes of a graph, `elementwise` those that compute element by element, `loops` loops;
//! - `writer` has what is written so far: nodes, stored tensors, names.

mod elementwise;
mod loops;
mod lower;
mod named;
mod writer;

use frit_tensor::trace::trace;
use frit_tensor::{Error, Result, Tensor};

/// How a program becomes a model.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of ONNX's operators. Operations that have one only in a later version are written as what they are
    /// made of.
    pub opset: i64,
    /// Names of the inputs; `input0` and on for those that have none.
    pub inputs: Vec<String>,
    /// Names of the outputs; `output0` and on for those that have none.
    pub outputs: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { opset: 23, inputs: vec![], outputs: vec![] }
    }
}

/// The oldest operators that are written: reductions take their axes as inputs from here on.
const OLDEST: i64 = 18;

/// A model of what `f` computes of arguments like these. It sees tensors that have shapes and types but no numbers; sizes
/// with variables are named sizes of the model.
///
/// ```
/// # use frit_tensor::*;
/// # use frit_onnx::{Session, export::{Options, export}};
/// let w = Tensor::new([[1.0, 2.0], [3.0, 4.0]]);
/// let x = Tensor::ones([1, 2]);
/// let model = export(&[&x], &Options::default(), |x| vec![x[0].matmul(&w).relu()])?;
/// let session = Session::from_blob(&Blob::new(model))?;
/// assert_eq!(session.run([("input0", x.into())])?[0].tensor()?.to_vec::<f32>()?, [4.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn export(
    arguments: &[&Tensor],
    options: &Options,
    f: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<Vec<u8>> {
    let program = trace(arguments, f)?;
    let _c = frit_tensor::call("export");
    if !(OLDEST..=crate::ops::NEWEST).contains(&options.opset) {
        let m = format!("opset {} is not one of {OLDEST} to {}", options.opset, crate::ops::NEWEST);
        return Err(Error::new("export", m));
    }
    lower::model(&program, options).map_err(|e| Error::new("export", e))
}
