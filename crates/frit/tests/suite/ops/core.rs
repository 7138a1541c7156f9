//! The ops of `tests-data/goldens/core.py`.

use super::{number, sizes, slice};
use crate::support::dtype;
use frit::{Axes, CrossEntropy, Tensor, Window, keepdim};
use frit_reference::goldens::{Case, Kind};

macro_rules! methods {
    ($op:ident, $x:ident, $args:tt, $($name:literal $method:ident),* $(,)?) => {
        match $op { $($name => Some(methods!(@ $x $method $args)),)* _ => None }
    };
    (@ $x:ident $method:ident ($($y:expr)?)) => { $x.$method($($y)?) };
}

fn unary(op: &str, x: &Tensor) -> Option<Tensor> {
    methods! { op, x, (),
        "neg" neg, "abs" abs, "sign" sign, "floor" floor, "ceil" ceil, "trunc" trunc, "round" round,
        "sqrt" sqrt, "rsqrt" rsqrt, "reciprocal" reciprocal, "square" square, "exp" exp, "exp2" exp2,
        "expm1" expm1, "log" log, "log2" log2, "log10" log10, "log1p" log1p, "sin" sin, "cos" cos, "tan" tan,
        "asin" asin, "acos" acos, "atan" atan, "sinh" sinh, "cosh" cosh, "tanh" tanh, "asinh" asinh,
        "acosh" acosh, "atanh" atanh, "erf" erf, "erfc" erfc, "sigmoid" sigmoid, "logsigmoid" logsigmoid,
        "softplus" softplus, "softsign" softsign, "relu" relu, "relu6" relu6, "hardtanh" hardtanh,
        "hardsigmoid" hardsigmoid, "hardswish" hardswish, "selu" selu, "gelu" gelu, "gelu_tanh" gelu_tanh,
        "quick_gelu" quick_gelu, "silu" silu, "mish" mish, "isnan" isnan, "isinf" isinf, "isfinite" isfinite,
        "logical_not" logical_not, "bitwise_not" bitwise_not,
    }
}

fn binary(op: &str, x: &Tensor, y: &Tensor) -> Option<Tensor> {
    methods! { op, x, (y),
        "add" add, "sub" sub, "mul" mul, "div" div, "floor_div" floor_div, "modulo" modulo, "fmod" fmod,
        "pow" pow, "maximum" maximum, "minimum" minimum, "atan2" atan2, "copysign" copysign,
        "logaddexp" logaddexp, "eq" eq, "ne" ne, "lt" lt, "le" le, "gt" gt, "ge" ge,
        "logical_and" logical_and, "logical_or" logical_or, "logical_xor" logical_xor,
        "bitwise_and" bitwise_and, "bitwise_or" bitwise_or, "bitwise_xor" bitwise_xor,
        "shl" lshift, "shr" rshift,
    }
}

/// Apply the case's op to its inputs, recipes already applied. `None` where `Tensor` does not have the op.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (op, x) = (case.op.as_str(), &inputs[0]);
    if let Some(out) = unary(op, x) {
        return Some(vec![out]);
    }
    if let Some(out) = inputs.get(1).and_then(|y| binary(op, x, y)) {
        return Some(vec![out]);
    }
    reduction(case, x).or_else(|| movement(case, inputs)).or_else(|| layer(case, inputs)).map(|out| vec![out])
}

fn reduction(case: &Case, x: &Tensor) -> Option<Tensor> {
    let dim = case.ints("dim");
    let axes = match (dim.is_empty(), case.flag("keepdim")) {
        (true, false) => Axes::from(..),
        (true, true) => keepdim(..),
        (false, false) => Axes::from(&dim[..]),
        (false, true) => keepdim(&dim[..]),
    };
    let correction = number(case, "correction", 1.0) as i64;
    Some(match case.op.as_str() {
        "sum" => x.sum(axes),
        "prod" => x.prod(axes),
        "max" => x.max(axes),
        "min" => x.min(axes),
        "mean" => x.mean(axes),
        "any" => x.any(axes),
        "all" => x.all(axes),
        "logsumexp" => x.logsumexp(axes),
        "var" => x.var(axes, correction),
        "std" => x.std(axes, correction),
        "argmax" => x.argmax_axes(axes),
        "argmin" => x.argmin_axes(axes),
        "cumsum" => x.cumsum(dim[0]),
        "cumprod" => x.cumprod(dim[0]),
        "cummax" => x.cummax(dim[0]).0,
        "cummin" => x.cummin(dim[0]).0,
        "softmax" => x.softmax(dim[0]),
        "log_softmax" => x.log_softmax(dim[0]),
        _ => return None,
    })
}

