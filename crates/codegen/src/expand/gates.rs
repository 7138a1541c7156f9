//! Take the validity of an index out of it, to the load or store.
//!
//! ```text
//! Load(Index(p, Where(g, i, Invalid)))   ->   Load(Index(p, i given g), 0, g)
//! ```
//!
//! An access that was to be checked and whose index is known to be inside needs no check: it loses its site.

use crate::error::Error;
use crate::pass::Ctx;
use frit_abi::sync::LazyLock;
use frit_uop::rewrite::rewrite;
use frit_uop::rules::Matcher;
use frit_uop::symbolic::simplify_given;
use frit_uop::{Arg, AxisKind, Op, UOp, rules};
use smallvec::{SmallVec, smallvec};

rules! { GATES;
    // a simplified index has at most one gate, outermost
    (Load|Store)(Index(buf, Where(g, i, Invalid(..))), ..) as n                 => under(n, buf, i, g);
    // a checked access that always misses stays, to be reported; one that cannot miss needs no check
    (Load|Store)(Index(buf, Invalid(..)), ..) as n  if is_checked(n)            => missing(n, buf);
    (Load|Store)(Index(_, _), ..) as n  if is_checked(n) && n.gate().is_none()  => unchecked(n);
}

static MATCHER: LazyLock<Matcher<()>> = LazyLock::new(|| Matcher::new(&[&GATES], &[]));

/// The pass. Leaves no `Invalid` behind, and no site without a gate.
pub fn gates(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let is_invalid = |n: &UOp| n.op == Op::Invalid;
    if !sink.any(|n| is_invalid(n) || is_checked(n)) {
        return Ok(sink.clone());
    }
    let new = rewrite(sink, &MATCHER, &mut ());
    match new.any(is_invalid) {
        true => Err(Error::Kernel("an index that must not be accessed is used as a value".into())),
        false => Ok(new),
    }
}

fn is_checked(n: &UOp) -> bool {
    matches!(n.arg, Arg::Site(_))
}

/// The access at an index, where one more gate holds.
fn under(n: &UOp, buf: &UOp, idx: &UOp, gate: &UOp) -> UOp {
    // a vector stays one though its gate may leave a single lane, of which the index is then known
    let given = simplify_given(idx, gate);
    let is_lost = given.ranges.len() < idx.ranges.len() && vectors(&given) < vectors(idx);
    let place = buf.at(if is_lost { idx } else { &given });
    let gate = n.gate().map_or_else(|| gate.clone(), |g| g.and_(gate));
    let src: SmallVec<[UOp; 4]> = match n.op {
        Op::Load => smallvec![place, n.alt().cloned().unwrap_or_else(|| n.const_like(0)), gate],
        _ => smallvec![place, n.value().clone(), gate],
    };
    UOp::new(n.op, n.dtype, src, n.arg.clone())
}

/// How many vector ranges a value moves with.
fn vectors(n: &UOp) -> usize {
    let is_vector = |r: &UOp| r.range_arg().is_some_and(|a| a.kind == AxisKind::Vector);
    n.open_ranges().iter().filter(|r| is_vector(r)).count()
}

fn missing(n: &UOp, buf: &UOp) -> UOp {
    under(n, buf, &UOp::index(0), &UOp::boolean(false))
}

fn unchecked(n: &UOp) -> UOp {
    UOp::new(n.op, n.dtype, n.src.clone(), Arg::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::Target;
    use frit_uop::DType;

    #[test]
    fn a_checked_access_that_cannot_miss_is_not_checked() {
        let (p, q) = (UOp::param(0, 4, DType::I32), UOp::param(1, 4, DType::I32));
        let r = UOp::range(&UOp::index(4), 0, AxisKind::Global);
        let load = UOp::new(Op::Load, DType::I32, [q.at(&r)], Arg::Site(3));
        let sink = UOp::sink([p.at(&r).store(&load).end([r.clone()])]);
        let target = Target::interp();
        let linear = crate::lower(&sink, &target, crate::Opts::List(&[])).unwrap();
        let sited = |s: &frit_uop::Step| matches!(s, frit_uop::Step::Do(n) if matches!(n.arg, Arg::Site(_)));
        assert!(!linear.programs[0].steps.iter().any(sited));
    }
}
