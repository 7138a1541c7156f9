//! Facts about a staged graph: a `Sink` of kernels, which meet in memory.
//!
//! ```text
//! memory   Param, Define {Global id len}, After(memory, effects…)
//! stage    Stage(value, ranges…) {Global id}      fills the memory of its number
//! effect   Store(Index(memory, flat), value), perhaps in End(…, ranges…)
//! ```
//! Walking from a stage or an effect, memory is a leaf. Passes look at kernels through [`Kernel`]; what they hand on is
//! the graph.

use crate::error::Error;
use crate::index;
use frit_uop::graph::{NodeMap, Numbered, toposort_to};
use frit_uop::nodes::Nodes;
use frit_uop::{Arg, AxisKind, Op, Space, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whether a node of a staged graph is memory.
pub fn is_memory(n: &UOp) -> bool {
    matches!(n.op, Op::Param | Op::Define | Op::After)
}

/// The nodes of a kernel below these, sources first, memory as leaves.
pub fn body(roots: &[UOp]) -> Nodes {
    toposort_to(roots, is_memory)
}

/// The value of each element, stored over the ranges in row-major order to the memory of that number.
pub fn stage(value: &UOp, ranges: impl IntoIterator<Item = UOp>, id: u32) -> UOp {
    let src: SmallVec<[UOp; 4]> = std::iter::once(value.clone()).chain(ranges).collect();
    UOp::with(Op::Stage, value.dtype, src, Arg::Stage { space: Space::Global, id, buffers: 1 })
}

/// The memory that a stage fills.
pub fn filled_by(stage: &UOp) -> UOp {
    let id = if let Arg::Stage { id, .. } = stage.arg { id } else { 0 };
    UOp::define(Space::Global, id, index::max_numel(stage.shape()) as usize, stage.dtype)
}

/// How many elements memory has room for.
pub fn len(memory: &UOp) -> usize {
    match memory.behind_after().arg {
        Arg::Param { len, .. } | Arg::Define { len, .. } => len,
        _ => 0,
    }
}

/// One output of a kernel.
#[derive(Clone, Debug)]
pub struct Output {
    /// The stage or effect in the graph.
    pub node: UOp,
    /// What it overwrites; of a stage what it fills.
    pub memory: UOp,
    /// Flat, perhaps gated.
    pub index: UOp,
    /// What is stored.
    pub value: UOp,
    /// The place to blame for a miss, for a checked store.
    pub site: Arg,
}

impl Output {
    /// Whether `memory` is what is there once it is stored.
    pub fn makes(&self, memory: &UOp) -> bool {
        match self.is_stage() {
            true => *memory == self.memory,
            false => memory.op == Op::After && memory.deps().contains(&self.node),
        }
    }
    /// Whether it fills memory of its own.
    pub fn is_stage(&self) -> bool {
        self.node.op == Op::Stage
    }
    /// What names it where it is waited for: the memory of a stage, or the effect.
    pub fn name(&self) -> &UOp {
        if self.is_stage() { &self.memory } else { &self.node }
    }
    /// The parameter or the memory of a stage that it stores to.
    pub fn place(&self) -> &UOp {
        self.memory.behind_after()
    }
    /// Whether readers must take it from memory: the user asked for that.
    pub fn is_kept(&self) -> bool {
        self.value.op == Op::Contiguous
    }
}

/// What runs as one: outputs over common ranges, or over the outer ones of them.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Ranges over the stored elements, outermost first.
    pub ranges: Vec<UOp>,
    /// One, or several once kernels are grouped.
    pub outputs: Vec<Output>,
}

