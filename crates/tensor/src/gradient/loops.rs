//! The gradient of a loop: two loops again.
//!
//! ```text
//! Loop(body)  ->  forward:   the same loop, its carries kept at the start of every step
//!                 backward:  from the last step to the first, gradients of the carries as carries;
//!                            gradients of captured values added up, or stacked where step i reads row i
//! ```
//!
//! A named loop is a function with a rule of its own: [`super::named`].

use super::differentiate;
use crate::composite::add;
use crate::error::{Error, Result};
use crate::movement::{cut, pad_axis};
use crate::reduce::zeros_like;
use crate::shape::dim_sub;
use crate::tensor::Tensor;
use frit_uop::graph::toposort_outside;
use frit_uop::loops::Open;
use frit_uop::{Alu, Loop, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The gradients of a loop's inputs (those `wanted`) from those of its results.
pub(crate) fn gradients(l: &Loop, of: &[Option<UOp>], wanted: &[bool]) -> Result<Vec<Option<UOp>>> {
    if of.iter().all(|g| g.is_none()) {
        return Ok(vec![None; wanted.len()]);
    }
    match super::named::rule(&l.arg.name) {
        Some(rule) => by_rule(l, rule, of, wanted),
        None => Backward::new(l, of).gradients(wanted),
    }
}

/// The results of a function are stacked once; its rule does not know.
fn by_rule(
    l: &Loop,
    rule: super::named::Rule,
    of: &[Option<UOp>],
    wanted: &[bool],
) -> Result<Vec<Option<UOp>>> {
    let tensor = |n: &UOp| Tensor::of(Ok(n.clone()));
    let inputs: Vec<Tensor> = l.inputs().iter().map(tensor).collect();
    let alone = |n: &UOp, i: usize| tensor(&n.reshape(l.results()[i].shape()));
    let outs: Vec<Tensor> = (0..l.results().len()).map(|i| alone(&l.out(i), i)).collect();
    let of: Vec<Option<Tensor>> =
        of.iter().enumerate().map(|(i, g)| g.as_ref().map(|g| alone(g, i))).collect();
    let mut found = rule(&inputs, &outs, &of);
    found.resize(wanted.len(), None);
    found.into_iter().map(|g| g.map(|g| g.uop()).transpose()).collect()
}

/// How the gradient of a captured value is gathered over the steps.
enum Gather {
    /// As a sum, in a carry.
    Sum(UOp),
    /// Step i reads row `first + i` of it alone (or, backwards, row `last - i`): the rows are stacked.
    Rows { read: UOp, backwards: bool },
}

struct Backward<'a> {
    l: &'a Loop<'a>,
    of: &'a [Option<UOp>],
    /// The loop with the carries of every step among its results.
    forward: UOp,
    float_carries: Vec<usize>,
}

