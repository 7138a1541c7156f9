//! Elements repeated, and rotated along axes.

use crate::error::{Result, call, fail};
use crate::movement::cut;
use crate::parts::join;
use crate::shape::{self, Axes, Dim, Dims, not_negative, product, show_all};
use crate::tensor::Tensor;
use frit_uop::{DType, UOp};
use smallvec::SmallVec;

type Nodes = SmallVec<[UOp; 4]>;

/// By how much to rotate: one number, or one for each axis.
pub struct Shifts(SmallVec<[Dim; 4]>);
macro_rules! shifts_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Shifts { #[track_caller] fn from(v: $t) -> Shifts { Shifts(SmallVec::from_iter([v.into()])) } }
        impl<const N: usize> From<[$t; N]> for Shifts { #[track_caller] fn from(v: [$t; N]) -> Shifts { Shifts(v.iter().map(Dim::from).collect()) } }
        impl From<&[$t]> for Shifts { #[track_caller] fn from(v: &[$t]) -> Shifts { Shifts(v.iter().map(Dim::from).collect()) } }
    )*};
}
shifts_from!(i32, i64, isize, Dim);

impl Tensor {
    /// Rotated along axes, a shift for each: elements that leave at the end come in at the beginning. With `..` the
    /// elements are rotated in row-major order.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([[1, 2], [3, 4]]);
    /// assert_eq!(x.roll(1, 0).to_vec::<i32>()?, [3, 4, 1, 2]);
    /// assert_eq!(x.roll([1, 1], [0, 1]).to_vec::<i32>()?, [4, 3, 2, 1]);
    /// assert_eq!(x.roll(1, ..).to_vec::<i32>()?, [4, 1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Shifts>, axes: impl Into<Axes>) -> Tensor {
        let _c = call("roll");
        let (shifts, axes) = (shifts.into().0, axes.into());
        self.map(|x| {
            if axes.is_all() {
                let [shift] = &shifts[..] else {
                    return fail!("roll", "{} shifts for all elements", shifts.len());
                };
                let flat = x.reshape(&[product(x.shape())]);
                return Ok(rolled(&flat, shift, 0)?.reshape(x.shape()));
            }
            let at = axes.in_order("roll", x.shape().len())?;
            if at.len() != shifts.len() {
                return fail!("roll", "{} shifts for {} axes", shifts.len(), at.len());
            }
            at.iter().zip(&shifts).try_fold(x.clone(), |x, (&a, k)| rolled(&x, k, a))
        })
    }
    /// The whole repeated along each dim; more counts than dims add dims in front.
    #[track_caller]
    pub fn repeat<D: Clone + Into<Dim>>(&self, counts: &[D]) -> Tensor {
        let _c = call("repeat");
        let counts = Dims(counts.iter().map(|c| c.clone().into()).collect());
        self.map(|x| {
            let counts = not_negative("repeat", &counts.uops()?)?;
            let s = x.shape();
            if counts.len() < s.len() {
                return fail!("repeat", "{} counts for shape {}", counts.len(), show_all(s));
            }
            let one = UOp::index(1);
            let lead = counts.len() - s.len();
            let (mut from, mut to, mut out) = (Nodes::new(), Nodes::new(), Nodes::new());
            for (i, c) in counts.iter().enumerate() {
                let d = if i < lead { one.clone() } else { s[i - lead].clone() };
                from.extend([one.clone(), d.clone()]);
                to.extend([c.clone(), d.clone()]);
                out.push(d.size_mul(c));
            }
            Ok(x.reshape(&from).expand(&to).reshape(&out))
        })
    }
    /// The same as [`Tensor::repeat`], counts missing in front being 1.
    #[track_caller]
    pub fn tile<D: Clone + Into<Dim>>(&self, counts: &[D]) -> Tensor {
        let _c = call("tile");
        let mut all = vec![Dim::from(1); self.rank().saturating_sub(counts.len())];
        all.extend(counts.iter().map(|c| c.clone().into()));
        self.repeat(&all)
    }
    /// Each element repeated `n` times along an axis.
    #[track_caller]
    pub fn repeat_interleave(&self, n: impl Into<Dim>, dim: isize) -> Tensor {
        let (_c, n) = (call("repeat_interleave"), n.into());
        self.map(|x| {
            let n = not_negative("repeat_interleave", &[n.0?])?.remove(0);
            let a = shape::axis("repeat_interleave", dim, x.shape().len())?;
            let mut out: Nodes = x.shape().iter().cloned().collect();
            let (mut from, mut to) = (out.clone(), out.clone());
            from.insert(a + 1, UOp::index(1));
            to.insert(a + 1, n.clone());
            out[a] = out[a].size_mul(&n);
            Ok(x.reshape(&from).expand(&to).reshape(&out))
        })
    }
    /// Each element repeated along an axis as often as `counts` (a vector, one for each) says. Computes the counts.
    #[track_caller]
    pub fn repeat_interleave_by(&self, counts: &Tensor, dim: isize) -> Result<Tensor> {
        let _c = call("repeat_interleave");
        let n = self.along_size("repeat_interleave", dim)?;
        let shape = counts.dims()?;
        if shape != [n] || !counts.dtype().is_int() {
            return fail!("repeat_interleave", "counts of {} {shape:?} for {n} elements", counts.dtype());
        }
        let counts = counts.cast(DType::I64).to_vec::<i64>()?;
        if let Some(bad) = counts.iter().find(|c| **c < 0) {
            return fail!("repeat_interleave", "a count of {bad}");
        }
        let places: Vec<i64> =
            counts.iter().enumerate().flat_map(|(i, &c)| std::iter::repeat_n(i as i64, c as usize)).collect();
        let places = Tensor::from_slice(&places).to(&self.device()?);
        let out = self.index_select(dim, &places);
        out.check().map(|_| out)
    }
}

fn rolled(x: &UOp, shift: &Dim, axis: usize) -> Result<UOp> {
    let (n, shift) = (&x.shape()[axis], shift.0.clone()?);
    if n.bounds.1 == 0 {
        return Ok(x.clone());
    }
    // of no elements whatever is rotated is none
    let k = shift.size_mod(&n.size_max(&UOp::index(1)));
    let k = if k.size_sub(n).bounds.1 <= 0 { k } else { k.size_min(n) };
    let rest = n.size_sub(&k);
    Ok(join(&[cut(x, axis, &rest, &k), cut(x, axis, &UOp::index(0), &rest)], axis))
}
