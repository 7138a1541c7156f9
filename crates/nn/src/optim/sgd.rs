//! Gradient descent, with the values torch gives.

use super::{Optimizer, Params, has_params, remember, scalar_beside};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// g = g + weight_decay * p
/// b = momentum * b + (1 - dampening) * g     with momentum; at the first step b = g
/// p = p - lr * (g + momentum * b)            Nesterov;  p - lr * b  with momentum;  p - lr * g  without
/// ```
pub struct Sgd {
    params: Params,
    velocity: Vec<Tensor>,
    /// How many steps were made, with dampening: the first is another.
    steps: Option<Tensor>,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
}

impl Sgd {
    /// Optimises the parameters of a module.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Sgd> {
        let _c = frit_tensor::call("sgd");
        let params = Params::new("sgd", module, lr)?;
        let (velocity, steps) = (Vec::new(), None);
        Ok(Sgd { params, velocity, steps, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 })
    }
    /// How much of the last step goes into the next.
    pub fn momentum(mut self, momentum: f64) -> Sgd {
        self.momentum = momentum;
        self.velocity = if momentum == 0.0 { Vec::new() } else { self.params.zeros() };
        self
    }
    /// How much of a gradient does not go into the momentum.
    pub fn dampening(mut self, dampening: f64) -> Sgd {
        self.dampening = dampening;
        self.steps = (dampening != 0.0).then(|| scalar_beside(&self.params.lr_tensor, 0.0));
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
    has_params!();
    fn begin(&self) {
        if let Some(steps) = &self.steps {
            steps.assign(steps + 1.0);
        }
    }
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let mut grad = grad.clone();
        if self.weight_decay != 0.0 {
            grad = &grad + value * self.weight_decay;
        }
        if let Some(velocity) = self.velocity.get(i) {
            let part = match &self.steps {
                Some(steps) => &grad * steps.le(1.0).where_(1.0, 1.0 - self.dampening),
                None => grad.clone(),
            };
            let v = remember(velocity, velocity * self.momentum + part);
            grad = if self.nesterov { grad + v * self.momentum } else { v };
        }
        value - grad * &self.params.lr_tensor
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        if self.velocity.is_empty() { Vec::new() } else { vec![("momentum_buffer", &self.velocity)] }
    }
    fn steps(&self) -> Option<&Tensor> {
        self.steps.as_ref()
    }
}
