//! Loads and stores of a warp.

use super::copies::Copies;
use super::launch::Launch;
use super::regs::{Class, LANES, Regs, lanes};
use super::shared::{Shared, Wrong};
use super::{Fault, code};
use crate::memory::{Region, Touched};
use crate::ptx::operand::SHARED_BASE;
use crate::ptx::program::{Access, Copy, Fragments, Inst, Unit};
use std::ops::Range;
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
    /// The copies that are under way, by lane of the block.
    copies: Vec<Copies>,
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
        let copies = (0..launch.block.iter().product()).map(|_| Copies::default()).collect();
        let shared = Shared::new(shared_bytes, launch.pieces[1]);
        Memory { shared, launch, regions: vec![], sites, now: 0, copies }
    }
    /// Another block begins.
    pub fn begin(&mut self, block: u32) {
        self.shared.begin();
        self.copies.iter_mut().for_each(Copies::clear);
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
        let addresses = regs.d[row].map(|address| address.wrapping_add(a.offset as u64));
        let odd = lanes(mask).find(|l| addresses[*l] as usize & (a.bytes() - 1) != 0);
        if let Some(lane) = odd {
            let message = format!("an access of {} bytes at {:#x}", a.bytes(), addresses[lane]);
            return Err(lane_fault(lane, code::MISALIGNED, message));
        }
        let mut left = mask;
        while left != 0 {
            // nearly always all lanes are in one allocation, the one of the last time
            let (region, inside) = self.group(at, &addresses, a.bytes(), left)?;
            let region: &Region = &self.regions[region];
            let offsets = addresses.map(|address| address.wrapping_sub(region.base) as usize);
            if region.device.is_some() {
                let done = match way {
                    Way::Load => self.check::<false>(region, &offsets, a.bytes(), inside, first),
                    Way::Store => self.check::<true>(region, &offsets, a.bytes(), inside, first),
                };
                done.map_err(|(lane, message)| lane_fault(lane, code::ILLEGAL_ADDRESS, message))?;
            }
            move_lanes(regs, region, &offsets, a, way, inside);
            left &= !inside;
        }
        Ok(())
    }
    /// The allocation of the first of some lanes, and which of the others are in it too.
    fn group(
        &mut self,
        at: usize,
        addresses: &[u64; LANES],
        bytes: usize,
        left: u32,
    ) -> Result<(usize, u32), LaneFault> {
        let lane = left.trailing_zeros() as usize;
        let mut region = self.sites[at] as usize;
        if self.regions.get(region).is_none_or(|r| r.offset(addresses[lane], bytes).is_none()) {
            region =
                self.find(addresses[lane], bytes).map_err(|m| lane_fault(lane, code::ILLEGAL_ADDRESS, m))?;
            self.sites[at] = region as u32;
        }
        let found: &Region = &self.regions[region];
        let inside =
            lanes(left).fold(0, |set, l| set | u32::from(found.offset(addresses[l], bytes).is_some()) << l);
        Ok((region, inside))
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
    /// Whether the bytes were written, and no one else touches them; else the lane and why.
    fn check<const STORE: bool>(
        &self,
        r: &Region,
        offsets: &[usize; LANES],
        bytes: usize,
        mask: u32,
        first: u32,
    ) -> Result<(), (usize, String)> {
        for lane in lanes(mask) {
            if STORE {
                r.know(offsets[lane], bytes);
            } else if !r.is_known(offsets[lane], bytes) {
                let address = r.base + offsets[lane] as u64;
                return Err((lane, format!("{bytes} bytes at {address:#x} were never written")));
            }
        }
        if !self.launch.has_race_checks {
            return Ok(());
        }
        let (touched, shift) = (r.touched(), self.launch.pieces[0].trailing_zeros());
        for lane in lanes(mask) {
            let at = offsets[lane];
            let mine = self.now | (u64::from(first) + lane as u64);
            self.touch::<STORE>(touched, at >> shift..((at + bytes - 1) >> shift) + 1, mine)
                .map_err(|(other, did)| (lane, self.race(at, other, did)))?;
        }
        Ok(())
    }
    /// A lane touches pieces; else who did before, and what.
    #[inline]
    fn touch<const STORE: bool>(
        &self,
        t: &Touched,
        pieces: Range<usize>,
        mine: u64,
    ) -> Result<(), (u64, &'static str)> {
        // of earlier launches; of several blocks of this one
        let (old, many) = (u64::from(self.launch.first + 1) << BLOCK, u64::from(self.launch.first) << BLOCK);
        for (w, r) in t.writers[pieces.clone()].iter().zip(&t.readers[pieces]) {
            let (writer, reader) = (w.load(Relaxed), r.load(Relaxed));
            if writer >= old && writer != mine && self.is_apart(writer, mine) {
                return Err((writer, "wrote"));
            }
            if STORE {
                if reader >= many && reader != mine && self.is_apart(reader, mine) {
                    return Err((reader, "read"));
                }
                w.store(mine, Relaxed);
            } else if reader < many {
                r.store(mine, Relaxed);
            } else if reader != mine {
                r.store(self.with_reader(reader, mine), Relaxed);
            }
        }
        Ok(())
    }
    /// Whether no barrier orders two accesses: of different blocks, or of different lanes since the last one.
    fn is_apart(&self, one: u64, other: u64) -> bool {
        one >> BLOCK != other >> BLOCK
            || one >> PHASE == other >> PHASE && one & (LANE | MANY) != other & (LANE | MANY)
    }
    /// Who has read a piece in this launch, after one more: of several blocks, the number before the first one's.
    fn with_reader(&self, before: u64, mine: u64) -> u64 {
        match before >> BLOCK == mine >> BLOCK {
            false => u64::from(self.launch.first) << BLOCK,
            true if before >> PHASE == mine >> PHASE => before | MANY,
            true => mine,
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
    /// Matrices of 8 rows of 16 bytes, each row at the address that a lane has.
    pub fn load_matrix(
        &mut self,
        regs: &mut Regs,
        f: &Fragments,
        row: u32,
        first: u32,
    ) -> Result<(), LaneFault> {
        for m in 0..f.count {
            let mut words = [[0u32; 4]; 8];
            for (r, to) in words.iter_mut().enumerate() {
                let lane = m * 8 + r;
                let at = self.shared_place(lane, regs.w[row as usize][lane], f.offset, 16)?;
                for (i, word) in to.iter_mut().enumerate() {
                    let got = self.shared.get(first + lane as u32, at + i * 4, 4);
                    *word = got.map_err(|wrong| self.shared_fault(lane, at, 16, wrong))? as u32;
                }
            }
            let half = |r: usize, c: usize| words[r][c / 2] >> (16 * (c % 2)) & 0xffff;
            let part = |lane: usize| match f.is_transposed {
                false => words[lane / 4][lane % 4],
                true => half(lane % 4 * 2, lane / 4) | half(lane % 4 * 2 + 1, lane / 4) << 16,
            };
            regs.w[f.regs[m] as usize] = std::array::from_fn(part);
        }
        Ok(())
    }
    /// Copies begin: what is read now arrives when a lane waits for it.
    pub fn copy_async(
        &mut self,
        regs: &mut Regs,
        at: usize,
        c: &Copy,
        mask: u32,
        first: u32,
    ) -> Result<(), LaneFault> {
        let [_, to, size, _] = self.launch.program.code[at].rows.from;
        let bytes = c.from.bytes();
        let read = |l: usize| if c.is_partial { regs.w[size as usize][l] as usize } else { bytes };
        if let Some(lane) = lanes(mask).find(|l| !matches!(read(*l), n if n == 0 || n == bytes)) {
            let message = format!("{} of {bytes} bytes are copied", read(lane));
            return Err(lane_fault(lane, code::LAUNCH_FAILED, message));
        }
        let reads = lanes(mask).fold(0, |set, l| set | u32::from(read(l) != 0) << l);
        let targets = regs.w[to as usize];
        c.from.regs.iter().for_each(|r| regs.w[*r as usize] = [0; LANES]);
        if reads != 0 {
            self.access(regs, at, &c.from, Way::Load, reads, first)?;
        }
        for lane in lanes(mask) {
            let (place, number) =
                (self.shared_place(lane, targets[lane], c.offset, bytes)?, first + lane as u32);
            let claimed = self.shared.claim(number, place, bytes);
            claimed.map_err(|wrong| self.shared_fault(lane, place, bytes, wrong))?;
            let words = c.from.regs.map(|r| regs.w[r as usize][lane]);
            self.copies[number as usize].start(place, bytes, words);
        }
        Ok(())
    }
    /// What lanes have begun to copy since the last time is a group.
    pub fn commit(&mut self, mask: u32, first: u32) {
        lanes(mask).for_each(|l| self.copies[first as usize + l].commit());
    }
    /// All groups of lanes but the last `left` arrive.
    pub fn wait(&mut self, left: usize, mask: u32, first: u32) -> Result<(), LaneFault> {
        for lane in lanes(mask) {
            let number = first + lane as u32;
            for (place, bytes, words) in self.copies[number as usize].arrived(left) {
                for (i, word) in words[..bytes / 4].iter().enumerate() {
                    let done = self.shared.arrive(number, place + i * 4, 4, (*word).into());
                    done.map_err(|wrong| self.shared_fault(lane, place, bytes, wrong))?;
                }
            }
        }
        Ok(())
    }
    /// Where an address is in shared memory.
    fn shared_place(&self, lane: usize, address: u32, offset: i64, bytes: usize) -> Result<usize, LaneFault> {
        let address = i64::from(address) + offset;
        if address as usize & (bytes - 1) != 0 {
            let message = format!("an access of {bytes} bytes of shared memory at {address:#x}");
            return Err(lane_fault(lane, code::MISALIGNED, message));
        }
        Ok(address.checked_sub(SHARED_BASE.into()).filter(|a| *a >= 0).unwrap_or(i64::MAX >> 1) as usize)
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
            let at = self.shared_place(lane, regs.w[row][lane], a.offset, bytes)?;
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
            Wrong::UnderWay => format!("{place}, which a copy is under way to"),
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

/// The bytes themselves, of lanes that were checked.
fn move_lanes(regs: &mut Regs, r: &Region, offsets: &[usize; LANES], a: &Access, way: Way, mask: u32) {
    let size = a.unit.bytes();
    for (i, &row) in a.regs[..a.count].iter().enumerate() {
        // the widths that matter have loops of their own
        match (way, a.unit) {
            (Way::Load, Unit::B32) => {
                let row = &mut regs.w[row as usize];
                lanes(mask).for_each(|l| row[l] = r.get(offsets[l] + i * 4, 4) as u32);
            }
            (Way::Store, Unit::B32) => {
                let row = &regs.w[row as usize];
                lanes(mask).for_each(|l| r.set(offsets[l] + i * 4, 4, row[l].into()));
            }
            (Way::Load, unit) => {
                lanes(mask).for_each(|l| put(regs, unit, row, l, r.get(offsets[l] + i * size, size)))
            }
            (Way::Store, unit) => {
                lanes(mask).for_each(|l| r.set(offsets[l] + i * size, size, take(regs, unit, row, l)));
            }
        }
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
