//! Steps: loops, barriers, and which values get a name.

use super::Writer;
use super::dialect::Entry;
use super::types::Val;
use crate::Error;
use crate::walk::{Walk, register};
use frit_uop::{Linear, Op, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Expressions longer than this get a name of their own.
const MAX_INLINE: usize = 90;

/// The values that are written where they are used instead of getting a name: used once, in the same block, and for a
/// load with no store in between that could change what it reads.
pub fn inlinable(linear: &Linear) -> FxHashSet<UOp> {
    let mut uses: FxHashMap<&UOp, (usize, usize)> = FxHashMap::default(); // count, step of the last use
    let mut block = vec![0; linear.steps.len()];
    let mut current = 0;
    for (at, step) in linear.steps.iter().enumerate() {
        let mut seen = vec![];
        match step {
            Step::Do(n) => seen.extend(n.src.iter()),
            Step::Open(r) => {
                seen.extend(r.src.iter());
                current += 1;
            }
            Step::Close(_) => current += 1,
            Step::Prefetch(at, _) => seen.push(at),
        }
        block[at] = current;
        while let Some(s) = seen.pop() {
            let u = uses.entry(s).or_default();
            *u = (u.0 + 1, at);
            match s.op {
                // these are not steps: what they use, their user uses
                Op::Index => seen.extend(s.src.iter()),
                Op::After => seen.push(&s.src[0]),
                _ => {}
            }
        }
    }
    // backwards: where a value ends up is where its user ends up
    let (mut end, mut out) = (FxHashMap::default(), FxHashSet::default());
    for (at, step) in linear.steps.iter().enumerate().rev() {
        let Step::Do(n) = step else { continue };
        let Some(&(1, user_at)) = uses.get(n) else { continue };
        let Step::Do(user) = &linear.steps[user_at] else { continue };
        let to = end.get(user).copied().unwrap_or(user_at);
        let between = |f: &dyn Fn(&UOp) -> bool| {
            linear.steps[at + 1..to].iter().any(|s| matches!(s, Step::Do(m) if m.op == Op::Store && f(m)))
        };
        let free = block[at] == block[to]
            && match n.op {
                Op::Load if n.src.len() > 1 => false,
                Op::Load => match register(n) {
                    Some(r) => !between(&|m| register(m) == Some(r)),
                    None => !between(&|m| register(m).is_none()),
                },
                o => o.is_elementwise() || matches!(o, Op::Lane),
            };
        if free {
            out.insert(n.clone());
            end.insert(n.clone(), to);
        }
    }
    out
}

impl Writer<'_> {
    pub fn open(&mut self, r: &UOp) -> Result<(), Error> {
        let Some(arg) = r.range_arg() else { return Err(self.malformed(format!("{r:?} opened as a loop"))) };
        let (t, i) = (self.prelude.ty(r.dtype, 1), format!("r{}", arg.id));
        let text = if self.linear.thread.as_ref() == Some(r) {
            format!("for ({t} {i} = ({t})begin; {i} < ({t})end; {i}++) {{")
        } else {
            let extent = self.operand(&r.src[0])?;
            format!("for ({t} {i} = 0; {i} < {}; {i}++) {{", extent.atom(0))
        };
        self.line(text);
        self.depth += 1;
        self.values.insert(r.clone(), Val::scalar(i, r.dtype));
        Ok(())
    }

    pub fn perform(&mut self, n: &UOp) -> Result<(), Error> {
        let is_typed = (self.dialect.element)(n.dtype).is_some();
        if !is_typed || (n.lanes() > 1 && !self.dialect.has_vectors) {
            return Err(self.unsupported(n));
        }
        match (n.op, &self.dialect.entry) {
            (Op::Store, _) => self.store(n),
            (Op::Load, _) => {
                let v = self.load(n)?;
                self.keep(n, v)
            }
            (Op::Stack | Op::Lane | Op::Shuffle, _) => {
                let v = self.shaped(n)?;
                self.keep(n, v)
            }
            (Op::Barrier, Entry::Grid(grid)) => {
                self.line(grid.barrier);
                Ok(())
            }
            (o, _) if o.is_elementwise() => {
                self.check_lanes(n, n.lanes())?;
                let v = self.elementwise(n)?;
                self.keep(n, v)
            }
            (Op::End | Op::Sink | Op::After, _) => Ok(()),
            _ => Err(self.unsupported(n)),
        }
    }
    /// Remember a value: as an expression if it is used once and short, else under a name.
    pub fn keep(&mut self, n: &UOp, v: Val) -> Result<(), Error> {
        if self.inline.contains(n) && v.parts.len() == 1 && v.parts[0].len() < MAX_INLINE {
            self.values.insert(n.clone(), v);
            return Ok(());
        }
        let t = self.prelude.ty(v.elem, v.per_part());
        let name = format!("v{}", self.names);
        self.names += 1;
        let names: Vec<String> = match v.parts.len() {
            1 => vec![name],
            k => (0..k).map(|i| format!("{name}_{i}")).collect(),
        };
        for (name, part) in names.iter().zip(&v.parts) {
            self.line(format!("{t} {name} = {part};"));
        }
        self.values.insert(n.clone(), Val { parts: names, atomic: true, ..v });
        Ok(())
    }
}
