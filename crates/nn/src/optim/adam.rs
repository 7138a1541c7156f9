//! Adam and AdamW, with the values torch gives.

use super::{Optimizer, Params, bias_correction, has_params, remember, scalar_beside};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// Adaptive moments; weight decay, if any, is added to the gradient.
pub type Adam = AdamFamily<false>;
/// Adam whose weight decay (0.01 unless said otherwise) shrinks the parameters directly.
pub type AdamW = AdamFamily<true>;

/// ```text
/// m = m + (g - m) * (1 - beta1)
/// v = v * beta2 + g * g * (1 - beta2)
/// p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// ```
pub struct AdamFamily<const DECOUPLED: bool> {
    params: Params,
    m: Vec<Tensor>,
    v: Vec<Tensor>,
    /// The largest `v` so far, with `amsgrad`.
    largest: Vec<Tensor>,
    /// How many steps were made.
    steps: Tensor,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
}

impl<const DECOUPLED: bool> AdamFamily<DECOUPLED> {
    /// Optimises the parameters of a module, with torch's defaults: betas 0.9 and 0.999, eps 1e-8.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Self> {
        let op = if DECOUPLED { "adamw" } else { "adam" };
        let _c = frit_tensor::call(op);
        let params = Params::new(op, module, lr)?;
        let (m, v) = (params.zeros(), params.zeros());
        let steps = scalar_beside(&params.lr_tensor, 0.0);
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        let (beta1, beta2, eps) = (0.9, 0.999, 1e-8);
        Ok(AdamFamily { params, m, v, largest: Vec::new(), steps, beta1, beta2, eps, weight_decay })
    }
    /// How slowly the means of the gradient and of its square follow.
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }
    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Self {
        self.weight_decay = decay;
        self
    }
    /// Divides by the largest mean square so far, which never falls.
    pub fn amsgrad(mut self) -> Self {
        self.largest = self.params.zeros();
        self
    }
}

impl<const DECOUPLED: bool> Optimizer for AdamFamily<DECOUPLED> {
    has_params!();
    fn begin(&self) {
        self.steps.assign(&(&self.steps + 1.0));
    }
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let (mut value, mut grad) = (value.clone(), grad.clone());
        let lr = &self.params.lr_tensor;
        if self.weight_decay != 0.0 {
            match DECOUPLED {
                true => value = &value - &value * (lr * self.weight_decay),
                false => grad = &grad + &value * self.weight_decay,
            }
        }
        let m = remember(&self.m[i], &self.m[i] + (&grad - &self.m[i]) * (1.0 - self.beta1));
        let v = remember(&self.v[i], &self.v[i] * self.beta2 + grad.square() * (1.0 - self.beta2));
        let square = match self.largest.get(i) {
            Some(largest) => remember(largest, largest.maximum(&v)),
            None => v,
        };
        let rate = lr / bias_correction(&self.steps, self.beta1);
        let scale = square.sqrt() / bias_correction(&self.steps, self.beta2).sqrt() + self.eps;
        value - rate * (m / scale)
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        let all = [("exp_avg", &self.m[..]), ("exp_avg_sq", &self.v), ("max_exp_avg_sq", &self.largest)];
        all.into_iter().filter(|(_, tensors)| !tensors.is_empty()).collect()
    }
    fn steps(&self) -> Option<&Tensor> {
        Some(&self.steps)
    }
}
