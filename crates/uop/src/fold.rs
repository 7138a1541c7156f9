//! Folds: several values that a reduce carries together, and how partial results of them meet.
//!
//! A `Reduce` whose arg is a fold takes as many values as it carries: each element of its ranges is a partial result.
//!
//! | merge | carried | an element | what it comes to |
//! |---|---|---|---|
//! | `Select` | m, v… | x, u… | the best of x; what u combine to where x is that |
//! | `Rescale` | m, s… | x, u… | the greatest x; the sums of exp(x - m) u |
//! | `Moments` | n, mean, s | 1, x, 0 | how many; their mean; the sum of squares about it |
//!
//! Merging is associative up to rounding and takes any number of parts at once, so loops, copies, lanes, warps and blocks all
//! go through it. Constants fold: an element costs no more than a step written for it would.

use crate::node::UOp;
use frit_abi::{Alu, DType, Scalar};

/// How partial results meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Merge {
    /// What belongs to the best: exact.
    Select {
        /// What is best: `Max` or `Min`.
        best: Alu,
        /// How values of equals are combined.
        op: Alu,
        /// Whether a NaN is equal to itself.
        nan: bool,
    },
    /// Sums of exponentials, relative to the greatest so far. Where the greatest is infinite it counts as equal to itself.
    Rescale,
    /// Mean and squares about it, without cancellation.
    Moments,
}

/// One of the values that a reduce carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fold {
    /// How partial results meet.
    pub merge: Merge,
    /// Which value is the node's.
    pub value: u8,
}

impl Merge {
    /// The i-th value of no element.
    pub fn identity(self, i: usize, dtype: DType) -> Option<Scalar> {
        match (self, i) {
            (Merge::Select { best, .. }, 0) => Scalar::identity(best, dtype),
            (Merge::Select { op, .. }, _) => Scalar::identity(op, dtype),
            (Merge::Rescale, 0) => Scalar::identity(Alu::Max, dtype),
            _ => Scalar::identity(Alu::Add, dtype),
        }
    }

    /// What partial results come to.
    pub fn merge(self, parts: &[Vec<UOp>]) -> Vec<UOp> {
        match self {
            Merge::Select { best, op, nan } => select(best, op, nan, parts),
            Merge::Rescale => rescale(parts),
            Merge::Moments => tree(parts.to_vec(), moments),
        }
    }
}

/// Pairs merged, and pairs of those.
fn tree(mut parts: Vec<Vec<UOp>>, pair: fn(&[UOp], &[UOp]) -> Vec<UOp>) -> Vec<UOp> {
    while parts.len() > 1 {
        let next = |p: &[Vec<UOp>]| if let [a, b] = p { pair(a, b) } else { p[0].clone() };
        parts = parts.chunks(2).map(next).collect();
    }
    parts.pop().unwrap_or_default()
}

/// Values combined pairwise, in a tree: the shortest chain. None of none.
pub fn combined(alu: Alu, values: impl IntoIterator<Item = UOp>) -> Option<UOp> {
    let mut values: Vec<UOp> = values.into_iter().collect();
    while values.len() > 1 {
        let next = |p: &[UOp]| if let [a, b] = p { a.bin(alu, b) } else { p[0].clone() };
        values = values.chunks(2).map(next).collect();
    }
    values.pop()
}

/// The first value combined; every other one combined over what `of` makes of it, given its own first and that of all.
fn by_first(alus: [Alu; 2], parts: &[Vec<UOp>], of: impl Fn(&UOp, &UOp, &UOp) -> UOp) -> Vec<UOp> {
    let firsts = parts.iter().filter_map(|p| p.first().cloned());
    let Some(best) = combined(alus[0], firsts) else { return vec![] };
    let count = parts.iter().map(Vec::len).min().unwrap_or(0);
    let rest = |i: usize| combined(alus[1], parts.iter().map(|p| of(&p[i], &p[0], &best)));
    let rest: Vec<UOp> = (1..count).filter_map(rest).collect();
    std::iter::once(best).chain(rest).collect()
}

fn select(best: Alu, op: Alu, nan: bool, parts: &[Vec<UOp>]) -> Vec<UOp> {
    by_first([best, op], parts, |v, m, all| {
        let equal = m.eq_(all);
        let equal = if nan { equal.or_(&m.ne_(m)) } else { equal };
        let none = Scalar::identity(op, v.dtype).unwrap_or(Scalar::Int(0));
        equal.select(v, &UOp::constant(none, v.dtype))
    })
}

fn rescale(parts: &[Vec<UOp>]) -> Vec<UOp> {
    by_first([Alu::Max, Alu::Add], parts, |s, m, all| {
        // infinite less infinite is no number
        let one = UOp::float(1.0, m.dtype);
        let factor = m.eq_(all).select(&one, &m.bin(Alu::Sub, all).un(Alu::Exp));
        let is_one = s.as_scalar().is_some_and(|v| v.as_f64() == 1.0);
        let factor = factor.cast(s.dtype);
        if is_one { factor } else { s.bin(Alu::Mul, &factor) }
    })
}

