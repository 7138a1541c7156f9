//! Small words for making instructions: what the selection files speak.

use super::Select;
use crate::x86::program::{Class, Cond, Def, Fold, Imm, Inst, Kind, Mem, Opd, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::target::Isa;
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

/// A register operand.
pub fn r(reg: Reg, size: Size) -> Opd {
    Opd::Reg(reg, size)
}
/// A byte.
pub fn byte(v: i64) -> Opd {
    Opd::Imm(v, Imm::Byte)
}

impl Select<'_> {
    /// Add an instruction to the block that is being written.
    pub fn emit(&mut self, kind: Kind, def: Def, ops: SmallVec<[Opd; 4]>) -> &mut Inst {
        let (insts, step) = (&mut self.blocks[self.at].insts, self.step);
        insts.push(Inst { kind, ops, def, mask: None, fold: Fold::No, step });
        let last = insts.len() - 1;
        &mut insts[last]
    }
    /// A new register for a vector of this size.
    pub fn vec(&mut self, size: Size) -> Reg {
        self.program.reg(Class::Vec, size)
    }
    /// A new general register.
    pub fn int(&mut self) -> Reg {
        self.program.reg(Class::Int, Size::Q)
    }
    /// A new mask.
    pub fn mask(&mut self) -> Reg {
        self.program.reg(Class::Mask, Size::K)
    }
    /// `to = from`.
    pub fn copy(&mut self, to: Reg, from: Reg, size: Size) {
        if to != from {
            self.emit(Kind::Move, Def::Write, smallvec![r(to, size), r(from, size)]);
        }
    }
    /// A copy of a general register that may be changed.
    pub fn copy_int(&mut self, from: Reg) -> Reg {
        let to = self.int();
        self.copy(to, from, Size::Q);
        to
    }

    // ---- vectors

    /// How a row's last operand may come from memory. Legacy instructions want it aligned, as the frame and the pool are.
    pub(super) fn fold_of(row: Row) -> Fold {
        use t::*;
        match row {
            ADDPS | SUBPS | MULPS | DIVPS | MAXPS | MINPS | SQRTPS | FMADD231PS | FMADD213PS | PADDD
            | PSUBD | PMULLD | PMINSD | PMAXSD | PMINUD | PMAXUD | CVTDQ2PS | CVTTPS2DQ | CMPPS_K
            | PCMPD_K | PCMPUD_K | PSLLVD | PSRLVD | PSRAVD | PBLENDMD | PAND | PANDN | POR | PXOR
            | RNDSCALEPS | PDPBUSD | PDPBUSD_VEX => Fold::Splat(4),
            ADDPD | SUBPD | MULPD | DIVPD | MAXPD | MINPD | SQRTPD | FMADD231PD | FMADD213PD | PADDQ
            | PSUBQ | PMULLQ | PMINSQ | PMAXSQ | PMINUQ | PMAXUQ | CMPPD_K | PCMPQ_K | PCMPUQ_K | PSLLVQ
            | PSRLVQ | PSRAVQ | PBLENDMQ => Fold::Splat(8),
            ADDSS | SUBSS | MULSS | DIVSS | MAXSS | MINSS | FMADD231SS | FMADD213SS | ADDSD | SUBSD
            | MULSD | DIVSD | MAXSD | MINSD | FMADD231SD | FMADD213SD => Fold::Scalar,
            PADDB | PADDW | PSUBB | PSUBW | PMULLW | PMINSB | PMAXSB | PMINUB | PMAXUB | PMINSW | PMAXSW
            | PMINUW | PMAXUW | CMPPS | CMPPD | PCMPEQB | PCMPEQW | PCMPEQD | PCMPEQQ | PCMPGTB | PCMPGTW
            | PCMPGTD | PCMPGTQ | PCMPB_K | PCMPUB_K | PCMPW_K | PCMPUW_K | PUNPCKLBW | PUNPCKLWD
            | PUNPCKLDQ | PUNPCKLQDQ | PUNPCKHBW | PUNPCKHWD | PUNPCKHDQ | PUNPCKHQDQ => Fold::Whole,
            _ => Fold::No,
        }
    }
    fn is_legacy(&self) -> bool {
        self.isa == Isa::Sse2
    }
    /// `dst = op(x)`, of one size.
    pub fn v1(&mut self, row: Row, size: Size, x: Opd) -> Reg {
        self.v1_sized(row, size, size, x)
    }
    /// `dst = op(x)`; `form` is the size by which the instruction is named.
    pub fn v1_sized(&mut self, row: Row, form: Size, to: Size, x: Opd) -> Reg {
        let dst = self.vec(to);
        self.emit(Kind::Row(row, form), Def::Write, smallvec![r(dst, to), x]);
        dst
    }
    /// `dst = op(x, number)`.
    pub fn v1i(&mut self, row: Row, size: Size, x: Reg, n: i64) -> Reg {
        let dst = self.vec(size);
        let in_place = matches!(
            row,
            t::PSLLW | t::PSLLD | t::PSLLQ | t::PSRLW | t::PSRLD | t::PSRLQ | t::PSRAW | t::PSRAD | t::PSRLDQ
        );
        if self.is_legacy() && in_place {
            self.copy(dst, x, size);
            self.emit(Kind::Row(row, size), Def::Modify, smallvec![r(dst, size), byte(n)]);
        } else {
            self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(x, size), byte(n)]);
        }
        dst
    }
    /// `dst = op(a, b)`.
    pub fn v2(&mut self, row: Row, size: Size, a: Reg, b: Reg) -> Reg {
        self.v2_opd(row, size, a, r(b, size), None)
    }
    /// `dst = op(a, b)` where b may be memory, into a given register or a new one.
    pub fn v2_opd(&mut self, row: Row, size: Size, a: Reg, b: Opd, to: Option<Reg>) -> Reg {
        let dst = to.unwrap_or_else(|| self.vec(size));
        let fold = Self::fold_of(row);
        if self.is_legacy() {
            if matches!(b, Opd::Reg(b, _) if b == dst && a != dst) {
                // the destination is read second: through another register
                let t = self.v2_opd(row, size, a, b, None);
                self.copy(dst, t, size);
                return dst;
            }
            self.copy(dst, a, size);
            self.emit(Kind::Row(row, size), Def::Modify, smallvec![r(dst, size), b]).fold = fold;
        } else {
            self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(a, size), b]).fold = fold;
        }
        dst
    }
    /// `dst = op(a, b, number)`.
    pub fn v2i(&mut self, row: Row, size: Size, a: Reg, b: Reg, n: i64) -> Reg {
        let dst = self.vec(size);
        let fold = Self::fold_of(row);
        if self.is_legacy() {
            self.copy(dst, a, size);
            self.emit(Kind::Row(row, size), Def::Modify, smallvec![r(dst, size), r(b, size), byte(n)]).fold =
                fold;
        } else {
            let ops = smallvec![r(dst, size), r(a, size), r(b, size), byte(n)];
            self.emit(Kind::Row(row, size), Def::Write, ops).fold = fold;
        }
        dst
    }
    /// `mask = op(a, b [, number])` of AVX-512.
    pub fn v2k(&mut self, row: Row, size: Size, a: Reg, b: Opd, n: Option<i64>) -> Reg {
        let dst = self.mask();
        let mut ops: SmallVec<[Opd; 4]> = smallvec![r(dst, Size::K), r(a, size), b];
        ops.extend(n.map(byte));
        self.emit(Kind::Row(row, size), Def::Write, ops).fold = Self::fold_of(row);
        dst
    }
    /// Load a whole vector register, or the first bytes of one.
    pub fn load_bytes(&mut self, bytes: usize, m: Mem, to: Option<Reg>) -> Reg {
        let size = Size::of_bytes(bytes);
        let dst = to.unwrap_or_else(|| self.vec(size));
        let row = match bytes {
            16.. => t::MOVUPS,
            8 => t::MOVSD,
            4 => t::MOVSS,
            _ => {
                let x = self.load_int(bytes, m, false);
                self.emit(Kind::Row(t::MOVD, Size::X), Def::Write, smallvec![r(dst, size), r(x, Size::D)]);
                return dst;
            }
        };
        self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), Opd::Mem(m)]);
        dst
    }
    /// Store a whole vector register, or its first bytes.
    pub fn store_bytes(&mut self, bytes: usize, m: Mem, x: Reg) {
        let size = Size::of_bytes(bytes);
        let row = match bytes {
            16.. => t::MOVUPS_TO,
            8 => t::MOVSD_TO,
            4 => t::MOVSS_TO,
            _ => {
                let g = self.lane_to_int(x, Size::D);
                return self.store_int(bytes, m, g);
            }
        };
        self.emit(Kind::Row(row, size), Def::Nothing, smallvec![Opd::Mem(m), r(x, size)]);
    }
    /// The first lane of a vector in a general register.
    pub fn lane_to_int(&mut self, x: Reg, size: Size) -> Reg {
        let dst = self.int();
        let row = if size == Size::Q { t::MOVQ_TO } else { t::MOVD_TO };
        self.emit(Kind::Row(row, Size::X), Def::Write, smallvec![r(dst, size), r(x, Size::X)]);
        dst
    }
    /// A general register in the first lane of a vector.
    pub fn int_to_lane(&mut self, x: Reg, size: Size) -> Reg {
        let dst = self.vec(Size::X);
        let row = if size == Size::Q { t::MOVQ } else { t::MOVD };
        self.emit(Kind::Row(row, Size::X), Def::Write, smallvec![r(dst, Size::X), r(x, size)]);
        dst
    }

    // ---- general registers

    /// Load an integer of so many bytes, extended to the register.
    pub fn load_int(&mut self, bytes: usize, m: Mem, signed: bool) -> Reg {
        let dst = self.int();
        self.load_int_to(dst, bytes, m, signed);
        dst
    }
    /// [`Select::load_int`] to a given register.
    pub fn load_int_to(&mut self, dst: Reg, bytes: usize, m: Mem, signed: bool) {
        let (code, size) = match (bytes, signed) {
            (1, false) => (Code::Movzx_r32_rm8, Size::D),
            (1, true) => (Code::Movsx_r32_rm8, Size::D),
            (2, false) => (Code::Movzx_r32_rm16, Size::D),
            (2, true) => (Code::Movsx_r32_rm16, Size::D),
            (4, _) => (Code::Mov_r32_rm32, Size::D),
            _ => (Code::Mov_r64_rm64, Size::Q),
        };
        self.emit(Kind::Plain(code), Def::Write, smallvec![r(dst, size), Opd::Mem(m)]);
    }
    /// Store the low bytes of a general register.
    pub fn store_int(&mut self, bytes: usize, m: Mem, x: Reg) {
        let (code, size) = match bytes {
            1 => (Code::Mov_rm8_r8, Size::B),
            2 => (Code::Mov_rm16_r16, Size::W),
            4 => (Code::Mov_rm32_r32, Size::D),
            _ => (Code::Mov_rm64_r64, Size::Q),
        };
        self.emit(Kind::Plain(code), Def::Nothing, smallvec![Opd::Mem(m), r(x, size)]);
    }
    /// `x op= y` on general registers.
    pub fn g2(&mut self, code: Code, x: Reg, y: Opd) {
        let size = match y {
            Opd::Reg(_, s) => s,
            _ => Size::Q,
        };
        self.emit(Kind::Plain(code), Def::Modify, smallvec![r(x, size), y]).fold = Fold::Whole;
    }
    /// `x op= number`, for the group of eight that starts with `add`: `n` says which.
    pub fn g2i(&mut self, op: Arith, x: Reg, size: Size, v: i64) {
        let (short, word) = op.immediate(size);
        let is_short = i8::try_from(v).is_ok();
        let imm = if is_short { Imm::Short } else { Imm::Word };
        let code = if is_short { short } else { word };
        let def = if op == Arith::Cmp { Def::Nothing } else { Def::Modify };
        self.emit(Kind::Plain(code), def, smallvec![r(x, size), Opd::Imm(v, imm)]);
    }
    /// Shift by a number.
    pub fn shift_int(&mut self, code: Code, x: Reg, size: Size, n: i64) {
        self.emit(Kind::Plain(code), Def::Modify, smallvec![r(x, size), byte(n)]);
    }
    /// Compare two general registers.
    pub fn compare(&mut self, a: Reg, b: Reg, size: Size) {
        let code = if size == Size::Q { Code::Cmp_r64_rm64 } else { Code::Cmp_r32_rm32 };
        self.emit(Kind::Plain(code), Def::Nothing, smallvec![r(a, size), r(b, size)]).fold = Fold::Whole;
    }
    /// Whether a general register is zero.
    pub fn test(&mut self, x: Reg) {
        self.emit(Kind::Plain(Code::Test_rm32_r32), Def::Nothing, smallvec![r(x, Size::D), r(x, Size::D)]);
    }
    /// `a + b * scale + disp`.
    pub fn lea(&mut self, m: Mem) -> Reg {
        let dst = self.int();
        self.emit(Kind::Plain(Code::Lea_r64_m), Def::Write, smallvec![r(dst, Size::Q), Opd::Mem(m)]);
        dst
    }
    /// `a * number`.
    pub fn times(&mut self, a: Reg, size: Size, v: i64) -> Reg {
        let dst = self.int();
        if v > 0 && v & (v - 1) == 0 {
            self.copy(dst, a, Size::Q);
            let code = if size == Size::Q { Code::Shl_rm64_imm8 } else { Code::Shl_rm32_imm8 };
            self.shift_int(code, dst, size, v.trailing_zeros() as i64);
            return dst;
        }
        let Ok(_) = i32::try_from(v) else {
            let b = self.int_const(v);
            self.copy(dst, a, Size::Q);
            self.g2(Code::Imul_r64_rm64, dst, r(b, Size::Q));
            return dst;
        };
        let code = if size == Size::Q { Code::Imul_r64_rm64_imm32 } else { Code::Imul_r32_rm32_imm32 };
        let ops = smallvec![r(dst, size), r(a, size), Opd::Imm(v, Imm::Word)];
        self.emit(Kind::Plain(code), Def::Write, ops);
        dst
    }
    /// A place to jump to.
    pub fn new_label(&mut self) -> u32 {
        self.program.labels += 1;
        self.program.labels - 1
    }
    /// Jump there if the condition holds.
    pub fn jump(&mut self, condition: Cond, label: u32) {
        // the comparison that decides it comes right before
        let here = (self.at, self.blocks[self.at].insts.len().saturating_sub(1));
        self.jumped.get_or_insert(here);
        self.emit(Kind::Jump(condition, label), Def::Nothing, smallvec![]);
    }
    /// Here.
    pub fn label(&mut self, label: u32) {
        self.jumped = None;
        self.emit(Kind::Label(label, false), Def::Nothing, smallvec![]);
    }

    // ---- constants: made at the kernel's start, and again wherever there is no register for them

    /// Run `f` where the kernel starts, and remember that what it makes can be made again.
    fn rematerialisable(&mut self, f: impl FnOnce(&mut Self) -> Reg) -> Reg {
        self.in_block(0, |s| {
            let reg = f(s);
            s.program.regs[reg.0 as usize].rematerialise = s.blocks[0].insts.last().cloned().map(Box::new);
            reg
        })
    }
    /// An integer.
    pub fn int_const(&mut self, v: i64) -> Reg {
        if let Some(&reg) = self.ints.get(&v) {
            return reg;
        }
        let reg = self.rematerialisable(|s| {
            let dst = s.int();
            let (code, size, imm) = match v {
                0..=0xffff_ffff => (Code::Mov_r32_imm32, Size::D, Imm::Word),
                _ => (Code::Mov_r64_imm64, Size::Q, Imm::Long),
            };
            s.emit(Kind::Plain(code), Def::Write, smallvec![r(dst, size), Opd::Imm(v, imm)]);
            dst
        });
        self.ints.insert(v, reg);
        reg
    }
    /// A vector of these bytes, or a scalar float (4 or 8 bytes).
    pub fn vec_const(&mut self, bytes: &[u8]) -> Reg {
        if let Some(&reg) = self.vectors.get(bytes) {
            return reg;
        }
        let size = Size::of_bytes(bytes.len());
        let splat = |n: usize| bytes.len() > n && bytes.chunks(n).all(|c| c == &bytes[..n]);
        let is_zero = bytes.iter().all(|&b| b == 0);
        let reg = self.rematerialisable(|s| {
            let dst = s.vec(size);
            if is_zero {
                s.emit(Kind::Zero, Def::Write, smallvec![r(dst, size)]);
                return dst;
            }
            let (row, value) = match s.isa {
                Isa::Avx512 if splat(4) => (t::PBROADCASTD, &bytes[..4]),
                Isa::Avx512 if splat(8) => (t::PBROADCASTQ, &bytes[..8]),
                _ if bytes.len() == 4 => (t::MOVSS, bytes),
                _ if bytes.len() == 8 => (t::MOVSD, bytes),
                _ => (t::MOVUPS, bytes),
            };
            let m = s.program.pool.place(value);
            s.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), Opd::Mem(m)]);
            dst
        });
        self.vectors.insert(bytes.into(), reg);
        reg
    }
    /// Every byte of a vector zero.
    pub fn zero(&mut self, size: Size) -> Reg {
        self.vec_const(&vec![0; size.bytes()])
    }
    /// Every bit of a vector set.
    pub fn ones(&mut self, size: Size) -> Reg {
        self.vec_const(&vec![0xff; size.bytes()])
    }
    /// A bit pattern of `bytes` bytes in every lane.
    pub fn bits(&mut self, pattern: u64, bytes: usize, size: Size) -> Reg {
        let lane = &pattern.to_le_bytes()[..bytes];
        self.vec_const(&lane.repeat(size.bytes() / bytes))
    }
}

