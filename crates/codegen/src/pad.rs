//! Axes rounded up: what is beyond neither loads, nor stores, nor counts in a reduce.

use crate::access::{address, coefficient, substitute_open};
use crate::opt::{Axis, Part, Plan, divide};
use crate::ranges::{Replacement, closed};
use frit_uop::{Alu, Arg, AxisKind, Op, Scalar, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

impl Plan<'_> {
    pub(crate) fn pad(&mut self, axis: usize, n: usize) -> Result<(), String> {
        self.unstaged()?;
        let a = self.axis(axis)?.clone();
        if !matches!(a.kind, AxisKind::Global | AxisKind::Loop | AxisKind::Reduce) {
            return Err(format!("a {:?} axis cannot be padded", a.kind));
        }
        if n < 2 || divide(&a.extent, n).is_some() {
            return Err(format!("it is a multiple of {n} already"));
        }
        if self.checked.contains(&a.origin) {
            return Err("a checked access moves with it".into());
        }
        let Some(part) = self.parts.get(&a.origin).filter(|p| p.value == a.range && p.gate.is_none()) else {
            return Err("the axis is split or padded already".into());
        };
        let count = match a.extent.as_int() {
            Some(e) => UOp::index((e as u64).div_ceil(n as u64) as i64),
            None => (&a.extent + (n as i64 - 1)).floordiv(&UOp::index(n as i64)),
        };
        let (extent, origin) = (count.fold_mul(&UOp::index(n as i64)), part.origin.clone());
        let range = self.placeholder(&extent);
        let gate = Some(range.lt(&a.extent));
        let before = self.clone();
        self.parts.insert(a.origin, Part { origin, value: range.clone(), gate });
        self.axes[axis] = Axis { range, extent, ..a };
        self.check_matrix().inspect_err(|_| *self = before)
    }

    /// What stands for a padded axis in a load of rows: the last row again where there is none. Its results are not
    /// stored, and a load in the innermost loop needs no gate. Not along vectors, which must stay side by side.
    pub(crate) fn clamped(&self, last: &FxHashMap<u32, UOp>) -> FxHashMap<u32, UOp> {
        let most = self.target.lanes(frit_uop::DType::F32);
        let is_vector = |a: &Axis| a.kind == AxisKind::Upcast && a.size() == Some(most);
        let rows = |id: &u32, p: &Part| {
            let kind = p.origin.range_arg().map(|a| a.kind);
            matches!(kind, Some(AxisKind::Global | AxisKind::Loop))
                && !self.axes.iter().any(|a| a.origin == *id && is_vector(a))
        };
        let end = |p: &Part| &p.origin.src[0] + -1;
        self.parts
            .iter()
            .filter(|(id, p)| p.gate.is_some() && self.target.grid.is_none() && rows(id, p))
            .map(|(id, p)| (*id, substitute_open(&p.value, last).bin(Alu::Min, &end(p))))
            .collect()
    }

    /// A load that is rebuilt, with its clamped ranges in its index.
    pub(crate) fn clamp(
        &self,
        old: &UOp,
        new: UOp,
        map: &FxHashMap<u32, Replacement>,
        clamped: &FxHashMap<u32, UOp>,
    ) -> UOp {
        let Some((_, idx)) = address(old).filter(|_| old.op == Op::Load) else { return new };
        if !idx.ranges.iter().any(|id| is_clamped(old, *id, clamped)) {
            return new;
        }
        let value = |id: &u32| match is_clamped(old, *id, clamped) {
            true => clamped[id].clone(),
            false => map[id].value.clone(),
        };
        let values: FxHashMap<u32, UOp> = idx.ranges.iter().map(|id| (*id, value(id))).collect();
        let mut src = new.src.clone();
        src[0] = src[0].with_src(smallvec![src[0].src[0].clone(), substitute_open(idx, &values)]);
        new.with_src(src)
    }
}

/// Keep a rebuilt node from touching or counting what padding added.
pub(crate) fn mask(old: &UOp, new: UOp, gates: &FxHashMap<u32, UOp>, clamped: &FxHashMap<u32, UOp>) -> UOp {
    if gates.is_empty() {
        return new;
    }
    let all = |ids: &[u32]| ids.iter().filter_map(|id| gates.get(id)).cloned().reduce(|a, b| a.and_(&b));
    match old.op {
        Op::Load | Op::Store if address(old).is_some() => {
            let ids: SmallVec<[u32; 6]> = match old.op {
                Op::Load => {
                    let idx = &old.src[0].src[1];
                    idx.ranges.iter().copied().filter(|id| !is_clamped(old, *id, clamped)).collect()
                }
                _ => old.ranges.iter().copied().collect(),
            };
            let Some(gate) = all(&ids) else { return new };
            let mut src = new.src.clone();
            let idx = gate.select(&src[0].src[1], &UOp::invalid());
            src[0] = src[0].with_src(smallvec![src[0].src[0].clone(), idx]);
            new.with_src(src)
        }
        Op::Reduce => {
            let ids = closed(old);
            let (Some(gate), Arg::Alu(op)) = (all(&ids), &old.arg) else { return new };
            let masked: SmallVec<[u32; 4]> =
                ids.iter().copied().filter(|id| gates.contains_key(id)).collect();
            if *op == Alu::Add && masked.iter().all(|id| is_zero_outside(&old.src[0], *id)) {
                return new;
            }
            let Some(identity) = Scalar::identity(*op, new.dtype) else { return new };
            let mut src = new.src.clone();
            src[0] = gate.select(&src[0], &UOp::constant(identity, new.dtype));
            new.with_src(src)
        }
        _ => new,
    }
}

/// Whether a load reads the last row again where padding has none, instead of nothing. Not from what the kernel wrote
/// itself: another thread may still be writing that row.
fn is_clamped(load: &UOp, id: u32, clamped: &FxHashMap<u32, UOp>) -> bool {
    let far =
        |(buf, idx): (&UOp, &UOp)| buf.op != Op::After && coefficient(idx, id).is_some_and(|c| c.abs() > 1);
    clamped.contains_key(&id) && address(load).is_some_and(far)
}

/// Whether a value is zero where the loads that move with a range read nothing.
fn is_zero_outside(x: &UOp, id: u32) -> bool {
    match x.op {
        Op::Load => address(x).is_some_and(|(_, idx)| idx.ranges.contains(&id)) && x.src.len() == 1,
        // both, since zero times infinity is not zero
        Op::Mul | Op::Add | Op::Sub => x.src.iter().all(|s| is_zero_outside(s, id)),
        Op::Cast | Op::Neg => is_zero_outside(&x.src[0], id),
        _ => false,
    }
}
