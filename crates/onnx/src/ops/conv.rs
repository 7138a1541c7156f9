//! Convolutions.

use super::shape::size_at;
use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use frit_tensor::{DType, Dim, Result, Tensor, Window};

pub(super) const OPS: &[Op] = &[
    op("CausalConvWithState", 27, causal_conv),
    op("Col2Im", 18, col2im),
    op("Conv", 1, |c| conv(c, c.tensor(0)?, c.tensor(1)?)),
    op("ConvInteger", 10, |c| {
        give(integers_convolved(c, (&c.tensor(0)?, c.optional(2)?), (&c.tensor(1)?, c.optional(3)?))?)
    }),
    op("ConvTranspose", 1, conv_transpose),
    op("DeformConv", 19, deform_conv),
];

/// How a window walks, with a number for each spatial dim.
pub(super) struct Walk {
    pub size: Vec<usize>,
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
    pub pads: Vec<(usize, usize)>,
}

impl Walk {
    /// From the attributes; `size` where there is no `kernel_shape`, `over` the sizes it walks over.
    pub fn of(c: &Call, size: &[usize], over: &[Dim]) -> Result<Walk> {
        let size = c.sizes("kernel_shape")?.unwrap_or(size.to_vec());
        let n = size.len();
        let stride = c.sizes("strides")?.unwrap_or(vec![1; n]);
        let dilation = c.sizes("dilations")?.unwrap_or(vec![1; n]);
        let pads = c.sizes("pads")?.unwrap_or(vec![0; 2 * n]);
        if over.len() != n || stride.len() != n || dilation.len() != n || pads.len() != 2 * n {
            let window =
                format!("a window of {size:?}, strides {stride:?}, dilations {dilation:?}, pads {pads:?}");
            return fail(format!("{window} over {over:?}"));
        }
        if size.iter().chain(&stride).chain(&dilation).any(|v| *v == 0) {
            return fail("a window, stride or dilation of 0");
        }
        let given = (0..n).map(|i| (pads[i], pads[i + n])).collect();
        // so much that there is a result for each stride
        let same = |i: usize| {
            let (span, stride) = (dilation[i] * (size[i] - 1) + 1, stride[i]);
            match (&over[i] % stride).get() {
                0 => span.saturating_sub(stride),
                rest => span.saturating_sub(rest),
            }
        };
        let halves = |upper: bool| {
            let pair = |p: usize| if upper { (p / 2, p - p / 2) } else { (p - p / 2, p / 2) };
            (0..n).map(|i| pair(same(i))).collect()
        };
        let pads = match c.text_or("auto_pad", "NOTSET")? {
            "NOTSET" | "" => given,
            "VALID" => vec![(0, 0); n],
            "SAME_UPPER" => halves(true),
            "SAME_LOWER" => halves(false),
            other => return fail(format!("attribute \"auto_pad\" is {other:?}")),
        };
        Ok(Walk { size, stride, dilation, pads })
    }
    pub fn window(&self) -> Window {
        Window::new().stride(self.stride.clone()).dilation(self.dilation.clone()).pads(&self.pads)
    }
}

/// The sizes after the first two.
pub(super) fn spatial(x: &Tensor) -> Result<Vec<Dim>> {
    match x.shape().as_slice() {
        [_, _, rest @ ..] if !rest.is_empty() => Ok(rest.to_vec()),
        _ => fail(format!("shape {} has no spatial dims", x.shape())),
    }
}
/// The same as numbers.
fn fixed_spatial(x: &Tensor) -> Result<Vec<usize>> {
    spatial(x)?.iter().map(|d| Ok(d.value()?.max(0) as usize)).collect()
}

/// Integers less their zero point, which may be one for each place along an axis.
pub(super) fn zeroed(x: &Tensor, zero: Option<Tensor>, axis: isize) -> Tensor {
    let x32 = x.cast(DType::I32);
    match zero_beside(x, zero, axis) {
        Some(zero) => x32 - zero,
        None => x32,
    }
}
/// A zero point beside what it is of; none where it is known to be zero.
pub(super) fn zero_beside(x: &Tensor, zero: Option<Tensor>, axis: isize) -> Option<Tensor> {
    let zero = zero?;
    if zero.as_sizes().is_some_and(|all| all.iter().all(|v| *v == 0)) {
        return None;
    }
    let zero = zero.cast(DType::I32);
    Some(match zero.rank() {
        0 => zero,
        _ if zero.shape().numel() == 1 => zero.reshape(()),
        1 => {
            let behind = x.rank() as isize - 1 - axis.rem_euclid(x.rank() as isize);
            (0..behind).fold(zero, |z, _| z.unsqueeze(-1))
        }
        _ => zero,
    })
}

