//! Linear program -> machine instructions: the walk over the steps, loops, and which value is where.
//!
//! What does not change in a loop is written before it: every block collects its instructions apart, and until a loop
//! is closed its parent's end is the place just before it.

use super::ir::{Class, Cond, Def, Inst, Kind, Opd, Program, Reg, Size};
use super::uses::Uses;
use crate::Error;
use frit_abi::target::Isa;
use frit_abi::{DType, Target};
use frit_uop::{Arg, Linear, Op, Space, Step, UOp};
use iced_x86::Code;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

use super::build::{Arith, r};
use super::tile::is_tile;

/// A value in registers.
#[derive(Clone, Debug)]
pub struct Val {
    /// One register, or several where the value is wider than a vector.
    pub parts: SmallVec<[Reg; 2]>,
    /// What a lane is: the value's type; for truth values a signed integer as wide as what was compared (0 or -1 in
    /// each lane), or `Bool` for a mask register.
    pub elem: DType,
    /// Lanes of all parts together.
    pub lanes: usize,
}

impl Val {
    /// In one register.
    pub fn one(reg: Reg, elem: DType, lanes: usize) -> Val {
        Val { parts: smallvec![reg], elem, lanes }
    }
    /// Lanes of one part.
    pub fn per_part(&self) -> usize {
        self.lanes / self.parts.len()
    }
    /// The register size of one part.
    pub fn size(&self) -> Size {
        Size::of_bytes(self.per_part() * self.elem.size())
    }
}

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
    Moving(Reg, i64),
    /// An address with a number added that is too large for an instruction.
    Far(Reg, i64),
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
    pub moving: Vec<(Reg, i64)>,
    /// What was computed in it.
    pub known: FxHashMap<Key, Reg>,
    /// No other loop is in it.
    pub is_innermost: bool,
}

/// The walk.
pub struct Select<'a> {
    /// The program.
    pub linear: &'a Linear,
    /// The machine.
    pub target: &'a Target,
    /// Its instruction set.
    pub isa: Isa,
    /// What comes out.
    pub program: Program,
    /// Open loops, the kernel first.
    pub blocks: Vec<Block>,
    /// What was written for loops that are closed.
    bodies: Vec<Vec<Inst>>,
    /// The block that instructions go to: the last one, except while something is put before a loop.
    pub at: usize,
    /// The block and place of the comparison for a jump whose label has not come yet.
    pub jumped: Option<(usize, usize)>,
    /// Where values are, and in which block they were computed.
    pub values: FxHashMap<UOp, (Val, usize)>,
    /// Register variables.
    pub variables: FxHashMap<UOp, Val>,
    /// Loads that are made by the instruction that uses them: the operand of each part.
    pub deferred: FxHashMap<UOp, SmallVec<[Opd; 2]>>,
    /// Buffers and local arrays: a pointer and a displacement.
    pub pointers: FxHashMap<UOp, (Reg, i64)>,
    /// Integer constants.
    pub ints: FxHashMap<i64, Reg>,
    /// Vector and float constants.
    pub vectors: FxHashMap<Box<[u8]>, Reg>,
    /// Indices as sums.
    pub sums: FxHashMap<UOp, Rc<super::address::Sum>>,
    /// Who uses what where.
    pub uses: Uses,
    /// Pointer to the status word, and the bounds of the thread axis.
    pub status: Reg,
    thread: (Reg, Reg),
}

/// Machine instructions for a linear program, and its bytes of scratch.
pub fn select(linear: &Linear, target: &Target) -> Result<(Program, usize), Error> {
    let mut s = Select {
        linear,
        target,
        isa: target.isa,
        program: Program::default(),
        blocks: vec![Block::default()],
        bodies: vec![],
        at: 0,
        jumped: None,
        values: sized(linear.steps.len()),
        variables: FxHashMap::default(),
        deferred: FxHashMap::default(),
        pointers: FxHashMap::default(),
        ints: FxHashMap::default(),
        vectors: FxHashMap::default(),
        sums: FxHashMap::default(),
        uses: Uses::of(linear, target),
        status: Reg(0),
        thread: (Reg(0), Reg(0)),
    };
    let scratch = s.arguments()?;
    s.configure_tiles();
    for (at, step) in linear.steps.iter().enumerate() {
        match step {
            Step::Do(n) => s.perform(n, at)?,
            Step::Open(range) => s.open(range, at)?,
            Step::Close(range) => s.close(range)?,
            Step::Prefetch(at, ahead) => s.prefetch(at, *ahead)?,
        }
    }
    s.release_tiles();
    let count = s.bodies.iter().map(Vec::len).sum::<usize>() + s.blocks[0].insts.len();
    s.program.insts.reserve(count);
    put_in(std::mem::take(&mut s.blocks[0].insts), &mut s.bodies, &mut s.program.insts);
    Ok((s.program, scratch))
}

