//! Widen the innermost loop of a sum that is shorter than a vector by the loop around it.
//!
//! What lies one after the other in both is read by the lanes of one loop. What only the outer one moves with, as a scale of
//! each part, becomes a choice among its values, each of which is a scalar. Of a long outer loop as many steps are taken as fill a
//! vector.
//!
//! ```text
//! Reduce(s[2 b + p] * x[8 b + 4 p + l], b, p over 2, l over 4)
//!     ->   Reduce(Where(u < 4, s[2 b], s[2 b + 1]) * x[8 b + u], b, u over 8)
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open, with_index};
use crate::kernel::ranges::closed;
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Lanes that are enough.
const ENOUGH: i64 = 8;

/// The pass.
pub fn widen(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let most = ENOUGH.min(ctx.target.lanes(DType::F32) as i64);
    let order = sink.toposort();
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for sum in order.iter().filter(|n| n.op == Op::Reduce) {
        let Some(pair) = Pair::of(sum, most).filter(|_| !map.contains_key(sum)) else { continue };
        // sums that share a loop go on sharing it
        let is_closed = |n: &&UOp| closed(n).iter().any(|id| [pair.inner, pair.outer].contains(id));
        let all: Option<Vec<(UOp, UOp)>> =
            order.iter().filter(is_closed).map(|n| Some((n.clone(), pair.widened(n)?))).collect();
        map.extend(all.filter(|_| has_vectors_inside(&order, pair.inner)).into_iter().flatten());
    }
    Ok(if map.is_empty() { sink.clone() } else { sink.substitute(&map) })
}

/// Whether the loads of a sum have neighbours along its loop, and along no loop of results.
fn has_vectors_inside(order: &[UOp], id: u32) -> bool {
    let loads = order.iter().filter(|n| n.op == Op::Load && n.ranges.contains(&id));
    let is_across = |l: &UOp| {
        let Some((_, idx)) = l.buffer_and_index() else { return true };
        let is_result = |r: &&UOp| r.range_arg().is_some_and(|a| a.kind == AxisKind::Global);
        let results = order.iter().filter(is_result).filter_map(|r| Some(r.range_arg()?.id));
        let mut along = results.map(|id| coefficient(idx, id));
        along.any(|by| by.is_none_or(|by| by.abs() == 1))
    };
    !loads.into_iter().any(is_across)
}

/// The innermost loop of a sum and the one around it.
struct Pair {
    outer: u32,
    inner: u32,
    /// Steps of the inner loop, and of the outer one that it takes.
    sizes: [i64; 2],
    /// Both as one.
    both: UOp,
    /// What is left of the outer one.
    around: Option<UOp>,
}

impl Pair {
    fn of(sum: &UOp, most: i64) -> Option<Pair> {
        let mut ranges: Vec<&UOp> = sum.closed_ranges().iter().collect();
        ranges.sort_by_key(|r| r.range_arg().map(|a| a.id));
        let [.., outer, inner] = ranges[..] else { return None };
        let (all, size) = (outer.extent().as_int()?, inner.extent().as_int()?);
        let (inner, outer) = (inner.range_arg()?, outer.range_arg()?);
        let taken = all.min(most / size.max(1));
        let fits = size > 1
            && taken > 1
            && most % (size * taken) == 0
            && all % taken == 0
            && [inner.kind, outer.kind] == [AxisKind::Reduce; 2];
        let range = |n: i64, id: u32| UOp::range(&UOp::index(n), id, AxisKind::Reduce);
        fits.then(|| Pair {
            outer: outer.id,
            inner: inner.id,
            sizes: [size, taken],
            both: range(size * taken, inner.id),
            around: (all > taken).then(|| range(all / taken, outer.id)),
        })
    }
    /// What the outer loop is at one of the steps that are taken of it.
    fn step(&self, i: i64) -> UOp {
        self.around.as_ref().map_or(UOp::index(i), |r| r.fold_mul(&UOp::index(self.sizes[1])) + i)
    }

    /// A sum over both as one; `None` where it is not one over both.
    fn widened(&self, sum: &UOp) -> Option<UOp> {
        let all = closed(sum);
        if sum.op != Op::Reduce
            || sum.bodies().len() != 1
            || ![self.inner, self.outer].iter().all(|id| all.contains(id))
        {
            return None;
        }
        let mut done = FxHashMap::default();
        let mut src: SmallVec<[UOp; 4]> = [self.value(sum.body(), &mut done)?].into_iter().collect();
        for r in sum.closed_ranges() {
            match r.range_arg()?.id {
                id if id == self.inner => src.push(self.both.clone()),
                id if id == self.outer => src.extend(self.around.clone()),
                _ => src.push(r.clone()),
            }
        }
        Some(sum.with_src(src))
    }

    /// A value with both loops as one; `None` where it is read elsewhere than one after the other.
    fn value(&self, n: &UOp, done: &mut FxHashMap<UOp, UOp>) -> Option<UOp> {
        if let Some(new) = done.get(n) {
            return Some(new.clone());
        }
        let moves = |id: u32| n.ranges.contains(&id);
        let new = match (moves(self.outer), moves(self.inner)) {
            (false, false) => n.clone(),
            (true, false) => self.chosen(n),
            _ if n.op == Op::Load => self.load(n)?,
            _ if n.op.is_elementwise() => {
                let src = n.src.iter().map(|s| self.value(s, done)).collect::<Option<_>>()?;
                n.with_src(src)
            }
            _ => return None,
        };
        done.insert(n.clone(), new.clone());
        Some(new)
    }

    /// What moves with the outer loop alone: its values, each for its lanes.
    fn chosen(&self, n: &UOp) -> UOp {
        let [size, taken] = self.sizes;
        let at = |i: i64| substitute_open(n, &[(self.outer, self.step(i))].into_iter().collect());
        (0..taken - 1).rev().fold(at(taken - 1), |others, i| {
            self.both.lt(&UOp::index((i + 1) * size)).select(&at(i), &others)
        })
    }

    fn load(&self, n: &UOp) -> Option<UOp> {
        let (_, idx) = n.buffer_and_index()?;
        let (outer, inner) = (coefficient(idx, self.outer)?, coefficient(idx, self.inner)?);
        let is_plain = n.src.len() == 1
            && n.arg == Arg::None
            && idx.op != Op::Where
            && !n.buffer().ranges.contains(&self.inner);
        if !is_plain || outer != inner.checked_mul(self.sizes[0])? {
            return None;
        }
        let to = [(self.outer, self.step(0)), (self.inner, self.both.clone())].into_iter().collect();
        Some(with_index(n, substitute_open(idx, &to)))
    }
}
