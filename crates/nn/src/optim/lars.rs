//! LARS (You et al. 2017): momentum with steps in proportion to each parameter's length, for large batches.

use super::{Optimizer, Params, has_params, length, remember};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// s = trust * |p| / (|g| + weight_decay * |p|)     1 where a length is 0
/// b = momentum * b + lr * s * (g + weight_decay * p)
/// p = p - b
/// ```
pub struct Lars {
    params: Params,
    velocity: Vec<Tensor>,
    momentum: f64,
    weight_decay: f64,
    trust: f64,
}

impl Lars {
    /// Optimises the parameters of a module, with momentum 0.9, weight decay 1e-4 and trust 0.001.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Lars> {
        let _c = frit_tensor::call("lars");
        let params = Params::new("lars", module, lr)?;
        let velocity = params.zeros();
        Ok(Lars { params, velocity, momentum: 0.9, weight_decay: 1e-4, trust: 1e-3 })
    }
    /// How much of the last step goes into the next.
    pub fn momentum(mut self, momentum: f64) -> Lars {
        self.momentum = momentum;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Lars {
        self.weight_decay = decay;
        self
    }
    /// How much of its own length a parameter may move.
    pub fn trust(mut self, trust: f64) -> Lars {
        self.trust = trust;
        self
    }
}

impl Optimizer for Lars {
    has_params!();
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let (of_value, of_grad) = (length(value), length(grad));
        let known = of_value.gt(0.0).logical_and(of_grad.gt(0.0));
        let below = known.where_(of_grad + &of_value * self.weight_decay, 1.0);
        let scale = known.where_(of_value * self.trust / below, 1.0);
        let change = (grad + value * self.weight_decay) * (scale * &self.params.lr_tensor);
        let velocity = &self.velocity[i];
        value - remember(velocity, velocity * self.momentum + change)
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        vec![("momentum_buffer", &self.velocity)]
    }
}
