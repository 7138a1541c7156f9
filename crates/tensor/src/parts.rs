//! Tensors cut in parts along an axis, and parts joined.

use crate::composite;
use crate::error::{Error, Result, call, fail};
use crate::movement::{clamped, cut, fixed, pad_axis, resized};
use crate::shape::{self, Shape, dim_as, dim_sub, same, show_all, size_of};
use crate::tensor::{Tensor, check_devices, promoted};
use crate::trace::{Composite, noted};
use frit_uop::{Alu, DType, UOp};

/// The most tensors that one call gives.
const MOST_PARTS: usize = 1 << 24;

/// So many parts, if a list of them can be.
fn few(op: &'static str, parts: usize) -> Result<usize> {
    match parts <= MOST_PARTS {
        true => Ok(parts),
        false => fail!(op, "into {parts} tensors, of at most {MOST_PARTS}"),
    }
}

impl Tensor {
    /// Pieces of `size` along an axis, the last one what is left; as everywhere, at most 2^24 of them.
    #[track_caller]
    pub fn split(&self, size: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("split");
        let n = match self.along_size("split", dim) {
            Ok(n) => n,
            Err(e) => return vec![Tensor::failed(e)],
        };
        if size == 0 {
            return vec![Tensor::failed(Error::new("split", "pieces of size 0"))];
        }
        if let Err(e) = few("split", n.div_ceil(size)) {
            return vec![Tensor::failed(e)];
        }
        self.split_sizes(
            &(0..n.div_ceil(size).max(1)).map(|i| size.min(n - i * size)).collect::<Vec<_>>(),
            dim,
        )
    }
    /// Pieces of the given sizes along an axis.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], dim: isize) -> Vec<Tensor> {
        let _c = call("split");
        let n = match self.along_size("split", dim) {
            Ok(n) => n,
            Err(e) => return sizes.iter().map(|_| Tensor::failed(e.clone())).collect(),
        };
        if sizes.iter().try_fold(0usize, |sum, s| sum.checked_add(*s)) != Some(n) {
            let e = Error::new("split", format!("sizes {sizes:?} do not add up to {n}"));
            return sizes.iter().map(|_| Tensor::failed(e.clone())).collect();
        }
        let mut at = 0;
        let mut piece = |s: usize| {
            at += s;
            self.narrow(dim, at - s, s)
        };
        sizes.iter().map(|&s| piece(s)).collect()
    }
    /// About `n` pieces of equal size along an axis.
    #[track_caller]
    pub fn chunk(&self, n: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("chunk");
        match self.along_size("chunk", dim) {
            Err(e) => vec![Tensor::failed(e); n.clamp(1, MOST_PARTS)],
            Ok(_) if n == 0 => vec![Tensor::failed(Error::new("chunk", "into 0 pieces"))],
            Ok(len) => self.split(len.div_ceil(n).max(1), dim),
        }
    }
    /// Pieces that end before each of the places along an axis, and one of what is left; places beyond the end count
    /// as the end.
    #[track_caller]
    pub fn tensor_split(&self, places: &[usize], dim: isize) -> Vec<Tensor> {
        let _c = call("tensor_split");
        self.pieces(dim, places.len(), |_| places.iter().map(|p| size_of(*p)).collect())
    }
    /// Pieces between places along an axis, of which there are `count`, and what is before and after.
    fn pieces(&self, dim: isize, count: usize, places: impl FnOnce(&UOp) -> Vec<UOp>) -> Vec<Tensor> {
        let found = self.form().and_then(|x| {
            let a = shape::axis("tensor_split", dim, x.shape().len())?;
            Ok((a, x.shape()[a].clone()))
        });
        let (a, n) = match found {
            Ok(found) => found,
            Err(e) => return vec![Tensor::failed(e); count + 1],
        };
        let places = places(&n);
        let begins = std::iter::once(UOp::index(0)).chain(places.iter().cloned());
        let ends = places.iter().cloned().chain([n.clone()]);
        let piece = |(begin, end): (UOp, UOp)| {
            let (begin, size) = clamped(&n, &begin, &end);
            self.seen(|x| Ok(cut(x, a, &begin, &size)))
        };
        begins.zip(ends).map(piece).collect()
    }
    /// `n` pieces along an axis; where it does not divide, the first ones are one longer.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let sizes = |n| Tensor::arange(5).tensor_split_into(n, 0).iter().map(|t| t.shape()[0].get()).collect::<Vec<_>>();
    /// assert_eq!((sizes(2), sizes(3)), (vec![3, 2], vec![2, 2, 1]));
    /// ```
    #[track_caller]
    pub fn tensor_split_into(&self, n: usize, dim: isize) -> Vec<Tensor> {
        let _c = call("tensor_split");
        if n == 0 {
            return vec![Tensor::failed(Error::new("tensor_split", "into 0 pieces"))];
        }
        if let Err(e) = few("tensor_split", n) {
            return vec![Tensor::failed(e)];
        }
        self.pieces(dim, n - 1, |len| {
            let (each, rest) = (len.size_div(&size_of(n)), len.size_mod(&size_of(n)));
            let place = |i| size_of(i).size_mul(&each).size_add(&size_of(i).size_min(&rest));
            (1..n).map(place).collect()
        })
    }
    /// One tensor for each place along an axis, the axis gone.
    #[track_caller]
    pub fn unbind(&self, dim: isize) -> Vec<Tensor> {
        let _c = call("unbind");
        match self.along_size("unbind", dim).and_then(|n| few("unbind", n)) {
            Ok(n) => (0..n).map(|i| self.narrow(dim, i, 1).squeeze(dim)).collect(),
            Err(e) => vec![Tensor::failed(e)],
        }
    }
    pub(crate) fn along_size(&self, op: &'static str, dim: isize) -> Result<usize> {
        let x = self.uop()?;
        let a = shape::axis(op, dim, x.shape().len())?;
        Ok(fixed(op, &x.shape()[a])? as usize)
    }
    /// Tensors joined along an axis; other dims must agree.
    #[track_caller]
    pub fn cat(tensors: &[Tensor], dim: isize) -> Tensor {
        let _c = call("cat");
        let joined = Tensor::of((|| {
            let xs: Vec<UOp> = tensors.iter().map(|t| t.uop()).collect::<Result<_>>()?;
            let Some(first) = xs.first() else { return fail!("cat", "of no tensors") };
            let a = shape::axis("cat", dim, first.shape().len())?;
            let dtype = xs.iter().try_fold(first.dtype, |d, x| promoted("cat", d, x.dtype))?;
            check_devices("cat", &xs)?;
            for x in &xs {
                let (p, q) = (first.shape(), x.shape());
                let mut fits = p.len() == q.len();
                for i in (0..p.len()).filter(|i| fits && *i != a).collect::<Vec<_>>() {
                    fits &= same("cat", &p[i], &q[i])?;
                }
                if !fits {
                    return fail!(
                        "cat",
                        "shapes {} and {} differ outside axis {a}",
                        show_all(p),
                        show_all(q)
                    );
                }
            }
            let alike = |x: &UOp| {
                (0..x.shape().len())
                    .filter(|i| *i != a)
                    .fold(x.cast(dtype), |x, i| resized(&x, i, &first.shape()[i]))
            };
            let out = join(&xs.iter().map(alike).collect::<Vec<_>>(), a);
            // empty ones leave no element behind, but the result is made of them too
            let empty = |x: &&UOp| x.shape()[a].as_int() == Some(0) && x.shape()[a] != out.shape()[a];
            Ok(xs.iter().filter(empty).fold(out.clone(), |out, x| {
                let all: Vec<usize> = (0..x.shape().len()).collect();
                composite::joined(&out, &x.reduce_axes(Alu::Add, &all).reshape(&[]))
            }))
        })());
        if !crate::trace::is_open() {
            return joined;
        }
        noted(|| Composite::Concat(dim), &tensors.iter().map(Some).collect::<Vec<_>>(), joined)
    }
    /// Tensors of one shape along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[Tensor], dim: isize) -> Tensor {
        let _c = call("stack");
        let alike = |a: &Shape, b: &Shape| {
            let pairs = || a.as_slice().iter().zip(b.as_slice());
            a.rank() == b.rank() && pairs().all(|(x, y)| x.is_equal(y).unwrap_or(false))
        };
        if let Some(t) =
            tensors.iter().find(|t| !alike(&t.shape(), &tensors[0].shape()) || t.check().is_err())
        {
            if let Some(e) = tensors.iter().find_map(|t| t.check().err()) {
                return Tensor::failed(e);
            }
            let m = format!("shapes {} and {} differ", tensors[0].shape(), t.shape());
            return Tensor::failed(Error::new("stack", m));
        }
        Tensor::cat(&tensors.iter().map(|t| t.unsqueeze(dim)).collect::<Vec<_>>(), dim)
    }
}

