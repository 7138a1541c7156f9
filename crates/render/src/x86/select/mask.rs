//! Truth: comparisons, masks and their logic, and choosing by them.

use super::Select;
use super::address::is_signed;
use super::build::{byte, r};
use super::lanes::all_lanes;
use super::scalar::{float_row, predicate, sign_bit};
use super::types::{Val, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Kind, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::target::Isa;
use frit_abi::{Alu, DType};
use frit_uop::{Op, UOp};
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

/// The signed integer as wide as an element: what masks of such elements are made of.
pub fn mask_elem(d: DType) -> DType {
    match d.size() {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    }
}

/// The row of a comparison to a mask register.
fn compare_row(d: DType) -> Row {
    match (d, d.size(), is_signed(d)) {
        (DType::F32, ..) => t::CMPPS_K,
        (DType::F64, ..) => t::CMPPD_K,
        (_, 1, true) => t::PCMPB_K,
        (_, 1, false) => t::PCMPUB_K,
        (_, 2, true) => t::PCMPW_K,
        (_, 2, false) => t::PCMPUW_K,
        (_, 4, true) => t::PCMPD_K,
        (_, 4, false) => t::PCMPUD_K,
        (_, _, true) => t::PCMPQ_K,
        (_, _, false) => t::PCMPUQ_K,
    }
}

/// `Min` or `Max` where a choice is what the instruction of that name does, `Where(a < b, a, b)` or `Where(b < a, a, b)`: of
/// two zeros, and where one is NaN, it gives the second.
pub fn chosen_extreme(n: &UOp) -> Option<Alu> {
    let (c, a, b) = (&n.src[0], &n.src[1], &n.src[2]);
    if c.op != Op::Lt || !is_real(n.dtype) {
        return None;
    }
    match (&c.src[0], &c.src[1]) {
        (x, y) if (x, y) == (a, b) => Some(Alu::Min),
        (x, y) if (y, x) == (a, b) => Some(Alu::Max),
        _ => None,
    }
}

impl Select<'_> {
    /// A comparison of vectors.
    pub fn compare_vector(&mut self, n: &UOp, alu: Alu, d: DType, lanes: usize) -> Result<Val, Error> {
        let (a, b) = (self.vector_operand(&n.src[0], d, lanes)?, self.vector_operand(&n.src[1], d, lanes)?);
        self.compare_vals(n, alu, d, &a, &b)
    }
    /// A comparison of vectors in registers.
    pub fn compare_vals(&mut self, n: &UOp, alu: Alu, d: DType, a: &Val, b: &Val) -> Result<Val, Error> {
        let size = a.size();
        if self.isa == Isa::Avx512 {
            let row = compare_row(d);
            let ks = (0..a.parts.len())
                .map(|k| self.v2k(row, size, a.parts[k], r(b.parts[k], size), Some(predicate(alu))))
                .collect();
            return Ok(self.join_masks(ks, a));
        }
        if d.size() == 8 && d.is_int() && self.isa == Isa::Sse2 {
            return self.compare_lanes(n, alu, d, a, b);
        }
        let parts =
            (0..a.parts.len()).map(|k| self.compare_part(alu, d, size, a.parts[k], b.parts[k])).collect();
        Ok(Val { parts, elem: mask_elem(d), lanes: a.lanes })
    }
    fn compare_part(&mut self, alu: Alu, d: DType, size: Size, a: Reg, b: Reg) -> Reg {
        if is_real(d) {
            let row = if d == DType::F64 { t::CMPPD } else { t::CMPPS };
            return self.v2i(row, size, a, b, predicate(alu));
        }
        let at = d.size().trailing_zeros() as usize;
        let equal = [t::PCMPEQB, t::PCMPEQW, t::PCMPEQD, t::PCMPEQQ][at];
        match alu {
            Alu::Lt => {
                let (mut a, mut b) = (a, b);
                if !is_signed(d) {
                    let sign = self.bits(sign_bit(d), d.size(), size);
                    (a, b) = (self.v2(t::PXOR, size, a, sign), self.v2(t::PXOR, size, b, sign));
                }
                self.v2([t::PCMPGTB, t::PCMPGTW, t::PCMPGTD, t::PCMPGTQ][at], size, b, a)
            }
            Alu::Eq => self.v2(equal, size, a, b),
            _ => {
                let e = self.v2(equal, size, a, b);
                self.complement(size, e)
            }
        }
    }
    fn complement(&mut self, size: Size, x: Reg) -> Reg {
        let ones = self.ones(size);
        self.v2(t::PXOR, size, x, ones)
    }
    fn compare_lanes(&mut self, n: &UOp, alu: Alu, d: DType, a: &Val, b: &Val) -> Result<Val, Error> {
        self.lanewise(&[a, b], mask_elem(d), |s, x| {
            let bit = s.int_scalar(n, alu, d, x[0], Some(x[1]))?;
            s.emit(Kind::Plain(Code::Neg_rm64), Def::Modify, smallvec![r(bit, Size::Q)]);
            Ok(bit)
        })
    }
    /// Masks of the parts of a vector as one; bits beyond the lanes are cleared.
    pub fn join_masks(&mut self, ks: Vec<Reg>, of: &Val) -> Val {
        let (per, lanes) = (of.per_part(), of.lanes);
        let mut all = ks[0];
        for (i, &k) in ks.iter().enumerate().skip(1) {
            let (up, both) = (self.mask(), self.mask());
            let ops = smallvec![r(up, Size::K), r(k, Size::K), byte((i * per) as i64)];
            self.emit(Kind::Plain(Code::VEX_Kshiftlq_kr_kr_imm8), Def::Write, ops);
            let ops = smallvec![r(both, Size::K), r(all, Size::K), r(up, Size::K)];
            self.emit(Kind::Plain(Code::VEX_Korq_kr_kr_kr), Def::Write, ops);
            all = both;
        }
        if per * of.elem.size() < 16 {
            let keep = self.mask_const(all_lanes(lanes));
            all = self.mask_op(Code::VEX_Kandq_kr_kr_kr, all, keep);
        }
        Val::one(all, DType::Bool, lanes)
    }
    fn mask_op(&mut self, code: Code, a: Reg, b: Reg) -> Reg {
        let dst = self.mask();
        let ops = smallvec![r(dst, Size::K), r(a, Size::K), r(b, Size::K)];
        self.emit(Kind::Plain(code), Def::Write, ops);
        dst
    }
    /// The mask of part `k` of a vector with `per` lanes in a part.
    pub fn mask_part(&mut self, mask: &Val, k: usize, per: usize) -> Reg {
        if k == 0 {
            return mask.parts[0];
        }
        let dst = self.mask();
        let ops = smallvec![r(dst, Size::K), r(mask.parts[0], Size::K), byte((k * per) as i64)];
        self.emit(Kind::Plain(Code::VEX_Kshiftrq_kr_kr_imm8), Def::Write, ops);
        dst
    }
    /// A mask with lanes as wide as `elem`.
    pub fn mask_as(&mut self, v: &Val, elem: DType) -> Result<Val, Error> {
        if v.elem == DType::Bool {
            return Ok(v.clone());
        }
        let to = mask_elem(elem);
        Ok(if v.elem == to { v.clone() } else { self.cast_ints(v, to) })
    }
    /// True where a byte is not 0.
    pub fn truth_of_bytes(&mut self, v: &Val) -> Val {
        let size = v.size();
        if self.isa == Isa::Avx512 {
            let ks = v.parts.iter().map(|&p| self.v2k(t::PTESTMB, size, p, r(p, size), None)).collect();
            return self.join_masks(ks, v);
        }
        let zero = self.zero(size);
        let parts = v.parts.iter().map(|&p| {
            let e = self.v2(t::PCMPEQB, size, p, zero);
            self.complement(size, e)
        });
        Val { parts: parts.collect(), ..v.clone() }
    }
    /// 1 in the bytes of true lanes, 0 in the others.
    pub fn bytes_of_truth(&mut self, v: &Val) -> Val {
        self.numbers_of_truth(v, DType::U8, 1)
    }
    /// A bit pattern in the lanes that are true, 0 in the others.
    pub fn numbers_of_truth(&mut self, v: &Val, to: DType, one: u64) -> Val {
        let lanes = v.lanes;
        let per = self.part_lanes(to, lanes);
        let size = Size::of_bytes(per * to.size());
        let ones = self.bits(one, to.size(), size);
        let parts = if v.elem == DType::Bool {
            (0..lanes / per)
                .map(|k| {
                    let mask = self.mask_part(v, k, per);
                    self.where_mask(to, size, mask, ones)
                })
                .collect()
        } else {
            let m = if v.elem == mask_elem(to) { v.clone() } else { self.cast_ints(v, mask_elem(to)) };
            m.parts.iter().map(|&p| self.v2(t::PAND, size, p, ones)).collect()
        };
        Val { parts, elem: to, lanes }
    }
    pub fn logic_vector(&mut self, n: &UOp, alu: Alu, lanes: usize) -> Result<Val, Error> {
        let masks = self.isa == Isa::Avx512;
        let mut elem = DType::Bool;
        if !masks {
            for s in n.src.iter().filter(|s| s.lanes() > 1) {
                let e = self.operand(s)?.elem;
                elem = if elem == DType::Bool || e.size() > elem.size() { e } else { elem };
            }
        }
        let mut x: Vec<Val> = vec![];
        for s in &n.src {
            x.push(self.vector_operand(s, elem, lanes)?);
        }
        let size = if masks { Size::K } else { x[0].size() };
        let mut parts = SmallVec::new();
        for k in 0..x[0].parts.len() {
            let p: Vec<Reg> = x.iter().map(|v| v.parts[k]).collect();
            let Some(reg) = self.logic_part(alu, size, &p, lanes) else { return Err(self.unsupported(n)) };
            parts.push(reg);
        }
        Ok(Val { parts, elem, lanes })
    }
    fn logic_part(&mut self, alu: Alu, size: Size, p: &[Reg], lanes: usize) -> Option<Reg> {
        let masks = size == Size::K;
        let op = |s: &mut Self, row: Row, code: Code, a: Reg, b: Reg| {
            if masks { s.mask_op(code, a, b) } else { s.v2(row, size, a, b) }
        };
        use Code::*;
        let flip = |s: &mut Self, a: Reg| {
            let ones = if masks { s.mask_const(all_lanes(lanes)) } else { s.ones(size) };
            if masks { s.mask_op(VEX_Kxorq_kr_kr_kr, a, ones) } else { s.v2(t::PXOR, size, a, ones) }
        };
        Some(match alu {
            Alu::Not | Alu::Neg => flip(self, p[0]),
            Alu::Add | Alu::Or | Alu::Max => op(self, t::POR, VEX_Korq_kr_kr_kr, p[0], p[1]),
            Alu::Mul | Alu::And | Alu::Min | Alu::Tdiv | Alu::Idiv => {
                op(self, t::PAND, VEX_Kandq_kr_kr_kr, p[0], p[1])
            }
            Alu::Sub | Alu::Xor | Alu::Ne => op(self, t::PXOR, VEX_Kxorq_kr_kr_kr, p[0], p[1]),
            Alu::Eq => {
                let x = op(self, t::PXOR, VEX_Kxorq_kr_kr_kr, p[0], p[1]);
                flip(self, x)
            }
            Alu::Lt => op(self, t::PANDN, VEX_Kandnq_kr_kr_kr, p[0], p[1]),
            Alu::MulAcc => {
                let x = op(self, t::PAND, VEX_Kandq_kr_kr_kr, p[0], p[1]);
                op(self, t::POR, VEX_Korq_kr_kr_kr, x, p[2])
            }
            _ => return None,
        })
    }

    // ---- choosing

    /// `mask ? a : b`, the mask a vector.
    pub fn blend(&mut self, d: DType, size: Size, g: Reg, a: Reg, b: Reg) -> Reg {
        if self.isa == Isa::Sse2 {
            let (x, y) = (self.v2(t::PAND, size, g, a), self.v2(t::PANDN, size, g, b));
            return self.v2(t::POR, size, x, y);
        }
        let row = match d.size() {
            4 => t::BLENDVPS,
            8 => t::BLENDVPD,
            _ => t::PBLENDVB,
        };
        let dst = self.vec(size);
        let ops = smallvec![r(dst, size), r(b, size), r(a, size), r(g, size)];
        self.emit(Kind::Row(row, size), Def::Write, ops);
        dst
    }
    /// `mask ? a : b`, the mask a mask register.
    pub fn blend_mask(&mut self, d: DType, size: Size, k: Reg, a: Reg, b: Reg) -> Reg {
        let row = [t::PBLENDMB, t::PBLENDMW, t::PBLENDMD, t::PBLENDMQ][d.size().trailing_zeros() as usize];
        let dst = self.vec(size);
        let inst =
            self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(b, size), r(a, size)]);
        inst.mask = Some((k, false));
        dst
    }
    pub fn select_vector(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        let d = n.dtype;
        if d == DType::Bool {
            return self.select_truth(n, lanes);
        }
        let per = self.part_lanes(d, lanes);
        let size = Size::of_bytes(per * d.size());
        let (a, b) = (self.vector_operand(&n.src[1], d, lanes)?, self.vector_operand(&n.src[2], d, lanes)?);
        if let Some(alu) = chosen_extreme(n) {
            let Some(rows) = float_row(alu) else { return Err(self.unsupported(n)) };
            let row = rows[2 + (d == DType::F64) as usize];
            let parts = (0..lanes / per).map(|k| self.v2(row, size, a.parts[k], b.parts[k])).collect();
            return Ok(Val { parts, elem: d, lanes });
        }
        let c = self.vector_operand(&n.src[0], mask_elem(d), lanes)?;
        let is_zero = |s: &UOp| s.as_scalar().is_some_and(|c| c.to_bits(s.dtype) == 0);
        let (zero_a, zero_b) = (is_zero(&n.src[1]), is_zero(&n.src[2]));
        let mut parts = SmallVec::new();
        for k in 0..lanes / per {
            let (a, b) = (a.parts[k], b.parts[k]);
            parts.push(if self.isa == Isa::Avx512 {
                let mask = self.mask_part(&c, k, per);
                if zero_b { self.where_mask(d, size, mask, a) } else { self.blend_mask(d, size, mask, a, b) }
            } else if zero_b {
                self.v2(t::PAND, size, c.parts[k], a)
            } else if zero_a {
                self.v2(t::PANDN, size, c.parts[k], b)
            } else {
                self.blend(d, size, c.parts[k], a, b)
            });
        }
        Ok(Val { parts, elem: d, lanes })
    }
    fn select_truth(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        if self.isa == Isa::Avx512 {
            let mut x = vec![];
            for s in &n.src {
                x.push(self.vector_operand(s, DType::Bool, lanes)?.parts[0]);
            }
            let yes = self.mask_op(Code::VEX_Kandq_kr_kr_kr, x[0], x[1]);
            let no = self.mask_op(Code::VEX_Kandnq_kr_kr_kr, x[0], x[2]);
            return Ok(Val::one(self.mask_op(Code::VEX_Korq_kr_kr_kr, yes, no), DType::Bool, lanes));
        }
        let mut elem = DType::I8;
        for s in n.src.iter().filter(|s| s.lanes() > 1) {
            let e = self.operand(s)?.elem;
            elem = if e.size() > elem.size() { e } else { elem };
        }
        let mut x = vec![];
        for s in &n.src {
            x.push(self.vector_operand(s, elem, lanes)?);
        }
        let size = x[0].size();
        let parts = (0..x[0].parts.len())
            .map(|k| self.blend(elem, size, x[0].parts[k], x[1].parts[k], x[2].parts[k]))
            .collect();
        Ok(Val { parts, elem, lanes })
    }
}
