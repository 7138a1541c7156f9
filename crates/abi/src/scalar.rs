//! Scalar values and the numeric contract: what every elementwise operation means on one element.
//!
//! Integer arithmetic wraps. Division and modulo floor; by zero they give 0; `INT_MIN / -1` wraps. A shift by the
//! width or more gives 0 (the sign for a signed right shift). Float to integer saturates and NaN gives 0. `Max` and
//! `Min` propagate NaN. Small floats compute in float32 and round once. The interpreter and constant folding both
//! call [`Scalar::alu`], so there is one definition; the graph evaluator is written apart from it, to check it.

use crate::{Alu, DType, elementary};

/// The value of one element. `Int` where it fits an `i64`, `Uint` only above `i64::MAX`; floats with one NaN.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// Any integer that fits.
    Int(i64),
    /// A `uint64` above `i64::MAX`.
    Uint(u64),
    /// Any float, exact in double precision.
    Float(f64),
}

impl Scalar {
    /// Bits that are equal exactly when the values are the same value (one NaN, two zeros).
    pub fn key(self) -> (u8, u64) {
        match self {
            Scalar::Bool(b) => (0, b as u64),
            Scalar::Int(i) => (1, i as u64),
            Scalar::Uint(u) => (2, u),
            Scalar::Float(f) if f.is_nan() => (3, f64::NAN.to_bits()),
            Scalar::Float(f) => (3, f.to_bits()),
        }
    }
    /// The integer `v` wrapped into `dtype` (or converted, for bool and floats).
    pub fn int(v: i128, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(v != 0),
            d if d.is_float() => Scalar::float(v as f64, d),
            d => wrap(v, d),
        }
    }
    /// The double `v` rounded to the float type `dtype`.
    pub fn float(v: f64, dtype: DType) -> Scalar {
        Scalar::Float(match dtype {
            DType::F64 => v,
            DType::F32 => v as f32 as f64,
            d => match d.small_float() {
                Some(s) => s.to_f64(s.from_f64(v)),
                None => v,
            },
        })
    }
    /// As a wide integer; floats truncate and saturate to 64 bits, NaN gives 0.
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Bool(b) => b as i128,
            Scalar::Int(i) => i as i128,
            Scalar::Uint(u) => u as i128,
            Scalar::Float(f) => f as i128,
        }
    }
    /// As an `i64` if it is an integer or bool that fits.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Scalar::Bool(b) => Some(b as i64),
            Scalar::Int(i) => Some(i),
            _ => None,
        }
    }
    /// As a double, rounded to nearest.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Uint(u) => u as f64,
            Scalar::Float(f) => f,
        }
    }
    /// Whether it is not zero (NaN is true).
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Uint(u) => u != 0,
            Scalar::Float(f) => f != 0.0,
        }
    }
    /// The value converted to `dtype`.
    pub fn cast(self, dtype: DType) -> Scalar {
        match (self, dtype) {
            (v, DType::Bool) => Scalar::Bool(v.as_bool()),
            (Scalar::Float(f), d) if d.is_float() => Scalar::float(f, d),
            // one rounding from the integer, not two through a double
            (v, DType::F32) => Scalar::Float(v.as_i128() as f32 as f64),
            (v, d) if d.is_float() => Scalar::float(v.as_i128() as f64, d),
            (Scalar::Float(f), d) => {
                let (lo, hi) = d.int_range().unwrap_or((0, 0));
                wrap((f as i128).clamp(lo, hi), d)
            }
            (v, d) => wrap(v.as_i128(), d),
        }
    }
    /// The element's bits in memory, zero-extended. `dtype` must be the value's own type.
    pub fn to_bits(self, dtype: DType) -> u64 {
        match dtype {
            DType::F64 => self.as_f64().to_bits(),
            DType::F32 => (self.as_f64() as f32).to_bits() as u64,
            DType::Bool => self.as_bool() as u64,
            d => match d.small_float() {
                Some(s) => s.from_f64(self.as_f64()) as u64,
                None => self.as_i128() as u64 & (u64::MAX >> (64 - d.bits().max(1))),
            },
        }
    }
    /// The value of an element's bits in memory.
    pub fn from_bits(bits: u64, dtype: DType) -> Scalar {
        match dtype {
            DType::F64 => Scalar::Float(f64::from_bits(bits)),
            DType::F32 => Scalar::Float(f32::from_bits(bits as u32) as f64),
            DType::Bool => Scalar::Bool(bits & 0xff != 0),
            d => match d.small_float() {
                Some(s) => Scalar::Float(s.to_f64(bits as u32)),
                None => wrap(bits as i128, d),
            },
        }
    }
    /// The value of the same bits in another type; `None` for a NaN of other bits than the one that values have.
    pub fn bitcast(self, from: DType, to: DType) -> Option<Scalar> {
        let bits = self.with_one_nan().to_bits(from);
        let is_same = |v: &Scalar| to == DType::Bool || v.with_one_nan().to_bits(to) == bits;
        Some(Scalar::from_bits(bits, to)).filter(is_same)
    }
    fn with_one_nan(self) -> Scalar {
        match self {
            Scalar::Float(f) if f.is_nan() => Scalar::Float(f64::NAN),
            v => v,
        }
    }
    /// Zero of a type.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar::int(0, dtype)
    }
    /// The value that `op` leaves others unchanged with: 0 for add, 1 for mul, the least value for max, …
    pub fn identity(op: Alu, dtype: DType) -> Option<Scalar> {
        let (lo, hi) = match dtype.int_range() {
            Some((lo, hi)) => (Scalar::int(lo, dtype), Scalar::int(hi, dtype)),
            None => (lowest_float(dtype, true), lowest_float(dtype, false)),
        };
        Some(match op {
            Alu::Add | Alu::Or | Alu::Xor => Scalar::zero(dtype),
            Alu::Mul => Scalar::int(1, dtype),
            Alu::And => Scalar::int(-1, dtype),
            Alu::Max => lo,
            Alu::Min => hi,
            _ => return None,
        })
    }
    /// `op` on operands of type `dtype` (for `Where`: the type of the branches). Comparisons give a bool.
    pub fn alu(op: Alu, dtype: DType, a: &[Scalar]) -> Scalar {
        if op == Alu::Where {
            return if a[0].as_bool() { a[1] } else { a[2] };
        }
        match dtype {
            DType::Bool => bool_alu(op, a),
            d if d.is_float() => float_alu(op, d, a),
            d => int_alu(op, d, a),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, o: &Scalar) -> bool {
        self.key() == o.key()
    }
}
impl Eq for Scalar {}
impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, h: &mut H) {
        self.key().hash(h)
    }
}

