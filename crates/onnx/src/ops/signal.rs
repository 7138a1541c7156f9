//! Signals: Fourier transforms, windows, mel filters.

use super::{Op, op};
use crate::call::{Call, Outs, bounded, fail, give};
use crate::element::Element;
use frit_tensor::{DType, Fft, Result, Tensor};
use std::f64::consts::PI;

pub(super) const OPS: &[Op] = &[
    op("BlackmanWindow", 17, |c| window(c, &[0.42, -0.5, 0.08])),
    op("DFT", 17, |c| dft(c, c.int_or("axis", 1)?)),
    op("DFT", 20, |c| dft(c, if c.value(2).is_some() { c.int_input(2)? } else { -2 })),
    op("HammingWindow", 17, |c| window(c, &[25.0 / 46.0, -21.0 / 46.0])),
    op("HannWindow", 17, |c| window(c, &[0.5, -0.5])),
    op("MelWeightMatrix", 17, mel_weights),
    op("STFT", 17, stft),
];

/// A sum of cosines over one period.
fn window(c: &Call, factors: &[f64]) -> Result<Outs> {
    let n = c.int_input(0)?;
    bounded(&[n.max(0) as usize])?;
    let period = if c.int_or("periodic", 1)? != 0 { n } else { n - 1 };
    let d = c.element_named("output_datatype")?.map_or(DType::F32, Element::dtype);
    let at = Tensor::arange(n).double() * (2.0 * PI / period as f64);
    let term = |(k, f): (usize, &f64)| (&at * k as f64).cos() * *f;
    let sum = factors.iter().enumerate().map(term).reduce(|a, b| a + b);
    give(sum.unwrap_or(at).cast(d))
}

/// Pairs of numbers with nothing imaginary where there is one number.
fn pairs(x: &Tensor) -> Result<Tensor> {
    match x.dims()?.last() {
        Some(1) => Ok(Tensor::cat(&[x.clone(), x.zeros_like()], -1)),
        Some(2) => Ok(x.clone()),
        _ => fail(format!("the last dim of {} is not of one or two numbers", x.shape())),
    }
}

fn dft(c: &Call, axis: i64) -> Result<Outs> {
    let (inverse, half) = (c.flag("inverse")?, c.flag("onesided")?);
    let n = if c.value(1).is_some() { Some(bounded(&[c.int_input(1)?.max(0) as usize])?) } else { None };
    let x = c.tensor(0)?;
    // the last dim is that of the pairs, which does not count here
    let dim = if axis < 0 { axis + 1 } else { axis } as isize;
    let options = Fft { n, dim, ..Fft::default() };
    let real = x.dims()?.last() == Some(&1);
    give(match (inverse, half) {
        (false, true) if real => x.squeeze(-1).rfft(options),
        (false, true) => return fail("one side of a transform of complex numbers"),
        (false, false) => pairs(&x)?.fft(options),
        (true, true) => pairs(&x)?.irfft(options).unsqueeze(-1),
        (true, false) => pairs(&x)?.ifft(options),
    })
}

fn stft(c: &Call) -> Result<Outs> {
    let half = c.int_or("onesided", 1)? != 0;
    let (x, step, window) = (c.tensor(0)?, c.int_input(1)?, c.optional(2)?);
    let length = match (&window, c.value(3)) {
        (_, Some(_)) => c.int_input(3)?,
        (Some(w), None) => w.numel()? as i64,
        (None, None) => return fail("neither a window nor a length of frames"),
    };
    let (Ok(length), Ok(step)) = (usize::try_from(length), usize::try_from(step)) else {
        return fail(format!("frames of {length} every {step}"));
    };
    // (B, frames, length), as often as there are numbers in a pair
    let frames = |part: &Tensor| {
        let f = part.unfold(1, length, step);
        window.as_ref().map_or(f.clone(), |w| f * w)
    };
    match (x.dims()?.last(), half) {
        (Some(1), true) => give(frames(&x.squeeze(-1)).rfft(Fft::default())),
        (_, true) => fail("one side of a transform of complex numbers"),
        (_, false) => {
            let x = pairs(&x)?;
            give(frames(&x.select(-1, 0)).complex(&frames(&x.select(-1, 1))).fft(Fft::default()))
        }
    }
}

/// Triangles between neighbouring frequencies of the mel scale.
fn mel_weights(c: &Call) -> Result<Outs> {
    let (bins, length, rate) = (c.int_input(0)?, c.int_input(1)?, c.int_input(2)?);
    let (low, high) = (c.float_input(3)?, c.float_input(4)?);
    let d = c.element_named("output_datatype")?.map_or(DType::F32, Element::dtype);
    let (Ok(bins), Ok(rows)) = (usize::try_from(bins), usize::try_from(length / 2 + 1)) else {
        return fail(format!("{bins} bins of {length} frequencies"));
    };
    let mel = |f: f64| 2595.0 * (1.0 + f / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bins + 2) as f64;
    let edge = |i: usize| {
        let hertz = 700.0 * (10f64.powf((mel(low) + i as f64 * step) / 2595.0) - 1.0);
        // far beyond any row is beyond all of them
        ((length + 1) as f64 * hertz / rate as f64).floor().clamp(-1e15, 1e15) as i64
    };
    let mut out = vec![0f64; bounded(&[rows, bins])?];
    for i in 0..bins {
        let (a, b, z) = (edge(i), edge(i + 1), edge(i + 2));
        let mut put = |j: i64, v: f64| {
            if let Some(cell) = usize::try_from(j).ok().filter(|j| *j < rows).map(|j| j * bins + i) {
                out[cell] = v;
            }
        };
        match b - a {
            0 => put(b, 1.0),
            rise => (a.max(0)..=b.min(rows as i64)).for_each(|j| put(j, (j - a) as f64 / rise as f64)),
        }
        (b.max(0)..z.min(rows as i64)).for_each(|j| put(j, (z - j) as f64 / (z - b) as f64));
    }
    give(Tensor::from_vec(out, [rows, bins]).cast(d))
}
