//! Sorting and what is found by it: order, the greatest few, medians, quantiles.

use crate::error::{Result, call};
use crate::index::gather_along;
use crate::shape;
use crate::sort;
use crate::tensor::Tensor;
use frit_uop::{DType, UOp};

/// `(values, places)` of the first `keep` along an axis in order, the axis where it was.
fn ranked(op: &'static str, x: &UOp, axis: usize, descending: bool, keep: i64) -> Result<(UOp, UOp)> {
    let rank = x.shape().len();
    let mut to_front: Vec<usize> = vec![axis];
    to_front.extend((0..rank).filter(|a| *a != axis));
    let mut back = vec![0; rank];
    for (i, &a) in to_front.iter().enumerate() {
        back[a] = i;
    }
    let places = sort::order(op, &x.permute(&to_front), descending, keep)?.permute(&back);
    Ok((gather_along(op, x, axis, &places)?, places))
}

impl Tensor {
    /// Sorted along an axis, and where each element was; int32. Equal elements keep their order; NaN is greater than
    /// all others.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let (values, places) = Tensor::new([3, 1, 2]).sort(0, false);
    /// assert_eq!(values.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(places.to_vec::<i32>()?, [1, 2, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: isize, descending: bool) -> (Tensor, Tensor) {
        let _c = call("sort");
        self.ranked("sort", dim, descending, None)
    }
    #[track_caller]
    fn ranked(&self, op: &'static str, dim: isize, descending: bool, keep: Option<i64>) -> (Tensor, Tensor) {
        let both = self.uop().and_then(|x| {
            if x.shape().is_empty() && matches!(dim, 0 | -1) {
                return Ok((x, UOp::int(0, DType::I32)));
            }
            let axis = shape::axis(op, dim, x.shape().len())?;
            let n = crate::movement::fixed(op, &x.shape()[axis])?;
            ranked(op, &x, axis, descending, keep.unwrap_or(n))
        });
        match both {
            Ok((v, p)) => (Tensor::of(Ok(v)), Tensor::of(Ok(p))),
            Err(e) => (Tensor::failed(e.clone()), Tensor::failed(e)),
        }
    }
}
