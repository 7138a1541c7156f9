//! Lion (Chen et al. 2023): the sign of a mean of gradients.

use super::{Optimizer, Params, has_params};
use crate::Module;
use frit_tensor::{Result, Tensor};

/// ```text
/// u = sign(beta1 * m + (1 - beta1) * g)
/// p = p * (1 - lr * weight_decay) - lr * u
/// m = beta2 * m + (1 - beta2) * g
/// ```
pub struct Lion {
    params: Params,
    m: Vec<Tensor>,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
}

impl Lion {
    /// Optimises the parameters of a module, with betas 0.9 and 0.99.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Lion> {
        let _c = frit_tensor::call("lion");
        let params = Params::new("lion", module, lr)?;
        let m = params.zeros();
        Ok(Lion { params, m, beta1: 0.9, beta2: 0.99, weight_decay: 0.0 })
    }
    /// How much the mean counts against the gradient, and how slowly it follows.
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Lion {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Lion {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for Lion {
    has_params!();
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let (m, lr) = (&self.m[i], &self.params.lr_tensor);
        let sign = (m * self.beta1 + grad * (1.0 - self.beta1)).sign();
        m.assign(m * self.beta2 + grad * (1.0 - self.beta2));
        let value = match self.weight_decay {
            0.0 => value.clone(),
            decay => value - value * (lr * decay),
        };
        value - sign * lr
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        vec![("exp_avg", &self.m)]
    }
}