fn movement(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, dim) = (&inputs[0], case.ints("dim"));
    let bound = |key| case.param(key).and_then(|v| v.parse().ok());
    let pairs = |key| case.ints(key).chunks(2).map(|c| (c[0], c[1])).collect::<Vec<_>>();
    Some(match case.op.as_str() {
        "where" => x.where_(&inputs[1], &inputs[2]),
        "clamp" => match (case.number("low"), case.number("high")) {
            (Some(low), Some(high)) => x.clamp(low, high),
            (Some(low), None) => x.clamp_min(low),
            (None, Some(high)) => x.clamp_max(high),
            (None, None) => x.clone(),
        },
        "lerp" => x.lerp(&inputs[1], &inputs[2]),
        "cast" => x.cast(dtype(case.outputs[0].kind)),
        "cast_via" if case.param("via") == Some("f16") => x.half().float(),
        "cast_via" => x.bfloat16().float(),
        "reshape" => x.reshape(case.ints("shape")),
        "permute" => x.permute(case.ints("order")),
        "expand" => x.expand(case.ints("shape")),
        "flip" => x.flip(dim),
        "pad" if case.inputs[0].kind == Kind::F32 => x.pad(&pairs("around"), number(case, "value", 0.0)),
        "pad" => x.pad(&pairs("around"), number(case, "value", 0.0) as i64),
        "shrink" => {
            x.shrink(&pairs("keep").iter().map(|&(a, b)| (a as usize, b as usize)).collect::<Vec<_>>())
        }
        "slice" => slice(x, dim[0], bound("start"), bound("stop"), number(case, "step", 1.0) as isize),
        "cat" => Tensor::cat(inputs, dim[0]),
        "stack" => Tensor::stack(inputs, dim[0]),
        "repeat" => x.repeat(&sizes(&case.ints("times"))),
        "roll" => {
            case.ints("shifts").iter().zip(&dim).fold(x.clone(), |x, (&shift, &dim)| x.roll(shift, dim))
        }
        "tril" => x.tril(number(case, "k", 0.0) as i64),
        "triu" => x.triu(number(case, "k", 0.0) as i64),
        "one_hot" => x.one_hot(number(case, "classes", 0.0) as usize),
        "gather" => x.gather(dim[0], &inputs[1]),
        "scatter_add" => x.scatter_add(dim[0], &inputs[1], &inputs[2]),
        "index_select" => x.index_select(dim[0], &inputs[1]),
        "index_add" => x.index_add(dim[0], &inputs[1], &inputs[2]),
        "embedding" => x.embedding(&inputs[1]),
        _ => return None,
    })
}

fn window(case: &Case) -> Window {
    let two = |key| Some(sizes(&case.ints(key))).filter(|v| !v.is_empty());
    let mut w = Window::new().groups(number(case, "groups", 1.0) as usize);
    w = two("stride").map_or(w.clone(), |v| w.stride(v));
    w = two("padding").map_or(w.clone(), |v| w.padding(v));
    w = two("dilation").map_or(w.clone(), |v| w.dilation(v));
    w.count_include_pad(case.param("count_include_pad") != Some("false"))
}

fn layer(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, get) = (&inputs[0], |k: usize| inputs.get(k));
    let y = || &inputs[1];
    let eps = number(case, "eps", 1e-5);
    let kernel = || sizes(&case.ints("kernel"));
    let loss = CrossEntropy {
        label_smoothing: number(case, "smoothing", 0.0),
        ignore_index: case.number("ignore_index").map(|v| v as i64),
        ..Default::default()
    };
    Some(match case.op.as_str() {
        "leaky_relu" => x.leaky_relu(number(case, "slope", 0.01)),
        "elu" => x.elu(number(case, "alpha", 1.0)),
        "celu" => x.celu(number(case, "alpha", 1.0)),
        "matmul" => x.matmul(y()),
        "linear" => x.linear(y(), get(2)),
        "conv2d" => x.conv2d(y(), get(2), window(case)),
        "max_pool2d" => x.max_pool2d(kernel(), window(case)),
        "avg_pool2d" => x.avg_pool2d(kernel(), window(case)),
        "layernorm" => {
            let axes: Vec<isize> = (1..=number(case, "axes", 1.0) as isize).map(|a| -a).collect();
            x.layernorm(axes, get(1), get(2), eps)
        }
        "rmsnorm" => x.rmsnorm(-1, get(1), eps),
        "groupnorm" => x.groupnorm(number(case, "groups", 1.0) as usize, get(1), get(2), eps),
        "batchnorm" => x.batchnorm(get(3), get(4), y(), &(&inputs[2] + eps).rsqrt()),
        "batchnorm_train" => {
            let axes: Vec<usize> = (0..x.rank()).filter(|&a| a != 1).collect();
            let (var, mean) = x.var_mean(axes, 0);
            x.batchnorm(get(1), get(2), &mean, &(var + eps).rsqrt())
        }
        "scaled_dot_product_attention" => {
            x.scaled_dot_product_attention(y(), &inputs[2], get(3), case.flag("causal"))
        }
        "cross_entropy" => x.cross_entropy_with(y(), loss),
        "nll_loss" => x.nll_loss(y(), loss),
        "mse_loss" => x.mse_loss(y()),
        "l1_loss" => x.l1_loss(y()),
        _ => return None,
    })
}
