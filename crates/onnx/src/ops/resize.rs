//! Resizing and sampling, and boxes in images.

use super::shape::axis_of;
use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use frit_tensor::{DType, GridSample, Outside, PadMode, Result, Sampling, Tensor};

/// New elements with weights of their own, at most, for slices instead of places.
const MOST_PHASES: usize = 64;
/// New elements along a row that are computed side by side, at least.
const LANES: usize = 16;

pub(super) const OPS: &[Op] = &[
    op("AffineGrid", 20, |c| {
        let size = c.ints(1)?.iter().map(|s| (*s).max(0) as usize).collect::<Vec<_>>();
        let align = c.flag("align_corners")?;
        c.kept(|theta| theta.affine_grid(&size, align))
    }),
    op("GridSample", 16, grid_sample),
    op("NonMaxSuppression", 10, non_max_suppression),
    op("Resize", 10, |c| resize(c, Inputs { roi: None, scales: Some(1), sizes: None })),
    op("Resize", 11, |c| resize(c, Inputs { roi: Some(1), scales: Some(2), sizes: Some(3) })),
    op("RoiAlign", 10, roi_align),
    op("Upsample", 1, |c| resize(c, Inputs { roi: None, scales: None, sizes: None })),
    op("Upsample", 7, |c| resize(c, Inputs { roi: None, scales: None, sizes: None })),
    op("Upsample", 9, |c| resize(c, Inputs { roi: None, scales: Some(1), sizes: None })),
];

fn grid_sample(c: &Call) -> Result<Outs> {
    let mode = match c.text_or("mode", "linear")? {
        "linear" | "bilinear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "cubic" | "bicubic" => Sampling::Cubic,
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    let outside = match c.text_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return fail(format!("attribute \"padding_mode\" is {other:?}")),
    };
    let options = GridSample { mode, outside, align_corners: c.flag("align_corners")? };
    let grid = c.tensor(1)?;
    c.kept(|x| x.grid_sample(&grid, options))
}

/// Which inputs say what; scales are an attribute where no input has them.
struct Inputs {
    roi: Option<usize>,
    scales: Option<usize>,
    sizes: Option<usize>,
}

/// One axis: from how many elements to how many, and how far apart the new ones are.
struct Axis {
    at: usize,
    from: usize,
    to: usize,
    scale: f64,
    /// Where a crop begins and ends, as parts of the axis.
    roi: (f64, f64),
}

fn numbers(c: &Call, i: Option<usize>) -> Result<Option<Vec<f64>>> {
    match i.and_then(|i| c.value(i)) {
        Some(v) => Ok(Some(c.numbers_of(v)?).filter(|v| !v.is_empty())),
        None => Ok(None),
    }
}

fn axes(c: &Call, x: &Tensor, inputs: &Inputs) -> Result<Vec<Axis>> {
    let dims = x.dims()?;
    let at = match c.list("axes")? {
        Some(axes) => axes.iter().map(|a| axis_of(*a, dims.len())).collect::<Result<Vec<_>>>()?,
        None => (0..dims.len()).collect(),
    };
    let n = at.len();
    let scales = match inputs.scales {
        // of an image, height and width
        None if c.version() < 7 => {
            let (h, w) = (c.float_or("height_scale", 1.0)?, c.float_or("width_scale", 1.0)?);
            Some(vec![1.0, 1.0, h, w])
        }
        None => c.floats("scales")?.map(|s| s.iter().map(|s| f64::from(*s)).collect()),
        i => numbers(c, i)?,
    };
    let (sizes, roi) = (numbers(c, inputs.sizes)?, numbers(c, inputs.roi)?);
    let policy = c.text_or("keep_aspect_ratio_policy", "stretch")?;
    let part = |i: usize| match &roi {
        Some(r) if r.len() == 2 * n => (r[i], r[i + n]),
        _ => (0.0, 1.0),
    };
    let from = |i: usize| dims[at[i]] as f64;
    let (scales, sizes): (Vec<f64>, Vec<f64>) = match (scales, sizes) {
        (_, Some(sizes)) if sizes.len() == n => {
            let ratios: Vec<f64> = (0..n).map(|i| sizes[i] / from(i)).collect();
            let one = match policy {
                "stretch" => None,
                "not_larger" => Some(ratios.iter().copied().fold(f64::INFINITY, f64::min)),
                "not_smaller" => Some(ratios.iter().copied().fold(0.0, f64::max)),
                other => return fail(format!("attribute \"keep_aspect_ratio_policy\" is {other:?}")),
            };
            match one {
                Some(s) => (vec![s; n], (0..n).map(|i| (from(i) * s).round()).collect()),
                None => (ratios, sizes),
            }
        }
        (Some(scales), None) if scales.len() == n => {
            let sizes = (0..n).map(|i| (from(i) * scales[i]).floor()).collect();
            (scales, sizes)
        }
        _ => return fail(format!("{n} scales or sizes are wanted")),
    };
    if sizes.iter().any(|s| !(0.0..1e9).contains(s)) {
        return fail(format!("to sizes {sizes:?}"));
    }
    let axis = |i: usize| Axis {
        at: at[i],
        from: dims[at[i]],
        to: sizes[i] as usize,
        scale: scales[i],
        roi: part(i),
    };
    Ok((0..n).map(axis).collect())
}

