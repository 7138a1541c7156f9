//! Powers and polynomials of matrices.

use super::Matrices;
use crate::error::{Result, call, fail};
use crate::shape::keepdim;
use crate::tensor::Tensor;

impl Tensor {
    /// A square matrix multiplied with itself n times; of the inverse, where n is negative.
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Tensor {
        let _c = call("matrix_power");
        let rows = match self.square_rows() {
            Ok(r) => r,
            Err(e) => return Tensor::failed(e),
        };
        let mut base = if n < 0 { self.inverse() } else { self.clone() };
        let (mut left, mut product) = (n.unsigned_abs(), None::<Tensor>);
        while left > 0 {
            if left & 1 == 1 {
                product = Some(product.map_or_else(|| base.clone(), |p| p.matmul(&base)));
            }
            left >>= 1;
            if left > 0 {
                base = base.matmul(&base);
            }
        }
        product.unwrap_or_else(|| super::identity_like(self, rows, rows))
    }
    fn square_rows(&self) -> Result<usize> {
        let x = self.uop()?;
        match x.shape() {
            [.., r, c] if r == c => Ok(crate::movement::fixed("matrix_power", r)? as usize),
            _ => fail!("matrix_power", "of shape {}, not square", self.shape()),
        }
    }
    /// Newton and Schulz's iteration towards the nearest orthogonal matrix: divided by its norm (plus `eps`), then
    /// `steps` times `X = sum of params[i] (X X^T)^i X`. Muon's parameters are `[3.4445, -4.7750, 2.0315]`.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[3.0, 0.0], [0.0, 2.0]]).newton_schulz(20, &[1.5, -0.5], 1e-7);
    /// assert!((x.trace().item::<f32>()? - 2.0).abs() < 1e-3);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn newton_schulz(&self, steps: usize, params: &[f64], eps: f64) -> Tensor {
        let _c = call("newton_schulz");
        let m = match Matrices::of("newton_schulz", self) {
            Ok(m) => m,
            Err(e) => return Tensor::failed(e),
        };
        if params.is_empty() {
            return Tensor::of(fail!("newton_schulz", "a polynomial without parameters"));
        }
        let x = &m.x / (m.x.square().sum(keepdim([-2, -1])).sqrt() + eps);
        // the smaller of the two products
        let is_tall = m.rows > m.cols;
        let x = if is_tall { x.t() } else { x };
        let last = Tensor::fori(steps, &[&x], |_, c| {
            let square = c[0].matmul(&c[0].t());
            let highest = &c[0] * params[params.len() - 1];
            let horner = |sum: Tensor, p: &f64| square.matmul(&sum) + &c[0] * *p;
            vec![params[..params.len() - 1].iter().rev().fold(highest, horner)]
        });
        let x = if is_tall { last[0].t() } else { last[0].clone() };
        x.cast(m.dtype)
    }
}
