//! Insert software prefetches.
//!
//! ```text
//! for i { … x[64 i] … }                       ->   for i { prefetch x[64 i] + 2 KiB; … }
//! for row { for i { max x[row, i] };          ->   for row { for i { max x[row, i] };
//!           for i { … exp(x[row, i]) … } }                   for i { prefetch x[row + 1, i]; … exp(x[row, i]) … } }
//! for i { a[i] = …; a[i + N] = …; … }         ->   for i { prefetch a[i + 2]; a[i] = …; prefetch a[i + N + 2]; … }
//! for tile { for k { s += … }; y[tile] = s }   ->   for tile { for k { s += … }; prefetch y[tile + 1]; y[tile] = s }
//! ```
//! The hardware prefetcher detects sequential streams, but not far ahead while a core is busy with long chains of
//! arithmetic, not the next row while a loop works on this one, and not many store streams that are pages apart. Rows
//! that are written are prefetched in the loop that writes them first. What a loop around touches again hits the cache,
//! unless too much lies between. In a busy loop over short rows, a line is prefetched in each iteration that reads a part
//! of it; and where rows have few rounds, it is the next row's. What is read and written between long loops is prefetched a
//! round ahead.

use crate::kernel::access::coefficient;
use frit_abi::{Costs, Target};
use frit_uop::{Op, Step, UOp};
use rustc_hash::FxHashSet;

/// A row is prefetched from the one before it where more than one of so many parts of it would come without.
const LEAST_PART: i64 = 32;

/// A loop with no other in it.
struct InnermostLoop<'a> {
    /// The loops that are open in it, itself last.
    open: Vec<&'a UOp>,
    /// Where its steps are.
    steps: std::ops::Range<usize>,
    /// How many of them are arithmetic on floats or touch memory.
    work: usize,
}

impl InnermostLoop<'_> {
    /// How many rounds of a busy loop take so many cycles; of another one none, it waits for memory itself.
    fn rounds(&self, cycles: f64, costs: &Costs) -> i64 {
        let round = self.work as f64 / costs.fma_ports.get();
        if self.work >= costs.busy_loop { (cycles / round).ceil() as i64 } else { 0 }
    }
    /// Whether two loops are in the same loops, or are one.
    fn is_beside(&self, o: &InnermostLoop) -> bool {
        self.open[..self.open.len() - 1] == o.open[..o.open.len() - 1]
    }
}

/// Lines of a parameter that a loop touches in each iteration, and in no other iteration of it or of the loops around it.
struct Stream<'a> {
    of: &'a InnermostLoop<'a>,
    op: Op,
    buf: &'a UOp,
    /// The steps that touch them, and the addresses: one a line.
    lines: Vec<(usize, &'a UOp)>,
    /// Bytes from one iteration of the loop to the next.
    step: i64,
    /// Bytes from one iteration of the loop around it to the next.
    row: Option<i64>,
    /// Whether its lines are rows of their own, pages apart.
    is_interleaved: bool,
}

impl Stream<'_> {
    /// Bytes that one iteration touches, and all of them.
    fn bytes(&self, line: i64) -> (i64, Option<i64>) {
        let once = if self.step.abs() < line { self.step.abs() } else { self.lines.len() as i64 * line };
        let rounds = self.of.open.last().and_then(|r| r.extent().as_int());
        (once, rounds.and_then(|n| n.checked_mul(once)))
    }
    /// Whether it does the same to the same rows.
    fn is_over(&self, o: &Stream) -> bool {
        (self.op, self.buf, self.row, self.is_interleaved) == (o.op, o.buf, o.row, o.is_interleaved)
            && self.of.is_beside(o.of)
    }
    /// The work for each byte.
    fn work(&self) -> usize {
        self.of.work * 1024 / self.lines.len()
    }
}