impl Axis {
    /// Where in the original a new element lies; `None` for one outside a crop.
    fn place(&self, how: &str, i: usize) -> Result<Option<f64>> {
        let (n, x) = (self.from as f64, i as f64);
        // how many there would be if there were parts of an element
        let m = self.scale * n;
        let half = (x + 0.5) / self.scale - 0.5;
        Ok(Some(match how {
            "half_pixel" => half,
            "half_pixel_symmetric" => n / 2.0 * (1.0 - self.to as f64 / m) + half,
            "pytorch_half_pixel" => {
                if self.to > 1 {
                    half
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if self.to > 1 {
                    x * (n - 1.0) / (m - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => x / self.scale,
            "tf_crop_and_resize" => {
                let (a, b) = self.roi;
                let at = match self.to {
                    0 | 1 => 0.5 * (a + b) * (n - 1.0),
                    _ => a * (n - 1.0) + x * (b - a) * (n - 1.0) / (m - 1.0),
                };
                return Ok((at >= 0.0 && at <= n - 1.0).then_some(at));
            }
            other => return fail(format!("attribute \"coordinate_transformation_mode\" is {other:?}")),
        }))
    }
    /// The elements that a new one is made of with their weights; beyond an end its last one is meant.
    fn taps(&self, place: f64, kernel: &Kernel) -> Vec<(i64, f64)> {
        let (floor, scale) = (place.floor(), if kernel.antialias { self.scale.min(1.0) } else { 1.0 });
        let reach = (kernel.support / scale).ceil() as i64;
        let rest = place - floor;
        let mut taps: Vec<(i64, f64)> =
            (1 - reach..=reach).map(|k| (k, kernel.weight((k as f64 - rest) * scale))).collect();
        if kernel.exclude_outside {
            let inside = |k: i64| (0..self.from as i64).contains(&(floor as i64 + k));
            taps.iter_mut().filter(|(k, _)| !inside(*k)).for_each(|t| t.1 = 0.0);
        }
        let sum: f64 = taps.iter().map(|t| t.1).sum();
        taps.iter().map(|(k, w)| (floor as i64 + k, w / sum)).collect()
    }
}

/// What lies between elements.
struct Kernel {
    cubic: Option<f64>,
    support: f64,
    antialias: bool,
    exclude_outside: bool,
}

impl Kernel {
    fn weight(&self, x: f64) -> f64 {
        let x = x.abs();
        match self.cubic {
            None => (1.0 - x).max(0.0),
            Some(a) if x <= 1.0 => (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0,
            Some(a) if x < 2.0 => a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a,
            Some(_) => 0.0,
        }
    }
}

fn resize(c: &Call, inputs: Inputs) -> Result<Outs> {
    let x = c.tensor(0)?;
    let default = if c.version() < 11 { "asymmetric" } else { "half_pixel" };
    let how = c.text_or("coordinate_transformation_mode", default)?;
    let nearest = c.text_or("nearest_mode", if c.version() < 11 { "floor" } else { "round_prefer_floor" })?;
    let fill = c.float_or("extrapolation_value", 0.0)?;
    let a = c.float_or("cubic_coeff_a", -0.75)?;
    let (antialias, exclude_outside) = (c.flag("antialias")?, c.flag("exclude_outside")?);
    let axes = axes(c, &x, &inputs)?;
    let kernel = match c.text_or("mode", "nearest")? {
        "nearest" => None,
        "linear" | "bilinear" => Some(Kernel { cubic: None, support: 1.0, antialias, exclude_outside }),
        "cubic" => Some(Kernel { cubic: Some(a), support: 2.0, antialias, exclude_outside }),
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    let mut y = if kernel.is_some() && x.dtype() != DType::F64 { x.float() } else { x.clone() };
    let mut outside = vec![];
    // the last first: it is the dearest, and there is least of the others then
    for axis in axes.iter().rev().filter(|a| a.from != a.to || a.scale != 1.0 || a.roi != (0.0, 1.0)) {
        if axis.to == 0 {
            y = y.narrow(axis.at as isize, 0, 0);
            continue;
        }
        if axis.from == 0 {
            return fail(format!("no elements to make {} of", axis.to));
        }
        bounded(&[axis.to])?;
        let places = (0..axis.to).map(|i| axis.place(how, i)).collect::<Result<Vec<_>>>()?;
        if places.iter().any(Option::is_none) {
            let behind = x.rank() - 1 - axis.at;
            let there: Vec<bool> = places.iter().map(Option::is_some).collect();
            outside.push((0..behind).fold(Tensor::from_slice(&there), |t, _| t.unsqueeze(-1)));
        }
        let places: Vec<f64> = places.into_iter().map(|p| p.unwrap_or(0.0)).collect();
        y = match &kernel {
            None => picked(&y, axis, &places, nearest)?,
            Some(kernel) => mixed(&y, axis, &places, kernel),
        };
    }
    let y = outside.iter().fold(y, |y, there| there.where_(y, fill));
    give(match x.dtype() {
        d if d.is_int() && kernel.is_some() => y.round().cast(d),
        d => y.cast(d),
    })
}

/// The nearest elements along an axis.
fn picked(x: &Tensor, axis: &Axis, places: &[f64], how: &str) -> Result<Tensor> {
    let round = |p: f64| match how {
        "round_prefer_floor" => Ok((p - 0.5).ceil()),
        "round_prefer_ceil" => Ok((p + 0.5).floor()),
        "floor" => Ok(p.floor()),
        "ceil" => Ok(p.ceil()),
        other => fail(format!("attribute \"nearest_mode\" is {other:?}")),
    };
    let last = (axis.from as i64 - 1).max(0);
    let at =
        places.iter().map(|p| round(*p).map(|p| (p as i64).clamp(0, last))).collect::<Result<Vec<_>>>()?;
    Ok(x.index_select(axis.at as isize, &Tensor::from_slice(&at)))
}
/// Weighted sums of a few elements along an axis.
fn mixed(x: &Tensor, axis: &Axis, places: &[f64], kernel: &Kernel) -> Tensor {
    let all: Vec<Vec<(i64, f64)>> = places.iter().map(|p| axis.taps(*p, kernel)).collect();
    if let Some(y) = mixed_by_period(x, axis, &all) {
        return y;
    }
    let last = (axis.from as i64 - 1).max(0);
    let each = all.first().map_or(0, Vec::len);
    let taps: Vec<(i64, f64)> = all.into_iter().flatten().collect();
    let at = Tensor::from_slice(&taps.iter().map(|t| t.0.clamp(0, last)).collect::<Vec<_>>());
    let weights =
        Tensor::from_vec(taps.iter().map(|t| t.1).collect::<Vec<_>>(), [places.len(), each]).cast(x.dtype());
    let weights = (axis.at + 1..x.rank()).fold(weights, |w, _| w.unsqueeze(-1));
    let dim = axis.at as isize;
    (x.index_select(dim, &at).unflatten(dim, (places.len(), each)) * weights).sum(dim + 1)
}
/// The same where weights repeat: `r` new elements for every `s` old ones. Each weight then belongs to a slice of the axis,
/// with the elements at its ends repeated, and no element is looked up. Along rows in memory it is a small product.
///
/// ```text
/// y[r j + p]  =  sum of w[p][k] x[s j + k]   over a few k
/// ```
fn mixed_by_period(x: &Tensor, axis: &Axis, all: &[Vec<(i64, f64)>]) -> Option<Tensor> {
    let (mut count, mut rest) = (axis.to, axis.from);
    while rest > 0 {
        (count, rest) = (rest, count % rest);
    }
    let (r, s) = (axis.to / count.max(1), axis.from / count.max(1));
    let is_next = |(i, taps): (usize, &Vec<(i64, f64)>)| {
        let moved = all[i].iter().map(|(k, w)| (k + s as i64, w));
        moved.zip(taps).all(|((k, w), (l, v))| k == *l && (w - v).abs() < 1e-9)
    };
    if count < 2 || r > MOST_PHASES || !all[r..].iter().enumerate().all(is_next) {
        return None;
    }
    // along rows in memory several periods together, so that there are as many weights side by side as vectors have lanes
    let is_last = axis.at + 1 == x.rank();
    let several = (1..=LANES.div_ceil(r)).rev().find(|m| is_last && count.is_multiple_of(*m)).unwrap_or(1);
    let (count, r, s) = (count / several, r * several, s * several);
    let reach = || all[..r].iter().flatten().map(|t| t.0);
    let (first, last) = (reach().min()?, reach().max()?);
    let weight = |k: i64, taps: &[(i64, f64)]| taps.iter().filter(|t| t.0 == k).map(|t| t.1).sum::<f64>();
    let weights: Vec<f64> = (first..=last).flat_map(|k| all[..r].iter().map(move |t| weight(k, t))).collect();
    let n = (last - first + 1) as usize;
    let weights = Tensor::from_vec(weights, [n, r]).cast(x.dtype());
    let dim = axis.at as isize;
    if is_last {
        let end = first + ((count - 1) * s + n) as i64;
        let mut pads = vec![(0, 0); x.rank()];
        pads[axis.at] = (-first, end - axis.from as i64);
        let rows = x.pad_mode(&pads, PadMode::Replicate).contiguous();
        return Some(rows.unfold(dim, n, s).matmul(&weights).contiguous().flatten(dim, dim + 1));
    }
    let slice = |k: usize| {
        let mine = (axis.at + 1..x.rank()).fold(weights.select(0, k as i64), |w, _| w.unsqueeze(-1));
        // those beyond an end are its last one
        let at = (Tensor::arange(count) * s as i64 + (first + k as i64)).clamp(0, axis.from as i64 - 1);
        x.index_select(dim, &at).unsqueeze(dim + 1) * mine
    };
    Some((0..n).map(slice).reduce(|a, b| a + b)?.flatten(dim, dim + 1))
}

/// Boxes by falling score, less those that overlap one before them.
fn non_max_suppression(c: &Call) -> Result<Outs> {
    let centred = c.flag("center_point_box")?;
    let optional = |i: usize| if c.value(i).is_some() { c.float_input(i).map(Some) } else { Ok(None) };
    let most = optional(2)?.unwrap_or(0.0).max(0.0) as usize;
    let overlap = optional(3)?.unwrap_or(0.0);
    let least = optional(4)?;
    let (boxes, scores) = (c.tensor(0)?, c.tensor(1)?);
    let (batches, n, classes) = match (&boxes.dims()?[..], &scores.dims()?[..]) {
        (&[b, n, 4], &[also, classes, each]) if (also, each) == (b, n) => (b, n, classes),
        _ => {
            return fail(format!("boxes of shape {} with scores of shape {}", boxes.shape(), scores.shape()));
        }
    };
    let (boxes, scores) = (boxes.float().to_vec::<f32>()?, scores.float().to_vec::<f32>()?);
    let corners = |i: usize| {
        let b = &boxes[4 * i..4 * i + 4];
        match centred {
            true => [b[1] - b[3] / 2.0, b[0] - b[2] / 2.0, b[1] + b[3] / 2.0, b[0] + b[2] / 2.0],
            false => [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])],
        }
    };
    let mut out: Vec<i64> = vec![];
    for (b, class) in (0..batches).flat_map(|b| (0..classes).map(move |c| (b, c))) {
        let row = &scores[(b * classes + class) * n..][..n];
        let mut order: Vec<usize> = (0..n).filter(|i| least.is_none_or(|s| f64::from(row[*i]) > s)).collect();
        order.sort_by(|i, j| row[*j].total_cmp(&row[*i]));
        let mut kept: Vec<usize> = vec![];
        for i in order {
            if kept.len() < most
                && kept.iter().all(|k| shared_part(corners(b * n + i), corners(b * n + k)) <= overlap)
            {
                kept.push(i);
                out.extend([b as i64, class as i64, i as i64]);
            }
        }
    }
    give(Tensor::from_vec(&out, [out.len() / 3, 3]))
}
/// Intersection over union.
fn shared_part(a: [f32; 4], b: [f32; 4]) -> f64 {
    let side = |k: usize| f64::from(a[k + 2].min(b[k + 2]) - a[k].max(b[k])).max(0.0);
    let area = |r: [f32; 4]| f64::from(r[2] - r[0]) * f64::from(r[3] - r[1]);
    let both = side(0) * side(1);
    let either = area(a) + area(b) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

/// Means or maxima of samples in the cells of boxes.
fn roi_align(c: &Call) -> Result<Outs> {
    let (x, rois, batch) = (c.tensor(0)?, c.tensor(1)?, c.ints(2)?);
    let (oh, ow) = (c.count("output_height", 1)?, c.count("output_width", 1)?);
    let (ratio, scale) = (c.int_or("sampling_ratio", 0)?.max(0) as usize, c.float_or("spatial_scale", 1.0)?);
    let default = if c.version() < 16 { "output_half_pixel" } else { "half_pixel" };
    let half = c.text_or("coordinate_transformation_mode", default)? == "half_pixel";
    let is_max = c.text_or("mode", "avg")? == "max";
    let (h, w) = match (&x.dims()?[..], &rois.dims()?[..]) {
        (&[_, _, h, w], &[n, 4]) if h > 0 && w > 0 && n == batch.len() => (h, w),
        _ => return fail(format!("boxes of shape {} in an image of shape {}", rois.shape(), x.shape())),
    };
    let corners = rois.double().to_vec::<f64>()?;
    let mut pooled = vec![];
    for (r, b) in corners.chunks_exact(4).zip(&batch) {
        let shift = if half { 0.5 } else { 0.0 };
        let [x0, y0, x1, y1] = [r[0], r[1], r[2], r[3]].map(|v| v * scale - shift);
        let side = |a: f64, b: f64| if half { b - a } else { (b - a).max(1.0) };
        let (rows, ny) = samples(y0, side(y0, y1), oh, ratio, h)?;
        let (cols, nx) = samples(x0, side(x0, x1), ow, ratio, w)?;
        bounded(&[oh, ny, ow, nx])?;
        // (C, H, W) -> (C, OH * ny, OW * nx), each sample from four elements
        let image = x.select(0, *b);
        let d = x.dtype();
        let at = |ys: &[(i64, f64)], xs: &[(i64, f64)]| {
            let (yi, yw) = split(ys, d);
            let (xi, xw) = split(xs, d);
            image.index_select(1, &yi).index_select(2, &xi) * (yw.unsqueeze(1) * xw)
        };
        let four = [at(&rows.0, &cols.0), at(&rows.0, &cols.1), at(&rows.1, &cols.0), at(&rows.1, &cols.1)];
        let join = |a: Tensor, b: &Tensor| if is_max { a.maximum(b) } else { a + b };
        let sampled = four[1..].iter().fold(four[0].clone(), join);
        let cells = sampled.reshape((-1, oh, ny, ow, nx));
        pooled.push(if is_max { cells.max([2, 4]) } else { cells.mean([2, 4]) });
    }
    match pooled.is_empty() {
        true => give(Tensor::full_dtype((0, &x.shape()[1], oh, ow), 0, x.dtype())),
        false => give(Tensor::stack(&pooled, 0)),
    }
}
type Taps = Vec<(i64, f64)>;
/// Along one axis of a box: the elements before and after each sample with their weights, and the samples of a cell.
fn samples(start: f64, length: f64, cells: usize, ratio: usize, n: usize) -> Result<((Taps, Taps), usize)> {
    let cell = length / cells as f64;
    let each = if ratio > 0 { ratio } else { (cell.ceil() as usize).max(1) };
    let place = |i: usize| start + (i / each) as f64 * cell + ((i % each) as f64 + 0.5) * cell / each as f64;
    let last = n as i64 - 1;
    let tap = |i: usize| {
        let p = place(i);
        if p < -1.0 || p > n as f64 {
            return ((0, 0.0), (0, 0.0));
        }
        let p = p.max(0.0);
        let low = (p.floor() as i64).min(last);
        let rest = if low == last { 0.0 } else { p - low as f64 };
        ((low, 1.0 - rest), ((low + 1).min(last), rest))
    };
    Ok(((0..bounded(&[cells, each])?).map(tap).unzip(), each))
}
fn split(taps: &[(i64, f64)], d: DType) -> (Tensor, Tensor) {
    let (at, weights): (Vec<i64>, Vec<f64>) = taps.iter().copied().unzip();
    (Tensor::from_slice(&at), Tensor::from_slice(&weights).cast(d))
}
