//! Normalisation over the features of one sample.

use super::filled;
use crate::Module;
use frit_tensor::{Error, Result, Tensor};

/// Normalises over the last dims.
#[derive(Module)]
pub struct LayerNorm {
    /// The normalised dims; one scale for each element
    pub weight: Option<Tensor>,
    /// The same dims
    pub bias: Option<Tensor>,
    #[module(skip)]
    dims: Vec<usize>,
    eps: f64,
}

impl LayerNorm {
    /// Over the last dims, which are `dims`; torch's eps 1e-5.
    #[track_caller]
    pub fn new(dims: impl AsRef<[usize]>) -> LayerNorm {
        let _c = frit_tensor::call("layernorm");
        let dims = dims.as_ref();
        LayerNorm { weight: ones(dims), bias: zeros(dims), dims: dims.to_vec(), eps: 1e-5 }
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> LayerNorm {
        self.eps = eps;
        self
    }
    /// Scales without a shift.
    pub fn without_bias(mut self) -> LayerNorm {
        self.bias = None;
        self
    }
    /// Normalises only: no scale and no shift.
    pub fn without_affine(mut self) -> LayerNorm {
        (self.weight, self.bias) = (None, None);
        self
    }
    /// (.., dims) -> (.., dims)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("layernorm");
        match last_axes("layernorm", x, &self.dims) {
            Ok(axes) => x.layernorm(axes, self.weight.as_ref(), self.bias.as_ref(), self.eps),
            Err(e) => Tensor::failed(e),
        }
    }
}

/// Normalises over the channels at each place of an image: (N, C, rows, columns).
#[derive(Module)]
pub struct LayerNorm2d {
    /// (C,)
    pub weight: Option<Tensor>,
    /// (C,)
    pub bias: Option<Tensor>,
    channels: usize,
    eps: f64,
}

impl LayerNorm2d {
    /// For `channels` channels; eps 1e-6, as in the networks that use it.
    #[track_caller]
    pub fn new(channels: usize) -> LayerNorm2d {
        let _c = frit_tensor::call("layernorm2d");
        LayerNorm2d { weight: ones(&[channels]), bias: zeros(&[channels]), channels, eps: 1e-6 }
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> LayerNorm2d {
        self.eps = eps;
        self
    }
    /// Normalises only: no scale and no shift.
    pub fn without_affine(mut self) -> LayerNorm2d {
        (self.weight, self.bias) = (None, None);
        self
    }
    /// (N, C, rows, columns) -> the same
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("layernorm2d");
        if let Err(e) = channels("layernorm2d", x, self.channels, 4) {
            return Tensor::failed(e);
        }
        let last = x.permute([0, 2, 3, 1]);
        last.layernorm(-1, self.weight.as_ref(), self.bias.as_ref(), self.eps).permute([0, 3, 1, 2])
    }
}

/// Divides by the root of the mean square over the last dims.
#[derive(Module)]
pub struct RmsNorm {
    /// The normalised dims
    pub weight: Option<Tensor>,
    #[module(skip)]
    dims: Vec<usize>,
    eps: f64,
}

impl RmsNorm {
    /// Over the last dims, which are `dims`; torch's eps, the distance from 1 to the next float32.
    #[track_caller]
    pub fn new(dims: impl AsRef<[usize]>) -> RmsNorm {
        let _c = frit_tensor::call("rmsnorm");
        let dims = dims.as_ref();
        RmsNorm { weight: ones(dims), dims: dims.to_vec(), eps: f32::EPSILON as f64 }
    }
    /// Added to the mean square.
    pub fn eps(mut self, eps: f64) -> RmsNorm {
        self.eps = eps;
        self
    }
    /// Normalises only: no scale.
    pub fn without_affine(mut self) -> RmsNorm {
        self.weight = None;
        self
    }
    /// (.., dims) -> (.., dims)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("rmsnorm");
        match last_axes("rmsnorm", x, &self.dims) {
            Ok(axes) => x.rmsnorm(axes, self.weight.as_ref(), self.eps),
            Err(e) => Tensor::failed(e),
        }
    }
}

