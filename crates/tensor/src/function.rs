//! Functions as calls in the graph.
//!
//! ```text
//! f(x, y)  ->  LoopOut(Loop(1, x, y, captures…, body))
//! ```
//!
//! A call is a loop of one step: its body stands on its own, so that every call with arguments of the same shapes and
//! types has the same body, which is planned and compiled once, however often and with whatever weights it is called.
//! Arguments and results are in memory; nothing fuses across the edge. What the body takes from outside is captured, and
//! has gradients as the arguments have.
//!
//! The function runs at each call, to say what its body is: building a graph is cheap, and a body that was kept could be
//! another one than the program means by now.

use crate::control;
use crate::error::Result;
use crate::tensor::Tensor;

/// A function whose calls are nodes of the graph; see [`function`].
pub struct Function<F>(F);

/// Makes a function of tensors one whose calls are nodes of the graph, compiled once for arguments of the same shapes and
/// types.
///
/// ```
/// # use frit_tensor::*;
/// let w = Tensor::new([[1.0, 2.0], [3.0, 4.0]]);
/// let layer = function(|x| vec![x[0].matmul(&w).relu()]);
/// let x = Tensor::ones([1, 2]);
/// let y = layer.call(&[&layer.call(&[&x])[0]]);
/// assert_eq!(y[0].to_vec::<f32>()?, [22.0, 32.0]);
/// assert_eq!(y[0].sum(..).gradient(&[&x])?[0].to_vec::<f32>()?, [17.0, 37.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn function<F: Fn(&[Tensor]) -> Vec<Tensor>>(f: F) -> Function<F> {
    Function(f)
}

impl<F: Fn(&[Tensor]) -> Vec<Tensor>> Function<F> {
    /// The results for these arguments. The function sees tensors that have shapes and types but no numbers: what
    /// needs them fails, and so does an assignment.
    #[track_caller]
    pub fn call(&self, arguments: &[&Tensor]) -> Vec<Tensor> {
        let mut count = 1;
        let results = call(arguments, |inside| {
            let results = (self.0)(inside);
            count = results.len();
            results
        });
        results.unwrap_or_else(|e| vec![Tensor::failed(e); count])
    }
}

/// One call of a function that is described only here.
#[track_caller]
pub fn call(arguments: &[&Tensor], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Vec<Tensor>> {
    control::one_step("function", "", arguments, f)
}
