//! Linear program -> machine instructions over virtual registers: the walk over the steps.

mod address;
mod build;
mod cast;
mod control;
mod dot;
mod lanes;
mod mask;
mod memory;
mod scalar;
mod shuffle;
mod strided;
mod tile;
mod types;
mod uses;
mod values;
mod vector;
mod word;

use super::Job;
use super::program::{Class, Def, Inst, Kind, Opd, Program, Reg, Size};
use crate::Error;
use crate::walk::Walk;
use build::r;
use control::{Block, put_in};
use frit_abi::target::Isa;
use frit_abi::{DType, Target};
use frit_uop::{Arg, Linear, Space, Step, UOp};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;
use tile::is_tile;
use types::{Val, is_real};
use uses::Uses;

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
    /// The step that is selected for, counted from 1.
    pub step: u32,
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
    pub sums: FxHashMap<UOp, Rc<address::Sum>>,
    /// Who uses what where.
    pub uses: Uses,
    /// Pointer to the status word, and the bounds of the thread axis.
    pub status: Reg,
    thread: (Reg, Reg),
}

impl Walk for Select<'_> {
    fn program(&self) -> (&Linear, &Target) {
        (self.linear, self.target)
    }
    /// As many as a mask has bits.
    fn most_lanes(&self) -> usize {
        64
    }
}

/// Machine instructions for a linear program, and its bytes of scratch.
pub fn select(job: &mut Job) -> Result<(), Error> {
    let Job { linear, target, .. } = *job;
    let mut s = Select {
        linear,
        target,
        isa: target.isa,
        program: Program::default(),
        blocks: vec![Block::default()],
        bodies: vec![],
        at: 0,
        step: 0,
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
        s.step = at as u32 + 1;
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
    (job.program, job.scratch) = (s.program, scratch);
    Ok(())
}

/// An empty map with room for so many.
pub fn sized<K, V>(count: usize) -> FxHashMap<K, V> {
    FxHashMap::with_capacity_and_hasher(count, Default::default())
}

impl Select<'_> {
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
            let m = address::at(buffers, 8 * slot as i64);
            let pointer = self.load_int(8, m, false);
            self.pointers.insert(p.clone(), (pointer, 0));
        }
        for (i, v) in linear.vars.iter().enumerate() {
            let m = address::at(vars, 8 * i as i64);
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
}
