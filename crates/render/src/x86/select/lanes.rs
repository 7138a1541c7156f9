//! Lanes: one scalar in all of them, many scalars side by side, one taken out, vectors cut and joined.

use super::Select;
use super::build::{byte, r};
use super::control::Key;
use super::types::{Val, int_size, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Kind, Mem, Reg, Size};
use crate::x86::table::{self as t, halves};
use frit_abi::DType;
use frit_abi::target::Isa;
use frit_uop::{Arg, Op, UOp};
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

impl Select<'_> {
    /// A source as a vector of `lanes` lanes of the element type `elem`.
    pub fn vector_operand(&mut self, n: &UOp, elem: DType, lanes: usize) -> Result<Val, Error> {
        if n.lanes() > 1 {
            let v = self.operand(n)?;
            return if n.dtype == DType::Bool { self.mask_as(&v, elem) } else { Ok(v) };
        }
        let per = self.part_lanes(elem, lanes);
        if n.dtype == DType::Bool && self.isa == Isa::Avx512 {
            return self.broadcast_mask(n, lanes);
        }
        let size = Size::of_bytes(per * elem.size());
        let reg = self.broadcast(n, elem, size)?;
        Ok(Val { parts: smallvec![reg; lanes / per], elem, lanes })
    }

    /// A scalar in every lane.
    pub fn broadcast(&mut self, n: &UOp, elem: DType, size: Size) -> Result<Reg, Error> {
        if let Some(c) = n.as_scalar() {
            let bits = match n.dtype {
                DType::Bool if elem != DType::Bool => 0u64.wrapping_sub(c.as_bool() as u64),
                d => c.to_bits(d),
            };
            return Ok(self.bits(bits, elem.size(), size));
        }
        let key = Key::Splat(n.clone(), elem, size);
        if let Some(reg) = self.known(&key) {
            return Ok(reg);
        }
        let x = self.scalar_operand(n)?;
        let depth = self.depth_of(n);
        let reg = self.in_block(depth, |s| {
            let x = match n.dtype {
                DType::Bool if elem != DType::Bool => s.negated(x),
                _ => x,
            };
            s.broadcast_reg(x, elem, size)
        });
        self.blocks[depth].known.insert(key, reg);
        Ok(reg)
    }
    fn negated(&mut self, x: Reg) -> Reg {
        let y = self.copy_int(x);
        self.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(y, Size::Q)]);
        y
    }
    /// A scalar register in every lane.
    pub fn broadcast_reg(&mut self, x: Reg, elem: DType, size: Size) -> Reg {
        let first = match (is_real(elem), elem.size()) {
            (true, _) => x,
            (_, 8) => self.int_to_lane(x, Size::Q),
            (_, 1) if self.isa == Isa::Sse2 => {
                let low = self.int();
                let ops = smallvec![r(low, Size::D), r(x, Size::B)];
                self.emit(Kind::Plain(Code::Movzx_r32_rm8), Def::Write, ops);
                let all = self.times(low, Size::D, 0x0101_0101);
                self.int_to_lane(all, Size::D)
            }
            _ => self.int_to_lane(x, Size::D),
        };
        if self.isa != Isa::Sse2 {
            let row = [t::PBROADCASTB, t::PBROADCASTW, t::PBROADCASTD, t::PBROADCASTQ];
            let row = row[elem.size().trailing_zeros() as usize];
            return self.v1(row, size, r(first, Size::X));
        }
        match elem.size() {
            8 => self.v2(t::PUNPCKLQDQ, size, first, first),
            2 => {
                let pairs = self.v1i(t::PSHUFLW, size, first, 0);
                self.v1i(t::PSHUFD, size, pairs, 0)
            }
            _ => self.v1i(t::PSHUFD, size, first, 0),
        }
    }
    /// A scalar truth value as a mask register.
    fn broadcast_mask(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        if let Some(c) = n.as_scalar() {
            let bits = if c.as_bool() { all_lanes(lanes) } else { 0 };
            return Ok(Val::one(self.mask_const(bits), DType::Bool, lanes));
        }
        let x = self.scalar_operand(n)?;
        let y = self.negated(x);
        let y = self.keep_bits(y, lanes);
        Ok(Val::one(self.mask_of(y), DType::Bool, lanes))
    }
    /// Only the low bits of a general register.
    pub fn keep_bits(&mut self, x: Reg, lanes: usize) -> Reg {
        match lanes {
            64 => x,
            32 => {
                let y = self.int();
                self.emit(
                    Kind::Plain(Code::Mov_r32_rm32),
                    Def::Write,
                    smallvec![r(y, Size::D), r(x, Size::D)],
                );
                y
            }
            _ => {
                let y = self.copy_int(x);
                self.g2i(super::build::Arith::And, y, Size::D, all_lanes(lanes) as i64);
                y
            }
        }
    }
    /// A general register as a mask.
    pub fn mask_of(&mut self, x: Reg) -> Reg {
        let k = self.mask();
        self.emit(Kind::Plain(Code::VEX_Kmovq_kr_r64), Def::Write, smallvec![r(k, Size::K), r(x, Size::Q)]);
        k
    }
    /// A mask as a general register.
    pub fn mask_bits(&mut self, k: Reg) -> Reg {
        let x = self.int();
        self.emit(Kind::Plain(Code::VEX_Kmovq_r64_kr), Def::Write, smallvec![r(x, Size::Q), r(k, Size::K)]);
        x
    }
    /// A mask with these bits.
    pub fn mask_const(&mut self, bits: u64) -> Reg {
        let x = self.int_const(bits as i64);
        self.mask_of(x)
    }

    /// Scalars side by side.
    pub fn stack(&mut self, n: &UOp) -> Result<Val, Error> {
        let lanes = n.src.len();
        self.check_lanes(n, lanes)?;
        if n.src.iter().any(|s| s.lanes() > 1) {
            return Err(self.malformed(format!("a vector among the lanes of {n:?}")));
        }
        if lanes == 1 {
            return self.operand(&n.src[0]);
        }
        if n.dtype == DType::Bool && self.isa == Isa::Avx512 {
            return self.stack_mask(n, lanes);
        }
        let elem = self.stored_elem(n.dtype, lanes);
        let per = self.part_lanes(elem, lanes);
        let mut parts = SmallVec::new();
        for chunk in n.src.chunks(per) {
            parts.push(self.stack_part(chunk, elem)?);
        }
        Ok(Val { parts, elem, lanes })
    }
    fn stack_part(&mut self, src: &[UOp], elem: DType) -> Result<Reg, Error> {
        let bytes = src.len() * elem.size();
        if src.iter().all(|s| s == &src[0]) {
            return self.broadcast(&src[0], elem, Size::of_bytes(bytes));
        }
        if src.iter().all(|s| s.op == Op::Const) {
            let mut all = vec![];
            for s in src {
                let Some(c) = s.as_scalar() else { return Err(self.malformed(format!("{s:?}"))) };
                let bits = match s.dtype {
                    DType::Bool => 0u64.wrapping_sub(c.as_bool() as u64),
                    d => c.to_bits(d),
                };
                all.extend(&bits.to_le_bytes()[..elem.size()]);
            }
            all.resize(all.len().max(16), 0);
            return Ok(self.vec_const(&all));
        }
        let mut lanes = vec![];
        for s in src {
            let mut x = self.scalar_operand(s)?;
            if s.dtype == DType::Bool && elem != DType::Bool {
                x = self.negated(x);
            }
            lanes.push(match (is_real(elem), elem.size()) {
                (true, _) => x,
                (_, 8) => self.int_to_lane(x, Size::Q),
                _ => self.int_to_lane(x, Size::D),
            });
        }
        Ok(self.join_all(lanes, elem.size()))
    }
    /// Join registers that each hold `bytes` bytes, two by two.
    pub fn join_all(&mut self, mut regs: Vec<Reg>, mut bytes: usize) -> Reg {
        while regs.len() > 1 {
            regs = regs
                .chunks(2)
                .map(|c| if c.len() == 2 { self.join(c[0], c[1], bytes) } else { c[0] })
                .collect();
            bytes *= 2;
        }
        regs[0]
    }
    /// The first `bytes` bytes of two registers in one.
    pub fn join(&mut self, low: Reg, high: Reg, bytes: usize) -> Reg {
        let row = match bytes {
            1 => t::PUNPCKLBW,
            2 => t::PUNPCKLWD,
            4 => t::PUNPCKLDQ,
            8 => t::PUNPCKLQDQ,
            16 => {
                let dst = self.vec(Size::Y);
                let ops = smallvec![r(dst, Size::Y), r(low, Size::Y), r(high, Size::X), byte(1)];
                self.emit(Kind::Either(halves::X_IN_Y.0, halves::X_IN_Y.1), Def::Write, ops);
                return dst;
            }
            _ => {
                let dst = self.vec(Size::Z);
                let ops = smallvec![r(dst, Size::Z), r(low, Size::Z), r(high, Size::Y), byte(1)];
                self.emit(Kind::Plain(halves::Y_IN_Z), Def::Write, ops);
                return dst;
            }
        };
        self.v2(row, Size::X, low, high)
    }
    fn stack_mask(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        if n.src.iter().all(|s| s == &n.src[0]) {
            return self.broadcast_mask(&n.src[0], lanes);
        }
        let mut constant = 0u64;
        let mut bits: Option<Reg> = None;
        for (i, s) in n.src.iter().enumerate() {
            if let Some(c) = s.as_scalar() {
                constant |= (c.as_bool() as u64) << i;
                continue;
            }
            let x = self.scalar_operand(s)?;
            let x = self.copy_int(x);
            if i > 0 {
                self.shift_int(Code::Shl_rm64_imm8, x, Size::Q, i as i64);
            }
            match bits {
                Some(b) => self.g2(Code::Or_r64_rm64, b, r(x, Size::Q)),
                None => bits = Some(x),
            }
        }
        let k = match bits {
            None => self.mask_const(constant),
            Some(b) => {
                if constant != 0 {
                    let c = self.int_const(constant as i64);
                    self.g2(Code::Or_r64_rm64, b, r(c, Size::Q));
                }
                self.mask_of(b)
            }
        };
        Ok(Val::one(k, DType::Bool, lanes))
    }

    /// One lane of a vector.
    pub fn lane(&mut self, n: &UOp) -> Result<Val, Error> {
        let Arg::Lane(k) = n.arg else { return Err(self.malformed(format!("{n:?}"))) };
        let v = self.operand(&n.src[0])?;
        let reg = self.lane_of(&v, k as usize, n.dtype);
        Ok(Val::one(reg, n.dtype, 1))
    }
    /// Lane `k` as a scalar of a type (a truth value is 0 or 1).
    pub fn lane_of(&mut self, v: &Val, k: usize, d: DType) -> Reg {
        if v.lanes == 1 {
            return v.parts[0];
        }
        if v.elem == DType::Bool && self.isa == Isa::Avx512 && d == DType::Bool {
            let x = self.mask_bits(v.parts[0]);
            if k > 0 {
                self.shift_int(Code::Shr_rm64_imm8, x, Size::Q, k as i64);
            }
            self.g2i(super::build::Arith::And, x, Size::D, 1);
            return x;
        }
        let (part, k) = (v.parts[k / v.per_part()], k % v.per_part());
        let bytes = v.elem.size();
        let x = self.chunk(part, v.size(), k * bytes / 16);
        let k = k % (16 / bytes);
        if is_real(v.elem) || bytes >= 4 {
            let x = match (bytes, k) {
                (_, 0) => x,
                (8, _) => self.v1i(t::PSHUFD, Size::X, x, 0b11_10),
                (_, k) => self.v1i(t::PSHUFD, Size::X, x, k as i64),
            };
            if is_real(v.elem) {
                return x;
            }
            let g = self.lane_to_int(x, int_size(v.elem));
            return self.truth(g, d);
        }
        let word = (k * bytes / 2) as i64;
        let g = self.int();
        let ops = smallvec![r(g, Size::D), r(x, Size::X), byte(word)];
        self.emit(Kind::Row(t::PEXTRW, Size::X), Def::Write, ops);
        if bytes == 1 && k % 2 == 1 {
            self.shift_int(Code::Shr_rm32_imm8, g, Size::D, 8);
        }
        let g = self.normalise(g, v.elem);
        self.truth(g, d)
    }
    fn truth(&mut self, g: Reg, d: DType) -> Reg {
        if d == DType::Bool {
            self.g2i(super::build::Arith::And, g, Size::D, 1);
        }
        g
    }
    /// 16 bytes of a vector.
    pub fn chunk(&mut self, x: Reg, size: Size, k: usize) -> Reg {
        if k == 0 {
            return x;
        }
        let dst = self.vec(Size::X);
        let ops = smallvec![r(dst, Size::X), r(x, size), byte(k as i64)];
        let kind = match size {
            Size::Z => Kind::Plain(halves::X_OF_Z),
            _ => Kind::Either(halves::X_OF_Y.0, halves::X_OF_Y.1),
        };
        self.emit(kind, Def::Write, ops);
        dst
    }
    /// The same lanes in parts of `per` lanes.
    pub fn repart(&mut self, v: &Val, per: usize) -> Val {
        let mut v = v.clone();
        while v.per_part() > per {
            let bytes = v.per_part() * v.elem.size();
            let parts: Vec<Reg> = v.parts.iter().copied().collect();
            v.parts = parts.iter().flat_map(|&p| [p, self.upper(p, bytes)]).collect();
        }
        while v.per_part() < per {
            let bytes = v.per_part() * v.elem.size();
            let parts: Vec<Reg> = v.parts.iter().copied().collect();
            v.parts = parts.chunks(2).map(|c| self.join(c[0], c[1], bytes)).collect();
        }
        v
    }
    /// The upper half of a register that holds so many bytes.
    pub fn upper(&mut self, x: Reg, bytes: usize) -> Reg {
        match bytes {
            64 => {
                let dst = self.vec(Size::Y);
                let ops = smallvec![r(dst, Size::Y), r(x, Size::Z), byte(1)];
                self.emit(Kind::Plain(halves::Y_OF_Z), Def::Write, ops);
                dst
            }
            32 => self.chunk(x, Size::Y, 1),
            _ => self.v1i(t::PSRLDQ, Size::X, x, bytes as i64 / 2),
        }
    }

    /// A vector as memory in the frame, lane after lane.
    pub fn put_in_frame(&mut self, v: &Val) -> Mem {
        let (bytes, per) = (v.lanes * v.elem.size(), v.per_part() * v.elem.size());
        let slot = self.program.slot(bytes.next_power_of_two().max(16));
        for (i, &p) in v.parts.iter().enumerate() {
            self.store_bytes(per, slot.plus((i * per) as i32), p);
        }
        slot
    }
    /// And back.
    pub fn take_from_frame(&mut self, slot: Mem, elem: DType, lanes: usize) -> Val {
        let per = self.part_lanes(elem, lanes);
        let bytes = per * elem.size();
        let parts =
            (0..lanes / per).map(|i| self.load_bytes(bytes, slot.plus((i * bytes) as i32), None)).collect();
        Val { parts, elem, lanes }
    }
    /// A scalar from memory.
    pub fn load_scalar(&mut self, d: DType, m: Mem, to: Option<Reg>) -> Reg {
        if is_real(d) {
            return self.load_bytes(d.size(), m, to);
        }
        let dst = to.unwrap_or_else(|| self.int());
        self.load_int_to(dst, d.size(), m, super::address::is_signed(d));
        dst
    }
    /// A scalar to memory.
    pub fn store_scalar(&mut self, d: DType, m: Mem, x: Reg) {
        if is_real(d) { self.store_bytes(d.size(), m, x) } else { self.store_int(d.size(), m, x) }
    }
    /// Narrow integers extended to 32 bits again after arithmetic.
    pub fn normalise(&mut self, x: Reg, d: DType) -> Reg {
        let code = match d {
            DType::I8 => Code::Movsx_r32_rm8,
            DType::I16 => Code::Movsx_r32_rm16,
            DType::U8 | DType::Bool => Code::Movzx_r32_rm8,
            DType::U16 => Code::Movzx_r32_rm16,
            d if d.size() == 1 => Code::Movzx_r32_rm8,
            d if d.size() == 2 => Code::Movzx_r32_rm16,
            _ => return x,
        };
        let dst = self.int();
        let size = if d.size() == 1 { Size::B } else { Size::W };
        self.emit(Kind::Plain(code), Def::Write, smallvec![r(dst, Size::D), r(x, size)]);
        dst
    }
}

/// A bit for each lane.
pub fn all_lanes(lanes: usize) -> u64 {
    u64::MAX >> (64 - lanes)
}