impl<'a> Backward<'a> {
    fn new(l: &'a Loop<'a>, of: &'a [Option<UOp>]) -> Backward<'a> {
        let starts = (0..l.carries()).map(|k| l.input(k));
        let forward = l.with_ys(l.results()[l.carries()..].iter().cloned().chain(starts));
        let float_carries = (0..l.carries()).filter(|&k| l.results()[k].dtype.is_float()).collect();
        Backward { l, of, forward, float_carries }
    }

    fn gradients(&self, wanted: &[bool]) -> Result<Vec<Option<UOp>>> {
        let l = self.l;
        let captured: Vec<usize> = (l.carries()..wanted.len()).filter(|&c| wanted[c]).collect();
        let gathers: Vec<Gather> = captured.iter().map(|&c| gather(l, c)).collect();
        // what the steps begin with: the gradients of the last carries, and no sum yet
        let last = |&k: &usize| self.of[k].clone().unwrap_or_else(|| zeros_like(&l.inputs()[k]));
        let mut inits: Vec<UOp> = self.float_carries.iter().map(last).collect();
        let sums = gathers.iter().filter_map(|g| match g {
            Gather::Sum(input) => Some(zeros_like(input)),
            Gather::Rows { .. } => None,
        });
        inits.extend(sums);
        let open = Open::new(l.count(), &inits, &[]);
        let step = reversed(l.count(), &open.step);
        let (mut next, mut rows) = self.step(&open, &step, &gathers)?;
        next.append(&mut rows);
        let node = open.close(&next, "").map_err(|m| Error::new("gradient", m))?;
        let back = Loop::of(&node).ok_or_else(|| Error::new("gradient", "a loop without a body"))?;

        let mut found: Vec<Option<UOp>> = vec![None; wanted.len()];
        for (at, &k) in self.float_carries.iter().enumerate() {
            found[k] = wanted[k].then(|| back.out(at));
        }
        let (mut sum, mut stacked) = (self.float_carries.len(), back.carries());
        for (&c, g) in captured.iter().zip(&gathers) {
            found[c] = Some(match g {
                Gather::Sum(_) => {
                    sum += 1;
                    back.out(sum - 1)
                }
                Gather::Rows { backwards, .. } => {
                    stacked += 1;
                    unstack(&back.out(stacked - 1), *backwards, &l.inputs()[c])
                }
            });
        }
        Ok(found)
    }

    /// One step back: the next gradients of carries and sums, and the rows.
    ///
    /// The body is opened: its inputs and the stacked gradients become nodes that no other graph has, so that what is
    /// put in their place at the end cannot meet an input of another loop of the same level.
    fn step(&self, open: &Open, step: &UOp, gathers: &[Gather]) -> Result<(Vec<UOp>, Vec<UOp>)> {
        let l = self.l;
        let forward =
            Loop::of(&self.forward).ok_or_else(|| Error::new("gradient", "a loop without a body"))?;
        let stacked: Vec<UOp> = self.of[l.carries()..].iter().flatten().cloned().collect();
        let body = Open::new(l.count(), l.inputs(), &stacked);
        let opened = body.inputs_for(l, step);
        let of_body = |n: &UOp| n.substitute(&opened);
        let (carry_grads, sums) = open.inputs.split_at(self.float_carries.len());
        // gradients of what this step made
        let carried = self.float_carries.iter().zip(carry_grads);
        let mut roots: Vec<(UOp, UOp)> =
            carried.map(|(&k, g)| (of_body(&l.results()[k]), g.clone())).collect();
        let ys = (l.carries()..l.results().len()).filter(|&k| self.of[k].is_some());
        let stacks = &body.inputs[l.inputs().len()..];
        roots.extend(ys.zip(stacks).map(|(k, g)| (of_body(&l.results()[k]), row(g, step))));
        let mut targets: Vec<UOp> = self.float_carries.iter().map(|&k| body.inputs[k].clone()).collect();
        targets.extend(gathers.iter().map(|g| match g {
            Gather::Sum(input) => of_body(input),
            Gather::Rows { read, .. } => of_body(read),
        }));
        let found = differentiate(&roots, &targets)?;
        // the values as they were in that step
        let kept = |slot: usize| row(&forward.out(l.results().len() + slot), step);
        let inputs = l.inputs().iter().enumerate();
        let then = inputs.map(|(slot, v)| if slot < l.carries() { kept(slot) } else { v.clone() });
        let then: FxHashMap<UOp, UOp> = body.inputs.iter().cloned().zip(then.chain(stacked)).collect();
        let (mut next, mut rows, mut sums) = (vec![], vec![], sums.iter());
        for (at, (target, g)) in targets.iter().zip(found).enumerate() {
            let g = g.map(|g| g.substitute(&then));
            match at.checked_sub(self.float_carries.len()).map(|c| &gathers[c]) {
                Some(Gather::Sum(_)) => {
                    let sum = sums.next().cloned().unwrap_or_else(|| zeros_like(target));
                    next.push(g.map_or(sum.clone(), |g| add(&sum, &g)));
                }
                Some(Gather::Rows { .. }) => rows.push(g.unwrap_or_else(|| zeros_like(target))),
                None => next.push(g.unwrap_or_else(|| zeros_like(target))),
            }
        }
        Ok((next, rows))
    }
}

/// `count - 1 - step`, never below 0 whatever the bounds of a symbolic count say.
fn reversed(count: &UOp, step: &UOp) -> UOp {
    let back = dim_sub(&dim_sub(count, &UOp::index(1)), step);
    if back.bounds.0 < 0 { back.bin(Alu::Max, &UOp::index(0)) } else { back }
}

/// One of stacked values.
fn row(stacked: &UOp, at: &UOp) -> UOp {
    cut(stacked, 0, at, &UOp::index(1)).reshape(&stacked.shape()[1..])
}

/// How to gather the gradient of the capture `c`.
fn gather(l: &Loop, c: usize) -> Gather {
    let input = l.input(c);
    let order = toposort_outside(l.results());
    let is_result = l.results().contains(&input);
    let users: Vec<&UOp> = order.iter().filter(|n| n.src.contains(&input)).collect();
    if let ([read], false) = (&users[..], is_result)
        && let Some(backwards) = reads_row(l, read, &input)
    {
        return Gather::Rows { read: (*read).clone(), backwards };
    }
    Gather::Sum(input)
}

/// Whether a node is row `step` (`false`) or row `count - 1 - step` (`true`) of the input.
fn reads_row(l: &Loop, read: &UOp, input: &UOp) -> Option<bool> {
    let rank = input.shape().len();
    if read.op != Op::Shrink || rank == 0 || read.src.len() != 1 + 2 * rank {
        return None;
    }
    let (begin, size) = read.cut();
    let whole = (1..rank).all(|d| begin[d].as_int() == Some(0) && size[d] == input.shape()[d]);
    let step = l.variable();
    let backwards = begin[0] == reversed(l.count(), &step);
    (whole && size[0].as_int() == Some(1) && (backwards || begin[0] == step)).then_some(backwards)
}

/// Rows that a backward loop made, `(count, 1, rest…)`, in their places in something like `x`.
fn unstack(rows: &UOp, backwards: bool, x: &UOp) -> UOp {
    let mut dims: SmallVec<[UOp; 4]> = SmallVec::from_iter([rows.shape()[0].clone()]);
    dims.extend(x.shape()[1..].iter().cloned());
    let rows = rows.reshape(&dims);
    // the backward loop's step i is the forward loop's step count - 1 - i
    let rows = if backwards { rows } else { rows.flip(&[0]) };
    let more = dim_sub(&x.shape()[0], &dims[0]);
    pad_axis(&rows, 0, &UOp::index(0), &more)
}