fn wrap(v: i128, d: DType) -> Scalar {
    let w = match d {
        DType::I8 => v as i8 as i128,
        DType::I16 => v as i16 as i128,
        DType::I32 => v as i32 as i128,
        DType::U8 => v as u8 as i128,
        DType::U16 => v as u16 as i128,
        DType::U32 => v as u32 as i128,
        DType::U64 => v as u64 as i128,
        _ => v as i64 as i128,
    };
    i64::try_from(w).map_or(Scalar::Uint(w as u64), Scalar::Int)
}

/// Negative infinity (or the lowest finite value where there is none), negated unless `low`.
fn lowest_float(d: DType, low: bool) -> Scalar {
    let hi = match d.small_float() {
        Some(s) if !s.has_inf() => s.to_f64(s.max_bits()),
        _ => f64::INFINITY,
    };
    Scalar::Float(if low { -hi } else { hi })
}

fn bool_alu(op: Alu, a: &[Scalar]) -> Scalar {
    let x = a[0].as_bool();
    let y = a.get(1).is_some_and(|b| b.as_bool());
    Scalar::Bool(match op {
        Alu::Not | Alu::Neg => !x, // wrapping negation of one bit is itself; `Neg` on bool is the logical one
        Alu::Add | Alu::Or | Alu::Max => x | y,
        Alu::Mul | Alu::And | Alu::Min => x & y,
        Alu::Sub | Alu::Xor | Alu::Ne => x ^ y,
        Alu::Eq => x == y,
        Alu::Lt => !x & y,
        Alu::MulAcc => (x & y) | a[2].as_bool(),
        Alu::Idiv | Alu::Tdiv => x & y,
        Alu::Mod => false, // by one nothing is left, by zero it is 0
        _ => x,
    })
}

fn int_alu(op: Alu, d: DType, a: &[Scalar]) -> Scalar {
    let x = a[0].as_i128();
    let y = a.get(1).map_or(0, |b| b.as_i128());
    let bits = d.bits() as i128;
    let r = match op {
        Alu::Neg => -x,
        Alu::Not => !x,
        Alu::Add => x + y,
        Alu::Sub => x - y,
        Alu::Mul => x.wrapping_mul(y),
        Alu::Idiv | Alu::Mod if y == 0 => 0,
        Alu::Idiv => x.div_euclid(y) - ((y < 0 && x.rem_euclid(y) != 0) as i128),
        Alu::Mod => x - y * (x.div_euclid(y) - ((y < 0 && x.rem_euclid(y) != 0) as i128)),
        Alu::Tdiv => x.checked_div(y).unwrap_or(0),
        Alu::Max => x.max(y),
        Alu::Min => x.min(y),
        Alu::Lt => return Scalar::Bool(x < y),
        Alu::Eq => return Scalar::Bool(x == y),
        Alu::Ne => return Scalar::Bool(x != y),
        Alu::And => x & y,
        Alu::Or => x | y,
        Alu::Xor => x ^ y,
        Alu::Shl => {
            if (0..bits).contains(&y) {
                x.wrapping_shl(y as u32)
            } else {
                0
            }
        }
        Alu::Shr => {
            if (0..bits).contains(&y) {
                x >> y
            } else if x < 0 {
                -1
            } else {
                0
            }
        }
        Alu::MulAcc => x.wrapping_mul(y).wrapping_add(a[2].as_i128()),
        Alu::Dot4 => {
            let product = |j: usize| (x >> (8 * j)) as u8 as i128 * (y >> (8 * j)) as i8 as i128;
            (0..d.size()).map(product).sum::<i128>() + a[2].as_i128()
        }
        Alu::Threefry => threefry2x32(x as u64, y as u64) as i128,
        Alu::Pow => int_pow(x, y),
        _ => x,
    };
    wrap(r, d)
}

