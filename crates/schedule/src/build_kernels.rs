//! Kernels as codegen takes them: grouped staged graph in, [`crate::Schedule::kernels`] out.
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
use crate::kernels::{self, Kernel};
use crate::plan::Plan;
use crate::{BufRef, KernelCall, Temp, record};
use frit_abi::record::{Field, Kind};
use frit_uop::graph::NodeMap;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, AxisKind, DType, Op, UOp};
use rustc_hash::FxHashMap;

/// Makes [`crate::Schedule::kernels`] and [`crate::Schedule::temps`].
pub fn build_kernels(plan: &mut Plan) -> Result<(), Error> {
    let mut build = Build::default();
    let mut calls = vec![];
    for k in &plan.sink().src {
        let kernel = Kernel::of(&k.src);
        let origin = record::origin(&plan.origins, kernel.outputs.iter().map(|o| &o.memory));
        calls.push(KernelCall { origin, ..build.call(&kernel) });
        record_call(calls.len() - 1, &calls[calls.len() - 1], &kernel);
    }
    plan.schedule.kernels = calls;
    plan.schedule.temps = build.temps;
    Ok(())
}

/// Write down a kernel and where it stores, if anyone wants to know.
fn record_call(index: usize, call: &KernelCall, kernel: &Kernel) {
    if !record::is_on() {
        return;
    }
    let places: Vec<String> = kernel.outputs.iter().map(|o| record::name(&o.memory)).collect();
    let arg = |a: &BufRef| match a {
        BufRef::Param(i) => format!("p{i}"),
        BufRef::Temp(i) => format!("temporary {i}"),
    };
    let args: Vec<String> = call.args.iter().map(arg).collect();
    let name = if let Arg::Name(n) = &call.ast.arg { n } else { "?" };
    use Field::{Int, Text};
    let (index, kernel) = (Int(index as u64), Int(frit_uop::record::number(&call.ast)));
    let fields = [index, kernel, Text(name), Text(&places.join(" ")), Text(&args.join(", "))];
    frit_abi::record::write(Kind::Call, &fields);
}

#[derive(Default)]
struct Build {
    /// Stages that have memory, numbered by first use.
    number: NodeMap<u32>,
    temps: Vec<Temp>,
    /// Kernels as they were numbered, what became of them, and which arguments they still have: layers of one kind make
    /// the same kernel many times.
    known: FxHashMap<UOp, (UOp, Vec<usize>)>,
}

impl Build {
    fn buffer(&mut self, place: &UOp) -> BufRef {
        if let Arg::Param { slot, .. } = place.arg {
            return BufRef::Param(slot);
        }
        BufRef::Temp(*self.number.get_or_insert_with(place, || {
            self.temps.push(Temp { dtype: place.dtype, len: kernels::len(place) });
            self.temps.len() as u32 - 1
        }))
    }
    /// The kernel-level graph of a kernel, with local numbers.
    fn call(&mut self, k: &Kernel) -> KernelCall {
        let nodes = k.nodes();
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        // stored ones first, then loads by first use; all contents of a place are one parameter
        let mut places: Vec<&UOp> = vec![];
        for m in k.outputs.iter().map(|o| &o.memory).chain(kernels::loads(&nodes).map(|l| l.0)) {
            let place = m.behind_after();
            let at = places.iter().position(|p| *p == place).unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            });
            if !map.contains_key(m) {
                map.insert(m.clone(), UOp::param(at as u32, kernels::len(place), m.dtype));
            }
        }
        let args: Vec<BufRef> = places.into_iter().map(|p| self.buffer(p)).collect();
        let ranges = number_ranges(k, &nodes, &mut map);
        let renamed = renamed(k, &ranges, &map);
        let (ast, used) = self.known.entry(renamed).or_insert_with_key(|renamed| {
            let simple = frit_uop::symbolic::simplify(renamed);
            let nodes = simple.toposort();
            let (simple, used) = without_unused(simple, &nodes, args.len());
            let name = Arg::Name(name(&nodes).into());
            (UOp::new(Op::Sink, DType::Void, simple.src.iter().cloned(), name), used)
        });
        KernelCall { ast: ast.clone(), args: used.iter().map(|&a| args[a]).collect(), origin: "".into() }
    }
}

/// New numbers and kinds for all ranges: the stored elements' from the outside in, then reduces, outer ones first. Gives
/// the former.
fn number_ranges(k: &Kernel, nodes: &[UOp], map: &mut FxHashMap<UOp, UOp>) -> Vec<UOp> {
    let reduces: Vec<&UOp> = nodes.iter().filter(|n| n.op == Op::Reduce).collect();
    let mut next = 0;
    let mut number = |r: &UOp, kind: AxisKind| {
        next += 1;
        UOp::range(r.extent(), next - 1, kind)
    };
    // what is carried goes on in the innermost loop
    let ordered = k.ordered(nodes);
    let free = k.ranges.iter().filter(|r| ordered.as_ref() != Some(r));
    let mut ranges = vec![];
    for r in free.chain(&ordered) {
        let id = r.range_arg().map_or(0, |a| a.id);
        let kind = if ordered.as_ref() == Some(r) {
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
    for r in reduces.iter().rev().flat_map(|n| n.closed_ranges()) {
        if !map.contains_key(r) {
            let new = number(r, AxisKind::Reduce);
            map.insert(r.clone(), new);
        }
    }
    ranges
}

/// The stores of a kernel over `ranges`, with other nodes in place of memory and ranges.
fn renamed(k: &Kernel, ranges: &[UOp], map: &FxHashMap<UOp, UOp>) -> UOp {
    let value = |v: &UOp| if v.op == Op::Contiguous { v.input().clone() } else { v.clone() };
    let roots: Vec<UOp> = k.outputs.iter().flat_map(|o| [o.index.clone(), value(&o.value)]).collect();
    let parts = kernels::substitute(&roots, map);
    map.iter().for_each(|(n, own)| replaced("a parameter or a range of its kernel", n, own));
    let stores = k.outputs.iter().zip(parts.chunks_exact(2)).map(|(o, part)| {
        let src = [map[&o.memory].at(&part[0]), part[1].clone()];
        UOp::new(Op::Store, DType::Void, src, o.site.clone()).end(ranges.iter().cloned())
    });
    UOp::sink(stores.collect::<Vec<_>>())
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
