//! Bad arguments: a failed tensor that says which op, what did not fit, and the line.

use frit_tensor::*;

/// The tensor failed, in this op, with this in its message.
#[track_caller]
fn fails(t: Tensor, op: &str, message: &str) {
    let e = t.check().expect_err("must fail");
    assert_eq!(e.op(), op, "{e}");
    assert!(e.message().contains(message), "{e}");
    assert!(e.location().is_some_and(|l| l.file().ends_with("arguments.rs")), "{e}");
}

#[test]
fn moving() {
    let x = Tensor::ones([2, 3]);
    fails(x.pad_last(&[1], PadMode::Reflect), "pad", "1 amounts for shape [2, 3]");
    fails(x.pad_last(&[3, 0], PadMode::Reflect), "pad", "(3, 0) in reflect mode for size 3");
    fails(x.pad_last(&[0, 4], PadMode::Circular), "pad", "at most 3");
    fails(x.pad_mode(&[(1, 1)], PadMode::Replicate), "pad", "1 pairs for shape [2, 3]");
    fails(x.pad_last(&[-2, -2], PadMode::Constant(0.0)), "pad", "cuts more than size 3");
    fails(x.rearrange("a b c -> c", &[]), "rearrange", "a is on one side only");
    fails(x.rearrange("a b c -> c b a", &[]), "rearrange", "3 dims, shape [2, 3] has 2");
    fails(
        x.rearrange("a (b c) -> a b c", &[("b", 2)]),
        "rearrange",
        "a dim of 3 of shape [2, 3] in parts of 2",
    );
    fails(x.rearrange("a (b c) -> a b c", &[]), "rearrange", "more than one unknown size");
    fails(x.rearrange("a (b -> a b", &[]), "rearrange", "parentheses do not match");
    fails(x.rearrange("a b", &[]), "rearrange", "there is no ->");
    fails(x.rearrange("a b -> b a", &[("q", 1)]), "rearrange", "a size for q");
    fails(x.einops_reduce("a b -> a", "median", &[]), "einops_reduce", "\"median\" is not");
    fails(x.einops_repeat("a b -> a b c", &[]), "einops_repeat", "no size is given for c");
    fails(x.roll([1, 2], 0), "roll", "2 shifts for 1 axes");
    fails(x.movedim([0, 1], 0), "movedim", "2 dims to 1 places");
    fails(x.diagonal_of(0, 1, -1), "diagonal", "the same");
    fails(x.reshape([2, 3, 1]).diag(), "diag", "neither a vector nor a matrix");
    fails(x.as_strided(&[2, 2], &[3, 3], 1), "as_strided", "reach 1..=7 of 6 elements");
    assert!(x.repeat_interleave_by(&Tensor::new([1, -1]), 0).is_err());
    assert!(x.repeat_interleave_by(&Tensor::new([1]), 0).is_err());
}

