//! Rows that are written by turns are asked for before they are written.
//!
//! ```text
//! for i { a[i] = …; a[i + N] = …; … }   ->   for i { prefetch a[i + 2]; a[i] = …; prefetch a[i + N + 2]; … }
//! ```
//! A machine follows a run of memory that is written, but not many that are pages apart: each of their lines would be
//! waited for.

use crate::access::{address, behind_after, coefficient};
use crate::prefetch::Inner;
use frit_uop::{Op, Step, UOp};

/// Rounds of the loop ahead.
const AHEAD: i64 = 2;
/// Fewer rows than this are followed.
const ROWS: usize = 4;
/// Bytes within which a machine sees that memory is walked.
const PAGE: u64 = 4096;

/// Requests for the rows far from each other that a loop stores to, with the places of the stores.
pub fn rows(steps: &[Step], of: &Inner, far: i64) -> Vec<(usize, Step)> {
    let Some(id) = of.open.last().and_then(|r| r.range_arg()).map(|a| a.id) else { return vec![] };
    let (mut found, mut last) = (vec![], None);
    for i in of.steps.clone() {
        let Step::Do(store) = &steps[i] else { continue };
        let Some((buf, idx)) = address(store).filter(|a| store.op == Op::Store && a.1.lanes() == 1) else {
            continue;
        };
        let (buf, size) = (behind_after(buf), buf.dtype.size() as i64);
        let len = buf.shape().first().and_then(|n| n.as_int());
        let is_far = buf.op == Op::Param && len.is_none_or(|n| n.saturating_mul(size) > far);
        let (Some(c), true) = (coefficient(idx, id).filter(|c| *c != 0), is_far) else { continue };
        let (base, at) = match (idx.op, idx.src.get(1).and_then(|c| c.as_int())) {
            (Op::Add, Some(at)) => (&idx.src[0], at.saturating_mul(size)),
            _ => (idx, 0),
        };
        // one buffer, each row a page or more from the one before
        if last.is_some_and(|(b, i, l): (&UOp, &UOp, i64)| b != buf || i != base || at.abs_diff(l) < PAGE) {
            continue;
        }
        let Ok(ahead) = i32::try_from(c.saturating_mul(size * AHEAD)) else { continue };
        last = Some((buf, base, at));
        found.push((i, Step::Prefetch(store.src[0].clone(), ahead)));
    }
    if found.len() < ROWS { vec![] } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::prefetch;
    use frit_abi::Target;
    use frit_abi::target::Isa;
    use frit_uop::{AxisKind, DType};

    /// How many requests there are in a loop over so many rows, so far apart, of a buffer of so many elements.
    fn requests(rows: i64, apart: i64, len: usize) -> usize {
        let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
        let (p, r) =
            (UOp::param(0, len, DType::F32), UOp::range(&UOp::int(64, DType::I32), 0, AxisKind::Loop));
        let zero = UOp::float(0.0, DType::F32);
        let stores = (0..rows).map(|k| Step::Do(p.at(&(&r * 16 + k * apart)).store(&zero)));
        let steps: Vec<Step> =
            [Step::Open(r.clone())].into_iter().chain(stores).chain([Step::Close(r.clone())]).collect();
        let new = prefetch(steps.clone(), &target);
        let is_request = |s: &&Step| matches!(s, Step::Prefetch(_, 128));
        let kept: Vec<Step> = new.iter().filter(|s| !is_request(s)).cloned().collect();
        assert_eq!(kept, steps);
        new.iter().filter(is_request).count()
    }

    #[test]
    fn many_rows_in_far_memory_are_asked_for() {
        assert_eq!(requests(8, 4095, 1 << 20), 8);
        // which a machine follows, which are one run, which are near
        assert_eq!(
            (requests(2, 4095, 1 << 20), requests(8, 16, 1 << 20), requests(8, 4095, 1 << 15)),
            (0, 0, 0)
        );
    }
}
