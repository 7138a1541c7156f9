//! Put kernels over the same space together where it pays: outputs that share inputs, and a value with its users. Staged
//! graph in; out the same with one `Sink` for each kernel, over its stages and effects.
//!
//! ```text
//! sum(x), max(x), sum(x*x)      three stores over one loop, x loaded once
//! m', v', p' of an Adam step    three stores over one space
//! t = x@w;  relu(t);  t*2       the readers of t[i] take the value, and t is stored only if others read it
//! ```
//! Kernels join when no path leads from one to the other through a third, when they do not disturb each other's
//! memory, and when they have a load or a value in common; sums of products only where they [share a tile](share_a_tile).
//! Chains of products join with each other alone: they are walked in blocks of rows, so one may take what the other has
//! reduced of its rows, as attention does whose gradients read that too. Reduces of one extent at one depth share their
//! ranges, so that common loads are common nodes.

use crate::cost::MOST_OPS;
use crate::error::Error;
use crate::kernels::{self, Kernel, Output, Rebuilt};
use crate::plan::Plan;
use crate::products::{Product, share_a_tile};
use crate::record;
use frit_abi::Target;
use frit_uop::graph::NodeMap;
use frit_uop::nodes::Nodes;
use frit_uop::rewrite::replaced;
use frit_uop::{AxisKind, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most places in memory one kernel may touch.
const MOST_PLACES: usize = 30;
/// Kernels that read no more than this share a launch without sharing anything else.
const SMALL: usize = 4096;
/// Most groups one kernel tries to join.
const MOST_TRIES: usize = 6;

/// Ranges of reduces by depth, extents and the ranges around them.
type Loops = FxHashMap<(u32, Vec<UOp>, Vec<u32>), Vec<UOp>>;

/// Kernels that run as one. Memory is named by the nodes that it has in the graph before the pass.
#[derive(Default)]
struct Group {
    kernel: Kernel,
    /// Groups that must run before.
    deps: FxHashSet<u32>,
    /// Where it is in the graph: the preferred order.
    rank: usize,
    loops: Loops,
    /// Ranges of reduces, and the least number that no range of the kernel has.
    inner: Vec<UOp>,
    next: u32,
    /// Extents of the ranges; `None` where nothing may join.
    space: Option<Vec<UOp>>,
    /// Memory, index and node of each load.
    loads: Vec<(UOp, UOp, UOp)>,
    /// Memory that is read at indices that run with a reduce.
    reduced: FxHashSet<UOp>,
    /// Some reduce runs once for several iterations of the inner ranges.
    scoped: bool,
    /// Some reduce is inside another: a chain of products, which is walked in blocks of rows.
    is_chain: bool,
    /// Its reduces, if all are sums of products.
    products: Option<Vec<Product>>,
    /// Operations, by what they cost.
    ops: u32,
}

/// Leaves a `Sink` of kernels, each a `Sink` of what it stores.
pub fn group_kernels(plan: &mut Plan) -> Result<(), Error> {
    let kernels = Kernel::each(plan.sink()).into_iter();
    let mut kernels: Vec<Group> = kernels.map(|k| Group::new(k, Loops::default())).collect();
    let deps = kernels::dependencies(kernels.iter().map(|g| (&g.kernel, g.loads.iter().map(|l| &l.0))));
    let mut groups = Groups::on(plan.target);
    let mut group_of: Vec<u32> = vec![0; kernels.len()];
    for k in kernels::sorted(&deps, |k| k)? {
        let mut new = std::mem::take(&mut kernels[k]);
        // a grid's matrix unit takes chains one by one
        if new.is_chain && plan.target.grid.is_some() {
            new.space = None;
        }
        new.deps = deps[k].iter().map(|d| group_of[*d as usize]).collect();
        new.rank = k;
        group_of[k] = groups.add(new);
    }
    plan.set_sink(sink_of(&groups.in_order()?));
    Ok(())
}

struct Groups<'a> {
    target: &'a Target,
    all: Vec<Group>,
    before: Before,
    by_memory: NodeMap<Vec<u32>>,
    by_dep: FxHashMap<u32, Vec<u32>>,
}

