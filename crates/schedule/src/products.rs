//! Which sums of products run as one kernel: two over one loop that multiply one value with others, where the one takes what
//! the other has summed. Each step of the loop updates a tile of results of both and loads what they share once, and what the
//! one takes is never stored.
//!
//! ```text
//! silu(x @ g) * (x @ u)       one kernel, x loaded once
//! x @ q, x @ k, x @ v         three: they would store as much, and three tiles are narrow
//! ```
//! The tile of each sum is narrower than it would be alone. That costs nothing where it has two vectors still, and where the other
//! factors are packed for many results or read along the loop.

use frit_abi::{Alu, DType, Target};
use frit_uop::nodes::Nodes;
use frit_uop::{Arg, Op, UOp};

/// Vectors of a tile side by side, at least: packing fewer takes too little of each row. And the registers of such a tile, of six
/// rows, with what it multiplies.
const LEAST_VECTORS: i128 = 2;
const REGISTERS_OF_A_SUM: usize = 14;
/// The part of the second-level cache that what is packed for one tile may take.
const PANELS: i128 = 8;
/// Uses of an element from which packing it is little beside them, however narrow the tile is.
const MANY_USES: i128 = 64;

/// A sum of products of two loads.
#[derive(Clone, PartialEq)]
pub struct Product {
    reduce: UOp,
    loads: [UOp; 2],
}

impl Product {
    fn of(reduce: &UOp) -> Option<Product> {
        let body = &reduce.src[0];
        let [x, y] = &body.src[..] else { return None };
        let loads = [behind_casts(x)?, behind_casts(y)?].map(UOp::clone);
        let is_sum = reduce.op == Op::Reduce && reduce.arg == Arg::Alu(Alu::Add) && body.op == Op::Mul;
        is_sum.then(|| Product { reduce: reduce.clone(), loads })
    }
    /// The sums of a kernel, if it has some, and nothing else that is reduced.
    pub fn all(nodes: &Nodes) -> Option<Vec<Product>> {
        let reduces = nodes.iter().filter(|n| matches!(n.op, Op::Reduce | Op::Scan));
        let all: Vec<Product> = reduces.map(Product::of).collect::<Option<_>>()?;
        (!all.is_empty()).then_some(all)
    }
    /// A matrix unit has accumulators of its own, for one sum.
    fn is_for_a_unit(&self, target: &Target) -> bool {
        let [x, y] = self.loads.each_ref().map(|l| l.dtype);
        let takes = |of: [DType; 2]| of == [x, y] || of == [y, x];
        target.matrix.iter().any(|u| takes(u.operands) && u.accumulates(self.reduce.dtype))
    }

    /// Whether a factor may be read with those of other sums: each element is used by many results, or by fewer than a vector
    /// has lanes, and the loop reads neighbours.
    fn is_read_well(&self, load: &UOp, ranges: &[UOp], target: &Target) -> bool {
        let Some((_, idx)) = load.buffer_and_index().filter(|(_, idx)| idx.op != Op::Where) else {
            return false;
        };
        let id = |r: &UOp| r.range_arg().map(|a| a.id);
        let stays = |r: &&UOp| id(r).is_some_and(|id| !idx.ranges.contains(&id));
        let bounds = ranges.iter().filter(stays).map(|r| r.extent().bounds);
        let (least, most) =
            bounds.fold((1, 1), |n: (i128, i128), b| (n.0.saturating_mul(b.0), n.1.saturating_mul(b.1)));
        let is_near = self.reduce.closed_ranges().iter().any(|r| has_term(idx, r));
        least >= MANY_USES || is_near && most <= target.lanes(self.reduce.dtype) as i128
    }
}

/// Whether sums over the loops of a kernel share theirs, a factor, the registers of a core and its cache.
pub fn share_a_tile(sums: &[Product], ranges: &[UOp], target: &Target) -> bool {
    let Some(first) = sums.first() else { return false };
    let is_beside = |p: &Product| {
        p.reduce.closed_ranges() == first.reduce.closed_ranges() && p.reduce.ranges == first.reduce.ranges
    };
    let is_shared = |l: &UOp| sums.iter().all(|p| p.loads.contains(l));
    let is_read_well = |p: &Product| {
        let own = p.loads.iter().filter(|l| !is_shared(l));
        own.into_iter().all(|l| p.is_read_well(l, ranges, target))
    };
    let depth = first.reduce.closed_ranges().iter().map(|r| r.extent().bounds.1);
    let depth = depth.fold(1, i128::saturating_mul);
    let panels = depth.saturating_mul(sums.len() as i128 * LEAST_VECTORS * target.vector_bytes as i128);
    target.grid.is_none()
        && target.vector_bytes > 0
        && sums.len() * REGISTERS_OF_A_SUM <= target.registers
        && panels <= target.l2() as i128 / PANELS
        && first.loads.iter().any(is_shared)
        && sums.iter().all(|p| is_beside(p) && !p.is_for_a_unit(target) && is_read_well(p))
}

/// Whether an index goes on by one with each step of a range.
fn has_term(idx: &UOp, range: &UOp) -> bool {
    idx == range || idx.op == Op::Add && idx.src.iter().any(|s| has_term(s, range))
}

/// The load that a factor is, perhaps converted.
fn behind_casts(mut n: &UOp) -> Option<&UOp> {
    while n.op == Op::Cast {
        n = n.input();
    }
    (n.op == Op::Load).then_some(n)
}
