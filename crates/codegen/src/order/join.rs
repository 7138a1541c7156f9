//! The programs of a block become one, which runs them one after the other for each block.
//!
//! ```text
//! store local0 …;     store out … local0 …        of block block#
//!     ->   for t { store tmp0 …;  store out … tmp0 … }
//! ```

use crate::error::Error;
use crate::pass::{BLOCK, Blocks};
use frit_uop::{Arg, AxisKind, DType, Linear, Op, RangeArg, Space, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The pass. Blocks are for threads; parameters from `first_local` on are local memory of each.
pub fn join(parts: Vec<Linear>, blocks: &Blocks) -> Result<Linear, Error> {
    let name = if let Arg::Name(n) = &blocks.name { n.clone() } else { "kernel".into() };
    let mut whole =
        Linear { flops: blocks.flops.clone(), bytes: blocks.bytes.clone(), ..Linear::empty(&name) };
    let width = if blocks.count <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
    let arg = Arg::Range(RangeArg { id: 0, kind: AxisKind::Thread });
    let thread = UOp::new(Op::Range, width, [UOp::int(blocks.count, width)], arg);
    let mut names =
        Names { thread: thread.clone(), blocks, next_range: 1, next_define: 0, locals: FxHashMap::default() };
    let mut scope = Scope::default();
    whole.steps.push(Step::Open(thread.clone()));
    for part in parts {
        let mut renamed = names.rename(&part);
        for step in &part.steps {
            scope.push(&mut whole.steps, renamed.step(step));
        }
        whole.defines.extend(part.defines.iter().map(|d| renamed.node(d)));
        for v in part.vars.iter().filter(|v| !is_block(v)) {
            if !whole.vars.contains(v) {
                whole.vars.push(v.clone());
            }
        }
        whole.written.resize(part.written.len(), false);
        whole.written.iter_mut().zip(&part.written).for_each(|(w, p)| *w |= p);
        whole.params = part.params;
    }
    whole.steps.push(Step::Close(thread.clone()));
    whole.thread = Some(thread);
    whole.params.truncate(blocks.first_local as usize);
    whole.written.truncate(blocks.first_local as usize);
    let mut locals: Vec<UOp> = names.locals.into_values().collect();
    whole.defines.append(&mut locals);
    whole.defines.sort_by_key(|d| if let Arg::Define { id, .. } = d.arg { id } else { 0 });
    whole.vars.sort_by_key(|v| if let Arg::Var { name, .. } = &v.arg { name.clone() } else { "".into() });
    Ok(whole)
}

fn is_block(n: &UOp) -> bool {
    matches!(&n.arg, Arg::Var { name, .. } if &**name == BLOCK)
}

/// What nodes of all parts are called in the whole.
struct Names<'a> {
    thread: UOp,
    blocks: &'a Blocks,
    next_range: u32,
    next_define: u32,
    /// By parameter.
    locals: FxHashMap<u32, UOp>,
}

impl<'a> Names<'a> {
    fn fresh_define(&mut self) -> u32 {
        self.next_define += 1;
        self.next_define - 1
    }

    /// For the next part: ranges inside those of the thread, and none twice.
    fn rename<'n>(&'n mut self, part: &Linear) -> Part<'a, 'n> {
        let mut done = FxHashMap::default();
        for d in &part.defines {
            if let Arg::Define { space, len, .. } = d.arg {
                let arg = Arg::Define { space, id: self.fresh_define(), len };
                done.insert(d.clone(), UOp::new(Op::Define, d.dtype, d.src.clone(), arg));
            }
        }
        let first_range = self.next_range;
        let opened =
            part.steps.iter().filter_map(|s| if let Step::Open(r) = s { r.range_arg() } else { None });
        self.next_range += opened.map(|a| a.id + 1).max().unwrap_or(0);
        Part { names: self, first_range, done }
    }
}

/// Nodes of one part and what they are in the whole.
struct Part<'a, 'n> {
    names: &'n mut Names<'a>,
    first_range: u32,
    done: FxHashMap<UOp, UOp>,
}

impl Part<'_, '_> {
    fn step(&mut self, step: &Step) -> Step {
        match step {
            Step::Do(n) => Step::Do(self.node(n)),
            Step::Open(n) => Step::Open(self.node(n)),
            Step::Close(n) => Step::Close(self.node(n)),
            Step::Prefetch(n, bytes) => Step::Prefetch(self.node(n), *bytes),
        }
    }

    fn node(&mut self, root: &UOp) -> UOp {
        let mut stack = vec![(root.clone(), false)];
        while let Some((n, ready)) = stack.pop() {
            if self.done.contains_key(&n) {
                continue;
            }
            if ready {
                let new = self.renamed(&n);
                self.done.insert(n, new);
            } else {
                stack.push((n.clone(), true));
                stack.extend(n.src.iter().map(|s| (s.clone(), false)));
            }
        }
        self.done[root].clone()
    }

    fn renamed(&mut self, n: &UOp) -> UOp {
        let src = n.src.iter().map(|s| self.done[s].clone());
        match &n.arg {
            Arg::Range(a) => {
                let arg = RangeArg { id: self.first_range + a.id, kind: a.kind };
                UOp::new(Op::Range, n.dtype, src, Arg::Range(arg))
            }
            Arg::Var { .. } if is_block(n) => self.names.thread.clone(),
            Arg::Param { slot, len } if *slot >= self.names.blocks.first_local => {
                if let Some(local) = self.names.locals.get(slot) {
                    return local.clone();
                }
                let local = UOp::define(Space::Local, self.names.fresh_define(), *len, n.dtype);
                self.names.locals.insert(*slot, local.clone());
                local
            }
            _ => n.with_src(src.collect()),
        }
    }
}

/// What was computed in loops that are still open: parts that need the same value share it.
#[derive(Default)]
struct Scope {
    known: FxHashSet<UOp>,
    open: Vec<Vec<UOp>>,
}

impl Scope {
    fn push(&mut self, steps: &mut Vec<Step>, step: Step) {
        match &step {
            Step::Open(_) => self.open.push(vec![]),
            Step::Close(_) => {
                self.open.pop().unwrap_or_default().iter().for_each(|n| _ = self.known.remove(n))
            }
            Step::Do(n) if !matches!(n.op, Op::Store | Op::Barrier) => {
                if !self.known.insert(n.clone()) {
                    return;
                }
                self.open.iter_mut().last().into_iter().for_each(|l| l.push(n.clone()));
            }
            _ => {}
        }
        steps.push(step);
    }
}
