//! What the walk finds out: which element of a node a kernel wants, how the sources answer, what is stored.

use crate::index::{self, Idx};
use crate::kernels;
use frit_abi::Alu;
use frit_uop::graph::Numbered;
use frit_uop::{Arg, AxisKind, Op, UOp};
use smallvec::SmallVec;
use std::rc::Rc;

/// The tensor graph and what was decided about it.
pub struct Cut {
    pub list: Rc<Numbered>,
    /// For each node the elements that are wanted of it, unless it is inlined: then its recipes stand for them.
    pub requests: Vec<Vec<Request>>,
    pub placements: Vec<Placement>,
    pub drafts: Vec<Draft>,
    /// The draft of each tensor-level store that has elements.
    pub stores: Vec<(u32, u32)>,
    /// Index values that come from data: the variable that stands for one until its value is built.
    pub from_data: Vec<(UOp, Link)>,
}

/// Dims from the outermost to the innermost in memory.
pub type Order = SmallVec<[usize; 4]>;

/// What becomes of a node.
#[derive(Debug)]
pub enum Placement {
    /// No one asks for it, or it is memory already.
    Unused,
    /// One recipe for each request.
    Inline { recipes: SmallVec<[Recipe; 1]> },
    /// Stored by a draft, its dims in an order where it is not theirs; every request is a load.
    Staged { draft: u32, recipe: Recipe, order: Option<Box<Order>> },
    /// A draft stores the base, then rows are written over it.
    Scattered { draft: u32, rows: Option<Box<Rows>> },
    /// Of a store: rows are written over what is in its memory.
    ScatteredInPlace { draft: u32, rows: Option<Box<Rows>> },
}

/// The rows of a scatter: the draft of their kernel, index and value links, how to combine.
#[derive(Debug)]
pub struct Rows {
    pub draft: u32,
    pub idx: Link,
    pub val: Link,
    pub site: u32,
    pub combine: Option<Alu>,
    pub count: UOp,
    pub stride: UOp,
    pub rest: UOp,
}

/// A kernel whose value is not built yet.
#[derive(Debug, Default)]
pub struct Draft {
    pub ranges: Vec<UOp>,
    /// The number of the next range: each kernel counts from 0, so that kernels alike have their indices in common.
    next: u32,
    /// Ranges of an extent that may be 0.
    pub may_be_empty: Vec<UOp>,
    /// A range that a scan or scatter carries along.
    pub ordered: Option<UOp>,
    /// The memory it stores to, by number of the node, and the flat index there; `None` for a stage.
    pub target: Option<(u32, UOp)>,
    /// The value of a tensor-level store, unless a node is staged by it.
    pub root: Option<Link>,
    /// Position of the root in the tensor graph.
    pub rank: usize,
    /// The node this kernel stores whole into a parameter that no one reads before: a stage of that node may use it.
    pub stores_whole: Option<u32>,
    /// A reduce depends on all ranges.
    pub has_full_reduce: bool,
    /// A reduce is the sum of a product of repeated values.
    pub sums_product: bool,
    /// Some reduce depends only on this many outer ranges.
    pub scope: Option<usize>,
    /// An index comes from data.
    pub gathers: bool,
    /// It stores at an index from data.
    pub is_checked: bool,
    /// It is the kernel of a chain of products.
    pub is_chain: bool,
    /// It stores dims in another order than theirs.
    pub is_permuted: bool,
}

impl Draft {
    /// A kernel that stores something of these dims, and the index of each.
    pub fn over(dims: &[UOp], rank: usize) -> (Draft, Idx) {
        let mut next = 0..;
        let (ranges, idx) = index::open_ranges(dims, || next.next().unwrap_or(0), AxisKind::Global);
        let may_be_empty = ranges.iter().filter(|r| may_be_empty(r)).cloned().collect();
        (Draft { rank, next: ranges.len() as u32, ranges, may_be_empty, ..Draft::default() }, idx)
    }
    /// No reduce moves in but those of its chain of products.
    pub fn keep_to_chain(&mut self) {
        (self.is_chain, self.has_full_reduce, self.sums_product, self.scope) = (true, true, true, Some(0));
    }
    /// One more range.
    pub fn range(&mut self, extent: &UOp, kind: AxisKind) -> UOp {
        let range = UOp::range(extent, self.next, kind);
        self.next += 1;
        self.may_be_empty.extend(may_be_empty(&range).then(|| range.clone()));
        range
    }
}

fn may_be_empty(range: &UOp) -> bool {
    range.extent().bounds.0 <= 0
}

/// Someone wants one element of a node, as a function of the kernel's ranges.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernel that asks.
    pub kernel: u32,
    /// One index per dim; meaningless where the gate is false.
    pub idx: Idx,
    /// From `Pad`: outside of it the value is not used, and no memory may be touched.
    pub gate: Option<UOp>,
    /// From `Gather`: the place to blame and the condition that an index from data is in range.
    pub check: Option<(u32, UOp)>,
    /// Ranges that may be empty and that reshapes left out of an index: where one is, there is no such element.
    pub lost: SmallVec<[UOp; 1]>,
    /// How many times each element is asked for by this request: more than 1 behind an `Expand`.
    pub repeat: u64,
    /// Asked inside a reduce loop.
    pub in_reduce: bool,
}