#[test]
fn windows() {
    let (x, w) = (Tensor::ones([1, 2, 5, 5]), Tensor::ones([2, 3, 3, 3]));
    fails(x.conv2d(&w, None, Window::new()), "conv2d", "2 channels, the weight takes 3");
    fails(
        x.conv2d(&Tensor::ones([3, 2, 3, 3]), None, Window::new().same().stride(2)),
        "conv2d",
        "same padding",
    );
    fails(
        x.conv_transpose2d(&Tensor::ones([3, 2, 3, 3]), None, Window::new()),
        "conv_transpose2d",
        "1 groups",
    );
    let stretched = Window::new().stride(2).output_padding(2);
    fails(x.conv_transpose2d(&w, None, stretched), "conv_transpose2d", "output padding [2, 2]");
    fails(x.conv_transpose2d(&w, None, Window::new().padding(9)), "conv_transpose2d", "leaves nothing");
    fails(x.max_pool2d(7, Window::new()), "max_pool2d", "does not fit");
    fails(x.max_pool2d([1, 2, 3], Window::new()), "max_pool2d", "a window of [1, 2, 3] for 2 spatial dims");
    fails(x.avg_pool(&[2, 2], Window::new().divisor(0)), "avg_pool", "divided by 0");
    fails(x.lp_pool(0.0, &[2, 2], Window::new()), "lp_pool", "order 0");
    fails(x.adaptive_avg_pool(&[0, 1]), "adaptive_avg_pool", "to [0, 1]");
    fails(x.max_unpool(&Tensor::new([1]), &[2, 2]), "max_unpool", "with indices [1]");
    fails(x.interpolate(&[0, 2], Interpolate::default()), "interpolate", "to 0");
    fails(x.interpolate(&[2; 5], Interpolate::default()), "interpolate", "5 sizes");
    let aligned = Interpolate { align_corners: true, ..Default::default() };
    fails(x.interpolate(&[2, 2], aligned), "interpolate", "align_corners");
    fails(
        x.grid_sample(&Tensor::ones([1, 2, 2, 3]), GridSample::default()),
        "grid_sample",
        "grid float32 [1, 2, 2, 3]",
    );
    fails(x.affine_grid(&[1, 1, 2, 2], false), "affine_grid", "maps of shape [1, 2, 5, 5]");
}

#[test]
fn losses_and_sequences() {
    let x = Tensor::ones([4, 3]);
    let weight = Some(Tensor::ones([2]));
    let o = CrossEntropy { weight, ..Default::default() };
    fails(
        x.cross_entropy_with(&Tensor::new([0, 1, 2, 0]), o),
        "cross_entropy",
        "weights of shape [2] for 3 classes",
    );
    fails(x.nll_loss(&x, CrossEntropy::default()), "nll_loss", "targets of shape [4, 3]");
    fails(x.huber_loss(&x, 0.0), "huber_loss", "delta 0");
    fails(
        x.bce_loss(&x, Bce { pos_weight: Some(x.clone()), ..Default::default() }),
        "bce_loss",
        "pos_weight",
    );
    let (i, l) = (Tensor::new([4]), Tensor::new([1, 1]));
    fails(
        x.unsqueeze(1).ctc_loss(&Tensor::new([[1]]), &i, &l, Ctc::default()),
        "ctc_loss",
        "for a batch of 1",
    );
    fails(x.ctc_loss(&Tensor::new([1.0]), &i, &i, Ctc::default()), "ctc_loss", "targets of float32");
    fails(
        x.ctc_loss(&Tensor::new([1]), &i, &i, Ctc { blank: 3, ..Default::default() }),
        "ctc_loss",
        "blank 3",
    );
    fails(x.rope(Rope::default()), "rope", "3 of 3 elements in pairs");
    fails(x.embedding_padded(&Tensor::new([0]), 4), "embedding", "padding index 4 of 4 rows");
    fails(x.local_response_norm(2, 1.0, 1.0, 1.0), "local_response_norm", "shape [4, 3]");
    // a class that is not there is found when it runs, also a negative one
    assert!(x.cross_entropy(&Tensor::new([0, 1, 2, -1])).to_vec::<f32>().is_err());
}

#[test]
fn spectra() {
    let x = Tensor::ones([4, 3]);
    fails(x.fft(Fft::default()), "fft", "float32 [4, 3] is not of pairs");
    fails(x.rfft(Fft { n: Some(0), ..Default::default() }), "rfft", "of no elements");
    fails(x.rfft(Fft { dim: 2, ..Default::default() }), "rfft", "axis 2");
    fails(Tensor::ones([1, 2]).irfft(Fft::default()), "irfft", "give n");
    fails(x.stft(&Stft::new(16)), "stft", "reflect mode");
    fails(x.stft(&Stft { hop_length: Some(0), ..Stft::new(2) }), "stft", "every 0");
    fails(Tensor::ones([4, 3, 2]).istft(&Stft::new(4), None), "istft", "3 frequencies");
}
