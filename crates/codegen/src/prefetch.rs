//! Ask for memory before it is wanted.
//!
//! ```text
//! for i { … x[64 i] … }                       ->   for i { prefetch x[64 i] + 2 KiB; … }
//! for row { for i { max x[row, i] };          ->   for row { for i { max x[row, i] };
//!           for i { … exp(x[row, i]) … } }                   for i { prefetch x[row + 1, i]; … exp(x[row, i]) … } }
//! ```
//! Machines see by themselves that a run of memory is read, but not far ahead while they are busy with long chains of
//! arithmetic, and not what the next row will be while they work on this one. Rows that are written are asked for too,
//! in the loop that writes them first. What a loop around touches again comes from near, unless too much lies between.
//! Where a loop is busy with short rows, a line is asked for in each of the rounds that read a part of it.

use crate::access::{address, behind_after, coefficient};
use crate::turns;
use frit_abi::Target;
use frit_uop::{Op, Step, UOp};
use rustc_hash::FxHashSet;

/// Bytes of a cache line.
const LINE: i64 = 64;
/// So far ahead a run is asked for: what a core computes while memory answers.
const AHEAD: i64 = 2048;

/// Work in a loop beside which requests for lines that are asked for several times are little.
const BUSY: usize = 64;

/// A loop with no other in it.
pub struct Inner<'a> {
    /// The loops that are open in it, itself last.
    pub open: Vec<&'a UOp>,
    /// Where its steps are.
    pub steps: std::ops::Range<usize>,
    /// How many of them are arithmetic on floats or touch memory.
    work: usize,
}

impl Inner<'_> {
    /// Whether two loops are in the same loops, or are one.
    fn is_beside(&self, o: &Inner) -> bool {
        self.open[..self.open.len() - 1] == o.open[..o.open.len() - 1]
    }
}

/// Lines of a parameter that a loop reads or writes in each round, and no other round of it or of the loops around it.
struct Run<'a> {
    of: &'a Inner<'a>,
    op: Op,
    buf: &'a UOp,
    /// The steps that touch them, and the addresses: one a line.
    lines: Vec<(usize, &'a UOp)>,
    /// Bytes from one round of the loop to the next.
    step: i64,
    /// Bytes from one round of the loop around it to the next.
    row: Option<i64>,
}

impl Run<'_> {
    /// Bytes that one round touches, and all of them.
    fn bytes(&self) -> (i64, Option<i64>) {
        let once = if self.step.abs() < LINE { self.step.abs() } else { self.lines.len() as i64 * LINE };
        let rounds = self.of.open.last().and_then(|r| r.src[0].as_int());
        (once, rounds.and_then(|n| n.checked_mul(once)))
    }
    /// Whether it does the same to the same rows.
    fn is_over(&self, o: &Run) -> bool {
        (self.op, self.buf, self.row) == (o.op, o.buf, o.row) && self.of.is_beside(o.of)
    }
    /// The work for each byte.
    fn work(&self) -> usize {
        self.of.work * 1024 / self.lines.len()
    }
}

/// The steps, with such requests among them.
pub fn prefetch(steps: Vec<Step>, target: &Target) -> Vec<Step> {
    let loops = inner_loops(&steps);
    let far = target.caches[1].max(1 << 20) as i64;
    let runs: Vec<Run> = loops.iter().flat_map(|l| runs(&steps, l, far)).collect();
    let mut wanted: Vec<(usize, Step)> = loops.iter().flat_map(|l| turns::rows(&steps, l, far)).collect();
    for run in &runs {
        let Some(bytes) = ahead(run, &runs, &loops, far).and_then(|b| i32::try_from(b).ok()) else {
            continue;
        };
        wanted.extend(run.lines.iter().map(|(at, index)| (*at, Step::Prefetch((*index).clone(), bytes))));
    }
    if wanted.is_empty() {
        return steps;
    }
    wanted.sort_by_key(|w| w.0);
    let mut out = Vec::with_capacity(steps.len() + wanted.len());
    let mut wanted = wanted.into_iter().peekable();
    for (i, step) in steps.into_iter().enumerate() {
        while let Some((_, request)) = wanted.next_if(|w| w.0 == i) {
            out.push(request);
        }
        out.push(step);
    }
    out
}

/// How many bytes after its addresses a run asks, if it does.
fn ahead(run: &Run, runs: &[Run], loops: &[Inner], far: i64) -> Option<i64> {
    let ((once, all), mut same) = (run.bytes(), runs.iter().filter(|r| r.is_over(run)));
    // a machine follows a long run by itself where lines are wanted seldom
    let along = || {
        let rounds = (AHEAD + once - 1).checked_div(once).filter(|_| run.step.abs() >= LINE)?;
        rounds.checked_mul(run.step)
    };
    if run.op == Op::Store {
        // a machine follows what is written, but not where every row begins anew
        let in_rows = loops.iter().filter(|l| l.is_beside(run.of)).count() > 1;
        return along().filter(|_| in_rows && same.next().is_some_and(|r| std::ptr::eq(r, run)));
    }
    if same.count() == 1 && all.is_none_or(|n| n > 2 * AHEAD) {
        return along();
    }
    // one of the loops over this row asks for the next row, the one with the most work
    let first = runs.iter().filter(|r| r.is_over(run)).reduce(|a, b| if b.work() > a.work() { b } else { a });
    run.row.filter(|_| first.is_some_and(|f| std::ptr::eq(f, run)) && all.is_some_and(|n| n <= far / 4))
}

