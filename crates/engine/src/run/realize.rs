//! From tensor graphs to memory.

use super::in_place::{Root, make_in_place};
use super::one_at_a_time::one_at_a_time;
use super::{launch, loops, tape};
use crate::devices::device_of;
use crate::memory::buffer::{Buffer, next_id};
use crate::memory::file;
use crate::memory::transfer::memory_of;
use crate::memory::unconfirmed;
use crate::memory::view::{
    base_of, byte_count, contiguous_base, most_elements, refreshed, seen_as, strip_stores, version_of,
    versions,
};
use crate::plan::normalise::normalise;
use crate::plan::schedule::{check_tensors, plan};
use crate::{Error, record};
use frit_uop::graph::{self, NodeMap, toposort};
use frit_uop::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// Who holds an output by right: its tensor and the caller's list. A tensor that is memory already stays it, and so sees
/// what is there.
fn rightful_holders(output: &UOp) -> usize {
    if contiguous_base(output).is_some() { 1 } else { 2 }
}

/// Compute the outputs together. Each comes back as a view of the memory that now holds its value; nodes remember it,
/// so whoever holds one of them computes nothing again.
///
/// Stores are done in place where no one else sees the old version. For that to be decided, an output has two holders
/// by right, its tensor and the caller's list; more holders cost a copy, never a wrong value.
pub fn realize(outputs: &[UOp]) -> Result<Vec<UOp>, Error> {
    realize_on(outputs, None)
}

/// As [`realize`]; what no buffer ties to a device is computed on this one.
pub(crate) fn realize_on(outputs: &[UOp], device: Option<&Arc<str>>) -> Result<Vec<UOp>, Error> {
    record::ask();
    if outputs.iter().all(is_there) {
        return Ok(outputs.to_vec());
    }
    // first, for each is a run of its own
    let mut passing = NodeMap::default();
    if graph::any(outputs, |n| matches!(n.op, Op::Copy | Op::Loop)) {
        passing = run_copies_and_loops(outputs)?;
    }
    let has_stores = graph::any(outputs, |n| n.op == Op::After && n.realized().is_none());
    let _guard = has_stores.then(one_at_a_time);

    let known = use_realized(outputs, passing);
    record::became(known.iter());
    let mut ready: Vec<UOp> = outputs.iter().map(|o| known[o].clone()).collect();
    let mut versions: Vec<(UOp, UOp)> = vec![];
    if has_stores {
        let known: Vec<(UOp, UOp)> = known.into_iter().collect();
        let mut roots: Vec<Root> = outputs.iter().map(|o| (o, rightful_holders(o))).collect();
        roots.extend(ready.iter().map(|r| (r, 1)));
        roots.extend(known.iter().flat_map(|(a, b)| [(a, 1), (b, 1)]));
        let in_place = make_in_place(&ready, &roots, &known)?;
        record::became(in_place.iter());
        ready = ready.iter().map(|r| in_place[r].clone()).collect();
        // a version that a copy made unnecessary is not stored, so it has no memory yet
        let order: FxHashMap<UOp, usize> = toposort(&ready)
            .into_iter()
            .enumerate()
            .filter(|(_, n)| n.op == Op::After)
            .map(|(i, n)| (n, i))
            .collect();
        let version =
            |(n, k): &(UOp, UOp)| Some((n.clone(), order.get_key_value(in_place.get(k)?)?.0.clone()));
        versions = known.iter().filter(|(n, _)| n.op == Op::After).filter_map(version).collect();
        // in the order of the graph: the same structure must give the same plan
        versions.sort_by_key(|(_, v)| order.get(v).copied());
    }
    let is_pending = |r: &&UOp| !is_there(r);
    let roots: Vec<UOp> = ready.iter().filter(is_pending).cloned().collect();
    // every store of the graph is done, also one that turns out not to be needed for a value
    let stores: Vec<UOp> = versions.iter().flat_map(|(_, v)| &v.src[1..]).cloned().collect();
    let run = if roots.is_empty() { Run::default() } else { compute(&roots, &stores, device)? };
    versions.retain(|(_, version)| run.stored(base_of(version)));
    remember_versions(&versions, &run.renewed);
    if let Some(e) = run.failure {
        return Err(e);
    }
    let mut computed = run.results.into_iter();
    let renewed = |r: UOp| if is_pending(&&r) { computed.next().unwrap_or(r) } else { r };
    let results: Vec<UOp> = ready.into_iter().map(renewed).collect();
    for (output, result) in outputs.iter().zip(&results) {
        // a value made of constants alone belongs to no device, and may be wanted on another next; one made of memory
        // that others change is another one next time
        if contiguous_base(output).is_none() && output.device().is_some() && !output.volatile {
            output.set_realized(result.clone());
        }
    }
    Ok(results)
}