pub(super) fn convolved(c: &Call, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let groups = c.count("group", 1)?;
    let walk = Walk::of(c, &fixed_spatial(w)?, &spatial(x)?)?;
    Ok(x.conv(w, bias, walk.window().groups(groups)).cast(x.dtype()))
}

/// The convolution of small integers less their zero points, summed in int32. As in [`super::quant::product`] the integers
/// are multiplied as they are stored, and what zero points add to that follows from sums; outside the image a window sees
/// the zero point.
pub(super) fn integers_convolved(
    c: &Call,
    (x, p): (&Tensor, Option<Tensor>),
    (w, q): (&Tensor, Option<Tensor>),
) -> Result<Tensor> {
    let groups = c.count("group", 1)?;
    let size = fixed_spatial(w)?;
    let mut walk = Walk::of(c, &size, &spatial(x)?)?;
    let (p, q) = (zero_beside(x, p, 1), zero_beside(w, q, 0));
    let beside: Vec<(usize, usize)> = [(0, 0); 2].into_iter().chain(std::mem::take(&mut walk.pads)).collect();
    walk.pads = vec![(0, 0); size.len()];
    let whole = match &p {
        Some(p) => ((x.cast(DType::I32) - p).pad(&beside, 0) + p).cast(x.dtype()),
        None => x.pad(&beside, 0),
    };
    // in memory as they are: quantising once an element, not once a product
    let [x, w] = [&whole, w].map(|t| t.contiguous().cast(DType::I32));
    let over: Vec<isize> = (1..w.rank() as isize).collect();
    // (O, 1, ..)
    let by_channel = |t: Tensor| size.iter().fold(t.reshape((-1,)), |t, _| t.unsqueeze(-1));
    let mut sums = x.conv(&w, None, walk.window().groups(groups)).cast(DType::I32);
    if let Some(p) = &p {
        sums = sums - p * by_channel(w.sum(&over[..]));
    }
    if let Some(q) = q {
        let dims = w.dims()?;
        let shape = [&[groups], &dims[1..]].concat();
        let windows = x.conv(&Tensor::ones(shape).cast(DType::I32), None, walk.window().groups(groups));
        let mut less = windows.cast(DType::I32).repeat_interleave((dims[0] / groups) as i64, 1);
        if let Some(p) = p {
            less = less - p * dims[1..].iter().product::<usize>() as i64;
        }
        let q = if q.rank() == 0 { q } else { by_channel(q) };
        sums = sums - q * less;
    }
    Ok(sums)
}

fn conv(c: &Call, x: Tensor, w: Tensor) -> Result<Outs> {
    c.alike(&x, &w)?;
    let bias = c.optional(2)?;
    give(convolved(c, &x, &w, bias.as_ref())?)
}

