//! The staged graph of a cut: values of the kernels, sources first.

use super::record;
use super::request::{Cut, Link, Order, Placement, Recipe, Request, Rows, position};
use crate::index;
use crate::kernels;
use frit_abi::record::origins;
use frit_abi::{Alu, Scalar};
use frit_uop::rewrite::{is_recorded, replaced};
use frit_uop::symbolic::compare::conjuncts;
use frit_uop::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Values by node and request.
type Values = Vec<SmallVec<[UOp; 2]>>;

/// A `Sink` of every stage and store, each over values of one element; and the names of where drafts store, for people. Only
/// for them placements are left in the cut.
pub fn build(cut: &mut Cut) -> (UOp, Vec<String>) {
    let (placements, requests) = (std::mem::take(&mut cut.placements), std::mem::take(&mut cut.requests));
    let (is_told, mut told) = (record::is_on() || origins(), vec![]);
    let draft_of: FxHashMap<u32, u32> = cut.stores.iter().copied().collect();
    let mut b = Build {
        cut: &*cut,
        values: cut.list.nodes.iter().map(|_| SmallVec::new()).collect(),
        memory: FxHashMap::default(),
        effects: vec![None; cut.drafts.len()],
        list: vec![],
        from_data: FxHashMap::default(),
        places: vec![String::new(); if is_told { cut.drafts.len() } else { 0 }],
    };
    // each placement goes when it is used, while it is near
    for (i, (placement, requests)) in placements.into_iter().zip(requests).enumerate() {
        let n = &cut.list.nodes[i];
        match (&placement, n.op) {
            (Placement::Inline { recipes }, _) => {
                b.values[i] = recipes.iter().map(|r| combine(n, r, &b.values)).collect();
            }
            (Placement::Staged { draft, recipe, order }, _) => {
                let value = combine(n, recipe, &b.values);
                let value = if n.op == Op::Contiguous { value.contiguous() } else { value };
                let memory = b.store(*draft, value);
                b.load_from(i, &requests, memory, order.as_deref());
            }
            (Placement::Scattered { draft, rows }, _) => {
                let memory = b.scatter(*draft, rows.as_deref());
                b.load_from(i, &requests, memory, None);
            }
            (Placement::ScatteredInPlace { draft, rows: Some(rows) }, _) => {
                let memory = b.target(*draft);
                b.effects[*draft as usize] = memory.map(|m| b.write_rows(m, rows));
            }
            (_, Op::Store) => {
                if let Some(&draft) = draft_of.get(&(i as u32))
                    && b.effects[draft as usize].is_none()
                    && let Some(root) = &cut.drafts[draft as usize].root
                {
                    b.store(draft, linked(root, &b.values));
                }
            }
            (_, Op::After) => {
                let store = draft_of.get(&cut.list.src(i)[1]);
                let effect = store.and_then(|&d| b.effects[d as usize].clone());
                b.load_from(i, &requests, n.input().after(effect), None);
            }
            _ => {}
        }
        let what = match &placement {
            Placement::Inline { .. } => "an element of it, computed where it is read",
            _ => "an element of it, read from memory",
        };
        b.values[i].iter().for_each(|value| replaced(what, n, value));
        if is_told {
            told.push(placement);
        }
    }
    let (sink, places) = (UOp::sink(b.list), b.places);
    cut.placements = told;
    record::placements(cut, &places);
    (sink, places)
}

struct Build<'c> {
    cut: &'c Cut,
    values: Values,
    /// What an `After` of the tensor graph became, by its number.
    memory: FxHashMap<u32, UOp>,
    /// What each draft of a tensor-level store became.
    effects: Vec<Option<UOp>>,
    /// Every stage and effect, sources first.
    list: Vec<UOp>,
    /// Values of the variables that stand for indices from data.
    from_data: FxHashMap<UOp, UOp>,
    /// Where each draft stores, where someone wants to know.
    places: Vec<String>,
}

