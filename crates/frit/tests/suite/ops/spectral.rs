//! Fourier transforms of pairs.

use super::number;
use frit::{Axes, Fft, FftNorm, Stft, Tensor};
use frit_reference::goldens::Case;

/// The outputs of a case of this family.
pub fn apply(case: &Case, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (x, n) = (&inputs[0], |key| number(case, key, 0.0));
    let norm: FftNorm = case.param("norm").unwrap_or("backward").parse().expect("a norm of torch");
    let o = Fft { n: case.number("n").map(|n| n as usize), dim: number(case, "dim", -1.0) as isize, norm };
    let dims = case.ints("dims");
    let dims = if dims.is_empty() { Axes::from(..) } else { Axes::from(dims) };
    let out = match case.op.as_str() {
        "fft" => x.fft(o),
        "ifft" => x.ifft(o),
        "rfft" => x.rfft(o),
        "irfft" => x.irfft(o),
        "fftn" => x.fftn(dims, norm),
        "ifftn" => x.ifftn(dims, norm),
        "stft" => x.stft(&pieces(case, inputs)),
        "istft" => x.istft(&pieces(case, inputs), case.number("length").map(|n| n as usize)),
        "fftfreq" => Tensor::fftfreq(n("n") as usize, n("d")),
        "rfftfreq" => Tensor::rfftfreq(n("n") as usize, n("d")),
        _ => return None,
    };
    Some(vec![out])
}

fn pieces(case: &Case, inputs: &[Tensor]) -> Stft {
    Stft {
        hop_length: case.number("hop").map(|n| n as usize),
        window: inputs.get(1).cloned(),
        center: case.param("center") != Some("false"),
        normalized: case.flag("normalized"),
        onesided: case.param("onesided") != Some("false"),
        ..Stft::new(number(case, "n_fft", 0.0) as usize)
    }
}
