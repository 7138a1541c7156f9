//! Tile registers: AMX.
//!
//! A value of more lanes than any vector is a tile: 16 rows of 64 bytes. All eight registers have that shape, which the
//! kernel's first instruction configures and its last one gives back. A tile is loaded from rows any distance apart; an
//! accumulator starts as zero, is added to in its place, and is stored.

use super::Select;
use super::build::r;
use super::types::Val;
use crate::Error;
use crate::walk::Walk;
use crate::walk::memory;
use crate::x86::program::{Base, Class, Def, Kind, Mem, ONCE, Opd, Reg, Size, TILE_ROW_BYTES};
use frit_abi::matrix::{Home, Setup};
use frit_abi::{DType, MatrixUnit};
use frit_uop::{Arg, Op, Step, UOp};
use iced_x86::Code;
use smallvec::smallvec;

/// Rows of a tile register, and bytes of a row.
pub const ROWS: usize = 16;

/// Whether a value of so many lanes is a tile.
pub fn is_tile(lanes: usize) -> bool {
    lanes > 64
}

/// What `ldtilecfg` reads: palette 1, the same shape for each register.
fn configuration() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    for t in 0..8 {
        bytes[16 + 2 * t] = TILE_ROW_BYTES as u8;
        bytes[48 + t] = ROWS as u8;
    }
    bytes
}

/// The instruction of a unit.
fn multiply(unit: &MatrixUnit) -> Option<Code> {
    use DType::{BF16, F16, I8, U8};
    let tiles = unit.homes.iter().all(|h| matches!(h, Home::Tile(_)));
    Some(match unit.operands {
        _ if !tiles => return None,
        [BF16, BF16] => Code::VEX_Tdpbf16ps_tmm_tmm_tmm,
        [F16, F16] => Code::VEX_Tdpfp16ps_tmm_tmm_tmm,
        [I8, I8] => Code::VEX_Tdpbssd_tmm_tmm_tmm,
        [I8, U8] => Code::VEX_Tdpbsud_tmm_tmm_tmm,
        [U8, I8] => Code::VEX_Tdpbusd_tmm_tmm_tmm,
        [U8, U8] => Code::VEX_Tdpbuud_tmm_tmm_tmm,
        _ => return None,
    })
}

/// Whether every lane is a zero.
fn is_zero(n: &UOp) -> bool {
    let zero = |s: &UOp| s.as_scalar().is_some_and(|c| c.to_bits(s.dtype) == 0);
    n.op == Op::Stack && n.src.first().is_some_and(zero) && n.src.iter().all(|s| *s == n.src[0])
}

