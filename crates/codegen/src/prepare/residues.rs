//! A sum under a gate that lets every s-th step through runs over those steps alone.
//!
//! ```text
//! Reduce(Where((i + k) mod 2 == 0, x[(i + k) / 2] * w[k], 0), k over 4)      with i = 2 i' + j
//!   ->   Reduce(x[i' + k' + …] * w[2 k' + (-j mod 2)], k' over 2)
//! ```
//!
//! Which steps those are follows from output ranges. They are cut, so that it is the same along what is left of them: a
//! transposed convolution of stride s, or the gradient of one of stride s, becomes as many plain ones as there are residues.

use crate::error::Error;
use crate::kernel::access::{coefficient, fold, gated, is_zero, is_zero_outside, substitute_open};
use crate::kernel::ranges::{Replacement, all, closed, replace};
use crate::pass::Ctx;
use frit_uop::symbolic::simplify;
use frit_uop::{Alu, Arg, AxisKind, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The pass.
pub fn residues(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let mut sink = sink.clone();
    while let Some(next) = next(&sink) {
        sink = simplify(&next);
    }
    Ok(sink)
}

/// `e mod s == 0`, as a part of a gate.
struct Residue {
    /// The remainder's node.
    remainder: UOp,
    e: UOp,
    s: i64,
}

impl Residue {
    fn of(gate: &UOp) -> Option<Residue> {
        let (remainder, is_first) = (gate.src.first()?, gate.src.get(1)?.as_int());
        let is_it = (gate.op, is_first) == (Op::Lt, Some(1)) || (gate.op, is_first) == (Op::Eq, Some(0));
        let s = remainder.src.get(1)?.as_int().filter(|s| *s > 1 && is_it && remainder.op == Op::Mod)?;
        Some(Residue { remainder: remainder.clone(), e: remainder.src[0].clone(), s })
    }
}

/// The kernel with one range less under a residue, or one more cut by one; `None` where there is nothing of the kind.
fn next(sink: &UOp) -> Option<UOp> {
    let order = sink.toposort();
    for n in order.iter().filter(|n| n.op == Op::Reduce && n.arg == Arg::Alu(Alu::Add)) {
        let [body] = n.bodies() else { continue };
        if body.op != Op::Where || !is_zero(&body.src[2]) {
            continue;
        }
        for residue in parts(&body.src[0]).into_iter().filter_map(Residue::of) {
            let closers = |id: u32| order.iter().filter(|o| closed(o).contains(&id)).count();
            for k in n.closed_ranges().iter().filter(|k| k.op == Op::Range) {
                let (Some(id), Some(count)) = (k.range_arg().map(|a| a.id), k.extent().as_int()) else {
                    continue;
                };
                let inverse = coefficient(&residue.e, id).and_then(|a| inverse(a, residue.s));
                if let Some(inverse) = inverse.filter(|_| count > 1 && closers(id) == 1) {
                    return Some(match cut(&order, n, &residue) {
                        Some((range, extent)) => split(sink, &order, range, extent, residue.s),
                        None => folded(sink, n, k, &residue, inverse),
                    });
                }
            }
        }
    }
    None
}

/// What a gate is the conjunction of.
fn parts(gate: &UOp) -> Vec<&UOp> {
    match gate.op {
        Op::And => gate.src.iter().flat_map(parts).collect(),
        _ => vec![gate],
    }
}

/// What `a` times is 1 modulo `s`.
fn inverse(a: i64, s: i64) -> Option<i64> {
    (1..s.min(1 << 10)).find(|i| a.rem_euclid(s) * i % s == 1)
}

/// An output range that a residue moves with, which it divides.
fn cut(order: &[UOp], n: &UOp, residue: &Residue) -> Option<(u32, i64)> {
    let inside = closed(n);
    all(order).iter().find_map(|r| {
        let (arg, extent) = (r.range_arg()?, r.extent().as_int()?);
        let moves = coefficient(&residue.e, arg.id).is_some_and(|c| c % residue.s != 0);
        let divides = extent > residue.s && extent % residue.s == 0;
        let is_output = arg.kind == AxisKind::Global && !inside.contains(&arg.id);
        (moves && divides && is_output).then_some((arg.id, extent))
    })
}

/// A range as two, the inner one of `s` steps. Between two numbers of ranges there is none free: all get others.
fn split(sink: &UOp, order: &[UOp], range: u32, extent: i64, s: i64) -> UOp {
    let mut map: FxHashMap<u32, Replacement> = FxHashMap::default();
    for r in all(order) {
        let Some(arg) = r.range_arg() else { continue };
        let new = |extent: &UOp, at: u32| UOp::range(extent, 2 * arg.id + at, arg.kind);
        let replacement = match arg.id == range {
            true => {
                let (outer, inner) = (new(&UOp::index(extent / s), 0), new(&UOp::index(s), 1));
                let value = outer.fold_mul(&UOp::index(s)).fold_add(&inner);
                Replacement { value, ranges: smallvec![outer, inner] }
            }
            false => {
                let same = new(r.extent(), 0);
                Replacement { value: same.clone(), ranges: smallvec![same] }
            }
        };
        map.insert(arg.id, replacement);
    }
    replace(sink, &map, |_, n| fold(&n))[sink].clone()
}

/// Only the steps of a range that the residue lets through: with `a k + rest = e`, those are `k = s k' + r`, r being `-rest / a`
/// modulo s.
fn folded(sink: &UOp, n: &UOp, k: &UOp, residue: &Residue, inverse: i64) -> UOp {
    let Some(arg) = k.range_arg() else { return sink.clone() };
    let (s, count) = (residue.s, k.extent().as_int().unwrap_or(1));
    let rest = substitute_open(&residue.e, &FxHashMap::from_iter([(arg.id, UOp::index(0))]));
    let first = rest.fold_mul(&UOp::index(s - inverse)).modulo(&UOp::index(s));
    let step = UOp::range(&UOp::index((count + s - 1) / s), arg.id, arg.kind);
    let value = step.fold_mul(&UOp::index(s)).fold_add(&first);
    let through = n.substitute(&FxHashMap::from_iter([(residue.remainder.clone(), UOp::index(0))]));
    let sink = sink.substitute(&FxHashMap::from_iter([(n.clone(), through.clone())]));
    let map = FxHashMap::from_iter([(arg.id, Replacement { value: value.clone(), ranges: smallvec![step] })]);
    if count % s == 0 {
        return replace(&sink, &map, |_, n| fold(&n))[&sink].clone();
    }
    // of the last round not all steps are there
    let (gate, is_zero) = (value.lt(&UOp::index(count)), is_zero_outside(&through.src[0], arg.id));
    let inside = |old: &UOp, new: UOp| match old.op {
        Op::Load if old.index().ranges.contains(&arg.id) => gated(new, Some(gate.clone())),
        Op::Reduce if *old == through && !is_zero => {
            let mut src = new.src.clone();
            src[0] = gate.select(&src[0], &src[0].const_like(0));
            new.with_src(src)
        }
        _ => fold(&new),
    };
    replace(&sink, &map, inside)[&sink].clone()
}
