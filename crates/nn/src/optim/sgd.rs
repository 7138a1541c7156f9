//! Gradient descent, with the values torch gives.

use super::{Optimizer, Params};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// g = g + weight_decay * p
/// b = momentum * b + g                 with momentum
/// p = p - lr * (g + momentum * b)      Nesterov;  p - lr * b  with momentum;  p - lr * g  without
/// ```
pub struct Sgd {
    params: Params,
    velocity: Vec<Tensor>,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
}

impl Sgd {
    /// Optimises the parameters of a module.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Sgd> {
        let _c = frit_tensor::call("sgd");
        let params = Params::new("sgd", module, lr)?;
        Ok(Sgd { params, velocity: Vec::new(), momentum: 0.0, nesterov: false, weight_decay: 0.0 })
    }
    /// How much of the last step goes into the next.
    pub fn momentum(mut self, momentum: f64) -> Sgd {
        self.momentum = momentum;
        self.velocity = if momentum == 0.0 { Vec::new() } else { self.params.zeros() };
        self
    }
    /// Looks ahead along the momentum.
    pub fn nesterov(mut self) -> Sgd {
        self.nesterov = true;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Sgd {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for Sgd {
    fn params(&self) -> &Params {
        &self.params
    }
    fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let mut grad = grad.clone();
        if self.weight_decay != 0.0 {
            grad = &grad + value * self.weight_decay;
        }
        if let Some(velocity) = self.velocity.get(i) {
            let v = velocity * self.momentum + &grad;
            velocity.assign(&v);
            grad = if self.nesterov { grad + v * self.momentum } else { v };
        }
        value - grad * &self.params.lr_tensor
    }
    fn state(&self) -> Vec<&Tensor> {
        self.velocity.iter().collect()
    }
}
