//! Cut a long sum of products into slices, and add those up in another program.
//!
//! On a CPU, what a tile of results reads of a slice stays in the second-level cache while all other results use it; on a
//! grid, slices are for lanes that few results leave idle, and for processors that a matrix unit's few blocks do. Partial
//! sums lie in a workspace by the number of their slice, so they are always added in the same order. What is left of a sum that
//! slices do not divide is a shorter slice, by a program of its own.
//!
//! ```text
//! out[i] = f(Reduce(x[i, k] * y[i, k], k))
//!     ->   work[s, i] = Reduce(x[i, s*len + k] * y[i, s*len + k], k)
//!     and  work[n, i] = Reduce(x[i, n*len + k] * y[i, n*len + k], k)
//!     and  out[i] = f(Reduce(work[s, i], s))
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::contraction::Product;
use crate::kernel::cost::{FEW_RESULTS, MOST_LANES};
use crate::kernel::ranges::{self, closed};
use crate::pass::{Ctx, Opts, named};
use crate::plan::opt::Opt;
use crate::plan::shape::{After, Products};
use frit_abi::target::Grid;
use frit_abi::{MatrixUnit, Target};
use frit_uop::{Alu, Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// How often each value is used, at least, where a cut pays, and where many tiles of results use it.
const REUSE: u64 = 8;
const OFTEN: u64 = 32;
/// Slices at most.
const MOST_SLICES: u64 = 256;
/// Results for each thread from which slices are not needed to keep threads busy.
const RESULTS_A_THREAD: u64 = 8;
/// On a grid: results that a lane computes at once, and products that it adds up at least; where a block has one result, a
/// lane's share of it at least.
const RESULTS_A_LANE: u64 = 8;
const PRODUCTS_A_LANE: u64 = 64;
const SHARE_OF_A_LANE: u64 = 16;
/// Cycles until a second program runs, and the part of the time that slices must save at least.
const LAUNCH: f64 = 4000.0;
const WORTH: f64 = 0.1;

/// The pass: the kernel, or two that run one after the other with a workspace between them.
pub fn split_reduce(sink: &UOp, ctx: &mut Ctx) -> Result<Vec<UOp>, Error> {
    let n = match ctx.opts {
        // a block's sums are short enough
        Opts::Heuristic if ctx.blocks.is_some() => None,
        Opts::Heuristic => LongSum::of(sink, ctx.target).and_then(|sum| sum.slices(ctx.target)),
        Opts::List([opt @ Opt::SplitReduce { n }, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let cuts = |sum: LongSum| *n > 1 && extent(&sum.axis) >= *n as u64;
            if !LongSum::of(sink, ctx.target).is_some_and(cuts) {
                let why = "no sum of products has an axis that is so long".into();
                return Err(Error::Opt { opt: opt.to_string(), why });
            }
            Some(*n as u64)
        }
        Opts::List(_) => None,
    };
    let (Some(n), Some(sum)) = (n, LongSum::of(sink, ctx.target)) else { return Ok(vec![sink.clone()]) };
    let all = Slice::all(extent(&sum.axis), n, ctx.target);
    let count: u64 = all.iter().map(|s| s.count).sum();
    let len = count.saturating_mul(sum.count(&sum.results)) as usize;
    let work: Vec<UOp> = sum.reduces.iter().map(|r| ctx.workspace(len, r.dtype)).collect();
    ctx.applied.push(Opt::SplitReduce { n: n as usize });
    let mut programs: Vec<UOp> = all.iter().map(|s| sum.partial(sink, s, &work)).collect();
    programs.push(sum.merged(sink, count as i64, &work));
    Ok(programs)
}

/// Slices of one length that one program adds up.
struct Slice {
    /// The number of the first, and how many there are.
    first: u64,
    count: u64,
    /// Where the first begins, and how long each is.
    begin: u64,
    len: u64,
}

impl Slice {
    /// A sum of a length in `n` slices, and a shorter one of what is left.
    fn all(length: u64, n: u64, target: &Target) -> Vec<Slice> {
        let len = match length.is_multiple_of(n) {
            true => length / n,
            // whole vectors along the sum, and steps that unroll
            false => whole(length / n, target),
        };
        let rest = Slice { first: n, count: 1, begin: n * len, len: length - n * len };
        let equal = Slice { first: 0, count: n, begin: 0, len };
        if rest.len > 0 { vec![equal, rest] } else { vec![equal] }
    }
}

/// The largest whole number of vectors of words within a length that has many.
fn whole(len: u64, target: &Target) -> u64 {
    let lanes = (target.vector_bytes as u64 / 4).max(1);
    if len >= 8 * lanes { len / lanes * lanes } else { len }
}

fn extent(range: &UOp) -> u64 {
    range.extent().as_int().map_or(0, |n| n.max(0) as u64)
}

fn count<'a>(ranges: impl IntoIterator<Item = &'a UOp>) -> u64 {
    ranges.into_iter().fold(1, |n: u64, r| n.saturating_mul(extent(r)))
}

/// The only sum of a kernel, of products, with nothing but constant extents around; on a CPU also several in one loop.
struct LongSum {
    reduces: Vec<UOp>,
    /// The ranges that results are over, and those that are summed over, outermost first.
    results: Vec<UOp>,
    summed: Vec<UOp>,
    /// The longest of those that are summed over; for a unit the outermost, so that what is left is still walked as one.
    axis: UOp,
    unit: Option<OnUnit>,
}

/// A matrix unit of a grid, and the rows, columns and depth of the product that it may take.
struct OnUnit {
    unit: MatrixUnit,
    sizes: [usize; 3],
    batches: usize,
    /// The results' ranges in the order of partial sums: columns innermost, and of those that have neighbours in memory, as
    /// the unit walks them.
    order: Vec<usize>,
}

impl OnUnit {
    fn of(sink: &UOp, target: &Target, results: &[UOp], summed: &[UOp]) -> Option<OnUnit> {
        target.grid.as_ref()?;
        let product = Product::of(sink).ok()?;
        let takes = |u: &&MatrixUnit| {
            u.accumulates(product.reduce.dtype) && [0, 1].map(|i| product.loads[i].dtype) == u.operands
        };
        let unit = *target.matrix.iter().filter(takes).max_by_key(|u| u.size.iter().product::<usize>())?;
        let walked = |r: &&UOp| {
            let id = r.range_arg().map_or(u32::MAX, |a| a.id);
            [0, 1].map(|i| product.loads[i].index().ranges.contains(&id))
        };
        let size = |of: [bool; 2]| count(results.iter().filter(|r| walked(r) == of)) as usize;
        let (rows, columns) = (size([true, false]), size([false, true]));
        let batches = size([true, true]) * size([false, false]);
        let step = |r: &UOp, of: usize| {
            let id = r.range_arg().map_or(u32::MAX, |a| a.id);
            coefficient(product.loads[of].index(), id).map_or(u64::MAX, i64::unsigned_abs)
        };
        let place = |r: &UOp| match walked(&r) {
            [false, true] => (2, Reverse(step(r, 1))),
            [true, false] => (1, Reverse(step(r, 0))),
            _ => (0, Reverse(0)),
        };
        let mut order: Vec<usize> = (0..results.len()).collect();
        order.sort_by_key(|i| place(&results[*i]));
        Some(OnUnit { unit, sizes: [rows, columns, count(summed) as usize], batches, order })
    }

    /// The slices of an axis by which it is estimated to be done first, the second program included.
    fn slices(&self, grid: &Grid, axis: usize) -> Option<u64> {
        let [m, n, k] = self.sizes;
        let results = (m * n * self.batches) as f64;
        let bytes = self.unit.accumulator.size();
        let far = (grid.processors.far_bandwidth * grid.processors.count) as f64;
        let cycles = |slices: usize| {
            let (sizes, batches) = ([m, n, k / slices], self.batches * slices);
            let after = After { instructions: 0, bytes };
            let shapes = Products { unit: self.unit, sizes, batches, after }.ranked(grid);
            let sums = shapes.first().map_or(f64::INFINITY, |(_, cycles)| *cycles);
            let merge = LAUNCH + results * (bytes * (slices + 1)) as f64 / far;
            sums + if slices > 1 { merge } else { 0.0 }
        };
        let all = (1..=axis.min(MOST_SLICES as usize)).filter(|s| axis.is_multiple_of(*s));
        let best = all.map(|s| (s, cycles(s))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        (best.0 > 1 && best.1 < (1.0 - WORTH) * cycles(1)).then_some(best.0 as u64)
    }
}

impl LongSum {
    fn of(sink: &UOp, target: &Target) -> Option<LongSum> {
        let order = sink.toposort();
        let reduces = order.iter().filter(|n| matches!(n.op, Op::Reduce | Op::Scan));
        let reduces: Vec<UOp> = reduces.cloned().collect();
        let reduce = reduces.first()?;
        let is_product =
            |r: &UOp| r.op == Op::Reduce && r.arg == Arg::Alu(Alu::Add) && r.body().op == Op::Mul;
        let is_beside = |r: &UOp| {
            r.closed_ranges() == reduce.closed_ranges()
                && r.ranges == reduce.ranges
                && r.dtype == reduce.dtype
        };
        let fits = |r: &UOp| is_product(r) && is_beside(r);
        let all = ranges::all(&order);
        if !reduces.iter().all(fits)
            || reduces.len() > 1 && target.grid.is_some()
            || all.iter().any(|r| r.extent().as_int().is_none())
        {
            return None;
        }
        let of = |ids: &[u32]| -> Vec<UOp> {
            all.iter().filter(|r| r.range_arg().is_some_and(|a| ids.contains(&a.id))).cloned().collect()
        };
        let (results, summed) = (of(&reduce.ranges), of(&closed(reduce)));
        let unit = OnUnit::of(sink, target, &results, &summed);
        let axis = match unit {
            Some(_) => summed.iter().find(|r| extent(r) > 1)?,
            // the outermost of equals
            None => summed.iter().rev().max_by_key(|r| extent(r))?,
        };
        Some(LongSum { axis: axis.clone(), reduces, results, summed, unit })
    }

    fn count(&self, ranges: &[UOp]) -> u64 {
        count(ranges)
    }

    /// Into how many slices it is cut: as many as keep a grid busy, or as a unit is done with first; on a CPU so many that
    /// what two vectors of results read of one stays close while all others use it, if the partial sums are little beside
    /// what is read.
    fn slices(&self, target: &Target) -> Option<u64> {
        let (results, length) = (self.count(&self.results), self.count(&self.summed));
        if let (Some(grid), Some(unit)) = (&target.grid, &self.unit) {
            return unit.slices(grid, extent(&self.axis) as usize);
        }
        if let Some(grid) = &target.grid {
            let lanes = grid.processors.count as u64 * grid.processors.lanes as u64;
            let is_tiled = self.factors().iter().all(|f| self.bytes_read(f).is_some());
            // few results have a block each, and those that share nothing
            let block = (grid.max_block as u64).min(MOST_LANES);
            let (busy, least) = match results {
                n if n > FEW_RESULTS && is_tiled => (n / RESULTS_A_LANE, PRODUCTS_A_LANE),
                n => (n.max(1) * block, SHARE_OF_A_LANE * block),
            };
            let slices = (lanes / busy).min(length / least).min(MOST_SLICES);
            let divides = |n: &u64| extent(&self.axis).is_multiple_of(*n);
            return (2..=slices).rev().find(divides);
        }
        if results < RESULTS_A_THREAD * target.threads as u64 {
            return None;
        }
        let factors = self.factors();
        let read = factors.iter().map(|f| self.bytes_read(f)).collect::<Option<Vec<u64>>>()?;
        let bytes = read.into_iter().fold(0, u64::saturating_add);
        // what many tiles use leaves room for the lines of the other factor
        let near = target.l2() as u64 / if factors.iter().all(|f| self.is_used(f, OFTEN)) { 8 } else { 4 };
        let slices = length.saturating_mul(2 * target.vector_bytes as u64).div_ceil(near).min(MOST_SLICES);
        let size = self.reduces.iter().map(|r| r.dtype.size() as u64).sum();
        let sums = results.saturating_mul(slices).saturating_mul(size);
        if slices < 2 || sums > bytes / 2 {
            return None;
        }
        // nothing left over is best, but not at the price of short ones
        let divides = |n: &u64| extent(&self.axis).is_multiple_of(*n);
        (slices..=slices * 3 / 2).find(divides).or(Some(slices).filter(|n| extent(&self.axis) > *n))
    }

    /// What the sums multiply, each once.
    fn factors(&self) -> Vec<UOp> {
        let mut all: Vec<UOp> = vec![];
        for f in self.reduces.iter().flat_map(|r| r.body().operands()) {
            if !all.contains(f) {
                all.push(f.clone());
            }
        }
        all
    }
    /// What a factor reads, if each element of that is used many times.
    fn bytes_read(&self, factor: &UOp) -> Option<u64> {
        self.is_used(factor, REUSE).then(|| self.elements(factor).saturating_mul(factor.dtype.size() as u64))
    }
    /// Whether a factor reads something, and each element of that is used so often.
    fn is_used(&self, factor: &UOp, times: u64) -> bool {
        let all = self.count(&self.results).saturating_mul(self.count(&self.summed));
        let elements = self.elements(factor);
        elements > 0 && elements.saturating_mul(times) <= all
    }
    /// How many elements a factor reads of what it reads most of.
    fn elements(&self, factor: &UOp) -> u64 {
        let of = |load: &UOp| {
            let idx = load.index();
            let walked = self.results.iter().chain(&self.summed);
            let walked = walked.filter(|r| r.range_arg().is_some_and(|a| idx.ranges.contains(&a.id)));
            let span = (idx.bounds.1 - idx.bounds.0).clamp(0, i64::MAX as i128) as u64 + 1;
            walked.fold(1, |n: u64, r| n.saturating_mul(extent(r))).min(span)
        };
        factor.toposort().iter().filter(|n| n.op == Op::Load).map(of).max().unwrap_or(0)
    }

    /// A place in the workspace: slices outermost, results as their ranges lie, or as a unit has them.
    fn place(&self, work: &UOp, slice: &UOp, results: &[UOp]) -> UOp {
        let as_they_lie: Vec<usize> = (0..results.len()).collect();
        let order = self.unit.as_ref().map_or(&as_they_lie, |u| &u.order);
        let of = |at: UOp, i: &usize| at.fold_mul(results[*i].extent()).fold_add(&results[*i]);
        work.at(&order.iter().fold(slice.clone(), of))
    }

    /// The program that writes partial sums for each of some slices and each result.
    fn partial(&self, sink: &UOp, slices: &Slice, work: &[UOp]) -> UOp {
        let mut next = 0;
        let mut range = |extent: u64, kind: AxisKind| {
            next += 1;
            UOp::range(&UOp::index(extent as i64), next - 1, kind)
        };
        let mut values: FxHashMap<u32, UOp> = FxHashMap::default();
        let mut put = |old: &UOp, new: UOp| _ = old.range_arg().map(|a| values.insert(a.id, new));
        let mut ends: Vec<UOp> =
            (slices.count > 1).then(|| range(slices.count, AxisKind::Global)).into_iter().collect();
        let slice = ends.first().cloned().unwrap_or_else(|| UOp::index(0));
        let mut results = vec![];
        for r in &self.results {
            results.push(range(extent(r), AxisKind::Global));
            put(r, results[results.len() - 1].clone());
        }
        let begin = slice.fold_mul(&UOp::index(slices.len as i64)).fold_add(&UOp::index(slices.begin as i64));
        let mut summed = vec![];
        for r in &self.summed {
            let is_cut = *r == self.axis;
            let own = range(if is_cut { slices.len } else { extent(r) }, AxisKind::Reduce);
            put(r, if is_cut { begin.fold_add(&own) } else { own.clone() });
            summed.push(own);
        }
        let number = slice.fold_add(&UOp::index(slices.first as i64));
        ends.extend(results.iter().cloned());
        let stores = self.reduces.iter().zip(work).map(|(reduce, work)| {
            let sum = substitute_open(reduce.body(), &values).reduce(Alu::Add, summed.iter().cloned());
            self.place(work, &number, &results).store(&sum).end(ends.iter().cloned())
        });
        named(&stores.collect::<Vec<_>>(), sink, if slices.first == 0 { "" } else { "_rest" })
    }

    /// The kernel with the sum of the partial ones. A loop that used the sum, as that of a row which is scaled by it, has
    /// iterations of its own now: each adds up the few partial ones again.
    fn merged(&self, sink: &UOp, n: i64, work: &[UOp]) -> UOp {
        let order = sink.toposort();
        let slice = UOp::range(&UOp::index(n), ranges::next_id(&order), AxisKind::Reduce);
        let sum = |work| self.place(work, &slice, &self.results).load().reduce(Alu::Add, [slice.clone()]);
        let mut new: FxHashMap<UOp, UOp> = self.reduces.iter().cloned().zip(work.iter().map(sum)).collect();
        let all = ranges::all(&order);
        let of_loop = |r: &UOp| r.range_arg().filter(|a| a.kind == AxisKind::Loop).map(|a| a.id);
        let mut loops = all.iter().filter_map(|r| Some((r, of_loop(r)?)));
        if let (Some((r, id)), None) = (loops.next(), loops.next()) {
            new.insert(r.clone(), UOp::range(r.extent(), id, AxisKind::Global));
        }
        named(&sink.substitute(&new).src, sink, "_merge")
    }
}
