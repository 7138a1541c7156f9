//! Every op against torch's values and gradients, from `tests-data/goldens.bin`.

use crate::tiny::on;
use frit_reference::goldens::{self, Case, Kind};
use frit_reference::{Array, BINARY, UNARY};
use frit_tensor::*;

fn load(t: &goldens::Tensor) -> Tensor {
    let (a, d) = (&t.array, &t.array.data);
    let dims = a.shape.clone();
    match t.kind {
        Kind::Bool => Tensor::from_vec(d.iter().map(|v| *v != 0.0).collect::<Vec<_>>(), dims),
        Kind::I8 => Tensor::from_vec(d.iter().map(|v| *v as i8).collect::<Vec<_>>(), dims),
        Kind::U8 => Tensor::from_vec(d.iter().map(|v| *v as u8).collect::<Vec<_>>(), dims),
        Kind::I32 => Tensor::from_vec(d.iter().map(|v| *v as i32).collect::<Vec<_>>(), dims),
        Kind::F32 => Tensor::from_vec(d.iter().map(|v| *v as f32).collect::<Vec<_>>(), dims),
    }
}

fn view(case: &Case, name: &str, x: &Tensor) -> Tensor {
    case.recipe(name).iter().fold(x.clone(), |x, (what, n)| match *what {
        "permute" => x.permute(n.clone()),
        "flip" => x.flip(n.clone()),
        "expand" => x.expand(n.clone()),
        "reshape" => x.reshape(n.clone()),
        "slice" => slice(&x, n[0], Some(n[1]), Some(n[2]), n[3]),
        _ => panic!("{}: recipe step {what}", case.name),
    })
}

fn slice(x: &Tensor, axis: isize, start: Option<isize>, stop: Option<isize>, by: isize) -> Tensor {
    let axis = if axis < 0 { axis + x.rank() as isize } else { axis } as usize;
    let mut idx: Vec<Index> = vec![Index::from(..); axis];
    let end = |v: Option<isize>| v.map(Dim::from);
    idx.push(Index::Slice { start: end(start), end: end(stop), step: by as i64 });
    x.at(idx)
}

