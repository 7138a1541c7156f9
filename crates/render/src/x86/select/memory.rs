//! Loads and stores, with gates and sites.
//!
//! A lane whose gate is false touches no memory: a scalar gate is a branch, a vector of gates a mask where the machine
//! has masked moves of that width, and a branch for each lane elsewhere.

use super::Select;
use super::build::r;
use super::control::Key;
use super::strided::rows;
use super::tile::is_tile;
use super::types::{Val, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::walk::register;
use crate::x86::program::{Base, Class, Cond, Def, Kind, Mem, Opd, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::DType;
use frit_abi::target::Isa;
use frit_uop::{Arg, UOp};
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};
use std::num::NonZeroU8;

/// Masked moves of AVX-512 by the size of an element: from and to memory.
fn masked(elem: usize) -> (Row, Row) {
    match elem {
        1 => (t::MOVDQU8, t::MOVDQU8_TO),
        2 => (t::MOVDQU16, t::MOVDQU16_TO),
        4 => (t::MOVDQU32, t::MOVDQU32_TO),
        _ => (t::MOVDQU64, t::MOVDQU64_TO),
    }
}

impl Select<'_> {
    /// A load; `None` where its user makes it.
    pub fn load(&mut self, n: &UOp) -> Result<Option<Val>, Error> {
        if let Some(d) = register(n) {
            return self.load_variable(n, &d.clone()).map(Some);
        }
        let (d, lanes) = (n.dtype, n.lanes());
        if is_tile(lanes) {
            return self.load_tile(n).map(Some);
        }
        self.check_lanes(n, lanes)?;
        if n.src[0].src.get(1).is_some_and(|i| i.lanes() > 1) {
            return self.gather(n).map(Some);
        }
        if let Some(rows) = rows(&n.src[0]) {
            return self.load_strided(n, rows).map(Some);
        }
        let m = self.address(&n.src[0])?;
        if n.src.len() > 1 {
            return self.load_gated(n, m).map(Some);
        }
        if self.uses.is_broadcast(n) {
            if self.uses.is_folded(n) {
                self.deferred.insert(n.clone(), smallvec![Opd::Splat(m)]);
                return Ok(None);
            }
            let size = Size::of_bytes(self.target.vector_bytes);
            let row = if d.size() == 8 { t::PBROADCASTQ } else { t::PBROADCASTD };
            let reg = self.v1(row, size, Opd::Mem(m));
            self.can_be_loaded_again(n, reg);
            let at = self.at;
            for size in [Size::X, Size::Y, Size::Z] {
                self.blocks[at].known.insert(Key::Splat(n.clone(), d, size), reg);
            }
            return Ok(None);
        }
        if lanes == 1 {
            if self.uses.is_folded(n) {
                self.deferred.insert(n.clone(), smallvec![Opd::Mem(m)]);
                return Ok(None);
            }
            let x = self.load_scalar(d, m, None);
            let x = if d == DType::Bool { self.not_zero(x) } else { x };
            return Ok(Some(Val::one(x, d, 1)));
        }
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let per = self.part_lanes(elem, lanes);
        let bytes = per * elem.size();
        if self.uses.is_folded(n) {
            let parts = (0..lanes / per).map(|k| Opd::Mem(m.plus((k * bytes) as i32))).collect();
            self.deferred.insert(n.clone(), parts);
            return Ok(None);
        }
        let mut parts: SmallVec<[Reg; 2]> = smallvec![];
        for k in 0..lanes / per {
            let reg = self.load_bytes(bytes, m.plus((k * bytes) as i32), None);
            if bytes >= 16 {
                self.can_be_loaded_again(n, reg);
            }
            parts.push(reg);
        }
        let v = Val { parts, elem, lanes };
        Ok(Some(if d == DType::Bool { self.truth_of_bytes(&v) } else { v }))
    }
    /// The register just loaded need not be kept where registers are few: its memory is.
    fn can_be_loaded_again(&mut self, n: &UOp, reg: Reg) {
        if self.uses.is_reloadable(n) && self.isa != Isa::Sse2 {
            self.program.regs[reg.0 as usize].rematerialise =
                self.blocks[self.at].insts.last().cloned().map(Box::new);
        }
    }
    /// 1 if a byte is not 0.
    fn not_zero(&mut self, x: Reg) -> Reg {
        self.test(x);
        self.set_if(Code::Setne_rm8)
    }
    /// The register variable's value, copied if it changes before the last use.
    fn load_variable(&mut self, n: &UOp, d: &UOp) -> Result<Val, Error> {
        let Some(v) = self.variables.get(d).cloned() else {
            return Err(self.malformed(format!("{d:?} is not declared")));
        };
        if self.uses.is_alias(n) {
            return Ok(v);
        }
        let (class, size) = {
            let info = &self.program.regs[v.parts[0].0 as usize];
            (info.class, info.size)
        };
        let parts: SmallVec<[Reg; 2]> = v.parts.iter().map(|_| self.program.reg(class, size)).collect();
        for (to, from) in parts.iter().zip(&v.parts) {
            if class == Class::Tile {
                self.copy_tile(*to, *from);
                continue;
            }
            self.copy(*to, *from, size);
        }
        Ok(Val { parts, ..v })
    }

    /// Say in the status word that an access missed, unless `gate` holds. Gives the gate as bits.
    fn report_miss(&mut self, n: &UOp, gate: &UOp) -> Result<(), Error> {
        let Arg::Site(site) = n.arg else { return Ok(()) };
        let v = self.operand(gate)?;
        let skip = self.new_label();
        if v.lanes == 1 {
            self.test(v.parts[0]);
            self.jump(Cond::NotEqual, skip);
        } else if v.elem == DType::Bool {
            let bits = self.mask_bits(v.parts[0]);
            let all = self.int_const(super::lanes::all_lanes(v.lanes) as i64);
            self.compare(bits, all, Size::Q);
            self.jump(Cond::Equal, skip);
        } else {
            // all lanes together: the number of those that are missed
            let mut all: Option<Reg> = None;
            for k in 0..v.lanes {
                let bit = self.lane_of(&v, k, DType::Bool);
                all = Some(match all {
                    None => bit,
                    Some(a) => {
                        let a = self.copy_int(a);
                        self.g2(Code::And_r32_rm32, a, r(bit, Size::D));
                        a
                    }
                });
            }
            if let Some(a) = all {
                self.test(a);
            }
            self.jump(Cond::NotEqual, skip);
        }
        let number = self.int_const(site as i64 + 1);
        let status = Mem { base: Base::Reg(self.status), index: None, disp: 0 };
        self.store_int(4, status, number);
        self.label(skip);
        Ok(())
    }

    fn load_gated(&mut self, n: &UOp, m: Mem) -> Result<Val, Error> {
        let (Some(alt), Some(gate)) = (n.src.get(1), n.gate()) else {
            return Err(self.malformed(format!("{n:?} has an alternative and no gate")));
        };
        let (d, lanes) = (n.dtype, n.lanes());
        self.report_miss(n, gate)?;
        let elem = if d == DType::Bool && lanes > 1 { DType::I8 } else { d };
        if lanes == 1 {
            let (g, a) = (self.scalar_operand(gate)?, self.scalar_operand(alt)?);
            let dst = if is_real(d) { self.vec(Size::X) } else { self.int() };
            self.copy(dst, a, if is_real(d) { Size::X } else { Size::Q });
            let skip = self.new_label();
            self.test(g);
            self.jump(Cond::Equal, skip);
            self.load_scalar(d, m, Some(dst));
            if d == DType::Bool {
                let x = self.not_zero(dst);
                self.copy(dst, x, Size::Q);
            }
            self.label(skip);
            return Ok(Val::one(dst, d, 1));
        }
        let a = self.alternative(alt, d, elem, lanes)?;
        let per = self.part_lanes(elem, lanes);
        let bytes = per * elem.size();
        let at = |k: usize| m.plus((k * bytes) as i32);
        let mut parts = SmallVec::new();
        let is_masked = match self.isa {
            Isa::Avx512 => true,
            Isa::Avx2 => elem.size() >= 4 && bytes >= 16,
            _ => false,
        };
        if gate.lanes() == 1 {
            let g = self.scalar_operand(gate)?;
            for &x in &a.parts {
                let dst = self.vec(a.size());
                self.copy(dst, x, a.size());
                parts.push(dst);
            }
            let skip = self.new_label();
            self.test(g);
            self.jump(Cond::Equal, skip);
            for (k, &dst) in parts.iter().enumerate() {
                self.load_bytes(bytes, at(k), Some(dst));
            }
            self.label(skip);
        } else if is_masked {
            let g = self.operand(gate)?;
            let is_zero = alt.as_scalar().is_some_and(|s| s.to_bits(alt.dtype) == 0);
            for k in 0..a.parts.len() {
                parts.push(self.load_masked(&g, k, elem, per, at(k), (!is_zero).then_some(a.parts[k]))?);
            }
        } else {
            let slot = self.put_in_frame(&a);
            let g = self.operand(gate)?;
            for k in 0..lanes {
                let bit = self.lane_of(&g, k, DType::Bool);
                let skip = self.new_label();
                self.test(bit);
                self.jump(Cond::Equal, skip);
                let offset = (k * elem.size()) as i32;
                let x = self.load_scalar(elem, m.plus(offset), None);
                self.store_scalar(elem, slot.plus(offset), x);
                self.label(skip);
            }
            let v = self.take_from_frame(slot, elem, lanes);
            return Ok(if d == DType::Bool { self.truth_of_bytes(&v) } else { v });
        }
        let v = Val { parts, elem, lanes };
        Ok(if d == DType::Bool { self.truth_of_bytes(&v) } else { v })
    }
    /// What is read where the gate is false; truth values as bytes.
    pub fn alternative(&mut self, alt: &UOp, d: DType, elem: DType, lanes: usize) -> Result<Val, Error> {
        if d == DType::Bool {
            if self.isa != Isa::Avx512 {
                return self.vector_operand(alt, elem, lanes);
            }
            let k = self.vector_operand(alt, DType::Bool, lanes)?;
            return Ok(self.bytes_of_truth(&k));
        }
        self.vector_operand(alt, elem, lanes)
    }
    /// One part under a mask; other lanes from `alt`, zero without.
    fn load_masked(
        &mut self,
        gate: &Val,
        k: usize,
        elem: DType,
        per: usize,
        m: Mem,
        alt: Option<Reg>,
    ) -> Result<Reg, Error> {
        let size = Size::of_bytes(per * elem.size());
        if self.isa == Isa::Avx512 {
            let mask = self.mask_part(gate, k, per);
            let dst = self.vec(size);
            let def = match alt {
                Some(a) => {
                    self.copy(dst, a, size);
                    Def::Modify
                }
                None => Def::Write,
            };
            let row = masked(elem.size()).0;
            let inst = self.emit(Kind::Row(row, size), def, smallvec![r(dst, size), Opd::Mem(m)]);
            inst.mask = Some((mask, alt.is_none()));
            return Ok(dst);
        }
        let g = self.mask_as(gate, super::mask::mask_elem(elem))?.parts[k];
        let row = if elem.size() == 8 { t::PMASKMOVQ } else { t::PMASKMOVD };
        let dst = self.vec(size);
        self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(g, size), Opd::Mem(m)]);
        Ok(match alt {
            Some(a) => self.blend(elem, size, g, dst, a),
            None => dst,
        })
    }

    /// Lanes from places of their own.
    fn gather(&mut self, n: &UOp) -> Result<Val, Error> {
        let (d, lanes) = (n.dtype, n.lanes());
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let (alt, gate) = (n.src.get(1), n.gate());
        if let Some(g) = gate {
            self.report_miss(n, g)?;
        }
        let initial = match alt {
            Some(a) => self.alternative(a, d, elem, lanes)?,
            None => {
                let per = self.part_lanes(elem, lanes);
                let zero = self.zero(Size::of_bytes(per * elem.size()));
                Val { parts: smallvec![zero; lanes / per], elem, lanes }
            }
        };
        let slot = self.put_in_frame(&initial);
        for k in 0..lanes {
            let m = self.lane_address(&n.src[0], k)?;
            let skip = self.gate_lane(gate, k)?;
            let x = self.load_scalar(elem, m, None);
            self.store_scalar(elem, slot.plus((k * elem.size()) as i32), x);
            self.label_if(skip);
        }
        let v = self.take_from_frame(slot, elem, lanes);
        Ok(if d == DType::Bool { self.truth_of_bytes(&v) } else { v })
    }
    /// The address of one lane of an `Index` with a vector of indices.
    fn lane_address(&mut self, index: &UOp, k: usize) -> Result<Mem, Error> {
        let base = self.address(&UOp::new(
            index.op,
            index.dtype,
            [index.src[0].clone(), UOp::int(0, DType::I32)],
            Arg::None,
        ))?;
        let idx = &index.src[1];
        let v = self.operand(idx)?;
        let x = self.lane_of(&v, k, idx.dtype);
        let wide = if idx.dtype.size() == 8 {
            x
        } else {
            let dst = self.int();
            self.emit(
                Kind::Plain(Code::Movsxd_r64_rm32),
                Def::Write,
                smallvec![r(dst, Size::Q), r(x, Size::D)],
            );
            dst
        };
        let scale = NonZeroU8::new(index.dtype.size() as u8);
        Ok(Mem { index: scale.map(|s| (wide, s)), ..base })
    }
    /// Jump over what follows if a lane's gate is false.
    pub fn gate_lane(&mut self, gate: Option<&UOp>, k: usize) -> Result<Option<u32>, Error> {
        let Some(g) = gate else { return Ok(None) };
        let g = self.operand(g)?;
        let bit = self.lane_of(&g, k, DType::Bool);
        let skip = self.new_label();
        self.test(bit);
        self.jump(Cond::Equal, skip);
        Ok(Some(skip))
    }
    pub fn label_if(&mut self, label: Option<u32>) {
        if let Some(l) = label {
            self.label(l);
        }
    }

    /// Ask for the line that is `ahead` bytes after an address.
    pub fn prefetch(&mut self, at: &UOp, ahead: i32) -> Result<(), Error> {
        let m = self.address(at)?.plus(ahead);
        self.emit(Kind::Plain(Code::Prefetcht0_m8), Def::Nothing, smallvec![Opd::Mem(m)]);
        Ok(())
    }

    /// A store.
    pub fn store(&mut self, n: &UOp) -> Result<(), Error> {
        let value = n.src[1].clone();
        if let Some(d) = register(n) {
            return self.store_variable(&value, &d.clone());
        }
        let d = n.src[0].dtype;
        let lanes = n.src[0].lanes().max(value.lanes());
        if is_tile(lanes) {
            return self.store_tile(n);
        }
        self.check_lanes(n, lanes)?;
        let gate = n.gate().cloned();
        if let Some(g) = &gate {
            self.report_miss(n, g)?;
        }
        if n.src[0].src.get(1).is_some_and(|i| i.lanes() > 1) {
            return self.scatter(n, &value, gate.as_ref(), lanes);
        }
        let elem = if d == DType::Bool { DType::I8 } else { d };
        if let Some(rows) = rows(&n.src[0]) {
            let v = self.stored(&value, d, elem, lanes)?;
            return self.store_strided(n, rows, &v);
        }
        let m = self.address(&n.src[0])?;
        if lanes == 1 {
            let x = self.scalar_operand(&value)?;
            let skip = self.gate_lane(gate.as_ref(), 0)?;
            self.store_scalar(d, m, x);
            self.label_if(skip);
            return Ok(());
        }
        let v = self.stored(&value, d, elem, lanes)?;
        let per = v.per_part();
        let bytes = per * elem.size();
        let at = |k: usize| m.plus((k * bytes) as i32);
        match gate {
            Some(g) if g.lanes() > 1 => {
                let g = self.operand(&g)?;
                self.store_masked(&g, &v, elem, m)
            }
            gate => {
                let skip = self.gate_lane(gate.as_ref(), 0)?;
                for (k, &x) in v.parts.iter().enumerate() {
                    self.store_bytes(bytes, at(k), x);
                }
                self.label_if(skip);
                Ok(())
            }
        }
    }
    /// A value as memory has it: truth values are bytes, 0 or 1.
    fn stored(&mut self, value: &UOp, d: DType, elem: DType, lanes: usize) -> Result<Val, Error> {
        if d != DType::Bool {
            return self.vector_operand(value, elem, lanes);
        }
        let any = if self.isa == Isa::Avx512 { DType::Bool } else { DType::I8 };
        let v = self.vector_operand(value, any, lanes)?;
        Ok(self.bytes_of_truth(&v))
    }
    fn store_masked(&mut self, gate: &Val, v: &Val, elem: DType, m: Mem) -> Result<(), Error> {
        let per = v.per_part();
        let (bytes, size) = (per * elem.size(), v.size());
        let at = |k: usize| m.plus((k * bytes) as i32);
        match self.isa {
            Isa::Avx512 => {
                for (k, &x) in v.parts.iter().enumerate() {
                    let mask = self.mask_part(gate, k, per);
                    let row = masked(elem.size()).1;
                    let ops = smallvec![Opd::Mem(at(k)), r(x, size)];
                    self.emit(Kind::Row(row, size), Def::Nothing, ops).mask = Some((mask, false));
                }
            }
            Isa::Avx2 if elem.size() >= 4 && bytes >= 16 => {
                let g = self.mask_as(gate, super::mask::mask_elem(elem))?;
                let row = if elem.size() == 8 { t::PMASKMOVQ_TO } else { t::PMASKMOVD_TO };
                for (k, &x) in v.parts.iter().enumerate() {
                    let ops = smallvec![Opd::Mem(at(k)), r(g.parts[k], size), r(x, size)];
                    self.emit(Kind::Row(row, size), Def::Nothing, ops);
                }
            }
            _ => {
                let slot = self.put_in_frame(v);
                for k in 0..v.lanes {
                    let bit = self.lane_of(gate, k, DType::Bool);
                    let skip = self.new_label();
                    self.test(bit);
                    self.jump(Cond::Equal, skip);
                    let offset = (k * elem.size()) as i32;
                    let x = self.load_scalar(elem, slot.plus(offset), None);
                    self.store_scalar(elem, m.plus(offset), x);
                    self.label(skip);
                }
            }
        }
        Ok(())
    }
    fn scatter(&mut self, n: &UOp, value: &UOp, gate: Option<&UOp>, lanes: usize) -> Result<(), Error> {
        let d = n.src[0].dtype;
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let v = self.stored(value, d, elem, lanes)?;
        let slot = self.put_in_frame(&v);
        for k in 0..lanes {
            let m = self.lane_address(&n.src[0], k)?;
            let skip = self.gate_lane(gate, k)?;
            let x = self.load_scalar(elem, slot.plus((k * elem.size()) as i32), None);
            self.store_scalar(elem, m, x);
            self.label_if(skip);
        }
        Ok(())
    }
    fn store_variable(&mut self, value: &UOp, d: &UOp) -> Result<(), Error> {
        if self.uses.destination(value) == Some(d) {
            return Ok(()); // it was computed there
        }
        let Some(to) = self.variables.get(d).cloned() else {
            return Err(self.malformed(format!("{d:?} is not declared")));
        };
        if is_tile(to.lanes) {
            return self.store_tile_variable(value, &to);
        }
        let is_zero = value.as_scalar().is_some_and(|s| s.to_bits(value.dtype) == 0);
        if is_zero && (to.lanes > 1 || is_real(to.elem)) && to.elem != DType::Bool {
            for &p in &to.parts {
                self.emit(Kind::Zero, Def::Write, smallvec![r(p, to.size())]);
            }
            return Ok(());
        }
        let v =
            if to.lanes > 1 { self.vector_operand(value, to.elem, to.lanes)? } else { self.operand(value)? };
        self.move_to(value, v, &to).map(drop)
    }
    /// 1 if the flags say so, else 0.
    pub fn set_if(&mut self, code: Code) -> Reg {
        let (low, dst) = (self.int(), self.int());
        self.emit(Kind::Plain(code), Def::Write, smallvec![r(low, Size::B)]);
        let ops = smallvec![r(dst, Size::D), r(low, Size::B)];
        self.emit(Kind::Plain(Code::Movzx_r32_rm8), Def::Write, ops);
        dst
    }
}