/// The pass.
pub fn prefetch(steps: Vec<Step>, target: &Target) -> Vec<Step> {
    let loops = innermost_loops(&steps);
    let streams: Vec<Stream> = loops.iter().flat_map(|l| streams(&steps, l, target)).collect();
    let mut wanted: Vec<(usize, Step)> = vec![];
    for s in &streams {
        let Some(bytes) = distance(s, &streams, &loops, target).and_then(|b| i32::try_from(b).ok()) else {
            continue;
        };
        wanted.extend(s.lines.iter().map(|(at, index)| (*at, Step::Prefetch((*index).clone(), bytes))));
    }
    wanted.extend(between_loops(&steps, target));
    if wanted.is_empty() {
        return steps;
    }
    wanted.sort_by_key(|w| w.0);
    let mut out = Vec::with_capacity(steps.len() + wanted.len());
    let mut wanted = wanted.into_iter().peekable();
    for (i, step) in steps.into_iter().enumerate() {
        while let Some((_, prefetch)) = wanted.next_if(|w| w.0 == i) {
            out.push(prefetch);
        }
        out.push(step);
    }
    out
}

/// How many bytes after its addresses a stream is prefetched, if it is.
fn distance(s: &Stream, all: &[Stream], loops: &[InnermostLoop], target: &Target) -> Option<i64> {
    let costs = target.costs;
    let (line, ahead) = (costs.line as i64, costs.prefetch_bytes as i64);
    if s.is_interleaved {
        return s.step.checked_mul(costs.prefetch_stores as i64);
    }
    let ((once, whole), mut same) = (s.bytes(line), all.iter().filter(|r| r.is_over(s)));
    // the hardware follows a long stream by itself where lines are wanted seldom
    let along = || {
        let rounds = (ahead + once - 1).checked_div(once).filter(|_| s.step.abs() >= line)?;
        rounds.max(s.of.rounds(costs.memory_latency as f64, costs)).checked_mul(s.step)
    };
    if s.op == Op::Store {
        // the hardware follows what is written, but not where every row begins anew
        let in_rows = loops.iter().filter(|l| l.is_beside(s.of)).count() > 1;
        return along().filter(|_| in_rows && same.next().is_some_and(|r| std::ptr::eq(r, s)));
    }
    if same.count() == 1 && whole.is_none_or(|n| n > 2 * ahead) {
        // rows of few rounds: where they begin, no round before asks for them
        let rounds = s.of.open.last().and_then(|r| r.extent().as_int());
        let is_short =
            |b: &i64| rounds.is_some_and(|n| b.abs() > s.step.abs().saturating_mul(n) / LEAST_PART);
        // it must still be near when its turn comes
        let fits = whole.is_some_and(|n| n <= target.l2() as i64 / 8);
        let next_row = || s.row.filter(|r| fits && *r != 0);
        return along().map(|b| next_row().filter(|_| is_short(&b)).unwrap_or(b));
    }
    // one of the loops over this row prefetches the next row, the one with the most work
    let first = all.iter().filter(|r| r.is_over(s)).reduce(|a, b| if b.work() > a.work() { b } else { a });
    s.row.filter(|_| {
        first.is_some_and(|f| std::ptr::eq(f, s)) && whole.is_some_and(|n| n <= target.l2() as i64 / 4)
    })
}

/// A loop around others that is still open.
#[derive(Default)]
struct Around {
    /// The steps that are in no loop inside it.
    own: Vec<usize>,
    /// Work of one iteration: of them, and of the loops inside it.
    work: usize,
    inside: usize,
}

/// Lines of the next round for what is read and written between loops that take longer than memory does.
fn between_loops(steps: &[Step], target: &Target) -> Vec<(usize, Step)> {
    let costs = target.costs;
    let (mut open, mut loops): (Vec<&UOp>, Vec<Around>) = (vec![], vec![Around::default()]);
    let mut wanted = vec![];
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Open(r) => {
                open.push(r);
                loops.push(Around::default());
            }
            Step::Close(_) => {
                let (Some(done), Some(around)) = (loops.pop(), loops.last_mut()) else { return wanted };
                let of = InnermostLoop { open: open.clone(), steps: i..i, work: done.inside };
                if of.work as f64 / costs.fma_ports.get() >= costs.memory_latency as f64 {
                    wanted.extend(next_lines(steps, &done.own, &of, target));
                }
                let rounds =
                    open.pop().and_then(|r| r.extent().as_int()).and_then(|n| usize::try_from(n).ok());
                around.inside += rounds.unwrap_or(1).saturating_mul(done.work + done.inside);
            }
            _ => {
                let of = loops.last_mut().filter(|_| is_work(step));
                of.into_iter().for_each(|a| (a.work, _) = (a.work + 1, a.own.push(i)));
            }
        }
    }
    wanted
}

