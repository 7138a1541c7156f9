//! Numbers of a transform: what its length is divided by, and roots of one. No tensor is here.

use std::f64::consts::TAU;

/// The greatest length that is one product with a matrix, if it can be divided.
const RADIX: usize = 32;

/// The greatest divisor up to the radix, else the least prime; n itself where nothing divides it.
pub fn radix(n: usize) -> usize {
    if let Some(r) = (2..=RADIX.min(n)).rev().find(|&r| n.is_multiple_of(r)) {
        return r;
    }
    (RADIX + 1..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)).unwrap_or(n)
}

/// Sine and cosine of `a/b` of a turn, exact at quarters.
pub fn root(a: u128, b: u128) -> (f64, f64) {
    let eighths = 8 * (a % b); // of b
    let (octant, rest) = (eighths / b, eighths % b);
    // within an eighth of a turn of an axis
    let (near, turned) = if octant % 2 == 1 { (b - rest, true) } else { (rest, false) };
    let (s, c) = (TAU / 8.0 * near as f64 / b as f64).sin_cos();
    let (s, c) = if turned { (c, s) } else { (s, c) };
    match octant / 2 {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact_at_quarters() {
        assert_eq!([0, 1, 2, 3].map(|a| root(a, 4)), [(0.0, 1.0), (1.0, -0.0), (-0.0, -1.0), (-1.0, 0.0)]);
        let (s, c) = root(5, 12);
        assert!((s - 0.5).abs() < 1e-15 && (c + 0.75f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn lengths_are_divided_by_their_factors() {
        assert_eq!([1024, 96, 37 * 41, 62, 997].map(radix), [32, 32, 37, 31, 997]);
    }
}
