//! Losses of classes and of values. All give the mean unless the name or an option says otherwise.

use crate::error::{Error, call};
use crate::shape::Dim;
use crate::tensor::Tensor;

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
    /// Their sum over the size of the first dim.
    BatchMean,
}

/// Options of [`Tensor::cross_entropy_with`] and [`Tensor::nll_loss`].
#[derive(Clone, Debug, Default)]
pub struct CrossEntropy {
    /// This much of the target is spread evenly over all classes.
    pub label_smoothing: f64,
    /// A class that does not count, neither in the sum nor in the mean.
    pub ignore_index: Option<i64>,
    /// How much each class counts; the mean of class indices is by these weights.
    pub weight: Option<Tensor>,
    /// Mean, sum or neither.
    pub reduction: Reduction,
}

/// Options of [`Tensor::bce_loss`] and [`Tensor::bce_with_logits_loss`].
#[derive(Clone, Debug, Default)]
pub struct Bce {
    /// How much each element counts.
    pub weight: Option<Tensor>,
    /// How much a positive target counts; for scores only.
    pub pos_weight: Option<Tensor>,
    /// Mean, sum or neither.
    pub reduction: Reduction,
}

impl Tensor {
    #[track_caller]
    pub(crate) fn finish(self, r: Reduction) -> Tensor {
        match r {
            Reduction::Mean => self.mean(..),
            Reduction::Sum => self.sum(..),
            Reduction::None => self,
            Reduction::BatchMean => {
                let sum = self.sum(..);
                if self.rank() == 0 { sum } else { sum / self.shape()[0].tensor() }
            }
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
        let logp = self.log_softmax(class_dim);
        if !target.dtype().is_float() {
            return nll("cross_entropy", &logp, target, class_dim, o);
        }
        if target.shape() != self.shape() {
            return mismatch("cross_entropy", self, target);
        }
        let n = self.shape()[class_dim].tensor().cast(target.dtype());
        let t = target * (1.0 - o.label_smoothing) + n.reciprocal() * o.label_smoothing;
        let logp = match &o.weight {
            Some(w) => logp * per_class(w, self, class_dim),
            None => logp,
        };
        (-(logp * t).sum(class_dim)).finish(o.reduction)
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
        self.mse_loss_with(target, Reduction::Mean)
    }
    /// Squared difference.
    #[track_caller]
    pub fn mse_loss_with(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let _c = call("mse_loss");
        (self - target).square().finish(reduction)
    }
    /// Mean absolute difference.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Tensor {
        self.l1_loss_with(target, Reduction::Mean)
    }
    /// Absolute difference.
    #[track_caller]
    pub fn l1_loss_with(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let _c = call("l1_loss");
        (self - target).abs().finish(reduction)
    }
    /// Squared near zero, absolute beyond `delta`; the mean.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64) -> Tensor {
        self.huber_loss_with(target, delta, Reduction::Mean)
    }
    /// Squared near zero, absolute beyond `delta`.
    #[track_caller]
    pub fn huber_loss_with(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        let _c = call("huber_loss");
        if delta.is_nan() || delta <= 0.0 {
            return Tensor::failed(Error::new("huber_loss", format!("delta {delta} is not positive")));
        }
        let d = (self - target).abs();
        d.lt(delta).where_(d.square() * 0.5, (&d - 0.5 * delta) * delta).finish(reduction)
    }
    /// [`Tensor::huber_loss`] divided by `beta`.
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64) -> Tensor {
        self.smooth_l1_loss_with(target, beta, Reduction::Mean)
    }
    /// [`Tensor::huber_loss_with`] divided by `beta`; the absolute difference where that is 0.
    #[track_caller]
    pub fn smooth_l1_loss_with(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Tensor {
        let _c = call("smooth_l1_loss");
        if beta == 0.0 {
            return self.l1_loss_with(target, reduction);
        }
        self.huber_loss_with(target, beta, reduction) / beta
    }
    /// Cross-entropy of probabilities with targets in [0, 1]; logarithms are at least -100.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor) -> Tensor {
        let _c = call("binary_cross_entropy");
        self.bce_loss(target, Bce::default())
    }
    /// [`Tensor::binary_cross_entropy`] with options.
    #[track_caller]
    pub fn bce_loss(&self, target: &Tensor, o: Bce) -> Tensor {
        let _c = call("bce_loss");
        if o.pos_weight.is_some() {
            let m = "pos_weight is for scores; use bce_with_logits_loss";
            return Tensor::failed(Error::new("bce_loss", m));
        }
        let (a, b) = (self.log().clamp_min(-100.0), (1.0 - self).log().clamp_min(-100.0));
        weighted(-(target * a + (1.0 - target) * b), &o)
    }
    /// Cross-entropy of scores with targets in [0, 1], through the sigmoid, without overflow.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor) -> Tensor {
        let _c = call("binary_cross_entropy_with_logits");
        self.bce_with_logits_loss(target, Bce::default())
    }
    /// [`Tensor::binary_cross_entropy_with_logits`] with options.
    #[track_caller]
    pub fn bce_with_logits_loss(&self, target: &Tensor, o: Bce) -> Tensor {
        let _c = call("bce_with_logits_loss");
        let each = match &o.pos_weight {
            // (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x))
            Some(p) => (1.0 - target) * self + ((p - 1.0) * target + 1.0) * (-self).softplus(),
            None => self.softplus() - self * target,
        };
        weighted(each, &o)
    }
    /// Kullback-Leibler divergence of log-probabilities from target probabilities; the mean over the first dim.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor) -> Tensor {
        self.kl_div_with(target, false, Reduction::BatchMean)
    }
    /// Kullback-Leibler divergence of log-probabilities from target probabilities, or from their logarithms.
    #[track_caller]
    pub fn kl_div_with(&self, target: &Tensor, log_target: bool, reduction: Reduction) -> Tensor {
        let _c = call("kl_div");
        if log_target {
            return (target.exp() * (target - self)).finish(reduction);
        }
        let positive = target.gt(0);
        let t = positive.where_(target, 1.0);
        positive.where_(&t * (t.log() - self), 0.0).finish(reduction)
    }
}

