//! Normalisation over the batch or over the features.

use super::filled;
use crate::{Module, is_training};
use frit_tensor::{Error, Tensor};

/// Normalises each channel over the batch and all places: (N, C, ..).
///
/// While training it uses the batch's own mean and variance and lets the running ones follow, as graph: they are
/// computed with the optimiser's next step. Elsewhere it uses the running ones.
#[derive(Module)]
pub struct BatchNorm {
    /// (C,)
    pub weight: Tensor,
    /// (C,)
    pub bias: Tensor,
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
            weight: filled(&[channels], 1.0).requires_grad(true),
            bias: filled(&[channels], 0.0).requires_grad(true),
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
    /// (N, C, ..) -> (N, C, ..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("batchnorm");
        if x.check().is_ok() && (x.rank() < 2 || x.shape()[1] != self.weight.shape()[0]) {
            let message = format!("expected (N, {}, ..), got {}", self.weight.shape()[0], x.shape());
            return Tensor::failed(Error::new("batchnorm", message));
        }
        let (mean, var) = if is_training() {
            let axes: Vec<isize> = (0..x.rank() as isize).filter(|a| *a != 1).collect();
            let (var, mean) = x.var_mean(axes, 0);
            self.follow(x, &mean, &var);
            (mean, var)
        } else {
            (self.running_mean.clone(), self.running_var.clone())
        };
        x.batchnorm(Some(&self.weight), Some(&self.bias), &mean, &(var + self.eps).rsqrt())
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

/// Normalises over the last dims.
#[derive(Module)]
pub struct LayerNorm {
    /// The normalised dims; one scale for each element
    pub weight: Tensor,
    /// The same dims
    pub bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    /// Over the last dims, which are `dims`; torch's eps 1e-5.
    #[track_caller]
    pub fn new(dims: impl AsRef<[usize]>) -> LayerNorm {
        let _c = frit_tensor::call("layernorm");
        let dims = dims.as_ref();
        LayerNorm {
            weight: filled(dims, 1.0).requires_grad(true),
            bias: filled(dims, 0.0).requires_grad(true),
            eps: 1e-5,
        }
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> LayerNorm {
        self.eps = eps;
        self
    }
    /// (.., dims) -> (.., dims)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("layernorm");
        let n = self.weight.rank();
        let (given, own) = (x.shape(), self.weight.shape());
        if x.check().is_ok() && (x.rank() < n || given.as_slice()[x.rank() - n..] != *own.as_slice()) {
            let message = format!("expected (.., {own}), got {given}");
            return Tensor::failed(Error::new("layernorm", message));
        }
        let axes: Vec<isize> = (1..=n as isize).map(|a| -a).collect();
        x.layernorm(axes, Some(&self.weight), Some(&self.bias), self.eps)
    }
}
