//! A warp: its lanes run together until they part.

use super::regs::{Class, LANES, Regs};
use crate::ptx::program::{Given, Guard, Parts, Program, Source, Special};

/// 32 lanes of a block.
pub struct Warp {
    /// Their registers.
    pub regs: Regs,
    /// The number of the first in its block.
    pub first: u32,
    /// The next instruction of those that run.
    pub pc: u32,
    /// Those that run.
    pub active: u32,
    /// Those that have not returned.
    pub alive: u32,
    /// Others, and where they wait to be met.
    waiting: Vec<(u32, u32)>,
    /// The nearest of those places.
    pub nearest: u32,
    /// The barrier that it waits at.
    pub barrier: Option<u32>,
    /// All that there are.
    all: u32,
}

impl Warp {
    /// The lanes of a block from one on.
    pub fn new(program: &Program, first: u32, lanes_of_block: u32) -> Warp {
        let count = (lanes_of_block - first).min(LANES as u32);
        Warp {
            regs: Regs::new(program.counts),
            first,
            pc: 0,
            active: 0,
            alive: 0,
            waiting: vec![],
            nearest: u32::MAX,
            barrier: None,
            all: u32::MAX >> (LANES as u32 - count),
        }
    }
    /// All lanes at the first instruction.
    pub fn begin(&mut self) {
        (self.pc, self.active, self.alive, self.nearest, self.barrier) =
            (0, self.all, self.all, u32::MAX, None);
        self.waiting.clear();
    }
    /// Fill a row that is given.
    pub fn give(&mut self, given: &Given, at: &Place) {
        let first = self.first;
        let value = |lane: usize| match given.source {
            Source::Bits(bits) => bits,
            Source::Param(i) => at.params[i],
            Source::Special(Special::Tid, d) => at.tid(first + lane as u32)[d].into(),
            Source::Special(Special::Ctaid, d) => at.block[d].into(),
            Source::Special(Special::Ntid, d) => at.lanes[d].into(),
            Source::Special(Special::Nctaid, d) => at.grid[d].into(),
            Source::Special(Special::Laneid, _) => lane as u64,
        };
        let row = given.row as usize;
        match given.class {
            Class::Pred => self.regs.p[row] = if value(0) == 0 { 0 } else { !0 },
            Class::Half => self.regs.h[row] = std::array::from_fn(|l| value(l) as u16),
            Class::Word => self.regs.w[row] = std::array::from_fn(|l| value(l) as u32),
            Class::Long => self.regs.d[row] = std::array::from_fn(value),
        }
    }
    /// The lanes that an instruction is for.
    #[inline]
    pub fn mask(&self, guard: Option<Guard>) -> u32 {
        match guard {
            None => self.active,
            Some(Guard { row, is_not }) => {
                self.active & (self.regs.p[row as usize] ^ if is_not { !0 } else { 0 })
            }
        }
    }
    /// Lanes go elsewhere.
    pub fn branch(&mut self, taken: u32, to: u32) {
        if taken == self.active {
            self.pc = to;
        } else {
            self.pc += 1;
            if taken != 0 {
                self.active &= !taken;
                self.waiting.push((to, taken));
                self.nearest = self.nearest.min(to);
            }
        }
    }
    /// Lanes are done.
    pub fn exit(&mut self, done: u32) {
        self.alive &= !done;
        self.active &= !done;
        self.pc += 1;
    }
    /// Run the lanes furthest back, with all that are at the same place. False where none are left.
    pub fn settle(&mut self) -> bool {
        if self.active != 0 {
            self.waiting.push((self.pc, self.active));
        }
        let Some(pc) = self.waiting.iter().map(|w| w.0).min() else { return false };
        self.pc = pc;
        self.active = 0;
        self.waiting.retain(|(at, mask)| {
            self.active |= if *at == pc { *mask } else { 0 };
            *at != pc
        });
        self.nearest = self.waiting.iter().map(|w| w.0).min().unwrap_or(u32::MAX);
        true
    }
    /// `{low, high}` from a register.
    pub fn split(&mut self, from: u32, parts: Parts, mask: u32) {
        let [low, high] = parts.halves.map(|r| r as usize);
        for lane in super::regs::lanes(mask) {
            if parts.is_wide {
                let x = self.regs.d[from as usize][lane];
                (self.regs.w[low][lane], self.regs.w[high][lane]) = (x as u32, (x >> 32) as u32);
            } else {
                let x = self.regs.w[from as usize][lane];
                (self.regs.h[low][lane], self.regs.h[high][lane]) = (x as u16, (x >> 16) as u16);
            }
        }
    }
    /// A register from `{low, high}`.
    pub fn join(&mut self, to: u32, parts: Parts, mask: u32) {
        let [low, high] = parts.halves.map(|r| r as usize);
        for lane in super::regs::lanes(mask) {
            if parts.is_wide {
                let (l, h) = (self.regs.w[low][lane], self.regs.w[high][lane]);
                self.regs.d[to as usize][lane] = u64::from(l) | u64::from(h) << 32;
            } else {
                let (l, h) = (self.regs.h[low][lane], self.regs.h[high][lane]);
                self.regs.w[to as usize][lane] = u32::from(l) | u32::from(h) << 16;
            }
        }
    }
}

/// Where a block is, and what all of its lanes know.
pub struct Place<'a> {
    /// Its place in the grid.
    pub block: [u32; 3],
    /// The grid.
    pub grid: [u32; 3],
    /// The lanes of a block.
    pub lanes: [u32; 3],
    /// The parameters.
    pub params: &'a [u64],
}

impl Place<'_> {
    /// A lane's place by its number.
    pub fn tid(&self, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.lanes;
        [lane % x, lane / x % y, lane / (x * y)]
    }
}
