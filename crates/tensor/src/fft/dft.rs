//! The transform itself, of real and imaginary parts along the last dim.
//!
//! ```text
//! n = r m:   j = j1 m + j2,  k = k1 + r k2
//!            X[k] = sum_j2 w_m^(j2 k2)  w_n^(j2 k1)  sum_j1 w_r^(j1 k1) x[j]
//! ```
//! The inner sums are a product with a small matrix, the outer ones a shorter transform.

use super::{Parts, table};
use crate::error::Result;
use crate::tensor::Tensor;
use std::f64::consts::TAU;

/// The greatest length that is one product with a matrix, if it can be divided.
const RADIX: usize = 32;
/// The greatest prime that is.
const PRIME: usize = 61;

/// Unscaled.
pub(crate) fn transform(x: Parts, n: usize, inverse: bool) -> Result<(Tensor, Tensor)> {
    let shape = x.0.shape();
    let flat = |t: &Tensor| t.reshape([-1, n as i64]);
    let none = shape.as_slice().iter().any(|d| *d == 0);
    if none || n == 1 {
        let im = x.1.unwrap_or_else(|| x.0.zeros_like());
        return Ok((x.0, im));
    }
    let flat = (flat(&x.0), x.1.as_ref().map(flat));
    let (re, im) = dft(flat, n, if inverse { 1.0 } else { -1.0 })?;
    Ok((re.reshape(&shape), im.reshape(&shape)))
}

/// Of rows (B, n).
fn dft(x: Parts, n: usize, sign: f64) -> Result<(Tensor, Tensor)> {
    if n == 1 {
        let im = x.1.unwrap_or_else(|| x.0.zeros_like());
        return Ok((x.0, im));
    }
    let r = radix(n);
    if r == n && n > PRIME {
        return by_convolution(x, n, sign);
    }
    let m = n / r;
    let split = |t: &Tensor| t.reshape([-1, 1, r as i64, m as i64]); // (B, 1, j1, j2)
    let (wr, wi) = roots(&[r, r, 1], |i| ((i / r) * (i % r), r), sign, &x.0)?; // (k1, j1, 1)
    let (re, im) = (split(&x.0), x.1.as_ref().map(split));
    let (yr, yi) = match &im {
        None => ((&wr * &re).sum(2), (&wi * &re).sum(2)),
        Some(im) => ((&wr * &re - &wi * im).sum(2), (&wr * im + &wi * &re).sum(2)),
    }; // (B, k1, j2)
    if m == 1 {
        let rows = |t: Tensor| t.reshape([-1, n as i64]);
        return Ok((rows(yr), rows(yi)));
    }
    let (tr, ti) = roots(&[r, m], |i| ((i / m) * (i % m), n), sign, &x.0)?;
    let zr = (&yr * &tr - &yi * &ti).contiguous();
    let zi = (&yr * &ti + &yi * &tr).contiguous();
    let rows = |t: Tensor| t.reshape([-1, m as i64]);
    let (re, im) = dft((rows(zr), Some(rows(zi))), m, sign)?;
    let ordered = |t: Tensor| t.reshape([-1, r as i64, m as i64]).transpose(1, 2).reshape([-1, n as i64]);
    Ok((ordered(re), ordered(im)))
}

/// The greatest divisor up to the radix, else the least prime; n itself where nothing divides it.
fn radix(n: usize) -> usize {
    if let Some(r) = (2..=RADIX.min(n)).rev().find(|&r| n.is_multiple_of(r)) {
        return r;
    }
    (RADIX + 1..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)).unwrap_or(n)
}

/// `exp(sign 2πi a/b)` for `(a, b)` of each place: reduced exactly before it is an angle.
fn roots(
    dims: &[usize],
    at: impl Fn(usize) -> (usize, usize),
    sign: f64,
    like: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let count: usize = dims.iter().product();
    let (mut re, mut im) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for i in 0..count {
        let (a, b) = at(i);
        let (s, c) = root(a as u128, b as u128);
        re.push(c);
        im.push(sign * s);
    }
    Ok((table(&re, dims, like)?, table(&im, dims, like)?))
}

/// Sine and cosine of `a/b` of a turn, exact at quarters.
fn root(a: u128, b: u128) -> (f64, f64) {
    let eighths = 8 * (a % b); // of b
    let (octant, rest) = (eighths / b, eighths % b);
    // within an eighth of a turn of an axis
    let (near, turned) = if octant % 2 == 1 { (b - rest, true) } else { (rest, false) };
    let (s, c) = (TAU / 8.0 * near as f64 / b as f64).sin_cos();
    let (s, c) = if turned { (c, s) } else { (s, c) };
    match octant / 2 {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    }
}

/// A length that nothing divides, through a convolution of a length that two divides:
/// `jk = (j² + k² - (k-j)²) / 2`.
fn by_convolution(x: Parts, n: usize, sign: f64) -> Result<(Tensor, Tensor)> {
    let m = (2 * n - 1).next_power_of_two();
    let square = |j: usize| ((j as u128 * j as u128 % (2 * n) as u128) as usize, 2 * n);
    let (cr, ci) = roots(&[n], square, sign, &x.0)?;
    let (re, im) = match &x.1 {
        None => (&x.0 * &cr, &x.0 * &ci),
        Some(im) => (&x.0 * &cr - im * &ci, &x.0 * &ci + im * &cr),
    };
    let longer = |t: Tensor| t.pad(&[(0, 0), (0, (m - n) as isize)], 0.0).contiguous();
    let (ar, ai) = dft((longer(re), Some(longer(im))), m, -1.0)?;
    let around = |i: usize| if i < n { square(i) } else { square(m - i) };
    let (br, bi) = roots(&[1, m], around, -sign, &x.0)?;
    let used = Tensor::arange(m);
    let used = used.lt(n).logical_or(used.gt(m - n));
    let (br, bi) = dft((used.where_(br, 0.0), Some(used.where_(bi, 0.0))), m, -1.0)?;
    let (pr, pi) = ((&ar * &br - &ai * &bi).contiguous(), (&ar * &bi + &ai * &br).contiguous());
    let (yr, yi) = dft((pr, Some(pi)), m, 1.0)?;
    let first = |t: Tensor| t.narrow(1, 0, n) * (1.0 / m as f64);
    let (yr, yi) = (first(yr), first(yi));
    Ok((&yr * &cr - &yi * &ci, &yr * &ci + &yi * &cr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fft, Tensor};

    #[test]
    fn roots_are_exact_at_quarters() {
        assert_eq!([0, 1, 2, 3].map(|a| root(a, 4)), [(0.0, 1.0), (1.0, -0.0), (-0.0, -1.0), (-1.0, 0.0)]);
        let (s, c) = root(5, 12);
        assert!((s - 0.5).abs() < 1e-15 && (c + 0.75f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn lengths_are_divided_by_their_factors() {
        assert_eq!([1024, 96, 37 * 41, 62, 997].map(radix), [32, 32, 37, 31, 997]);
    }

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
}
