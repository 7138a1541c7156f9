//! A float type as its decompositions see it: its bits, its constants, polynomials.

use frit_uop::{Alu, DType, UOp};

/// float32 or float64.
#[derive(Clone, Copy)]
pub struct Real {
    /// The type.
    pub dtype: DType,
    /// The signed integer of the same width.
    pub int: DType,
    /// The unsigned integer of the same width.
    pub uint: DType,
    /// Stored mantissa bits.
    pub man: i64,
    /// Exponent bias.
    pub bias: i64,
}

impl Real {
    /// The type of `x`, if it is one of the two.
    pub fn of(x: &UOp) -> Option<Real> {
        let (int, uint, man, bias) = match x.dtype {
            DType::F32 => (DType::I32, DType::U32, 23, 127),
            DType::F64 => (DType::I64, DType::U64, 52, 1023),
            _ => return None,
        };
        Some(Real { dtype: x.dtype, int, uint, man, bias })
    }
    /// One value for each of the two types.
    pub fn pick<T>(self, float32: T, float64: T) -> T {
        if self.dtype == DType::F32 { float32 } else { float64 }
    }
    /// A constant.
    pub fn c(self, v: f64) -> UOp {
        UOp::float(v, self.dtype)
    }
    /// An integer constant of the same width.
    pub fn i(self, v: i64) -> UOp {
        UOp::int(v, self.int)
    }
    /// `2^p`.
    pub fn exp2(self, p: i64) -> UOp {
        self.c(f64::from_bits(((p + 1023) as u64) << 52))
    }
    /// The bits of a float as an integer.
    pub fn bits(self, x: &UOp) -> UOp {
        x.bitcast(self.int)
    }
    /// The float with these bits.
    pub fn float(self, b: &UOp) -> UOp {
        b.bitcast(self.dtype)
    }
    /// The magnitude.
    pub fn abs(self, x: &UOp) -> UOp {
        self.float(&self.bits(x).and_(&self.i(self.int_max())))
    }
    /// The magnitude, negative.
    pub fn minus_abs(self, x: &UOp) -> UOp {
        self.float(&self.bits(x).or_(&self.i(-1 - self.int_max())))
    }
    /// A magnitude with the sign of x (the sign bit, so of zeros too).
    pub fn with_sign_of(self, magnitude: &UOp, x: &UOp) -> UOp {
        let sign = self.bits(x).and_(&self.i(-1 - self.int_max()));
        self.float(&self.bits(magnitude).or_(&sign))
    }
    /// The greatest signed integer of this width: all bits but the sign.
    pub fn int_max(self) -> i64 {
        self.pick(i32::MAX as i64, i64::MAX)
    }
    /// `x z p(z)`, z = x^2, with what rounding z and x z lost brought in: what an odd function has beyond x.
    pub fn odd_tail(self, x: &UOp, c: &[f64]) -> (UOp, UOp) {
        let Pair(z, z_low) = Pair::product(x, x);
        let Pair(cube, cube_low) = Pair::product(x, &z);
        let p = self.poly(&z, c);
        let low = fma(x, &z_low, &cube_low);
        (fma(&cube, &p, &(low * &p)), z)
    }
    /// `1 / x` to a unit in the last place, for x far from the ends of its range.
    pub fn reciprocal(self, x: &UOp) -> UOp {
        x.un(Alu::RecipNear)
    }
    /// `c[0] + c[1] x + c[2] x^2 …`.
    pub fn poly(self, x: &UOp, c: &[f64]) -> UOp {
        let last = self.c(c[c.len() - 1]);
        c[..c.len() - 1].iter().rev().fold(last, |p, &c| fma(&p, x, &self.c(c)))
    }
}

/// `a * b + c`, rounded once.
pub fn fma(a: &UOp, b: &UOp, c: &UOp) -> UOp {
    UOp::alu(Alu::MulAcc, &[a, b, c])
}

/// A sum of two floats, the second much smaller: twice the precision.
#[derive(Clone)]
pub struct Pair(pub UOp, pub UOp);

impl Pair {
    /// `a + b` exactly, for `|a| >= |b|` or `a = 0`.
    pub fn sum(a: &UOp, b: &UOp) -> Pair {
        let s = a + b;
        let low = (a - &s) + b;
        Pair(s, low)
    }
    /// `a * b` exactly.
    pub fn product(a: &UOp, b: &UOp) -> Pair {
        let p = a * b;
        let low = fma(a, b, &p.un(Alu::Neg));
        Pair(p, low)
    }
    /// The product of two pairs.
    pub fn times(&self, o: &Pair) -> Pair {
        let Pair(h, l) = Pair::product(&self.0, &o.0);
        Pair(h, fma(&self.0, &o.1, &fma(&self.1, &o.0, &l)))
    }
}
