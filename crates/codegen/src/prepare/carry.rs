//! Reduces that need each other become one fold, which reads what they read once.
//!
//! ```text
//! m = Reduce(x[r], r, Max);   s = Reduce(exp(x[q] - m), q, Add)
//!     ->   m, s = Reduce(x[q], 1, q) of a fold `Rescale`
//! ```
//! The table [`RULES`] says which. Loops one after the other are always right too, and keep sums in their order: what is
//! rescaled, and squares about a mean, round otherwise. So it is an opt, and the heuristic takes it only where a row is too
//! long to be kept nearby.

use crate::error::Error;
use crate::kernel::access::substitute_open;
use crate::kernel::cost::{MOST_LANES, ROW_ELEMENTS};
use crate::kernel::ranges::{self, closed};
use crate::pass::{Ctx, Opts};
use crate::plan::opt::Opt;
use frit_abi::Target;
use frit_uop::{Alu, Arg, DType, Merge, Op, Scalar, UOp};
use rustc_hash::FxHashMap;

/// The pass.
pub fn carry(sink: &UOp, ctx: &mut Ctx) -> Result<UOp, Error> {
    let found = match ctx.opts {
        Opts::Heuristic => find(sink, |pair, ranges| pair.pays(ranges, ctx.target)),
        Opts::List([opt @ Opt::Fold, rest @ ..]) => {
            ctx.opts = Opts::List(rest);
            let found = find(sink, |_, _| true);
            if found.is_empty() {
                let why = "no reduce needs another as the table of folds says".into();
                return Err(Error::Opt { opt: opt.to_string(), why });
            }
            found
        }
        Opts::List(_) => FxHashMap::default(),
    };
    if found.is_empty() {
        return Ok(sink.clone());
    }
    ctx.applied.push(Opt::Fold);
    Ok(sink.substitute(&found))
}

/// Whether there is anything that a fold could carry.
pub fn applies(sink: &UOp) -> bool {
    !find(sink, |_, _| true).is_empty()
}

/// What takes the place of each reduce that becomes a value of a fold.
fn find(sink: &UOp, pays: impl Fn(&Pair, &[UOp]) -> bool) -> FxHashMap<UOp, UOp> {
    let order = sink.toposort();
    let reduces: Vec<&UOp> = order.iter().filter(|n| n.op == Op::Reduce).collect();
    let (mut found, ranges) = (FxHashMap::default(), ranges::all(&order));
    for later in &reduces {
        for pair in reduces.iter().filter_map(|first| Pair::of(first, later)) {
            let Some(new) = RULES.iter().find_map(|rule| rule(&pair)).filter(|_| pays(&pair, &ranges)) else {
                continue;
            };
            if new.replaces_first {
                found.entry(pair.first.clone()).or_insert(new.values[0].clone());
            }
            found.insert(pair.later.clone(), new.result);
        }
    }
    found
}

/// A reduce, and one over equal ranges whose body needs it.
struct Pair<'a> {
    first: &'a UOp,
    later: &'a UOp,
    /// The body of the first, over the ranges of the later.
    x: UOp,
}

/// What a pair becomes.
struct Folded {
    values: Vec<UOp>,
    result: UOp,
    /// Whether the first value is what the first reduce gave.
    replaces_first: bool,
}

impl<'a> Pair<'a> {
    fn of(first: &'a UOp, later: &'a UOp) -> Option<Pair<'a>> {
        let ([x], [body]) = (first.bodies(), later.bodies()) else { return None };
        let (old, new) = (first.closed_ranges(), later.closed_ranges());
        let equal = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| a.extent() == b.extent());
        let is_below = first != later && first.ranges.iter().all(|r| later.ranges.contains(r));
        if !equal || !is_below || !body.any(|n| n == first) {
            return None;
        }
        let names = closed(first).into_iter().zip(new.iter().cloned()).collect();
        Some(Pair { first, later, x: substitute_open(x, &names) })
    }
    fn merge(&self, merge: Merge, values: &[UOp]) -> Vec<UOp> {
        UOp::fold(merge, values, self.later.closed_ranges())
    }
    fn ops(&self) -> Option<(Alu, Alu)> {
        match (&self.first.arg, &self.later.arg) {
            (Arg::Alu(a), Arg::Alu(b)) => Some((*a, *b)),
            _ => None,
        }
    }
    /// Whether it is made by default: a row is too long to be kept, and what is read until it is read again leaves the cache.
    fn pays(&self, ranges: &[UOp], target: &Target) -> bool {
        let extent = |r: &UOp| r.extent().bounds.1.clamp(1, 1 << 62) as u64;
        let around = |r: &&UOp| r.range_arg().is_some_and(|a| self.later.ranges.contains(&a.id));
        let row = self.later.closed_ranges().iter().map(extent).fold(1, u64::saturating_mul);
        let rows = ranges.iter().filter(around).map(extent).fold(1, u64::saturating_mul);
        let bytes = row.saturating_mul(self.x.dtype.size() as u64);
        let is_exact = self.ops().is_some_and(|(_, later)| later != Alu::Add);
        match target.grid {
            // all blocks share a cache
            Some(_) => {
                row > MOST_LANES * ROW_ELEMENTS as u64 && bytes.saturating_mul(rows) > target.l2() as u64
            }
            None => is_exact && bytes > target.l2() as u64,
        }
    }
}