fn run(case: &Case, i: &[Tensor]) -> Option<Vec<Tensor>> {
    let x = &i[0];
    let y = || &i[1];
    let (dim, number) = (case.ints("dim"), |k: &str, d: f64| case.number(k).unwrap_or(d));
    let axes = || {
        let a: Axes = if case.param("dim").is_some() { dim.clone().into() } else { (..).into() };
        if case.flag("keepdim") { keepdim(a) } else { a }
    };
    let sizes = |k: &str, d: &[usize]| -> Vec<usize> {
        let given = case.ints(k);
        if given.is_empty() { d.to_vec() } else { given.iter().map(|v| *v as usize).collect() }
    };
    let pairs = |k: &str| -> Vec<(isize, isize)> { case.ints(k).chunks(2).map(|c| (c[0], c[1])).collect() };
    let bound = |k: &str| case.param(k).and_then(|v| v.parse().ok());
    let eps = number("eps", 1e-5);
    let window = || {
        Window::new()
            .padding(sizes("padding", &[0, 0]))
            .dilation(sizes("dilation", &[1, 1]))
            .stride(sizes("stride", &sizes("kernel", &[1, 1])))
    };
    let smoothed = || CrossEntropy {
        label_smoothing: number("smoothing", 0.0),
        ignore_index: case.number("ignore_index").map(|v| v as i64),
        ..Default::default()
    };
    let correction = number("correction", 1.0) as i64;
    Some(vec![match case.op.as_str() {
        "neg" => -x,
        "abs" => x.abs(),
        "sign" => x.sign(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "trunc" => x.trunc(),
        "round" => x.round(),
        "sqrt" => x.sqrt(),
        "rsqrt" => x.rsqrt(),
        "reciprocal" => x.reciprocal(),
        "square" => x.square(),
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.expm1(),
        "log" => x.log(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "erf" => x.erf(),
        "erfc" => x.erfc(),
        "sigmoid" => x.sigmoid(),
        "logsigmoid" => x.logsigmoid(),
        "softplus" => x.softplus(),
        "softsign" => x.softsign(),
        "relu" => x.relu(),
        "relu6" => x.relu6(),
        "hardtanh" => x.hardtanh(),
        "hardsigmoid" => x.hardsigmoid(),
        "hardswish" => x.hardswish(),
        "selu" => x.selu(),
        "gelu" => x.gelu(),
        "gelu_tanh" => x.gelu_tanh(),
        "quick_gelu" => x.quick_gelu(),
        "silu" => x.silu(),
        "mish" => x.mish(),
        "isnan" => x.isnan(),
        "isinf" => x.isinf(),
        "isfinite" => x.isfinite(),
        "add" => x + y(),
        "sub" => x - y(),
        "mul" => x * y(),
        "div" => x / y(),
        "pow" => x.pow(y()),
        "maximum" => x.maximum(y()),
        "minimum" => x.minimum(y()),
        "atan2" => x.atan2(y()),
        "copysign" => x.copysign(y()),
        "logaddexp" => x.logaddexp(y()),
        "floor_div" => x.floor_div(y()),
        "modulo" => x % y(),
        "fmod" => x.fmod(y()),
        "eq" => x.eq(y()),
        "ne" => x.ne(y()),
        "lt" => x.lt(y()),
        "le" => x.le(y()),
        "gt" => x.gt(y()),
        "ge" => x.ge(y()),
        "logical_and" => x.logical_and(y()),
        "logical_or" => x.logical_or(y()),
        "logical_xor" => x.logical_xor(y()),
        "bitwise_and" => x & y(),
        "bitwise_or" => x | y(),
        "bitwise_xor" => x ^ y(),
        "shl" => x << y(),
        "shr" => x >> y(),
        "logical_not" => x.logical_not(),
        "bitwise_not" => !x,
        "where" => x.where_(y(), &i[2]),
        "clamp" if x.dtype() == DType::I32 => x.clamp(number("low", 0.0) as i64, number("high", 0.0) as i64),
        "clamp" => x.clamp(number("low", 0.0), number("high", 0.0)),
        "lerp" => x.lerp(y(), &i[2]),
        "leaky_relu" => x.leaky_relu(number("slope", 0.01)),
        "elu" => x.elu(number("alpha", 1.0)),
        "celu" => x.celu(number("alpha", 1.0)),
        "cast" => x.cast(match case.outputs[0].kind {
            Kind::Bool => DType::Bool,
            Kind::I8 => DType::I8,
            Kind::U8 => DType::U8,
            Kind::I32 => DType::I32,
            Kind::F32 => DType::F32,
        }),
        "cast_via" if case.param("via") == Some("f16") => x.half().float(),
        "cast_via" => x.bfloat16().float(),
        "sum" => x.sum(axes()),
        "prod" => x.prod(axes()),
        "max" => x.max(axes()),
        "min" => x.min(axes()),
        "mean" => x.mean(axes()),
        "any" => x.any(axes()),
        "all" => x.all(axes()),
        "logsumexp" => x.logsumexp(axes()),
        "var" => x.var(axes(), correction),
        "std" => x.std(axes(), correction),
        "argmax" => x.argmax_axes(axes()),
        "argmin" => x.argmin_axes(axes()),
        "cumsum" => x.cumsum(dim[0]),
        "cumprod" => x.cumprod(dim[0]),
        "cummax" => x.cummax(dim[0]).0,
        "cummin" => x.cummin(dim[0]).0,
        "softmax" => x.softmax(dim[0]),
        "log_softmax" => x.log_softmax(dim[0]),
        "reshape" => x.reshape(case.ints("shape")),
        "permute" => x.permute(case.ints("order")),
        "expand" => x.expand(case.ints("shape")),
        "flip" => x.flip(dim),
        "pad" => x.pad(&pairs("around"), number("value", 0.0)),
        "shrink" => {
            let keep: Vec<(usize, usize)> =
                pairs("keep").iter().map(|p| (p.0 as usize, p.1 as usize)).collect();
            x.shrink(&keep)
        }
        "slice" => slice(x, dim[0], bound("start"), bound("stop"), number("step", 1.0) as isize),
        "cat" => Tensor::cat(i, dim[0]),
        "stack" => Tensor::stack(i, dim[0]),
        "repeat" => x.repeat(&sizes("times", &[])),
        "roll" => dim.iter().zip(case.ints("shifts")).fold(x.clone(), |x, (d, s)| x.roll(s, *d)),
        "tril" => x.tril(number("k", 0.0) as i64),
        "triu" => x.triu(number("k", 0.0) as i64),
        "one_hot" => x.one_hot(number("classes", 0.0) as usize),
        "gather" => x.gather(dim[0], y()),
        "scatter_add" => x.scatter_add(dim[0], y(), &i[2]),
        "index_select" => x.index_select(dim[0], y()),
        "index_add" => x.index_add(dim[0], y(), &i[2]),
        "embedding" => x.embedding(y()),
        "matmul" => x.matmul(y()),
        "linear" => x.linear(y(), i.get(2)),
        "conv2d" => x.conv2d(
            y(),
            i.get(2),
            window().stride(sizes("stride", &[1, 1])).groups(number("groups", 1.0) as usize),
        ),
        "max_pool2d" => x.max_pool2d(sizes("kernel", &[]), window()),
        "avg_pool2d" => {
            let count = case.param("count_include_pad") != Some("false");
            x.avg_pool2d(sizes("kernel", &[]), window().count_include_pad(count))
        }
        "layernorm" => {
            let n = number("axes", 1.0) as isize;
            x.layernorm((1..=n).map(|a| -a).collect::<Vec<_>>(), i.get(1), i.get(2), eps)
        }
        "rmsnorm" => x.rmsnorm(-1, i.get(1), eps),
        "groupnorm" => x.groupnorm(number("groups", 1.0) as usize, i.get(1), i.get(2), eps),
        "batchnorm" => x.batchnorm(i.get(3), i.get(4), y(), &(&i[2] + eps).rsqrt()),
        "batchnorm_train" => {
            let others: Vec<isize> = (0..x.rank() as isize).filter(|a| *a != 1).collect();
            let (var, mean) = x.var_mean(others, 0);
            x.batchnorm(i.get(1), i.get(2), &mean, &(var + eps).rsqrt())
        }
        "scaled_dot_product_attention" => x.scaled_dot_product_attention(y(), &i[2], i.get(3), false),
        "cross_entropy" => x.cross_entropy_with(y(), smoothed()),
        "nll_loss" => x.nll_loss(y(), smoothed()),
        "mse_loss" => x.mse_loss(y()),
        "l1_loss" => x.l1_loss(y()),
        _ => return None,
    }])
}

/// Ops that only move or choose: equal to the bit.
const EXACT: &[&str] = &[
    "reshape",
    "permute",
    "expand",
    "flip",
    "pad",
    "shrink",
    "slice",
    "cat",
    "stack",
    "repeat",
    "roll",
    "tril",
    "triu",
    "one_hot",
    "gather",
    "index_select",
    "embedding",
    "where",
    "max",
    "min",
    "cummax",
    "cummin",
    "cast",
    "cast_via",
];

fn differs(got: &[f64], want: &Array, relative: f64, absolute: f64) -> Option<String> {
    if got.len() != want.data.len() {
        return Some(format!("{} elements, torch has {}", got.len(), want.data.len()));
    }
    let ok = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs()
    };
    let at = (0..got.len()).find(|&i| !ok(got[i], want.data[i]))?;
    Some(format!("element {at} of {:?} is {}, torch has {}", want.shape, got[at], want.data[at]))
}

fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    match t.dtype() {
        DType::Bool => Ok(t.to_vec::<bool>()?.into_iter().map(|b| b as u8 as f64).collect()),
        DType::I32 => Ok(t.to_vec::<i32>()?.into_iter().map(f64::from).collect()),
        DType::U32 => Ok(t.to_vec::<u32>()?.into_iter().map(f64::from).collect()),
        _ => t.to_vec::<f64>(),
    }
}