impl Select<'_> {
    fn has_tiles(&self) -> bool {
        let uses = |n: &UOp| match (n.op, &n.arg) {
            (Op::Matrix, Arg::Name(name)) => self.target.unit(name).is_some_and(|u| u.setup == Setup::Tiles),
            _ => false,
        };
        self.linear.steps.iter().any(|s| matches!(s, Step::Do(n) if uses(n)))
    }
    /// At the kernel's start: give the registers their shape.
    pub fn configure_tiles(&mut self) {
        if self.has_tiles() {
            let m = self.program.pool.place(&configuration());
            self.emit(Kind::Plain(Code::VEX_Ldtilecfg_m512), Def::Nothing, smallvec![Opd::Mem(m)]);
        }
    }
    /// At its end: give them back.
    pub fn release_tiles(&mut self) {
        if self.has_tiles() {
            self.emit(Kind::Plain(Code::VEX_Tilerelease), Def::Nothing, smallvec![]);
        }
    }
    fn tile(&mut self) -> Reg {
        self.program.reg(Class::Tile, Size::T)
    }
    /// A variable that is a tile.
    pub fn tile_variable(&mut self, d: &UOp, lanes: usize) -> Result<Val, Error> {
        if lanes * d.dtype.size() != ROWS * TILE_ROW_BYTES as usize {
            return Err(self.malformed(format!("{d:?} is no tile")));
        }
        Ok(Val::one(self.tile(), d.dtype, lanes))
    }

    /// The address of a tile: one register for its start, one for the distance of its rows.
    fn tile_address(&mut self, address: &UOp) -> Result<Mem, Error> {
        let Arg::Tile { rows, lanes, stride } = address.arg else {
            return Err(self.malformed(format!("{address:?} is no address of a tile")));
        };
        let bytes = address.dtype.size() as i64;
        let row = stride.checked_mul(bytes).filter(|_| lanes as i64 * bytes == TILE_ROW_BYTES);
        let Some(row) = row.filter(|_| rows as usize == ROWS) else {
            return Err(self.malformed(format!("the tile at {address:?} does not fit a register")));
        };
        let plain = memory(address).at(&address.src[1]);
        let mut m = self.address(&plain)?;
        if m.index.is_some() {
            let start = self.lea(Mem { disp: 0, ..m });
            m = Mem { base: Base::Reg(start), index: None, disp: m.disp };
        }
        Ok(Mem { index: Some((self.int_const(row), ONCE)), ..m })
    }
    /// A load of a tile.
    pub fn load_tile(&mut self, n: &UOp) -> Result<Val, Error> {
        let m = self.tile_address(&n.src[0])?;
        let dst = self.tile();
        self.tile_from(dst, m);
        if self.uses.is_reloadable(n) {
            self.program.regs[dst.0 as usize].rematerialise =
                self.blocks[self.at].insts.last().cloned().map(Box::new);
        }
        Ok(Val::one(dst, n.dtype, n.lanes()))
    }
    /// A store of a tile.
    pub fn store_tile(&mut self, n: &UOp) -> Result<(), Error> {
        let x = self.tile_operand(&n.src[1])?;
        let m = self.tile_address(&n.src[0])?;
        self.tile_to(m, x);
        Ok(())
    }
    fn tile_from(&mut self, dst: Reg, m: Mem) {
        let ops = smallvec![r(dst, Size::T), Opd::Mem(m)];
        self.emit(Kind::Plain(Code::VEX_Tileloadd_tmm_sibmem), Def::Write, ops);
    }
    fn tile_to(&mut self, m: Mem, x: Reg) {
        let ops = smallvec![Opd::Mem(m), r(x, Size::T)];
        self.emit(Kind::Plain(Code::VEX_Tilestored_sibmem_tmm), Def::Nothing, ops);
    }
    fn tile_zero(&mut self, dst: Reg) {
        self.emit(Kind::Plain(Code::VEX_Tilezero_tmm), Def::Write, smallvec![r(dst, Size::T)]);
    }
    /// Tiles are not copied from register to register: through the frame.
    pub fn copy_tile(&mut self, to: Reg, from: Reg) {
        if to != from {
            let stride = self.int_const(TILE_ROW_BYTES);
            let slot =
                Mem { index: Some((stride, ONCE)), ..self.program.slot(ROWS * TILE_ROW_BYTES as usize) };
            self.tile_to(slot, from);
            self.tile_from(to, slot);
        }
    }
    fn tile_operand(&mut self, n: &UOp) -> Result<Reg, Error> {
        if is_zero(n) {
            let dst = self.tile();
            self.tile_zero(dst);
            return Ok(dst);
        }
        Ok(self.operand(n)?.parts[0])
    }
    /// A tile in a variable.
    pub fn store_tile_variable(&mut self, value: &UOp, to: &Val) -> Result<(), Error> {
        if is_zero(value) {
            self.tile_zero(to.parts[0]);
            return Ok(());
        }
        let from = self.operand(value)?.parts[0];
        self.copy_tile(to.parts[0], from);
        Ok(())
    }

    /// One operation of the unit, in the accumulator `want` or one of its own.
    pub fn matrix(&mut self, n: &UOp, want: &Option<Val>) -> Result<Val, Error> {
        let unit = match &n.arg {
            Arg::Name(name) => self.target.unit(name),
            _ => None,
        };
        if let Some(unit) = unit.filter(|u| u.size[0] == 1) {
            return self.dot(n, *unit, want);
        }
        let code = unit.and_then(multiply).ok_or_else(|| self.unsupported(n))?;
        let [a, b] = [self.tile_operand(&n.src[0])?, self.tile_operand(&n.src[1])?];
        let to = match want {
            Some(v) => v.parts[0],
            None => self.tile(),
        };
        if is_zero(&n.src[2]) {
            self.tile_zero(to);
        } else {
            let c = self.operand(&n.src[2])?.parts[0];
            self.copy_tile(to, c);
        }
        let ops = smallvec![r(to, Size::T), r(a, Size::T), r(b, Size::T)];
        self.emit(Kind::Plain(code), Def::Modify, ops);
        Ok(Val::one(to, n.dtype, n.lanes()))
    }
}
