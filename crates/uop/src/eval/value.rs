//! What elementwise operations mean on one element, in float64 and 128-bit integers.
//!
//! Written apart from `Scalar`, to check it: the numeric contract is stated a second time here, from its text.

use frit_abi::{Alu, DType};

/// One element: an integer (bools are 0 and 1) or a float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Of an integer type, `Bool` or `Index`.
    Int(i128),
    /// Of a float type. Results of arithmetic are kept in double precision; only casts round.
    Float(f64),
}

use Value::{Float, Int};

impl Value {
    /// As a double.
    pub fn as_f64(self) -> f64 {
        match self {
            Int(i) => i as f64,
            Float(f) => f,
        }
    }
    /// As an integer, truncated.
    pub fn as_int(self) -> i128 {
        match self {
            Int(i) => i,
            Float(f) => f as i128,
        }
    }
    /// Whether it is not zero.
    pub fn is_true(self) -> bool {
        self != Int(0) && self != Float(0.0)
    }
    /// Zero of a type.
    pub fn zero(dtype: DType) -> Value {
        if dtype.is_float() { Float(0.0) } else { Int(0) }
    }
    /// What combining nothing with `op` gives.
    pub fn identity(op: Alu, dtype: DType) -> Option<Value> {
        let of = |i: i128| if dtype.is_float() { Float(i as f64) } else { fit(i, dtype) };
        // types without infinities end at their greatest number
        let top = || match dtype.int_range() {
            Some((_, most)) => Int(most),
            None => Float(match dtype.small_float() {
                Some(s) if !s.has_inf() => s.to_f64(s.max_bits()),
                _ => f64::INFINITY,
            }),
        };
        Some(match op {
            Alu::Add | Alu::Or | Alu::Xor => of(0),
            Alu::Mul => of(1),
            Alu::And => of(-1),
            Alu::Min => top(),
            Alu::Max => match (dtype.int_range(), top()) {
                (Some((least, _)), _) => Int(least),
                (None, top) => Float(-top.as_f64()),
            },
            _ => return None,
        })
    }
    /// Converted to a type. Here floats round.
    pub fn cast(self, to: DType) -> Value {
        match (self, to) {
            (x, DType::Bool) => Int(x.is_true() as i128),
            (Int(i), DType::F32) => Float(i as f32 as f64),
            (x, to) if to.is_float() => Float(round(x.as_f64(), to)),
            (Int(i), to) => fit(i, to),
            (Float(f), to) => {
                let (least, most) = to.int_range().unwrap_or((0, 0));
                Int(if f.is_nan() { 0 } else { (f.trunc() as i128).max(least).min(most) })
            }
        }
    }
    /// The bits of an element of a type, zero-extended.
    pub fn bits(self, dtype: DType) -> u64 {
        match (dtype, dtype.small_float()) {
            (DType::F64, _) => self.as_f64().to_bits(),
            (DType::F32, _) => (self.as_f64() as f32).to_bits() as u64,
            (_, Some(small)) => small.from_f64(self.as_f64()) as u64,
            (d, None) => self.as_int().rem_euclid(1 << d.bits().max(1)) as u64,
        }
    }
    /// The element of a type that has these bits.
    pub fn from_bits(bits: u64, dtype: DType) -> Value {
        match (dtype, dtype.small_float()) {
            (DType::F64, _) => Float(f64::from_bits(bits)),
            (DType::F32, _) => Float(f32::from_bits(bits as u32) as f64),
            (_, Some(small)) => Float(small.to_f64(bits as u32)),
            (d, None) => fit(bits as i128, d),
        }
    }
}

/// A double rounded to a float type.
fn round(f: f64, to: DType) -> f64 {
    match (to, to.small_float()) {
        (DType::F32, _) => f as f32 as f64,
        (_, Some(small)) => small.to_f64(small.from_f64(f)),
        _ => f,
    }
}

/// The integer of the type that is the same modulo two to its width.
fn fit(i: i128, dtype: DType) -> Value {
    let Some((least, most)) = dtype.int_range() else { return Float(i as f64) };
    if dtype == DType::Bool {
        return Int((i != 0) as i128);
    }
    Int((i.wrapping_sub(least)).rem_euclid(most - least + 1) + least)
}

