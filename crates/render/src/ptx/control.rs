//! Steps: loops, barriers, and how long values live.

use super::types::{Class, Operand, Operands, Val};
use super::{Writer, types};
use crate::Error;
use crate::walk::{Walk, memory, register};
use frit_abi::DType;
use frit_uop::{Arg, Linear, Op, Step, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Which steps are wanted, and which loads of register variables need no copy.
pub struct Lives {
    /// Values that something uses: not those that are only the constant part of an address.
    wanted: FxHashSet<UOp>,
    /// Loads of register variables that are not stored to while the value is used.
    unchanged: FxHashSet<UOp>,
    /// Values that are computed straight into the register variable they are stored to.
    updates: FxHashMap<UOp, UOp>,
}

/// How a value is used.
#[derive(Clone, Copy, Default)]
struct Use {
    count: u32,
    /// The last step that needs its registers.
    end: usize,
}

/// An open loop.
pub struct Scope {
    range: UOp,
    label: u32,
    counter: Operand,
    extent: Operand,
    /// Whether its end has a label, for a loop that has no iterations.
    may_be_empty: bool,
    /// What is only known inside.
    values: Vec<UOp>,
    places: Vec<(UOp, UOp)>,
    halves: Vec<Operand>,
    rounded: Vec<UOp>,
}

/// An index without its constant, and the constant.
pub fn parts(idx: &UOp) -> (Option<&UOp>, i64) {
    match (idx.op, idx.as_int()) {
        (Op::Const, Some(c)) => (None, c),
        (Op::Add, _) => match idx.src[1].as_int() {
            Some(c) if i32::try_from(c.saturating_mul(8)).is_ok() => (Some(&idx.src[0]), c),
            _ => (Some(idx), 0),
        },
        _ => (Some(idx), 0),
    }
}

/// Whether the value of an op is registers of its operands.
fn is_alias(op: Op) -> bool {
    matches!(op, Op::Bitcast | Op::Cast | Op::Stack | Op::Lane | Op::Shuffle)
}

impl Lives {
    pub fn of(linear: &Linear) -> Lives {
        let mut uses: FxHashMap<UOp, Use> = FxHashMap::default();
        // backwards: what uses a value is seen before it
        for (at, step) in linear.steps.iter().enumerate().rev() {
            let (sources, end): (&[UOp], usize) = match step {
                Step::Open(r) => (&r.src, at),
                Step::Do(n) => {
                    let is_effect =
                        matches!(n.op, Op::Store | Op::Barrier | Op::CopyAsync | Op::Commit | Op::Wait)
                            || matches!(n.arg, Arg::Site(_));
                    let used = uses.get(n).copied();
                    if !is_effect && used.is_none() {
                        continue;
                    }
                    (&n.src, used.filter(|_| is_alias(n.op)).map_or(at, |u| u.end))
                }
                Step::Close(_) | Step::Prefetch(..) => continue,
            };
            let mut stack: SmallVec<[&UOp; 8]> = sources.iter().collect();
            while let Some(s) = stack.pop() {
                let s = s.behind_after();
                match s.op {
                    Op::Index => stack.extend(s.src.get(1).and_then(|idx| parts(idx).0)),
                    _ => {
                        let u = uses.entry(s.clone()).or_default();
                        *u = Use { count: u.count + 1, end: u.end.max(end) };
                    }
                }
            }
        }
        let mut lives = Lives {
            wanted: FxHashSet::default(),
            unchanged: FxHashSet::default(),
            updates: FxHashMap::default(),
        };
        lives.follow_variables(linear, &uses);
        lives.wanted = uses.into_keys().collect();
        lives
    }

    /// Find the loads of register variables whose last use is in the same block, with no store to the variable before it;
    /// and what is stored once everything that used the variable is done.
    fn follow_variables(&mut self, linear: &Linear, uses: &FxHashMap<UOp, Use>) {
        // since the last loop began or ended: loads by variable and the ends of their uses, and what was computed when
        let mut open: FxHashMap<&UOp, Vec<(&UOp, usize)>> = FxHashMap::default();
        let mut made: FxHashMap<&UOp, usize> = FxHashMap::default();
        let mut stored: FxHashMap<&UOp, usize> = FxHashMap::default();
        for (at, step) in linear.steps.iter().enumerate() {
            let Step::Do(n) = step else {
                let loads = open.drain().flat_map(|(_, loads)| loads);
                self.unchanged.extend(loads.filter(|(_, end)| *end <= at).map(|(n, _)| n.clone()));
                made.clear();
                continue;
            };
            let variable = if matches!(n.op, Op::Load | Op::Store) { register(n) } else { None };
            match (n.op, variable) {
                (Op::Load, Some(v)) => open.entry(v).or_default().extend(uses.get(n).map(|u| (n, u.end))),
                (Op::Store, Some(v)) => {
                    let loads = open.remove(v).unwrap_or_default();
                    let value = n.src[1].behind_after();
                    let is_once = uses.get(value).is_some_and(|u| u.count == 1) && n.src.len() == 2;
                    if let Some(&then) = made.get(value).filter(|_| is_once && is_one_instruction(value))
                        && loads.iter().all(|(_, end)| *end <= then)
                        && stored.get(v).is_none_or(|&before| before < then)
                    {
                        self.updates.insert(value.clone(), v.clone());
                    }
                    stored.insert(v, at);
                    self.unchanged
                        .extend(loads.into_iter().filter(|(_, end)| *end <= at).map(|(n, _)| n.clone()));
                }
                (Op::Store, None) => {}
                _ => _ = made.insert(n, at),
            }
        }
        self.unchanged.extend(open.into_values().flatten().map(|(n, _)| n.clone()));
    }
}

/// Whether a value comes from one instruction, which reads its operands before it writes.
fn is_one_instruction(n: &UOp) -> bool {
    let d = n.dtype;
    let is_simple = match n.op {
        Op::Add | Op::Sub | Op::Mul | Op::MulAcc => d.is_float() || d.size() >= 4,
        Op::Max | Op::Min => d != DType::F64 && (d.is_float() || d.size() >= 4),
        Op::Matrix | Op::LoadMatrix => return true,
        _ => false,
    };
    is_simple && n.lanes() == 1 && d != DType::Bool
}

impl Writer<'_> {
    pub fn perform(&mut self, n: &UOp) -> Result<(), Error> {
        match n.op {
            Op::Store => self.store(n),
            Op::Barrier => {
                self.emit("bar.sync", &[Operand::Int(0)]);
                Ok(())
            }
            Op::CopyAsync => self.copy_async(n),
            Op::Commit => {
                self.emit("cp.async.commit_group", &[]);
                Ok(())
            }
            Op::Wait => {
                let Arg::Lanes(left) = n.arg else { return Err(self.unsupported(n)) };
                self.emit("cp.async.wait_group", &[Operand::Int(left.into())]);
                Ok(())
            }
            Op::End | Op::Sink | Op::After => Ok(()),
            _ if !self.lives.wanted.contains(n) && !matches!(n.arg, Arg::Site(_)) => Ok(()),
            Op::LoadMatrix => {
                let v = self.load_matrix(n)?;
                self.remember(n, v);
                Ok(())
            }
            Op::Load => {
                let v = match register(n) {
                    Some(variable) => self.load_register(n, variable)?,
                    None => self.load(n)?,
                };
                self.remember(n, v);
                Ok(())
            }
            _ => self.compute(n).map(drop),
        }
    }

    /// The register variable that a value is computed into, if it is.
    pub fn updated(&self, n: &UOp) -> Option<&[Operand]> {
        match self.values.get(self.lives.updates.get(n)?) {
            Some(Val::Lanes(regs) | Val::Pairs(regs) | Val::Quads(regs)) => Some(regs),
            None => None,
        }
    }

    /// A register variable as it is now.
    fn load_register(&mut self, n: &UOp, variable: &UOp) -> Result<Val, Error> {
        let v = self.values.get(variable).cloned();
        let v = v.ok_or_else(|| self.malformed(format!("{variable:?} is not declared")))?;
        if self.lives.unchanged.contains(n) {
            return Ok(v);
        }
        let mut copied = |regs: Operands, class: Class| {
            regs.into_iter().map(|r| self.make(class, mov(class), &[r])).collect::<Operands>()
        };
        Ok(match v {
            Val::Lanes(regs) => Val::Lanes(copied(regs, Class::of(n.dtype))),
            Val::Pairs(regs) => Val::Pairs(copied(regs, Class::Word)),
            Val::Quads(regs) => Val::Quads(copied(regs, Class::Word)),
        })
    }

    pub fn store_register(&mut self, n: &UOp, variable: &UOp) -> Result<(), Error> {
        let Some(variable) = self.values.get(variable).cloned() else {
            return Err(self.malformed(format!("{variable:?} is not declared")));
        };
        let (value, d) = (self.value(&n.src[1])?, n.src[1].dtype);
        let gate = n.gate().map(|g| self.truth(g)).transpose()?;
        let lanes = variable.lanes();
        let mut each = || (0..lanes).map(|k| self.lane(&value, k, d).as_bits()).collect::<Operands>();
        let (to, from, class) = match (variable, &value) {
            (Val::Lanes(to), _) => (to, each(), Class::of(d)),
            (Val::Pairs(to), _) => (to, self.pairs(&value, lanes, d), Class::Word),
            (Val::Quads(to), Val::Quads(words)) => (to, words.clone(), Class::Word),
            (Val::Quads(to), _) => (to, each().chunks(4).map(|c| self.joined(c, d)).collect(), Class::Word),
        };
        for (&r, from) in to.iter().zip::<Operands>(from).filter(|(r, from)| *r != from) {
            self.emit_if(gate, mov(class), &[r, from]);
        }
        Ok(())
    }

    /// Keep a value for as long as its loop runs.
    pub fn remember(&mut self, n: &UOp, v: Val) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.push(n.clone());
        }
        self.values.insert(n.clone(), v);
    }
    pub fn remember_place(&mut self, key: (UOp, UOp), o: Operand) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.places.push(key.clone());
        }
        self.places.insert(key, o);
    }
    pub fn remember_halves(&mut self, of: Operand, halves: [Operand; 2]) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.halves.push(of);
        }
        self.halves.insert(of, halves);
    }
    pub fn remember_rounded(&mut self, n: &UOp, regs: &Operands) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.rounded.push(n.clone());
        }
        self.rounded.insert(n.clone(), regs.clone());
    }

    /// Begin a loop: it is left at once where it may have no iterations, and tested at its end.
    pub fn open(&mut self, r: &UOp) -> Result<(), Error> {
        if r.range_arg().is_none() || self.linear.thread.as_ref() == Some(r) {
            return Err(self.malformed(format!("{r:?} opened as a loop")));
        }
        let given = r.src.first().ok_or_else(|| self.malformed(format!("{r:?} has no extent")))?;
        let extent = self.value(given)?;
        let extent = self.lane(&extent, 0, given.dtype);
        let (class, label) = (Class::of(r.dtype), self.labels);
        self.labels += 1;
        let may_be_empty = given.bounds.0 < 1;
        if may_be_empty {
            let p = self.fresh(Class::Pred);
            let form = if Class::of(given.dtype) == Class::Long { "setp.lt.s64" } else { "setp.lt.s32" };
            self.emit(form, &[p, extent, Operand::Int(1)]);
            self.body.push_str(&format!("  @{p} bra $E{label};\n"));
        }
        // a counter of 32 bits may have 2^31 iterations, so it is compared without a sign
        let extent = match (extent, Class::of(given.dtype) == class) {
            (Operand::Reg(..), false) if class == Class::Word => self.make(class, "cvt.u32.u64", &[extent]),
            (Operand::Reg(..), false) => self.make(class, "cvt.s64.s32", &[extent]),
            _ => extent,
        };
        let counter = self.make(class, mov(class), &[Operand::Int(0)]);
        self.body.push_str(&format!("$L{label}:\n"));
        let scope = Scope {
            range: r.clone(),
            label,
            counter,
            extent,
            may_be_empty,
            values: vec![],
            places: vec![],
            halves: vec![],
            rounded: vec![],
        };
        self.scopes.push(scope);
        self.remember(r, Val::scalar(counter));
        Ok(())
    }

    pub fn close(&mut self, r: &UOp) -> Result<(), Error> {
        let scope = match self.scopes.pop() {
            Some(scope) if scope.range == *r => scope,
            _ => return Err(self.malformed(format!("{r:?} is closed but not the innermost loop"))),
        };
        let Scope { label, counter, extent, may_be_empty, values, places, halves, rounded, .. } = scope;
        self.emit(
            if r.dtype == DType::I32 { "add.s32" } else { "add.s64" },
            &[counter, counter, Operand::Int(1)],
        );
        let p = self.fresh(Class::Pred);
        let form = if types::signed(r.dtype) == "s64" { "setp.lt.u64" } else { "setp.lt.u32" };
        self.emit(form, &[p, counter, extent]);
        self.body.push_str(&format!("  @{p} bra $L{label};\n"));
        if may_be_empty {
            self.body.push_str(&format!("$E{label}:\n"));
        }
        values.iter().for_each(|v| _ = self.values.remove(v));
        places.iter().for_each(|k| _ = self.places.remove(k));
        halves.iter().for_each(|o| _ = self.halves.remove(o));
        rounded.iter().for_each(|v| _ = self.rounded.remove(v));
        Ok(())
    }

    /// The memory of an address, which must be a parameter or local.
    pub fn memory_of(&self, address: &UOp) -> Result<UOp, Error> {
        let m = memory(address);
        let is_known = match m.arg {
            Arg::Param { slot, .. } => self.linear.params.get(slot as usize) == Some(m),
            _ => self.local.contains_key(m),
        };
        match is_known {
            true => Ok(m.clone()),
            false => Err(self.malformed(format!("{address:?} is to {m:?}, which is not declared"))),
        }
    }
}

/// What copies a register.
pub const fn mov(class: Class) -> &'static str {
    match class {
        Class::Pred => "mov.pred",
        Class::Half => "mov.b16",
        Class::Word => "mov.b32",
        Class::Long => "mov.b64",
    }
}
