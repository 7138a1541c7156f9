//! What heuristics look at while they choose: accesses, work, reduces, and the plan so far.

use crate::kernel::access::without_constant;
use crate::kernel::ranges::closed;
use crate::kernel::word::bytes_of_word;
use crate::plan::Plan;
use crate::plan::opt::{Opt, Order};
use frit_uop::{AxisKind, DType, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Elements from which a step is a stride: what is between two steps is not used up by the loop that takes them.
pub(super) const STRIDED: i64 = 64;

/// A load or store: how it moves, and how often it happens.
pub(super) struct Access {
    pub idx: UOp,
    pub node: UOp,
    /// The ranges of the loops it happens in, whether or not it moves with them.
    pub around: SmallVec<[u32; 6]>,
    pub times: f64,
    /// Loads of elements side by side, this one among them; 0 of a store.
    pub neighbours: usize,
}

impl Access {
    /// Bytes of an element.
    pub fn size(&self) -> usize {
        match &self.node {
            n if n.op == Op::Store => n.value().dtype.size(),
            n => n.dtype.size(),
        }
    }
    /// Whether it is elsewhere in each iteration: its index is, or it is in a stage that is filled anew.
    pub fn moves_with(&self, origin: u32) -> bool {
        self.idx.ranges.contains(&origin) || self.node.buffer().ranges.contains(&origin)
    }
}

pub(super) struct Chooser<'p, 'a> {
    pub plan: &'p mut Plan<'a>,
    pub applied: Vec<Opt>,
    pub accesses: Vec<Access>,
    /// Arithmetic on data: the ranges it is in, how often it happens.
    pub work: Vec<(UOp, f64)>,
    /// Of it, what becomes the load of a word.
    pub loaded: FxHashSet<UOp>,
    pub reduces: Vec<UOp>,
}

/// Count the loads of elements side by side: those of a buffer whose places differ by constants, one after the other.
fn count_neighbours(accesses: &mut [Access]) {
    let mut groups: FxHashMap<(UOp, UOp), Vec<(i64, usize)>> = FxHashMap::default();
    for (i, a) in accesses.iter().enumerate().filter(|(_, a)| a.node.op == Op::Load && a.node.src.len() == 1)
    {
        let (rest, at) = without_constant(&a.idx);
        groups.entry((a.node.buffer().clone(), rest)).or_default().push((at, i));
    }
    for group in groups.values_mut() {
        group.sort_unstable();
        for run in group.chunk_by(|a, b| b.0 - a.0 <= 1) {
            let (first, last) = (run[0].0, run[run.len() - 1].0);
            run.iter().for_each(|(_, i)| accesses[*i].neighbours = (last - first + 1) as usize);
        }
    }
}

/// What puts words together from their bytes, which vectors load as the words that they are.
fn of_words(order: &[UOp]) -> FxHashSet<UOp> {
    let is_byte = |n: &UOp| n.op == Op::Load;
    let words = order.iter().filter(|n| bytes_of_word(n, is_byte).is_some());
    let made = words.flat_map(|w| w.toposort()).filter(|n| n.dtype != DType::Index && !is_byte(n));
    made.collect()
}

impl<'p, 'a> Chooser<'p, 'a> {
    pub(super) fn new(plan: &'p mut Plan<'a>) -> Self {
        let order = plan.ast.toposort();
        let extent = |id: &u32| {
            plan.axes.iter().find(|a| a.origin == *id).map_or(1.0, |a| a.extent.bounds.1.max(1) as f64)
        };
        let times = |ids: &[u32]| ids.iter().map(extent).product::<f64>();
        let reduces: Vec<UOp> = order.iter().filter(|n| n.op == Op::Reduce).cloned().collect();
        // what is in a reduce's loop happens as often as the loop goes round
        let around = |n: &UOp| {
            let mut ids = n.ranges.clone();
            for r in &reduces {
                if closed(r).iter().any(|id| n.ranges.contains(id)) {
                    ids.extend(r.src[0].ranges.iter().copied());
                }
            }
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let mut accesses: Vec<Access> = order
            .iter()
            .filter_map(|n| {
                let (idx, around) = (n.buffer_and_index()?.1.clone(), around(n));
                Some(Access { idx, node: n.clone(), times: times(&around), around, neighbours: 0 })
            })
            .collect();
        count_neighbours(&mut accesses);
        let is_data = |n: &UOp| n.op.alu().is_some() && !matches!(n.dtype, DType::Index | DType::Bool);
        let mut work: Vec<(UOp, f64)> =
            order.iter().filter(|n| is_data(n)).map(|n| (n.clone(), times(&n.ranges))).collect();
        work.extend(reduces.iter().map(|r| (r.body().clone(), times(&r.body().ranges))));
        let has_words = plan.target.vector_bytes > 0 && plan.target.has_dot4();
        let loaded = if has_words { of_words(&order) } else { FxHashSet::default() };
        Chooser { plan, applied: vec![], accesses, work, loaded, reduces }
    }

    pub(super) fn take(&mut self, opt: Opt) -> bool {
        let ok = self.plan.apply(&opt).is_ok();
        if ok {
            self.applied.push(opt);
        }
        ok
    }
    /// Take what `f` takes, or nothing where it gives up.
    pub(super) fn attempt(&mut self, f: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = (self.plan.clone(), self.applied.clone());
        let done = f(self);
        if !done {
            (*self.plan, self.applied) = before;
        }
        done
    }
    /// Stage what a load reads in local memory, filled where the axes before `at` stand.
    pub(super) fn stage(&mut self, load: &UOp, at: usize, buffers: u8) -> bool {
        let operand = self.plan.operands.iter().position(|l| l == load);
        let stage =
            |operand| Opt::Stage { operand, at, space: Space::Local, order: Order::LoopOrder, buffers };
        operand.is_some_and(|o| self.take(stage(o)))
    }
    pub(super) fn split(&mut self, axis: usize, n: usize, kind: AxisKind) -> bool {
        self.take(Opt::Split { axis, n, kind, inner: true })
    }
    /// Where the axis stands that is left of a range, walked as `kind`.
    pub(super) fn find(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        self.plan.axes.iter().position(|a| a.origin == origin && a.kind == kind)
    }
    /// Ranges that are still walked as they came, with their kinds.
    pub(super) fn origins(&self, kinds: &[AxisKind]) -> Vec<(u32, AxisKind)> {
        self.plan.axes.iter().filter(|a| kinds.contains(&a.kind)).map(|a| (a.origin, a.kind)).collect()
    }
    pub(super) fn size(&self, origin: u32, kind: AxisKind) -> Option<usize> {
        self.plan.axes[self.find(origin, kind)?].size()
    }
    pub(super) fn is_reduced(&self, n: &UOp) -> bool {
        self.reduces.iter().any(|r| closed(r).iter().any(|id| n.ranges.contains(id)))
    }
}
