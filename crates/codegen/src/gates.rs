//! Take the validity of an index out of it, to the load or store.
//!
//! ```text
//! Load(Index(p, Where(g, i, Invalid)))   ->   Load(Index(p, i given g), 0, g)
//! ```

use crate::access::address;
use crate::{Ctx, Error};
use frit_uop::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// The pass. Leaves no `Invalid` behind.
pub fn gates(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    if !sink.any(|n| n.op == Op::Invalid) {
        return Ok(sink.clone());
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    frit_uop::graph::rebuild(sink, &mut done, |n| pull(&n));
    let new = done[sink].clone();
    match new.any(|n| n.op == Op::Invalid) {
        true => Err(Error::Kernel("an index that must not be accessed is used as a value".into())),
        false => Ok(new),
    }
}

fn pull(n: &UOp) -> UOp {
    let Some((buf, idx)) = address(n) else { return n.clone() };
    // a simplified index has at most one gate, outermost
    let Some((gate, inner)) = gated(idx) else { return n.clone() };
    let place = buf.at(&crate::simplify_given(inner, gate));
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