/// `op` on operands of a type (for `Where`, that of the branches).
pub fn apply(op: Alu, dtype: DType, args: &[Value]) -> Value {
    if op == Alu::Where {
        return if args[0].is_true() { args[1] } else { args[2] };
    }
    let arg = |i: usize| args.get(i).copied().unwrap_or(Int(0));
    if dtype.is_float() {
        return on_floats(op, [arg(0).as_f64(), arg(1).as_f64(), arg(2).as_f64()]);
    }
    let operands = [arg(0).as_int(), arg(1).as_int(), arg(2).as_int()];
    if dtype == DType::Bool {
        return Int(on_bools(op, operands.map(|i| i != 0)) as i128);
    }
    match on_integers(op, operands, dtype.bits() as i128) {
        i if op.is_comparison() => Int(i),
        i => fit(i, dtype),
    }
}

fn on_floats(op: Alu, [x, y, z]: [f64; 3]) -> Value {
    let any_nan = x.is_nan() || y.is_nan();
    Float(match op {
        Alu::Lt => return Int((x < y) as i128),
        Alu::Eq => return Int((x == y) as i128),
        Alu::Ne => return Int((x != y) as i128),
        Alu::Neg => -x,
        Alu::Recip | Alu::RecipNear => x.recip(),
        Alu::Sqrt => x.sqrt(),
        Alu::Exp2 | Alu::Exp2Near => x.exp2(),
        Alu::Log2 => x.log2(),
        Alu::Exp => x.exp(),
        Alu::Log => x.ln(),
        Alu::Sin => x.sin(),
        Alu::Cos => x.cos(),
        Alu::Rsqrt => x.sqrt().recip(),
        Alu::Tan => x.tan(),
        Alu::Asin => x.asin(),
        Alu::Acos => x.acos(),
        Alu::Atan2 => x.atan2(y),
        Alu::Sinh => x.sinh(),
        Alu::Cosh => x.cosh(),
        Alu::Tanh => x.tanh(),
        Alu::Expm1 => x.exp_m1(),
        Alu::Log1p => x.ln_1p(),
        Alu::Log10 => x.log10(),
        Alu::Sigmoid if x > 0.0 => 1.0 / (1.0 + (-x).exp()),
        Alu::Sigmoid => x.exp() / (1.0 + x.exp()),
        Alu::Erf => erf(x),
        Alu::Erfc => erfc(x),
        Alu::Trunc => x.trunc(),
        Alu::Floor => x.floor(),
        Alu::Round => x.round_ties_even(),
        Alu::Add => x + y,
        Alu::Sub => x - y,
        Alu::Mul => x * y,
        Alu::Fdiv => x / y,
        Alu::Idiv | Alu::Tdiv => floor_div(x, y),
        Alu::Mod => modulo(x, y),
        Alu::Max | Alu::Min if any_nan => f64::NAN,
        Alu::Max => {
            if x < y {
                y
            } else {
                x
            }
        }
        Alu::Min => {
            if y < x {
                y
            } else {
                x
            }
        }
        Alu::Pow => x.powf(y),
        Alu::MulAcc => x.mul_add(y, z),
        _ => x,
    })
}

/// By an integral taken as a sum over steps of a half: what it leaves out is below 1e-17.
fn erfc(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x < 0.25 {
        return 1.0 - erf(x);
    }
    if x > 30.0 {
        return 0.0;
    }
    let h = 0.5;
    let term = |k: i32| (-(h * f64::from(k)).powi(2)).exp() / ((h * f64::from(k)).powi(2) + x * x);
    let sum = term(0) + 2.0 * (1..20).map(term).sum::<f64>();
    // the step's own period
    let period = if x < PI / h { 2.0 / ((2.0 * PI * x / h).exp() - 1.0) } else { 0.0 };
    h * x * (-x * x).exp() / PI * sum - period
}
/// By a series without cancelling, or from erfc.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 1.0 {
        return (1.0 - erfc(x.abs())).copysign(x);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..40 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
