//! Layers against torch's values and gradients: `tests-data/goldens/nn.bin`.

use frit_nn::*;
use frit_reference::goldens::{self, Case, Kind};
use frit_tensor::{DType, Device, Result, Tensor};

/// The cases whose op passes.
pub fn cases(wanted: impl Fn(&str) -> bool) -> Vec<Case> {
    let all = goldens::parse(include_bytes!("../../../../tests-data/goldens/nn.bin"));
    all.into_iter().filter(|c| wanted(&c.op)).collect()
}

/// A stored tensor as a tensor.
pub fn tensor(t: &goldens::Tensor) -> Tensor {
    let dtype = match t.kind {
        Kind::Bool => DType::Bool,
        Kind::I32 => DType::I32,
        Kind::I64 => DType::I64,
        _ => DType::F32,
    };
    Tensor::from_vec(&t.array.data, &t.array.shape[..]).cast(dtype)
}

/// A layer that a case can be tried on: its tensors, and what it does with the inputs.
struct Trial {
    module: Box<dyn Module>,
    outputs: Vec<Tensor>,
}

fn is_input(name: &str) -> bool {
    name.strip_prefix('x').is_some_and(|n| n.parse::<usize>().is_ok())
}

/// Puts the state of the case into a module, then runs it.
fn trial<M: Module + 'static>(case: &Case, module: M, run: impl Fn(&M) -> Vec<Tensor>) -> Trial {
    let state = case.inputs.iter().filter(|t| !is_input(&t.name));
    let state: StateDict = state.map(|t| (t.name.clone(), tensor(t))).collect();
    module.load_state_dict(&state).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let outputs = training(case.flag("train"), || run(&module));
    Trial { module: Box::new(module), outputs }
}

fn sizes<const N: usize>(case: &Case, key: &str) -> [usize; N] {
    let list: Vec<usize> = case.ints(key).into_iter().map(|v| v as usize).collect();
    list.try_into().unwrap_or_else(|_| panic!("{}: {key}", case.name))
}

fn without(case: &Case, what: &str) -> bool {
    case.param(what) == Some("false")
}

fn layer(case: &Case, x: &[Tensor]) -> Trial {
    macro_rules! conv {
        ($layer:ident, $n:literal) => {{
            let [inputs, outputs] = sizes(case, "dims");
            let groups = case.number("groups").unwrap_or(1.0) as usize;
            let mut c = $layer::grouped(inputs, outputs, sizes::<$n>(case, "kernel"), groups);
            if case.param("dilation").is_some() {
                c = c.dilation(sizes::<$n>(case, "dilation"));
            }
            if case.param("stride").is_some() {
                c = c.stride(sizes::<$n>(case, "stride"));
            }
            if case.param("padding").is_some() {
                c = c.padding(sizes::<$n>(case, "padding"));
            }
            if without(case, "bias") {
                c = c.without_bias();
            }
            c
        }};
    }
    macro_rules! transposed {
        ($layer:ident, $n:literal) => {{
            let c = conv!($layer, $n);
            match case.param("output_padding") {
                Some(_) => c.output_padding(sizes::<$n>(case, "output_padding")),
                None => c,
            }
        }};
    }
    macro_rules! norm {
        ($norm:expr) => {{
            let mut n = $norm;
            if let Some(eps) = case.number("eps") {
                n = n.eps(eps);
            }
            if without(case, "affine") {
                n = n.without_affine();
            }
            n
        }};
    }
    let dims: Vec<usize> = case.ints("dims").into_iter().map(|v| v as usize).collect();
    match case.op.as_str() {
        "linear" if without(case, "bias") => {
            trial(case, Linear::without_bias(dims[0], dims[1]), |l| vec![l.forward(&x[0])])
        }
        "linear" => trial(case, Linear::new(dims[0], dims[1]), |l| vec![l.forward(&x[0])]),
        "bilinear" => {
            let l = Bilinear::new(dims[0], dims[1], dims[2]);
            let l = if without(case, "bias") { l.without_bias() } else { l };
            trial(case, l, |l| vec![l.forward(&x[0], &x[1])])
        }
        "conv1d" => {
            let c = conv!(Conv1d, 1);
            let c = if case.flag("same") { c.padding_same() } else { c };
            trial(case, c, |c| vec![c.forward(&x[0])])
        }
        "conv_transpose1d" => trial(case, transposed!(ConvTranspose1d, 1), |c| vec![c.forward(&x[0])]),
        "conv_transpose2d" => trial(case, transposed!(ConvTranspose2d, 2), |c| vec![c.forward(&x[0])]),
        "conv_transpose3d" => trial(case, transposed!(ConvTranspose3d, 3), |c| vec![c.forward(&x[0])]),
        "conv2d" => trial(case, conv!(Conv2d, 2), |c| vec![c.forward(&x[0])]),
        "conv3d" => trial(case, conv!(Conv3d, 3), |c| vec![c.forward(&x[0])]),
        "embedding" => {
            let e = match case.number("padding") {
                Some(p) => Embedding::with_padding(dims[0], dims[1], p as usize),
                None => Embedding::new(dims[0], dims[1]),
            };
            trial(case, e, |e| vec![e.forward(&x[0])])
        }
        "batchnorm" => {
            let n = norm!(BatchNorm::new(dims[0])).momentum(case.number("momentum").unwrap_or(0.1));
            let after = |n: &BatchNorm| [n.running_mean.clone(), n.running_var.clone()];
            trial(case, n, |n| {
                let y = n.forward(&x[0]);
                if is_training() { [vec![y], after(n).to_vec()].concat() } else { vec![y] }
            })
        }
        "layernorm" => {
            let n = norm!(LayerNorm::new(&dims));
            let n = if without(case, "bias") { n.without_bias() } else { n };
            trial(case, n, |n| vec![n.forward(&x[0])])
        }
        "layernorm2d" => trial(case, norm!(LayerNorm2d::new(dims[0])), |n| vec![n.forward(&x[0])]),
        "rmsnorm" => trial(case, norm!(RmsNorm::new(&dims)), |n| vec![n.forward(&x[0])]),
        "groupnorm" => trial(case, norm!(GroupNorm::new(dims[0], dims[1])), |n| vec![n.forward(&x[0])]),
        "instancenorm" => {
            let n = InstanceNorm::new(dims[0]);
            let n = if without(case, "affine") { n } else { n.affine() };
            trial(case, n, |n| vec![n.forward(&x[0])])
        }
        "attention" => attention(case, x, &dims),
        "encoder_layer" | "decoder_layer" | "transformer" => transformer(case, x, &dims),
        _ => recurrent(case, x, &dims),
    }
}

