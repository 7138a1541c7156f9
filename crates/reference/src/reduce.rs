//! Reductions over sets of axes, and functions along one axis (scans, softmax, sort).
//!
//! Both are written as a function of one line of values. An empty list of axes means all of them.

use crate::array::{Array, axis_of};

impl Array {
    /// Replace the values along `axes` by `f` of them, in row-major order.
    pub fn reduce(&self, axes: &[isize], keepdim: bool, f: impl Fn(&[f64]) -> f64) -> Array {
        let axes: Vec<usize> = axes.iter().map(|&a| axis_of(a, self.rank())).collect();
        let reduced = |a: usize| axes.is_empty() || axes.contains(&a);
        let kept: Vec<usize> = (0..self.rank()).map(|a| if reduced(a) { 1 } else { self.shape[a] }).collect();
        let inner: Vec<usize> =
            (0..self.rank()).map(|a| if reduced(a) { self.shape[a] } else { 1 }).collect();
        let out = Array::from_fn(&kept, |i| {
            let line =
                Array::from_fn(&inner, |j| self.at(&i.iter().zip(j).map(|(i, j)| i + j).collect::<Vec<_>>()));
            f(&line.data)
        });
        if keepdim {
            return out;
        }
        let shape: Vec<usize> = (0..self.rank()).filter(|&a| !reduced(a)).map(|a| self.shape[a]).collect();
        Array::new(&shape, out.data)
    }

    /// Replace every line along `axis` by `f` of it, which may have another length.
    pub fn along(&self, axis: isize, f: impl Fn(&[f64]) -> Vec<f64>) -> Array {
        let axis = axis_of(axis, self.rank());
        let mut shape = self.shape.clone();
        shape[axis] = f(&vec![0.0; shape[axis]]).len();
        Array::from_fn(&shape, |i| {
            let mut from = i.to_vec();
            let line: Vec<f64> = (0..self.shape[axis])
                .map(|k| {
                    from[axis] = k;
                    self.at(&from)
                })
                .collect();
            f(&line)[i[axis]]
        })
    }

    /// Sum.
    pub fn sum(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, sum)
    }

    /// Product.
    pub fn prod(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, |line| line.iter().product())
    }

    /// Largest value; NaN if there is one.
    pub fn max(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, max)
    }

    /// Smallest value; NaN if there is one.
    pub fn min(&self, axes: &[isize], keepdim: bool) -> Array {
        self.neg().max(axes, keepdim).neg()
    }

    /// Mean.
    pub fn mean(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, mean)
    }

    /// Sum of squared deviations over `count - correction`.
    pub fn var(&self, axes: &[isize], keepdim: bool, correction: f64) -> Array {
        self.reduce(axes, keepdim, |line| {
            let centre = mean(line);
            let squares: f64 = line.iter().map(|x| (x - centre) * (x - centre)).sum();
            squares / (line.len() as f64 - correction).max(0.0)
        })
    }

    /// Square root of `var`.
    pub fn std(&self, axes: &[isize], keepdim: bool, correction: f64) -> Array {
        self.var(axes, keepdim, correction).sqrt()
    }

    /// 1 if any value is not zero.
    pub fn any(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, |line| f64::from(line.iter().any(|&x| x != 0.0)))
    }

    /// 1 if no value is zero.
    pub fn all(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, |line| f64::from(line.iter().all(|&x| x != 0.0)))
    }

    /// Index of the first largest value, along `axis` or in the flattened array; NaN counts as largest.
    pub fn argmax(&self, axis: Option<isize>, keepdim: bool) -> Array {
        self.reduce(axis.as_slice(), keepdim, argmax)
    }

    /// Index of the first smallest value, along `axis` or in the flattened array; NaN counts as smallest.
    pub fn argmin(&self, axis: Option<isize>, keepdim: bool) -> Array {
        self.neg().argmax(axis, keepdim)
    }

    /// `log(sum(exp(x)))` without overflow.
    pub fn logsumexp(&self, axes: &[isize], keepdim: bool) -> Array {
        self.reduce(axes, keepdim, logsumexp)
    }

    /// Running sum along `axis`.
    pub fn cumsum(&self, axis: isize) -> Array {
        self.scan(axis, |acc, x| acc + x)
    }

    /// Running product along `axis`.
    pub fn cumprod(&self, axis: isize) -> Array {
        self.scan(axis, |acc, x| acc * x)
    }

    /// Running maximum along `axis`.
    pub fn cummax(&self, axis: isize) -> Array {
        self.scan(axis, |acc, x| max(&[acc, x]))
    }

    /// Running minimum along `axis`.
    pub fn cummin(&self, axis: isize) -> Array {
        self.neg().cummax(axis).neg()
    }

    fn scan(&self, axis: isize, f: impl Fn(f64, f64) -> f64) -> Array {
        self.along(axis, |line| {
            let mut out = line.to_vec();
            for k in 1..out.len() {
                out[k] = f(out[k - 1], out[k]);
            }
            out
        })
    }

    /// `x - logsumexp(x)` along `axis`.
    pub fn log_softmax(&self, axis: isize) -> Array {
        self.along(axis, |line| {
            let log_total = sum(&shifted_exp(line)).ln();
            line.iter().map(|x| x - max(line) - log_total).collect()
        })
    }

    /// `exp(x) / sum(exp(x))` along `axis`.
    pub fn softmax(&self, axis: isize) -> Array {
        self.along(axis, |line| {
            let total = sum(&shifted_exp(line));
            shifted_exp(line).iter().map(|e| e / total).collect()
        })
    }

    /// Values in order along `axis`, and the index each came from; equal values keep their order, NaN is
    /// largest.
    pub fn sort(&self, axis: isize, descending: bool) -> (Array, Array) {
        let indices = self.argsort(axis, descending);
        (self.gather(axis, &indices), indices)
    }

    /// Index of each value in the stable order along `axis`.
    pub fn argsort(&self, axis: isize, descending: bool) -> Array {
        self.along(axis, |line| {
            let mut order: Vec<usize> = (0..line.len()).collect();
            let key = |k: usize| (line[k].is_nan(), line[k]);
            order.sort_by(|&a, &b| {
                let ascending = key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal);
                if descending { ascending.reverse() } else { ascending }
            });
            order.into_iter().map(|k| k as f64).collect()
        })
    }
}

