//! Adam and AdamW, with the values torch gives.

use super::{Optimizer, Params, scalar_beside};
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
        Ok(AdamFamily { params, m, v, steps, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay })
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
    /// 1 - beta^t, by way of `expm1`: the plain form loses four digits in float32.
    fn bias_correction(&self, beta: f64) -> Tensor {
        -(&self.steps * beta.ln()).expm1()
    }
}

impl<const DECOUPLED: bool> Optimizer for AdamFamily<DECOUPLED> {
    fn params(&self) -> &Params {
        &self.params
    }
    fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }
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
        let m = &self.m[i] + (&grad - &self.m[i]) * (1.0 - self.beta1);
        let v = &self.v[i] * self.beta2 + grad.square() * (1.0 - self.beta2);
        self.m[i].assign(&m);
        self.v[i].assign(&v);
        let rate = lr / self.bias_correction(self.beta1);
        let scale = v.sqrt() / self.bias_correction(self.beta2).sqrt() + self.eps;
        value - rate * (m / scale)
    }
    fn state(&self) -> Vec<&Tensor> {
        self.m.iter().chain(&self.v).chain([&self.steps]).collect()
    }
}
