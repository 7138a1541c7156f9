//! Operations that were noted by name, as operators of ONNX; none where it has no such operator for these arguments.

use super::writer::{Attribute::*, Attributes};
use frit_tensor::DType;
use frit_tensor::WindowDims;
use frit_tensor::trace::{Composite, Step};
use frit_uop::{Alu, Op, UOp};

/// An operator with its inputs.
pub(super) struct Form {
    pub op: &'static str,
    /// How many results it has, which one is meant, and the type that one has there.
    pub output: (usize, usize, DType),
    pub inputs: Vec<Option<UOp>>,
    pub attributes: Attributes,
}

/// The operator of a step in this version.
pub(super) fn form(step: &Step, opset: i64) -> Option<Form> {
    use DType::*;
    let y = &step.value;
    let x = step.inputs.first()?.as_ref()?;
    let rank = x.shape().len();
    if let Composite::TopK { axis, count, largest, places } = step.what {
        let dtype = if places { I64 } else { x.dtype };
        let n = count.or_else(|| x.shape().get(axis)?.as_int())?;
        if !matches!(x.dtype, F16 | F32 | F64 | I32 | I64) || rank == 0 {
            return None;
        }
        let count = UOp::int(n, I64).reshape(&[UOp::index(1)]);
        let attributes = vec![("axis", Int(axis as i64)), ("largest", Int(i64::from(largest)))];
        let inputs = vec![Some(x.clone()), Some(count)];
        return Some(Form { op: "TopK", output: (2, usize::from(places), dtype), inputs, attributes });
    }
    let output = (1, 0, y.dtype);
    let is_any = matches!(step.what, Composite::Concat(_));
    let is_int = matches!(y.dtype, I32 | U32 | I64 | U64)
        && matches!(step.what, Composite::MatMul | Composite::AtLeast | Composite::AtMost)
        || is_any;
    if !matches!(y.dtype, F16 | BF16 | F32 | F64) && !is_int {
        return None;
    }
    // ONNX has one type for all, a mask apart
    let input = |i: usize| step.inputs.get(i)?.as_ref().map(|u| u.cast(y.dtype));
    let same = |op, inputs: usize, attributes| {
        Some(Form { op, output, inputs: (0..inputs).map(input).collect(), attributes })
    };
    let filled = |v: f64, dims: &[UOp]| {
        let ones = vec![UOp::index(1); dims.len()];
        Some(UOp::float(v, y.dtype).reshape(&ones).expand(dims))
    };
    match &step.what {
        Composite::MatMul => same("MatMul", 2, vec![]),
        Composite::Conv { window, groups } => {
            let mut a = walk(window);
            a.push(("group", Int(*groups as i64)));
            same("Conv", 3, a)
        }
        Composite::ConvTranspose { window, groups, output_padding } => {
            let mut a = walk(window);
            a.push(("group", Int(*groups as i64)));
            a.push(("output_padding", ints(output_padding)));
            same("ConvTranspose", 3, a)
        }
        Composite::MaxPool(window) => fits(window, rank).then(|| same("MaxPool", 1, walk(window)))?,
        Composite::AvgPool { window, count_pad } => {
            if !fits(window, rank) || window.dilation.iter().any(|d| *d != 1) {
                return None;
            }
            let mut a = walk(window);
            a.retain(|(name, _)| *name != "dilations");
            a.push(("count_include_pad", Int(i64::from(*count_pad))));
            same("AveragePool", 1, a)
        }
        Composite::LayerNorm { axes, eps } if opset >= 17 => {
            let (first, dims) = last(axes, x)?;
            let weight = input(1).or_else(|| filled(1.0, dims)).filter(|w| w.shape() == dims)?;
            let bias = input(2).filter(|b| b.shape() == dims);
            if bias.is_none() && step.inputs.get(2)?.is_some() {
                return None;
            }
            let attributes = vec![("axis", Int(first as i64)), ("epsilon", Float(*eps))];
            Some(Form {
                op: "LayerNormalization",
                output,
                inputs: vec![input(0), Some(weight), bias],
                attributes,
            })
        }
        Composite::RmsNorm { axes, eps } if opset >= 23 => {
            let (first, dims) = last(axes, x)?;
            let weight = input(1).or_else(|| filled(1.0, dims)).filter(|w| w.shape() == dims)?;
            let attributes = vec![("axis", Int(first as i64)), ("epsilon", Float(*eps))];
            Some(Form { op: "RMSNormalization", output, inputs: vec![input(0), Some(weight)], attributes })
        }
        Composite::BatchNorm => {
            // our scale has the deviation in it: ONNX's is one
            let (mean, inverse) = (input(3)?, input(4)?);
            let channels = &x.shape()[1..2];
            let scale = input(1).map_or(inverse.clone(), |w| inverse.bin(Alu::Mul, &w));
            let bias = input(2).or_else(|| filled(0.0, channels))?;
            let all = [&scale, &bias, &mean];
            if all.iter().any(|t| t.shape() != channels) {
                return None;
            }
            let inputs = vec![input(0), Some(scale), Some(bias), Some(mean), filled(1.0, channels)];
            Some(Form { op: "BatchNormalization", output, inputs, attributes: vec![("epsilon", Float(0.0))] })
        }
        Composite::GroupNorm { groups, eps } if opset >= 21 && rank > 2 => {
            let channels = &x.shape()[1..2];
            let of_channels =
                |i, v| input(i).or_else(|| filled(v, channels)).filter(|t| t.shape() == channels);
            let inputs = vec![input(0), Some(of_channels(1, 1.0)?), Some(of_channels(2, 0.0)?)];
            let attributes = vec![("num_groups", Int(*groups as i64)), ("epsilon", Float(*eps))];
            Some(Form { op: "GroupNormalization", output, inputs, attributes })
        }
        Composite::Relu => same("Relu", 1, vec![]),
        Composite::Gelu { tanh } if opset >= 20 => {
            same("Gelu", 1, vec![("approximate", Text(if *tanh { "tanh" } else { "none" }))])
        }
        Composite::AtLeast | Composite::AtMost => {
            // ONNX expands by itself, where one of them has the whole shape
            let mut limit = input(1)?;
            while limit.op == Op::Expand && x.shape() == y.shape() {
                limit = limit.input().clone();
            }
            let op = if matches!(step.what, Composite::AtLeast) { "Max" } else { "Min" };
            Some(Form { op, output, inputs: vec![input(0), Some(limit)], attributes: vec![] })
        }
        Composite::Concat(axis) if rank > 0 => {
            same("Concat", step.inputs.len(), vec![("axis", Int(*axis as i64))])
        }
        Composite::Softmax(axis) if rank > 0 => same("Softmax", 1, vec![("axis", Int(*axis as i64))]),
        Composite::LogSoftmax(axis) if rank > 0 => same("LogSoftmax", 1, vec![("axis", Int(*axis as i64))]),
        Composite::Attention { causal, scale } if opset >= 23 && rank == 4 => {
            let (key, value) = (input(1)?, input(2)?);
            let lead = |t: &UOp, n: usize| t.shape().len() == 4 && t.shape()[..n] == key.shape()[..n];
            if !lead(&value, 3) || !lead(x, 1) {
                return None;
            }
            let mask = step.inputs.get(3)?.clone();
            let mask = mask.map(|m| if m.dtype == Bool { m } else { m.cast(y.dtype) });
            if mask.as_ref().is_some_and(|m| !matches!(m.shape().len(), 2 | 4)) {
                return None;
            }
            let attributes = vec![("is_causal", Int(i64::from(*causal))), ("scale", Float(*scale))];
            Some(Form {
                op: "Attention",
                output,
                inputs: vec![input(0), Some(key), Some(value), mask],
                attributes,
            })
        }
        _ => None,
    }
}

fn ints(v: &[usize]) -> super::writer::Attribute {
    Ints(v.iter().map(|v| *v as i64).collect())
}

fn walk(w: &WindowDims) -> Attributes {
    let pads: Vec<usize> = w.padding.iter().map(|p| p.0).chain(w.padding.iter().map(|p| p.1)).collect();
    vec![
        ("kernel_shape", ints(&w.size)),
        ("strides", ints(&w.stride)),
        ("dilations", ints(&w.dilation)),
        ("pads", ints(&pads)),
    ]
}

/// Pools take a batch, channels and spatial dims, and less padding than the window is long.
fn fits(w: &WindowDims, rank: usize) -> bool {
    rank == w.size.len() + 2 && w.padding.iter().zip(&w.size).all(|((a, b), n)| a < n && b < n)
}

/// The first of the axes and their dims, where they are the last ones.
fn last<'a>(axes: &[usize], x: &'a UOp) -> Option<(usize, &'a [UOp])> {
    let first = x.shape().len().checked_sub(axes.len())?;
    let is_last = !axes.is_empty() && axes.iter().enumerate().all(|(i, a)| *a == first + i);
    is_last.then(|| (first, &x.shape()[first..]))
}
