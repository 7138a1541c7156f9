//! Moving elements without computing.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::value::Value;
use frit_tensor::{Dim, Index, Indices, PadMode, Result, Tensor, step};

pub(super) const OPS: &[Op] = &[
    op("CenterCropPad", 18, center_crop_pad),
    op("Concat", 1, |c| concat(c, 1)),
    op("Concat", 4, |c| concat(c, -1)),
    op("DepthToSpace", 1, depth_to_space),
    op("Expand", 8, |c| {
        let dims = c.dims(1)?;
        c.moved(|x| expanded(x, &dims))
    }),
    op("Flatten", 1, flatten),
    op("Identity", 1, |c| give(c.input(0)?.clone())),
    op("Pad", 1, |c| pad(c, c.list("paddings")?, None)),
    op("Pad", 2, |c| pad(c, c.list("pads")?, None)),
    op("Pad", 11, |c| pad(c, Some(c.ints(1)?), c.optional(2)?)),
    op("Reshape", 1, |c| {
        c.ignore(&["consumed_inputs"]);
        reshape(c, listed(c, "shape")?)
    }),
    op("Reshape", 5, |c| reshape(c, c.dims(1)?)),
    op("ReverseSequence", 10, reverse_sequence),
    op("Shape", 1, shape),
    op("Size", 1, |c| match c.input(0)? {
        Value::Strings(s) => give(Tensor::full_dtype((), s.texts.len() as i64, I64)),
        other => give(other.tensor()?.shape().numel().tensor().long()),
    }),
    op("Slice", 1, |c| {
        let axes = c.list("axes")?;
        slice(c, listed(c, "starts")?, listed(c, "ends")?, axes, None)
    }),
    op("Slice", 10, |c| slice(c, c.dims(1)?, c.dims(2)?, c.optional_ints(3)?, c.optional_ints(4)?)),
    op("SpaceToDepth", 1, space_to_depth),
    op("Split", 1, |c| split(c, if c.len() > 1 { Some(c.ints(1)?) } else { c.list("split")? })),
    op("Split", 13, |c| split(c, c.optional_ints(1)?)),
    op("Squeeze", 1, |c| squeeze(c, c.list("axes")?)),
    op("Squeeze", 13, |c| squeeze(c, c.optional_ints(1)?)),
    op("Tile", 1, old_tile),
    op("Tile", 6, |c| {
        let counts = c.dims(1)?;
        c.moved(|x| Ok(x.tile(&counts)))
    }),
    op("Transpose", 1, transpose),
    op("Trilu", 14, trilu),
    op("Unsqueeze", 1, |c| unsqueeze(c, c.list("axes")?.unwrap_or_default())),
    op("Unsqueeze", 13, |c| unsqueeze(c, c.ints(1)?)),
];

const I64: frit_tensor::DType = frit_tensor::DType::I64;

/// An axis from the front.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(at) {
        Ok(at) if at < rank => Ok(at),
        _ => fail(format!("axis {axis} of {rank} dims")),
    }
}

/// The size of an axis; an error where there is no such axis.
pub(super) fn size_at(x: &Tensor, axis: usize) -> Result<usize> {
    Ok(x.shape()[axis].value()?.max(0) as usize)
}

/// Parts that add up to a size.
pub(super) fn checked_parts(sizes: Vec<i64>, n: usize) -> Result<Vec<i64>> {
    let all = sizes.iter().try_fold(0i64, |sum, s| if *s < 0 { None } else { sum.checked_add(*s) });
    match all == Some(n as i64) {
        true => Ok(sizes),
        false => fail(format!("{n} elements in parts of {sizes:?}")),
    }
}

fn concat(c: &Call, default: isize) -> Result<Outs> {
    let axis = c.axis("axis", default)?;
    if let Value::Strings(first) = c.input(0)? {
        let mut all = (0..c.len()).map(|i| c.strings(i)).collect::<Result<Vec<_>>>()?.into_iter();
        let first = all.next().unwrap_or(first).clone();
        return give(all.try_fold(first, |a, b| a.joined(b, axis))?);
    }
    let all = c.tensors()?;
    all.iter().try_for_each(|t| c.alike(&all[0], t))?;
    give(Value::Tensor(Tensor::cat(&all, axis), c.element(0)?))
}

/// An attribute's integers as sizes.
fn listed(c: &Call, name: &str) -> Result<Vec<Dim>> {
    Ok(c.list(name)?.unwrap_or_default().iter().map(Dim::from).collect())
}

fn reshape(c: &Call, dims: Vec<Dim>) -> Result<Outs> {
    let allow_zero = c.flag("allowzero")?;
    c.moved(|x| {
        let shape = x.shape();
        let dim = |(i, d): (usize, &Dim)| if *d == 0 && !allow_zero { shape[i].clone() } else { d.clone() };
        Ok(x.reshape(dims.iter().enumerate().map(dim).collect::<Vec<_>>()))
    })
}

