//! Sums in canonical form: `k1*t1 + k2*t2 + … + c`, each term once, in a fixed order, the constant last.
//!
//! Integer arithmetic wraps, and wrapping integers are a ring, so collecting and reordering terms is right for every
//! integer type. What needs true integers (division, comparison) asks [`Sum::exact`].

use crate::arg::Arg;
use crate::node::UOp;
use crate::op::Op;
use frit_abi::{Alu, DType, Scalar};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// A fixed order of nodes by structure: constants last, then by the ranges they depend on (outer loops first), by op,
/// by name, by structural hash. The same in every process.
pub fn order(a: &UOp, b: &UOp) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    (a.op == Op::Const)
        .cmp(&(b.op == Op::Const))
        .then_with(|| a.ranges.cmp(&b.ranges))
        .then_with(|| a.op.cmp(&b.op))
        .then_with(|| match (&a.arg, &b.arg) {
            (Arg::Var { name: x, .. }, Arg::Var { name: y, .. }) => x.cmp(y),
            _ => Ordering::Equal,
        })
        .then_with(|| a.structural_hash().cmp(&b.structural_hash()))
}

/// `t` and `k` of a term `t*k`.
#[inline]
pub fn split_term(x: &UOp) -> (&UOp, i64) {
    if x.op == Op::Mul
        && let Some(k) = coefficient(x.rhs())
    {
        return (x.lhs(), k);
    }
    (x, 1)
}

/// An integer constant modulo 2^64.
fn coefficient(x: &UOp) -> Option<i64> {
    match &x.arg {
        Arg::Scalar(s) if x.op == Op::Const && x.dtype.is_int() => Some(s.as_i128() as i64),
        _ => None,
    }
}

/// `k` as a constant of type `dtype` has it.
fn wrapped(k: i64, dtype: DType) -> i64 {
    Scalar::int(k as i128, dtype).as_i128() as i64
}

/// Whether the value of this `Add`, `Sub`, `Mul` or `Neg` is what true integers would give. `Index` values never
/// overflow: shapes that would are rejected before.
pub fn no_wrap(n: &UOp) -> bool {
    let Some((lo, hi)) = n.dtype.int_range() else { return false };
    if n.dtype == DType::Index {
        return true;
    }
    let x = n.src[0].bounds;
    let y = n.src.get(1).map_or((0, 0), |s| s.bounds);
    let found = match n.op {
        Op::Add => (x.0 + y.0, x.1 + y.1),
        Op::Sub => (x.0 - y.1, x.1 - y.0),
        Op::Neg => (-x.1, -x.0),
        Op::Mul => {
            let c = [(x.0, y.0), (x.0, y.1), (x.1, y.0), (x.1, y.1)].map(|(a, b)| a.saturating_mul(b));
            (c.into_iter().min().unwrap_or(lo), c.into_iter().max().unwrap_or(hi))
        }
        _ => return false,
    };
    lo <= found.0 && found.1 <= hi
}

/// A sum taken apart.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The type of the sum.
    pub dtype: DType,
    /// Terms and their coefficients, in order, none zero.
    pub terms: SmallVec<[(UOp, i64); 8]>,
    /// The constant.
    pub constant: i64,
    /// No operation in it can wrap.
    pub exact: bool,
}

