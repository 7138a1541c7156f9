//! Fourier transforms. A complex number is a pair: the last dim of a complex tensor has size 2, real part first (as
//! torch's `view_as_real` has it). `dim` counts the other dims only.
//!
//! Any length is transformed in O(n log n): by its factors up to 32, and through a convolution where a factor is a
//! larger prime. Sines and cosines come from float64 and are rounded once.

mod roots;
mod dft;
mod stft;

pub use stft::Stft;

use crate::creation::float_of;
use crate::error::{Error, Result, call, fail};
use crate::movement::fixed;
use crate::norm::wide;
use crate::shape::{Axes, axis, show_all};
use crate::tensor::Tensor;
use frit_uop::DType;

/// What transforms of length n are multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FftNorm {
    /// The inverse by 1/n.
    #[default]
    Backward,
    /// Both by 1/sqrt(n).
    Ortho,
    /// The forward one by 1/n.
    Forward,
}

/// Options of a Fourier transform.
#[derive(Clone, Copy, Debug)]
pub struct Fft {
    /// The length: zeros are added or elements cut off at the end. The dim's if not given.
    pub n: Option<usize>,
    /// Which dim, not counting that of the pairs.
    pub dim: isize,
    /// Scale.
    pub norm: FftNorm,
}

impl Default for Fft {
    fn default() -> Fft {
        Fft { n: None, dim: -1, norm: FftNorm::Backward }
    }
}

/// Real and imaginary parts with the transformed dim last; no imaginary part means zeros.
pub(crate) type Parts = (Tensor, Option<Tensor>);

impl Tensor {
    /// Pairs of this and imaginary parts.
    #[track_caller]
    pub fn complex(&self, imaginary: &Tensor) -> Tensor {
        let _c = call("complex");
        Tensor::stack(&[self.clone(), imaginary.clone()], -1)
    }
    /// The real parts of pairs.
    #[track_caller]
    pub fn real(&self) -> Tensor {
        let _c = call("real");
        paired("real", self).map_or_else(Tensor::failed, |_| self.narrow(-1, 0, 1).squeeze(-1))
    }
    /// The imaginary parts of pairs.
    #[track_caller]
    pub fn imag(&self) -> Tensor {
        let _c = call("imag");
        paired("imag", self).map_or_else(Tensor::failed, |_| self.narrow(-1, 1, 1).squeeze(-1))
    }
    /// Fourier transform of pairs: `X[k] = sum_j x[j] exp(-2πi jk/n)`.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1.0, 2.0, 3.0, 4.0]);
    /// let y = x.complex(&x.zeros_like()).fft(Fft::default());
    /// assert_eq!(y.real().to_vec::<f32>()?, [10.0, -2.0, -2.0, -2.0]);
    /// assert_eq!(y.imag().to_vec::<f32>()?, [0.0, 2.0, 0.0, -2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, o: Fft) -> Tensor {
        let _c = call("fft");
        of_pairs("fft", self, o, false).unwrap_or_else(Tensor::failed)
    }
    /// Inverse Fourier transform of pairs.
    #[track_caller]
    pub fn ifft(&self, o: Fft) -> Tensor {
        let _c = call("ifft");
        of_pairs("ifft", self, o, true).unwrap_or_else(Tensor::failed)
    }
    /// Fourier transform of real numbers: pairs, of which the first n/2 + 1 tell the rest.
    #[track_caller]
    pub fn rfft(&self, o: Fft) -> Tensor {
        let _c = call("rfft");
        of_reals(self, o).unwrap_or_else(Tensor::failed)
    }
    /// Inverse of [`Tensor::rfft`]: real numbers, an even count unless `n` says otherwise. Imaginary parts of the first
    /// (and of the middle, for even n) do not count.
    #[track_caller]
    pub fn irfft(&self, o: Fft) -> Tensor {
        let _c = call("irfft");
        to_reals(self, o).unwrap_or_else(Tensor::failed)
    }
    /// [`Tensor::fft`] over several dims (`..` for all), not counting that of the pairs.
    #[track_caller]
    pub fn fftn(&self, dims: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let _c = call("fftn");
        self.over_dims("fftn", dims.into(), |x, dim| x.fft(Fft { n: None, dim, norm }))
    }
    /// [`Tensor::ifft`] over several dims (`..` for all), not counting that of the pairs.
    #[track_caller]
    pub fn ifftn(&self, dims: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let _c = call("ifftn");
        self.over_dims("ifftn", dims.into(), |x, dim| x.ifft(Fft { n: None, dim, norm }))
    }
    fn over_dims(&self, op: &'static str, dims: Axes, f: impl Fn(&Tensor, isize) -> Tensor) -> Tensor {
        let axes = paired(op, self).and_then(|rank| dims.resolve(op, rank));
        axes.map_or_else(Tensor::failed, |a| a.iter().fold(self.clone(), |x, &d| f(&x, d as isize)))
    }
    /// Frequencies that [`Tensor::fft`] of `n` elements, `d` apart, gives: 0, 1, … then the negative ones, over `n d`.
    #[track_caller]
    pub fn fftfreq(n: usize, d: f64) -> Tensor {
        let _c = call("fftfreq");
        let half = n.div_ceil(2) as i64;
        let i = Tensor::arange(n);
        i.lt(half).where_(&i, &i - n as i64).float() * (1.0 / (n as f64 * d))
    }
    /// Frequencies that [`Tensor::rfft`] of `n` elements, `d` apart, gives.
    #[track_caller]
    pub fn rfftfreq(n: usize, d: f64) -> Tensor {
        let _c = call("rfftfreq");
        Tensor::arange(n / 2 + 1).float() * (1.0 / (n as f64 * d))
    }
}