fn conv_transpose(c: &Call) -> Result<Outs> {
    let (x, w, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    c.alike(&x, &w)?;
    let groups = c.count("group", 1)?;
    let (input, size) = (fixed_spatial(&x)?, c.sizes("kernel_shape")?.unwrap_or(fixed_spatial(&w)?));
    let n = size.len();
    let stride = c.sizes("strides")?.unwrap_or(vec![1; n]);
    let dilation = c.sizes("dilations")?.unwrap_or(vec![1; n]);
    let extra = c.sizes("output_padding")?.unwrap_or(vec![0; n]);
    let pads = super::shape::pairs(&c.list("pads")?.unwrap_or(vec![0; 2 * n]));
    if [input.len(), stride.len(), dilation.len(), extra.len(), pads.len()].iter().any(|l| *l != n) {
        return fail(format!("a window of {size:?} over {input:?} has lists of other lengths"));
    }
    let full = |i: usize| {
        (stride[i] * input[i].saturating_sub(1) + (size[i].max(1) - 1) * dilation[i] + 1 + extra[i]) as i64
    };
    let auto = c.text_or("auto_pad", "NOTSET")?;
    let mut wanted = c.sizes("output_shape")?;
    if wanted.is_none() && matches!(auto, "SAME_UPPER" | "SAME_LOWER") {
        wanted = Some((0..n).map(|i| input[i] * stride[i]).collect());
    }
    let pads: Vec<(i64, i64)> = match wanted {
        Some(out) if out.len() < n => return fail(format!("an output of {out:?} for a window of {size:?}")),
        Some(out) => {
            let out = &out[out.len().saturating_sub(n)..];
            let total = |i: usize| full(i) - out[i] as i64;
            match auto {
                // what is missing comes at the end
                _ if (0..n).any(|i| total(i) < 0) => (0..n).map(total).map(|t| (0, t)).collect(),
                "SAME_UPPER" => (0..n).map(total).map(|t| (t / 2, t - t / 2)).collect(),
                _ => (0..n).map(total).map(|t| (t - t / 2, t / 2)).collect(),
            }
        }
        None => pads,
    };
    // everything that any input reaches, then the pads cut off
    let window = Window::new().stride(stride).dilation(dilation).groups(groups);
    let all = x.conv_transpose(&w, None, window);
    let cut = pads.iter().zip(&extra).map(|((a, b), e)| (-a, *e as i64 - b));
    let amounts: Vec<(i64, i64)> = [(0, 0), (0, 0)].into_iter().chain(cut).collect();
    let y = all.pad(&amounts, 0);
    let channel = |b: Tensor| (0..n).fold(b, |b, _| b.unsqueeze(-1));
    give(bias.map_or(y.clone(), |b| y + channel(b)).cast(x.dtype()))
}

/// Columns of windows summed up where they lie in an image.
fn col2im(c: &Call) -> Result<Outs> {
    let (x, image, block) = (c.tensor(0)?, c.ints(1)?, c.ints(2)?);
    let sizes = |v: &[i64]| -> Result<Vec<usize>> {
        let all: Vec<usize> = v.iter().map(|s| (*s).max(1) as usize).collect();
        bounded(&all).map(|_| all)
    };
    let (image, block) = (sizes(&image)?, sizes(&block)?);
    let walk = Walk::of(c, &block, &image.iter().map(Dim::from).collect::<Vec<_>>())?;
    let n = image.len();
    let (dims, cells) = (x.dims()?, block.iter().product::<usize>());
    if dims.len() != 3 {
        return fail(format!("columns of shape {dims:?}, not of three dims"));
    }
    if !dims[1].is_multiple_of(cells) {
        return fail(format!("columns of shape {dims:?} for windows of {block:?}"));
    }
    let (batch, channels) = (dims[0], dims[1] / cells);
    // each cell of the window is a channel whose weight is one at that cell
    let eye = Tensor::eye([cells]).cast(x.dtype()).reshape([&[cells, 1][..], &block].concat());
    let places: Vec<usize> = (0..n)
        .map(|i| {
            let span = walk.dilation[i] * (block[i] - 1) + 1;
            (image[i] + walk.pads[i].0 + walk.pads[i].1).saturating_sub(span) / walk.stride[i] + 1
        })
        .collect();
    let cols = x.reshape([&[batch * channels, cells][..], &places].concat());
    let y = cols.conv_transpose(
        &eye,
        None,
        Window::new().stride(walk.stride.clone()).dilation(walk.dilation.clone()),
    );
    let have = y.dims()?;
    let mut amounts = vec![(0, 0); 2];
    for i in 0..n {
        let before = walk.pads[i].0 as i64;
        amounts.push((-before, image[i] as i64 + before - have[2 + i] as i64));
    }
    give(y.pad(&amounts, 0).reshape([&[batch, channels][..], &image].concat()))
}

/// A depthwise convolution over what was and what is, and the last of it for the next time.
fn causal_conv(c: &Call) -> Result<Outs> {
    let (x, w, bias, past) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?, c.optional(3)?);
    let keep = w.dims()?.last().map_or(0, |k| k.saturating_sub(1));
    let channels = size_at(&x, 1)?;
    let all = match past {
        Some(p) => Tensor::cat(&[p, x.clone()], -1),
        None => x.pad(&[(0, 0), (0, 0), (keep, 0)], 0),
    };
    let y = all.conv(&w, bias.as_ref(), Window::new().groups(channels)).cast(x.dtype());
    let y = match c.text_or("activation", "none")? {
        "none" | "" => y,
        "silu" | "swish" => y.silu(),
        other => return fail(format!("attribute \"activation\" is {other:?}")),
    };
    let Some(before) = size_at(&all, 2)?.checked_sub(keep) else {
        return fail(format!("{} elements for a window of {}", all.shape(), w.shape()));
    };
    give((y, all.narrow(-1, before, keep)))
}

