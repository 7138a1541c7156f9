//! Pools.

use super::conv::{Walk, spatial};
use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use frit_tensor::{DType, Result, Tensor, Window, keepdim};

pub(super) const OPS: &[Op] = &[
    op("AveragePool", 1, average_pool),
    op("GlobalAveragePool", 1, |c| over(c, |x, axes| x.mean(keepdim(axes)))),
    op("GlobalLpPool", 1, |c| {
        let p = if c.version() < 2 { c.float_or("p", 2.0)? } else { c.int_or("p", 2)? as f64 };
        over(c, |x, axes| x.norm(p, keepdim(axes)))
    }),
    op("GlobalMaxPool", 1, |c| over(c, |x, axes| x.max(keepdim(axes)))),
    op("LpPool", 1, lp_pool),
    op("MaxPool", 1, max_pool),
    op("MaxRoiPool", 1, max_roi_pool),
    op("MaxUnpool", 9, max_unpool),
];

fn over(c: &Call, f: impl Fn(&Tensor, &[isize]) -> Tensor) -> Result<Outs> {
    c.map(|x| f(x, &(2..x.rank() as isize).collect::<Vec<_>>()))
}

/// The walk of a pool, and its window with a last partial one where that is asked for.
fn walk(c: &Call, x: &Tensor) -> Result<(Walk, Window)> {
    let walk = Walk::of(c, &[], &spatial(x)?)?;
    let window = walk.window().ceil_mode(c.flag("ceil_mode")?);
    Ok((walk, window))
}

fn average_pool(c: &Call) -> Result<Outs> {
    give(averages(c, &c.tensor(0)?)?)
}
/// The means of windows of a tensor that stands for the first input.
pub(super) fn averages(c: &Call, x: &Tensor) -> Result<Tensor> {
    let (walk, window) = walk(c, x)?;
    let count = c.flag("count_include_pad")?;
    Ok(x.avg_pool(&walk.size, window.count_include_pad(count)))
}

fn lp_pool(c: &Call) -> Result<Outs> {
    let p = if c.version() < 2 { c.float_or("p", 2.0)? } else { c.int_or("p", 2)? as f64 };
    let x = c.tensor(0)?;
    let (walk, window) = walk(c, &x)?;
    give(x.abs().pow(p).avg_pool(&walk.size, window.divisor(1)).pow(1.0 / p))
}

fn max_pool(c: &Call) -> Result<Outs> {
    let x = c.tensor(0)?;
    let (walk, window) = walk(c, &x)?;
    let columns = c.flag("storage_order")?;
    if !c.wants(1) {
        return give(x.max_pool(&walk.size, window));
    }
    let (y, at) = x.max_pool_with_indices(&walk.size, window);
    let (dims, at) = (x.dims()?, at.long());
    let (lead, spatial) = (dims[0] * dims[1], &dims[2..]);
    let n: usize = spatial.iter().product();
    // places in the whole tensor, of which each channel has its part
    let at = if columns { column_major(&at, spatial) } else { at };
    let channels = Tensor::arange(lead).long() * n as i64;
    let channels = (0..spatial.len()).fold(channels.reshape([dims[0], dims[1]]), |t, _| t.unsqueeze(-1));
    give((y, at + channels))
}

/// Row-major places counted the other way round.
fn column_major(at: &Tensor, dims: &[usize]) -> Tensor {
    let (mut rest, mut out) = (at.clone(), Tensor::full_dtype((), 0, DType::I64));
    for (i, n) in dims.iter().enumerate().rev() {
        let step: usize = dims[..i].iter().product();
        out = out + rest.modulo(*n as i64) * step as i64;
        rest = rest.floor_div(*n as i64);
    }
    out
}

fn max_unpool(c: &Call) -> Result<Outs> {
    let (x, at) = (c.tensor(0)?, c.tensor(1)?);
    let size = c.sizes("kernel_shape")?.unwrap_or_default();
    let n = size.len();
    let stride = c.sizes("strides")?.unwrap_or(vec![1; n]);
    let pads = c.sizes("pads")?.unwrap_or(vec![0; 2 * n]);
    let dims = x.dims()?;
    if dims.len() != n + 2 || stride.len() != n || pads.len() != 2 * n {
        return fail(format!("a window of {size:?}, strides {stride:?}, pads {pads:?} over {dims:?}"));
    }
    let grown =
        |i: usize| ((dims[i + 2].max(1) - 1) * stride[i] + size[i]).saturating_sub(pads[i] + pads[i + n]);
    let shape: Vec<usize> = dims[..2].iter().copied().chain((0..n).map(grown)).collect();
    let zeros = Tensor::full_dtype([bounded(&shape)?], 0, x.dtype());
    let y = zeros.scatter(0, &at.reshape([-1]), x.reshape([-1])).reshape(&shape);
    match c.optional_ints(2)? {
        Some(to) if to.len() == shape.len() => {
            let more: Vec<(i64, i64)> = to.iter().zip(&shape).map(|(t, s)| (0, t - *s as i64)).collect();
            give(y.pad(&more, 0))
        }
        Some(to) => fail(format!("an output of shape {to:?}")),
        None => give(y),
    }
}

/// The greatest of each cell of boxes, whose corners are whole elements: first along rows, then along columns.
fn max_roi_pool(c: &Call) -> Result<Outs> {
    let (x, rois, scale) = (c.tensor(0)?, c.tensor(1)?, c.float_or("spatial_scale", 1.0)?);
    let (Some([rows, cols]), 4, 2) =
        (c.sizes("pooled_shape")?.and_then(|s| <[usize; 2]>::try_from(s).ok()), x.rank(), rois.rank())
    else {
        return fail(format!("boxes of shape {} in an image of shape {}", rois.shape(), x.shape()));
    };
    // (R, 1): corners, counted in elements; halves away from zero
    let corner =
        |i: i64| ((rois.narrow(1, i, 1) * scale).abs() + 0.5).floor() * (rois.narrow(1, i, 1)).sign();
    // (R, cells, elements): which elements of an axis are in each cell of a box
    let cells = |begin: Tensor, end: Tensor, n: usize, axis: isize| {
        let cell = (&end - &begin + 1.0).clamp_min(1.0) / n as f64;
        let i = Tensor::arange(n).float();
        let most = Tensor::from(&x.shape()[axis]).float();
        let at = |v: Tensor| (v + &begin).clamp_min(0.0).minimum(&most).unsqueeze(-1);
        let (from, to) = (at((&i * &cell).floor()), at(((&i + 1.0) * &cell).ceil()));
        let e = Tensor::arange(&x.shape()[axis]).float();
        e.ge(from).logical_and(e.lt(to))
    };
    let (wide, high) = (cells(corner(1), corner(3), cols, 3), cells(corner(2), corner(4), rows, 2));
    let images = x.index_select(0, &rois.narrow(1, 0, 1).reshape([-1]).long()); // (R, C, H, W)
    let inside = wide.unsqueeze(1).unsqueeze(1); // (R, 1, 1, cols, W)
    let along = inside.where_(images.unsqueeze(3), f64::NEG_INFINITY).max(-1); // (R, C, H, cols)
    let inside = high.unsqueeze(1).unsqueeze(-1); // (R, 1, rows, H, 1)
    let most = inside.where_(along.unsqueeze(2), f64::NEG_INFINITY).max(3); // (R, C, rows, cols)
    give(most.eq(f64::NEG_INFINITY).where_(0.0, most).cast(x.dtype()))
}
