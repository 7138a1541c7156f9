//! Elementwise operations on vectors.

use super::address::is_signed;
use super::build::{byte, r};
use super::ir::{Def, Fold, Kind, Opd, Reg, Size};
use super::scalar::{float_row, predicate, sign_bit};
use super::select::{Select, Val, is_real};
use super::shape::all_lanes;
use super::table::{self as t, Row};
use crate::Error;
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

/// The rows of integer arithmetic, for elements of 1, 2, 4 and 8 bytes.
#[rustfmt::skip]
fn int_row(alu: Alu, d: DType) -> Option<Row> {
    let rows: [Option<Row>; 4] = match (alu, is_signed(d)) {
        (Alu::Add, _)     => [t::PADDB, t::PADDW, t::PADDD, t::PADDQ].map(Some),
        (Alu::Sub, _)     => [t::PSUBB, t::PSUBW, t::PSUBD, t::PSUBQ].map(Some),
        (Alu::And, _)     => [Some(t::PAND); 4],
        (Alu::Or, _)      => [Some(t::POR); 4],
        (Alu::Xor, _)     => [Some(t::PXOR); 4],
        (Alu::Mul, _)     => [None, Some(t::PMULLW), Some(t::PMULLD), Some(t::PMULLQ)],
        (Alu::Max, true)  => [t::PMAXSB, t::PMAXSW, t::PMAXSD, t::PMAXSQ].map(Some),
        (Alu::Max, false) => [t::PMAXUB, t::PMAXUW, t::PMAXUD, t::PMAXUQ].map(Some),
        (Alu::Min, true)  => [t::PMINSB, t::PMINSW, t::PMINSD, t::PMINSQ].map(Some),
        (Alu::Min, false) => [t::PMINUB, t::PMINUW, t::PMINUD, t::PMINUQ].map(Some),
        (Alu::Shl, _)     => [None, Some(t::PSLLVW), Some(t::PSLLVD), Some(t::PSLLVQ)],
        (Alu::Shr, true)  => [None, Some(t::PSRAVW), Some(t::PSRAVD), Some(t::PSRAVQ)],
        (Alu::Shr, false) => [None, Some(t::PSRLVW), Some(t::PSRLVD), Some(t::PSRLVQ)],
        _ => [None; 4],
    };
    rows[d.size().trailing_zeros() as usize]
}

/// Shifts by a number, for elements of 2, 4 and 8 bytes.
#[rustfmt::skip]
fn shift_row(alu: Alu, d: DType) -> Option<Row> {
    let rows = match (alu, is_signed(d)) {
        (Alu::Shl, _)     => [t::PSLLW, t::PSLLD, t::PSLLQ],
        (Alu::Shr, true)  => [t::PSRAW, t::PSRAD, t::PSRAQ],
        (Alu::Shr, false) => [t::PSRLW, t::PSRLD, t::PSRLQ],
        _ => return None,
    };
    rows.get((d.size().trailing_zeros() as usize).wrapping_sub(1)).copied()
}

