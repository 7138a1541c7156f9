//! Rows that a scatter writes in order are written side by side.
//!
//! A few rows that replace what was there are written at once, each unless a later one has its place:
//!
//! ```text
//! Store(p[768 row[m] + j], ..) over j, then m in order
//!     ->   Store(p[768 row[m] + j], ..) over m, j, and once where no row[1], row[2], .. after m is row[m]
//! ```
//!
//! Others have owners. Each owner walks all rows and writes those of its own places, so every place has the same values in the same order as before.
//!
//! ```text
//! Store(p[768 row[m] + j], ..) over j, then m in order
//!     ->   Store(p[768 row[m] + j], ..) over o, j, then m in order, and once where row[m] mod 64 == o
//! ```
//!
//! What a row takes is read only where it is written: it stands in a loop of one round or of none.

use crate::error::Error;
use crate::kernel::access::{slot, substitute_open};
use crate::kernel::ranges::next_id;
use crate::pass::Ctx;
use frit_abi::target::Grid;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows that look at all later ones, at most, and the operations that say where each is.
const MOST_ROWS: i64 = 64;
const MOST_OPS: usize = 32;
/// Rows from which owners are worth that all walk them.
const LEAST_ROWS: i64 = 32;
/// Warps for each scheduler: what they wait for hides behind each other, and more of them walk rows that are not theirs.
const WARPS: u32 = 4;

/// The pass.
pub fn owners(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let (Some(grid), Some(scatter)) = (&ctx.target.grid, Scatter::of(sink)) else { return Ok(sink.clone()) };
    if let Some(all) = scatter.at_once(sink) {
        return Ok(all);
    }
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

    /// The row that a place is in.
    fn row(&self) -> UOp {
        let place = match self.end.src[0].index() {
            idx if idx.op == Op::Where => idx.if_true(),
            idx => idx,
        };
        simplify(&place.bin(Alu::Idiv, &UOp::index(self.stride)))
    }

    /// All rows side by side, if they are few and replace what was there: of those with one place the last is written.
    fn at_once(&self, sink: &UOp) -> Option<UOp> {
        let (store, row) = (&self.end.src[0], self.row());
        let (count, id) = (self.rows.extent().as_int()?, self.rows.range_arg()?.id);
        let is_combined = store.any(|n| n.op == Op::Load && slot(n) == slot(store));
        if is_combined || !(2..=MOST_ROWS).contains(&count) || row.toposort().len() > MOST_OPS {
            return None;
        }
        let all = UOp::range(self.rows.extent(), id, AxisKind::Global);
        let at = |m: &UOp| substitute_open(&row, &[(id, m.clone())].into_iter().collect());
        let mine = at(&all);
        let is_later = |m: i64| all.lt(&UOp::index(m)).and_(&at(&UOp::index(m)).eq_(&mine));
        let others = (1..count).map(is_later).reduce(|a, b| a.bin(Alu::Or, &b))?;
        let store = substitute_open(store, &[(id, all.clone())].into_iter().collect());
        let around = [all].into_iter().chain(self.end.src[1..].iter().filter(|r| **r != self.rows).cloned());
        Some(self.once(sink, &store, &others.un(Alu::Not), around))
    }

    fn owned(&self, sink: &UOp, count: i64) -> UOp {
        let id = next_id(&sink.toposort());
        let owner = UOp::range(&UOp::index(count), id, AxisKind::Global);
        let is_own = simplify(&self.row().bin(Alu::Mod, &UOp::index(count)).eq_(&owner));
        let around = [owner].into_iter().chain(self.end.src[1..].iter().cloned());
        self.once(sink, &self.end.src[0], &is_own, around)
    }

    /// The kernel with a store over these ranges, in a loop of one round where a condition holds and of none elsewhere.
    fn once(&self, sink: &UOp, store: &UOp, holds: &UOp, around: impl Iterator<Item = UOp>) -> UOp {
        let id = next_id(&sink.toposort()) + 1;
        let once = UOp::range(&holds.cast(DType::Index), id, AxisKind::Loop);
        // what says whether it holds was read before, and so it is
        let known: FxHashSet<UOp> = holds.toposort().into_iter().collect();
        let moves = |n: &UOp| self.rows.range_arg().is_some_and(|a| n.ranges.contains(&a.id));
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for n in store.toposort().iter().filter(|n| n.op == Op::Index && !known.contains(*n)) {
            if moves(n) {
                let (buf, idx) = (&n.src[0], &n.src[1]);
                map.insert(n.clone(), buf.after([once.clone()]).at(idx));
            }
        }
        let store = store.substitute(&map);
        sink.with_src([store.end(around.chain([once]))].into_iter().collect())
    }
}
