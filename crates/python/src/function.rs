//! Functions whose calls are nodes of the graph; `python/frit/function.py` takes their arguments apart.

use crate::error::raised;
use crate::tensor::{PyTensor, out};
use frit::Tensor;
use pyo3::prelude::*;

/// What `f` does with a function of tensors whose body is Python's; what that raises comes out.
pub fn with_body<R>(
    body: &Bound<'_, PyAny>,
    f: impl FnOnce(&mut dyn FnMut(&[Tensor]) -> Vec<Tensor>) -> R,
) -> PyResult<R> {
    let run = |inside: &[Tensor]| -> PyResult<Vec<Tensor>> {
        let inside: Vec<PyTensor> = inside.iter().map(|t| out(t.clone())).collect::<PyResult<_>>()?;
        let made = body.call1((inside,))?.extract::<Vec<PyRef<'_, PyTensor>>>()?;
        Ok(made.iter().map(|t| t.0.clone()).collect())
    };
    let mut failed = None;
    let made = f(&mut |inside| {
        run(inside).unwrap_or_else(|e| {
            failed = Some(e);
            vec![]
        })
    });
    failed.map_or(Ok(made), Err)
}

/// The results of one call: `body` gets tensors that stand for the arguments, and says what is made of them.
#[pyfunction]
fn call_function(body: &Bound<'_, PyAny>, arguments: Vec<PyRef<'_, PyTensor>>) -> PyResult<Vec<PyTensor>> {
    let arguments: Vec<&Tensor> = arguments.iter().map(|t| &t.0).collect();
    let results = with_body(body, |f| frit::function::call(&arguments, f))?;
    results.map_err(raised)?.into_iter().map(out).collect()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(call_function, m)?)
}
