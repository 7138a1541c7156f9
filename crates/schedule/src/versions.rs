//! Number the versions of every parameter that the graph stores to.
//!
//! A `Param` is version 0: what it holds before the graph runs. The stores to one parameter, in the order of the graph,
//! make versions 2, 4, …; a view through `After(x, stores…)` is of the version its last store makes.

use crate::error::Error;
use crate::plan::{Plan, Version};
use frit_uop::{Arg, Op, UOp};
use rustc_hash::FxHashMap;

/// Fills [`Plan::versions`] for every store and every view of a parameter.
pub fn number_versions(plan: &mut Plan) -> Result<(), Error> {
    let mut count: FxHashMap<u32, u32> = FxHashMap::default();
    let mut found: FxHashMap<UOp, Version> = FxHashMap::default();
    for n in plan.sink.toposort() {
        let v = match n.op {
            Op::Param => match n.arg {
                Arg::Param { slot, .. } => Version { slot, version: 0 },
                _ => continue,
            },
            Op::After => {
                let Some(&base) = found.get(&n.src[0]) else {
                    return Err(Error::malformed(&n, "not a view of a parameter"));
                };
                let latest = n.src[1..].iter().filter_map(|s| found.get(s)).filter(|v| v.slot == base.slot);
                Version { version: latest.map(|v| v.version).max().unwrap_or(0).max(base.version), ..base }
            }
            Op::Store => {
                let Some(&base) = found.get(&n.src[0]) else {
                    return Err(Error::Target(format!("{:?}: not a view of a parameter", n.src[0])));
                };
                let c = count.entry(base.slot).or_default();
                // by two: a scatter copies its base into a version between
                *c += 2;
                Version { version: *c, ..base }
            }
            o if o.is_movement() => match found.get(&n.src[0]) {
                Some(&v) => v,
                None => continue,
            },
            _ => continue,
        };
        found.insert(n, v);
    }
    plan.versions = found;
    Ok(())
}

/// The parameter under a view and the flat index there of the element of the view at `idx`.
pub fn place(view: &UOp, idx: &[UOp], gate: &mut Option<UOp>) -> Result<(UOp, UOp), Error> {
    let (mut n, mut idx) = (view.clone(), idx.iter().cloned().collect::<crate::index::Idx>());
    loop {
        match n.op {
            Op::Param => return Ok((n, idx.first().cloned().unwrap_or_else(|| UOp::index(0)))),
            Op::After => {}
            o if o.is_movement() => idx = crate::index::through(&n, &idx, gate)?,
            _ => return Err(Error::Target(format!("{n:?}"))),
        }
        n = n.src[0].clone();
    }
}
