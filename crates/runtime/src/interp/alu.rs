//! Elementwise operations on raw lanes: one function for each operation and type, chosen when a kernel is loaded.
//!
//! A lane is 64 bits. Integers are sign- or zero-extended from their own width to 64 bits, bools are 0 or 1, floats
//! are their bits, zero-extended. What has no fast function goes through [`Scalar`], which defines all of them; the
//! tests hold every fast one to it.

use frit_abi::scalar::threefry2x32;
use frit_abi::{Alu, DType, Scalar};

/// A function on raw lanes.
#[derive(Clone, Copy)]
pub enum Function {
    /// Of one operand.
    One(fn(u64) -> u64),
    /// Of two operands.
    Two(fn(u64, u64) -> u64),
    /// Of three operands.
    Three(fn(u64, u64, u64) -> u64),
    /// The definition: an operation on operands of a type.
    Defined(Alu, DType),
    /// The definition: a conversion from a type to another.
    Converted(DType, DType),
}

/// The raw lane of a value of a type.
pub fn raw(v: Scalar, dtype: DType) -> u64 {
    extend(v.to_bits(dtype), dtype)
}

/// The value of a raw lane.
pub fn scalar(raw: u64, dtype: DType) -> Scalar {
    Scalar::from_bits(raw, dtype)
}

/// The raw lane of an element's bits, whatever is above them.
pub fn extend(bits: u64, dtype: DType) -> u64 {
    match dtype {
        DType::Bool => (bits as u8 != 0) as u64,
        DType::I8 => bits as i8 as u64,
        DType::I16 => bits as i16 as u64,
        DType::I32 => bits as i32 as u64,
        d => match d.size() {
            1 => bits as u8 as u64,
            2 => bits as u16 as u64,
            4 => bits as u32 as u64,
            _ => bits,
        },
    }
}

/// `op` on operands of `dtype` through its definition.
pub fn define(op: Alu, dtype: DType, a: &[u64]) -> u64 {
    let is_gate = |i: usize| op == Alu::Where && i == 0;
    let operand = |i: usize| scalar(a[i], if is_gate(i) { DType::Bool } else { dtype });
    let operands: [Scalar; 3] = std::array::from_fn(|i| operand(i.min(a.len() - 1)));
    let result = Scalar::alu(op, dtype, &operands[..a.len()]);
    raw(result, if op.is_comparison() { DType::Bool } else { dtype })
}

/// The fastest function there is for `op` on operands of `dtype`.
pub fn function(op: Alu, dtype: DType) -> Function {
    let fast = match (op, dtype) {
        (Alu::Where, _) => Some(Function::Three(|c, a, b| if c != 0 { a } else { b })),
        (_, DType::Bool) => boolean(op),
        (_, DType::I8) => int8(op),
        (_, DType::I16) => int16(op),
        (_, DType::I32) => int32(op),
        (_, DType::I64 | DType::Index) => int64(op),
        (_, DType::U8) => uint8(op),
        (_, DType::U16) => uint16(op),
        (_, DType::U32) => uint32(op),
        (_, DType::U64) => uint64(op),
        (_, DType::F32) => float32(op),
        (_, DType::F64) => float64(op),
        _ => None,
    };
    fast.unwrap_or(Function::Defined(op, dtype))
}

