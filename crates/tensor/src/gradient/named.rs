//! Functions whose gradient is better taken from their results than from the steps that made them.

use crate::linalg::{factor, solve};
use crate::tensor::Tensor;

/// From inputs, results and the gradients of the results (`None` where nothing depends on one): the gradients of the
/// inputs.
pub(crate) type Rule = fn(&[Tensor], &[Tensor], &[Option<Tensor>]) -> Vec<Option<Tensor>>;

/// Every named function.
const RULES: &[(&str, Rule)] = &[
    ("cholesky", factor::cholesky_gradient),
    ("det", solve::det_gradient),
    ("inverse", solve::inverse_gradient),
    ("qr", factor::qr_gradient),
    ("qr_complete", factor::qr_complete_gradient),
    ("slogdet", solve::slogdet_gradient),
    ("solve", solve::solve_gradient),
    ("svd", factor::svd_gradient),
    ("triangular_solve", solve::triangular_gradient),
];

/// The rule of a named loop.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    RULES.iter().find(|(n, _)| *n == name).map(|(_, r)| *r)
}
