//! Place temporaries in one arena: two share bytes only if they are never needed at the same time.

use crate::error::Error;
use crate::plan::Plan;
use crate::{BufRef, Temp};

/// Every temporary starts at a multiple of this.
pub const ALIGN: usize = 64;

/// Bytes that are needed from one step to another, both included.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// How many.
    pub bytes: usize,
    /// First step.
    pub first: usize,
    /// Last step.
    pub last: usize,
}

/// Offsets at which these can live in one arena, and the arena's size: the largest first, each at the lowest place that
/// is free during its life.
pub fn place(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].first));
    let (mut offsets, mut size) = (vec![0; lives.len()], 0);
    let mut placed: Vec<(usize, usize, usize, usize)> = vec![]; // offset, end, first, last; by offset
    for i in order {
        let l = &lives[i];
        let bytes = l.bytes.next_multiple_of(ALIGN).max(ALIGN);
        let (mut offset, mut best) = (0, None::<(usize, usize)>);
        for &(start, end, first, last) in &placed {
            if last < l.first || first > l.last {
                continue;
            }
            if start >= offset + bytes && best.is_none_or(|(gap, _)| start - offset < gap) {
                best = Some((start - offset, offset));
            }
            offset = offset.max(end);
        }
        let offset = best.map_or(offset, |(_, o)| o);
        offsets[i] = offset;
        size = size.max(offset + bytes);
        let at = placed.partition_point(|p| p.0 <= offset);
        placed.insert(at, (offset, offset + bytes, l.first, l.last));
    }
    (offsets, size)
}

/// Fills the places of [`crate::Schedule::temps`], and `arena_bytes`.
pub fn plan_memory(plan: &mut Plan) -> Result<(), Error> {
    let schedule = &mut plan.schedule;
    let life = |t: &Temp| Life { bytes: t.len * t.dtype.size(), first: usize::MAX, last: 0 };
    let mut lives: Vec<Life> = schedule.temps.iter().map(life).collect();
    for (k, call) in schedule.kernels.iter().enumerate() {
        for a in &call.args {
            let BufRef::Temp(t) = a else { continue };
            let life = &mut lives[*t as usize];
            (life.first, life.last) = (life.first.min(k), k);
        }
    }
    let (offsets, size) = place(&lives);
    for (temp, offset) in schedule.temps.iter_mut().zip(offsets) {
        temp.offset = offset;
    }
    schedule.arena_bytes = size;
    Ok(())
}