/// Chan, Golub and LeVeque's update of two sets of numbers.
fn moments(a: &[UOp], b: &[UOp]) -> Vec<UOp> {
    let ([n, mean, s], [m, other, t]) = (a, b) else { return vec![] };
    let all = n.bin(Alu::Add, m);
    let zero = UOp::float(0.0, all.dtype);
    // of nothing there is no share
    let share = all.eq_(&zero).select(&zero, &m.bin(Alu::Fdiv, &all));
    let distance = other.bin(Alu::Sub, mean);
    // in this order: the square of a large number from nothing would be infinite, and that times 0 no number
    let squares = distance.bin(Alu::Mul, &distance.bin(Alu::Mul, &n.bin(Alu::Mul, &share)));
    let mean = mean.bin(Alu::Add, &distance.bin(Alu::Mul, &share));
    vec![all, mean, s.bin(Alu::Add, t).bin(Alu::Add, &squares)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolic::simplify;

    const INF: f64 = f64::INFINITY;
    const MAX: Merge = Merge::Select { best: Alu::Max, op: Alu::Min, nan: true };

    fn f(v: f64) -> UOp {
        UOp::float(v, DType::F64)
    }

    /// An element as a partial result.
    fn element(merge: Merge, x: f64, i: i64) -> Vec<UOp> {
        match merge {
            Merge::Select { .. } => vec![f(x), UOp::int(i, DType::I32)],
            Merge::Rescale => vec![f(x), f(1.0)],
            Merge::Moments => vec![f(1.0), f(x), f(0.0)],
        }
    }

    fn nothing(merge: Merge) -> Vec<UOp> {
        let of = |(i, x): (usize, &UOp)| UOp::constant(merge.identity(i, x.dtype).unwrap(), x.dtype);
        element(merge, 0.0, 0).iter().enumerate().map(of).collect()
    }

    fn numbers(parts: &[Vec<UOp>], merge: Merge) -> Vec<f64> {
        let all = merge.merge(parts);
        all.iter().map(|x| simplify(x).as_scalar().unwrap().as_f64()).collect()
    }

    /// What is merged in other groups comes to the same, with nothing among it too.
    #[test]
    fn how_parts_are_grouped_does_not_matter() {
        let rows: [&[f64]; 7] = [
            &[1.0, 3.0, -2.0, 3.0, 0.5],
            &[7.0],
            &[-INF, 2.0, -INF],
            &[1e150, 3.0, 4.0],
            &[-INF, -INF],
            &[1.0, INF, 2.0, INF],
            &[1.0, f64::NAN, 3.0, f64::NAN],
        ];
        for (merge, row) in [MAX, Merge::Rescale, Merge::Moments].iter().flat_map(|m| rows.map(|r| (*m, r))) {
            let parts: Vec<Vec<UOp>> =
                row.iter().enumerate().map(|(i, x)| element(merge, *x, i as i64)).collect();
            let want = numbers(&parts, merge);
            let one_by_one = parts.iter().fold(nothing(merge), |a, b| merge.merge(&[a, b.clone()]));
            let (left, right) = parts.split_at(row.len() / 2);
            let halves = [merge.merge(left), nothing(merge), merge.merge(right)];
            let halves: Vec<Vec<UOp>> = halves.into_iter().filter(|p| !p.is_empty()).collect();
            for got in [numbers(&[one_by_one], merge), numbers(&halves, merge)] {
                let near = |(a, b): (&f64, &f64)| {
                    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-14 * b.abs()
                };
                assert!(got.iter().zip(&want).all(near), "{merge:?} of {row:?}: {got:?}, not {want:?}");
            }
        }
    }

    #[test]
    fn they_come_to_what_the_table_says() {
        let of = |merge: Merge, row: &[f64]| {
            let parts: Vec<Vec<UOp>> =
                row.iter().enumerate().map(|(i, x)| element(merge, *x, i as i64)).collect();
            numbers(&parts, merge)
        };
        assert_eq!(of(MAX, &[1.0, 3.0, 3.0, 2.0]), [3.0, 1.0]);
        let row = of(MAX, &[1.0, f64::NAN, 3.0, f64::NAN]);
        assert!(row[0].is_nan() && row[1] == 1.0);
        let [m, s] = of(Merge::Rescale, &[0.0, 2.0f64.ln(), 3.0f64.ln()])[..] else { panic!() };
        assert!(m == 3.0f64.ln() && (s - 2.0).abs() < 1e-15);
        assert_eq!(of(Merge::Rescale, &[-INF, -INF, -INF]), [-INF, 3.0]);
        assert_eq!(of(Merge::Moments, &[1.0, 2.0, 3.0, 6.0]), [4.0, 3.0, 14.0]);
    }
}
