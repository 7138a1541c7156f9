//! Memory as a kernel sees it, and who touched what: local arrays and the buffers that are written.
//!
//! Lanes of a block may not touch one local element between two barriers if one of them writes. Lanes of a launch
//! (iterations of the thread axis on a CPU-like machine) may not touch one element of a buffer at all if one of them
//! writes, for nothing orders them; only the same value may be written twice.

use super::alu;
use frit_abi::{DType, Param};

/// How an element lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element(DType);

impl Element {
    /// The `i`-th element from `base`, as a raw lane.
    ///
    /// # Safety
    /// It must lie in memory that may be read.
    #[inline]
    pub unsafe fn get(self, base: *const u8, i: usize) -> u64 {
        // SAFETY: the caller vouches for the place.
        let bits = unsafe {
            match self.0.size() {
                1 => base.add(i).read() as u64,
                2 => base.cast::<u16>().add(i).read_unaligned() as u64,
                4 => base.cast::<u32>().add(i).read_unaligned() as u64,
                _ => base.cast::<u64>().add(i).read_unaligned(),
            }
        };
        alu::extend(bits, self.0)
    }
    /// Put a raw lane in the `i`-th element from `base`.
    ///
    /// # Safety
    /// It must lie in memory that may be written.
    #[inline]
    pub unsafe fn put(self, base: *mut u8, i: usize, raw: u64) {
        // SAFETY: the caller vouches for the place.
        unsafe {
            match self.0.size() {
                1 => base.add(i).write(raw as u8),
                2 => base.cast::<u16>().add(i).write_unaligned(raw as u16),
                4 => base.cast::<u32>().add(i).write_unaligned(raw as u32),
                _ => base.cast::<u64>().add(i).write_unaligned(raw),
            }
        }
    }
}

/// Nobody, as a writer or reader.
const NOBODY: u32 = u32::MAX;
/// More than one, as a reader.
const MANY: u32 = u32::MAX - 1;

/// Who touched one granule of a buffer in this launch.
#[derive(Clone, Copy)]
struct Cell {
    writer: u32,
    reader: u32,
}

/// The cells of a stretch of memory that one or several buffers lie in.
struct Shadow {
    granule: usize,
    cells: Vec<Cell>,
}

/// A buffer of a launch.
pub struct Buffer {
    /// Where it begins.
    base: *mut u8,
    /// Elements the kernel may touch.
    pub len: usize,
    element: Element,
    size: usize,
    written: bool,
    /// The shadow that watches it and its first byte in there.
    shadow: Option<(usize, usize)>,
}

/// All buffers of a launch.
pub struct Buffers {
    list: Vec<Buffer>,
    shadows: Vec<Shadow>,
}

impl Buffers {
    /// The buffers at these addresses, in the order of the parameters.
    ///
    /// # Safety
    /// Each must be memory of the size its parameter says, readable, and writable if the parameter is written, while
    /// this lives and without others writing to it.
    pub unsafe fn new(params: &[Param], bases: &[*mut u8]) -> Buffers {
        let buffers = params.iter().filter_map(|p| match p {
            &Param::Buffer { dtype, len, written, .. } => Some((dtype, len, written)),
            Param::Var { .. } => None,
        });
        let list: Vec<Buffer> = (buffers.zip(bases))
            .map(|((dtype, len, written), &base)| {
                let (element, size) = (Element(dtype), dtype.size());
                Buffer { base, len, element, size, written, shadow: None }
            })
            .collect();
        let mut all = Buffers { list, shadows: vec![] };
        all.watch();
        all
    }

    /// Give every stretch of memory with a written buffer in it a shadow.
    fn watch(&mut self) {
        let span = |b: &Buffer| (b.base as usize, b.base as usize + b.len * b.size);
        let mut order: Vec<usize> = (0..self.list.len()).filter(|&i| self.list[i].len > 0).collect();
        order.sort_by_key(|&i| span(&self.list[i]));
        let mut rest = &order[..];
        while let Some(&first) = rest.first() {
            let (start, mut end) = span(&self.list[first]);
            let n = rest.iter().position(|&i| {
                let (from, to) = span(&self.list[i]);
                let apart = i != first && from >= end;
                end = if apart { end } else { end.max(to) };
                apart
            });
            let (group, others) = rest.split_at(n.unwrap_or(rest.len()));
            rest = others;
            if !group.iter().any(|&i| self.list[i].written) {
                continue;
            }
            let size = self.list[first].size;
            let alike = |&i: &usize| self.list[i].size == size && (span(&self.list[i]).0 - start) % size == 0;
            let granule = if group.iter().all(alike) { size } else { 1 };
            let cells = vec![Cell { writer: NOBODY, reader: NOBODY }; (end - start).div_ceil(granule)];
            for &i in group {
                self.list[i].shadow = Some((self.shadows.len(), span(&self.list[i]).0 - start));
            }
            self.shadows.push(Shadow { granule, cells });
        }
    }

