//! Loops: a function body as a node.
//!
//! ```text
//! Loop(count, inits…, captures…, Sink(next carries…, ys…))     the body over LoopIn{level, slot} and the Variable @level
//! LoopOut(loop) {i}                                            the last carries, then the stacked ys
//! ```
//!
//! A body stands on its own: whatever it needs from outside is a capture, except variables (an outer loop's iteration
//! too), which any node may name. Inputs are numbered by the loop's level, one more than the highest loop inside, so a
//! `LoopIn` in a body belongs to exactly one loop around it and equal loops are one node.
//!
//! [`Open`] is a loop in the making: inputs that no other graph has, to build a body with; [`Open::close`] finds what the
//! body needs from outside, lifts it out, and gives everything its final number.

use crate::arg::{Arg, LoopArg};
use crate::graph::{toposort, toposort_outside};
use crate::node::{Shape, UOp};
use crate::op::{Op, OpSet};
use frit_abi::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A `Loop` node, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// The node.
    pub node: &'a UOp,
    /// What it is.
    pub arg: &'a LoopArg,
}

impl<'a> Loop<'a> {
    /// The parts of a node, if it is a well-formed loop.
    pub fn of(node: &'a UOp) -> Option<Loop<'a>> {
        let Arg::Loop(arg) = &node.arg else { return None };
        let body = node.src.last()?;
        let (carries, inputs) = (arg.carries as usize, node.src.len().checked_sub(2)?);
        let fits = node.op == Op::Loop && body.op == Op::Sink;
        (fits && carries <= inputs && carries <= body.src.len()).then_some(Loop { node, arg })
    }
    /// How many steps.
    pub fn count(&self) -> &'a UOp {
        &self.node.src[0]
    }
    /// How many values go from one step to the next.
    pub fn carries(&self) -> usize {
        self.arg.carries as usize
    }
    /// The carries of the first step, then the captures: what `LoopIn`s stand for.
    pub fn inputs(&self) -> &'a [UOp] {
        &self.node.src[1..self.node.src.len() - 1]
    }
    /// The body.
    pub fn body(&self) -> &'a UOp {
        &self.node.src[self.node.src.len() - 1]
    }
    /// What a step makes: carries, then ys.
    pub fn results(&self) -> &'a [UOp] {
        &self.body().src
    }
    /// The number of the step.
    pub fn variable(&self) -> UOp {
        variable(&format!("@{}", self.arg.level), self.count())
    }
    /// The input of the body with this number.
    pub fn input(&self, slot: usize) -> UOp {
        input(self.arg.level, slot, &self.inputs()[slot])
    }
    /// A result: a last carry or stacked ys.
    pub fn out(&self, i: usize) -> UOp {
        UOp::new(Op::LoopOut, self.results()[i].dtype, [self.node.clone()], Arg::Lane(i as u32))
    }
    /// The shape of a result.
    pub fn out_shape(&self, i: usize) -> Option<Shape> {
        let result = self.results().get(i)?;
        if i < self.carries() {
            return self.inputs()[i].try_shape().cloned();
        }
        Some(std::iter::once(self.count()).chain(result.try_shape()?).cloned().collect())
    }
    /// The same loop with the movement of captured values done in its body, where it costs nothing.
    pub fn with_movement_inside(&self) -> UOp {
        let (carries, level) = (self.carries(), self.arg.level);
        let (inits, captures) = self.inputs().split_at(carries);
        let mut bases: Vec<UOp> = vec![];
        let mut moved = FxHashMap::default();
        for (i, capture) in captures.iter().enumerate() {
            let mut base = capture;
            while base.op.is_movement() || base.op == Op::Detach {
                base = base.input();
            }
            let at = bases.iter().position(|b| b == base).unwrap_or_else(|| {
                bases.push(base.clone());
                bases.len() - 1
            });
            let inside = FxHashMap::from_iter([(base.clone(), input(level, carries + at, base))]);
            moved.insert(self.input(carries + i), capture.substitute(&inside));
        }
        let body = self.body().substitute(&moved);
        let src = std::iter::once(self.count()).chain(inits).chain(&bases).chain([&body]);
        self.node.with_src(src.cloned().collect())
    }
    /// The same loop with other results after its carries.
    pub fn with_ys(&self, ys: impl IntoIterator<Item = UOp>) -> UOp {
        let results = self.results()[..self.carries()].iter().cloned().chain(ys);
        let mut src = self.node.src.clone();
        if let Some(body) = src.last_mut() {
            *body = UOp::sink(results);
        }
        self.node.with_src(src)
    }
}