/// The fastest function there is that converts.
pub fn conversion(from: DType, to: DType) -> Function {
    let is_int = |d: DType| d == DType::Bool || d.is_int();
    let f: Option<fn(u64) -> u64> = match (from, to) {
        (a, b) if a == b => Some(|x| x),
        (DType::F32, DType::Bool) => Some(|x| (single(x) != 0.0) as u64),
        (DType::F64, DType::Bool) => Some(|x| (f64::from_bits(x) != 0.0) as u64),
        (DType::F32, DType::F64) => Some(|x| (single(x) as f64).to_bits()),
        (DType::F64, DType::F32) => Some(|x| (f64::from_bits(x) as f32).to_bits() as u64),
        (DType::F32, DType::I32) => Some(|x| single(x) as i32 as u64),
        (DType::F32, DType::I64) => Some(|x| single(x) as i64 as u64),
        (DType::U64, DType::F32) => Some(|x| (x as f32).to_bits() as u64),
        (DType::U64, DType::F64) => Some(|x| (x as f64).to_bits()),
        (a, DType::F32) if is_int(a) => Some(|x| (x as i64 as f32).to_bits() as u64),
        (a, DType::F64) if is_int(a) => Some(|x| (x as i64 as f64).to_bits()),
        (a, DType::Bool) if is_int(a) => Some(|x| (x != 0) as u64),
        (a, b) if is_int(a) => match b {
            DType::I8 => Some(|x| x as i8 as u64),
            DType::I16 => Some(|x| x as i16 as u64),
            DType::I32 => Some(|x| x as i32 as u64),
            DType::U8 => Some(|x| x as u8 as u64),
            DType::U16 => Some(|x| x as u16 as u64),
            DType::U32 => Some(|x| x as u32 as u64),
            DType::I64 | DType::U64 | DType::Index => Some(|x| x),
            _ => None,
        },
        _ => None,
    };
    f.map_or(Function::Converted(from, to), Function::One)
}

impl Function {
    /// Its value on raw operands; those it does not take are not looked at.
    #[inline]
    pub fn call(self, a: u64, b: u64, c: u64) -> u64 {
        match self {
            Function::One(f) => f(a),
            Function::Two(f) => f(a, b),
            Function::Three(f) => f(a, b, c),
            Function::Defined(op, dtype) => define(op, dtype, &[a, b, c][..op.arity()]),
            Function::Converted(from, to) => raw(scalar(a, from).cast(to), to),
        }
    }
}

fn single(raw: u64) -> f32 {
    f32::from_bits(raw as u32)
}

/// The functions of an integer type `$t`, whose values are exact in `$wide`.
macro_rules! integers {
    ($($name:ident $t:ty, $wide:ty;)*) => {$(
        fn $name(op: Alu) -> Option<Function> {
            const SIGNED: bool = <$wide>::MIN != 0;
            /// Back to a raw lane, wrapped.
            fn wrap(x: $wide) -> u64 {
                x as $t as i64 as u64
            }
            fn floor_div(x: $wide, y: $wide) -> $wide {
                let (q, r) = (x.wrapping_div(y), x.wrapping_rem(y));
                if SIGNED && r != 0 && ((r ^ y) as i64) < 0 { q.wrapping_sub(1) } else { q }
            }
            fn in_range(shift: u64) -> bool {
                shift < <$t>::BITS as u64
            }
            use Function::{One, Three, Two};
            Some(match op {
                Alu::Neg => One(|x| wrap((x as $wide).wrapping_neg())),
                Alu::Not => One(|x| wrap(!(x as $wide))),
                Alu::Add => Two(|x, y| wrap((x as $wide).wrapping_add(y as $wide))),
                Alu::Sub => Two(|x, y| wrap((x as $wide).wrapping_sub(y as $wide))),
                Alu::Mul => Two(|x, y| wrap((x as $wide).wrapping_mul(y as $wide))),
                Alu::Idiv => Two(|x, y| if y == 0 { 0 } else { wrap(floor_div(x as $wide, y as $wide)) }),
                Alu::Mod => Two(|x, y| {
                    let (x, y) = (x as $wide, y as $wide);
                    if y == 0 { 0 } else { wrap(x.wrapping_sub(floor_div(x, y).wrapping_mul(y))) }
                }),
                Alu::Tdiv => Two(|x, y| if y == 0 { 0 } else { wrap((x as $wide).wrapping_div(y as $wide)) }),
                Alu::Max => Two(|x, y| (x as $wide).max(y as $wide) as u64),
                Alu::Min => Two(|x, y| (x as $wide).min(y as $wide) as u64),
                Alu::Lt => Two(|x, y| ((x as $wide) < y as $wide) as u64),
                Alu::Eq => Two(|x, y| (x == y) as u64),
                Alu::Ne => Two(|x, y| (x != y) as u64),
                Alu::And => Two(|x, y| x & y),
                Alu::Or => Two(|x, y| x | y),
                Alu::Xor => Two(|x, y| x ^ y),
                Alu::Shl => Two(|x, y| if in_range(y) { wrap((x as $wide) << y) } else { 0 }),
                Alu::Shr => Two(|x, y| match in_range(y) {
                    true => wrap(x as $wide >> y),
                    false if SIGNED && (x as i64) < 0 => u64::MAX,
                    false => 0,
                }),
                Alu::Threefry => Two(|x, y| wrap(threefry2x32(x, y) as $wide)),
                Alu::Dot4 => Three(|x, y, z| {
                    let byte = |v: u64, j: usize| (v >> (8 * j)) as u8;
                    let product = |j: usize| byte(x, j) as i64 * byte(y, j) as i8 as i64;
                    wrap((0..size_of::<$t>()).map(product).sum::<i64>().wrapping_add(z as i64) as $wide)
                }),
                Alu::MulAcc => Three(|x, y, z| {
                    wrap((x as $wide).wrapping_mul(y as $wide).wrapping_add(z as $wide))
                }),
                _ => return None,
            })
        }
    )*};
}
integers! {
    int8   i8,  i64;
    int16  i16, i64;
    int32  i32, i64;
    int64  i64, i64;
    uint8  u8,  i64;
    uint16 u16, i64;
    uint32 u32, i64;
    uint64 u64, u64;
}

