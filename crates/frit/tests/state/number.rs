//! Elements as bits, and exact arithmetic on them: what would be rounded is refused, also where only another order of
//! the same additions rounds.

use frit::DType;

/// The types that tensors are made of here.
pub const DTYPES: [DType; 13] = [
    DType::F32,
    DType::I32,
    DType::Bool,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F64,
];

/// An element's value. Floats that are not finite, too small or a negative zero have none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Int(i128),
    Float(f64),
}

/// How many bits the exponent and the fraction of a float type take.
fn layout(d: DType) -> (u32, u32) {
    match d {
        DType::F16 => (5, 10),
        DType::BF16 => (8, 7),
        DType::F32 => (8, 23),
        _ => (11, 52),
    }
}

pub fn decode(bits: u64, d: DType) -> Option<Number> {
    if !d.is_float() {
        let width = d.bits();
        let signed = matches!(d, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let value = bits as i128;
        let negative = signed && bits >> (width - 1) & 1 == 1;
        return Some(Number::Int(if negative { value - (1 << width) } else { value }));
    }
    if bits == 0 {
        return Some(Number::Float(0.0));
    }
    let (e, f) = layout(d);
    let (sign, exponent, fraction) = (bits >> (e + f) & 1, bits >> f & ((1 << e) - 1), bits & ((1 << f) - 1));
    if exponent == 0 || exponent == (1 << e) - 1 {
        return None;
    }
    let bias = (1 << (e - 1)) - 1;
    let value = (1.0 + fraction as f64 / (1u64 << f) as f64) * 2f64.powi(exponent as i32 - bias);
    Some(Number::Float(if sign == 1 { -value } else { value }))
}

/// The bits of a value: integers wrap, floats must be exact.
pub fn encode(v: Number, d: DType) -> Option<u64> {
    match v {
        Number::Int(v) if d == DType::Bool => Some((v != 0) as u64),
        Number::Int(v) if d.is_float() => {
            let exact = Some(v as f64).filter(|f| *f as i128 == v)?;
            encode_float(exact, d)
        }
        Number::Int(v) => Some(v as u64 & mask(d)),
        Number::Float(v) if d == DType::Bool => Some((v != 0.0) as u64),
        Number::Float(v) if d.is_float() => encode_float(v, d),
        Number::Float(v) => {
            // beyond the type a cast saturates, which is not what wrapping gives
            let bits = encode(Number::Int(v as i128), d)?;
            (v.abs() < 1e15 && decode(bits, d) == Some(Number::Int(v as i128))).then_some(bits)
        }
    }
}

fn encode_float(v: f64, d: DType) -> Option<u64> {
    if v == 0.0 {
        return v.is_sign_positive().then_some(0);
    }
    let (e, f) = layout(d);
    let bits = v.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64 - 1023, bits & ((1 << 52) - 1));
    let biased = exponent + (1 << (e - 1)) - 1;
    let lost = fraction & ((1 << (52 - f)) - 1);
    if lost != 0 || biased < 1 || biased >= (1 << e) - 1 {
        return None;
    }
    Some((bits >> 63) << (e + f) | (biased as u64) << f | fraction >> (52 - f))
}

pub fn mask(d: DType) -> u64 {
    if d.size() == 8 { u64::MAX } else { (1 << d.bits()) - 1 }
}

pub fn cast(bits: u64, from: DType, to: DType) -> Option<u64> {
    encode(decode(bits, from)?, to)
}

/// Whether bits that were read are those that were expected: NaNs are alike.
pub fn alike(a: u64, b: u64, d: DType) -> bool {
    let is_nan = |v: u64| {
        let (e, f) = layout(d);
        d.is_float() && v >> f & ((1 << e) - 1) == (1 << e) - 1 && v & ((1 << f) - 1) != 0
    };
    a == b || is_nan(a) && is_nan(b)
}

/// For people.
pub fn show(bits: u64, d: DType) -> String {
    match decode(bits, d) {
        Some(Number::Int(v)) if d == DType::Bool && v < 2 => (v == 1).to_string(),
        Some(Number::Int(v)) => v.to_string(),
        Some(Number::Float(v)) => v.to_string(),
        None => format!("0x{bits:x}"),
    }
}

/// An operation on two elements of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fun {
    Add,
    Sub,
    Mul,
    And,
    Xor,
}