impl Sum {
    /// A constant.
    pub fn constant(c: i64, dtype: DType) -> Sum {
        Sum { dtype, terms: SmallVec::new(), constant: c, exact: true }
    }
    /// Take `x` apart.
    pub fn of(x: &UOp) -> Sum {
        let mut s = Sum::constant(0, x.dtype);
        s.add_scaled(x, 1);
        s.normalise();
        s
    }
    /// `x - y`, which is exact if both are and the values are indices.
    pub fn difference(x: &UOp, y: &UOp) -> Sum {
        let mut s = Sum::constant(0, x.dtype);
        s.add_scaled(x, 1);
        s.add_scaled(y, -1);
        s.normalise();
        s
    }
    fn add_scaled(&mut self, x: &UOp, scale: i64) {
        // chains lean to the left: follow the spine without recursion, branch only on right sides that are sums
        let mut todo: SmallVec<[(&UOp, i64); 8]> = SmallVec::new();
        todo.push((x, scale));
        while let Some((x, k)) = todo.pop() {
            match x.op {
                Op::Add => {
                    self.exact &= no_wrap(x);
                    todo.push((x.rhs(), k));
                    todo.push((x.lhs(), k));
                }
                Op::Sub if x.dtype == DType::Index => {
                    self.exact &= no_wrap(x);
                    todo.push((x.rhs(), k.wrapping_neg()));
                    todo.push((x.lhs(), k));
                }
                Op::Neg if x.dtype == DType::Index => {
                    self.exact &= no_wrap(x);
                    todo.push((x.input(), k.wrapping_neg()));
                }
                Op::Const if x.dtype.is_int() => {
                    let c = coefficient(x).unwrap_or(0);
                    let p = c.wrapping_mul(k);
                    self.exact &= x.as_int().is_some()
                        && c.checked_mul(k).is_some()
                        && self.constant.checked_add(p).is_some();
                    self.constant = self.constant.wrapping_add(p);
                }
                Op::Mul => match coefficient(x.rhs()) {
                    Some(c) => {
                        self.exact &= no_wrap(x) && x.rhs().as_int().is_some() && c.checked_mul(k).is_some();
                        todo.push((x.lhs(), c.wrapping_mul(k)));
                    }
                    None => self.push(x, k),
                },
                _ => self.push(x, k),
            }
        }
    }
    /// Add a term.
    pub fn push(&mut self, t: &UOp, k: i64) {
        match self.terms.iter_mut().find(|e| e.0 == *t) {
            Some(e) => {
                self.exact &= e.1.checked_add(k).is_some();
                e.1 = e.1.wrapping_add(k);
            }
            None => self.terms.push((t.clone(), k)),
        }
    }
    /// Add another sum, scaled.
    pub fn add(&mut self, o: &Sum, scale: i64) {
        self.exact &= o.exact;
        for (t, k) in &o.terms {
            self.exact &= k.checked_mul(scale).is_some();
            self.push(t, k.wrapping_mul(scale));
        }
        self.exact &= o.constant.checked_mul(scale).and_then(|c| c.checked_add(self.constant)).is_some();
        self.constant = self.constant.wrapping_add(o.constant.wrapping_mul(scale));
        self.normalise();
    }
    /// Drop zeros, sort; bring coefficients into the type unless they are true integers.
    pub fn normalise(&mut self) {
        if !self.exact {
            self.constant = wrapped(self.constant, self.dtype);
            for e in &mut self.terms {
                e.1 = wrapped(e.1, self.dtype);
            }
        }
        self.terms.retain(|e| e.1 != 0);
        self.terms.sort_by(|a, b| order(&a.0, &b.0));
    }
    /// Least and greatest value, in true integers.
    pub fn bounds(&self) -> (i128, i128) {
        self.terms.iter().fold((self.constant as i128, self.constant as i128), |(lo, hi), (t, k)| {
            let (a, b) = (t.bounds.0.saturating_mul(*k as i128), t.bounds.1.saturating_mul(*k as i128));
            (lo.saturating_add(a.min(b)), hi.saturating_add(a.max(b)))
        })
    }
    /// Whether every value it takes is one of its type.
    pub fn fits(&self) -> bool {
        let (lo, hi) = self.bounds();
        self.dtype == DType::Index || self.dtype.int_range().is_some_and(|(a, b)| a <= lo && hi <= b)
    }
    /// The greatest common divisor of the coefficients; 0 for none.
    pub fn gcd(&self) -> i64 {
        self.terms.iter().fold(0, |g, e| gcd(g, e.1))
    }
    /// Split by a test on the coefficient: terms for which it holds, and the rest with the constant.
    pub fn partition(&self, f: impl Fn(i64) -> bool) -> (Sum, Sum) {
        let (mut a, mut b) = (Sum::constant(0, self.dtype), Sum::constant(self.constant, self.dtype));
        for (t, k) in &self.terms {
            if f(*k) { &mut a } else { &mut b }.terms.push((t.clone(), *k));
        }
        (a, b)
    }
    /// Every coefficient and the constant through `f`.
    pub fn map(mut self, f: impl Fn(i64) -> i64) -> Sum {
        for e in &mut self.terms {
            e.1 = f(e.1);
        }
        self.constant = f(self.constant);
        self.normalise();
        self
    }
    /// The node.
    pub fn build(&self) -> UOp {
        let konst = |c: i64| UOp::int(c, self.dtype);
        let mut out: Option<UOp> = None;
        for (t, k) in &self.terms {
            let t = if *k == 1 { t.clone() } else { t.bin(Alu::Mul, &konst(*k)) };
            out = Some(match out {
                None => t,
                Some(s) => s.bin(Alu::Add, &t),
            });
        }
        match out {
            None => konst(self.constant),
            Some(s) if self.constant == 0 => s,
            Some(s) => s.bin(Alu::Add, &konst(self.constant)),
        }
    }
    /// An upper bound of the sum in terms of symbolic sizes: every range in a term that grows with it replaced by its
    /// extent less one. `None` where no size is symbolic.
    fn symbolic_max(&self) -> Option<Sum> {
        let is_symbolic = |t: &UOp| match t.op {
            Op::Range => t.extent().op != Op::Const,
            _ => t.op == Op::Mul,
        };
        if !self.terms.iter().any(|(t, k)| *k > 0 && is_symbolic(t)) {
            return None;
        }
        let mut s = Sum::constant(self.constant, self.dtype);
        s.exact = self.exact;
        for (t, k) in &self.terms {
            if *k < 0 || !s.push_max(t, *k) {
                s.push(t, *k);
            }
        }
        s.normalise();
        Some(s)
    }
    /// Add the greatest value of a term that is a range or a product with one: `(extent - 1) * others`.
    fn push_max(&mut self, t: &UOp, k: i64) -> bool {
        let mut others = super::compare::flatten(t, Op::Mul);
        let Some(at) = others.iter().position(|f| f.op == Op::Range) else { return false };
        let extent = others.remove(at).extent().clone();
        if others.iter().any(|f| f.bounds.0 < 0) {
            return false;
        }
        let product = |mut f: Vec<UOp>| {
            f.sort_by(order);
            f.into_iter().reduce(|a, b| a * b)
        };
        match product(others.clone()) {
            None => self.add_scaled(&extent, k),
            Some(o) if extent.op == Op::Const => self.add_scaled(&(o * &extent), k),
            Some(_) => {
                others.push(extent);
                if let Some(p) = product(others.clone()) {
                    self.add_scaled(&p, k);
                }
                others.pop();
            }
        }
        match product(others) {
            None => self.constant = self.constant.wrapping_sub(k),
            Some(o) => self.push(&o, k.wrapping_neg()),
        }
        true
    }
    /// Whether the sum is below 0 for certain (symbolic extents considered).
    pub fn is_negative(&self) -> bool {
        self.bounds().1 < 0 || self.symbolic_max().is_some_and(|m| m.exact && m.bounds().1 < 0)
    }
}