/// The lines that some steps of a loop touch a round later, each once.
fn next_lines(steps: &[Step], own: &[usize], of: &InnermostLoop, target: &Target) -> Vec<(usize, Step)> {
    let accesses: Vec<Access> = own.iter().filter_map(|at| access(steps, *at, of, target)).collect();
    let (line, mut seen) = (target.costs.line as i64, FxHashSet::default());
    let mut wanted = vec![];
    for a in &accesses {
        let is_far = !is_near(of, &a.moves, a.size, target.l2() as i64);
        let step = a.step(1).filter(|b| b.abs() >= line && is_far).and_then(|b| i32::try_from(b).ok());
        let (base, at) = a.base();
        if let Some(step) = step.filter(|_| seen.insert((a.buf, base, at.div_euclid(line)))) {
            wanted.push((a.at, Step::Prefetch(a.node.src[0].clone(), step)));
        }
    }
    wanted
}

fn innermost_loops(steps: &[Step]) -> Vec<InnermostLoop<'_>> {
    let (mut open, mut loops): (Vec<&UOp>, Vec<InnermostLoop>) = (vec![], vec![]);
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
                loops.extend(begin.take().map(|b| InnermostLoop {
                    open: open.clone(),
                    steps: b..i,
                    work: work(b),
                }));
                open.pop();
            }
            _ => {}
        }
    }
    loops
}

fn is_work(step: &Step) -> bool {
    matches!(step, Step::Do(n) if n.buffer_and_index().is_some() || n.op.is_elementwise() && n.dtype.is_float())
}

/// An access to a parameter that is larger than a cache: the first one if it is read, the second if it is written.
struct Access<'a> {
    at: usize,
    node: &'a UOp,
    buf: &'a UOp,
    idx: &'a UOp,
    size: i64,
    /// Elements that it moves in each of the open loops.
    moves: Vec<Option<i64>>,
}

impl Access<'_> {
    /// Bytes that it moves in one of the innermost open loops, counted from 1.
    fn step(&self, back: usize) -> Option<i64> {
        self.moves[self.moves.len().checked_sub(back)?]?.checked_mul(self.size)
    }
    /// Its index without a constant that is added last, and the bytes of that.
    fn base(&self) -> (&UOp, i64) {
        match (self.idx.op, self.idx.src.get(1).and_then(|c| c.as_int())) {
            (Op::Add, Some(at)) => (&self.idx.src[0], at.saturating_mul(self.size)),
            _ => (self.idx, 0),
        }
    }
}

/// What a loop reads and writes of parameters that are larger than a cache.
fn streams<'a>(steps: &'a [Step], of: &'a InnermostLoop<'a>, target: &Target) -> Vec<Stream<'a>> {
    let (far, costs) = (target.l2() as i64, target.costs);
    let width = costs.line as i64;
    let accesses: Vec<Access> = of.steps.clone().filter_map(|at| access(steps, at, of, target)).collect();
    let mut out: Vec<Stream> = interleaved_stores(&accesses, of, costs).into_iter().collect();
    let mut seen: FxHashSet<(Op, &UOp, &[Option<i64>], i64)> = FxHashSet::default();
    for a in &accesses {
        let Some(step) = a.step(1).filter(|b| b.abs() >= width || *b != 0 && of.work >= costs.busy_loop)
        else {
            continue;
        };
        let line = offset(a.idx).saturating_mul(a.size).div_euclid(width);
        if is_near(of, &a.moves, a.size, far) || !seen.insert((a.node.op, a.buf, &a.moves, line)) {
            continue;
        }
        let (op, row, line) = (a.node.op, a.step(2), (a.at, &a.node.src[0]));
        let is_same = |s: &&mut Stream| {
            !s.is_interleaved && s.op == op && s.buf == a.buf && s.step == step && s.row == row
        };
        match out.iter_mut().find(is_same) {
            Some(s) => s.lines.push(line),
            None => {
                out.push(Stream { of, op, buf: a.buf, lines: vec![line], step, row, is_interleaved: false })
            }
        }
    }
    out
}