impl Fun {
    pub const NUMERIC: [Fun; 3] = [Fun::Add, Fun::Sub, Fun::Mul];
    pub const LOGIC: [Fun; 2] = [Fun::And, Fun::Xor];

    pub fn sign(self) -> char {
        match self {
            Fun::Add => '+',
            Fun::Sub => '-',
            Fun::Mul => '*',
            Fun::And => '&',
            Fun::Xor => '^',
        }
    }
    pub fn is_for(self, d: DType) -> bool {
        match self {
            Fun::And | Fun::Xor => !d.is_float(),
            _ => d != DType::Bool,
        }
    }
    pub fn of(self, a: u64, b: u64, d: DType) -> Option<u64> {
        let value = match (self, decode(a, d)?, decode(b, d)?) {
            (Fun::Add, Number::Int(a), Number::Int(b)) => Number::Int(a + b),
            (Fun::Sub, Number::Int(a), Number::Int(b)) => Number::Int(a - b),
            (Fun::Mul, Number::Int(a), Number::Int(b)) => Number::Int(a.checked_mul(b)?),
            (Fun::And, Number::Int(a), Number::Int(b)) => Number::Int(a & b),
            (Fun::Xor, Number::Int(a), Number::Int(b)) => Number::Int(a ^ b),
            (Fun::Add, Number::Float(a), Number::Float(b)) => Number::Float(exact_sum(&[a, b], d)?),
            (Fun::Sub, Number::Float(a), Number::Float(b)) => Number::Float(exact_sum(&[a, -b], d)?),
            (Fun::Mul, Number::Float(a), Number::Float(b)) => Number::Float(exact_product(a, b)?),
            _ => return None,
        };
        encode(value, d)
    }
}

/// The sum of elements, if it is the same in whatever order they are added.
pub fn sum(elements: &[u64], d: DType) -> Option<u64> {
    if !d.is_float() {
        return elements.iter().try_fold(0, |a, b| Fun::Add.of(a, *b, d));
    }
    let float = |b: &u64| match decode(*b, d)? {
        Number::Float(v) => Some(v),
        Number::Int(_) => None,
    };
    let values: Vec<f64> = elements.iter().map(float).collect::<Option<_>>()?;
    encode(Number::Float(exact_sum(&values, d)?), d)
}

/// All are multiples of a power of two that the type counts to the sum of their magnitudes: so no partial sum rounds.
fn exact_sum(values: &[f64], d: DType) -> Option<f64> {
    let last_bit = |v: &f64| {
        let (exponent, fraction) = (v.to_bits() >> 52 & 0x7ff, v.to_bits() & ((1 << 52) - 1));
        exponent as i32 - 1075 + (fraction | 1 << 52).trailing_zeros() as i32
    };
    let unit = values.iter().filter(|v| **v != 0.0).map(last_bit).min().unwrap_or(0);
    let magnitude: f64 = values.iter().map(|v| v.abs()).sum();
    let most = 2f64.powi(unit + layout(d).1 as i32 + 1);
    // not at the limit: the sum of magnitudes may itself have been rounded to it
    (magnitude < most).then(|| values.iter().sum::<f64>() + 0.0)
}

fn exact_product(a: f64, b: f64) -> Option<f64> {
    let product = a * b;
    let is_lost = a.mul_add(b, -product) != 0.0 || product == 0.0 && a != 0.0 && b != 0.0;
    (!is_lost).then_some(product)
}

#[test]
fn what_some_order_of_additions_rounds_is_refused() {
    let bits = |v: &[f64]| v.iter().map(|v| encode_float(*v, DType::F64).unwrap()).collect::<Vec<_>>();
    let large = (1u64 << 53) as f64;
    assert_eq!(sum(&bits(&[1.0, -2.5, 0.5]), DType::F64), Some((-1.0f64).to_bits()));
    assert_eq!(sum(&bits(&[large, -large, 1.0]), DType::F64), None);
    assert_eq!(sum(&bits(&[1.0, 1.0, large]), DType::F64), None);
    assert_eq!(Fun::Mul.of(bits(&[large])[0], bits(&[3.0])[0], DType::F64), Some((large * 3.0).to_bits()));
    assert_eq!(Fun::Mul.of(bits(&[large - 1.0])[0], bits(&[large - 1.0])[0], DType::F64), None);
    assert_eq!(cast((1 << 53) + 1, DType::U64, DType::F64), None);
}
