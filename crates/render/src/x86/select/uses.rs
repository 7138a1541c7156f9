//! Who uses what where, found in one walk before selection.

use super::sized;
use super::strided::rows;
use super::tile::is_tile;
use super::types::is_real;
use crate::walk::register;
use frit_abi::Target;
use frit_abi::target::Isa;
use frit_uop::{Arg, Linear, Op, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// What is known of a value.
#[derive(Default)]
struct Use {
    /// The step it is computed at, and the steps that use it.
    made: usize,
    users: SmallVec<[usize; 2]>,
    /// The register variable that it is computed straight into.
    into: Option<UOp>,
    /// A load of a register variable that needs no copy.
    is_alias: bool,
    /// A load that its only user makes.
    is_folded: bool,
    /// A load of a scalar, or of four bytes, that is only used in every lane of a vector.
    is_broadcast: bool,
    /// A load whose memory stays as it is up to its last use.
    is_reloadable: bool,
}

/// The answers.
pub struct Uses {
    of: FxHashMap<UOp, Use>,
    /// The block of each step, and which steps open a loop without a loop inside.
    block: Vec<usize>,
    innermost: FxHashSet<usize>,
}

impl Uses {
    /// Of a program.
    pub fn of(linear: &Linear, target: &Target) -> Uses {
        let steps = &linear.steps;
        let mut u =
            Uses { of: sized(steps.len()), block: vec![0; steps.len()], innermost: FxHashSet::default() };
        let ends = u.blocks(steps);
        u.collect(steps);
        let mut stores: FxHashMap<&UOp, Vec<usize>> = FxHashMap::default(); // of each register variable
        let mut writes: Vec<usize> = vec![]; // to memory
        for (at, step) in steps.iter().enumerate() {
            if let Step::Do(n) = step
                && n.op == Op::Store
            {
                match register(n) {
                    Some(d) => stores.entry(d).or_default().push(at),
                    None => writes.push(at),
                }
            }
        }
        u.find_aliases(steps, &stores, &ends);
        u.find_targets(steps, &stores);
        u.find_loads(steps, &writes, target);
        u
    }

    /// Number the blocks; gives the step that closes each loop, by the one that opens it.
    fn blocks(&mut self, steps: &[Step]) -> FxHashMap<usize, usize> {
        let (mut open, mut next, mut ends): (Vec<(usize, usize)>, usize, _) =
            (vec![(0, usize::MAX)], 1, FxHashMap::default());
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Open(_) => {
                    if let Some((_, opened)) = open.last() {
                        self.innermost.remove(opened);
                    }
                    self.block[at] = open.last().map_or(0, |o| o.0);
                    open.push((next, at));
                    self.innermost.insert(at);
                    next += 1;
                }
                Step::Close(_) => {
                    if let Some((_, opened)) = open.pop() {
                        ends.insert(opened, at);
                    }
                    self.block[at] = open.last().map_or(0, |o| o.0);
                }
                Step::Do(_) | Step::Prefetch(..) => self.block[at] = open.last().map_or(0, |o| o.0),
            }
        }
        ends
    }
    fn collect(&mut self, steps: &[Step]) {
        let mut seen: Vec<&UOp> = vec![];
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Do(n) => {
                    self.of.entry(n.clone()).or_default().made = at;
                    seen.extend(n.src.iter());
                }
                Step::Open(r) => seen.extend(r.src.iter()),
                Step::Prefetch(at, _) => seen.push(at),
                Step::Close(_) => {}
            }
            while let Some(s) = seen.pop() {
                match s.op {
                    // these are not steps: what they use, their user uses
                    Op::Index => seen.extend(s.src.iter()),
                    Op::After => seen.push(&s.src[0]),
                    Op::Const | Op::Param | Op::Define | Op::Range | Op::Variable => {}
                    _ => self.of.entry(s.clone()).or_default().users.push(at),
                }
            }
        }
    }

    /// A load of a variable needs no copy if the variable keeps its value up to the last use.
    fn find_aliases(
        &mut self,
        steps: &[Step],
        stores: &FxHashMap<&UOp, Vec<usize>>,
        ends: &FxHashMap<usize, usize>,
    ) {
        let mut opens: Vec<usize> = ends.keys().copied().collect();
        opens.sort_unstable();
        for (at, step) in steps.iter().enumerate() {
            let Step::Do(n) = step else { continue };
            let Some(d) = register(n).filter(|_| n.op == Op::Load) else { continue };
            // indices are looked through, so what they are made of may be used later than it seems
            if n.lanes() == 1 && !is_real(n.dtype) {
                continue;
            }
            let Some(of) = self.of.get_mut(n) else { continue };
            let last = of.users.iter().max().copied().unwrap_or(at);
            // what is used in a loop further in is used until that loop ends
            let between = &opens[opens.partition_point(|o| *o < at)..];
            let until = between.iter().take_while(|o| **o < last).map(|o| ends[o]).fold(last, usize::max);
            // a store that is itself the last use reads before it writes, unless it comes round again
            let changed =
                |s: &Vec<usize>| s.iter().any(|&s| s > at && (s < until || s == last && until > last));
            of.is_alias = !stores.get(d).is_some_and(changed);
        }
    }

    /// A value whose only use is a store to a variable is computed there, if no one reads the variable in between.
    fn find_targets(&mut self, steps: &[Step], stores: &FxHashMap<&UOp, Vec<usize>>) {
        // when a variable is looked at: by its loads, and by the users of those that are no copies
        let mut reads: FxHashMap<&UOp, Vec<usize>> = FxHashMap::default();
        for (at, step) in steps.iter().enumerate() {
            let Step::Do(n) = step else { continue };
            if let Some(d) = register(n).filter(|_| n.op == Op::Load) {
                let users =
                    self.of.get(n).filter(|u| u.is_alias).map(|u| u.users.clone()).unwrap_or_default();
                reads.entry(d).or_default().extend(users.into_iter().chain([at]));
            }
        }
        for (d, stores) in stores {
            for &at in stores {
                let Step::Do(store) = &steps[at] else { continue };
                let value = &store.src[1];
                let Some(of) = self.of.get_mut(value) else { continue };
                let made = of.made;
                let same = of.users.len() == 1 && made < at && self.block[made] == self.block[at];
                let is_value = value.op.is_elementwise() || value.op == Op::Matrix;
                let is_plain = is_value && value.lanes() == lanes_of(d);
                let between = |v: &usize| *v > made && *v < at;
                let is_read = reads.get(d).is_some_and(|r| r.iter().any(between));
                if same && is_plain && !is_read && !stores.iter().any(between) {
                    of.into = Some((*d).clone());
                    self.chain(value, d, reads.get(d));
                }
            }
        }
    }
    /// What a value in a variable adds to is computed there too, if it is used for nothing else.
    fn chain(&mut self, value: &UOp, d: &UOp, reads: Option<&Vec<usize>>) {
        let mut value = value.clone();
        loop {
            let term = match value.op {
                Op::MulAcc | Op::Matrix => &value.src[2],
                Op::Add => &value.src[0],
                _ => return,
            };
            let Some(at) = self.of.get(&value).map(|u| u.made) else { return };
            let Some(of) = self.of.get_mut(term) else { return };
            let made = of.made;
            let is_plain =
                matches!(term.op, Op::MulAcc | Op::Matrix | Op::Add) && term.lanes() == value.lanes();
            let is_read = reads.is_some_and(|r| r.iter().any(|u| *u > made && *u < at));
            if !is_plain || is_read || of.users.len() != 1 || self.block[made] != self.block[at] {
                return;
            }
            of.into = Some(d.clone());
            value = term.clone();
        }
    }

    /// Loads that are part of the instruction that uses them, and scalars that are loaded into every lane.
    fn find_loads(&mut self, steps: &[Step], writes: &[usize], target: &Target) {
        // `writes` are in order
        let is_written = |from: usize, to: usize| {
            writes.get(writes.partition_point(|w| *w < from)).is_some_and(|w| *w < to)
        };
        for (at, step) in steps.iter().enumerate() {
            let Step::Do(n) = step else { continue };
            let plain = n.op == Op::Load && n.src.len() == 1 && n.arg == Arg::None && register(n).is_none();
            if !plain
                || n.src[0].op != Op::Index
                || n.src[0].src[1].lanes() > 1
                || rows(&n.src[0]).is_some() && !is_tile(n.lanes())
            {
                continue;
            }
            let Some(of) = self.of.get(n) else { continue };
            let users = of.users.clone();
            let last = users.iter().max().copied().unwrap_or(at);
            // a user that only renames the register, or takes a lane of it, hands it on to users of its own
            let is_last = |u: &usize| match &steps[*u] {
                Step::Do(u) => {
                    matches!(u.op, Op::Store | Op::Matrix)
                        || u.op.alu().is_some() && !matches!(u.op, Op::Shl | Op::Shr)
                }
                _ => false,
            };
            let here = users.iter().all(|u| self.block[*u] == self.block[at] && is_last(u));
            let is_reloadable = here && !is_written(at, last);
            let user = |i: &usize| if let Step::Do(u) = &steps[*i] { Some(u) } else { None };
            // one condition for all lanes is no vector
            let is_of_lanes = |u: &UOp| u.op != Op::Where || u.condition().lanes() > 1;
            let broadcast = |u: &UOp| u.op.alu().is_some() && u.lanes() > 1 && is_of_lanes(u);
            // the four bytes that a unit of vectors multiplies with those of each lane
            let dot = |u: &UOp| u.op == Op::Matrix && u.src[0] == *n && u.src[1] != *n;
            // what stands in an inner loop may name it behind an `After`, and wants it in a register
            let in_every_lane = |u: &UOp| match n.lanes() {
                1 => broadcast(u) && u.src.contains(n),
                _ => dot(u),
            };
            let is_broadcast = matches!((n.lanes(), n.dtype.size()), (1, 4 | 8) | (4, 1))
                && target.isa != Isa::Sse2
                && !users.is_empty()
                && users.iter().all(|i| user(i).is_some_and(in_every_lane));
            let is_folded = match users[..] {
                [only] => user(&only).is_some_and(|u| {
                    let free = self.block[at] == self.block[only] && !is_written(at, only);
                    // of two operands in memory, one is loaded first
                    let other = u.src.iter().any(|s| s != n && self.is_folded(s));
                    free && u.src.contains(n) && takes(u, n, is_broadcast, target) && !other
                }),
                _ => false,
            };
            if let Some(of) = self.of.get_mut(n) {
                (of.is_reloadable, of.is_broadcast, of.is_folded) = (is_reloadable, is_broadcast, is_folded);
            }
        }
    }

    /// Whether the loop opened at this step has no other inside.
    pub fn is_innermost(&self, step: usize) -> bool {
        self.innermost.contains(&step)
    }
    /// The variable a value is computed into.
    pub fn destination(&self, n: &UOp) -> Option<&UOp> {
        self.of.get(n)?.into.as_ref()
    }
    /// Whether a load of a variable needs no copy.
    pub fn is_alias(&self, n: &UOp) -> bool {
        self.of.get(n).is_some_and(|u| u.is_alias)
    }
    /// Whether a load is made by its user.
    pub fn is_folded(&self, n: &UOp) -> bool {
        self.of.get(n).is_some_and(|u| u.is_folded)
    }
    /// Whether what a load gave could be loaded again at every use.
    pub fn is_reloadable(&self, n: &UOp) -> bool {
        self.of.get(n).is_some_and(|u| u.is_reloadable)
    }
    /// Whether a scalar load is only used in every lane.
    pub fn is_broadcast(&self, n: &UOp) -> bool {
        self.of.get(n).is_some_and(|u| u.is_broadcast)
    }
    /// Whether a value is used by a step for the last time, in the block it was computed in.
    pub fn dies_at(&self, n: &UOp, step: usize) -> bool {
        self.of.get(n).is_some_and(|of| {
            self.block[of.made] == self.block[step] && of.users.iter().all(|u| *u <= step) && !of.is_alias
        })
    }
}

/// Whether the instruction of `user` takes what `n` loads from memory.
fn takes(user: &UOp, n: &UOp, is_broadcast: bool, target: &Target) -> bool {
    let whole = match (n.lanes(), target.isa) {
        (1, Isa::Avx512) if is_broadcast => true,
        (1, _) => is_real(n.dtype) && user.lanes() == 1,
        (_, Isa::Sse2) => false,
        (w, _) => w * n.dtype.size() >= 16 && user.lanes() == w,
    };
    let there = match user.op {
        Op::Add | Op::Mul => true,
        Op::Sub | Op::Fdiv => user.src[1] == *n && user.src[0] != *n,
        Op::MulAcc => user.src[2] != *n,
        _ => false,
    };
    whole && is_real(n.dtype) && there
}

fn lanes_of(define: &UOp) -> usize {
    if let Arg::Define { len, .. } = define.arg { len } else { 1 }
}
