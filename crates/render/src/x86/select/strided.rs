//! Lanes, or rows of a few of them, a constant distance apart in memory: a move for each, into and out of the chunks
//! of a vector.
//!
//! ```text
//! Load(p[i] 4x1 by 9)   ->   movss x, [p + i*4];  pinsrd x, [p + i*4 + 36], 1;  …
//! ```

use super::Select;
use super::build::{byte, r};
use super::types::Val;
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Cond, Def, Kind, Mem, Opd, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::DType;
use frit_abi::target::Isa;
use frit_uop::{Arg, UOp};
use smallvec::{SmallVec, smallvec};

/// Lanes of a row, and elements from one row to the next, of an address whose rows are apart.
pub fn rows(address: &UOp) -> Option<(usize, i64)> {
    if let Arg::Tile { lanes, stride, .. } = address.arg { Some((lanes as usize, stride)) } else { None }
}

/// What moves a row of so many bytes into a chunk, and out of one to memory.
fn moves(bytes: usize) -> (Row, Row) {
    match bytes {
        1 => (t::PINSRB, t::PEXTRB_TO),
        2 => (t::PINSRW, t::PEXTRW_TO),
        4 => (t::PINSRD, t::PEXTRD_TO),
        _ => (t::PINSRQ, t::PEXTRQ_TO),
    }
}

impl Select<'_> {
    /// Where each row is.
    fn places(&mut self, address: &UOp, stride: i64, count: usize) -> Result<Vec<Mem>, Error> {
        let first = self.address(address)?;
        let step = stride.checked_mul(address.dtype.size() as i64);
        let place = |k: usize| {
            let disp = step?.checked_mul(k as i64)?.checked_add(first.disp as i64)?;
            Some(Mem { disp: i32::try_from(disp).ok()?, ..first })
        };
        let all: Option<Vec<Mem>> = (0..count).map(place).collect();
        all.ok_or_else(|| self.malformed(format!("the rows at {address:?} are too far apart")))
    }

    /// A load, under one gate if there is one.
    pub fn load_strided(&mut self, n: &UOp, (row, stride): (usize, i64)) -> Result<Val, Error> {
        let (d, lanes) = (n.dtype, n.lanes());
        let elem = if d == DType::Bool { DType::I8 } else { d };
        let (bytes, per) = (row * elem.size(), self.part_lanes(elem, lanes) / row);
        self.check_row(n, bytes, per)?;
        let places = self.places(&n.src[0], stride, lanes / row)?;
        let (Some(alt), Some(gate)) = (n.src.get(1), n.gate()) else {
            let parts = places.chunks(per).map(|p| self.gather_part(p, bytes)).collect();
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
            let x = self.gather_part(places, bytes);
            self.copy(dst, x, a.size());
        }
        self.label(skip);
        Ok(self.as_loaded(Val { parts, elem, lanes }, d))
    }
    fn as_loaded(&mut self, v: Val, d: DType) -> Val {
        if d == DType::Bool { self.truth_of_bytes(&v) } else { v }
    }
    /// A register holds whole rows, and some of them.
    fn check_row(&self, n: &UOp, bytes: usize, per: usize) -> Result<(), Error> {
        match bytes.is_power_of_two() && per > 0 {
            true => Ok(()),
            false => Err(self.malformed(format!("{n:?} has rows of {bytes} bytes"))),
        }
    }
    /// The rows of one register.
    fn gather_part(&mut self, places: &[Mem], bytes: usize) -> Reg {
        if self.isa == Isa::Sse2 || bytes >= 16 {
            let rows = places.iter().map(|m| self.load_bytes(bytes, *m, None)).collect();
            return self.join_all(rows, bytes);
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
    pub fn store_strided(&mut self, n: &UOp, (row, stride): (usize, i64), v: &Val) -> Result<(), Error> {
        if n.gate().is_some_and(|g| g.lanes() > 1) {
            return Err(self.malformed(format!("{n:?} has a gate for each of its lanes")));
        }
        // before the branch: what addresses need is remembered for those that follow
        let (bytes, per) = (row * v.elem.size(), v.per_part() / row);
        self.check_row(n, bytes, per)?;
        let places = self.places(&n.src[0], stride, v.lanes / row)?;
        let skip = self.gate_lane(n.gate(), 0)?;
        for (&part, places) in v.parts.iter().zip(places.chunks(per)) {
            self.scatter_part(part, bytes, places);
        }
        self.label_if(skip);
        Ok(())
    }
    /// The rows of one register.
    fn scatter_part(&mut self, part: Reg, bytes: usize, places: &[Mem]) {
        let size = Size::of_bytes(bytes * places.len());
        if bytes >= 32 {
            for (k, m) in places.iter().enumerate() {
                let x = if k == 0 { part } else { self.upper(part, 2 * bytes) };
                self.store_bytes(bytes, *m, x);
            }
            return;
        }
        for (c, places) in places.chunks(16 / bytes).enumerate() {
            let x = self.chunk(part, size, c);
            self.scatter_chunk(x, bytes, places);
        }
    }
    /// The rows of 16 bytes.
    fn scatter_chunk(&mut self, x: Reg, bytes: usize, places: &[Mem]) {
        for (k, m) in places.iter().enumerate() {
            if k == 0 && bytes >= 4 {
                self.store_bytes(bytes, *m, x);
            } else if self.isa == Isa::Sse2 {
                let low = self.v1i(t::PSRLDQ, Size::X, x, (k * bytes) as i64);
                self.store_bytes(bytes, *m, low);
            } else {
                let ops = smallvec![Opd::Mem(*m), r(x, Size::X), byte(k as i64)];
                self.emit(Kind::Row(moves(bytes).1, Size::X), Def::Nothing, ops);
            }
        }
    }
}
