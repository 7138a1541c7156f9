//! Take the validity of an index out of it, to the load or store.
//!
//! ```text
//! Load(Index(p, Where(g, i, Invalid)))   ->   Load(Index(p, i given g), 0, g)
//! ```
//!
//! An access that was to be checked and whose index is known to be inside needs no check: it loses its site.

use crate::error::Error;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::symbolic::simplify_given;
use frit_uop::{Arg, Op, UOp};
use smallvec::{SmallVec, smallvec};

/// The pass. Leaves no `Invalid` behind, and no site without a gate.
pub fn gates(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    let graph = Numbered::of(sink);
    if !graph.nodes.iter().any(|n| n.op == Op::Invalid || matches!(n.arg, Arg::Site(_))) {
        return Ok(sink.clone());
    }
    let new = graph.map(|n, src| Ok(pull(&n.with_src(src))))?.pop().unwrap_or_else(|| sink.clone());
    match new.any(|n| n.op == Op::Invalid) {
        true => Err(Error::Kernel("an index that must not be accessed is used as a value".into())),
        false => Ok(new),
    }
}

fn pull(n: &UOp) -> UOp {
    let Some((buf, idx)) = n.buffer_and_index() else { return n.clone() };
    let (never, first) = (UOp::boolean(false), UOp::index(0));
    let gated = match idx.op {
        // a checked access that always misses: it stays, to be reported
        Op::Invalid if matches!(n.arg, Arg::Site(_)) => Some((&never, &first)),
        _ => gated(idx),
    };
    // a simplified index has at most one gate, outermost
    let Some((gate, inner)) = gated else {
        return match (&n.arg, n.gate()) {
            (Arg::Site(_), None) => UOp::new(n.op, n.dtype, n.src.clone(), Arg::None),
            _ => n.clone(),
        };
    };
    let place = buf.at(&simplify_given(inner, gate));
    let gate = match n.gate() {
        Some(g) => g.and_(gate),
        None => gate.clone(),
    };
    let src: SmallVec<[UOp; 4]> = match n.op {
        Op::Load => {
            let alt = n.src.get(1).cloned().unwrap_or_else(|| n.const_like(0));
            smallvec![place, alt, gate]
        }
        _ => smallvec![place, n.src[1].clone(), gate],
    };
    UOp::new(n.op, n.dtype, src, n.arg.clone())
}

/// Gate and index of a gated index.
fn gated(idx: &UOp) -> Option<(&UOp, &UOp)> {
    (idx.op == Op::Where && idx.src[2].op == Op::Invalid).then(|| (&idx.src[0], &idx.src[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::Target;
    use frit_uop::{AxisKind, DType};

    #[test]
    fn a_checked_access_that_cannot_miss_is_not_checked() {
        let (p, q) = (UOp::param(0, 4, DType::I32), UOp::param(1, 4, DType::I32));
        let r = UOp::range(&UOp::index(4), 0, AxisKind::Global);
        let load = UOp::new(Op::Load, DType::I32, [q.at(&r)], Arg::Site(3));
        let sink = UOp::sink([p.at(&r).store(&load).end([r.clone()])]);
        let target = Target::interp();
        let linear = crate::lower(&sink, &target, crate::Opts::List(&[])).unwrap();
        let sited = |s: &frit_uop::Step| matches!(s, frit_uop::Step::Do(n) if matches!(n.arg, Arg::Site(_)));
        assert!(!linear.steps.iter().any(sited));
    }
}