    /// A buffer's first byte is on this address.
    pub fn address(&self, buf: u32) -> usize {
        self.list[buf as usize].base as usize
    }
    /// Read an element as `agent`.
    #[inline]
    pub fn read(&mut self, buf: u32, idx: i64, agent: u32) -> Result<u64, String> {
        let b = &self.list[buf as usize];
        if idx as u64 >= b.len as u64 {
            return Err(outside("b", buf, idx, b.len));
        }
        if let Some((shadow, first)) = b.shadow {
            for cell in self.shadows[shadow].over(first + idx as usize * b.size, b.size) {
                if cell.writer != NOBODY && cell.writer != agent {
                    return Err(format!("element {idx} of b{buf} was written by {}", who(cell.writer)));
                }
                cell.reader = if cell.reader == NOBODY || cell.reader == agent { agent } else { MANY };
            }
        }
        // SAFETY: the index is inside, and the memory is there as `new` was promised.
        Ok(unsafe { b.element.get(b.base, idx as usize) })
    }
    /// Write an element as `agent`.
    #[inline]
    pub fn write(&mut self, buf: u32, idx: i64, raw: u64, agent: u32) -> Result<(), String> {
        let b = &self.list[buf as usize];
        if idx as u64 >= b.len as u64 {
            return Err(outside("b", buf, idx, b.len));
        }
        if !b.written {
            return Err(format!("b{buf} is not marked as written"));
        }
        // SAFETY: the index is inside, and the memory is there as `new` was promised.
        let before = unsafe { b.element.get(b.base, idx as usize) };
        if let Some((shadow, first)) = b.shadow {
            for cell in self.shadows[shadow].over(first + idx as usize * b.size, b.size) {
                if cell.writer != NOBODY && cell.writer != agent && before != raw {
                    return Err(format!("element {idx} of b{buf} was written by {} too", who(cell.writer)));
                }
                if cell.reader != NOBODY && cell.reader != agent && before != raw {
                    return Err(format!("element {idx} of b{buf} was read by {}", who(cell.reader)));
                }
                cell.writer = agent;
            }
        }
        // SAFETY: as above, and `written` says that it may be written.
        unsafe { b.element.put(b.base, idx as usize, raw) };
        Ok(())
    }
}

impl Shadow {
    /// The cells over `bytes` bytes from `first`.
    fn over(&mut self, first: usize, bytes: usize) -> &mut [Cell] {
        &mut self.cells[first / self.granule..(first + bytes).div_ceil(self.granule)]
    }
}

/// Who did something, in words.
fn who(agent: u32) -> String {
    match agent {
        MANY => "others".into(),
        0 => "code outside the thread loop".into(),
        n => format!("another lane or thread iteration (number {})", n - 1),
    }
}

fn outside(kind: &str, n: u32, idx: i64, len: usize) -> String {
    format!("index {idx} is outside {kind}{n}, which has {len} elements")
}

/// One element of a local array and its history.
#[derive(Clone, Copy, Default)]
struct Slot {
    raw: u64,
    /// The block or slice in which it was last written; 0 for never.
    era: u32,
    /// The stretch between barriers in which it was last written, and by whom.
    written: (u32, u32),
    /// The same for the last read.
    read: (u32, u32),
    /// The block in which a copy to it is under way; 0 for never.
    claimed: u32,
}

/// The local arrays of a block, or of a slice of the thread axis.
pub struct Locals {
    slots: Vec<Slot>,
    /// First slot and length of each array.
    arrays: Vec<(usize, usize)>,
    era: u32,
    stretch: u32,
    /// Lanes share them; else they belong to a thread, and a value must not pass from one iteration to the next.
    shared: bool,
}

