//! Activation functions. None makes NaN from a number, finite or not, in value or gradient; 16-bit types are computed
//! in float32 and rounded once.

use crate::elementwise::to_float;
use crate::error::call;
use crate::shape::axis;
use crate::tensor::Tensor;
use crate::trace::{Composite, noted};
use crate::{DType, keepdim};
use frit_uop::Alu;
use std::f64::consts as c;

impl Tensor {
    /// x where positive, else 0; the gradient at 0 is 0.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        let _c = call("relu");
        let y = self.map(|x| {
            let zero = x.const_like(0);
            Ok(zero.lt(x).or_(&x.ne_(x)).select(x, &zero))
        });
        noted(|| Composite::Relu, &[Some(self)], y)
    }
    /// relu, at most 6.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        let _c = call("relu6");
        self.relu().clamp_max(6)
    }
    /// x where positive, else `slope * x`.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        let _c = call("leaky_relu");
        self.gt(0).where_(self, self * slope)
    }
    /// x where positive, else `alpha * (exp(x) - 1)`.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        let _c = call("elu");
        self.in_f32(|x| {
            let positive = x.gt(0);
            positive.where_(x, positive.where_(0.0, x).expm1() * alpha)
        })
    }
    /// elu scaled so that the slope is continuous: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        let _c = call("celu");
        self.in_f32(|x| {
            let positive = x.gt(0);
            positive.where_(x, (positive.where_(0.0, x) / alpha).expm1() * alpha)
        })
    }
    /// The self-normalising elu.
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        let _c = call("selu");
        self.in_f32(|x| x.elu(1.6732632423543772) * 1.0507009873554805)
    }
    /// 1 / (1 + exp(-x)).
    #[track_caller]
    pub fn sigmoid(&self) -> Tensor {
        let _c = call("sigmoid");
        self.map(|x| Ok(to_float(x).un(Alu::Sigmoid)))
    }
    /// log(sigmoid(x)).
    #[track_caller]
    pub fn logsigmoid(&self) -> Tensor {
        let _c = call("logsigmoid");
        -(-self).softplus()
    }
    /// log(1 + exp(x)).
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        let _c = call("softplus");
        self.in_f32(|x| {
            let negative = x.lt(0);
            let e = negative.where_(x, -x).exp();
            negative.where_(0.0, x) + e.log1p()
        })
    }
    /// x / (1 + |x|).
    #[track_caller]
    pub fn softsign(&self) -> Tensor {
        let _c = call("softsign");
        self.in_f32(|x| {
            // so far out it is 1, also of infinity
            let x = x.clamp(-1e30, 1e30);
            &x / (x.abs() + 1.0)
        })
    }
    /// x times a function that is 0 at minus infinity and 1 at infinity, and flat beyond 1000: its argument is cut there,
    /// so that neither the value nor the gradient is 0 times infinity.
    #[track_caller]
    fn gated(&self, gate: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        self.in_f32(|x| {
            let x = x.maximum(-1000.0);
            &x * gate(&x.minimum(1000.0))
        })
    }
    /// x * sigmoid(x).
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        let _c = call("silu");
        self.gated(|x| x.sigmoid())
    }
    /// The same as [`Tensor::silu`].
    #[track_caller]
    pub fn swish(&self) -> Tensor {
        self.silu()
    }
    /// x * tanh(softplus(x)).
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        let _c = call("mish");
        self.gated(|x| x.softplus().tanh())
    }
    /// x times the normal distribution function at x, exactly.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        let _c = call("gelu");
        let y = self.gated(|x| (x * -c::FRAC_1_SQRT_2).erfc() * 0.5);
        noted(|| Composite::Gelu { tanh: false }, &[Some(self)], y)
    }
    /// The tanh approximation of [`Tensor::gelu`].
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        let _c = call("gelu_tanh");
        // (1 + tanh(u)) / 2 is sigmoid(2u)
        let twice = 2.0 * c::FRAC_2_SQRT_PI * c::FRAC_1_SQRT_2;
        let y = self.gated(|x| ((x.square() * 0.044715 + 1.0) * x * twice).sigmoid());
        noted(|| Composite::Gelu { tanh: true }, &[Some(self)], y)
    }
    /// x * sigmoid(1.702 x).
    #[track_caller]
    pub fn quick_gelu(&self) -> Tensor {
        let _c = call("quick_gelu");
        self.gated(|x| (x * 1.702).sigmoid())
    }
    /// x / 6 + 1 / 2 between 0 and 1.
    #[track_caller]
    pub fn hardsigmoid(&self) -> Tensor {
        let _c = call("hardsigmoid");
        self.in_f32(|x| (x / 6.0 + 0.5).clamp(0.0, 1.0))
    }
    /// x * hardsigmoid(x).
    #[track_caller]
    pub fn hardswish(&self) -> Tensor {
        let _c = call("hardswish");
        self.gated(|x| (x + 3.0).relu6() / 6.0)
    }
    /// Between -1 and 1.
    #[track_caller]
    pub fn hardtanh(&self) -> Tensor {
        let _c = call("hardtanh");
        self.clamp(-1.0, 1.0)
    }
    /// x where positive, else `weight * x`: one weight, or one for each channel (dim 1).
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        let _c = call("prelu");
        let behind = self.rank().saturating_sub(2);
        let w = match weight.rank() {
            1 if self.rank() > 1 => (0..behind).fold(weight.clone(), |w, _| w.unsqueeze(-1)),
            _ => weight.clone(),
        };
        self.gt(0).where_(self, self * w)
    }
    /// The first half along an axis times the sigmoid of the second.
    #[track_caller]
    pub fn glu(&self, dim: isize) -> Tensor {
        let _c = call("glu");
        let halves = self.chunk(2, dim);
        match &halves[..] {
            [a, b] => a * b.sigmoid(),
            _ => {
                let m = format!("shape {} has no two halves along axis {dim}", self.shape());
                Tensor::failed(self.check().err().unwrap_or_else(|| crate::Error::new("glu", m)))
            }
        }
    }
    /// x where it is above `at`, else `value`.
    #[track_caller]
    pub fn threshold(&self, at: f64, value: f64) -> Tensor {
        let _c = call("threshold");
        self.gt(at).where_(self, value)
    }
    /// 0 where |x| is at most `at`.
    #[track_caller]
    pub fn hardshrink(&self, at: f64) -> Tensor {
        let _c = call("hardshrink");
        self.abs().le(at).where_(0.0, self)
    }
    /// x brought nearer to 0 by `by`, where it does not pass it.
    #[track_caller]
    pub fn softshrink(&self, by: f64) -> Tensor {
        let _c = call("softshrink");
        self.gt(by).where_(self - by, self.lt(-by).where_(self + by, 0.0))
    }
    /// x - tanh(x).
    #[track_caller]
    pub fn tanhshrink(&self) -> Tensor {
        let _c = call("tanhshrink");
        self - self.tanh()
    }
    /// exp(x) over its sum along the axis, by the greatest element so that nothing overflows.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let p = Tensor::new([[0.0, 0.0], [1000.0, 0.0]]).softmax(-1);
    /// assert_eq!(p.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: isize) -> Tensor {
        let _c = call("softmax");
        let y = self.along(dim, "softmax", |x, dim| {
            if x.shape()[dim].as_int() == Some(0) {
                return x.clone();
            }
            let e = (x - x.max(keepdim(dim)).detach()).exp();
            // one division a row
            &e * e.sum(keepdim(dim)).reciprocal()
        });
        noted(|| Composite::Softmax(dim), &[Some(self)], y)
    }
    /// log(softmax(x)), without the detour.
    #[track_caller]
    pub fn log_softmax(&self, dim: isize) -> Tensor {
        let _c = call("log_softmax");
        let y = self.along(dim, "log_softmax", |x, dim| {
            if x.shape()[dim].as_int() == Some(0) {
                return x.clone();
            }
            let d = x - x.max(keepdim(dim)).detach();
            &d - d.exp().sum(keepdim(dim)).log()
        });
        noted(|| Composite::LogSoftmax(dim), &[Some(self)], y)
    }
    /// softmax(-x).
    #[track_caller]
    pub fn softmin(&self, dim: isize) -> Tensor {
        let _c = call("softmin");
        (-self).softmax(dim)
    }
    /// `f` along a checked axis in at least float32; a scalar counts as one element.
    #[track_caller]
    pub(crate) fn along(
        &self,
        dim: isize,
        op: &'static str,
        f: impl FnOnce(&Tensor, isize) -> Tensor,
    ) -> Tensor {
        let u = match self.uop() {
            Ok(u) => u,
            Err(e) => return Tensor::failed(e),
        };
        if u.shape().is_empty() && matches!(dim, 0 | -1) {
            return self.reshape([1]).along(dim, op, f).reshape(());
        }
        match axis(op, dim, u.shape().len()) {
            Err(e) => Tensor::failed(e),
            Ok(a) if u.dtype.is_small_float() => f(&self.cast(DType::F32), a as isize).cast(u.dtype),
            Ok(a) => f(&self.map(|x| Ok(crate::elementwise::to_float(x))), a as isize),
        }
    }
}
