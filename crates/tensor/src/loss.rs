//! Losses. All give the mean unless the name or an option says otherwise.

use crate::error::{Error, call};
use crate::tensor::Tensor;
use frit_uop::DType;

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They stay.
    None,
}

/// Options of [`Tensor::cross_entropy_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossEntropy {
    /// This much of the target is spread evenly over all classes.
    pub label_smoothing: f64,
    /// A class that does not count, neither in the sum nor in the mean.
    pub ignore_index: Option<i64>,
    /// Mean, sum or neither.
    pub reduction: Reduction,
}

impl Tensor {
    #[track_caller]
    fn finish(self, r: Reduction) -> Tensor {
        match r {
            Reduction::Mean => self.mean(..),
            Reduction::Sum => self.sum(..),
            Reduction::None => self,
        }
    }
    /// Cross-entropy of scores (`N, C` or `N, C, spatial…`) with class indices (`N` or `N, spatial…`), or with
    /// probabilities of the scores' shape; the mean.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let loss = Tensor::new([[0.0, 0.0]]).cross_entropy(&Tensor::new([1])).item::<f32>()?;
    /// assert!((loss - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Tensor {
        let _c = call("cross_entropy");
        self.cross_entropy_with(target, CrossEntropy::default())
    }
    /// [`Tensor::cross_entropy`] with options.
    #[track_caller]
    pub fn cross_entropy_with(&self, target: &Tensor, o: CrossEntropy) -> Tensor {
        let _c = call("cross_entropy");
        if let Err(e) = self.check().and(target.check()) {
            return Tensor::failed(e);
        }
        let class_dim: isize = if self.rank() > 1 { 1 } else { 0 };
        if target.dtype().is_float() {
            if target.shape() != self.shape() {
                return mismatch("cross_entropy", self, target);
            }
            let n = self.shape()[class_dim].get() as f64;
            let t = target * (1.0 - o.label_smoothing) + o.label_smoothing / n;
            let each = -(self.log_softmax(class_dim) * t).sum(class_dim);
            return each.finish(o.reduction);
        }
        let logp = self.log_softmax(class_dim);
        nll("cross_entropy", &logp, target, class_dim, o)
    }
    /// Negative log-likelihood: like cross-entropy, of log-probabilities.
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, o: CrossEntropy) -> Tensor {
        let _c = call("nll_loss");
        if let Err(e) = self.check().and(target.check()) {
            return Tensor::failed(e);
        }
        nll("nll_loss", self, target, if self.rank() > 1 { 1 } else { 0 }, o)
    }
    /// Mean squared difference.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Tensor {
        let _c = call("mse_loss");
        (self - target).square().mean(..)
    }
    /// Mean absolute difference.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Tensor {
        let _c = call("l1_loss");
        (self - target).abs().mean(..)
    }
    /// Squared near zero, absolute beyond `delta`; the mean.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64) -> Tensor {
        let _c = call("huber_loss");
        let d = (self - target).abs();
        d.lt(delta).where_(d.square() * 0.5, (&d - 0.5 * delta) * delta).mean(..)
    }
    /// [`Tensor::huber_loss`] divided by `beta`.
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64) -> Tensor {
        let _c = call("smooth_l1_loss");
        if beta == 0.0 { self.l1_loss(target) } else { self.huber_loss(target, beta) / beta }
    }
    /// Cross-entropy of probabilities with targets in [0, 1]; logarithms are at least -100.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor) -> Tensor {
        let _c = call("binary_cross_entropy");
        let (a, b) = (self.log().clamp_min(-100.0), (1.0 - self).log().clamp_min(-100.0));
        -(target * a + (1.0 - target) * b).mean(..)
    }
    /// Cross-entropy of scores with targets in [0, 1], through the sigmoid, without overflow.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor) -> Tensor {
        let _c = call("binary_cross_entropy_with_logits");
        (self.softplus() - self * target).mean(..)
    }
    /// Kullback-Leibler divergence of log-probabilities from target probabilities; the mean over the first dim.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor) -> Tensor {
        let _c = call("kl_div");
        let positive = target.gt(0);
        let t = positive.where_(target, 1.0);
        let each = positive.where_(&t * (t.log() - self), 0.0);
        let n = match self.shape()[0].value() {
            Ok(n) => n as f64,
            Err(e) => return Tensor::failed(e),
        };
        each.sum(..) / n
    }
}

#[track_caller]
fn mismatch(op: &'static str, a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::failed(Error::new(
        op,
        format!("scores of shape {} and targets of shape {}", a.shape(), b.shape()),
    ))
}

fn nll(op: &'static str, logp: &Tensor, target: &Tensor, class_dim: isize, o: CrossEntropy) -> Tensor {
    let mut want: Vec<crate::Dim> = logp.shape().as_slice().to_vec();
    want.remove(class_dim as usize);
    if target.shape().as_slice() != &want[..] {
        return mismatch(op, logp, target);
    }
    if target.dtype() == DType::Bool {
        return Tensor::failed(Error::new(op, "class indices of bools"));
    }
    let counted = o.ignore_index.map(|i| target.ne(i));
    let index = match &counted {
        Some(c) => c.where_(target, 0),
        None => target.clone(),
    };
    let mut each = -logp.gather(class_dim, &index.unsqueeze(class_dim)).squeeze(class_dim);
    if o.label_smoothing != 0.0 {
        each = each * (1.0 - o.label_smoothing) - logp.mean(class_dim) * o.label_smoothing;
    }
    match &counted {
        None => each.finish(o.reduction),
        Some(c) => {
            let each = c.where_(each, 0.0);
            match o.reduction {
                Reduction::Mean => each.sum(..) / c.sum(..).cast(each.dtype()),
                r => each.finish(r),
            }
        }
    }
}
