//! Put kernels over the same space together where it pays: outputs that share inputs, and a value with its users.
//!
//! ```text
//! sum(x), max(x), sum(x*x)      three stores over one loop, x loaded once
//! m', v', p' of an Adam step    three stores over one space
//! t = x@w;  relu(t);  t*2       the readers of t[i] take the value, and t is stored only if others read it
//! ```
//! Kernels join when no path leads from one to the other through a third, when they do not disturb each other's
//! memory, and when they have a load or a value in common. Reduces of one extent at one depth share their ranges, so
//! that common loads are common nodes.

use crate::error::Error;
use crate::plan::{Kernel, Plan, StoreTo, load_parts};
use frit_uop::graph::rebuild;
use frit_uop::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most places in memory one kernel may touch.
const MOST_PLACES: usize = 30;
/// Kernels that read no more than this share a launch without sharing anything else.
const SMALL: usize = 4096;
/// Most groups one kernel tries to join.
const MOST_TRIES: usize = 6;

/// Ranges of reduces by depth, extents and the ranges around them.
type Loops = FxHashMap<(u32, Vec<UOp>, Vec<u32>), Vec<UOp>>;

/// Kernels that run as one.
struct Group {
    kernel: Kernel,
    loops: Loops,
    /// Extents of the ranges; `None` where nothing may join.
    space: Option<Vec<UOp>>,
    loads: Vec<(u32, UOp, UOp)>,
    /// Versions read at indices that run with a reduce.
    reduced: FxHashSet<u32>,
    /// Some reduce runs once for several iterations of the inner ranges.
    scoped: bool,
}

/// Merges kernels; [`Kernel::deps`] are numbers of the merged ones afterwards.
pub fn group_kernels(plan: &mut Plan) -> Result<(), Error> {
    let order = crate::order::sorted(&plan.kernels)?;
    let mut kernels = std::mem::take(&mut plan.kernels);
    let mut groups: Vec<Group> = vec![];
    let mut before = Before::new(kernels.len());
    let mut group_of: Vec<u32> = vec![0; kernels.len()];
    let mut by_buf: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    let mut by_dep: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for k in order {
        let mut kernel = std::mem::take(&mut kernels[k as usize]);
        kernel.deps = kernel.deps.iter().map(|d| group_of[*d as usize]).collect();
        let nodes = kernel.nodes();
        let new = Group::new(kernel, nodes, Loops::default());
        let mut tried = 0;
        let mut joined = None;
        if let Some(space) = &new.space {
            // a scalar in common is no reason
            let tells = |b: &u32| plan.bufs[*b as usize].len > 1 || space.is_empty();
            let by_load = new.loads.iter().map(|l| l.0).filter(tells).filter_map(|b| by_buf.get(&b));
            let siblings = new.kernel.deps.iter().filter_map(|d| by_dep.get(d));
            let mut seen = FxHashSet::default();
            for &g in by_load.chain(siblings).flat_map(|v| v.iter().rev()) {
                if tried == MOST_TRIES {
                    break;
                }
                if seen.insert(g) && groups[g as usize].space.as_ref() == Some(space) {
                    tried += 1;
                    // no way from the group to the kernel but straight
                    if new.kernel.deps.iter().any(|&d| d != g && before.is(g, d)) {
                        continue;
                    }
                    if let Some(both) = try_join(plan, &groups[g as usize], g, &new) {
                        groups[g as usize] = both;
                        joined = Some(g);
                        break;
                    }
                }
            }
        }
        let g = joined.unwrap_or_else(|| {
            groups.push(new);
            groups.len() as u32 - 1
        });
        group_of[k as usize] = g;
        let group = &groups[g as usize];
        before.add(g, &group.kernel.deps, groups.len());
        let touched: FxHashSet<u32> =
            group.loads.iter().map(|l| l.0).chain(group.kernel.stores.iter().map(|s| s.buf)).collect();
        for &d in &group.kernel.deps {
            let v = by_dep.entry(d).or_default();
            if v.last() != Some(&g) {
                v.push(g);
            }
        }
        for b in touched {
            let v = by_buf.entry(b).or_default();
            if v.last() != Some(&g) {
                v.push(g);
            }
        }
    }
    plan.kernels = groups.into_iter().map(|g| g.kernel).collect();
    Ok(())
}

