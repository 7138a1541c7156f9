//! Padding: with a value, or with elements of the tensor itself.

use crate::error::{Result, call, fail};
use crate::movement::{cut, resized};
use crate::operand::{Operand, literal};
use crate::parts::join;
use crate::shape::{self, Dim, holds, show, show_all};
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
    pub fn pad<D: Clone + Into<Dim>>(&self, amounts: &[(D, D)], value: impl Into<Operand>) -> Tensor {
        let _c = call("pad");
        let value = value.into();
        self.map(|x| {
            let amounts = nodes(amounts)?;
            pad_value(&shortened(x, &amounts)?, x, &amounts, &value)
        })
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
    pub fn pad_mode<D: Clone + Into<Dim>>(&self, amounts: &[(D, D)], mode: PadMode) -> Tensor {
        let _c = call("pad");
        self.map(|x| {
            let amounts = &nodes(amounts)?;
            match mode {
                PadMode::Constant(v) => {
                    let whole = (!x.dtype.is_float() && v.fract() == 0.0).then_some(v as i64);
                    let value = whole.map_or(Operand::from(v), Operand::from);
                    pad_value(&shortened(x, amounts)?, x, amounts, &value)
                }
                // wrapped around what is left, as torch does
                PadMode::Circular => extended(&shortened(x, amounts)?, amounts, mode),
                _ => {
                    let grown = extended(x, amounts, mode)?;
                    shortened(&grown, amounts)
                }
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
    pub fn pad_last<D: Clone + Into<Dim>>(&self, amounts: &[D], mode: PadMode) -> Tensor {
        let _c = call("pad");
        let rank = match self.uop() {
            Ok(x) => x.shape().len(),
            Err(e) => return Tensor::failed(e),
        };
        if amounts.len() % 2 == 1 || amounts.len() / 2 > rank {
            let message = format!("{} amounts for shape {}, two for each dim", amounts.len(), self.shape());
            return Tensor::failed(crate::Error::new("pad", message));
        }
        let dim = |d: &D| -> Dim { d.clone().into() };
        let mut pairs: Vec<(Dim, Dim)> = amounts.chunks(2).map(|c| (dim(&c[0]), dim(&c[1]))).collect();
        pairs.resize(rank, (Dim::from(0), Dim::from(0)));
        pairs.reverse();
        self.pad_mode(&pairs, mode)
    }
}

fn nodes<D: Clone + Into<Dim>>(amounts: &[(D, D)]) -> Result<Vec<(UOp, UOp)>> {
    let node = |d: &D| -> Result<UOp> { d.clone().into().0 };
    amounts.iter().map(|(b, a)| Ok((node(b)?, node(a)?))).collect()
}

/// What an amount adds; less than nothing is nothing.
fn grows(amount: &UOp) -> UOp {
    amount.size_max(&UOp::index(0))
}

/// The negative amounts, cut off.
fn shortened(x: &UOp, amounts: &[(UOp, UOp)]) -> Result<UOp> {
    let (s, zero) = (x.shape(), UOp::index(0));
    if amounts.len() != s.len() {
        return fail!("pad", "{} pairs for shape {}", amounts.len(), show_all(s));
    }
    let mut inner = x.clone();
    for (i, (b, a)) in amounts.iter().enumerate().filter(|(_, p)| p.0.bounds.0 < 0 || p.1.bounds.0 < 0) {
        let dropped = b.size_min(&zero).size_add(&a.size_min(&zero));
        let size = s[i].size_add(&dropped);
        if holds("pad", &size.lt(&zero))? {
            let (b, a) = (show(b), show(a));
            return fail!("pad", "({b}, {a}) cuts more than size {} of shape {}", show(&s[i]), show_all(s));
        }
        let begin = zero.size_sub(b).size_max(&zero).size_min(&s[i]);
        inner = cut(&inner, i, &begin, &size.size_max(&zero));
    }
    Ok(inner)
}

/// The positive amounts, filled with a value; `x` is what it was before the negative ones.
fn pad_value(cut: &UOp, x: &UOp, amounts: &[(UOp, UOp)], value: &Operand) -> Result<UOp> {
    let before: Nodes = amounts.iter().map(|p| grows(&p.0)).collect();
    let after: Nodes = amounts.iter().map(|p| grows(&p.1)).collect();
    let padded = pad_with(cut, &before, &after, value)?;
    let whole = |(d, (b, a)): (&UOp, &(UOp, UOp))| d.size_add(b).size_add(a);
    let dims = shape::not_negative("pad", &x.shape().iter().zip(amounts).map(whole).collect::<Vec<_>>())?;
    Ok((0..dims.len()).fold(padded, |p, i| resized(&p, i, &dims[i])))
}

/// The positive amounts, filled from the tensor, dim by dim.
fn extended(x: &UOp, amounts: &[(UOp, UOp)], mode: PadMode) -> Result<UOp> {
    if amounts.len() != x.shape().len() {
        return fail!("pad", "{} pairs for shape {}", amounts.len(), show_all(x.shape()));
    }
    let mut out = x.clone();
    let one = UOp::index(1);
    for (axis, (b, a)) in amounts.iter().enumerate() {
        let (b, a) = (grows(b), grows(a));
        if b.bounds.1 == 0 && a.bounds.1 == 0 {
            continue;
        }
        let (n, most) = (&x.shape()[axis], b.size_max(&a));
        let (limit, name) = match mode {
            PadMode::Reflect => (n.size_sub(&one), "reflect"),
            PadMode::Circular => (n.clone(), "circular"),
            _ => (n.size_mul(&most), "replicate"),
        };
        if holds("pad", &limit.lt(&most))? {
            return fail!(
                "pad",
                "({}, {}) in {name} mode for size {} (dim {axis} of {}): at most {}",
                show(&b),
                show(&a),
                show(n),
                show_all(x.shape()),
                show(&limit.size_max(&UOp::index(0)))
            );
        }
        // inside for other values too
        let (last, inside) =
            (n.size_sub(&one).size_max(&UOp::index(0)), |d: &UOp| match limit.size_sub(d).bounds.0 {
                0.. => d.clone(),
                _ => d.size_min(&limit).size_max(&UOp::index(0)),
            });
        let part = |begin: &UOp, len: &UOp| cut(&out, axis, begin, len);
        let edge = |at: &UOp, times: &UOp| {
            let mut dims: Nodes = out.shape().iter().cloned().collect();
            dims[axis] = times.clone();
            part(at, &one).expand(&dims)
        };
        let zero = UOp::index(0);
        let pieces = match mode {
            PadMode::Reflect => {
                let (b, a) = (inside(&b), inside(&a));
                [part(&one, &b).flip(&[axis]), out.clone(), part(&last.size_sub(&a), &a).flip(&[axis])]
            }
            PadMode::Circular => {
                let (b, a) = (inside(&b), inside(&a));
                [part(&n.size_sub(&b), &b), out.clone(), part(&zero, &a)]
            }
            _ => [edge(&zero, &b), out.clone(), edge(&last, &a)],
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
