//! Drop gates that guard nothing.
//!
//! A product that is padded has the pad's gate on both of its loads, and on itself. The load that stays inside its
//! buffer anyway need not ask: where the gate is false no one looks at it. Without the gate it no longer moves with
//! the padded loops, so it is one load for all lanes.
//!
//! ```text
//! Where(g, x[i if g] * w[j if g], 0)   ->   Where(g, x[i if g] * w[j], 0)      0 <= j < len(w)
//! ```

use crate::access::address;
use crate::{Ctx, Error};
use frit_uop::symbolic::compare::conjuncts;
use frit_uop::{Arg, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The pass.
pub fn ungate(sink: &UOp, _: &mut Ctx) -> Result<UOp, Error> {
    if !sink.any(|n| n.op == Op::Invalid) {
        return Ok(sink.clone());
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    frit_uop::graph::rebuild(sink, &mut done, |n| inside_where(&n).unwrap_or(n));
    Ok(done[sink].clone())
}

/// A `Where` whose value asks for less.
fn inside_where(n: &UOp) -> Option<UOp> {
    if n.op != Op::Where || n.src[2].op == Op::Invalid {
        return None;
    }
    let known: FxHashSet<UOp> = conjuncts(&n.src[0]).into_iter().collect();
    // what is closed below (a reduce) is another place, where the gate may mean something else
    let (mut reached, mut todo) = (FxHashSet::default(), vec![&n.src[1]]);
    while let Some(v) = todo.pop() {
        if reached.insert(v) && v.op.is_elementwise() {
            todo.extend(v.src.iter());
        }
    }
    let mut new: FxHashMap<UOp, UOp> = FxHashMap::default();
    for v in n.src[1].toposort().iter().filter(|v| reached.contains(v)) {
        let plain = without_gate(v, &known)
            .unwrap_or_else(|| v.with_src(v.src.iter().map(|s| new.get(s).unwrap_or(s).clone()).collect()));
        new.insert(v.clone(), plain);
    }
    let value = new.remove(&n.src[1]).filter(|v| *v != n.src[1])?;
    Some(n.src[0].select(&value, &n.src[2]))
}

/// A load without its gate, if the gate is known to hold wherever the value is used and the index is always inside.
fn without_gate(load: &UOp, known: &FxHashSet<UOp>) -> Option<UOp> {
    // a gate that is an error when it fails is not there for the value alone
    if load.op != Op::Load || load.src.len() != 1 || matches!(load.arg, Arg::Site(_)) {
        return None;
    }
    let (buf, idx) = address(load)?;
    let Arg::Param { len, .. } = buf.arg else { return None };
    if idx.op != Op::Where || idx.src[2].op != Op::Invalid {
        return None;
    }
    let (lo, hi) = idx.src[1].bounds;
    let holds = conjuncts(&idx.src[0]).iter().all(|c| known.contains(c));
    (holds && lo >= 0 && hi < len as i128).then(|| load.with_src([buf.at(&idx.src[1])].into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::{Alu, DType};
    use frit_uop::AxisKind;

    #[test]
    fn the_load_that_stays_inside_loses_its_gate() {
        let (x, w) = (UOp::param(0, 8, DType::F32), UOp::param(1, 4, DType::F32));
        let (i, k) = (
            UOp::range(&UOp::index(8), 0, AxisKind::Global),
            UOp::range(&UOp::index(4), 1, AxisKind::Reduce),
        );
        let at = i.bin(Alu::Add, &k).bin(Alu::Add, &UOp::index(-2));
        let gate = at.lt(&UOp::index(8)).and_(&at.lt(&UOp::index(0)).un(Alu::Not));
        let guarded = |buf: &UOp, idx: &UOp| buf.at(&gate.select(idx, &UOp::invalid())).load();
        let (a, b) = (guarded(&x, &at), guarded(&w, &k));
        let padded = gate.select(&a.bin(Alu::Mul, &b), &UOp::float(0.0, DType::F32));
        let expected = gate.select(&a.bin(Alu::Mul, &w.at(&k).load()), &UOp::float(0.0, DType::F32));
        assert_eq!(inside_where(&padded), Some(expected));
        // outside the Where the value counts where the gate is false
        assert_eq!(inside_where(&a.bin(Alu::Mul, &b)), None);
        let other = i.lt(&UOp::index(3));
        assert_eq!(inside_where(&other.select(&a.bin(Alu::Mul, &b), &UOp::float(0.0, DType::F32))), None);
    }
}
