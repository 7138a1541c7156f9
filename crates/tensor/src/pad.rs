//! Padding: with a value, or with elements of the tensor itself.

use crate::error::{Result, call, fail};
use crate::movement::{cut, fixed, join};
use crate::operand::{Operand, literal};
use crate::shape::{show, show_all};
use crate::tensor::{Tensor, filled};
use frit_uop::UOp;
use smallvec::SmallVec;

type Nodes = SmallVec<[UOp; 4]>;

/// What padding is made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PadMode {
    /// A number.
    Constant(f64),
    /// The elements next to the edge, mirrored, the edge itself not repeated: fewer than the dim has.
    Reflect,
    /// The element at the edge.
    Replicate,
    /// The elements at the other end: at most as many as the dim has.
    Circular,
}

impl Default for PadMode {
    fn default() -> PadMode {
        PadMode::Constant(0.0)
    }
}

impl Tensor {
    /// Padded with a value, by `(before, after)` for each dim from the first; negative amounts cut.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::new([1, 2, 3]).pad(&[(1, -1)], 9).to_vec::<i32>()?, [9, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, amounts: &[(isize, isize)], value: impl Into<Operand>) -> Tensor {
        let _c = call("pad");
        let value = value.into();
        self.map(|x| pad_value(&shortened(x, amounts)?, amounts, &value))
    }
    /// Padded by `(before, after)` for each dim from the first, as numpy has it; negative amounts cut.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// let x = Tensor::new([1, 2, 3]);
    /// assert_eq!(x.pad_mode(&[(2, 1)], PadMode::Reflect).to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
    /// assert_eq!(x.pad_mode(&[(1, 2)], PadMode::Circular).to_vec::<i32>()?, [3, 1, 2, 3, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pad_mode(&self, amounts: &[(isize, isize)], mode: PadMode) -> Tensor {
        let _c = call("pad");
        self.map(|x| match mode {
            PadMode::Constant(v) => {
                let whole = (!x.dtype.is_float() && v.fract() == 0.0).then_some(v as i64);
                let value = whole.map_or(Operand::from(v), Operand::from);
                pad_value(&shortened(x, amounts)?, amounts, &value)
            }
            // wrapped around what is left, as torch does
            PadMode::Circular => extended(&shortened(x, amounts)?, amounts, mode),
            _ => {
                let grown = extended(x, amounts, mode)?;
                shortened(&grown, amounts)
            }
        })
    }
    /// Padded as torch has it: `[before, after]` of the last dim, then of the one before it, and so on.
    ///
    /// ```
    /// # use frit_tensor::*;
    /// assert_eq!(Tensor::ones([2, 3, 4]).pad_last(&[1, 1, 0, 2], PadMode::Constant(0.0)).shape(), [2, 5, 6]);
    /// ```
    #[track_caller]
    pub fn pad_last(&self, amounts: &[isize], mode: PadMode) -> Tensor {
        let _c = call("pad");
        let rank = match self.uop() {
            Ok(x) => x.shape().len(),
            Err(e) => return Tensor::failed(e),
        };
        if amounts.len() % 2 == 1 || amounts.len() / 2 > rank {
            let message = format!("{} amounts for shape {}, two for each dim", amounts.len(), self.shape());
            return Tensor::failed(crate::Error::new("pad", message));
        }
        let mut pairs: Vec<(isize, isize)> = amounts.chunks(2).map(|c| (c[0], c[1])).collect();
        pairs.resize(rank, (0, 0));
        pairs.reverse();
        self.pad_mode(&pairs, mode)
    }
}

fn idx(v: isize) -> UOp {
    UOp::index(v as i64)
}

/// The negative amounts, cut off.
fn shortened(x: &UOp, amounts: &[(isize, isize)]) -> Result<UOp> {
    let s = x.shape();
    if amounts.len() != s.len() {
        return fail!("pad", "{} pairs for shape {}", amounts.len(), show_all(s));
    }
    let mut inner = x.clone();
    for (i, &(b, a)) in amounts.iter().enumerate().filter(|(_, p)| p.0 < 0 || p.1 < 0) {
        let drop = b.min(0).checked_add(a.min(0));
        let size = drop.map(|d| s[i].fold_add(&idx(d)));
        let Some(size) = size.filter(|d| d.bounds.0 >= 0) else {
            return fail!("pad", "({b}, {a}) cuts more than size {} of shape {}", show(&s[i]), show_all(s));
        };
        inner = cut(&inner, i, &idx(b.min(0).saturating_neg()), &size);
    }
    Ok(inner)
}

/// The positive amounts, filled with a value.
fn pad_value(x: &UOp, amounts: &[(isize, isize)], value: &Operand) -> Result<UOp> {
    let before: Nodes = amounts.iter().map(|p| idx(p.0.max(0))).collect();
    let after: Nodes = amounts.iter().map(|p| idx(p.1.max(0))).collect();
    pad_with(x, &before, &after, value)
}

/// The positive amounts, filled from the tensor, dim by dim.
fn extended(x: &UOp, amounts: &[(isize, isize)], mode: PadMode) -> Result<UOp> {
    if amounts.len() != x.shape().len() {
        return fail!("pad", "{} pairs for shape {}", amounts.len(), show_all(x.shape()));
    }
    let mut out = x.clone();
    for (axis, &(b, a)) in amounts.iter().enumerate() {
        let (b, a) = (b.max(0) as i64, a.max(0) as i64);
        if (b, a) == (0, 0) {
            continue;
        }
        let n = fixed("pad", &x.shape()[axis])?;
        let (most, name) = match mode {
            PadMode::Reflect => (n - 1, "reflect"),
            PadMode::Circular => (n, "circular"),
            _ => (if n > 0 { i64::MAX } else { 0 }, "replicate"),
        };
        if b.max(a) > most {
            return fail!(
                "pad",
                "({b}, {a}) in {name} mode for size {n} (dim {axis} of {}): at most {}",
                show_all(x.shape()),
                most.max(0)
            );
        }
        let part = |begin: i64, len: i64| cut(&out, axis, &UOp::index(begin), &UOp::index(len));
        let edge = |at: i64, times: i64| {
            let mut dims: Nodes = out.shape().iter().cloned().collect();
            dims[axis] = UOp::index(times);
            part(at, 1).expand(&dims)
        };
        let pieces = match mode {
            PadMode::Reflect => [part(1, b).flip(&[axis]), out.clone(), part(n - 1 - a, a).flip(&[axis])],
            PadMode::Circular => [part(n - b, b), out.clone(), part(0, a)],
            _ => [edge(0, b), out.clone(), edge(n - 1, a)],
        };
        out = join(&pieces, axis);
    }
    Ok(out)
}

/// Padded with a value: zeros by the op, other values by a mask.
pub(crate) fn pad_with(x: &UOp, before: &[UOp], after: &[UOp], value: &Operand) -> Result<UOp> {
    let padded = x.pad(before, after);
    let v = match value {
        Operand::Number(s, _) => literal("pad", *s, x.dtype)?,
        Operand::Tensor(t) => t.uop()?.cast(x.dtype),
    };
    if padded == *x || v == x.const_like(0) {
        return Ok(padded);
    }
    let inside = filled(x.shape(), UOp::boolean(true)).pad(before, after);
    Ok(inside.select(&padded, &v))
}
