//! The opt that rounds the extent of an axis up.

use super::axes::{Axis, Padding, Part, Plan, divide};
use crate::kernel::access::slot;
use frit_uop::{AxisKind, Op, UOp};

impl Plan<'_> {
    pub(super) fn pad(&mut self, axis: usize, n: usize) -> Result<(), String> {
        self.unstaged()?;
        let a = self.axis(axis)?.clone();
        let is_scan = a.kind == AxisKind::Ordered && self.is_scanned(a.origin);
        if !matches!(a.kind, AxisKind::Global | AxisKind::Loop | AxisKind::Reduce) && !is_scan {
            return Err(format!("a {:?} axis cannot be padded", a.kind));
        }
        if n < 2 || divide(&a.extent, n).is_some() {
            return Err(format!("it is a multiple of {n} already"));
        }
        if self.checked.contains(&a.origin) {
            return Err("a checked access moves with it".into());
        }
        let Some(part) = self.parts.get(&a.origin).filter(|p| p.value == a.range && p.padded.is_none())
        else {
            return Err("the axis is split or padded already".into());
        };
        let count = match a.extent.as_int() {
            Some(e) => UOp::index((e as u64).div_ceil(n as u64) as i64),
            None => (&a.extent + (n as i64 - 1)).floordiv(&UOp::index(n as i64)),
        };
        let (extent, origin) = (count.fold_mul(&UOp::index(n as i64)), part.origin.clone());
        let range = self.placeholder(&extent);
        let padded = Some(Padding { extent: extent.clone(), multiple: n });
        self.parts.insert(a.origin, Part { origin, value: range.clone(), padded });
        self.axes[axis] = Axis { range, extent, ..a };
        Ok(())
    }

    /// Whether a range that is walked in blocks of `n` may end with a block that begins earlier instead of reaching beyond:
    /// some results are computed twice, with no gate around any access. They must be the same the second time, and it must be a
    /// sum that they are computed by, inside of which a place that is no multiple costs nothing, or a gate takes a branch for each
    /// lane.
    pub(crate) fn can_overlap(&self, origin: u32, n: usize) -> bool {
        let order = self.ast.toposort();
        let whole = order.iter().filter(|r| r.op == Op::Range).find_map(|r| {
            let is_result = r.range_arg().is_some_and(|a| a.id == origin && a.kind == AxisKind::Global);
            is_result.then(|| r.extent().as_int())?
        });
        let is_summed = |r: &UOp| r.op == Op::Reduce && r.ranges.contains(&origin);
        let has_no_mask = |x: &UOp| {
            matches!(x.op, Op::Load | Op::Store)
                && x.ranges.contains(&origin)
                && x.src[0].dtype.size() < self.target.costs.masked_bytes
        };
        let stored = |load: &UOp| order.iter().any(|s| s.op == Op::Store && slot(s) == slot(load));
        let is_apart = |x: &UOp| match x.op {
            Op::Stage | Op::After | Op::Scan => false,
            Op::Load => !stored(x),
            _ => true,
        };
        self.target.grid.is_none()
            && self.matrix.is_none()
            && whole.is_some_and(|e| e >= n as i64)
            && order.iter().any(|x| is_summed(x) || has_no_mask(x))
            && order.iter().all(is_apart)
    }
}
