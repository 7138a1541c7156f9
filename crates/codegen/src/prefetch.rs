//! Ask for memory before it is wanted.
//!
//! ```text
//! for i { … x[64 i] … }                       ->   for i { prefetch x[64 i] + 2 KiB; … }
//! for row { for i { max x[row, i] };          ->   for row { for i { max x[row, i] };
//!           for i { … exp(x[row, i]) … } }                   for i { prefetch x[row + 1, i]; … exp(x[row, i]) … } }
//! ```
//! Machines see by themselves that a run of memory is read, but not far ahead while they are busy with long chains of
//! arithmetic, and not what the next row will be while they work on this one. What is asked for is what every loop
//! around moves: memory that is read again comes from near anyway.

use crate::access::{address, coefficient};
use frit_abi::Target;
use frit_uop::{Op, Step, UOp};
use rustc_hash::FxHashSet;

/// Bytes of a cache line.
const LINE: i64 = 64;
/// So far ahead a run is asked for: what a core computes while memory answers.
const AHEAD: i64 = 2048;

/// A loop with no other in it.
struct Inner<'a> {
    /// The loops that are open in it, itself last.
    open: Vec<&'a UOp>,
    /// Where its steps are.
    from: usize,
    to: usize,
}

/// Lines that a loop reads in each round, far apart or in a row, that no other round of any loop reads.
struct Run<'a> {
    /// The addresses to ask at, one a line, and the steps that read there.
    lines: Vec<(usize, &'a UOp)>,
    /// The parameter.
    buf: &'a UOp,
    /// The loop.
    of: usize,
    /// Bytes from one round of the loop to the next, of one of the loop around it, and read by all rounds together.
    step: i64,
    row: Option<i64>,
    total: Option<i64>,
}

/// The steps, with such requests among them.
pub fn prefetch(steps: Vec<Step>, target: &Target) -> Vec<Step> {
    let loops = inner_loops(&steps);
    let far = target.caches[1].max(1 << 20) as i64;
    let runs: Vec<Run> = loops.iter().enumerate().flat_map(|(i, l)| runs(&steps, i, l, far)).collect();
    let mut wanted: Vec<(usize, UOp, i32)> = vec![];
    for (i, run) in runs.iter().enumerate() {
        let again = |r: &&Run| r.buf == run.buf && r.row == run.row && is_beside(&loops, r.of, run.of);
        let work = |r: &Run| (loops[r.of].to - loops[r.of].from) as i64 * r.total.unwrap_or(0) / r.step;
        let is_alone = runs.iter().filter(again).count() == 1;
        let bytes = if is_alone && run.total.is_none_or(|t| t > 2 * AHEAD) {
            let read = run.lines.len() as i64 * LINE;
            Some((AHEAD + read - 1) / read * run.step)
        } else {
            // one of the loops over this row asks for the next, the one with the most work
            let first =
                runs.iter().enumerate().filter(|r| again(&r.1)).max_by_key(|(k, r)| (work(r), -(*k as i64)));
            run.row.filter(|_| first.is_some_and(|f| f.0 == i) && run.total.is_some_and(|t| t <= far / 4))
        };
        let Some(bytes) = bytes.and_then(|b| i32::try_from(b).ok()).filter(|b| b.abs() < 1 << 24) else {
            continue;
        };
        wanted.extend(run.lines.iter().map(|(at, index)| (*at, (*index).clone(), bytes)));
    }
    drop(runs);
    if wanted.is_empty() {
        return steps;
    }
    wanted.sort_by_key(|w| w.0);
    let (mut out, mut wanted) =
        (Vec::with_capacity(steps.len() + wanted.len()), wanted.into_iter().peekable());
    for (i, step) in steps.into_iter().enumerate() {
        while let Some((_, index, bytes)) = wanted.next_if(|w| w.0 == i) {
            out.push(Step::Prefetch(index, bytes));
        }
        out.push(step);
    }
    out
}

fn inner_loops(steps: &[Step]) -> Vec<Inner<'_>> {
    let (mut open, mut last, mut loops): (Vec<&UOp>, usize, Vec<Inner>) = (vec![], 0, vec![]);
    let mut is_inner = false;
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Open(r) => {
                open.push(r);
                (last, is_inner) = (i + 1, true);
            }
            Step::Close(_) => {
                if is_inner {
                    loops.push(Inner { open: open.clone(), from: last, to: i });
                }
                open.pop();
                is_inner = false;
            }
            _ => {}
        }
    }
    loops
}

/// Whether two loops are in the same loops, or are one.
fn is_beside(loops: &[Inner], a: usize, b: usize) -> bool {
    let (a, b) = (&loops[a].open, &loops[b].open);
    a[..a.len() - 1] == b[..b.len() - 1]
}