impl<'a> Groups<'a> {
    fn on(target: &'a Target) -> Self {
        let (by_memory, by_dep) = Default::default();
        Groups { target, all: vec![], before: Before::default(), by_memory, by_dep }
    }
    /// Put a kernel with one of the groups, or make it one; its number.
    fn add(&mut self, new: Group) -> u32 {
        let (g, is_new) = match self.join(&new) {
            Some(g) => (g, false),
            None => {
                self.all.push(new);
                (self.all.len() as u32 - 1, true)
            }
        };
        let group = &self.all[g as usize];
        self.before.add(g, &group.deps, is_new);
        let known = |v: &mut Vec<u32>| {
            if v.last() != Some(&g) {
                v.push(g);
            }
        };
        group.deps.iter().for_each(|d| known(self.by_dep.entry(*d).or_default()));
        let stored = group.kernel.outputs.iter().map(|o| o.name());
        let touched: FxHashSet<&UOp> = group.loads.iter().map(|l| &l.0).chain(stored).collect();
        touched.into_iter().for_each(|m| known(self.by_memory.get_or_insert_with(m, Vec::new)));
        g
    }
    /// The group that the kernel has become a part of.
    fn join(&mut self, new: &Group) -> Option<u32> {
        let space = new.space.as_ref()?;
        // a scalar in common is no reason
        let tells = |m: &&UOp| kernels::len(m) > 1 || space.is_empty();
        let by_load = new.loads.iter().map(|l| &l.0).filter(tells).flat_map(|m| self.sharing(m));
        let siblings = new.deps.iter().filter_map(|d| self.by_dep.get(d));
        let mut seen = FxHashSet::default();
        let candidates: Vec<u32> = by_load
            .chain(siblings)
            .flat_map(|v| v.iter().rev())
            .copied()
            .filter(|&g| seen.insert(g) && shares_loops(&self.all[g as usize], new))
            .take(MOST_TRIES)
            .collect();
        for g in candidates {
            // no way from the group to the kernel but straight
            if new.deps.iter().any(|&d| d != g && self.before.is(g, d)) {
                continue;
            }
            if let Some((both, why, taken)) = try_join(&self.all[g as usize], g, new, self.target) {
                taken
                    .iter()
                    .for_each(|(load, value)| replaced("the value itself instead of a load", load, value));
                let with = self.all[g as usize].kernel.outputs.first();
                for (o, with) in new.kernel.outputs.iter().zip(with.into_iter().cycle()) {
                    record::joined(o.place(), with.place(), why);
                }
                self.all[g as usize] = both;
                return Some(g);
            }
        }
        None
    }
    /// The groups that load this memory, or store it.
    fn sharing<'b>(&'b self, memory: &'b UOp) -> impl Iterator<Item = &'b Vec<u32>> {
        let effects = if memory.op == Op::After { memory.deps() } else { &[] };
        effects.iter().chain([memory]).filter_map(|m| self.by_memory.get(m))
    }
    /// Kernels in the order they run, without stages that no one reads.
    fn in_order(self) -> Result<Vec<Kernel>, Error> {
        let deps: Vec<FxHashSet<u32>> = self.all.iter().map(|g| g.deps.clone()).collect();
        let order = kernels::sorted(&deps, |g| self.all[g].rank)?;
        let mut all: Vec<Option<Group>> = self.all.into_iter().map(Some).collect();
        let mut read: FxHashSet<UOp> = FxHashSet::default();
        let mut last_first = vec![];
        for mut group in order.iter().rev().filter_map(|&g| all[g].take()) {
            let before = group.kernel.outputs.len();
            group.kernel.outputs.retain(|o| {
                let is_stored = o.place().op == Op::Param || read.contains(o.place());
                if !is_stored {
                    record::unstored(o.place());
                }
                is_stored
            });
            let loads = match group.kernel.outputs.len() == before {
                true => group.loads.into_iter().map(|l| l.0).collect(),
                false => kernels::memories(&group.kernel.nodes()),
            };
            read.extend(loads.iter().map(|m| m.behind_after().clone()));
            last_first.push(group.kernel);
        }
        last_first.retain(|k| !k.outputs.is_empty());
        last_first.reverse();
        Ok(last_first)
    }
}

