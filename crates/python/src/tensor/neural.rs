//! Resizing, norms, attention, losses.

use super::{PyTensor, out, random};
use crate::convert::{Ints, TensorArg, axes, count, truth};
use frit::{
    Attention, Bce, CrossEntropy, Ctc, GridSample, Interpolate, Outside, Reduction, Rope, Sampling, Tensor,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

fn reduction(r: &str) -> PyResult<Reduction> {
    Ok(match r {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        "batchmean" => Reduction::BatchMean,
        _ => return Err(PyValueError::new_err(format!("{r:?} is not a reduction: 'mean', 'sum' or 'none'"))),
    })
}

fn sampling(mode: &str) -> PyResult<Sampling> {
    Ok(match mode {
        "nearest" => Sampling::Nearest,
        "nearest-exact" => Sampling::NearestExact,
        "linear" | "bilinear" | "trilinear" => Sampling::Linear,
        "cubic" | "bicubic" => Sampling::Cubic,
        "area" => Sampling::Area,
        m => {
            return Err(PyValueError::new_err(format!(
                "{m:?} is not a mode: 'nearest', 'nearest-exact', 'linear', 'cubic' or 'area'"
            )));
        }
    })
}

pub(super) fn plain(t: &Option<TensorArg>) -> Option<&Tensor> {
    t.as_ref().map(|t| &t.0)
}
fn owned(t: Option<TensorArg>) -> Option<Tensor> {
    t.map(|t| t.0)
}

#[pymethods]
impl PyTensor {
    /// The last dims resized to size (or by scale_factor).
    #[pyo3(signature = (size=None, mode="linear", align_corners=false, *, scale_factor=None, antialias=false))]
    fn interpolate(
        &self,
        size: Option<Ints>,
        mode: &str,
        #[pyo3(from_py_with = truth)] align_corners: bool,
        scale_factor: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = truth)] antialias: bool,
    ) -> PyResult<PyTensor> {
        let o = Interpolate { mode: sampling(mode)?, align_corners, antialias };
        let n = self.0.rank().saturating_sub(2);
        match (size, scale_factor) {
            (Some(s), None) => {
                let s = s.counts("size")?;
                out(self.0.interpolate(&if s.len() == 1 { vec![s[0]; n.max(1)] } else { s }, o))
            }
            (None, Some(f)) => {
                let f = f.extract::<f64>().map(|f| vec![f; n.max(1)]).or_else(|_| f.extract::<Vec<f64>>())?;
                out(self.0.interpolate_by(&f, o))
            }
            _ => Err(PyValueError::new_err("interpolate: one of size and scale_factor must be given")),
        }
    }
    /// Sampled at places from -1 to 1: this is (N, C, H, W), the grid (N, H', W', 2).
    #[pyo3(signature = (grid, mode="bilinear", padding_mode="zeros", align_corners=false))]
    fn grid_sample(
        &self,
        grid: TensorArg,
        mode: &str,
        padding_mode: &str,
        #[pyo3(from_py_with = truth)] align_corners: bool,
    ) -> PyResult<PyTensor> {
        let outside = match padding_mode {
            "zeros" => Outside::Zeros,
            "border" => Outside::Border,
            "reflection" => Outside::Reflection,
            m => {
                return Err(PyValueError::new_err(format!(
                    "padding_mode must be 'zeros', 'border' or 'reflection', not {m:?}"
                )));
            }
        };
        out(self.0.grid_sample(&grid.0, GridSample { mode: sampling(mode)?, outside, align_corners }))
    }
    /// The grid of an affine map, for grid_sample: this is (N, 2, 3).
    #[pyo3(signature = (size, align_corners=false))]
    fn affine_grid(
        &self,
        size: Ints,
        #[pyo3(from_py_with = truth)] align_corners: bool,
    ) -> PyResult<PyTensor> {
        out(self.0.affine_grid(&size.counts("size")?, align_corners))
    }
    /// Mean 0 and variance 1 over axes.
    #[pyo3(signature = (axis=None, eps=1e-5, weight=None, bias=None), text_signature = "($self, axis=-1, eps=1e-5, weight=None, bias=None)")]
    fn layernorm(
        &self,
        axis: Option<Ints>,
        eps: f64,
        weight: Option<TensorArg>,
        bias: Option<TensorArg>,
    ) -> PyResult<PyTensor> {
        let axis = axis.unwrap_or(Ints(vec![-1]));
        out(self.0.layernorm(axes(Some(axis), false), plain(&weight), plain(&bias), eps))
    }
    /// Mean square 1 over axes.
    #[pyo3(signature = (axis=None, eps=1e-6, weight=None), text_signature = "($self, axis=-1, eps=1e-6, weight=None)")]
    fn rmsnorm(&self, axis: Option<Ints>, eps: f64, weight: Option<TensorArg>) -> PyResult<PyTensor> {
        let axis = axis.unwrap_or(Ints(vec![-1]));
        out(self.0.rmsnorm(axes(Some(axis), false), plain(&weight), eps))
    }
    /// (x - mean) * invstd * weight + bias, for each place along axis.
    #[pyo3(signature = (weight, bias, mean, invstd, axis=None), text_signature = "($self, weight, bias, mean, invstd, axis=1)")]
    fn batchnorm(
        &self,
        weight: Option<TensorArg>,
        bias: Option<TensorArg>,
        mean: TensorArg,
        invstd: TensorArg,
        axis: Option<Ints>,
    ) -> PyResult<PyTensor> {
        let axis = axis.map_or(vec![1], |a| a.0);
        if axis == [1] {
            return out(self.0.batchnorm(plain(&weight), plain(&bias), &mean.0, &invstd.0));
        }
        let rank = self.0.rank() as i64;
        let kept = |i: i64| axis.iter().any(|a| a.rem_euclid(rank.max(1)) == i);
        let shape = self.0.shape();
        let dims: Vec<frit::Dim> =
            (0..rank).map(|i| if kept(i) { shape[i].clone() } else { 1.into() }).collect();
        let at = |t: &Tensor| if t.rank() == rank as usize { t.clone() } else { t.reshape(dims.clone()) };
        let y = (&self.0 - at(&mean.0)) * at(&invstd.0);
        let y = plain(&weight).map_or(y.clone(), |w| &y * at(w));
        out(plain(&bias).map_or(y.clone(), |b| &y + at(b)))
    }
    /// Mean 0 and variance 1 in each of so many groups of channels.
    #[pyo3(signature = (num_groups, weight=None, bias=None, eps=1e-5))]
    fn groupnorm(
        &self,
        num_groups: i64,
        weight: Option<TensorArg>,
        bias: Option<TensorArg>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        let num_groups = count(num_groups, "num_groups")?;
        out(self.0.groupnorm(num_groups, plain(&weight), plain(&bias), eps))
    }
    /// Mean 0 and variance 1 in each channel of each sample.
    #[pyo3(signature = (weight=None, bias=None, eps=1e-5))]
    fn instancenorm(
        &self,
        weight: Option<TensorArg>,
        bias: Option<TensorArg>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        out(self.0.instancenorm(plain(&weight), plain(&bias), eps))
    }
    /// Divided by the p-norm along dim.
    #[pyo3(signature = (p=2.0, dim=1, eps=1e-12))]
    fn normalize(&self, p: f64, dim: i64, eps: f64) -> PyResult<PyTensor> {
        out(self.0.normalize(p, axes(Some(Ints(vec![dim])), false), eps))
    }
    /// Divided by a power of what is in so many neighbouring channels.
    #[pyo3(signature = (size, alpha=1e-4, beta=0.75, k=1.0))]
    fn local_response_norm(&self, size: i64, alpha: f64, beta: f64, k: f64) -> PyResult<PyTensor> {
        let size = count(size, "size")?;
        out(self.0.local_response_norm(size, alpha, beta, k))
    }
    /// softmax(q k^T / sqrt(d) + mask) v, this being q: (*, L, d). A bool mask says where to look, another is added.
    #[pyo3(signature = (key, value, attn_mask=None, dropout_p=0.0, is_causal=false, enable_gqa=false, *, scale=None))]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn scaled_dot_product_attention(
        &self,
        py: Python<'_>,
        key: TensorArg,
        value: TensorArg,
        attn_mask: Option<TensorArg>,
        dropout_p: f64,
        #[pyo3(from_py_with = truth)] is_causal: bool,
        #[pyo3(from_py_with = truth)] enable_gqa: bool,
        scale: Option<f64>,
    ) -> PyResult<PyTensor> {
        let _ = enable_gqa; // fewer key heads are always shared
        if is_causal && attn_mask.is_some() {
            return Err(PyRuntimeError::new_err(
                "scaled_dot_product_attention: attn_mask and is_causal exclude each other",
            ));
        }
        let dropout = if random::is_training(py)? { dropout_p } else { 0.0 };
        out(self.0.attention(
            &key.0,
            &value.0,
            Attention { mask: owned(attn_mask), causal: is_causal, scale, dropout },
        ))
    }
    /// Positions turned into rotations of pairs of elements.
    #[pyo3(signature = (base=10000.0, interleaved=false, dims=None, offset=0, positions=None))]
    fn rope(
        &self,
        base: f64,
        #[pyo3(from_py_with = truth)] interleaved: bool,
        dims: Option<i64>,
        offset: i64,
        positions: Option<TensorArg>,
    ) -> PyResult<PyTensor> {
        let dims = dims.map(|n| count(n, "dims")).transpose()?;
        let offset = count(offset, "offset")?;
        out(self.0.rope(Rope { base, interleaved, dims, offset, positions: owned(positions) }))
    }
    /// Cross entropy of scores for class indices or probabilities; classes are dim 1 (0 of a vector).
    #[pyo3(signature = (Y, reduction="mean", label_smoothing=0.0, *, weight=None, ignore_index=-100), text_signature = "($self, Y, reduction='mean', label_smoothing=0.0, *, weight=None, ignore_index=-100)")]
    #[allow(non_snake_case)] // the API's name
    fn cross_entropy(
        &self,
        Y: TensorArg,
        reduction: &str,
        label_smoothing: f64,
        weight: Option<TensorArg>,
        ignore_index: i64,
    ) -> PyResult<PyTensor> {
        let o = CrossEntropy {
            label_smoothing,
            ignore_index: Some(ignore_index),
            weight: owned(weight),
            reduction: self::reduction(reduction)?,
        };
        out(self.0.cross_entropy_with(&Y.0, o))
    }
    /// Cross entropy of scores in the last dim for class indices.
    #[pyo3(signature = (Y, ignore_index=-1, label_smoothing=0.0, reduction="mean"), text_signature = "($self, Y, ignore_index=-1, label_smoothing=0.0, reduction='mean')")]
    #[allow(non_snake_case)] // the API's name
    fn sparse_categorical_crossentropy(
        &self,
        Y: TensorArg,
        ignore_index: i64,
        label_smoothing: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        let classes = self.0.shape()[-1].clone();
        let o = CrossEntropy {
            label_smoothing,
            ignore_index: Some(ignore_index),
            weight: None,
            reduction: self::reduction(reduction)?,
        };
        let loss = self.0.reshape((-1, classes)).cross_entropy_with(&Y.0.ravel(), o.clone());
        out(if o.reduction == Reduction::None { loss.reshape(Y.0.shape()) } else { loss })
    }
    /// The negative of the log-probability of each target class; classes are dim 1.
    #[pyo3(signature = (Y, weight=None, ignore_index=None, reduction="mean"))]
    #[allow(non_snake_case)] // the API's name
    fn nll_loss(
        &self,
        Y: TensorArg,
        weight: Option<TensorArg>,
        ignore_index: Option<i64>,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        let o = CrossEntropy {
            label_smoothing: 0.0,
            ignore_index,
            weight: owned(weight),
            reduction: self::reduction(reduction)?,
        };
        out(self.0.nll_loss(&Y.0, o))
    }
    /// Cross entropy of probabilities for targets between 0 and 1.
    #[pyo3(signature = (Y, reduction="mean", *, weight=None))]
    #[allow(non_snake_case)] // the API's name
    fn binary_crossentropy(
        &self,
        Y: TensorArg,
        reduction: &str,
        weight: Option<TensorArg>,
    ) -> PyResult<PyTensor> {
        let o = Bce { weight: owned(weight), pos_weight: None, reduction: self::reduction(reduction)? };
        out(self.0.bce_loss(&Y.0, o))
    }
    /// Cross entropy of the sigmoid of scores for targets between 0 and 1.
    #[pyo3(signature = (Y, reduction="mean", pos_weight=None, *, weight=None))]
    #[allow(non_snake_case)] // the API's name
    fn binary_crossentropy_logits(
        &self,
        Y: TensorArg,
        reduction: &str,
        pos_weight: Option<TensorArg>,
        weight: Option<TensorArg>,
    ) -> PyResult<PyTensor> {
        let o = Bce {
            weight: owned(weight),
            pos_weight: owned(pos_weight),
            reduction: self::reduction(reduction)?,
        };
        out(self.0.bce_with_logits_loss(&Y.0, o))
    }
    /// The square of the difference.
    #[pyo3(signature = (target, reduction="mean"))]
    fn mse_loss(&self, target: TensorArg, reduction: &str) -> PyResult<PyTensor> {
        out(self.0.mse_loss_with(&target.0, self::reduction(reduction)?))
    }
    /// The magnitude of the difference.
    #[pyo3(signature = (target, reduction="mean"))]
    fn l1_loss(&self, target: TensorArg, reduction: &str) -> PyResult<PyTensor> {
        out(self.0.l1_loss_with(&target.0, self::reduction(reduction)?))
    }
    /// Half the square of small differences, delta times the magnitude of large ones.
    #[pyo3(signature = (target, reduction="mean", delta=1.0))]
    fn huber_loss(&self, target: TensorArg, reduction: &str, delta: f64) -> PyResult<PyTensor> {
        out(self.0.huber_loss_with(&target.0, delta, self::reduction(reduction)?))
    }
    /// huber_loss divided by beta.
    #[pyo3(signature = (target, reduction="mean", beta=1.0))]
    fn smooth_l1_loss(&self, target: TensorArg, reduction: &str, beta: f64) -> PyResult<PyTensor> {
        out(self.0.smooth_l1_loss_with(&target.0, beta, self::reduction(reduction)?))
    }
    /// Kullback-Leibler divergence, this being log-probabilities.
    #[pyo3(signature = (target, reduction="mean", log_target=false))]
    fn kl_div(&self, target: TensorArg, reduction: &str, log_target: bool) -> PyResult<PyTensor> {
        out(self.0.kl_div_with(&target.0, log_target, self::reduction(reduction)?))
    }
    /// The loss of log-probabilities (T, N, C) for sequences of labels shorter than them.
    #[pyo3(signature = (targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=false))]
    fn ctc_loss(
        &self,
        targets: TensorArg,
        input_lengths: TensorArg,
        target_lengths: TensorArg,
        blank: i64,
        reduction: &str,
        #[pyo3(from_py_with = truth)] zero_infinity: bool,
    ) -> PyResult<PyTensor> {
        let blank = count(blank, "blank")?;
        let o = Ctc { blank, reduction: self::reduction(reduction)?, zero_infinity };
        out(self.0.ctc_loss(&targets.0, &input_lengths.0, &target_lengths.0, o))
    }
    /// The cosine of the angle between vectors along dim.
    #[pyo3(signature = (other, dim=1, eps=1e-8))]
    fn cosine_similarity(&self, other: TensorArg, dim: isize, eps: f64) -> PyResult<PyTensor> {
        out(self.0.cosine_similarity(&other.0, dim, eps))
    }
    /// The p-norm of the difference of vectors.
    #[pyo3(signature = (other, p=2.0, eps=1e-6))]
    fn pairwise_distance(&self, other: TensorArg, p: f64, eps: f64) -> PyResult<PyTensor> {
        out(self.0.pairwise_distance(&other.0, p, eps))
    }
    /// 1 - cosine where target is 1, the cosine above margin where it is -1.
    #[pyo3(signature = (other, target, margin=0.0, reduction="mean"))]
    fn cosine_embedding_loss(
        &self,
        other: TensorArg,
        target: TensorArg,
        margin: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.cosine_embedding_loss(&other.0, &target.0, margin, self::reduction(reduction)?))
    }
    /// How much nearer positive must be than negative.
    #[pyo3(signature = (positive, negative, margin=1.0, p=2.0, reduction="mean"))]
    fn triplet_margin_loss(
        &self,
        positive: TensorArg,
        negative: TensorArg,
        margin: f64,
        p: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.triplet_margin_loss(&positive.0, &negative.0, margin, p, self::reduction(reduction)?))
    }
    /// x where target is 1, what x lacks to margin where it is -1.
    #[pyo3(signature = (target, margin=1.0, reduction="mean"))]
    fn hinge_embedding_loss(&self, target: TensorArg, margin: f64, reduction: &str) -> PyResult<PyTensor> {
        out(self.0.hinge_embedding_loss(&target.0, margin, self::reduction(reduction)?))
    }
    /// How much the one that should rank higher lacks.
    #[pyo3(signature = (other, target, margin=0.0, reduction="mean"))]
    fn margin_ranking_loss(
        &self,
        other: TensorArg,
        target: TensorArg,
        margin: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.margin_ranking_loss(&other.0, &target.0, margin, self::reduction(reduction)?))
    }
    /// log(1 + exp(-target * x)).
    #[pyo3(signature = (target, reduction="mean"))]
    fn soft_margin_loss(&self, target: TensorArg, reduction: &str) -> PyResult<PyTensor> {
        out(self.0.soft_margin_loss(&target.0, self::reduction(reduction)?))
    }
    /// The negative log-likelihood of counts.
    #[pyo3(signature = (target, log_input=true, eps=1e-8, reduction="mean"))]
    fn poisson_nll_loss(
        &self,
        target: TensorArg,
        #[pyo3(from_py_with = truth)] log_input: bool,
        eps: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.poisson_nll_loss(&target.0, log_input, eps, self::reduction(reduction)?))
    }
    /// The negative log-likelihood of normal distributions with variances.
    #[pyo3(signature = (target, var, eps=1e-6, reduction="mean"))]
    fn gaussian_nll_loss(
        &self,
        target: TensorArg,
        var: TensorArg,
        eps: f64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        out(self.0.gaussian_nll_loss(&target.0, &var.0, eps, self::reduction(reduction)?))
    }
}