impl Group {
    /// A kernel with these nodes, whose reduces run in the loops that there are where they can.
    fn new(mut kernel: Kernel, nodes: Vec<UOp>, mut loops: Loops) -> Group {
        let nodes = share_loops(&mut kernel, nodes, &mut loops);
        let free = kernel.ordered.is_none() && kernel.stores.iter().all(|s| s.site.is_none());
        let space = free.then(|| kernel.ranges.iter().map(|r| r.src[0].clone()).collect());
        let (mut loads, mut reduced, mut scoped) = (vec![], FxHashSet::default(), false);
        let outer: FxHashSet<u32> =
            kernel.ranges.iter().filter_map(|r| r.range_arg()).map(|a| a.id).collect();
        for n in nodes {
            scoped |= n.op == Op::Reduce && outer.iter().any(|r| !n.ranges.contains(r));
            if let Some((b, at)) = load_parts(&n) {
                if n.ranges.iter().any(|r| !outer.contains(r)) {
                    reduced.insert(b);
                }
                loads.push((b, at, n));
            }
        }
        Group { kernel, loops, space, loads, reduced, scoped }
    }
}

/// Group `g` and a kernel as one, if that is right and pays.
fn try_join(plan: &Plan, old: &Group, g: u32, new: &Group) -> Option<Group> {
    // a value that a loop runs over cannot be taken from the iteration that makes it
    if old.kernel.stores.iter().any(|s| new.reduced.contains(&s.buf)) {
        return None;
    }
    // two different contractions in one loop fight for registers
    let alike = new.reduced.is_subset(&old.reduced) || old.reduced.is_subset(&new.reduced);
    let small = |g: &Group| g.loads.iter().all(|l| plan.bufs[l.0 as usize].len <= SMALL);
    let small = small(old) && small(new);
    // one that keeps its inner ranges to itself would take the other's threads away
    let cramped = old.scoped != new.scoped && !old.reduced.is_empty() && !new.reduced.is_empty();
    if (!alike || cramped) && !small {
        return None;
    }
    let touched: FxHashSet<u32> =
        old.loads.iter().map(|l| l.0).chain(old.kernel.stores.iter().map(|s| s.buf)).collect();
    if !small && !new.loads.iter().any(|l| touched.contains(&l.0)) {
        return None;
    }
    let map: FxHashMap<UOp, UOp> =
        new.kernel.ranges.iter().cloned().zip(old.kernel.ranges.iter().cloned()).collect();
    let mut kernel = new.kernel.clone();
    let mut memo = map;
    kernel.map(|x| {
        rebuild(x, &mut memo, |n| n);
        memo[x].clone()
    });

    // readers of what the group stores take the value
    let made: FxHashMap<u32, &StoreTo> = old.kernel.stores.iter().map(|s| (s.buf, s)).collect();
    let mut values: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut nodes = kernel.nodes();
    for load in &nodes {
        let Some((b, at)) = load_parts(load) else { continue };
        if let Some(s) = made.get(&b) {
            if s.index != at || plan.kept.contains(&b) {
                return None;
            }
            values.insert(load.clone(), s.value.clone());
        }
    }
    let uses_value = !values.is_empty();
    if uses_value {
        // the replaced loads are leaves, so nothing is captured
        let mut memo = values;
        kernel.map(|x| {
            rebuild(x, &mut memo, |n| n);
            memo[x].clone()
        });
        nodes = kernel.nodes();
    }
    kernel.ranges = old.kernel.ranges.clone();
    // only now: a value brings reduces of its own, and those inside others must not share their ranges
    let part = Group::new(kernel, nodes, old.loops.clone());
    if !keep_apart(plan, old, &part) || !keep_apart(plan, &part, old) {
        return None;
    }
    let scalar_space = old.space.as_ref().is_some_and(|s| s.is_empty());
    let known: FxHashSet<&UOp> = old.loads.iter().map(|l| &l.2).collect();
    let shares = part
        .loads
        .iter()
        .any(|(b, _, n)| known.contains(n) && (scalar_space || plan.bufs[*b as usize].len > 1));
    if !(uses_value || shares || small) {
        return None;
    }
    let mut both = old.kernel.clone();
    both.stores.extend(part.kernel.stores.iter().cloned());
    both.deps.extend(new.kernel.deps.iter().copied().filter(|d| *d != g));
    both.rank = both.rank.max(new.kernel.rank);
    let both = Group {
        kernel: both,
        loops: part.loops,
        space: old.space.clone(),
        loads: old.loads.iter().chain(part.loads.iter().filter(|l| !known.contains(&l.2))).cloned().collect(),
        reduced: old.reduced.union(&part.reduced).copied().collect(),
        scoped: old.scoped || part.scoped,
    };
    let places: FxHashSet<crate::BufRef> = both
        .loads
        .iter()
        .map(|l| l.0)
        .chain(both.kernel.stores.iter().map(|s| s.buf))
        .map(|b| plan.bufs[b as usize].place)
        .collect();
    (places.len() <= MOST_PLACES).then_some(both)
}