fn flatten(c: &Call) -> Result<Outs> {
    let axis = c.int_or("axis", 1)?;
    c.moved(|x| {
        let at = if axis < 0 { axis + x.rank() as i64 } else { axis };
        let rows = x.shape().as_slice().iter().take(at.max(0) as usize).fold(Dim::from(1), |a, b| a * b);
        let cols = x.shape().as_slice().iter().skip(at.max(0) as usize).fold(Dim::from(1), |a, b| a * b);
        Ok(x.reshape((rows, cols)))
    })
}

/// Broadcast both ways.
pub(super) fn expanded(x: &Tensor, dims: &[Dim]) -> Result<Tensor> {
    let rank = dims.len().max(x.rank());
    let (shape, own, other) = (x.shape(), rank - x.rank(), rank - dims.len());
    let dim = |i: usize| {
        let here = if i < own { Dim::from(1) } else { shape[i - own].clone() };
        if i < other || dims[i - other] == 1 { here } else { dims[i - other].clone() }
    };
    Ok(x.expand((0..rank).map(dim).collect::<Vec<_>>()))
}

fn squeeze(c: &Call, axes: Option<Vec<i64>>) -> Result<Outs> {
    c.moved(|x| {
        Ok(match &axes {
            Some(axes) => {
                let axes: Vec<isize> = axes.iter().map(|a| *a as isize).collect();
                if let Some(a) = axes.iter().find(|a| x.shape()[**a] != 1) {
                    return fail(format!("axis {a} of shape {} is not 1", x.shape()));
                }
                x.squeeze(&axes[..])
            }
            None => x.squeeze(..),
        })
    })
}

fn unsqueeze(c: &Call, axes: Vec<i64>) -> Result<Outs> {
    c.moved(|x| {
        let rank = x.rank() + axes.len();
        let mut at = axes.iter().map(|a| axis_of(*a, rank)).collect::<Result<Vec<_>>>()?;
        at.sort_unstable();
        if at.windows(2).any(|w| w[0] == w[1]) {
            return fail(format!("axes {axes:?} name one twice"));
        }
        Ok(at.iter().fold(x.clone(), |x, a| x.unsqueeze(*a as isize)))
    })
}

fn transpose(c: &Call) -> Result<Outs> {
    let perm = c.list("perm")?;
    c.moved(|x| {
        let reversed = || (0..x.rank() as isize).rev().collect();
        let axes: Vec<isize> = perm.map_or_else(reversed, |p| p.iter().map(|a| *a as isize).collect());
        Ok(x.permute(&axes[..]))
    })
}

fn shape(c: &Call) -> Result<Outs> {
    let dims: Vec<Dim> = match c.input(0)? {
        Value::Strings(s) => s.dims.iter().map(Dim::from).collect(),
        other => other.tensor()?.shape().as_slice().to_vec(),
    };
    let n = dims.len() as i64;
    let place = |v: i64| if v < 0 { v + n } else { v }.clamp(0, n) as usize;
    let (start, end) = (place(c.int_or("start", 0)?), place(c.int_or("end", n)?));
    // not memory: what is made of sizes is known without computing
    let sizes: Vec<Tensor> = dims[start..end.max(start)].iter().map(|d| d.tensor().long()).collect();
    give(if sizes.is_empty() { Tensor::full_dtype([0], 0, I64) } else { Tensor::stack(&sizes, 0) })
}

fn slice(
    c: &Call,
    starts: Vec<Dim>,
    ends: Vec<Dim>,
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
) -> Result<Outs> {
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()].iter().any(|n| *n != starts.len()) {
        return fail("starts, ends, axes and steps are not of one length");
    }
    c.moved(|x| {
        let mut indices: Vec<Index> = (0..x.rank()).map(|_| (..).into()).collect();
        // far beyond any dim means to its end
        let far = |d: &Dim| d.as_int().map_or_else(|| d.clone(), |v| v.clamp(-1 << 60, 1 << 60).into());
        for (i, axis) in axes.iter().enumerate() {
            indices[axis_of(*axis, x.rank())?] = step(far(&starts[i])..far(&ends[i]), steps[i]);
        }
        Ok(x.at(Indices::from(indices)))
    })
}

fn split(c: &Call, sizes: Option<Vec<i64>>) -> Result<Outs> {
    let (axis, parts) = (c.int_or("axis", 0)?, c.int("num_outputs")?);
    let value = c.input(0)?;
    let n = value.dim(axis_of(axis, value.rank()?)?)?.value()?.max(0) as usize;
    let sizes = match sizes {
        Some(s) => checked_parts(s, n)?,
        None if parts.is_some_and(|p| p != c.outs() as i64) => {
            return fail(format!(
                "attribute \"num_outputs\" is {}, of {} outputs",
                parts.unwrap_or(0),
                c.outs()
            ));
        }
        None => {
            let parts = c.outs().max(1);
            let each = n.div_ceil(parts);
            (0..parts).map(|i| each.min(n.saturating_sub(i * each)) as i64).collect()
        }
    };
    let mut begin = 0;
    let mut out = vec![];
    for size in sizes {
        out.push(c.moved_value(0, |x| Ok(x.narrow(axis as isize, begin, size)))?);
        begin += size;
    }
    give(out)
}