/// One `Sink` for each kernel.
fn sink_of(kernels: &[Kernel]) -> UOp {
    let (mut new, none) = (Rebuilt::default(), FxHashMap::default());
    let sinks = kernels.iter().map(|kernel| {
        let outputs = kernel.outputs.iter().map(|o| new.output(o, kernel.ranges_of(o), &none));
        UOp::sink(outputs.collect::<Vec<_>>())
    });
    UOp::sink(sinks.collect::<Vec<_>>())
}

impl Group {
    /// A kernel whose reduces run in the loops that there are where they can.
    fn new(mut kernel: Kernel, mut loops: Loops) -> Group {
        let nodes = share_loops(&mut kernel, &mut loops);
        let is_checked = kernel.outputs.iter().any(|o| o.site != frit_uop::Arg::None);
        let is_inner = |n: &UOp| n.range_arg().is_some_and(|a| a.kind == AxisKind::Reduce);
        let of_loops: FxHashSet<u32> = nodes.iter().filter(|n| is_inner(n)).map(number).collect();
        let is_nested = |n: &UOp| n.op == Op::Reduce && n.ranges.iter().any(|r| of_loops.contains(r));
        let is_chain = nodes.iter().any(is_nested);
        let free = kernel.ordered(&nodes).is_none() && !is_checked;
        let space = free.then(|| kernel.ranges.iter().map(|r| r.extent().clone()).collect());
        let (mut reduced, mut scoped) = (FxHashSet::default(), false);
        let outer: FxHashSet<u32> =
            kernel.ranges.iter().filter_map(|r| r.range_arg()).map(|a| a.id).collect();
        for n in nodes.iter().filter(|n| n.op == Op::Reduce) {
            scoped |= outer.iter().any(|r| !n.ranges.contains(r));
        }
        for (memory, _, n) in kernels::loads(&nodes) {
            if n.ranges.iter().any(|r| !outer.contains(r)) {
                reduced.insert(memory.clone());
            }
        }
        let loads = loads(&nodes);
        let inner = nodes.iter().filter(|n| n.op == Op::Range && !kernel.ranges.contains(n));
        let inner: Vec<UOp> = inner.cloned().collect();
        let next = inner.iter().chain(&kernel.ranges).map(|r| number(r) + 1).max().unwrap_or(0);
        let (deps, rank) = (FxHashSet::default(), 0);
        let ops = nodes.iter().filter(|n| n.dtype != DType::Index).map(|n| n.op.weight()).sum();
        let products = Product::all(&nodes);
        Group {
            kernel,
            deps,
            rank,
            loops,
            inner,
            next,
            space,
            loads,
            reduced,
            scoped,
            is_chain,
            products,
            ops,
        }
    }
    /// Memory of the loads and of what is stored.
    fn places(&self) -> impl Iterator<Item = &UOp> {
        let stored = self.kernel.outputs.iter().map(|o| o.place());
        self.loads.iter().map(|l| l.0.behind_after()).chain(stored)
    }
    fn is_small(&self) -> bool {
        self.loads.iter().all(|l| kernels::len(&l.0) <= SMALL)
    }
    /// The output that is in this memory.
    fn maker(&self, memory: &UOp) -> Option<&Output> {
        self.kernel.outputs.iter().find(|o| o.makes(memory))
    }
}

