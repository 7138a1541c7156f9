//! Interleave independent dependency chains.
//!
//! ```text
//! a1 a2 a3 store b1 b2 b3 store   ->   a1 b1 a2 b2 a3 b3 store store
//! ```
//!
//! Where each step waits for the one before it (an exponential, a division), other work is farther away than an
//! out-of-order window reaches. So independent chains of one length stand side by side, as many as registers hold. Only straight code is reordered; what is read still comes before what is written to the same memory.

use super::is_step;
use frit_abi::Target;
use frit_uop::{DType, Op, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The pass: long chains of steps stand side by side, as many as registers hold.
pub fn interleave(steps: Vec<Step>, target: &Target) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len());
    for run in steps.chunk_by(|a, b| is_plain(a) && is_plain(b)) {
        let stores = run.iter().filter(|s| matches!(s, Step::Do(n) if n.op == Op::Store)).count();
        if stores > 1 && run.len() > stores * target.costs.window_steps {
            out.extend(Run::new(run).order(target).into_iter().map(|i| run[i].clone()));
        } else {
            out.extend_from_slice(run);
        }
    }
    out
}

fn is_plain(s: &Step) -> bool {
    matches!(s, Step::Do(n) if !matches!(n.op, Op::Barrier | Op::Matrix))
}

type Steps = SmallVec<[usize; 4]>;

/// Straight code.
struct Run<'a> {
    nodes: Vec<&'a UOp>,
    /// The earlier steps whose results each one uses.
    needs: Vec<Steps>,
    /// The earlier ones that touch the memory it writes.
    after: Vec<Steps>,
}

