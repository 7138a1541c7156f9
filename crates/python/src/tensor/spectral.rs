//! Fourier transforms, as pairs of real and imaginary parts in a last dim; and hashes.

use super::{PyTensor, out};
use crate::convert::{Ints, TensorArg, axes, count, truth};
use crate::error::raised;
use frit::{Fft, FftNorm, Keccak, PadMode, Stft, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn norm(n: Option<&str>) -> PyResult<FftNorm> {
    Ok(match n {
        None | Some("backward") => FftNorm::Backward,
        Some("ortho") => FftNorm::Ortho,
        Some("forward") => FftNorm::Forward,
        Some(n) => {
            return Err(PyValueError::new_err(format!(
                "norm must be 'backward', 'ortho' or 'forward', not {n:?}"
            )));
        }
    })
}

/// Transforms along one dim: name, the Rust method.
macro_rules! transforms {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            $(#[$doc])*
            #[pyo3(signature = (n=None, dim=-1, norm=None))]
            fn $name(&self, n: Option<i64>, dim: isize, norm: Option<&str>) -> PyResult<PyTensor> {
                let n = n.map(|n| count(n, "n")).transpose()?;
                out(self.0.$name(Fft { n, dim, norm: self::norm(norm)? }))
            }
        )*}
    };
}
transforms! {
    /// Fourier transform of pairs (*, n, 2) along dim, which does not count the dim of the pairs.
    fft;
    /// Inverse Fourier transform of pairs.
    ifft;
    /// Fourier transform of real numbers: the frequencies that tell the rest, as pairs.
    rfft;
    /// Real numbers of the frequencies rfft gives.
    irfft;
}

#[pymethods]
impl PyTensor {
    /// Fourier transform of pairs along several dims.
    #[pyo3(signature = (dim=None, norm=None))]
    fn fftn(&self, dim: Option<Ints>, norm: Option<&str>) -> PyResult<PyTensor> {
        out(self.0.fftn(axes(dim, false), self::norm(norm)?))
    }
    /// Inverse Fourier transform of pairs along several dims.
    #[pyo3(signature = (dim=None, norm=None))]
    fn ifftn(&self, dim: Option<Ints>, norm: Option<&str>) -> PyResult<PyTensor> {
        out(self.0.ifftn(axes(dim, false), self::norm(norm)?))
    }
    /// Pairs of this as the real and another as the imaginary part.
    fn complex(&self, imag: TensorArg) -> PyResult<PyTensor> {
        out(self.0.complex(&imag.0))
    }
    /// The real parts of pairs.
    #[getter]
    fn real(&self) -> PyResult<PyTensor> {
        out(self.0.real())
    }
    /// The imaginary parts of pairs.
    #[getter]
    fn imag(&self) -> PyResult<PyTensor> {
        out(self.0.imag())
    }
    /// The frequencies of fft.
    #[staticmethod]
    #[pyo3(signature = (n, d=1.0))]
    fn fftfreq(n: i64, d: f64) -> PyResult<PyTensor> {
        let n = count(n, "n")?;
        out(Tensor::fftfreq(n, d))
    }
    /// The frequencies of rfft.
    #[staticmethod]
    #[pyo3(signature = (n, d=1.0))]
    fn rfftfreq(n: i64, d: f64) -> PyResult<PyTensor> {
        let n = count(n, "n")?;
        out(Tensor::rfftfreq(n, d))
    }
    /// Fourier transforms of overlapping pieces of a signal, as pairs.
    #[pyo3(signature = (n_fft, hop_length=None, window=None, center=true, pad_mode="reflect", normalized=false, onesided=true))]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn stft(
        &self,
        n_fft: i64,
        hop_length: Option<i64>,
        window: Option<TensorArg>,
        #[pyo3(from_py_with = truth)] center: bool,
        pad_mode: &str,
        #[pyo3(from_py_with = truth)] normalized: bool,
        #[pyo3(from_py_with = truth)] onesided: bool,
    ) -> PyResult<PyTensor> {
        let hop_length = hop_length.map(|n| count(n, "hop_length")).transpose()?;
        let n_fft = count(n_fft, "n_fft")?;
        let pad_mode = match pad_mode {
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Replicate,
            "circular" => PadMode::Circular,
            "constant" => PadMode::Constant(0.0),
            m => return Err(PyValueError::new_err(format!("stft: pad_mode {m:?}"))),
        };
        out(self.0.stft(&Stft {
            n_fft,
            hop_length,
            window: window.map(|w| w.0),
            center,
            pad_mode,
            normalized,
            onesided,
        }))
    }
    /// The signal of what stft gives.
    #[pyo3(signature = (n_fft, hop_length=None, window=None, center=true, normalized=false, onesided=true, length=None))]
    #[allow(clippy::too_many_arguments)] // they are the API's
    fn istft(
        &self,
        n_fft: i64,
        hop_length: Option<i64>,
        window: Option<TensorArg>,
        #[pyo3(from_py_with = truth)] center: bool,
        #[pyo3(from_py_with = truth)] normalized: bool,
        #[pyo3(from_py_with = truth)] onesided: bool,
        length: Option<i64>,
    ) -> PyResult<PyTensor> {
        let hop_length = hop_length.map(|n| count(n, "hop_length")).transpose()?;
        let length = length.map(|n| count(n, "length")).transpose()?;
        let n_fft = count(n_fft, "n_fft")?;
        let o = Stft {
            hop_length,
            window: window.map(|w| w.0),
            center,
            normalized,
            onesided,
            ..Stft::new(n_fft)
        };
        out(self.0.istft(&o, length))
    }
    /// The digest of the bytes in the last dim: sha3_224 to sha3_512, keccak_256, keccak_512, shake_128, shake_256.
    #[pyo3(signature = (cfg="sha3_256"))]
    fn keccak(&self, cfg: &str) -> PyResult<PyTensor> {
        let o: Keccak = cfg.parse().map_err(|e: frit::Error| PyValueError::new_err(raised(e).to_string()))?;
        out(self.0.keccak(o))
    }
    /// The BLAKE3 digest of the bytes in the last dim.
    #[pyo3(signature = (length=32))]
    fn blake3(&self, length: i64) -> PyResult<PyTensor> {
        let length = count(length, "length")?;
        out(self.0.blake3_of(length))
    }
}
