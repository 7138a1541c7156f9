//! Movement: a gradient goes back the way its value came.
//!
//! ```text
//! Reshape -> Reshape back       Expand -> a sum, later       Permute -> the inverse       Flip -> Flip
//! Pad     -> Shrink             Shrink -> sums, then Pad with zeros
//! ```

use crate::reduce::{drop_axes, reduce_node};
use crate::shape::dim_sub;
use frit_uop::{Alu, Arg, Op, UOp};
use smallvec::SmallVec;

/// A gradient that may still have to be summed over its first `lead` dims. Movement carries such dims along, so that
/// the sums of a whole chain (over channels and both window dims of a convolution, say) end as one reduction.
#[derive(Clone)]
pub(super) struct Gradient {
    pub node: UOp,
    pub lead: usize,
}

impl Gradient {
    pub fn of(node: UOp) -> Gradient {
        Gradient { node, lead: 0 }
    }
    /// The gradient itself, summed.
    pub fn sum(&self) -> UOp {
        let axes: Vec<usize> = (0..self.lead).collect();
        drop_axes(&reduce_node(&self.node, Alu::Add, &axes), &axes, false)
    }
    /// The dims without those to be summed.
    pub fn dims(&self) -> &[UOp] {
        &self.node.shape()[self.lead..]
    }
    /// `dims` with those to be summed in front.
    pub fn under(&self, dims: &[UOp]) -> SmallVec<[UOp; 4]> {
        self.node.shape()[..self.lead].iter().chain(dims).cloned().collect()
    }
    /// The dims in front, then `of` for each.
    pub fn lead(&self, of: &UOp) -> SmallVec<[UOp; 4]> {
        SmallVec::from_elem(of.clone(), self.lead)
    }
    /// Axes moved to those to be summed; in their place stay dims of size 1 (`keep`) or none.
    pub fn defer(&self, axes: &[usize], keep: bool) -> Gradient {
        let at: Vec<usize> = axes.iter().map(|a| a + self.lead).collect();
        let rank = self.node.shape().len();
        let mut order: Vec<usize> = (0..self.lead).chain(at.iter().copied()).collect();
        order.extend((self.lead..rank).filter(|a| !at.contains(a)));
        let node = self.node.permute(&order);
        let lead = self.lead + axes.len();
        if !keep {
            return Gradient { node, lead };
        }
        let mut dims: SmallVec<[UOp; 4]> = node.shape()[..lead].iter().cloned().collect();
        let one = UOp::index(1);
        dims.extend(
            self.dims()
                .iter()
                .enumerate()
                .map(|(i, d)| if axes.contains(&i) { one.clone() } else { d.clone() }),
        );
        Gradient { node: node.reshape(&dims), lead }
    }
}

/// The gradient of what a movement op moves.
pub(super) fn movement(n: &UOp, g: &UOp) -> UOp {
    carry(n, &Gradient::of(g.clone())).sum()
}
/// The inverse of those that show each element once, of any type: each goes where it came from, zeros elsewhere.
pub(crate) fn movement_back(n: &UOp, x: &UOp) -> UOp {
    carry(n, &Gradient::of(x.clone())).node
}

/// As [`movement`], with dims that are still to be summed.
pub(super) fn carry(n: &UOp, g: &Gradient) -> Gradient {
    let x = n.input();
    let (dims, rank, lead) = (x.shape(), x.shape().len(), g.lead);
    let zero = UOp::index(0);
    let padded =
        |v: &[UOp]| -> SmallVec<[UOp; 4]> { g.lead(&zero).into_iter().chain(v.iter().cloned()).collect() };
    let node = match (n.op, &n.arg) {
        (Op::Reshape, _) => g.node.reshape(&g.under(dims)),
        (Op::Expand, _) => {
            let axes: Vec<usize> = (0..rank).filter(|&i| dims[i] != n.shape()[i]).collect();
            return g.defer(&axes, true);
        }
        (Op::Permute, Arg::Axes(a)) => {
            let mut back: Vec<usize> = (0..lead + rank).collect();
            for (i, &p) in a.iter().enumerate() {
                back[lead + p as usize] = lead + i;
            }
            g.node.permute(&back)
        }
        (Op::Pad, _) => g.node.shrink(&padded(n.padding().0), &g.under(dims)),
        // zeros are not summed
        (Op::Shrink, _) if lead > 0 => return carry(n, &Gradient::of(g.sum())),
        (Op::Shrink, _) => {
            let (begin, size) = n.cut();
            let after: Vec<UOp> =
                (0..rank).map(|i| dim_sub(&dims[i], &begin[i].fold_add(&size[i]))).collect();
            g.node.pad(&padded(begin), &padded(&after))
        }
        (Op::Flip, Arg::Axes(a)) => g.node.flip(&a.iter().map(|&i| lead + i as usize).collect::<Vec<_>>()),
        _ => g.node.clone(),
    };
    Gradient { node, lead }
}