/// How a group and a kernel may be one.
enum Fit {
    /// Whatever they compute.
    Always,
    /// Where one takes what the other sums, and their sums share a tile.
    InATile,
}

/// Whether a kernel runs over the space of a group, or makes several results of each row of a chain that the group is.
fn shares_loops(old: &Group, new: &Group) -> bool {
    let (Some(outer), Some(space)) = (&old.space, &new.space) else { return false };
    outer == space || old.is_chain && new.is_chain && space.starts_with(outer)
}

/// Whether a group and a kernel have something in common, and neither is in the other's way.
fn fit(old: &Group, new: &Group) -> Option<Fit> {
    if old.ops + new.ops > MOST_OPS || old.is_chain != new.is_chain {
        return None;
    }
    // a value that a loop runs over cannot be taken from the iteration that makes it
    if new.reduced.iter().any(|m| old.maker(m).is_some()) {
        return None;
    }
    let small = old.is_small() && new.is_small();
    // two different contractions in one loop fight for registers
    let alike = new.reduced.is_subset(&old.reduced) || old.reduced.is_subset(&new.reduced);
    let of_products =
        old.products.is_some() && new.products.is_some() && !old.reduced.is_disjoint(&new.reduced);
    // one that keeps its inner ranges to itself would take the other's threads away
    let is_reduced = !old.reduced.is_empty() && !new.reduced.is_empty();
    let cramped = old.scoped != new.scoped && is_reduced && !old.is_chain;
    let shares = |m: &UOp| old.loads.iter().any(|l| l.0 == *m) || old.maker(m).is_some();
    let is_near = !cramped && new.loads.iter().any(|l| shares(&l.0));
    match () {
        _ if small || alike && is_near => Some(Fit::Always),
        _ if of_products && is_near => Some(Fit::InATile),
        _ => None,
    }
}

/// Memory, index and node of the loads among nodes.
fn loads(nodes: &[UOp]) -> Vec<(UOp, UOp, UOp)> {
    kernels::loads(nodes).map(|(m, at, n)| (m.clone(), at.clone(), n.clone())).collect()
}

fn number(range: &UOp) -> u32 {
    range.range_arg().map_or(0, |a| a.id)
}

/// What ranges of a kernel are in a group: its own are the group's, and those of reduces, or beyond the group's, have numbers that
/// the group has not.
fn ranges_in(old: &Group, new: &Group) -> FxHashMap<UOp, UOp> {
    let mut next = old.next.max(new.next)..;
    let fresh = |r: &UOp| {
        let kind = r.range_arg().map_or(AxisKind::Reduce, |a| a.kind);
        UOp::range(r.extent(), next.next().unwrap_or(0), kind)
    };
    let beyond = &new.kernel.ranges[old.kernel.ranges.len()..];
    let own = new.inner.iter().chain(beyond).filter(|r| number(r) < old.next);
    let own = own.clone().cloned().zip(own.map(fresh));
    let outer = new.kernel.ranges.iter().cloned().zip(old.kernel.ranges.iter().cloned());
    outer.filter(|(from, to)| from != to).chain(own).collect()
}

/// What became of loads that read what a kernel of the same group has just computed.
type Taken = FxHashMap<UOp, UOp>;

/// The kernel over the group's ranges, with values of the group instead of loads of them; and the values.
fn with_values(old: &Group, new: &Group) -> Option<(Kernel, Taken)> {
    let mut kernel = new.kernel.clone();
    let moved;
    let loads = match ranges_in(old, new) {
        same if same.is_empty() => &new.loads,
        others => {
            kernel.ranges = kernel.ranges.iter().map(|r| others.get(r).unwrap_or(r).clone()).collect();
            move_body(&mut kernel, &others);
            moved = loads(&kernel.nodes());
            &moved
        }
    };
    let mut values = Taken::default();
    for (memory, at, load) in loads {
        if let Some(o) = old.maker(memory) {
            if o.index != *at || o.is_kept() {
                return None;
            }
            values.insert(load.clone(), o.value.clone());
        }
    }
    // the replaced loads are leaves, so nothing is captured
    move_body(&mut kernel, &values);
    Some((kernel, values))
}

