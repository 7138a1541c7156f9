//! The plain loops against torch's values, and finite differences of the plain loops against torch's gradients.
//! What may differ is torch's rounding.

use frit_reference::goldens::{Case, Kind, family};
use frit_reference::tolerance::Tolerance;
use frit_reference::{Array, BINARY, Conv2d, Pool2d, UNARY, finite_difference};

/// Apply the recipe of each input, then the op.
fn replay(case: &Case, inputs: &[Array]) -> Vec<Array> {
    let viewed: Vec<Array> = case.inputs.iter().zip(inputs).map(|(t, x)| view(case, &t.name, x)).collect();
    run(case, &viewed)
}

fn view(case: &Case, name: &str, x: &Array) -> Array {
    case.recipe(name).iter().fold(x.clone(), |x, (what, n)| match *what {
        "permute" => x.permute(n),
        "flip" => x.flip(n),
        "expand" => x.expand(&sizes(n)),
        "reshape" => x.reshape(n),
        "slice" => x.slice(n[0], Some(n[1]), Some(n[2]), n[3]),
        _ => panic!("{}: recipe step {what}", case.name),
    })
}

fn sizes(n: &[isize]) -> Vec<usize> {
    n.iter().map(|&n| n as usize).collect()
}

fn pairs(n: &[isize]) -> Vec<(usize, usize)> {
    n.chunks(2).map(|c| (c[0] as usize, c[1] as usize)).collect()
}

fn run(case: &Case, inputs: &[Array]) -> Vec<Array> {
    let x = &inputs[0];
    let y = || &inputs[1];
    let optional = |k: usize| inputs.get(k);
    let (keepdim, dim) = (case.flag("keepdim"), case.ints("dim"));
    let number = |key, default| case.number(key).unwrap_or(default);
    let bound = |key| case.param(key).and_then(|v| v.parse().ok());
    let two = |key, default: [usize; 2]| {
        let given = sizes(&case.ints(key));
        if given.is_empty() { default } else { [given[0], given[1]] }
    };
    let refs: Vec<&Array> = inputs.iter().collect();
    let eps = number("eps", 1e-5);
    let pool = || {
        let kernel = two("kernel", [1, 1]);
        Pool2d {
            kernel,
            stride: two("stride", kernel),
            padding: two("padding", [0, 0]),
            dilation: two("dilation", [1, 1]),
            count_include_pad: case.param("count_include_pad") != Some("false"),
        }
    };
    if let Some((_, f)) = UNARY.iter().find(|(name, _)| *name == case.op) {
        return vec![x.map(f)];
    }
    if let Some((_, f)) = BINARY.iter().find(|(name, _)| *name == case.op) {
        return vec![x.zip(y(), f)];
    }
    let out = match case.op.as_str() {
        "where" => x.where_(y(), &inputs[2]),
        "clamp" => x.clamp(number("low", f64::NEG_INFINITY), number("high", f64::INFINITY)),
        "lerp" => x.lerp(y(), &inputs[2]),
        "leaky_relu" => x.leaky_relu(number("slope", 0.01)),
        "elu" => x.elu(number("alpha", 1.0)),
        "celu" => x.celu(number("alpha", 1.0)),
        "cast" => cast(case, x),
        "cast_via" if case.param("via") == Some("f16") => x.to_f16(),
        "cast_via" => x.to_bf16(),
        "sum" => x.sum(&dim, keepdim),
        "prod" => x.prod(&dim, keepdim),
        "max" => x.max(&dim, keepdim),
        "min" => x.min(&dim, keepdim),
        "mean" => x.mean(&dim, keepdim),
        "any" => x.any(&dim, keepdim),
        "all" => x.all(&dim, keepdim),
        "logsumexp" => x.logsumexp(&dim, keepdim),
        "var" => x.var(&dim, keepdim, number("correction", 1.0)),
        "std" => x.std(&dim, keepdim, number("correction", 1.0)),
        "argmax" => x.argmax(dim.first().copied(), keepdim),
        "argmin" => x.argmin(dim.first().copied(), keepdim),
        "cumsum" => x.cumsum(dim[0]),
        "cumprod" => x.cumprod(dim[0]),
        "cummax" => x.cummax(dim[0]),
        "cummin" => x.cummin(dim[0]),
        "softmax" => x.softmax(dim[0]),
        "log_softmax" => x.log_softmax(dim[0]),
        "sort" => {
            let (values, places) = x.sort(dim[0], case.flag("descending"));
            return vec![values, places];
        }
        "reshape" => x.reshape(&case.ints("shape")),
        "permute" => x.permute(&case.ints("order")),
        "expand" => x.expand(&sizes(&case.ints("shape"))),
        "flip" => x.flip(&dim),
        "pad" => x.pad(&pairs(&case.ints("around")), number("value", 0.0)),
        "shrink" => x.shrink(&pairs(&case.ints("keep"))),
        "slice" => x.slice(dim[0], bound("start"), bound("stop"), number("step", 1.0) as isize),
        "cat" => Array::cat(&refs, dim[0]),
        "stack" => Array::stack(&refs, dim[0]),
        "repeat" => x.repeat(&sizes(&case.ints("times"))),
        "roll" => x.roll(&case.ints("shifts"), &dim),
        "tril" => x.tril(number("k", 0.0) as isize),
        "triu" => x.triu(number("k", 0.0) as isize),
        "one_hot" => x.one_hot(number("classes", 0.0) as usize),
        "gather" => x.gather(dim[0], y()),
        "scatter_add" => x.scatter_add(dim[0], y(), &inputs[2]),
        "index_select" => x.index_select(dim[0], y()),
        "index_add" => x.index_add(dim[0], y(), &inputs[2]),
        "embedding" => x.embedding(y()),
        "matmul" => x.matmul(y()),
        "linear" => x.linear(y(), optional(2)),
        "conv2d" => {
            let (stride, padding) = (two("stride", [1, 1]), two("padding", [0, 0]));
            let (dilation, groups) = (two("dilation", [1, 1]), number("groups", 1.0) as usize);
            x.conv2d(y(), optional(2), Conv2d { stride, padding, dilation, groups })
        }
        "max_pool2d" => x.max_pool2d(pool()),
        "avg_pool2d" => x.avg_pool2d(pool()),
        "layernorm" => x.layernorm(number("axes", 1.0) as usize, optional(1), optional(2), eps),
        "rmsnorm" => x.rmsnorm(optional(1), eps),
        "groupnorm" => x.groupnorm(number("groups", 1.0) as usize, optional(1), optional(2), eps),
        "batchnorm" => x.batchnorm(y(), &inputs[2], optional(3), optional(4), eps),
        "batchnorm_train" => {
            let (mean, var) = x.batch_stats();
            x.batchnorm(&mean, &var, optional(1), optional(2), eps)
        }
        "scaled_dot_product_attention" => x.scaled_dot_product_attention(y(), &inputs[2], optional(3)),
        "cross_entropy" => x.cross_entropy(y(), number("smoothing", 0.0), case.number("ignore_index")),
        "nll_loss" => x.nll_loss(y(), case.number("ignore_index")),
        "mse_loss" => x.mse_loss(y()),
        "l1_loss" => x.l1_loss(y()),
        other => panic!("{}: no op {other}", case.name),
    };
    vec![out]
}

