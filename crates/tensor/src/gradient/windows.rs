//! Overlapping windows (pools, convolutions): the gradient gathers instead of adding up where windows overlap.

use super::carry::Gradient;
use crate::composite::mul;
use crate::movement::{cut, is_same_along, pad_axis};
use crate::tensor::expand_to;
use crate::windows::{every, windows_dilated};
use frit_uop::{Op, UOp};
use smallvec::SmallVec;

/// Overlapping windows over an axis.
pub(super) struct Windows {
    /// What they are over.
    pub x: UOp,
    axis: usize,
    size: i64,
    step: i64,
    dilation: i64,
}

impl Windows {
    /// Which elements each step of a window meets, as what [`transpose`] gives lies: between the steps there are zeros that
    /// are no factors.
    fn met(&self, lead: usize) -> UOp {
        let (i, reach) = (UOp::index, (self.size - 1) * self.dilation);
        let n = self.x.shape()[self.axis].as_int().unwrap_or(0);
        let met = windows_dilated(&every(self.step, reach, n + reach), 0, self.size, 1, self.dilation);
        let mut dims: SmallVec<[UOp; 8]> = SmallVec::from_elem(i(1), lead + self.x.shape().len() + 1);
        (dims[lead + self.axis], dims[lead + self.axis + 1]) = (i(self.size), i(n));
        Gradient { node: met.reshape(&dims), lead }.defer(&[self.axis], false).node
    }
    /// What is the same in all windows, as what [`transpose`] gives lies.
    fn in_all(&self, x: &UOp, lead: usize) -> UOp {
        let axis = self.axis + lead;
        let one = cut(x, axis + 1, &UOp::index(0), &UOp::index(1)).flip(&[axis]);
        Gradient { node: one, lead }.defer(&[self.axis], false).node
    }
}

/// The parameters of overlapping windows, if this node is what [`windows_dilated`] makes of them.
pub(super) fn recognise(n: &UOp) -> Option<Windows> {
    if !matches!(n.op, Op::Shrink | Op::Reshape) || n.shape().len() < 2 {
        return None;
    }
    // down to the expansion
    let (mut at, mut between) = (n, vec![]);
    while matches!(at.op, Op::Shrink | Op::Reshape) && between.len() < 7 {
        between.push(at);
        at = at.input();
    }
    let expand = (at.op == Op::Expand).then_some(at)?;
    let lifted = (expand.input().op == Op::Reshape).then_some(expand.input())?;
    let x = lifted.input();
    let rank = x.shape().len();
    if n.shape().len() != rank + 1 || lifted.shape().len() != rank + 1 {
        return None;
    }
    let axis = (0..=rank).find(|&i| lifted.shape()[i] != expand.shape()[i])?;
    let len = x.shape().get(axis)?.as_int()?;
    let size = n.shape()[axis].as_int()?;
    // the shape with rows is the first reshape above the flat one; that with steps has one more dim
    let reshapes = || between.iter().rev().filter(|b| b.op == Op::Reshape);
    let dilation = reshapes().nth(1)?.shape().get(axis + 1)?.as_int()?.checked_rem(len)?;
    let stepped = reshapes().find(|b| b.shape().len() == rank + 2);
    let step = stepped.map_or(Some(1), |b| b.shape()[axis + 2].as_int())?;
    if size < 2 || step == 0 || dilation == 0 || dilation * (size - 1) + 1 > len {
        return None;
    }
    (windows_dilated(x, axis, size, step, dilation) == *n).then(|| Windows {
        x: x.clone(),
        axis,
        size,
        step,
        dilation,
    })
}

/// The gradient of what windows are over, as windows over the padded gradient: each element gathers from the windows it
/// was in, `sum over k of g[k, (j - k * dilation) / step]`. Where that is a product with weights that are the same in
/// all windows, the other factor is padded alone: a convolution of the padded gradient. A mask that is the same in all windows,
/// as that of steps along another axis is, stays one.
pub(super) fn gradient(w: &Windows, gradient: &Gradient) -> Gradient {
    let (axis, lead) = (w.axis + gradient.lead, gradient.lead);
    if let Some((mask, value)) = selected(&gradient.node, axis + 1) {
        let inner = self::gradient(w, &Gradient { node: value, lead });
        let mask = w.in_all(&mask, lead).expand(inner.node.shape());
        return Gradient { node: or_zero(&mask, &inner.node), lead: inner.lead };
    }
    let Some((a, b)) = factors(&gradient.node, axis + 1) else {
        return transpose(w, &gradient.node, lead);
    };
    let moved = transpose(w, &a, lead);
    let weights = w.in_all(&b, lead).expand(moved.node.shape());
    let node = mul(&moved.node, &weights);
    let node = if w.step == 1 { node } else { or_zero(&w.met(lead).expand(node.shape()), &node) };
    Gradient { node, lead: moved.lead }
}

