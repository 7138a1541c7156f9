//! Kernels in the order they run, numbered and named: what codegen takes.
//!
//! Ranges are numbered from the outside in, parameters by first use (stored ones first), kinds are decided:
//!
//! | kind | range |
//! |---|---|
//! | `Global` | every reduce of the kernel depends on it |
//! | `Loop` | some reduce does not: it runs once before this loop |
//! | `Ordered` | a scan or scatter carries along it |
//! | `Reduce` | combined over |

use crate::error::Error;
use crate::plan::{Kernel, Plan, load_parts};
use crate::{BufRef, KernelCall};
use frit_uop::{Arg, AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fills [`crate::Schedule::kernels`]; temporaries keep the numbers of [`Plan::temps`].
pub fn order_kernels(plan: &mut Plan) -> Result<(), Error> {
    let order = sorted(&plan.kernels)?;
    let nodes = drop_unread(plan, &order);
    let mut known = Finished::default();
    for (k, nodes) in order.into_iter().zip(nodes.into_iter().rev()) {
        if !plan.kernels[k as usize].stores.is_empty() {
            let call = finish(plan, &plan.kernels[k as usize], &nodes, &mut known);
            plan.schedule.kernels.push(call);
        }
    }
    Ok(())
}

/// Kernels by their dependencies; among those that are ready, the one that comes first in the graph.
pub fn sorted(kernels: &[Kernel]) -> Result<Vec<u32>, Error> {
    let mut waits: Vec<usize> = kernels.iter().map(|k| k.deps.len()).collect();
    let mut users: Vec<Vec<u32>> = vec![vec![]; kernels.len()];
    for (k, kernel) in kernels.iter().enumerate() {
        for &d in &kernel.deps {
            users[d as usize].push(k as u32);
        }
    }
    let entry = |k: u32| Reverse((kernels[k as usize].rank, k));
    let mut ready: BinaryHeap<_> =
        (0..kernels.len() as u32).filter(|&k| waits[k as usize] == 0).map(entry).collect();
    let mut out = Vec::with_capacity(kernels.len());
    while let Some(Reverse((_, k))) = ready.pop() {
        out.push(k);
        for &u in &users[k as usize] {
            waits[u as usize] -= 1;
            if waits[u as usize] == 0 {
                ready.push(entry(u));
            }
        }
    }
    if out.len() < kernels.len() {
        return Err(Error::Malformed("the stores of this graph wait for each other in a circle".into()));
    }
    Ok(out)
}

/// Stores to temporaries that no kernel reads go, last kernels first. Gives the nodes of each, in that order.
fn drop_unread(plan: &mut Plan, order: &[u32]) -> Vec<Vec<UOp>> {
    let mut read: FxHashSet<BufRef> = FxHashSet::default();
    let last_first = order.iter().rev().map(|&k| {
        let bufs = &plan.bufs;
        let kernel = &mut plan.kernels[k as usize];
        kernel.stores.retain(|s| match bufs[s.buf as usize].place {
            BufRef::Param(_) => true,
            temp => read.contains(&temp),
        });
        let nodes = kernel.nodes();
        read.extend(nodes.iter().filter_map(load_parts).map(|(b, _)| bufs[b as usize].place));
        nodes
    });
    last_first.collect()
}

/// Kernels as they were numbered, what became of them, and which arguments they still have: layers of one kind make
/// the same kernel many times.
type Finished = FxHashMap<UOp, (UOp, Vec<usize>)>;

/// The kernel-level graph of a kernel, with local numbers.
fn finish(plan: &Plan, k: &Kernel, nodes: &[UOp], known: &mut Finished) -> KernelCall {
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();

    // parameters: stored ones first, then loads by first use; all versions of a place are one
    let mut args: Vec<BufRef> = vec![];
    let loaded = nodes.iter().filter_map(load_parts).map(|l| l.0);
    for b in k.stores.iter().map(|s| s.buf).chain(loaded) {
        let buf = plan.bufs[b as usize];
        let at = args.iter().position(|a| *a == buf.place).unwrap_or_else(|| {
            args.push(buf.place);
            args.len() - 1
        });
        map.insert(plan.buf_node(b), UOp::param(at as u32, buf.len, buf.dtype));
    }

    // ranges: the stored elements' from the outside in, then reduces, outer ones first
    let reduces: Vec<&UOp> = nodes.iter().filter(|n| n.op == Op::Reduce).collect();
    let mut next = 0;
    let mut number = |r: &UOp, kind: AxisKind| {
        next += 1;
        UOp::range(&r.src[0], next - 1, kind)
    };
    let mut ranges = vec![];
    for r in &k.ranges {
        let id = r.range_arg().map_or(0, |a| a.id);
        let kind = if k.ordered.as_ref() == Some(r) {
            AxisKind::Ordered
        } else if reduces.iter().all(|n| n.ranges.contains(&id)) {
            AxisKind::Global
        } else {
            AxisKind::Loop
        };
        let new = number(r, kind);
        map.insert(r.clone(), new.clone());
        ranges.push(new);
    }
    // users come after sources, so the last reduces are the outer ones
    for n in reduces.iter().rev() {
        for r in &n.src[1..] {
            if !map.contains_key(r) {
                let new = number(r, AxisKind::Reduce);
                map.insert(r.clone(), new);
            }
        }
    }
    let effects: Vec<UOp> = k
        .stores
        .iter()
        .map(|s| {
            let arg = s.site.map_or(Arg::None, Arg::Site);
            let address = plan.buf_node(s.buf).at(&s.index);
            UOp::new(Op::Store, DType::Void, [address, s.value.clone()], arg).end(k.ranges.iter().cloned())
        })
        .collect();
    let renamed = UOp::sink(effects).substitute(&map);
    let (ast, used) = known.entry(renamed).or_insert_with_key(|renamed| {
        let simple = crate::fold::simplify(renamed);
        let nodes = simple.toposort();
        let (simple, used) = without_unused(simple, &nodes, args.len());
        let name = Arg::Name(name(&nodes).into());
        (UOp::new(Op::Sink, DType::Void, simple.src.iter().cloned(), name), used)
    });
    KernelCall { ast: ast.clone(), args: used.iter().map(|&a| args[a]).collect() }
}

/// A kernel without those of its parameters that it no longer mentions, numbered again; and which it still has.
fn without_unused(sink: UOp, nodes: &[UOp], count: usize) -> (UOp, Vec<usize>) {
    let slot = |n: &UOp| match n.arg {
        Arg::Param { slot, .. } if n.op == Op::Param => Some(slot as usize),
        _ => None,
    };
    let mut params: Vec<(usize, &UOp)> = nodes.iter().filter_map(|n| Some((slot(n)?, n))).collect();
    params.sort_by_key(|p| p.0);
    if params.len() == count {
        return (sink, (0..count).collect());
    }
    let again = |(new, (_, n)): (usize, &(usize, &UOp))| {
        let len = n.shape().first().and_then(|d| d.as_int()).unwrap_or(0) as usize;
        ((*n).clone(), UOp::param(new as u32, len, n.dtype))
    };
    let map = params.iter().enumerate().map(again).collect();
    (sink.substitute(&map), params.iter().map(|p| p.0).collect())
}

/// `e_` or `r_` (or `s_` for ordered ranges) and the extents, outermost first.
fn name(nodes: &[UOp]) -> String {
    let mut ranges: Vec<&UOp> = nodes.iter().filter(|n| n.op == Op::Range).collect();
    ranges.sort_by_key(|r| r.range_arg().map(|a| a.id));
    let has = |kind: AxisKind| ranges.iter().any(|r| r.range_arg().is_some_and(|a| a.kind == kind));
    let mut s = String::from(if has(AxisKind::Ordered) {
        "s"
    } else if has(AxisKind::Reduce) {
        "r"
    } else {
        "e"
    });
    for r in ranges {
        match r.src[0].as_int() {
            Some(n) => s.push_str(&format!("_{n}")),
            None => s.push_str(&format!("_u{}", r.src[0].bounds.1)),
        }
    }
    s
}