fn variable(name: &str, count: &UOp) -> UOp {
    let last = count.bounds.1.clamp(1, i64::MAX as i128) as i64 - 1;
    UOp::variable(name, 0, last)
}
fn input(level: u32, slot: usize, like: &UOp) -> UOp {
    UOp::new(Op::LoopIn, like.dtype, like.shape().iter().cloned(), Arg::LoopIn { level, slot: slot as u32 })
}

/// The level of inputs that have none yet.
const OPEN: u32 = u32::MAX;

/// A loop in the making.
pub struct Open {
    count: UOp,
    values: Vec<UOp>,
    carries: usize,
    /// The number of the step, in the body.
    pub step: UOp,
    /// In the body: the carries, then the values given.
    pub inputs: Vec<UOp>,
}

impl Open {
    /// A loop of `count` steps that starts with `inits`; `given` are captures with a number of their own, whether the
    /// body uses them or not.
    pub fn new(count: &UOp, inits: &[UOp], given: &[UOp]) -> Open {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let values = [inits, given].concat();
        let first = NEXT.fetch_add(values.len() as u32 + 1, Ordering::Relaxed);
        let slot = |i: usize| first.wrapping_add(i as u32) as usize;
        let inputs = values.iter().enumerate().map(|(i, v)| input(OPEN, slot(i), v)).collect();
        let step = variable(&format!("@new{}", slot(values.len())), count);
        Open { count: count.clone(), values, carries: inits.len(), step, inputs }
    }

    /// The loop whose steps make `results`: the next carries, of the shapes and types of the first ones, then ys. What
    /// the steps share is computed before them.
    pub fn close(self, results: &[UOp], name: &str) -> Result<UOp, String> {
        let inside = self.inside(results);
        let level = |n: &UOp| match &n.arg {
            Arg::Loop(l) if inside.contains(n) => l.level + 1,
            _ => 0,
        };
        let level = inside.iter().map(level).max().unwrap_or(0);
        let mut bound = FxHashMap::default();
        bound.insert(self.step.clone(), variable(&format!("@{level}"), &self.count));
        for (slot, (new, value)) in self.inputs.iter().zip(&self.values).enumerate() {
            bound.insert(new.clone(), input(level, slot, value));
        }
        let mut captures = self.values;
        for edge in edges(results, &inside)? {
            lift(&edge, level, &mut captures, &mut bound);
        }
        let body = UOp::sink(results.iter().map(|r| r.substitute(&bound)));
        let mut src: SmallVec<[UOp; 4]> = SmallVec::from_iter([self.count]);
        src.extend(captures);
        src.push(body);
        let arg = LoopArg { carries: self.carries as u32, level, name: Arc::from(name) };
        Ok(UOp::new(Op::Loop, DType::Void, src, Arg::Loop(arg)))
    }

    /// What to put for the inputs and the step of another loop, to have its body here.
    pub fn inputs_for(&self, l: &Loop, step: &UOp) -> FxHashMap<UOp, UOp> {
        let mut then = FxHashMap::from_iter([(l.variable(), step.clone())]);
        then.extend((0..l.inputs().len()).map(|slot| (l.input(slot), self.inputs[slot].clone())));
        then
    }

    /// The nodes that are another value in every step.
    fn inside(&self, results: &[UOp]) -> FxHashSet<UOp> {
        let mut inside: FxHashSet<UOp> = self.inputs.iter().cloned().collect();
        inside.insert(self.step.clone());
        for n in toposort(results) {
            if n.src.iter().any(|s| inside.contains(s)) {
                inside.insert(n);
            }
        }
        inside
    }
}

