//! Loads and stores of a warp.

use super::launch::Launch;
use super::regs::{Class, Regs, lanes};
use super::shared::{Shared, Wrong};
use super::{Fault, code};
use crate::memory::Region;
use crate::ptx::operand::SHARED_BASE;
use crate::ptx::program::{Access, Inst, Unit};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The memory that a worker's blocks see.
pub struct Memory<'a> {
    /// Of the block that runs.
    pub shared: Shared,
    launch: &'a Launch,
    /// Allocations that were touched.
    regions: Vec<Arc<Region>>,
    /// The one that each instruction touched last.
    sites: Vec<u32>,
    /// The block that runs, by its number among all of this and earlier launches, and its barriers so far.
    now: u64,
}

/// Bits of a lane in what is kept of who touched memory.
const LANE: u64 = (1 << 10) - 1;
/// Set where several lanes of a block have.
const MANY: u64 = 1 << 10;
/// Barriers of the block begin here.
const PHASE: u32 = 11;
/// Its number.
const BLOCK: u32 = 32;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It reads.
    Load,
    /// It writes.
    Store,
}

/// A fault of one lane.
pub struct LaneFault {
    /// Which.
    pub lane: usize,
    /// What it did.
    pub fault: Fault,
}

fn lane_fault(lane: usize, code: i32, message: String) -> LaneFault {
    LaneFault { lane, fault: Fault { code, message } }
}