/// How a reduce needs another, and the fold of both.
const RULES: &[fn(&Pair) -> Option<Folded>] = &[select, rescale, moments];

/// `op` of u where x is the best of x.
fn select(pair: &Pair) -> Option<Folded> {
    let (best @ (Alu::Max | Alu::Min), op) = pair.ops()? else { return None };
    let [is_best, u, none] = of(pair.later.body(), Op::Where)?;
    if none.as_scalar()? != Scalar::identity(op, none.dtype)? || u.any(|n| n == pair.first) {
        return None;
    }
    let is_equal = |n: &UOp| pairs(n, Op::Eq).iter().any(|[a, b]| *a == pair.x && *b == *pair.first);
    let is_nan = |n: &UOp| of(n, Op::Ne).is_some_and(|[a, b]| a == b && a == pair.x);
    let nan = pairs(&is_best, Op::Or).iter().any(|[a, b]| is_equal(a) && is_nan(b));
    if !nan && !is_equal(&is_best) {
        return None;
    }
    let values = pair.merge(Merge::Select { best, op, nan }, &[pair.x.clone(), u]);
    Some(Folded { result: values[1].clone(), values, replaces_first: true })
}

/// The sum of exp(x - m), or of that times u, where m is the greatest x.
fn rescale(pair: &Pair) -> Option<Folded> {
    let (Alu::Max, Alu::Add) = pair.ops()? else { return None };
    let m = pair.first;
    if !matches!(m.dtype, DType::F32 | DType::F64) {
        return None;
    }
    let body = pair.later.body();
    let exponential = |e: &UOp| {
        let [d] = of(e, Op::Exp)?;
        let [a, b] = of(&d, Op::Sub)?;
        (a == pair.x).then_some(b)
    };
    let (by, u) = match exponential(body) {
        Some(by) => (by, UOp::float(1.0, m.dtype)),
        None => pairs(body, Op::Mul).iter().find_map(|[e, u]| Some((exponential(e)?, u.clone())))?,
    };
    let number = |v: f64| UOp::float(v, m.dtype);
    let is = |v: f64| m.eq_(&number(v));
    let is_one = u.as_scalar().is_some_and(|v| v.as_f64() == 1.0);
    if u.any(|n| n == m) {
        return None;
    }
    let values = pair.merge(Merge::Rescale, &[pair.x.clone(), u]);
    let (all, sum) = (&values[0], &values[1]);
    let infinite = |v: f64| all.eq_(&number(v));
    // what the reduces would give where the greatest is infinite
    let result = if by == *m {
        let either = infinite(f64::INFINITY).or_(&infinite(f64::NEG_INFINITY));
        either.select(&number(f64::NAN), sum)
    } else if is_one && is_finite_part(&by, m, &is) {
        let low = infinite(f64::NEG_INFINITY).select(&number(0.0), sum);
        infinite(f64::INFINITY).select(&number(f64::INFINITY), &low)
    } else {
        return None;
    };
    Some(Folded { result, values, replaces_first: true })
}

/// Whether `by` is m, and 0 where that is infinite.
fn is_finite_part(by: &UOp, m: &UOp, is: &impl Fn(f64) -> UOp) -> bool {
    let Some([infinite, zero, other]) = of(by, Op::Where) else { return false };
    let (low, high) = (is(f64::NEG_INFINITY), is(f64::INFINITY));
    let either = pairs(&infinite, Op::Or).iter().any(|[a, b]| *a == low && *b == high);
    either && zero.as_scalar().is_some_and(|v| v.as_f64() == 0.0) && other == *m
}

/// The sum of squares about the mean. The sum itself stays as it is.
fn moments(pair: &Pair) -> Option<Folded> {
    let (Alu::Add, Alu::Add) = pair.ops()? else { return None };
    let [d, e] = of(pair.later.body(), Op::Mul)?;
    let [x, mean] = of(&d, Op::Sub)?;
    let dtype = x.dtype;
    if d != e || x != pair.x || !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    let n: Option<i64> = pair.later.closed_ranges().iter().map(|r| r.extent().as_int()).product();
    let share = UOp::float(1.0 / n.filter(|n| *n > 0)? as f64, dtype);
    if !pairs(&mean, Op::Mul).iter().any(|[a, b]| a == pair.first && *b == share) {
        return None;
    }
    let values = pair.merge(Merge::Moments, &[UOp::float(1.0, dtype), x, UOp::float(0.0, dtype)]);
    Some(Folded { result: values[2].clone(), values, replaces_first: false })
}

/// The operands of a node, where it is this op.
fn of<const N: usize>(n: &UOp, op: Op) -> Option<[UOp; N]> {
    let src: Vec<UOp> = n.src.to_vec();
    (n.op == op).then_some(src)?.try_into().ok()
}

/// The operands of a node that is this op, in both orders.
fn pairs(n: &UOp, op: Op) -> Vec<[UOp; 2]> {
    of(n, op).map_or(vec![], |[a, b]: [UOp; 2]| vec![[a.clone(), b.clone()], [b, a]])
}