/// What a loop reads from parameters that are too large to be near.
fn runs<'a>(steps: &'a [Step], of: usize, l: &Inner<'a>, far: i64) -> Vec<Run<'a>> {
    let mut out: Vec<Run> = vec![];
    let mut seen: FxHashSet<(&UOp, Vec<Option<i64>>, i64)> = FxHashSet::default();
    for (at, step) in (l.from..l.to).zip(&steps[l.from..l.to]) {
        let Step::Do(load) = step else { continue };
        let Some((buf, idx)) = address(load).filter(|a| load.op == Op::Load && a.0.op == Op::Param) else {
            continue;
        };
        let size = load.dtype.size() as i64;
        let is_far =
            buf.shape().first().and_then(|n| n.as_int()).is_none_or(|n| n.saturating_mul(size) > far);
        if !is_far || idx.lanes() > 1 {
            continue;
        }
        let moves: Vec<Option<i64>> = l.open.iter().map(|r| coefficient(idx, r.range_arg()?.id)).collect();
        let Some(Some(step)) = moves.last().map(|c| Some(c.as_ref()?.checked_mul(size)?)) else { continue };
        if step.abs() < LINE || moves.iter().any(|c| *c == Some(0)) {
            continue;
        }
        let line = offset(idx).saturating_mul(size).div_euclid(LINE);
        if !seen.insert((buf, moves.clone(), line)) {
            continue;
        }
        let row = moves.len().checked_sub(2).and_then(|i| moves[i]?.checked_mul(size));
        let index = &load.src[0];
        match out.iter_mut().find(|r| r.buf == buf && r.step == step && r.row == row) {
            Some(r) => r.lines.push((at, index)),
            None => out.push(Run { lines: vec![(at, index)], buf, of, step, row, total: None }),
        }
    }
    let rounds = l.open.last().and_then(|r| r.src[0].as_int());
    for r in &mut out {
        r.total = rounds.and_then(|n| n.checked_mul(r.lines.len() as i64 * LINE));
    }
    out
}

/// The constant that is added to an index.
fn offset(idx: &UOp) -> i64 {
    match (idx.op, idx.as_int()) {
        (_, Some(c)) => c,
        (Op::Add, _) => offset(&idx.src[0]).saturating_add(offset(&idx.src[1])),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::target::Isa;
    use frit_uop::{Alu, Arg, AxisKind, DType};

    fn target() -> Target {
        Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20])
    }
    fn range(n: i64, id: u32) -> UOp {
        UOp::range(&UOp::int(n, DType::I32), id, AxisKind::Loop)
    }
    fn load(buf: &UOp, idx: UOp) -> UOp {
        UOp::new(Op::Index, buf.dtype, [buf.clone(), idx], Arg::Lanes(16)).load()
    }
    fn around(r: &UOp, body: Vec<Step>) -> Vec<Step> {
        [vec![Step::Open(r.clone())], body, vec![Step::Close(r.clone())]].concat()
    }
    /// What is asked for, and between which steps.
    fn asked(steps: Vec<Step>) -> Vec<(usize, i32)> {
        let steps = prefetch(steps, &target());
        steps
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((i, if let Step::Prefetch(_, b) = s { *b } else { return None })))
            .collect()
    }

    #[test]
    fn a_long_run_is_asked_for_ahead_a_line_once() {
        let (x, r) = (UOp::param(0, 1 << 20, DType::F32), range(1 << 14, 0));
        let at = |k: i64| load(&x, &r * 64 + k);
        let two = around(&r, vec![Step::Do(at(0)), Step::Do(at(8)), Step::Do(at(16))]);
        // two lines a round: 16 rounds are 2 KiB
        assert_eq!(asked(two), [(1, 16 * 256), (4, 16 * 256)]);
        // what fits a cache is there after the first time
        let near = UOp::param(0, 1 << 18, DType::F32);
        assert_eq!(asked(around(&r, vec![Step::Do(load(&near, &r * 16))])), []);
    }

    #[test]
    fn of_the_loops_over_a_row_the_longest_asks_for_the_next_row() {
        let (x, rows) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0));
        let read = |id: u32| load(&x, &rows * 4096 + range(256, id) * 16);
        let short = around(&range(256, 1), vec![Step::Do(read(1))]);
        let root = read(2).un(Alu::Sqrt);
        let long = around(&range(256, 2), vec![Step::Do(read(2)), Step::Do(root)]);
        assert_eq!(asked(around(&rows, [short, long].concat())), [(5, 4096 * 4)]);
    }

    #[test]
    fn what_another_loop_reads_again_is_not_asked_for() {
        let (x, outer, r) = (UOp::param(0, 1 << 20, DType::F32), range(8, 0), range(1 << 14, 1));
        let again = around(&outer, around(&r, vec![Step::Do(load(&x, &r * 16))]));
        assert_eq!(asked(again), []);
    }
}
