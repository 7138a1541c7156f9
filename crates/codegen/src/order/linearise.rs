//! A graph becomes a list of steps.
//!
//! Every value is placed in the innermost loop it depends on, so what does not change in a loop is outside it. A loop
//! stands in the innermost other loop that any of its values depends on. Inside a loop, steps come in the order of a
//! walk that computes things just before they are needed.

use super::is_step;
use crate::error::Error;
use crate::kernel::access::slot;
use crate::kernel::ranges;
use crate::pass::Ctx;
use frit_uop::graph::Numbered;
use frit_uop::{Arg, Linear, Op, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

const ROOT: usize = 0;
/// On a grid: stores whose loads come before another store. A lane waits for what it stores, and an assembler does not know
/// that what it loads next is elsewhere.
const LOADS_AHEAD: usize = 3;

/// A loop body; the root is the body of the kernel.
#[derive(Default)]
struct Block {
    range: Option<UOp>,
    parent: usize,
    depth: usize,
    /// What stands directly in it, in the order of the walk: nodes below `nodes`, blocks above.
    items: Vec<usize>,
}

type Items = SmallVec<[usize; 4]>;

struct Order<'a> {
    graph: &'a Numbered,
    blocks: Vec<Block>,
    /// The block of each node.
    home: Vec<usize>,
    /// What each item (a node, or a block after all nodes) needs among the items of its block.
    deps: Vec<Items>,
    /// What each item should come after, as long as that is no circle.
    soft_deps: Vec<Items>,
    /// Whether another item of its block needs it, once that is emitted.
    needed: Vec<bool>,
    /// Shuffles of the same two vectors, which are done with once all of them are there.
    same_source_shuffles: FxHashMap<(UOp, UOp), Vec<usize>>,
    state: Vec<u8>,
    steps: Vec<Step>,
}

/// The pass: the steps of a program graph, and what the kernel needs.
pub fn linearise(sink: &UOp, ctx: &mut Ctx) -> Result<Linear, Error> {
    let graph = Numbered::of(sink);
    let nodes = &graph.nodes[..];
    // thousands of nodes stand in a few sets of loops
    let sets: FxHashSet<&[u32]> = nodes.iter().map(|n| &n.ranges[..]).collect();
    let blocks = loops(nodes, &sets)?;
    let by_id: FxHashMap<u32, usize> =
        blocks.iter().enumerate().filter_map(|(i, b)| Some((b.range.as_ref()?.range_arg()?.id, i))).collect();
    let innermost =
        |set: &[u32]| set.iter().map(|r| by_id[r]).max_by_key(|&b| blocks[b].depth).unwrap_or(ROOT);
    let homes: FxHashMap<&[u32], usize> = sets.iter().map(|set| (*set, innermost(set))).collect();
    let home: Vec<usize> = nodes.iter().map(|n| homes[&n.ranges[..]]).collect();
    let count = nodes.len() + blocks.len();
    let mut order = Order {
        graph: &graph,
        blocks,
        home,
        deps: vec![SmallVec::new(); count],
        soft_deps: vec![SmallVec::new(); count],
        needed: vec![false; count],
        same_source_shuffles: FxHashMap::default(),
        state: vec![0; count],
        steps: vec![],
    };
    // what loops leave needs the registers that loads ahead would take
    let is_straight = ctx.target.grid.is_some() && order.blocks.len() == 1;
    order.connect(if is_straight { LOADS_AHEAD } else { 0 });
    order.emit(ROOT)?;
    let steps = std::mem::take(&mut order.steps);
    describe(sink, nodes, steps, ctx)
}

/// The loops of the program, each in the innermost one it must be in; `sets` are the loops that values are in.
fn loops(nodes: &[UOp], sets: &FxHashSet<&[u32]>) -> Result<Vec<Block>, Error> {
    let ranges = ranges::all(nodes);
    let id = |r: &UOp| r.range_arg().map_or(0, |a| a.id);
    if let Some(w) = ranges.windows(2).find(|w| id(&w[0]) == id(&w[1])) {
        return Err(Error::Kernel(format!("two ranges {:?} and {:?} have one id", w[0], w[1])));
    }
    let at: FxHashMap<u32, usize> = ranges.iter().enumerate().map(|(i, r)| (id(r), i)).collect();
    // for each range the ranges outside it, as far as some value is in both
    let mut outer: Vec<Vec<usize>> = vec![vec![]; ranges.len()];
    for set in sets {
        for (k, r) in set.iter().enumerate() {
            let i = *at
                .get(r)
                .ok_or_else(|| Error::Kernel(format!("a value is in range {r}, which is not there")))?;
            for o in &set[..k] {
                if !outer[i].contains(&at[o]) {
                    outer[i].push(at[o]);
                }
            }
        }
    }
    let mut parents: Vec<Option<usize>> = vec![None; ranges.len()];
    for i in (0..ranges.len()).rev() {
        // of two loops around this one, the inner one is in the outer one
        let Some(&p) = outer[i].iter().max() else { continue };
        parents[i] = Some(p);
        for o in outer[i].clone() {
            if o != p && !outer[p].contains(&o) {
                outer[p].push(o);
            }
        }
    }
    let mut blocks = vec![Block::default()];
    for (i, r) in ranges.iter().enumerate() {
        let parent = parents[i].map_or(ROOT, |p| p + 1);
        let depth = blocks[parent].depth + 1;
        blocks.push(Block { range: Some(r.clone()), parent, depth, items: vec![] });
    }
    Ok(blocks)
}

