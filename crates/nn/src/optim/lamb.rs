//! LAMB (You et al. 2019): Adam with steps in proportion to each parameter's length, for large batches.

use super::{Optimizer, Params, bias_correction, has_params, length, remember, scalar_beside};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// m = beta1 * m + (1 - beta1) * g
/// v = beta2 * v + (1 - beta2) * g * g
/// r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * p
/// p = p - lr * |p| / |r| * r                 with 1 for the ratio where a length is 0
/// ```
pub struct Lamb {
    params: Params,
    m: Vec<Tensor>,
    v: Vec<Tensor>,
    steps: Tensor,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
}

impl Lamb {
    /// Optimises the parameters of a module, with betas 0.9 and 0.999 and eps 1e-6.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Lamb> {
        let _c = frit_tensor::call("lamb");
        let params = Params::new("lamb", module, lr)?;
        let (m, v, steps) = (params.zeros(), params.zeros(), scalar_beside(&params.lr_tensor, 0.0));
        Ok(Lamb { params, m, v, steps, beta1: 0.9, beta2: 0.999, eps: 1e-6, weight_decay: 0.0 })
    }
    /// How slowly the means of the gradient and of its square follow.
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Lamb {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }
    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> Lamb {
        self.eps = eps;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Lamb {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for Lamb {
    has_params!();
    fn begin(&self) {
        self.steps.assign(&self.steps + 1.0);
    }
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let m = remember(&self.m[i], &self.m[i] * self.beta1 + grad * (1.0 - self.beta1));
        let v = remember(&self.v[i], &self.v[i] * self.beta2 + grad.square() * (1.0 - self.beta2));
        let m = m / bias_correction(&self.steps, self.beta1);
        let v = v / bias_correction(&self.steps, self.beta2);
        let r = m / (v.sqrt() + self.eps) + value * self.weight_decay;
        let (of_value, of_r) = (length(value), length(&r));
        let known = of_value.gt(0.0).logical_and(of_r.gt(0.0));
        let ratio = known.where_(of_value / known.where_(&of_r, 1.0), 1.0);
        value - r * (ratio * &self.params.lr_tensor)
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        vec![("exp_avg", &self.m), ("exp_avg_sq", &self.v)]
    }
    fn steps(&self) -> Option<&Tensor> {
        Some(&self.steps)
    }
}
