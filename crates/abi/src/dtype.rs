//! Element types.

use crate::small_float::SmallFloat;

/// The type of one element. There are no vector or image types: a vector is a value with a shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DType {
    /// No value: stores, ends, sinks.
    Void,
    /// True or false, one byte.
    Bool,
    /// Signed 8 bits.
    I8,
    /// Signed 16 bits.
    I16,
    /// Signed 32 bits.
    I32,
    /// Signed 64 bits.
    I64,
    /// Unsigned 8 bits.
    U8,
    /// Unsigned 16 bits.
    U16,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 64 bits.
    U64,
    /// OCP 8-bit float, 4 exponent bits, no infinities.
    F8E4M3,
    /// OCP 8-bit float, 5 exponent bits.
    F8E5M2,
    /// 8-bit float, 4 exponent bits, one NaN, no negative zero.
    F8E4M3Fnuz,
    /// 8-bit float, 5 exponent bits, one NaN, no negative zero.
    F8E5M2Fnuz,
    /// IEEE half.
    F16,
    /// The upper half of a float32.
    BF16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// Index arithmetic whose width is not decided yet.
    Index,
}

/// Every type a tensor can have, in promotion order within each kind.
pub const ALL: [DType; 17] = {
    use DType::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F8E4M3, F8E5M2, F8E4M3Fnuz, F8E5M2Fnuz, F16, BF16, F32, F64]
};

impl DType {
    /// Bytes an element takes in memory; zero for `Void`, eight for `Index`.
    pub const fn size(self) -> usize {
        use DType::*;
        match self {
            Void => 0,
            Bool | I8 | U8 | F8E4M3 | F8E5M2 | F8E4M3Fnuz | F8E5M2Fnuz => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | Index => 8,
        }
    }
    /// Bits an element takes.
    pub const fn bits(self) -> u32 {
        self.size() as u32 * 8
    }
    /// Any floating type.
    pub const fn is_float(self) -> bool {
        self as u8 >= DType::F8E4M3 as u8 && self as u8 <= DType::F64 as u8
    }
    /// Integers and `Index`, not `Bool`.
    pub const fn is_int(self) -> bool {
        (self as u8 >= DType::I8 as u8 && self as u8 <= DType::U64 as u8) || matches!(self, DType::Index)
    }
    /// Unsigned integers.
    pub const fn is_unsigned(self) -> bool {
        self as u8 >= DType::U8 as u8 && self as u8 <= DType::U64 as u8
    }
    /// Floats narrower than 32 bits: stored as such, computed in float32.
    pub const fn is_small_float(self) -> bool {
        self.is_float() && self.size() < 4
    }
    /// The bit layout of a small float.
    pub const fn small_float(self) -> Option<SmallFloat> {
        use DType::*;
        Some(match self {
            F16 => SmallFloat::ieee(5, 10),
            BF16 => SmallFloat::ieee(8, 7),
            F8E5M2 => SmallFloat::ieee(5, 2),
            F8E4M3 => SmallFloat::finite(4, 3),
            F8E4M3Fnuz => SmallFloat::fnuz(4, 3),
            F8E5M2Fnuz => SmallFloat::fnuz(5, 2),
            _ => return None,
        })
    }
    /// Least and greatest integer value; `None` for floats and `Void`. `Index` is 64 bits wide here.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        use DType::*;
        Some(match self {
            Bool => (0, 1),
            I8 | I16 | I32 | I64 => (-(1i128 << (self.bits() - 1)), (1i128 << (self.bits() - 1)) - 1),
            Index => (i64::MIN as i128, i64::MAX as i128),
            U8 | U16 | U32 | U64 => (0, (1i128 << self.bits()) - 1),
            _ => return None,
        })
    }
    /// The name people write: `float32`, `int8`, `bfloat16`.
    pub const fn name(self) -> &'static str {
        use DType::*;
        match self {
            Void => "void",
            Bool => "bool",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            F8E4M3 => "float8_e4m3",
            F8E5M2 => "float8_e5m2",
            F8E4M3Fnuz => "float8_e4m3fnuz",
            F8E5M2Fnuz => "float8_e5m2fnuz",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            Index => "index",
        }
    }
    /// The type with this name.
    pub fn from_name(name: &str) -> Option<DType> {
        ALL.into_iter().chain([DType::Void, DType::Index]).find(|d| d.name() == name)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
