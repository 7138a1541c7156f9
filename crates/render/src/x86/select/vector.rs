//! Elementwise operations on vectors.

use super::Select;
use super::address::is_signed;
use super::build::{byte, r};
use super::mask::mask_elem;
use super::scalar::{float_row, sign_bit};
use super::types::{Val, is_real};
use crate::Error;
use crate::walk::Walk;
use crate::x86::program::{Def, Fold, Kind, Opd, Reg, Size};
use crate::x86::table::{self as t, Row};
use frit_abi::target::Isa;
use frit_abi::{Alu, DType};
use frit_uop::{Op, UOp};
use smallvec::{SmallVec, smallvec};

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
                let one = self.broadcast(&UOp::float(1.0, d), d, size)?;
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
        if is_number(&n.src[0]) {
            return self.v2(row, size, a, b);
        }
        let m = self.v2(row, size, b, a);
        if is_number(&n.src[1]) {
            return m;
        }
        // b where it is NaN itself: the first operand may be an accumulator, which this does not wait for
        let wide = d == DType::F64;
        if self.isa == Isa::Avx512 {
            let k = self.v2k(if wide { t::CMPPD_K } else { t::CMPPS_K }, size, b, r(b, size), Some(3));
            return self.blend_mask(d, size, k, b, m);
        }
        let g = self.v2i(if wide { t::CMPPD } else { t::CMPPS }, size, b, b, 3);
        self.blend(d, size, g, b, m)
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
        if alu == Alu::Dot4 && d.size() == 4 {
            let c = self.vector_operand(&n.src[2], d, lanes)?;
            let (size, types) = (a.size(), [DType::U8, DType::I8]);
            let parts = (0..a.parts.len())
                .map(|k| self.sum_of_dots(size, types, [a.parts[k], b.parts[k], c.parts[k]], None))
                .collect();
            return Ok(Val { parts, ..a.clone() });
        }
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
        let slots: Vec<_> = inputs.iter().map(|v| (self.put_in_frame(v), v.elem)).collect();
        let out = self.program.slot((lanes * elem.size()).next_power_of_two().max(16));
        for k in 0..lanes {
            let x: Vec<Reg> = slots
                .iter()
                .map(|(slot, e)| self.load_scalar(*e, slot.plus((k * e.size()) as i32), None))
                .collect();
            let y = f(self, &x)?;
            self.store_scalar(elem, out.plus((k * elem.size()) as i32), y);
        }
        Ok(self.take_from_frame(out, elem, lanes))
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