fn check(case: &Case) -> Result<Vec<String>> {
    let inputs: Vec<Tensor> = case.inputs.iter().map(load).collect();
    let viewed: Vec<Tensor> = case.inputs.iter().zip(&inputs).map(|(t, x)| view(case, &t.name, x)).collect();
    let Some(outs) = run(case, &viewed) else { return Ok(vec![]) };
    let mut bad = vec![];
    let elementwise = UNARY.iter().any(|u| u.0 == case.op) || BINARY.iter().any(|b| b.0 == case.op);
    let finite = case.inputs.iter().flat_map(|t| &t.array.data).filter(|x| x.is_finite());
    let largest = if elementwise { 1.0 } else { finite.fold(1.0, |m: f64, x| m.max(x.abs())) };
    let total: usize = case.inputs.iter().map(|t| t.array.numel()).sum();
    for (out, want) in outs.iter().zip(&case.outputs) {
        let n = (total as f64 / want.array.numel().max(1) as f64).max(1.0).sqrt();
        let exact = want.kind != Kind::F32 || EXACT.contains(&&*case.op);
        let (r, a) = if exact { (0.0, 0.0) } else { (2e-5 * n, 2e-6 * n * largest) };
        if out.dims()? != want.array.shape {
            bad.push(format!("{}: shape {}, torch has {:?}", case.name, out.shape(), want.array.shape));
            continue;
        }
        bad.extend(differs(&numbers(out)?, &want.array, r, a).map(|d| format!("{}: {d}", case.name)));
    }
    if case.grads.is_empty() || !bad.is_empty() {
        return Ok(bad);
    }
    let loss = (&outs[0] * load(&case.weights[0])).sum(..);
    let wanted: Vec<&Tensor> = case
        .grads
        .iter()
        .map(|g| &inputs[case.inputs.iter().position(|i| i.name == g.name).unwrap()])
        .collect();
    let n: f64 = (total.max(case.outputs[0].array.numel()) as f64).sqrt();
    for (got, want) in loss.gradient_or_zeros(&wanted)?.iter().zip(&case.grads) {
        assert_eq!(got.dims()?, want.array.shape, "{}", case.name);
        let d = differs(&numbers(got)?, &want.array, 4e-5 * n, 4e-6 * n * largest);
        bad.extend(d.map(|d| format!("{} by {}: {d}", case.name, want.name)));
    }
    Ok(bad)
}

/// A slice of the cases, so that they run side by side.
fn part(which: usize) {
    on(|| {
        let only = std::env::var("GOLDEN").ok();
        let mut bad = vec![];
        for case in goldens::all().into_iter().skip(which).step_by(PARTS) {
            if only.as_ref().is_some_and(|o| !case.name.contains(o)) {
                continue;
            }
            match check(&case) {
                Ok(b) => bad.extend(b),
                Err(e) => bad.push(format!("{}: {e}", case.name)),
            }
        }
        assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad.join("\n"));
        Ok(())
    });
}
const PARTS: usize = 4;
#[test]
fn ops_agree_with_torch_0() {
    part(0);
}
#[test]
fn ops_agree_with_torch_1() {
    part(1);
}
#[test]
fn ops_agree_with_torch_2() {
    part(2);
}
#[test]
fn ops_agree_with_torch_3() {
    part(3);
}