/// Let nodes know where the versions they stand for are: in the order of their stores. Of several that were stored to one
/// memory it holds the last; those before it were overwritten in the same run.
fn remember_versions(versions: &[(UOp, UOp)], renewed: &FxHashMap<UOp, UOp>) {
    let last: FxHashMap<&UOp, &UOp> = versions.iter().map(|(_, v)| (base_of(v), v)).collect();
    let overwritten = |base: &UOp| Some(Buffer::of(base)?.overwritten().into_uop(base.dtype));
    let stripped: Vec<UOp> = versions.iter().map(|(_, v)| strip_stores(v)).collect();
    for ((node, v), memory) in versions.iter().zip(graph::substitute_all(&stripped, renewed)) {
        let base = base_of(v);
        let gone = if last.get(base) == Some(&v) { None } else { overwritten(base) };
        node.set_realized(match gone {
            Some(gone) => strip_stores(v).substitute(&FxHashMap::from_iter([(base.clone(), gone)])),
            None => memory,
        });
    }
}

/// Whether nothing has to be computed for it: memory, in order, or bytes of a file however they are seen.
fn is_there(value: &UOp) -> bool {
    contiguous_base(value).is_some() || file::is_view(value)
}

/// The memory that a node remembers, for this run. What a Jit records must not be what was remembered before: the launches
/// that made it would be missing when what it was made of changes. What can no longer be made again will not change.
fn remembered(n: &UOp) -> Option<&UOp> {
    let memory = n.realized()?;
    let Some(first_new) = tape::first_new() else { return Some(memory) };
    let is_new = || versions(memory).is_some_and(|v| !v.is_older(first_new));
    let stays = is_never_repeated(n) || is_new() || !can_be_made_again(n);
    stays.then_some(memory)
}

/// A version is made once, and what comes from elsewhere comes once.
fn is_never_repeated(n: &UOp) -> bool {
    matches!(n.op, Op::After | Op::Copy)
}

/// Whether everything that a node is made of still has the value it had.
fn can_be_made_again(n: &UOp) -> bool {
    let is_whole = |memory: &UOp| Buffer::of(base_of(memory)).is_none_or(|b| b.check().is_ok());
    let mut there: FxHashSet<UOp> = FxHashSet::default();
    for s in n.toposort().iter().filter(|s| *s != n) {
        let made = || s.src.iter().all(|s| there.contains(s));
        let is_there = match s.realized() {
            Some(memory) if is_never_repeated(s) => is_whole(memory),
            Some(memory) => is_whole(memory) || made(),
            None => is_whole(s) && made(),
        };
        if is_there {
            there.insert(s.clone());
        }
    }
    n.src.iter().all(|s| there.contains(s))
}

/// Every node below, with those whose value is in memory replaced by that memory. A place to store to stays a view of
/// its version, though its value may be in other memory.
/// What is `done` for this run alone is used too.
fn use_realized(roots: &[UOp], mut done: NodeMap<UOp>) -> NodeMap<UOp> {
    let mut stack: Vec<(&UOp, bool)> = roots.iter().map(|r| (r, false)).collect();
    while let Some((n, expanded)) = stack.pop() {
        if done.contains(n) {
            continue;
        }
        let is_place = matches!(n.op, Op::Store | Op::After);
        if let Some(r) = remembered(n) {
            done.insert(n.clone(), r.clone());
        } else if expanded {
            let mut src: SmallVec<[UOp; 4]> = n.src.iter().map(|s| done[s].clone()).collect();
            if is_place {
                let version = version_of(&n.src[0]);
                src[0] =
                    n.src[0].substitute(&FxHashMap::from_iter([(version.clone(), done[version].clone())]));
            }
            let new = n.with_src(src);
            done.insert(n.clone(), new);
        } else {
            stack.push((n, true));
            let version = is_place.then(|| version_of(&n.src[0]));
            let below = n.src.iter().chain(version).filter(|s| !done.contains(s));
            stack.extend(below.map(|s| (s, false)));
        }
    }
    done
}

/// Do the copies from one device to another and the loops, with all they need; their values are remembered where they
/// are asked for. Gives copies of memory that others change, whose values are for this run alone.
fn run_copies_and_loops(outputs: &[UOp]) -> Result<NodeMap<UOp>, Error> {
    let richest = loops::richest(outputs);
    let mut passing = NodeMap::default();
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    let mut stack: Vec<(UOp, bool)> = outputs.iter().map(|o| (o.clone(), false)).collect();
    while let Some((n, expanded)) = stack.pop() {
        if remembered(&n).is_some() {
            continue;
        }
        if expanded {
            match (n.op, &n.arg) {
                // what no buffer ties to a device is computed there
                (Op::Copy, frit_uop::Arg::Device(to)) if n.src[0].device().is_none() => {
                    let there = realize_on(&[n.src[0].contiguous()], Some(to))?;
                    there.into_iter().for_each(|value| n.set_realized(value));
                }
                (Op::Copy, frit_uop::Arg::Device(to)) => {
                    let value = match file::is_view(&n.src[0]) {
                        true => load_file(&n.src[0], to)?,
                        false => copied(&n, to)?,
                    };
                    match n.volatile {
                        true => _ = passing.insert(n, value),
                        false => n.set_realized(value),
                    }
                }
                (Op::LoopOut, _) => {
                    for (out, value) in
                        loops::run(richest.get(&n.src[0]).unwrap_or(&n.src[0]), &n, realize_on)?
                    {
                        out.set_realized(value.clone());
                        if remembered(&out).is_none() {
                            passing.insert(out, value);
                        }
                    }
                }
                _ => {}
            }
        } else if seen.insert(n.clone()) {
            stack.push((n.clone(), true));
            stack.extend(n.inputs().iter().map(|s| (s.clone(), false)));
        }
    }
    Ok(passing)
}