fn sum(line: &[f64]) -> f64 {
    line.iter().fold(0.0, |acc, x| acc + x)
}

fn mean(line: &[f64]) -> f64 {
    sum(line) / line.len() as f64
}

fn max(line: &[f64]) -> f64 {
    line.iter().fold(f64::NEG_INFINITY, |m, &x| if x > m || x.is_nan() { x } else { m })
}

fn argmax(line: &[f64]) -> f64 {
    let m = max(line);
    line.iter().position(|&x| x == m || x.is_nan()).expect("argmax of nothing") as f64
}

/// `exp(x - max)`, which cannot overflow.
fn shifted_exp(line: &[f64]) -> Vec<f64> {
    line.iter().map(|x| (x - max(line)).exp()).collect()
}

fn logsumexp(line: &[f64]) -> f64 {
    let m = max(line);
    if m.is_infinite() { m } else { m + sum(&shifted_exp(line)).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six() -> Array {
        Array::new(&[2, 3], [1., 5., 3., 4., 2., 6.])
    }

    #[test]
    fn sums_over_axes() {
        assert_eq!(six().sum(&[0], false), Array::new(&[3], [5., 7., 9.]));
        assert_eq!(six().sum(&[-1], true), Array::new(&[2, 1], [9., 12.]));
        assert_eq!(six().sum(&[], false), Array::scalar(21.0));
        assert_eq!(Array::zeros(&[0, 2]).sum(&[0], false).data, [0., 0.]);
        assert_eq!(Array::zeros(&[0, 2]).prod(&[0], false).data, [1., 1.]);
        assert_eq!(six().prod(&[0, 1], false).item(), 720.0);
    }

    #[test]
    fn extremes_and_their_places() {
        assert_eq!(six().max(&[1], false).data, [5., 6.]);
        assert_eq!(six().min(&[1], false).data, [1., 2.]);
        assert_eq!(six().argmax(Some(1), false).data, [1., 2.]);
        assert_eq!(six().argmin(None, false).item(), 0.0);
        assert_eq!(Array::new(&[4], [1., 7., 7., 0.]).argmax(None, false).item(), 1.0);
        let with_nan = Array::new(&[3], [1., f64::NAN, 7.]);
        assert!(with_nan.max(&[], false).item().is_nan());
        assert_eq!(with_nan.argmax(None, false).item(), 1.0);
    }

    #[test]
    fn moments() {
        let x = Array::new(&[4], [1., 2., 3., 6.]);
        assert_eq!(x.mean(&[], false).item(), 3.0);
        assert_eq!(x.var(&[], false, 0.0).item(), 3.5);
        assert_eq!(x.var(&[], false, 1.0).item(), 14.0 / 3.0);
        assert_eq!(x.std(&[], false, 0.0).item(), 3.5f64.sqrt());
    }

    #[test]
    fn scans_run_along_one_axis() {
        assert_eq!(six().cumsum(1).data, [1., 6., 9., 4., 6., 12.]);
        assert_eq!(six().cumprod(0).data, [1., 5., 3., 4., 10., 18.]);
        assert_eq!(six().cummax(1).data, [1., 5., 5., 4., 4., 6.]);
        assert_eq!(six().cummin(1).data, [1., 1., 1., 4., 2., 2.]);
    }

    #[test]
    fn softmax_is_stable() {
        let x = Array::new(&[2], [1000., 1000.]);
        assert_eq!(x.softmax(0).data, [0.5; 2]);
        assert_eq!(x.logsumexp(&[], false).item(), 1000.0 + 2f64.ln());
        assert_eq!(x.map(|_| f64::NEG_INFINITY).logsumexp(&[], false).item(), f64::NEG_INFINITY);
    }

    #[test]
    fn any_all_and_sort() {
        let x = Array::new(&[2, 2], [0., 1., 1., 1.]);
        assert_eq!(x.any(&[1], false).data, [1., 1.]);
        assert_eq!(x.all(&[1], false).data, [0., 1.]);
        let (values, places) = Array::new(&[4], [2., 1., 2., 0.]).sort(0, true);
        assert_eq!((values.data, places.data), (vec![2., 2., 1., 0.], vec![0., 2., 1., 3.]));
    }
}
