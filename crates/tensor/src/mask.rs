//! Bool tensors as places. How many they name depends on data: [`Tensor::nonzero`], [`Tensor::masked_select`] and
//! reading by a bool tensor compute the mask at the call.

use crate::elementwise::truth;
use crate::error::{Result, call, fail, fail_index};
use crate::index::{Index, Indices};
use crate::operand::Operand;
use crate::shape::{Dim, Dims, not_negative, same, show_all};
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

/// The first `size` rows of `x` where the mask is true, and rows of `fill` after the last of them.
#[track_caller]
fn first_rows(x: &Tensor, mask: &Tensor, size: Dim, fill: Operand) -> Tensor {
    let size = match size.0.and_then(|d| Ok(not_negative("size", &[d])?.remove(0))) {
        Ok(d) => Dim(Ok(d)),
        Err(e) => return Tensor::failed(e),
    };
    let place = mask.cast(DType::I32).cumsum(0) - 1;
    // what does not fit goes to a row of its own, which is cut off
    let last = size.tensor();
    let keeps = mask.logical_and(place.lt(&last));
    let mut dims = Dims::from(&x.shape());
    dims.0[0] = &size + 1;
    let rows = Tensor::full_dtype(dims, fill, x.dtype());
    rows.index_put(keeps.where_(&place, &last), x, false).narrow(0, 0, size)
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
    /// The rows of [`nonzero`](Tensor::nonzero) as a table of `size` rows: the first ones, and where there are fewer, rows of
    /// `fill`. Its shape does not depend on data, so nothing is computed at the call.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1, 0, 2, 0, 3]);
    /// assert_eq!(x.nonzero_sized(4, -1).to_vec::<i32>()?, [0, 2, 4, -1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_sized(&self, size: impl Into<Dim>, fill: impl Into<Operand>) -> Tensor {
        let (_c, size, fill) = (call("nonzero"), size.into(), fill.into());
        let dims = self.shape();
        let rank = dims.rank();
        let flat = |t: Tensor| t.reshape([-1]);
        let mask = flat(self.map(|m| Ok(truth(m))));
        if rank == 0 {
            return mask
                .check()
                .map_or_else(Tensor::failed, |()| Tensor::full_dtype((size, 0), 0, DType::I32));
        }
        // coordinates of every place, (places, rank)
        let lines = dims.as_slice().iter().map(Tensor::arange).collect::<Vec<_>>();
        let grid: Vec<Tensor> = Tensor::meshgrid(&lines).into_iter().map(flat).collect();
        first_rows(&Tensor::stack(&grid, 1).cast(DType::I32), &mask, size, fill)
    }
    /// The elements of [`masked_select`](Tensor::masked_select) as a vector of `size`: the first ones, and where there are
    /// fewer, `fill`. Its shape does not depend on data, so nothing is computed at the call.
    #[track_caller]
    pub fn masked_select_sized(
        &self,
        mask: &Tensor,
        size: impl Into<Dim>,
        fill: impl Into<Operand>,
    ) -> Tensor {
        let (_c, size, fill) = (call("masked_select"), size.into(), fill.into());
        match self.line_of(mask) {
            Ok((x, m)) => first_rows(&x, &m, size, fill),
            Err(e) => Tensor::failed(e),
        }
    }
    /// This and a mask broadcast together, each as a vector.
    fn line_of(&self, mask: &Tensor) -> Result<(Tensor, Tensor)> {
        let [x, m] = align("masked_select", [self.uop()?, mask.uop()?])?;
        let dims = if x.shape().is_empty() { m.shape().to_vec() } else { x.shape().to_vec() };
        let line = |t: UOp| Tensor::of(Ok(expand_to(&t, &dims))).reshape([-1]);
        Ok((line(x), line(truth(&m))))
    }
    /// The elements where the mask is true, as a vector; both broadcast. Computes the mask.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let _c = call("masked_select");
        let (x, m) = self.line_of(mask)?;
        let t = x.at(m);
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
