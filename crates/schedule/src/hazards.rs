//! Make sure that some order of the kernels is right: staged graph in and out.
//!
//! A reader of memory runs after the kernels that store what is in it and before the one that overwrites it. Where that is
//! impossible the old contents go to a stage:
//!
//! | conflict | repair |
//! |---|---|
//! | a kernel overwrites what its own later iterations read (`x = x.T`, `x[1:] = x[:-1]`) | value to a stage, then store |
//! | a reader of the old contents depends on the new ones (`x.old + x.new`, swaps) | a copy of the old ones for the reader |
//!
//! Reading the very element that is written is no conflict: that is an update in place.

use crate::error::Error;
use crate::index;
use crate::index::open_ranges;
use crate::kernels::{self, Kernel, Output, Rebuilt, Writers};
use crate::plan::Plan;
use frit_uop::graph::NodeMap;
use frit_uop::rewrite::replaced;
use frit_uop::{Arg, AxisKind, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Afterwards any order that respects [`kernels::dependencies`] is right, and there is one.
pub fn resolve_hazards(plan: &mut Plan) -> Result<(), Error> {
    let nodes = &plan.list().nodes;
    if !is_read_and_overwritten(nodes, plan.sink()) {
        return Ok(());
    }
    let only_effects = !kernels::loads(nodes).any(|(memory, ..)| memory.op == Op::After);
    let kernels = Kernel::each(plan.sink());
    let overwrites: FxHashSet<u32> =
        (0..kernels.len() as u32).filter(|&k| overwrites_its_input(&kernels[k as usize])).collect();
    if !overwrites.is_empty() {
        plan.set_sink(store_through_stages(plan.sink(), &kernels, &overwrites));
    }
    let kernels = if overwrites.is_empty() { kernels } else { Kernel::each(plan.sink()) };
    let copies = late_readers(&kernels, only_effects);
    if !copies.is_empty() {
        plan.set_sink(read_from_copies(plan.sink(), &kernels, &copies));
    }
    Ok(())
}

/// Whether any memory is both.
fn is_read_and_overwritten(nodes: &[UOp], sink: &UOp) -> bool {
    let overwritten: NodeMap<()> =
        sink.src.iter().filter_map(kernels::store_of).map(|s| (s.buffer().clone(), ())).collect();
    kernels::loads(nodes).any(|(memory, ..)| overwritten.contains(memory))
}

/// Whether a kernel reads, at another index, what it overwrites itself.
fn overwrites_its_input(kernel: &Kernel) -> bool {
    let reads = |o: &Output| {
        kernels::loads(&kernel.nodes()).any(|(memory, at, _)| *memory == o.memory && *at != o.index)
    };
    kernel.outputs.iter().any(|o| !o.is_stage() && reads(o))
}

/// These kernels compute into a stage, and others store that.
fn store_through_stages(sink: &UOp, kernels: &[Kernel], these: &FxHashSet<u32>) -> UOp {
    let mut fresh = Fresh::of(sink);
    let (mut new, none, mut list) = (Rebuilt::default(), FxHashMap::default(), vec![]);
    for (k, kernel) in kernels.iter().enumerate() {
        for o in &kernel.outputs {
            if !these.contains(&(k as u32)) {
                list.push(new.output(o, &kernel.ranges, &none));
                continue;
            }
            let value = new.body(std::slice::from_ref(&o.value), &none)[0].clone();
            let stage = kernels::stage(&value, kernel.ranges.iter().cloned(), fresh.stage());
            let again = |r: &UOp| UOp::range(r.extent(), fresh.range(), AxisKind::Global);
            let ranges: Vec<UOp> = kernel.ranges.iter().map(again).collect();
            let moved: FxHashMap<UOp, UOp> =
                kernel.ranges.iter().cloned().zip(ranges.iter().cloned()).collect();
            let value = kernels::filled_by(&stage).at(&index::flatten(stage.shape(), &ranges)).load();
            let index = kernels::substitute(std::slice::from_ref(&o.index), &moved)[0].clone();
            replaced("stored only when all that read its place are done", &o.value, &value);
            list.push(stage);
            list.push(new.output(&Output { index, value, ..o.clone() }, &ranges, &none));
        }
    }
    UOp::sink(list)
}

/// Readers of memory that depend on the kernel that overwrites it, with that memory.
fn late_readers(kernels: &[Kernel], only_effects: bool) -> Vec<(u32, UOp)> {
    let writers = Writers::new(kernels.iter());
    // where no one reads what an effect leaves, only another effect can come after one
    let is_stage = |k: &Kernel| k.outputs.iter().all(|o| o.is_stage());
    let read = |k: &Kernel| match only_effects && is_stage(k) {
        true => vec![],
        false => kernels::memories(&k.nodes()),
    };
    let reads: Vec<Vec<UOp>> = kernels.iter().map(read).collect();
    let mut users: Vec<Vec<u32>> = vec![vec![]; kernels.len()];
    for (k, (kernel, reads)) in kernels.iter().zip(&reads).enumerate() {
        for w in writers.before(kernel, reads.iter()).into_iter().filter(|w| *w != k as u32) {
            users[w as usize].push(k as u32);
        }
    }
    let mut late = vec![];
    for (k, read) in reads.iter().enumerate() {
        for memory in read {
            match writers.next_writer(memory) {
                Some(w) if w == k as u32 => {}
                Some(w) if reaches(&users, w, k as u32) => late.push((k as u32, memory.clone())),
                Some(w) => users[k].push(w),
                None => {}
            }
        }
    }
    late
}

/// The graph in which these kernels read that memory from a copy.
fn read_from_copies(sink: &UOp, kernels: &[Kernel], late: &[(u32, UOp)]) -> UOp {
    let mut fresh = Fresh::of(sink);
    let (mut new, mut list) = (Rebuilt::default(), vec![]);
    let mut copies: FxHashMap<&UOp, UOp> = FxHashMap::default();
    for (k, kernel) in kernels.iter().enumerate() {
        let mut instead = FxHashMap::default();
        for (_, memory) in late.iter().filter(|l| l.0 == k as u32) {
            let copy = copies.entry(memory).or_insert_with(|| {
                let len = UOp::index(kernels::len(memory) as i64);
                let (ranges, idx) = open_ranges(&[len], || fresh.range(), AxisKind::Global);
                list.push(kernels::stage(&new.memory(memory).at(&idx[0]).load(), ranges, fresh.stage()));
                kernels::filled_by(&list[list.len() - 1])
            });
            instead.insert(memory.clone(), copy.clone());
        }
        for o in &kernel.outputs {
            list.push(new.output(o, &kernel.ranges, &instead));
        }
    }
    UOp::sink(list)
}

/// Numbers that the graph does not have yet.
struct Fresh {
    range: u32,
    stage: u32,
}

impl Fresh {
    fn of(sink: &UOp) -> Fresh {
        let mut next = Fresh { range: 0, stage: 0 };
        for n in sink.toposort() {
            match n.arg {
                Arg::Range(r) => next.range = next.range.max(r.id + 1),
                Arg::Stage { id, .. } => next.stage = next.stage.max(id + 1),
                _ => {}
            }
        }
        next
    }
    fn range(&mut self) -> u32 {
        self.range += 1;
        self.range - 1
    }
    fn stage(&mut self) -> u32 {
        self.stage += 1;
        self.stage - 1
    }
}

/// Whether `to` runs after `from` already.
fn reaches(users: &[Vec<u32>], from: u32, to: u32) -> bool {
    let (mut stack, mut seen) = (vec![from], FxHashSet::default());
    while let Some(k) = stack.pop() {
        if k == to {
            return true;
        }
        if seen.insert(k) {
            stack.extend(users[k as usize].iter().copied());
        }
    }
    false
}