fn old_tile(c: &Call) -> Result<Outs> {
    // of the type that the first input has
    let (count, axis) = (c.float_input(1)? as i64, c.float_input(2)? as i64);
    c.moved(|x| {
        let mut counts = vec![1; x.rank()];
        counts[axis_of(axis, x.rank())?] = count;
        Ok(x.tile(&counts))
    })
}

fn trilu(c: &Call) -> Result<Outs> {
    let upper = c.int_or("upper", 1)? != 0;
    let k = if c.value(1).is_some() { c.int_input(1)? } else { 0 };
    c.moved(|x| Ok(if upper { x.triu(k) } else { x.tril(k) }))
}

/// Pairs of amounts for each dim, from all that come before and all that come after.
pub(super) fn pairs(pads: &[i64]) -> Vec<(i64, i64)> {
    let half = pads.len() / 2;
    (0..half).map(|i| (pads[i], pads[i + half])).collect()
}

fn pad(c: &Call, pads: Option<Vec<i64>>, value: Option<Tensor>) -> Result<Outs> {
    let mode = c.text_or("mode", "constant")?;
    let fill = c.float_or("value", 0.0)?;
    let axes = c.optional_ints(3)?;
    let pads = pairs(&pads.unwrap_or_default());
    c.moved(|x| {
        let mut amounts = vec![(0, 0); x.rank()];
        let axes = axes.unwrap_or_else(|| (0..x.rank() as i64).collect());
        if axes.len() != pads.len() {
            return fail(format!("{} pairs of pads for {} axes", pads.len(), axes.len()));
        }
        for (axis, by) in axes.iter().zip(&pads) {
            amounts[axis_of(*axis, x.rank())?] = *by;
        }
        Ok(match (mode, value) {
            ("constant", Some(v)) => x.pad(&amounts, v.reshape(())),
            ("constant", None) => x.pad_mode(&amounts, PadMode::Constant(fill)),
            ("reflect", _) => x.pad_mode(&amounts, PadMode::Reflect),
            ("edge", _) => x.pad_mode(&amounts, PadMode::Replicate),
            ("wrap", _) => x.pad_mode(&amounts, PadMode::Circular),
            (other, _) => return fail(format!("attribute \"mode\" is {other:?}")),
        })
    })
}

fn center_crop_pad(c: &Call) -> Result<Outs> {
    let (target, axes) = (c.ints(1)?, c.list("axes")?);
    c.moved(|x| {
        let (dims, mut amounts) = (x.dims()?, vec![(0, 0); x.rank()]);
        let axes = axes.unwrap_or_else(|| (0..x.rank() as i64).collect());
        for (axis, to) in axes.iter().zip(&target) {
            let at = axis_of(*axis, x.rank())?;
            let by = to - dims[at] as i64;
            // an odd element comes or goes at the end
            let before = by.abs() / 2 * by.signum();
            amounts[at] = (before, by - before);
        }
        Ok(x.pad(&amounts, 0))
    })
}

fn reverse_sequence(c: &Call) -> Result<Outs> {
    let (batch, time) = (c.int_or("batch_axis", 1)?, c.int_or("time_axis", 0)?);
    let lengths = c.tensor(1)?;
    c.moved(|x| {
        let (batch, time) = (axis_of(batch, x.rank())?, axis_of(time, x.rank())?);
        let line = |axis: usize, t: Tensor| {
            let mut dims = vec![1i64; x.rank()];
            dims[axis] = -1;
            t.reshape(dims)
        };
        let place = line(time, Tensor::arange(&x.shape()[time]).long());
        let length = line(batch, lengths.long());
        let at = place.lt(&length).where_(&length - 1 - &place, &place);
        Ok(x.gather(time as isize, &at.expand(x.shape())))
    })
}

fn depth_to_space(c: &Call) -> Result<Outs> {
    let b = block(c)?;
    let order = match c.text_or("mode", "DCR")? {
        "DCR" => [0, 3, 4, 1, 5, 2],
        "CRD" => [0, 1, 4, 2, 5, 3],
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    c.moved(|x| {
        let s = x.shape();
        let (h, w) = (&s[2], &s[3]);
        let split = match order[1] {
            3 => x.reshape((&s[0], b, b, -1, h, w)),
            _ => x.reshape((&s[0], -1, b, b, h, w)),
        };
        Ok(split.permute(order).reshape((&s[0], -1, h * b, w * b)))
    })
}
fn space_to_depth(c: &Call) -> Result<Outs> {
    let b = block(c)?;
    let order = match c.text_or("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return fail(format!("attribute \"mode\" is {other:?}")),
    };
    c.moved(|x| {
        let s = x.shape();
        let (h, w) = (&s[2] / b, &s[3] / b);
        Ok(x.reshape((&s[0], &s[1], &h, b, &w, b)).permute(order).reshape((&s[0], -1, &h, &w)))
    })
}
fn block(c: &Call) -> Result<i64> {
    match c.int("blocksize")? {
        Some(b) if b > 0 => Ok(b),
        other => fail(format!("attribute \"blocksize\" is {other:?}")),
    }
}