/// So many nodes are joined in one kernel, which looks at all of them for each element.
const JOINED: usize = 32;

/// Nodes of one type joined along an axis. Many are joined to runs in memory first, and these to longer ones, so that the
/// work grows with their number and not with its square.
pub(crate) fn join(xs: &[UOp], axis: usize) -> UOp {
    if xs.len() <= JOINED {
        return join_few(xs, axis);
    }
    let runs = |run: &[UOp]| if run.len() > 1 { join_few(run, axis).contiguous() } else { run[0].clone() };
    join(&xs.chunks(JOINED).map(runs).collect::<Vec<_>>(), axis)
}

/// Each padded to the whole, then chosen by place.
fn join_few(xs: &[UOp], axis: usize) -> UOp {
    let zero = UOp::index(0);
    let total = xs.iter().fold(zero.clone(), |t, x| t.size_add(&x.shape()[axis]));
    let parts: Vec<&UOp> = xs.iter().filter(|x| x.shape()[axis].as_int() != Some(0)).collect();
    let (mut at, mut out): (UOp, Option<UOp>) = (zero, None);
    for x in parts {
        let end = at.size_add(&x.shape()[axis]);
        let piece = pad_axis(x, axis, &at, &dim_sub(&total, &end));
        out = Some(match out {
            None => piece,
            Some(rest) => {
                let place = crate::reduce::along_axis(&UOp::iota(&total, DType::I32), piece.shape(), axis);
                place.lt(&dim_as(&at, DType::I32)).select(&rest, &piece)
            }
        });
        at = end;
    }
    out.unwrap_or_else(|| xs[0].clone())
}
