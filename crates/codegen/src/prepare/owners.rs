//! Rows that a scatter writes in order are written by owners side by side.
//!
//! Each owner walks all rows and writes those of its own places, so every place has the same values in the same order as before.
//!
//! ```text
//! Store(p[768 row[m] + j], ..) over j, then m in order
//!     ->   Store(p[768 row[m] + j], ..) over o, j, then m in order, and once where row[m] mod 64 == o
//! ```
//!
//! What a row takes is read only by its owner: it stands in a loop of one round or of none.

use crate::error::Error;
use crate::kernel::ranges::next_id;
use crate::pass::Ctx;
use frit_abi::target::Grid;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows from which owners are worth that all walk them.
const LEAST_ROWS: i64 = 32;
/// Warps for each scheduler: what they wait for hides behind each other, and more of them walk rows that are not theirs.
const WARPS: u32 = 4;

/// The pass.
pub fn owners(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let (Some(grid), Some(scatter)) = (&ctx.target.grid, Scatter::of(sink)) else { return Ok(sink.clone()) };
    Ok(match scatter.owners(grid) {
        n if n > 1 => scatter.owned(sink, n),
        _ => sink.clone(),
    })
}

/// The only effect of a kernel, where it writes rows in order.
struct Scatter {
    end: UOp,
    /// The range of the rows.
    rows: UOp,
    /// What a place counts up to from one row to the next.
    stride: i64,
}

impl Scatter {
    fn of(sink: &UOp) -> Option<Scatter> {
        let [end] = &sink.src[..] else { return None };
        let is_store = end.op == Op::End && end.src[0].op == Op::Store;
        let kind = |r: &UOp| r.range_arg().map(|a| a.kind);
        let is_ordered = |r: &&UOp| kind(r) == Some(AxisKind::Ordered);
        let (rows, rest): (Vec<&UOp>, Vec<&UOp>) =
            end.src.get(1..).filter(|_| is_store)?.iter().partition(is_ordered);
        let [rows] = rows[..] else { return None };
        let sizes = rest.iter().map(|r| r.extent().as_int().filter(|_| kind(r) == Some(AxisKind::Global)));
        let stride = sizes.map(|n| n.filter(|n| *n > 0)).product::<Option<i64>>()?;
        let is_scan = sink.any(|n| matches!(n.op, Op::Scan | Op::Reduce));
        (!is_scan).then(|| Scatter { end: end.clone(), rows: rows.clone(), stride })
    }

    /// How many there are: a power of two, so that whose a row is takes one operation.
    fn owners(&self, grid: &Grid) -> i64 {
        let p = &grid.processors;
        let lanes = i64::from(p.count) * i64::from(p.schedulers * WARPS * grid.warp);
        let rows = self.rows.extent().bounds.1.min(i64::MAX as i128) as i64;
        match (lanes / self.stride).min(rows) {
            n if rows >= LEAST_ROWS && n > 1 => 1 << n.ilog2(),
            _ => 1,
        }
    }

    fn owned(&self, sink: &UOp, count: i64) -> UOp {
        let store = &self.end.src[0];
        let place = match store.index() {
            idx if idx.op == Op::Where => idx.if_true(),
            idx => idx,
        };
        let id = next_id(&sink.toposort());
        let owner = UOp::range(&UOp::index(count), id, AxisKind::Global);
        let row = simplify(&place.bin(Alu::Idiv, &UOp::index(self.stride)));
        let is_own = simplify(&row.bin(Alu::Mod, &UOp::index(count)).eq_(&owner));
        let once = UOp::range(&is_own.cast(DType::Index), id + 1, AxisKind::Loop);
        // what says whose a row is was read before, and so it is
        let known: FxHashSet<UOp> = is_own.toposort().into_iter().collect();
        let moves = |n: &UOp| self.rows.range_arg().is_some_and(|a| n.ranges.contains(&a.id));
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for n in store.toposort().iter().filter(|n| n.op == Op::Index && !known.contains(*n)) {
            if moves(n) {
                let (buf, idx) = (&n.src[0], &n.src[1]);
                map.insert(n.clone(), buf.after([once.clone()]).at(idx));
            }
        }
        let store = store.substitute(&map);
        let around = [owner].into_iter().chain(self.end.src[1..].iter().cloned()).chain([once]);
        sink.with_src([store.end(around)].into_iter().collect())
    }
}