fn access<'a>(steps: &'a [Step], at: usize, of: &InnermostLoop, target: &Target) -> Option<Access<'a>> {
    let Step::Do(node) = &steps[at] else { return None };
    let (buf, idx) = node.buffer_and_index().filter(|a| a.1.lanes() == 1)?;
    // what is read after it was written is near
    let buf = if node.op == Op::Store { buf.behind_after() } else { buf };
    let size = buf.dtype.size() as i64;
    let len = buf.shape().first().and_then(|n| n.as_int());
    // what a kernel reads was written by another one, on another core or long ago: it is near only if it is small
    let far = if node.op == Op::Load { target.caches[0] } else { target.l2() } as i64;
    let is_far = buf.op == Op::Param && len.is_none_or(|n| n.saturating_mul(size) > far);
    let moves = || of.open.iter().map(|r| usual_step(idx, r.range_arg()?.id)).collect();
    is_far.then(|| Access { at, node, buf, idx, size, moves: moves() })
}

/// How far an index moves in a loop; where it stays at an end, as the last tile does that begins earlier, in the rounds before.
fn usual_step(idx: &UOp, id: u32) -> Option<i64> {
    let sum = |f: fn(i64, i64) -> Option<i64>| f(usual_step(idx.lhs(), id)?, usual_step(idx.rhs(), id)?);
    match idx.op {
        _ if !idx.ranges.contains(&id) => Some(0),
        Op::Min if idx.rhs().as_int().is_some() => usual_step(idx.lhs(), id),
        Op::Add => sum(i64::checked_add),
        Op::Mul if idx.rhs().as_int().is_some() => {
            usual_step(idx.lhs(), id)?.checked_mul(idx.rhs().as_int()?)
        }
        _ => coefficient(idx, id),
    }
}

/// Rows of one buffer that a loop stores to in turn, each a page or more from the one before: of many the hardware
/// prefetcher loses track.
fn interleaved_stores<'a>(
    accesses: &[Access<'a>],
    of: &'a InnermostLoop<'a>,
    costs: &Costs,
) -> Option<Stream<'a>> {
    let (mut lines, mut last): (Vec<(usize, &UOp)>, Option<&Access>) = (vec![], None);
    for a in accesses.iter().filter(|a| a.node.op == Op::Store && a.step(1).is_some_and(|s| s != 0)) {
        let is_apart = |l: &Access| {
            let ((base, at), (of_last, last_at)) = (a.base(), l.base());
            a.buf == l.buf && base == of_last && at.abs_diff(last_at) >= costs.page as u64
        };
        if last.is_none_or(is_apart) {
            last = Some(a);
            lines.push((a.at, &a.node.src[0]));
        }
    }
    let (a, step) = (last?, last?.step(1)?);
    let stream = Stream { of, op: Op::Store, buf: a.buf, lines, step, row: None, is_interleaved: true };
    (stream.lines.len() >= costs.untracked_streams).then_some(stream)
}