impl Request {
    /// A plain request: every element of the kernel's space once.
    pub fn plain(kernel: u32, idx: Idx) -> Request {
        Request { kernel, idx, gate: None, check: None, lost: SmallVec::new(), repeat: 1, in_reduce: false }
    }
    /// The same asker with other indices.
    pub fn at(&self, idx: Idx) -> Request {
        Request { idx, ..self.clone() }
    }
    /// Whether the two want the same element for the same kernel.
    pub fn same(&self, o: &Request) -> bool {
        self.kernel == o.kernel
            && self.idx == o.idx
            && self.gate == o.gate
            && self.check == o.check
            && self.lost == o.lost
    }
    /// Nothing but indices: no gate, no check.
    pub fn is_ungated(&self) -> bool {
        self.gate.is_none() && self.check.is_none()
    }
    /// The numbers of the ranges the indices are made of, ascending.
    pub fn ranges(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.idx.iter().flat_map(|i| i.ranges.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// Whether an index is made of a range.
    fn walks(&self, range: &UOp) -> bool {
        range.range_arg().is_some_and(|a| self.idx.iter().any(|i| i.ranges.contains(&a.id)))
    }
    /// The same asker with the indices that the reshape `n` makes of these; ranges that it leaves out of one and that may be
    /// empty are noted.
    pub fn reshaped(&self, n: &UOp, idx: Idx, may_be_empty: &[UOp]) -> Request {
        let mut down = self.at(idx);
        if may_be_empty.is_empty() {
            return down;
        }
        let left_out = index::left_out(n.shape(), &self.idx, n.src[0].shape(), &down.idx);
        for r in may_be_empty {
            if r.range_arg().is_some_and(|a| left_out.contains(&a.id)) && !down.lost.contains(r) {
                down.lost.push(r.clone());
            }
        }
        down
    }
    /// That every range has a step which the indices were made of but the place in memory is not. A load that depends on
    /// no range of a loop stands before it, and happens where the loop has no step.
    fn some_step(&self, flat: &UOp, may_be_empty: &[UOp]) -> Option<UOp> {
        let from = may_be_empty.iter().filter(|r| self.walks(r) || self.lost.contains(r)).collect::<Vec<_>>();
        if from.is_empty() {
            return None;
        }
        let place = frit_uop::symbolic::simplify(flat);
        let stays = |r: &UOp| r.range_arg().is_some_and(|a| place.ranges.contains(&a.id));
        let gone = from.into_iter().filter(|r| !stays(r));
        gone.fold(None, |gate, r| index::both(gate, UOp::index(0).lt(r.extent())))
    }
    /// The element at flat index `flat` of memory, under the request's gate and check; `may_be_empty` are the ranges that
    /// may be.
    pub fn load(&self, buf: &UOp, flat: &UOp, may_be_empty: &[UOp]) -> UOp {
        let zero = UOp::index(0);
        let gate = match self.some_step(flat, may_be_empty) {
            Some(some) => index::both(self.gate.clone(), some),
            None => self.gate.clone(),
        };
        match (&self.check, &gate) {
            (None, None) => buf.at(flat).load(),
            (None, Some(g)) => {
                // outside the gate the value is not used, so a place that is always in the buffer needs none
                let place = frit_uop::symbolic::simplify(flat);
                if place.bounds.0 >= 0 && place.bounds.1 < kernels::len(buf) as i128 {
                    return buf.at(&place).load();
                }
                buf.at(&g.select(&place, &UOp::invalid())).load()
            }
            (Some((site, inside)), g) => {
                // outside the gate is no miss: element 0 is read and not used
                let flat = g.as_ref().map_or(flat.clone(), |g| g.select(flat, &zero));
                let at = buf.at(&inside.select(&flat, &UOp::invalid()));
                UOp::new(Op::Load, buf.dtype, [at], Arg::Site(*site))
            }
        }
    }
}

/// Where the value for a request comes from.
#[derive(Clone, Debug)]
pub enum Link {
    /// Known already: a constant, a load of a parameter, an index.
    Value(UOp),
    /// The n-th request of a node.
    Request(u32, u32),
}

/// How a node's value for one request is made from its sources'.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The kernel that asks.
    pub kernel: u32,
    pub links: SmallVec<[Link; 2]>,
    /// Ranges a reduce or scan combines over.
    pub ranges: SmallVec<[UOp; 2]>,
    /// What a `Pad` adds: zero where it is false.
    pub gate: Option<UOp>,
}

/// Whether all of `idx` are distinct ranges or the 0 of a dim of size 1.
pub fn is_plain(idx: &[UOp]) -> bool {
    let mut seen: SmallVec<[&UOp; 6]> = SmallVec::new();
    idx.iter().all(|i| {
        let fresh = i.op == Op::Range && !seen.contains(&i);
        seen.push(i);
        fresh || i.as_int() == Some(0)
    })
}

/// The position a request means in memory that holds `dims`: row-major, in an order.
pub fn position(dims: &[UOp], r: &Request, order: Option<&Order>) -> UOp {
    let Some(order) = order else { return index::flatten(dims, &r.idx) };
    let in_order = |all: &[UOp]| order.iter().map(|d| all[*d].clone()).collect::<Idx>();
    index::flatten(&in_order(dims), &in_order(&r.idx))
}
