//! Chains of sums of products, as in attention: a product inside reduces over its rows, and another product of what those give.

use super::access::substitute_open;
use super::ranges::closed;
use frit_uop::rewrite::unrecorded;
use frit_uop::{Alu, Arg, AxisKind, DType, Op, UOp};
use rustc_hash::FxHashMap;

/// A kernel that stores what is made of reduces over rows of sums of products.
pub struct Chain {
    /// A sink of what is stored, with equal reduces over equal ranges.
    pub stores: UOp,
    /// Ranges of results, outermost first: of other blocks, of rows, of results that share a row.
    pub batch: Vec<UOp>,
    pub row: Option<UOp>,
    pub columns: Vec<UOp>,
    /// The range that all reduces over a row close.
    pub along: UOp,
}

/// What reduces over rows close, above all ids of results, and the first id of other sums. What walks along rows may become two
/// loops, and two more for the steps that are left.
pub const CLOSED: u32 = 67;
pub const LEFT: u32 = CLOSED + 2;
const SUMS: u32 = LEFT + 2;

/// The number of a range.
pub fn id(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}
/// Its extent, which chains know but for that of their rows.
pub fn extent(range: &UOp) -> i64 {
    range.extent().as_int().unwrap_or(0)
}

impl Chain {
    /// The chain that a kernel is, if it is one: reduces over a row, of what sums of products along it give.
    pub fn of(sink: &UOp) -> Option<Chain> {
        Chain::over(sink, |_| true).filter(Chain::is_fixed)
    }
    /// The same with one store and several reduces over a row, of which one is a sum of products. Only a variable may know how long
    /// a row is.
    pub fn of_any_length(sink: &UOp) -> Option<Chain> {
        Chain::over(sink, |over_rows| over_rows > 1).filter(|c| !c.columns.is_empty() && c.stores_once())
    }
    /// The same with one store and one reduce over a row, which may have no columns.
    pub fn of_one(sink: &UOp) -> Option<Chain> {
        Chain::over(sink, |over_rows| over_rows == 1).filter(|c| c.is_fixed() && c.stores_once())
    }
    fn is_fixed(&self) -> bool {
        self.along.extent().as_int().is_some()
    }
    fn stores_once(&self) -> bool {
        self.stores.src.len() == 1
    }
    /// What is stored first; of a chain that stores once, all.
    pub fn store(&self) -> &UOp {
        &self.stores.src[0]
    }

