//! Inputs that are parts of other memory, while the function runs.

use crate::error::Result;
use crate::realize;
use crate::tensor::Tensor;
use crate::view::View;
use frit_uop::{Op, UOp};

/// Inputs that are views of parts of other memory. While the function runs they are memory of their own, so that all
/// parts of one size are inputs of one kind; what it assigned to them is written back.
pub(super) struct Parted {
    pub(super) parts: Vec<(Tensor, View, u64)>,
    /// Whether each input is rows one after the other: what a reshape of it is depends on that.
    pub(super) rows: Vec<bool>,
}

impl Parted {
    pub(super) fn of(tensors: &[Tensor]) -> Result<Parted> {
        let rows = tensors.iter().map(|t| t.as_view().is_none_or(|v| v.is_rows())).collect();
        let mut parted = Parted { parts: vec![], rows };
        for t in tensors {
            let value = t.uop()?;
            let (mut n, mut part) = (&value, false);
            while matches!(n.op, Op::Reshape | Op::Shrink) {
                part |= n.op == Op::Shrink;
                n = n.input();
            }
            // a part that may be all of the memory, since its size varies, stays where it is
            let most = value.shape().iter().try_fold(1i128, |n, d| n.checked_mul(d.bounds.1));
            let may_be_all = || most == n.shape().first().map(|len| len.bounds.1);
            let is_whole = realize::is_in_memory(&value) && (!part || may_be_all());
            let copied = |value: &UOp| Ok(realize::realize_nodes(&[value.contiguous()])?.swap_remove(0));
            match t.as_view() {
                _ if is_whole => {}
                Some(view) => {
                    t.set_uop(Ok(copied(&value)?));
                    t.stand_for(Some(&view));
                    parted.parts.push((t.clone(), view, t.changes()));
                }
                None => t.set_uop(Ok(copied(&value)?)),
            }
        }
        Ok(parted)
    }
    /// The number of the tensor that one of them is a part of.
    pub(super) fn base(&self, t: &Tensor) -> Option<u64> {
        self.parts.iter().find(|(part, ..)| part.is_same(t)).map(|(_, view, _)| view.base.born())
    }
    /// Whether one of them looks at a tensor that others look at too.
    pub(super) fn is_entangled(&self, others: &[Tensor]) -> bool {
        self.parts.iter().any(|(t, view, _)| {
            let shares = |o: &Tensor| !o.is_same(t) && o.owner().is_same(&view.base);
            let also = |(o, v, _): &(Tensor, View, u64)| !o.is_same(t) && v.base.is_same(&view.base);
            others.iter().any(shares) || self.parts.iter().any(also)
        })
    }
    /// Be views again, and write back what was assigned, and what was `stored` to without a word.
    pub(super) fn back(mut self, stored: &[Tensor]) -> Result<()> {
        for (t, view, changes) in std::mem::take(&mut self.parts) {
            let now = t.uop();
            t.stand_for(None);
            let assigned = t.changes() != changes || stored.iter().any(|s| s.is_same(&t));
            t.set_view(view);
            if assigned {
                t.try_assign(Tensor::of(now))?;
            }
        }
        Ok(())
    }
}

impl Drop for Parted {
    /// After a failure: they are what they were.
    fn drop(&mut self) {
        for (t, view, _) in std::mem::take(&mut self.parts) {
            t.stand_for(None);
            t.set_view(view);
        }
    }
}
