//! Loops: blocks of instructions, and what is hoisted from one to another.
//!
//! Loop invariants are hoisted as they are selected: every block collects its instructions apart, and until a loop is
//! closed its parent's end is the place just before it.

use super::Select;
use super::build::{Arith, r};
use super::types::{Val, int_size};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Cond, Def, Inst, Kind, Reg, Size};
use frit_abi::DType;
use frit_uop::UOp;
use iced_x86::Code;
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// What was computed from values besides the steps, to find it again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A scalar in every lane of a vector, of this element type.
    Splat(UOp, DType, Size),
    /// An index in 64 bits.
    Wide(UOp),
    /// An index times a number of bytes.
    Scaled(UOp, i64),
    /// An address plus an index times a number of bytes.
    Sum(Reg, UOp, i64),
    /// An address that moves along with the loop.
    InductionPointer(Reg, i64),
    /// An address with a number added that is too large for an instruction.
    Far(Reg, i64),
    /// Of the bytes of a register, those at even or odd places with 16 bits each.
    Widened(Reg, DType, bool),
}

/// A loop body that is being written; the first one is the kernel.
#[derive(Default)]
pub struct Block {
    /// Its instructions.
    pub insts: Vec<Inst>,
    /// The loop variable and its node.
    pub range: Option<(Reg, UOp)>,
    /// Where the loop variable starts, if not at 0.
    pub begin: Option<Reg>,
    /// Addresses that move: what to add at the end of each round.
    pub induction_pointers: Vec<(Reg, i64)>,
    /// What was computed in it.
    pub known: FxHashMap<Key, Reg>,
    /// No other loop is in it.
    pub is_innermost: bool,
}

/// Instructions in order, with the bodies of loops in their places.
pub fn put_in(insts: Vec<Inst>, bodies: &mut [Vec<Inst>], out: &mut Vec<Inst>) {
    for inst in insts {
        match inst.kind {
            Kind::Body(b) => put_in(std::mem::take(&mut bodies[b as usize]), bodies, out),
            _ => out.push(inst),
        }
    }
}

impl Select<'_> {
    pub fn open(&mut self, range: &UOp, step: usize) -> Result<(), Error> {
        if range.range_arg().is_none() {
            return Err(self.malformed(format!("{range:?} opened as a loop")));
        }
        let i = self.int();
        let is_thread = self.linear.thread.as_ref() == Some(range);
        self.blocks.push(Block {
            range: Some((i, range.clone())),
            begin: is_thread.then_some(self.thread.0),
            is_innermost: self.uses.is_innermost(step),
            ..Block::default()
        });
        self.at = self.blocks.len() - 1;
        self.values.insert(range.clone(), (Val::one(i, range.dtype, 1), self.at));
        Ok(())
    }

    pub fn close(&mut self, range: &UOp) -> Result<(), Error> {
        let block = self.blocks.pop();
        let Some((block, (i, _))) = block.and_then(|b| Some((b.range.clone()?, b))).map(|(r, b)| (b, r))
        else {
            return Err(self.malformed(format!("{range:?} closed as a loop")));
        };
        self.at = self.blocks.len() - 1;
        let size = int_size(range.dtype);
        let end = match (block.begin, range.src[0].as_int()) {
            (Some(_), _) => Err(self.thread.1),
            (None, Some(n)) if i32::try_from(n).is_ok() => Ok(n),
            (None, Some(n)) => Err(self.int_const(n)),
            (None, None) => Err(self.operand(&range.src[0])?.parts[0]),
        };
        match block.begin {
            Some(begin) => {
                // 32 bits of it, and nothing above
                let code = if size == Size::Q { Code::Mov_r64_rm64 } else { Code::Mov_r32_rm32 };
                self.emit(Kind::Plain(code), Def::Write, smallvec![r(i, size), r(begin, size)]);
            }
            None => _ = self.emit(Kind::Zero, Def::Write, smallvec![r(i, Size::D)]),
        }
        let (head, exit) = (self.new_label(), self.new_label());
        let at_least_once = matches!(end, Ok(n) if n >= 1);
        if !at_least_once {
            self.compare_with(i, end, size);
            self.jump(Cond::NotLess, exit);
        }
        self.emit(Kind::LoopBegin, Def::Nothing, smallvec![]);
        self.emit(Kind::Label(head, block.is_innermost), Def::Nothing, smallvec![]);
        self.emit(Kind::Body(self.bodies.len() as u32), Def::Nothing, smallvec![]);
        self.bodies.push(block.insts);
        for (address, step) in block.induction_pointers {
            self.add_number(address, step);
        }
        self.g2i(Arith::Add, i, size, 1);
        self.compare_with(i, end, size);
        self.jump(Cond::Less, head);
        self.emit(Kind::LoopEnd, Def::Nothing, smallvec![]);
        self.label(exit);
        Ok(())
    }
    fn compare_with(&mut self, i: Reg, end: Result<i64, Reg>, size: Size) {
        match end {
            Ok(n) => self.g2i(Arith::Cmp, i, size, n),
            Err(reg) => self.compare(i, reg, size),
        }
    }
    fn add_number(&mut self, address: Reg, step: i64) {
        if i32::try_from(step).is_ok() {
            self.g2i(Arith::Add, address, Size::Q, step);
        } else {
            let c = self.int_const(step);
            self.g2(Code::Add_r64_rm64, address, r(c, Size::Q));
        }
    }

    /// Run `f` so that its instructions go to a block further out.
    pub fn in_block<T>(&mut self, depth: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        let now = std::mem::replace(&mut self.at, depth);
        let before = (self.blocks[depth].insts.len(), self.jumped);
        let out = f(self);
        // what others will use later must not be jumped over: it goes before the comparison that the jump is for
        if let (Some((block, at)), Some((_, was))) = (&mut self.jumped, before.1)
            && *block == depth
        {
            // what went there on the way is there already
            let made = self.blocks[depth].insts.len() - before.0 - (*at - was);
            self.blocks[depth].insts[*at..].rotate_right(made);
            *at += made;
        }
        self.at = now;
        out
    }
    /// What was computed before under this key in a block that is still open.
    pub fn known(&self, key: &Key) -> Option<Reg> {
        self.blocks.iter().rev().find_map(|b| b.known.get(key).copied())
    }
}
