//! Lanes of two vectors in a new order: the instruction that does it, or a few.
//!
//! What is tried, in order: a copy, two registers side by side, neighbours interleaved within 16 bytes, chunks of 16 bytes
//! exchanged, two lanes of each within chunks, any lanes of two registers, bytes of every chunk; without any of these,
//! lane by lane through the frame.

use super::Select;
use super::build::{byte, r};
use super::types::Val;
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Kind, Reg, Size};
use crate::x86::table::{self as t, exchange};
use frit_abi::DType;
use frit_abi::target::Isa;
use frit_uop::{Arg, UOp};
use smallvec::{SmallVec, smallvec};

/// One register of the result: which lanes of two registers go to it, counted through both.
struct Part<'a> {
    from: &'a [usize],
    /// Lanes of each source register, and bytes of a lane.
    per: usize,
    bytes: usize,
    size: Size,
    x: Reg,
    y: Reg,
}

impl Part<'_> {
    fn chunk(&self) -> usize {
        (16 / self.bytes).min(self.per)
    }
    /// The same with the two registers exchanged.
    fn swapped(&self) -> Vec<usize> {
        self.from.iter().map(|&l| (l + self.per) % (2 * self.per)).collect()
    }
}

impl Select<'_> {
    /// A `Shuffle`.
    pub fn shuffle(&mut self, n: &UOp) -> Result<Val, Error> {
        let Arg::Axes(from) = &n.arg else { return Err(self.malformed(format!("{n:?}"))) };
        self.check_lanes(n, from.len())?;
        let (a, b) = (self.operand(&n.src[0])?, self.operand(&n.src[1])?);
        let table: Vec<usize> = from.iter().map(|&l| l as usize).collect();
        if n.dtype != DType::Bool {
            return Ok(self.shuffle_vals(&a, &b, &table));
        }
        if a.elem == DType::Bool {
            // bytes, with zeros beyond the lanes as masks have them
            let (x, y) = (self.bytes_of_truth(&a), self.bytes_of_truth(&b));
            let regs: Vec<Reg> = x.parts.iter().chain(&y.parts).copied().collect();
            let v = self.shuffle_bytes(&regs, x.per_part(), 1, x.size(), &table);
            return Ok(self.truth_of_bytes(&Val::one(v, DType::U8, table.len())));
        }
        let b = self.mask_as(&b, a.elem)?;
        Ok(self.shuffle_vals(&a, &b, &table))
    }

    fn shuffle_vals(&mut self, a: &Val, b: &Val, table: &[usize]) -> Val {
        let (elem, lanes) = (a.elem, table.len());
        let per = self.part_lanes(elem, lanes);
        let mut parts: SmallVec<[Reg; 2]> = smallvec![];
        for from in table.chunks(per) {
            match self.shuffle_part(a, b, from) {
                Some(reg) => parts.push(reg),
                None => return self.shuffle_in_frame(a, b, table),
            }
        }
        Val { parts, elem, lanes }
    }

    /// One register of the result.
    fn shuffle_part(&mut self, a: &Val, b: &Val, table: &[usize]) -> Option<Reg> {
        let (per, bytes, size) = (a.per_part(), a.elem.size(), a.size());
        let regs: Vec<Reg> = a.parts.iter().chain(&b.parts).copied().collect();
        let mut used: Vec<usize> = vec![];
        for l in table {
            if !used.contains(&(l / per)) {
                used.push(l / per);
            }
        }
        let in_row = table.windows(2).all(|w| w[1] == w[0] + 1);
        if let ([x, y], true) = (&used[..], table.len() == 2 * per && in_row) {
            return Some(self.join(regs[*x], regs[*y], per * bytes));
        }
        if let ([x], true) = (&used[..], in_row && table.len() < per) {
            return Some(self.cut(regs[*x], size, table[0] % per * bytes, table.len() * bytes));
        }
        if let (true, [x, ..]) = (used.len() <= 2 && table.len() == per, &used[..]) {
            let place = |l: &usize| l % per + if l / per == *x { 0 } else { per };
            let from: Vec<usize> = table.iter().map(place).collect();
            let y = *used.get(1).unwrap_or(x);
            let part = Part { from: &from, per, bytes, size, x: regs[*x], y: regs[y] };
            if let Some(reg) = self.shuffle_two(&part) {
                return Some(reg);
            }
        }
        (self.isa != Isa::Sse2).then(|| self.shuffle_bytes(&regs, per, bytes, size, table))
    }

    /// Bytes of a register from a place on.
    fn cut(&mut self, x: Reg, size: Size, at: usize, bytes: usize) -> Reg {
        if bytes == 32 {
            return if at == 0 { x } else { self.upper(x, 64) };
        }
        let x = self.chunk(x, size, at / 16);
        if at.is_multiple_of(16) { x } else { self.v1i(t::PSRLDQ, Size::X, x, (at % 16) as i64) }
    }

    /// Two registers, by one instruction or a few.
    fn shuffle_two(&mut self, p: &Part) -> Option<Reg> {
        if p.from.iter().enumerate().all(|(i, &l)| i == l) {
            let dst = self.vec(p.size);
            self.copy(dst, p.x, p.size);
            return Some(dst);
        }
        let swapped = p.swapped();
        let other = Part { from: &swapped, x: p.y, y: p.x, ..*p };
        let other = if p.x == p.y { None } else { Some(&other) };
        for p in [p].into_iter().chain(other) {
            let found = self.interleave(p).or_else(|| self.exchange(p)).or_else(|| self.pick_within(p));
            if found.is_some() {
                return found;
            }
        }
        self.pick_any(p)
    }

    /// Groups of lanes of both in turn, of the lower or the upper half of every chunk.
    fn interleave(&mut self, p: &Part) -> Option<Reg> {
        let (low, high) = (
            [t::PUNPCKLBW, t::PUNPCKLWD, t::PUNPCKLDQ, t::PUNPCKLQDQ],
            [t::PUNPCKHBW, t::PUNPCKHWD, t::PUNPCKHDQ, t::PUNPCKHQDQ],
        );
        let chunk = p.chunk();
        for (k, g) in [1, 2, 4, 8].into_iter().enumerate() {
            if g % p.bytes != 0 || g / p.bytes * 2 > chunk {
                continue;
            }
            let g = g / p.bytes;
            for upper in [0, 1] {
                let lane = |l: usize| {
                    let (base, k) = (l / chunk * chunk, l % chunk);
                    base + upper * chunk / 2 + k / g / 2 * g + k % g + k / g % 2 * p.per
                };
                if !p.from.iter().enumerate().all(|(l, &f)| f == lane(l)) {
                    continue;
                }
                let short = p.per * p.bytes;
                if short >= 16 || upper == 0 {
                    let row = if upper == 0 { low[k] } else { high[k] };
                    return Some(self.v2(row, p.size, p.x, p.y));
                }
                // a short vector's upper half is behind its lower one
                let both = self.v2(low[k], Size::X, p.x, p.y);
                return Some(self.v1i(t::PSRLDQ, Size::X, both, short as i64));
            }
        }
        None
    }

    /// Whole chunks of 16 bytes: of the first register in the lower half of the result, of the second in the upper.
    fn exchange(&mut self, p: &Part) -> Option<Reg> {
        let chunk = p.chunk();
        let count = p.per / chunk;
        if p.bytes * chunk != 16 || count < 2 {
            return None;
        }
        let whole = |c: &[usize]| c[0].is_multiple_of(chunk) && c.windows(2).all(|w| w[1] == w[0] + 1);
        let chunks: Option<Vec<usize>> =
            p.from.chunks(chunk).map(|c| whole(c).then(|| c[0] / chunk)).collect();
        let ids = chunks?;
        let dst = self.vec(p.size);
        let same = p.x == p.y;
        let halves = (0..count).all(|i| same || (ids[i] >= count) == (i >= count / 2));
        let (code, imm) = match (p.size, self.isa) {
            (Size::Y, Isa::Avx2) => (exchange::IN_Y, ids[0] | ids[1] << 4),
            (Size::Y, _) if halves => (exchange::IN_Y_WIDE, (ids[0] % 2) | ((ids[1] % 2) << 1)),
            (Size::Z, _) if halves => {
                (exchange::IN_Z, ids.iter().enumerate().map(|(i, id)| (id % 4) << (2 * i)).sum())
            }
            _ => return None,
        };
        let ops = smallvec![r(dst, p.size), r(p.x, p.size), r(p.y, p.size), byte(imm as i64)];
        self.emit(Kind::Plain(code), Def::Write, ops);
        Some(dst)
    }

    /// Within every chunk, half of the lanes from the first register, half from the second.
    fn pick_within(&mut self, p: &Part) -> Option<Reg> {
        let chunk = p.chunk();
        if p.bytes * chunk != 16 || p.bytes < 4 {
            return None;
        }
        // which lane of its chunk, if it comes from the register that it must come from
        let lane = |(l, &f): (usize, &usize)| {
            let second = l % chunk >= chunk / 2;
            let f = if second && p.x != p.y { f.checked_sub(p.per)? } else { f };
            (f / chunk == l / chunk && f < p.per).then_some(f % chunk)
        };
        let lanes: Vec<usize> = p.from.iter().enumerate().map(lane).collect::<Option<_>>()?;
        let (row, imm) = if p.bytes == 8 {
            (t::SHUFPD, lanes.iter().enumerate().map(|(i, l)| l << i).sum::<usize>())
        } else {
            if lanes.chunks(4).any(|c| c != &lanes[..4]) {
                return None;
            }
            (t::SHUFPS, lanes[..4].iter().enumerate().map(|(i, l)| l << (2 * i)).sum())
        };
        Some(self.v2i(row, p.size, p.x, p.y, imm as i64))
    }

    /// Any lanes of two registers.
    fn pick_any(&mut self, p: &Part) -> Option<Reg> {
        let row = match (self.isa, p.bytes) {
            (Isa::Avx512, 2) => t::PERMT2W,
            (Isa::Avx512, 4) => t::PERMT2D,
            (Isa::Avx512, 8) => t::PERMT2Q,
            (Isa::Avx2, 4 | 8) if p.size == Size::Y => return Some(self.pick_words(p)),
            _ => return None,
        };
        let mut table: Vec<u8> =
            p.from.iter().flat_map(|&l| (l as u64).to_le_bytes()[..p.bytes].to_vec()).collect();
        if p.size.bytes() / p.bytes != p.per {
            return None; // the second register's lanes would be counted elsewhere
        }
        table.resize(p.size.bytes(), 0);
        let idx = self.vec_const(&table);
        let dst = self.vec(p.size);
        self.copy(dst, p.x, p.size);
        self.emit(
            Kind::Row(row, p.size),
            Def::Modify,
            smallvec![r(dst, p.size), r(idx, p.size), r(p.y, p.size)],
        );
        Some(dst)
    }
    /// Any words of 32 bits of two registers of 32 bytes, by permuting each and choosing.
    fn pick_words(&mut self, p: &Part) -> Reg {
        let k = p.bytes / 4;
        let words: Vec<usize> = p.from.iter().flat_map(|&l| (0..k).map(move |i| l * k + i)).collect();
        let mut permuted = |x: Reg, from: usize| {
            let word = |w: &usize| (w.wrapping_sub(from) % 8) as u32;
            let table: Vec<u8> = words.iter().flat_map(|w| word(w).to_le_bytes()).collect();
            let idx = self.vec_const(&table);
            let dst = self.vec(Size::Y);
            let ops = smallvec![r(dst, Size::Y), r(idx, Size::Y), r(x, Size::Y)];
            self.emit(Kind::Plain(exchange::WORDS), Def::Write, ops);
            dst
        };
        let x = permuted(p.x, 0);
        let of_second: usize = words.iter().enumerate().map(|(i, w)| ((*w >= 8) as usize) << i).sum();
        if of_second == 0 {
            return x;
        }
        let y = permuted(p.y, 8);
        let dst = self.vec(Size::Y);
        let ops = smallvec![r(dst, Size::Y), r(x, Size::Y), r(y, Size::Y), byte(of_second as i64)];
        self.emit(Kind::Plain(exchange::CHOOSE_WORDS), Def::Write, ops);
        dst
    }

    /// Any lanes of any registers: bytes of every chunk they come from, put together.
    fn shuffle_bytes(&mut self, regs: &[Reg], per: usize, bytes: usize, size: Size, table: &[usize]) -> Reg {
        let mut chunks = vec![];
        for out in table.chunks((16 / bytes).min(table.len())) {
            let mut sources: Vec<((usize, usize), [u8; 16])> = vec![];
            for (i, l) in out.iter().enumerate() {
                let at = l % per * bytes;
                let key = (l / per, at / 16);
                let k = sources.iter().position(|s| s.0 == key).unwrap_or_else(|| {
                    sources.push((key, [0x80; 16]));
                    sources.len() - 1
                });
                for b in 0..bytes {
                    sources[k].1[i * bytes + b] = (at % 16 + b) as u8;
                }
            }
            let mut all: Option<Reg> = None;
            for ((reg, chunk), table) in sources {
                let x = self.chunk(regs[reg], size, chunk);
                let idx = self.vec_const(&table);
                let x = self.v2(t::PSHUFB, Size::X, x, idx);
                all = Some(all.map_or(x, |a| self.v2(t::POR, Size::X, a, x)));
            }
            chunks.extend(all);
        }
        self.join_all(chunks, 16)
    }

    /// Lane by lane.
    fn shuffle_in_frame(&mut self, a: &Val, b: &Val, table: &[usize]) -> Val {
        let (elem, lanes) = (a.elem, table.len());
        let slots = [self.put_in_frame(a), self.put_in_frame(b)];
        let out = self.program.slot((lanes * elem.size()).next_power_of_two().max(16));
        for (i, l) in table.iter().enumerate() {
            let from = slots[l / a.lanes].plus((l % a.lanes * elem.size()) as i32);
            let x = self.load_scalar(elem, from, None);
            self.store_scalar(elem, out.plus((i * elem.size()) as i32), x);
        }
        self.take_from_frame(out, elem, lanes)
    }
}