fn recurrent(case: &Case, x: &[Tensor], dims: &[usize]) -> Trial {
    let options = RnnOptions {
        layers: case.number("layers").unwrap_or(1.0) as usize,
        bidirectional: case.flag("bidirectional"),
        batch_first: case.flag("batch_first"),
        bias: !without(case, "bias"),
        ..RnnOptions::default()
    };
    let (i, h) = (dims[0], dims[1]);
    let state = x.get(1);
    let pair = x.get(1).zip(x.get(2));
    macro_rules! cell {
        ($cell:ident) => {
            if without(case, "bias") { $cell::new(i, h).without_bias() } else { $cell::new(i, h) }
        };
    }
    match case.op.as_str() {
        "rnn" => {
            let l = Rnn::with(i, h, options);
            let l = if case.flag("relu") { l.activation(Tensor::relu) } else { l };
            trial(case, l, |l| <[Tensor; 2]>::from(l.forward(&x[0], state)).to_vec())
        }
        "gru" => {
            trial(case, Gru::with(i, h, options), |l| <[Tensor; 2]>::from(l.forward(&x[0], state)).to_vec())
        }
        "lstm" => trial(case, Lstm::with(i, h, options), |l| {
            let (y, (h, c)) = l.forward(&x[0], pair);
            vec![y, h, c]
        }),
        "rnn_cell" => trial(case, cell!(RnnCell), |l| vec![l.forward(&x[0], state)]),
        "gru_cell" => trial(case, cell!(GruCell), |l| vec![l.forward(&x[0], state)]),
        "lstm_cell" => trial(case, cell!(LstmCell), |l| <[Tensor; 2]>::from(l.forward(&x[0], pair)).to_vec()),
        other => panic!("no layer {other}"),
    }
}

fn attention(case: &Case, x: &[Tensor], dims: &[usize]) -> Trial {
    let mut a = MultiheadAttention::new(dims[0], dims[1]);
    if let Some((k, v)) = case.number("kdim").zip(case.number("vdim")) {
        a = a.key_value_dims(k as usize, v as usize);
    }
    if case.flag("batch_first") {
        a = a.batch_first();
    }
    if without(case, "bias") {
        a = a.without_bias();
    }
    let hidden = [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]];
    let hidden = Tensor::new(hidden).cast(DType::Bool);
    let padding = Tensor::new([[0, 0, 0, 1], [0, 0, 1, 0]]).cast(DType::Bool);
    let mut masks = Masks { causal: case.flag("causal"), ..Masks::default() };
    if case.flag("masked") {
        masks = Masks { attention: Some(&hidden), key_padding: Some(&padding), ..masks };
    }
    if case.flag("added") {
        masks.attention = Some(&x[3]);
    }
    let [q, k, v] = if case.flag("own") { [&x[0]; 3] } else { [&x[0], &x[1], &x[2]] };
    trial(case, a, |a| match case.flag("weights") {
        true => <[Tensor; 2]>::from(a.forward_weights(q, k, v, masks)).to_vec(),
        false => vec![a.forward(q, k, v, masks)],
    })
}