impl Build<'_> {
    /// Store the value of a draft; the memory that it is in then.
    fn store(&mut self, draft: u32, value: UOp) -> UOp {
        let d = &self.cut.drafts[draft as usize];
        let Some((target, at)) = &d.target else {
            let value = if d.gathers { self.resolve(&value) } else { value };
            let stage = kernels::stage(&value, d.ranges.iter().cloned(), self.list.len() as u32);
            self.list.push(stage);
            let memory = kernels::filled_by(&self.list[self.list.len() - 1]);
            record::place(&mut self.places, draft, &memory);
            return memory;
        };
        let memory = self.memory_of(*target);
        record::place(&mut self.places, draft, &memory);
        let (at, value) = match d.gathers {
            true => (self.resolve(at), self.resolve(&value)),
            false => (at.clone(), value),
        };
        let value = if value.dtype == DType::Index { value.cast(memory.dtype) } else { value };
        let effect = memory.at(&at).store(&value).end(d.ranges.iter().cloned());
        if is_recorded()
            && let Some((node, _)) = self.cut.stores.iter().find(|s| s.1 == draft)
        {
            replaced("a store of each element", &self.cut.list.nodes[*node as usize], &effect);
        }
        self.effects[draft as usize] = Some(effect.clone());
        self.list.push(effect.clone());
        memory.behind_after().after([effect])
    }
    /// The base is copied, then rows are written in order, one after the other.
    fn scatter(&mut self, copy: u32, rows: Option<&Rows>) -> UOp {
        let base = self.cut.drafts[copy as usize].root.as_ref().map(|l| linked(l, &self.values));
        let memory = self.store(copy, base.unwrap_or_else(UOp::invalid));
        let Some(r) = rows else { return memory };
        let effect = self.write_rows(memory.clone(), r);
        if self.effects[copy as usize].is_some() {
            self.effects[copy as usize] = Some(effect.clone());
        }
        memory.behind_after().after([effect])
    }
    /// The memory that a node of the tensor graph stands for.
    fn memory_of(&self, node: u32) -> UOp {
        // a parameter may come later in the list than what is stored to it
        let base = &self.cut.list.nodes[node as usize];
        if base.op == Op::Param { base } else { &self.memory[&node] }.clone()
    }
    /// The memory that a draft stores to.
    fn target(&self, draft: u32) -> Option<UOp> {
        self.cut.drafts[draft as usize].target.as_ref().map(|(node, _)| self.memory_of(*node))
    }
    /// Rows of a scatter, written to memory in order, one after the other.
    fn write_rows(&mut self, memory: UOp, r: &Rows) -> UOp {
        let row = linked(&r.idx, &self.values).cast(DType::Index);
        let inside = row.lt(&UOp::index(0)).un(Alu::Not).and_(&row.lt(&r.count));
        let at = inside.select(&index::add(&index::mul(&row, &r.stride), &r.rest), &UOp::invalid());
        let new = linked(&r.val, &self.values);
        let value = match r.combine {
            None => new,
            Some(op) => {
                let old = memory.at(&at);
                UOp::new(Op::Load, old.dtype, [old], Arg::Site(r.site)).bin(op, &new)
            }
        };
        record::place(&mut self.places, r.draft, &memory);
        let d = &self.cut.drafts[r.draft as usize];
        let (at, value) = match d.gathers {
            true => (self.resolve(&at), self.resolve(&value)),
            false => (at, value),
        };
        let store = UOp::new(Op::Store, DType::Void, [memory.at(&at), value], Arg::Site(r.site));
        let effect = store.end(d.ranges.iter().cloned());
        self.list.push(effect.clone());
        effect
    }
    /// Every request of node `i` loads from memory, where dims lie in an order.
    fn load_from(&mut self, i: usize, requests: &[Request], memory: UOp, order: Option<&Order>) {
        let n = &self.cut.list.nodes[i];
        let load = |r: &Request| {
            let may_be_empty = &self.cut.drafts[r.kernel as usize].may_be_empty;
            r.load(&memory, &position(n.shape(), r, order), may_be_empty)
        };
        self.values[i] = requests.iter().map(load).collect();
        if n.op == Op::After {
            self.memory.insert(i as u32, memory);
        }
    }
    /// Put values in for the variables that stand for indices from data.
    fn resolve(&mut self, n: &UOp) -> UOp {
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for x in kernels::body(std::slice::from_ref(n)).iter().filter(|x| x.op == Op::Variable) {
            let Some((_, link)) = self.cut.from_data.iter().find(|(v, _)| v == x) else { continue };
            if !self.from_data.contains_key(x) {
                let value = self.resolve(&linked(link, &self.values)).cast(DType::Index);
                self.from_data.insert(x.clone(), value);
            }
            map.insert(x.clone(), self.from_data[x].clone());
        }
        if map.is_empty() { n.clone() } else { kernels::substitute(std::slice::from_ref(n), &map)[0].clone() }
    }
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
        (o, _) if o.is_elementwise() => UOp::new(o, n.dtype, (0..r.links.len()).map(of), n.arg.clone()),
        _ => match &r.gate {
            Some(g) => zero_outside(g, of(0)),
            None => of(0),
        },
    }
}

/// What `Pad` makes of a value: a load that is gated already reads zero outside, which every conversion keeps.
fn zero_outside(gate: &UOp, v: UOp) -> UOp {
    let zero = UOp::constant(Scalar::zero(v.dtype), v.dtype);
    if v == zero {
        return v;
    }
    let mut load = &v;
    while load.op == Op::Cast {
        load = load.input();
    }
    if load.op == Op::Load && load.arg == Arg::None {
        let at = load.index();
        if at.op == Op::Where && at.if_false().op == Op::Invalid {
            let held = conjuncts(at.condition());
            if conjuncts(gate).iter().all(|c| held.contains(c)) {
                return v;
            }
        }
    }
    gate.select(&v, &zero)
}
