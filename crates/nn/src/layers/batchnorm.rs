//! Normalisation over the batch.

use super::filled;
use crate::{Module, is_training};
use frit_tensor::{DType, Error, Tensor};

/// Normalises each channel over the batch and all places: (N, C, ..).
///
/// While training it uses the batch's own mean and variance and lets the running ones follow, as graph: they are
/// computed with the optimiser's next step. Elsewhere it uses the running ones.
#[derive(Module)]
pub struct BatchNorm {
    /// (C,)
    pub weight: Option<Tensor>,
    /// (C,)
    pub bias: Option<Tensor>,
    /// (C,), not trained
    pub running_mean: Tensor,
    /// (C,), not trained
    pub running_var: Tensor,
    /// How many batches the running values have seen; an int64 scalar
    pub num_batches_tracked: Tensor,
    eps: f64,
    momentum: f64,
}

impl BatchNorm {
    /// For `channels` channels, with torch's eps 1e-5 and momentum 0.1.
    #[track_caller]
    pub fn new(channels: usize) -> BatchNorm {
        let _c = frit_tensor::call("batchnorm");
        BatchNorm {
            weight: Some(filled(&[channels], 1.0).requires_grad(true)),
            bias: Some(filled(&[channels], 0.0).requires_grad(true)),
            running_mean: filled(&[channels], 0.0),
            running_var: filled(&[channels], 1.0),
            num_batches_tracked: Tensor::from_vec([0i64], ()),
            eps: 1e-5,
            momentum: 0.1,
        }
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> BatchNorm {
        self.eps = eps;
        self
    }
    /// How much of each batch goes into the running values.
    pub fn momentum(mut self, momentum: f64) -> BatchNorm {
        self.momentum = momentum;
        self
    }
    /// Normalises only: no scale and no shift.
    pub fn without_affine(mut self) -> BatchNorm {
        (self.weight, self.bias) = (None, None);
        self
    }
    /// (N, C, ..) -> (N, C, ..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("batchnorm");
        let channels = self.running_mean.shape();
        if x.check().is_ok() && (x.rank() < 2 || x.shape()[1] != channels[0]) {
            let message = format!("expected (N, {}, ..), got {}", channels[0], x.shape());
            return Tensor::failed(Error::new("batchnorm", message));
        }
        let (mean, var) = if is_training() {
            let axes: Vec<isize> = (0..x.rank() as isize).filter(|a| *a != 1).collect();
            let (var, mean) = wide(x).var_mean(axes, 0);
            self.follow(x, &mean, &var);
            (mean, var)
        } else {
            (wide(&self.running_mean), wide(&self.running_var))
        };
        x.batchnorm(self.weight.as_ref(), self.bias.as_ref(), &mean, &(var + self.eps).rsqrt())
    }
    /// Moves the running values towards this batch's; the variance is the unbiased one.
    fn follow(&self, x: &Tensor, mean: &Tensor, var: &Tensor) {
        let count = x.shape().numel() / &x.shape()[1];
        let count = count.get() as f64;
        let unbiased = var * (count / (count - 1.0).max(1.0));
        let towards =
            |old: &Tensor, new: &Tensor| old + (new.detach().cast(old.dtype()) - old) * self.momentum;
        self.running_mean.assign(towards(&self.running_mean, mean));
        self.running_var.assign(towards(&self.running_var, &unbiased));
        self.num_batches_tracked.assign(&(&self.num_batches_tracked + 1));
    }
}

/// At least float32: squares of what smaller floats hold overflow them.
fn wide(x: &Tensor) -> Tensor {
    if x.dtype().is_small_float() { x.cast(DType::F32) } else { x.clone() }
}
