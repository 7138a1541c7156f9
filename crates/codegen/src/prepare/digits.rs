//! A range of which only digits are used becomes a range for each digit.
//!
//! What lies in blocks, as quantised weights do, is indexed by quotients and remainders, of which no one knows how they move.
//! Digits move by constant steps. It is done for sums, and on CPUs for what is stored element by element where the lowest digit
//! fills vectors: weights that are unpacked.
//!
//! ```text
//! Reduce(x[k] * f(q[20 * (k / 32) + k mod 16] >> 4 * (k / 16 mod 2)), k over 576)
//!   ->   Reduce(x[32 b + 16 h + i] * f(q[20 b + i] >> 4 h), b over 18, h over 2, i over 16)
//! ```

use crate::error::Error;
use crate::kernel::access::fold;
use crate::kernel::ranges::{Replacement, all, replace};
use crate::pass::Ctx;
use frit_uop::symbolic::simplify;
use frit_uop::{AxisKind, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The pass.
pub fn digits(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let order = sink.toposort();
    let ranges = all(&order);
    // tiles of a sum's results want long axes
    let is_elementwise = !order.iter().any(|n| matches!(n.op, Op::Reduce | Op::Scan));
    let lanes = ctx.target.lanes(DType::F32) as i64;
    let fills = |cuts: &Vec<i64>| cuts.first().is_some_and(|c| c % lanes == 0);
    let is_stored = ctx.target.grid.is_none() && lanes > 1 && is_elementwise;
    let mut cuts: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
    for r in &ranges {
        let Some(arg) = r.range_arg() else { continue };
        let found = match arg.kind {
            AxisKind::Reduce => places(&order, r, arg.id),
            AxisKind::Global if is_stored => places(&order, r, arg.id).filter(fills),
            _ => None,
        };
        cuts.extend(found.map(|f| (arg.id, f)));
    }
    while !cuts.is_empty() {
        let (new, parts) = split(sink, &ranges, &cuts);
        let new = simplify(&new);
        // a range with which something still moves by quotients is left as it was
        let left: Vec<u32> =
            new.toposort().iter().filter(|n| is_digit(n)).flat_map(|n| n.ranges.to_vec()).collect();
        let before = cuts.len();
        cuts.retain(|id, _| !parts[id].iter().any(|p| left.contains(p)));
        if cuts.len() == before {
            return Ok(new);
        }
    }
    Ok(sink.clone())
}

fn is_digit(n: &UOp) -> bool {
    matches!(n.op, Op::Idiv | Op::Mod) && !n.ranges.is_empty()
}

/// Steps of a range for each step of an index that is a digit of it or moves with it by a constant.
fn steps(idx: &UOp, id: u32) -> Option<i64> {
    let of_one = |a: &UOp, b: &UOp| match (a.ranges.contains(&id), b.ranges.contains(&id)) {
        (true, false) => steps(a, id),
        (false, true) => steps(b, id),
        _ => None,
    };
    match idx.op {
        Op::Range => Some(1),
        Op::Add => of_one(&idx.src[0], &idx.src[1]),
        Op::Mul => {
            let (a, by) = (steps(&idx.src[0], id)?, idx.src[1].as_int()?);
            (by > 0 && a % by == 0).then(|| a / by)
        }
        Op::Idiv => steps(&idx.src[0], id)?.checked_mul(idx.src[1].as_int().filter(|c| *c > 0)?),
        Op::Mod => steps(&idx.src[0], id),
        _ => None,
    }
}

/// Where a range is cut: the sizes of what each digit counts, the smallest first, each a multiple of the one before.
fn places(order: &[UOp], r: &UOp, id: u32) -> Option<Vec<i64>> {
    let extent = r.extent().as_int()?;
    let mut cuts = vec![];
    for n in order.iter().filter(|n| is_digit(n) && n.ranges.contains(&id)) {
        let by = n.src[1].as_int().filter(|c| *c > 0)?;
        cuts.push(steps(&n.src[0], id)?.checked_mul(by)?);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.retain(|c| *c > 1 && *c < extent);
    let is_chain = cuts.windows(2).all(|w| w[1] % w[0] == 0) && cuts.last().is_some_and(|c| extent % c == 0);
    is_chain.then_some(cuts)
}

/// The kernel with ranges cut there, and the ids of the parts of each. Between two numbers of ranges there is none free: all
/// get others.
fn split(sink: &UOp, ranges: &[UOp], cuts: &FxHashMap<u32, Vec<i64>>) -> (UOp, FxHashMap<u32, Vec<u32>>) {
    let (mut map, mut parts) = (FxHashMap::default(), FxHashMap::default());
    let mut next = 0;
    for r in ranges {
        let (Some(arg), extent) = (r.range_arg(), r.extent().as_int()) else { continue };
        let mut part = |extent: &UOp| {
            next += 1;
            UOp::range(extent, next - 1, arg.kind)
        };
        let replacement = match (cuts.get(&arg.id), extent) {
            (Some(cuts), Some(extent)) => {
                let sizes: Vec<i64> = [1].into_iter().chain(cuts.iter().copied()).collect();
                let ends = cuts.iter().copied().chain([extent]);
                let counts: Vec<i64> = sizes.iter().zip(ends).map(|(size, end)| end / size).collect();
                let all: SmallVec<[UOp; 4]> = counts.iter().rev().map(|n| part(&UOp::index(*n))).collect();
                let value = all.iter().zip(sizes.iter().rev());
                let value = value.map(|(r, size)| r.fold_mul(&UOp::index(*size)));
                let value = value.reduce(|a, b| a.fold_add(&b)).unwrap_or_else(|| r.clone());
                parts.insert(arg.id, all.iter().filter_map(|r| Some(r.range_arg()?.id)).collect());
                Replacement { value, ranges: all }
            }
            _ => {
                let same = part(r.extent());
                Replacement { value: same.clone(), ranges: [same].into_iter().collect() }
            }
        };
        map.insert(arg.id, replacement);
    }
    (replace(sink, &map, |_, n| fold(&n))[sink].clone(), parts)
}
