//! Diagonals: reading them, and putting elements on one.

use crate::error::{Result, call, fail};
use crate::movement::{cut, fixed, pad_axis};
use crate::shape::{self, show_all};
use crate::tensor::Tensor;
use frit_uop::UOp;
use smallvec::SmallVec;

type Nodes = SmallVec<[UOp; 4]>;

impl Tensor {
    /// The diagonal of the last two dims, as the last dim.
    #[track_caller]
    pub fn diagonal(&self) -> Tensor {
        let _c = call("diagonal");
        self.diagonal_of(0, -2, -1)
    }
    /// The diagonal of two dims, as the last dim: `offset` to the right of the main one, or below it if negative.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::arange(6).reshape([2, 3]);
    /// assert_eq!(x.diagonal_of(1, 0, 1).to_vec::<i32>()?, [1, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_of(&self, offset: isize, dim1: isize, dim2: isize) -> Tensor {
        let _c = call("diagonal");
        self.map(|x| diagonal(x, offset, two_axes("diagonal", dim1, dim2, x.shape().len())?))
    }
    /// Of a vector, the square matrix with it on the diagonal; of a matrix, its diagonal.
    #[track_caller]
    pub fn diag(&self) -> Tensor {
        self.diag_at(0)
    }
    /// [`Tensor::diag`] with the diagonal `offset` to the right of the main one, or below it if negative.
    #[track_caller]
    pub fn diag_at(&self, offset: isize) -> Tensor {
        let _c = call("diag");
        self.map(|x| match x.shape().len() {
            1 => embed(x, offset),
            2 => diagonal(x, offset, (0, 1)),
            _ => fail!("diag", "of shape {}, neither a vector nor a matrix", show_all(x.shape())),
        })
    }
    /// The last dim on a diagonal of two new dims, zeros elsewhere.
    #[track_caller]
    pub fn diag_embed(&self, offset: isize, dim1: isize, dim2: isize) -> Tensor {
        let _c = call("diag_embed");
        self.map(|x| {
            let rank = x.shape().len();
            if rank == 0 {
                return fail!("diag_embed", "of a scalar");
            }
            let (r, c) = two_axes("diag_embed", dim1, dim2, rank + 1)?;
            let m = embed(x, offset)?;
            let mut rest = 0..rank - 1;
            let place = |i: usize| match i {
                i if i == r => rank - 1,
                i if i == c => rank,
                _ => rest.next().unwrap_or(0),
            };
            Ok(m.permute(&(0..=rank).map(place).collect::<Vec<_>>()))
        })
    }
}

fn two_axes(op: &'static str, a: isize, b: isize, rank: usize) -> Result<(usize, usize)> {
    let (p, q) = (shape::axis(op, a, rank)?, shape::axis(op, b, rank)?);
    if p == q { fail!(op, "dims {a} and {b} are the same") } else { Ok((p, q)) }
}

fn diagonal(x: &UOp, offset: isize, (row, col): (usize, usize)) -> Result<UOp> {
    let rank = x.shape().len();
    let mut axes: Vec<usize> = (0..rank).filter(|a| *a != row && *a != col).collect();
    axes.extend([row, col]);
    let x = x.permute(&axes);
    let (s, a) = (x.shape(), rank - 2);
    let (rows, cols) = (fixed("diagonal", &s[a])?, fixed("diagonal", &s[a + 1])?);
    let k = offset as i64;
    let (top, left) = (k.saturating_neg().clamp(0, rows), k.clamp(0, cols));
    let n = (rows - top).min(cols - left);
    // a square cut, flattened, read with one more than the row length
    let part = |x: &UOp, axis: usize, at: i64| cut(x, axis, &UOp::index(at), &UOp::index(n));
    let square = part(&part(&x, a, top), a + 1, left);
    let mut flat: Nodes = s[..a].iter().cloned().collect();
    flat.push(UOp::index(n * n));
    let padded = pad_axis(&square.reshape(&flat), a, &UOp::index(0), &UOp::index(n));
    flat[a] = UOp::index(n);
    flat.push(UOp::index(n + 1));
    let d = cut(&padded.reshape(&flat), a + 1, &UOp::index(0), &UOp::index(1));
    flat.pop();
    Ok(d.reshape(&flat))
}

/// `(.., n)` becomes `(.., m, m)` with m = n + |offset|: rows of m + 1 with one element each, strung together.
fn embed(x: &UOp, offset: isize) -> Result<UOp> {
    let a = x.shape().len() - 1;
    let n = fixed("diag", &x.shape()[a])?;
    let shift = offset.unsigned_abs() as i64;
    let Some(m) = n.checked_add(shift).filter(|m| m.checked_mul(*m).is_some()) else {
        return fail!("diag", "{n} elements {offset} away from the diagonal");
    };
    let idx = UOp::index;
    let mut dims: Nodes = x.shape().iter().cloned().collect();
    dims.push(idx(1));
    let rows = pad_axis(&x.reshape(&dims), a + 1, &idx(0), &idx(m));
    dims.truncate(a);
    dims.push(idx(n * (m + 1)));
    let before = if offset >= 0 { shift } else { shift * m };
    let all = pad_axis(&rows.reshape(&dims), a, &idx(before), &idx((m * m - before - n * (m + 1)).max(0)));
    let flat = cut(&all, a, &idx(0), &idx(m * m));
    dims[a] = idx(m);
    dims.push(idx(m));
    Ok(flat.reshape(&dims))
}
