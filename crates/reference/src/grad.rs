//! Gradients without calculus.

use crate::array::Array;

/// Gradient of the scalar `f` with respect to `inputs[which]`, by central differences of width `eps`.
///
/// Good to about `eps²` plus `1e-16 / eps` of the size of `f`; `1e-5` gives nine digits for smooth `f`.
/// At a kink it gives the mean of the two slopes.
pub fn finite_difference(f: &dyn Fn(&[Array]) -> f64, inputs: &[Array], which: usize, eps: f64) -> Array {
    let mut inputs = inputs.to_vec();
    let mut grad = Array::zeros(&inputs[which].shape);
    for i in 0..grad.numel() {
        let x = inputs[which].data[i];
        inputs[which].data[i] = x + eps;
        let above = f(&inputs);
        inputs[which].data[i] = x - eps;
        let below = f(&inputs);
        inputs[which].data[i] = x;
        grad.data[i] = (above - below) / (2.0 * eps);
    }
    grad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_of_a_product_is_the_other_factor() {
        let inputs = [Array::new(&[2], [3., -4.]), Array::new(&[2], [5., 7.])];
        let dot = |x: &[Array]| x[0].mul(&x[1]).data.iter().sum();
        let grad = finite_difference(&dot, &inputs, 0, 1e-5);
        assert!(grad.data.iter().zip([5., 7.]).all(|(g, want)| (g - want).abs() < 1e-9));
    }

    #[test]
    fn gradient_of_exp_is_exp() {
        let inputs = [Array::scalar(1.0)];
        let grad = finite_difference(&|x| x[0].exp().item(), &inputs, 0, 1e-5);
        assert_eq!(grad.shape, [0usize; 0]);
        assert!((grad.item() - 1f64.exp()).abs() < 1e-9);
    }
}