impl<'a> Memory<'a> {
    /// Of a launch's blocks.
    pub fn new(launch: &'a Launch, shared_bytes: usize) -> Memory<'a> {
        let sites = vec![0; launch.program.code.len()];
        Memory { shared: Shared::new(shared_bytes), launch, regions: vec![], sites, now: 0 }
    }
    /// Another block begins.
    pub fn begin(&mut self, block: u32) {
        self.shared.begin();
        self.now = u64::from(self.launch.first + 1 + block) << BLOCK;
    }
    /// All lanes of the block have met.
    pub fn meet(&mut self) {
        self.shared.meet();
        self.now += 1 << PHASE;
    }
    /// An access of the lanes of a mask, which are those of a warp that begins at a lane of the block.
    pub fn access(
        &mut self,
        regs: &mut Regs,
        at: usize,
        a: &Access,
        way: Way,
        mask: u32,
        first: u32,
    ) -> Result<(), LaneFault> {
        let inst: &Inst = &self.launch.program.code[at];
        let row = inst.rows.from[0] as usize;
        if a.is_shared {
            return self.access_shared(regs, row, a, way, mask, first);
        }
        let bytes = a.bytes();
        let mut region = self.sites[at] as usize;
        for lane in lanes(mask) {
            let address = regs.d[row][lane].wrapping_add(a.offset as u64);
            if address as usize & (bytes - 1) != 0 {
                let message = format!("an access of {bytes} bytes at {address:#x}");
                return Err(lane_fault(lane, code::MISALIGNED, message));
            }
            let offset = match self.regions.get(region).and_then(|r| r.offset(address, bytes)) {
                Some(offset) => offset,
                None => {
                    region =
                        self.find(address, bytes).map_err(|m| lane_fault(lane, code::ILLEGAL_ADDRESS, m))?;
                    self.sites[at] = region as u32;
                    (address - self.regions[region].base) as usize
                }
            };
            let r: &Region = &self.regions[region];
            if r.device.is_some() {
                let number = u64::from(first) + lane as u64;
                let done = self.check(r, offset, bytes, way, number);
                done.map_err(|m| lane_fault(lane, code::ILLEGAL_ADDRESS, m))?;
            }
            let size = a.unit.bytes();
            for (i, &row) in a.regs[..a.count].iter().enumerate() {
                match way {
                    Way::Load => put(regs, a.unit, row, lane, r.get(offset + i * size, size)),
                    Way::Store => r.set(offset + i * size, size, take(regs, a.unit, row, lane)),
                }
            }
        }
        Ok(())
    }
    /// The allocation of an address, that this device may touch.
    #[cold]
    fn find(&mut self, address: u64, bytes: usize) -> Result<usize, String> {
        let is_it = |r: &Arc<Region>| r.offset(address, bytes).is_some();
        if let Some(found) = self.regions.iter().position(is_it) {
            return Ok(found);
        }
        let state = crate::state::state();
        let Some((region, _)) = state.space.find(address, bytes) else {
            return Err(format!("{bytes} bytes at {address:#x}, {}", state.space.describe(address)));
        };
        if let Some(owner) = region.device.filter(|d| !state.can_reach(self.launch.device, *d)) {
            return Err(format!("{bytes} bytes at {address:#x}, which is memory of device {owner}"));
        }
        self.regions.push(region);
        Ok(self.regions.len() - 1)
    }
    /// Whether the bytes were written, and no one else touches them.
    #[inline]
    fn check(&self, r: &Region, at: usize, bytes: usize, way: Way, lane: u64) -> Result<(), String> {
        if way == Way::Store {
            r.know(at, bytes);
        } else if !r.is_known(at, bytes) {
            return Err(format!("{bytes} bytes at {:#x} were never written", r.base + at as u64));
        }
        if !self.launch.has_race_checks {
            return Ok(());
        }
        let (t, first, shift) = (r.touched(), self.launch.first, self.launch.piece.trailing_zeros());
        let (from, to, mine) = (at >> shift, (at + bytes - 1) >> shift, self.now | lane);
        for (w, r) in t.writers[from..=to].iter().zip(&t.readers[from..=to]) {
            let (writer, reader) = (w.load(Relaxed), r.load(Relaxed));
            if writer != mine && writer >> BLOCK > first.into() && self.is_apart(writer, mine) {
                return Err(self.race(at, writer, "wrote"));
            }
            match way {
                Way::Store => {
                    if reader != mine && reader >> BLOCK >= first.into() && self.is_apart(reader, mine) {
                        return Err(self.race(at, reader, "read"));
                    }
                    if writer != mine {
                        w.store(mine, Relaxed);
                    }
                }
                Way::Load if reader != mine => r.store(self.with_reader(reader, mine), Relaxed),
                Way::Load => {}
            }
        }
        Ok(())
    }
    /// Whether no barrier orders two accesses: of different blocks, or of different lanes since the last one.
    fn is_apart(&self, one: u64, other: u64) -> bool {
        one >> BLOCK != other >> BLOCK
            || one >> PHASE == other >> PHASE && one & (LANE | MANY) != other & (LANE | MANY)
    }
    /// Who has read a piece, after one more: where several blocks have, the number before the first block's.
    fn with_reader(&self, before: u64, mine: u64) -> u64 {
        match (before >> BLOCK).checked_sub(self.launch.first.into()) {
            None => mine,
            Some(_) if before >> BLOCK != mine >> BLOCK => u64::from(self.launch.first) << BLOCK,
            Some(_) if before >> PHASE == mine >> PHASE => before | MANY,
            Some(_) => mine,
        }
    }
    #[cold]
    fn race(&self, at: usize, other: u64, did: &str) -> String {
        if other >> BLOCK == self.now >> BLOCK {
            let who =
                if other & MANY == 0 { format!("lane {}", other & LANE) } else { "several lanes".into() };
            return format!(
                "a race: {who} of the block {did} byte {at} of the buffer, with no barrier between"
            );
        }
        match ((other >> BLOCK) as u32).checked_sub(self.launch.first + 1) {
            Some(block) if block < self.launch.blocks() => {
                format!("a race: block {:?} {did} byte {at} of the buffer", self.launch.block_at(block))
            }
            Some(_) => format!("a race: another launch {did} byte {at} of the buffer meanwhile"),
            None => format!("a race: several blocks {did} byte {at} of the buffer"),
        }
    }
    fn access_shared(
        &mut self,
        regs: &mut Regs,
        row: usize,
        a: &Access,
        way: Way,
        mask: u32,
        first: u32,
    ) -> Result<(), LaneFault> {
        let (bytes, size) = (a.bytes(), a.unit.bytes());
        for lane in lanes(mask) {
            let address = i64::from(regs.w[row][lane]) + a.offset;
            if address as usize & (bytes - 1) != 0 {
                let message = format!("an access of {bytes} bytes of shared memory at {address:#x}");
                return Err(lane_fault(lane, code::MISALIGNED, message));
            }
            let at =
                address.checked_sub(SHARED_BASE.into()).filter(|a| *a >= 0).unwrap_or(i64::MAX >> 1) as usize;
            for (i, &row) in a.regs[..a.count].iter().enumerate() {
                let (place, number) = (at + i * size, first + lane as u32);
                let done = match way {
                    Way::Load => {
                        self.shared.get(number, place, size).map(|value| put(regs, a.unit, row, lane, value))
                    }
                    Way::Store => self.shared.set(number, place, size, take(regs, a.unit, row, lane)),
                };
                done.map_err(|wrong| self.shared_fault(lane, at, bytes, wrong))?;
            }
        }
        Ok(())
    }
    #[cold]
    fn shared_fault(&self, lane: usize, at: usize, bytes: usize, wrong: Wrong) -> LaneFault {
        let place = format!("bytes {at}..{} of shared memory", at.saturating_add(bytes));
        let message = match wrong {
            Wrong::Outside => format!("{place}, which has {}", self.shared.len()),
            Wrong::Unknown => format!("{place}, which were never written"),
            Wrong::Written(by) => {
                format!("a race: {place}, which lane {by} of the block wrote, with no barrier between")
            }
            Wrong::Read(Some(by)) => {
                format!("a race: {place}, which lane {by} of the block read, with no barrier between")
            }
            Wrong::Read(None) => {
                format!("a race: {place}, which several lanes read, with no barrier between")
            }
        };
        lane_fault(lane, code::ILLEGAL_ADDRESS, message)
    }
}

#[inline]
fn put(regs: &mut Regs, unit: Unit, row: u32, lane: usize, value: u64) {
    let row = row as usize;
    match unit {
        Unit::S8 => regs.w[row][lane] = value as i8 as u32,
        Unit::S16 => regs.w[row][lane] = value as i16 as u32,
        Unit::B16 => regs.h[row][lane] = value as u16,
        Unit::B64 => regs.d[row][lane] = value,
        Unit::U8 | Unit::U16 | Unit::B32 => regs.w[row][lane] = value as u32,
    }
}
#[inline]
fn take(regs: &Regs, unit: Unit, row: u32, lane: usize) -> u64 {
    match unit.class() {
        Class::Half => regs.h[row as usize][lane].into(),
        Class::Long => regs.d[row as usize][lane],
        _ => regs.w[row as usize][lane].into(),
    }
}
