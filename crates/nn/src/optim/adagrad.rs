//! Adagrad, with the values torch gives.

use super::{Optimizer, Params, has_params, remember, scalar_beside};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// g = g + weight_decay * p
/// s = s + g * g
/// p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)
/// ```
pub struct Adagrad {
    params: Params,
    sum: Vec<Tensor>,
    steps: Tensor,
    lr_decay: f64,
    eps: f64,
    weight_decay: f64,
}

impl Adagrad {
    /// Optimises the parameters of a module, with torch's default: eps 1e-10.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Adagrad> {
        let _c = frit_tensor::call("adagrad");
        let params = Params::new("adagrad", module, lr)?;
        let (sum, steps) = (params.zeros(), scalar_beside(&params.lr_tensor, 0.0));
        Ok(Adagrad { params, sum, steps, lr_decay: 0.0, eps: 1e-10, weight_decay: 0.0 })
    }
    /// How fast the learning rate falls with the steps.
    pub fn lr_decay(mut self, decay: f64) -> Adagrad {
        self.lr_decay = decay;
        self
    }
    /// What the sums of squares start with.
    pub fn initial_accumulator(mut self, value: f64) -> Adagrad {
        self.sum = self.params.filled(value);
        self
    }
    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> Adagrad {
        self.eps = eps;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Adagrad {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for Adagrad {
    has_params!();
    fn begin(&self) {
        self.steps.assign(&self.steps + 1.0);
    }
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let mut grad = grad.clone();
        if self.weight_decay != 0.0 {
            grad = &grad + value * self.weight_decay;
        }
        let sum = remember(&self.sum[i], &self.sum[i] + grad.square());
        let rate = &self.params.lr_tensor / ((&self.steps - 1.0) * self.lr_decay + 1.0);
        value - rate * (grad / (sum.sqrt() + self.eps))
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        vec![("sum", &self.sum)]
    }
    fn steps(&self) -> Option<&Tensor> {
        Some(&self.steps)
    }
}
