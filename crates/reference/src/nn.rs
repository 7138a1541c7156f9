//! Matrix products, convolution, pooling, normalisation and losses.

use crate::array::{Array, broadcast_shapes};

/// How a convolution walks over its input; the default is stride 1, no padding, one group.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    /// Step between outputs, (rows, columns).
    pub stride: [usize; 2],
    /// Zeros on both sides.
    pub padding: [usize; 2],
    /// Step between taps.
    pub dilation: [usize; 2],
    /// Number of independent groups of channels.
    pub groups: usize,
}

impl Default for Conv2d {
    fn default() -> Conv2d {
        Conv2d { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 }
    }
}

/// The window of a pooling op.
#[derive(Clone, Copy, Debug)]
pub struct Pool2d {
    /// Window size, (rows, columns).
    pub kernel: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Padding on both sides.
    pub padding: [usize; 2],
    /// Step between taps.
    pub dilation: [usize; 2],
    /// Whether an average divides by the whole window or by what of it lies inside the input.
    pub count_include_pad: bool,
}

impl Pool2d {
    /// Windows that touch and do not overlap.
    pub fn of(kernel: [usize; 2]) -> Pool2d {
        Pool2d { kernel, stride: kernel, padding: [0, 0], dilation: [1, 1], count_include_pad: true }
    }
}

/// Padding on both sides.
fn both(n: usize) -> (usize, usize) {
    (n, n)
}

