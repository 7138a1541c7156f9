//! Make the order of stores explicit: tensor level in, tensor level out.
//!
//! A `Param` is what its memory holds before the graph runs. The stores to one parameter happen in the order of the graph,
//! and each names what it overwrites; a view through `After(x, stores…)` looks at what the last of them leaves.
//!
//! ```text
//! Store(view(p), a), Store(view(p), b)   ->  s = Store(view(p), a), Store(view(After(p, s)), b)
//! After(view(p), stores…)                ->  view(After(p, last store))
//! ```

use crate::error::Error;
use crate::plan::Plan;
use frit_uop::record::became;
use frit_uop::rewrite::replaced;
use frit_uop::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a view looks at: the parameter, and how many stores it has seen.
#[derive(Clone)]
struct Version {
    param: UOp,
    number: usize,
}

/// Leaves `After` only as `After(Param, Store)`, and every store with the memory before it as its target.
pub fn chain_versions(plan: &mut Plan) -> Result<(), Error> {
    let list = plan.list();
    if is_in_order(&list.nodes) {
        return Ok(());
    }
    let mut done: FxHashMap<&UOp, UOp> = FxHashMap::default();
    let mut seen: FxHashMap<&UOp, Version> = FxHashMap::default();
    // memory of each parameter, after none, one, … of its stores
    let mut memory: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for n in &list.nodes {
        let now = |done: &FxHashMap<&UOp, UOp>| n.with_src(n.src.iter().map(|s| done[s].clone()).collect());
        let new = match n.op {
            Op::Param => {
                memory.insert(n.clone(), vec![n.clone()]);
                seen.insert(n, Version { param: n.clone(), number: 0 });
                n.clone()
            }
            Op::After => {
                let Some(base) = seen.get(&n.src[0]).cloned() else {
                    return Err(Error::malformed(n, "not a view of a parameter"));
                };
                let stores = n.deps().iter().filter_map(|s| seen.get(s)).filter(|v| v.param == base.param);
                let number = stores.map(|v| v.number).max().unwrap_or(0).max(base.number);
                let view = rebased(&done[&n.src[0]], &memory[&base.param][number]);
                seen.insert(n, Version { number, ..base });
                view
            }
            Op::Store => {
                let Some(base) = seen.get(&n.src[0]).cloned() else {
                    return Err(Error::Target(format!("{:?}: not a view of a parameter", n.src[0])));
                };
                let all = &memory[&base.param];
                let store = rebased(&done[&n.src[0]], &all[all.len() - 1]).store(&done[&n.src[1]]);
                let number = all.len();
                let after = base.param.after([store.clone()]);
                memory.entry(base.param.clone()).or_default().push(after);
                seen.insert(n, Version { number, ..base });
                store
            }
            o => {
                if o.is_movement()
                    && let Some(v) = seen.get(&n.src[0]).cloned()
                {
                    seen.insert(n, v);
                }
                now(&done)
            }
        };
        if matches!(n.op, Op::After | Op::Store) {
            replaced("the version of its memory that it sees", n, &new);
        }
        done.insert(n, new);
    }
    became(done.iter().map(|(n, new)| (*n, new)));
    let sink = done[plan.sink()].clone();
    plan.set_sink(sink);
    Ok(())
}

/// Whether each store is the only one to its parameter, and no one looks at what it leaves.
fn is_in_order(nodes: &[UOp]) -> bool {
    let mut stored: FxHashSet<&UOp> = FxHashSet::default();
    nodes.iter().all(|n| match n.op {
        Op::After => false,
        Op::Store => {
            let base = base(&n.src[0]);
            base.op == Op::Param && stored.insert(base)
        }
        _ => true,
    })
}

fn base(view: &UOp) -> &UOp {
    let mut n = view;
    while n.op.is_movement() {
        n = &n.src[0];
    }
    n
}

/// The same view of other memory.
fn rebased(view: &UOp, memory: &UOp) -> UOp {
    if base(view) == memory {
        return view.clone();
    }
    let steps = std::iter::successors(Some(view), |n| n.src.first());
    let steps: Vec<&UOp> = steps.take_while(|n| n.op.is_movement()).collect();
    steps.iter().rev().fold(memory.clone(), |below, step| {
        let mut src = step.src.clone();
        src[0] = below;
        step.with_src(src)
    })
}