impl Kernel {
    /// The kernel of these stages and effects.
    pub fn of(outputs: &[UOp]) -> Kernel {
        let all = outputs.iter().map(ranges_of).max_by_key(|r| r.len());
        let ranges = all.map_or_else(Vec::new, |r| r.to_vec());
        Kernel { ranges, outputs: outputs.iter().map(output).collect() }
    }
    /// Those of its ranges that an output is over.
    pub fn ranges_of(&self, o: &Output) -> &[UOp] {
        &self.ranges[..ranges_of(&o.node).len()]
    }
    /// Every stage and effect of a staged graph by itself.
    pub fn each(sink: &UOp) -> Vec<Kernel> {
        let is_kernel = |n: &&UOp| matches!(n.op, Op::Stage | Op::End | Op::Store);
        sink.src.iter().filter(is_kernel).map(|n| Kernel::of(std::slice::from_ref(n))).collect()
    }
    /// The nodes of all values and indices.
    pub fn nodes(&self) -> Nodes {
        let roots: Vec<UOp> = self.outputs.iter().flat_map(|o| [o.index.clone(), o.value.clone()]).collect();
        body(&roots)
    }
    /// Apply `f` to every index and value.
    pub fn map(&mut self, mut f: impl FnMut(&UOp) -> UOp) {
        for o in &mut self.outputs {
            o.index = f(&o.index);
            o.value = f(&o.value);
        }
    }
    /// The range that runs in order, if there is one: a scan or a scatter carries along it.
    pub fn ordered(&self, nodes: &[UOp]) -> Option<UOp> {
        let carried = |n: &UOp| (n.op == Op::Scan).then(|| n.src[1].clone());
        let is_ordered = |r: &&UOp| r.range_arg().is_some_and(|a| a.kind == AxisKind::Ordered);
        nodes.iter().find_map(carried).or_else(|| self.ranges.iter().find(is_ordered).cloned())
    }
}

fn ranges_of(output: &UOp) -> &[UOp] {
    if output.op == Op::Store { &[] } else { output.closed_ranges() }
}

/// The store of an effect; none where it is a stage.
pub fn store_of(output: &UOp) -> Option<&UOp> {
    match output.op {
        Op::End => Some(output.input()),
        Op::Store => Some(output),
        _ => None,
    }
}

fn output(node: &UOp) -> Output {
    if node.op == Op::Stage {
        let dims: Vec<UOp> = node.closed_ranges().iter().map(|r| r.extent().clone()).collect();
        let index = index::flatten(&dims, node.closed_ranges());
        let (memory, value) = (filled_by(node), node.input().clone());
        return Output { node: node.clone(), memory, index, value, site: Arg::None };
    }
    let store = store_of(node).unwrap_or(node);
    Output {
        node: node.clone(),
        memory: store.buffer().clone(),
        index: store.index().clone(),
        value: store.value().clone(),
        site: store.arg.clone(),
    }
}

/// Memory, index and node of the loads among nodes.
pub fn loads(nodes: &[UOp]) -> impl Iterator<Item = (&UOp, &UOp, &UOp)> {
    nodes.iter().filter(|n| n.op == Op::Load).map(|n| (n.buffer(), n.index(), n))
}

/// What nodes load from, each once.
pub fn memories(nodes: &[UOp]) -> Vec<UOp> {
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    loads(nodes).map(|l| l.0).filter(|m| seen.insert(m)).cloned().collect()
}

/// Who stores what, and who overwrites it.
pub struct Writers {
    made_by: NodeMap<u32>,
    next: NodeMap<u32>,
}

impl Writers {
    /// Of these kernels, by position.
    pub fn new<'a>(kernels: impl Iterator<Item = &'a Kernel>) -> Writers {
        let (mut made_by, mut next) = (NodeMap::default(), NodeMap::default());
        for (k, kernel) in kernels.enumerate() {
            for o in &kernel.outputs {
                made_by.insert(o.name().clone(), k as u32);
                if !o.is_stage() {
                    next.insert(o.memory.clone(), k as u32);
                }
            }
        }
        Writers { made_by, next }
    }
    /// The kernels that store what is in this memory.
    pub fn writers_of(&self, memory: &UOp) -> SmallVec<[u32; 2]> {
        let (mut found, mut m) = (SmallVec::new(), memory);
        while m.op == Op::After {
            found.extend(m.deps().iter().filter_map(|e| self.made_by.get(e)).copied());
            m = m.input();
        }
        found.extend(self.made_by.get(m).copied());
        found
    }
    /// The kernel that overwrites it, if there is one.
    pub fn next_writer(&self, memory: &UOp) -> Option<u32> {
        self.next.get(memory).copied()
    }
    /// The kernels that one must wait for to find what it reads and overwrites.
    pub fn before<'a>(&self, kernel: &'a Kernel, reads: impl Iterator<Item = &'a UOp>) -> SmallVec<[u32; 8]> {
        let overwritten = kernel.outputs.iter().filter(|o| !o.is_stage()).map(|o| &o.memory);
        reads.chain(overwritten).flat_map(|m| self.writers_of(m)).collect()
    }
}