fn boolean(op: Alu) -> Option<Function> {
    use Function::{One, Two};
    Some(match op {
        Alu::Not | Alu::Neg => One(|x| x ^ 1),
        Alu::Add | Alu::Or | Alu::Max => Two(|x, y| x | y),
        Alu::Mul | Alu::And | Alu::Min => Two(|x, y| x & y),
        Alu::Sub | Alu::Xor | Alu::Ne => Two(|x, y| x ^ y),
        Alu::Eq => Two(|x, y| (x == y) as u64),
        Alu::Lt => Two(|x, y| !x & y),
        _ => return None,
    })
}

/// The functions of a float type. What is not exact in it is computed in double precision and rounded once.
macro_rules! floats {
    ($name:ident $t:ident, $bits:ident) => {
        fn $name(op: Alu) -> Option<Function> {
            fn get(x: u64) -> $t {
                $t::from_bits(x as $bits)
            }
            fn put(x: $t) -> u64 {
                x.to_bits() as u64
            }
            fn wide(x: u64) -> f64 {
                get(x) as f64
            }
            fn round(x: f64) -> u64 {
                put(x as $t)
            }
            fn either_nan(x: f64, y: f64) -> bool {
                x.is_nan() || y.is_nan()
            }
            use Function::{One, Three, Two};
            Some(match op {
                Alu::Neg => One(|x| put(-get(x))),
                Alu::Recip | Alu::RecipNear => One(|x| round(1.0 / wide(x))),
                Alu::Sqrt => One(|x| round(wide(x).sqrt())),
                Alu::Exp2 | Alu::Exp2Near => One(|x| round(wide(x).exp2())),
                Alu::Log2 => One(|x| round(wide(x).log2())),
                Alu::Exp => One(|x| round(wide(x).exp())),
                Alu::Log => One(|x| round(wide(x).ln())),
                Alu::Sin => One(|x| round(wide(x).sin())),
                Alu::Cos => One(|x| round(wide(x).cos())),
                Alu::Trunc => One(|x| round(wide(x).trunc())),
                Alu::Floor => One(|x| round(wide(x).floor())),
                Alu::Round => One(|x| round(wide(x).round_ties_even())),
                Alu::Add => Two(|x, y| put(get(x) + get(y))),
                Alu::Sub => Two(|x, y| put(get(x) - get(y))),
                Alu::Mul => Two(|x, y| put(get(x) * get(y))),
                Alu::Fdiv => Two(|x, y| put(get(x) / get(y))),
                Alu::Max => Two(|x, y| {
                    let (x, y) = (wide(x), wide(y));
                    round(if either_nan(x, y) { f64::NAN } else { x.max(y) })
                }),
                Alu::Min => Two(|x, y| {
                    let (x, y) = (wide(x), wide(y));
                    round(if either_nan(x, y) { f64::NAN } else { x.min(y) })
                }),
                Alu::Pow => Two(|x, y| round(wide(x).powf(wide(y)))),
                Alu::Lt => Two(|x, y| (get(x) < get(y)) as u64),
                Alu::Eq => Two(|x, y| (get(x) == get(y)) as u64),
                Alu::Ne => Two(|x, y| (get(x) != get(y)) as u64),
                Alu::MulAcc => Three(|x, y, z| put(get(x).mul_add(get(y), get(z)))),
                _ => return None,
            })
        }
    };
}
floats!(float32 f32, u32);
floats!(float64 f64, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::dtype;

    /// Values that matter to a type, as raw lanes.
    fn special_values(d: DType) -> Vec<u64> {
        let ints =
            [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1 << 33];
        let bits = [0, 1, d.bits() - 2, d.bits() - 1].map(|s| 1u64 << s);
        let floats = [
            0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.1, 255.5, 1e-45, 1e-40, 6e-8, 65504.0, 1e10, 3e38, 1e300, 5e-324,
        ]
        .into_iter()
        .chain([f64::INFINITY, f64::NAN, std::f64::consts::PI, 2147483647.5, 9.3e18, 1.9e19]);
        let mut out: Vec<u64> = match d {
            d if d.is_float() => {
                floats.flat_map(|f| [f, -f]).map(|f| raw(Scalar::Float(f).cast(d), d)).collect()
            }
            d => {
                ints.iter().flat_map(|&i: &i64| [i, -i]).map(|i| raw(Scalar::int(i as i128, d), d)).collect()
            }
        };
        out.extend(bits.into_iter().flat_map(|b| [b, !b, b.wrapping_sub(1)]).map(|b| extend(b, d)));
        out.sort_unstable();
        out.dedup();
        out
    }

    #[test]
    fn every_operation_on_every_type_is_what_its_definition_says() {
        let mut fast = 0;
        for d in dtype::ALL {
            let values = special_values(d);
            for op in Alu::ALL {
                let f = function(op, d);
                if matches!(f, Function::Defined(..)) {
                    continue;
                }
                fast += 1;
                let first = if op == Alu::Where { vec![0, 1] } else { values.clone() };
                let some = |n: bool| if n { values.clone() } else { vec![0] };
                let second = some(op.arity() > 1);
                let third: Vec<u64> = some(op.arity() > 2).into_iter().step_by(3).collect();
                let result = if op.is_comparison() { DType::Bool } else { d };
                for &a in &first {
                    for &b in &second {
                        for &c in &third {
                            let got = f.call(a, b, c);
                            let want = define(op, d, &[a, b, c][..op.arity()]);
                            assert_eq!(
                                scalar(got, result),
                                scalar(want, result),
                                "{op:?} {d} of {:?} {:?} {:?}",
                                scalar(a, d),
                                scalar(b, d),
                                scalar(c, d)
                            );
                            assert_eq!(got, extend(got, result), "a raw lane is extended");
                        }
                    }
                }
            }
        }
        assert!(fast > 200, "{fast}");
    }

    #[test]
    fn every_conversion_is_what_its_definition_says() {
        for from in dtype::ALL {
            for to in dtype::ALL {
                let f = conversion(from, to);
                for x in special_values(from) {
                    let got = f.call(x, 0, 0);
                    assert_eq!(
                        scalar(got, to),
                        scalar(x, from).cast(to),
                        "{from} to {to} of {:?}",
                        scalar(x, from)
                    );
                    assert_eq!(got, extend(got, to), "a raw lane is extended");
                }
            }
        }
    }

    #[test]
    fn float_to_int_saturates_and_nan_is_zero() {
        let f = conversion(DType::F32, DType::I32);
        let of = |x: f32| f.call(x.to_bits() as u64, 0, 0) as i64;
        assert_eq!((of(3e9), of(-3e9), of(f32::NAN), of(-1.9)), (i32::MAX as i64, i32::MIN as i64, 0, -1));
    }
}
