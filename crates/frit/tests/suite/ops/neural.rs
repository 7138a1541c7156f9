//! Layers without parameters of their own, and losses.

use super::{number, sizes};
use frit::{Attention, Bce, CrossEntropy, Ctc, GridSample, Interpolate, Outside, Reduction, Rope, Sampling};
use frit::{Tensor, Window};
use frit_reference::goldens::Case;

/// The outputs of a case of this family.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (x, kernel) = (&inputs[0], sizes(&case.ints("kernel")));
    let pair = |(a, b): (Tensor, Tensor)| Some(vec![a, b]);
    match case.op.as_str() {
        "max_pool" if case.flag("indices") => return pair(x.max_pool_with_indices(&kernel, window(case))),
        "adaptive_max_pool" => return pair(x.adaptive_max_pool_with_indices(&sizes(&case.ints("size")))),
        _ => {}
    }
    windows(case, inputs)
        .or_else(|| sampling(case, inputs))
        .or_else(|| sequence(case, inputs))
        .or_else(|| classes(case, inputs))
        .or_else(|| values(case, inputs))
        .map(|out| vec![out])
}

fn window(case: &Case) -> Window {
    let (given, all) = (|key: &str| case.param(key).is_some(), |key: &str| sizes(&case.ints(key)));
    let mut w = Window::new().ceil_mode(case.flag("ceil"));
    w = w.count_include_pad(case.param("count_include_pad") != Some("false"));
    w = if given("stride") { w.stride(all("stride")) } else { w };
    w = if given("dilation") { w.dilation(all("dilation")) } else { w };
    w = if given("groups") { w.groups(number(case, "groups", 1.0) as usize) } else { w };
    w = if given("divisor") { w.divisor(number(case, "divisor", 1.0) as usize) } else { w };
    w = if given("output_padding") { w.output_padding(all("output_padding")) } else { w };
    match case.param("padding") {
        Some("same") => w.same(),
        Some("valid") | None => w,
        Some(_) => w.padding(all("padding")),
    }
}

fn windows(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, w, size) = (&inputs[0], window(case), sizes(&case.ints("size")));
    let (kernel, bias) = (sizes(&case.ints("kernel")), inputs.get(2));
    Some(match case.op.as_str() {
        "conv" => match inputs[1].rank() {
            3 => x.conv1d(&inputs[1], bias, w),
            4 => x.conv2d(&inputs[1], bias, w),
            _ => x.conv3d(&inputs[1], bias, w),
        },
        "conv_transpose" => match inputs[1].rank() {
            3 => x.conv_transpose1d(&inputs[1], bias, w),
            4 => x.conv_transpose2d(&inputs[1], bias, w),
            _ => x.conv_transpose3d(&inputs[1], bias, w),
        },
        "max_pool" => x.max_pool(&kernel, w),
        "avg_pool" => x.avg_pool(&kernel, w),
        "lp_pool" => x.lp_pool(number(case, "p", 2.0), &kernel, w),
        "max_unpool" => {
            let (values, at) = x.max_pool_with_indices(&kernel, w);
            values.max_unpool(&at, &sizes(&case.ints("output")))
        }
        "adaptive_avg_pool" => x.adaptive_avg_pool(&size),
        _ => return None,
    })
}

fn sampling(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, align_corners) = (&inputs[0], case.flag("align_corners"));
    let mode: Sampling = case.param("mode").unwrap_or("nearest").parse().expect("a mode of torch");
    let resize = Interpolate { mode, align_corners, antialias: case.flag("antialias") };
    let outside = match case.param("outside") {
        Some("border") => Outside::Border,
        Some("reflection") => Outside::Reflection,
        _ => Outside::Zeros,
    };
    let size = sizes(&case.ints("size"));
    Some(match (case.op.as_str(), case.param("factor")) {
        ("interpolate", Some(f)) => {
            let factors: Vec<f64> = f.split(',').map(|v| v.parse().expect("a number")).collect();
            x.interpolate_by(&factors, resize)
        }
        ("interpolate", None) => x.interpolate(&size, resize),
        ("grid_sample", _) => x.grid_sample(&inputs[1], GridSample { mode, outside, align_corners }),
        ("affine_grid", _) => x.affine_grid(&size, align_corners),
        ("pixel_shuffle", _) => x.pixel_shuffle(number(case, "factor", 1.0) as usize),
        ("pixel_unshuffle", _) => x.pixel_unshuffle(number(case, "factor", 1.0) as usize),
        _ => return None,
    })
}