/// What floor division leaves, with the divisor's sign.
fn modulo(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r == 0.0 {
        0f64.copysign(y)
    } else if r.signum() == y.signum() || r.is_nan() {
        r
    } else {
        r + y
    }
}
/// The whole number below the quotient; like the quotient by zero.
fn floor_div(x: f64, y: f64) -> f64 {
    let q = x / y;
    if y == 0.0 || q.is_nan() {
        return q;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    // halves, so that nothing overflows
    let whole = ((x / 2.0 - (x % y) / 2.0) / (y / 2.0)).round_ties_even();
    let below = x % y != 0.0 && q.is_sign_negative();
    if below { whole - 1.0 } else { whole.abs().copysign(q) }
}

fn on_bools(op: Alu, [x, y, z]: [bool; 3]) -> bool {
    match op {
        Alu::Not | Alu::Neg => !x,
        Alu::Add | Alu::Or | Alu::Max => x || y,
        Alu::Mul | Alu::And | Alu::Min | Alu::Idiv | Alu::Tdiv => x && y,
        Alu::Sub | Alu::Xor | Alu::Ne => x != y,
        Alu::Eq => x == y,
        Alu::Lt => !x && y,
        Alu::MulAcc => x && y || z,
        Alu::Mod => false, // by one nothing is left, by zero it is 0
        _ => x,
    }
}

/// Before wrapping; operands are within 64 bits, so that sums are exact.
fn on_integers(op: Alu, [x, y, z]: [i128; 3], width: i128) -> i128 {
    let floor_div = |x: i128, y: i128| {
        let q = x / y;
        if q * y != x && (x < 0) != (y < 0) { q - 1 } else { q }
    };
    match op {
        Alu::Neg => -x,
        Alu::Not => -1 - x,
        Alu::Add => x + y,
        Alu::Sub => x - y,
        Alu::Mul => x.wrapping_mul(y),
        Alu::MulAcc => x.wrapping_mul(y).wrapping_add(z),
        Alu::Dot4 => {
            let byte = |v: i128, j: i128| (v >> (8 * j)).rem_euclid(256);
            let signed = |b: i128| if b < 128 { b } else { b - 256 };
            (0..width / 8).map(|j| byte(x, j) * signed(byte(y, j))).sum::<i128>() + z
        }
        Alu::Idiv | Alu::Mod | Alu::Tdiv if y == 0 => 0,
        Alu::Idiv => floor_div(x, y),
        Alu::Mod => x - floor_div(x, y) * y,
        Alu::Tdiv => x / y,
        Alu::Max => x.max(y),
        Alu::Min => x.min(y),
        Alu::Lt => (x < y) as i128,
        Alu::Eq => (x == y) as i128,
        Alu::Ne => (x != y) as i128,
        Alu::And => x & y,
        Alu::Or => x | y,
        Alu::Xor => x ^ y,
        Alu::Shl if y < 0 || y >= width => 0,
        Alu::Shl => x.wrapping_mul(1 << y),
        Alu::Shr if y < 0 || y >= width => -((x < 0) as i128),
        Alu::Shr => floor_div(x, 1 << y),
        Alu::Pow => power(x, y),
        Alu::Threefry => threefry(x as u64, y as u64) as i128,
        _ => x,
    }
}

/// x multiplied with itself; for negative exponents one over that, truncated.
fn power(x: i128, y: i128) -> i128 {
    match (x, y) {
        (_, 0) | (1, _) => 1,
        (-1, _) => 1 - 2 * (y & 1),
        (_, y) if y < 0 => 0,
        _ => {
            // square for each bit of the exponent, from the top
            let bits = 128 - y.leading_zeros();
            (0..bits).rev().fold(1i128, |r, bit| {
                let square = r.wrapping_mul(r);
                if y >> bit & 1 == 1 { square.wrapping_mul(x) } else { square }
            })
        }
    }
}

/// Threefry-2x32 with 20 rounds, as Salmon et al. print it.
fn threefry(counter: u64, key: u64) -> u64 {
    const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
    let word = |x: u64, i: u32| (x >> (32 * i)) as u32;
    let keys = [word(key, 0), word(key, 1), 0x1BD1_1BDA ^ word(key, 0) ^ word(key, 1)];
    let mut x = [word(counter, 0).wrapping_add(keys[0]), word(counter, 1).wrapping_add(keys[1])];
    for round in 0..20 {
        x[0] = x[0].wrapping_add(x[1]);
        x[1] = x[1].rotate_left(ROTATIONS[round % 8]) ^ x[0];
        if round % 4 == 3 {
            let n = round / 4 + 1;
            x[0] = x[0].wrapping_add(keys[n % 3]);
            x[1] = x[1].wrapping_add(keys[(n + 1) % 3]).wrapping_add(n as u32);
        }
    }
    x[0] as u64 | (x[1] as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use frit_abi::{Scalar, dtype};

    fn of(s: Scalar) -> Value {
        match s {
            Scalar::Float(f) => Float(f),
            other => Int(other.as_i128()),
        }
    }
    fn same(a: Value, b: Value) -> bool {
        match (a, b) {
            (Float(x), Float(y)) => x == y || x.is_nan() && y.is_nan(),
            _ => a == b,
        }
    }
    fn samples(d: DType) -> Vec<Scalar> {
        let ints = [0i128, 1, 2, 3, 5, 7, 31, 32, 63, 64, 127, 128, 255, 1 << 31, (1 << 63) - 1, 1 << 63];
        let floats = [0.0, 0.5, 1.0, 1.5, 2.5, 7.0, 1e-30, 1e30, 300.0, f64::INFINITY, f64::NAN];
        let mut all: Vec<Scalar> = match d.is_float() {
            true => floats.into_iter().flat_map(|f| [f, -f]).map(|f| Scalar::float(f, d)).collect(),
            false => ints.into_iter().flat_map(|i| [i, -i]).map(|i| Scalar::int(i, d)).collect(),
        };
        let mut seen = std::collections::HashSet::new();
        all.retain(|s| seen.insert(s.key()));
        all
    }

    #[test]
    fn two_statements_of_the_numeric_contract_agree() {
        for d in dtype::ALL {
            for op in Alu::ALL.into_iter().filter(|op| *op != Alu::Where) {
                let xs = samples(d);
                let one = [Scalar::zero(d)];
                let ys = if op.arity() > 1 { &xs[..] } else { &one };
                let zs = if op.arity() > 2 { &xs[..] } else { &one };
                for &x in &xs {
                    for &y in ys {
                        for &z in zs {
                            let args = &[x, y, z][..op.arity()];
                            let want = of(Scalar::alu(op, d, args));
                            let values: Vec<Value> = args.iter().map(|&s| of(s)).collect();
                            let got = apply(op, d, &values);
                            // the evaluator does not round: a fused operation is rounded to a double first, then here,
                            // which may be the other neighbour
                            let got = if d.is_float() && !op.is_comparison() { got.cast(d) } else { got };
                            let near = |digits: i32| {
                                (got.as_f64() - want.as_f64()).abs()
                                    <= want.as_f64().abs() * 2f64.powi(-digits)
                            };
                            let fused = op == Alu::MulAcc && d == DType::F32 && near(23);
                            // by two methods, each with a few roundings
                            let methods = matches!(op, Alu::Erf | Alu::Erfc) && d == DType::F64 && near(47);
                            let agree = same(got, want) || fused || methods;
                            assert!(agree, "{op:?} {d} {args:?}: {got:?}, {want:?}");
                        }
                    }
                }
            }
        }
    }
    #[test]
    fn casts_and_bits_agree_with_scalars() {
        for from in dtype::ALL {
            for s in samples(from) {
                let bits = s.to_bits(from);
                assert!(same(Value::from_bits(bits, from), of(s)), "{from} {s:?}");
                assert!(of(s).bits(from) == bits || of(s).as_f64().is_nan(), "{from} {s:?}");
                for to in dtype::ALL {
                    let (got, want) = (of(s).cast(to), of(s.cast(to)));
                    assert!(same(got, want), "{from} {s:?} to {to}: {got:?}, {want:?}");
                }
            }
        }
    }
    #[test]
    fn identities_agree_with_scalars() {
        for d in dtype::ALL {
            for op in Alu::ALL {
                assert_eq!(Value::identity(op, d), Scalar::identity(op, d).map(of), "{op:?} {d}");
            }
        }
    }
    #[test]
    fn hand_values() {
        let f = |op, d, a: &[i128]| apply(op, d, &a.iter().map(|&i| Int(i)).collect::<Vec<_>>());
        assert_eq!(f(Alu::Idiv, DType::I32, &[-7, 2]), Int(-4));
        assert_eq!(f(Alu::Mod, DType::I32, &[7, -2]), Int(-1));
        assert_eq!(f(Alu::Add, DType::I8, &[127, 1]), Int(-128));
        assert_eq!(f(Alu::Mul, DType::U64, &[1 << 63, 2]), Int(0));
        assert_eq!(f(Alu::Shr, DType::I32, &[-8, 40]), Int(-1));
        assert_eq!(f(Alu::Pow, DType::I32, &[3, 4]), Int(81));
        assert_eq!(f(Alu::Threefry, DType::U64, &[0, 0]), Int(0x99ba_4efe_6b20_0159));
        assert_eq!(Float(1e20).cast(DType::I32), Int(i32::MAX as i128));
        assert_eq!(Float(0.1).cast(DType::F32), Float(0.1f32 as f64));
    }
}
