//! Matrices.

use super::{PyTensor, out, pair};
use crate::convert::{TensorArg, count, tensors, truth};
use crate::dtype::DTypeArg;
use frit::{Tensor, Triangular};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A product, computed in a type where one is given.
fn product(a: &Tensor, b: &Tensor, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
    out(match dtype {
        Some(DTypeArg(d)) => a.matmul_as(b, d).cast(d),
        None => a.matmul(b),
    })
}

#[pymethods]
impl PyTensor {
    /// The matrix product, as numpy's matmul: vectors, matrices and batches of them.
    #[pyo3(signature = (x, reverse=false, dtype=None))]
    fn matmul(
        &self,
        x: TensorArg,
        #[pyo3(from_py_with = truth)] reverse: bool,
        dtype: Option<DTypeArg>,
    ) -> PyResult<PyTensor> {
        if reverse { product(&x.0, &self.0, dtype) } else { product(&self.0, &x.0, dtype) }
    }
    /// The matrix product.
    #[pyo3(signature = (w, dtype=None))]
    fn dot(&self, w: TensorArg, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
        product(&self.0, &w.0, dtype)
    }
    /// The product of a matrix with a matrix.
    fn mm(&self, mat2: TensorArg) -> PyResult<PyTensor> {
        if self.0.rank() != 2 || mat2.0.rank() != 2 {
            let text = format!("mm: shapes {} and {} are not both matrices", self.0.shape(), mat2.0.shape());
            return Err(PyRuntimeError::new_err(text));
        }
        product(&self.0, &mat2.0, None)
    }
    /// The products of batches of matrices.
    fn bmm(&self, mat2: TensorArg) -> PyResult<PyTensor> {
        out(self.0.bmm(&mat2.0))
    }
    /// x W + b, the weight being (in, out) as tinygrad's; a vector weight is multiplied elementwise.
    #[pyo3(signature = (weight, bias=None, dtype=None))]
    fn linear(
        &self,
        weight: TensorArg,
        bias: Option<TensorArg>,
        dtype: Option<DTypeArg>,
    ) -> PyResult<PyTensor> {
        let cast = |t: &Tensor| dtype.as_ref().map_or(t.clone(), |d| t.cast(d.0));
        let (x, w) = (cast(&self.0), cast(&weight.0));
        let y = if w.rank() == 1 { x.mul(&w) } else { x.matmul(&w) };
        out(bias.map_or(y.clone(), |b| y.add(cast(&b.0))))
    }
    /// Every product of an element of this vector and one of another.
    fn outer(&self, other: TensorArg) -> PyResult<PyTensor> {
        out(self.0.outer(&other.0))
    }
    /// The Kronecker product.
    fn kron(&self, other: TensorArg) -> PyResult<PyTensor> {
        out(self.0.kron(&other.0))
    }
    /// The sum of the diagonal.
    fn trace(&self) -> PyResult<PyTensor> {
        out(self.0.trace())
    }
    /// Einstein's summation: ``Tensor.einsum("ij,jk->ik", a, b)``.
    #[staticmethod]
    #[pyo3(signature = (formula, *operands, dtype=None))]
    fn einsum(formula: &str, operands: &Bound<'_, PyTuple>, dtype: Option<DTypeArg>) -> PyResult<PyTensor> {
        let cast = |t: Tensor| dtype.as_ref().map_or(t.clone(), |d| t.cast(d.0));
        let all: Vec<Tensor> = tensors(operands)?.into_iter().map(cast).collect();
        out(Tensor::einsum(formula, &all.iter().collect::<Vec<_>>()))
    }
    /// Q and R with Q R this, Q orthogonal (complete, as tinygrad's; "reduced" leaves out what R multiplies by 0).
    #[pyo3(signature = (mode="complete"))]
    fn qr(&self, mode: &str) -> PyResult<(PyTensor, PyTensor)> {
        pair(match mode {
            "complete" => self.0.qr_complete(),
            "reduced" => self.0.qr(),
            m => {
                return Err(PyRuntimeError::new_err(format!(
                    "qr: mode must be 'complete' or 'reduced', not {m:?}"
                )));
            }
        })
    }
    /// U, S and V^T with U S V^T this.
    #[pyo3(signature = (full_matrices=true))]
    fn svd(
        &self,
        #[pyo3(from_py_with = truth)] full_matrices: bool,
    ) -> PyResult<(PyTensor, PyTensor, PyTensor)> {
        let (u, s, v) = self.0.svd(full_matrices);
        Ok((out(u)?, out(s)?, out(v)?))
    }
    /// The singular values, the greatest first.
    fn svdvals(&self) -> PyResult<PyTensor> {
        out(self.0.svd(false).1)
    }
    /// Multiplied with itself n times; of the inverse, where n is negative.
    fn matrix_power(&self, n: i64) -> PyResult<PyTensor> {
        out(self.0.matrix_power(n))
    }
    /// The lower triangle L with L L^T this.
    #[pyo3(signature = (upper=false))]
    fn cholesky(&self, #[pyo3(from_py_with = truth)] upper: bool) -> PyResult<PyTensor> {
        let l = self.0.cholesky();
        out(if upper { l.transpose(-2, -1) } else { l })
    }
    /// The matrix that undoes this one.
    fn inverse(&self) -> PyResult<PyTensor> {
        out(self.0.inverse())
    }
    /// The matrix that undoes this one.
    fn inv(&self) -> PyResult<PyTensor> {
        out(self.0.inverse())
    }
    /// X with A X = B, this being A.
    #[pyo3(name = "solve")]
    fn solve_for(&self, b: TensorArg) -> PyResult<PyTensor> {
        out(self.0.solve(&b.0))
    }
    /// X with A X = B, this being a triangular A.
    #[pyo3(signature = (b, *, upper=false, left=true, unitriangular=false))]
    fn solve_triangular(
        &self,
        b: TensorArg,
        #[pyo3(from_py_with = truth)] upper: bool,
        #[pyo3(from_py_with = truth)] left: bool,
        #[pyo3(from_py_with = truth)] unitriangular: bool,
    ) -> PyResult<PyTensor> {
        let mut how = if upper { Triangular::upper() } else { Triangular::lower() };
        if unitriangular {
            how = how.unit();
        }
        // X A = B is A^T X^T = B^T
        out(match left {
            true => self.0.triangular_solve(&b.0, how),
            false => self.0.triangular_solve(&b.0.transpose(-2, -1), how.transposed()).transpose(-2, -1),
        })
    }
    /// X that brings A X nearest to B, this being A.
    fn lstsq(&self, b: TensorArg) -> PyResult<PyTensor> {
        out(self.0.lstsq(&b.0))
    }
    /// The determinant.
    fn det(&self) -> PyResult<PyTensor> {
        out(self.0.det())
    }
    /// The sign and the logarithm of the magnitude of the determinant.
    fn slogdet(&self) -> PyResult<(PyTensor, PyTensor)> {
        pair(self.0.slogdet())
    }
    /// Brought towards the nearest orthogonal matrix by steps of a polynomial.
    #[pyo3(signature = (steps, params, eps=1e-7))]
    fn newton_schulz(&self, steps: i64, params: Vec<f64>, eps: f64) -> PyResult<PyTensor> {
        let steps = count(steps, "steps")?;
        out(self.0.newton_schulz(steps, &params, eps))
    }
}
