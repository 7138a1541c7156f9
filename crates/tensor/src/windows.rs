//! Windows along an axis, and elements by strides: one element at several places.

use crate::error::{Result, call, fail, site};
use crate::movement::{cut, fixed, pad_axis};
use crate::shape::{self, holds, product, show, size_of};
use crate::tensor::{Tensor, expand_to};
use frit_uop::{Alu, DType, UOp};
use smallvec::SmallVec;

type Nodes = SmallVec<[UOp; 4]>;

impl Tensor {
    /// Elements by strides over the row-major order: element `(i, j, …)` is number
    /// `offset + i*strides[0] + j*strides[1] + …` of this. Places outside are an error.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::arange(6).as_strided(&[2, 3], &[1, 2], 0);
    /// assert_eq!(x.to_vec::<i32>()?, [0, 2, 4, 1, 3, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn as_strided(&self, dims: &[usize], strides: &[isize], offset: usize) -> Tensor {
        let _c = call("as_strided");
        self.map(|x| {
            if dims.len() != strides.len() {
                return fail!("as_strided", "{} strides for {} dims", strides.len(), dims.len());
            }
            let n = fixed("as_strided", &product(x.shape()))? as i128;
            let reach = |d: usize, s: isize| (d as i128 - 1).max(0) * s as i128;
            let reaches = || dims.iter().zip(strides).map(|(&d, &s)| reach(d, s));
            let (low, high) = reaches().fold((offset as i128, offset as i128), |(l, h), r| (l + r.min(0), h + r.max(0)));
            if !dims.contains(&0) && (low < 0 || high >= n) {
                return fail!(
                    "as_strided",
                    "dims {dims:?} with strides {strides:?} from {offset} reach {low}..={high} of {n} elements"
                );
            }
            let dtype = if high > i32::MAX as i128 { DType::I64 } else { DType::I32 };
            let to: Nodes = dims.iter().map(|&d| size_of(d)).collect();
            let mut at = crate::tensor::filled(&to, UOp::int(offset as i64, dtype));
            for (axis, &stride) in strides.iter().enumerate() {
                let step = UOp::iota(&to[axis], dtype).bin(Alu::Mul, &UOp::int(stride as i64, dtype));
                at = at.bin(Alu::Add, &crate::reduce::along_axis(&step, &to, axis));
            }
            Ok(x.reshape(&[product(x.shape())]).gather(&at, site("as_strided")))
        })
    }
    /// Windows of `size` along an axis, `step` apart, as a new last dim; a view, nothing is copied.
    #[track_caller]
    pub fn unfold(&self, dim: isize, size: usize, step: usize) -> Tensor {
        let _c = call("unfold");
        if self.rank() == 0 && self.check().is_ok() {
            return self.reshape([1]).unfold(dim, size, step).squeeze(0);
        }
        self.map(|x| {
            let a = shape::axis("unfold", dim, x.shape().len())?;
            if size == 0 && step > 0 {
                // a place for every step, and nothing in it
                let places = fixed("unfold", &x.shape()[a])? as usize / step + 1;
                let mut dims: Nodes = x.shape().iter().cloned().collect();
                dims[a] = size_of(places);
                dims.push(UOp::index(0));
                return Ok(crate::tensor::filled(&dims, x.const_like(0)));
            }
            let w = windows(x, a, size, step, 1)?; // (.., size, places, ..)
            let mut axes: Vec<usize> = (0..w.shape().len()).filter(|i| *i != a).collect();
            axes.push(a);
            Ok(w.permute(&axes))
        })
    }
}

/// Of so many places, true at the one given and at every `step`-th before and after it.
pub(crate) fn every(step: i64, place: i64, length: i64) -> UOp {
    let (skipped, i) = ((-place).rem_euclid(step), UOp::index);
    let rows = (skipped + length + step - 1) / step;
    let marks = pad_axis(&expand_to(&UOp::boolean(true), &[i(rows), i(1)]), 1, &i(0), &i(step - 1));
    cut(&marks.reshape(&[i(rows * step)]), 0, &i(skipped), &i(length))
}

