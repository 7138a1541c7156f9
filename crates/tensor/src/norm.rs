//! Normalisation.

use crate::conv::Window;
use crate::creation::float_of;
use crate::error::{Error, call};
use crate::shape::{Axes, keepdim};
use crate::tensor::Tensor;
use crate::trace::{Composite, noted};
use frit_uop::DType;

/// At least float32, for sums of squares.
pub(crate) fn wide(x: &Tensor) -> Tensor {
    let d = float_of(x.dtype());
    x.cast(if d.is_small_float() { DType::F32 } else { d })
}

impl Tensor {
    /// Mean 0 and variance 1 over the axes, then scaled and shifted.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let y = Tensor::new([[1.0, 3.0]]).layernorm(-1, None, None, 0.0);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn layernorm(
        &self,
        axes: impl Into<Axes>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        let _c = call("layernorm");
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        let (axes, x) = (axes.into(), wide(self));
        let d = &x - x.mean(keepdim(axes.clone()));
        let y = &d * (d.square().mean(keepdim(axes.clone())) + eps).rsqrt();
        let y = affine(y, weight, bias).cast(float_of(self.dtype()));
        let what = || Composite::LayerNorm { axes: positions(&axes, self), eps };
        noted(what, &[Some(self), weight, bias], y)
    }
    /// Divided by the root of the mean square over the axes, then scaled.
    #[track_caller]
    pub fn rmsnorm(&self, axes: impl Into<Axes>, weight: Option<&Tensor>, eps: f64) -> Tensor {
        let _c = call("rmsnorm");
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        let (axes, x) = (axes.into(), wide(self));
        let y = &x * (x.square().mean(keepdim(axes.clone())) + eps).rsqrt();
        let y = affine(y, weight, None).cast(float_of(self.dtype()));
        noted(|| Composite::RmsNorm { axes: positions(&axes, self), eps }, &[Some(self), weight], y)
    }
    /// `(x - mean) * invstd * weight + bias`, all for each channel (dim 1).
    #[track_caller]
    pub fn batchnorm(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        mean: &Tensor,
        invstd: &Tensor,
    ) -> Tensor {
        let _c = call("batchnorm");
        let rank = self.rank();
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        if rank < 2 {
            let m = format!("shape {} has no channels (dim 1)", self.shape());
            return Tensor::failed(Error::new("batchnorm", m));
        }
        let per_channel = |t: &Tensor| {
            let n = t.shape()[0].clone();
            let mut d = vec![crate::Dim::from(1); rank];
            if let Some(c) = d.get_mut(1) {
                *c = n;
            }
            t.reshape(d)
        };
        let scale = match weight {
            Some(w) => per_channel(&(invstd * w)),
            None => per_channel(invstd),
        };
        let y = (wide(self) - per_channel(mean)) * scale;
        let y = match bias {
            Some(b) => y + per_channel(b),
            None => y,
        };
        let y = y.cast(float_of(self.dtype()));
        noted(|| Composite::BatchNorm, &[Some(self), weight, bias, Some(mean), Some(invstd)], y)
    }
    /// Channels (dim 1) in groups, each of mean 0 and variance 1 with the spatial dims, then scaled and shifted for
    /// each channel.
    #[track_caller]
    pub fn groupnorm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        let _c = call("groupnorm");
        let s = self.shape();
        let y = self.reshape((&s[0], groups, -1)).layernorm(-1, None, None, eps).reshape(&s);
        let per_channel = |t: &Tensor| {
            let mut d = vec![crate::Dim::from(1); s.rank().max(2)];
            d[1] = s[1].clone();
            t.reshape(d)
        };
        let y = affine(y, weight.map(per_channel).as_ref(), bias.map(per_channel).as_ref());
        noted(|| Composite::GroupNorm { groups, eps }, &[Some(self), weight, bias], y)
    }
    /// Each channel (dim 1) of mean 0 and variance 1 over its spatial dims.
    #[track_caller]
    pub fn instancenorm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        let _c = call("instancenorm");
        self.groupnorm(self.shape()[1].get(), weight, bias, eps)
    }
    /// Divided by the p-norm over the axes, or by `eps` where that is more.
    #[track_caller]
    pub fn normalize(&self, p: f64, axes: impl Into<Axes>, eps: f64) -> Tensor {
        let _c = call("normalize");
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        let x = wide(self);
        (&x / x.norm(p, keepdim(axes)).clamp_min(eps)).cast(float_of(self.dtype()))
    }
    /// Divided by `(k + alpha * s)^beta`, `s` being the mean square over `size` neighbouring channels (dim 1), zeros
    /// outside.
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        let _c = call("local_response_norm");
        if let Err(e) = self.check() {
            return Tensor::failed(e);
        }
        if self.rank() < 3 || size == 0 {
            let m = format!("over {size} channels (dim 1) of shape {}", self.shape());
            return Tensor::failed(Error::new("local_response_norm", m));
        }
        let x = wide(self);
        let around = Window::new().stride(1).pads(&[(size / 2, (size - 1) / 2)]);
        let mean = x.square().movedim(1, -1).avg_pool(&[size], around).movedim(-1, 1);
        (&x / (mean * alpha + k).pow(beta)).cast(float_of(self.dtype()))
    }
}

/// The axes of a tensor that was computed over them, ascending.
fn positions(axes: &Axes, x: &Tensor) -> Vec<usize> {
    axes.resolve("norm", x.rank()).map(|a| a.to_vec()).unwrap_or_default()
}

fn affine(y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Tensor {
    let y = match weight {
        Some(w) => y * w,
        None => y,
    };
    match bias {
        Some(b) => y + b,
        None => y,
    }
}
