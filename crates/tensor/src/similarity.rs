//! How alike two things are, and losses by distances and by likelihood of a distribution.

use crate::creation::float_of;
use crate::error::{Error, call};
use crate::loss::Reduction;
use crate::norm::wide;
use crate::tensor::Tensor;
use frit_uop::promote;

/// Something of two in float32 or wider, so that squares of small floats do not overflow, given in the type the two
/// meet in.
fn in_float32(a: &Tensor, b: &Tensor, f: impl FnOnce(&Tensor, &Tensor) -> Tensor) -> Tensor {
    if let Err(e) = a.check().and_then(|_| b.check()) {
        return Tensor::failed(e);
    }
    let met = promote::promote(a.dtype(), b.dtype()).map_or(a.dtype(), float_of);
    f(&wide(a), &wide(b)).cast(met)
}

impl Tensor {
    /// The cosine of the angle between vectors along an axis; lengths count as at least `eps`.
    #[track_caller]
    pub fn cosine_similarity(&self, o: &Tensor, dim: isize, eps: f64) -> Tensor {
        let _c = call("cosine_similarity");
        in_float32(self, o, |a, b| {
            let length = |x: &Tensor| x.norm(2.0, dim).clamp_min(eps);
            (a * b).sum(dim) / (length(a) * length(b))
        })
    }
    /// The distance between vectors along the last axis: the p-norm of the difference, `eps` added to each element.
    #[track_caller]
    pub fn pairwise_distance(&self, o: &Tensor, p: f64, eps: f64) -> Tensor {
        let _c = call("pairwise_distance");
        in_float32(self, o, |a, b| (a - b + eps).norm(p, -1))
    }
    /// Of pairs of vectors (last axis) that are alike (`target` 1) or not (-1): `1 - cos`, or what the cosine is above
    /// `margin`.
    #[track_caller]
    pub fn cosine_embedding_loss(&self, o: &Tensor, target: &Tensor, margin: f64, r: Reduction) -> Tensor {
        let _c = call("cosine_embedding_loss");
        // torch's lengths: 1e-12 inside the root
        let sum = |a: &Tensor, b: &Tensor| (a * b).sum(-1);
        let cos = in_float32(self, o, |a, b| sum(a, b) / ((sum(a, a) + 1e-12) * (sum(b, b) + 1e-12)).sqrt());
        let apart = (&cos - margin).relu();
        let each = target.eq(1).where_(1.0 - cos, target.eq(-1).where_(apart, 0.0));
        each.finish(r)
    }
    /// Of distances (this) of pairs that are alike (`target` 1) or not (-1): the distance, or what it is below `margin`.
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, r: Reduction) -> Tensor {
        let _c = call("hinge_embedding_loss");
        let near = target.ne(1).where_((margin - self).relu(), 0.0);
        let far = target.ne(-1).where_(self, 0.0);
        (near + far).finish(r)
    }
    /// That this ranks above `o` (`target` 1) or below (-1) by `margin`.
    #[track_caller]
    pub fn margin_ranking_loss(&self, o: &Tensor, target: &Tensor, margin: f64, r: Reduction) -> Tensor {
        let _c = call("margin_ranking_loss");
        (-target * (self - o) + margin).relu().finish(r)
    }
    /// `log(1 + exp(-target * x))` with targets 1 and -1.
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, r: Reduction) -> Tensor {
        let _c = call("soft_margin_loss");
        (-target * self).softplus().finish(r)
    }
    /// That this is nearer (p-norm along the last axis) to `positive` than to `negative` by `margin`.
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        margin: f64,
        p: f64,
        r: Reduction,
    ) -> Tensor {
        let _c = call("triplet_margin_loss");
        let (near, far) =
            (self.pairwise_distance(positive, p, 1e-6), self.pairwise_distance(negative, p, 1e-6));
        (near - far + margin).relu().finish(r)
    }
    /// Negative log-likelihood of counts under a Poisson distribution whose rate is `exp(x)` (`log_input`) or x; without
    /// the term of the target alone.
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor, log_input: bool, eps: f64, r: Reduction) -> Tensor {
        let _c = call("poisson_nll_loss");
        let each = match log_input {
            true => self.exp() - target * self,
            false => self - target * (self + eps).log(),
        };
        each.finish(r)
    }
    /// Negative log-likelihood of values under a normal distribution of this mean and `var`, at least `eps`; without the
    /// constant.
    #[track_caller]
    pub fn gaussian_nll_loss(&self, target: &Tensor, var: &Tensor, eps: f64, r: Reduction) -> Tensor {
        let _c = call("gaussian_nll_loss");
        if eps.is_nan() || eps <= 0.0 {
            return Tensor::failed(Error::new("gaussian_nll_loss", format!("eps {eps} is not positive")));
        }
        // the limit is for the value only: torch passes the gradient through it
        let v = var + (var.clamp_min(eps) - var).detach();
        ((v.log() + (self - target).square() / &v) * 0.5).finish(r)
    }
}
