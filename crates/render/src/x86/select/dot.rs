//! Sums of four products of bytes in the 32 bits of a lane.
//!
//! ```text
//! VNNI         vpdpbusd c, a, b                                     bytes of a without sign, of b with
//! elsewhere    c + pmaddwd(even a, even b) + pmaddwd(odd a, odd b)  bytes at even and odd places, 16 bits wide
//! ```
//! Both are exact: `pmaddubsw`, which saturates, is not used.

use super::Select;
use super::build::r;
use super::control::Key;
use super::types::Val;
use crate::Error;
use crate::x86::program::{Def, Kind, Opd, Reg, Size};
use crate::x86::table as t;
use frit_abi::matrix::VNNI;
use frit_abi::target::Isa;
use frit_abi::{DType, MatrixUnit};
use frit_uop::UOp;
use smallvec::smallvec;

impl Select<'_> {
    /// One operation of a unit that multiplies four bytes with four bytes of every lane.
    pub fn dot(&mut self, n: &UOp, unit: MatrixUnit, want: &Option<Val>) -> Result<Val, Error> {
        let lanes = unit.size[1];
        let size = Size::of_bytes(4 * lanes);
        let a = self.four_bytes_in_every_lane(&n.src[0], size)?;
        let b = self.operand(&n.src[1])?.parts[0];
        let c = self.vector_operand(&n.src[2], n.dtype, lanes)?.parts[0];
        let to = self.sum_of_dots(size, unit.operands, [a, b, c], want.as_ref().map(|v| v.parts[0]));
        Ok(Val::one(to, n.dtype, lanes))
    }
    /// `c` plus the products of bytes of these types, four in each lane.
    pub fn sum_of_dots(
        &mut self,
        size: Size,
        types: [DType; 2],
        [a, b, c]: [Reg; 3],
        to: Option<Reg>,
    ) -> Reg {
        let to = to.unwrap_or_else(|| self.vec(size));
        if types[0] != types[1] && self.target.unit(VNNI).is_some() {
            // the bytes without sign come first
            let (x, y) = if types[0] == DType::U8 { (a, b) } else { (b, a) };
            self.copy(to, c, size);
            let row = if self.isa == Isa::Avx512 { t::PDPBUSD } else { t::PDPBUSD_VEX };
            let ops = smallvec![r(to, size), r(x, size), r(y, size)];
            self.emit(Kind::Row(row, size), Def::Modify, ops).fold = Self::fold_of(row);
            return to;
        }
        let [even, odd] = [false, true].map(|odd| {
            let (x, y) = (self.widened(a, types[0], odd, size), self.widened(b, types[1], odd, size));
            self.v2(t::PMADDWD, size, x, y)
        });
        let sum = self.v2(t::PADDD, size, even, odd);
        self.v2_opd(t::PADDD, size, c, r(sum, size), Some(to))
    }
    /// Of one word, in the first lane of a vector.
    pub fn dot_scalar(&mut self, [a, b, c]: [Reg; 3]) -> Reg {
        let words = [a, b, c].map(|x| self.int_to_lane(x, Size::D));
        let sum = self.sum_of_dots(Size::X, [DType::U8, DType::I8], words, None);
        self.lane_to_int(sum, Size::D)
    }
    /// A value of four bytes in every lane; made once a block.
    fn four_bytes_in_every_lane(&mut self, n: &UOp, size: Size) -> Result<Reg, Error> {
        let (at, key) = (self.at, Key::Splat(n.clone(), n.dtype, size));
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let x = self.operand(n)?.parts[0];
        let wide = match self.isa {
            Isa::Sse2 => self.v1i(t::PSHUFD, size, x, 0),
            _ => self.v1(t::PBROADCASTD, size, Opd::Reg(x, Size::X)),
        };
        self.blocks[at].known.insert(key, wide);
        Ok(wide)
    }
    /// The bytes at even or odd places of a register, in 16 bits each; made once a block.
    fn widened(&mut self, x: Reg, d: DType, odd: bool, size: Size) -> Reg {
        let (at, key) = (self.at, Key::Widened(x, d, odd));
        if let Some(known) = self.known(&key) {
            return known;
        }
        let wide = match (d, odd) {
            (DType::U8, true) => self.v1i(t::PSRLW, size, x, 8),
            (DType::U8, false) => {
                let low = self.bits(0xff, 2, size);
                self.v2(t::PAND, size, x, low)
            }
            (_, true) => self.v1i(t::PSRAW, size, x, 8),
            (_, false) => {
                let high = self.v1i(t::PSLLW, size, x, 8);
                self.v1i(t::PSRAW, size, high, 8)
            }
        };
        self.blocks[at].known.insert(key, wide);
        wide
    }
}