fn inner_loops(steps: &[Step]) -> Vec<Inner<'_>> {
    let (mut open, mut loops): (Vec<&UOp>, Vec<Inner>) = (vec![], vec![]);
    // where the last loop begins, while no other has begun or ended in it
    let mut begin = None;
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Open(r) => {
                open.push(r);
                begin = Some(i + 1);
            }
            Step::Close(_) => {
                let work = |b: usize| steps[b..i].iter().filter(|s| is_work(s)).count();
                loops.extend(begin.take().map(|b| Inner { open: open.clone(), steps: b..i, work: work(b) }));
                open.pop();
            }
            _ => {}
        }
    }
    loops
}

fn is_work(step: &Step) -> bool {
    matches!(step, Step::Do(n) if address(n).is_some() || n.op.is_elementwise() && n.dtype.is_float())
}

/// What a loop reads and writes of parameters that are too large to be near.
fn runs<'a>(steps: &'a [Step], of: &'a Inner<'a>, far: i64) -> Vec<Run<'a>> {
    let mut out: Vec<Run> = vec![];
    let mut seen: FxHashSet<(Op, &UOp, Vec<Option<i64>>, i64)> = FxHashSet::default();
    for at in of.steps.clone() {
        let Step::Do(access) = &steps[at] else { continue };
        let Some((buf, idx)) = address(access).filter(|a| a.1.lanes() == 1) else { continue };
        // what is read after it was written is near
        let buf = if access.op == Op::Store { behind_after(buf) } else { buf };
        if buf.op != Op::Param {
            continue;
        }
        let size = buf.dtype.size() as i64;
        let len = buf.shape().first().and_then(|n| n.as_int());
        let moves: Vec<Option<i64>> = of.open.iter().map(|r| coefficient(idx, r.range_arg()?.id)).collect();
        let bytes = |back: usize| moves[moves.len().checked_sub(back)?]?.checked_mul(size);
        let Some(step) = bytes(1).filter(|b| b.abs() >= LINE || *b != 0 && of.work >= BUSY) else { continue };
        let is_far = len.is_none_or(|n| n.saturating_mul(size) > far);
        let line = offset(idx).saturating_mul(size).div_euclid(LINE);
        if !is_far || is_near(of, &moves, size, far) || !seen.insert((access.op, buf, moves.clone(), line)) {
            continue;
        }
        let (op, row, index) = (access.op, bytes(2), &access.src[0]);
        match out.iter_mut().find(|r| r.op == op && r.buf == buf && r.step == step && r.row == row) {
            Some(r) => r.lines.push((at, index)),
            None => out.push(Run { of, op, buf, lines: vec![(at, index)], step, row }),
        }
    }
    out
}

/// Whether a loop around comes back to what was touched while it is still near.
fn is_near(of: &Inner, moves: &[Option<i64>], size: i64, far: i64) -> bool {
    let Some(at) = moves.iter().rposition(|m| *m == Some(0)) else { return false };
    let mut reach = size;
    for (r, m) in of.open[at + 1..].iter().zip(&moves[at + 1..]) {
        let (Some(n), Some(m)) = (r.src[0].as_int(), m) else { return false };
        reach = reach.max(n.saturating_mul(m.saturating_abs()).saturating_mul(size));
    }
    reach <= far
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
    fn rows_are_asked_for_where_they_are_written_first() {
        let (x, rows) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0));
        let store = |id: u32| {
            let at = &rows * 4096 + range(256, id) * 16;
            let zeros = UOp::stack((0..16).map(|_| UOp::float(0.0, DType::F32)));
            let index = UOp::new(Op::Index, x.dtype, [x.clone(), at], Arg::Lanes(16));
            around(&range(256, id), vec![Step::Do(index.store(&zeros))])
        };
        assert_eq!(asked(around(&rows, [store(1), store(2)].concat())), [(2, 2048)]);
        // one long run is followed by the machine
        assert_eq!(asked(around(&rows, store(1))), []);
    }

    #[test]
    fn what_another_loop_reads_again_is_asked_for_if_much_lies_between() {
        let x = UOp::param(0, 1 << 20, DType::F32);
        let again = |n: i64| {
            let (outer, r) = (range(8, 0), range(n, 1));
            around(&outer, around(&r, vec![Step::Do(load(&x, &r * 16))]))
        };
        assert_eq!(asked(again(1 << 14)), []);
        assert_eq!(asked(again(1 << 16)), [(2, 2048)]);
    }

    #[test]
    fn rows_that_a_busy_loop_reads_in_small_steps_are_asked_for() {
        let (x, rows, r) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0), range(128, 1));
        let read = load(&x, &rows * 512 + &r * 4);
        let with = |work: usize| {
            let roots = std::iter::successors(Some(read.un(Alu::Sqrt)), |n| Some(n.un(Alu::Sqrt)));
            let body = [read.clone()].into_iter().chain(roots.take(work)).map(Step::Do).collect();
            asked(around(&rows, around(&r, body)))
        };
        assert_eq!((with(100), with(10)), (vec![(2, 2048)], vec![]));
    }
}