    fn over(sink: &UOp, fits: impl Fn(usize) -> bool) -> Option<Chain> {
        let end = sink.src.first()?;
        let is_alike =
            |e: &UOp| e.op == Op::End && e.src[0].op == Op::Store && e.closed_ranges() == end.closed_ranges();
        if !sink.src.iter().all(is_alike) {
            return None;
        }
        let order = sink.toposort();
        let is_other = |n: &UOp| match n.op {
            Op::Scan | Op::Stage | Op::After => true,
            Op::Reduce => !matches!(n.arg, Arg::Alu(_)),
            Op::Load | Op::Store => n.arg != Arg::None,
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
        let first = over_rows.first().filter(|_| fits(over_rows.len()))?.closed_ranges().first()?.extent();
        // only how long a row is may be a variable's
        if order.iter().any(|n| n.op == Op::Range && n.extent().as_int().is_none() && n.extent() != first) {
            return None;
        }
        let is_row = |n: &&UOp| n.closed_ranges().len() == 1 && n.closed_ranges()[0].extent() == first;
        let is_sum = |n: &&UOp| n.arg == Arg::Alu(Alu::Add) && !n.body().any(|b| b.op == Op::Reduce);
        if inner.is_empty() || !over_rows.iter().all(is_row) || !inner.iter().all(is_sum) {
            return None;
        }
        let along = UOp::range(first, CLOSED, AxisKind::Reduce);
        let stores = UOp::sink(sink.src.iter().map(|e| e.src[0].clone()));
        let stores = shared(&stores, &over_rows, &along);
        Some(Chain { stores, batch: vec![], row: None, columns: vec![], along }.with_rows(&results))
    }

    /// What each range of results is for.
    fn with_rows(mut self, results: &[UOp]) -> Chain {
        let along = id(&self.along);
        let order = self.stores.toposort();
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
        self.factor_out(&order, |_| None);
        self
    }

    /// Multiply what is the same for a whole sum after it, if it comes from a reduce over the row, also where a factor is rounded
    /// to bfloat16. That has float32's range, so the weights of a row before they are divided round as those after it.
    pub fn factor_out_of_roundings(mut self) -> Chain {
        let order = self.stores.toposort();
        self.factor_out(&order, |n| {
            let narrow = (n.op == Op::Cast && n.input().op == Op::Cast).then(|| n.input())?;
            let is_rounding =
                [narrow.input().dtype, narrow.dtype, n.dtype] == [DType::F32, DType::BF16, DType::F32];
            is_rounding.then(|| narrow.input())
        });
        self
    }

    /// Multiply what is the same for a whole sum after it, if it comes from a reduce over the row; `rounded` gives what was
    /// before a rounding that it may leave.
    fn factor_out(&mut self, order: &[UOp], rounded: impl Fn(&UOp) -> Option<&UOp>) {
        let along = id(&self.along);
        let mut new: FxHashMap<UOp, UOp> = FxHashMap::default();
        let is_sum =
            |n: &&UOp| n.op == Op::Reduce && n.arg == Arg::Alu(Alu::Add) && !n.ranges.contains(&along);
        for n in order.iter().filter(is_sum).filter(|n| n.dtype.is_float() && self.is_wide(n)) {
            let leaves = |f: &UOp| !f.ranges.contains(&along) && f.any(|x| x.op == Op::Reduce);
            let left = |f: UOp| {
                let parts = rounded(&f).map(|x| factors(x).into_iter().partition::<Vec<UOp>, _>(leaves));
                match parts.map(|(outside, inside)| (outside, product(inside))) {
                    Some((mut all, Some(x))) if !all.is_empty() => {
                        all.push(x.cast(DType::BF16).cast(DType::F32));
                        all
                    }
                    _ => vec![f],
                }
            };
            let all = factors(n.body()).into_iter().flat_map(left);
            let (outside, inside): (Vec<UOp>, Vec<UOp>) = all.partition(leaves);
            let (Some(body), false) = (product(inside), outside.is_empty()) else { continue };
            let sum = body.reduce(Alu::Add, [self.along.clone()]);
            new.extend(product(outside).map(|f| (n.clone(), &sum * &f)));
        }
        // whether the chain is walked as one is not known yet
        self.stores = unrecorded(|| self.stores.substitute(&new));
    }

    /// Whether it differs from column to column.
    pub fn is_wide(&self, n: &UOp) -> bool {
        self.columns.iter().any(|c| n.ranges.contains(&id(c)))
    }
    /// Whether it differs along a row.
    pub fn is_along(&self, n: &UOp) -> bool {
        n.ranges.contains(&id(&self.along))
    }
}

/// The same with one range for all reduces over rows, and one for all equal loops inside: what was computed for each of them
/// is one value.
fn shared(stores: &UOp, over_rows: &[&UOp], along: &UOp) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut inner: Vec<(usize, UOp)> = vec![];
    for n in stores.toposort() {
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
    done[stores].clone()
}

/// What a product is of.
pub fn factors(n: &UOp) -> Vec<UOp> {
    if n.op == Op::Mul { n.src.iter().flat_map(factors).collect() } else { vec![n.clone()] }
}
/// The product of factors, if there are any.
pub fn product(factors: Vec<UOp>) -> Option<UOp> {
    factors.into_iter().reduce(|a, b| &a * &b)
}