/// Number of places where a window fits.
fn windows(n: usize, kernel: usize, stride: usize, padding: usize, dilation: usize) -> usize {
    (n + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1
}

impl Array {
    /// Matrix product as numpy's `@`: 1-D operands are a row or a column, leading axes broadcast.
    pub fn matmul(&self, other: &Array) -> Array {
        if self.rank() == 1 {
            return self.unsqueeze(0).matmul(other).squeeze(if other.rank() == 1 { 0 } else { -2 });
        }
        if other.rank() == 1 {
            return self.matmul(&other.unsqueeze(1)).squeeze(-1);
        }
        let (a_batch, a_mat) = self.shape.split_at(self.rank() - 2);
        let (b_batch, b_mat) = other.shape.split_at(other.rank() - 2);
        assert_eq!(a_mat[1], b_mat[0], "matmul of {:?} and {:?}", self.shape, other.shape);
        let batch = broadcast_shapes(a_batch, b_batch);
        let shape = [&batch[..], &[a_mat[0], b_mat[1]]].concat();
        // A contracted axis of length 1 is indexed by 0 alone, so broadcasting it changes nothing.
        Array::from_fn(&shape, |i| {
            let (batch, at) = i.split_at(i.len() - 2);
            let term = |k| {
                let a = self.at_broadcast(&[batch, &[at[0], k]].concat());
                a * other.at_broadcast(&[batch, &[k, at[1]]].concat())
            };
            (0..a_mat[1]).map(term).fold(0.0, |acc, x| acc + x)
        })
    }

    /// `x @ weightᵀ + bias`, weight (out, in).
    pub fn linear(&self, weight: &Array, bias: Option<&Array>) -> Array {
        let out = self.matmul(&weight.transpose(0, 1));
        bias.map_or(out.clone(), |b| out.add(b))
    }

    /// Cross-correlation of (N, C, H, W) with weight (O, C / groups, KH, KW), plus bias (O).
    pub fn conv2d(&self, weight: &Array, bias: Option<&Array>, c: Conv2d) -> Array {
        let (x, w) = (&self.shape, &weight.shape);
        assert_eq!(x[1], w[1] * c.groups, "conv2d of {x:?} with {w:?} in {} groups", c.groups);
        let size = |k: usize| windows(x[k + 2], w[k + 2], c.stride[k], c.padding[k], c.dilation[k]);
        let padded = self.pad(&[(0, 0), (0, 0), both(c.padding[0]), both(c.padding[1])], 0.0);
        Array::from_fn(&[x[0], w[0], size(0), size(1)], |i| {
            let first = i[1] / (w[0] / c.groups) * w[1];
            let mut acc = bias.map_or(0.0, |b| b.data[i[1]]);
            for ch in 0..w[1] {
                for ky in 0..w[2] {
                    for kx in 0..w[3] {
                        let (row, col) = (
                            i[2] * c.stride[0] + ky * c.dilation[0],
                            i[3] * c.stride[1] + kx * c.dilation[1],
                        );
                        acc += padded.at(&[i[0], first + ch, row, col]) * weight.at(&[i[1], ch, ky, kx]);
                    }
                }
            }
            acc
        })
    }

    /// Largest value of each window of (N, C, H, W); padding never wins.
    pub fn max_pool2d(&self, p: Pool2d) -> Array {
        self.pool2d(p, |inside| {
            inside.iter().fold(f64::NEG_INFINITY, |m, &x| if x > m || x.is_nan() { x } else { m })
        })
    }

    /// Mean of each window of (N, C, H, W).
    pub fn avg_pool2d(&self, p: Pool2d) -> Array {
        let whole = p.kernel[0] * p.kernel[1];
        let count = |inside: usize| if p.count_include_pad { whole } else { inside };
        self.pool2d(p, |inside| inside.iter().sum::<f64>() / count(inside.len()) as f64)
    }

    /// `f` of the values of each window that lie inside the input.
    fn pool2d(&self, p: Pool2d, f: impl Fn(&[f64]) -> f64) -> Array {
        let x = &self.shape;
        let size = |k: usize| windows(x[k + 2], p.kernel[k], p.stride[k], p.padding[k], p.dilation[k]);
        Array::from_fn(&[x[0], x[1], size(0), size(1)], |i| {
            let mut inside = Vec::new();
            for ky in 0..p.kernel[0] {
                for kx in 0..p.kernel[1] {
                    let row = (i[2] * p.stride[0] + ky * p.dilation[0]).wrapping_sub(p.padding[0]);
                    let col = (i[3] * p.stride[1] + kx * p.dilation[1]).wrapping_sub(p.padding[1]);
                    if row < x[2] && col < x[3] {
                        inside.push(self.at(&[i[0], i[1], row, col]));
                    }
                }
            }
            f(&inside)
        })
    }

    /// Normalise over the last `axes` axes, then scale and shift.
    pub fn layernorm(&self, axes: usize, weight: Option<&Array>, bias: Option<&Array>, eps: f64) -> Array {
        let over: Vec<isize> = (1..=axes as isize).map(|a| -a).collect();
        let centred = self.sub(&self.mean(&over, true));
        let out = centred.mul(&self.var(&over, true, 0.0).map(|v| 1.0 / (v + eps).sqrt()));
        let out = weight.map_or(out.clone(), |w| out.mul(w));
        bias.map_or(out.clone(), |b| out.add(b))
    }

    /// Divide by the root of the mean square over the last axis, then scale.
    pub fn rmsnorm(&self, weight: Option<&Array>, eps: f64) -> Array {
        let out = self.mul(&self.square().mean(&[-1], true).map(|m| 1.0 / (m + eps).sqrt()));
        weight.map_or(out.clone(), |w| out.mul(w))
    }

    /// Normalise (N, C, ..) by the given mean and variance of each channel, then scale and shift.
    pub fn batchnorm(
        &self,
        mean: &Array,
        var: &Array,
        weight: Option<&Array>,
        bias: Option<&Array>,
        eps: f64,
    ) -> Array {
        Array::from_fn(&self.shape, |i| {
            let c = i[1];
            let normal = (self.at(i) - mean.data[c]) / (var.data[c] + eps).sqrt();
            normal * weight.map_or(1.0, |w| w.data[c]) + bias.map_or(0.0, |b| b.data[c])
        })
    }

    /// Mean and (uncorrected) variance of each channel of (N, C, ..): what `batchnorm` uses in training.
    pub fn batch_stats(&self) -> (Array, Array) {
        let axes: Vec<isize> = (0..self.rank() as isize).filter(|&a| a != 1).collect();
        (self.mean(&axes, false), self.var(&axes, false, 0.0))
    }

    /// Normalise groups of channels of (N, C, ..) each by its own mean and variance, then scale and shift.
    pub fn groupnorm(&self, groups: usize, weight: Option<&Array>, bias: Option<&Array>, eps: f64) -> Array {
        let grouped =
            self.reshape(&[self.shape[0] as isize, groups as isize, -1]).layernorm(1, None, None, eps);
        let out = Array::new(&self.shape, grouped.data);
        Array::from_fn(&out.shape, |i| {
            out.at(i) * weight.map_or(1.0, |w| w.data[i[1]]) + bias.map_or(0.0, |b| b.data[i[1]])
        })
    }

    /// `softmax(q kᵀ / sqrt(d) + mask) v` over the last two axes.
    pub fn scaled_dot_product_attention(&self, key: &Array, value: &Array, mask: Option<&Array>) -> Array {
        let scale = 1.0 / (self.shape[self.rank() - 1] as f64).sqrt();
        let scores = self.matmul(&key.transpose(-2, -1)).map(|x| x * scale);
        mask.map_or(scores.clone(), |m| scores.add(m)).softmax(-1).matmul(value)
    }

    /// Rows of the table `self` (vocabulary, features) named by `index`.
    pub fn embedding(&self, index: &Array) -> Array {
        self.gather_rows(index)
    }

    /// Mean of `-self[n, target]` over log-probabilities (N, C, ..) and classes (N, ..).
    pub fn nll_loss(&self, target: &Array, ignore_index: Option<f64>) -> Array {
        let picked = self.target_terms(target, ignore_index, |of_class, class| -of_class[class]);
        Array::scalar(picked.iter().sum::<f64>() / picked.len() as f64)
    }

    /// Mean cross entropy of logits (N, C, ..) and classes (N, ..); `smoothing` goes to all classes evenly.
    pub fn cross_entropy(&self, target: &Array, smoothing: f64, ignore_index: Option<f64>) -> Array {
        let terms = self.log_softmax(1).target_terms(target, ignore_index, |of_class, class| {
            let even = of_class.iter().sum::<f64>() / of_class.len() as f64;
            -(1.0 - smoothing) * of_class[class] - smoothing * even
        });
        Array::scalar(terms.iter().sum::<f64>() / terms.len() as f64)
    }

    /// `f` of the values of all classes and the target class, wherever the target is not ignored.
    fn target_terms(
        &self,
        target: &Array,
        ignored: Option<f64>,
        f: impl Fn(&[f64], usize) -> f64,
    ) -> Vec<f64> {
        let mut terms = Vec::new();
        Array::from_fn(&target.shape, |i| {
            let class = target.at(i);
            if Some(class) != ignored {
                let at = |c| self.at(&[&i[..1], &[c], &i[1..]].concat());
                let of_class: Vec<f64> = (0..self.shape[1]).map(at).collect();
                terms.push(f(&of_class, class as usize));
            }
            0.0
        });
        terms
    }

    /// Mean squared difference.
    pub fn mse_loss(&self, target: &Array) -> Array {
        self.sub(target).square().mean(&[], false)
    }

    /// Mean absolute difference.
    pub fn l1_loss(&self, target: &Array) -> Array {
        self.sub(target).abs().mean(&[], false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shape: &[usize]) -> Array {
        Array::new(shape, (0..shape.iter().product()).map(|i: usize| i as f64).collect::<Vec<_>>())
    }

    fn close(got: &Array, want: &[f64]) {
        let near = got.data.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12);
        assert!(near && got.numel() == want.len(), "{got:?} is not {want:?}");
    }

    #[test]
    fn matmul_of_every_rank() {
        assert_eq!(count(&[3]).matmul(&count(&[3])), Array::scalar(5.0));
        assert_eq!(count(&[2, 3]).matmul(&count(&[3])), Array::new(&[2], [5., 14.]));
        assert_eq!(count(&[2]).matmul(&count(&[2, 3])), Array::new(&[3], [3., 4., 5.]));
        assert_eq!(count(&[2, 2]).matmul(&count(&[2, 2])).data, [2., 3., 6., 11.]);
        assert_eq!(count(&[4, 1, 2, 3]).matmul(&count(&[5, 3, 1])).shape, [4, 5, 2, 1]);
        assert_eq!(count(&[2, 0]).matmul(&count(&[0, 2])).data, [0.; 4]);
    }

    #[test]
    fn conv2d_by_hand() {
        let (x, w) = (count(&[1, 1, 3, 3]), Array::ones(&[1, 1, 2, 2]));
        assert_eq!(x.conv2d(&w, None, Conv2d::default()).data, [8., 12., 20., 24.]);
        let padded = Conv2d { padding: [1, 1], stride: [2, 2], ..Conv2d::default() };
        assert_eq!(x.conv2d(&w, Some(&Array::ones(&[1])), padded).data, [1., 4., 10., 25.]);
        let wide = Conv2d { dilation: [2, 2], ..Conv2d::default() };
        assert_eq!(x.conv2d(&w, None, wide).data, [16.]);
        let depthwise = Conv2d { groups: 2, ..Conv2d::default() };
        let out = count(&[1, 2, 1, 1]).conv2d(&Array::new(&[2, 1, 1, 1], [5., 7.]), None, depthwise);
        assert_eq!(out.data, [0., 7.]);
    }

    #[test]
    fn pools_by_hand() {
        let x = count(&[1, 1, 4, 4]);
        assert_eq!(x.max_pool2d(Pool2d::of([2, 2])).data, [5., 7., 13., 15.]);
        assert_eq!(x.avg_pool2d(Pool2d::of([2, 2])).data, [2.5, 4.5, 10.5, 12.5]);
        let mut corner = Pool2d { padding: [1, 1], ..Pool2d::of([2, 2]) };
        assert_eq!(Array::full(&[1, 1, 1, 1], -3.0).max_pool2d(corner).data, [-3.]);
        assert_eq!(Array::full(&[1, 1, 1, 1], 8.0).avg_pool2d(corner).data, [2.]);
        corner.count_include_pad = false;
        assert_eq!(Array::full(&[1, 1, 1, 1], 8.0).avg_pool2d(corner).data, [8.]);
    }

    #[test]
    fn normalisations_by_hand() {
        let x = Array::new(&[1, 2], [1., 3.]);
        close(&x.layernorm(1, Some(&Array::full(&[2], 2.0)), Some(&Array::ones(&[2])), 0.0), &[-1., 3.]);
        close(&x.batchnorm(&Array::zeros(&[2]), &Array::full(&[2], 4.0), None, None, 0.0), &[0.5, 1.5]);
        close(&x.rmsnorm(None, 0.0), &[1. / 5f64.sqrt(), 3. / 5f64.sqrt()]);
        close(&x.groupnorm(1, None, None, 0.0), &[-1., 1.]);
        let (mean, var) = Array::new(&[2, 1, 2], [1., 2., 3., 6.]).batch_stats();
        assert_eq!((mean.data, var.data), (vec![3.], vec![3.5]));
    }

    #[test]
    fn losses_by_hand() {
        let logits = Array::zeros(&[2, 4]);
        let target = Array::new(&[2], [1., 3.]);
        close(&logits.cross_entropy(&target, 0.0, None), &[4f64.ln()]);
        close(&logits.cross_entropy(&target, 0.3, None), &[4f64.ln()]);
        close(&count(&[2, 4]).nll_loss(&target, None), &[-4.0]);
        close(&count(&[2, 4]).nll_loss(&target, Some(3.0)), &[-1.0]);
        close(&count(&[3]).mse_loss(&Array::zeros(&[3])), &[5.0 / 3.0]);
        close(&count(&[3]).l1_loss(&Array::ones(&[3])), &[2.0 / 3.0]);
    }

    #[test]
    fn attention_to_one_key_returns_its_value() {
        let (q, k, v) = (count(&[1, 2]), count(&[1, 2]), Array::new(&[1, 2], [7., 9.]));
        close(&q.scaled_dot_product_attention(&k, &v, None), &[7., 9.]);
        close(&q.linear(&Array::ones(&[1, 2]), Some(&Array::ones(&[1]))), &[2.]);
    }
}