fn sequence(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, n) = (&inputs[0], |key| number(case, key, 0.0));
    Some(match case.op.as_str() {
        "attention" => {
            let mask = inputs.get(3).cloned();
            let o =
                Attention { mask, causal: case.flag("causal"), scale: case.number("scale"), dropout: 0.0 };
            x.attention(&inputs[1], &inputs[2], o)
        }
        "rope" => x.rope(Rope {
            base: number(case, "base", 10000.0),
            interleaved: case.flag("interleaved"),
            dims: case.number("dims").map(|n| n as usize),
            offset: n("offset") as usize,
            positions: inputs.get(1).cloned(),
        }),
        "local_response_norm" => x.local_response_norm(n("size") as usize, n("alpha"), n("beta"), n("k")),
        "normalize" => x.normalize(number(case, "p", 2.0), number(case, "dim", 1.0) as isize, 1e-12),
        "prelu" => x.prelu(&inputs[1]),
        "glu" => x.glu(n("dim") as isize),
        "threshold" => x.threshold(n("at"), n("value")),
        "hardshrink" => x.hardshrink(n("at")),
        "softshrink" => x.softshrink(n("at")),
        "tanhshrink" => x.tanhshrink(),
        "embedding_padded" => x.embedding_padded(&inputs[1], n("padding_idx") as isize),
        _ => return None,
    })
}

fn reduction(case: &Case) -> Reduction {
    match case.param("reduction") {
        Some("sum") => Reduction::Sum,
        Some("none") => Reduction::None,
        Some("batchmean") => Reduction::BatchMean,
        _ => Reduction::Mean,
    }
}

fn classes(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, reduction) = (&inputs[0], reduction(case));
    // torch has no gradient by weights
    let fixed = |k: usize| inputs.get(k).map(|w| w.detach());
    let entropy = || CrossEntropy {
        label_smoothing: number(case, "smoothing", 0.0),
        ignore_index: case.number("ignore_index").map(|i| i as i64),
        weight: fixed(2),
        reduction,
    };
    Some(match case.op.as_str() {
        "cross_entropy_with" => x.cross_entropy_with(&inputs[1], entropy()),
        "nll_with" => x.nll_loss(&inputs[1], entropy()),
        "bce" => x.bce_loss(&inputs[1], Bce { weight: fixed(2), pos_weight: None, reduction }),
        "bce_with_logits" => {
            x.bce_with_logits_loss(&inputs[1], Bce { weight: fixed(3), pos_weight: fixed(2), reduction })
        }
        "ctc" => {
            let blank = number(case, "blank", 0.0) as usize;
            let o = Ctc { blank, reduction, zero_infinity: case.flag("zero_infinity") };
            x.log_softmax(-1).ctc_loss(&inputs[1], &inputs[2], &inputs[3], o)
        }
        _ => return None,
    })
}

fn values(case: &Case, inputs: &[Tensor]) -> Option<Tensor> {
    let (x, r, n) = (&inputs[0], reduction(case), |key, default| number(case, key, default));
    let y = inputs.get(1)?;
    Some(match case.op.as_str() {
        "mse" => x.mse_loss_with(y, r),
        "l1" => x.l1_loss_with(y, r),
        "huber" => x.huber_loss_with(y, n("delta", 1.0), r),
        "smooth_l1" => x.smooth_l1_loss_with(y, n("beta", 1.0), r),
        "kl_div" => x.kl_div_with(y, case.flag("log_target"), r),
        "cosine_similarity" => x.cosine_similarity(y, n("dim", 1.0) as isize, 1e-8),
        "cosine_embedding" => x.cosine_embedding_loss(y, &inputs[2], n("margin", 0.0), r),
        "hinge_embedding" => x.hinge_embedding_loss(y, n("margin", 1.0), r),
        "margin_ranking" => x.margin_ranking_loss(y, &inputs[2], n("margin", 0.0), r),
        "soft_margin" => x.soft_margin_loss(y, r),
        "triplet_margin" => x.triplet_margin_loss(y, &inputs[2], n("margin", 1.0), n("p", 2.0), r),
        "poisson_nll" => x.poisson_nll_loss(y, case.flag("log_input"), 1e-8, r),
        "gaussian_nll" => x.gaussian_nll_loss(y, &inputs[2], 1e-6, r),
        _ => return None,
    })
}