/// Exact power modulo 2^128; a negative exponent gives the truncated reciprocal (0, 1 or -1).
fn int_pow(x: i128, y: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => {
                if y & 1 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut base, mut e, mut r) = (x, y, 1i128);
    while e > 0 {
        if e & 1 == 1 {
            r = r.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        e >>= 1;
    }
    r
}

fn float_alu(op: Alu, d: DType, a: &[Scalar]) -> Scalar {
    let x = a[0].as_f64();
    let y = a.get(1).map_or(0.0, |b| b.as_f64());
    let z = match op {
        Alu::Lt => return Scalar::Bool(x < y),
        Alu::Eq => return Scalar::Bool(x == y),
        Alu::Ne => return Scalar::Bool(x != y),
        Alu::Neg => -x,
        // a double holds the exact or innocuously double-rounded float32 result of these
        Alu::Add => x + y,
        Alu::Sub => x - y,
        Alu::Mul => x * y,
        Alu::Fdiv => x / y,
        Alu::Max => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.max(y)
            }
        }
        Alu::Min => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.min(y)
            }
        }
        Alu::Pow => x.powf(y),
        Alu::Atan2 => x.atan2(y),
        Alu::MulAcc if d == DType::F32 => (x as f32).mul_add(y as f32, a[2].as_f64() as f32) as f64,
        Alu::MulAcc => x.mul_add(y, a[2].as_f64()),
        Alu::Idiv | Alu::Tdiv => elementary::floor_div(x, y),
        Alu::Mod => elementary::modulo(x, y),
        op => elementary::unary(op, x),
    };
    Scalar::float(z, d)
}

/// Threefry-2x32, 20 rounds: counter and key as two 32-bit words each, low word first.
pub fn threefry2x32(counter: u64, key: u64) -> u64 {
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let ks = [k0, k1, k0 ^ k1 ^ 0x1BD1_1BDA];
    let (mut x0, mut x1) =
        ((counter as u32).wrapping_add(ks[0]), ((counter >> 32) as u32).wrapping_add(ks[1]));
    const ROT: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    for i in 0..5 {
        for r in ROT[i % 2] {
            x0 = x0.wrapping_add(x1);
            x1 = x1.rotate_left(r) ^ x0;
        }
        x0 = x0.wrapping_add(ks[(i + 1) % 3]);
        x1 = x1.wrapping_add(ks[(i + 2) % 3]).wrapping_add(i as u32 + 1);
    }
    (x1 as u64) << 32 | x0 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i(v: i64) -> Scalar {
        Scalar::Int(v)
    }
    #[test]
    fn integer_division_floors_and_never_faults() {
        let f = |op, a, b| Scalar::alu(op, DType::I32, &[i(a), i(b)]).as_i64().unwrap();
        for (a, b, q, r) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (5, 0, 0, 0), (6, -3, -2, 0)]
        {
            assert_eq!((f(Alu::Idiv, a, b), f(Alu::Mod, a, b)), (q, r), "{a} {b}");
        }
        assert_eq!(f(Alu::Idiv, i32::MIN as i64, -1), i32::MIN as i64);
    }
    #[test]
    fn shifts_by_the_width_give_zero_or_the_sign() {
        let f = |op, d, a, b| Scalar::alu(op, d, &[i(a), i(b)]);
        assert_eq!(f(Alu::Shl, DType::I32, 1, 32), i(0));
        assert_eq!(f(Alu::Shr, DType::I32, -8, 40), i(-1));
        assert_eq!(f(Alu::Shr, DType::U8, 200, 8), i(0));
        assert_eq!(f(Alu::Shl, DType::I32, 1, 31), i(i32::MIN as i64));
    }
    #[test]
    fn float_to_int_saturates() {
        assert_eq!(Scalar::Float(1e20).cast(DType::I32), i(i32::MAX as i64));
        assert_eq!(Scalar::Float(f64::NAN).cast(DType::I8), i(0));
        assert_eq!(Scalar::Float(-1.5).cast(DType::U8), i(0));
        assert_eq!(Scalar::Float(f64::INFINITY).cast(DType::U64), Scalar::Uint(u64::MAX));
    }
    #[test]
    fn threefry_matches_the_published_vectors() {
        assert_eq!(threefry2x32(0, 0), 0x99ba_4efe_6b20_0159);
    }
}
