//! A factor that a sum walks across its rows is transposed once, by a program before.
//!
//! Of a product one factor makes vectors, and those of the other are used one by one. Where the sum goes from row to row in both,
//! each step takes another line of that one, and they fall into the same sets of a cache.
//!
//! ```text
//! out[i, j] = Reduce(x[k, i] * y[k, j], k)
//!     ->   work[i, k] = x[k, i]
//!     and  out[i, j] = Reduce(work[i, k] * y[k, j], k)
//! ```

use crate::error::Error;
use crate::kernel::access::{coefficient, substitute_open};
use crate::kernel::contraction::sums;
use crate::kernel::ranges::{self, closed};
use crate::pass::{Ctx, Opts, named};
use crate::plan::Plan;
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;

/// Cycles for an element that is transposed, until a second program runs, and the part of a product's time that walking across
/// rows takes.
const TRANSPOSED: f64 = 0.7;
const LAUNCH: f64 = 6000.0;
const ACROSS: f64 = 0.3;

/// The pass: the kernel, or two that run one after the other with a workspace between them.
pub fn transpose_factor(sink: &UOp, ctx: &mut Ctx) -> Result<Vec<UOp>, Error> {
    let factor = match ctx.opts {
        // a block's rows are near
        Opts::Heuristic if ctx.blocks.is_some() => None,
        Opts::Heuristic => Factor::of(sink, ctx.target).filter(|f| f.pays(ctx.target)),
        Opts::List([opt @ Opt::TransposeFactor, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let why = || "no sum walks across the rows of both factors of a product".into();
            Some(
                Factor::of(sink, ctx.target)
                    .ok_or_else(|| Error::Opt { opt: opt.to_string(), why: why() })?,
            )
        }
        Opts::List(_) => None,
    };
    let Some(factor) = factor else { return Ok(vec![sink.clone()]) };
    let work = ctx.workspace(factor.elements, factor.value.dtype);
    ctx.applied.push(Opt::TransposeFactor);
    ctx.main = 1;
    Ok(vec![factor.transposed(sink, &work), factor.used(sink, &work)])
}

/// The smaller factor of a product whose sum walks across the rows of both; of several sums the factor that all share.
struct Factor {
    /// A load, or what is made of one element by element.
    value: UOp,
    /// What it moves with: ranges of results, then those of the sum.
    ranges: Vec<UOp>,
    elements: usize,
    /// How often each is multiplied.
    uses: f64,
}

impl Factor {
    fn of(sink: &UOp, target: &Target) -> Option<Factor> {
        let sums = sums(sink).ok()?;
        let plan = Plan::new(sink, target).ok()?;
        // what a factor is made of, where that is one load
        let load_of = |factor: &UOp| plan.operands.iter().find(|l| plan.staged(l) == *factor).cloned();
        let first = sums.first()?;
        let is_for_vectors = |sum: &UOp| {
            let types = sum.body().operands().map(|f| f.dtype);
            let has_unit = target.matrix.iter().any(|u| u.size[0] > 1 && u.operands == types);
            !has_unit && types.iter().all(|t| *t == sum.dtype)
        };
        if !sums.iter().all(is_for_vectors) {
            return None;
        }
        let all = ranges::all(&sink.toposort());
        let id = |r: &UOp| r.range_arg().map(|a| a.id);
        let summed = closed(first);
        let is_summed = |r: &&UOp| id(r).is_some_and(|id| summed.contains(&id));
        let count = |of: &[UOp]| -> Option<usize> {
            of.iter().try_fold(1usize, |n, r| n.checked_mul(usize::try_from(r.extent().as_int()?).ok()?))
        };
        let work = count(&all)?;
        let lanes = target.lanes(first.dtype);
        let factor = |value: &UOp| {
            let load = load_of(value).filter(|l| l.dtype == value.dtype)?;
            let idx = load.index();
            let moving = all.iter().filter(|r| id(r).is_some_and(|id| idx.ranges.contains(&id)));
            let (inner, outer): (Vec<UOp>, Vec<UOp>) = moving.cloned().partition(|r| is_summed(&r));
            let step = |r: &UOp| coefficient(idx, id(r)?);
            let is_long = |r: &&UOp| r.extent().as_int().is_some_and(|n| n >= lanes as i64);
            // rows of results side by side, and each step of the sum in another one
            let is_across = outer.iter().filter(is_long).any(|r| step(r) == Some(1))
                && inner.iter().filter(is_long).count() > 0
                && inner.iter().all(|r| step(r).is_some_and(|s| s.unsigned_abs() as usize >= lanes));
            let ranges: Vec<UOp> = outer.into_iter().chain(inner).collect();
            let elements = count(&ranges).filter(|n| *n > 0)?;
            // no window that overlaps with others
            let is_once = elements as i128 <= idx.bounds.1 - idx.bounds.0 + 1;
            let is_plain = load.arg == Arg::None && idx.op != Op::Where && load.buffer().op == Op::Param;
            let uses = work as f64 / elements as f64;
            (is_across && is_once && is_plain).then(|| Factor {
                value: value.clone(),
                ranges,
                elements,
                uses,
            })
        };
        let is_shared = |f: &Factor| sums.iter().all(|s| s.body().operands().contains(&&f.value));
        let factors = sums.iter().flat_map(|s| s.body().operands()).map(factor);
        let all = factors.collect::<Option<Vec<Factor>>>()?;
        all.into_iter().filter(is_shared).min_by_key(|f| f.elements)
    }

    /// Whether that is less than what walking across its rows takes: they are many for a cache, and used often.
    fn pays(&self, target: &Target) -> bool {
        let (threads, lanes) = (target.threads.max(1) as f64, target.lanes(self.value.dtype) as f64);
        let bytes = self.elements * self.value.dtype.size();
        let vectors = self.elements as f64 * self.uses / lanes;
        let gain = ACROSS * vectors / target.costs.fma_ports.get();
        bytes > target.caches[0] && gain > TRANSPOSED * self.elements as f64 + LAUNCH * threads
    }

    /// Its element's place, by what these ranges have become.
    fn place(&self, work: &UOp, ranges: &[UOp]) -> UOp {
        let flat = |at: UOp, (r, old): (&UOp, &UOp)| at.fold_mul(old.extent()).fold_add(r);
        work.at(&ranges.iter().zip(&self.ranges).fold(UOp::index(0), flat))
    }

    fn transposed(&self, sink: &UOp, work: &UOp) -> UOp {
        let new = |(i, r): (usize, &UOp)| UOp::range(r.extent(), i as u32, AxisKind::Global);
        let ranges: Vec<UOp> = self.ranges.iter().enumerate().map(new).collect();
        let ids = self.ranges.iter().filter_map(|r| r.range_arg().map(|a| a.id));
        let values: FxHashMap<u32, UOp> = ids.zip(ranges.iter().cloned()).collect();
        let value = substitute_open(&self.value, &values);
        named(&[self.place(work, &ranges).store(&value).end(ranges)], sink, "_transposed")
    }

    fn used(&self, sink: &UOp, work: &UOp) -> UOp {
        let new = [(self.value.clone(), self.place(work, &self.ranges).load())].into_iter().collect();
        named(&sink.substitute(&new).src, sink, "")
    }
}