/// Instructions in order, with the bodies of loops in their places.
fn put_in(insts: Vec<Inst>, bodies: &mut [Vec<Inst>], out: &mut Vec<Inst>) {
    for inst in insts {
        match inst.kind {
            Kind::Body(b) => put_in(std::mem::take(&mut bodies[b as usize]), bodies, out),
            _ => out.push(inst),
        }
    }
}

/// An empty map with room for so many.
pub fn sized<K, V>(count: usize) -> FxHashMap<K, V> {
    FxHashMap::with_capacity_and_hasher(count, Default::default())
}

/// The memory an address is in, through `After`.
pub fn memory(n: &UOp) -> &UOp {
    let mut n = n;
    while matches!(n.op, Op::After | Op::Index) {
        n = &n.src[0];
    }
    n
}

/// The register variable that a load or store names, if it is one.
pub fn register(access: &UOp) -> Option<&UOp> {
    let m = memory(&access.src[0]);
    matches!(m.arg, Arg::Define { space: Space::Reg, .. }).then_some(m)
}

/// Whether scalars of this type live in vector registers.
pub fn is_real(d: DType) -> bool {
    matches!(d, DType::F32 | DType::F64)
}

/// The size of a general register for a type.
pub fn int_size(d: DType) -> Size {
    if d.size() == 8 { Size::Q } else { Size::D }
}

