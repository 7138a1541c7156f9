//! A chain of sums of products runs block by block of rows, so that what lies between them stays in the cache.
//!
//! A kernel of attention has a product inside the reduces over a row of it, and another product of what those give:
//!
//! ```text
//! s[j] = Reduce(q[i, e] * k[j, e], e);   m = Reduce(s[j], j, Max);   l = Reduce(exp(s[j] - m), j)
//! out[i, d] = Reduce(exp(s[j] - m) / l * v[j, d], j)
//!
//!     ->   for blocks of i (threads) { S = q k^T;  M = max of S;  P = exp(S - M);  L = sum of P;  out = P v / L }
//! ```
//! Each step is a kernel of its own over a block, with opts of its own, and reads what those before it left in local memory:
//! rows of the block side by side, so that vectors run along them. [`join`](crate::order::join) makes one program of them.
//! Loops one inside the other are always right too, so it is an opt. Numbers are those of the loops, but that a factor that is
//! the same for a whole sum is multiplied after it.

use crate::error::Error;
use crate::kernel::access::{gated, substitute_open};
use crate::kernel::mask;
use crate::kernel::ranges::{Replacement, closed, replace};
use crate::pass::{BLOCK, Blocks, Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use std::sync::Arc;

/// Rows of a block, at most.
const MOST_ROWS: i64 = 128;
/// Blocks for each thread, so that threads end together.
const BLOCKS_A_THREAD: i64 = 4;

/// The pass: the kernel, or those that a block of its rows walks through.
pub fn tile_and_fuse(sink: &UOp, ctx: &mut Ctx) -> Result<Vec<UOp>, Error> {
    let chosen = match ctx.opts {
        Opts::Heuristic => Chain::of(sink).map(|c| (c.rows_of_block(ctx.target), c)),
        Opts::List([opt @ Opt::TileAndFuse { rows }, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let rows = *rows as i64;
            let chain = Chain::of(sink).filter(|c| rest.is_empty() && (1..=c.count_rows()).contains(&rows));
            let why = "it is for chains of sums of products with so many rows, and the only one";
            let error = || Error::Opt { opt: opt.to_string(), why: why.into() };
            Some((rows, chain.ok_or_else(error)?))
        }
        Opts::List(_) => None,
    };
    let Some((rows, chain)) = chosen else { return Ok(vec![sink.clone()]) };
    let (count, first_local) = (chain.count_blocks(rows), ctx.params.len() as u32);
    let (kernels, locals) = chain.of_block(rows).kernels(first_local);
    ctx.params.extend(locals);
    let (opt, name) = (Opt::TileAndFuse { rows: rows as usize }, sink.arg.clone());
    let (flops, bytes) = (ctx.flops.clone(), ctx.bytes.clone());
    ctx.blocks = Some(Arc::new(Blocks { count, first_local, opt, name, flops, bytes }));
    Ok(kernels)
}

/// Rows of a block chosen by a seed, if there is anything to fuse.
pub fn random_rows(sink: &UOp, seed: u64) -> Option<usize> {
    let rows = Chain::of(sink)?.count_rows().clamp(1, MOST_ROWS) as u64;
    Some(1 + (seed / 3 % rows) as usize)
}

/// A kernel that stores one value, made of reduces over rows of a sum of products.
struct Chain {
    /// What is stored, with equal reduces over equal ranges.
    store: UOp,
    /// Ranges of results, outermost first: of other blocks, of rows, of results that share a row.
    batch: Vec<UOp>,
    row: Option<UOp>,
    columns: Vec<UOp>,
    /// The range that all reduces over a row close.
    along: UOp,
}

/// Ids of ranges in a kernel of a block: rows are inside what walks along them, and both outside columns and sums.
const ALONG: u32 = 0;
const ROW: u32 = 2;
const COLUMNS: u32 = 3;
/// What reduces over rows close, and the first id of other sums. What walks along rows may become two loops.
const CLOSED: u32 = 64 + COLUMNS;
const SUMS: u32 = CLOSED + 2;

fn id(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}
fn extent(range: &UOp) -> i64 {
    range.extent().as_int().unwrap_or(0)
}

impl Chain {
    fn of(sink: &UOp) -> Option<Chain> {
        let [end] = &sink.src[..] else { return None };
        if end.op != Op::End || end.src[0].op != Op::Store {
            return None;
        }
        let order = sink.toposort();
        let is_other = |n: &UOp| match n.op {
            Op::Scan | Op::Stage | Op::After => true,
            Op::Reduce => !matches!(n.arg, Arg::Alu(_)),
            Op::Load | Op::Store => n.arg != Arg::None,
            Op::Range => n.extent().as_int().is_none(),
            _ => false,
        };
        if order.iter().any(is_other) {
            return None;
        }
        let results: Vec<UOp> = end.closed_ranges().to_vec();
        let is_result = |r: &u32| results.iter().any(|x| id(x) == *r);
        // reduces over rows, and those inside them
        let reduces = order.iter().filter(|n| n.op == Op::Reduce);
        let (over_rows, inner): (Vec<&UOp>, Vec<&UOp>) =
            reduces.partition(|n| n.ranges.iter().all(is_result));
        let first = over_rows.first().filter(|_| over_rows.len() > 1)?.closed_ranges()[0].extent();
        let is_row = |n: &&UOp| n.closed_ranges().len() == 1 && n.closed_ranges()[0].extent() == first;
        let is_sum = |n: &&UOp| n.arg == Arg::Alu(Alu::Add) && !n.body().any(|b| b.op == Op::Reduce);
        if inner.is_empty() || !over_rows.iter().all(is_row) || !inner.iter().all(is_sum) {
            return None;
        }
        let along = UOp::range(first, CLOSED, AxisKind::Reduce);
        let store = shared(&end.src[0], &over_rows, &along);
        Chain { store, batch: vec![], row: None, columns: vec![], along }.with_rows(&results)
    }

    /// What each range of results is for.
    fn with_rows(mut self, results: &[UOp]) -> Option<Chain> {
        let along = id(&self.along);
        let order = self.store.toposort();
        let products: Vec<&UOp> =
            order.iter().filter(|n| n.op == Op::Reduce && n.ranges.contains(&along)).collect();
        let in_products = |r: &UOp| products.iter().any(|p| p.ranges.contains(&id(r)));
        let loads: Vec<UOp> = products.iter().flat_map(|p| p.body().toposort()).collect();
        let loads = loads.iter().filter(|n| n.op == Op::Load && n.ranges.contains(&along));
        // what is read along a row is the same for all rows of a batch
        let is_shared = |r: &UOp| loads.clone().all(|n| !n.ranges.contains(&id(r)));
        self.row = results.iter().rev().find(|r| in_products(r) && is_shared(r)).cloned();
        for r in results.iter().filter(|r| Some(*r) != self.row.as_ref()) {
            if in_products(r) { &mut self.batch } else { &mut self.columns }.push(r.clone());
        }
        if self.columns.is_empty() {
            return None;
        }
        self.factor_out(&order);
        Some(self)
    }

    /// Multiply what is the same for a whole sum after it, if it comes from a reduce over the row.
    fn factor_out(&mut self, order: &[UOp]) {
        let along = id(&self.along);
        let mut new: FxHashMap<UOp, UOp> = FxHashMap::default();
        let is_sum =
            |n: &&UOp| n.op == Op::Reduce && n.arg == Arg::Alu(Alu::Add) && !n.ranges.contains(&along);
        for n in order.iter().filter(is_sum).filter(|n| n.dtype.is_float() && self.is_wide(n)) {
            let leaves = |f: &UOp| !f.ranges.contains(&along) && f.any(|x| x.op == Op::Reduce);
            let (outside, inside): (Vec<UOp>, Vec<UOp>) = factors(n.body()).into_iter().partition(leaves);
            let (Some(body), false) = (product(inside), outside.is_empty()) else { continue };
            let sum = body.reduce(Alu::Add, [self.along.clone()]);
            new.extend(product(outside).map(|f| (n.clone(), &sum * &f)));
        }
        self.store = self.store.substitute(&new);
    }

    /// Whether it differs from column to column.
    fn is_wide(&self, n: &UOp) -> bool {
        self.columns.iter().any(|c| n.ranges.contains(&id(c)))
    }
    fn is_along(&self, n: &UOp) -> bool {
        n.ranges.contains(&id(&self.along))
    }

    fn count_rows(&self) -> i64 {
        self.row.as_ref().map_or(1, extent)
    }
    fn count_blocks(&self, rows: i64) -> i64 {
        let batch: i64 = self.batch.iter().map(extent).product();
        batch * ((self.count_rows() + rows - 1) / rows)
    }
    /// As many rows as leave what they make in the second-level cache, and all threads busy; such that the last block is full,
    /// or nearly.
    fn rows_of_block(&self, target: &Target) -> i64 {
        let all = self.count_rows();
        let stages = self.stages();
        let bytes: i64 = stages.iter().filter(|n| self.is_along(n)).map(|n| n.dtype.size() as i64).sum();
        let near = target.l2() as i64 / 2 / (extent(&self.along) * bytes).max(1);
        let most = near.clamp(1, MOST_ROWS).min(all);
        let enough = target.threads as i64 * BLOCKS_A_THREAD;
        let cost = |rows: &i64| {
            let blocks = (all + rows - 1) / rows;
            // work that is done twice; then parts of vectors; then idle threads; then what blocks read again
            let in_parts = rows % target.lanes(self.store.value().dtype).max(1) as i64 != 0;
            ((blocks * rows - all) * 16 > all, in_parts, self.count_blocks(*rows) < enough, blocks)
        };
        (1..=most).rev().min_by_key(cost).unwrap_or(1)
    }

    /// What is kept in local memory, in order: what reduces over rows give, products with what is done to each of their
    /// results, and factors that all columns share.
    fn stages(&self) -> Vec<UOp> {
        let order = self.store.toposort();
        let over_rows = |n: &UOp| n.op == Op::Reduce && !self.is_along(n);
        // which have a product in their cone, and which a reduce over rows
        let (mut with_product, mut with_rows) = (FxHashSet::default(), FxHashSet::default());
        let mut kept: FxHashSet<UOp> = FxHashSet::default();
        for n in &order {
            let of = |set: &FxHashSet<UOp>| n.src.iter().any(|s| set.contains(s));
            let has_rows = over_rows(n) || of(&with_rows);
            if n.op == Op::Reduce || of(&with_product) {
                with_product.insert(n.clone());
            }
            // the last ones before reduces over rows take part, and the last ones that columns share
            let is_last = |s: &UOp| has_rows && !with_rows.contains(s) || self.is_wide(n);
            let is_kept = |s: &UOp| over_rows(s) || self.is_along(s) && is_last(s);
            let narrow = n.src.iter().filter(|s| with_product.contains(*s) && !self.is_wide(s));
            kept.extend(narrow.filter(|s| is_kept(s)).cloned());
            if has_rows {
                with_rows.insert(n.clone());
            }
        }
        order.into_iter().filter(|n| kept.contains(n)).collect()
    }

    /// The same for one block of so many rows.
    fn of_block(&self, rows: i64) -> Chain {
        let last = self.count_blocks(rows) - 1;
        let (mut values, mut rest) = (FxHashMap::default(), UOp::variable(BLOCK, 0, last));
        let mut next = |n: i64| {
            let value = rest.modulo(&UOp::index(n));
            rest = rest.floordiv(&UOp::index(n));
            value
        };
        let range = |n: i64, id: u32| UOp::range(&UOp::index(n), id, AxisKind::Global);
        let mut is_new = None;
        let row = self.row.as_ref().map(|r| {
            let (all, own) = (extent(r), range(rows, ROW));
            let first = next((all + rows - 1) / rows).fold_mul(&UOp::index(rows));
            // the last block begins so early that it is full, and does not store again what others do
            let begin =
                if all % rows == 0 { first.clone() } else { first.bin(Alu::Min, &UOp::index(all - rows)) };
            let at = begin.fold_add(&own);
            is_new = (all % rows != 0).then(|| at.lt(&first).un(Alu::Not));
            values.insert(id(r), at);
            own
        });
        for b in self.batch.iter().rev() {
            values.insert(id(b), next(extent(b)));
        }
        let columns: Vec<UOp> = (COLUMNS..).zip(&self.columns).map(|(i, c)| range(extent(c), i)).collect();
        values.extend(self.columns.iter().map(id).zip(columns.iter().cloned()));
        let store = gated(substitute_open(&self.store, &values), is_new);
        Chain { store, batch: vec![], row, columns, along: self.along.clone() }
    }

    /// The kernels of a block, and the local memory between them.
    fn kernels(&self, first_local: u32) -> (Vec<UOp>, Vec<UOp>) {
        let walked = UOp::range(self.along.extent(), ALONG, AxisKind::Global);
        let (mut kernels, mut locals, mut kept) = (vec![], vec![], FxHashMap::default());
        let named: FxHashMap<u32, UOp> = [(id(&self.along), walked)].into_iter().collect();
        for (slot, n) in (first_local..).zip(self.stages()) {
            let along = Some(&self.along).filter(|_| self.is_along(&n));
            let over: Vec<&UOp> =
                along.into_iter().chain(self.row.iter().filter(|_| n.ranges.contains(&ROW))).collect();
            let at = over.iter().fold(UOp::index(0), |at, r| at.fold_mul(r.extent()).fold_add(r));
            let len: i64 = over.iter().map(|r| extent(r)).product();
            let local = UOp::param(slot, len as usize, n.dtype);
            let store = local.at(&at).store(&n.substitute(&kept));
            let ends: Vec<UOp> = over.iter().map(|r| substitute_open(r, &named)).collect();
            kernels.push(kernel(substitute_open(&store, &named).end(ends)));
            kept.insert(n, local.at(&at).load());
            locals.push(local);
        }
        let ends: Vec<UOp> = self.row.iter().chain(&self.columns).cloned().collect();
        kernels.push(kernel(self.store.substitute(&kept).end(ends)));
        let seen = self.seen();
        (kernels.iter().map(|k| simplify(&replace(k, &seen, |_, n| n)[k])).collect(), locals)
    }

    /// Loops along rows that end where a mask hides the rest of all rows: over some of so many steps.
    fn seen(&self) -> FxHashMap<u32, Replacement> {
        let mut loops = FxHashMap::default();
        let is_row = |n: &UOp| n.op == Op::Reduce && closed(n).contains(&id(&self.along));
        let reduces: Vec<UOp> = self.store.toposort().into_iter().filter(is_row).collect();
        let all = extent(&self.along);
        let steps = (1..=MOST_ROWS.min(all)).rev().find(|n| all % n == 0).filter(|n| *n * 8 >= MOST_ROWS);
        let end = mask::end_of(&reduces, &self.along, self.row.as_ref()).filter(|e| e.bounds.0 > 0);
        let (Some(steps), Some(end)) = (steps, end) else { return loops };
        let chunks = (&end + (steps - 1)).floordiv(&UOp::index(steps));
        let chunks = simplify(&chunks.bin(Alu::Min, &UOp::index(all / steps)));
        for (id, kind) in [(ALONG, AxisKind::Global), (CLOSED, AxisKind::Reduce)] {
            let (outer, inner) =
                (UOp::range(&chunks, id, kind), UOp::range(&UOp::index(steps), id + 1, kind));
            let value = outer.fold_mul(&UOp::index(steps)).fold_add(&inner);
            loops.insert(id, Replacement { value, ranges: smallvec![outer, inner] });
        }
        loops
    }
}

fn kernel(end: UOp) -> UOp {
    simplify(&UOp::sink([end]))
}

/// The same with one range for all reduces over rows, and one for all equal loops inside: what was computed for each of them
/// is one value.
fn shared(store: &UOp, over_rows: &[&UOp], along: &UOp) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut inner: Vec<(usize, UOp)> = vec![];
    for n in store.toposort() {
        let mut new = n.with_src(n.src.iter().map(|s| done[s].clone()).collect());
        if let (Op::Reduce, Arg::Alu(op)) = (n.op, &n.arg) {
            let mut own = |(k, r): (usize, &UOp)| {
                if over_rows.contains(&&n) {
                    return along.clone();
                }
                let key = (k, r.extent().clone());
                let at = inner.iter().position(|x| *x == key).unwrap_or_else(|| {
                    inner.push(key);
                    inner.len() - 1
                });
                UOp::range(r.extent(), SUMS + at as u32, AxisKind::Reduce)
            };
            let own: Vec<UOp> = n.closed_ranges().iter().enumerate().map(&mut own).collect();
            let names = closed(&n).into_iter().zip(own.iter().cloned()).collect();
            new = substitute_open(new.body(), &names).reduce(*op, own);
        }
        done.insert(n, new);
    }
    done[store].clone()
}

fn factors(n: &UOp) -> Vec<UOp> {
    if n.op == Op::Mul { n.src.iter().flat_map(factors).collect() } else { vec![n.clone()] }
}
fn product(factors: Vec<UOp>) -> Option<UOp> {
    factors.into_iter().reduce(|a, b| &a * &b)
}