/// Normalises groups of channels of each sample over all places: (N, C, ..).
#[derive(Module)]
pub struct GroupNorm {
    /// (C,)
    pub weight: Option<Tensor>,
    /// (C,)
    pub bias: Option<Tensor>,
    groups: usize,
    channels: usize,
    eps: f64,
}

impl GroupNorm {
    /// `channels` channels in `groups` groups; torch's eps 1e-5.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> GroupNorm {
        let _c = frit_tensor::call("groupnorm");
        let (mut weight, bias) = (ones(&[channels]), zeros(&[channels]));
        if groups == 0 || !channels.is_multiple_of(groups) {
            let message = format!("{channels} channels do not divide into {groups} groups");
            weight = Some(Tensor::failed(Error::new("groupnorm", message)));
        }
        GroupNorm { weight, bias, groups, channels, eps: 1e-5 }
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> GroupNorm {
        self.eps = eps;
        self
    }
    /// Normalises only: no scale and no shift.
    pub fn without_affine(mut self) -> GroupNorm {
        (self.weight, self.bias) = (None, None);
        self
    }
    /// (N, C, ..) -> (N, C, ..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("groupnorm");
        match channels("groupnorm", x, self.channels, 2) {
            Ok(()) => x.groupnorm(self.groups, self.weight.as_ref(), self.bias.as_ref(), self.eps),
            Err(e) => Tensor::failed(e),
        }
    }
}

/// Normalises each channel of each sample over all places: (N, C, ..).
#[derive(Module)]
pub struct InstanceNorm {
    /// (C,)
    pub weight: Option<Tensor>,
    /// (C,)
    pub bias: Option<Tensor>,
    channels: usize,
    eps: f64,
}

impl InstanceNorm {
    /// For `channels` channels, without scale and shift, as torch's; eps 1e-5.
    pub fn new(channels: usize) -> InstanceNorm {
        InstanceNorm { weight: None, bias: None, channels, eps: 1e-5 }
    }
    /// With a scale and a shift for each channel.
    #[track_caller]
    pub fn affine(mut self) -> InstanceNorm {
        let _c = frit_tensor::call("instancenorm");
        (self.weight, self.bias) = (ones(&[self.channels]), zeros(&[self.channels]));
        self
    }
    /// Added to the variance.
    pub fn eps(mut self, eps: f64) -> InstanceNorm {
        self.eps = eps;
        self
    }
    /// (N, C, ..) -> (N, C, ..)
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _c = frit_tensor::call("instancenorm");
        match channels("instancenorm", x, self.channels, 3) {
            Ok(()) => x.instancenorm(self.weight.as_ref(), self.bias.as_ref(), self.eps),
            Err(e) => Tensor::failed(e),
        }
    }
}

fn ones(dims: &[usize]) -> Option<Tensor> {
    Some(filled(dims, 1.0).requires_grad(true))
}

fn zeros(dims: &[usize]) -> Option<Tensor> {
    Some(filled(dims, 0.0).requires_grad(true))
}

/// The last axes of `x`, if they have the sizes `dims`.
fn last_axes(op: &'static str, x: &Tensor, dims: &[usize]) -> Result<Vec<isize>> {
    x.check()?;
    let (n, given) = (dims.len(), x.shape());
    if x.rank() < n || given.as_slice()[x.rank() - n..].iter().zip(dims).any(|(a, b)| *a != *b) {
        return Err(Error::new(op, format!("expected (.., {dims:?}), got {given}")));
    }
    Ok((1..=n as isize).map(|a| -a).collect())
}

/// Whether `x` has `rank` dims or more, of which the second counts `channels`.
fn channels(op: &'static str, x: &Tensor, channels: usize, rank: usize) -> Result<()> {
    x.check()?;
    if x.rank() < rank || x.shape()[1] != channels {
        let places = if rank > 2 { "places.." } else { ".." };
        return Err(Error::new(op, format!("expected (N, {channels}, {places}), got {}", x.shape())));
    }
    Ok(())
}
