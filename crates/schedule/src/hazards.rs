//! Order the kernels by what they read and write.
//!
//! A reader of a version runs after the kernel that makes it and before the kernel that makes the next one. Where that
//! is impossible the old contents are kept in a temporary:
//!
//! | conflict | repair |
//! |---|---|
//! | a kernel overwrites what its own later iterations read (`x = x.T`, `x[1:] = x[:-1]`) | value to a temporary, then store |
//! | a reader of the old version depends on the new one (`x.old + x.new`, swaps) | a copy of the old version for the reader |
//!
//! Reading the very element that is written is no conflict: that is an update in place.

use crate::BufRef;
use crate::error::Error;
use crate::index;
use crate::plan::{Kernel, Plan, StoreTo};
use crate::requests::open_ranges;
use frit_uop::{AxisKind, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Versions of each place and the kernels that make them, ascending.
type Writers = FxHashMap<BufRef, Vec<(u32, u32)>>;

/// Fills [`Kernel::deps`]; afterwards any order that respects them is right.
pub fn order_accesses(plan: &mut Plan) -> Result<(), Error> {
    let mut writers = writers(plan);
    let mut reads: Vec<Vec<(u32, UOp)>> = plan.kernels.iter().map(reads_of).collect();
    for k in 0..plan.kernels.len() {
        if overwrites_its_input(plan, k, &reads[k], &writers) {
            store_through_temp(plan, k, &mut writers);
            reads.push(reads_of(&plan.kernels[plan.kernels.len() - 1]));
        }
    }
    let mut users: Vec<Vec<u32>> = vec![vec![]; plan.kernels.len()];
    let mut edge = |plan: &mut Plan, from: u32, to: u32| {
        if from != to && plan.kernels[to as usize].deps.insert(from) {
            users[from as usize].push(to);
        }
    };
    // what must come before: the makers of what is read, and the earlier stores to one place
    for list in writers.values() {
        for w in list.windows(2) {
            edge(plan, w[0].1, w[1].1);
        }
    }
    for (k, read) in reads.iter().enumerate() {
        for (b, _) in read {
            if let Some(w) = maker(plan, &writers, *b) {
                edge(plan, w, k as u32);
            }
        }
    }
    // what must come after: the next store to what is read
    let mut copies: FxHashMap<u32, u32> = FxHashMap::default();
    for (k, read) in reads.iter().enumerate() {
        let bufs: FxHashSet<u32> = read.iter().map(|r| r.0).collect();
        let mut bufs: Vec<u32> = bufs.into_iter().collect();
        bufs.sort_unstable();
        for b in bufs {
            let Some(w) = overwriter(plan, &writers, b) else { continue };
            if w as usize == k {
                continue;
            }
            if !reaches(&users, w, k as u32) {
                if plan.kernels[w as usize].deps.insert(k as u32) {
                    users[k].push(w);
                }
                continue;
            }
            let copy = *copies.entry(b).or_insert_with(|| {
                let c = copy_of(plan, b);
                users.resize(plan.kernels.len(), vec![]);
                if let Some(m) = maker(plan, &writers, b)
                    && plan.kernels[c as usize].deps.insert(m)
                {
                    users[m as usize].push(c);
                }
                plan.kernels[w as usize].deps.insert(c);
                users[c as usize].push(w);
                c
            });
            let to = plan.buf_node(plan.kernels[copy as usize].stores[0].buf);
            let map: FxHashMap<UOp, UOp> = [(plan.buf_node(b), to)].into_iter().collect();
            plan.kernels[k].map(|x| x.substitute(&map));
            if plan.kernels[k].deps.insert(copy) {
                users[copy as usize].push(k as u32);
            }
        }
    }
    Ok(())
}

fn writers(plan: &Plan) -> Writers {
    let mut all = Writers::default();
    for (k, kernel) in plan.kernels.iter().enumerate() {
        for s in &kernel.stores {
            let b = plan.bufs[s.buf as usize];
            all.entry(b.place).or_default().push((b.version, k as u32));
        }
    }
    for list in all.values_mut() {
        list.sort_unstable();
    }
    all
}
fn reads_of(k: &Kernel) -> Vec<(u32, UOp)> {
    k.loads().into_iter().map(|(b, at, _)| (b, at)).collect()
}
/// The kernel that makes a version: the last store up to it.
fn maker(plan: &Plan, writers: &Writers, buf: u32) -> Option<u32> {
    let b = plan.bufs[buf as usize];
    writers.get(&b.place)?.iter().rev().find(|w| w.0 <= b.version).map(|w| w.1)
}
/// The kernel that destroys a version: the first store after it.
fn overwriter(plan: &Plan, writers: &Writers, buf: u32) -> Option<u32> {
    let b = plan.bufs[buf as usize];
    writers.get(&b.place)?.iter().find(|w| w.0 > b.version).map(|w| w.1)
}

/// Whether a kernel reads, at another index, what it overwrites itself.
fn overwrites_its_input(plan: &Plan, k: usize, reads: &[(u32, UOp)], writers: &Writers) -> bool {
    let stores = &plan.kernels[k].stores;
    reads.iter().any(|(b, at)| {
        overwriter(plan, writers, *b) == Some(k as u32)
            && stores
                .iter()
                .any(|s| plan.bufs[s.buf as usize].place == plan.bufs[*b as usize].place && s.index != *at)
    })
}

/// Kernel `k` computes into a temporary, and a kernel after it stores that.
fn store_through_temp(plan: &mut Plan, k: usize, writers: &mut Writers) {
    let old = plan.kernels[k].clone();
    let dims: Vec<UOp> = old.ranges.iter().map(|r| r.src[0].clone()).collect();
    let flat = index::flatten(&dims, &old.ranges);
    let s = &old.stores[0];
    let b = plan.bufs[s.buf as usize];
    let temp = plan.temp(b.dtype, index::max_numel(&dims) as usize);
    plan.kernels[k].stores =
        vec![StoreTo { buf: temp, index: flat.clone(), value: s.value.clone(), site: None }];
    let fresh: Vec<UOp> = dims.iter().map(|d| UOp::range(d, plan.range_id(), AxisKind::Global)).collect();
    let map: FxHashMap<UOp, UOp> = old.ranges.iter().cloned().zip(fresh.iter().cloned()).collect();
    let value = plan.buf_node(temp).at(&flat.substitute(&map)).load();
    let index = s.index.substitute(&map);
    let stores = vec![StoreTo { buf: s.buf, index, value, site: None }];
    let (rank, deps) = (old.rank, FxHashSet::default());
    plan.kernels.push(Kernel { ranges: fresh, ordered: None, stores, rank, deps });
    let new = plan.kernels.len() as u32 - 1;
    for list in writers.values_mut() {
        for w in list.iter_mut().filter(|w| w.1 == k as u32) {
            w.1 = new;
        }
    }
    writers.insert(plan.bufs[temp as usize].place, vec![(1, k as u32)]);
}

/// A kernel that copies a version whole into a temporary.
fn copy_of(plan: &mut Plan, buf: u32) -> u32 {
    let b = plan.bufs[buf as usize];
    let temp = plan.temp(b.dtype, b.len);
    let (ranges, idx) = open_ranges(&[UOp::index(b.len as i64)], || plan.range_id(), AxisKind::Global);
    let value = plan.buf_node(buf).at(&idx[0]).load();
    let stores = vec![StoreTo { buf: temp, index: idx[0].clone(), value, site: None }];
    plan.kernels.push(Kernel { ranges, ordered: None, stores, rank: 0, deps: FxHashSet::default() });
    plan.kernels.len() as u32 - 1
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
