//! Muon (Jordan et al. 2024): momentum made orthogonal, for the matrices of hidden layers.

use super::{Optimizer, Params, has_params, remember};
use crate::Module;
use frit_tensor::{Error, Result, Tensor};

/// ```text
/// b = momentum * b + (1 - momentum) * g
/// u = momentum * b + (1 - momentum) * g      Nesterov;  b  without
/// p = p * (1 - lr * weight_decay) - lr * sqrt(max(1, rows / columns)) * orthogonal(u)
/// ```
///
/// `orthogonal` is five steps of a Newton-Schulz iteration, in float32. A tensor of more dims counts as the matrix of
/// its first dim and all others.
pub struct Muon {
    params: Params,
    velocity: Vec<Tensor>,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
}

/// The quintic that drives singular values towards 1 fastest from near 0.
const QUINTIC: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// How often it is applied.
const STEPS: usize = 5;

impl Muon {
    /// Optimises the parameters of a module, each of two dims or more; torch's defaults: momentum 0.95 with Nesterov's
    /// look ahead, weight decay 0.1.
    #[track_caller]
    pub fn new(module: &(impl Module + ?Sized), lr: f64) -> Result<Muon> {
        let _c = frit_tensor::call("muon");
        let params = Params::new("muon", module, lr)?;
        if let Some((name, p)) = params.names.iter().zip(&params.parameters).find(|(_, p)| p.rank() < 2) {
            let message =
                format!("parameter {name:?} of shape {} is not a matrix; give it to another", p.shape());
            return Err(Error::new("muon", message));
        }
        let velocity = params.zeros();
        Ok(Muon { params, velocity, momentum: 0.95, nesterov: true, weight_decay: 0.1 })
    }
    /// How much of the last step goes into the next.
    pub fn momentum(mut self, momentum: f64) -> Muon {
        self.momentum = momentum;
        self
    }
    /// Takes the momentum as it is.
    pub fn without_nesterov(mut self) -> Muon {
        self.nesterov = false;
        self
    }
    /// How much parameters are drawn to zero.
    pub fn weight_decay(mut self, decay: f64) -> Muon {
        self.weight_decay = decay;
        self
    }
}

impl Optimizer for Muon {
    has_params!();
    fn update(&self, i: usize, value: &Tensor, grad: &Tensor) -> Tensor {
        let (velocity, lr) = (&self.velocity[i], &self.params.lr_tensor);
        let mix = |b: &Tensor| b * self.momentum + grad * (1.0 - self.momentum);
        let b = remember(velocity, mix(velocity));
        let u = (if self.nesterov { mix(&b) } else { b }).flatten(1, -1);
        let shape = u.shape();
        let (rows, columns) = (shape[0].get() as f64, shape[1].get() as f64);
        let scale = (rows / columns.max(1.0)).max(1.0).sqrt();
        let direction = u.newton_schulz(STEPS, &QUINTIC, 1e-7);
        value - value * (lr * self.weight_decay) - direction.reshape(value.shape()) * (lr * scale)
    }
    fn slots(&self) -> Vec<(&'static str, &[Tensor])> {
        vec![("momentum_buffer", &self.velocity)]
    }
}
