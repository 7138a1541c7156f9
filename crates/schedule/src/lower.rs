//! Build the values of the drafted kernels, sources first.

use crate::error::Error;
use crate::plan::{Kernel, StoreTo};
use crate::rangeify::{Fate, Root, Walk};
use crate::requests::{Link, Recipe, Request, position};
use frit_abi::{Alu, Scalar};
use frit_uop::{Arg, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Values by node and request.
type Values = Vec<Vec<UOp>>;

/// Turns the walk's decisions into kernels.
pub fn build_kernels(walk: Walk) -> Result<(), Error> {
    let mut values: Values = walk.nodes.iter().map(|_| vec![]).collect();
    let mut staged: FxHashMap<u32, UOp> = FxHashMap::default();
    for (i, n) in walk.nodes.iter().enumerate() {
        match &walk.fates[i] {
            Fate::Unused => {}
            Fate::Inline(recipes) => values[i] = recipes.iter().map(|r| combine(n, r, &values)).collect(),
            Fate::Staged { buf, recipe } => {
                if n.op != Op::Scatter {
                    staged.insert(i as u32, combine(n, recipe, &values));
                }
                let memory = walk.plan.buf_node(*buf);
                let load = |r: &Request| r.load(&memory, &position(n.shape(), r), &walk.may_be_empty);
                values[i] = walk.requests[i].iter().map(load).collect();
            }
        }
    }
    let mut from_data = FromData { links: &walk.from_data, values: &values, done: FxHashMap::default() };
    let mut kernels = Vec::with_capacity(walk.drafts.len());
    for d in &walk.drafts {
        let (index, value, site) = match &d.root {
            Root::Link(l) => (d.index.clone(), linked(l, &values), None),
            Root::Node(i) => (d.index.clone(), staged[i].clone(), None),
            Root::Scatter { before, idx, val, site, combine, rows, stride, rest } => {
                let row = linked(idx, &values).cast(DType::Index);
                let inside = row.lt(&UOp::index(0)).un(Alu::Not).and_(&row.lt(rows));
                let at = inside
                    .select(&crate::index::add(&crate::index::mul(&row, stride), rest), &UOp::invalid());
                let new = linked(val, &values);
                let value = match combine {
                    None => new,
                    Some(op) => {
                        let old = walk.plan.buf_node(*before).at(&at);
                        UOp::new(Op::Load, old.dtype, [old], Arg::Site(*site)).bin(*op, &new)
                    }
                };
                (at, value, Some(*site))
            }
        };
        let mut ranges = d.ranges.clone();
        if let Some(o) = &d.ordered {
            ranges.retain(|r| r != o);
            ranges.push(o.clone());
        }
        let (index, value) = match d.gathers {
            true => (from_data.resolve(&index), from_data.resolve(&value)),
            false => (index, value),
        };
        let value = if value.dtype == DType::Index {
            value.cast(walk.plan.bufs[d.buf as usize].dtype)
        } else {
            value
        };
        kernels.push(Kernel {
            ranges,
            ordered: d.ordered.clone(),
            stores: vec![StoreTo { buf: d.buf, index, value, site }],
            rank: d.rank,
            deps: FxHashSet::default(),
        });
    }
    walk.plan.kernels = kernels;
    Ok(())
}

fn linked(l: &Link, values: &Values) -> UOp {
    match l {
        Link::Value(v) => v.clone(),
        Link::Request(n, k) => values[*n as usize][*k as usize].clone(),
    }
}

/// The value of a node from those of its sources.
fn combine(n: &UOp, r: &Recipe, values: &Values) -> UOp {
    let of = |k: usize| linked(&r.links[k], values);
    match (n.op, &n.arg) {
        (Op::ReduceAxis, Arg::ReduceAxes(op, _)) => of(0).reduce(*op, r.ranges.iter().cloned()),
        (Op::ScanAxis, Arg::ReduceAxes(op, _)) => match r.ranges.first() {
            Some(range) => UOp::new(Op::Scan, n.dtype, [of(0), range.clone()], Arg::Alu(*op)),
            None => of(0),
        },
        (o, _) if o.is_elementwise() => {
            UOp::new(o, n.dtype, (0..r.links.len()).map(of).collect::<Vec<_>>(), n.arg.clone())
        }
        _ => match &r.gate {
            Some(g) => zero_outside(g, of(0)),
            None => of(0),
        },
    }
}

/// What `Pad` makes of a value: a load that is gated already reads zero outside.
fn zero_outside(gate: &UOp, v: UOp) -> UOp {
    let zero = UOp::constant(Scalar::zero(v.dtype), v.dtype);
    if v == zero {
        return v;
    }
    if v.op == Op::Load && v.arg == Arg::None {
        let at = &v.src[0].src[1];
        if at.op == Op::Where && at.src[2].op == Op::Invalid {
            let held = conjuncts(&at.src[0]);
            if conjuncts(gate).iter().all(|c| held.contains(c)) {
                return v;
            }
        }
    }
    gate.select(&v, &zero)
}

fn conjuncts(g: &UOp) -> Vec<UOp> {
    let (mut out, mut stack) = (vec![], vec![g.clone()]);
    while let Some(n) = stack.pop() {
        match n.op {
            Op::And => stack.extend(n.src.iter().cloned()),
            _ => out.push(n),
        }
    }
    out
}

/// Puts values in for the variables that stand for indices from data.
struct FromData<'w> {
    links: &'w [(UOp, Link)],
    values: &'w Values,
    done: FxHashMap<UOp, UOp>,
}

impl FromData<'_> {
    fn resolve(&mut self, n: &UOp) -> UOp {
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for x in n.toposort().iter().filter(|x| x.op == Op::Variable) {
            let Some((_, link)) = self.links.iter().find(|(v, _)| v == x) else { continue };
            if !self.done.contains_key(x) {
                let value = self.resolve(&linked(link, self.values)).cast(DType::Index);
                self.done.insert(x.clone(), value);
            }
            map.insert(x.clone(), self.done[x].clone());
        }
        n.substitute(&map)
    }
}
