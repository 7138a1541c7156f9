//! The opt that rounds the extent of an axis up.

use super::axes::{Axis, Part, Plan, divide};
use frit_uop::{AxisKind, UOp};

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
        self.parts.insert(a.origin, Part { origin, value: range.clone(), padded: Some(extent.clone()) });
        self.axes[axis] = Axis { range, extent, ..a };
        Ok(())
    }
}
