//! Fourier transforms beside sums in float64.

use frit_tensor::{Fft, Tensor};
use roots::root;

// with its own tests, which the library is not built a second time for
#[allow(dead_code)]
#[path = "../../src/fft/roots.rs"]
mod roots;

/// The error of a transform of length n is near the rounding of its results.
#[test]
fn errors_are_near_rounding() {
    for n in [1, 5, 64, 96, 1024, 1009, 37 * 41, 2 * 67] {
        let part = |seed: usize| -> Vec<f32> {
            (0..n).map(|i| ((i * 7919 + seed * 104729) % 1000) as f32 / 500.0 - 1.0).collect()
        };
        let (re, im) = (part(1), part(2));
        let x = Tensor::from_slice(&re).complex(&Tensor::from_slice(&im));
        let y = x.fft(Fft::default()).to_vec::<f32>().unwrap();
        let (mut off, mut all) = (0.0, 0.0);
        for k in 0..n {
            let (mut r, mut i) = (0.0, 0.0);
            for j in 0..n {
                let (s, c) = root((j * k) as u128, n as u128);
                r += re[j] as f64 * c + im[j] as f64 * s;
                i += im[j] as f64 * c - re[j] as f64 * s;
            }
            off += (y[2 * k] as f64 - r).powi(2) + (y[2 * k + 1] as f64 - i).powi(2);
            all += r * r + i * i;
        }
        let error = (off / all).sqrt();
        assert!(error < 4e-7, "{n}: {error:e}");
        let back = x.fft(Fft::default()).ifft(Fft::default()).to_vec::<f32>().unwrap();
        let far = (0..n).map(|j| (back[2 * j] - re[j]).abs().max((back[2 * j + 1] - im[j]).abs()));
        assert!(far.fold(0.0, f32::max) < 3e-6, "{n}");
    }
}