#[track_caller]
fn mismatch(op: &'static str, a: &Tensor, b: &Tensor) -> Tensor {
    let message = format!("scores of shape {} and targets of shape {}", a.shape(), b.shape());
    Tensor::failed(Error::new(op, message))
}

fn weighted(each: Tensor, o: &Bce) -> Tensor {
    let each = match &o.weight {
        Some(w) => each * w,
        None => each,
    };
    each.finish(o.reduction)
}

/// A weight for each class, along the class dim of `x`; a wrong number of them fails in the product.
fn per_class(w: &Tensor, x: &Tensor, class_dim: isize) -> Tensor {
    let mut dims = vec![Dim::from(1); x.rank()];
    dims[class_dim as usize] = x.shape()[class_dim].clone();
    w.reshape(dims)
}

fn nll(op: &'static str, logp: &Tensor, target: &Tensor, class_dim: isize, o: CrossEntropy) -> Tensor {
    let mut want: Vec<Dim> = logp.shape().as_slice().to_vec();
    if want.is_empty() {
        return mismatch(op, logp, target);
    }
    let classes = want.remove(class_dim as usize);
    if target.shape().as_slice() != &want[..] {
        return mismatch(op, logp, target);
    }
    if !target.dtype().is_int() {
        return Tensor::failed(Error::new(op, format!("class indices of {}", target.dtype())));
    }
    // an index that the type of the targets cannot hold ignores none of them
    let holds =
        |i: &i64| target.dtype().int_range().is_none_or(|(lo, hi)| (lo..=hi).contains(&i128::from(*i)));
    let counted = o.ignore_index.filter(holds).map(|i| target.ne(i));
    let index = match &counted {
        Some(c) => c.where_(target, 0),
        None => target.clone(),
    };
    // a class does not count from the end: where it is negative, ask for one that is not there
    let index =
        if index.dtype().is_unsigned() { index } else { index.lt(0).where_(classes.tensor(), &index) };
    let weight = match &o.weight {
        Some(w) if w.rank() != 1 || !w.shape()[0].is_equal(&classes).unwrap_or(false) => {
            let m = format!("weights of shape {} for {classes} classes", w.shape());
            return Tensor::failed(w.check().err().unwrap_or_else(|| Error::new(op, m)));
        }
        Some(w) => Some(w.embedding(&index)),
        None => None,
    };
    let mut each = -logp.gather(class_dim, &index.unsqueeze(class_dim)).squeeze(class_dim);
    if let Some(w) = &weight {
        each = each * w;
    }
    if o.label_smoothing != 0.0 {
        let all = match &o.weight {
            Some(w) => (logp * per_class(w, logp, class_dim)).mean(class_dim),
            None => logp.mean(class_dim),
        };
        each = each * (1.0 - o.label_smoothing) - all * o.label_smoothing;
    }
    if let Some(c) = &counted {
        each = c.where_(each, 0.0);
    }
    let total = match (&weight, &counted) {
        (Some(w), Some(c)) => c.where_(w, 0.0).sum(..),
        (Some(w), None) => w.sum(..),
        (None, Some(c)) => c.sum(..).cast(each.dtype()),
        (None, None) => return each.finish(o.reduction),
    };
    match o.reduction {
        Reduction::Mean => each.sum(..) / total,
        r => each.finish(r),
    }
}