fn transformer(case: &Case, x: &[Tensor], dims: &[usize]) -> Trial {
    let options = TransformerOptions {
        feedforward: dims[2],
        norm_first: case.flag("norm_first"),
        batch_first: case.flag("batch_first"),
        bias: !without(case, "bias"),
        activation: if case.flag("gelu") { Tensor::gelu } else { Tensor::relu },
        eps: case.number("eps").unwrap_or(1e-5),
        ..TransformerOptions::default()
    };
    let (dim, heads, open) = (dims[0], dims[1], Masks::default());
    match case.op.as_str() {
        "encoder_layer" => {
            trial(case, TransformerEncoderLayer::with(dim, heads, options), |l| vec![l.forward(&x[0], open)])
        }
        "decoder_layer" => trial(case, TransformerDecoderLayer::with(dim, heads, options), |l| {
            vec![l.forward(&x[0], &x[1], Masks::causal(), open)]
        }),
        _ => trial(case, Transformer::new(dim, heads, sizes(case, "layers"), options), |l| {
            vec![l.forward(&x[0], &x[1], open, open)]
        }),
    }
}

/// What a case claims: name, computed lazily, torch's values.
type Claim<'a> = (String, Tensor, &'a goldens::Tensor);

fn claims(case: &Case) -> Result<Vec<Claim<'_>>> {
    let inputs: Vec<(&str, Tensor)> =
        case.inputs.iter().filter(|t| is_input(&t.name)).map(|t| (t.name.as_str(), tensor(t))).collect();
    let xs: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    let Trial { module, outputs } = layer(case, &xs);
    assert_eq!(outputs.len(), case.outputs.len(), "{}", case.name);
    let weighted = outputs.iter().zip(&case.weights).map(|(o, w)| (o * tensor(w)).sum(..));
    let loss = weighted.reduce(|a, b| a + b).expect("an output");
    let all = module.named_tensors();
    let find = |name: &str| {
        let input = inputs.iter().find(|(n, _)| *n == name).map(|(_, t)| t);
        input.or(all.iter().find(|(n, _)| n == name).map(|(_, t)| t)).expect("a gradient has its tensor")
    };
    let targets: Vec<&Tensor> = case.grads.iter().map(|g| find(&g.name)).collect();
    let grads = loss.gradient_or_zeros(&targets)?;
    let outputs = outputs.into_iter().zip(&case.outputs).map(|(t, want)| (want.name.clone(), t, want));
    let grads = grads.into_iter().zip(&case.grads).map(|(t, want)| (format!("by {}", want.name), t, want));
    Ok(outputs.chain(grads).collect())
}

/// The first element that is too far off. Both sides round to float32 a few hundred times at most on the way.
pub fn difference(got: &Tensor, want: &goldens::Tensor) -> Option<String> {
    let shape = got.dims();
    if shape.as_ref().ok() != Some(&want.array.shape) {
        return Some(format!("is of shape {shape:?}, torch has {:?}", want.array.shape));
    }
    let got = match got.double().to_vec::<f64>() {
        Ok(values) => values,
        Err(e) => return Some(e.to_string()),
    };
    let largest = want.array.data.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
    let near = |g: f64, w: f64| (g - w).abs() <= 2e-5 * w.abs() + 4e-6 * largest;
    let off = |(g, w): &(&f64, &f64)| !near(**g, **w);
    let (g, w) = got.iter().zip(&want.array.data).find(off)?;
    Some(format!("has {g}, torch has {w}"))
}

/// Computes every claim of some layers together, and compares.
fn agree(device: &str, wanted: impl Fn(&str) -> bool) {
    let cases = cases(wanted);
    assert!(!cases.is_empty());
    Device::scope(device, || {
        let made = cases.iter().map(|c| (c, claims(c).unwrap_or_else(|e| panic!("{}: {e}", c.name))));
        let claims: Vec<(&Case, Claim)> =
            made.flat_map(|(c, all)| all.into_iter().map(move |claim| (c, claim))).collect();
        // where they cannot be computed together, each by itself says why
        let _ = Tensor::realize_all(&claims.iter().map(|(_, (_, t, _))| t).collect::<Vec<_>>());
        let faults: Vec<String> = claims
            .iter()
            .filter_map(|(c, (what, t, want))| difference(t, want).map(|d| format!("{} {what} {d}", c.name)))
            .collect();
        assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
    })
    .unwrap();
}

#[test]
fn linear_layers_and_convolutions_are_torchs() {
    agree("INTERP", |op| matches!(op, "linear" | "bilinear" | "embedding") || op.starts_with("conv"));
}

#[test]
fn norms_are_torchs() {
    agree("INTERP", |op| op != "clip_grad_norm" && (op.ends_with("norm") || op.ends_with("norm2d")));
}

#[test]
fn recurrent_layers_are_torchs() {
    agree("INTERP", |op| ["rnn", "gru", "lstm"].iter().any(|kind| op.starts_with(kind)));
}

#[test]
fn attention_is_torchs() {
    agree("INTERP", |op| op == "attention");
}

#[test]
fn transformers_are_torchs() {
    agree("INTERP", |op| op.ends_with("coder_layer") || op == "transformer");
}
