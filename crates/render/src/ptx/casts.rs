//! Conversions: integers wrap, floats to integers saturate and NaN gives 0, floats round to nearest even.

use super::Writer;
use super::types::{self, Class, Operand, Val, is_half, is_signed};
use crate::Error;
use crate::walk::Walk;
use frit_abi::DType;
use frit_uop::UOp;

/// From here on a float32 is infinite as a float8_e5m2: half-way from its greatest number to the next.
const E5M2_INFINITE: f32 = 61_440.0;

impl Writer<'_> {
    pub fn cast(&mut self, n: &UOp, from: DType, x: Operand) -> Result<Operand, Error> {
        let to = n.dtype;
        let kind = |d: DType| (d == DType::Bool, d.is_small_float(), d.is_float());
        Ok(match (kind(from), kind(to)) {
            _ if from == to => x,
            ((_, true, _), _) | (_, (_, true, _)) => return self.small_cast(n, from, x),
            ((true, ..), _) => {
                let class = Class::of(to);
                let one = Operand::constant(frit_abi::Scalar::int(1, to), to).as_bits();
                self.make(class, &format!("selp.{}", class.bits()), &[one, Operand::Int(0), x])
            }
            ((_, _, true), (true, ..)) => {
                let zero = Operand::constant(frit_abi::Scalar::zero(from), from);
                self.make(Class::Pred, &format!("setp.neu.{}", types::name(from)), &[x, zero])
            }
            (_, (true, ..)) => {
                self.make(Class::Pred, &format!("setp.ne.{}", types::signed(from)), &[x, Operand::Int(0)])
            }
            ((_, _, true), (_, _, true)) => {
                let form = if to == DType::F64 { "cvt.f64.f32" } else { "cvt.rn.f32.f64" };
                self.make(Class::of(to), form, &[x])
            }
            ((_, _, true), _) => self.float_to_integer(from, to, x),
            (_, (_, _, true)) => {
                let form = format!("cvt.rn.{}.{}", types::name(to), types::name(from));
                self.make(Class::of(to), &form, &[x])
            }
            _ => self.resize(from, to, x),
        })
    }

    /// From one integer type to another.
    fn resize(&mut self, from: DType, to: DType, x: Operand) -> Operand {
        match (Class::of(from), Class::of(to)) {
            (Class::Long, Class::Long) => x,
            (Class::Long, _) => {
                let low = self.make(Class::Word, "cvt.u32.u64", &[x]);
                self.narrow(to, low)
            }
            (_, Class::Long) => {
                let form = if is_signed(from) { "cvt.s64.s32" } else { "cvt.u64.u32" };
                self.make(Class::Long, form, &[x])
            }
            _ if from.size() < to.size() && is_signed(to) | !is_signed(from) => x,
            _ => self.narrow(to, x),
        }
    }

    /// From float32 or float64 to an integer. The instruction saturates; NaN it makes 0 only from float32 to 32 bits.
    fn float_to_integer(&mut self, from: DType, to: DType, x: Operand) -> Operand {
        let (class, t) = (Class::of(to), types::name(to));
        let mut out = self.make(class, &format!("cvt.rzi.{t}.{}", types::name(from)), &[x]);
        if from == DType::F64 || class == Class::Long {
            let number = self.make(Class::Pred, &format!("setp.eq.{}", types::name(from)), &[x, x]);
            out = self.make(class, &format!("selp.{}", class.bits()), &[out, Operand::Int(0), number]);
        }
        match to.int_range() {
            Some((lo, hi)) if to.size() < 4 => {
                if lo < 0 {
                    out = self.make(class, "max.s32", &[out, Operand::Int(lo as i64)]);
                }
                self.make(class, &format!("min.{t}"), &[out, Operand::Int(hi as i64)])
            }
            _ => out,
        }
    }

    /// From and to small floats there is only float32.
    fn small_cast(&mut self, n: &UOp, from: DType, x: Operand) -> Result<Operand, Error> {
        use DType::*;
        let small = if from.is_small_float() { from } else { n.dtype };
        if !self.target.converts.has(small) {
            return Err(self.unsupported(n));
        }
        Ok(match (from, n.dtype) {
            (F16, F32) => self.make(Class::Word, "cvt.f32.f16", &[x]),
            (F32, F16) => self.make(Class::Half, "cvt.rn.f16.f32", &[x]),
            (BF16, F32) => {
                let zero = self.lane(&Val::scalar(Operand::Int(0)), 0, BF16);
                self.pair(zero, x)
            }
            (F32, BF16) => self.make(Class::Half, "cvt.rn.bf16.f32", &[x]),
            (F8E4M3, F32) => self.decode(x, "cvt.rn.f16x2.e4m3x2"),
            (F8E5M2, F32) => self.decode(x, "cvt.rn.f16x2.e5m2x2"),
            (F32, F8E4M3) => self.encode(x, "cvt.rn.satfinite.e4m3x2.f32"),
            (F32, F8E5M2) => {
                let bits = self.encode(x, "cvt.rn.satfinite.e5m2x2.f32");
                self.with_infinities(x, bits)
            }
            _ => return Err(self.unsupported(n)),
        })
    }
    /// An 8-bit float by way of float16, which holds them all.
    fn decode(&mut self, x: Operand, form: &str) -> Operand {
        let bits = self.make(Class::Half, "cvt.u16.u32", &[x]);
        let both = self.make(Class::Word, form, &[bits]);
        let low = self.lane(&Val::Pairs([both].into_iter().collect()), 0, DType::F16);
        self.make(Class::Word, "cvt.f32.f16", &[low])
    }
    /// The instruction makes two of them, the first operand high.
    fn encode(&mut self, x: Operand, form: &str) -> Operand {
        let both = self.make(Class::Half, form, &[Operand::F32(0), x]);
        self.make(Class::Word, "cvt.u32.u16", &[both])
    }
    /// What the instruction left at the greatest number though it is beyond.
    fn with_infinities(&mut self, x: Operand, bits: Operand) -> Operand {
        let abs = self.make(Class::Word, "abs.f32", &[x]);
        let beyond = self.make(Class::Pred, "setp.ge.f32", &[abs, Operand::F32(E5M2_INFINITE.to_bits())]);
        let sign = self.make(Class::Word, "and.b32", &[bits, Operand::Int(0x80)]);
        let infinity = self.make(Class::Word, "or.b32", &[sign, Operand::Int(0x7c)]);
        self.make(Class::Word, "selp.b32", &[infinity, bits, beyond])
    }
    /// float32 to halves, two at a time; the instruction's first operand goes high.
    pub fn cast_pairs(&mut self, v: &Val, to: DType, lanes: usize) -> Val {
        let form = if to == DType::F16 { "cvt.rn.f16x2.f32" } else { "cvt.rn.bf16x2.f32" };
        let pair = |k: usize| {
            let (lo, hi) = (self.lane(v, 2 * k, DType::F32), self.lane(v, 2 * k + 1, DType::F32));
            self.make(Class::Word, form, &[hi, lo])
        };
        Val::Pairs((0..lanes / 2).map(pair).collect())
    }

    /// The same bits as another type: mostly the same register.
    pub fn bitcast(&mut self, n: &UOp, from: DType, x: Operand) -> Result<Operand, Error> {
        let to = n.dtype;
        if from.size() != to.size() {
            return Err(self.unsupported(n));
        }
        if !matches!(x, Operand::Reg(..)) {
            let v = match n.src[0].as_scalar() {
                Some(v) => frit_abi::Scalar::from_bits(v.to_bits(from), to),
                None => return Err(self.malformed(format!("{n:?} of a constant that is none"))),
            };
            let o = Operand::constant(v, to);
            return Ok(self.lane(&Val::scalar(o), 0, to));
        }
        Ok(match (from, to) {
            (DType::Bool, _) => self.cast_bool(x),
            (_, DType::Bool) => self.make(Class::Pred, "setp.ne.s32", &[x, Operand::Int(0)]),
            _ if is_half(from) && is_half(to) => x,
            _ if is_half(from) => {
                self.make(Class::Word, if is_signed(to) { "cvt.s32.s16" } else { "cvt.u32.u16" }, &[x])
            }
            _ if is_half(to) => self.make(Class::Half, "cvt.u16.u32", &[x]),
            _ if from.size() < 4 && is_signed(from) != is_signed(to) => self.narrow(to, x),
            _ => x,
        })
    }
    /// A truth value as a byte.
    pub fn cast_bool(&mut self, x: Operand) -> Operand {
        self.make(Class::Word, "selp.b32", &[Operand::Int(1), Operand::Int(0), x])
    }
}
