//! Conversions. Float to integer saturates and NaN gives 0; everything else rounds once, to nearest even.

use super::Select;
use super::address::is_signed;
use super::build::{Arith, byte, r};
use super::scalar::sign_bit;
use super::types::{Val, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Kind, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::target::Isa;
use frit_abi::{Alu, DType};
use frit_uop::UOp;
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

/// 2^p as the bits of a float type.
fn power(d: DType, p: i64) -> u64 {
    if d == DType::F64 { ((p + 1023) as u64) << 52 } else { ((p + 127) as u64) << 23 }
}
/// A number as the bits of a float type.
fn float_bits(d: DType, v: f64) -> u64 {
    if d == DType::F64 { v.to_bits() } else { (v as f32).to_bits() as u64 }
}

/// Widening of integers: with sign, without; by the sizes of the elements.
fn widen_row(from: usize, to: usize, signed: bool) -> Row {
    let [s, z] = match (from, to) {
        (1, 2) => [t::PMOVSXBW, t::PMOVZXBW],
        (1, 4) => [t::PMOVSXBD, t::PMOVZXBD],
        (1, _) => [t::PMOVSXBQ, t::PMOVZXBQ],
        (2, 4) => [t::PMOVSXWD, t::PMOVZXWD],
        (2, _) => [t::PMOVSXWQ, t::PMOVZXWQ],
        _ => [t::PMOVSXDQ, t::PMOVZXDQ],
    };
    if signed { s } else { z }
}
/// Cutting integers.
fn narrow_row(from: usize, to: usize) -> Row {
    match (from, to) {
        (2, _) => t::PMOVWB,
        (4, 1) => t::PMOVDB,
        (4, _) => t::PMOVDW,
        (_, 1) => t::PMOVQB,
        (_, 2) => t::PMOVQW,
        _ => t::PMOVQD,
    }
}

impl Select<'_> {
    /// A cast that gives a vector.
    pub fn cast_vector(&mut self, n: &UOp) -> Result<Val, Error> {
        let (from, to) = (n.src[0].dtype, n.dtype);
        let v = self.operand(&n.src[0])?;
        if from == DType::Bool && !to.is_small_float() {
            let one = if to.is_float() { float_bits(to, 1.0) } else { 1 };
            return Ok(self.numbers_of_truth(&v, to, one));
        }
        if matches!((from, to), (DType::F16, DType::F32) | (DType::F32, DType::F16)) && self.isa != Isa::Sse2
        {
            return Ok(self.convert_half(&v, to));
        }
        if from.is_small_float() || to.is_small_float() {
            return Err(self.unsupported(n));
        }
        if to == DType::Bool {
            let zero = self.zero(v.size());
            let zero = Val { parts: smallvec![zero; v.parts.len()], ..v.clone() };
            return self.compare_vals(n, Alu::Ne, from, &v, &zero);
        }
        match (is_real(from), is_real(to)) {
            (false, false) => {
                let (least, most) = n.src[0].bounds;
                let fits = 0 <= least && most >> (8 * to.size()) == 0;
                Ok(self.cast_ints_known(&v, from, to, fits))
            }
            (true, true) => Ok(self.cast_floats(&v, from, to)),
            (false, true) => self.int_to_float(n, &v, from, to),
            (true, false) => self.float_to_int(n, &v, from, to),
        }
    }
    /// float16 from and to float32, in hardware.
    fn convert_half(&mut self, v: &Val, to: DType) -> Val {
        let per = self.part_lanes(DType::F32, v.lanes);
        let (whole, half) = (Size::of_bytes(4 * per), Size::of_bytes(2 * per));
        let v = self.repart(v, per);
        let parts = v.parts.iter().map(|&p| {
            if to == DType::F32 {
                return self.v1_sized(t::CVTPH2PS, whole, whole, r(p, half));
            }
            let dst = self.vec(half);
            let ops = smallvec![r(dst, half), r(p, whole), byte(0)];
            self.emit(Kind::Row(t::CVTPS2PH, whole), Def::Write, ops);
            dst
        });
        let out = Val { parts: parts.collect(), elem: to, lanes: v.lanes };
        let per = self.part_lanes(to, v.lanes);
        self.repart(&out, per)
    }

    // ---- integers to integers

    /// Integers as another integer type; the value's own type says how they are extended.
    pub fn cast_ints(&mut self, v: &Val, to: DType) -> Val {
        self.cast_ints_from(v, v.elem, to)
    }
    /// Integers of a type as another.
    pub fn cast_ints_from(&mut self, v: &Val, from: DType, to: DType) -> Val {
        self.cast_ints_known(v, from, to, false)
    }
    /// The same; `fits` says that all bits beyond those of a narrower type are zero.
    fn cast_ints_known(&mut self, v: &Val, from: DType, to: DType, fits: bool) -> Val {
        let lanes = v.lanes;
        if from.size() == to.size() {
            return Val { elem: to, ..v.clone() };
        }
        if from.size() < to.size() {
            let per = self.part_lanes(to, lanes);
            let v = self.repart(v, per);
            let parts = v.parts.iter().map(|&p| self.widen(p, from, to, per)).collect();
            return Val { parts, elem: to, lanes };
        }
        let per = v.per_part();
        let parts: SmallVec<[Reg; 2]> =
            v.parts.iter().map(|&p| self.narrow(p, from, to, per, fits)).collect();
        let out = Val { parts, elem: to, lanes };
        let per = self.part_lanes(to, lanes);
        self.repart(&out, per)
    }
    fn widen(&mut self, x: Reg, from: DType, to: DType, per: usize) -> Reg {
        let signed = is_signed(from);
        let (mut bytes, size) = (from.size(), Size::of_bytes(per * to.size()));
        if self.isa != Isa::Sse2 {
            let half = Size::of_bytes(per * bytes);
            return self.v1_sized(widen_row(bytes, to.size(), signed), size, size, r(x, half));
        }
        let mut x = x;
        while bytes < to.size() {
            let zero = self.zero(Size::X);
            let high = match (signed, bytes) {
                (false, _) => zero,
                (_, 1) => self.v2(t::PCMPGTB, Size::X, zero, x),
                (_, 2) => self.v2(t::PCMPGTW, Size::X, zero, x),
                _ => self.v2(t::PCMPGTD, Size::X, zero, x),
            };
            x = self.join(x, high, bytes);
            if bytes == 8 {
                break;
            }
            bytes *= 2;
        }
        x
    }
    fn narrow(&mut self, x: Reg, from: DType, to: DType, per: usize, fits: bool) -> Reg {
        if self.isa == Isa::Avx512 {
            let (whole, part) = (Size::of_bytes(per * from.size()), Size::of_bytes(per * to.size()));
            return self.v1_sized(narrow_row(from.size(), to.size()), whole, part, r(x, whole));
        }
        let (mut x, mut bytes) = (x, from.size());
        while bytes > to.size() {
            x = self.halve(x, bytes, Size::of_bytes(per * bytes), fits);
            bytes /= 2;
        }
        x
    }
    /// Elements of `bytes` bytes cut to half. What packs them saturates, so the upper half is made zero where it is not, or,
    /// without an instruction that takes them as unsigned, copies of the sign.
    fn halve(&mut self, x: Reg, bytes: usize, size: Size, fits: bool) -> Reg {
        let is_unsigned = bytes == 2 || t::PACKUSDW.is_in(self.isa);
        let x = match bytes {
            2 | 4 if is_unsigned && fits => x,
            2 | 4 if is_unsigned => {
                let low = self.bits((1 << (4 * bytes)) - 1, bytes, size);
                self.v2(t::PAND, size, x, low)
            }
            4 => {
                let up = self.v1i(t::PSLLD, size, x, 16);
                self.v1i(t::PSRAD, size, up, 16)
            }
            _ => x,
        };
        let high = if size == Size::Y { self.chunk(x, size, 1) } else { x };
        match (bytes, size) {
            (8, Size::Y) => self.v2i(t::SHUFPS, Size::X, x, high, 0x88),
            (8, _) => self.v1i(t::PSHUFD, Size::X, x, 0x08),
            (4, _) if is_unsigned => self.v2(t::PACKUSDW, Size::X, x, high),
            (4, _) => self.v2(t::PACKSSDW, Size::X, x, high),
            _ => self.v2(t::PACKUSWB, Size::X, x, high),
        }
    }

    // ---- floats

    fn cast_floats(&mut self, v: &Val, from: DType, to: DType) -> Val {
        if from == to {
            return v.clone();
        }
        let per = self.part_lanes(DType::F64, v.lanes);
        let (whole, half) = (Size::of_bytes(8 * per), Size::of_bytes(4 * per));
        let v = self.repart(v, per);
        let parts = v.parts.iter().map(|&p| match to {
            DType::F64 => self.v1_sized(t::CVTPS2PD, whole, whole, r(p, half)),
            _ => self.v1_sized(t::CVTPD2PS, whole, half, r(p, whole)),
        });
        let out = Val { parts: parts.collect(), elem: to, lanes: v.lanes };
        let per = self.part_lanes(to, v.lanes);
        self.repart(&out, per)
    }
    /// Convert part by part where source and result differ in size: `per` lanes at a time.
    fn convert(&mut self, v: &Val, to: DType, row: Row) -> Val {
        let wide = if v.elem.size() > to.size() { v.elem } else { to };
        let per = self.part_lanes(wide, v.lanes);
        let form = Size::of_bytes(per * wide.size());
        let (a, b) = (Size::of_bytes(per * v.elem.size()), Size::of_bytes(per * to.size()));
        let v = self.repart(v, per);
        let parts = v.parts.iter().map(|&p| self.v1_sized(row, form, b, r(p, a))).collect();
        let out = Val { parts, elem: to, lanes: v.lanes };
        let per = self.part_lanes(to, v.lanes);
        self.repart(&out, per)
    }
    fn int_to_float(&mut self, n: &UOp, v: &Val, from: DType, to: DType) -> Result<Val, Error> {
        let v = Val { elem: from, ..v.clone() };
        if from.size() < 4 {
            let wide = self.cast_ints_from(&v, from, DType::I32);
            return self.int_to_float(n, &wide, DType::I32, to);
        }
        let has = self.isa == Isa::Avx512;
        let row = match (from, to) {
            (DType::I32, DType::F32) => Some(t::CVTDQ2PS),
            (DType::I32, _) => Some(t::CVTDQ2PD),
            (DType::U32, DType::F32) if has => Some(t::CVTUDQ2PS),
            (DType::U32, _) if has => Some(t::CVTUDQ2PD),
            (DType::I64, DType::F32) if has => Some(t::CVTQQ2PS),
            (DType::I64, _) if has => Some(t::CVTQQ2PD),
            (DType::U64, DType::F32) if has => Some(t::CVTUQQ2PS),
            (DType::U64, _) if has => Some(t::CVTUQQ2PD),
            _ => None,
        };
        if let Some(row) = row {
            return Ok(self.convert(&v, to, row));
        }
        let size = v.size();
        match (from, to) {
            (DType::U32, DType::F32) => {
                // two halves that are exact, and one rounding when they are added
                let parts = v.parts.iter().map(|&p| {
                    let low = self.bits(0xffff, 4, size);
                    let (high, low) = (self.v1i(t::PSRLD, size, p, 16), self.v2(t::PAND, size, p, low));
                    let (high, low) =
                        (self.v1(t::CVTDQ2PS, size, r(high, size)), self.v1(t::CVTDQ2PS, size, r(low, size)));
                    let scale = self.bits(power(DType::F32, 16), 4, size);
                    let high = self.v2(t::MULPS, size, high, scale);
                    self.v2(t::ADDPS, size, high, low)
                });
                Ok(Val { parts: parts.collect(), elem: to, lanes: v.lanes })
            }
            (DType::U32, _) => {
                // the integer as the last digits of 2^52
                let wide = self.cast_ints_from(&v, from, DType::U64);
                let size = wide.size();
                let base = self.bits(power(DType::F64, 52), 8, size);
                let parts = wide.parts.iter().map(|&p| {
                    let x = self.v2(t::POR, size, p, base);
                    self.v2(t::SUBPD, size, x, base)
                });
                Ok(Val { parts: parts.collect(), elem: to, lanes: v.lanes })
            }
            _ => self.lanewise(&[&v], to, |s, x| s.cast_scalar(n, x[0], from, to)),
        }
    }
    fn float_to_int(&mut self, n: &UOp, v: &Val, from: DType, to: DType) -> Result<Val, Error> {
        let has = self.isa == Isa::Avx512;
        let exact = to.size() < 4 || (from == DType::F64 && to == DType::I32);
        if exact {
            let x = self.clamped(v, from, to);
            let row = if from == DType::F64 { t::CVTTPD2DQ } else { t::CVTTPS2DQ };
            let whole = self.convert(&x, DType::I32, row);
            return Ok(self.cast_ints_from(&whole, DType::I32, to));
        }
        match (from, to) {
            (DType::F32, DType::I32) => {
                let size = v.size();
                let parts = v.parts.iter().map(|&p| self.truncate_32(size, p)).collect();
                Ok(Val { parts, elem: to, lanes: v.lanes })
            }
            (DType::F32, DType::U32) if !has => {
                let size = v.size();
                let parts = v.parts.iter().map(|&p| self.truncate_u32(size, p)).collect();
                Ok(Val { parts, elem: to, lanes: v.lanes })
            }
            (_, DType::U32 | DType::U64) if has => {
                // what is too large gives all ones, as it should; NaN becomes the second operand
                let (size, wide) = (v.size(), from == DType::F64);
                let zero = self.zero(size);
                let max = if wide { t::MAXPD } else { t::MAXPS };
                let parts = v.parts.iter().map(|&p| self.v2(max, size, p, zero)).collect();
                let row = match (wide, to) {
                    (false, DType::U32) => t::CVTTPS2UDQ,
                    (true, DType::U32) => t::CVTTPD2UDQ,
                    (false, _) => t::CVTTPS2UQQ,
                    (true, _) => t::CVTTPD2UQQ,
                };
                Ok(self.convert(&Val { parts, ..v.clone() }, to, row))
            }
            (_, DType::I64) if has => Ok(self.truncate_64(v, from)),
            _ => self.lanewise(&[v], to, |s, x| s.cast_scalar(n, x[0], from, to)),
        }
    }
    /// Floats within the bounds of an integer type that the float type holds exactly; NaN becomes 0.
    fn clamped(&mut self, v: &Val, from: DType, to: DType) -> Val {
        let (size, wide) = (v.size(), from == DType::F64);
        let (lo, hi) = to.int_range().unwrap_or((0, 0));
        let lo = self.bits(float_bits(from, lo as f64), from.size(), size);
        let hi = self.bits(float_bits(from, hi as f64), from.size(), size);
        let (max, min) = if wide { (t::MAXPD, t::MINPD) } else { (t::MAXPS, t::MINPS) };
        let parts = v.parts.iter().map(|&p| {
            let x = self.without_nan(from, size, p);
            let x = self.v2(max, size, x, lo);
            self.v2(min, size, x, hi)
        });
        Val { parts: parts.collect(), ..v.clone() }
    }
    /// float32 to int32: what does not fit comes as the lowest number, whose complement is the highest.
    fn truncate_32(&mut self, size: Size, p: Reg) -> Reg {
        let x = self.without_nan(DType::F32, size, p);
        let whole = self.v1(t::CVTTPS2DQ, size, r(x, size));
        let limit = self.bits(power(DType::F32, 31), 4, size);
        if self.isa == Isa::Avx512 {
            let k = self.v2k(t::CMPPS_K, size, limit, r(x, size), Some(2));
            let most = self.bits(i32::MAX as u64, 4, size);
            return self.blend_mask(DType::I32, size, k, most, whole);
        }
        let over = self.v2i(t::CMPPS, size, limit, x, 2);
        self.v2(t::PXOR, size, whole, over)
    }
    /// float32 to uint32 by signed conversions: the upper half of the range moved down and marked.
    fn truncate_u32(&mut self, size: Size, p: Reg) -> Reg {
        let (zero, half) = (self.zero(size), self.bits(power(DType::F32, 31), 4, size));
        let all = self.bits(power(DType::F32, 32), 4, size);
        let x = self.v2(t::MAXPS, size, p, zero);
        let big = self.v2i(t::CMPPS, size, half, x, 2);
        let down = self.v2(t::PAND, size, big, half);
        let low = self.v2(t::SUBPS, size, x, down);
        let whole = self.v1(t::CVTTPS2DQ, size, r(low, size));
        let sign = self.bits(sign_bit(DType::U32), 4, size);
        let up = self.v2(t::PAND, size, big, sign);
        let whole = self.v2(t::PXOR, size, whole, up);
        let over = self.v2i(t::CMPPS, size, all, x, 2);
        self.v2(t::POR, size, whole, over)
    }
    /// To int64, with AVX-512.
    fn truncate_64(&mut self, v: &Val, from: DType) -> Val {
        let wide = from == DType::F64;
        let per = self.part_lanes(DType::I64, v.lanes);
        let (a, b) = (Size::of_bytes(per * from.size()), Size::of_bytes(per * 8));
        let v = self.repart(v, per);
        let parts = v.parts.iter().map(|&p| {
            let x = self.without_nan(from, a, p);
            let row = if wide { t::CVTTPD2QQ } else { t::CVTTPS2QQ };
            let whole = self.v1_sized(row, b, b, r(x, a));
            let limit = self.bits(power(from, 63), from.size(), a);
            let k = self.v2k(if wide { t::CMPPD_K } else { t::CMPPS_K }, a, limit, r(x, a), Some(2));
            let most = self.bits(i64::MAX as u64, 8, b);
            self.blend_mask(DType::I64, b, k, most, whole)
        });
        Val { parts: parts.collect(), elem: DType::I64, lanes: v.lanes }
    }

    // ---- scalars

    /// A scalar as another type.
    pub fn cast_scalar(&mut self, n: &UOp, x: Reg, from: DType, to: DType) -> Result<Reg, Error> {
        if matches!((from, to), (DType::F16, DType::F32) | (DType::F32, DType::F16)) && self.isa != Isa::Sse2
        {
            return Ok(self.half_scalar(x, to));
        }
        if (from.is_small_float() || to.is_small_float()) && from != to {
            return Err(self.unsupported(n));
        }
        Ok(match (is_real(from), is_real(to)) {
            _ if from == to => x,
            (true, true) => self.unary_scalar(if to == DType::F64 { t::CVTSS2SD } else { t::CVTSD2SS }, x),
            (true, false) if to == DType::Bool => {
                let zero = self.zero(Size::X);
                self.compare_float(4, from, x, zero)
            }
            (true, false) => self.truncate_scalar(x, from, to),
            (false, true) => self.int_to_float_scalar(x, from, to),
            (false, false) => self.int_to_int_scalar(x, from, to),
        })
    }
    fn half_scalar(&mut self, x: Reg, to: DType) -> Reg {
        if to == DType::F32 {
            let x = self.int_to_lane(x, Size::D);
            return self.v1(t::CVTPH2PS, Size::X, r(x, Size::X));
        }
        let dst = self.vec(Size::X);
        let ops = smallvec![r(dst, Size::X), r(x, Size::X), byte(0)];
        self.emit(Kind::Row(t::CVTPS2PH, Size::X), Def::Write, ops);
        let g = self.lane_to_int(dst, Size::D);
        self.normalise(g, to)
    }
    fn int_to_int_scalar(&mut self, x: Reg, from: DType, to: DType) -> Reg {
        if to == DType::Bool {
            let code = if from.size() == 8 { Code::Test_rm64_r64 } else { Code::Test_rm32_r32 };
            let size = if from.size() == 8 { Size::Q } else { Size::D };
            self.emit(Kind::Plain(code), Def::Nothing, smallvec![r(x, size), r(x, size)]);
            return self.set_if(Code::Setne_rm8);
        }
        let extends = |code: Code, s: &mut Self, a: Size| {
            let dst = s.int();
            s.emit(Kind::Plain(code), Def::Write, smallvec![r(dst, a), r(x, Size::D)]);
            dst
        };
        match (from.size(), to.size()) {
            (1 | 2 | 4, 8) if is_signed(from) => extends(Code::Movsxd_r64_rm32, self, Size::Q),
            (8, 4) => extends(Code::Mov_r32_rm32, self, Size::D),
            (_, 1 | 2) if from != to => self.normalise(x, to),
            _ => x,
        }
    }
    fn int_to_float_scalar(&mut self, x: Reg, from: DType, to: DType) -> Reg {
        let wide = to == DType::F64;
        if from == DType::U64 {
            return self.u64_to_float(x, wide);
        }
        let size = if from.size() == 8 || from == DType::U32 { Size::Q } else { Size::D };
        self.signed_to_float(x, size, wide)
    }
    fn signed_to_float(&mut self, x: Reg, size: Size, wide: bool) -> Reg {
        let row = match (wide, size) {
            (false, Size::Q) => t::CVTSI2SS_Q,
            (false, _) => t::CVTSI2SS_D,
            (true, Size::Q) => t::CVTSI2SD_Q,
            (true, _) => t::CVTSI2SD_D,
        };
        let dst = self.vec(Size::X);
        if self.isa == Isa::Sse2 {
            self.emit(Kind::Zero, Def::Write, smallvec![r(dst, Size::X)]);
            self.emit(Kind::Row(row, Size::X), Def::Modify, smallvec![r(dst, Size::X), r(x, size)]);
        } else {
            let zero = self.zero(Size::X);
            let ops = smallvec![r(dst, Size::X), r(zero, Size::X), r(x, size)];
            self.emit(Kind::Row(row, Size::X), Def::Write, ops);
        }
        dst
    }
    /// Halved with the last bit kept for rounding, converted and doubled, where the top bit is set.
    fn u64_to_float(&mut self, x: Reg, wide: bool) -> Reg {
        let direct = self.signed_to_float(x, Size::Q, wide);
        let half = self.copy_int(x);
        self.shift_int(Code::Shr_rm64_imm8, half, Size::Q, 1);
        let last = self.copy_int(x);
        self.g2i(Arith::And, last, Size::D, 1);
        self.g2(Code::Or_r64_rm64, half, r(last, Size::Q));
        let half = self.signed_to_float(half, Size::Q, wide);
        let double = self.v2(if wide { t::ADDSD } else { t::ADDSS }, Size::X, half, half);
        let top = self.copy_int(x);
        self.shift_int(Code::Shr_rm64_imm8, top, Size::Q, 63);
        let d = if wide { DType::F64 } else { DType::F32 };
        self.choose_scalar(d, top, double, direct)
    }
    /// `truth ? a : b` of two scalar floats.
    fn choose_scalar(&mut self, d: DType, truth: Reg, a: Reg, b: Reg) -> Reg {
        if self.isa == Isa::Avx512 {
            let k = self.mask_of(truth);
            return self.blend_mask(d, Size::X, k, a, b);
        }
        let g = self.copy_int(truth);
        self.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(g, Size::Q)]);
        let g = self.int_to_lane(g, Size::Q);
        self.blend(d, Size::X, g, a, b)
    }
    fn double_const(&mut self, v: f64) -> Reg {
        self.vec_const(&v.to_bits().to_le_bytes())
    }
    /// A float to an integer, in double precision, which holds every float32 and the bounds of 32-bit integers.
    fn truncate_scalar(&mut self, x: Reg, from: DType, to: DType) -> Reg {
        let x = if from == DType::F32 { self.unary_scalar(t::CVTSS2SD, x) } else { x };
        let x = self.without_nan(DType::F64, Size::X, x);
        let whole = |s: &mut Self, x: Reg| {
            let dst = s.int();
            s.emit(Kind::Row(t::CVTTSD2SI_Q, Size::X), Def::Write, smallvec![r(dst, Size::Q), r(x, Size::X)]);
            dst
        };
        if to.size() <= 4 {
            let (lo, hi) = to.int_range().unwrap_or((0, 0));
            let (lo, hi) = (self.double_const(lo as f64), self.double_const(hi as f64));
            let x = self.v2(t::MAXSD, Size::X, x, lo);
            let x = self.v2(t::MINSD, Size::X, x, hi);
            let g = whole(self, x);
            return self.int_to_int_scalar(g, DType::I64, DType::I32);
        }
        let limit = self.double_const(2f64.powi(63));
        let big = self.compare_float(2, DType::F64, limit, x);
        if is_signed(to) {
            // what does not fit comes as the lowest number, whose complement is the highest
            let g = whole(self, x);
            self.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(big, Size::Q)]);
            self.g2(Code::Xor_r64_rm64, g, r(big, Size::Q));
            return g;
        }
        let zero = self.double_const(0.0);
        let x = self.v2(t::MAXSD, Size::X, x, zero);
        let low = whole(self, x);
        let down = self.v2(t::SUBSD, Size::X, x, limit);
        let high = whole(self, down);
        let sign = self.int_const(i64::MIN);
        self.g2(Code::Xor_r64_rm64, high, r(sign, Size::Q));
        self.test(big);
        self.g2(Code::Cmovne_r64_rm64, low, r(high, Size::Q));
        let all = self.double_const(2f64.powi(64));
        let over = self.compare_float(2, DType::F64, all, x);
        self.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(over, Size::Q)]);
        self.g2(Code::Or_r64_rm64, low, r(over, Size::Q));
        low
    }
}
