//! Distribute a sum's loop: what its lanes share, and each of its steps computes one by one, is computed for several steps at
//! once in a loop of its own.
//!
//! A weight in blocks has scales of parts of a block. The sum's vectors run along a part, so its scale is a scalar, which takes
//! as many instructions as the vector does. The scales of a block lie side by side.
//!
//! ```text
//! Reduce(d[b] * s[8 b + p] * x[64 b + 8 p + l], b, p over 8, l over 8)
//!     ->   Reduce(Stage(d[b] * s[8 b + f], f over 8)[p] * x[64 b + 8 p + l], b, p, l)
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::ranges::{closed, next_id};
use crate::pass::Ctx;
use frit_uop::{Arg, AxisKind, DType, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The fewest values that are worth a loop.
const FEWEST: i64 = 4;

/// The pass.
pub fn distribute(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    let most = ctx.target.lanes(DType::F32) as i64;
    let mut next = next_id(&order);
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for reduce in order.iter().filter(|n| n.op == Op::Reduce && n.bodies().len() == 1) {
        let Some(steps) = Steps::of(reduce, most) else { continue };
        for value in steps.shared(reduce.body()) {
            let row = steps.stage(&value, next);
            next += 1;
            map.insert(value, row);
        }
    }
    Ok(if map.is_empty() { sink.clone() } else { sink.substitute(&map) })
}

/// Loops around a sum's vectors, the outermost first, with how far apart their steps are.
struct Steps {
    lane: u32,
    loops: Vec<(u32, i64)>,
    count: i64,
}

impl Steps {
    /// Those around the innermost loop of a sum whose steps fill a vector, where one more is outside.
    fn of(reduce: &UOp, most: i64) -> Option<Steps> {
        let mut ranges: Vec<&UOp> = reduce.closed_ranges().iter().collect();
        ranges.sort_by_key(|r| r.range_arg().map(|a| a.id));
        let lane = ranges.pop()?.range_arg()?.id;
        let (mut loops, mut count) = (vec![], 1);
        while let [_, .., r] = ranges[..] {
            let n = r.extent().as_int()?;
            if count * n > most {
                break;
            }
            loops.insert(0, (r.range_arg()?.id, count));
            count *= n;
            ranges.pop();
        }
        (count >= FEWEST).then_some(Steps { lane, loops, count })
    }

    /// Floats that move with these loops and not with the lanes, as large as there are.
    fn shared(&self, body: &UOp) -> Vec<UOp> {
        let (mut found, mut seen, mut stack) = (vec![], FxHashSet::default(), vec![body.clone()]);
        while let Some(n) = stack.pop() {
            if !seen.insert(n.clone()) {
                continue;
            }
            match n.dtype == DType::F32 && n.op != Op::Load && self.can_be_apart(&n) {
                true => found.push(n),
                false if n.op.is_elementwise() => stack.extend(n.src.iter().cloned()),
                false => {}
            }
        }
        found
    }

    /// Whether a value is arithmetic on what lies side by side, or is the same, for all steps.
    fn can_be_apart(&self, value: &UOp) -> bool {
        let is_step = |id: &u32| self.loops.iter().any(|(of, _)| of == id);
        let mut moves = false;
        let is_fit = value.toposort().iter().all(|n| match n.op {
            Op::Load => {
                let Some((_, idx)) = n.buffer_and_index() else { return false };
                let by =
                    |to: i64| self.loops.iter().all(|(id, step)| coefficient(idx, *id) == Some(step * to));
                moves |= by(1);
                n.src.len() == 1 && n.arg == Arg::None && idx.op != Op::Where && (by(0) || by(1))
            }
            Op::Reduce | Op::Scan | Op::Stage | Op::After => false,
            // a loop of its own would count by another type
            Op::Cast if n.src[0].dtype == DType::Index => !n.ranges.iter().any(is_step),
            _ => closed(n).is_empty(),
        });
        is_fit && moves && !value.ranges.contains(&self.lane)
    }

    /// The value, read from where a loop of its own has put it.
    fn stage(&self, value: &UOp, id: u32) -> UOp {
        let fill = UOp::range(&UOp::index(self.count), id, AxisKind::Loop);
        let first = self.loops.iter().map(|(id, _)| (*id, UOp::index(0)));
        let mut to: FxHashMap<u32, UOp> = first.collect();
        if let Some((id, _)) = self.loops.last() {
            to.insert(*id, fill.clone());
        }
        let arg = Arg::Stage { space: Space::Local, id, buffers: 1 };
        let row = UOp::new(Op::Stage, value.dtype, [substitute_open(value, &to), fill], arg);
        let place = self.loops.iter().filter_map(|(id, step)| Some((self.range(value, *id)?, step)));
        let place = place.map(|(r, step)| r.fold_mul(&UOp::index(*step)));
        row.at(&place.reduce(|a, b| a.fold_add(&b)).unwrap_or_else(|| UOp::index(0))).load()
    }

    fn range(&self, value: &UOp, id: u32) -> Option<UOp> {
        value.toposort().into_iter().find(|n| n.range_arg().is_some_and(|a| a.id == id && n.op == Op::Range))
    }
}
