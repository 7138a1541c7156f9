//! What a type is in a register: operands, and values made of them.

use frit_abi::{DType, Scalar};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// A kind of register. Registers have a size and no type: an instruction says what it takes them for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// `%p`: a truth value.
    Pred,
    /// `%h`: 16 bits, for halves.
    Half,
    /// `%r`: 32 bits. Integers of 8 and 16 bits are kept here, extended by their sign or by zeros; 8-bit floats as bits.
    Word,
    /// `%d`: 64 bits.
    Long,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Pred, Class::Half, Class::Word, Class::Long];
    /// The letter of its registers.
    pub const fn letter(self) -> char {
        ['p', 'h', 'r', 'd'][self as usize]
    }
    /// Its registers' type in a declaration, which is also the one that moves them.
    pub const fn bits(self) -> &'static str {
        ["pred", "b16", "b32", "b64"][self as usize]
    }
    /// Where values of a type are kept.
    pub const fn of(d: DType) -> Class {
        match d {
            DType::Bool => Class::Pred,
            DType::F16 | DType::BF16 => Class::Half,
            DType::I64 | DType::U64 | DType::F64 | DType::Index => Class::Long,
            _ => Class::Word,
        }
    }
}

/// Registers of a value.
pub type Operands = SmallVec<[Operand; 4]>;

/// What an instruction computes with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// A register by its number.
    Reg(Class, u32),
    /// An integer, or the bits of something else.
    Int(i64),
    /// A float32 by its bits.
    F32(u32),
    /// A float64 by its bits.
    F64(u64),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Reg(class, n) => write!(f, "%{}{n}", class.letter()),
            Operand::Int(i64::MIN) => f.write_str("0x8000000000000000"),
            Operand::Int(v) => write!(f, "{v}"),
            Operand::F32(bits) => write!(f, "0f{bits:08X}"),
            Operand::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

impl Operand {
    /// A constant as instructions on its type take it; bits of small floats and truth values.
    pub fn constant(v: Scalar, d: DType) -> Operand {
        let bits = v.to_bits(d);
        match d {
            DType::F32 => Operand::F32(bits as u32),
            DType::F64 => Operand::F64(bits),
            _ if d.is_float() || d == DType::Bool => Operand::Int(bits as i64),
            // a uint64 above the int64s is the same bits
            _ => Operand::Int(v.as_i128() as i64),
        }
    }
    /// The same as instructions on bits take it.
    pub fn as_bits(self) -> Operand {
        match self {
            Operand::F32(bits) => Operand::Int(bits as i64),
            Operand::F64(bits) => Operand::Int(bits as i64),
            o => o,
        }
    }
}

/// A value: its lanes.
#[derive(Clone, PartialEq, Debug)]
pub enum Val {
    /// An operand for each.
    Lanes(SmallVec<[Operand; 4]>),
    /// Halves, two in each register of 32 bits, the first one low.
    Pairs(SmallVec<[Operand; 4]>),
    /// Bytes, four in each register of 32 bits, the first one lowest.
    Quads(SmallVec<[Operand; 4]>),
}

impl Val {
    pub fn scalar(o: Operand) -> Val {
        Val::Lanes(smallvec![o])
    }
    pub fn lanes(&self) -> usize {
        match self {
            Val::Lanes(l) => l.len(),
            Val::Pairs(p) => 2 * p.len(),
            Val::Quads(q) => 4 * q.len(),
        }
    }
}

/// What arithmetic instructions call a type.
pub const fn name(d: DType) -> &'static str {
    match d {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I64 | DType::Index => "s64",
        DType::U64 => "u64",
        DType::I8 | DType::I16 | DType::I32 => "s32",
        DType::Bool => "pred",
        _ => "u32",
    }
}

/// What matrix units call a type of their operands.
pub const fn operand_name(d: DType) -> &'static str {
    match d {
        DType::I8 => "s8",
        DType::U8 => "u8",
        DType::F32 => "tf32",
        _ => name(d),
    }
}

/// The same where the sign does not matter.
pub const fn signed(d: DType) -> &'static str {
    if matches!(Class::of(d), Class::Long) { "s64" } else { "s32" }
}

pub const fn is_half(d: DType) -> bool {
    matches!(d, DType::F16 | DType::BF16)
}

pub const fn is_signed(d: DType) -> bool {
    matches!(d, DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::Index)
}