/// Casts between the stored types: floats truncate (in range here), integers wrap.
fn cast(case: &Case, x: &Array) -> Array {
    match (case.inputs[0].kind, case.outputs[0].kind) {
        (_, Kind::Bool) => x.map(|v| f64::from(v != 0.0)),
        (_, Kind::F32) => x.map(|v| f64::from(v as f32)),
        (Kind::F32, Kind::I8) => x.to_int(-128.0, 127.0),
        (Kind::F32, Kind::U8) => x.to_int(0.0, 255.0),
        (Kind::F32, Kind::I32) => x.to_int(f64::from(i32::MIN), f64::from(i32::MAX)),
        (_, Kind::I8) => x.map(|v| f64::from(v as i64 as i8)),
        (_, Kind::U8) => x.map(|v| f64::from(v as i64 as u8)),
        (_, Kind::I32) => x.clone(),
        (_, other) => panic!("{}: no cast to {other:?}", case.name),
    }
}

fn inputs_of(case: &Case) -> Vec<Array> {
    case.inputs.iter().map(|t| t.array.clone()).collect()
}

#[test]
fn outputs_agree_with_torch() {
    let mut failures = Vec::new();
    for case in family("core") {
        let got = replay(&case, &inputs_of(&case));
        assert_eq!(got.len(), case.outputs.len(), "{}", case.name);
        for (got, want) in got.iter().zip(&case.outputs) {
            let difference = Tolerance::of_output(&case, want).first_difference(got, &want.array);
            failures.extend(difference.map(|d| format!("{}: {d}", case.name)));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// Inputs larger than this have their gradient checked by the smaller cases of the same op.
const LARGEST_DIFFERENCED: usize = 150;

#[test]
fn gradients_agree_with_torch() {
    let mut failures = Vec::new();
    // Rounding has no slope to measure, and at a kink the measured slope is the mean of two.
    let smooth = |case: &Case| case.op != "cast_via" && !case.name.contains("/kink");
    for case in family("core").into_iter().filter(smooth) {
        let loss = |inputs: &[Array]| -> f64 {
            let outputs = replay(&case, inputs);
            let weighted =
                outputs.iter().zip(&case.weights).zip(&case.outputs).filter(|(_, o)| o.kind == Kind::F32);
            weighted.map(|((out, weight), _)| out.mul(&weight.array).sum(&[], false).item()).sum()
        };
        for want in case.grads.iter().filter(|g| g.array.numel() <= LARGEST_DIFFERENCED) {
            let which =
                case.inputs.iter().position(|x| x.name == want.name).expect("a gradient has its input");
            let got = finite_difference(&loss, &inputs_of(&case), which, 1e-5);
            let tolerance = Tolerance::of_gradient(&case, want);
            let difference = tolerance.first_difference(&got, &want.array);
            failures.extend(difference.map(|d| format!("{} by {}: {d}", case.name, want.name)));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