impl Select<'_> {
    /// A fault of codegen.
    pub fn malformed(&self, message: impl Into<String>) -> Error {
        Error::Malformed { kernel: self.linear.name.to_string(), message: message.into() }
    }
    /// An operation that this machine lacks.
    pub fn unsupported(&self, n: &UOp) -> Error {
        let dtype = if n.dtype == DType::Void { n.src.first().map_or(n.dtype, |s| s.dtype) } else { n.dtype };
        let (kernel, target) = (self.linear.name.to_string(), self.target.name.clone());
        Error::Unsupported { kernel, op: n.op, dtype, target }
    }
    /// How many lanes one register holds of a value.
    pub fn part_lanes(&self, d: DType, lanes: usize) -> usize {
        lanes.min((self.target.vector_bytes.max(16) / d.size().max(1)).max(1))
    }

    fn arguments(&mut self) -> Result<usize, Error> {
        let mut arg = |n: u8| {
            let reg = self.int();
            self.emit(Kind::Arg(n), Def::Write, smallvec![r(reg, Size::Q)]);
            reg
        };
        let [buffers, vars, scratch, status, begin, end] = [0, 1, 2, 3, 4, 5].map(&mut arg);
        (self.status, self.thread) = (status, (begin, end));
        let linear = self.linear;
        for (slot, p) in linear.params.iter().enumerate() {
            let m = super::address::at(buffers, 8 * slot as i64);
            let pointer = self.load_int(8, m, false);
            self.pointers.insert(p.clone(), (pointer, 0));
        }
        for (i, v) in linear.vars.iter().enumerate() {
            let m = super::address::at(vars, 8 * i as i64);
            let x = self.load_int(v.dtype.size().max(4), m, true);
            self.values.insert(v.clone(), (Val::one(x, v.dtype, 1), 0));
        }
        let mut bytes = 0usize;
        for d in &linear.defines {
            let Arg::Define { space, len, .. } = d.arg else {
                return Err(self.malformed(format!("{d:?} among the defines")));
            };
            if space == Space::Reg {
                let v = self.variable(d, len)?;
                self.variables.insert(d.clone(), v);
                continue;
            }
            self.pointers.insert(d.clone(), (scratch, bytes as i64));
            bytes += (len * d.dtype.size()).next_multiple_of(64);
        }
        Ok(bytes)
    }
    fn variable(&mut self, d: &UOp, len: usize) -> Result<Val, Error> {
        if is_tile(len) {
            return self.tile_variable(d, len);
        }
        self.check_lanes(d, len)?;
        let elem = self.stored_elem(d.dtype, len);
        let (class, size) = match (len, elem) {
            (1, d) if !is_real(d) => (Class::Int, Size::Q),
            (_, DType::Bool) => (Class::Mask, Size::K),
            _ => (Class::Vec, Size::of_bytes(self.part_lanes(elem, len) * elem.size())),
        };
        let n = if class == Class::Vec { len / self.part_lanes(elem, len) } else { 1 };
        let parts = (0..n).map(|_| self.program.reg(class, size)).collect();
        Ok(Val { parts, elem, lanes: len })
    }
    /// The lanes of a vector of a type as it is kept: truth values are masks, or 32 bits wide.
    pub fn stored_elem(&self, d: DType, lanes: usize) -> DType {
        match d {
            DType::Bool if lanes > 1 && self.isa != Isa::Avx512 => DType::I32,
            d => d,
        }
    }
    /// Vectors have a power of two of lanes.
    pub fn check_lanes(&self, n: &UOp, lanes: usize) -> Result<(), Error> {
        match lanes.is_power_of_two() && lanes <= 64 {
            true => Ok(()),
            false => Err(self.malformed(format!("{lanes} lanes in {n:?}"))),
        }
    }

    // ---- loops

    fn open(&mut self, range: &UOp, step: usize) -> Result<(), Error> {
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

    fn close(&mut self, range: &UOp) -> Result<(), Error> {
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
        for (address, step) in block.moving {
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

    // ---- values

    fn perform(&mut self, n: &UOp, step: usize) -> Result<(), Error> {
        match n.op {
            Op::Store => return self.store(n),
            Op::End | Op::Sink | Op::After => return Ok(()),
            _ => {}
        }
        let want = self.uses.destination(n).and_then(|d| self.variables.get(d).cloned());
        let v = match n.op {
            Op::Load => match self.load(n)? {
                Some(v) => v,
                None => return Ok(()),
            },
            // a tile of zeros is made where it is used
            Op::Stack if is_tile(n.lanes()) => return Ok(()),
            Op::Stack => self.stack(n)?,
            Op::Matrix => self.matrix(n, &want)?,
            Op::Lane => self.lane(n)?,
            Op::Shuffle => self.shuffle(n)?,
            o if o.is_elementwise() => {
                self.check_lanes(n, n.lanes())?;
                if n.lanes() == 1 { self.scalar(n, step, &want)? } else { self.vector(n, step, &want)? }
            }
            _ => return Err(self.unsupported(n)),
        };
        let v = match want {
            Some(to) => self.move_to(n, v, &to)?,
            None => v,
        };
        self.values.insert(n.clone(), (v, self.at));
        Ok(())
    }
    /// The value in the registers of a variable.
    pub fn move_to(&mut self, n: &UOp, v: Val, to: &Val) -> Result<Val, Error> {
        let v = if v.elem != to.elem && n.dtype == DType::Bool { self.mask_as(&v, to.elem)? } else { v };
        if is_tile(to.lanes) {
            self.copy_tile(to.parts[0], v.parts[0]);
            return Ok(to.clone());
        }
        let size = match (v.lanes, is_real(to.elem), to.elem) {
            (1, false, _) => Size::Q,
            (_, _, DType::Bool) => Size::K,
            _ => to.size(),
        };
        for (a, b) in to.parts.iter().zip(&v.parts) {
            self.copy(*a, *b, size);
        }
        Ok(to.clone())
    }
    /// The block a value is computed in.
    pub fn depth_of(&self, n: &UOp) -> usize {
        match self.values.get(n) {
            Some((_, depth)) => *depth,
            None if n.op == Op::After => self.depth_of(&n.src[0]),
            None => 0,
        }
    }
    /// A source as it is.
    pub fn operand(&mut self, n: &UOp) -> Result<Val, Error> {
        if let Some((v, _)) = self.values.get(n) {
            return Ok(v.clone());
        }
        match n.op {
            Op::Const => {
                let Some(c) = n.as_scalar() else { return Err(self.malformed(format!("{n:?}"))) };
                let d = n.dtype;
                let bits = if d == DType::Index { c.as_i128() as u64 } else { c.to_bits(d) };
                let reg = if is_real(d) {
                    self.vec_const(&bits.to_le_bytes()[..d.size()])
                } else {
                    self.int_const(extended(bits, d))
                };
                Ok(Val::one(reg, d, 1))
            }
            Op::After => self.operand(&n.src[0]),
            _ => Err(self.malformed(format!("{n:?} is used before it is computed"))),
        }
    }
    /// A scalar's register.
    pub fn scalar_operand(&mut self, n: &UOp) -> Result<Reg, Error> {
        let v = self.operand(n)?;
        match v.lanes {
            1 => Ok(v.parts[0]),
            _ => Err(self.malformed(format!("{n:?} is a vector where a scalar must be"))),
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

/// The bits of an integer as its register has them: narrow types extended to 32 bits by their sign, zeros above.
pub fn extended(bits: u64, d: DType) -> i64 {
    match d {
        DType::I8 => bits as i8 as i32 as u32 as i64,
        DType::I16 => bits as i16 as i32 as u32 as i64,
        DType::I64 | DType::U64 | DType::Index => bits as i64,
        _ => bits as u32 as i64,
    }
}
