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
//! Gradients of attention are such chains too, of several products and with one reduce over a row:
//!
//! ```text
//! dv[j, d] = Reduce(exp(s[i, j] - m[i]) / l[i] * do[i, d], i)
//!
//!     ->   for blocks of j (threads) { P = exp(k q^T - m) / l;  dv = P do }
//! ```
//! Each step is a kernel of its own over a block, with opts of its own and one product at most, and reads what those before it
//! left in local memory: rows of the block side by side, so that vectors run along them. Where a matrix unit multiplies rounded
//! weights, it reads them as they are rounded, each row in one piece. [`join`](crate::order::join) makes one program of them.
//! Where a mask hides steps from all rows of a block, loops along rows do not walk them, and where it hides none from any, there
//! is no mask; a length may come from memory. Loops one inside the other are always right too, so it is an opt. Numbers are those
//! of the loops, but that a factor that is the same for a whole sum is multiplied after it.

use crate::error::Error;
use crate::kernel::access::{gated, substitute_open};
use crate::kernel::chain::{CLOSED, Chain, LEFT, extent, factors, id};
use crate::kernel::mask::{self, Interior};
use crate::kernel::ranges::{Replacement, closed, replace};
use crate::kernel::row_block::narrowed;
use crate::pass::{BLOCK, Blocks, Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use std::sync::Arc;

/// Rows of a block, at most.
const MOST_ROWS: i64 = 128;
/// Blocks for each thread, so that threads end together.
const BLOCKS_A_THREAD: i64 = 4;

/// The pass: the kernel, or those that a block of its rows walks through.
pub fn tile_and_fuse(sink: &UOp, ctx: &mut Ctx) -> Result<Vec<UOp>, Error> {
    let target = ctx.target;
    let chain = || {
        let chain = Chain::of(sink)?;
        let on_unit = chain.has_rounded_weights(target);
        Some((on_unit, if on_unit { chain.factor_out_of_roundings() } else { chain }))
    };
    let chosen = match ctx.opts {
        Opts::Heuristic => chain().map(|(on_unit, c)| (c.rows_of_block(target, on_unit), on_unit, c)),
        Opts::List([opt @ Opt::TileAndFuse { rows }, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let rows = *rows as i64;
            let fits = |c: &Chain| rest.is_empty() && (1..=c.count_rows()).contains(&rows);
            let chain = chain().filter(|(_, c)| fits(c));
            let why = "it is for chains of sums of products with so many rows, and the only one";
            let error = || Error::Opt { opt: opt.to_string(), why: why.into() };
            let (on_unit, chain) = chain.ok_or_else(error)?;
            Some((rows, on_unit, chain))
        }
        Opts::List(_) => None,
    };
    let Some((rows, on_unit, chain)) = chosen else { return Ok(vec![sink.clone()]) };
    let (count, first_local) = (chain.count_blocks(rows), ctx.params.len() as u32);
    let (kernels, locals) = chain.of_block(rows, on_unit).kernels(first_local, on_unit);
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

/// Ids of ranges in a kernel of a block: of rows, and of one or two loops that walk along them. Both are outside columns and sums;
/// rows are the inner ones, unless each lies in one piece for a unit.
const fn ids(on_unit: bool) -> (u32, u32) {
    if on_unit { (0, 1) } else { (2, 0) }
}
const COLUMNS: u32 = 3;

impl Chain {
    fn count_rows(&self) -> i64 {
        self.row.as_ref().map_or(1, extent)
    }
    fn count_blocks(&self, rows: i64) -> i64 {
        let batch: i64 = self.batch.iter().map(extent).product();
        batch * ((self.count_rows() + rows - 1) / rows)
    }
    /// As many rows as leave what they make in the second-level cache, and all threads busy; such that the last block is full,
    /// or nearly.
    fn rows_of_block(&self, target: &Target, on_unit: bool) -> i64 {
        let all = self.count_rows();
        let stages = self.stages(on_unit);
        let bytes: i64 = stages.iter().filter(|n| self.is_along(n)).map(|n| n.dtype.size() as i64).sum();
        let near = target.l2() as i64 / 2 / (extent(&self.along) * bytes).max(1);
        let most = near.clamp(1, MOST_ROWS).min(all);
        let enough = target.threads as i64 * BLOCKS_A_THREAD;
        let cost = |rows: &i64| {
            let blocks = (all + rows - 1) / rows;
            // work that is done twice; then parts of vectors; then idle threads; then what blocks read again
            let in_parts = rows % target.lanes(self.store().value().dtype).max(1) as i64 != 0;
            ((blocks * rows - all) * 16 > all, in_parts, self.count_blocks(*rows) < enough, blocks)
        };
        (1..=most).rev().min_by_key(cost).unwrap_or(1)
    }

    /// Whether the factor that all columns share is rounded to what a matrix unit takes, as the other one is.
    fn has_rounded_weights(&self, target: &Target) -> bool {
        let takes = |d: DType| target.matrix.iter().any(|u| u.size[0] > 1 && u.operands == [d; 2]);
        let is_on_unit = |n: &UOp| match &factors(n.body())[..] {
            [a, b] => {
                matches!((narrowed(a), narrowed(b)), (Some(a), Some(b)) if a.dtype == b.dtype && takes(a.dtype))
            }
            _ => false,
        };
        let order = self.stores.toposort();
        let mut last = order.iter().filter(|n| n.op == Op::Reduce && self.is_wide(n));
        last.any(|n| n.arg == Arg::Alu(Alu::Add) && !self.is_along(n) && is_on_unit(n))
    }

    /// What is kept in local memory, in order: what reduces over rows give, products with what is done to each of their
    /// results, and factors that all columns share. A unit's are kept as they are rounded, and before that too where a reduce over
    /// rows takes them so.
    fn stages(&self, on_unit: bool) -> Vec<UOp> {
        let order = self.stores.toposort();
        let over_rows = |n: &UOp| n.op == Op::Reduce && !self.is_along(n);
        let reduced: FxHashSet<&UOp> = order.iter().filter(|n| over_rows(n)).map(|n| n.body()).collect();
        // which have a product in their cone, and which a reduce over rows
        let (mut with_product, mut with_rows) = (FxHashSet::default(), FxHashSet::default());
        let mut kept: FxHashSet<UOp> = FxHashSet::default();
        let mut sums: FxHashMap<UOp, UOp> = FxHashMap::default();
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
            for s in narrow.filter(|s| is_kept(s)) {
                let rounded = narrowed(s).filter(|_| on_unit && self.is_wide(n));
                let exact = rounded.filter(|r| r.op == Op::Cast).map(|r| r.input());
                kept.extend(exact.filter(|x| reduced.contains(*x)).cloned());
                kept.insert(rounded.unwrap_or(s).clone());
            }
            if self.is_along(n) {
                let own = self.sum_of(n, &sums, &mut kept);
                sums.extend(own.map(|sum| (n.clone(), sum)));
            }
            if has_rows {
                with_rows.insert(n.clone());
            }
        }
        order.into_iter().filter(|n| kept.contains(n)).collect()
    }

    /// The sum of products that a step along rows has to compute, since what it is made of is not kept: one at most, so of what is
    /// made of several all but the last are kept.
    fn sum_of(&self, n: &UOp, sums: &FxHashMap<UOp, UOp>, kept: &mut FxHashSet<UOp>) -> Option<UOp> {
        if n.op == Op::Reduce {
            return Some(n.clone());
        }
        let made_of = n.src.iter().filter(|s| !kept.contains(*s)).filter_map(|s| Some((s, sums.get(s)?)));
        let made_of: Vec<(&UOp, &UOp)> = made_of.collect();
        let (_, last) = made_of.last()?;
        kept.extend(made_of.iter().filter(|(_, sum)| sum != last).map(|(s, _)| (*s).clone()));
        Some((*last).clone())
    }

    /// The same for one block of so many rows.
    fn of_block(&self, rows: i64, on_unit: bool) -> Chain {
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
            let (all, own) = (extent(r), range(rows, ids(on_unit).0));
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
        let moved = substitute_open(&self.stores, &values);
        let stores = UOp::sink(moved.src.iter().map(|s| gated(s.clone(), is_new.clone())));
        Chain { stores, batch: vec![], row, columns, along: self.along.clone() }
    }

    /// The kernels of a block, and the local memory between them.
    fn kernels(&self, first_local: u32, on_unit: bool) -> (Vec<UOp>, Vec<UOp>) {
        let (row, along) = ids(on_unit);
        let walked = UOp::range(self.along.extent(), along, AxisKind::Global);
        let (mut kernels, mut locals, mut kept) = (vec![], vec![], FxHashMap::default());
        let all = Replacement { value: walked.clone(), ranges: smallvec![walked] };
        let seen = self.seen();
        let left = seen.as_ref().and_then(|s| s.left.as_ref());
        let cut = |k: UOp| seen.as_ref().map_or_else(|| vec![k.clone()], |s| s.cut(&k, along, self));
        for n in self.stages(on_unit) {
            let of_row = self.row.iter().filter(|_| n.ranges.contains(&row)).cloned();
            let is_along = self.is_along(&n);
            let mut over: Vec<UOp> =
                Some(self.along.clone()).filter(|_| is_along).into_iter().chain(of_row).collect();
            if on_unit {
                over.reverse();
            }
            let local = element(first_local + locals.len() as u32, &over, n.dtype);
            let value = n.substitute(&kept);
            let store = local.store(&left.map_or(value.clone(), |l| l.added(&value, |sum| sum.clone())));
            let over_steps = |steps: &Replacement| {
                let walks = |r: &UOp| if *r == self.along { steps.ranges.to_vec() } else { vec![r.clone()] };
                let named = [(id(&self.along), steps.value.clone())].into_iter().collect();
                kernel(substitute_open(&store, &named).end(over.iter().flat_map(walks)))
            };
            kernels.extend(cut(over_steps(&all)));
            let left = left.filter(|_| is_along).map(|l| l.walked(along, AxisKind::Global));
            kernels.extend(left.map(|l| over_steps(&l)));
            locals.push(local.buffer().clone());
            kept.insert(n, local.load());
        }
        let last = self.stores.substitute(&kept);
        // what is stored of a row beside its results is stored once
        let columns = |s: &UOp| if self.is_wide(s) { &self.columns[..] } else { &[] };
        let over = |s: &UOp| self.row.iter().chain(columns(s)).cloned().collect::<Vec<UOp>>();
        for store in &last.src {
            // a product is the one sum of its kernel: what is left is added to what the others come to
            let so_far = |sum: &UOp| {
                let local = element(first_local + locals.len() as u32, &over(sum), sum.dtype);
                kernels.extend(cut(kernel(local.store(sum).end(over(sum)))));
                locals.push(local.buffer().clone());
                local.load()
            };
            let store = left.map_or(store.clone(), |l| l.added(store, so_far));
            kernels.extend(cut(kernel(store.end(over(&store)))));
        }
        (kernels, locals)
    }

    /// The steps along rows that a mask shows to some row, in chunks.
    fn seen(&self) -> Option<Seen> {
        let is_row = |n: &UOp| n.op == Op::Reduce && closed(n).contains(&id(&self.along));
        let reduces: Vec<UOp> = self.stores.toposort().into_iter().filter(is_row).collect();
        let all = extent(&self.along);
        let divides = (1..=MOST_ROWS.min(all)).rev().find(|n| all % n == 0 && *n * 8 >= MOST_ROWS);
        let steps = divides.or((all > MOST_ROWS).then_some(MOST_ROWS))?;
        let (first, last) = (UOp::index(0), UOp::index(all / steps));
        let in_chunks = |at: UOp| simplify(&at.bin(Alu::Max, &first).floordiv(&UOp::index(steps)));
        let begin = mask::begin_of(&reduces, &self.along, self.row.as_ref()).map(in_chunks);
        let end = mask::end_of(&reduces, &self.along, self.row.as_ref());
        let behind = end.clone().map_or(UOp::index(1), |e| e - all / steps * steps);
        let times = simplify(&behind.bin(Alu::Max, &first).bin(Alu::Min, &UOp::index(1)));
        let left = Left { first: all / steps * steps, steps: all % steps, times };
        let end = end.map(|e| in_chunks(e + (steps - 1)).bin(Alu::Min, &last));
        if begin.is_none() && end.is_none() {
            return None;
        }
        let (begin, end) = (begin.unwrap_or(first.clone()), end.unwrap_or(last.clone()));
        // of rows that see nothing a chunk is computed, so that every loop runs
        let begin = simplify(&begin.bin(Alu::Min, &UOp::index(all / steps - 1)));
        let chunks = simplify(&(&end - &begin).bin(Alu::Max, &UOp::index(1)));
        Some(Seen { steps, begin, chunks, left: (left.steps > 0).then_some(left) })
    }
}

/// The steps that some row of a block sees: whole chunks, and those that no chunk has.
struct Seen {
    steps: i64,
    begin: UOp,
    chunks: UOp,
    left: Option<Left>,
}

/// The last steps along rows, where they are no whole chunk: none if no row sees one.
struct Left {
    first: i64,
    steps: i64,
    times: UOp,
}

impl Left {
    /// Loops over them.
    fn walked(&self, id: u32, kind: AxisKind) -> Replacement {
        let (outer, inner) =
            (UOp::range(&self.times, id, kind), UOp::range(&UOp::index(self.steps), id + 1, kind));
        let value =
            outer.fold_mul(&UOp::index(self.steps)).fold_add(&inner).fold_add(&UOp::index(self.first));
        Replacement { value, ranges: smallvec![outer, inner] }
    }
    /// A value whose reduces over chunks of rows take these steps too, after what `so_far` gives.
    fn added(&self, value: &UOp, mut so_far: impl FnMut(&UOp) -> UOp) -> UOp {
        let mut both = FxHashMap::default();
        for n in value.toposort() {
            let Arg::Alu(op) = n.arg else { continue };
            if n.op != Op::Reduce || !closed(&n).contains(&CLOSED) {
                continue;
            }
            let own = self.walked(LEFT, AxisKind::Reduce);
            let body = substitute_open(n.body(), &[(CLOSED, own.value)].into_iter().collect());
            both.insert(n.clone(), so_far(&n).bin(op, &body.reduce(op, own.ranges)));
        }
        value.substitute(&both)
    }
}

impl Seen {
    /// A kernel whose loop along rows runs over these steps. What stores a value of each step, under masks, is cut in several: where
    /// all rows see all steps there are no masks.
    fn cut(&self, kernel: &UOp, walked: u32, chain: &Chain) -> Vec<UOp> {
        let order = kernel.toposort();
        let over = |chunks: [&UOp; 2], kernel: &UOp| {
            let loops = [(walked, AxisKind::Global), (CLOSED, AxisKind::Reduce)];
            let loops = loops.into_iter().map(|(id, kind)| (id, self.chunks(chunks, id, kind))).collect();
            simplify(&replace(kernel, &loops, |_, n| n)[kernel])
        };
        let whole = || vec![over([&self.begin, &self.chunks], kernel)];
        let Some(along) = order.iter().find(|n| n.range_arg().is_some_and(|a| a.id == walked)) else {
            return whole();
        };
        let inside = Interior::of(&order, along, chain.row.as_ref());
        let end = &self.begin + &self.chunks;
        let within = |at: UOp, from: &UOp| simplify(&at.bin(Alu::Max, from).bin(Alu::Min, &end));
        let chunk = |at: UOp| simplify(&at.floordiv(&UOp::index(self.steps)));
        let from = inside.begin.map(|b| within(chunk(b + (self.steps - 1)), &self.begin));
        let from = from.unwrap_or(self.begin.clone());
        let to = inside.end.map_or(end.clone(), |e| within(chunk(e), &from));
        let count = |from: &UOp, to: &UOp| simplify(&(to - from).bin(Alu::Max, &UOp::index(0)));
        let seen = count(&from, &to);
        if inside.decided.is_empty() || seen.bounds.1 <= 0 {
            return whole();
        }
        let (before, after) = (count(&self.begin, &from), count(&to, &end));
        let bare = kernel.substitute(&inside.decided);
        let parts = [(&self.begin, &before, kernel), (&from, &seen, &bare), (&to, &after, kernel)];
        let parts = parts.into_iter().filter(|(_, count, _)| count.bounds.1 > 0);
        parts.map(|(first, count, kernel)| over([first, count], kernel)).collect()
    }

    /// A loop over chunks from one on.
    fn chunks(&self, [first, count]: [&UOp; 2], id: u32, kind: AxisKind) -> Replacement {
        let steps = UOp::index(self.steps);
        let (outer, inner) = (UOp::range(count, id, kind), UOp::range(&steps, id + 1, kind));
        let value = (first + &outer).fold_mul(&steps).fold_add(&inner);
        Replacement { value, ranges: smallvec![outer, inner] }
    }
}

/// An element of local memory over some ranges.
fn element(slot: u32, over: &[UOp], dtype: DType) -> UOp {
    let at = over.iter().fold(UOp::index(0), |at, r| at.fold_mul(r.extent()).fold_add(r));
    let len: i64 = over.iter().map(extent).product();
    UOp::param(slot, len as usize, dtype).at(&at)
}

fn kernel(end: UOp) -> UOp {
    simplify(&UOp::sink([end]))
}