impl Order<'_> {
    /// The items that hold two nodes in the innermost block that holds both.
    fn siblings(&self, a: usize, b: usize) -> (usize, usize) {
        let n = self.graph.nodes.len();
        let (mut x, mut y) = (self.home[a], self.home[b]);
        let (mut item_a, mut item_b) = (a, b);
        while x != y {
            if self.blocks[x].depth >= self.blocks[y].depth {
                (item_a, x) = (n + x, self.blocks[x].parent);
            } else {
                (item_b, y) = (n + y, self.blocks[y].parent);
            }
        }
        (item_a, item_b)
    }

    fn connect(&mut self, ahead: usize) {
        for (i, node) in self.graph.nodes.iter().enumerate() {
            self.blocks[self.home[i]].items.push(i);
            if node.op == Op::Shuffle {
                self.same_source_shuffles
                    .entry((node.src[0].clone(), node.src[1].clone()))
                    .or_default()
                    .push(i);
            }
            for &s in self.graph.src(i) {
                let (from, to) = self.siblings(s as usize, i);
                if from != to {
                    self.deps[to].push(from);
                }
            }
        }
        for b in 1..self.blocks.len() {
            let parent = self.blocks[b].parent;
            self.blocks[parent].items.push(self.graph.nodes.len() + b);
        }
        // loops first: what is only wanted after one would have to be kept over it
        let mut after_loop: Vec<bool> = vec![false; self.graph.nodes.len()];
        for i in 0..self.graph.nodes.len() {
            let is_late = |d: &usize| after_loop.get(*d).copied().unwrap_or(true);
            self.deps[i].sort_by_key(|d| !is_late(d));
            after_loop[i] = self.deps[i].first().is_some_and(is_late);
        }
        // what is read from a parameter without saying when is read before it is written
        let of = |op: Op| self.graph.nodes.iter().enumerate().filter(move |(_, n)| n.op == op);
        let mut writes: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (i, n) in of(Op::Store) {
            if let Some(slot) = slot(n) {
                writes.entry(slot).or_default().push(i);
            }
        }
        let mut soft_deps = vec![];
        for (i, n) in of(Op::Load) {
            let plain = n.src[0].src.first().is_some_and(|b| b.op == Op::Param);
            for w in slot(n).filter(|_| plain).and_then(|s| writes.get(&s)).into_iter().flatten() {
                soft_deps.push(self.siblings(i, *w));
            }
        }
        soft_deps.extend(self.interleave_accumulators());
        soft_deps.extend(self.loads_ahead(ahead));
        for (from, to) in soft_deps {
            if from != to {
                self.soft_deps[to].push(from);
            }
        }
    }

    /// What stores of a block need from memory, before so many stores ahead of them.
    fn loads_ahead(&self, ahead: usize) -> Vec<(usize, usize)> {
        let (nodes, mut seen) = (&self.graph.nodes, vec![false; self.graph.nodes.len()]);
        let mut blocks: FxHashMap<usize, Vec<(usize, Vec<usize>)>> = FxHashMap::default();
        let is_store = |(_, n): &(usize, &UOp)| n.op == Op::Store && slot(n).is_some();
        for (i, _) in nodes.iter().enumerate().filter(is_store).filter(|_| ahead > 0) {
            let (mut loads, mut stack) = (vec![], vec![i]);
            while let Some(n) = stack.pop() {
                if std::mem::replace(&mut seen[n], true) || self.home[n] != self.home[i] {
                    continue;
                }
                if nodes[n].op == Op::Load && slot(&nodes[n]).is_some() {
                    loads.push(n);
                }
                stack.extend(self.graph.src(n).iter().map(|s| *s as usize));
            }
            blocks.entry(self.home[i]).or_default().push((i, loads));
        }
        let mut pairs = vec![];
        for stores in blocks.values() {
            for (k, (store, _)) in stores.iter().enumerate() {
                let later = stores[k + 1..].iter().take(ahead).flat_map(|(_, loads)| loads);
                pairs.extend(later.map(|load| (*load, *store)));
            }
        }
        pairs
    }

    /// Put chains in such an order that one of the factors of their first steps is done with before the next one is
    /// wanted: of which there are more, so that the fewer are kept.
    fn order_for_operand_reuse(
        &self,
        group: &mut [Vec<usize>],
        first_of: impl Fn(&[usize]) -> Option<usize>,
    ) {
        let factor = |chain: &[usize], k: usize| match first_of(chain).map(|i| &self.graph.nodes[i]) {
            Some(n) if matches!(n.op, Op::MulAcc | Op::Dot4) => Some(n.src[k].clone()),
            _ => None,
        };
        let seen = |k: usize| {
            let mut seen: FxHashMap<Option<UOp>, usize> = FxHashMap::default();
            for c in &*group {
                let next = seen.len();
                seen.entry(factor(c, k)).or_insert(next);
            }
            seen
        };
        let (first, second) = (seen(0), seen(1));
        let (k, seen) = if second.len() > first.len() { (1, second) } else { (0, first) };
        group.sort_by_key(|c| seen[&factor(c, k)]);
    }

    /// The updates, one after the other, that a value of a block is made by, and the node that they begin from.
    fn updates(&self, value: usize, block: usize) -> (Vec<usize>, usize) {
        let (mut chain, mut at) = (vec![], value);
        while let Some(before) = updated(&self.graph.nodes[at]).filter(|_| self.home[at] == block) {
            chain.push(at);
            at = self.graph.src(at)[before] as usize;
        }
        chain.reverse();
        (chain, at)
    }

    /// The sum of products of whole numbers that an update adds, scaled: none, or its steps.
    fn sum_inside(&self, update: usize) -> Vec<usize> {
        let mut stack: Vec<usize> = self.graph.src(update)[..2].iter().map(|s| *s as usize).collect();
        while let Some(at) = stack.pop() {
            match self.graph.nodes[at].op {
                Op::Dot4 => return self.updates(at, self.home[update]).0,
                Op::Cast | Op::Mul => stack.extend(self.graph.src(at).iter().map(|s| *s as usize)),
                _ => {}
            }
        }
        vec![]
    }

    /// Accumulators that a loop updates several times an iteration are interleaved: all once, then all once more. No
    /// update waits for the one before it, and what all of them use is done with before the next turn. So are sums that the
    /// updates of one turn add.
    fn interleave_accumulators(&self) -> Vec<(usize, usize)> {
        let mut chains: FxHashMap<usize, Vec<Vec<usize>>> = FxHashMap::default();
        for (i, store) in self.graph.nodes.iter().enumerate().filter(|(_, n)| n.op == Op::Store) {
            let (chain, begin) = self.updates(self.graph.src(i)[1] as usize, self.home[i]);
            let n = &self.graph.nodes[begin];
            let of_register = n.op == Op::Load && n.src[0].behind_after().op == Op::Define;
            if of_register && n.src[0].behind_after() == store.src[0].behind_after() {
                chains.entry(self.home[i]).or_default().push(chain);
            }
        }
        let mut soft_deps = vec![];
        for group in chains.values_mut().filter(|g| g.len() > 1) {
            let inside = |chain: &[usize]| chain.first().and_then(|i| self.sum_inside(*i).first().copied());
            self.order_for_operand_reuse(group, |chain| inside(chain).or(chain.first().copied()));
            let longest = |chains: &[Vec<usize>]| chains.iter().map(|c| c.len()).max().unwrap_or(0);
            let mut order: Vec<usize> = vec![];
            for turn in 0..longest(group) {
                let updates: Vec<usize> = group.iter().filter_map(|c| c.get(turn).copied()).collect();
                let sums: Vec<Vec<usize>> = updates.iter().map(|i| self.sum_inside(*i)).collect();
                order.extend(
                    (0..longest(&sums)).flat_map(|t| sums.iter().filter_map(move |c| c.get(t).copied())),
                );
                order.extend(updates);
            }
            soft_deps.extend(order.windows(2).map(|w| (w[0], w[1])));
        }
        soft_deps
    }

    /// The steps of a block, each after what it needs: what nothing else in it needs, in the order it was met, and then
    /// what that left.
    fn emit(&mut self, block: usize) -> Result<(), Error> {
        let items = std::mem::take(&mut self.blocks[block].items);
        for &i in &items {
            for &d in &self.deps[i] {
                self.needed[d] = true;
            }
        }
        let (inner, last): (Vec<usize>, Vec<usize>) = items.into_iter().partition(|&i| self.needed[i]);
        // (item, how far its soft deps and deps are done)
        let mut stack = vec![];
        for item in last.into_iter().chain(inner) {
            stack.push((item, 0));
            while let Some((i, done)) = stack.pop() {
                if self.state[i] == 2 {
                    continue;
                }
                self.state[i] = 1;
                // what it comes after goes first, so that what it needs besides is made just before it
                let (deps, soft_deps) = (&self.deps[i], &self.soft_deps[i]);
                let of =
                    |k: usize| if k < soft_deps.len() { soft_deps[k] } else { deps[k - soft_deps.len()] };
                let next = (done..deps.len() + soft_deps.len())
                    .find(|&k| self.state[of(k)] == 0 || self.state[of(k)] == 1 && k >= soft_deps.len());
                match next {
                    Some(k) => {
                        let d = of(k);
                        if self.state[d] == 1 {
                            return Err(Error::Kernel("its loops need each other".into()));
                        }
                        stack.push((i, k + 1));
                        stack.push((d, 0));
                    }
                    None => {
                        self.place(i)?;
                        self.state[i] = 2;
                        self.place_shuffles_of(i)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The other shuffles of what this one took.
    fn place_shuffles_of(&mut self, item: usize) -> Result<(), Error> {
        let Some(node) = self.graph.nodes.get(item).filter(|n| n.op == Op::Shuffle) else { return Ok(()) };
        let same_source_shuffles =
            self.same_source_shuffles.remove(&(node.src[0].clone(), node.src[1].clone())).unwrap_or_default();
        for twin in same_source_shuffles {
            if self.state[twin] == 0 && self.home[twin] == self.home[item] {
                self.place(twin)?;
                self.state[twin] = 2;
            }
        }
        Ok(())
    }

    fn place(&mut self, item: usize) -> Result<(), Error> {
        let n = self.graph.nodes.len();
        if item < n {
            let node = &self.graph.nodes[item];
            if is_step(node.op) {
                self.steps.push(Step::Do(node.clone()));
            }
            return Ok(());
        }
        let Some(range) = self.blocks[item - n].range.clone() else { return Ok(()) };
        self.steps.push(Step::Open(range.clone()));
        self.emit(item - n)?;
        self.steps.push(Step::Close(range));
        Ok(())
    }
}

/// Which source an update of an accumulator adds to.
fn updated(n: &UOp) -> Option<usize> {
    match n.op {
        Op::MulAcc | Op::Dot4 => Some(2),
        // products of upper bytes, that those of lower ones are added to
        Op::Add if n.src[1].op == Op::Shl => Some(1),
        Op::Add | Op::Mul | Op::Max | Op::Min | Op::Shl => Some(0),
        _ => None,
    }
}

fn describe(sink: &UOp, nodes: &[UOp], steps: Vec<Step>, ctx: &Ctx) -> Result<Linear, Error> {
    let of = |op: Op| nodes.iter().filter(move |n| n.op == op).cloned();
    let mut params: Vec<UOp> = ctx.params.clone();
    params.sort_by_key(|p| if let Arg::Param { slot, .. } = p.arg { slot } else { 0 });
    for (i, p) in params.iter().enumerate() {
        if !matches!(p.arg, Arg::Param { slot, .. } if slot as usize == i) {
            return Err(Error::Kernel(format!("parameter {i} is {p:?}")));
        }
    }
    let mut written = vec![false; params.len()];
    for s in of(Op::Store).filter_map(|n| slot(&n)) {
        written[s as usize] = true;
    }
    let mut vars: Vec<UOp> = of(Op::Variable).collect();
    let name = |v: &UOp| if let Arg::Var { name, .. } = &v.arg { name.clone() } else { "".into() };
    vars.extend(
        ctx.vars.iter().filter(|v| !vars.iter().any(|x| name(x) == name(v))).cloned().collect::<Vec<_>>(),
    );
    vars.sort_by_key(name);
    let mut defines: Vec<UOp> = of(Op::Define).collect();
    defines.sort_by_key(|d| if let Arg::Define { id, .. } = d.arg { id } else { 0 });
    let thread = of(Op::Range).find(|r| r.range_arg().is_some_and(|a| a.kind == frit_uop::AxisKind::Thread));
    let mut specials: Vec<UOp> = of(Op::Special).collect();
    specials.sort_by_key(|s| if let Arg::Name(n) = &s.arg { n.clone() } else { "".into() });
    let kernel_name: Arc<str> = match &sink.arg {
        Arg::Name(n) => n.clone(),
        _ => "kernel".into(),
    };
    debug_assert!(nodes.iter().all(|n| n.op != Op::Load || n.src[0].behind_after().op != Op::Param));
    let (flops, bytes) = (ctx.flops.clone(), ctx.bytes.clone());
    Ok(Linear { name: kernel_name, steps, params, written, vars, defines, specials, thread, flops, bytes })
}