fn move_body(kernel: &mut Kernel, map: &FxHashMap<UOp, UOp>) {
    let roots: Vec<UOp> = kernel.outputs.iter().flat_map(|o| [o.index.clone(), o.value.clone()]).collect();
    let mut now = kernels::substitute(&roots, map).into_iter();
    kernel.map(|x| now.next().unwrap_or_else(|| x.clone()));
}

/// Group `g` and a kernel as one, if that is right and pays; why it does, and which values are not loaded any more.
fn try_join(old: &Group, g: u32, new: &Group, target: &Target) -> Option<(Group, &'static str, Taken)> {
    let fit = fit(old, new)?;
    let (kernel, taken) = with_values(old, new)?;
    if taken.is_empty() && old.space != new.space {
        return None;
    }
    // only now: a value brings reduces of its own, and those inside others must not share their ranges
    let part = Group::new(kernel, old.loops.clone());
    let products = both_products(old, &part);
    let share = |all: &Vec<Product>| share_a_tile(all, &old.kernel.ranges, target);
    if matches!(fit, Fit::InATile) && (taken.is_empty() || !products.as_ref().is_some_and(share)) {
        return None;
    }
    if !keep_apart(old, &part) || !keep_apart(&part, old) {
        return None;
    }
    let scalar_space = old.space.as_ref().is_some_and(|s| s.is_empty());
    let known: FxHashSet<&UOp> = old.loads.iter().map(|l| &l.2).collect();
    let shares = |(m, _, n): &(UOp, UOp, UOp)| known.contains(n) && (scalar_space || kernels::len(m) > 1);
    let why = if !taken.is_empty() {
        "one takes each value that the other has just computed"
    } else if part.loads.iter().any(shares) {
        "both read the same elements of the same memory"
    } else if old.is_small() && new.is_small() {
        "both are small, and one launch costs less than two"
    } else {
        return None;
    };
    let (ranges, mut outputs) = (part.kernel.ranges, old.kernel.outputs.clone());
    outputs.extend(part.kernel.outputs);
    let both = Group {
        kernel: Kernel { ranges, outputs },
        deps: old.deps.iter().chain(&new.deps).copied().filter(|d| *d != g).collect(),
        rank: old.rank.max(new.rank),
        loops: part.loops,
        inner: old
            .inner
            .iter()
            .chain(part.inner.iter().filter(|r| !old.inner.contains(r)))
            .cloned()
            .collect(),
        next: old.next.max(part.next),
        space: part.space,
        loads: old.loads.iter().chain(part.loads.iter().filter(|l| !known.contains(&l.2))).cloned().collect(),
        reduced: old.reduced.union(&part.reduced).cloned().collect(),
        scoped: old.scoped || part.scoped,
        is_chain: old.is_chain,
        products,
        ops: old.ops + new.ops,
    };
    let places: FxHashSet<&UOp> = both.places().collect();
    let fits = places.len() <= MOST_PLACES;
    drop(places);
    fits.then_some((both, why, taken))
}

/// The sums of products of two groups, if they reduce nothing else.
fn both_products(old: &Group, new: &Group) -> Option<Vec<Product>> {
    let (mut all, new) = (old.products.clone()?, new.products.as_ref()?);
    all.extend(new.iter().filter(|p| !old.products.iter().flatten().any(|q| q == *p)).cloned());
    Some(all)
}

