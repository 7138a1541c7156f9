//! How far a result may be from torch's.
//!
//! Torch computes in float32 and the plain loops in float64 from the same float32 inputs, so what differs is torch's
//! rounding. One rounding is 6e-8 of the value. A composed function makes a few dozen of them, hence `1e-5` of the
//! result. A reduction of `n` terms makes `n` roundings of partial sums as large as the terms; their signs are
//! random, so they add up like `sqrt(n)`, and cancellation may leave a result far smaller than they are, hence
//! an absolute part that grows with the operands. Integers, truth values and moved elements must be equal.

use crate::goldens::{Case, Tensor};
use crate::{Array, BINARY, UNARY};

/// Ops whose results are elements of their operands, or integers: equal, not near.
const MOVEMENT: &[&str] = &[
    "reshape",
    "permute",
    "expand",
    "flip",
    "pad",
    "shrink",
    "slice",
    "cat",
    "stack",
    "repeat",
    "roll",
    "tril",
    "triu",
    "one_hot",
    "gather",
    "index_select",
    "embedding",
    "where",
    "max",
    "min",
    "sort",
    "cummax",
    "cummin",
    "cast",
    "cast_via",
];

/// How far from torch a result may be: a part of the value and an absolute part.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Part of the value.
    pub relative: f64,
    /// Whatever the value.
    pub absolute: f64,
}

impl Tolerance {
    /// None at all.
    pub const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    /// For an output of a case.
    pub fn of_output(case: &Case, want: &Tensor) -> Tolerance {
        let exact = MOVEMENT.contains(&case.op.as_str()) || case.flag("exact");
        let Some(precision) = want.kind.precision().filter(|_| !exact) else { return Tolerance::EXACT };
        // torch rounds a 16-bit result once more, and so do we
        let rounding = if precision < 24 { 2f64.powi(1 - precision) } else { 0.0 };
        let of = Tolerance::of(case, terms(case, want.array.numel()));
        Tolerance { relative: of.relative + rounding, ..of }
    }

    /// For a gradient of a case: one more composition, through a function already rounded.
    pub fn of_gradient(case: &Case, want: &Tensor) -> Tolerance {
        let outputs: usize = case.outputs.iter().map(|o| o.array.numel()).sum();
        let n = terms(case, outputs).max(outputs as f64 / want.array.numel().max(1) as f64);
        Tolerance::of(case, n).times(2.0)
    }

    /// So many times as much.
    pub fn times(self, n: f64) -> Tolerance {
        Tolerance { relative: n * self.relative, absolute: n * self.absolute }
    }

    /// For values of `case` made from `n` terms each.
    fn of(case: &Case, n: f64) -> Tolerance {
        let elementwise =
            UNARY.iter().any(|(op, _)| *op == case.op) || BINARY.iter().any(|(op, _)| *op == case.op);
        let finite = case.inputs.iter().flat_map(|t| &t.array.data).filter(|x| x.is_finite());
        let largest = if elementwise { 1.0 } else { finite.fold(1.0, |m: f64, x| m.max(x.abs())) };
        Tolerance { relative: 1e-5 * n.sqrt(), absolute: 1e-6 * n.sqrt() * largest }
    }

    /// Whether `got` is near enough to `want`; NaN is near NaN.
    pub fn allows(&self, got: f64, want: f64) -> bool {
        got == want || self.allows_rounded(f64::from(got as f32), want)
    }

    /// Past the range of float32 torch has infinity, and below its normal numbers it loses digits.
    fn allows_rounded(&self, got: f64, want: f64) -> bool {
        got == want
            || (got.is_nan() && want.is_nan())
            || (want.is_finite() && (got - want).abs() <= self.absolute + self.relative * want.abs())
    }

    /// The first element that is too far off, in words.
    pub fn first_difference(&self, got: &Array, want: &Array) -> Option<String> {
        if got.shape != want.shape {
            return Some(format!("shape {:?}, torch has {:?}", got.shape, want.shape));
        }
        let at = (0..got.numel()).find(|&i| !self.allows(got.data[i], want.data[i]))?;
        Some(format!("element {at} of {:?} is {}, torch has {}", got.shape, got.data[at], want.data[at]))
    }
}

/// Terms that go into one of `out` values: at most all inputs, shared out among them.
fn terms(case: &Case, out: usize) -> f64 {
    let all: usize = case.inputs.iter().map(|t| t.array.numel()).sum();
    (all as f64 / out.max(1) as f64).max(1.0)
}
