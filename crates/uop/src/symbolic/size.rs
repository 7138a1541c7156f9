//! Sizes: index expressions over variables that may be bound.
//!
//! ```text
//! 10 - T=3 + T=3        -> 10
//! (T=3 + 1)*4           -> T=3*4 + 4
//! factors(T=3*4 + 4)    -> 4, [T=3 + 1]
//! ```
//!
//! Equal sizes are equal nodes, and what their variables are bound to has no part in the form: the same program with
//! other values is the same graph, so one plan serves all of them.

use super::identity::trivial;
use super::simplify;
use super::sum::{Sum, gcd, order};
use crate::node::UOp;
use crate::op::Op;
use frit_abi::{Alu, DType};
use rustc_hash::FxHashMap;

/// The variables that are bound in an expression, by variable; `None` where one has two values.
pub fn bound(d: &UOp) -> Option<FxHashMap<UOp, UOp>> {
    let mut found: FxHashMap<UOp, UOp> = FxHashMap::default();
    for n in d.toposort().into_iter().filter(|n| n.op == Op::Bind) {
        if let Some(old) = found.insert(n.variable().clone(), n.clone())
            && old != n
        {
            return None;
        }
    }
    Some(found)
}

/// An expression with its variables free.
pub fn free(d: &UOp) -> UOp {
    let map =
        d.toposort().into_iter().filter(|n| n.op == Op::Bind).map(|n| (n.clone(), n.variable().clone()));
    d.substitute(&map.collect())
}

/// The canonical form of a size, or of a condition on sizes. An expression that binds a variable to two values has none
/// and stays as it is; whoever runs it says so.
pub fn canonical(d: &UOp) -> UOp {
    if d.src.is_empty() || d.op == Op::Bind {
        return d.clone();
    }
    match bound(d) {
        Some(bound) => simplify(&free(d)).substitute(&bound),
        None => d.clone(),
    }
}

/// A product as its constant factor and its other factors, in a fixed order.
pub fn factors(d: &UOp) -> (i64, Vec<UOp>) {
    let (mut c, mut rest, mut stack) = (1i64, vec![], vec![d.clone()]);
    while let Some(n) = stack.pop() {
        if let Some(v) = n.as_int() {
            c = c.saturating_mul(v);
        } else if n.op == Op::Mul {
            stack.extend(n.src.iter().cloned());
        } else if n.op == Op::Add && n.dtype == DType::Index {
            let sum = Sum::of(&n);
            let common = sum.terms.iter().fold(sum.constant.saturating_abs(), |g, t| gcd(g, t.1));
            match common {
                0 | 1 => rest.push(canonical(&n)),
                k => {
                    c = c.saturating_mul(k);
                    rest.push(canonical(&sum.map(|v| v / k).build()));
                }
            }
        } else {
            rest.push(n);
        }
    }
    rest.sort_by(|a, b| order(&free(a), &free(b)));
    (c, rest)
}

/// Whether two sizes are the same for every value of their variables, as far as that can be seen.
pub fn equal(a: &UOp, b: &UOp) -> bool {
    a == b
        || (a.as_int().is_none() || b.as_int().is_none())
            && (a.size_sub(b).as_int() == Some(0) || factors(a) == factors(b))
}

impl UOp {
    /// In canonical form, which what needs no node has.
    fn sized(&self, op: Alu, o: &UOp) -> UOp {
        trivial(op, self, o).unwrap_or_else(|| canonical(&self.bin(op, o)))
    }
    /// The sum of two sizes.
    pub fn size_add(&self, o: &UOp) -> UOp {
        self.sized(Alu::Add, o)
    }
    /// The difference of two sizes.
    pub fn size_sub(&self, o: &UOp) -> UOp {
        if self == o { UOp::index(0) } else { self.sized(Alu::Sub, o) }
    }
    /// The product of two sizes.
    pub fn size_mul(&self, o: &UOp) -> UOp {
        self.sized(Alu::Mul, o)
    }
    /// The lesser of two sizes.
    pub fn size_min(&self, o: &UOp) -> UOp {
        if self.bounds.1 <= o.bounds.0 || self == o {
            return self.clone();
        }
        if o.bounds.1 <= self.bounds.0 { o.clone() } else { self.sized(Alu::Min, o) }
    }
    /// The greater of two sizes.
    pub fn size_max(&self, o: &UOp) -> UOp {
        if self.bounds.0 >= o.bounds.1 || self == o {
            return self.clone();
        }
        if o.bounds.0 >= self.bounds.1 { o.clone() } else { self.sized(Alu::Max, o) }
    }
    /// The quotient of two sizes, rounded down; the divisor is positive.
    pub fn size_div(&self, o: &UOp) -> UOp {
        self.sized(Alu::Idiv, o)
    }
    /// What is left of that.
    pub fn size_mod(&self, o: &UOp) -> UOp {
        self.sized(Alu::Mod, o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_size_does_not_depend_on_the_values_of_its_variables() {
        let (t, s) = (UOp::variable("T", 0, 9), UOp::variable("S", 1, 7));
        let forms = |a: i64, b: i64| {
            let (t, s) = (t.bind(a), s.bind(b));
            let sum = t.size_add(&s).size_add(&UOp::index(3));
            [sum.clone(), s.size_mul(&t).size_mul(&sum), sum.size_min(&t.size_mul(&s)), s.size_sub(&t)]
        };
        for (a, b) in [(0, 1), (3, 3), (9, 7), (5, 2)] {
            let (one, other) = (forms(a, b), forms(1, 4));
            assert!(one.iter().zip(&other).all(|(x, y)| free(x) == free(y)));
        }
    }

    #[test]
    fn equal_sizes_are_equal_nodes() {
        let (t, ten) = (UOp::variable("T", 0, 9).bind(4), UOp::index(10));
        assert_eq!(ten.size_sub(&t).size_add(&t), ten);
        assert_eq!(t.size_add(&ten).size_sub(&ten), t);
        assert_eq!(t.size_min(&ten), t);
        assert_eq!(t.size_add(&UOp::index(1)), UOp::index(1).size_add(&t));
        assert_eq!(
            factors(&t.size_add(&UOp::index(1)).size_mul(&UOp::index(4))),
            (4, vec![t.size_add(&UOp::index(1))])
        );
        assert!(!equal(&t, &ten) && equal(&(&ten - &t), &(&t * -1 + 10)));
    }

    #[test]
    fn an_expression_with_two_values_of_one_variable_keeps_both() {
        let t = UOp::variable("T", 0, 9);
        let two = t.bind(3).size_sub(&t.bind(4));
        assert_eq!(two.toposort().iter().filter(|n| n.op == Op::Bind).count(), 2);
    }
}
