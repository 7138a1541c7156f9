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

/// The limits of a float type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloatInfo {
    /// Bits in memory.
    pub bits: u32,
    /// Binary digits of a normal number, the leading one included.
    pub digits: u32,
    /// From 1 to the next number.
    pub eps: f64,
    /// The greatest number.
    pub max: f64,
    /// The least number.
    pub min: f64,
    /// The least positive number with all digits.
    pub smallest_normal: f64,
    /// The least positive number.
    pub smallest_subnormal: f64,
}

impl FloatInfo {
    /// The distance between neighbours around x: a unit in the last place.
    pub fn ulp(&self, x: f64) -> f64 {
        let a = x.abs().max(self.smallest_normal).min(self.max);
        // the power of two at or below, then as many places down
        let power = f64::from_bits(a.to_bits() & 0x7ff0_0000_0000_0000);
        (power * self.eps).max(self.smallest_subnormal)
    }
}

/// The limits of an integer type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntInfo {
    /// Bits in memory.
    pub bits: u32,
    /// The least number.
    pub min: i128,
    /// The greatest number.
    pub max: i128,
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
    /// What a float type can hold; `None` for others.
    pub fn finfo(self) -> Option<FloatInfo> {
        let power = |p: i32| 2f64.powi(p);
        let (digits, least, max) = match (self, self.small_float()) {
            (_, Some(s)) => (s.man as i32 + 1, 1 - s.bias(), s.to_f64(s.max_bits())),
            (DType::F32, _) => (24, -126, f32::MAX as f64),
            (DType::F64, _) => (53, -1022, f64::MAX),
            _ => return None,
        };
        let subnormal = if self == DType::F64 { f64::from_bits(1) } else { power(least + 1 - digits) };
        Some(FloatInfo {
            bits: self.bits(),
            digits: digits as u32,
            eps: power(1 - digits),
            max,
            min: -max,
            smallest_normal: power(least),
            smallest_subnormal: subnormal,
        })
    }
    /// What an integer type can hold; `None` for others.
    pub fn iinfo(self) -> Option<IntInfo> {
        let (min, max) = self.int_range().filter(|_| self.is_int() && self != DType::Index)?;
        Some(IntInfo { bits: self.bits(), min, max })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_published_ones() {
        let f = |d: DType| d.finfo().unwrap();
        assert_eq!(
            (f(DType::F16).max, f(DType::F16).eps, f(DType::F16).smallest_normal),
            (65504.0, 2f64.powi(-10), 2f64.powi(-14))
        );
        assert_eq!((f(DType::BF16).digits, f(DType::F8E4M3).max, f(DType::F8E5M2).max), (8, 448.0, 57344.0));
        assert_eq!((f(DType::F32).eps, f(DType::F64).eps), (f32::EPSILON as f64, f64::EPSILON));
        assert_eq!(
            (f(DType::F32).smallest_normal, f(DType::F64).smallest_normal),
            (f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE)
        );
        assert_eq!(f(DType::F32).smallest_subnormal, f32::from_bits(1) as f64);
        assert_eq!(
            (f(DType::F32).ulp(1.5), f(DType::F32).ulp(0.0), f(DType::F64).ulp(0.0)),
            (2f64.powi(-23), 2f64.powi(-149), 5e-324)
        );
        assert_eq!(DType::I8.iinfo().map(|i| (i.bits, i.min, i.max)), Some((8, -128, 127)));
        assert_eq!((DType::I32.finfo(), DType::F32.iinfo(), DType::Bool.iinfo()), (None, None, None));
    }
}