/// For each kernel, which comes with what it reads, those that must run before it: the writers of that, and the readers of
/// what it overwrites.
pub fn dependencies<'a, R: Iterator<Item = &'a UOp> + Clone>(
    kernels: impl ExactSizeIterator<Item = (&'a Kernel, R)> + Clone,
) -> Vec<FxHashSet<u32>> {
    let writers = Writers::new(kernels.clone().map(|k| k.0));
    let mut deps: Vec<FxHashSet<u32>> = vec![FxHashSet::default(); kernels.len()];
    for (k, (kernel, reads)) in kernels.enumerate() {
        deps[k].extend(writers.before(kernel, reads.clone()));
        for w in reads.filter_map(|m| writers.next_writer(m)).filter(|w| *w != k as u32) {
            deps[w as usize].insert(k as u32);
        }
        deps[k].remove(&(k as u32));
    }
    deps
}

/// Numbers in an order that respects dependencies; among those that are ready, the one of the lowest rank.
pub fn sorted(deps: &[FxHashSet<u32>], rank: impl Fn(usize) -> usize) -> Result<Vec<usize>, Error> {
    let mut waits: Vec<usize> = deps.iter().map(|d| d.len()).collect();
    let mut users: Vec<Vec<usize>> = vec![vec![]; deps.len()];
    for (k, deps) in deps.iter().enumerate() {
        deps.iter().for_each(|&d| users[d as usize].push(k));
    }
    let entry = |k: usize| Reverse((rank(k), k));
    let mut ready: BinaryHeap<_> = (0..deps.len()).filter(|&k| waits[k] == 0).map(entry).collect();
    let mut out = Vec::with_capacity(deps.len());
    while let Some(Reverse((_, k))) = ready.pop() {
        out.push(k);
        for &u in &users[k] {
            waits[u] -= 1;
            if waits[u] == 0 {
                ready.push(entry(u));
            }
        }
    }
    if out.len() < deps.len() {
        return Err(Error::Malformed("the stores of this graph wait for each other in a circle".into()));
    }
    Ok(out)
}

/// A graph that is rebuilt kernel by kernel, sources first.
#[derive(Default)]
pub struct Rebuilt {
    /// Effects that are others now.
    done: FxHashMap<UOp, UOp>,
}

impl Rebuilt {
    /// What became of memory.
    pub fn memory(&self, m: &UOp) -> UOp {
        match m.op {
            Op::After => {
                let effects = m.deps().iter().map(|e| self.done.get(e).unwrap_or(e).clone());
                self.memory(m.input()).after(effects)
            }
            _ => m.clone(),
        }
    }
    /// The nodes with new memory, and with what `instead` says.
    pub fn body(&self, roots: &[UOp], instead: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
        if instead.is_empty() && self.done.is_empty() {
            return roots.to_vec();
        }
        let list = Numbered::down_to(roots, |n| is_memory(n) || instead.contains_key(n));
        let mut new: Vec<UOp> = Vec::with_capacity(list.nodes.len());
        for (i, n) in list.nodes.iter().enumerate() {
            new.push(match instead.get(n) {
                Some(other) => other.clone(),
                None if is_memory(n) => self.memory(n),
                None => n.with_src(list.src(i).iter().map(|&s| new[s as usize].clone()).collect()),
            });
        }
        list.roots.iter().map(|&r| new[r as usize].clone()).collect()
    }
    /// An output with another value, over these ranges.
    pub fn output(&mut self, o: &Output, ranges: &[UOp], instead: &FxHashMap<UOp, UOp>) -> UOp {
        let new = match o.node.op {
            Op::Stage => {
                let value = self.body(std::slice::from_ref(&o.value), instead).remove(0);
                let src: SmallVec<[UOp; 4]> = [value].into_iter().chain(ranges.iter().cloned()).collect();
                UOp::with(Op::Stage, o.node.dtype, src, o.node.arg.clone())
            }
            _ => {
                let parts = self.body(&[o.index.clone(), o.value.clone()], instead);
                let address = self.memory(&o.memory).at(&parts[0]);
                let src = [address, parts[1].clone()];
                UOp::new(Op::Store, frit_uop::DType::Void, src, o.site.clone()).end(ranges.iter().cloned())
            }
        };
        if !o.is_stage() && new != o.node {
            self.done.insert(o.node.clone(), new.clone());
        }
        new
    }
}

/// The nodes with others in their place; memory is not looked into.
pub fn substitute(roots: &[UOp], map: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
    Rebuilt::default().body(roots, map)
}