/// The outermost nodes that are the same in every step, in the order they are met.
fn edges(results: &[UOp], inside: &FxHashSet<UOp>) -> Result<Vec<UOp>, String> {
    let (mut found, mut seen) = (vec![], FxHashSet::default());
    let mut meet = |n: &UOp| {
        if !inside.contains(n) && seen.insert(n.clone()) {
            found.push(n.clone());
        }
    };
    for n in toposort_outside(results).iter().filter(|n| inside.contains(*n)) {
        match n.op {
            Op::Store | Op::After => {
                return Err(
                    "a step of a loop, or a function, cannot assign: carry the value, or give it back".into(),
                );
            }
            Op::Copy => {
                return Err(
                    "a step of a loop, or a function, runs on one device: copy before or after it".into()
                );
            }
            _ => n.inputs().iter().for_each(&mut meet),
        }
    }
    results.iter().for_each(meet);
    Ok(found)
}

/// What is worth computing once; other nodes cost less than reading them.
const COSTLY: OpSet = OpSet::of(&[
    Op::Buffer,
    Op::Param,
    Op::LoopIn,
    Op::LoopOut,
    Op::After,
    Op::Copy,
    Op::ReduceAxis,
    Op::ScanAxis,
    Op::Gather,
    Op::Scatter,
    Op::Contiguous,
]);

/// Let a value come in from outside, if it is worth it.
fn lift(edge: &UOp, level: u32, captures: &mut Vec<UOp>, bound: &mut FxHashMap<UOp, UOp>) {
    if edge.dtype != DType::Index && edge.any(|n| COSTLY.has(n.op)) {
        bound.insert(edge.clone(), input(level, captures.len(), edge));
        captures.push(edge.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    fn vector(slot: u32) -> UOp {
        UOp::param(slot, 3, DType::F32)
    }
    fn sum_with(y: &UOp) -> UOp {
        let open = Open::new(&UOp::index(4), &[vector(0)], &[]);
        let next = &open.inputs[0] + y;
        open.close(&[next.clone(), next], "").unwrap()
    }

    #[test]
    fn equal_loops_are_one_node() {
        let l = sum_with(&vector(1));
        assert_eq!(l, sum_with(&vector(1)));
        let l = Loop::of(&l).unwrap();
        assert_eq!((l.inputs(), l.carries()), (&[vector(0), vector(1)][..], 1));
        assert_eq!(l.out(1).shape(), [UOp::index(4), UOp::index(3)]);
    }
    #[test]
    fn a_loop_in_a_loop_has_a_lower_level_and_captures_its_inputs() {
        let outer = Open::new(&UOp::index(2), &[vector(0)], &[]);
        let inner = sum_with(&outer.inputs[0]);
        let next = Loop::of(&inner).unwrap().out(0) + outer.step.cast(DType::F32);
        let l = outer.close(&[next], "").unwrap();
        let parts = Loop::of(&l).unwrap();
        // the first carry, and the one the inner loop starts with
        assert_eq!((parts.arg.level, parts.inputs().len()), (1, 2));
        assert!(!l.any(|n| matches!(n.arg, Arg::LoopIn { level: OPEN, .. })));
        assert_eq!(text::parse(&text::print(&l)), Ok(l));
    }
    #[test]
    fn what_every_step_shares_is_lifted_out_and_its_movement_done_inside() {
        let dims = [UOp::index(4), UOp::index(3)];
        let wide = vector(1).exp_of_two().reshape(&[UOp::index(1), UOp::index(3)]).expand(&dims);
        let open = Open::new(&UOp::index(4), std::slice::from_ref(&wide), &[]);
        let next = &open.inputs[0] + &wide;
        let l = open.close(&[next], "").unwrap();
        assert_eq!(Loop::of(&l).unwrap().inputs(), [wide.clone(), wide.clone()]);
        let l = Loop::of(&l).unwrap().with_movement_inside();
        assert_eq!(Loop::of(&l).unwrap().inputs(), [wide, vector(1).exp_of_two()]);
    }
    impl UOp {
        fn exp_of_two(&self) -> UOp {
            self.un(frit_abi::Alu::Exp2)
        }
    }
}
