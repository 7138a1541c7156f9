//! Elementwise operations on scalars: integers and truth values in general registers, floats in vector registers.

use super::Select;
use super::address::is_signed;
use super::build::{Arith, r};
use super::mask::chosen_extreme;
use super::types::{Val, int_size, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Fold, Imm, Kind, Opd, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::target::Isa;
use frit_abi::{Alu, DType};
use frit_uop::{Op, UOp};
use iced_x86::Code;
use smallvec::smallvec;

/// The rows of float arithmetic: one float32, one float64, vectors of each.
#[rustfmt::skip]
pub fn float_row(alu: Alu) -> Option<[Row; 4]> {
    Some(match alu {
        Alu::Add  => [t::ADDSS,  t::ADDSD,  t::ADDPS,  t::ADDPD],
        Alu::Sub  => [t::SUBSS,  t::SUBSD,  t::SUBPS,  t::SUBPD],
        Alu::Mul  => [t::MULSS,  t::MULSD,  t::MULPS,  t::MULPD],
        Alu::Fdiv => [t::DIVSS,  t::DIVSD,  t::DIVPS,  t::DIVPD],
        Alu::Max  => [t::MAXSS,  t::MAXSD,  t::MAXPS,  t::MAXPD],
        Alu::Min  => [t::MINSS,  t::MINSD,  t::MINPS,  t::MINPD],
        Alu::Sqrt => [t::SQRTSS, t::SQRTSD, t::SQRTPS, t::SQRTPD],
        _ => return None,
    })
}

/// How a comparison is numbered: less, equal, not equal.
pub fn predicate(alu: Alu) -> i64 {
    match alu {
        Alu::Lt => 1,
        Alu::Eq => 0,
        _ => 4,
    }
}

/// The bits of a float's sign.
pub fn sign_bit(d: DType) -> u64 {
    1 << (8 * d.size() - 1)
}

impl Select<'_> {
    /// An elementwise operation that gives a scalar.
    pub fn scalar(&mut self, n: &UOp, step: usize, want: &Option<Val>) -> Result<Val, Error> {
        let d = n.src[0].dtype;
        let reg = match n.op {
            Op::Cast => {
                let halves = match (d, n.dtype) {
                    (DType::F16, DType::F32) if self.isa != Isa::Sse2 => self.halves_in_memory(&n.src[0])?,
                    _ => None,
                };
                match halves {
                    Some(m) => self.v1(t::CVTPH2PS, Size::X, Opd::Mem(m)),
                    None => {
                        let x = self.scalar_operand(&n.src[0])?;
                        self.cast_scalar(n, x, d, n.dtype)?
                    }
                }
            }
            Op::Bitcast => {
                let x = self.scalar_operand(&n.src[0])?;
                self.bitcast_scalar(n, x, d, n.dtype)?
            }
            Op::Where => self.select_scalar(n)?,
            o => {
                let Some(alu) = o.alu() else { return Err(self.unsupported(n)) };
                if let Some(word) = self.word_of_bytes(n)? {
                    word
                } else if alu == Alu::Dot4 {
                    let [a, b, c] = [0, 1, 2].map(|i| self.scalar_operand(&n.src[i]));
                    self.dot_scalar([a?, b?, c?])
                } else if is_real(d) {
                    self.float_scalar(n, alu, d, step, want.as_ref().map(|w| w.parts[0]))?
                } else {
                    let a = self.scalar_operand(&n.src[0])?;
                    let number = n.src.get(1).and_then(|b| b.as_int()).filter(|v| i32::try_from(*v).is_ok());
                    match number.and_then(|v| self.with_number(alu, d, a, v)) {
                        Some(reg) => reg,
                        None => {
                            let b = n.src.get(1).map(|b| self.scalar_operand(b)).transpose()?;
                            self.int_scalar(n, alu, d, a, b)?
                        }
                    }
                }
            }
        };
        Ok(Val::one(reg, n.dtype, 1))
    }

    /// Integer arithmetic with a constant, where an instruction takes it.
    fn with_number(&mut self, alu: Alu, d: DType, a: Reg, v: i64) -> Option<Reg> {
        if d == DType::Bool {
            return None;
        }
        let size = int_size(d);
        let arith = match alu {
            Alu::Add => Arith::Add,
            Alu::Sub => Arith::Sub,
            Alu::And => Arith::And,
            Alu::Or => Arith::Or,
            Alu::Xor => Arith::Xor,
            Alu::Mul => {
                let x = self.times(a, size, v);
                return Some(self.normalise(x, d));
            }
            Alu::Shl => {
                let x = self.copy_int(a);
                let code = if size == Size::Q { Code::Shl_rm64_imm8 } else { Code::Shl_rm32_imm8 };
                self.shift_int(code, x, size, v);
                return Some(self.normalise(x, d));
            }
            Alu::Shr => {
                let x = self.copy_int(a);
                let code = match (is_signed(d), size) {
                    (true, Size::Q) => Code::Sar_rm64_imm8,
                    (true, _) => Code::Sar_rm32_imm8,
                    (false, Size::Q) => Code::Shr_rm64_imm8,
                    (false, _) => Code::Shr_rm32_imm8,
                };
                self.shift_int(code, x, size, v);
                return Some(x);
            }
            Alu::Lt | Alu::Eq | Alu::Ne => {
                self.g2i(Arith::Cmp, a, size, v);
                return Some(self.set_if(condition(alu, d)));
            }
            _ => return None,
        };
        let x = self.copy_int(a);
        self.g2i(arith, x, size, v);
        Some(self.normalise(x, d))
    }

    /// Integers and truth values in registers.
    pub fn int_scalar(&mut self, n: &UOp, alu: Alu, d: DType, a: Reg, b: Option<Reg>) -> Result<Reg, Error> {
        if d.is_float() {
            return Err(self.unsupported(n));
        }
        if d == DType::Bool {
            return self.logic_scalar(n, alu, a, b);
        }
        let size = int_size(d);
        let wide = size == Size::Q;
        let two = |b: Option<Reg>| b.ok_or(());
        let plain = |s: &mut Self, code: Code| -> Result<Reg, ()> {
            let b = two(b)?;
            let x = s.copy_int(a);
            s.g2(code, x, r(b, size));
            Ok(s.normalise(x, d))
        };
        let result = match alu {
            Alu::Neg | Alu::Not => {
                let x = self.copy_int(a);
                let code = match (alu, wide) {
                    (Alu::Neg, true) => Code::Neg_rm64,
                    (Alu::Neg, false) => Code::Neg_rm32,
                    (_, true) => Code::Not_rm64,
                    (_, false) => Code::Not_rm32,
                };
                self.emit(Kind::Plain(code), Def::Modify, smallvec![r(x, size)]);
                Ok(self.normalise(x, d))
            }
            Alu::Add => plain(self, Arith::Add.code(size)),
            Alu::Sub => plain(self, Arith::Sub.code(size)),
            Alu::And => plain(self, Arith::And.code(size)),
            Alu::Or => plain(self, Arith::Or.code(size)),
            Alu::Xor => plain(self, Arith::Xor.code(size)),
            Alu::Mul => plain(self, if wide { Code::Imul_r64_rm64 } else { Code::Imul_r32_rm32 }),
            Alu::Lt | Alu::Eq | Alu::Ne => two(b).map(|b| {
                self.compare(a, b, size);
                self.set_if(condition(alu, d))
            }),
            Alu::Max | Alu::Min => two(b).map(|b| self.extreme_int(alu, d, a, b)),
            Alu::Shl | Alu::Shr => two(b).map(|b| self.shift_by(alu, d, a, b)),
            Alu::Tdiv => two(b).map(|b| {
                let dst = self.int();
                let ops = smallvec![r(dst, size), r(a, size), r(b, size)];
                self.emit(Kind::Div { signed: is_signed(d) }, Def::Write, ops);
                self.normalise(dst, d)
            }),
            _ => Err(()),
        };
        result.map_err(|()| self.unsupported(n))
    }
    fn extreme_int(&mut self, alu: Alu, d: DType, a: Reg, b: Reg) -> Reg {
        let size = int_size(d);
        let x = self.copy_int(a);
        self.compare(a, b, size);
        let code = match (alu, is_signed(d), size) {
            (Alu::Max, true, Size::Q) => Code::Cmovl_r64_rm64,
            (Alu::Max, true, _) => Code::Cmovl_r32_rm32,
            (Alu::Max, false, Size::Q) => Code::Cmovb_r64_rm64,
            (Alu::Max, false, _) => Code::Cmovb_r32_rm32,
            (_, true, Size::Q) => Code::Cmovg_r64_rm64,
            (_, true, _) => Code::Cmovg_r32_rm32,
            (_, false, Size::Q) => Code::Cmova_r64_rm64,
            (_, false, _) => Code::Cmova_r32_rm32,
        };
        self.g2(code, x, r(b, size));
        x
    }
    fn shift_by(&mut self, alu: Alu, d: DType, a: Reg, b: Reg) -> Reg {
        let size = int_size(d);
        let (wide, signed) = (size == Size::Q, is_signed(d));
        if self.isa != Isa::Sse2 {
            let code = match (alu, signed, wide) {
                (Alu::Shl, _, true) => Code::VEX_Shlx_r64_rm64_r64,
                (Alu::Shl, _, false) => Code::VEX_Shlx_r32_rm32_r32,
                (_, true, true) => Code::VEX_Sarx_r64_rm64_r64,
                (_, true, false) => Code::VEX_Sarx_r32_rm32_r32,
                (_, false, true) => Code::VEX_Shrx_r64_rm64_r64,
                (_, false, false) => Code::VEX_Shrx_r32_rm32_r32,
            };
            let dst = self.int();
            self.emit(Kind::Plain(code), Def::Write, smallvec![r(dst, size), r(a, size), r(b, size)]);
            return self.normalise(dst, d);
        }
        let code = match (alu, signed, wide) {
            (Alu::Shl, _, true) => Code::Shl_rm64_CL,
            (Alu::Shl, _, false) => Code::Shl_rm32_CL,
            (_, true, true) => Code::Sar_rm64_CL,
            (_, true, false) => Code::Sar_rm32_CL,
            (_, false, true) => Code::Shr_rm64_CL,
            (_, false, false) => Code::Shr_rm32_CL,
        };
        let x = self.copy_int(a);
        self.emit(Kind::ShiftCl(code), Def::Modify, smallvec![r(x, size), r(b, Size::D)]);
        self.normalise(x, d)
    }
    /// Truth values, 0 or 1.
    fn logic_scalar(&mut self, n: &UOp, alu: Alu, a: Reg, b: Option<Reg>) -> Result<Reg, Error> {
        let x = self.copy_int(a);
        let arith = match alu {
            Alu::Not | Alu::Neg => {
                self.g2i(Arith::Xor, x, Size::D, 1);
                return Ok(x);
            }
            Alu::Add | Alu::Or | Alu::Max | Alu::MulAcc => Arith::Or,
            Alu::Mul | Alu::And | Alu::Min | Alu::Tdiv | Alu::Idiv | Alu::Lt => Arith::And,
            Alu::Sub | Alu::Xor | Alu::Ne | Alu::Eq => Arith::Xor,
            _ => return Err(self.unsupported(n)),
        };
        let Some(b) = b else { return Err(self.unsupported(n)) };
        match alu {
            Alu::Lt => self.g2i(Arith::Xor, x, Size::D, 1), // not a, and b
            Alu::MulAcc => self.g2(Code::And_r32_rm32, x, r(b, Size::D)),
            _ => {}
        }
        let other = if alu == Alu::MulAcc { self.scalar_operand(&n.src[2])? } else { b };
        self.g2(arith.code(Size::D), x, r(other, Size::D));
        if alu == Alu::Eq {
            self.g2i(Arith::Xor, x, Size::D, 1);
        }
        Ok(x)
    }

    fn float_scalar(
        &mut self,
        n: &UOp,
        alu: Alu,
        d: DType,
        step: usize,
        to: Option<Reg>,
    ) -> Result<Reg, Error> {
        let pick = |rows: [Row; 4]| rows[(d == DType::F64) as usize];
        if alu == Alu::MulAcc {
            return self.multiply_add(n, d, Size::X, 0, 1, step, to);
        }
        let (a, b) = match alu.arity() {
            2 => self.in_order(n, alu, 0, d, 1)?,
            _ => (self.scalar_operand(&n.src[0])?, Opd::Imm(0, Imm::Byte)),
        };
        Ok(match alu {
            Alu::Add | Alu::Sub | Alu::Mul | Alu::Fdiv => {
                let Some(rows) = float_row(alu) else { return Err(self.unsupported(n)) };
                self.v2_opd(pick(rows), Size::X, a, b, to)
            }
            Alu::Sqrt => self.unary_scalar(if d == DType::F64 { t::SQRTSD } else { t::SQRTSS }, a),
            Alu::Neg => {
                let sign = self.bits(sign_bit(d), d.size(), Size::X);
                self.v2(t::PXOR, Size::X, a, sign)
            }
            Alu::Recip => {
                let one = UOp::float(1.0, d);
                let one = self.scalar_operand(&one)?;
                self.v2_opd(
                    if d == DType::F64 { t::DIVSD } else { t::DIVSS },
                    Size::X,
                    one,
                    r(a, Size::X),
                    to,
                )
            }
            Alu::Trunc | Alu::Floor | Alu::Round => self.round(n, alu, d, Size::X, a)?,
            Alu::Max | Alu::Min => {
                let b = self.in_register(b, Size::X, d);
                self.extreme_float(n, alu, d, Size::X, true, a, b)
            }
            Alu::Lt | Alu::Eq | Alu::Ne => {
                let b = self.in_register(b, Size::X, d);
                self.compare_float(predicate(alu), d, a, b)
            }
            _ => return Err(self.unsupported(n)),
        })
    }
    /// An instruction of one source whose upper lanes come from another.
    pub fn unary_scalar(&mut self, row: Row, x: Reg) -> Reg {
        let dst = self.vec(Size::X);
        if self.isa == Isa::Sse2 {
            self.emit(Kind::Row(row, Size::X), Def::Write, smallvec![r(dst, Size::X), r(x, Size::X)]);
        } else {
            let ops = smallvec![r(dst, Size::X), r(x, Size::X), r(x, Size::X)];
            self.emit(Kind::Row(row, Size::X), Def::Write, ops);
        }
        dst
    }
    /// 1 where the comparison of two scalars holds, else 0.
    pub fn compare_float(&mut self, predicate: i64, d: DType, a: Reg, b: Reg) -> Reg {
        let wide = d == DType::F64;
        let g = if self.isa == Isa::Avx512 {
            let row = if wide { t::CMPPD_K } else { t::CMPPS_K };
            let k = self.v2k(row, Size::X, a, r(b, Size::X), Some(predicate));
            self.no_fold();
            self.mask_bits(k)
        } else {
            let m = self.v2i(if wide { t::CMPPD } else { t::CMPPS }, Size::X, a, b, predicate);
            self.no_fold();
            self.lane_to_int(m, Size::D)
        };
        self.g2i(Arith::And, g, Size::D, 1);
        g
    }
    /// The last instruction works on scalars with an instruction of vectors: memory would be read beyond.
    pub fn no_fold(&mut self) {
        if let Some(i) = self.blocks[self.at].insts.last_mut() {
            i.fold = Fold::No;
        }
    }
    /// An operand in a register.
    pub fn in_register(&mut self, o: Opd, size: Size, d: DType) -> Reg {
        match o {
            Opd::Reg(x, _) => x,
            Opd::Mem(m) if size == Size::X => self.load_bytes(d.size(), m, None),
            o => self.v1(t::MOVUPS, size, o),
        }
    }
    fn select_scalar(&mut self, n: &UOp) -> Result<Reg, Error> {
        let (a, b) = (self.scalar_operand(&n.src[1])?, self.scalar_operand(&n.src[2])?);
        if let Some(rows) = chosen_extreme(n).and_then(float_row) {
            return Ok(self.v2(rows[(n.dtype == DType::F64) as usize], Size::X, a, b));
        }
        let c = self.scalar_operand(&n.src[0])?;
        if !is_real(n.dtype) {
            let x = self.copy_int(b);
            self.test(c);
            self.g2(Code::Cmovne_r64_rm64, x, r(a, Size::Q));
            return Ok(x);
        }
        if self.isa == Isa::Avx512 {
            let k = self.mask_of(c);
            return Ok(self.blend_mask(n.dtype, Size::X, k, a, b));
        }
        let g = self.copy_int(c);
        self.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(g, Size::Q)]);
        let g = self.int_to_lane(g, Size::Q);
        Ok(self.blend(n.dtype, Size::X, g, a, b))
    }
    fn bitcast_scalar(&mut self, n: &UOp, x: Reg, from: DType, to: DType) -> Result<Reg, Error> {
        if from.size() != to.size() {
            return Err(self.unsupported(n));
        }
        Ok(match (is_real(from), is_real(to)) {
            (true, false) => self.lane_to_int(x, int_size(to)),
            (false, true) => self.int_to_lane(x, int_size(from)),
            (true, true) => x,
            (false, false) => self.normalise(x, to),
        })
    }
}

fn condition(alu: Alu, d: DType) -> Code {
    match (alu, is_signed(d)) {
        (Alu::Eq, _) => Code::Sete_rm8,
        (Alu::Ne, _) => Code::Setne_rm8,
        (_, true) => Code::Setl_rm8,
        (_, false) => Code::Setb_rm8,
    }
}