/// Two-operand arithmetic of general registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Arith {
    Add,
    Sub,
    And,
    Or,
    Xor,
    Cmp,
}

impl Arith {
    /// With a register or memory.
    pub fn code(self, size: Size) -> Code {
        use Code::*;
        let (d, q) = match self {
            Arith::Add => (Add_r32_rm32, Add_r64_rm64),
            Arith::Sub => (Sub_r32_rm32, Sub_r64_rm64),
            Arith::And => (And_r32_rm32, And_r64_rm64),
            Arith::Or => (Or_r32_rm32, Or_r64_rm64),
            Arith::Xor => (Xor_r32_rm32, Xor_r64_rm64),
            Arith::Cmp => (Cmp_r32_rm32, Cmp_r64_rm64),
        };
        if size == Size::Q { q } else { d }
    }
    /// With a number, short and long.
    fn immediate(self, size: Size) -> (Code, Code) {
        use Code::*;
        let [ds, dw, qs, qw] = match self {
            Arith::Add => [Add_rm32_imm8, Add_rm32_imm32, Add_rm64_imm8, Add_rm64_imm32],
            Arith::Sub => [Sub_rm32_imm8, Sub_rm32_imm32, Sub_rm64_imm8, Sub_rm64_imm32],
            Arith::And => [And_rm32_imm8, And_rm32_imm32, And_rm64_imm8, And_rm64_imm32],
            Arith::Or => [Or_rm32_imm8, Or_rm32_imm32, Or_rm64_imm8, Or_rm64_imm32],
            Arith::Xor => [Xor_rm32_imm8, Xor_rm32_imm32, Xor_rm64_imm8, Xor_rm64_imm32],
            Arith::Cmp => [Cmp_rm32_imm8, Cmp_rm32_imm32, Cmp_rm64_imm8, Cmp_rm64_imm32],
        };
        if size == Size::Q { (qs, qw) } else { (ds, dw) }
    }
}
