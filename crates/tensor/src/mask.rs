//! Bool tensors as places. How many they name depends on data: [`Tensor::nonzero`], [`Tensor::masked_select`] and
//! reading by a bool tensor compute the mask at the call.

use crate::elementwise::truth;
use crate::error::{Result, call, fail, fail_index};
use crate::index::{Index, Indices};
use crate::shape::{same, show_all};
use crate::tensor::{Tensor, align, expand_to};
use frit_uop::{DType, UOp};

/// The coordinates of what is true, a list for each dim, in row-major order. Computes.
fn coordinates(mask: &Tensor) -> Result<Vec<Vec<i32>>> {
    let dims = mask.dims()?;
    if let Some(d) = dims.iter().find(|d| **d > i32::MAX as usize) {
        return fail!("nonzero", "places in {d} elements do not fit int32");
    }
    let hits = mask.map(|m| Ok(truth(m))).to_vec::<bool>()?;
    let mut out: Vec<Vec<i32>> = vec![vec![]; dims.len()];
    for (i, _) in hits.iter().enumerate().filter(|(_, h)| **h) {
        let mut rest = i;
        for (list, d) in out.iter_mut().zip(&dims).rev() {
            list.push((rest % d) as i32);
            rest /= d;
        }
    }
    Ok(out)
}

/// How many elements of a mask are true. Computes.
fn count(mask: &Tensor) -> Result<usize> {
    Ok(mask.map(|m| Ok(truth(m))).to_vec::<bool>()?.iter().filter(|h| **h).count())
}

/// The index with each bool tensor replaced by the coordinates it stands for. Computes the masks.
pub(crate) fn without_masks(op: &'static str, x: &UOp, idx: &Indices) -> Result<Indices> {
    let is_mask = |i: &Index| matches!(i, Index::Tensor(t) if t.dtype() == DType::Bool);
    if !idx.0.iter().any(is_mask) {
        return Ok(idx.clone());
    }
    let dims_of = |i: &Index| match i {
        Index::Ellipsis | Index::NewAxis | Index::Flag(_) => 0,
        Index::Tensor(t) if is_mask(i) => t.rank(),
        _ => 1,
    };
    let (used, rank) = (idx.0.iter().map(dims_of).sum::<usize>(), x.shape().len());
    if used > rank {
        return fail_index!(op, "indices for {used} dims of shape {}", show_all(x.shape()));
    }
    let (mut out, mut at) = (smallvec::SmallVec::new(), 0);
    for i in &idx.0 {
        match i {
            Index::Tensor(t) if is_mask(i) => {
                let mask = t.uop()?;
                let of = &x.shape()[at..at + mask.shape().len()];
                fits(op, mask.shape(), of)?;
                let lists = coordinates(t)?;
                if lists.is_empty() {
                    out.push(Index::Flag(count(t)? > 0));
                }
                let device = x.device();
                out.extend(lists.into_iter().map(|l| {
                    let list = Tensor::from_vec(l.as_slice(), [l.len()]);
                    Index::Tensor(match &device {
                        Some(d) => list.to(d),
                        None => list,
                    })
                }));
                at += mask.shape().len();
            }
            Index::Ellipsis => {
                out.push(i.clone());
                at += rank - used;
            }
            _ => {
                out.push(i.clone());
                at += dims_of(i);
            }
        }
    }
    Ok(Indices(out))
}

/// A mask has the dims it stands for.
pub(crate) fn fits(op: &'static str, mask: &[UOp], of: &[UOp]) -> Result<()> {
    for (m, d) in mask.iter().zip(of) {
        if !same(op, m, d)? {
            return fail_index!(op, "a mask of shape {} for dims {}", show_all(mask), show_all(of));
        }
    }
    Ok(())
}

impl Tensor {
    /// Where elements are not zero: one row of coordinates for each, int32. Computes.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[0, 5], [7, 0]]);
    /// assert_eq!(x.nonzero()?.to_vec::<i32>()?, [0, 1, 1, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let _c = call("nonzero");
        let rank = self.dims()?.len();
        let lists = coordinates(self)?;
        let n = match lists.first() {
            Some(l) => l.len(),
            None => count(self)?,
        };
        let rows: Vec<i32> = (0..n).flat_map(|i| lists.iter().map(move |l| l[i])).collect();
        let t = Tensor::from_vec(rows.as_slice(), [n, rank]);
        t.check().map(|_| t)
    }
    /// Where elements are not zero: the coordinates of one dim after the other, as an index that [`at`](Tensor::at)
    /// takes; what `where` with a condition alone is elsewhere. Computes.
    #[track_caller]
    pub fn nonzero_tuple(&self) -> Result<Vec<Tensor>> {
        let _c = call("nonzero");
        self.dims()?;
        let vectors = coordinates(self)?.into_iter().map(|l| Tensor::from_vec(l.as_slice(), [l.len()]));
        vectors.map(|t| t.check().map(|_| t)).collect()
    }
    /// The elements where the mask is true, as a vector; both broadcast. Computes the mask.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let _c = call("masked_select");
        let [x, m] = align("masked_select", [self.uop()?, mask.uop()?])?;
        let dims = if x.shape().is_empty() { m.shape().to_vec() } else { x.shape().to_vec() };
        let (x, m) = (expand_to(&x, &dims), expand_to(&truth(&m), &dims));
        let line = |t: UOp| Tensor::of(Ok(t)).reshape([-1]);
        let t = line(x).at(line(m));
        t.check().map(|_| t)
    }
    /// This with elements of `source`, in order, where the mask is true. `source` has at least as many.
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Tensor {
        let _c = call("masked_scatter");
        if self.dtype() != source.dtype() && self.check().is_ok() && source.check().is_ok() {
            let m = format!("{} into {}; cast it", source.dtype(), self.dtype());
            return Tensor::failed(crate::error::Error::new("masked_scatter", m));
        }
        let mask = mask.map(|m| Ok(truth(m)));
        let mask = mask.expand(self.shape()).reshape([-1]);
        let place = mask.cast(DType::I32).cumsum(0) - 1;
        let place = mask.where_(&place, 0);
        // an empty source has nothing that could be read where nothing is asked
        let source = source.reshape([-1]);
        if source.shape()[0] == 0 {
            return self.clone();
        }
        mask.where_(source.take(&place), self.reshape([-1])).reshape(self.shape())
    }
}