/// Greatest common divisor; of 0 and `a` it is `a`.
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// The canonical form of an `Add` whose sources are canonical; `None` if it has it.
pub fn collect(n: &UOp) -> Option<UOp> {
    let [a, b] = n.operands();
    // the common case: one more term after a sum in order
    if a.op != Op::Const && !matches!(b.op, Op::Add) {
        let last = if a.op == Op::Add { a.rhs() } else { a };
        let (t, _) = split_term(b);
        let mixes = matches!(t.op, Op::Mod | Op::Idiv);
        let zero = b.op == Op::Const && b.as_int() == Some(0);
        if last.op != Op::Const && !mixes && !zero && order(split_term(last).0, t) == Ordering::Less {
            return None;
        }
    }
    if spine_exceeds(a, if n.dtype == DType::Index { 64 } else { 8 }) {
        return None; // a long sum of data is left in the order it was written
    }
    let mut s = Sum::of(n);
    while recombine(&mut s) {}
    Some(s.build())
}

fn spine_exceeds(mut n: &UOp, limit: usize) -> bool {
    for _ in 0..limit {
        if n.op != Op::Add {
            return false;
        }
        n = n.lhs();
    }
    true
}

/// `x % c + (x // c) * c -> x`, with any common coefficient, and `x % c + (x // c % m) * c -> x % (c*m)`.
fn recombine(s: &mut Sum) -> bool {
    for i in 0..s.terms.len() {
        let (m, k) = &s.terms[i];
        if m.op != Op::Mod {
            continue;
        }
        let Some(c) = m.rhs().as_int().filter(|c| *c > 0) else { continue };
        let (x, k) = (m.lhs().clone(), *k);
        let Some(kc) = k.checked_mul(c) else { continue };
        let found = s.terms.iter().enumerate().find_map(|(j, (t, kt))| {
            if *kt != kc || j == i {
                return None;
            }
            if is_quotient(t, &x, c) {
                return Some((j, x.clone()));
            }
            let m = t.src.get(1).and_then(|m| m.as_int()).filter(|m| t.op == Op::Mod && *m > 0)?;
            let cm = c.checked_mul(m).filter(|cm| wrapped(*cm, s.dtype) == *cm && *cm > 0)?;
            is_quotient(t.lhs(), &x, c).then(|| (j, x.bin(Alu::Mod, &x.const_like(cm))))
        });
        if let Some((j, y)) = found {
            s.terms.remove(i.max(j));
            s.terms.remove(i.min(j));
            let mut whole = Sum::constant(0, s.dtype);
            whole.add_scaled(&y, k);
            s.add(&whole, 1);
            return true;
        }
    }
    false
}

/// Whether `t` is `x // c`, also where `x` is a quotient itself.
fn is_quotient(t: &UOp, x: &UOp, c: i64) -> bool {
    if t.op != Op::Idiv {
        return false;
    }
    let Some(d) = t.rhs().as_int() else { return false };
    if t.lhs() == x {
        return d == c;
    }
    x.op == Op::Idiv
        && t.lhs() == x.lhs()
        && x.rhs().as_int().is_some_and(|a| a > 0 && a.checked_mul(c) == Some(d))
}