/// Steps that lead to one result and to nothing else, and those with what they share with later chains where it stood.
struct Chain {
    own: Vec<usize>,
    steps: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(run: &'a [Step]) -> Run<'a> {
        let nodes: Vec<&UOp> =
            run.iter().filter_map(|s| if let Step::Do(n) = s { Some(n) } else { None }).collect();
        let place: FxHashMap<&UOp, usize> = nodes.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let mut behind: FxHashMap<&UOp, Steps> = FxHashMap::default();
        let mut touched: FxHashMap<&UOp, Vec<usize>> = FxHashMap::default();
        let (mut needs, mut after) = (vec![Steps::new(); nodes.len()], vec![Steps::new(); nodes.len()]);
        for (i, n) in nodes.iter().enumerate() {
            for s in &n.src {
                reach(s, &place, &mut behind, &mut needs[i]);
            }
            if let Some((base, _)) = n.buffer_and_index() {
                let touched = touched.entry(base.behind_after()).or_default();
                if n.op == Op::Store {
                    // which come after whatever was touched before them
                    after[i].extend(touched.drain(..));
                }
                touched.push(i);
            }
        }
        Run { nodes, needs, after }
    }

    /// The chains, in the order they begin.
    fn chains(&self) -> Vec<Chain> {
        const SHARED: usize = usize::MAX;
        let mut leads_to: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for i in (0..self.nodes.len()).rev() {
            let mine = *leads_to[i].get_or_insert(i);
            for &d in &self.needs[i] {
                let of = leads_to[d].get_or_insert(mine);
                if *of != mine {
                    *of = SHARED;
                }
            }
        }
        let (mut chains, mut number, mut shared) = (Vec::<Chain>::new(), FxHashMap::default(), vec![]);
        for (i, of) in leads_to.into_iter().enumerate() {
            let of = of.unwrap_or(SHARED);
            if of == SHARED {
                shared.push(i);
                continue;
            }
            let k = *number.entry(of).or_insert_with(|| {
                chains.push(Chain { own: vec![], steps: vec![] });
                chains.len() - 1
            });
            chains[k].steps.append(&mut shared);
            chains[k].steps.push(i);
            chains[k].own.push(i);
        }
        if let Some(last) = chains.last_mut() {
            last.steps.append(&mut shared);
        }
        chains
    }

    /// The steps in their new order.
    fn order(&self, target: &Target) -> Vec<usize> {
        let costs = target.costs;
        let chains = self.chains();
        if take_turns_already(&chains) {
            return (0..self.nodes.len()).collect();
        }
        let (mut groups, mut rest) = (vec![], &chains[..]);
        while let Some(first) = rest.first() {
            // one may have computed an address that the others share
            let is_alike = |c: &&Chain| {
                c.own.len() >= costs.window_steps
                    && c.own.len().abs_diff(first.own.len()) <= first.own.len() / 8
            };
            let alike = rest.iter().take_while(is_alike).count();
            let (kept, live) = self.pressure(&first.steps);
            let fit = target.registers.saturating_sub(kept) / live.max(1);
            let (now, later) = rest.split_at(alike.min(fit).clamp(1, costs.busy_chains));
            groups.push(now);
            rest = later;
        }
        // one after the other, accumulators that take turns already would no longer share what they use
        let is_worth = groups.iter().any(|g| g.len() > 1);
        let turns = is_worth.then(|| self.take_turns(&groups)).flatten();
        turns.unwrap_or_else(|| (0..self.nodes.len()).collect())
    }

    /// Chains of a group interleaved; `None` where one needs what is in a later group.
    fn take_turns(&self, groups: &[&[Chain]]) -> Option<Vec<usize>> {
        let (mut order, mut done) = (Vec::with_capacity(self.nodes.len()), vec![false; self.nodes.len()]);
        for group in groups {
            let mut at = vec![0; group.len()];
            loop {
                let (mut moved, mut left) = (false, false);
                for (chain, at) in group.iter().zip(&mut at) {
                    let Some(&i) = chain.steps.get(*at) else { continue };
                    left = true;
                    if self.needs[i].iter().chain(&self.after[i]).all(|&d| done[d]) {
                        (done[i], moved) = (true, true);
                        order.push(i);
                        *at += 1;
                    }
                }
                match (left, moved) {
                    (false, _) => break,
                    (true, false) => return None,
                    _ => {}
                }
            }
        }
        Some(order)
    }

    /// Registers that values from outside the steps take, and those of the steps at most.
    fn pressure(&self, steps: &[usize]) -> (usize, usize) {
        let is_wide =
            |n: &UOp| n.dtype.is_float() || n.lanes() > 1 && !matches!(n.dtype, DType::Void | DType::Bool);
        let inside: FxHashSet<&UOp> = steps.iter().map(|&i| self.nodes[i]).collect();
        let (mut outside, mut last) = (FxHashSet::default(), FxHashMap::default());
        for &i in steps.iter().filter(|&&i| is_wide(self.nodes[i]) || self.nodes[i].op == Op::Store) {
            for s in &self.nodes[i].src {
                if inside.contains(s) {
                    last.insert(s, i);
                } else if is_wide(s) && s.op != Op::Index {
                    outside.insert(s);
                }
            }
        }
        let (mut live, mut most) = (0, 0);
        for &i in steps {
            let n = self.nodes[i];
            let ends: FxHashSet<&UOp> = n.src.iter().filter(|s| last.get(*s) == Some(&i)).collect();
            live -= ends.into_iter().filter(|s| is_wide(s)).count().min(live);
            live += is_wide(n) as usize;
            most = most.max(live);
        }
        (outside.len(), most)
    }
}

/// Whether most steps of chains follow a step of another one, as where accumulators of a tile take turns.
fn take_turns_already(chains: &[Chain]) -> bool {
    let mut steps: Vec<(usize, usize)> =
        chains.iter().enumerate().flat_map(|(k, c)| c.own.iter().map(move |i| (*i, k))).collect();
    steps.sort_unstable();
    let turns = steps.windows(2).filter(|w| w[0].1 != w[1].1).count();
    turns * 2 > steps.len()
}

/// The steps that a value comes from.
fn reach<'a>(
    n: &'a UOp,
    place: &FxHashMap<&UOp, usize>,
    behind: &mut FxHashMap<&'a UOp, Steps>,
    out: &mut Steps,
) {
    if let Some(&i) = place.get(n) {
        out.push(i);
    } else if !is_step(n.op) {
        if !behind.contains_key(n) {
            let mut mine = Steps::new();
            for s in &n.src {
                reach(s, place, behind, &mut mine);
            }
            mine.sort_unstable();
            mine.dedup();
            behind.insert(n, mine);
        }
        out.extend_from_slice(&behind[n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_uop::Alu;

    /// A load, so many square roots and a store, at one place of two buffers.
    fn chain(from: &UOp, to: &UOp, at: i64, roots: usize) -> Vec<Step> {
        let load = from.at(&UOp::index(at)).load();
        let mut nodes = vec![load.clone()];
        for _ in 0..roots {
            nodes.push(nodes[nodes.len() - 1].un(Alu::Sqrt));
        }
        nodes.push(to.at(&UOp::index(at)).store(&nodes[roots]));
        nodes.into_iter().map(Step::Do).collect()
    }

    fn interleaved(steps: Vec<Step>, registers: usize) -> String {
        ops(&interleave(steps, &Target { registers, ..Target::interp() }))
    }
    fn ops(steps: &[Step]) -> String {
        let letter = |s: &Step| match s {
            Step::Do(n) if n.op == Op::Load => 'l',
            Step::Do(n) if n.op == Op::Store => 's',
            _ => '.',
        };
        steps.iter().map(letter).collect()
    }

    #[test]
    fn long_chains_take_turns_as_far_as_registers_go() {
        let [a, b] = [0, 1].map(|slot| UOp::param(slot, 4, DType::F32));
        let of = |roots| (0..4).flat_map(|at| chain(&a, &b, at, roots)).collect::<Vec<_>>();
        let by = |k: usize, roots: usize| {
            let group = format!("{}{}{}", "l".repeat(k), ".".repeat(k * roots), "s".repeat(k));
            group.repeat(4 / k)
        };
        assert_eq!(interleaved(of(20), 16), by(4, 20));
        assert_eq!(interleaved(of(20), 2), by(2, 20));
        assert_eq!(interleaved(of(20), 1), by(1, 20));
        assert_eq!(interleaved(of(3), 16), by(1, 3));
    }

    #[test]
    fn what_is_read_is_read_before_it_is_written() {
        let a = UOp::param(0, 4, DType::F32);
        let late = |at: i64, roots: usize| {
            // reads once more at its end
            let mut steps = chain(&a, &a, at, roots);
            let Some(Step::Do(store)) = steps.pop() else { panic!("no store") };
            let other = a.at(&UOp::index(2)).load();
            let sum = &store.src[1] + &other;
            steps.extend([other, sum.clone(), a.at(&UOp::index(at)).store(&sum)].map(Step::Do));
            steps
        };
        // the shorter chain is done first, and its store waits for the last load of the other one
        let order = interleaved([late(0, 21), chain(&a, &a, 1, 20)].concat(), 16);
        assert_eq!(order, format!("ll{}l.ss", ".".repeat(41)));
    }
}