/// Whether a loop around comes back to what was touched while it is still near.
fn is_near(of: &InnermostLoop, moves: &[Option<i64>], size: i64, far: i64) -> bool {
    let Some(at) = moves.iter().rposition(|m| *m == Some(0)) else { return false };
    let mut reach = size;
    for (r, m) in of.open[at + 1..].iter().zip(&moves[at + 1..]) {
        let (Some(n), Some(m)) = (r.extent().as_int(), m) else { return false };
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
    /// What is prefetched, and between which steps.
    fn prefetched(steps: Vec<Step>) -> Vec<(usize, i32)> {
        let steps = prefetch(steps, &target());
        steps
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((i, if let Step::Prefetch(_, b) = s { *b } else { return None })))
            .collect()
    }

    #[test]
    fn a_long_run_is_prefetched_a_line_once() {
        let (x, r) = (UOp::param(0, 1 << 20, DType::F32), range(1 << 14, 0));
        let at = |k: i64| load(&x, &r * 64 + k);
        let two = around(&r, vec![Step::Do(at(0)), Step::Do(at(8)), Step::Do(at(16))]);
        // two lines a round: 16 rounds are 2 KiB
        assert_eq!(prefetched(two), [(1, 16 * 256), (4, 16 * 256)]);
        // what fits a cache is there after the first time
        let near = UOp::param(0, 1 << 12, DType::F32);
        assert_eq!(prefetched(around(&r, vec![Step::Do(load(&near, &r * 16))])), []);
    }

    #[test]
    fn of_the_loops_over_a_row_the_longest_prefetches_the_next_row() {
        let (x, rows) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0));
        let read = |id: u32| load(&x, &rows * 4096 + range(256, id) * 16);
        let short = around(&range(256, 1), vec![Step::Do(read(1))]);
        let root = read(2).un(Alu::Sqrt);
        let long = around(&range(256, 2), vec![Step::Do(read(2)), Step::Do(root)]);
        assert_eq!(prefetched(around(&rows, [short, long].concat())), [(5, 4096 * 4)]);
    }

    #[test]
    fn rows_are_prefetched_where_they_are_written_first() {
        let (x, rows) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0));
        let store = |id: u32| {
            let at = &rows * 4096 + range(256, id) * 16;
            let zeros = UOp::stack((0..16).map(|_| UOp::float(0.0, DType::F32)));
            let index = UOp::new(Op::Index, x.dtype, [x.clone(), at], Arg::Lanes(16));
            around(&range(256, id), vec![Step::Do(index.store(&zeros))])
        };
        assert_eq!(prefetched(around(&rows, [store(1), store(2)].concat())), [(2, 2048)]);
        // one long run is followed by the machine
        assert_eq!(prefetched(around(&rows, store(1))), []);
    }

    #[test]
    fn what_another_loop_reads_again_is_prefetched_if_much_lies_between() {
        let x = UOp::param(0, 1 << 20, DType::F32);
        let again = |n: i64| {
            let (outer, r) = (range(8, 0), range(n, 1));
            around(&outer, around(&r, vec![Step::Do(load(&x, &r * 16))]))
        };
        assert_eq!(prefetched(again(1 << 14)), []);
        assert_eq!(prefetched(again(1 << 16)), [(2, 2048)]);
    }

    #[test]
    fn rows_that_a_busy_loop_reads_in_small_steps_are_prefetched() {
        let (x, rows, r) = (UOp::param(0, 1 << 20, DType::F32), range(256, 0), range(128, 1));
        let read = load(&x, &rows * 512 + &r * 4);
        let with = |work: usize| {
            let roots = std::iter::successors(Some(read.un(Alu::Sqrt)), |n| Some(n.un(Alu::Sqrt)));
            let body = [read.clone()].into_iter().chain(roots.take(work)).map(Step::Do).collect();
            prefetched(around(&rows, around(&r, body)))
        };
        assert_eq!((with(100), with(10)), (vec![(2, 2048)], vec![]));
    }

    #[test]
    fn rows_far_apart_are_prefetched_as_far_as_memory_takes_to_answer() {
        let (x, r) = (UOp::param(0, 1 << 20, DType::F32), range(1 << 10, 0));
        let read = load(&x, &r * 1024);
        let with = |work: usize| {
            let roots = std::iter::successors(Some(read.un(Alu::Sqrt)), |n| Some(n.un(Alu::Sqrt)));
            let body = [read.clone()].into_iter().chain(roots.take(work)).map(Step::Do).collect();
            prefetched(around(&r, body))
        };
        // 32 lines are 2 KiB; of 1,200 steps one round takes longer than memory does
        assert_eq!((with(10), with(1200)), (vec![(1, 32 * 4096)], vec![(1, 32 * 4096)]));
        let lines = |n: i64| (0..n).map(|i| Step::Do(load(&x, &r * 1024 + i * 16)));
        let busy =
            |n: i64| around(&r, lines(n).chain((0..99).map(|_| Step::Do(read.un(Alu::Sqrt)))).collect());
        // 32 lines a round are 2 KiB, and a round of 131 steps is 66 cycles of 500
        assert_eq!(prefetched(busy(32)).first(), Some(&(1, 8 * 4096)));
    }

    #[test]
    fn tiles_of_few_rounds_are_prefetched_from_the_tile_before() {
        let x = UOp::param(0, 1 << 22, DType::F32);
        let tiles = |rounds: i64| {
            let (tiles, r) = (range(256, 0), range(rounds, 1));
            let at = |row: i64| load(&x, &tiles * (16 * rounds * 32) + &r * 32 + row * rounds * 32);
            prefetched(around(&tiles, around(&r, (0..16).map(|row| Step::Do(at(row))).collect())))
        };
        // a line of each of 16 rows a round: two rounds are 2 KiB, and of twelve rounds the first two would wait for memory
        assert_eq!(tiles(12).first(), Some(&(2, 16 * 12 * 128)));
        assert_eq!(tiles(64).first(), Some(&(2, 2 * 128)));
    }

    #[test]
    fn what_is_written_between_long_loops_is_prefetched_a_round_ahead() {
        let (x, tiles) = (UOp::param(0, 1 << 22, DType::F32), range(256, 0));
        let zeros = UOp::stack((0..16).map(|_| UOp::float(0.0, DType::F32)));
        let after = |rounds: i64, at: UOp| {
            let read = load(&UOp::param(1, 16, DType::F32), UOp::int(0, DType::I32));
            let long = around(&range(rounds, 1), vec![Step::Do(read.un(Alu::Sqrt)); 4]);
            let place = |k: i64| UOp::new(Op::Index, x.dtype, [x.clone(), &at + k], Arg::Lanes(16));
            let stores = [0, 16, 20].map(|k| Step::Do(place(k).store(&zeros)));
            prefetched(around(&tiles, [long, stores.to_vec()].concat()))
        };
        // two lines of three stores, after what takes 2,000 cycles; nothing after 20
        assert_eq!(after(1000, &tiles * 1024), [(7, 4096), (9, 4096)]);
        assert_eq!(after(10, &tiles * 1024), []);
        // the last tile begins earlier than its turn
        let ends = (&tiles * 6).bin(Alu::Min, &UOp::int(1000, DType::I32)) * 2048;
        assert_eq!(after(1000, ends), [(7, 6 * 8192), (9, 6 * 8192)]);
    }

    /// How many prefetches there are in a loop over so many rows, so far apart, of a buffer of so many elements.
    fn interleaved(rows: i64, apart: i64, len: usize) -> usize {
        let (p, r) = (UOp::param(0, len, DType::F32), range(64, 0));
        let zero = UOp::float(0.0, DType::F32);
        let stores = (0..rows).map(|k| Step::Do(p.at(&(&r * 16 + k * apart)).store(&zero)));
        let steps: Vec<Step> =
            [Step::Open(r.clone())].into_iter().chain(stores).chain([Step::Close(r.clone())]).collect();
        let new = prefetch(steps.clone(), &target());
        let is_prefetch = |s: &&Step| matches!(s, Step::Prefetch(_, 128));
        let kept: Vec<Step> = new.iter().filter(|s| !is_prefetch(s)).cloned().collect();
        assert_eq!(kept, steps);
        new.iter().filter(is_prefetch).count()
    }

    #[test]
    fn many_interleaved_store_streams_are_prefetched() {
        assert_eq!(interleaved(8, 4095, 1 << 20), 8);
        // which the hardware follows, which are one run, which are near
        assert_eq!(
            (interleaved(2, 4095, 1 << 20), interleaved(8, 16, 1 << 20), interleaved(8, 4095, 1 << 15)),
            (0, 0, 0)
        );
    }
}