/// A value that is seen in a file, in memory of a device.
fn load_file(value: &UOp, to: &Arc<str>) -> Result<UOp, Error> {
    tape::check_files()?;
    let values = realize_on(&[file::load(value, to)?], Some(to))?;
    values.into_iter().next().ok_or_else(|| Error::Graph("a value was not realised".into()))
}

/// What a `Copy` is a copy of, in memory of another device.
fn copied(copy: &UOp, to: &Arc<str>) -> Result<UOp, Error> {
    tape::check_reading()?;
    let there = realize_on(&copy.src[..1], None)?;
    let bytes = byte_count(&copy.src[0])?;
    let target = Buffer::alloc(to, copy.dtype, bytes / copy.dtype.size().max(1))?;
    let from = memory_of(&there[0])?.view(0, bytes)?;
    record::copy("device to device", bytes, || target.memory.copy_from(&from))?;
    Ok(target.into_uop(copy.dtype).reshape(copy.shape()))
}

/// What came of a run.
#[derive(Default)]
struct Run {
    results: Vec<UOp>,
    /// Buffers that were there before and hold another version now, with that.
    renewed: FxHashMap<UOp, UOp>,
    /// Buffers that not all of their stores were done to.
    unfinished: FxHashSet<UOp>,
    failure: Option<Error>,
}

impl Run {
    /// Whether all stores to a buffer were done.
    fn stored(&self, buffer: &UOp) -> bool {
        self.failure.is_none() || !self.unfinished.contains(buffer)
    }
}

/// Compute roots that are not in memory, and do all `stores`, on one device. Where the run fails, what it began to store
/// to is lost, and what it did store to the end is as if nothing had failed.
fn compute(roots: &[UOp], stores: &[UOp], device: Option<&Arc<str>>) -> Result<Run, Error> {
    let first_new = next_id();
    let device = device_of(roots, device)?;
    let (sink, results) = stored(roots, stores, &device)?;
    check_tensors(&sink)?;
    let normal = normalise(&sink)?;
    // what is whole now may be lost while this is queued
    let dev = frit_runtime::device(&device)?;
    let mark = unconfirmed::mark(&*dev);
    for b in &normal.buffers {
        Buffer::of(b).map_or(Ok(()), Buffer::check)?;
    }
    record::run(&normal.sink, &device);
    let plan = plan(&normal.sink, &device)?;
    let mut begun = 0;
    let failure = launch::run(&plan, &normal, &device, &mut begun).err();
    // a miss in the data is known only at the end: what was stored may come from it
    let done = match &failure {
        None => plan.calls.len(),
        Some(Error::Index(_)) => 0,
        Some(_) => begun.saturating_sub(1),
    };
    let mut run = Run { failure, ..Run::default() };
    for (slot, b) in normal.buffers.iter().enumerate() {
        let (Some(buffer), Some((first, last))) = (Buffer::of(b), plan.stores_to(slot)) else { continue };
        let was_there = buffer.versions().is_older(first_new);
        match &run.failure {
            Some(e) if last >= done => {
                run.unfinished.insert(b.clone());
                if was_there && first < begun {
                    buffer.versions().lose(e);
                }
            }
            _ if was_there => {
                buffer.versions().bump();
                if let Some(new) = refreshed(b) {
                    run.renewed.insert(b.clone(), new);
                }
            }
            _ => {}
        }
    }
    let can_miss = plan.calls.iter().any(|c| c.kernel.can_miss);
    let stored = normal.buffers.iter().enumerate().filter(|(slot, _)| plan.stores_to(*slot).is_some());
    unconfirmed::note(&*dev, mark, can_miss, stored.filter_map(|(_, b)| versions(b)));
    run.results = graph::substitute_all(&results, &run.renewed);
    Ok(run)
}

/// A sink of `stores` and of those that put every root in memory, and the views of that memory.
pub(crate) fn stored(roots: &[UOp], stores: &[UOp], device: &Arc<str>) -> Result<(UOp, Vec<UOp>), Error> {
    let (mut effects, mut results) = (stores.to_vec(), vec![]);
    for root in roots {
        let version = version_of(root);
        if version.op == Op::After {
            // a view of a version: once the stores are done, look at the memory
            effects.extend(version.src[1..].iter().cloned());
            let stripped = strip_stores(root);
            if contiguous_base(&stripped).is_some() {
                results.push(stripped);
                continue;
            }
        }
        let len = most_elements(root.shape())?;
        let target = seen_as(&Buffer::alloc(device, root.dtype, len)?.into_uop(root.dtype), root.shape());
        effects.push(target.store(root));
        results.push(target);
    }
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    effects.retain(|e| seen.insert(e.clone()));
    Ok((UOp::sink(effects), results))
}
