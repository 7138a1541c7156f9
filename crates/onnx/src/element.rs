//! The element types of ONNX, and the type that each is computed in here.
//!
//! Types narrower than a byte, six-bit floats and E8M0 have no type of their own in a tensor: their bits stay as they lie
//! in the file and an expression makes numbers of a wider type of them, exactly; rounding to such a type gives the
//! numbers it has, in the wider one.

use frit_tensor::{Blob, DType, Tensor};

/// An element type by its number in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Element {
    Float,
    Uint8,
    Int8,
    Uint16,
    Int16,
    Int32,
    Int64,
    String,
    Bool,
    Float16,
    Double,
    Uint32,
    Uint64,
    Complex64,
    Complex128,
    Bfloat16,
    Float8E4M3Fn,
    Float8E4M3Fnuz,
    Float8E5M2,
    Float8E5M2Fnuz,
    Uint4,
    Int4,
    Float4E2M1,
    Float8E8M0,
    Uint2,
    Int2,
    Float6E2M3,
    Float6E3M2,
}

use Element::*;

/// Number by number from 1: the type, its name in ONNX, its bits in a file, and what it is computed in.
const TABLE: [(Element, &str, usize, DType); 28] = [
    (Float, "float", 32, DType::F32),
    (Uint8, "uint8", 8, DType::U8),
    (Int8, "int8", 8, DType::I8),
    (Uint16, "uint16", 16, DType::U16),
    (Int16, "int16", 16, DType::I16),
    (Int32, "int32", 32, DType::I32),
    (Int64, "int64", 64, DType::I64),
    (String, "string", 0, DType::Void),
    (Bool, "bool", 8, DType::Bool),
    (Float16, "float16", 16, DType::F16),
    (Double, "double", 64, DType::F64),
    (Uint32, "uint32", 32, DType::U32),
    (Uint64, "uint64", 64, DType::U64),
    (Complex64, "complex64", 64, DType::Void),
    (Complex128, "complex128", 128, DType::Void),
    (Bfloat16, "bfloat16", 16, DType::BF16),
    (Float8E4M3Fn, "float8e4m3fn", 8, DType::F8E4M3),
    (Float8E4M3Fnuz, "float8e4m3fnuz", 8, DType::F8E4M3Fnuz),
    (Float8E5M2, "float8e5m2", 8, DType::F8E5M2),
    (Float8E5M2Fnuz, "float8e5m2fnuz", 8, DType::F8E5M2Fnuz),
    (Uint4, "uint4", 4, DType::U8),
    (Int4, "int4", 4, DType::I8),
    (Float4E2M1, "float4e2m1", 4, DType::F32),
    (Float8E8M0, "float8e8m0", 8, DType::F32),
    (Uint2, "uint2", 2, DType::U8),
    (Int2, "int2", 2, DType::I8),
    (Float6E2M3, "float6e2m3", 6, DType::F32),
    (Float6E3M2, "float6e3m2", 6, DType::F32),
];

/// A float of few bits without infinities: how many for the exponent and the mantissa, and its greatest number.
struct Tiny {
    exponent: i32,
    mantissa: i32,
    max: f64,
}