/// What `a` stores disturbs nothing that `b` reads or stores, unless it is the very element.
fn keep_apart(a: &Group, b: &Group) -> bool {
    a.kernel.outputs.iter().all(|o| {
        let elsewhere = b.kernel.outputs.iter().all(|p| p.place() != o.place());
        elsewhere && b.loads.iter().all(|(m, at, _)| m.behind_after() != o.place() || *at == o.index)
    })
}

/// Which groups must run before which: for each a row of bits, as long as the last that is set needs, and the groups that
/// wait for it.
#[derive(Default)]
struct Before {
    rows: Vec<Vec<u64>>,
    users: Vec<Vec<u32>>,
}

impl Before {
    fn is(&self, a: u32, b: u32) -> bool {
        self.rows[b as usize].get(a as usize / 64).is_some_and(|w| w >> (a % 64) & 1 == 1)
    }
    /// Group `g` now waits for `deps`, and so does all that waits for it.
    fn add(&mut self, g: u32, deps: &FxHashSet<u32>, is_new: bool) {
        if is_new {
            self.rows.push(vec![]);
            self.users.push(vec![]);
        }
        let mut row = vec![];
        for &d in deps {
            let users = &mut self.users[d as usize];
            if users.last() != Some(&g) {
                users.push(g);
            }
            merge(&mut row, &self.rows[d as usize]);
            set(&mut row, d);
        }
        let mut changed = vec![g];
        while let Some(h) = changed.pop() {
            if merge(&mut self.rows[h as usize], &row) {
                changed.extend(&self.users[h as usize]);
            }
        }
    }
}

/// Add bits to a row; whether there are more now.
fn merge(row: &mut Vec<u64>, bits: &[u64]) -> bool {
    row.resize(row.len().max(bits.len()), 0);
    row.iter_mut().zip(bits).fold(false, |more, (r, b)| {
        let is_more = *b & !*r != 0;
        *r |= b;
        more | is_more
    })
}
fn set(row: &mut Vec<u64>, bit: u32) {
    row.resize(row.len().max(bit as usize / 64 + 1), 0);
    row[bit as usize / 64] |= 1 << (bit % 64);
}

/// Reduces at one depth, over equal extents and inside the same ranges, loop together. Gives the nodes that there are
/// now.
fn share_loops(kernel: &mut Kernel, loops: &mut Loops) -> Nodes {
    let nodes = kernel.nodes();
    if !nodes.iter().any(|n| n.op == Op::Reduce) {
        return nodes;
    }
    // nodes with a reduce below them, or that are one: what becomes of them, and how deep they nest
    let mut done: FxHashMap<UOp, (UOp, u32)> = FxHashMap::default();
    for n in &nodes {
        let below = n.src.iter().filter_map(|s| done.get(s)).map(|d| d.1).max();
        if below.is_none() && n.op != Op::Reduce {
            continue;
        }
        let (below, of) = (below.unwrap_or(0), |s: &UOp| done.get(s).map_or(s, |d| &d.0).clone());
        let mut new = n.with_src(n.src.iter().map(of).collect());
        if n.op == Op::Reduce {
            let extents: Vec<UOp> = new.src[1..].iter().map(|r| r.src[0].clone()).collect();
            let around: Vec<u32> = new.ranges.to_vec();
            let own: Vec<UOp> = new.src[1..].to_vec();
            let shared = loops.entry((below, extents, around)).or_insert_with(|| own.clone());
            if *shared != own {
                own.iter().zip(&*shared).for_each(|(a, b)| replaced("reduces loop together", a, b));
                let map: FxHashMap<UOp, UOp> = own.into_iter().zip(shared.iter().cloned()).collect();
                new = kernels::substitute(&[new], &map).remove(0);
            }
        }
        let depth = below + (n.op == Op::Reduce) as u32;
        done.insert(n.clone(), (new, depth));
    }
    if done.iter().all(|(n, new)| *n == new.0) {
        return nodes;
    }
    kernel.map(|x| done.get(x).map_or(x, |d| &d.0).clone());
    kernel.nodes()
}
