//! In which order the dims of what is stored lie in memory: a choice of its readers, since no one else sees it.
//!
//! A matrix unit's factors are copied in vectors, so the innermost dim should be one that readers walk step by step from
//! places that are aligned. A convolution walks rows of an image through its window, and those are not:
//!
//! ```text
//! a[n, c, y + i, x + j]   ->   a[n, y + i, x + j, c]        channels last
//! ```
//! Kernels that only pass such values on element by element walk them in the same order, and so on to the values that those
//! read, unless another must walk rows of them: a transposition would cost more than what it gains.

use super::request::{Draft, Order, Request, is_plain};
use frit_uop::symbolic::compare;
use frit_uop::symbolic::sum::split_term;
use frit_uop::{Op, UOp};

/// The order that readers want, where it is not that of the dims: `vector` elements are moved at once, `is_factor` says which
/// requests are a unit's.
pub fn order(
    dims: &[UOp],
    vector: i64,
    asked: &[Request],
    drafts: &[Draft],
    is_factor: impl Fn(&Request) -> bool,
) -> Option<Order> {
    let factors: Vec<&Request> = asked.iter().filter(|r| is_factor(r)).collect();
    match has_rows(dims, &factors, vector) {
        true => as_read(dims, asked, drafts),
        false => as_multiplied(dims, &factors, vector),
    }
}

/// The order in which a unit's factors are copied in vectors, where in that of the dims they are not.
pub fn packed(dims: &[UOp], factors: &[&Request], vector: i64) -> Option<Order> {
    let is_packed = factors.is_empty() || has_rows(dims, factors, vector);
    if is_packed { None } else { as_multiplied(dims, factors, vector) }
}

/// Dims of more than one element.
fn long(dims: &[UOp]) -> Order {
    (0..dims.len()).filter(|d| dims[*d].as_int() != Some(1)).collect()
}

/// An order of the long dims with the others before them, where it is another than theirs.
fn whole(dims: &[UOp], mut order: Order) -> Option<Order> {
    let all = long(dims);
    order.insert_many(0, (0..dims.len()).filter(|d| !all.contains(d)));
    (!order.ends_with(&all)).then_some(order)
}

/// The nearest dim outside the innermost one that all factors walk in whole vectors becomes the innermost one.
fn as_multiplied(dims: &[UOp], factors: &[&Request], vector: i64) -> Option<Order> {
    let all = long(dims);
    let (_, outer) = all.split_last()?;
    let fits = |d: &&usize| {
        dims[**d].as_int().is_some_and(|n| n % vector == 0) && factors.iter().all(|r| is_walked(r, **d))
    };
    let inner = *outer.iter().rev().find(fits)?;
    whole(dims, all.iter().copied().filter(|d| *d != inner).chain([inner]).collect())
}

/// The order of a kernel that passes elements on in one of its own.
fn as_read(dims: &[UOp], asked: &[Request], drafts: &[Draft]) -> Option<Order> {
    let all = long(dims);
    let (&last, _) = all.split_last().filter(|(_, outer)| !outer.is_empty())?;
    let as_read = |r: &Request| {
        let d = &drafts[r.kernel as usize];
        let is_copy = d.is_permuted && !r.in_reduce && r.is_ungated();
        // a dim is walked where the innermost of its ranges is: each by its own, or by digits of it
        let walks = |x: &UOp, k: usize| x.range_arg().is_some_and(|a| r.idx[k].ranges.contains(&a.id));
        let place = |k: &usize| d.ranges.iter().rposition(|x| walks(x, *k));
        let places = is_copy.then(|| all.iter().map(place).collect::<Option<Vec<usize>>>())??;
        let mut order: Vec<(usize, usize)> = places.into_iter().zip(all.iter().copied()).collect();
        order.sort_unstable();
        let is_row = order.last().is_some_and(|(at, k)| r.idx[*k] == d.ranges[*at]);
        let is_apart = order.windows(2).all(|w| w[0].0 != w[1].0);
        (is_row && is_apart).then(|| order.into_iter().map(|(_, d)| d).collect())
    };
    // one that walks several dims as one range and then rows would read each element by itself
    let keeps_rows = |r: &Request| {
        let d = &drafts[r.kernel as usize];
        let is_last = d.ranges.last() == Some(&r.idx[last]);
        is_last && !d.is_permuted && !r.in_reduce && !is_plain(&r.idx)
    };
    whole(dims, asked.iter().find_map(as_read).filter(|_| !asked.iter().any(keeps_rows))?)
}

/// Whether a dim is walked by a range of its own that no gate asks for.
fn is_walked(r: &Request, dim: usize) -> bool {
    let Some(range) = r.idx[dim].range_arg().filter(|_| r.idx[dim].op == Op::Range) else { return false };
    let others = r.idx.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, i)| i);
    !others.chain(&r.gate).any(|i| i.ranges.contains(&range.id))
}

/// Whether all factors walk the innermost dim in vectors from aligned places.
fn has_rows(dims: &[UOp], factors: &[&Request], vector: i64) -> bool {
    long(dims).last().is_none_or(|last| factors.iter().all(|r| walks_rows(dims, r, *last, vector)))
}

/// Whether a request walks the innermost dim in vectors from aligned places: steps of one range, in all others whole vectors.
fn walks_rows(dims: &[UOp], r: &Request, last: usize, vector: i64) -> bool {
    if dims[last].as_int().is_none_or(|n| n % vector != 0) {
        return false;
    }
    let mut rows = 0;
    for term in compare::flatten(&r.idx[last], Op::Add) {
        let (x, step) = term.as_int().map_or_else(|| split_term(&term), |c| (&term, c));
        let run = match x.op {
            Op::Range => x.extent().as_int(),
            // a digit of a range
            Op::Mod if x.lhs().op == Op::Range => x.rhs().as_int(),
            _ => None,
        };
        let is_row = step == 1 && run.is_some_and(|n| n % vector == 0);
        let is_gated = |g: &UOp| x.ranges.iter().any(|id| g.ranges.contains(id));
        match is_row {
            true if r.gate.as_ref().is_some_and(is_gated) => return false,
            true => rows += 1,
            false if step % vector != 0 => return false,
            false => {}
        }
    }
    rows == 1
}
