//! Place temporaries in one arena: two share bytes only if they are never needed at the same time.

use crate::error::Error;
use crate::plan::Plan;
use crate::{BufRef, Temp};
use smallvec::SmallVec;

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

/// Offsets at which these can live in one arena, and the arena's size: the largest first, each in the tightest gap that is
/// free during its life, and of those in the lowest.
pub fn place(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut arena = Arena::of(lives.iter().map(|l| l.last + 1).max().unwrap_or(0));
    let offsets = arena.place(lives);
    (offsets, arena.size)
}

/// Ranges of bytes in order; those that touch are one.
#[derive(Clone, Default)]
struct Ranges(Vec<(usize, usize)>);

impl Ranges {
    fn add(&mut self, start: usize, end: usize) {
        let touched = self.0.partition_point(|r| r.1 < start)..self.0.partition_point(|r| r.0 <= end);
        match &mut self.0[touched.clone()] {
            [] => self.0.insert(touched.start, (start, end)),
            [one] => *one = (one.0.min(start), one.1.max(end)),
            [first, .., last] => {
                *first = (first.0.min(start), last.1.max(end));
                self.0.drain(touched.start + 1..touched.end);
            }
        }
    }
}

/// What is taken at which step: a tree of spans of steps, halved from each to the next. Looking at every life by itself would
/// be quadratic; lives that lie side by side are one range here.
struct Arena {
    /// How many steps there is room for, a power of two: step `i` is span `steps + i`, and the span around span `n` is `n / 2`.
    steps: usize,
    /// What is taken all through a span, though not all through the one around it.
    through: Vec<Ranges>,
    /// What is taken at some time in a span, not counting what is taken all through a wider one.
    within: Vec<Ranges>,
    size: usize,
    /// How many ranges were looked at.
    looks: usize,
}

impl Arena {
    fn of(steps: usize) -> Arena {
        let steps = steps.next_power_of_two();
        let (through, within) = (vec![Ranges::default(); 2 * steps], vec![Ranges::default(); 2 * steps]);
        Arena { steps, through, within, size: 0, looks: 0 }
    }
    fn place(&mut self, lives: &[Life]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..lives.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].first));
        let mut offsets = vec![0; lives.len()];
        for i in order {
            let bytes = lives[i].bytes.next_multiple_of(ALIGN).max(ALIGN);
            // what is never needed is in nobody's way
            if lives[i].first <= lives[i].last {
                offsets[i] = tightest(bytes, &self.taken(&lives[i]));
                self.take(&lives[i], offsets[i], offsets[i] + bytes);
            }
            self.size = self.size.max(offsets[i] + bytes);
        }
        offsets
    }
    /// The widest spans that make up a life.
    fn spans(&self, life: &Life) -> SmallVec<[usize; 32]> {
        let (mut from, mut to) = (self.steps + life.first, self.steps + life.last + 1);
        let mut spans = SmallVec::new();
        while from < to {
            if from % 2 == 1 {
                spans.push(from);
            }
            if to % 2 == 1 {
                spans.push(to - 1);
            }
            (from, to) = (from.div_ceil(2), to / 2);
        }
        spans
    }
    /// The spans around the first and the last step of a life.
    fn around(&self, life: &Life) -> impl Iterator<Item = usize> + use<> {
        let both = (self.steps + life.first, self.steps + life.last);
        let up = std::iter::successors(Some(both), |(a, b)| (*a > 1).then_some((a / 2, b / 2)));
        up.flat_map(|(a, b)| std::iter::once(a).chain((a != b).then_some(b)))
    }
    /// What is taken at some time of a life, by where it begins.
    fn taken(&mut self, life: &Life) -> Vec<(usize, usize)> {
        let within = self.spans(life).into_iter().flat_map(|n| &self.within[n].0);
        let through = self.around(life).flat_map(|n| &self.through[n].0);
        let mut taken: Vec<(usize, usize)> = within.chain(through).copied().collect();
        taken.sort_unstable();
        self.looks += taken.len();
        taken
    }
    fn take(&mut self, life: &Life, start: usize, end: usize) {
        for n in self.spans(life) {
            self.through[n].add(start, end);
            self.within[n].add(start, end);
        }
        self.around(life).for_each(|n| self.within[n].add(start, end));
    }
}

/// The offset of the tightest gap for so many bytes between ranges, which may overlap; behind them where there is none.
fn tightest(bytes: usize, taken: &[(usize, usize)]) -> usize {
    let (mut end, mut best) = (0, None::<(usize, usize)>);
    for &(from, to) in taken {
        let gap = from.saturating_sub(end);
        if gap >= bytes && best.is_none_or(|(least, _)| gap < least) {
            best = Some((gap, end));
        }
        end = end.max(to);
    }
    best.map_or(end, |(_, offset)| offset)
}

/// Makes [`crate::Schedule::offsets`] and [`crate::Schedule::arena_bytes`].
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
    (schedule.offsets, schedule.arena_bytes) = place(&lives);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(n: usize, seed: u64) -> Vec<Life> {
        let mut state = seed;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut life = |_| {
            let (first, bytes) = (below(n), [64, 100, 4096, 4096, 65536][below(5)] * (1 + below(3)));
            let long = if below(4) == 0 { n } else { 8 };
            Life { bytes, first, last: first + below(long) }
        };
        (0..n).map(&mut life).collect()
    }
    /// Buffers of a network of so many layers: activations wait for the backward pass, what is on the way does not.
    fn layers(n: usize) -> Vec<Life> {
        let kept = (0..n).map(|i| Life { bytes: 8192, first: i, last: 3 * n - 2 * i });
        let passing = (0..2 * n).map(|i| Life { bytes: 4096 << (i % 2), first: n + i, last: n + i + 1 });
        kept.chain(passing).collect()
    }
    /// The tightest gap between all that lives at the same time, by looking at each.
    fn by_looking_at_each(lives: &[Life]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..lives.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].first));
        let (mut offsets, mut placed) = (vec![0; lives.len()], Vec::<(usize, usize, Life)>::new());
        for i in order {
            let (l, bytes) = (lives[i], lives[i].bytes.next_multiple_of(ALIGN));
            let together = placed.iter().filter(|p| p.2.first <= l.last && l.first <= p.2.last);
            let mut taken: Vec<(usize, usize)> = together.map(|p| (p.0, p.1)).collect();
            taken.sort_unstable();
            offsets[i] = tightest(bytes, &taken);
            placed.push((offsets[i], offsets[i] + bytes, l));
        }
        offsets
    }

    #[test]
    fn spans_change_no_place() {
        for seed in 0..8 {
            let lives = random(700, seed);
            assert_eq!(place(&lives).0, by_looking_at_each(&lives));
        }
        assert_eq!(place(&layers(300)).0, by_looking_at_each(&layers(300)));
    }
    #[test]
    fn what_lives_together_lies_apart() {
        let lives = random(1000, 99);
        let (offsets, size) = place(&lives);
        for (i, a) in lives.iter().enumerate() {
            assert!(offsets[i] % ALIGN == 0 && offsets[i] + a.bytes <= size);
            for (j, b) in lives.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(apart || !together);
            }
        }
    }
    #[test]
    fn a_deep_network_is_no_more_work_for_each_layer() {
        let looks = |n: usize| {
            let mut arena = Arena::of(3 * n + 1);
            arena.place(&layers(n));
            arena.looks / n
        };
        let (few, many) = (looks(32), looks(2000));
        // the depth of the tree grows; looking at each life would be sixty times as much
        assert!(many < 4 * few, "{few} ranges for each of 32 layers, {many} for each of 2000");
    }
}