/// What `a` stores disturbs nothing that `b` reads or stores, unless it is the very element.
fn keep_apart(plan: &Plan, a: &Group, b: &Group) -> bool {
    a.kernel.stores.iter().all(|s| {
        let place = plan.bufs[s.buf as usize].place;
        let stores = b.kernel.stores.iter().all(|t| plan.bufs[t.buf as usize].place != place);
        stores && b.loads.iter().all(|(r, at, _)| plan.bufs[*r as usize].place != place || *at == s.index)
    })
}

/// Which groups must run before which: a row of bits for each.
struct Before {
    words: usize,
    bits: Vec<u64>,
}

impl Before {
    fn new(most: usize) -> Before {
        Before { words: most.div_ceil(64), bits: vec![0; most * most.div_ceil(64)] }
    }
    fn is(&self, a: u32, b: u32) -> bool {
        self.bits[b as usize * self.words + a as usize / 64] >> (a % 64) & 1 == 1
    }
    /// Group `g` (of `count`) now waits for `deps`, and so does all that waits for it.
    fn add(&mut self, g: u32, deps: &FxHashSet<u32>, count: usize) {
        let w = self.words;
        let mut row = self.bits[g as usize * w..(g as usize + 1) * w].to_vec();
        for &d in deps {
            row[d as usize / 64] |= 1 << (d % 64);
            row.iter_mut().zip(&self.bits[d as usize * w..]).for_each(|(r, b)| *r |= b);
        }
        if self.bits[g as usize * w..(g as usize + 1) * w] == row[..] {
            return;
        }
        for h in 0..count as u32 {
            if h == g || self.is(g, h) {
                self.bits[h as usize * w..].iter_mut().zip(&row).for_each(|(b, r)| *b |= r);
            }
        }
    }
}

/// Reduces at one depth, over equal extents and inside the same ranges, loop together. Gives the nodes that there are
/// now.
fn share_loops(kernel: &mut Kernel, nodes: Vec<UOp>, loops: &mut Loops) -> Vec<UOp> {
    if !nodes.iter().any(|n| n.op == Op::Reduce) {
        return nodes;
    }
    // nodes with a reduce below them, or that are one: what becomes of them, and how deep they nest
    let mut done: FxHashMap<UOp, (UOp, u32)> = FxHashMap::default();
    for n in nodes {
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
                let map: FxHashMap<UOp, UOp> = own.into_iter().zip(shared.iter().cloned()).collect();
                new = new.substitute(&map);
            }
        }
        let depth = below + (n.op == Op::Reduce) as u32;
        done.insert(n, (new, depth));
    }
    kernel.map(|x| done.get(x).map_or(x, |d| &d.0).clone());
    kernel.nodes()
}
