//! History: what realising cuts off, what assignments overwrite, and what memory was made of.
//!
//! A node remembers the memory that its value is in, so what was built of it before is known to be made of that memory.
//! A constant belongs to no device, what is made of foreign memory is another value next time, and a view of memory is gone
//! when it gets memory of its own: such nodes remember nothing. There the memory remembers the node, by its hash, which keeps
//! nothing alive.

use crate::error::here;
use crate::realize::{Versions, base_of, kept_in, refreshed, versions};
use crate::tensor::Tensor;
use crate::view::{is_step, steps};
use frit_abi::sync::Mutex;
use frit_uop::{Arg, Op, Storage, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::{Arc, Weak};

/// Where a buffer's value was realised, and a summary of the nodes it was computed from.
struct Cut {
    buffer: Weak<dyn Storage>,
    at: &'static Location<'static>,
    from: Arc<Bloom>,
}
/// A set of nodes in 4096 bits: never wrong about what is in it.
struct Bloom([u64; 64]);

impl Bloom {
    fn bits(hash: u64) -> [usize; 2] {
        let h = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [(h >> 52) as usize, (h >> 40) as usize & 4095]
    }
    fn of(roots: &[UOp]) -> Bloom {
        let mut b = Bloom([0; 64]);
        for n in &frit_uop::graph::toposort(roots) {
            for n in n.realized().into_iter().chain([n]) {
                Bloom::bits(n.structural_hash()).into_iter().for_each(|i| b.0[i / 64] |= 1 << (i % 64));
            }
        }
        b
    }
    fn may_hold(&self, hash: u64) -> bool {
        Bloom::bits(hash).into_iter().all(|i| self.0[i / 64] >> (i % 64) & 1 == 1)
    }
}

static CUTS: Mutex<Option<FxHashMap<u64, Cut>>> = Mutex::new(None);

/// What a version of a piece of memory was made of, where that does not know so itself.
struct Made {
    memory: Weak<Versions>,
    version: u64,
    /// The hash and the dims of the node.
    of: (u64, SmallVec<[UOp; 4]>),
}

/// By the address of what the versions share, which no other has while an entry is there.
static MADE: Mutex<Option<FxHashMap<usize, Made>>> = Mutex::new(None);

/// A view, what it is a view of, and so on to what is no view.
fn down(view: &UOp) -> impl Iterator<Item = &UOp> {
    std::iter::successors(Some(view), |n| is_step(n).then(|| n.input()))
}

/// The memory that a value is seen in as it was stored.
fn memory_below(node: &UOp) -> Option<&UOp> {
    down(node).last().filter(|n| n.op == Op::Buffer)
}

/// Whether a node is a view as wider or narrower elements: their bits are computed.
fn has_other_bits(n: &UOp) -> bool {
    down(n).any(|x| x.op == Op::Bitcast && !is_step(x.input()) && x.input().op != Op::Buffer)
}

/// The same, and what a view as wider or narrower elements is computed of.
fn memories_below(node: &UOp) -> Vec<UOp> {
    match memory_below(node) {
        Some(memory) => vec![memory.clone()],
        None if has_other_bits(node) => node.toposort().into_iter().filter(|n| n.op == Op::Buffer).collect(),
        None => vec![],
    }
}

/// The node that memory was made of, as its hash and its dims, and whether the memory holds that version still.
fn made_of(memory: &UOp) -> Option<(u64, SmallVec<[UOp; 4]>, bool)> {
    let versions = versions(memory)?;
    let table = MADE.lock().unwrap_or_else(|e| e.into_inner());
    let made = table.as_ref()?.get(&(Arc::as_ptr(versions) as usize))?;
    Some((made.of.0, made.of.1.clone(), made.version == versions.latest()))
}

/// The name under which others know a node: of a view of memory that was made of another node, that of the view of that.
fn name_of(node: &UOp) -> u64 {
    let made = memory_below(node).and_then(|m| Some((m, made_of(m)?)));
    let Some((memory, (of, dims, true))) = made else { return node.structural_hash() };
    let whole = kept_in(memory, &dims);
    match steps(node, &whole) {
        Some(steps) => steps.iter().fold(of, |below, step| step.hash_over(below)),
        None => node.structural_hash(),
    }
}

/// Remember which nodes do not know the memory that their values are in.
fn remember_made(fresh: &[(&UOp, &UOp)]) {
    // the first memory is the one that a node knows; in a recording its value is computed again
    let is_in = |n: &UOp, m: &UOp| n.realized().is_some_and(|r| base_of(r) == base_of(m));
    let forgets = |n: &UOp, m: &UOp| memory_below(n).is_some() || storage(n).is_none() && !is_in(n, m);
    let unknown = fresh.iter().filter(|(n, m)| forgets(n, m));
    let unknown: Vec<_> = unknown.filter_map(|(n, m)| Some((*n, name_of(n), versions(m)?))).collect();
    if unknown.is_empty() {
        return;
    }
    let mut made = MADE.lock().unwrap_or_else(|e| e.into_inner());
    let made = made.get_or_insert_default();
    for (node, name, memory) in unknown {
        if made.len() == made.capacity() {
            made.retain(|_, m| m.memory.strong_count() > 0);
            made.reserve(made.len() + 1);
        }
        let (version, of) = (memory.latest(), (name, node.shape().into()));
        made.insert(Arc::as_ptr(memory) as usize, Made { memory: Arc::downgrade(memory), version, of });
    }
}

/// Targets as the graphs that lead to them may know them: by what they are, or by what they were before they were computed.
pub(crate) struct Targets<'a> {
    wanted: FxHashSet<&'a UOp>,
    /// Their memory, by what it was made of.
    made: FxHashMap<u64, SmallVec<[UOp; 1]>>,
}