/// The dims of a tensor of pairs, without theirs.
pub(crate) fn paired(op: &'static str, x: &Tensor) -> Result<usize> {
    let u = x.uop()?;
    match u.shape() {
        [rest @ .., two] if two.as_int() == Some(2) && u.dtype.is_float() => Ok(rest.len()),
        s => fail!(op, "{} {} is not of pairs (a last dim of 2, of floats)", u.dtype, show_all(s)),
    }
}

/// The dim to transform moved to the end, of the length that is asked for.
fn sized(op: &'static str, x: &Tensor, dim: isize, n: Option<usize>) -> Result<(Tensor, usize)> {
    let x = x.movedim(dim, -1);
    let u = x.uop()?;
    let have = u.shape().last().map_or(Ok(0), |d| fixed(op, d))? as usize;
    let n = n.unwrap_or(have);
    if n == 0 {
        return fail!(op, "of no elements");
    }
    let mut around = vec![(0, 0); x.rank()];
    if let Some(last) = around.last_mut() {
        last.1 = n as isize - have as isize;
    }
    Ok((if n == have { x } else { x.pad(&around, 0.0) }, n))
}

fn scale(norm: FftNorm, inverse: bool, n: usize) -> f64 {
    match (norm, inverse) {
        (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
        (FftNorm::Backward, true) | (FftNorm::Forward, false) => 1.0 / n as f64,
        _ => 1.0,
    }
}

fn scaled(x: Tensor, by: f64) -> Tensor {
    if by == 1.0 { x } else { x * by }
}

fn of_pairs(op: &'static str, x: &Tensor, o: Fft, inverse: bool) -> Result<Tensor> {
    let rank = paired(op, x)?;
    let dim = axis(op, o.dim, rank)? as isize;
    let x_ = wide(x);
    let (re, n) = sized(op, &x_.narrow(-1, 0, 1).squeeze(-1), dim, o.n)?;
    let (im, _) = sized(op, &x_.narrow(-1, 1, 1).squeeze(-1), dim, o.n)?;
    let (re, im) = dft::transform((re, Some(im)), n, inverse)?;
    let out = Tensor::stack(&[re, im], -1).movedim(-2, dim);
    Ok(scaled(out, scale(o.norm, inverse, n)).cast(x.dtype()))
}

fn of_reals(x: &Tensor, o: Fft) -> Result<Tensor> {
    let dim = axis("rfft", o.dim, x.uop()?.shape().len())? as isize;
    let (re, n) = sized("rfft", &wide(x), dim, o.n)?;
    let (re, im) = dft::transform((re, None), n, false)?;
    let half = |t: Tensor| t.narrow(-1, 0, n / 2 + 1);
    let out = Tensor::stack(&[half(re), half(im)], -1).movedim(-2, dim);
    Ok(scaled(out, scale(o.norm, false, n)).cast(float_of(x.dtype())))
}

fn to_reals(x: &Tensor, o: Fft) -> Result<Tensor> {
    let rank = paired("irfft", x)?;
    let dim = axis("irfft", o.dim, rank)? as isize;
    let have = x.shape()[dim].get();
    let n = o.n.unwrap_or(2 * have.saturating_sub(1));
    if n == 0 {
        return fail!("irfft", "to no elements; give n");
    }
    let x_ = wide(x);
    let (re, half) = sized("irfft", &x_.narrow(-1, 0, 1).squeeze(-1), dim, Some(n / 2 + 1))?;
    let (im, _) = sized("irfft", &x_.narrow(-1, 1, 1).squeeze(-1), dim, Some(n / 2 + 1))?;
    // the second half mirrors the first, conjugated; the ends have no imaginary part
    let k = Tensor::arange(half);
    let real = if n.is_multiple_of(2) { k.eq(0).logical_or(k.eq(n / 2)) } else { k.eq(0) };
    let im = real.where_(0.0, im);
    let mirrored = |t: &Tensor| t.narrow(-1, 1, n - half).flip(-1);
    let whole =
        (Tensor::cat(&[re.clone(), mirrored(&re)], -1), Some(Tensor::cat(&[im.clone(), -mirrored(&im)], -1)));
    let (re, _) = dft::transform(whole, n, true)?;
    Ok(scaled(re.movedim(-1, dim), scale(o.norm, true, n)).cast(x.dtype()))
}

/// Numbers as a tensor of a float type, where `like` is.
pub(crate) fn table(values: &[f64], dims: &[usize], like: &Tensor) -> Result<Tensor> {
    let t = match like.dtype() {
        DType::F64 => Tensor::from_vec(values, dims),
        _ => Tensor::from_vec(values.iter().map(|&v| v as f32).collect::<Vec<_>>(), dims),
    };
    Ok(t.to(&like.device()?))
}

impl std::str::FromStr for FftNorm {
    type Err = Error;
    /// By torch's names: `backward`, `ortho`, `forward`.
    fn from_str(s: &str) -> Result<FftNorm> {
        match s {
            "backward" => Ok(FftNorm::Backward),
            "ortho" => Ok(FftNorm::Ortho),
            "forward" => Ok(FftNorm::Forward),
            _ => fail!("fft", "there is no norm {s:?}"),
        }
    }
}