impl Element {
    /// The type with this number in a file.
    pub fn from_number(n: i64) -> Result<Element, std::string::String> {
        let row = usize::try_from(n).ok().and_then(|n| TABLE.get(n.checked_sub(1)?));
        row.map(|r| r.0).ok_or_else(|| format!("{n} is not an element type"))
    }
    /// The type with this name in ONNX.
    pub fn named(name: &str) -> Option<Element> {
        TABLE.iter().find(|r| r.1 == name).map(|r| r.0)
    }
    /// Its number in a file.
    pub fn number(self) -> i64 {
        self as i64 + 1
    }
    /// Its name in ONNX.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }
    /// Bits of one element in a file; none for strings.
    pub fn bits(self) -> usize {
        TABLE[self as usize].2
    }
    /// What it is computed in; `Void` for strings and complex numbers.
    pub fn dtype(self) -> DType {
        TABLE[self as usize].3
    }
    /// The type whose elements are exactly this type's.
    pub fn of(dtype: DType) -> Element {
        let exact = |r: &&(Element, _, usize, DType)| r.3 == dtype && r.2 == dtype.bits() as usize;
        TABLE.iter().filter(|r| r.0 != Float8E8M0).find(exact).map_or(String, |r| r.0)
    }
    /// Whether a tensor's own type says that it is this.
    pub fn is_native(self) -> bool {
        Element::of(self.dtype()) == self
    }
    /// Least and greatest value of an integer type.
    pub fn int_range(self) -> Option<(i64, i64)> {
        let narrow = |lo: i64, hi: i64| Some((lo, hi));
        match self {
            Uint4 => narrow(0, 15),
            Int4 => narrow(-8, 7),
            Uint2 => narrow(0, 3),
            Int2 => narrow(-2, 1),
            _ => self.dtype().int_range().map(|(lo, hi)| (lo as i64, hi.min(i64::MAX as i128) as i64)),
        }
    }
    fn tiny(self) -> Option<Tiny> {
        match self {
            Float4E2M1 => Some(Tiny { exponent: 2, mantissa: 1, max: 6.0 }),
            Float6E2M3 => Some(Tiny { exponent: 2, mantissa: 3, max: 7.5 }),
            Float6E3M2 => Some(Tiny { exponent: 3, mantissa: 2, max: 28.0 }),
            _ => None,
        }
    }
    /// How many bytes so many elements take in a file; `None` beyond the address space.
    pub fn bytes(self, elements: usize) -> Option<usize> {
        Some(elements.checked_mul(self.bits())?.div_ceil(8))
    }
    /// The elements that lie in these bytes, as many as the dims say.
    pub fn tensor(self, bytes: &Blob, dims: &[usize]) -> Tensor {
        let raw = || Tensor::from_blob(DType::U8, bytes, [bytes.len()]);
        let n: usize = dims.iter().product();
        match self {
            Bool => Tensor::from_blob(DType::U8, bytes, dims).ne(0),
            Float8E8M0 => self.decode(&raw()).reshape(dims),
            _ if self.bits() >= 8 => Tensor::from_blob(self.dtype(), bytes, dims),
            _ => self.decode(&unpacked(&raw(), self.bits()).at(..n as i64)).reshape(dims),
        }
    }
    /// Numbers from the bits of elements, one in each byte.
    pub fn decode(self, codes: &Tensor) -> Tensor {
        match self {
            Int4 | Int2 => {
                let sign = 1 << (self.bits() - 1);
                codes.bitwise_xor(sign).cast(DType::I8) - sign
            }
            Float8E8M0 => {
                let power = codes.cast(DType::I32).lshift(23).bitcast(DType::F32);
                let power = codes.eq(0).where_(2f64.powi(-127), power);
                codes.eq(255).where_(f64::NAN, power)
            }
            _ => match self.tiny() {
                // exponent and mantissa put where float32 has them, which is a power of two too small
                Some(t) => {
                    let width = t.exponent + t.mantissa;
                    let code = codes.cast(DType::I32);
                    let magnitude = code.bitwise_and((1 << width) - 1).lshift(23 - t.mantissa);
                    let sign = code.rshift(width).lshift(31);
                    let bits = magnitude.bitwise_or(sign).bitcast(DType::F32);
                    bits * 2f64.powi(127 - t.bias())
                }
                None => codes.clone(),
            },
        }
    }
    /// Numbers rounded to those the type has, in the type it is computed in: floats to the nearest, saturating; integers
    /// keep their low bits.
    pub fn round(self, x: &Tensor) -> Tensor {
        if let Some(t) = self.tiny() {
            // there is no NaN to round one to
            let x = x.isnan().where_(-0.0, x.cast(DType::F32)).clamp(-t.max, t.max);
            let power = x.bitcast(DType::I32).bitwise_and(0x7f80_0000).bitcast(DType::F32);
            let unit = power.maximum(2f64.powi(1 - t.bias())) * 2f64.powi(-t.mantissa);
            return ((&x / &unit).round() * unit).clamp(-t.max, t.max);
        }
        match self {
            Uint4 | Uint2 => x.cast(DType::I32).bitwise_and((1 << self.bits()) - 1).cast(DType::U8),
            Int4 | Int2 => {
                let low = x.cast(DType::I32).bitwise_and((1 << self.bits()) - 1);
                self.decode(&low.cast(DType::U8))
            }
            Float8E8M0 => round_e8m0(&x.cast(DType::F32)),
            _ => x.cast(self.dtype()),
        }
    }
}

impl Tiny {
    fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }
}

/// To a power of two, upwards; a NaN stays one.
fn round_e8m0(x: &Tensor) -> Tensor {
    let bits = x.abs().bitcast(DType::I32);
    let exponent = bits.rshift(23) + bits.bitwise_and(0x7f_ffff).ne(0).cast(DType::I32);
    let code = x.isfinite().where_(exponent.clamp(0, 254), 255);
    Float8E8M0.decode(&code.cast(DType::U8))
}

/// Elements of less than a byte, each in a byte of its own.
fn unpacked(bytes: &Tensor, bits: usize) -> Tensor {
    // so many bytes hold whole elements
    let group = if bits == 6 { 3 } else { 1 };
    let n = bytes.shape()[0].get();
    let padded = bytes.pad(&[(0, n.next_multiple_of(group) - n)], 0).reshape((-1, group)).cast(DType::I32);
    let place = |step: usize, n: usize| Tensor::arange(n) * step as i64;
    let word = padded.lshift(place(8, group)).sum(1).unsqueeze(1);
    let codes = word.rshift(place(bits, 8 * group / bits)).bitwise_and((1 << bits) - 1);
    codes.reshape([-1]).cast(DType::U8)
}