impl<'a> Targets<'a> {
    pub(crate) fn of(targets: &'a [UOp]) -> Targets<'a> {
        let mut made: FxHashMap<u64, SmallVec<[UOp; 1]>> = FxHashMap::default();
        for memory in targets.iter().flat_map(memories_below) {
            if let Some((of, _, true)) = made_of(&memory) {
                let all = made.entry(of).or_default();
                if !all.contains(&memory) {
                    all.push(memory);
                }
            }
        }
        Targets { wanted: targets.iter().collect(), made }
    }
    /// The targets that a node is, or was.
    pub(crate) fn meant_by(&self, n: &UOp) -> SmallVec<[UOp; 1]> {
        let seen =
            |x: &UOp, in_memory: &UOp| n.substitute(&FxHashMap::from_iter([(x.clone(), in_memory.clone())]));
        let known = down(n).filter_map(|x| Some(seen(x, x.realized()?)));
        let forms = std::iter::once(n.clone()).chain(known).chain(self.of_other_bits(n));
        let mut found: SmallVec<[UOp; 1]> = SmallVec::new();
        for t in forms.flat_map(|f| self.in_memory_since(&f).into_iter().chain([f])) {
            if self.wanted.contains(&t) && !found.contains(&t) {
                found.push(t);
            }
        }
        found
    }
    /// A value, or a view of one, as memory that was made of it.
    fn in_memory_since(&self, n: &UOp) -> SmallVec<[UOp; 1]> {
        if self.made.is_empty() {
            return SmallVec::new();
        }
        let mut named = down(n).filter_map(|x| Some((x, self.made.get(&x.structural_hash())?)));
        let Some((x, all)) = named.next() else { return SmallVec::new() };
        let seen = |m: &UOp| FxHashMap::from_iter([(x.clone(), kept_in(m, x.shape()))]);
        all.iter().filter(|m| m.dtype == x.dtype).map(|m| n.substitute(&seen(m))).collect()
    }
    /// A view as wider or narrower elements, which is computed, of what is in memory since.
    fn of_other_bits(&self, n: &UOp) -> Option<UOp> {
        if !has_other_bits(n) {
            return None;
        }
        let memory = |x: &UOp| {
            let made = || self.made.get(&x.structural_hash())?.iter().find(|m| m.dtype == x.dtype);
            x.realized().cloned().or_else(|| Some(kept_in(made()?, x.shape())))
        };
        let known = n.toposort().into_iter().filter_map(|x| Some((x.clone(), memory(&x)?)));
        Some(n.substitute(&known.collect()))
    }
}

/// Remember that these tensors' history ends here. The table holds no memory and forgets what is gone.
pub(crate) fn remember(before: &[UOp], after: &[UOp]) {
    let fresh: Vec<(&UOp, &UOp)> = before.iter().zip(after).filter(|(b, a)| b != a).collect();
    let memory: Vec<Arc<dyn Storage>> = fresh.iter().filter_map(|(_, a)| storage(a)).collect();
    if memory.is_empty() {
        return;
    }
    remember_made(&fresh);
    let from = Arc::new(Bloom::of(before));
    let at = here();
    let mut cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.get_or_insert_default();
    // forget what is gone before these make the table grow, and not again until as many have come as there are
    if cuts.len() + memory.len() > cuts.capacity() {
        cuts.retain(|_, c| c.buffer.strong_count() > 0);
        cuts.reserve(cuts.len() + memory.len());
    }
    for s in memory {
        cuts.insert(s.id(), Cut { buffer: Arc::downgrade(&s), at, from: from.clone() });
    }
}

fn storage(n: &UOp) -> Option<Arc<dyn Storage>> {
    let mut n = n;
    while n.op.is_movement() || n.op == Op::After {
        n = n.input();
    }
    match &n.arg {
        Arg::Buffer(b) => Some(b.clone()),
        _ => None,
    }
}

/// A version that a tensor had before it was assigned to, by its name.
pub(crate) struct Earlier {
    name: u64,
    /// The memory it was in; forgotten once nobody has that version.
    memory: Option<Weak<dyn Storage>>,
}

/// How many values a tensor remembers that were never memory.
const VALUES: usize = 32;

impl Earlier {
    pub(crate) fn name(&self) -> u64 {
        self.name
    }
    fn is_alive(&self) -> bool {
        self.memory.as_ref().is_none_or(|m| m.strong_count() > 0)
    }
    /// Remember what a tensor is no more.
    pub(crate) fn remember(all: &mut Vec<Earlier>, was: &UOp) {
        let base = base_of(was);
        let (name, memory) = match &base.arg {
            Arg::Buffer(b) => (base.structural_hash(), Some(Arc::downgrade(b))),
            _ => (was.structural_hash(), None),
        };
        if all.iter().any(|e| e.name == name) {
            return;
        }
        if all.len() == all.capacity() {
            all.retain(Earlier::is_alive);
            let values = all.iter().filter(|e| e.memory.is_none()).count();
            if values >= VALUES
                && let Some(oldest) = all.iter().position(|e| e.memory.is_none())
            {
                all.remove(oldest);
            }
        }
        all.push(Earlier { name, memory });
        // what it was made of is another's name for it
        if let Some((of, _, true)) = made_of(base)
            && !all.iter().any(|e| e.name == of)
        {
            all.push(Earlier { name: of, memory: None });
        }
    }
}

/// Whether a value was made of a version that a tensor had before it was assigned to: found once, asked for each tensor.
pub(crate) struct Overwritten<'a> {
    lineage: &'a [UOp],
    stale: FxHashSet<*const Versions>,
    names: FxHashSet<u64>,
}