impl Select<'_> {
    /// An elementwise operation that gives a vector.
    pub fn vector(&mut self, n: &UOp, step: usize, want: &Option<Val>) -> Result<Val, Error> {
        let (d, lanes) = (n.src[0].dtype, n.lanes());
        match n.op {
            Op::Cast => self.cast_vector(n),
            Op::Bitcast => {
                if d.size() != n.dtype.size() || d == DType::Bool || n.dtype == DType::Bool {
                    return Err(self.unsupported(n));
                }
                let v = self.operand(&n.src[0])?;
                Ok(Val { elem: n.dtype, ..v })
            }
            Op::Where => self.select_vector(n, lanes),
            o => {
                let Some(alu) = o.alu() else { return Err(self.unsupported(n)) };
                match d {
                    DType::Bool => self.logic_vector(n, alu, lanes),
                    d if is_real(d) => self.float_vector(n, alu, d, lanes, step, want),
                    d if d.is_int() => self.int_vector(n, alu, d, lanes),
                    _ => Err(self.unsupported(n)),
                }
            }
        }
    }

    // ---- floats

    /// Operand `i` for part `k`: memory where its load was left to us.
    fn part_opd(&mut self, n: &UOp, i: usize, k: usize, d: DType, lanes: usize) -> Result<Opd, Error> {
        let s = &n.src[i];
        if let Some(o) = self.deferred.get(s) {
            return Ok(o[if o.len() == 1 { 0 } else { k }]);
        }
        if lanes == 1 {
            return Ok(r(self.scalar_operand(s)?, Size::X));
        }
        let v = self.vector_operand(s, d, lanes)?;
        Ok(r(v.parts[k], v.size()))
    }
    /// The two operands with the one in memory second.
    pub fn in_order(
        &mut self,
        n: &UOp,
        alu: Alu,
        k: usize,
        d: DType,
        lanes: usize,
    ) -> Result<(Reg, Opd), Error> {
        let (a, b) = (self.part_opd(n, 0, k, d, lanes)?, self.part_opd(n, 1, k, d, lanes)?);
        let size = Size::of_bytes(self.part_lanes(d, lanes) * d.size());
        Ok(match (a, b) {
            (Opd::Reg(a, _), b) => (a, b),
            (m, Opd::Reg(b, _)) if matches!(alu, Alu::Add | Alu::Mul) => (b, m),
            (m, b) => (self.in_register(m, size, d), b),
        })
    }
    fn float_vector(
        &mut self,
        n: &UOp,
        alu: Alu,
        d: DType,
        lanes: usize,
        step: usize,
        want: &Option<Val>,
    ) -> Result<Val, Error> {
        let per = self.part_lanes(d, lanes);
        let size = Size::of_bytes(per * d.size());
        if alu.is_comparison() {
            return self.compare_vector(n, alu, d, lanes);
        }
        let mut parts = SmallVec::new();
        for k in 0..lanes / per {
            let to = want.as_ref().and_then(|w| w.parts.get(k).copied());
            parts.push(match alu {
                Alu::MulAcc => self.multiply_add(n, d, size, k, lanes, step, to)?,
                Alu::Add | Alu::Sub | Alu::Mul | Alu::Fdiv => {
                    let (a, b) = self.in_order(n, alu, k, d, lanes)?;
                    let Some(rows) = float_row(alu) else { return Err(self.unsupported(n)) };
                    self.v2_opd(rows[2 + (d == DType::F64) as usize], size, a, b, to)
                }
                Alu::Max | Alu::Min => {
                    let (a, b) = self.in_order(n, alu, k, d, lanes)?;
                    let b = self.in_register(b, size, d);
                    self.extreme_float(n, alu, d, size, false, a, b)
                }
                _ => {
                    let a = self.part_opd(n, 0, k, d, lanes)?;
                    let a = self.in_register(a, size, d);
                    self.float_unary(n, alu, d, size, a)?
                }
            });
        }
        Ok(Val { parts, elem: d, lanes })
    }
    fn float_unary(&mut self, n: &UOp, alu: Alu, d: DType, size: Size, a: Reg) -> Result<Reg, Error> {
        let wide = d == DType::F64;
        Ok(match alu {
            Alu::Neg => {
                let sign = self.bits(sign_bit(d), d.size(), size);
                self.v2(t::PXOR, size, a, sign)
            }
            Alu::Sqrt => self.v1(if wide { t::SQRTPD } else { t::SQRTPS }, size, r(a, size)),
            Alu::Recip => {
                let one = self.spread(&UOp::float(1.0, d), d, size)?;
                self.v2(if wide { t::DIVPD } else { t::DIVPS }, size, one, a)
            }
            Alu::Trunc | Alu::Floor | Alu::Round => self.round(n, alu, d, size, a)?,
            _ => return Err(self.unsupported(n)),
        })
    }
    /// To a whole number: the immediate says how, and that inexactness is no event.
    pub fn round(&mut self, n: &UOp, alu: Alu, d: DType, size: Size, a: Reg) -> Result<Reg, Error> {
        let how = match alu {
            Alu::Round => 8,
            Alu::Floor => 9,
            _ => 11,
        };
        let row = match (self.isa, d == DType::F64) {
            (Isa::Avx512, false) => t::RNDSCALEPS,
            (Isa::Avx512, true) => t::RNDSCALEPD,
            (Isa::Avx2, false) => t::ROUNDPS,
            (Isa::Avx2, true) => t::ROUNDPD,
            _ => return Err(self.unsupported(n)),
        };
        let dst = self.vec(size);
        self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(a, size), byte(how)]);
        Ok(dst)
    }
    /// `x * y + z`, rounded once. The result takes the place of an operand that is not needed any more.
    #[allow(clippy::too_many_arguments)]
    pub fn multiply_add(
        &mut self,
        n: &UOp,
        d: DType,
        size: Size,
        k: usize,
        lanes: usize,
        step: usize,
        to: Option<Reg>,
    ) -> Result<Reg, Error> {
        let at = (lanes > 1) as usize * 2 + (d == DType::F64) as usize;
        let add = [t::FMADD231SS, t::FMADD231SD, t::FMADD231PS, t::FMADD231PD][at];
        let by = [t::FMADD213SS, t::FMADD213SD, t::FMADD213PS, t::FMADD213PD][at];
        let fold = match (lanes, d) {
            (1, _) => Fold::Scalar,
            (_, DType::F64) => Fold::Splat(8),
            _ => Fold::Splat(4),
        };
        let (x, y) = (self.part_opd(n, 0, k, d, lanes)?, self.part_opd(n, 1, k, d, lanes)?);
        let z = self.part_opd(n, 2, k, d, lanes)?;
        let (x, y, at_x) = match (x, y) {
            (Opd::Reg(x, _), y) => (x, y, 0),
            (m, Opd::Reg(y, _)) => (y, m, 1),
            (m, y) => (self.in_register(m, size, d), y, 0),
        };
        let z = self.in_register(z, size, d);
        if to.is_none() && !self.uses.dies_at(&n.src[2], step) {
            // p * x + c: the product's factor makes room
            let dying = |s: &Self, i: usize| s.uses.dies_at(&n.src[i], step) && n.src[0] != n.src[1];
            let factors = match y {
                Opd::Reg(y, _) if !dying(self, at_x) && dying(self, 1 - at_x) => Some((y, r(x, size))),
                y if dying(self, at_x) => Some((x, y)),
                _ => None,
            };
            if let Some((gone, Opd::Reg(other, _))) = factors {
                let dst = self.vec(size);
                self.copy(dst, gone, size);
                let ops = smallvec![r(dst, size), r(other, size), r(z, size)];
                self.emit(Kind::Row(by, size), Def::Modify, ops).fold = fold;
                return Ok(dst);
            }
        }
        let dst = match to {
            Some(to) if to == z || (to != x && !matches!(y, Opd::Reg(y, _) if y == to)) => to,
            _ => self.vec(size),
        };
        self.copy(dst, z, size);
        let inst = self.emit(Kind::Row(add, size), Def::Modify, smallvec![r(dst, size), r(x, size), y]);
        inst.fold = fold;
        Ok(dst)
    }
    /// The greater or lesser; NaN if either is. The machine gives its second operand where one is NaN.
    #[allow(clippy::too_many_arguments)]
    pub fn extreme_float(
        &mut self,
        n: &UOp,
        alu: Alu,
        d: DType,
        size: Size,
        scalar: bool,
        a: Reg,
        b: Reg,
    ) -> Reg {
        let rows = if alu == Alu::Max {
            [t::MAXSS, t::MAXSD, t::MAXPS, t::MAXPD]
        } else {
            [t::MINSS, t::MINSD, t::MINPS, t::MINPD]
        };
        let row = rows[(!scalar) as usize * 2 + (d == DType::F64) as usize];
        let is_number = |s: &UOp| s.as_scalar().is_some_and(|s| !s.as_f64().is_nan());
        if is_number(&n.src[1]) {
            return self.v2(row, size, b, a);
        }
        let m = self.v2(row, size, a, b);
        if is_number(&n.src[0]) {
            return m;
        }
        // a where it is NaN itself
        let wide = d == DType::F64;
        if self.isa == Isa::Avx512 {
            let k = self.v2k(if wide { t::CMPPD_K } else { t::CMPPS_K }, size, a, r(a, size), Some(3));
            return self.blend_mask(d, size, k, a, m);
        }
        let g = self.v2i(if wide { t::CMPPD } else { t::CMPPS }, size, a, a, 3);
        self.blend(d, size, g, a, m)
    }
    /// x, and 0 where it is NaN.
    pub fn without_nan(&mut self, d: DType, size: Size, x: Reg) -> Reg {
        let wide = d == DType::F64;
        if self.isa == Isa::Avx512 {
            let k = self.v2k(if wide { t::CMPPD_K } else { t::CMPPS_K }, size, x, r(x, size), Some(7));
            return self.where_mask(d, size, k, x);
        }
        let g = self.v2i(if wide { t::CMPPD } else { t::CMPPS }, size, x, x, 7);
        self.v2(t::PAND, size, g, x)
    }
    /// x under a mask register, 0 elsewhere.
    pub fn where_mask(&mut self, d: DType, size: Size, k: Reg, x: Reg) -> Reg {
        let row = [t::MOVDQU8, t::MOVDQU16, t::MOVDQU32, t::MOVDQU64][d.size().trailing_zeros() as usize];
        let dst = self.vec(size);
        let inst = self.emit(Kind::Row(row, size), Def::Write, smallvec![r(dst, size), r(x, size)]);
        inst.mask = Some((k, true));
        dst
    }

    // ---- truth

    /// A comparison of vectors.
    fn compare_vector(&mut self, n: &UOp, alu: Alu, d: DType, lanes: usize) -> Result<Val, Error> {
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
    fn logic_vector(&mut self, n: &UOp, alu: Alu, lanes: usize) -> Result<Val, Error> {
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
    fn select_vector(&mut self, n: &UOp, lanes: usize) -> Result<Val, Error> {
        let d = n.dtype;
        if d == DType::Bool {
            return self.select_truth(n, lanes);
        }
        let per = self.part_lanes(d, lanes);
        let size = Size::of_bytes(per * d.size());
        let (a, b) = (self.vector_operand(&n.src[1], d, lanes)?, self.vector_operand(&n.src[2], d, lanes)?);
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

    // ---- integers

    fn int_vector(&mut self, n: &UOp, alu: Alu, d: DType, lanes: usize) -> Result<Val, Error> {
        if alu.is_comparison() {
            return self.compare_vector(n, alu, d, lanes);
        }
        let a = self.vector_operand(&n.src[0], d, lanes)?;
        if matches!(alu, Alu::Neg | Alu::Not) {
            let size = a.size();
            let other = if alu == Alu::Neg { self.zero(size) } else { self.ones(size) };
            let row = int_row(Alu::Sub, d);
            let parts = a.parts.iter().map(|&p| match (alu, row) {
                (Alu::Neg, Some(row)) => self.v2(row, size, other, p),
                _ => self.v2(t::PXOR, size, p, other),
            });
            return Ok(Val { parts: parts.collect(), ..a.clone() });
        }
        if matches!(alu, Alu::Shl | Alu::Shr)
            && let Some(by) = n.src[1].as_int()
        {
            return self.shift_number(n, alu, d, &a, by);
        }
        let b = self.vector_operand(&n.src[1], d, lanes)?;
        self.int_vals(n, alu, d, &a, &b)
    }
    /// Arithmetic of integer vectors in registers.
    fn int_vals(&mut self, n: &UOp, alu: Alu, d: DType, a: &Val, b: &Val) -> Result<Val, Error> {
        if let Some(row) = int_row(alu, d).filter(|row| row.is_in(self.isa)) {
            let size = a.size();
            let parts = (0..a.parts.len()).map(|k| self.v2(row, size, a.parts[k], b.parts[k])).collect();
            return Ok(Val { parts, ..a.clone() });
        }
        match alu {
            Alu::Max | Alu::Min => {
                let (x, y) = if alu == Alu::Max { (b, a) } else { (a, b) };
                let less = self.compare_vals(n, Alu::Lt, d, a, b)?; // then x, else y
                let size = a.size();
                let less = self.mask_as(&less, mask_elem(d))?;
                let parts = (0..a.parts.len())
                    .map(|k| self.blend(d, size, less.parts[k], x.parts[k], y.parts[k]))
                    .collect();
                Ok(Val { parts, ..a.clone() })
            }
            Alu::Mul if d.size() >= 4 => {
                let size = a.size();
                let parts = (0..a.parts.len())
                    .map(|k| match d.size() {
                        4 => self.multiply_32(size, a.parts[k], b.parts[k]),
                        _ => self.multiply_64(size, a.parts[k], b.parts[k]),
                    })
                    .collect();
                Ok(Val { parts, ..a.clone() })
            }
            // narrow ones as wider ones, where those exist
            Alu::Mul | Alu::Shl | Alu::Shr if d.size() < 4 && !(alu != Alu::Mul && self.isa == Isa::Sse2) => {
                let wide = wider(d);
                let (x, y) = (self.cast_ints_from(a, d, wide), self.cast_ints_from(b, d, wide));
                let z = self.int_vals(n, alu, wide, &x, &y)?;
                Ok(self.cast_ints(&z, d))
            }
            Alu::Tdiv | Alu::Shl | Alu::Shr => {
                self.lanewise(&[a, b], d, |s, x| s.int_scalar(n, alu, d, x[0], Some(x[1])))
            }
            _ => Err(self.unsupported(n)),
        }
    }
    /// Of 32 bits without an instruction for it: even and odd lanes apart.
    fn multiply_32(&mut self, size: Size, a: Reg, b: Reg) -> Reg {
        let (x, y) = (self.v1i(t::PSRLQ, size, a, 32), self.v1i(t::PSRLQ, size, b, 32));
        let (even, odd) = (self.v2(t::PMULUDQ, size, a, b), self.v2(t::PMULUDQ, size, x, y));
        let (even, odd) = (self.v1i(t::PSHUFD, size, even, 0x08), self.v1i(t::PSHUFD, size, odd, 0x08));
        self.v2(t::PUNPCKLDQ, size, even, odd)
    }
    /// Of 64 bits: low times low, and the two mixed products above it.
    fn multiply_64(&mut self, size: Size, a: Reg, b: Reg) -> Reg {
        let (x, y) = (self.v1i(t::PSRLQ, size, a, 32), self.v1i(t::PSRLQ, size, b, 32));
        let (p, q) = (self.v2(t::PMULUDQ, size, x, b), self.v2(t::PMULUDQ, size, a, y));
        let high = self.v2(t::PADDQ, size, p, q);
        let high = self.v1i(t::PSLLQ, size, high, 32);
        let low = self.v2(t::PMULUDQ, size, a, b);
        self.v2(t::PADDQ, size, low, high)
    }
    fn shift_number(&mut self, n: &UOp, alu: Alu, d: DType, a: &Val, by: i64) -> Result<Val, Error> {
        if by == 0 {
            return Ok(a.clone());
        }
        if d.size() == 1 {
            let wide = wider(d);
            let x = self.cast_ints_from(a, d, wide);
            let x = self.shift_number(n, alu, wide, &x, by)?;
            return Ok(self.cast_ints(&x, d));
        }
        let size = a.size();
        let Some(row) = shift_row(alu, d) else { return Err(self.unsupported(n)) };
        if row.is_in(self.isa) {
            let parts = a.parts.iter().map(|&p| self.v1i(row, size, p, by)).collect();
            return Ok(Val { parts, ..a.clone() });
        }
        // 64 bits with sign: the complement of negative ones, shifted with zeros
        let parts = a.parts.iter().map(|&p| {
            let high = self.v1i(t::PSRAD, size, p, 31);
            let sign = self.v1i(t::PSHUFD, size, high, 0xf5);
            let x = self.v2(t::PXOR, size, p, sign);
            let x = self.v1i(t::PSRLQ, size, x, by);
            self.v2(t::PXOR, size, x, sign)
        });
        Ok(Val { parts: parts.collect(), ..a.clone() })
    }

    /// Lane by lane, through the frame.
    pub fn lanewise(
        &mut self,
        inputs: &[&Val],
        elem: DType,
        mut f: impl FnMut(&mut Self, &[Reg]) -> Result<Reg, Error>,
    ) -> Result<Val, Error> {
        let lanes = inputs[0].lanes;
        let slots: Vec<_> = inputs.iter().map(|v| (self.to_frame(v), v.elem)).collect();
        let out = self.program.slot((lanes * elem.size()).next_power_of_two().max(16));
        for k in 0..lanes {
            let x: Vec<Reg> = slots
                .iter()
                .map(|(slot, e)| self.load_scalar(*e, slot.plus((k * e.size()) as i32), None))
                .collect();
            let y = f(self, &x)?;
            self.store_scalar(elem, out.plus((k * elem.size()) as i32), y);
        }
        Ok(self.from_frame(out, elem, lanes))
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

/// The integer of twice the width.
fn wider(d: DType) -> DType {
    match d {
        DType::I8 => DType::I16,
        DType::U8 => DType::U16,
        DType::I16 => DType::I32,
        _ => DType::U32,
    }
}