impl Locals {
    /// Arrays of these lengths.
    pub fn new(lens: impl Iterator<Item = usize>, shared: bool) -> Locals {
        let mut total = 0;
        let arrays = lens
            .map(|len| {
                total += len;
                (total - len, len)
            })
            .collect();
        Locals { slots: vec![Slot::default(); total], arrays, era: 0, stretch: 0, shared }
    }
    /// A new block or slice: nothing is initialised.
    pub fn begin(&mut self) {
        self.era += 1;
        self.stretch += 1;
    }
    /// All lanes have met.
    pub fn barrier(&mut self) {
        self.stretch += 1;
    }
    fn slot(&mut self, array: u32, idx: i64) -> Result<&mut Slot, String> {
        let (first, len) = self.arrays[array as usize];
        if idx as u64 >= len as u64 {
            return Err(outside("l", array, idx, len));
        }
        Ok(&mut self.slots[first + idx as usize])
    }
    /// Read an element: `lane` is the lane of the block, or the agent on a CPU-like machine.
    pub fn read(&mut self, array: u32, idx: i64, lane: u32) -> Result<u64, String> {
        let (era, stretch, shared) = (self.era, self.stretch, self.shared);
        let slot = self.slot(array, idx)?;
        if slot.claimed == era {
            return Err(format!("element {idx} of l{array} is read while a copy to it is under way"));
        }
        if slot.era != era {
            return Err(format!("element {idx} of l{array} is read before it is written"));
        }
        let (when, writer) = slot.written;
        if shared && when == stretch && writer != lane {
            return Err(format!(
                "element {idx} of l{array} was written by lane {writer} since the last barrier"
            ));
        }
        if !shared && writer != 0 && writer != lane {
            let iteration = writer - 1;
            return Err(format!(
                "element {idx} of l{array} was written in iteration {iteration} of the thread axis"
            ));
        }
        let alone = slot.read.0 != stretch || slot.read.1 == lane;
        slot.read = (stretch, if alone { lane } else { MANY });
        Ok(slot.raw)
    }
    /// Write an element.
    pub fn write(&mut self, array: u32, idx: i64, raw: u64, lane: u32) -> Result<(), String> {
        let (era, stretch) = (self.era, self.stretch);
        let slot = self.writable(array, idx, lane)?;
        *slot = Slot { raw, era, written: (stretch, lane), ..*slot };
        Ok(())
    }
    /// A copy to an element begins: nobody touches it until it arrives.
    pub fn claim(&mut self, array: u32, idx: i64, lane: u32) -> Result<(), String> {
        let era = self.era;
        self.writable(array, idx, lane)?.claimed = era;
        Ok(())
    }
    /// A copy to an element is there, for the lane that waited for it.
    pub fn arrive(&mut self, array: u32, idx: i64, raw: u64, lane: u32) -> Result<(), String> {
        let (era, stretch) = (self.era, self.stretch);
        let slot = self.slot(array, idx)?;
        *slot = Slot { raw, era, written: (stretch, lane), claimed: 0, ..*slot };
        Ok(())
    }
    /// An element that a lane may write.
    fn writable(&mut self, array: u32, idx: i64, lane: u32) -> Result<&mut Slot, String> {
        let (era, stretch, shared) = (self.era, self.stretch, self.shared);
        let slot = self.slot(array, idx)?;
        if slot.claimed == era {
            return Err(format!("element {idx} of l{array} is written while a copy to it is under way"));
        }
        let conflict = |(when, other): (u32, u32)| shared && when == stretch && other != lane;
        if conflict(slot.written) {
            let other = slot.written.1;
            return Err(format!(
                "element {idx} of l{array} was written by lane {other} since the last barrier"
            ));
        }
        if conflict(slot.read) {
            return Err(format!("element {idx} of l{array} was read by another lane since the last barrier"));
        }
        Ok(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(memory: &mut [u32], spans: &[(usize, usize, bool)]) -> Buffers {
        let params: Vec<Param> = spans
            .iter()
            .map(|&(_, len, written)| Param::Buffer { dtype: DType::U32, len, written, align: 4 })
            .collect();
        let bases: Vec<*mut u8> = spans.iter().map(|&(at, ..)| memory[at..].as_mut_ptr().cast()).collect();
        // SAFETY: the spans lie in the memory, which outlives every use in these tests.
        unsafe { Buffers::new(&params, &bases) }
    }

    #[test]
    fn agents_may_not_see_what_others_write() {
        let mut memory = vec![7u32; 32];
        let mut b = buffers(&mut memory, &[(0, 16, true), (16, 16, false)]);
        assert_eq!(b.read(0, 3, 1), Ok(7));
        assert!(b.write(0, 3, 8, 1).is_ok() && b.read(0, 3, 1) == Ok(8));
        assert!(b.read(0, 3, 2).unwrap_err().contains("was written"));
        assert!(b.write(0, 3, 9, 2).unwrap_err().contains("too"));
        assert!(b.write(0, 3, 8, 2).is_ok(), "the same value");
        b.read(0, 4, 1).unwrap();
        assert!(b.write(0, 4, 1, 2).unwrap_err().contains("was read"));
        assert!(b.write(1, 0, 1, 1).unwrap_err().contains("not marked"));
        for bad in [-1, 16, i64::MIN, i64::MAX] {
            assert!(b.read(1, bad, 1).unwrap_err().contains("outside b1"));
        }
    }

    #[test]
    fn buffers_that_overlap_share_their_history() {
        let mut memory = vec![0u32; 32];
        let mut b = buffers(&mut memory, &[(4, 8, false), (8, 8, true), (20, 4, false)]);
        b.write(1, 0, 5, 1).unwrap();
        assert_eq!(b.read(0, 4, 1), Ok(5));
        assert!(b.read(0, 4, 2).is_err());
        assert!(b.list[2].shadow.is_none());
    }

    #[test]
    fn local_elements_remember_lanes_between_barriers() {
        let mut l = Locals::new([4, 2].into_iter(), true);
        l.begin();
        assert!(l.read(1, 0, 0).unwrap_err().contains("before it is written"));
        l.write(1, 0, 9, 0).unwrap();
        assert_eq!(l.read(1, 0, 0), Ok(9));
        assert!(l.read(1, 0, 1).unwrap_err().contains("lane 0 since"));
        assert!(l.write(1, 0, 9, 1).is_err());
        l.barrier();
        assert_eq!((l.read(1, 0, 1), l.read(1, 0, 0)), (Ok(9), Ok(9)));
        assert!(l.write(1, 0, 1, 0).unwrap_err().contains("was read"));
        assert!(l.write(0, 4, 1, 0).unwrap_err().contains("outside l0"));
        l.begin();
        assert!(l.read(1, 0, 0).is_err(), "another block");
    }
}