/// Windows along an axis by movement only: `(.., n, ..)` becomes `(.., size, places, ..)` with
/// `out[k, o] = x[o * step + k * dilation]`.
///
/// The axis is repeated, flattened and cut so that each row starts `dilation` later than the one before; the index
/// arithmetic folds back to `o * step + k * dilation`.
pub(crate) fn windows_dilated(x: &UOp, axis: usize, size: i64, step: i64, dilation: i64) -> UOp {
    let dims = x.shape();
    let (n, k, s, d) = (dims[axis].as_int().unwrap_or(0), size, step, dilation);
    let o = (n - d * (k - 1) - 1) / s + 1;
    let at = |mid: &[i64]| {
        let mut v: Nodes = dims[..axis].iter().cloned().collect();
        v.extend(mid.iter().map(|&m| UOp::index(m)));
        v.extend(dims[axis + 1..].iter().cloned());
        v
    };
    let zero = UOp::index(0);
    if k == 1 && s == 1 {
        return x.reshape(&at(&[1, n]));
    }
    if k <= s && d == 1 {
        // windows do not overlap: cut or pad to o blocks of s
        let whole = if o * s <= n {
            cut(x, axis, &zero, &UOp::index(o * s))
        } else {
            pad_axis(x, axis, &zero, &UOp::index(o * s - n))
        };
        let blocks = cut(&whole.reshape(&at(&[o, s])), axis + 1, &zero, &UOp::index(k));
        let mut axes: Vec<usize> = (0..blocks.shape().len()).collect();
        axes.swap(axis, axis + 1);
        return blocks.permute(&axes);
    }
    // rows of a multiple of n and d more, long enough for o steps of s
    let row = n * ((o * s - d + n - 1) / n).max(1) + d;
    let copies = (k * row + n - 1) / n;
    let flat = x.reshape(&at(&[1, n])).expand(&at(&[copies, n])).reshape(&at(&[copies * n]));
    let rows = cut(&flat, axis, &zero, &UOp::index(k * row)).reshape(&at(&[k, row]));
    let reach = cut(&rows, axis + 1, &zero, &UOp::index(o * s));
    if s == 1 {
        return reach;
    }
    let mut steps = at(&[k, o, s]);
    let picked = cut(&reach.reshape(&steps), axis + 2, &zero, &UOp::index(1));
    steps.remove(axis + 2);
    picked.reshape(&steps)
}

/// [`windows_dilated`], checked. Where the size has variables: over the longest there can be, and of its windows those that
/// are there.
pub(crate) fn windows(x: &UOp, axis: usize, size: usize, step: usize, dilation: usize) -> Result<UOp> {
    let n = &x.shape()[axis];
    if size == 0 || step == 0 || dilation == 0 {
        return fail!("unfold", "window {size}, step {step} and dilation {dilation} must be at least 1");
    }
    let span = UOp::index(i64::try_from(dilation as i128 * (size as i128 - 1) + 1).unwrap_or(i64::MAX));
    if holds("unfold", &n.lt(&span))? {
        return fail!("unfold", "a window of {} does not fit size {}", show(&span), show(n));
    }
    if n.as_int().is_some() {
        return windows_fitted(x, axis, size, step, dilation);
    }
    let most = UOp::index(i64::try_from(n.bounds.1).unwrap_or(i64::MAX));
    let whole = pad_axis(x, axis, &UOp::index(0), &most.size_sub(n));
    let all = windows_fitted(&whole, axis, size, step, dilation)?;
    let places = n.size_sub(&span).size_div(&size_of(step)).size_add(&UOp::index(1));
    Ok(cut(&all, axis + 1, &UOp::index(0), &places.size_max(&UOp::index(0))))
}

fn windows_fitted(x: &UOp, axis: usize, size: usize, step: usize, dilation: usize) -> Result<UOp> {
    let n = fixed("unfold", &x.shape()[axis])?;
    // a step beyond the end makes one window, however long it is
    let (k, s, d) =
        (size as i64, (step as i128).min(n as i128) as i64, (dilation as i128).min(n as i128) as i64);
    // the repeated axis that windows are cut from
    if (k as i128 + 1) * (3 * n as i128 + d as i128) > i64::MAX as i128 {
        return fail!("unfold", "windows of {k} over size {n} have more elements than can be counted");
    }
    Ok(windows_dilated(x, axis, k, s, d))
}
