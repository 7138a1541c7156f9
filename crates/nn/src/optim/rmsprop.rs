//! RMSprop, with the values torch gives.

use super::{Optimizer, Params, has_params, remember};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// g = g + weight_decay * p
/// v = alpha * v + (1 - alpha) * g * g
/// a = a + (1 - alpha) * (g - a)              centred
/// s = g / (sqrt(v) + eps)                    centred: sqrt(v - a * a)
/// b = momentum * b + s                       with momentum
/// p = p - lr * b                             p - lr * s  without
/// ```
pub struct RmsProp {
    params: Params,
    square: Vec<Tensor>,
    mean: Vec<Tensor>,
    velocity: Vec<Tensor>,
    alpha: f64,
    eps: f64,
    momentum: f64,
    weight_decay: f64,
}

impl RmsProp {
    /// Optimises the parameters of a module, with torch's defaults: alpha 0.99, eps 1e-8.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<RmsProp> {
        let _c = frit_tensor::call("rmsprop");
        let params = Params::new("rmsprop", module, lr)?;
        let (square, mean, velocity) = (params.zeros(), Vec::new(), Vec::new());
        Ok(RmsProp {
            params,
            square,
            mean,
            velocity,
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            weight_decay: 0.0,
        })
    }
    /// How slowly the mean square follows.
    pub fn alpha(mut self, alpha: f64) -> RmsProp {
        self.alpha = alpha;
        self
    }
    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> RmsProp {
        self.eps = eps;
        self
    }
    /// How much of the last step goes into the next.
    pub fn momentum(mut self, momentum: f64) -> RmsProp {
        self.momentum = momentum;
        self.velocity = if momentum == 0.0 { Vec::new() } else { self.params.zeros() };
        self
    }
    /// Divides by the deviation in place of the root of the mean square.
    pub fn centered(mut self) -> RmsProp {
        self.mean = self.params.zeros();
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> RmsProp {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for RmsProp {
    has_params!();
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let mut grad = grad.clone();
        if self.weight_decay != 0.0 {
            grad = &grad + value * self.weight_decay;
        }
        let square =
            remember(&self.square[i], &self.square[i] * self.alpha + grad.square() * (1.0 - self.alpha));
        let spread = match self.mean.get(i) {
            Some(mean) => square - remember(mean, mean + (&grad - mean) * (1.0 - self.alpha)).square(),
            None => square,
        };
        let mut change = grad / (spread.sqrt() + self.eps);
        if let Some(velocity) = self.velocity.get(i) {
            change = remember(velocity, velocity * self.momentum + change);
        }
        value - change * &self.params.lr_tensor
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        let all =
            [("square_avg", &self.square[..]), ("grad_avg", &self.mean), ("momentum_buffer", &self.velocity)];
        all.into_iter().filter(|(_, tensors)| !tensors.is_empty()).collect()
    }
}