impl<'a> Overwritten<'a> {
    /// Of what has this lineage; the value itself comes first.
    pub(crate) fn of(lineage: &'a [UOp]) -> Overwritten<'a> {
        let stale = lineage.iter().filter(|n| n.op == Op::Buffer && refreshed(n).is_some());
        let stale = stale.filter_map(versions).map(Arc::as_ptr).collect();
        Overwritten { lineage, stale, names: lineage.iter().flat_map(names).collect() }
    }
    pub(crate) fn holds(&self, target: &Tensor) -> bool {
        let owner = target.owner();
        let (Ok(now), Some(root)) = (owner.peek(), self.lineage.first()) else { return false };
        let mut before = owner.earlier();
        before.extend(made_of(&now).filter(|made| !made.2).map(|made| made.0));
        before.retain(|name| self.names.contains(name));
        let memory = versions(&now).map(Arc::as_ptr).filter(|v| self.stale.contains(v));
        if before.is_empty() && memory.is_none() {
            return false;
        }
        // what the version of now is made of is no use of an earlier one
        let of_now = [now];
        let known = Targets::of(&of_now);
        let is_stale = |n: &UOp| {
            let other = n.op == Op::Buffer && refreshed(n).is_some();
            other && memory.is_some_and(|m| versions(n).map(Arc::as_ptr) == Some(m))
        };
        let is_earlier = |n: &UOp| is_stale(n) || names(n).any(|name| before.contains(&name));
        lineage_without(root, |n| !known.meant_by(n).is_empty()).iter().any(is_earlier)
    }
}

/// The names under which a tensor may remember a node: its own, and that of the memory it is in.
fn names(n: &UOp) -> impl Iterator<Item = u64> {
    [Some(n), n.realized().map(base_of)].into_iter().flatten().map(UOp::structural_hash)
}

/// Everything a node is made of, but for what is behind a `detach`; the node itself comes first.
pub(crate) fn lineage(root: &UOp) -> Vec<UOp> {
    lineage_without(root, |_| false)
}

/// The same, without some nodes and what only they are made of.
fn lineage_without(root: &UOp, skip: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let (mut found, mut seen, mut stack) = (vec![], FxHashSet::default(), vec![root]);
    while let Some(n) = stack.pop() {
        if seen.insert(n) && !skip(n) {
            found.push(n.clone());
            stack.extend(n.inputs().iter().filter(|_| n.op != Op::Detach));
        }
    }
    found
}

/// Where something on the way from what has this lineage to `target` was realised, if that is why there is no way.
pub(crate) fn cut_history(lineage: &[UOp], target: &UOp) -> Option<&'static Location<'static>> {
    let names = [target.structural_hash(), name_of(target)];
    let cuts = CUTS.lock().unwrap_or_else(|e| e.into_inner());
    let cuts = cuts.as_ref()?;
    lineage.iter().filter(|n| n.op == Op::Buffer && *n != target).find_map(|n| {
        let cut = cuts.get(&storage(n)?.id())?;
        names.iter().any(|name| cut.from.may_hold(*name)).then_some(cut.at)
    })
}
