//! Lanes a constant distance apart in memory: a move for each, into and out of the chunks of a vector.
//!
//! ```text
//! Load(p[i] 4x1 by 9)   ->   movss x, [p + i*4];  pinsrd x, [p + i*4 + 36], 1;  …
//! ```

use super::build::{byte, r};
use super::ir::{Cond, Def, Kind, Mem, Opd, Reg, Size};
use super::select::{Select, Val};
use super::table::{self as t, Row};
use crate::Error;
use frit_abi::DType;
use frit_abi::target::Isa;
use frit_uop::{Arg, UOp};
use smallvec::{SmallVec, smallvec};

/// Elements from one lane to the next of an address whose lanes are apart.
pub fn stride(address: &UOp) -> Option<i64> {
    if let Arg::Tile { lanes: 1, stride, .. } = address.arg { Some(stride) } else { None }
}

/// What moves an element of so many bytes into a lane, and out of one to memory.
fn moves(bytes: usize) -> (Row, Row) {
    match bytes {
        1 => (t::PINSRB, t::PEXTRB_TO),
        2 => (t::PINSRW, t::PEXTRW_TO),
        4 => (t::PINSRD, t::PEXTRD_TO),
        _ => (t::PINSRQ, t::PEXTRQ_TO),
    }
}

impl Select<'_> {
    /// Where each lane is.
    fn places(&mut self, address: &UOp, stride: i64, lanes: usize) -> Result<Vec<Mem>, Error> {
        let first = self.address(address)?;
        let step = stride.checked_mul(address.dtype.size() as i64);
        let place = |k: usize| {
            let disp = step?.checked_mul(k as i64)?.checked_add(first.disp as i64)?;
            Some(Mem { disp: i32::try_from(disp).ok()?, ..first })
        };
        let all: Option<Vec<Mem>> = (0..lanes).map(place).collect();
        all.ok_or_else(|| self.malformed(format!("the lanes at {address:?} are too far apart")))
    }

    /// A load, under one gate if there is one.
    pub fn load_strided(&mut self, n: &UOp, stride: i64) -> Result<Val, Error> {
        let (d, lanes) = (n.dtype, n.lanes());
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let places = self.places(&n.src[0], stride, lanes)?;
        let per = self.part_lanes(elem, lanes);
        let (Some(alt), Some(gate)) = (n.src.get(1), n.gate()) else {
            let parts = places.chunks(per).map(|p| self.gather_part(p, elem)).collect();
            return Ok(self.as_loaded(Val { parts, elem, lanes }, d));
        };
        if gate.lanes() > 1 {
            return Err(self.malformed(format!("{n:?} has a gate for each of its lanes")));
        }
        let (g, a) = (self.scalar_operand(gate)?, self.alternative(alt, d, elem, lanes)?);
        let (mut parts, skip): (SmallVec<[Reg; 2]>, u32) = (smallvec![], self.new_label());
        for &x in &a.parts {
            let dst = self.vec(a.size());
            self.copy(dst, x, a.size());
            parts.push(dst);
        }
        self.test(g);
        self.jump(Cond::Equal, skip);
        for (&dst, places) in parts.iter().zip(places.chunks(per)) {
            let x = self.gather_part(places, elem);
            self.copy(dst, x, a.size());
        }
        self.label(skip);
        Ok(self.as_loaded(Val { parts, elem, lanes }, d))
    }
    fn as_loaded(&mut self, v: Val, d: DType) -> Val {
        if d == DType::Bool { self.truth_of_bytes(&v) } else { v }
    }
    /// The lanes of one register.
    fn gather_part(&mut self, places: &[Mem], elem: DType) -> Reg {
        let bytes = elem.size();
        if self.isa == Isa::Sse2 {
            let lanes = places.iter().map(|m| self.load_bytes(bytes, *m, None)).collect();
            return self.join_all(lanes, bytes);
        }
        let insert = moves(bytes).0;
        let chunk = |s: &mut Self, places: &[Mem]| {
            let mut x = s.load_bytes(bytes, places[0], None);
            for (k, m) in places.iter().enumerate().skip(1) {
                let dst = s.vec(Size::X);
                let ops = smallvec![r(dst, Size::X), r(x, Size::X), Opd::Mem(*m), byte(k as i64)];
                s.emit(Kind::Row(insert, Size::X), Def::Write, ops);
                x = dst;
            }
            x
        };
        let chunks: Vec<Reg> = places.chunks(16 / bytes).map(|p| chunk(self, p)).collect();
        self.join_all(chunks, 16)
    }

    /// A store of `v`, which is as memory has it, under one gate if there is one.
    pub fn store_strided(&mut self, n: &UOp, stride: i64, v: &Val) -> Result<(), Error> {
        if n.gate().is_some_and(|g| g.lanes() > 1) {
            return Err(self.malformed(format!("{n:?} has a gate for each of its lanes")));
        }
        // before the branch: what addresses need is remembered for those that follow
        let places = self.places(&n.src[0], stride, v.lanes)?;
        let skip = self.gate_lane(n.gate(), 0)?;
        for (part, places) in places.chunks(v.per_part()).enumerate() {
            self.scatter_part(v, part, places);
        }
        self.label_if(skip);
        Ok(())
    }
    /// The lanes of one register.
    fn scatter_part(&mut self, v: &Val, part: usize, places: &[Mem]) {
        let bytes = v.elem.size();
        if self.isa == Isa::Sse2 {
            for (k, m) in places.iter().enumerate() {
                let x = self.lane_of(v, part * v.per_part() + k, v.elem);
                self.store_scalar(v.elem, *m, x);
            }
            return;
        }
        for (c, places) in places.chunks(16 / bytes).enumerate() {
            let x = self.chunk(v.parts[part], v.size(), c);
            self.scatter_chunk(x, bytes, places);
        }
    }
    /// The lanes of 16 bytes.
    fn scatter_chunk(&mut self, x: Reg, bytes: usize, places: &[Mem]) {
        for (k, m) in places.iter().enumerate() {
            if k == 0 && bytes >= 4 {
                self.store_bytes(bytes, *m, x);
                continue;
            }
            let ops = smallvec![Opd::Mem(*m), r(x, Size::X), byte(k as i64)];
            self.emit(Kind::Row(moves(bytes).1, Size::X), Def::Nothing, ops);
        }
    }
}
