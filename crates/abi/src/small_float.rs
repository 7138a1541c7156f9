//! Floats narrower than 32 bits, treated as one family: a layout and two conversions.

/// What the all-ones exponent means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Top {
    /// Infinities and NaNs, as IEEE.
    Ieee,
    /// Only the all-ones pattern is NaN; the rest are numbers (OCP e4m3).
    Finite,
    /// All numbers; the pattern of negative zero is the one NaN (fnuz).
    Fnuz,
}

/// A sign bit, `exp` exponent bits, `man` mantissa bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallFloat {
    /// Exponent bits.
    pub exp: u32,
    /// Mantissa bits.
    pub man: u32,
    top: Top,
}

impl SmallFloat {
    pub(crate) const fn ieee(exp: u32, man: u32) -> Self {
        SmallFloat { exp, man, top: Top::Ieee }
    }
    pub(crate) const fn finite(exp: u32, man: u32) -> Self {
        SmallFloat { exp, man, top: Top::Finite }
    }
    pub(crate) const fn fnuz(exp: u32, man: u32) -> Self {
        SmallFloat { exp, man, top: Top::Fnuz }
    }
    /// Exponent bias.
    pub const fn bias(self) -> i32 {
        let b = (1 << (self.exp - 1)) - 1;
        if matches!(self.top, Top::Fnuz) { b + 1 } else { b }
    }
    /// Whether the layout has infinities.
    pub const fn has_inf(self) -> bool {
        matches!(self.top, Top::Ieee)
    }
    /// Whether the layout is one of the `fnuz` kind.
    pub const fn is_fnuz(self) -> bool {
        matches!(self.top, Top::Fnuz)
    }
    const fn nan_bits(self) -> u32 {
        match self.top {
            Top::Ieee => (((1 << self.exp) - 1) << self.man) | (1 << (self.man - 1)),
            Top::Finite => (1 << (self.exp + self.man)) - 1,
            Top::Fnuz => 1 << (self.exp + self.man),
        }
    }
    /// The greatest finite magnitude, as bits.
    pub const fn max_bits(self) -> u32 {
        match self.top {
            Top::Ieee => (((1 << self.exp) - 1) << self.man) - 1,
            Top::Finite => (1 << (self.exp + self.man)) - 2,
            Top::Fnuz => (1 << (self.exp + self.man)) - 1,
        }
    }
    /// The value of a bit pattern; exact.
    pub fn to_f64(self, bits: u32) -> f64 {
        let sign = if bits >> (self.exp + self.man) & 1 == 1 { -1.0 } else { 1.0 };
        let (e, m) = (bits >> self.man & ((1 << self.exp) - 1), bits & ((1 << self.man) - 1));
        let ones = (1 << self.exp) - 1;
        match self.top {
            Top::Ieee if e == ones => return if m == 0 { sign * f64::INFINITY } else { f64::NAN },
            Top::Finite if e == ones && m == (1 << self.man) - 1 => return f64::NAN,
            Top::Fnuz if e == 0 && m == 0 && sign < 0.0 => return f64::NAN,
            _ => {}
        }
        let scale = |p: i32| f64::from_bits(((p + 1023) as u64) << 52);
        let man = self.man as i32;
        if e == 0 {
            sign * m as f64 * scale(1 - self.bias() - man)
        } else {
            sign * (m | 1 << self.man) as f64 * scale(e as i32 - self.bias() - man)
        }
    }
    /// The nearest bit pattern, ties to even; beyond the greatest finite value: infinity where there is one, else the
    /// greatest (`float8_e4m3`) or NaN (`fnuz`), as torch converts.
    pub fn from_f64(self, x: f64) -> u32 {
        let sign = (x.is_sign_negative() as u32) << (self.exp + self.man);
        if x.is_nan() {
            return self.nan_bits();
        }
        let overflow = match self.top {
            Top::Ieee => sign | ((1 << self.exp) - 1) << self.man,
            Top::Finite => sign | self.max_bits(),
            Top::Fnuz => self.nan_bits(),
        };
        if x.is_infinite() {
            return overflow;
        }
        let a = x.abs();
        let e = ((a.to_bits() >> 52) as i32 - 1023).max(1 - self.bias()); // exponent of the last place's binade
        let ulp = e - self.man as i32;
        // exact: the quotient fits in 53 bits unless it underflows to far below half an ulp
        let q = if ulp < -1000 { 0.0 } else { a * f64::from_bits(((1023 - ulp) as u64) << 52) }
            .round_ties_even() as u64;
        // a carry out of the mantissa moves into the exponent by itself
        let biased = (e + self.bias() - 1) as u64;
        let bits = ((biased << self.man) + q) as u32;
        match bits {
            0 if self.is_fnuz() => 0,
            b if b > self.max_bits() => overflow,
            b => sign | b,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::DType;

    #[test]
    fn every_pattern_survives_a_round_trip() {
        for d in crate::dtype::ALL.into_iter().filter(|d| d.is_small_float()) {
            let s = d.small_float().unwrap();
            for bits in 0..1u32 << d.bits() {
                let x = s.to_f64(bits);
                if x.is_nan() {
                    assert!(s.to_f64(s.from_f64(x)).is_nan());
                } else {
                    assert_eq!(s.from_f64(x), bits, "{d} {bits:#x} {x}");
                }
            }
        }
    }
    #[test]
    fn known_values_of_half_and_fp8() {
        let h = DType::F16.small_float().unwrap();
        assert_eq!(h.from_f64(1.0), 0x3c00);
        assert_eq!(h.from_f64(65504.0), 0x7bff);
        assert_eq!(h.from_f64(65520.0), 0x7c00);
        assert_eq!(h.from_f64(65519.99), 0x7bff);
        assert_eq!(h.from_f64(-2f64.powi(-25)), 0x8000); // ties to even zero
        assert_eq!(h.from_f64(2f64.powi(-24)), 1);
        let e = DType::F8E4M3.small_float().unwrap();
        assert_eq!(e.to_f64(e.max_bits()), 448.0);
        assert_eq!(DType::F8E5M2.small_float().unwrap().to_f64(0x7b), 57344.0);
        assert_eq!(DType::F8E4M3Fnuz.small_float().unwrap().to_f64(0x7f), 240.0);
        assert_eq!(DType::BF16.small_float().unwrap().from_f64(1.0), 0x3f80);
    }
}
