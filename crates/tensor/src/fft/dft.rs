//! The transform itself, of real and imaginary parts along the last dim.
//!
//! ```text
//! n = r m:   j = j1 m + j2,  k = k1 + r k2
//!            X[k] = sum_j2 w_m^(j2 k2)  w_n^(j2 k1)  sum_j1 w_r^(j1 k1) x[j]
//! ```
//! The inner sums are a product with a small matrix, the outer ones a shorter transform.

use super::roots::{radix, root};
use super::{Parts, table};
use crate::error::Result;
use crate::tensor::Tensor;

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