/// A convolution whose windows look at places that are data.
fn deform_conv(c: &Call) -> Result<Outs> {
    let (x, w, offset) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (bias, mask) = (c.optional(3)?, c.optional(4)?);
    let (groups, shared) = (c.count("group", 1)?, c.count("offset_group", 1)?);
    let walk = Walk::of(c, &fixed_spatial(&w)?, &spatial(&x)?)?;
    let ([n, ch, h, wd], [kh, kw]) = (four(&x)?, [walk.size[0], walk.size[1]]);
    let [_, _, oh, ow] = four(&offset)?;
    let cells = kh * kw;
    // (N, shared, cells, 2, OH, OW): how far from its place each cell looks
    let offset = offset.reshape([n, shared, cells, 2, oh, ow]).float();
    let place = |k: usize, axis: usize, outs: usize| {
        let start = Tensor::arange(outs) * walk.stride[axis] as i64 - walk.pads[axis].0 as i64;
        let cell = Tensor::arange(k) * walk.dilation[axis] as i64;
        cell.unsqueeze(1) + start.unsqueeze(0)
    };
    let rows = place(kh, 0, oh).reshape([kh, 1, oh, 1]).expand([kh, kw, oh, ow]).reshape([cells, oh, ow]);
    let cols = place(kw, 1, ow).reshape([1, kw, 1, ow]).expand([kh, kw, oh, ow]).reshape([cells, oh, ow]);
    let (y, z) = (offset.select(3, 0) + rows.float(), offset.select(3, 1) + cols.float());
    // each share of the channels at its own places
    let image = x.float().reshape([n * shared, ch / shared, h * wd]);
    let places = |t: Tensor| t.reshape([n * shared, 1, cells * oh * ow]);
    let sampled = bilinear(&image, [h, wd], [places(y), places(z)]);
    let mut columns = sampled.reshape([n, shared, ch / shared, cells, oh, ow]);
    if let Some(m) = mask {
        columns = columns * m.float().reshape([n, shared, 1, cells, oh, ow]);
    }
    // (N, groups, channels * cells, places)
    let columns = columns.reshape([n, groups, ch / groups * cells, oh * ow]);
    let out = w.dims()?[0];
    let weight = w.float().reshape([groups, out / groups, ch / groups * cells]);
    let y = weight.matmul(&columns).reshape([n, out, oh, ow]);
    let y = bias.map_or(y.clone(), |b| y + b.float().reshape([out, 1, 1]));
    give(y.cast(x.dtype()))
}

/// (N, C, H * W) at places (N, 1, P): between the four elements around each, zeros outside.
fn bilinear(image: &Tensor, size: [usize; 2], at: [Tensor; 2]) -> Tensor {
    let (low, rest) = (at.each_ref().map(Tensor::floor), at.each_ref().map(|t| t - t.floor()));
    let corner = |down: i64, right: i64| {
        let place = [&low[0] + down as f64, &low[1] + right as f64];
        let inside = |k: usize| place[k].ge(0.0).logical_and(place[k].lt(size[k] as f64));
        let index = |k: usize| place[k].clamp(0.0, (size[k].max(1) - 1) as f64).long();
        let side = |k: usize, far: i64| if far == 1 { rest[k].clone() } else { 1.0 - &rest[k] };
        let weight = inside(0).logical_and(inside(1)).where_(side(0, down) * side(1, right), 0.0);
        let flat = index(0) * size[1] as i64 + index(1);
        let channels = image.shape()[1].clone();
        image.gather(2, &flat.expand((-1, channels, -1))) * weight
    };
    corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1)
}

fn four(x: &Tensor) -> Result<[usize; 4]> {
    let dims = x.dims()?;
    <[usize; 4]>::try_from(dims).or_else(|d| fail(format!("shape {d:?} is not of four dims")))
}