fn or_zero(mask: &UOp, value: &UOp) -> UOp {
    mask.select(value, &UOp::int(0, value.dtype))
}

fn transpose(w: &Windows, g: &UOp, lead: usize) -> Gradient {
    let (k, s, d) = (w.size, w.step, w.dilation);
    let mut g = g.clone();
    let axis = w.axis + lead;
    let dims: SmallVec<[UOp; 8]> = g.shape()[..lead].iter().chain(w.x.shape()).cloned().collect();
    let n = dims[axis].as_int().unwrap_or(0);
    let o = g.shape()[axis + 1].as_int().unwrap_or(0);
    let zero = UOp::index(0);
    let at = |mid: &[i64]| -> SmallVec<[UOp; 4]> {
        let mid = mid.iter().map(|&m| UOp::index(m));
        dims[..axis].iter().cloned().chain(mid).chain(dims[axis + 1..].iter().cloned()).collect()
    };
    // zeros between the steps
    let reach = (o - 1) * s + 1;
    if s > 1 {
        g = pad_axis(&g.reshape(&at(&[k, o, 1])), axis + 2, &zero, &UOp::index(s - 1))
            .reshape(&at(&[k, o * s]));
        g = cut(&g, axis + 1, &zero, &UOp::index(reach));
    }
    let (side, used) = ((k - 1) * d, reach + (k - 1) * d);
    let row = reach + 2 * side;
    let rows = pad_axis(&g, axis + 1, &UOp::index(side), &UOp::index(side)).flip(&[axis]);
    let flat = pad_axis(&rows.reshape(&at(&[k * row])), axis, &zero, &UOp::index(k * d));
    let skewed = cut(&flat.reshape(&at(&[k, row + d])), axis + 1, &zero, &UOp::index(used));
    let skewed = Gradient { node: skewed, lead }.defer(&[w.axis], false);
    let node = pad_axis(&skewed.node, axis + 1, &zero, &UOp::index(n - used));
    Gradient { node, lead: skewed.lead }
}

/// A product under movement as the product of its factors moved likewise, the second the same all along an axis.
fn factors(g: &UOp, axis: usize) -> Option<(UOp, UOp)> {
    let (at, moved) = behind_movement(g);
    let [a, b] = (at.op == Op::Mul).then(|| at.operands())?;
    let (a, b) = (again(a, at, &moved), again(b, at, &moved));
    match (is_same_along(&a, axis), is_same_along(&b, axis)) {
        (_, true) => Some((a, b)),
        (true, false) => Some((b, a)),
        (false, false) => None,
    }
}

/// A product under a mask and movement, else zero: both moved, where the mask is the same all along an axis.
fn selected(g: &UOp, axis: usize) -> Option<(UOp, UOp)> {
    let (at, moved) = behind_movement(g);
    let is_zero = |x: &UOp| x.as_scalar().is_some_and(|z| z.as_f64() == 0.0);
    let [mask, value, zero] = (at.op == Op::Where).then_some(&at.src[..])? else { return None };
    let (mask, value) = (again(mask, at, &moved), again(value, at, &moved));
    let is_product = factors(&value, axis).is_some() || selected(&value, axis).is_some();
    (is_zero(zero) && is_same_along(&mask, axis) && is_product).then_some((mask, value))
}

/// What is moved, and by which ops, the last first.
fn behind_movement(g: &UOp) -> (&UOp, Vec<&UOp>) {
    let (mut at, mut moved) = (g, vec![]);
    while matches!(at.op, Op::Reshape | Op::Permute | Op::Flip | Op::Shrink) {
        moved.push(at);
        at = at.input();
    }
    (at, moved)
}

/// An operand of `at`, moved as that is.
fn again(x: &UOp, at: &UOp, moved: &[&UOp]) -> UOp {
    let x = if x.shape().is_empty() { expand_to(x, at.shape()) } else { x.clone() };
    moved.iter().rev().fold(x, |x, m| {
        let mut src = m.src.clone();
        src[0] = x;
        m.with_src(src)
    })
}
