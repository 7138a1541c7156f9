//! Place temporaries in one arena: two share bytes only if they are never needed at the same time.

use crate::error::Error;
use crate::plan::Plan;
use crate::{BufRef, Temp};

/// Every temporary starts at a multiple of this.
const ALIGN: usize = 64;

/// A temporary's bytes and the kernels between which it is needed.
struct Life {
    temp: usize,
    bytes: usize,
    first: usize,
    last: usize,
}

/// Fills [`crate::Schedule::temps`] and `arena_bytes`; temporaries are numbered by first use.
pub fn plan_memory(plan: &mut Plan) -> Result<(), Error> {
    let mut number: Vec<Option<usize>> = vec![None; plan.temps.len()];
    let mut lives: Vec<Life> = vec![];
    let temps = &plan.temps;
    let schedule = &mut plan.schedule;
    for (k, call) in schedule.kernels.iter_mut().enumerate() {
        for a in &mut call.args {
            let BufRef::Temp(t) = a else { continue };
            let (dtype, len) = temps[*t as usize];
            let n = *number[*t as usize].get_or_insert_with(|| {
                schedule.temps.push(Temp { dtype, len, offset: 0 });
                let bytes = (len * dtype.size()).next_multiple_of(ALIGN).max(ALIGN);
                lives.push(Life { temp: schedule.temps.len() - 1, bytes, first: k, last: k });
                schedule.temps.len() - 1
            });
            lives[n].last = k;
            *a = BufRef::Temp(n as u32);
        }
    }
    // the largest first, each at the lowest place that is free during its life
    lives.sort_by_key(|l| (std::cmp::Reverse(l.bytes), l.first));
    let mut placed: Vec<(usize, usize, usize, usize)> = vec![]; // offset, end, first, last; by offset
    for l in &lives {
        let (mut offset, mut best) = (0, None::<(usize, usize)>);
        for &(start, end, first, last) in &placed {
            if last < l.first || first > l.last {
                continue;
            }
            if start >= offset + l.bytes && best.is_none_or(|(gap, _)| start - offset < gap) {
                best = Some((start - offset, offset));
            }
            offset = offset.max(end);
        }
        let offset = best.map_or(offset, |(_, o)| o);
        schedule.temps[l.temp].offset = offset;
        schedule.arena_bytes = schedule.arena_bytes.max(offset + l.bytes);
        let at = placed.partition_point(|p| p.0 <= offset);
        placed.insert(at, (offset, offset + l.bytes, l.first, l.last));
    }
    Ok(())
}
