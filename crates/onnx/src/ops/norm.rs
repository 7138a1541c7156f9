//! Normalisations.

use super::shape::axis_of;
use super::{Op, op};
use crate::call::{Call, Outs, give};
use frit_tensor::{DType, Result, Tensor, Window, keepdim};

pub(super) const OPS: &[Op] = &[
    op("BatchNormalization", 1, |c| {
        c.ignore(&["consumed_inputs"]);
        batch_norm(c, !c.flag("is_test")?)
    }),
    op("BatchNormalization", 7, |c| batch_norm(c, false)),
    op("BatchNormalization", 14, |c| batch_norm(c, c.flag("training_mode")?)),
    op("GroupNormalization", 18, |c| group_norm(c, true)),
    op("GroupNormalization", 21, |c| group_norm(c, false)),
    op("InstanceNormalization", 1, |c| {
        c.ignore(&["consumed_inputs"]);
        let (scale, bias, eps) = (c.tensor(1)?, c.tensor(2)?, c.float_or("epsilon", 1e-5)?);
        c.kept(|x| x.instancenorm(Some(&scale), Some(&bias), eps))
    }),
    // of opset 17, but onnxruntime's optimiser makes it of models of older ones too
    op("LayerNormalization", 1, layer_norm),
    op("LpNormalization", 1, lp_norm),
    op("LRN", 1, local_response_norm),
    op("MeanVarianceNormalization", 9, mean_variance_norm),
    op("RMSNormalization", 23, rms_norm),
];

/// A value for each channel, beside (N, C, …).
fn per_channel(t: &Tensor, rank: usize) -> Tensor {
    (2..rank).fold(t.clone(), |t, _| t.unsqueeze(-1))
}

fn batch_norm(c: &Call, training: bool) -> Result<Outs> {
    let (eps, momentum) = (c.float_or("epsilon", 1e-5)?, c.float_or("momentum", 0.9)?);
    // statistics of a channel, or of each place in it
    let is_spatial = c.int_or("spatial", 1)? != 0;
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (mean, var) = (c.tensor(3)?, c.tensor(4)?);
    let wide = if x.dtype().is_small_float() { DType::F32 } else { x.dtype() };
    // two operations a value, whatever is done for a channel
    let normal = |mean: &Tensor, var: &Tensor| {
        let factor = (var.cast(wide) + eps).rsqrt() * scale.cast(wide);
        let shift = bias.cast(wide) - mean.cast(wide) * &factor;
        let part = |t: &Tensor| if is_spatial { per_channel(t, x.rank()) } else { t.clone() };
        (x.cast(wide) * part(&factor) + part(&shift)).cast(x.dtype())
    };
    if !training {
        return give(normal(&mean, &var));
    }
    let axes: Vec<isize> = (0..x.rank() as isize).filter(|a| *a == 0 || is_spatial && *a > 1).collect();
    let (now_var, now_mean) = x.var_mean(&axes[..], 0);
    let mixed = |old: &Tensor, now: &Tensor| {
        (old * momentum + now.cast(old.dtype()) * (1.0 - momentum)).cast(old.dtype())
    };
    give(vec![normal(&now_mean, &now_var), mixed(&mean, &now_mean), mixed(&var, &now_var)])
}

fn group_norm(c: &Call, by_group: bool) -> Result<Outs> {
    let (eps, groups) = (c.float_or("epsilon", 1e-5)?, c.count("num_groups", 1)?);
    c.ignore(&["stash_type"]);
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let share = x.dims()?.get(1).copied().unwrap_or(1) / groups;
    let spread = |t: Tensor| if by_group { t.repeat_interleave(share, 0) } else { t };
    give(x.groupnorm(groups, Some(&spread(scale)), Some(&spread(bias)), eps).cast(x.dtype()))
}

/// The axes from one on.
fn from_axis(c: &Call, rank: usize) -> Result<Vec<isize>> {
    let axis = axis_of(c.int_or("axis", -1)?, rank)?;
    Ok((axis as isize..rank as isize).collect())
}

fn layer_norm(c: &Call) -> Result<Outs> {
    let eps = c.float_or("epsilon", 1e-5)?;
    c.ignore(&["stash_type"]);
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    let axes = from_axis(c, x.rank())?;
    let wide = if x.dtype() == DType::F64 { x.clone() } else { x.float() };
    let mean = wide.mean(keepdim(&axes[..]));
    let d = &wide - &mean;
    let inverse = (d.square().mean(keepdim(&axes[..])) + eps).rsqrt();
    let y = (d * &inverse).cast(x.dtype()) * scale;
    let y = bias.map_or(y.clone(), |b| y + b);
    give(vec![y, mean, inverse])
}

fn rms_norm(c: &Call) -> Result<Outs> {
    let eps = c.float_or("epsilon", 1e-5)?;
    c.ignore(&["stash_type"]);
    let (x, scale) = (c.tensor(0)?, c.tensor(1)?);
    let axes = from_axis(c, x.rank())?;
    give((x.rmsnorm(&axes[..], None, eps) * scale).cast(x.dtype()))
}

fn lp_norm(c: &Call) -> Result<Outs> {
    let (axis, p) = (c.axis("axis", -1)?, c.int_or("p", 2)?);
    c.kept(|x| {
        let norm = x.norm(p as f64, keepdim(axis));
        norm.eq(0).where_(x.zeros_like(), x / &norm)
    })
}

fn local_response_norm(c: &Call) -> Result<Outs> {
    let (alpha, beta, bias) =
        (c.float_or("alpha", 0.0001)?, c.float_or("beta", 0.75)?, c.float_or("bias", 1.0)?);
    let size = c.count("size", 1)?;
    c.kept(|x| {
        // the odd neighbour of an even number is after
        let around = Window::new().stride(1).pads(&[((size - 1) / 2, size / 2)]);
        let mean = x.square().movedim(1, -1).avg_pool(&[size], around).movedim(-1, 1);
        x / (mean * alpha + bias).pow(beta)
    })
}

fn mean_variance_norm(c: &Call) -> Result<Outs> {
    let axes: Vec<isize> = c.list("axes")?.map_or(vec![0, 2, 3], |a| a.iter().map(|a| *a as isize).collect());
    c.kept(|x| {
        let d = x - x.mean(keepdim(&axes[..]));
        &d / (d.square().mean(keepdim(&axes[..])).sqrt() + 1e-9)
    })
}
